"""The links between the IPUs of a machine, drawn as its ladder.

Rungs are vertical, rails horizontal, and where the ends of the ladder are joined the outermost
rails go round. Links are as thick as their bandwidth, one line for each direction. For a run, their
colour shows how long each is busy.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from ipu_teach.cost.links import Link, around, busy_cycles, link_load, link_rate, links_of
from ipu_teach.errors import counted
from ipu_teach.report import Report
from ipu_teach.show import palette
from ipu_teach.show.panels import painted
from ipu_teach.show.scene import Painted, number
from ipu_teach.show.shapes import LETTER, Boxes, Shape, Words, rectangles
from ipu_teach.target import Target
from ipu_teach.types import Array

LOADS = (  # colours of a link by its load, relative to the busiest one
    replace(palette.NEAR_ZERO[0], name="a link that carries nothing"),
    *(
        replace(colour, name=f"a link busy {name} of the busiest's time", pattern=pattern)
        for colour, name, pattern in zip(
            palette.ABOVE,
            ("up to 1/3", "up to 2/3", "more than 2/3"),
            ("", "/", "x"),
            strict=True,
        )
    ),
)
BESIDE = (
    "Of several IPUs the links stand below, each way by itself and as thick as its bandwidth; "
    "beside one, how much of the run it is busy."
)
WIDE, RIM, HIGH, BETWEEN = 688.0, 20.0, 36.0, 76.0  # of a box; between the two rows of IPUs
ROOM, TURN = 16.0, 8.0  # above and below them; from one of the links that go round to the other
NARROWER = 0.65  # to what a narrow page presses it, where words keep their size
THICK = 8.0  # of a rung, each way


class Ladder:
    """The links of a machine of several IPUs and what a run in `report` sends over them, if one is
    given."""

    def __init__(self, target: Target, report: Report | None) -> None:
        self.target = target
        self.links = links_of(target)
        self.bytes = Counter[Link]()
        self.busy = Counter[Link]()
        self.total = 0 if report is None else report.total_cycles
        for step, runs in enumerate([] if report is None else report.executions.tolist()):
            for traffic in report.step_cost(step).exchange if report and runs else ():
                for link, size in link_load(traffic.links, target)[0].items():
                    self.bytes[link] += runs * size
                    self.busy[link] += runs * busy_cycles(link, size, target)
        self.ran = report is not None

    def said(self, link: Link) -> str:
        """Return what a link carries in the run, and for how long."""
        size = self.bytes[link]
        busy = self.busy[link]
        return f"{size:,} bytes, {number(busy)} modelled cycles busy, {self._share(link)}"

    def sentence(self) -> str:
        """Return what all links carry, and the busiest of them."""
        if not self.ran:
            return ""
        if not self.bytes:
            return " In the run nothing goes over a link between IPUs."
        busiest = max(self.busy.values())
        first, *rest = (link for link in self.links if self.busy[link] == busiest)
        return (
            f" In the run {len(self.bytes)} of {len(self.links)} links, each way counted, carry "
            f"{sum(self.bytes.values()):,} bytes; busiest is that from IPU {first[0]} to IPU "
            f"{first[1]}{f', with {len(rest)} more' * bool(rest)}: {self.said(first)} of the run."
        )

    def _share(self, link: Link) -> str:
        return f"{100 * self.busy[link] / (self.total or 1):.2g} %"

    def mark(self, first: int, plain: int, ipu: int) -> Painted:
        """Return the picture. `first`: the code of `LOADS[0]`; `plain` that of a link of no run,
        and `ipu` that of an IPU."""
        columns = -(-self.target.num_ipus // 2)
        self._pitch = (WIDE - 2 * RIM) / columns
        self._wide = min(60.0, 0.4 * self._pitch)
        self._top = ROOM + (2 * TURN if around(self.target) > 0 else 0)
        places = list[Array]()
        shapes = list[Shape]()
        worst = max(self.busy.values(), default=0)
        for link in self.links:
            parts = self._parts(link)
            share = 3 * self.busy[link] / worst if worst else 0
            code = first + int(np.ceil(share)) if self.ran else plain
            shapes += [Boxes(code, part[None]) for part in parts]
            places.append(parts[0])
            x, y, wide, tall = parts[0]
            text = self._share(link)
            back = link[0] > link[1]
            half = len(text) * LETTER / 2
            if self.busy[link] and 2 * half < NARROWER * (self._pitch - self._wide):
                if wide < tall:  # a rung: beside it, on its own side
                    at = (x + wide + 12 + half, y + tall - 6) if back else (x - 12 - half, y + 14)
                else:
                    at = x + wide / 2, y - 4 if back else y + tall + 11
                shapes.append(Words(*at, text, 11, "middle"))
        names = [f"IPU {i}" for i in range(self.target.num_ipus)]
        room = NARROWER * self._wide / LETTER
        if len(names[-1]) > room:
            names = [f"{i}" for i in range(self.target.num_ipus)]
        for i, name in enumerate(names):
            x, y = self._corner(i)
            shapes.append(Boxes(ipu, rectangles(x, y, self._wide, HIGH)))
            x = x + self._wide / 2
            inside = len(names[-1]) <= room
            beside = y - 4 if i % 2 == 0 else y + HIGH + 11  # a number for which there is no room
            shapes.append(
                Words(x, y + HIGH / 2 + 4, name, 11, anchor="middle", ink=ipu)
                if inside
                else Words(x, beside, name, 10, anchor="middle", ink="soft")
            )
        rates = [f"{link_rate(link, self.target):,.4g}" for link in self.links]
        ends = np.array(self.links).T
        template = "IPU {from} to IPU {to}: {bytes} bytes in the run, {busy} modelled cycles busy"
        values = {"from": ends[0], "to": ends[1]}
        for name, some in (("bytes", self.bytes), ("busy", self.busy)) if self.ran else ():
            values[name] = np.array([some[link] for link in self.links])
        heading = (
            f"{counted(len(self.links) // 2, 'link')}, each way: rungs {rates[0]}"
            + (f", rails {rates[-1]}" if self.target.num_ipus > 2 else "")
            + " bytes a cycle"
            + "; %: time busy" * self.ran
        )
        say = template if self.ran else "IPU {from} to IPU {to}"
        high = 2 * (self._top + HIGH) + BETWEEN
        return painted(
            "links",
            heading,
            WIDE,
            high,
            pictures=[shapes],
            places=np.array(places),
            say=say,
            values=values,
        )

    def _corner(self, ipu: int) -> tuple[float, float]:
        x = RIM + (ipu // 2 + 0.5) * self._pitch - self._wide / 2
        return x, self._top + ipu % 2 * (HIGH + BETWEEN)

    def _parts(self, link: Link) -> list[Array]:
        """Return the places of a link: float[4] for each of its pieces, the longest first."""
        thick = min(THICK, 0.3 * self._wide) * link_rate(link, self.target)
        thick /= max(self.target.link_bytes_per_cycle, self.target.rail_bytes_per_cycle)
        a, b = sorted(link)
        back = link[0] > link[1]
        x, y = self._corner(a)
        u, _ = self._corner(b)
        if a ^ b == 1:  # both directions are drawn side by side
            aside = self._wide / 2 + (1 if back else -1 - thick)
            return [np.array((x + aside, y + HIGH, thick, BETWEEN))]
        down = y + HIGH / 2 + (-1 - thick if back else 1)
        if b - a == 2:
            return [np.array((x + self._wide, down, u - x - self._wide, thick))]
        # all round: out of the first one, above or below all, and into the last
        aside = 0.75 * TURN * (1 if back else 2)
        out = ROOM + (0 if back else TURN)
        along = y - out - thick if a % 2 == 0 else y + HIGH + out
        low, high = sorted((along, down))
        left = x - aside - thick
        right = u + self._wide + aside
        return [
            np.array((left, along, right + thick - left, thick)),
            *(np.array((end, low, thick, high + thick - low)) for end in (left, right)),
            *(np.array((at, down, aside, thick)) for at in (x - aside, u + self._wide)),
        ]
