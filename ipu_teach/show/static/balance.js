// How many tiles take how long, the run as a whole, and the way to the superstep in which most is
// lost.
EXTRA.balance = (kit) => {
  const { scene, array, of, count, still } = kit;
  const tape = EXTRA.tape(kit), painted = EXTRA.painted(kit);
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
  // of equal ones the first
  const worst = order.filter((f) => !seen.has(kit.frames[f]) && seen.add(kit.frames[f]));
  function next() {
    const place = worst.findIndex((f) => kit.frames[f] === kit.frames[kit.frameAt()]);
    kit.pause();
    kit.go(worst[(place + 1) % worst.length] + 1);
  }
  return {
    draw: { ...painted.draw, tape: tape.draw },
    hit: (mark, x, y) => (mark.kind === "tape" ? tape : painted).hit(mark, x, y),
    about(mark, i) {
      const s = still(kit.frameAt());
      if (mark.kind === "tape")
        return `Lane ${words(i)} of the whole run; grey is the time in which its tiles wait.`;
      if (mark === lanes) {
        const busy = scene.drawings[s.lanes.lanes[0]][2]
          .map((b) => (b[4] >= 0 ? of(array(b, 2, b[2], lanes.count), i) : 0));
        const cycles = words(busy.reduce((a, b) => a + b, 0));
        return `Lane ${words(i)} of the sorted tiles: at work ${cycles} modelled cycles.`;
      }
      return "";
    },
    nodes: [kit.make("div", { className: "row" }, kit.button("Next worst", next))],
    help: "W goes to the superstep in which next most is lost.",
    keys: { w: next },
  };
};
