// The axis of time: nested programs, tiles below them, zoom and pan, a range and its sum, names to
// find, and the codelet of the chosen superstep. Of two runs, one below the other, each has an axis
// that begins with it, and both show the same part of it.
EXTRA.timeline = (kit) => {
  const { scene, pen, canvas, begin, count, array, of, make, button, still } = kit;
  const [flames, tapes] = ["flame", "tape"].map((kind) => scene.marks.filter((m) => m.kind === kind)),
    [flame] = flames, [tape] = tapes, second = scene.second ?? count;
  // which run a frame is of; its frames; where it begins
  const runOf = (f) => +(f >= second), runs = [[0, second], [second, count]];
  const zero = (run) => begin[runs[run][0]], total = tape.span || begin[count] || 1;
  const get = (mark, name, i) => of(array(mark, name, mark[name], mark.count), i);
  // The cycles from which to which box i lasts.
  const spanOf = (mark, i) => {
    const ends = [get(mark, "first", i), get(mark, "last", i)];
    return mark.timed ? ends : ends.map((f) => begin[f] - zero(flames.indexOf(mark)));
  };
  // the cycles that are shown; the cursor and the box for which the window last moved
  const [first, last] = scene.window || [0, second];
  let from = begin[first], to = scene.window ? begin[last] : total, followed = -1, pointed = null;

  // --- the window ---
  function show(a, b) {
    const wide = Math.min(total, Math.max(b - a, total / 1e5));
    from = Math.min(Math.max(0, (a + b - wide) / 2), total - wide);
    to = from + wide;
    whole.disabled = wide >= total;
    kit.refresh();
  }
  // Moves the window, if need be, to where some of these cycles are in it.
  function reach(first, last) {
    if (last >= from && first <= to) return;
    const wide = to - from;
    from = Math.min(Math.max(0, (first + last - wide) / 2), total - wide);
    to = from + wide;
  }
  const cycleAt = (x) => from + (x - tape.x) / tape.width * (to - from);
  const placeOf = (cycle) => tape.x + (cycle - from) / (to - from) * tape.width;
  const cursor = () => {
    const f = kit.frameAt();
    return begin[f] - zero(runOf(f)) + Math.min(1, kit.at - f) * still(f).cycles;
  };
  function zoom(factor, around = Math.min(to, Math.max(from, cursor()))) {
    const wide = (to - from) * factor, part = (around - from) / (to - from);
    show(around - part * wide, around + (1 - part) * wide);
  }
  const pan = (part) => show(from + part * (to - from), to + part * (to - from));
  const whole = button("Whole run", () => show(0, total));
  whole.disabled = !scene.window;
  function one() {
    const f = kit.frameAt(), rim = still(f).cycles * 0.1, start = zero(runOf(f));
    show(begin[f] - start - rim, begin[f + 1] - start + rim);
  }

  const nameOf = (mark, i) => (mark.rows ? `${mark.rows[get(mark, "depth", i)]}: ` : "")
    + mark.names[get(mark, "title", i)];
  const { range, told, mark, select, find, sum } =
    EXTRA.range(kit, { flames, tapes, runs, runOf, spanOf, get, frameOf, nameOf });
  const buttons =
    make("div", { className: "row" }, button("Zoom in", () => zoom(0.5)),
      button("Zoom out", () => zoom(2)),
    button(`This ${scene.group}`, one), whole, select, find);
  const source = make("pre", { tabIndex: 0, role: "region",
    ariaLabel: `The codelet of the chosen ${scene.group}` });

  function clipped(mark, high, paint) {
    pen.save();
    pen.beginPath();
    pen.rect(mark.x, mark.y - 1, mark.width, high + 2);
    pen.clip();
    paint();
    pen.restore();
  }
  // The frame of a run in which a cycle lies.
  function frameOf(cycle, run) {
    const [first, end] = runs[run], start = zero(run);
    const after = begin.findIndex((b, f) => f > first && b - start > cycle);
    return after < 0 ? end - 1 : Math.min(after, end) - 1;
  }

  const draw = {
    flame(mark) {
      if (cursor() !== followed) reach(followed = cursor(), followed);
      if (kit.chosen !== pointed) {
        pointed = kit.chosen;
        if (pointed && flames.includes(pointed.mark)) reach(...spanOf(pointed.mark, pointed.i));
      }
      (mark.rows || []).forEach((name, row) => kit.text(pen, name, mark.x - 5,
        mark.y + (row + 0.68) * mark.pitch, 11, "right", kit.ink.soft));
      kit.text(pen, mark.heading, mark.x, mark.y - 8, 12, "left", kit.ink.soft);
      const high = mark.pitch - 1.5;
      clipped(mark, canvas.height, () => {
        for (let i = 0; i < mark.count; i++) {
          const [start, end] = spanOf(mark, i);
          if (end < from || start > to) continue;
          const left = Math.max(mark.x - 1, placeOf(start)),
            right = Math.min(mark.x + mark.width + 1, placeOf(end));
          const wide = right - left - (right - left > 4 ? 0.8 : 0),
            y = mark.y + get(mark, "depth", i) * mark.pitch, code = get(mark, "code", i);
          pen.fillStyle = wide > 5 ? kit.brushes[code] : kit.colours[code];
          pen.fillRect(left, y, Math.max(wide, 0.3), high);
          if (kit.chosen?.mark === mark && kit.chosen.i === i)
            kit.framed(2, left + 1, y + 1, Math.max(wide - 2, 1), high - 2);
          let name = mark.names[get(mark, "title", i)];
          // the pattern says that it waits; where room is short the name says for whom
          if (NAME * name.length > wide - 8) name = name.replace(/^waits for /, "");
          if (wide > Math.min(60, 12 + 7 * name.length))
            kit.fitted(name, left + 4, y + mark.pitch * 0.68, wide - 8, 11,
              inkOn(kit.colours[code]));
        }
      });
    },

    tape(mark) {
      headed(kit, mark,
        to - from < total ? `cycles ${words(from)} to ${words(to)}` : "the whole run");
      const scale = mark.width / (to - from), pitch = mark.height / mark.count,
        run = tapes.indexOf(mark), start = zero(run), last = frameOf(to, run),
        first = frameOf(from, run);
      clipped(mark, mark.height, () => {
        pen.translate(mark.x, 0);
        for (let f = first; f <= last; f++) {
          const [number] = still(f).lanes[mark.name], x = (begin[f] - start - from) * scale,
            wide = still(f).cycles * scale;
          if (last - first < 60) {
            kit.bars(pen, number, mark.count, x, mark.y, scale, pitch, mark.width);
          } else if (wide) {
            const [span] = scene.drawings[number];
            const picture =
              kit.keep(`tape ${number} ${run}`, 96, mark.height,
                (p) => kit.bars(p, number, mark.count, 0, 0, 96 / span, pitch, 96));
            pen.drawImage(picture, x, mark.y, wide, mark.height);
          }
        }
      });
      kit.labels(mark);
      const chosen = range(), x = placeOf(cursor());
      pen.fillStyle = kit.ink.ink;
      if (chosen && runOf(chosen[0]) === run) {
        const [a, b] = chosen.map((f) => Math.min(mark.x + mark.width,
          Math.max(mark.x, placeOf(begin[f] - start))));
        pen.globalAlpha = 0.25;
        pen.fillRect(a, mark.y, b - a, mark.height);
        pen.globalAlpha = 1;
      }
      if (runOf(kit.frameAt()) === run && x >= mark.x - 1 && x <= mark.x + mark.width + 1)
        pen.fillRect(x - 1, mark.y - 4, 2, mark.height + 8);
      // Ticks at round numbers of cycles, about six of them.
      const rough = (to - from) / 6, power = 10 ** Math.floor(Math.log10(rough)),
        tick = power * [1, 2, 5, 10].find((n) => n * power >= rough);
      for (let c = Math.ceil(from / tick) * tick; c <= to; c += tick) {
        pen.fillRect(placeOf(c) - 0.5, mark.y + mark.height, 1, 4);
        const inside = kit.scene.size[0] - 3.5 * words(c).length;  // where its middle may be
        kit.text(pen, words(c), Math.min(placeOf(c), inside), mark.y + mark.height + 16, 11, "center",
          kit.ink.soft);
        pen.fillStyle = kit.ink.ink;
      }
      if (kit.chosen?.mark === mark) kit.framed(1.5, ...kit.laneOf(mark, kit.chosen.i));
    },

    // Over the strip of the whole run: the part that is shown.
    track(mark, ...rest) {
      strip(mark, ...rest);
      if (to - from >= total) return;
      const left = mark.x + from / total * mark.width,
        wide = Math.max(4, (to - from) / total * mark.width);
      kit.framed(2, left, mark.y - 2, wide, mark.height + 4);
    },
  };
  const strip = kit.DRAW.track;

  function hit(mark, x, y) {
    if (x < mark.x || x > mark.x + mark.width) return -1;
    if (mark.kind === "tape") return kit.hit(mark, x, y);
    const row = Math.floor((y - mark.y) / mark.pitch), cycle = cycleAt(x);
    if (row < 0) return -1;
    for (let i = 0; i < mark.count; i++) {
      const [start, end] = spanOf(mark, i);
      if (get(mark, "depth", i) === row && start <= cycle && cycle < end) return i;
    }
    return -1;
  }

  function about(mark, i) {
    if (mark.kind !== "flame") return "";
    const [start, end] = spanOf(mark, i), from = runs[flames.indexOf(mark)][0],
      first = get(mark, "first", i) - from, last = get(mark, "last", i) - from;
    const said = `${nameOf(mark, i)}: ${words(end - start)} modelled cycles, `
      + `from ${words(start)} to ${words(end)}`;
    return mark.timed ? `${said}.`
      : `${said}; superstep ${words(first + 1)}${last - first > 1 ? ` to ${words(last)}` : ""}.`;
  }

  // --- the mouse ---
  let held = null, dragged = false, below = 0;  // in the run below
  const inside = (event) => {
    const [x, y] = kit.spot(event), end = tapes[tapes.length - 1];
    below = +(flames.length > 1 && y > flames[1].y);
    return x >= tape.x && x <= tape.x + tape.width && y > flame.y && y < end.y + end.height ? x
      : null;
  };
  const goTo = (x) => {
    kit.pause();
    kit.go(frameOf(cycleAt(x), below) + 1);
  };
  canvas.addEventListener("pointerdown", (event) => {
    const x = inside(event);
    held = x === null ? null : { x, from, to };
    dragged = false;
    // with shift: a range from where one stands
    if (held && event.shiftKey && !range()) mark(kit.frameAt());
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held || !event.buttons) return;
    const [x] = kit.spot(event), by = (held.x - x) / tape.width * (held.to - held.from);
    if (event.shiftKey) return goTo(x);
    dragged = dragged || Math.abs(held.x - x) > 4;
    if (dragged) show(held.from + by, held.to + by);
  });
  canvas.addEventListener("click", (event) => {
    const x = inside(event);
    if (x !== null && !dragged) goTo(x);
  });
  canvas.addEventListener("wheel", (event) => {
    const x = inside(event),
      sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (x === null || (!event.ctrlKey && !sideways)) return;  // else the page scrolls
    event.preventDefault();
    if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, cycleAt(x)); else pan(sideways / 800);
  }, { passive: false });

  return {
    draw, hit, about, nodes: [buttons, sum, source],
    help: "Plus and minus, or the wheel with Ctrl, zoom; "
      + "shift with left and right, or the mouse, moves; "
      + `z shows one ${scene.group}, 0 the whole run. S, or a click with shift, selects from here.`,
    keys: {
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => show(0, total),
        z: one, s: () => select.click(),
      "Shift +": () => zoom(0.5), "Shift ArrowLeft": () => pan(-0.25),
        "Shift ArrowRight": () => pan(0.25),
    },
    say(s) {
      const said = told();
      if (sum.textContent !== said) sum.textContent = said;
      source.hidden = !("source" in s);
      const shown = "source" in s ? scene.sources[s.source] : "";
      if (source.textContent !== shown) source.textContent = shown;
    },
  };
};
