// A run as a whole, on an axis that it may share with another: for the views that name this file in
// make_scripts.py.
EXTRA.tape = (kit) => {
  const { pen, begin, count, still } = kit;
  return {
    draw(mark, s, progress, frame) {
      const own = (f) => still(f).lanes?.[mark.name],
        scale = mark.width / mark.span;
      let first = 0, last = count;
      while (!own(first)) first++;
      while (!own(last - 1)) last--;
      const picture = kit.keep(mark.name, mark.width, mark.height, (p) => {
        for (let f = first; f < last; f++) {
          kit.bars(p, own(f)[0], mark.count, (begin[f] - begin[first]) * scale, 0, scale,
            mark.height / mark.count, mark.width);
        }
      });
      headed(kit, { ...mark, y: mark.y - (mark.named ? 28 : 0) }, "");
      for (let f = first; mark.named && f < last; f++) {
        const wide = still(f).cycles * scale - 4, name = still(f).label.replace(/^.*?: \S+ /, "");
        if (wide > NAMED)
          kit.fitted(name, mark.x + (begin[f] - begin[first]) * scale + 2, mark.y - mark.named,
            wide, 11, kit.ink.ink);
      }
      pen.drawImage(picture, mark.x, mark.y, mark.width, mark.height);
      kit.labels(mark);
      pen.fillStyle = kit.ink.ink;
      const here = begin[frame] + progress * s.cycles - begin[first];
      if (own(frame)) pen.fillRect(mark.x + here * scale - 1, mark.y - 4, 2, mark.height + 8);
      if (kit.chosen?.mark === mark) kit.framed(2, ...kit.laneOf(mark, kit.chosen.i));
    },
  };
};
