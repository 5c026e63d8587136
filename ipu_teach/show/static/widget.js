// The player as an anywidget: the kernel sends a new scene, and the picture keeps its place in the
// run.
export default {
  render({ model, el }) {
    el.classList.add("ipu-view");
    const bringBack = standIn(el);
    const start = () => live(el, JSON.parse(model.get("scene")));
    let player = start();
    const change = () => {
      const { at, count, touched } = player;
      player.destroy();
      player = start();
      if (touched && player.count === count) player.go(at);
    };
    model.on("change:scene", change);
    return () => {
      model.off("change:scene", change);
      player.destroy();
      bringBack();
    };
  },
};
