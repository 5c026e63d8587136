"""The estimators of the library's vertices against PopLibs' own formulae, and what must hold of any
of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ipu_teach import (
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    LONGLONG,
    QUARTER,
    SHORT,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    IPUModel,
)
from ipu_teach.cost import vertices
from ipu_teach.cost.schedule import busiest_worker
from ipu_teach.errors import MissingPerfEstimateError
from ipu_teach.types import DType

RANDOMLY = settings(
    deadline=None, derandomize=True, max_examples=100, suppress_health_check=list(HealthCheck)
)

IPU2 = IPUModel("ipu2", tiles_per_ipu=1).create_device().target
IPU1 = IPUModel("ipu1", tiles_per_ipu=1).create_device().target
C600 = IPUModel("c600", tiles_per_ipu=1).create_device().target

# --- values worked out from PopLibs' formulae -----------------------------------------------------

SIZES = (1, 12, 100, 1000, 6000)
OF_SIZE: dict[str, Callable[[Any, type[DType]], Any]] = {
    "relu": lambda n, t: vertices.unary_op_1d("RELU", n, t, IPU2),
    "exp": lambda n, t: vertices.unary_op_1d("EXPONENT", n, t, IPU2),
    "tanh": lambda n, t: vertices.unary_op_1d("TANH", n, t, IPU2),
    "relu in place": lambda n, t: vertices.unary_op_1d("RELU", n, t, IPU2, in_place=True),
    "add": lambda n, t: vertices.binary_op_1d("ADD", n, t, IPU2),
    "add in place": lambda n, t: vertices.binary_op_1d("ADD", n, t, IPU2, in_place=True),
    "div": lambda n, t: vertices.binary_op_1d("DIVIDE", n, t, IPU2),
    "scalar mul": lambda n, t: vertices.broadcast_scalar_1d("MULTIPLY", n, t, IPU2),
    "cast": lambda n, t: vertices.cast_1d(n, t, HALF if t is FLOAT else FLOAT, IPU2),
    "gelu": lambda n, t: vertices.non_linearity_1d("GELU", n, t, IPU2),
    "scaled add": lambda n, t: vertices.scaled_add(n, t, IPU2),
    "fill": vertices.fill,
    "scalar reduce": lambda n, t: vertices.reduce_to_scalar(n, t, t, IPU2),
    "cross-entropy": vertices.loss_cross_entropy,
}
# Tile cycles (fill, reduce and cross-entropy: worker cycles) of SIZES elements, with six workers
# and a 64-bit data path.
TABLE: list[tuple[str, type[DType], tuple[int, ...]]] = [
    ("relu", FLOAT, (140, 140, 284, 1_634, 9_122)),
    ("relu", HALF, (140, 140, 212, 878, 4_622)),
    ("exp", FLOAT, (254, 254, 542, 3_242, 18_218)),
    ("exp", HALF, (242, 242, 338, 1_226, 6_218)),
    ("tanh", FLOAT, (194, 194, 770, 6_170, 36_122)),
    ("tanh", HALF, (146, 146, 242, 1_130, 6_122)),
    ("relu in place", FLOAT, (362, 362, 458, 1_358, 6_350)),
    ("add", FLOAT, (203, 203, 347, 1_697, 9_185)),
    ("add", HALF, (185, 185, 257, 923, 4_667)),
    ("add", INT, (209, 251, 881, 7_181, 42_167)),
    ("add in place", FLOAT, (377, 377, 521, 1_871, 9_359)),
    ("add in place", HALF, (377, 377, 449, 1_115, 4_859)),
    ("div", FLOAT, (245, 245, 725, 5_225, 30_185)),
    ("div", HALF, (293, 293, 797, 5_459, 31_667)),
    ("scalar mul", FLOAT, (143, 143, 239, 1_139, 6_131)),
    ("scalar mul", HALF, (143, 143, 191, 635, 3_131)),
    ("cast", FLOAT, (258, 258, 306, 762, 3_246)),
    ("cast", HALF, (252, 246, 300, 750, 3_240)),
    ("gelu", FLOAT, (219, 285, 765, 5_265, 30_225)),
    ("gelu", HALF, (201, 231, 351, 1_461, 7_701)),
    ("scaled add", FLOAT, (225, 207, 333, 1_683, 9_189)),
    ("scaled add", HALF, (207, 171, 261, 927, 4_689)),
    ("fill", FLOAT, (24, 29, 73, 523, 3_023)),
    ("fill", HALF, (15, 29, 51, 276, 1_526)),
    ("scalar reduce", FLOAT, (18, 23, 67, 517, 3_017)),
    ("scalar reduce", HALF, (23, 29, 51, 272, 1_522)),
    ("cross-entropy", FLOAT, (29, 128, 920, 9_020, 54_020)),
]


@pytest.mark.parametrize(("name", "dtype", "wanted"), TABLE, ids=lambda value: str(value))
def test_the_table(name: str, dtype: type[DType], wanted: tuple[int, ...]) -> None:
    formula = OF_SIZE[name]
    assert tuple(formula(n, dtype) for n in SIZES) == wanted
    assert formula(np.array(SIZES), dtype).tolist() == list(wanted)


AMP = {
    6: 369,
    12: 423,
    16: 409,
    18: 399,
    24: 423,
    32: 457,
    48: 519,
    64: 577,
    96: 711,
    128: 841,
    256: 1345,
    512: 2377,
    1024: 4417,
}


def test_one_panel_of_the_amp_units() -> None:
    """[N, 16] x [16, 16] HALF; interleaved memory loads the weights in half the time."""
    for n, cycles in AMP.items():
        assert vertices.conv_partial_1x1(n, 16, 16, HALF, IPU2) == cycles
        assert vertices.conv_partial_1x1(n, 16, 16, HALF, IPU2, interleaved=True) == cycles - 32
    assert vertices.conv_partial_1x1(np.array(list(AMP)), 16, 16, HALF, IPU2).tolist() == list(
        AMP.values()
    )


def test_transposes() -> None:
    assert vertices.transpose(6, (16, 16), HALF, IPU2) == 769


# --- rows without a published value, worked out by hand from the same formulae --------------------

BY_HAND: list[tuple[Any, int]] = [
    # 6 x (17 + inner) + 20; what is not a whole loop of the library's own adds 4 for each vector, or
    # element
    (vertices.unary_op_1d("LOGARITHM", 13, FLOAT, IPU2, in_place=True), 6 * (55 + 14 * 2) + 20),
    (vertices.unary_op_1d("EXPONENT2", 13, FLOAT, IPU2), 6 * (17 + 6 * 2) + 20),
    (vertices.unary_op_1d("ABSOLUTE", 13, HALF, IPU2), 6 * (17 + 5 * 3) + 20),
    (vertices.unary_op_1d("ABSOLUTE", 13, HALF, IPU2, in_place=True), 6 * (55 + 5 * 6 // 4) + 20),
    (vertices.unary_op_1d("CEIL", 13, FLOAT, IPU2), 6 * (17 + 6 * (3 + 1) // 2) + 20),
    (vertices.unary_op_1d("COS", 13, HALF, IPU2), 6 * (17 + 25 * 3) + 20),
    (vertices.unary_op_1d("SQRT", 13, INT, IPU2), 6 * (17 + 114 * 3) + 20),
    (vertices.unary_op_1d("LOGICAL_NOT", 13, BOOL, IPU2), 6 * (17 + 21 * 3) + 20),
    (vertices.unary_op_2d("RELU", [5, 6], FLOAT, IPU2), 20 + 9 + 9),
    # 5 + inner, in place 20 + inner; maxima of unsigned numbers 8 an element
    (vertices.binary_op_2d("ADD", [5, 6], FLOAT, IPU2), 5 + 9 + 9),
    (vertices.binary_op_2d("EQUAL", [5, 9], HALF, IPU2, in_place=True), 20 + 18 + 27),
    (vertices.binary_op_1d("ADD", 13, INT, IPU2, in_place=True), 6 * (58 + 7 * 3) + 11),
    (vertices.binary_op_1d("ADD", 13, SHORT, IPU2), 6 * (26 + 7 * 3) + 11),
    (vertices.binary_op_1d("ADD", 13, LONGLONG, IPU2), 6 * (26 + 11 * 3) + 11),
    (vertices.binary_op_1d("MAXIMUM", 13, UNSIGNED_INT, IPU2), 6 * (26 + 8 * 3) + 11),
    (vertices.binary_op_1d("NOT_EQUAL", 30, FLOAT, IPU2), 6 * (29 + 20 * 2) + 11),
    (vertices.binary_op_1d("LESS_THAN_EQUAL", 30, INT, IPU2), 6 * (26 + 26 * 2) + 11),
    (vertices.broadcast_scalar_1d("ADD", 12, INT, IPU2), 203),
    (vertices.broadcast_scalar_1d("ADD", 1000, UNSIGNED_INT, IPU2), 6 * (20 + 6 * 167) + 11),
    (vertices.broadcast_scalar_1d("DIVIDE", 13, HALF, IPU2), 6 * (20 + 8 * 2) + 11),
    (vertices.broadcast_scalar_1d("POWER", 13, FLOAT, IPU2), 6 * (20 + 312 * 3) + 11),
    # 6 x (15 + rows x (7 + 2 a vector)) + 11: by row the workers share 13 rows, by column 40
    # columns 13 + 6 x (17 + 7 + length x (8 + 2 a block)) HALF: by eights 8 + 4 + a group x (15 + 2
    # for every further block), by fours 15 + a group x 15 or so, else 9 an element
    (vertices.select([5, 8]), 5 + 6 + 25 + 6 + 40),
    # 25 + 6 x (35 + (24 + 2 a whole data path) a row): the workers share 13, 30, 30 columns
    (vertices.dynamic_slice_1d(13, 4, FLOAT, IPU2), 25 + 6 * (35 + 26 * 4)),
    (vertices.dynamic_slice_1d(30, 2, HALF, IPU2), 25 + 6 * (35 + 26 * 2)),
    (vertices.dynamic_slice_1d(30, 2, CHAR, IPU2), 25 + 6 * (72 + 72 * 2)),
    (vertices.dynamic_slice_1d(13, 4, LONGLONG, IPU2), 25 + 6 * (35 + 28 * 4)),
    # 6 x (30 + (19 + 2 a pair, 3 a four of bytes) a row), a single row shared by the workers
    (vertices.multi_slice(16, 5, FLOAT, IPU2), 6 * (30 + 5 * (19 + 16))),
    (vertices.multi_slice(16, 1, FLOAT, IPU2), 6 * (30 + 19 + 4)),
    (vertices.multi_slice(16, 5, HALF, IPU2, update=True), 6 * (29 + 5 * (19 + 16))),
    (vertices.multi_slice(16, 5, UNSIGNED_CHAR, IPU2), 6 * (30 + 5 * (19 + 12))),
    # 6 x (32 + (11 + 3 a further word) a row); special rows of 64 bits; a half too many is stored
    # by itself
    (vertices.multi_update_op(16, 5, FLOAT, IPU2), 6 * (32 + 5 * (11 + 45))),
    (vertices.multi_update_op(16, 5, FLOAT, IPU2, scaled=True), 6 * (38 + 5 * (11 + 45))),
    (vertices.multi_update_op(2, 5, FLOAT, IPU2, scaled=True), 6 * (37 + 5 * 8)),
    (vertices.multi_update_op(4, 5, HALF, IPU2, scaled=True), 6 * (36 + 5 * 9)),
    (
        vertices.multi_update_op(16, 5, HALF, IPU2, scaled=True, wide_scale=True),
        6 * (37 + 5 * (13 + 7 * 4)),
    ),
    (vertices.multi_update_op(5, 5, HALF, IPU2), 6 * (33 + 5 * (12 + 100))),
    (vertices.sequence_slice(8, 10, 3, FLOAT, IPU2), 60 + 54 * 6 + 180),
    (vertices.sequence_slice(8, 10, 0, FLOAT, IPU2), 40),
    # 8 x (19 n log2 n + 6 n + 2), twice that with values
    # 11 + 6 x (20 + the slowest worker). An element of a merge: 6 for a FLOAT key, and 2 for a
    # word that goes along. 7 merges: one and a half for each worker
    (vertices.merge_runs(6, 10, 5, [FLOAT], IPU2), 11 + 6 * (20 + 8 + 60)),
    (vertices.merge_runs(7, 10, 5, [FLOAT, INT], IPU2), 11 + 6 * (20 + 88 + 8 + 7 * 3 + 2 * 8)),
    (vertices.merge_runs(2, 60, 30, [HALF], IPU2), 11 + 6 * (20 + 2 * (8 + 7 * 5) + 20 * 8)),
    (vertices.sort_rows(6, 1, 1, 1, [FLOAT], IPU2), 11 + 6 * (30 + 2)),
    # two runs of 60 that are in order
    (vertices.sort_rows(1, 120, 60, 120, [INT], IPU2), 11 + 6 * (20 + 8 + 7 * 6 + 20 * 5)),
    # PopLibs' search, by six workers and then by one
    (vertices.sort_rows(1, 600, 1, 1, [FLOAT], IPU2), 22 + 6 * (30 + 297 + 2 + 30 + 15 + 2)),
    (vertices.rank_pair(60, 60, FLOAT, IPU2), 11 + 6 * (20 + 8 + 7 * 6 + 20 * 6)),
    (vertices.sum_ranks(40, 60, IPU2), 11 + 6 * (20 + 10 * 82)),
    (vertices.scatter_run(60, 24, INT, IPU2), 11 + 6 * (20 + 2 + 7 * 6 + 4 * 4)),
    (vertices.combine_runs(40, 60, HALF, IPU2), 11 + 6 * (20 + 5 * 81)),
    (vertices.iota([5, 6], INT, IPU2), 10 + 4 + 9 + 4 + 9),
    (vertices.clamp([5, 8], HALF, IPU2), 5 + 6 + 4 + 6 + 5),
    (vertices.clamp([5], INT, IPU2), 5 + 6 + 35),
    # 24 + 6 x (25 + 2 a four + rest + 7): a worker has 17 of 100
    (vertices.has_nan(100, FLOAT, IPU2), 24 + 6 * (15 + 10 + 9 + 7)),
    (vertices.has_nan(100, FLOAT, IPU2, or_inf=True), 24 + 6 * (15 + 10 + 13 + 1 + 7)),
    (vertices.has_nan(100, HALF, IPU2), 24 + 6 * (15 + 12 + 13 + 11)),
    (vertices.has_nan(100, HALF, IPU2, or_inf=True), 24 + 6 * (15 + 12 + 6 + 1 + 11)),
    # 53 + 26 for every three, and the rest
    (vertices.scaled_add(9, INT, IPU2), 53 + 78 + 6),
    (vertices.scaled_add(11, INT, IPU2), 53 + 78 + 6 + 52 + 14),
    # 57 + 6 x (15 + 6 + i x (q - 1) + 4): q = 50 // 6 = 8; mixed types 4 a turn, memory 2 and from
    # 16 turns on 1
    (vertices.scaled_add(100, FLOAT, IPU2, other=HALF), 57 + 6 * (15 + 6 + 28 + 4)),
    (vertices.scaled_add(100, FLOAT, IPU2, memory_constrained=True), 57 + 6 * (15 + 6 + 14 + 4)),
    (vertices.scaled_add(240, FLOAT, IPU2, memory_constrained=True), 57 + 6 * (15 + 6 + 19 + 4)),
    (vertices.scaled_add(100, FLOAT, IPU2, operation="SUBTRACT"), 333 + 7),
    (vertices.scaled_add(100, FLOAT, IPU2, operation="AXPBY", scaled_pointer=True), 333 + 12 + 6),
    (vertices.scaled_add(103, HALF, IPU2), 63 + 6 * (15 + 6 + 9 + 4 + 18)),
    # 12 + 6 x (18 + 19 + 2 for every four + tail): m = 3 has both bits of the remainder, m = 5 the
    # low one
    (vertices.cast_1d(18, FLOAT, HALF, IPU2), 12 + 6 * (37 + 0 + 3 + 3)),
    (vertices.cast_1d(30, FLOAT, HALF, IPU2), 12 + 6 * (37 + 2 + 3 + 1)),
    (vertices.cast_1d(18, HALF, FLOAT, IPU2), 12 + 6 * (37 + 1 + 3)),
    # integers one by one; to and from bytes in fours
    (vertices.cast_1d(18, INT, FLOAT, IPU2), 12 + 6 * (37 + 6)),
    (vertices.cast_1d(18, INT, LONGLONG, IPU2), 12 + 6 * (18 + 3 + 15)),
    (vertices.cast_1d(78, UNSIGNED_CHAR, HALF, IPU2), 12 + 6 * (18 + 4 + 14 + 18 + 12)),
    (vertices.cast_1d(60, HALF, UNSIGNED_CHAR, IPU2), 12 + 6 * (18 + 8 + 19 + 16 + 21)),
    # 8-bit floats as if one size down: eights in 2 cycles, fours in 1
    (vertices.cast_1d(78, HALF, QUARTER, IPU2), 12 + 6 * (37 + 2 + 3 + 1 + 3)),
    (vertices.cast_1d(78, QUARTER, HALF, IPU2), 12 + 6 * (37 + 3 + 3 + 1)),
    (vertices.cast_1d(78, QUARTER, QUARTER, IPU2), 12 + 6 * (18 + 4 + 26)),
    (vertices.cast_1d(78, QUARTER, CHAR, IPU2), 12 + 6 * (18 + 4 + 56)),
    (vertices.cast_1d(78, CHAR, QUARTER, IPU2), 12 + 6 * (18 + 4 + 74)),
    # 28 + n/4 below 64 bytes, 39 + n/8 from there; 5 + n for 64 bits; halves 15 and 21 for one and
    # two
    (vertices.fill(63, CHAR), 43),
    (vertices.fill(64, UNSIGNED_CHAR), 47),
    (vertices.fill(10, LONGLONG), 15),
    (vertices.fill(2, HALF), 21),
    (vertices.fill(3, SHORT), 26),
    (vertices.fill_2d([100, 12], FLOAT), 6 + 70 + 26),
    (vertices.fill_2d([100, 12], HALF), 5 + 49 + 27),
    (vertices.fill_2d([10], LONGLONG), 5 + 13),
    # 4 + 4 a vector + 132, and 3 for a rest; HALF 144 and 12
    (vertices.normal(101, FLOAT, IPU2), 4 + 4 * 102 // 2 + 132 + 3),
    (vertices.normal(100, HALF, IPU2), 4 + 4 * 103 // 4 + 144),
    (vertices.truncated_normal(100, 3, FLOAT, IPU2), 4 + 38 * 101 // 2 + 156),
    (vertices.truncated_normal(100, 3, HALF, IPU2), 4 + 41 * 103 // 4 + 168),
    (vertices.dropout(101, HALF, IPU2), 6 + 144 + 2 * 104 // 4 + 9),
    (vertices.dropout(101, FLOAT, IPU2), 6 + 144 + 102 + 1),
    (vertices.set_seed(IPU2), 14 + 162),
    (vertices.uniform(101, INT, IPU2), 4 + 6 * 50 + 2 + 132),
    (vertices.uniform(100, FLOAT, IPU2), 4 + 4 * 131 // 32 + 132 + 4),
    (vertices.uniform(96, HALF, IPU2), 4 + 4 * 111 // 16 + 144),
    (vertices.bernoulli(100, FLOAT, IPU2), 4 + 4 + 126 + 9),
    (vertices.bernoulli(100, HALF, IPU2), 4 + 7 + 138 + 1),
    # outputs less one: 9 x (13 // 2 + 12) + 2 for the odd part + 17
    (vertices.reduce_contiguous(10, 13, FLOAT, IPU2), 9 * 6 + 9 * 12 + 2 + 17),
    (vertices.reduce_contiguous(10, 16, HALF, IPU2, update=True), 9 * 4 + 9 * 12 + 18),
    # 16 + columns x (3 + post + 3 + 1 a further part): 40 columns are 20 loads FLOAT, 10 HALF
    (vertices.reduce_strided(40, 13, 40, FLOAT, FLOAT, IPU2), 16 + 20 * (3 + 5 + 3 + 12)),
    (
        vertices.reduce_strided(40, 13, 40, FLOAT, HALF, IPU2, op="MAX", update=True),
        16 + 20 * (3 + 6 + 3 + 12),
    ),
    (vertices.reduce_strided(40, 13, 40, HALF, HALF, IPU2), 16 + 10 * (3 + 8 + 3 + 12)),
    (
        vertices.reduce_strided(40, 13, 42, HALF, FLOAT, IPU2, update=True),
        16 + 20 * (3 + 12 + 3 + 12),
    ),
    (
        vertices.reduce_strided(40, 13, 40, HALF, HALF, IPU2, op="MIN", update=True),
        16 + 10 * (3 + 11 + 3 + 12),
    ),
    (
        vertices.reduce_strided(40, 13, 40, FLOAT, FLOAT, IPU2, op="LOG_ADD"),
        16 + 20 * (3 + 4 + 3 + 23 * 12),
    ),
    (
        vertices.reduce_strided(40, 13, 40, HALF, HALF, IPU2, op="LOG_ADD"),
        16 + 10 * (3 + 8 + 3 + 13 * 12),
    ),
    # 7 + 26 + 16 + 6 + 4 + 2, then a vector of 4: 5 + (2 x 2 + 1) + 1 + 10 + 13 x (2 + 2 + 2 + 3)
    (vertices.reduce_regions(40, 13, FLOAT, FLOAT, IPU2), 61 + 10 * (21 + 13 * 9)),
    # a rest of one: 4 + (2 + 1) + 10 + 13 x (2 + 1 + 3)
    (vertices.reduce_regions(41, 13, FLOAT, FLOAT, IPU2), 61 + 10 * (21 + 13 * 9) + 17 + 13 * 6),
    # without accumulators 3 + 4 + 1 + 10 + 13 x (2 + 2 + 3)
    (vertices.reduce_regions(40, 13, FLOAT, FLOAT, IPU2, op="MAX"), 61 + 10 * (18 + 13 * 7)),
    (
        vertices.reduce_regions(40, 13, HALF, HALF, IPU2, update=True, regions=2),
        63 + 5 * (5 + 13 + 1 + 20 + 13 * 9),
    ),
    (
        vertices.reduce_regions(40, 13, FLOAT, FLOAT, IPU2, op="LOGICAL_AND"),
        7 + 24 + 8 + 22 + 25 * 520,
    ),
    (vertices.reduce_regions(40, 13, HALF, FLOAT, IPU2, op="LOG_ADD"), 7 + 24 + 8 + 22 + 37 * 520),
    # 33 + 6 x (20 + (2 a part + 8) for every 24 outputs); HALF: 9, FLOAT sums of them 10, and for
    # every 48
    (vertices.conv_reduce(40, 13, FLOAT, IPU2), 33 + 6 * (20 + 34 * 2)),
    (vertices.conv_reduce(24, 13, FLOAT, IPU2), 33 + 6 * (20 + 34)),
    (vertices.conv_reduce(1, 1, FLOAT, IPU2), 33 + 6 * 30),
    (vertices.conv_reduce(24, 13, FLOAT, IPU2, out=HALF, interleaved=True), 33 + 6 * (20 + 20)),
    (vertices.conv_reduce(48, 10, HALF, IPU2), 33 + 6 * (20 + 29)),
    (vertices.conv_reduce(49, 10, HALF, IPU2, out=FLOAT), 33 + 6 * (20 + 60)),
    (vertices.conv_reduce(24, 13, FLOAT, IPU2, single_input=False), 6 * (32 + 3 * 13 + 7)),
    (vertices.conv_reduce(48, 10, HALF, IPU2, single_input=False), 6 * (32 + 3 * 10 + 8)),
    # one panel of 8 x 16 FLOAT, the weights 64 cycles: 50 + 13 + 11 + 18 + 7 + 64, and 6 times the
    # rows of a worker; 14 more where all workers have as many
    (vertices.conv_partial_1x1(1, 8, 16, FLOAT, IPU2), 163 + 6 * 57),
    (vertices.conv_partial_1x1(6, 8, 16, FLOAT, IPU2), 163 + 6 * 57 + 14),
    (vertices.conv_partial_1x1(12, 8, 16, FLOAT, IPU2), 163 + 6 * 64 + 14),
    (vertices.conv_partial_1x1(18, 8, 16, FLOAT, IPU2), 163 + 6 * 72 + 14),
    (vertices.conv_partial_1x1(59, 8, 16, FLOAT, IPU2), 163 + 6 * (46 + 56 + 2 + 80)),
    (vertices.conv_partial_1x1(60, 8, 16, FLOAT, IPU2), 163 + 6 * (46 + 56 + 2 + 80) + 14),
    # 8 panels deep: seven more accumulating passes of 15 + 19 + 6 + 64 + rows
    (vertices.conv_partial_1x1(50, 61, 10, FLOAT, IPU2), 163 + 6 * (94 + 74) + 7 * (104 + 6 * 94)),
    # half as many units on ipu1: 4 a row instead of 8, and half the weights to load
    (vertices.conv_partial_1x1(60, 8, 8, FLOAT, IPU1), 163 - 32 + 6 * (46 + 56 + 2 + 40) + 14),
    # two panels deep, 3 more retained for the second; two wide, and with FLOAT sums four, of 8 units
    (
        vertices.conv_partial_1x1(60, 32, 32, HALF, IPU2),
        50 + 6 * 10 + 13 + (15 + 2 * (25 + 64 + 6 * 59 + 14)) + 11 + 2 * (25 + 64 + 6 * 58 + 14),
    ),
    (
        vertices.conv_partial_1x1(60, 32, 32, HALF, IPU2, partials=FLOAT),
        50 + 6 * 10 + 13 + (15 + 4 * (25 + 32 + 6 * 59 + 14)) + 11 + 4 * (25 + 32 + 6 * 58 + 14),
    ),
    # HALF sums on the 8 units of ipu1: the older path
    (
        vertices.conv_partial_1x1(60, 16, 8, HALF, IPU1),
        50 + 12 + 11 + 19 + 7 + 32 + 6 * (41 + 28 + 2 + 20) + 14,
    ),
    # 46 + 21 + 46 + 131 + 64 + rows of 17 + 27 - 5 + 4 a further row
    (
        vertices.conv_partial_1x1_quarter(60, 32, 16, IPU2),
        46 + 21 + 46 + 131 + 64 + 6 * (39 + 28) + 14,
    ),
    (
        vertices.conv_partial_1x1_quarter(60, 64, 16, IPU2),
        46 + 21 + 46 + 131 + 2 * 64 + 108 + 6 * (39 + 44 + 56) + 28,
    ),
    # 58 - 10 + 54 + 23 + 15 + 10 + 6 x (32 + 19 + places x (7 + columns x (7 + n / 2)))
    (
        vertices.conv_partial_horizontal_mac(13, 10, 4, FLOAT, IPU2),
        48 + 54 + 48 + 6 * (51 + 3 * (7 + 4 * (7 + 5))),
    ),
    (
        vertices.conv_partial_horizontal_mac(13, 9, 4, FLOAT, IPU2),
        48 + 54 + 48 + 6 * (51 + 3 * (7 + 4 * (8 + 18))),
    ),
    (
        vertices.conv_partial_horizontal_mac(12, 12, 4, HALF, IPU2, kernel=3),
        65 + 60 + 48 + 6 * (3 * (35 + 2 * (7 + 2 * (6 + 1 + 3 + 1 + 3))) + 16),
    ),
    (vertices.transpose(1, (4, 4), HALF, IPU2), 7 + 6 * 29),
    (vertices.transpose(13, (4, 4), HALF, IPU2), 7 + 6 * (37 + 4)),
    (vertices.transpose(13, (8, 2), FLOAT, IPU2), 7 + 6 * (27 + 3 * (35 + 6))),
    (vertices.transpose(1, (8, 6), FLOAT, IPU2), 7 + 6 * (29 + 18 + 4 * (12 + 3))),
    # 9 + 6 x (20 + 4 + 3 a further vector + 1 + tail)
    (
        vertices.non_linearity_1d("SIGMOID", 121, FLOAT, IPU2, unpack=2),
        9 + 6 * (22 + 13 + 90 + 3 + 7),
    ),
    (vertices.non_linearity_grad_1d("TANH", 120, FLOAT, IPU2), 9 + 6 * (20 + 5 + 27 + 4)),
    (vertices.non_linearity_grad_1d("GELU", 123, HALF, IPU2), 9 + 6 * (20 + 5 + 20 + 6 + 7 + 9)),
    (vertices.max_class(1), 30),
    (vertices.max_class(10), 57),
    (vertices.calc_accuracy(10), 54),
    (vertices.loss_cross_entropy(10, HALF), 5 + 6 + 5 + 1 + 2 + 1 + 45 + 2 + 1),
    (vertices.loss_cross_entropy(11, HALF), 5 + 6 + 5 + 1 + 2 + 1 + 49 + 2 + 11 + 1),
    (vertices.loss_sum_squared(10, FLOAT), 5 + 5 + 5 + 2 + 1 + 40 + 1),
    # set up 28, set 2 x 1 outputs; a row of 10: 15, a place of the window 23 + 2, 3 + 4 + 3 x 9
    (vertices.pooling("MAX", 1, 1, 10, IPU2, outputs=12), 13 + 6 * (28 + 6 + 13 + 15 + 25 + 34)),
    (vertices.pooling("MAX", 0, 0, 0, IPU2), 13 + 6 * (28 + 4)),
    # 2 rows with 3 places each, 4 long; of 2 groups of 2 vectors: 23 + 2 x 2 + 6, and 10 + 5 x 3
    (
        vertices.pooling("GRAD", 2, 6, 24, IPU2, vectors=2, groups=2),
        13 + 6 * (28 + 8 + 23 + 30 + 6 * 33 + 4 * 6 * 25),
    ),
    # maximum and sum 2 x 12 + 17 each; subtract 5 + 2 x 15; exponent 20 + 2 x 30; inverse 20 + 6;
    # multiply as subtract
    (vertices.softmax(2, 10, FLOAT, IPU2), 2 * (2 * 5 + 41) + 35 + 80 + 26 + 35),
]


@pytest.mark.parametrize(
    ("found", "wanted"), BY_HAND, ids=[f"row {i}" for i in range(len(BY_HAND))]
)
def test_values_by_hand(found: int, wanted: int) -> None:
    assert found == wanted


def test_an_operation_that_poplibs_does_not_have() -> None:
    with pytest.raises(MissingPerfEstimateError) as error:
        vertices.pooling("MEAN", 1, 1, 10, IPU2)
    assert str(error.value) == (
        "PopLibs has no estimate of 'MEAN'.\n  where: Pooling\n  next:  choose one of AVG, GRAD, "
        "MAX."
    )


@pytest.mark.parametrize(
    ("call", "name", "where"),
    [
        (
            lambda: vertices.unary_op_1d("TANN", 10, FLOAT, IPU2),
            "'TANN'",
            "UnaryOp1D of FLOAT\n  next:  did you mean 'TAN'?",
        ),
        (lambda: vertices.unary_op_1d("ERF", 10, INT, IPU2), "'ERF'", "UnaryOp1D of INT"),
        (lambda: vertices.binary_op_1d("ADD", 10, BOOL, IPU2), "'ADD'", "BinaryOp1D of BOOL"),
        (lambda: vertices.non_linearity_1d("ELU", 10, FLOAT, IPU2), "'ELU'", "NonLinearity1D"),
        (
            lambda: vertices.non_linearity_grad_1d("GELU_ERF", 10, FLOAT, IPU2),
            "'GELU_ERF'",
            "NonLinearityGrad1D",
        ),
        (lambda: vertices.scaled_add(10, FLOAT, IPU2, operation="AX"), "'AX'", "ScaledAdd"),
        (lambda: vertices.reduce_regions(10, 10, FLOAT, FLOAT, IPU2, op="AND"), "'AND'", "Reduce"),
        (
            lambda: vertices.reduce_strided(10, 10, 10, FLOAT, FLOAT, IPU2, op="MUL"),
            "'MUL'",
            "Reduce, strided",
        ),
        (
            lambda: vertices.transpose(1, (3, 4), HALF, IPU2),
            "transposing 3 x 4 elements of 2 bytes",
            "Transpose",
        ),
        (
            lambda: vertices.transpose(1, (4, 6), HALF, IPU2),
            "transposing 4 x 6 elements of 2 bytes",
            "Transpose",
        ),
        (
            lambda: vertices.transpose(1, (0, 4), HALF, IPU2),
            "transposing 0 x 4 elements of 2 bytes",
            "Transpose",
        ),
        (
            lambda: vertices.transpose(1, (4, 4), CHAR, IPU2),
            "transposing 4 x 4 elements of 1 bytes",
            "Transpose",
        ),
    ],
)
def test_what_poplibs_does_not_have(call: Callable[[], Any], name: str, where: str) -> None:
    with pytest.raises(MissingPerfEstimateError) as error:
        call()
    assert str(error.value).startswith(f"PopLibs has no estimate of {name}.\n  where: {where}")


# --- what must hold of any of them ----------------------------------------------------------------

FLOATS = st.sampled_from([FLOAT, HALF])
ELEMENTS = st.integers(1, 5000)
GROWING: dict[str, Callable[[Any, type[DType]], Any]] = {
    **{
        name: OF_SIZE[name]
        for name in (
            "relu",
            "exp",
            "tanh",
            "relu in place",
            "add",
            "add in place",
            "div",
            "scalar mul",
        )
    },
    "sqrt 2-D": lambda n, t: vertices.unary_op_2d("SQRT", [n, n], t, IPU2),
    "sub 2-D": lambda n, t: vertices.binary_op_2d("SUBTRACT", [n, 5], t, IPU2),
    "select": lambda n, t: vertices.select([n]),
    "truncated normal": lambda n, t: vertices.truncated_normal(n, 2, t, IPU2),
    "reduce contiguous": lambda n, t: vertices.reduce_contiguous(n, 8, t, IPU2),
    "reduce strided": lambda n, t: vertices.reduce_strided(n, 8, 8, t, t, IPU2),
    "conv reduce": lambda n, t: vertices.conv_reduce(n, 7, t, IPU2),
    "accuracy": lambda n, t: vertices.calc_accuracy(n),
    "transpose": lambda n, t: vertices.transpose(n, (8, 8), t, IPU2),
    "pooling": lambda n, t: vertices.pooling("AVG", 1, 9, n, IPU2),
}
# A further element may save these a tail; a further round of full vectors never does.
WITH_TAILS: dict[str, Callable[[Any, type[DType]], Any]] = {
    **{
        name: OF_SIZE[name]
        for name in ("cast", "gelu", "scaled add", "fill", "scalar reduce", "cross-entropy")
    },
    "gelu gradient": lambda n, t: vertices.non_linearity_grad_1d("GELU", n, t, IPU2),
    "sum squared": vertices.loss_sum_squared,
    "normal": lambda n, t: vertices.normal(n, t, IPU2),
    "dropout": lambda n, t: vertices.dropout(n, t, IPU2),
    "uniform": lambda n, t: vertices.uniform(n, t, IPU2),
    "bernoulli": lambda n, t: vertices.bernoulli(n, t, IPU2),
    "reduce regions": lambda n, t: vertices.reduce_regions(n, 5, t, t, IPU2),
    "bytes to half": lambda n, t: vertices.cast_1d(n, UNSIGNED_CHAR, HALF, IPU2),
    "half to bytes": lambda n, t: vertices.cast_1d(n, HALF, UNSIGNED_CHAR, IPU2),
    "product": lambda n, t: vertices.conv_partial_1x1(n, 16, 16, t, IPU2),
    "product of bytes": lambda n, t: vertices.conv_partial_1x1_quarter(n, 16, 16, IPU2),
    "horizontal": lambda n, t: vertices.conv_partial_horizontal_mac(n, 16, 16, t, IPU2),
}


@RANDOMLY
@given(ELEMENTS, FLOATS)
def test_more_elements_are_never_cheaper(n: int, dtype: type[DType]) -> None:
    for name, formula in GROWING.items():
        assert type(formula(n, dtype)) is int
        assert 0 < formula(n, dtype) <= formula(n + 1, dtype), name


@RANDOMLY
@given(st.integers(30, 5000), FLOATS)
def test_more_rounds_are_always_dearer(n: int, dtype: type[DType]) -> None:
    for name, formula in (GROWING | WITH_TAILS).items():
        assert formula(n, dtype) < formula(n + 192, dtype), name


@RANDOMLY
@given(st.lists(ELEMENTS, min_size=1, max_size=20), FLOATS)
def test_many_vertices_at_once_cost_what_they_cost_one_by_one(
    sizes: list[int], dtype: type[DType]
) -> None:
    together = np.array(sizes, np.int64)
    for name, formula in (GROWING | WITH_TAILS | OF_SIZE).items():
        found = formula(together, dtype)
        assert found.dtype == np.int64, name
        assert found.tolist() == [formula(n, dtype) for n in sizes], name


@RANDOMLY
@given(
    st.integers(1, 300),
    st.integers(1, 100),
    st.integers(1, 100),
    FLOATS,
    st.sampled_from([IPU1, IPU2]),
)
def test_a_larger_product_is_never_cheaper(
    rows: int, depth: int, columns: int, dtype: type[DType], target: Any
) -> None:
    def cycles(rows: int, depth: int, columns: int) -> Any:
        return vertices.conv_partial_1x1(rows, depth, columns, dtype, target)

    found = cycles(rows, depth, columns)
    assert cycles(rows, depth + 1, columns) >= found
    assert cycles(rows, depth + 16, columns) > found
    assert cycles(rows, depth, columns + 1) >= found
    assert cycles(rows, depth, columns + 16) > found
    # two rows a worker cost more than three: that dip is in PopLibs'
    assert cycles(rows + 18, depth, columns) > found


@pytest.mark.parametrize(
    ("target", "dtype", "partials", "peak"),
    [
        (IPU1, FLOAT, FLOAT, 8),
        (IPU1, HALF, FLOAT, 32),
        (IPU2, FLOAT, FLOAT, 16),
        (IPU2, HALF, FLOAT, 32),
        (IPU2, HALF, HALF, 64),
        (C600, HALF, FLOAT, 64),
    ],
)
def test_a_long_product_comes_near_the_peak_of_the_amp_units(
    target: Any, dtype: type[DType], partials: type[DType], peak: int
) -> None:
    """Multiply-adds a cycle and tile: 62.5 TFLOP/s in FLOAT for an ipu2 of 1,472 tiles at 1.33 GHz,
    four times that in HALF, and half of it again where halves are added up in FLOAT."""
    columns = 8 if target is IPU1 else 16
    cycles = vertices.conv_partial_1x1(60_000, 800, columns, dtype, target, partials=partials)
    assert 0.97 < 60_000 * 800 * columns / (peak * cycles) <= 1


# Graphcore's own measurement on a Bow: cycles of one ConvPartial1x1, [N, 16] x [16, 16] HALF
# (notebook "IPU Peak Flops").
MEASURED = {16: 402.0, 64: 584.1, 256: 1352.0, 512: 2381.4, 1024: 4424.3, 2048: 8525.0}


@pytest.mark.parametrize("rows", MEASURED)
def test_the_amp_units_against_silicon(rows: int) -> None:
    within = 0.002 if rows >= 512 else 0.02
    assert vertices.conv_partial_1x1(rows, 16, 16, HALF, IPU2) == pytest.approx(
        MEASURED[rows], rel=within
    )


@RANDOMLY
@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=60), st.integers(1, 8))
def test_a_schedule_is_no_shorter_than_its_work(cycles: list[int], workers: int) -> None:
    costs = np.array(cycles)
    (busiest,) = busiest_worker(costs, np.zeros(len(costs), np.int64), 1, workers)
    assert max(cycles) <= busiest <= sum(cycles)
    assert busiest >= -(-sum(cycles) // workers)
    # no worker waits while another has a vertex to start
    assert busiest <= sum(cycles) / workers + max(cycles)
