"""The estimate of a step of a network: its modelled cycles and its memory, without building it.

    result = ir.estimate(step, device)                    # of a graph of `frontends.ir`
    result = poptorch.estimate(model, options, x, y)      # of a PyTorch module
    print(result)                                         # time, memory, and a table by layer

Each operation has a price (`prices.PRICES`). It is computed by the formula or the planner that
computes the cycles of a built graph. The values are assumed to be distributed evenly over the
tiles.
"""

from __future__ import annotations
