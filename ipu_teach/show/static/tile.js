// The lanes of workers and of memory are the player's, the code below them is a tree. A worker's
// vertices can be pointed at.
EXTRA.tile = (kit) => {
  const { scene, canvas, array, of, marks: { workers } } = kit;
  const tree = scene.marks.some((mark) => mark.kind === "tree") ? EXTRA.tree(kit) : {};
  const { draw, lay, nodes } = tree, plain = kit.DRAW.lanes;
  const lane = () => (kit.chosen?.mark === workers ? kit.chosen.i : -1);
  // The vertices of a worker in this step: number, start, cycles, and the code of the codelet.
  function vertices(worker) {
    const s = kit.still(kit.frameAt()), bars = scene.drawings[s.lanes.workers[0]][2],
      lanes = scene.vertices[kit.frames[kit.frameAt()]];
    const [count, packed] = lanes[worker], numbers = array(lanes[worker], "numbers", packed, count);
    const own = bars.slice(bars.length - Math.max(...lanes.map(([n]) => n)));
    const at = (bar, k) => of(array(bar, k, bar[k], workers.count), worker);
    return Array.from(
      { length: count }, (_, k) => [of(numbers, k), at(own[k], 1), at(own[k], 2), at(own[k], 0)]);
  }
  let which = -1;  // of the vertices of the chosen worker
  const scale = () =>
    workers.width / (scene.drawings[kit.still(kit.frameAt()).lanes.workers[0]][0] || 1);
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = kit.spot(event), worker = kit.hit(workers, x, y);
    const cycle = (x - workers.x) / scale(), before = which;
    which = worker < 0 ? -1
      : vertices(worker).findIndex(([, start, long]) => start <= cycle && cycle < start + long);
    if (which !== before && worker === lane()) kit.refresh();
  });
  const step = (by) => () => {
    const worker = Math.max(0, lane()), count = vertices(worker).length;
    which = lane() < 0 ? Math.min(0, count - 1) : Math.min(count - 1, Math.max(0, which + by));
    kit.choose(workers, worker);
  };
  return {
    lay, nodes: nodes || [],
    hit: tree.hit || kit.hit,
    draw: {
      ...draw,
      lanes(mark, ...rest) {
        plain(mark, ...rest);
        const found = mark === workers && lane() >= 0 && vertices(lane())[which];
        if (!found) return;
        const [left, top, , high] = kit.laneOf(mark, lane());
        kit.framed(3, left + found[1] * scale(), top, Math.max(2, found[2] * scale()), high);
      },
    },
    about(mark, i) {
      if (mark !== workers) return tree.about ? tree.about(mark, i) : "";
      const found = vertices(i)[which];
      if (!found) return "";
      const [number, start, long, code] = found,
        cost = long ? `${words(long)} of the tile's modelled cycles, `
          + `from ${words(start)} to ${words(start + long)}` : "no estimate";
      return `worker ${i}, vertex ${words(number)} of ${scene.codes[code][0]}: ${cost}.`;
    },
    help: "Comma and full stop go through the vertices of a worker.",
    keys: { ",": step(-1), ".": step(1) },
  };
};
