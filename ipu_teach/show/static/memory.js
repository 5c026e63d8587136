// The stacks are painted; below them stand the variables of the chosen tile.
EXTRA.memory = (kit) => {
  const { scene, array, of, make } = kit, painted = EXTRA.painted(kit);
  const stack = scene.marks.find((m) => m.name === "stack");
  // The variables of the chosen tile, else of the fullest, at its fullest moment.
  const [names, kinds, packed, fullest] = scene.held, cells = scene.marks[0];
  const kind = array(scene.held, "kind", packed, cells.count);
  const held = make("pre", { tabIndex: 0, role: "group", ariaLabel: "Variables" });
  held.style.cssText = "max-height:11.6em;overflow:auto;padding-bottom:0";
  function say({ values }) {
    const { mark, i } = kit.chosen || {};
    const at = mark === cells || mark === stack && "key" in mark ? i : fullest;
    const listed = kinds[of(kind, at)],
      tile = of(array(values, "tile", values.tile, cells.count), at);
    const lines = [], line = (size, what) => `${words(size).padStart(13)}  ${what}`;
    for (let k = 0; k < listed.length; k += 2) {
      const last = k + 2 === listed.length, [what, size] = listed.slice(k);
      if (!last || what) lines.push([size, last ? `in ${what} more` : names[what]]);
    }
    // the box has room for seven lines, of which the last is the sum of those below
    const below = lines.slice(6), sum = below.reduce((all, [size]) => all + size, 0);
    if (below.length > 1) lines.splice(6, 0, [sum, `in ${below.length} more lines, below`]);
    const text = [`Variables of tile ${tile} at its fullest moment, bytes:`,
      ...lines.map((parts) => line(...parts))].join("\n");
    held.textContent = text;
  }
  return { ...painted, say, nodes: [...painted.nodes, held] };
};
