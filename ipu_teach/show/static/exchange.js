// The matrix of an exchange, and one tile with its partners: partners.py draws the same.
EXTRA.exchange = (kit) => {
  const { scene, pen, array, of } = kit;
  const matrix = scene.marks.find((m) => m.kind === "matrix"),
    partners = scene.marks.find((m) => m.kind === "partners");
  const { bins, each, tiles, ipu, link } = matrix, ipuOf = (i) => Math.floor(i / ipu);
  const now = () => kit.still(kit.frameAt());
  const bytes = (s, i) => of(array(s.values, "bytes", s.values.bytes, matrix.count), i);
  const bars = (s) => scene.drawings[s.lanes[matrix.name][0]][2]
    .map((bar) => (i) => of(array(bar, 2, bar[2], bins), i));
  const row = (i) => Math.floor(i / bins), column = (i) => i % bins;
  function name(which) {
    const first = which * each, last = Math.min(first + each, tiles) - 1;
    return first === last ? words(first) : `${words(first)} to ${words(last)}`;
  }
  // The bin in the middle: the receiver that is pointed at, else the busiest.
  function focus(s) {
    if (kit.chosen) return row(kit.chosen.i);
    const [sent, received] = bars(s);
    let best = 0;
    for (let i = 1; i < bins; i++)
      if (sent(i) + received(i) > sent(best) + received(best)) best = i;
    return best;
  }

  const draw = {
    matrix(mark, s) {
      const side = mark.width / bins,
        codes = array(s.cells[mark.name], 0, s.cells[mark.name][0], mark.count),
        { soft } = kit.ink;
      const right = mark.x + mark.width, bottom = mark.y + mark.height,
        span = scene.drawings[s.lanes[mark.name][0]][0] || 1;
      kit.text(pen, mark.heading, mark.x, mark.y - MARGIN - 16, 12, "left", soft);
      for (let i = 0; i < mark.count; i++) {
        const code = of(codes, i);
        if (!code) continue;
        pen.fillStyle = kit.colours[code];
        pen.fillRect(mark.x + column(i) * side, mark.y + row(i) * side, side, side);
      }
      const [sent, received] = bars(s), wide = side * 0.92;
      pen.fillStyle = kit.colours[s.code];
      for (let i = 0; i < bins; i++) {
        const up = sent(i) / span * MARGIN, along = received(i) / span * MARGIN,
          start = (i + 0.04) * side;
        pen.fillRect(mark.x + start, mark.y - 3 - up, wide, up);
        pen.fillRect(right + 3, mark.y + start, along, wide);
      }
      pen.strokeStyle = kit.ink.line;
      pen.lineWidth = 1;
      pen.strokeRect(mark.x, mark.y, mark.width, mark.height);
      straight(pen, [mark.x, mark.y], [right, bottom], 1);
      const block = side * ipu, crossed = new Set();
      for (let i = 0; i < mark.count && ipu; i++) {
        const to = ipuOf(row(i)), from = ipuOf(column(i));
        if (of(codes, i) && to !== from) crossed.add(to * bins + from);
      }
      pen.strokeStyle = kit.colours[link];
      pen.lineWidth = 1.5;
      for (const i of crossed)
        pen.strokeRect(mark.x + column(i) * block, mark.y + row(i) * block, block, block);
      for (const tick of mark.ticks) {
        const at = ipu ? (+tick + 0.5) * block
          : (Math.floor(+tick.replace(",", "") / each) + 0.5) * side, said = ipu ? `IPU ${tick}` : tick;
        kit.text(pen, said, mark.x + at, bottom + 14, 11, "center", soft);
        kit.text(pen, said, mark.x - 5, mark.y + at + 4, 11, "right", soft);
      }
      kit.text(pen, `columns: senders, rows: receivers, by ${ipu ? "IPU" : "tile"}`, right, bottom + 30,
        12, "right", soft);
      if (!kit.chosen) return;
      const { i } = kit.chosen;
      kit.framed(1.5, mark.x, mark.y + row(i) * side, mark.width, side);
      kit.framed(1.5, mark.x + column(i) * side, mark.y, side, mark.height);
      kit.framed(2.5, mark.x + column(i) * side, mark.y + row(i) * side, side, side);
    },

    partners(mark, s) {
      const middle = focus(s), { ink, soft } = kit.ink, found = [];
      for (let i = 0; i < bins; i++) {
        const received = bytes(s, middle * bins + i), sent = bytes(s, i * bins + middle);
        if (i !== middle && received + sent) found.push([i, received, sent]);
      }
      found.sort((a, b) => b[1] + b[2] - a[1] - a[2]);
      const most = Math.max(1, ...found.flatMap(([, a, b]) => [a, b])),
        shown = found.slice(0, MOST_PARTNERS);
      const x = mark.x + mark.width / 2, y = mark.y + mark.height / 2, own = name(middle),
        half = Math.ceil(shown.length / 2);
      const on = ipu ? ` of IPU ${ipuOf(middle)}` : "";
      kit.text(pen, `bytes between ${each > 1 ? "tiles" : "tile"} ${own}${on} and others`, mark.x,
        mark.y - 8, 12, "left", soft);
      const told = shown.map(([which, received, sent]) => [
        name(which), ...(received ? [`${words(received)} in`] : []),
        ...(sent ? [`${words(sent)} out`] : []), ...(ipu ? [`IPU ${ipuOf(which)}`] : [])]);
      const wide = NAME * Math.max(0, ...told.flat().map((said) => said.length)) + 6;
      shown.forEach(([which, received, sent], place) => {
        // On the right those with most, on the left the others.
        const way = place < half ? -1 : 1, k = way < 0 ? place : place - half,
          rows = way < 0 ? half : shown.length - half;
        const v = mark.y + (k + 0.5) / rows * mark.height, edge = x - way * mark.width / 2;
        const far = [edge + way * wide, v],
          near = [x - way * (NAME * own.length / 2 + 8), y + (v - y) / 4];
        const across = near[0] - far[0], down = near[1] - far[1], both = received && sent ? 4 : 0;
        if (ipu && ipuOf(which) !== ipuOf(middle)) {
          pen.strokeStyle = kit.colours[link];
          straight(pen, far, near, LINK);
        }
        pen.strokeStyle = pen.fillStyle = ink;
        for (const [size, inward, shift] of [[received, true, both], [sent, false, -both]]) {
          if (!size) continue;
          const part = shift / Math.hypot(across, down),
            ends = [far, near].map(([a, b]) => [a - part * down, b + part * across]);
          const [start, end] = inward ? ends : ends.reverse();
          arrow(pen, start, start, end, 1 + 2.5 * Math.sqrt(size / most));
        }
        told[place].forEach((said, k) =>
          kit.text(pen, said, edge, v + 4 + 13 * (k - (told[place].length - 1) / 2), k ? 11 : 12,
            way < 0 ? "right" : "left", k ? soft : ink));
      });
      kit.text(pen, own, x, y + 5, 14, "center", ink);
      const more = found.length - shown.length;
      if (more)
        kit.text(pen, `and ${words(more)} others`, mark.x + mark.width, mark.y + mark.height + 12,
          12, "right", soft);
    },
  };
  function hit(mark, x, y) {
    const side = mark.width / bins, across = Math.floor((x - mark.x) / side),
      down = Math.floor((y - mark.y) / side);
    // A bar of the margins is its whole column or row: the first of it in which something is.
    const first = (cells) => cells.find((i) => bytes(now(), i)) ?? -1,
      all = [...Array(bins).keys()];
    const within = (n) => n >= 0 && n < bins;
    if (within(across) && within(down)) return down * bins + across;
    if (within(across) && y > mark.y - 3 - MARGIN && y < mark.y)
      return first(all.map((r) => r * bins + across));
    if (within(down) && x > mark.x + mark.width && x < mark.x + mark.width + 3 + MARGIN)
      return first(all.map((c) => down * bins + c));
    return -1;
  }
  function about(mark, i) {
    const s = now(), plural = each > 1 ? "tiles" : "tile", [sent, received] = bars(s),
      n = of(array(s.values, "messages", s.values.messages, mark.count), i);
    const here = bytes(s, i)
      ? `${words(bytes(s, i))} bytes in ${words(n)} message${n === 1 ? "" : "s"}` : "nothing";
    const [from, to] = [column(i), row(i)]
      .map((k) => name(k) + (ipu ? ` of IPU ${ipuOf(k)}` : "")), s_ = each > 1 ? "" : "s";
    return `From ${plural} ${from} to ${plural} ${to}: ${here}. `
      + `In all, ${from} deliver${s_} ${words(sent(column(i)))} `
      + `and ${to} receive${s_} ${words(received(row(i)))} bytes.`;
  }
  const at = () => (kit.chosen ? kit.chosen.i : focus(now()) * bins);
  const clamp = (n) => Math.min(bins - 1, Math.max(0, n));
  const go = (down, across) => () =>
    kit.choose(matrix, clamp(row(at()) + down) * bins + clamp(column(at()) + across));
  // The next tile by what it sends or receives, most first.
  function next(which) {
    return () => {
      const value = bars(now())[which],
        order = [...Array(bins).keys()].sort((a, b) => value(b) - value(a));
      const place = kit.chosen ? order.indexOf(which ? row(kit.chosen.i) : column(kit.chosen.i))
        : -1, found = order[(place + 1) % bins];
      const cells = [...Array(bins).keys()]
        .map((k) => (which ? found * bins + k : k * bins + found));
      kit.choose(matrix, cells.find((i) => bytes(now(), i)) ?? cells[0]);
    };
  }
  const content =
    EXTRA.content(
      kit, () => (kit.chosen && each === 1 ? [column(kit.chosen.i), row(kit.chosen.i)] : []));
  return {
    draw, hit, about, ...content,
    help: "Shift with left and right goes along a row; "
      + "S and R go to the next tile by bytes delivered or received.",
    keys: {
      ArrowUp: go(-1, 0), ArrowDown: go(1, 0), "Shift ArrowLeft": go(0, -1),
        "Shift ArrowRight": go(0, 1), s: next(0), r: next(1),
    },
  };
};
