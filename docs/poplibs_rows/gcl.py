"""Rows of docs/poplibs.md for gcl, whose source code was never published.

The kit uses the algorithms of gcl's forerunner: Collectives.cpp in popops.
"""

from __future__ import annotations

from poplar_rows import Row

_ROUNDS = "takes `root_replica` as a keyword"
_WITHIN = (
    "takes a list of tensors, one on each IPU, where C++ takes a tensor of two dimensions or chunks"
)


def _of(cpp: str, ours: str, op: str, differs: str = "") -> list[Row]:
    return [
        Row(
            f"gcl::{cpp}CrossReplica",
            f"poplibs.gcl.{ours}_cross_replica",
            differs,
            f"gcl.{ours}_cross_replica(graph, t{op}, prog)",
        ),
        Row(
            f"gcl::{cpp}WithinReplica",
            f"poplibs.gcl.{ours}_within_replica",
            f"{_WITHIN}; also accepts groups",
            f"gcl.{ours}_within_replica(graph, [t]{op}, prog)",
        ),
    ]


GCL = [
    *_of("allReduce", "all_reduce", ', "ADD"', "always treats several tensors as one"),
    *_of("allReduceInPlace", "all_reduce_in_place", ', "ADD"'),
    *_of("reduceScatter", "reduce_scatter", ', "MAX"'),
    *_of("allGather", "all_gather", ""),
    *_of("allToAll", "all_to_all", ""),
    *_of("broadcast", "broadcast", "", _ROUNDS),
    Row(
        "gcl::CommGroup",
        "poplibs.gcl.CommGroup",
        "",
        "gcl.CommGroup(gcl.CommGroupType.CONSECUTIVE, 2)",
    ),
    Row("gcl::CommGroupType", "poplibs.gcl.CommGroupType", "", "gcl.CommGroupType.ALL"),
    Row(
        "gcl::CollectiveOperator",
        "poplibs.gcl.CollectiveOperator",
        "has no LOCAL; SQUARE_ADD is refused, as in PopLibs",
        "gcl.CollectiveOperator.MEAN",
    ),
    Row(
        "gcl::perIPUTiles",
        "poplibs.gcl.per_ipu_tiles",
        "returns the numbers of the first tiles of each IPU; gcl selects tiles by a rule that "
        "is not published",
        "gcl.per_ipu_tiles(graph, 0, 1)",
    ),
    Row("gcl::getMinIoTiles", "", "choose a number yourself; the minimum is not published"),
]
