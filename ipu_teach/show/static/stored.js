// A widget stands in for the stored picture below which it comes alive; what this gives brings that
// back.
function standIn(el) {
  let stored;
  const hide = () => {
    stored = el.closest(".jp-OutputArea")?.querySelector(".ipu-view.stored")?.closest(
      ".jp-OutputArea-child");
    if (stored) stored.style.display = "none";
    else if (!el.isConnected) requestAnimationFrame(hide);
  };
  hide();
  return () => { if (stored) stored.style.display = ""; };
}
