"""A picture of the links between the IPUs of a machine, which form a ladder.

Rungs are vertical links and rails are horizontal links. If the two ends of the ladder are joined,
the rails that join them are drawn around the ladder. Each direction of a link is a line whose
thickness shows its bandwidth. For a run, the colour shows how long the link is busy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ipu_teach.cost.links import Link, around, busy_cycles, link_load, link_rate, links_of
from ipu_teach.report import Report
from ipu_teach.show import palette
from ipu_teach.show.panels import painted
from ipu_teach.show.scene import Painted, number
from ipu_teach.show.shapes import LETTER, Boxes, Shape, Words, rectangles
from ipu_teach.target import Target
from ipu_teach.types import Array

LOADS = (  # The codes of links, by busy time relative to the busiest link.
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
    "The links between IPUs are drawn below: each direction is a line that is as thick as its "
    "bandwidth. In a run, the text at a line is the share of the run for which it is busy."
)
# The width of the picture, its margin at the sides, the height of an IPU, and the space between
# the two rows of IPUs.
WIDE, RIM, HIGH, BETWEEN = 688.0, 20.0, 36.0, 76.0
# The margin at the top and bottom, and the distance between two links that join the ends of the
# ladder.
ROOM, TURN = 16.0, 8.0
NARROWER = 0.65  # On a narrow page, the picture shrinks to this fraction; its texts do not.
THICK = 8.0  # The thickness of each direction of a rung.


class Ladder:
    """The links between the IPUs of a machine, and the bytes that a run sends over each link.

    If `report` is None, there is no run.
    """

    def __init__(self, target: Target, report: Report | None) -> None:
        self.target = target
        self.links = links_of(target)
        self.bytes = Counter[Link]()
        self.busy = Counter[Link]()
        self.total = 0 if report is None else report.total_cycles
        for step_number, executions in enumerate(
            [] if report is None else report.executions.tolist()
        ):
            for traffic in report.step_cost(step_number).exchange if report and executions else ():
                for link, num_bytes in link_load(traffic.links, target)[0].items():
                    self.bytes[link] += executions * num_bytes
                    self.busy[link] += executions * busy_cycles(link, num_bytes, target)
        self.ran = report is not None

    def said(self, link: Link) -> str:
        """Describe the bytes that the run sends over a link, and how long the link is busy."""
        num_bytes = self.bytes[link]
        busy_cycles = self.busy[link]
        return (
            f"{num_bytes:,} bytes, {number(busy_cycles)} modelled cycles busy, {self._share(link)}"
        )

    def sentence(self) -> str:
        """Return a sentence about the bytes of all links and the busiest link; "" without a run."""
        if not self.ran:
            return ""
        if not self.bytes:
            return " The run sends nothing over the links between IPUs."
        most_cycles = max(self.busy.values())
        busiest_link, *others = (link for link in self.links if self.busy[link] == most_cycles)
        return (
            f" In the run, {len(self.bytes)} of {len(self.links)} links carry "
            f"{sum(self.bytes.values()):,} bytes, if each direction counts as a link; the busiest "
            f"is that from IPU {busiest_link[0]} to "
            f"IPU {busiest_link[1]}{f', with {len(others)} more' * bool(others)}: "
            f"{self.said(busiest_link)} of the run."
        )

    def _share(self, link: Link) -> str:
        return f"{100 * self.busy[link] / (self.total or 1):.2g} %"

    def mark(self, heading: str, first: int, plain: int, ipu: int) -> Painted:
        """Return the mark that shows the links between the IPUs, with `heading` above it.

        The other arguments are indices of colours: `first` for `LOADS[0]`, `plain` for a link
        without a run, and `ipu` for an IPU.
        """
        columns = -(-self.target.num_ipus // 2)
        self._pitch = (WIDE - 2 * RIM) / columns
        self._wide = min(60.0, 0.4 * self._pitch)
        self._top = ROOM + (2 * TURN if around(self.target) > 0 else 0)
        shapes, link_places = self._link_shapes(first, plain)
        shapes += self._ipu_shapes(ipu)
        ends_of_links = np.array(self.links).T
        template = "IPU {from} to IPU {to}: {bytes} bytes in the run, {busy} modelled cycles busy"
        values = {"from": ends_of_links[0], "to": ends_of_links[1]}
        for name, count_by_link in (("bytes", self.bytes), ("busy", self.busy)) if self.ran else ():
            values[name] = np.array([count_by_link[link] for link in self.links])
        say = template if self.ran else "IPU {from} to IPU {to}"
        mark_height = 2 * (self._top + HIGH) + BETWEEN
        # A colour always shows the busy time of a link. If there is room, a text also shows it.
        has_texts = any(isinstance(shape, Words) and "%" in shape.text for shape in shapes)
        busy = "%: busy, of the run" if has_texts else "colour: busy, see below"
        return painted(
            "links",
            heading + f"; {busy}" * self.ran,
            WIDE,
            mark_height,
            pictures=[shapes],
            places=np.array(link_places),
            say=say,
            values=values,
        )

    def _link_shapes(self, first: int, plain: int) -> tuple[list[Shape], list[Array]]:
        """Return `(shapes, places)`: the links' boxes and texts, and the largest box of each link.

        `first` is the index of the colour `LOADS[0]`, and `plain` is the index of the colour of a
        link without a run.
        """
        link_places = list[Array]()
        shapes = list[Shape]()
        most_cycles = max(self.busy.values(), default=0)
        for link in self.links:
            link_boxes = self._parts(link)
            load_in_thirds = 3 * self.busy[link] / most_cycles if most_cycles else 0
            code = first + int(np.ceil(load_in_thirds)) if self.ran else plain
            shapes += [Boxes(code, box[None]) for box in link_boxes]
            link_places.append(link_boxes[0])
            x, y, width, height = link_boxes[0]
            text = self._share(link)
            is_backward = link[0] > link[1]
            half_text = len(text) * LETTER / 2
            if self.busy[link] and 2 * half_text < NARROWER * (self._pitch - self._wide):
                # The text of a rung is beside the rung, on the side of its direction.
                if width < height:
                    text_position = (
                        (x + width + 6 + half_text, y + height / 2 + 4)
                        if is_backward
                        else (x - 6 - half_text, y + height / 2 + 4)
                    )
                else:
                    text_position = x + width / 2, y - 4 if is_backward else y + height + 11
                shapes.append(Words(*text_position, text, 11, "middle"))
        return shapes, link_places

    def _ipu_shapes(self, ipu: int) -> Iterator[Shape]:
        """Yield the boxes and the names of the IPUs; `ipu` is the index of their colour."""
        names = [f"IPU {ipu_number}" for ipu_number in range(self.target.num_ipus)]
        max_letters = NARROWER * self._wide / LETTER
        if len(names[-1]) > max_letters:
            names = [f"{ipu_number}" for ipu_number in range(self.target.num_ipus)]
        for ipu_number, name in enumerate(names):
            x, y = self._corner(ipu_number)
            yield Boxes(ipu, rectangles(x, y, self._wide, HIGH))
            x = x + self._wide / 2
            is_inside = len(names[-1]) <= max_letters
            # If there is no room inside the box of an IPU, the IPU's number is above or below the
            # box.
            y_beside = y - 4 if ipu_number % 2 == 0 else y + HIGH + 11
            yield (
                Words(x, y + HIGH / 2 + 4, name, 11, anchor="middle", ink=ipu)
                if is_inside
                else Words(x, y_beside, name, 10, anchor="middle", ink="soft")
            )

    def _corner(self, ipu: int) -> tuple[float, float]:
        x = RIM + (ipu // 2 + 0.5) * self._pitch - self._wide / 2
        return x, self._top + ipu % 2 * (HIGH + BETWEEN)

    def _parts(self, link: Link) -> list[Array]:
        """Return the boxes of a link, longest first; each is float[4]: (x, y, width, height)."""
        thickness = min(THICK, 0.3 * self._wide) * link_rate(link, self.target)
        thickness /= max(self.target.link_bytes_per_cycle, self.target.rail_bytes_per_cycle)
        first, second = sorted(link)
        is_backward = link[0] > link[1]
        x, y = self._corner(first)
        second_x, _ = self._corner(second)
        if first ^ second == 1:  # The directions of a rung are drawn next to each other.
            offset = self._wide / 2 + (1 if is_backward else -1 - thickness)
            return [np.array((x + offset, y + HIGH, thickness, BETWEEN))]
        y_of_rail = y + HIGH / 2 + (-1 - thickness if is_backward else 1)
        if second - first == 2:
            return [np.array((x + self._wide, y_of_rail, second_x - x - self._wide, thickness))]
        # The link leads around the ladder: out of the first IPU, above or below all IPUs, and into
        # the last one.
        offset = 0.75 * TURN * (1 if is_backward else 2)
        distance = ROOM + (0 if is_backward else TURN)
        y_of_turn = y - distance - thickness if first % 2 == 0 else y + HIGH + distance
        upper_y, lower_y = sorted((y_of_turn, y_of_rail))
        left = x - offset - thickness
        right = second_x + self._wide + offset
        return [
            np.array((left, y_of_turn, right + thickness - left, thickness)),
            *(
                np.array((side_x, upper_y, thickness, lower_y + thickness - upper_y))
                for side_x in (left, right)
            ),
            *(
                np.array((stub_x, y_of_rail, offset, thickness))
                for stub_x in (x - offset, second_x + self._wide)
            ),
        ]
