// What the messages of a frame carry, as a list, where the run was recorded. `pair()` is what is
// chosen: [sender, receiver], [tile, tile] or nothing; messages of one of them come first, those of
// both before.
EXTRA.content = (kit, pair) => {
  const { scene } = kit, MOST = 12;
  if (!scene.content) return {};
  const list = kit.make("pre", { tabIndex: 0, role: "group", ariaLabel: "What messages carry" });
  list.style.minHeight = "4em";
  function say() {
    const lines = scene.content[kit.frameAt()] || [], chosen = pair();
    const rank = (line) => {
      const ends = line.match(/\d+/g).slice(0, 2).map(Number);
      return chosen.filter((tile, k) => ends[k] === tile).length;
    };
    const shown = [...lines].sort((a, b) => rank(b) - rank(a)), more = shown.splice(MOST).length;
    list.textContent = shown.length
      ? ["Carried from tile to tile:", ...shown, ...(more ? [`and ${more} more`] : [])].join("\n")
      : "Nothing that was recorded goes from tile to tile here.";
  }
  return { nodes: ["", list], say };
};
