// Upright stacks of bytes, to the scale of the fullest tile or of what a tile has.
EXTRA.memory = (kit) => {
  const { scene, pen, array, of, make } = kit;
  const stack = scene.marks.find((m) => m.kind === "stack");
  const shows = { limit: false, gaps: true };  // whether the height stands for all that a tile has; whether gaps are drawn
  const GAPS = scene.codes.findIndex(([name]) => name === "gaps");
  function switchOf(name, title) {
    const button = kit.button(title, toggle);
    button.setAttribute("aria-pressed", `${shows[name]}`);
    function toggle() {
      shows[name] = !shows[name];
      button.setAttribute("aria-pressed", `${shows[name]}`);
      kit.refresh();
    }
    return [button, toggle];
  }
  const [limit, toggleLimit] = switchOf("limit", "Scale to the limit"), [gaps, toggleGaps] = switchOf("gaps", "Include gaps");
  // The variables of the chosen tile, else of the fullest, at its fullest moment.
  const [names, kinds, packed, fullest] = scene.held, cells = scene.marks[0], kind = array(scene.held, "kind", packed, cells.count);
  const held = make("pre", { tabIndex: 0, role: "group", ariaLabel: "Variables" });
  held.style.maxHeight = "12em";
  function say({ values }) {
    const { mark, i } = kit.chosen || {}, at = mark === cells || mark === stack && "key" in mark ? i : fullest;
    const listed = kinds[of(kind, at)], tile = of(array(values, "tile", values.tile, cells.count), at);
    let text = `Variables of tile ${tile} at its fullest moment, bytes:`;
    for (let k = 0; k < listed.length; k += 2) {
      const last = k + 2 === listed.length, [what, size] = listed.slice(k);
      if (!last || what) text += `\n${words(size).padStart(13)}  ${last ? `in ${what} smaller` : names[what]}`;
    }
    held.textContent = text;
  }
  const lengthOf = (bar, i) => of(array(bar, 2, bar[2], stack.count), i);
  const bars = scene.drawings[kit.still(0).lanes[stack.name][0]][2];

  const wideOf = (pitch) => pitch >= 8 ? 2 * Math.floor(pitch * 0.43) : pitch * (pitch > 4 ? 0.86 : 1);

  const draw = {
    stack(mark, s) {
      const [span, unit] = scene.drawings[s.lanes[mark.name][0]], shown = shows.limit ? Math.max(span, mark.limit * 1.02) : span;
      const scale = mark.height / (shown || 1), pitch = mark.width / mark.count, bottom = mark.y + mark.height;
      const wide = wideOf(pitch), style = pitch > 5 ? kit.brushes : kit.colours;
      headed(kit, mark, `to ${words(Math.round(shown))} ${unit}`);
      const below = new Float64Array(mark.count);
      for (const bar of bars) {
        if (bar[0] === GAPS && !shows.gaps) continue;
        pen.fillStyle = style[bar[0]];
        for (let i = 0; i < mark.count; i++) {
          const high = lengthOf(bar, i);
          pen.fillRect(mark.x + i * pitch, bottom - (below[i] + high) * scale, wide, high * scale);
          below[i] += high;
        }
      }
      pen.fillStyle = kit.ink.ink;
      if (mark.count <= 64) {
        const level = array(mark, "level", mark.level, mark.count);
        for (let i = 0; i < mark.count; i++) pen.fillRect(mark.x + i * pitch - 2, bottom - of(level, i) * scale - 0.75, wide + 4, 1.5);
      }
      if (mark.limit <= shown) {
        pen.fillRect(mark.x, bottom - mark.limit * scale - 1, mark.width, 2);
        kit.text(pen, `limit ${words(mark.limit)}`, mark.x + mark.width, bottom - mark.limit * scale + 13, 11, "right", kit.ink.ink);
      }
      pen.fillStyle = kit.ink.line;
      pen.fillRect(mark.x, bottom - 0.5, mark.width, 1);
      for (let i = 0; i < mark.count && pitch >= 13; i++) {
        kit.text(pen, `${i}`, mark.x + i * pitch + wide / 2, bottom + 14, 11, "center", kit.ink.soft);
      }
      if (pitch < 13) {
        kit.text(pen, mark.ends[0], mark.x, bottom + 14, 11, "left", kit.ink.soft);
        kit.text(pen, mark.ends[1], mark.x + mark.width, bottom + 14, 11, "right", kit.ink.soft);
      }
      const lit = !kit.chosen ? NaN : kit.chosen.mark === mark ? kit.chosen.i : "key" in mark ? kit.chosen.key : NaN;
      if (lit >= 0) {
        pen.strokeStyle = kit.ink.ink;
        pen.lineWidth = 2;
        pen.strokeRect(mark.x + lit * pitch - 1.5, mark.y, wide + 3, mark.height);
      }
    },
  };
  function hit(mark, x, y) {
    if (mark !== stack) return kit.hit(mark, x, y);
    const inside = x >= mark.x && x < mark.x + mark.width && y > mark.y && y < mark.y + mark.height;
    return inside ? Math.floor((x - mark.x) / mark.width * mark.count) : -1;
  }
  return {
    draw, hit, say, nodes: [make("div", { className: "row" }, limit, ...(GAPS < 0 ? [] : [gaps])), held],
    help: `M scales the bars to the limit and back${GAPS < 0 ? "" : ", G leaves out the gaps and brings them back"}.`,
    keys: { m: toggleLimit, ...(GAPS >= 0 && { g: toggleGaps }) },
  };
};
