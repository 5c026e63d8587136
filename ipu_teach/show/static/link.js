// Views of one report on a page follow each other: the tile that is chosen in one of them, and the
// cycle at which it stands. What changes in one is told as the document's event "ipu-select", whose
// detail is { report, from, tile, cycle }. A view says in `scene.link` of which report it is, which
// of its marks have a part for each tile, and, where its frames are not those of the run, which of
// them, or which row of its tree, shows the superstep that begins at a cycle. What is about one
// tile (`scene.link.tile`) follows no other, and tells of it when something is chosen; what does
// not move, so of its cycle.
function link(kit) {
  const own = kit.scene.link, { canvas, begin } = kit;
  if (!own) return () => {};
  const [count, ...packed] = own.moments
    || [kit.moving ? kit.count : 0, begin, Array.from(begin.keys())];
  const [starts, parts] =
    packed.map((values) => (Array.isArray(values) ? values : unpack(values, count)));
  const grids = kit.readable.filter((m) => own.tiles.includes(m.name)),
    tree = "tile" in own ? 0 : kit.readable.find((m) => m.kind === "tree");
  const tile = () =>
    (!kit.chosen ? null : grids.includes(kit.chosen.mark) ? kit.chosen.i : own.tile ?? null);
  const part = () => (!tree ? kit.frameAt() : kit.chosen ? kit.chosen.i : -1);
  const showing = (cycle) => {
    let k = -1;
    while (k + 1 < count && starts[k + 1] <= cycle) k++;
    return parts[k];
  };
  let told = null, hears = false;
  function tell() {
    const now = { tile: tile(),
      cycle: kit.moving || kit.chosen ? starts[parts.indexOf(part())] ?? null : null }, detail = {};
    for (const name in now)
      if (told && now[name] !== told[name] && (name === "tile" || now.cycle !== null))
        detail[name] = now[name];
    told = now;
    if (hears || !Object.keys(detail).length) return;
    document.dispatchEvent(
      new CustomEvent("ipu-select", { detail: { ...detail, report: own.report, from: kit } }));
  }
  function hear({ detail }) {
    if (!canvas.isConnected) return document.removeEventListener("ipu-select", hear);
    if (detail.report !== own.report || detail.from === kit) return;
    hears = true;
    if (grids.length && "tile" in detail && detail.tile !== tile())
      kit.choose(detail.tile === null ? null : grids[0], detail.tile);
    const frame = count && "cycle" in detail ? showing(detail.cycle) : undefined;
    if (frame !== undefined && frame !== part()) {
      if (tree) kit.choose(tree, frame);
      else { kit.pause(); kit.go(frame + (kit.still(frame).at || 1)); }
    }
    hears = false;
  }
  document.addEventListener("ipu-select", hear);
  return tell;
}
