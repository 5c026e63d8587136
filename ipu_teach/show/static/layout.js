// Places the marks for the width that a page has. From 640 on, what reaches to the right edge grows
// with the page; below that, panels on the right go under those on the left. A unit of the drawing
// is then a pixel, so that words stay legible.
const NARROW = 640, WIDEST = 1100;
const { ceil, floor, max, min } = Math;

// How many rows a block of cells has.
const rowsOf = (mark) => ceil(mark.block / mark.columns);

// A text before and after `mark`.
const split = (string, mark) => {
  const at = string.indexOf(mark);
  return at < 0 ? [string, ""] : [string.slice(0, at), string.slice(at + mark.length)];
};

// The heading of a mark, with `right` at the other end of its line. On a narrow page it begins
// further left, above the labels, and what explains a word has a line of its own.
function headed(kit, mark, right) {
  const { pen, ink, text, fitted } = kit, end = mark.x + mark.width,
    left = kit.scene.size[0] < NARROW ? min(16, mark.x) : mark.x;
  pen.font = "12px system-ui, sans-serif";
  const [short, rest] = split(mark.heading || "", "; "), long = (words_) => pen.measureText(words_).width,
    room = end - left - long(right) - 8, two = rest && long(mark.heading) > room;
  text(pen, right, end, mark.y - (two ? 23 : 8), 12, "right", ink.soft);
  fitted(two ? short : mark.heading || "", left, mark.y - (two ? 23 : 8), room, 12, ink.soft);
  if (two) fitted(rest, left, mark.y - 8, end - left, 12, ink.soft);
}

// A line with a bend and a tip, or without them.
const straight = (pen, start, end, thick) => arrow(pen, start, start, end, thick, false);
function arrow(pen, start, bend, end, thick, tip = true) {
  pen.lineWidth = thick;
  pen.beginPath();
  pen.moveTo(...start);
  if (bend === start) pen.lineTo(...end); else pen.quadraticCurveTo(...bend, ...end);
  pen.stroke();
  if (!tip) return;
  const angle = Math.atan2(end[1] - bend[1], end[0] - bend[0]),
    size = min(3 + 2 * thick, 0.6 * Math.hypot(end[0] - start[0], end[1] - start[1]));
  pen.beginPath();
  pen.moveTo(...end);
  for (const turn of [2.7, -2.7])
    pen.lineTo(end[0] + size * Math.cos(angle + turn), end[1] + size * Math.sin(angle + turn));
  pen.fill();
}

function layout(scene, room) {
  const [width, height] = scene.home = scene.home || scene.size,
    marks = scene.marks.filter((m) => "x" in m);
  for (const m of marks)
    Object.assign(
      m, m.home = m.home || { x: m.x, y: m.y, width: m.width, height: m.height, side: m.side });
  // on a narrower page it is drawn smaller
  const wide = Math.round(min(WIDEST, max(320, room || width)));
  scene.size = [wide, height];
  if (wide >= NARROW) {
    for (const m of marks) if (m.width && m.x + m.width > width - 60) m.width += wide - width;
    return scene.size;
  }
  const across = (m) => m.across * m.columns + m.gap * (m.across - 1);
  const bottom = (m) => {
    const blocks = ceil(m.count / m.block / m.across);
    return m.kind === "cells" ? m.y + m.side * (blocks * rowsOf(m) + m.gap * (blocks - 1))
      : m.y + (m.height || 0);
  };
  const bands = [];  // what stands beside each other
  for (const m of [...marks].sort((a, b) => a.y - b.y)) {
    const last = bands[bands.length - 1];
    if (last && m.y < last.end) last.marks.push(m);
    else bands.push({ marks: [m], end: 0 });
    const band = bands[bands.length - 1];
    band.end = max(band.end, bottom(m));
  }
  // What begins at one x goes on doing so: as far to the right as the longest name beside it needs.
  const inset = {};
  for (const m of marks) {
    const beside = m.kind === "painted" ? [] : m.ends?.map(([end]) => end) || m.labels || m.rows || [];
    const names = m.kind === "curve" ? 6 * `${words(m.top)} ${m.unit}`.length + 6
      : max(m.left || 0, ...beside.map((name) => 6 * name.length + 12));
    const needs = max(names, m.kind === "lanes" || m.kind === "tape" ? 30 : 16);
    inset[m.x] = min(m.x, max(inset[m.x] || 0, m.kind === "matrix" ? m.x : needs));
  }
  let grown = 0;  // how much further down things are
  for (const band of bands) {
    const right = band.marks.filter((m) => m.home.x > 250),
      left = band.marks.filter((m) => !right.includes(m)), end = band.end + grown;
    for (const m of left) place(m, grown);
    if (!right.length || !left.length) {
      for (const m of right) place(m, grown);
      continue;
    }
    const lowest = max(...left.map(bottom))
      + (left.some((m) => m.kind === "matrix") ? 72 : 40), top = min(...right.map((m) => m.y));
    for (const m of right) place(m, lowest - top);
    grown += max(...right.map(bottom)) - end;
  }
  scene.size = [wide, height + grown];
  return scene.size;

  function place(m, down) {
    m.y += down;
    m.x = inset[m.home.x];
    if (m.kind === "matrix") m.width = m.height = min(m.width, wide - m.x - 45);
    else if (m.kind === "cells") m.side = min(m.side, (wide - 32) / across(m));
    else if (m.width) m.width = wide - m.x - 16;
  }
}
