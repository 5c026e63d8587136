// A range of an axis of time, with the sum of what is in it, and names to find there: of the view
// timeline.
EXTRA.range = (kit, { flames, tapes, runs, runOf, spanOf, get, frameOf, nameOf }) => {
  const { scene, begin, array, of, make, button, still } = kit;
  // the frame from which a range goes to where one stands
  let anchor = -1;
  const range = () => {
    const f = kit.frameAt();
    if (anchor < 0 || runOf(anchor) !== runOf(f)) return null;
    return [Math.min(anchor, f), Math.max(anchor, f) + 1];
  };
  const select = button("Select from here", () => mark(anchor < 0 ? kit.frameAt() : -1));
  function mark(frame) {
    anchor = frame;
    select.ariaPressed = anchor >= 0;
    select.textContent = anchor < 0 ? "Select from here" : "Select nothing";
    kit.refresh();
  }
  // How long the tiles have each code in a drawing, in the mean.
  const spent = new Map();
  function spentOf(number, lanes) {
    if (spent.has(number)) return spent.get(number);
    const sum = new Float64Array(scene.codes.length);
    for (const bar of scene.drawings[number][2]) {
      const [codes, starts, lengths] = [0, 1, 2].map((k) => array(bar, k, bar[k], lanes)),
        [, , , end = 0, rest = -1] = bar;
      for (let i = 0; i < lanes; i++) {
        sum[of(codes, i)] += of(lengths, i) / lanes;
        if (rest >= 0) sum[rest] += Math.max(0, end - of(starts, i) - of(lengths, i)) / lanes;
      }
    }
    spent.set(number, sum);
    return sum;
  }
  const sum = make("p", { ariaLive: "polite" });
  function told() {
    const chosen = range();
    if (!chosen) return "";
    const [a, b] = chosen, start = runs[runOf(a)][0], own = tapes[runOf(a)],
      whole = begin[runs[runOf(a)][1]] - begin[start],
      parts = new Float64Array(scene.codes.length), cycles = begin[b] - begin[a];
    for (let f = a; f < b; f++)
      spentOf(still(f).lanes[own.name][0], own.count).forEach((part, c) => (parts[c] += part));
    const percent = (part) => `${(100 * part).toFixed(1)} %`;
    const shares = scene.codes.map(([name], c) => [parts[c], name]).filter(([part]) => part)
      .sort(([p], [q]) => q - p).map(([part, name]) => `${name} ${percent(part / cycles)}`);
    return `Selected: ${scene.group}s ${words(a - start + 1)} to ${words(b - start)}, `
      + `${words(cycles)} modelled cycles, ${percent(cycles / whole)} of the run: `
      + `${shares.join(", ")}.`;
  }

  // --- names ---
  const find = make("input", { type: "search", placeholder: "Find a name",
    ariaLabel: "Find a name; enter goes to the next" });
  find.style.cssText = "flex:none;width:9em;font:inherit";
  find.onkeydown = (event) => {
    event.stopPropagation();
    if (event.key !== "Enter") return;
    const all = [];
    for (const m of flames) for (let i = 0; i < m.count; i++)
      if (nameOf(m, i).toLowerCase().includes(find.value.toLowerCase())) all.push([m, i]);
    const { mark: here, i: at } = kit.chosen || {};
    const k = (all.findIndex(([m, i]) => m === here && i === at) + 1) % all.length;
    if (!all.length) return sum.textContent = "No such name.";
    const [m, i] = all[k], run = flames.indexOf(m);
    kit.pause();
    kit.go((m.timed ? frameOf(spanOf(m, i)[0], run) : get(m, "first", i)) + 1);
    kit.choose(m, i);
    sum.textContent = `${words(k + 1)} of ${words(all.length)} with this name. ${told()}`;
  };
  return { range, told, mark, select, find, sum };
};
