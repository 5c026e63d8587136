"""The groups of replicas that take part in a collective, and the operators that combine their
values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ipu_teach.errors import PoplibsError, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.library import advised, as_given, refused
from ipu_teach.types import BOOL, FLOAT, HALF, DType

__all__ = ["CollectiveOperator", "CommGroup", "CommGroupType"]


class CollectiveOperator(Enum):
    """The operation that combines the values of two replicas. MEAN is ADD, divided by the number of
    replicas."""

    ADD = "ADD"
    MEAN = "MEAN"
    MUL = "MUL"
    MIN = "MIN"
    MAX = "MAX"
    LOGICAL_AND = "LOGICAL_AND"
    LOGICAL_OR = "LOGICAL_OR"
    SQUARE_ADD = "SQUARE_ADD"


class CommGroupType(Enum):
    """The replicas of a group: ALL of them; CONSECUTIVE ones, as 0 1 | 2 3 | 4 5 | 6 7; or the
    first of each such group, the second of each, and so on: ORTHOGONAL, as 0 2 4 6 | 1 3 5 7."""

    ALL = "ALL"
    CONSECUTIVE = "CONSECUTIVE"
    ORTHOGONAL = "ORTHOGONAL"


@advised("write CommGroup(), which is all of them.")
@dataclass(frozen=True)
class CommGroup:
    """Groups of `size` replicas each, which are independent of each other; size 0 is all of them.

    Of R replicas, CONSECUTIVE groups have neighbouring ones, and ORTHOGONAL groups have replicas R
    / size apart. Raises `PoplibsError` for another kind, a negative size, and a size for ALL.
    """

    kind: CommGroupType = CommGroupType.ALL
    size: int = 0

    def __post_init__(self) -> None:
        good = isinstance(self.kind, CommGroupType) and is_whole(self.size) and self.size >= 0
        if not good or (self.kind is CommGroupType.ALL and self.size):
            raise PoplibsError(f"""CommGroup() was given {shown(self.kind)} and the size
                {shown(self.size)}.
                next:  write CommGroup(), or CommGroup(CommGroupType.CONSECUTIVE, 2), or
                ORTHOGONAL.""")

    def __repr__(self) -> str:
        return f"CommGroup({f'{self.kind.name}, {self.size}' if self.size else ''})"

    def of(self, replicas: int) -> list[list[int]]:
        """Return the replicas of each group. Raises `PoplibsError` unless the size divides how many
        there are."""
        size = self.size or replicas
        if replicas % size:
            fit = ", ".join(f"{n}" for n in range(1, replicas + 1) if replicas % n == 0)
            raise refused(f"""was given groups of {size} for {replicas}, which do not divide
                them.
                next:  a group has {fit} of them.""")
        many = replicas // size
        if self.kind is CommGroupType.ORTHOGONAL:
            return [list(range(first, replicas, many)) for first in range(many)]
        return [list(range(first, first + size)) for first in range(0, replicas, size)]


# by operator: the function that works in place on two tensors
STEPS = {
    CollectiveOperator.ADD: popops.add_in_place,
    CollectiveOperator.MEAN: popops.add_in_place,
    CollectiveOperator.MUL: popops.mul_in_place,
    CollectiveOperator.MIN: popops.min_in_place,
    CollectiveOperator.MAX: popops.max_in_place,
    CollectiveOperator.LOGICAL_AND: popops.logical_and_in_place,
    CollectiveOperator.LOGICAL_OR: popops.logical_or_in_place,
}


def operator_of(operator: object, dtype: type[DType]) -> CollectiveOperator:
    """Return the operator that is meant, by itself or by name. Raises `PoplibsError` for one that
    is none, or none for this dtype."""
    op = CollectiveOperator.__members__.get(operator) if isinstance(operator, str) else operator
    if not isinstance(op, CollectiveOperator):
        raise as_given(operator, "op", f"use one of {', '.join(o.name for o in STEPS)}.")
    if op is CollectiveOperator.SQUARE_ADD:
        raise refused(
            "was given SQUARE_ADD, which PopLibs also refuses: each IPU on the ring would square "
            "the partial sum again.",
            next_step="square first, with popops.square, and then ADD.",
        )
    logical = op in (CollectiveOperator.LOGICAL_AND, CollectiveOperator.LOGICAL_OR)
    if logical != (dtype is BOOL) or (op is CollectiveOperator.MEAN and dtype not in (FLOAT, HALF)):
        kinds = "BOOL" if logical else "FLOAT and HALF" if op is op.MEAN else "numbers"
        raise refused(
            f"was given tensors of {dtype.__name__}, and {op.name} works on {kinds}.",
            next_step="cast them with popops.cast, or use another operator.",
        )
    return op
