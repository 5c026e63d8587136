// The words of a run with its numbers, where each comes from, and where to stop.
EXTRA.run = (kit) => {
  const { scene, still, make, starts, groups } = kit, shown = EXTRA.board(kit),
    trail = scene.marks.find((m) => m.kind === "trail");
  const { board, texts, value, at, before, element, cellName, tileOf, box, focus,
    lastOf, underWay, changesOf, whenOf, changes, frameOf, cellOf, textOf } = shown, n = board.count;

  // --- words ---
  const source = make("pre"), happens = make("p"), watched = make("p");
  // Where the number of a cell comes from that it got in a frame.
  function origin(i, frame) {
    const ways = ((still(frame).origins || {}).board || [])
      .map(([how, isElement, size, ...columns]) =>
        [how, isElement, ...columns.map((p) => unpack(p, size))]);
    const [how, isElement, cells, names, numbers, tiles] =
      ways.find(([, , of]) => of.indexOf(i) >= 0) || [];
    if (!how) return "";
    const k = cells.indexOf(i), [, , f] = underWay(frame - 1, 1),
      messages = !isElement && still(f).flows ? still(f).flows.messages : [];
    const came = messages.filter((m) => m[2] === box(i) && !m[6] && !shown.link(m));
    const read = came.flatMap(
      (m) => m[5].map((c) => `${cellName(c)} = ${texts[at(f)[c]]} from tile ${board.tiles[m[0]]}`));
    const words_ = how.replace("{name}[{index}]", element(names[k], numbers[k]))
      .replace(/\{(\w+)\}/g, (_, what) =>
      ({ name: board.names[names[k]], index: numbers[k], tile: tiles[k] })[what]);
    const more = read.length > 3 ? ` and ${read.length - 3} more` : "";
    const there = read.length ? `; there had arrived ${read.slice(0, 3).join(", ")}${more}` : "";
    return `, ${words_}${there}`;
  }
  const lastChange = (i, frame) => changesOf(i).filter((k) => frameOf[k] <= frame).pop();
  function about(mark, i) {
    if (mark !== board) return "";
    const frame = before(kit.frameAt()), t = texts[at(frame)[i]], k = lastChange(i, frame);
    const since = k === undefined ? "as at the beginning"
      : `since superstep ${words(groups[frameOf[k]] + 1)}${origin(i, frameOf[k])}`;
    return `${cellName(i)} on tile ${tileOf(i)}: ${t === "?" ? "not written" : t}, ${since}.`;
  }
  // Which step a frame is of, of those that a Repeat runs.
  const stepOf = (f) => scene.rounds[kit.frames[f]];
  function story(frame, s) {
    const g = groups[frame], key = stepOf(starts[g]), same = starts.filter((f) => stepOf(f) === key);
    // How often the step had run before the recording, and how often it runs in all.
    const [before_, all_] = scene.times[key] || [0, 0];
    const round = all_ > 1
      ? `Round ${words(before_ + same.indexOf(starts[g]) + 1)} of ${words(all_)} of this step. ` : "";
    const now = at(before(frame));
    if (s.flows) {
      const all = s.flows.messages, own = all.filter((m) => m[2] === box(focus())),
        told = (own.length ? own : all).slice(0, 2);
      const away = scene.codes[s.code][1] === "M" ? "streaming memory" : "the host";
      const what = told.map((m) => {
        const c = m[5], t = texts[(m[6] ? at(lastOf(frame)) : now)[c[0]]];
        const [from, to] = [m[0], m[2]].map((b) => (b < 0 ? away
          : shown.link(m) ? `IPU ${shown.ipuOf(b)}` : `tile ${board.tiles[b]}`));
        const more = m[7] > 1 ? ` and ${words(m[7] - 1)} more` : "";
        if (!c.length) return `${words(m[1])} bytes go from ${from} to ${to}`;
        return `${cellName(c[0])} = ${t}${more} ${m[6] ? "comes" : "goes"} from ${from} to ${to}`;
      });
      const left = all.length - told.length, many = left === 1 ? "the other" : `the ${words(left)} others`,
        are = left === 1 ? "is" : "are", folded = all.length > MOST_PACKETS && !all.some(shown.link);
      const more = left <= 0 ? "" : !folded ? `; ${many} ${are} drawn above`
        : all.length > MOST_ARROWS ? `; of ${many}, only those of this tile are arrows`
          : `; ${many} ${are} arrows above`;
      return `${round}${what.join("; ")}${more}.`;
    }
    if (s.cycles || kit.at <= 0) return round;
    const old = at(frame - 1), cells = [...Array(n).keys()].filter((i) => old[i] !== at(frame)[i]);
    const what = cells.slice(0, 2)
      .map((i) => `${cellName(i)} on tile ${tileOf(i)} `
        + `from ${texts[old[i]]} to ${texts[at(frame)[i]]}`);
    const changes = `${words(cells.length)} change${cells.length === 1 ? "" : "s"}`;
    return `${round}${changes}: ${what.join("; ")}${cells.length > 2 ? "; …" : ""}.`;
  }

  // --- stopping ---
  const CONDITIONS = {
    "never": () => false, "it changes": () => true, "it is NaN": (v, t) => t === "nan",
      "it is below": (v, t, x) => v < x,
    "it is above": (v, t, x) => v > x, "it equals": (v, t, x) => v === x,
  };
  const when = make("select", { ariaLabel: "Stop when the watched cell, or any" },
    ...Object.keys(CONDITIONS).map((name) => new Option(`Stop when ${name}`, name)));
  const limit = make("input",
    { type: "number", value: 0, step: "any", ariaLabel: "Number to compare with" });
  when.options[0].text = "Stop nowhere";
  limit.style.cssText = "flex:none;width:6em;font:inherit";
  const meets = (k) => (!watching || cellOf[k] === board.focus)
    && CONDITIONS[when.value](value(texts[textOf[k]]), texts[textOf[k]], +limit.value);
  // What is pointed at is chosen until the pointer goes on; what was clicked, or reached by keys,
  // is watched from then on.
  const usual = board.focus;
  let seen = -1, pointed = -1, watching = false;
  function watch(i) {
    watching = i >= 0;
    board.focus = watching ? i : usual;
  }
  function say(s) {
    const frame = kit.frameAt();
    if (kit.chosen && kit.chosen.i !== pointed) watch(kit.chosen.i);
    happens.textContent = story(frame, s);
    watched.textContent = `${watching ? "Watching " : "Between corners: "}${about(board, focus())}`;
    source.textContent = (s.source ?? -1) < 0 ? "" : scene.sources[s.source];
    if (seen === frame) return;
    seen = frame;
    for (let k = 0; k < changes; k++) if (frameOf[k] === frame && meets(k)) return kit.pause();
  }
  // To the next change of the chosen cell, or of any, that meets the condition; or back to the one
  // before.
  function seek(by) {
    const here = kit.frameAt(), some = [];
    for (let k = 0; k < changes; k++) {
      if ((by > 0 ? frameOf[k] > here : frameOf[k] < here)
        && (when.value === "never" ? !watching || cellOf[k] === board.focus : meets(k)))
        some.push(k);
    }
    kit.pause();
    if (some.length) kit.go(frameOf[by > 0 ? some[0] : some[some.length - 1]] + 1);
  }
  function round(by) {
    const here = groups[kit.frameAt()], key = stepOf(starts[here]);
    for (let g = here + by; g >= 0 && g < starts.length; g += by) {
      if (key !== undefined && stepOf(starts[g]) === key) { kit.pause(); return kit.go(starts[g] + 1); }
    }
  }
  function tile(by) {
    const tiles = board.tiles.length, next = (box(focus()) + by + tiles) % tiles,
      i = [...Array(n).keys()].find((c) => box(c) === next);
    if (i !== undefined) kit.choose(board, i);
  }
  kit.canvas.addEventListener("click", (event) => {
    if (kit.chosen) {
      watch(kit.chosen.i);
      return kit.refresh();
    }
    const [x, y] = kit.spot(event);
    if (y < trail.y - 4 || y > trail.y + trail.height + 8) return;
    const near = changesOf(focus())
      .sort((a, b) => Math.abs(whenOf(a, trail) - x) - Math.abs(whenOf(b, trail) - x))[0];
    kit.pause();
    if (near !== undefined) kit.go(frameOf[near] + 1);
  });
  // On a wide page the boxes get half of what it is wider; on a narrow one there are fewer to a
  // row, and more rows.
  const home = { width: board.width, across: board.across }, one = (board.width + 6) / board.across;
  function lay() {
    const [wide, high] = scene.size, [own] = scene.home, narrow = wide < NARROW,
      more = Math.max(0, wide - own) / 2;
    for (const m of scene.marks)
      if (!narrow && (m.kind === "detail" || m.kind === "sheet"))
        Object.assign(m, { x: m.home.x + more, width: m.home.width + more });
    board.width = narrow ? wide - 32 : home.width + more;
    board.across = Math.min(home.across, Math.max(1, Math.floor((board.width + 6) / one)));
    const grown = shown.tall() - board.height;
    board.height += grown;
    if (grown) for (const m of scene.marks) if (m.y > board.y + (narrow ? 0 : 99)) m.y += grown;
    // Room for the longest text, so that nothing moves.
    happens.style.minHeight = narrow ? "7em" : "2.8em";
    watched.style.minHeight = narrow ? "5.6em" : "2.8em";
    source.style.minHeight = "";
    const heights = (scene.sources || []).map((text) => {
      source.textContent = text;
      return Math.ceil(source.getBoundingClientRect().height - 11);
    });
    source.style.minHeight = `${Math.max(0, ...heights)}px`;
    kit.resize(high + grown);
  }
  const controls =
    make("div", { className: "row" }, when, limit, kit.button("Last change", () => seek(-1)),
      kit.button("Next change", () => seek(1)));
  return {
    draw: { ...shown.draw, ...EXTRA.messages(kit, shown) }, hit: (mark, x, y) => (pointed = shown.hit(mark, x, y)), about, say, lay,
      nodes: [controls, watched, happens, source],
    help: "A click, or up and down, watches a cell; B and N go to its last and its next change, "
      + "R to the next round, brackets to another tile.",
    keys: { Escape: () => {
      watch(-1);
      kit.choose(null);
    }, b: () => seek(-1), n: () => seek(1), r: () => round(1), R: () => round(-1),
      "[": () => tile(-1), "]": () => tile(1) },
  };
};
