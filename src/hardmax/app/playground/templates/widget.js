
export default {
  render({ model, el }) {
    return mount(el, widgetTransport(model));
  },
};
