// The messages of an exchange, which only the view of a run has.
EXTRA.bsp = (kit) => {
  const { pen, marks, place } = kit, tape = EXTRA.tape(kit);
  EXTRA.flows(kit);
  const content =
    EXTRA.content(
      kit, () => (kit.chosen?.mark === marks.tiles ? [kit.chosen.i, kit.chosen.i]
        : []));

  // From `start` towards `end`, to the rim of a square that reaches so far to each side: as in
  // paint.py.
  function toward(start, end, reach) {
    const by = end.map((v, k) => v - start[k]),
      part = Math.min(1, reach / (Math.max(...by.map(Math.abs)) || 1));
    return start.map((v, k) => v + part * by[k]);
  }

  return {
    draw: {
      flows(mark, s, progress) {
        const messages = s.flows?.[mark.name];
        if (!messages) return;
        const cells = marks[mark.between], most = Math.max(...messages.map((m) => m[1])),
          half = cells.side * 0.47;
        const middle = (i) => place(cells, i).map((v) => v + half),
          chosen = kit.chosen?.mark === cells ? kit.chosen.i : -1;
        const small =
          Math.min(1, Math.max(0.4, cells.side / 30)) * Math.min(
            1, Math.max(0.4, 20 / messages.length));
        pen.strokeStyle = pen.fillStyle = kit.ink.ink;
        const fan = messages.length > MOST_SPOKES && cells.side < SMALLEST_LABEL;
        for (const [source, size, to] of messages) {
          const receivers = [to].flat();
          // With a tile chosen, the messages of others are pale.
          pen.globalAlpha = chosen < 0 || chosen === source || receivers.includes(chosen) ? 1
            : 0.15;
          const start = middle(source), thick = (1 + 2.5 * Math.sqrt(size / most)) * small,
            one = receivers.length === 1;
          pen.setLineDash(kit.marching ? [7, 4] : []);
          pen.lineDashOffset = -progress * 66;
          if (fan || receivers.length > MOST_SPOKES) {
            pen.lineWidth = 1.5;
            pen.strokeRect(start[0] - half, start[1] - half, 2 * half, 2 * half);
            const dot = cells.side * 0.15;
            for (const [x, y] of receivers.map(middle))
              pen.fillRect(x - dot, y - dot, 2 * dot, 2 * dot);
            continue;
          }
          for (const end of receivers.map(middle)) {
            const [x, y] = start, [u, v] = end, bow = one ? 0.18 : 0;
            const bend = [(x + u) / 2 + bow * (v - y), (y + v) / 2 - bow * (u - x)];
            // between neighbours the arrow begins in the middle of the sender
            const near = Math.hypot(u - x, v - y) < 1.5 * cells.side;
            arrow(pen, toward(start, bend, near ? 0 : 0.28 * cells.side), bend,
              toward(end, bend, half + Math.min(1, 0.03 * cells.side)), one ? thick : 0.8);
          }
        }
        pen.globalAlpha = 1;
        pen.setLineDash([]);
      },
      tape: tape.draw,
    },
    ...content,
  };
};
