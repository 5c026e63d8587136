// The live form of every view: draws a scene (see scene.py) on a canvas, with controls, keys and
// words. `live(root, scene)` puts the player into `root`, in place of the picture there, and
// returns what controls it. `EXTRA[view](kit)` adds what one view needs: kinds of marks (draw, hit,
// about), keys, and nodes below the canvas. Nothing is fetched, and no id is used.

const PATTERNS = {
  "/": [[-1, 7, 7, -1]], "-": [[0, 3, 6, 3]], "|": [[3, 0, 3, 6]],
    "x": [[0, 0, 6, 6], [6, 0, 0, 6]], ".": [[2.5, 3, 3.5, 3]],
};
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const STYLE = `
.ipu-view details{font:14px/1.4 system-ui,sans-serif;margin:4px 16px}
.ipu-live{font:14px/1.4 system-ui,sans-serif;max-width:1100px;color:var(--ink);
  background:var(--paper);border-radius:4px;padding:8px 0}
.ipu-live:focus-visible,.ipu-live :is(button,select,input):focus-visible
  {outline:2px solid #2a8fd0;outline-offset:1px}
.ipu-live canvas{display:block;width:100%;height:auto;touch-action:manipulation}
.ipu-live p{margin:4px 16px}
.ipu-live .title{font-weight:bold;font-size:16px;margin:2px 16px 6px}
.ipu-live.ipu-live [hidden]{display:none}
.ipu-live details p{margin:4px 0}
.ipu-live .soft{color:var(--soft)}
.ipu-live .row{display:flex;flex-wrap:wrap;gap:6px;align-items:center;margin:6px 16px}
.ipu-live .row input{flex:1 1 100%;margin:0;accent-color:#2a8fd0}
.ipu-live .bar{position:sticky;bottom:0;background:var(--paper);margin:0;padding:6px 16px}
[class*=jp-OutputArea]:has(.ipu-live){overflow:visible}
.ipu-live :is(button,select){font:inherit;padding:2px 9px;color:var(--ink);
  background:var(--paper);border:1px solid var(--soft);border-radius:4px;cursor:pointer}
.ipu-live button.main{color:var(--paper);background:var(--ink);border-color:var(--ink);
  min-width:5.5em}
.ipu-live .bar{border-top:1px solid var(--line)}
.ipu-live button[aria-pressed=true]{color:var(--paper);background:var(--ink)}
.ipu-live ul.key{display:flex;flex-wrap:wrap;gap:4px 14px;list-style:none;margin:6px 16px;
  padding:0}
.ipu-live li{display:flex;gap:5px;align-items:center;margin:0}
.ipu-live.ipu-live pre{font:12px/1.45 ui-monospace,monospace;margin:6px 16px;padding:6px 8px;
  white-space:pre-wrap;overflow-wrap:anywhere;color:var(--ink);border-left:3px solid var(--line)}
.ipu-live li canvas{width:16px;height:16px;border-radius:2px}
`;

// --- numbers ---

// The inverse of pack.py: one number for all, runs ("3*5,4", with "9(7,8*2,)" for what comes nine
// times), "d" and runs of steps, or bits ("b" lowest ":" width ":" letters).
function unpack(text, count) {
  if (typeof text === "number") return new Float64Array(count).fill(text);
  const out = new Float64Array(count);
  if (text[0] === "d") {
    let sum = 0;
    return unpack(text.slice(1), count).map((by) => (sum += by));
  }
  if (text[0] !== "b") {
    let at = 0;
    const runs = text.replace(/(\d+)\((.*?)\)/g, (_, n, some) => some.repeat(n));
    for (const part of runs.split(",")) {
      const [value, times] = part.split("*");
      out.fill(+value, at, at += +(times || 1));
    }
    return out;
  }
  const [lowest, width, letters] = text.slice(1).split(":");
  for (let i = 0, bit = 0; i < count; i++) {
    let value = 0;
    for (let k = 0; k < width; k++, bit++) {
      value = value * 2 + (LETTERS.indexOf(letters[bit / 6 | 0]) >> (5 - bit % 6) & 1);
    }
    out[i] = value + +lowest;
  }
  return out;
}

const words = (n) => n.toLocaleString("en-US", { maximumFractionDigits: 1 });

// Black or white, whichever is easier to read on a colour: palette.py has the same rule.
function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16) / 255)
    .map((p) => (p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

// --- the player ---

const EXTRA = {};

function live(root, scene) {
  const make = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };
  let [width, height] = scene.size;
  const marks = Object.fromEntries(scene.marks.map((m) => [m.name || m.kind, m]));
  const frames = unpack(scene.frames[1], scene.frames[0]);
  const count = frames.length;
  const read = (text = "") => (typeof text === "number" ? scene.texts[text] : text);
  scene.stills = scene.stills.map(
    (s) => ({ ...s, label: read(s.label), note: read(s.note), say: read(s.say) }));
  const still = (frame) => scene.stills[frames[frame]];
  const starts = [];  // frames that begin a superstep
  const groups = [];  // of each frame its superstep
  const begin = [0];  // modelled cycles before each frame
  for (let f = 0; f < count; f++) {
    if (still(f).first) starts.push(f);
    groups.push(starts.length - 1);
    begin.push(begin[f] + still(f).cycles);
  }
  if (scene.clock) begin.splice(0, count + 1, ...unpack(scene.clock, count + 1));
  const total = begin[count] || 1;
  const moving = count > 1, phased = starts.length < count;

  // Unpacked when first drawn.
  const unpacked = new Map();
  function array(owner, name, value, size) {
    if (typeof value === "number") return value;
    let found = unpacked.get(owner);
    if (!found) unpacked.set(owner, found = {});
    return found[name] || (found[name] = unpack(value, size));
  }
  const of = (value, i) => (typeof value === "number" ? value : value[i]);
  const nameOf = (mark, i) => (mark.labels ? mark.labels[i] : `${i}`);
  // NaN is no other's key
  const [keyOf, sameOf] = ["key", "same"].map((name) => (mark, i) =>
    (name in mark ? of(array(mark, name, mark[name], mark.count), i) : NaN));

  // --- elements ---
  const [reduced, scheme] = ["reduced-motion: reduce", "color-scheme: dark"]
    .map((what) => matchMedia(`(prefers-${what})`));
  const style = make("style", { textContent: STYLE });
  const box = make("div", { className: "ipu-live", tabIndex: 0, role: "group" });
  // JupyterLab's own keys would insert and delete cells
  box.setAttribute("data-lm-suppress-shortcuts", "true");
  const status = make("p", { ariaLive: "polite" });
  const canvas = make("canvas", { role: "img", ariaLabel: scene.title });
  const said = make("p", { className: "soft", ariaLive: "polite" });
  const button = (text, act) => make("button", { type: "button", textContent: text, onclick: act });
  const play = button("", () => toggle());
  play.className = "main";
  const offer = (icon, name) => Object.assign(play, { textContent: `${icon} ${name}`, ariaLabel: name });
  offer("\u25b6", "Play");
  const scrub = make("input", { type: "range", min: 0, max: count, ariaLabel: "Place in the run",
    oninput: () => {
      pause();
      go(stop(+scrub.value));
    } });
  const SPEEDS = [0.25, 0.5, 1, 2, 4];
  const speed = make("select", { ariaLabel: "Speed" },
    ...SPEEDS.map((s) => new Option(`${s}x`, s)));
  speed.value = 1;
  const legend = make("ul", { className: "key" });
  const more_ = make("div", { className: "row", hidden: true },
    ...(phased ? [
      button(`Previous ${scene.group}`, () => jump(-1)),
      button(`Next ${scene.group}`, () => jump(1))] : []), speed);
  const unfold = button("More", () => {
    more_.hidden = !more_.hidden;
    unfold.ariaExpanded = `${!more_.hidden}`;
  });
  unfold.ariaExpanded = "false";
  const controls = make("div", { className: "row bar" },
    scrub, play, button("\u2039 Back", () => step(-1)), button("Step \u203a", () => step(1)), unfold,
    more_);
  const title = make("div", { className: "title", textContent: scene.title });
  // the keys, and what was left out or put together
  const folded = make("details", {}, make("summary", { textContent: "? Keys and notes" }));
  // what changes in height comes last
  box.append(title, canvas, legend, ...(moving ? [controls] : []), status, said, folded);
  const picture = root.querySelector("img");
  if (picture) picture.style.display = "none";
  root.prepend(style, box);

  // --- colours ---
  const pen = canvas.getContext("2d");
  let ratio = 1, dark = false, ink, colours = [], brushes = [], cache = new Map();
  function theme() {
    const { body } = document, lab = body.dataset.jpThemeLight;
    dark = lab ? lab === "false" : scheme.matches || body.classList.contains("vscode-dark");
    ink = INKS[+dark];
    for (const name in ink) box.style.setProperty(`--${name}`, ink[name]);
    ratio = min(3, devicePixelRatio || 1);
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    colours = scene.codes.map((c) => c[dark ? 3 : 2]);
    brushes = scene.codes.map((c, i) => {
      const tile = make("canvas", { width: 6 * ratio, height: 6 * ratio });
      const p = tile.getContext("2d");
      p.scale(ratio, ratio);
      hatch(p, i);
      const brush = pen.createPattern(tile, "repeat");
      brush.setTransform(new DOMMatrix([1 / ratio, 0, 0, 1 / ratio, 0, 0]));
      return brush;
    });
    cache = new Map();
    const inCells = lettered();
    legend.replaceChildren(...scene.legend.map((i) => {
      const chip = make("canvas", { width: 32, height: 32, ariaHidden: "true" });
      const p = chip.getContext("2d");
      p.scale(2, 2);
      p.fillStyle = brushes[i];
      p.fillRect(0, 0, 16, 16);
      if (inCells.has(i))
        text(p, scene.codes[i][1], 8, 12, 11, "center", inkOn(colours[i]), colours[i]);
      return make("li", {}, chip, scene.codes[i][0]);
    }));
  }
  // The codes whose letters are in cells, in one still or another.
  function lettered() {
    const codes = new Set();
    for (const mark of scene.marks)
      if (mark.kind === "board" || mark.kind === "cells" && mark.side >= SMALLEST_LABEL)
        for (const { cells } of scene.stills) {
          const [first, , then] = cells?.[mark.name] || [];
          for (const code of typeof first === "string" ? unpack(first, mark.count) : [first]) codes.add(code);
          codes.add(then);
        }
    return codes;
  }
  function hatch(p, code) {
    p.fillStyle = colours[code];
    p.fillRect(0, 0, 6, 6);
    p.strokeStyle = "rgba(0,0,0,.35)";
    p.lineWidth = scene.codes[code][4] === "." ? 2 : 1;
    for (const [a, b, c, d] of PATTERNS[scene.codes[code][4]] || [])
      straight(p, [a, b], [c, d], p.lineWidth);
  }
  function text(p, string, x, y, size, align, colour, ground) {
    p.font = `${size}px system-ui, sans-serif`;
    p.textAlign = align;
    if (ground) {
      p.strokeStyle = ground;
      p.lineWidth = 3;
      p.strokeText(string, x, y);
    }
    p.fillStyle = colour;
    p.fillText(string, x, y);
  }

  // The same, shortened to `room`.
  function fitted(string, x, y, room, size, colour) {
    pen.font = `${size}px system-ui, sans-serif`;
    const letters = [...string];
    let shown = string;
    while (letters.length && pen.measureText(shown).width > room) {
      letters.pop();
      shown = `${letters.join("")}…`;
    }
    text(pen, letters.length ? shown : "", x, y, size, "left", colour);
  }

  // --- places: the same formulae as in scene.py and paint.py ---
  function place(mark, i) {
    const block = floor(i / mark.block), within = i % mark.block;
    const x = within % mark.columns + block % mark.across * (mark.columns + mark.gap);
    const y = floor(within / mark.columns) + floor(block / mark.across) * (rowsOf(mark) + mark.gap);
    return [mark.x + x * mark.side, mark.y + y * mark.side];
  }
  function hit(mark, x, y) {
    if (mark.kind === "lanes" || mark.kind === "tape") {
      const inside = x > mark.x - (mark.kind === "lanes" ? 24 : 0) && x < mark.x + mark.width
        && y > mark.y && y < mark.y + mark.height;
      return inside ? floor((y - mark.y) / mark.height * mark.count) : -1;
    }
    const rows = rowsOf(mark), blocks = ceil(mark.count / mark.block);
    const u = (x - mark.x) / mark.side, v = (y - mark.y) / mark.side;
    const bx = floor(u / (mark.columns + mark.gap)), by = floor(v / (rows + mark.gap));
    const cx = floor(u - bx * (mark.columns + mark.gap)), cy = floor(v - by * (rows + mark.gap));
    if (u < 0 || v < 0 || cx >= mark.columns || cy >= rows || bx >= mark.across) return -1;
    const block = by * mark.across + bx, within = cy * mark.columns + cx,
      i = block * mark.block + within;
    return block < blocks && within < mark.block && i < mark.count ? i : -1;
  }

  // --- drawing ---
  // `at`: frames that are over, with the part of the current one
  let at = 0, playing = false, clock = 0, chosen = null;
  const frameAt = () => max(0, ceil(at - 1e-9) - 1);

  function draw() {
    const frame = frameAt(), progress = min(1, at - frame), s = still(frame);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.textBaseline = "alphabetic";
    for (const mark of scene.marks) DRAW[mark.kind](mark, s, progress, frame);
    // above arrows
    for (const mark of scene.marks)
      if (mark.kind === "cells" && mark.side >= SMALLEST_LABEL) names(mark, s, progress);
    if (chosen) for (const mark of scene.marks) light(mark);
  }

  const DRAW = {
    cells(mark, s, progress) {
      if (!s.cells?.[mark.name]) return;
      text(pen, mark.heading || "", mark.x, mark.y - (mark.names ? 20 : 8), 12, "left", ink.soft);
      mark.names?.forEach((name, k) => {
        const [x, y] = place(mark, k * mark.block);
        text(pen, name, x, y - 4, 11, "left", ink.soft);
      });
      const byCode = new Map(), large = mark.side >= 8, codes = codesOf(mark, s, progress);
      const inset = mark.count > MOST_RECTANGLES ? (mark.side > 3 ? 0.9 : 1) : 0.94,
        side = mark.side * inset;
      for (let i = 0; i < mark.count; i++) {
        const code = codes[i];
        let path = byCode.get(code);
        if (!path) byCode.set(code, path = new Path2D());
        const [x, y] = place(mark, i);
        path.rect(x, y, side, side);
      }
      for (const [code, path] of byCode) {
        pen.fillStyle = large ? brushes[code] : colours[code];
        pen.fill(path);
      }
    },

    lanes(mark, s, progress) {
      const channel = s.lanes?.[mark.name];
      if (!channel) return;
      const [number, from, to] = channel, [span, unit] = scene.drawings[number];
      pen.strokeStyle = ink.line;
      pen.lineWidth = 1;
      pen.strokeRect(mark.x, mark.y, mark.width, mark.height);
      const full = mark.axis || span, said = `${words(span)} ${unit}`;
      // the length stands where the lanes end, unless the heading has no room beside it
      pen.font = "12px system-ui, sans-serif";
      const end = max(mark.width * (full && span / full),
        pen.measureText(`${mark.heading || ""}${said}`).width + 16);
      if (mark.heading) headed(kit, { ...mark, width: min(mark.width, end) }, said);
      const part = full ? (from + (mark.whole ? 0.5 : progress) * (to - from)) / full : 0;
      const picture = lanesOf(mark, number);
      const w = mark.whole ? picture.width : Math.round(picture.width * part);
      if (w)
        pen.drawImage(
          picture, 0, 0, w, picture.height, mark.x, mark.y, mark.width * w / picture.width,
          mark.height);
      pen.fillStyle = ink.ink;
      if (moving && part > 0 && part < 1)
        pen.fillRect(mark.x + mark.width * part - 0.75, mark.y - 3, 1.5, mark.height + 6);
      if (full > span)  // where all go on
        pen.fillRect(mark.x + mark.width * span / full - 0.75, mark.y - 3, 1.5, mark.height + 6);
      if (mark.limit)
        pen.fillRect(mark.x + mark.width * mark.limit / span - 1, mark.y - 3, 2, mark.height + 6);
      labels(mark);
    },

    track(mark, s, progress, frame) {
      const picture = trackOf(mark);
      pen.drawImage(picture, mark.x, mark.y, mark.width, mark.height);
      const edge = (f) => mark.x + begin[f] / total * mark.width;
      const x = edge(frame) + progress * (edge(frame + 1) - edge(frame));
      pen.fillStyle = ink.ink;
      pen.fillRect(x - 1, mark.y - 4, 2, mark.height + 8);
      text(pen, "0", mark.x, mark.y + mark.height + 16, 11, "left", ink.soft);
      text(pen, `${words(begin[count])} modelled cycles`, mark.x + mark.width,
        mark.y + mark.height + 16, 11, "right", ink.soft);
    },
  };

  // The code of each cell: its first one until its time is over, then the other.
  function codesOf(mark, s, progress) {
    const channel = s.cells[mark.name], first = array(channel, 0, channel[0], mark.count),
      now = progress * s.cycles;
    const until = array(channel, 1, channel[1], mark.count);
    return Uint8Array.from(
      { length: mark.count },
      (_, i) => (of(until, i) > 0 && of(until, i) >= now ? of(first, i) : channel[2]));
  }
  function names(mark, s, progress) {
    if (!s.cells?.[mark.name]) return;
    const codes = codesOf(mark, s, progress), tall = mark.side >= 2 * SMALLEST_LABEL;
    for (let i = 0; i < mark.count; i++) {
      const letter = scene.codes[codes[i]][1], name = nameOf(mark, i),
        fits = name.length * NAME + 3 < mark.side,
        both = mark.side >= TWO_LINES * SMALLEST_LABEL && letter && fits;
      const size = tall ? 12 : 11, ground = colours[codes[i]];
      const [x, y] = place(mark, i).map((v) => v + mark.side * 0.47), write = (what, part) =>
        text(pen, what, x, y + mark.side * (part - 0.47), size, "center", inkOn(ground), ground);
      write(fits && (both || !letter) ? name : letter,
        both ? 0.42 : tall ? 0.6 : 0.47 + 4 / mark.side);
      if (both) write(letter, 0.78);
    }
  }

  function labels(mark) {
    const pitch = mark.height / mark.count;
    const put = (what, y) => text(pen, what, mark.x - 5, mark.y + y, 11, "right", ink.soft);
    mark.ends?.forEach(([what, part]) =>
      put(what, max(9, min(mark.height - 1, part * mark.height + 4))));
    // where lanes are lower than words, every so many of them
    const every = [1, 2, 5, 10, 20, 50].find((n) => n * pitch >= 9);
    for (let i = 0; i < mark.count && every && !mark.ends; i += every)
      put(nameOf(mark, i), (i + 0.72) * pitch);
  }

  // Lanes and track are drawn once and then copied.
  function keep(name, w, h, paint) {
    let found = cache.get(name);
    if (!found) {
      if (cache.size > 24) cache.clear();
      cache.set(name,
        found = make("canvas", { width: ceil(w * ratio), height: ceil(h * ratio) }));
      const p = found.getContext("2d");
      p.scale(ratio, ratio);
      paint(p);
    }
    return found;
  }
  const lanesOf = (mark, number) => keep(`${mark.name} ${number}`, mark.width, mark.height, (p) => {
    const span = mark.axis || scene.drawings[number][0];
    bars(p, number, mark.count, 0, 0, span ? mark.width / span : 0, mark.height / mark.count,
      mark.width);
  });
  // The bars of a drawing, from (x, y) on, as far as `most`: `scale` is the width of a unit,
  // `pitch` the height of a lane.
  function bars(p, number, count, x, y, scale, pitch, most) {
    const rim = pitch > 5 ? 0.08 * pitch : 0;
    // narrow lanes end with pixels
    const edge = (i) => (pitch > 5 ? y + i * pitch : Math.round((y + i * pitch) * ratio) / ratio);
    for (const bar of scene.drawings[number][2]) {
      const [codes, starts, lengths] = [0, 1, 2].map((k) => array(bar, k, bar[k], count)),
        [, , , end = 0, rest = -1] = bar;
      for (let i = 0; i < count; i++) {
        const start = of(starts, i), split = start + of(lengths, i), top = edge(i) + rim,
          high = edge(i + 1) - rim - top;
        const box = (code, from, to) => {
          const left = max(0, x + from * scale), right = min(most, x + to * scale);
          if (right <= left) return;
          p.fillStyle = brushes[code];
          p.fillRect(left, top, right - left, high);
        };
        box(of(codes, i), start, split);
        if (rest >= 0) box(rest, split, end);
      }
    }
  }
  // [code, cycles] of what a frame consists of: its phases where a tape has their drawing.
  const tape = scene.marks.find((m) => m.kind === "tape");
  function pieces(f) {
    const s = still(f), lanes = s.lanes?.[tape?.name],
      top = (v) => (typeof v === "number" ? v : max(...unpack(v, tape.count)));
    return lanes ? scene.drawings[lanes[0]][2].map((bar) => [top(bar[0]), (bar[3] || 0) - top(bar[1])])
      : [[s.code, begin[f + 1] - begin[f]]];
  }
  // A long run column by column, each with its shares one above the other: paint.py does the same.
  const trackOf = (mark) => keep("track", mark.width, mark.height, (p) => {
    const parts = [];
    for (let f = 0; f < count; f++)
      parts.push(...(scene.clock ? pieces(f) : still(f).pieces ||= pieces(f)));
    const scale = mark.width / total, [n, packed] = scene.columns || [345];
    const edges = parts.length <= MOST_RECTANGLES ? [] : packed ? unpack(packed, n)
      : Array.from({ length: n }, (_, i) => i * total / (n - 1));
    const spent = Array.from(edges, () => new Float64Array(scene.codes.length));
    let x = 0, c = 0;
    for (const [code, cycles] of parts) {
      const end = x + cycles;
      if (edges.length) {
        for (; c < n - 1 && edges[c] < end; c++) {
          spent[c][code] += min(end, edges[c + 1]) - max(x, edges[c]);
          if (edges[c + 1] > end) break;
        }
      } else {
        p.fillStyle = cycles * scale > 5 ? brushes[code] : colours[code];
        p.fillRect(x * scale, 0, cycles * scale, mark.height);
      }
      x = end;
    }
    spent.slice(1).forEach((_, i) => {
      const wide = edges[i + 1] - edges[i];
      let y = 0;
      spent[i].forEach((part, code) => {
        const high = part / wide * mark.height;
        p.fillStyle = colours[code];
        p.fillRect(edges[i] * scale, y, wide * scale + 0.4, high);
        y += high;
      });
    });
  });

  function light(mark) {
    if (!("columns" in mark && mark.block || mark.kind === "lanes")) return;
    for (let i = 0; i < mark.count; i++) {
      const itself = mark === chosen.mark && i === chosen.i;
      if (!itself && keyOf(mark, i) !== chosen.key) continue;
      const thick = itself || sameOf(mark, i) === chosen.same ? 4 : 1.5;
      if (mark.kind === "cells")
        framed(thick, ...place(mark, i), mark.side * 0.94, mark.side * 0.94);
      else framed(thick, ...laneOf(mark, i));
    }
  }
  // What is chosen has a frame.
  function framed(thick, x, y, wide, high) {
    pen.strokeStyle = ink.ink;
    pen.lineWidth = thick;
    pen.strokeRect(x, y, wide, high);
  }
  const laneOf = (mark, i) => {
    const pitch = mark.height / mark.count;
    return [mark.x, mark.y + i * pitch, mark.width, max(pitch, 1)];
  };

  // --- what this view adds ---
  const readable = scene.marks.filter((m) => m.count);
  const kit = {
    scene, marks, begin, count, total, frames, starts, groups, moving, readable, pen, canvas, make,
    button, still, array, of, text, fitted, DRAW, bars, labels, keep, place, hit, keyOf, frameAt, go,
    choose, pause, refresh, spot, framed, laneOf,
    resize(high) { height = high; theme(); refresh(); },
    get ink() { return ink; }, get colours() { return colours; }, get brushes() { return brushes; },
    get chosen() { return chosen; }, get at() { return at; },
    get marching() { return playing && !reduced.matches; },
  };
  const extra = (EXTRA[scene.view] || EXTRA.painted || (() => ({})))(kit);
  const help = extra.help || "";
  Object.assign(DRAW, extra.draw);
  const tell = link(kit);
  const [buttons = "", ...more] = extra.nodes || [];
  status.before(buttons);
  said.after(...more);
  const byGroup = phased ? `page up and down go by ${scene.group}, ` : "";
  const byTime = moving ? `space plays, left and right step, ${byGroup}home, end, ` : "";
  const bySpeed = moving && !help ? "plus and minus for speed, " : "";
  const keys = `Keys: ${byTime}${bySpeed}up and down go through the parts. ${help}`;
  box.ariaLabel = `${scene.title}. ${keys}`;
  folded.append(...[keys, ...scene.notes].map((line) => make("p", { textContent: line })));

  // --- words ---
  function say() {
    const frame = frameAt(), s = still(frame);
    status.textContent = told(frame, s);
    scrub.value = at ? frame + 1 : 0;
    [scrub.ariaValueText] = status.textContent.split(". ");
    said.textContent = chosen ? about(s, chosen)
      : "Point at a part of the picture, or press up and down, for its numbers.";
    extra.say?.(s);
    tell();
  }
  function told(frame, s) {
    if (moving) {
      const group = groups[frame], last = group + 1 < starts.length ? starts[group + 1] : count;
      const where = `${scene.group} ${words(group + 1)} of ${words(starts.length)}`;
      const part = scene.group === "stretch" ? "part" : "phase", phase = phased ? `, ${part} ${frame - starts[group] + 1} of ${last - starts[group]}` : "";
      const long = s.cycles ? `, ${words(s.cycles)} modelled cycles` : "";
      const what = `${s.label}${long}${s.note && `; ${s.note}`}`;
      return `${where[0].toUpperCase()}${where.slice(1)}${phase}. ${what}.`;
    }
    const said = s.note || scene.title;
    return `${said[0].toUpperCase()}${said.slice(1)}${said.endsWith(".") ? "" : "."}`;
  }
  // Room for the longest words, so that nothing moves while they change.
  function reserve() {
    const long = (f) => still(f).label.length + still(f).note.length;
    let longest = 0;
    for (let f = 1; f < count; f++) if (long(f) > long(longest)) longest = f;
    status.style.minHeight = "";
    status.textContent = told(longest, still(longest));
    status.style.minHeight = `${ceil(status.getBoundingClientRect().height)}px`;
    say();
  }
  function about(s, { mark, i }) {
    const own = extra.about?.(mark, i);
    if (own) return own;
    const other = s.about?.[mark.name],
      { say, values = {} } = other ? { say: other[0], values: other[1] } : mark.say ? mark : s;
    // What is not among the values is how long the cells of the first group keep their code.
    const value = (name) =>
      of(array(values, name, values[name] ?? Object.values(s.cells)[0][1], mark.count), i);
    return say.replace(/\{(-?)(\w+)(?:\|(.*?)\|(.*?))?\}/g, (_, minus, name, one, many) => {
      if (one) return value(name) === 1 ? one : many;
      if (name === "i") return i;
      if (name === "label") return nameOf(mark, i);
      const found = minus ? s.cycles - value(name) : value(name);
      return found < 0 ? "none" : words(found);
    });
  }
  function choose(mark, i) {
    chosen = mark ? { mark, i, key: keyOf(mark, i), same: sameOf(mark, i) } : null;
    refresh();
  }
  function refresh() {
    say();
    draw();
  }

  // --- time ---
  // seconds a frame at 1x: a long run is over in under a minute
  const pace = min(1.1, max(0.05, 40 / count));
  function go(position) {
    at = min(count, max(0, position));
    refresh();
  }
  // Where a step stops after `frames` of them have begun: at the end of the last, or within it.
  const stop = (begun) => (begun ? begun - 1 + (still(begun - 1).at || 1) : 0);
  function step(by) {
    pause();
    const begun = ceil(at - 1e-9), here = stop(begun);
    go(by > 0 ? at < here - 1e-9 ? here : begun < count ? stop(begun + 1) : at
      : at > here + 1e-9 ? here : stop(max(0, begun - 1)));
  }
  function jump(by) {
    pause();
    const group = groups[frameAt()], end = starts[group + 1] ?? count;
    go(stop(by > 0 ? at < stop(end) ? end : starts[group + 2] ?? count
      : at > stop(starts[group] + 1) ? starts[group] + 1 : (starts[group - 1] ?? -1) + 1));
  }
  function toggle() {
    if (playing) return pause();
    if (at >= count || fresh) at = 0;
    fresh = false;
    playing = true;
    offer("\u23f8", "Pause");
    status.ariaLive = null;
    clock = performance.now();
    requestAnimationFrame(tick);
  }
  function pause() {
    fresh = false;
    if (!playing) return;
    playing = false;
    offer("\u25b6", "Play");
    status.ariaLive = "polite";
    refresh();
  }
  function tick(now) {
    if (!playing) return;
    if (!box.isConnected) return destroy();
    const passed = max(0, now - clock) / 1000 * speed.value / pace;
    if (!reduced.matches || passed >= 1) {
      const before = frameAt();
      at = reduced.matches && frameAt() + 1 < count ? stop(ceil(at - 1e-9) + 1)
        : min(count, at + passed);
      clock = now;
      if (at >= count) return pause();
      if (frameAt() !== before || at === 0) say();
      draw();
    }
    requestAnimationFrame(tick);
  }

  // --- events ---
  function through(by) {
    const now = chosen || { mark: readable[0], i: by > 0 ? -1 : readable[0].count };
    let i = now.i + by, group = readable.indexOf(now.mark);
    if (i < 0 || i >= now.mark.count) {
      group = (group + by + readable.length) % readable.length;
      i = by > 0 ? 0 : readable[group].count - 1;
    }
    choose(readable[group], i);
  }
  const KEYS = {
    ArrowUp: () => through(-1), ArrowDown: () => through(1), Escape: () => choose(null),
    ...(moving && {
      " ": toggle, ArrowRight: () => step(1), ArrowLeft: () => step(-1), PageDown: () => jump(1),
        PageUp: () => jump(-1),
      Home: () => { pause(); go(0); }, End: () => { pause(); go(count); },
      "+": () => faster(1), "=": () => faster(1), "-": () => faster(-1),
    }),
    ...extra.keys,
  };
  const faster = (by) => {
    speed.value = SPEEDS[min(4, max(0, SPEEDS.indexOf(+speed.value) + by))];
  };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    event.stopPropagation();
    const native =
      { SELECT: true, BUTTON: /^( |Enter)$/.test(event.key),
        INPUT: /^(Arrow|Page|Home|End)/.test(event.key) };
    const act = (event.shiftKey && KEYS["Shift " + event.key]) || KEYS[event.key];
    if (native[event.target.tagName] || !act) return;
    event.preventDefault();
    act();
  });
  // Where the mouse is in the drawing.
  function spot(event) {
    const rim = canvas.getBoundingClientRect();
    return [(event.clientX - rim.left) / rim.width * width,
      (event.clientY - rim.top) / rim.height * height];
  }
  function point(event) {
    const [x, y] = spot(event);
    for (const mark of readable) {
      const i = (extra.hit || hit)(mark, x, y);
      if (i >= 0)
        return chosen?.mark === mark && chosen.i === i ? undefined : choose(mark, i);
    }
    const track = marks.track;
    if (event.type === "click" && track && moving && y > track.y - 6
      && y < track.y + track.height + 6) {
      const cycles = (x - track.x) / track.width * total;
      let f = begin.findIndex((b) => b >= cycles);
      if (f < 0) f = count;
      pause();
      return go(stop(f));
    }
    if (chosen) choose(null);
  }
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("click", point);
  const retheme = () => { theme(); refresh(); };
  const ended = new AbortController();
  const watch = new MutationObserver(retheme);
  watch.observe(
    document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "class"] });
  scheme.addEventListener("change", retheme, ended);
  reduced.addEventListener("change", () => { if (reduced.matches) pause(); }, ended);
  function destroy() {
    playing = false;
    watch.disconnect();
    grown.disconnect();
    ended.abort();
    box.remove();
    style.remove();
  }

  let fresh = true;  // nothing was touched yet: the first Play begins at the beginning
  at = moving ? stop(min(count, scene.poster + 1)) : 1;
  let room = 0;
  function fit() {
    if (room === box.clientWidth) return;
    room = box.clientWidth;
    [width, height] = layout(scene, room);
    theme();
    extra.lay?.();
    reserve();
    draw();
  }
  const grown = new ResizeObserver(fit);
  grown.observe(box);
  fit();
  const player = { destroy, draw, go, toggle, count, marks, get size() { return [width, height]; },
    get at() { return at; }, get playing() { return playing; }, get touched() { return !fresh; } };
  box.ipuPlayer = player;  // for tests and measurements
  return player;
}
