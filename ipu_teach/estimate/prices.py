"""The table of prices: it maps kinds of operations to functions that add their cycles to a line."""

from __future__ import annotations

from collections.abc import Mapping

from ipu_teach.estimate import elements, layers, recurrent, updates
from ipu_teach.estimate.pricing import Price

PRICES: Mapping[str, Price] = {
    **elements.PRICES,
    **layers.PRICES,
    **recurrent.PRICES,
    **updates.PRICES,
}
