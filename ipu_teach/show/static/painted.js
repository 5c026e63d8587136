// What stands still, as Python painted it (painted.py): pictures of shapes, of which a still shows
// one, parts of it that can be pointed at, and switches that choose among pictures.
EXTRA.painted = (kit) => {
  const { scene, pen, array, of } = kit, kept = new Map();
  const marks = scene.marks.filter((mark) => mark.kind === "painted");
  const switches = marks.flatMap((mark) => mark.switches || []);
  const keys = {}, help = [];
  const buttons = switches.map(([key, title, does, on]) => {
    const button = kit.button(title, turn);
    button.ariaPressed = `${on}`;
    function turn() {
      button.ariaPressed = `${button.ariaPressed === "false"}`;
      kit.refresh();
    }
    keys[key] = turn;
    help.push(`${key.toUpperCase()} ${does}`);
    return button;
  });
  // The picture that shows: bit k of its number says whether the switch k was turned.
  function picture(mark, s) {
    let number = (s.pictures || {})[mark.name] || 0;
    number *= 2 ** (mark.switches || []).length;
    (mark.switches || []).forEach((one, k) => {
      const on = buttons[switches.indexOf(one)].ariaPressed === "true";
      if (on !== one[3]) number += 2 ** k;
    });
    const shown = mark.pictures[number];
    return rows(shown, [shown[1]], shown[0]).map(([i]) => scene.shapes[i]);
  }
  // Tenths of a unit, as the page is wide: beside the mark things keep their distance from it.
  function across(mark, tenths) {
    const x = tenths / 10, { width } = mark.home;
    if (x < 0) return mark.x + x;
    return mark.x + (x > width ? mark.width + x - width : x * mark.width / width);
  }
  const down = (mark, tenths) => mark.y + tenths / 10;
  // Rows of the numbers of a shape, unpacked once.
  function rows(shape, packed, count) {
    if (!kept.has(shape)) {
      const made = packed.map((column) => unpack(column, count));
      kept.set(shape, Array.from({ length: count }, (_, i) => made.map((column) => column[i])));
    }
    return kept.get(shape);
  }
  const placeOf = (mark, i) => {
    const [x, y, w, h] =
      mark.places.map((side, k) => of(array(mark.places, k, side, mark.count), i));
    const left = across(mark, x);
    return [left, down(mark, y), across(mark, x + w) - left, h / 10];
  };

  const SHAPES = {
    b(mark, shape) {
      const [, count, ...columns] = shape;  // x, width, and of each code itself, y and height
      for (const [x, w, ...parts] of rows(shape, columns, count)) {
        const left = across(mark, x), wide = across(mark, x + w) - left;
        for (let k = 0; k < parts.length; k += 3) {
          pen.fillStyle = kit.brushes[parts[k]];
          pen.fillRect(left, down(mark, parts[k + 1]), wide, parts[k + 2] / 10);
        }
      }
    },
    r(mark, shape) {
      const [, x, y, w, h, high, wide, packed] = shape, left = across(mark, x);
      const image = kit.keep(`raster ${scene.shapes.indexOf(shape)}`, wide, high, (p) => {
        const codes = array(shape, 0, packed, high * wide);
        p.setTransform(1, 0, 0, 1, 0, 0);
        for (let i = 0; i < high * wide; i++) {
          const code = of(codes, i);
          p.fillStyle = kit.colours[code];
          if (code >= 0) p.fillRect(i % wide, Math.floor(i / wide), 1, 1);
        }
      });
      pen.imageSmoothingEnabled = false;
      pen.drawImage(
        image, 0, 0, wide, high, left, down(mark, y), across(mark, x + w) - left, h / 10);
    },
    l(mark, shape) {
      const [, count, thick, role, tip, ...packed] = shape;
      pen.strokeStyle = pen.fillStyle = kit.ink[role];
      for (const steps of rows(shape, packed, count)) {
        const points = [...steps];
        for (let k = 2; k < points.length; k++) points[k] += points[k - 2];
        const at = points.map((v, k) => (k % 2 ? down : across)(mark, v));
        if (thick > 3) {  // no line, but a dot or the ground of a word: as long as it was
          const half = (points[2] - points[0]) / 20, middle = (at[0] + at[2]) / 2;
          [at[0], at[2]] = [middle - half, middle + half];
        }
        arrow(pen, at.slice(0, 2), at.slice(-4, -2), at.slice(-2), thick, tip);
      }
    },
    o(mark, shape) {
      const [, code, count, xs, ys, filled, thick] = shape, path = new Path2D();
      for (const [x, y] of rows(shape, [xs, ys], count))
        path.lineTo(across(mark, x), down(mark, y));
      pen.fillStyle = kit.brushes[code];
      pen.strokeStyle = kit.colours[code];
      pen.lineWidth = thick;
      if (filled) pen.fill(path); else pen.stroke(path);
    },
  };
  // Words keep their size: those that would run into others of their line are left out, those in
  // boxes all together, and those that begin at their left end, as headings do, are cut at what
  // comes next. Of a heading, what explains a word gets a line of its own.
  function write(mark, shapes) {
    const [wide] = scene.size;
    const lines = shapes.flatMap((shape) => {
      const [, count, xs, ys, size, anchor, ink, ...texts] = shape;
      pen.font = `${size}px system-ui, sans-serif`;
      return rows(shape, [xs, ys], count).map(([x, y], i) => {
        const long = pen.measureText(texts[i]).width, left = across(mark, x) - long * anchor / 2;
        const start = anchor ? Math.max(4, Math.min(left, wide - 4 - long)) : left;
        return { text: texts[i], start, end: start + long, y: down(mark, y), size, anchor, ink };
      });
    });
    let fixed = [];
    const crowded = new Set();
    for (const line of lines.filter((one) => one.anchor)) {
      const near = (one) => one.y === line.y && one.start < line.end + 4
        && line.start < one.end + 4;
      if (!fixed.some(near)) fixed.push(line); else if (kit.colours[line.ink]) crowded.add(line.y);
    }
    fixed = fixed.filter(({ ink, y }) => !kit.colours[ink] || !crowded.has(y));
    const roomOf = ({ y, start }) => Math.min(wide - 8, ...[...fixed, ...lines]
      .filter((one) => one.y === y && one.start > start).map((one) => one.start - 6)) - start;
    // above what stands beside the mark
    const start = wide < NARROW ? Math.min(16, mark.x) : mark.x, y = down(mark, -80);
    const head = (text, up) => {
      pen.font = "12px system-ui, sans-serif";
      const end = start + pen.measureText(text).width;
      return { text, start, end, y: y - up, size: 12, anchor: 0, ink: "soft" };
    };
    const whole = head(mark.heading || "", 0), [short, rest] = split(whole.text, "; ");
    lines.push(...(rest && whole.end - start > roomOf(whole) ? [head(short, 15), head(rest, 0)] : [whole]));
    const put = ({ text, start, y, size, ink }) => {
      const ground = kit.colours[ink];
      kit.text(pen, text, start, y, size, "left", ground ? inkOn(ground) : kit.ink[ink], ground);
    };
    fixed.forEach(put);
    for (const line of lines.filter((one) => !one.anchor)) {
      const room = roomOf(line);
      if (line.end - line.start > room)
        kit.fitted(line.text, line.start, line.y, room, line.size, kit.ink[line.ink]);
      else put(line);
    }
  }
  function light(mark) {
    const { chosen } = kit;
    for (let i = 0; chosen && i < mark.count; i++) {
      const itself = mark === chosen.mark && i === chosen.i;
      if (!itself && kit.keyOf(mark, i) !== chosen.key) continue;
      kit.framed(2, ...placeOf(mark, i));
    }
  }
  return {
    draw: {
      painted(mark, s) {
        const shapes = picture(mark, s);
        for (const shape of shapes) if (shape[0] !== "w") SHAPES[shape[0]](mark, shape);
        write(mark, shapes.filter(([kind]) => kind === "w"));
        light(mark);
      },
    },
    hit(mark, x, y) {
      if (mark.kind !== "painted") return kit.hit(mark, x, y);
      for (let i = 0; i < mark.count; i++) {
        const [left, top, wide, high] = placeOf(mark, i);
        if (x >= left && x < left + wide && y >= top && y < top + high) return i;
      }
      return -1;
    },
    nodes: [buttons.length ? kit.make("div", { className: "row" }, ...buttons) : ""],
    help: help.length ? `${help.join(", ")}.` : "", keys,
  };
};
