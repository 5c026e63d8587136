// What is under way between the boxes of a board: numbers, of many messages arrows, and links
// between IPUs. board.py draws the same.
EXTRA.messages = (kit, shown) => {
  const { scene, pen } = kit,
    { board, texts, at, before, box, row, focus, lastOf, cellName } = shown,
    { link, short, corner, cellAt, wide, line, write, underWay } = shown;

  // Of many messages arrows from box to box, those of the chosen box the darkest; the host's are
  // words.
  function folded(messages) {
    const own = box(focus()), has = (m) => m[0] === own || m[2] === own;
    let pairs = messages.filter((m) => m[0] >= 0 && m[2] >= 0).sort((m, k) => has(m) - has(k)),
      said = `${messages.length} messages, ${words(messages.reduce((sum, m) => sum + m[1], 0))} B`;
    if (pairs.length > MOST_ARROWS) {
      pairs = pairs.filter(has);
      said += `; arrows: tile ${board.tiles[own]}`;
    }
    write(said, board.x + board.width, board.y - 8, 12, "right", kit.ink.soft);
    for (const m of pairs) {
      const [start, end] = [m[0], m[2]].map((b, k) => {
        const [x, y] = corner(b);  // to and fro are two lines
        return [x + wide() * (k ? 0.7 : 0.3), y + board.high - (m[0] < m[2] ? 11 : 5)];
      });
      const thick = has(m) ? 1.5 : 1, right = board.x + board.width, ahead = m[2] === m[0] + 1;
      pen.strokeStyle = pen.fillStyle = has(m) ? kit.ink.ink : kit.ink.line;
      if (Math.abs(m[0] - m[2]) !== 1 || corner(m[0])[1] === corner(m[2])[1]) arrow(pen, start, start, end, thick);
      else {  // from the end of a row to the beginning of the next, or back: round the rim
        straight(pen, start, [ahead ? right : board.x, start[1]], thick);
        arrow(pen, [ahead ? board.x : right, end[1]], [ahead ? board.x : right, end[1]], end, thick);
      }
    }
  }
  // An arrow beside the boxes for each two IPUs between which something is under way, with a line
  // and ends of its own. One or two have their bytes as labels.
  function between(links) {
    const code = Math.max(0, scene.codes.findIndex((c) => c[1] === "L")), few = links.length < 3,
      right = board.x + board.width, left = right - GUTTER + 6, met = {},
      all = links.flatMap((m) => [m[0], m[2]]), sizes = links.map((m) => m[1]);
    const each = Math.min(...sizes) === Math.max(...sizes) ? `${words(sizes[0])} B each`
      : `${words(sizes.reduce((a, b) => a + b))} B`;
    if (!few) write(`${links.length} messages, ${each}`, right, board.y - 8, 12, "right", kit.ink.soft);
    links.forEach(([source, size, to], k) => {
      const [a, b] = [source, to].map((box) => {
        met[box] = (met[box] || 0) + 1;
        return corner(box)[1]
          + board.high * met[box] / (all.filter((other) => other === box).length + 1);
      });
      const x = left + 12 + (GUTTER - 22) * k / Math.max(1, links.length - 1), y = (a + b) / 2 + 20 * k;
      pen.strokeStyle = pen.fillStyle = kit.ink.ink;
      straight(pen, [left, a], [x, a], 2);
      straight(pen, [x, a], [x, b], 2);
      arrow(pen, [x, b], [x, b], [left + 2, b], 2);
      if (!few) return;
      pen.fillStyle = kit.colours[code];
      pen.fillRect(right - 56, y - 9, 56, 16);
      write(`${words(size)} B`, right - 28, y + 3, 11, "center", inkOn(kit.colours[code]));
    });
  }

  // The packets under way: what each says and its width, the ends of its line, how far it is on it,
  // and its code.
  function packetsOf([messages, now], s, frame) {
    const landed = {}, here = at(before(frame)), then = at(lastOf(frame));
    // of many messages there are arrows, under the cells
    if (messages.length > MOST_PACKETS || messages.some(link)) return [];
    return messages.map(([source, size, to, start, end, some, after, held]) => {
      const [cell] = some, t = texts[(after ? then : here)[cell]];
      const said = held === 1 && t ? short(t, 44) : `${words(size)} B`,
        w = OF_LETTER * said.length + 8;
      const [[x, y], [u, v]] = [source, to].map((b, k) => {
        if (b < 0) return [board.x + board.width / 2, board.y - 12];
        if (some.length && box(cell) === b) {
          const [cx, cy, cw, ch] = cellAt(cell);
          return [cx + cw / 2, cy + ch / 2];
        }
        const [bx, by] = corner(b), fit = Math.max(1, (wide() - 4) / 48 | 0),
          slot = (landed[b] || 0) % fit;
        if (k) landed[b] = (landed[b] || 0) + 1;
        return [bx + 4 + w / 2 + (k ? 48 * slot : 0), by + board.high - 11];
      });
      const part = Math.min(1, Math.max(0, (now - start) / (end - start || 1)));
      return [said, w, x, y, u, v, part, some.length ? board.rims[row(cell)] : s.code];
    });
  }

  return {
    detail(mark, s, progress, frame) {
      const { ink, soft } = kit.ink, b = box(focus()), now = at(before(frame)),
        old = s.cycles ? now : at(frame - 1);
      write(`tile ${board.tiles[b]} holds`, mark.x, mark.y - 8, 12, "left", soft);
      const cells = [...Array(board.count).keys()].filter((i) => box(i) === b), fit = mark.height / LINE | 0;
      const shown = cells.length <= fit ? cells : cells.slice(0, fit - 1),
        right = mark.x + mark.width;
      shown.forEach((i, k) => {
        const y = mark.y + 12 + LINE * k;
        const value = short(texts[now[i]], 66, 6), same = kit.at <= 0 || old[i] === now[i];
        pen.font = "12px system-ui, sans-serif";
        kit.fitted(cellName(i), mark.x, y, mark.width - (same ? pen.measureText(value).width + 8 : 140), 12,
          i === focus() ? ink : soft);
        write(value, right, y, 12, "right", ink);
        if (same) return;
        const was = short(texts[old[i]], 66, 6);
        write(was, right - 70, y, 12, "right", soft);
        pen.strokeStyle = soft;
        pen.lineWidth = 1;
        line(right - 70 - pen.measureText(was).width, y - 4, right - 70, y - 4);
      });
      if (shown.length < cells.length)
        write(`and ${words(cells.length - shown.length)} more`, mark.x,
          mark.y + 12 + LINE * shown.length, 12, "left", soft);
    },

    board(mark, s, progress, frame) {
      const sent = underWay(frame, progress), [messages] = sent;
      if (messages.length > MOST_PACKETS && !messages.some(link)) folded(messages);
      pen.strokeStyle = kit.ink.line;
      pen.lineWidth = 1;
      for (const [, , x, y, u, v] of packetsOf(sent, s, frame)) line(x, y, u, v);
      shown.draw.board(mark, s, progress, frame);
    },

    flows(mark, s, progress, frame) {
      const sent = underWay(frame, progress), [messages] = sent;
      if (messages.some(link)) return between(messages);
      for (const [said, w, x, y, u, v, part, code] of packetsOf(sent, s, frame)) {
        const px = x + part * (u - x), py = y + part * (v - y);
        pen.fillStyle = kit.colours[code];
        pen.strokeStyle = kit.ink.paper;
        pen.beginPath();
        pen.roundRect(px - w / 2, py - 8, w, 16, 4);
        pen.fill();
        pen.stroke();
        write(said, px, py + 4, 11, "center", inkOn(kit.colours[code]));
      }
    }
  };
};
