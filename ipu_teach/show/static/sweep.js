// Runs side by side: a line over what each is made of, drawn as in trend.py.
EXTRA.sweep = (kit) => {
  const { pen, array, of } = kit, LETTER = 6.2, DOT = 7;
  const draw = {
    trend(mark) {
      const pitch = mark.width / mark.count, bottom = mark.y + mark.height, scale = mark.height / mark.top, { soft, line, ink, paper } = kit.ink;
      const heights = array(mark, "heights", mark.heights, mark.count), middle = (k) => mark.x + (k + 0.5) * pitch;
      const high = (k) => bottom - of(heights, k) * scale, there = (k) => of(heights, k) >= 0;
      const within = (x, words) => Math.max(4 + LETTER * words.length / 2, Math.min(x, mark.x + mark.width + 12 - LETTER * words.length / 2));
      headed(kit, mark, mark.axis);
      const below = new Float64Array(mark.count);
      for (const code in mark.parts || {}) {
        const part = array(mark.parts, code, mark.parts[code], mark.count);
        pen.fillStyle = kit.brushes[code];
        for (let k = 0; k < mark.count; k++) {
          below[k] += of(part, k) * scale;
          pen.fillRect(middle(k) - 0.35 * pitch, bottom - below[k], 0.7 * pitch, of(part, k) * scale);
        }
      }
      pen.fillStyle = line;
      pen.fillRect(mark.x, bottom - 0.5, mark.width, 1);
      pen.strokeStyle = pen.fillStyle = ink;
      pen.lineWidth = 2;
      pen.beginPath();
      for (let k = 0; k < mark.count; k++) if (there(k)) pen[k && there(k - 1) ? "lineTo" : "moveTo"](middle(k), high(k));
      pen.stroke();
      const marked = new Map(mark.marked || []);
      for (let k = 0; k < mark.count; k++) {
        const side = marked.has(k) ? DOT : DOT / 2;
        if (there(k)) pen.fillRect(middle(k) - side / 2, high(k) - side / 2, side, side);
      }
      for (const [k, words] of marked) {
        const x = within(middle(k), words), half = LETTER * words.length / 2 + 2;
        pen.fillStyle = paper;
        pen.fillRect(x - half, high(k) - DOT - 14.5, 2 * half, 13);
        kit.text(pen, words, x, high(k) - DOT - 4, 11, "center", ink);
      }
      const each = Math.max(1, Math.ceil((LETTER * Math.max(...mark.labels.map((name) => name.length)) + 8) / pitch));
      for (let k = 0; k < mark.count; k += each) kit.text(pen, mark.labels[k], within(middle(k), mark.labels[k]), bottom + 14, 11, "center", soft);
      kit.text(pen, mark.foot || "", mark.x + mark.width, bottom + 29, 12, "right", soft);
      if (!kit.chosen) return;
      pen.strokeStyle = ink;
      pen.lineWidth = 1.5;
      pen.strokeRect(mark.x + kit.chosen.i * pitch, mark.y, pitch, mark.height);
    },
  };
  function hit(mark, x, y) {
    const inside = x >= mark.x && x < mark.x + mark.width && y > mark.y && y < mark.y + mark.height + 18;
    return inside ? Math.floor((x - mark.x) / mark.width * mark.count) : -1;
  }
  return { draw, hit, about: (mark, i) => mark.told[i], help: " " };
};
