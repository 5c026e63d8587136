// How many tiles take how long, the run as a whole, and the way to the superstep in which most is lost.
EXTRA.balance = (kit) => {
  const { scene, pen, array, of, count, still } = kit, tape = EXTRA.tape(kit);
  const lanes = kit.marks.lanes;
  // The cycles of a frame that a tile waits, on average: the parts of its lanes that say so.
  const lost = Array.from({ length: count }, (_, f) => {
    let sum = 0;
    for (const bar of scene.drawings[still(f).lanes.lanes[0]][2]) {
      const lengths = array(bar, 2, bar[2], lanes.count);
      for (let i = 0; i < lanes.count && bar[4] >= 0; i++) sum += bar[3] - bar[1] - of(lengths, i);
    }
    return sum;
  });
  const seen = new Set(), order = [...lost.keys()].sort((a, b) => lost[b] - lost[a] || a - b);
  const worst = order.filter((f) => !seen.has(kit.frames[f]) && seen.add(kit.frames[f]));  // of equal ones the first
  function next() {
    const place = worst.findIndex((f) => kit.frames[f] === kit.frames[kit.frameAt()]);
    kit.pause();
    kit.go(worst[(place + 1) % worst.length] + 1);
  }
  return {
    draw: {
      tape: tape.draw,
      stack(mark, s) {
        const [span, unit, [bar]] = scene.drawings[s.lanes[mark.name][0]], values = array(bar, 2, bar[2], mark.count);
        const pitch = mark.width / mark.count, bottom = mark.y + mark.height, { soft, line, ink } = kit.ink;
        headed(kit, mark, `to ${words(span)} ${unit}`);
        pen.fillStyle = kit.brushes[bar[0]];
        for (let i = 0; i < mark.count; i++) {
          const high = of(values, i) / (span || 1) * mark.height;
          pen.fillRect(mark.x + i * pitch, bottom - high, pitch * 0.86, high);
        }
        pen.fillStyle = line;
        pen.fillRect(mark.x, bottom - 0.5, mark.width, 1);
        kit.text(pen, mark.ends[0], mark.x, bottom + 14, 11, "left", soft);
        kit.text(pen, mark.ends[1], mark.x + mark.width, bottom + 14, 11, "right", soft);
        if (kit.chosen && kit.chosen.mark === mark) {
          pen.strokeStyle = ink;
          pen.lineWidth = 2;
          pen.strokeRect(mark.x + kit.chosen.i * pitch, mark.y, pitch * 0.86, mark.height);
        }
      },
    },
    hit(mark, x, y) {
      if (mark.kind !== "stack") return tape.hit(mark, x, y);
      const inside = x >= mark.x && x < mark.x + mark.width && y > mark.y && y < mark.y + mark.height;
      return inside ? Math.floor((x - mark.x) / mark.width * mark.count) : -1;
    },
    about(mark, i) {
      const s = still(kit.frameAt());
      if (mark.kind === "tape") return `Lane ${words(i)} of the whole run; grey is the time in which its tiles wait.`;
      if (mark === lanes) {
        const busy = scene.drawings[s.lanes.lanes[0]][2].map((b) => (b[4] < 0 ? 0 : of(array(b, 2, b[2], lanes.count), i)));
        return `Lane ${words(i)} of the sorted tiles: at work ${words(busy.reduce((a, b) => a + b, 0))} modelled cycles.`;
      }
      if (mark.kind !== "stack") return "";
      const bar = scene.drawings[s.lanes[mark.name][0]][2][0], n = of(array(bar, 2, bar[2], mark.count), i);
      const parts = 100 / mark.count;
      return `${words(n)} tile${n === 1 ? " is" : "s are"} at work for ${words(i * parts)} to ${words((i + 1) * parts)} % of the slowest tile's time.`;
    },
    nodes: [kit.make("div", { className: "row" }, kit.button("Next worst", next))],
    help: "W goes to the superstep in which next most is lost.",
    keys: { w: next },
  };
};
