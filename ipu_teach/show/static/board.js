// Boxes with numbers in them, messages that carry numbers, the list of a box and the line of a
// cell: for the views that name this file in make_scripts.py. board.py draws the same. What a cell
// holds in a frame is replayed from the changes, of which every 32nd frame keeps a whole set.
EXTRA.board = (kit) => {
  const { scene, pen, array, of, still, begin, count, total } = kit;
  EXTRA.flows(kit);
  const board = scene.marks.find((m) => m.kind === "board");
  const EVERY = 32;
  const [[many, sizes, end, ...others], first, changes, ...packed] = scene.numbers.board,
    texts = [...Array.from(unpack(sizes, many), (size) => `${size}${end}`), ...others];
  const [frameOf, cellOf, textOf] = packed.map((p) => unpack(p, changes)), n = board.count;
  const [box, row, place, named, index] = ["box", "row", "place", "named", "index"].map((name) => {
    const found = array(board, name, board[name], n);
    return (i) => of(found, i);
  });
  const rows = board.per.length, left = array(board, "left", board.left, board.tiles.length * rows);
  // what + does not read; "?" is NaN
  const SAID = { True: 1, False: 0, inf: Infinity, "-inf": -Infinity };
  const value = (t) => (t in SAID ? SAID[t] : +t), write = (...what) => kit.text(pen, ...what);
  const list = (packed) =>
    (typeof packed === "number" ? [packed] : Array.from(unpack(packed[1], packed[0])));

  // --- replay ---
  // every so many frames: the cells, and the changes so far
  const whole = [Uint32Array.from(unpack(first, n))], upTo = [0];
  for (let f = 0, k = 0, now = whole[0].slice(); f < count; f++) {
    while (k < changes && frameOf[k] <= f) now[cellOf[k]] = textOf[k++];
    if (f % EVERY === EVERY - 1) {
      whole.push(now.slice());
      upTo.push(k);
    }
  }
  // The texts of all cells in a frame; before the first one, what was there at first.
  let last = [-2];
  function at(frame) {
    if (last[0] === frame) return last[1];
    const key = (frame + 1) / EVERY | 0, now = whole[key].slice();
    for (let k = upTo[key]; k < changes && frameOf[k] <= frame; k++) now[cellOf[k]] = textOf[k];
    last = [frame, now];
    return now;
  }
  // nothing has begun: not even the change of the first frame
  const before = (frame) => (kit.at > 0 ? frame : -1);
  const element = (name, i) => {
    const shape = board.shapes[name], place = [];
    for (let k = shape.length - 1; k >= 0; k--) {
      place.unshift(i % shape[k]);
      i = Math.floor(i / shape[k]);
    }
    return board.names[name] + (place.length ? `[${place.join(", ")}]` : "");
  };
  const cellName = (i) => element(named(i), index(i));
  const tileOf = (i) => board.tiles[box(i)];
  const brief = (v) =>
    (v && !(Math.abs(v) >= 1e-4 && Math.abs(v) < 1e6) ? v.toExponential() : `${v}`);
  function short(t, room, digits = 4) {
    const most = Math.floor(room / OF_LETTER);
    if (t === "?" || (t.length <= most && !/[.e]/.test(t))) return most ? t : "";
    const tries = /^[TF]/.test(t) ? [t, t[0]] : /n/.test(t) ? [t]
      : [Number.isInteger(value(t)) ? 6 : digits, 6, 5, 4, 3, 2, 1]
        .filter((d, k) => !k || d <= digits).map((d) => brief(+value(t).toPrecision(d)));
    return tries.find((said) => said.length <= most) || "";
  }
  function codeOf(t, row) {
    const v = value(t);
    if (t === "?") return board.unwritten;
    return Number.isNaN(v) ? board.unwritten + 1
      : board.steps + board.bounds[row].filter((bound) => bound <= v).length;
  }

  // --- places ---
  const wide = () =>
    (board.width - (board.block ? GUTTER : 0) + BETWEEN) / board.across - BETWEEN;
  const ipuOf = (b) => (board.block && b >= 0 ? Math.floor(board.tiles[b] / board.block) : -1);
  const link = ([source, , to]) => Math.min(ipuOf(source), ipuOf(to)) >= 0
    && ipuOf(source) !== ipuOf(to);
  // Of each box its column, its row, and how many names of IPUs stand above it; of each IPU its
  // first box.
  let spots = [], heads = new Map(), laid = 0;
  function spotOf(b) {
    if (laid === board.across) return spots[b];
    [spots, heads, laid] = [[], new Map(), board.across];
    for (let i = 0, down = -1, along = laid; i < board.tiles.length; i++) {
      along++;
      if (along >= laid || !heads.has(ipuOf(i))) [down, along] = [down + 1, 0];
      if (!heads.has(ipuOf(i))) heads.set(ipuOf(i), i);
      spots.push([along, down, board.block ? heads.size : 0]);
    }
    return spots[b];
  }
  function tall() {
    const [, down, names] = spotOf(board.tiles.length - 1);
    return (down + 1) * (board.high + BETWEEN) - BETWEEN + HEAD * names;
  }
  // Of each row whether something is left out, and the distance of its cells.
  const some = board.per.map((_, r) => board.tiles.some((_, b) => of(left, b * rows + r)));
  const pitch = (r) => Math.min(BROADEST, (wide() - 8 - (some[r] ? 32 : 0)) / board.per[r]);
  const corner = (b) => {
    const [along, down, names] = spotOf(b);
    return [board.x + along * (wide() + BETWEEN),
      board.y + down * (board.high + BETWEEN) + HEAD * names];
  };
  function cellAt(i) {
    const [x, y] = corner(box(i)), w = pitch(row(i));
    return [x + 4 + place(i) * w, y + HEAD + row(i) * ROW, Math.max(w - 1, 0.5), CELL];
  }
  const focus = () => (kit.chosen?.mark === board ? kit.chosen.i : board.focus);
  const lastOf = (frame) => (kit.starts[kit.groups[frame] + 1] ?? count) - 1;

  // [messages, cycles that are over]: what arrived stays until the superstep changes something.
  function underWay(frame, progress) {
    for (let f = frame; f >= 0; f--) {
      const s = still(f);
      if (s.flows) return [s.flows.messages, f === frame ? progress * s.cycles : Infinity, f];
      if (s.first || !s.cycles) break;
    }
    return [[], 0, frame];
  }
  const line = (x, y, u, v) => straight(pen, [x, y], [u, v], pen.lineWidth);

  // The chosen element is between four corners: a thick rim means "written".
  function corners(x, y, w, h) {
    const long = Math.min(5, w / 3 + 2);
    pen.strokeStyle = kit.ink.ink;
    pen.lineWidth = 2;
    for (const [a, b, p, q] of [[-3, -3, 1, 1], [w + 3, -3, -1, 1], [-3, h + 3, 1, -1], [w + 3, h + 3, -1, -1]]) {
      line(x + a - p, y + b, x + a + p * long, y + b);
      line(x + a, y + b, x + a, y + b + q * long);
    }
  }

  const draw = {
    board(mark, s, progress, frame) {
      const { ink, soft, line: thin } = kit.ink, now = at(before(frame)),
        channel = s.cells?.board;
      write(mark.heading, mark.x, mark.y - 8, 12, "left", soft);
      const [codes, until] = channel
        ? [0, 1].map((k) => array(channel, k, channel[k], mark.tiles.length)) : [0, 1];
      for (const [ipu, b] of board.block ? heads : [])
        write(`IPU ${ipu}`, mark.x, corner(b)[1] - 6, 12, "left", ink);
      mark.tiles.forEach((tile, b) => {
        const [x, y] = corner(b),
          code = of(until, b) >= progress * s.cycles ? of(codes, b) : channel ? channel[2] : 0;
        pen.strokeStyle = focus() >= 0 && box(focus()) === b ? soft : thin;
        pen.lineWidth = 1;
        pen.strokeRect(x, y, wide(), mark.high);
        write(wide() > 70 ? `tile ${tile}` : `${tile}`, x + 4, y + 14, 11, "left", soft);
        if (!scene.codes[code][1]) return;
        pen.fillStyle = kit.brushes[code];
        pen.fillRect(x + wide() - 18, y + 3, 14, 14);
        write(scene.codes[code][1], x + wide() - 11, y + 14, 11, "center", inkOn(kit.colours[code]),
          kit.colours[code]);
      });
      const ends = new Map();  // of each row in a box where its last cell ends
      for (let i = 0; i < n; i++) {
        const [x, y, w, h] = cellAt(i), t = texts[now[i]], code = codeOf(t, row(i));
        pen.fillStyle = kit.brushes[code];
        pen.fillRect(x, y, w, h);
        if (w >= DIGITS)
          write(short(t, w), x + w / 2, y + 11, 11, "center", inkOn(kit.colours[code]),
            kit.colours[code]);
        const key = box(i) * rows + row(i);
        ends.set(key, [Math.min(x, (ends.get(key) || [x])[0]), x + w + 1, y]);
      }
      pen.lineWidth = 1.5;
      for (const [key, [x, end, y]] of ends) {
        pen.strokeStyle = kit.colours[mark.rims[key % rows]];
        if (mark.rims.length > 1) pen.strokeRect(x - 1.5, y - 1.5, end - x + 2, CELL + 3);
        if (of(left, key)) write(`+${words(of(left, key))}`, end + 1, y + 11, 11, "left", soft);
      }
      pen.strokeStyle = ink;
      (s.touches ? s.touches.board.map(list) : []).forEach((cells, writes) => {
        pen.lineWidth = writes ? 2.5 : 1;
        for (const i of cells) {
          const [x, y, w, h] = cellAt(i);
          if (w < 10) line(x, y + h + 1, x + w + 1, y + h + 1); else pen.strokeRect(x, y, w, h);
        }
      });
      corners(...cellAt(focus()));
    },

    sheet({ x, y, width, height, columns, place, heading }, s, part, frame) {
      const now = at(before(frame)), pixel = unpack(place, n),
        side = Math.min(width / columns, height / Math.ceil(n / columns));
      const spot = (i) => [x + pixel[i] % columns * side, y + (pixel[i] / columns | 0) * side];
      write(heading, x, y - 8, 12, "left", kit.ink.soft);
      for (let i = 0; i < n; i++) {
        pen.fillStyle = kit.brushes[codeOf(texts[now[i]], row(i))];
        pen.fillRect(...spot(i), side, side);
      }
      corners(...spot(focus()), side, side);
    },

    trail(mark, s, progress, frame) {
      const { ink, soft, line: thin } = kit.ink, i = focus(), mine = changesOf(i);
      const values = [unpack(first, n)[i], ...mine.map((k) => textOf[k])]
        .map((t) => value(texts[t])), real = values.filter(Number.isFinite);
      const low = Math.min(...real), high = Math.max(...real), bottom = mark.y + mark.height;
      const ends = [low, high].map((v) => brief(+v.toPrecision(6))),
        span = !real.length ? "" : ends[0] === ends[1] ? `always ${ends[0]}` : ends.join(" to ");
      write(span, mark.x + mark.width, mark.y - 8, 12, "right", soft);
      const changed = `${words(mine.length)} change${mine.length === 1 ? "" : "s"}`;
      kit.fitted(`${cellName(i)} on tile ${tileOf(i)}: ${changed}`,
        mark.x, mark.y - 8, mark.width - pen.measureText(span).width - 12, 12, soft);
      pen.strokeStyle = thin;
      pen.lineWidth = 1;
      line(mark.x, bottom, mark.x + mark.width, bottom);
      pen.strokeStyle = ink;
      pen.lineWidth = 1.5;
      const edges = [mark.x, ...mine.map((k) => whenOf(k, mark)), mark.x + mark.width];
      values.forEach((v, k) => {
        const y = bottom - mark.height * (v - low) / (high - low || 1);
        if (Number.isFinite(v)) line(edges[k], y, edges[k + 1], y);
        if (k) line(edges[k], bottom, edges[k], bottom + 5);
      });
      const x = mark.x + (begin[frame] + progress * s.cycles) / total * mark.width;
      pen.lineWidth = 1;
      line(x, mark.y - 3, x, bottom + 6);
    },
  };
  const whenOf = (k, mark) => mark.x + begin[frameOf[k]] / total * mark.width;
  const changesOf = (i) => [...cellOf.keys()].filter((k) => cellOf[k] === i);
  function hit(mark, x, y) {
    if (mark !== board) return kit.hit(mark, x, y);
    for (let i = 0; i < n; i++) {
      const [a, b, w, h] = cellAt(i);
      if (x >= a && x <= a + w && y >= b && y <= b + h) return i;
    }
    return -1;
  }
  return {
    draw, hit, tall, link, ipuOf, corner, cellAt, wide, row, short, line, write, board, texts,
    value, at, before, element, cellName, tileOf, box, focus, lastOf,
    underWay, changesOf, whenOf, changes, frameOf, cellOf, textOf,
  };
};
