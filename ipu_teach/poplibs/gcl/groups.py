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

    MEAN divides the result of ADD by the number of replicas in the group. No collective accepts
    SQUARE_ADD, as in PopLibs.
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

    * ALL is a single group of all replicas.
    * CONSECUTIVE groups contain neighbouring replicas: for 8 replicas in groups of 4, the groups
      are 0 1 2 3 and 4 5 6 7.
    * ORTHOGONAL groups contain replicas at equal distances: in the same example, 0 2 4 6 and 1 3 5
      7.
    """

    ALL = "ALL"
    CONSECUTIVE = "CONSECUTIVE"
    ORTHOGONAL = "ORTHOGONAL"


@advised("write CommGroup(), which is all of them.")
@dataclass(frozen=True)
class CommGroup:
    """The division of replicas into independent groups of `size` replicas.

    `kind` determines which replicas form a group. A size of 0 means a single group of all replicas.

    :raises PoplibsError: if the kind is unknown, the size is negative, or the kind is ALL and a
        size is given.
    """

    kind: CommGroupType = CommGroupType.ALL
    size: int = 0

    def __post_init__(self) -> None:
        is_valid = isinstance(self.kind, CommGroupType) and is_whole(self.size) and self.size >= 0
        if not is_valid or (self.kind is CommGroupType.ALL and self.size):
            raise PoplibsError(f"""CommGroup() was given the kind {shown(self.kind)} and the size
                {shown(self.size)}.
                next:  write CommGroup() for all replicas, or CommGroup(CommGroupType.CONSECUTIVE,
                2); ORTHOGONAL needs a size, too.""")

    def __repr__(self) -> str:
        return f"CommGroup({f'{self.kind.name}, {self.size}' if self.size else ''})"

    def of(self, replicas: int) -> list[list[int]]:
        """Return a list of replica numbers for each group, for `replicas` replicas in total.

        :raises PoplibsError: unless the group size divides the number of replicas.
        """
        size = self.size or replicas
        if replicas % size:
            valid_sizes = ", ".join(
                f"{candidate}" for candidate in range(1, replicas + 1) if replicas % candidate == 0
            )
            raise refused(f"""was given a group size of {size}, which does not divide the number of
                replicas or IPUs, {replicas}.
                next:  give a group size of {valid_sizes}.""")
        num_groups = replicas // size
        if self.kind is CommGroupType.ORTHOGONAL:
            return [
                list(range(first_replica, replicas, num_groups))
                for first_replica in range(num_groups)
            ]
        return [
            list(range(first_replica, first_replica + size))
            for first_replica in range(0, replicas, size)
        ]


# For each operator, the popops function that combines two tensors in place.
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
    """Return `operator`, which is a `CollectiveOperator` or its name, as a `CollectiveOperator`.

    :raises PoplibsError: if there is no such operator, or it does not work on `dtype`.
    """
    op = CollectiveOperator.__members__.get(operator) if isinstance(operator, str) else operator
    if not isinstance(op, CollectiveOperator):
        raise as_given(operator, "op", f"use one of {', '.join(known.name for known in STEPS)}.")
    if op is CollectiveOperator.SQUARE_ADD:
        raise refused(
            "was given SQUARE_ADD, which PopLibs also rejects, because each IPU on the ring would "
            "square the partial sum again.",
            next_step="square with popops.square first, and then use ADD.",
        )
    is_logical = op in (CollectiveOperator.LOGICAL_AND, CollectiveOperator.LOGICAL_OR)
    if is_logical != (dtype is BOOL) or (
        op is CollectiveOperator.MEAN and dtype not in (FLOAT, HALF)
    ):
        allowed_dtypes = "numbers"
        if is_logical:
            allowed_dtypes = "BOOL"
        elif op is op.MEAN:
            allowed_dtypes = "FLOAT and HALF"
        raise refused(
            f"was given tensors of {dtype.__name__}, but {op.name} works on {allowed_dtypes}.",
            next_step="cast them with popops.cast, or use another operator.",
        )
    return op
