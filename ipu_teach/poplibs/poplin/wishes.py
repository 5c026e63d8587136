"""The options of a matrix product: PopLibs' options, and keywords for the most frequent ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipu_teach.errors import InvalidOptionError
from ipu_teach.poplibs.library import calling
from ipu_teach.poplibs.options import Option, settled
from ipu_teach.types import FLOAT

# The default fraction of a tile's memory for temporary data, as in PopLibs.
MEMORY_PROPORTION = 0.6
PASSES = ("NONE", "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU")
OPTIONS = (
    Option("availableMemoryProportion", float, MEMORY_PROPORTION, 0.0, 1.0),
    Option("partialsType", FLOAT),
    Option("use128BitConvUnitLoad", bool, False),
    Option("enableFastReduce", bool, False),
    # The next options have no effect, because a plan is for one product, operands stay on the tiles
    # to which they are mapped, and partial sums are added in one stage.
    Option("fullyConnectedPass", PASSES, "NONE", effect=False),
    Option("inputRHSIsPreArranged", bool, False, effect=False),
    Option("enableMultiStageReduce", bool, True, effect=False),
    Option("remapOutputTensor", bool, True, effect=False),
)


@dataclass(frozen=True)
class Wish:
    """The options of a product that affect its plan.

    - `partials`: the dtype of the sums; None means the default.
    - `proportion`: the fraction (0 to 1) of a tile's memory that temporary data may take.
    - `wide_loads`: whether the matrix-multiply units (AMP) load 128 bits of weights per cycle
      instead of 64.
    - `fast_reduce`: whether vertices read 128 bits of partial sums per cycle.
    """

    partials: object = None
    proportion: object = MEMORY_PROPORTION
    wide_loads: bool = False
    fast_reduce: bool = False


def wish_of(options: object, partials_type: object, proportion: object) -> Wish:
    """Return a `Wish` with the values from a call's `options` dict and from its keywords.

    :raises InvalidOptionError: if an option is invalid, or given as an option and as a keyword.
    """
    values = settled(OPTIONS, options)
    keywords = {
        "partialsType": (partials_type, None),
        "availableMemoryProportion": (proportion, MEMORY_PROPORTION),
    }
    for name, (keyword, default) in keywords.items():
        # Arrays are not compared, because == returns an array for them. `option.value` checks them.
        if keyword is default or (not isinstance(keyword, np.ndarray) and keyword == default):
            continue
        if isinstance(keyword, np.ndarray):
            option = next(option for option in OPTIONS if option.name == name)
            keyword = option.value(keyword)
        if settled(OPTIONS, None)[name] != values[name]:
            raise InvalidOptionError(f"""{calling()}() was given {name!r} as an option and as a
                keyword.
                next:  give the option once.""")
        values[name] = keyword
    return Wish(
        values["partialsType"],
        values["availableMemoryProportion"],
        values["use128BitConvUnitLoad"],
        values["enableFastReduce"],
    )
