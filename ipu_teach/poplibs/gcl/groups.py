"""The groups of replicas that take part in a collective, and the operators that combine values."""

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
    """The operation that combines the values of replicas.

    MEAN is ADD, divided by the number of replicas.
    """

    ADD = "ADD"
    MEAN = "MEAN"
    MUL = "MUL"
    MIN = "MIN"
    MAX = "MAX"
    LOGICAL_AND = "LOGICAL_AND"
    LOGICAL_OR = "LOGICAL_OR"
    SQUARE_ADD = "SQUARE_ADD"


class CommGroupType(Enum):
    """The way in which replicas are divided into groups.

    Of 8 replicas, ALL is one group. CONSECUTIVE groups have neighbouring replicas, such as 0 1 | 2
    3 | 4 5 | 6 7. ORTHOGONAL groups have the first replica of each consecutive group, the second of
    each, and so on, such as 0 2 4 6 | 1 3 5 7.
    """

    ALL = "ALL"
    CONSECUTIVE = "CONSECUTIVE"
    ORTHOGONAL = "ORTHOGONAL"


@advised("write CommGroup(), which is all of them.")
@dataclass(frozen=True)
class CommGroup:
    """The division of replicas into independent groups of `size`; size 0 is one group of all.

    Of R replicas, CONSECUTIVE groups have neighbouring ones, and ORTHOGONAL groups have replicas
    that are R / size apart. Raises `PoplibsError` for any other kind, a negative size, or a size
    for ALL.
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
        """Return the replicas of each group of `replicas` replicas.

        Raises `PoplibsError` unless the group size divides their number.
        """
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


# the function that combines two tensors in place, by operator
STEPS = {
    CollectiveOperator.ADD: popops.add_in_place,
    CollectiveOperator.MEAN: popops.add_in_place,
    CollectiveOperator.MUL: popops.mul_in_place,
    CollectiveOperator.MIN: popops.min_in_place,
    CollectiveOperator.MAX: popops.max_in_place,
    CollectiveOperator.LOGICAL_AND: popops.logical_and_in_place,
    CollectiveOperator.LOGICAL_OR: popops.logical_or_in_place,
}


def operator_of(operator: CollectiveOperator | str, dtype: type[DType]) -> CollectiveOperator:
    """Return the operator for its value or name, for tensors of `dtype`.

    Raises `PoplibsError` if there is no such operator, or if it does not work on `dtype`.
    """
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
        kinds = "numbers"
        if logical:
            kinds = "BOOL"
        elif op is op.MEAN:
            kinds = "FLOAT and HALF"
        raise refused(
            f"was given tensors of {dtype.__name__}, and {op.name} works on {kinds}.",
            next_step="cast them with popops.cast, or use another operator.",
        )
    return op
