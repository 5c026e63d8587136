// One zoom through the sizes of a machine, drawn as in zoom.py; what is painted stands below it.
EXTRA.machine = (kit) => {
  const { pen, array, of, canvas } = kit, painted = EXTRA.painted(kit), mark = kit.marks.zoom, pipes = mark.labels.length;
  const tight = () => mark.width < 560, side = () => (tight() ? 150 : SIDE);
  // Where the pipe number i begins.
  const slot = (i) =>
    (tight() ? [mark.x, mark.y + side() + 12 + SLOT * i] : [mark.x + SIDE + 14, mark.y + SLOT * i]);
  function parts(level, x, y, wide) {
    const count = mark.counts[level], columns = Math.ceil(Math.sqrt(count)), cell = wide / columns,
      rim = cell * 0.06;
    pen.fillStyle = kit.colours[mark.part];
    if (cell < 3) {
      const full = Math.floor(count / columns);
      pen.fillRect(x, y, wide, full * cell);
      pen.fillRect(x, y + full * cell, count % columns * cell, cell);
    } else {
      for (let i = 0; i < count; i++) {
        const u = x + i % columns * cell + rim, v = y + Math.floor(i / columns) * cell + rim;
        if (u < mark.x + side() && v < mark.y + side())
          pen.fillRect(u, v, cell - 2 * rim, cell - 2 * rim);
      }
    }
    if (!level) return;
    const inner = cell - 2 * rim;
    pen.fillStyle = kit.colours[mark.first];
    pen.fillRect(x + rim, y + rim, inner, inner);
    if (inner > 12) parts(level - 1, x + rim + 2, y + rim + 2, inner - 4);
  }
  const draw = {
    zoom(_, s, progress, frame) {
      const { ink, soft } = kit.ink, columns = Math.ceil(Math.sqrt(mark.counts[frame])),
        near = frame ? columns ** (1 - progress) : 1;
      kit.fitted(mark.names[frame], mark.x, mark.y - 8, mark.width, 12, soft);
      pen.save();
      pen.beginPath();
      pen.rect(mark.x, mark.y, side(), side());
      pen.clip();
      parts(frame, mark.x, mark.y, side() * near);
      pen.restore();
      const rates = array(s.values, "rate", s.values.rate, pipes);
      let most = 1;
      for (let i = 0; i < pipes; i++) most = Math.max(most, of(rates, i));
      for (let i = 0; i < pipes; i++) {
        const [x, top] = slot(i), right = mark.x + mark.width, left = tight() ? x : x - 14;
        kit.text(pen, `${mark.labels[i]} ${mark.rates[frame * pipes + i]}`, x, top + 11, 12, "left",
          ink);
        if (of(rates, i)) {
          const wide = Math.max(1, THICK * of(rates, i) / most);
          pen.fillStyle = kit.brushes[mark.codes[i]];
          pen.fillRect(left, top + 28 - wide / 2, right - left, wide);
          kit.fitted(tight() ? mark.figures[i].split("; ")[0] : mark.figures[i], x, top + 52,
            right - x, 11, soft);
        }
        if (kit.chosen?.mark === mark && kit.chosen.i === i)
          kit.framed(1.5, left - 2, top + 14, right - left + 4, 28);
      }
    },
  };
  function hit(m, x, y) {
    if (m !== mark) return painted.hit(m, x, y);
    for (let i = 0; i < pipes; i++) {
      const [left, top] = slot(i);
      if (x >= left - 14 && x < mark.x + mark.width && y >= top && y < top + SLOT) return i;
    }
    return -1;
  }
  return {
    draw: { ...painted.draw, ...draw }, hit,
    about: (m, i) => m === mark && mark.told[kit.frameAt() * pipes + i],
    lay() {
      const grown = tight() ? side() + 4 + SLOT * pipes - mark.home.height : 0;
      for (const m of kit.scene.marks) m.y += m.y > mark.y ? grown : 0;
      kit.resize(kit.scene.size[1] + grown);
    },
  };
};
