
readRecord(document.getElementById("record")).then(
  (record) => mount(document.getElementById("playground"), recordedTransport(record)),
  () => { document.getElementById("playground").textContent = "This file is damaged: fetch it again."; });
