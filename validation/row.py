"""One published figure, and what the kit makes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

SILICON, MODEL, DATASHEET, FORMAT = "silicon", "Graphcore's model", "datasheet", "number format"
RULE = "published rule"
KINDS = (SILICON, MODEL, DATASHEET, FORMAT, RULE)
REPRODUCED, EXPLAINED, OUTSIDE = "reproduced", "explained", "outside"
NOT_MODELLED, CALIBRATES = "not modelled", "calibrates"
VERDICTS = (REPRODUCED, EXPLAINED, OUTSIDE, NOT_MODELLED, CALIBRATES)

# How far off a figure may be, by what it is a figure of: fixed before any of them was modelled.
FORMATS, DATASHEETS, VERTICES, PROGRAMS = "number formats", "datasheets", "vertices", "programs"
ALGORITHMS = "algorithms"  # what is done in which order: it is so, or not
TOLERANCES = {FORMATS: 0.0, ALGORITHMS: 0.0, DATASHEETS: 0.01, VERTICES: 0.10, PROGRAMS: 0.25}


@dataclass(frozen=True)
class Row:
    """A figure with its set-up and unit in `name`, and where it was published in `source`.

    `modelled` is None for what the kit cannot model. `tolerance` is relative, or absolute where the
    published figure is 0. `why` says what stands behind the difference, or behind the tolerance.
    `calibrates`: the figure fixed a constant of ours, so that meeting it proves nothing.
    `explained`: it is not met, and `why` is the reason that was found. `work`: its class of work, a
    key of `TOLERANCES`, which the table knows.
    """

    name: str
    kind: str
    source: str
    published: float
    modelled: float | None
    tolerance: float
    why: str
    calibrates: bool = False
    explained: bool = False
    work: str = PROGRAMS

    @property
    def error(self) -> float | None:
        """How far off we are: relative, or absolute where the published figure is 0."""
        if self.modelled is None:
            return None
        return (self.modelled - self.published) / (abs(self.published) or 1.0)

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        if self.error is None:
            return NOT_MODELLED
        if abs(self.error) > self.tolerance:
            return EXPLAINED if self.explained else OUTSIDE
        return CALIBRATES if self.calibrates else REPRODUCED

    def as_dict(self) -> dict[str, object]:
        """The row as JSON has it."""
        return {
            "name": self.name,
            "work": self.work,
            "kind": self.kind,
            "source": self.source,
            "published": self.published,
            "modelled": self.modelled,
            "error": self.error,
            "tolerance": self.tolerance,
            "verdict": self.verdict,
            "why": self.why,
        }


@dataclass(frozen=True)
class Source:
    """Where figures of one kind were published; it makes rows of them. `set_up`: how their names
    begin."""

    kind: str
    published: str
    set_up: str = ""

    def at(self, set_up: str) -> Source:
        """The same for figures of one set-up."""
        return replace(self, set_up=f"{set_up}: ")

    def row(
        self,
        what: str,
        published: float,
        modelled: float | None,
        tolerance: float,
        why: str,
        calibrates: bool = False,
        explained: bool = False,
    ) -> Row:
        """A figure beside what the kit makes of it, as `Row` has it."""
        figures = published, modelled, tolerance, why, calibrates, explained
        return Row(self.set_up + what, self.kind, self.published, *figures)

    def unmodelled(self, what: str, published: float, why: str) -> Row:
        """A figure that stays in the table although the kit has no model of it."""
        return self.row(what, published, None, 0.0, why)
