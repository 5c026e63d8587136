"""One published figure next to the figure of the kit."""

from __future__ import annotations

from dataclasses import dataclass, replace

SILICON, MODEL, DATASHEET, FORMAT = "silicon", "Graphcore's model", "datasheet", "number format"
RULE = "published rule"
KINDS = (SILICON, MODEL, DATASHEET, FORMAT, RULE)
REPRODUCED, EXPLAINED, OUTSIDE = "reproduced", "explained", "outside"
NOT_MODELLED, CALIBRATES = "not modelled", "calibrates"
VERDICTS = (REPRODUCED, EXPLAINED, OUTSIDE, NOT_MODELLED, CALIBRATES)

# The classes of rows. `TOLERANCES` has the maximum relative error of the model in each class; these
# limits were set before any figure was modelled.
FORMATS, DATASHEETS, VERTICES, PROGRAMS = "number formats", "datasheets", "vertices", "programs"
# The rows of the class "algorithms" compare the order of operations, so they have no tolerance.
ALGORITHMS = "algorithms"
TOLERANCES = {FORMATS: 0.0, ALGORITHMS: 0.0, DATASHEETS: 0.01, VERTICES: 0.10, PROGRAMS: 0.25}


@dataclass(frozen=True)
class Row:
    """A published figure next to the modelled one.

    - `name` contains the set-up and the unit, and `source` says where the figure was published.
    - `modelled` is None if the kit has no model of the figure.
    - `tolerance` is relative, or absolute if the published figure is 0.
    - `why` is the reason for the difference or for the tolerance.
    - `calibrates` marks a figure that fixed a constant of the kit, so that agreement proves
      nothing.
    - `explained` marks a figure outside its tolerance whose reason, `why`, is known.
    - `work` is the class of work, a key of `TOLERANCES`.
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
        """The difference from the published figure: relative, or absolute if that figure is 0."""
        if self.modelled is None:
            return None
        return (self.modelled - self.published) / (abs(self.published) or 1.0)

    @property
    def verdict(self) -> str:
        """The verdict on the row, one of `VERDICTS`. OUTSIDE is an error without explanation."""
        if self.error is None:
            return NOT_MODELLED
        if abs(self.error) > self.tolerance:
            return EXPLAINED if self.explained else OUTSIDE
        return CALIBRATES if self.calibrates else REPRODUCED

    def as_dict(self) -> dict[str, object]:
        """Return the row as a dictionary for JSON."""
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
    """A publication with measured numbers of one kind. `row` makes a table row from such a number.

    `set_up` describes the measurements, and each row's name begins with it.
    """

    kind: str
    published: str
    set_up: str = ""

    def at(self, set_up: str) -> Source:
        """Return a copy of this source, whose rows' names begin with `set_up`."""
        return replace(self, set_up=f"{set_up}: ")

    def row(
        self,
        name: str,
        published: float,
        modelled: float | None,
        tolerance: float,
        why: str,
        calibrates: bool = False,
        explained: bool = False,
    ) -> Row:
        """Return the row of a published figure and its modelled value; see `Row` for arguments."""
        figures = published, modelled, tolerance, why, calibrates, explained
        return Row(self.set_up + name, self.kind, self.published, *figures)

    def unmodelled(self, name: str, published: float, why: str) -> Row:
        """Return the row of a figure for which the kit has no model."""
        return self.row(name, published, modelled=None, tolerance=0.0, why=why)
