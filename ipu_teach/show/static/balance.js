// The run as a whole, how many tiles take how long, and the way to the superstep in which most is
// lost.
EXTRA.balance = (kit) => {
  const { worst } = kit.scene, tape = EXTRA.tape(kit), painted = EXTRA.painted(kit);
  function next() {
    const place = worst.findIndex((f) => kit.frames[f] === kit.frames[kit.frameAt()]);
    kit.pause();
    kit.go(worst[(place + 1) % worst.length] + 1);
  }
  return {
    draw: { ...painted.draw, tape: tape.draw },
    hit: painted.hit,
    nodes: [kit.make("div", { className: "row" }, kit.button("Next worst", next))],
    help: "W goes to the one in which next most is lost in all its runs.",
    keys: { w: next },
  };
};
