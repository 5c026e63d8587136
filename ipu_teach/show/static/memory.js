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
    let text = `Variables of tile ${tile} at its fullest moment, bytes:`;
    for (let k = 0; k < listed.length; k += 2) {
      const last = k + 2 === listed.length, [what, size] = listed.slice(k);
      if (!last || what)
        text += `\n${words(size).padStart(13)}  ${last ? `in ${what} more` : names[what]}`;
    }
    held.textContent = text;
  }
  return { ...painted, say, nodes: [...painted.nodes, held] };
};
