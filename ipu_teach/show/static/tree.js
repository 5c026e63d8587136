// A tree whose parts fold and unfold, below all else: for the views that name this file in
// make_scripts.py.
EXTRA.tree = (kit) => {
  const { pen, make, button, array } = kit;
  const tree = kit.readable.find((mark) => mark.kind === "tree");
  const whole = (name) => {
    const found = array(tree, name, tree[name], tree.count);
    return typeof found === "number" ? Array(tree.count).fill(found) : [...found];
  };
  const depth = whole("depth"), open = whole("open").map(Boolean);
  const parts = Object.entries(tree.parts)
    .map(([code, packed]) => [+code, array(tree.parts, code, packed, tree.count)]);
  const inner = depth.map((d, i) => depth[i + 1] > d);
  const columns = tree.columns.length;
  let rows = [];
  // A number that would run into the one beside it is in millions: who points at it is told all.
  const fit = (cell) => (pen.measureText(cell).width < column() - 4 ? cell
    : `${words(+cell.replace(/,/g, "") / 1e6)} M`);
  const longest = Math.max(...tree.labels.map((text, i) => NAME * text.length + 8 * depth[i] + 14));
  const lead = Math.max(52, 30 + NAME * Math.max(
    ...tree.cells.filter((_, i) => i % columns === 0).map((cell) => cell.length)));
  const small = () => tree.width < 560,
    column = () => (small() ? Math.min(tree.column, (tree.width - 42) / columns) : tree.column),
    tight = () => small() && longest > tree.width - 42 - lead - column() * (columns - 1);
  // bar_width in paint.py has the same formula.
  const broadest = Math.max(...tree.labels.map((text, i) => NAME * text.length + 14 * depth[i] + 14));
  const bar = () => Math.min(tree.width / 2, Math.max(
    BAR, tree.width - broadest - lead - tree.column * (columns - 1) - 12));
  const pitch = () => (tight() ? 38 : tree.pitch);  // numbers then stand below the words

  function unfolded() {
    let hidden = 0;
    return depth.flatMap((d, i) => {
      if (hidden && d >= hidden) return [];
      hidden = open[i] ? 0 : d + 1;
      return [i];
    });
  }
  function lay() {
    rows = unfolded();
    kit.resize(tree.y + rows.length * pitch() + 10);
  }
  function fold(i, on) {
    if (!inner[i] || open[i] === on) return;
    open[i] = on;
    lay();
  }
  function all(on) {
    open.fill(on);
    if (!on && here()) choose(0);
    lay();
  }
  const choose = (i) => kit.choose(tree, i);
  const here = () => kit.chosen?.mark === tree;
  const at = () => (here() ? rows.indexOf(kit.chosen.i) : -1);
  const move = (by) => choose(rows[Math.min(rows.length - 1, Math.max(0, at() + by))]);
  const chosen = (act) => () => (here() ? act(kit.chosen.i) : choose(0));
  function above(i) {
    let k = i;
    while (k > 0 && depth[k] >= depth[i]) k--;
    return k;
  }
  const toggle = chosen((i) => { fold(i, !open[i]); kit.refresh(); });

  const draw = {
    tree(mark) {
      const lit = kit.chosen?.mark === mark ? kit.chosen.i : -1, two = tight(),
        high = pitch(), long = small() ? 30 : bar(), right = mark.x + mark.width,
        { soft, line } = kit.ink;
      const place = (k) => right - long - 12 - column() * (columns - 1 - k);
      const name = (c) => (small() ? mark.columns[c].split(" ").pop() : mark.columns[c]);
      kit.fitted(mark.heading, mark.x, mark.y - (two ? 24 : 8),
        (two ? right : place(0) - (small() ? 50 : 70)) - mark.x, 12, soft);
      for (let c = 0; c < columns; c++)
        kit.text(pen, name(c), place(c), mark.y - 8, 12, "right", soft);
      rows.forEach((i, row) => {
        const top = mark.y + row * high, base = top + 14, second = two ? base + 18 : base,
          x = mark.x + (two ? 8 : 14) * depth[i];
        pen.fillStyle = line;
        if (row % 2) {
          pen.globalAlpha = 0.18;
          pen.fillRect(mark.x - 4, top, mark.width + 8, high);
          pen.globalAlpha = 1;
        }
        if (inner[i]) kit.text(pen, open[i] ? "\u2212" : "+", x, base, 13, "left", soft);
        kit.fitted(mark.labels[i], x + 14, base, (two ? right - 14 : place(0) - lead) - x, 12,
          kit.ink.ink);
        for (let c = 0; c < columns; c++)
          kit.text(pen, fit(mark.cells[i * columns + c]), place(c), second, 12, "right",
            kit.ink.ink);
        let left = right - long;
        for (const [code, part] of parts) {
          pen.fillStyle = kit.brushes[code];
          pen.fillRect(left, second - 10, long * kit.of(part, i) / 1000, 12);
          left += long * kit.of(part, i) / 1000;
        }
        if (lit === i) kit.framed(1.5, mark.x - 4, top + 0.5, mark.width + 8, high - 1);
      });
    },
  };
  function hit(mark, x, y) {
    if (mark !== tree) return kit.hit(mark, x, y);
    const row = Math.floor((y - mark.y) / pitch());
    return x > mark.x - 6 && x < mark.x + mark.width + 6 && row >= 0 && row < rows.length
      ? rows[row] : -1;
  }
  function about(mark, i) {
    if (mark !== tree) return "";
    const cells = mark.columns.map((name, k) => [name, mark.cells[i * columns + k]])
      .filter(([, cell]) => cell).map((pair) => pair.join(" ")).join(", ");
    const shown = parts.filter(([, part]) => kit.of(part, i)),
      one = ([code, part]) => `${kit.scene.codes[code][0]} ${words(kit.of(part, i) / 10)} %`;
    const split = shown.length > 1 ? `, of which ${shown.map(one).join(", ")}` : "";
    let below = 1;
    while (i + below < mark.count && depth[i + below] > depth[i]) below++;
    const folded = inner[i] ? `; ${open[i] ? "unfolded" : "folded"}, ${words(below - 1)} below`
      : "";
    return `${mark.labels[i]}, level ${depth[i] + 1}: ${cells || "no cycles"}${split}${folded}.`;
  }
  kit.canvas.addEventListener("click", () => { if (here()) toggle(); });
  return {
    draw, hit, about, lay, choose, tree, parts, rows: () => rows,
    nodes: [make(
      "div", { className: "row" }, button("Unfold all", () => all(true)),
      button("Fold all", () => all(false)))],
    help: "Right unfolds a part, left folds it or goes to the one around it, Enter does either.",
    keys: {
      ArrowDown: () => move(1), ArrowUp: () => move(-1), Home: () => choose(rows[0]),
        End: () => choose(rows[rows.length - 1]),
      ArrowRight: chosen((i) => {
        if (inner[i] && open[i]) choose(i + 1);
        else { fold(i, true); kit.refresh(); }
      }),
      ArrowLeft: chosen((i) => {
        if (inner[i] && open[i]) { fold(i, false); kit.refresh(); } else choose(above(i));
      }),
      Enter: toggle, " ": toggle,
    },
  };
};
