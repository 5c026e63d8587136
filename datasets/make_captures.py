"""Makes the captured graphs of lesson 13, datasets/perceptron.model and datasets/cnn.model, from
modules of torch, which the lesson does without.

    python datasets/make_captures.py

`perceptron`: two layers for digits of 8 by 8 pixels, batches of 16. `cnn`: a convolution with batch
norm, pooling, and a layer, batches of 8. Both return their loss last, as PopTorch's modules do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from ipu_teach.frontends import ir
from ipu_teach.frontends.pytorch.capture import capture_module

HERE = Path(__file__).resolve().parent


class Perceptron(nn.Module):  # type: ignore[misc]
    """Two layers and their loss."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 10)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x: Any, y: Any) -> Any:
        """Scores of ten classes, and the loss."""
        out = self.second(torch.relu(self.first(x)))
        return out, self.loss(out, y)


class Cnn(nn.Module):  # type: ignore[misc]
    """Four kernels, batch norm and pooling, a layer, and the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn, self.pool = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2)
        self.out, self.loss = nn.Linear(36, 10), nn.CrossEntropyLoss()

    def forward(self, x: Any, y: Any) -> Any:
        """Scores of ten classes, and the loss."""
        h = self.pool(torch.relu(self.bn(self.conv(x))))
        out = self.out(h.flatten(1))
        return out, self.loss(out, y)


def capture(name: str) -> ir.Ir:
    """The graph of a module, with the weights of a fixed seed."""
    with torch.random.fork_rng():
        torch.manual_seed(13)
        module = {"perceptron": Perceptron, "cnn": Cnn}[name]()
    x = torch.zeros(16, 64) if name == "perceptron" else torch.zeros(8, 1, 8, 8)
    found = capture_module(module, (x, torch.zeros(len(x), dtype=torch.int64)))
    outputs = dict(zip(("out", "loss"), found.graph.outputs.values(), strict=True))
    return found.graph.but(outputs=outputs)


if __name__ == "__main__":
    for each in ("perceptron", "cnn"):
        ir.save(capture(each), HERE / f"{each}.model")
