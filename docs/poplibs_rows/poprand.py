"""poprand, popsparse and gcl."""

from poplar_rows import Row

POPRAND = [
    Row("poprand, popsparse, gcl", "", "draw numbers on the host and stream them in; one replica has nothing to reduce across"),
]
