"""Layers of PopLibs' own benchmarks: convolutions and fully connected layers, forward and both
gradients, cycles of the whole run on Graphcore's model of a GC2 and of a GC200, from `layers.csv`.
Every third of each kind stands in the table; a test looks at the middle of all.

HALF with sums of FLOAT, but for some of the small layers. Ours are the products of the three
passes; what PopLibs does beside them, rearranging and updating the weights, is left out. They are a
model's figures, as those of `benchmarks`.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

from ipu_teach.poplibs.poplin import ConvParams, plan_convolution, plan_mat_mul
from ipu_teach.types import FLOAT, HALF
from validation.benchmarks import MACHINES, SOURCE
from validation.programs import machine
from validation.row import PROGRAMS, TOLERANCES, Row

LayerLine = dict[str, str]  # a line of the file
FIELDS = ("stride", "lower", "upper")
PASSES = ("TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU")
PRODUCTS = "products alone: PopLibs' rearrangements and its update of the weights are left out"
# Kinds, and one layer, whose figures we do not meet, and why.
KNOWN_NOT_TO_HOLD = {
    "depthwise": "PopLibs takes ConvPartialVerticalMac (poplin/ConvPlan.cpp), ours are products",
    "small": "most of it are costs of rearranging and transposing so little, which ours leave out",
    "grouped": "its products are short, and what ours leave out weighs more",
}
TOO_WIDE = "conv_5x200_1_in_100_out_bs1440"  # on no tile: patches of 100,000 in its input gradient
RECURRENT = "the kit has no recurrent layers and no CTC"


@cache
def layers(kind: str) -> list[LayerLine]:
    """The layers of a kind: convolution, depthwise, bert (fully connected ones of transformers),
    small and grouped (fully connected), recurrent."""
    text = Path(__file__).with_name("layers.csv").read_text(encoding="utf-8")
    found = [layer for layer in csv.DictReader(text.splitlines()) if layer["kind"] == kind]
    return [layer for layer in found if layer["name"] != TOO_WIDE]


def three_passes(layer: LayerLine, version: str) -> int:
    """Modelled cycles of the products of all three passes, by our plans, on a whole chip."""
    target, dtype = machine(version), FLOAT if layer["dtype"] == "float" else HALF
    batch, ins, outs, groups = (int(layer[name]) for name in ("batch", "ins", "outs", "groups"))
    if not layer["field"]:
        sizes = (batch, ins, outs), (batch, outs, ins), (ins, batch, outs)
        return sum(
            plan_mat_mul(*each, target, groups=groups, dtype=dtype, partials_type=FLOAT).cycles
            for each in sizes
        )
    field, kernel, stride, lower, upper = (
        tuple(map(int, layer[name].split("x"))) for name in ("field", "kernel", *FIELDS)
    )
    pads: dict[str, Any] = {"padding_lower": lower, "padding_upper": upper}
    params = ConvParams(dtype, batch, field, kernel, ins, outs, groups, stride=stride, **pads)
    return sum(plan_convolution(params, target, pass_).cycles for pass_ in PASSES)


def benchmarks() -> list[Row]:
    """Every third of each kind, on both machines."""
    rows = []
    within = TOLERANCES[PROGRAMS]
    for kind in ("convolution", "bert", *KNOWN_NOT_TO_HOLD):
        for layer in layers(kind)[::3]:
            for version in MACHINES:
                published, modelled = int(layer[version]), three_passes(layer, version)
                name, known = _name(layer, version), KNOWN_NOT_TO_HOLD.get(kind)
                why = f"known not to hold: {known}" if known else PRODUCTS
                told = {"explained": known is not None}
                rows.append(SOURCE.row(name, published, modelled, within, why, **told))
    for layer in layers("recurrent")[::3]:
        for version in MACHINES:
            published = int(layer[version])
            rows.append(SOURCE.unmodelled(_name(layer, version), published, RECURRENT))
    return rows


def _name(layer: LayerLine, version: str) -> str:
    passes = "" if layer["kind"] == "recurrent" else ", three passes"
    return f"PopLibs, {layer['name']}{passes}, {version} model (cycles)"
