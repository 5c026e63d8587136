// Curves of live bytes, a place for each step of the programs.
EXTRA.liveness = (kit) => {
  const { scene, pen, array, of } = kit;
  const ALWAYS = 0;  // the code of what is always live
  let steady = true;  // whether that counts
  const upper = (mark, k) => array(mark.series[k], "upper", mark.series[k][2], mark.count);
  const lower = (mark, k) => array(mark.series[k], "lower", mark.series[k][3], mark.count);
  const floor = (mark, i) => (steady ? 0 : of(upper(mark, 0), i));
  const parted =
    scene.marks.some((m) => m.kind === "curve" && m.series.length > 1 && m.series[0][1] === ALWAYS);
  const button = kit.button("Leave out what is always live", toggle);
  button.ariaPressed = "false";
  function toggle() {
    if (!parted) return;
    steady = !steady;
    button.ariaPressed = `${!steady}`;
    kit.refresh();
  }
  // Where a place begins: its step, or its cycle.
  const { each } = scene.marks[0];
  const beginning = (i) => (each ? words(Math.round(i * each)) : `${i + 1}`);
  const where = (i) => `${each ? "cycle" : "step"} ${beginning(i)}`;
  const shown = (mark) => mark.series.map((_, k) => k)
    .filter((k) => steady || mark.series[k][1] !== ALWAYS);
  function top(mark) {
    if (steady) return mark.top;
    let most = 1;
    for (const k of shown(mark))
      for (let i = 0; i < mark.count; i++)
        most = Math.max(most, of(upper(mark, k), i) - floor(mark, i));
    return most;
  }

  const draw = {
    curve(mark, s, progress, frame) {
      const most = top(mark), wide = mark.width / mark.count, bottom = mark.y + mark.height;
      const height = (value) => bottom - mark.height * value / most;
      kit.fitted(mark.heading, mark.x, mark.y - 8, mark.width, 12, kit.ink.soft);
      kit.text(pen, `${words(most)} ${mark.unit}`, mark.x - 5, mark.y + 9, 11, "right",
        kit.ink.soft);
      kit.text(pen, `0 ${mark.unit}`, mark.x - 5, bottom, 11, "right", kit.ink.soft);
      const steps = (path, values, from, by) => {
        for (let i = from; i >= 0 && i < mark.count; i += by) {
          const y = height(Math.max(0, of(values, i) - floor(mark, i))), left = mark.x + i * wide;
          for (const x of by > 0 ? [left, left + wide] : [left + wide, left]) path.lineTo(x, y);
        }
      };
      for (const k of shown(mark)) {
        const path = new Path2D(), code = mark.series[k][1], filled = mark.series[k].length > 3;
        steps(path, upper(mark, k), 0, 1);
        if (filled) steps(path, lower(mark, k), mark.count - 1, -1);
        pen.fillStyle = kit.brushes[code];
        pen.strokeStyle = kit.colours[code];
        pen.lineWidth = 2.5;
        if (filled) pen.fill(path); else pen.stroke(path);
      }
      pen.fillStyle = kit.ink.line;
      pen.fillRect(mark.x, bottom - 0.5, mark.width, 1);
      pen.fillStyle = kit.ink.ink;
      if (steady && mark.limit && mark.limit <= most)
        pen.fillRect(mark.x, height(mark.limit) - 0.75, mark.width, 1.5);
      const gap = Math.ceil(
        mark.count / Math.max(1, Math.min(mark.count, Math.floor(mark.width / TICK))));
      for (let i = 0; mark.named && i < mark.count; i += gap) {
        const name = kit.still(i).label.replace(/^\S+ /, "");
        const full = `${beginning(i)} ${name}`, room = Math.min(gap, mark.count - i) * wide - 6;
        // A name that has no room is left out, not cut.
        kit.text(pen, 6.3 * full.length > room ? beginning(i) : full, mark.x + i * wide,
          bottom + 12, 11, "left", kit.ink.soft);
      }
      pen.fillStyle = kit.ink.ink;
      if (kit.moving)
        pen.fillRect(mark.x + (frame + 0.5) * wide - 0.75, mark.y - 3, 1.5, mark.height + 6);
      if (kit.chosen?.mark === mark)
        kit.framed(1.5, mark.x + kit.chosen.i * wide, mark.y, wide, mark.height);
    },
  };
  function hit(mark, x, y) {
    if (mark.kind !== "curve") return kit.hit(mark, x, y);
    const inside = x >= mark.x && x < mark.x + mark.width && y > mark.y - 4
      && y < mark.y + mark.height + 4;
    return inside ? Math.floor((x - mark.x) / mark.width * mark.count) : -1;
  }
  function about(mark, i) {
    if (mark.kind !== "curve") return "";
    const parts = mark.series.map(([name], k) => {
      const under = mark.series[k].length > 3 ? of(lower(mark, k), i) : 0;
      return `${name} ${words(of(upper(mark, k), i) - under)}`;
    });
    const begin = where(i)[0].toUpperCase() + where(i).slice(1);
    return `${begin}, ${kit.still(i).label}, ${mark.heading}: ${parts.join(", ")}. Press Enter or click to go there.`;
  }
  // What is live at the step that is pointed at, else at the one where the view stands, the largest
  // first.
  const list = kit.make("pre", { tabIndex: 0, role: "group", ariaLabel: "Live variables" });
  list.style.cssText = "max-height:11.6em;overflow:auto;padding-bottom:0";
  function say() {
    const at = kit.chosen?.mark.kind === "curve" ? kit.chosen.i : kit.frameAt();
    list.textContent = scene.live.map(([title, rows, less, buffers]) => {
      const here = rows.filter(([, , from]) => from.some(([a, b]) => a <= at && at < b));
      const [few, all] = less[at] || [0, 0], passing = of(array(rows, 0, buffers, scene.frames[0]), at);
      const sizes = [...here, ["buffers of the step", passing], [`in ${few} more`, all]]
        .filter(([, size]) => size).sort((a, b) => b[1] - a[1]);
      const lines = sizes.map(([name, size]) => `${words(size).padStart(13)}  ${name}`);
      // the box has room for seven lines, of which the last is the sum of those below
      const below = sizes.slice(6).reduce((sum, [, size]) => sum + size, 0);
      if (sizes.length > 7) lines.splice(6, 0, `${words(below).padStart(13)}  in ${sizes.length - 6} more lines, below`);
      return [`${title} at ${where(at)}, bytes:`, ...lines].join("\n");
    }).join("\n");
  }
  const there = () => {
    if (kit.chosen?.mark.kind === "curve") { kit.pause(); kit.go(kit.chosen.i + 1); }
  };
  kit.canvas.addEventListener("click", there);
  return {
    draw, hit, about, say,
      nodes: [parted ? kit.make("div", { className: "row" }, button) : "", list],
    help: parted ? "A leaves out what is always live." : " ",
    keys: { a: toggle, Enter: there },
  };
};
