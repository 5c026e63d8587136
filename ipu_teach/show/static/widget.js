// The player as an anywidget: the kernel sends a new scene, and the picture keeps its place in the run.
export default {
  render({ model, el }) {
    el.classList.add("ipu-view");
    // The stored picture of the first setting has done its duty: this one is alive.
    let stored;
    const hide = () => {
      stored = el.closest(".jp-OutputArea")?.querySelector(".ipu-view.stored")?.closest(".jp-OutputArea-child");
      if (stored) stored.style.display = "none";
      else if (!el.isConnected) requestAnimationFrame(hide);
    };
    hide();
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
      if (stored) stored.style.display = "";
    };
  },
};
