"""One published figure, and what the kit makes of it."""

from __future__ import annotations

from dataclasses import dataclass

SILICON, MODEL, DATASHEET, FORMAT = "silicon", "Graphcore's model", "datasheet", "number format"
KINDS = (SILICON, MODEL, DATASHEET, FORMAT)
REPRODUCED, OUTSIDE, NOT_MODELLED, CALIBRATES = "reproduced", "outside", "not modelled", "calibrates"
VERDICTS = (REPRODUCED, OUTSIDE, NOT_MODELLED, CALIBRATES)


@dataclass(frozen=True)
class Row:
    """A figure with its set-up and unit in `name`, and where it was published in `source`.

    `modelled` is None for what the kit cannot model. `tolerance` is relative, or absolute where the published figure is 0.
    `why` says what stands behind the difference, or behind the tolerance. `calibrates`: the figure fixed a constant of
    ours, so that meeting it proves nothing.
    """

    name: str
    kind: str
    source: str
    published: float
    modelled: float | None
    tolerance: float
    why: str
    calibrates: bool = False

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
            return OUTSIDE
        return CALIBRATES if self.calibrates else REPRODUCED

    def as_dict(self) -> dict[str, object]:
        """The row as JSON has it."""
        return {
            "name": self.name, "kind": self.kind, "source": self.source, "published": self.published,
            "modelled": self.modelled, "error": self.error, "tolerance": self.tolerance, "verdict": self.verdict,
            "why": self.why,
        }  # fmt: skip


def not_modelled(name: str, kind: str, source: str, published: float, why: str) -> Row:
    """A figure that stays in the table although the kit has no model of it."""
    return Row(name, kind, source, published, None, 0.0, why)
