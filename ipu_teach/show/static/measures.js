// Written by make_scripts.py: the numbers of measures.py, and the inks of palette.py.
const
  GAP = 0.6,
  NAME = 6.4,
  SMALLEST_LABEL = 13,
  MOST_RECTANGLES = 64,
  MOST_SPOKES = 24,
  TICK = 92,
  BAR = 90,
  MARGIN = 26,
  MOST_PARTNERS = 12,
  SIDE = 232,
  SLOT = 58,
  THICK = 24,
  HEAD = 20,
  ROW = 18,
  BETWEEN = 6,
  CELL = 14,
  BROADEST = 44,
  DIGITS = 24,
  LINE = 17,
  OF_LETTER = 6.3;
const INKS = [
  { paper: "#ffffff", ink: "#1b1f24", soft: "#59636e", line: "#c4cbd3" },
  { paper: "#14171a", ink: "#e8ebee", soft: "#a4adb7", line: "#444c56" },
];
