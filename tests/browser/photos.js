// Notes what is drawn on each canvas of a page, and lists the faults that a photograph would show:
// `faults()` returns [number of texts, [[fault, text, …], …]]. `posterFaults()` does so for the
// texts of an SVG.
(() => {
  const pens = CanvasRenderingContext2D.prototype, drawn = new Map();
  let path = [];

  // A rectangle of a drawing in pixels of the page, relative to its canvas: [left, top, right, bottom].
  function placed(pen, left, top, right, bottom) {
    const m = pen.getTransform(), scale = pen.canvas.width / (pen.canvas.clientWidth || pen.canvas.width);
    const corners = [[left, top], [right, top], [left, bottom], [right, bottom]]
      .map(([x, y]) => [(m.a * x + m.c * y + m.e) / scale, (m.b * x + m.d * y + m.f) / scale]);
    const [xs, ys] = [0, 1].map((axis) => corners.map((corner) => corner[axis]));
    return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
  }
  function note(pen, entry) {
    if (!drawn.has(pen.canvas)) drawn.set(pen.canvas, []);
    drawn.get(pen.canvas).push(entry);
  }
  function before(name, act) {
    const original = pens[name];
    pens[name] = function (...parts) {
      act(this, ...parts);
      return original.apply(this, parts);
    };
  }
  before("clearRect", (pen, x, y, width) => width > 60 && drawn.set(pen.canvas, []));
  before("fillText", (pen, text, x, y) => {
    const m = pen.measureText(text);
    if (text.trim())
      note(pen, { text, box: placed(pen, x - m.actualBoundingBoxLeft, y - m.actualBoundingBoxAscent,
        x + m.actualBoundingBoxRight, y + m.actualBoundingBoxDescent) });
  });
  const covers = (pen, x, y, width, height) => note(pen, { covers: placed(pen, x, y, x + width, y + height) });
  before("fillRect", (pen, ...box) => /rgba/.test(pen.fillStyle) || covers(pen, ...box));
  before("drawImage", (pen, image, ...box) => box.length > 2 && covers(pen, ...box.slice(-4)));
  before("beginPath", () => { path = []; });
  before("moveTo", (pen, x, y) => { path = [[x, y]]; });
  before("lineTo", (pen, x, y) => path.push([x, y]));
  before("stroke", (pen, shape) => shape || note(pen, { line: path.map(([x, y]) => placed(pen, x, y, x, y)) }));

  const overlap = (a, b, by = 1) => [0, 1].every(
    (axis) => Math.min(a[axis + 2], b[axis + 2]) - Math.max(a[axis], b[axis]) > by);
  const outside = ([left, top, right, bottom], width, height) =>
    left < -0.5 || top < -0.5 || right > width + 0.5 || bottom > height + 0.5;
  function crosses(start, end, box) {
    let [low, high] = [0, 1];
    for (const axis of [0, 1]) {
      const long = end[axis] - start[axis], sides = [box[axis] + 1, box[axis + 2] - 1];
      const [from, to] = sides.map((side) => (side - start[axis]) / (long || 1e-9)).sort((a, b) => a - b);
      [low, high] = [Math.max(low, from), Math.min(high, to)];
    }
    return low < high;
  }
  function pairs(texts, fault) {
    const found = [];
    texts.forEach((a, i) => texts.slice(i + 1).forEach(
      (b) => overlap(a.box, b.box) && (!a.node || a.node !== b.node) && found.push([fault, a.text, b.text])));
    return found;
  }
  function onCanvas(canvas, entries) {
    const texts = entries.map((entry, at) => ({ ...entry, at })).filter((entry) => entry.text);
    const found = pairs(texts, "texts overlap");
    for (const { text, box, at } of texts) {
      if (outside(box, canvas.clientWidth, canvas.clientHeight)) found.push(["text cut by the edge", text]);
      for (const { covers: other, line } of entries.slice(at)) {
        if (other && overlap(box, other, 1.5)) found.push(["text covered", text]);
        if (line?.some((point, k) => k && crosses(line[k - 1], point, box))) found.push(["line over a text", text]);
      }
    }
    return [texts.length, found];
  }
  // The texts beside the canvas, as far as one sees them.
  function onPage(main) {
    const texts = [], walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
      const parent = node.parentElement;
      if (!node.data.trim() || /STYLE|SCRIPT|OPTION/.test(parent.tagName)
        || parent.closest("details:not([open])") && !parent.closest("summary")) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const frame = parent.closest("pre")?.getBoundingClientRect();
      for (const { left, top, right, bottom, width } of range.getClientRects())
        if (width && (!frame || top + 3 < frame.bottom && bottom - 3 > frame.top))
          texts.push({ node, text: node.data.slice(0, 60), box: [left, top + 3, right, bottom - 3] });
    }
    return texts;
  }
  window.faults = () => {
    const main = document.querySelector("main"), texts = onPage(main);
    const found = pairs(texts, "texts of the page overlap");
    if (document.documentElement.scrollWidth > innerWidth) found.push(["the page scrolls"]);
    for (const node of main.querySelectorAll(".ipu-live, .ipu-live *"))
      if (node.clientWidth && node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX !== "visible")
        found.push(["a part scrolls", `${node.tagName} ${node.className}`]);
    for (const { text, box } of texts)
      if (box[0] < 0 || box[2] > innerWidth + 0.5) found.push(["text of the page cut", text]);
    let count = texts.length;
    for (const [canvas, entries] of drawn) {
      if (!canvas.isConnected || !canvas.clientWidth || canvas.closest("li")) continue;
      const [many, more] = onCanvas(canvas, entries);
      count += many;
      found.push(...more);
    }
    return [count, found];
  };
  window.posterFaults = () => {
    const svg = document.querySelector("svg"), frame = svg.getBoundingClientRect();
    // Letters that each have a place, and other texts.
    const texts = [...svg.querySelectorAll("text")].flatMap((node) => {
      const text = node.textContent, m = node.getScreenCTM();
      const parts = /[ ,]/.test(node.getAttribute("x") || "") ? [...text].map((letter, i) => [letter, node.getExtentOfChar(i)])
        : [[text, node.getBBox()]];
      return parts.filter(([part]) => part.trim()).map(([part, { x, y, width, height }]) => ({ text: part,
        box: [m.a * x + m.e - frame.left, m.d * (y + 3) + m.f - frame.top,
          m.a * (x + width) + m.e - frame.left, m.d * (y + height - 3) + m.f - frame.top] }));
    });
    const cut = texts.filter(({ box }) => outside(box, frame.width, frame.height));
    return [texts.length, [...pairs(texts, "texts of the poster overlap"),
      ...cut.map(({ text }) => ["text of the poster cut", text])]];
  };
})();
