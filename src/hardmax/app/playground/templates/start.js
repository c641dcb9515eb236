import { mount, pageTransport } from "./front.js";
mount(document.getElementById("playground"), pageTransport());
