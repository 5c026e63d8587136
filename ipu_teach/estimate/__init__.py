"""The estimate of a network's step: its modelled cycles and memory, without building the network.

    result = ir.estimate(step, device)                    # of a graph of `frontends.ir`
    result = poptorch.estimate(model, options, x, y)      # of a PyTorch module
    print(result)                                         # time, memory, and a table by layer

The price of an operation is its modelled cycles, which a function in `prices.PRICES` computes. It
uses the same formulas and planners as the cost model of a built graph, but assumes that values are
distributed evenly over the tiles.
"""

from __future__ import annotations
