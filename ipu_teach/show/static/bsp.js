// The messages of an exchange, which only the view of a run has.
EXTRA.bsp = (kit) => {
  const { pen, marks, array, place } = kit;

  function arrow(start, bend, end, thick, head) {
    pen.lineWidth = thick;
    pen.beginPath();
    pen.moveTo(...start);
    pen.quadraticCurveTo(...bend, ...end);
    pen.stroke();
    if (!head) return;
    const angle = Math.atan2(end[1] - bend[1], end[0] - bend[0]), size = 4 + thick;
    pen.beginPath();
    pen.moveTo(...end);
    for (const turn of [2.7, -2.7]) pen.lineTo(end[0] + size * Math.cos(angle + turn), end[1] + size * Math.sin(angle + turn));
    pen.fill();
  }

  return {
    draw: {
      flows(mark, s, progress) {
        const messages = s.flows && s.flows[mark.name];
        if (!messages) return;
        const cells = marks[mark.between], most = Math.max(...messages.map((m) => m[1]));
        const middle = (i) => place(cells, i).map((v) => v + cells.side * 0.47);
        pen.strokeStyle = pen.fillStyle = kit.ink.ink;
        pen.setLineDash(kit.marching ? [7, 4] : []);
        pen.lineDashOffset = -progress * 66;
        for (const [source, size, receivers] of messages) {
          const start = middle(source), thick = 1 + 2.5 * Math.sqrt(size / most);
          if (typeof receivers === "number") {
            const end = middle(receivers), [x, y] = start, [u, v] = end;
            arrow(start, [(x + u) / 2 + 0.18 * (v - y), (y + v) / 2 - 0.18 * (u - x)], end, thick, true);
            continue;
          }
          const ends = Array.from(array(receivers, 1, receivers[1], receivers[0]), middle);
          const mean = [0, 1].map((k) => ends.reduce((sum, e) => sum + e[k], 0) / ends.length);
          const fork = start.map((v, k) => v + 0.45 * (mean[k] - v));
          arrow(start, start, fork, thick + 0.5, false);
          if (ends.length <= 24) {
            for (const end of ends) arrow(fork, fork, end, 0.8, true);
          } else {
            const h = cells.side / 2, xs = ends.map((e) => e[0]), ys = ends.map((e) => e[1]);
            const left = Math.min(...xs) - h, top = Math.min(...ys) - h;
            pen.lineWidth = 1.5;
            pen.strokeRect(left, top, Math.max(...xs) + h - left, Math.max(...ys) + h - top);
          }
        }
        pen.setLineDash([]);
      },
    },
  };
};
