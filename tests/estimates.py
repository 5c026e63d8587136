"""Compare estimates with built graphs: python -m tests.estimates [--count N] [--seed S] [--choices]

The command builds training steps and estimates them, and prints these numbers: the cycles estimated
and modelled, their ratio, the bytes of a tile estimated, and their mean and maximum over the tiles
of the built graph. Without options, these are ten networks on 1,472 tiles, which need torch and ten
minutes. With `--count`, they are that many random networks on 64 tiles. The exit status is 1 if a
ratio differs from 1 by more than `LIMIT`. With `--choices`, the command prints the minutes and the
memory of ResNet-50 with other options instead. docs/estimate.md contains the results.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ipu_teach import HALF, UNSIGNED_INT, IPUModel
from ipu_teach.device import Device
from ipu_teach.estimate.command import estimate_network, parser
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.session import Group, Training
from ipu_teach.poplibs.options import Options
from ipu_teach.report import Report
from validation.programs import profile

LIMIT = 0.15
HALF_SUMS: Options = {"partialsType": "half"}


def built_report(step: Ir, device: Device, options: Options | None = None) -> Report:
    """Return the report of a step that is built for `device`, as if it had run once."""
    low = ir.Lowering(step, device, 1, options)
    return profile(low.whole, low.program)


def built_cycles(step: Ir, device: Device, options: Options | None = None) -> int:
    """Return the modelled cycles of a step that is built for `device`."""
    return int(built_report(step, device, options).total_cycles)


# --- random networks ------------------------------------------------------------------------------


def random_step(seed: int) -> Ir:
    """Return the training step of a random network: convolutions or linear layers, and a loss."""
    draw = random.Random(seed)
    graph = Ir()
    batch = draw.choice((4, 8, 16, 32))
    dtype_sizes = draw.choice(((3, 16, 16), (8, 8, 8), (64,), (200,)))
    h = graph.input((batch, *dtype_sizes), "x", HALF)
    labels = graph.input((batch,), "y", UNSIGNED_INT)
    for number in range(draw.randint(1, 4)):
        with graph.at(path=f"layer{number}"):
            h = _layer(graph, h, draw, f"layer{number}")
    h = graph.op("reshape", h, shape=(batch, -1))
    with graph.at(path="head"):
        h = ir.linear(graph, h, _weights(graph, "head.weight", 10, h.shape[1]))
        loss = ir.cross_entropy(graph, h, labels)
    graph.output("loss", loss)
    kind = draw.choice(("sgd", "adam", "adamw"))
    numbers = {"momentum": 0.9} if kind == "sgd" else {}
    accumulation = draw.choice((1, 1, 3))
    training = Training(kind, groups=(Group(numbers=numbers),), accumulation=accumulation)
    return training.transform(graph, loss)


def _weights(graph: Ir, name: str, *shape: int) -> Value:
    return graph.variable(np.zeros(shape, np.float16), name, dtype=HALF)


def _layer(graph: Ir, h: Value, draw: random.Random, name: str) -> Value:
    out = draw.choice((16, 32, 48, 64))
    if len(h.shape) == 4:
        kernel = draw.choice((1, 3))
        margin = (kernel // 2,) * 2
        sizes = {"stride": (1, 1), "lower": margin, "upper": margin, "dilation": (1, 1)}
        w = _weights(graph, f"{name}.weight", out, h.shape[1], kernel, kernel)
        h = graph.op("conv", h, w, **sizes, groups=1)
    else:
        out *= 4
        h = ir.linear(graph, h, _weights(graph, f"{name}.weight", out, h.shape[1]))
    norm = draw.choice(("", "batch", "layer", "group"))
    if norm:
        scale = [_weights(graph, f"{name}.{part}", out) for part in ("scale", "shift")]
        groups = {"groups": 4} if norm == "group" else {}
        h = graph.emit("norm", h, *scale, kind=norm, eps=1e-5, **groups)[0]
    h = graph.op(draw.choice(("relu", "gelu", "tanh", "sigmoid", "silu")), h)
    if len(h.shape) == 4 and h.shape[2] > 4 and draw.random() < 0.4:
        window = {"kernel": (2, 2), "stride": (2, 2), "lower": (0, 0), "upper": (0, 0)}
        h = graph.op(draw.choice(("max_pool", "avg_pool")), h, **window)
    return h


# --- ten networks ---------------------------------------------------------------------------------


def networks() -> Iterator[tuple[str, Ir, Options]]:
    """Yield the name, the training step and the options of ten networks captured from torch."""
    import torch
    from torch import nn

    sys.path.insert(0, "docs")
    from make_networks import Block, Layer

    from ipu_teach.frontends.pytorch.capture import capture_module
    from ipu_teach.frontends.pytorch.paths import with_paths

    class Loss(nn.Module):  # type: ignore[misc]
        """A network with its loss."""

        def __init__(self, *layers: Any) -> None:
            super().__init__()
            self.net, self.loss = nn.Sequential(*layers), nn.CrossEntropyLoss()

        def forward(self, x: Any, y: Any) -> Any:
            return self.loss(self.net(x), y)

    class Mean(nn.Module):  # type: ignore[misc]
        """The mean over all positions, or the first token."""

        def forward(self, x: Any) -> Any:
            return x.mean((2, 3)) if x.dim() == 4 else x[:, 0]

    def step(module: Any, *shape: int, half: bool = True) -> Ir:
        inputs = torch.zeros(*shape), torch.zeros(shape[0], dtype=torch.long)
        if half:
            module, inputs = module.half(), (inputs[0].half(), inputs[1])
        captured = capture_module(module.train(), inputs, {}, (), True)
        graph = captured.graph
        graph.ops = with_paths(graph, captured.backward, "Loss", captured.loss_at)
        training = Training("sgd", groups=(Group(numbers={"momentum": 0.9}),))
        return training.transform(graph, None, captured.trained, captured.grads)

    def dense(*sizes: int) -> Any:
        layers: list[Any] = []
        for size, out in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(size, out), nn.ReLU()]
        return Loss(*layers[:-1])

    def cnn(norm: Callable[[int], Any]) -> Any:
        first, second = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        layers = [first, norm(32), nn.ReLU(), nn.MaxPool2d(2)]
        layers += [second, norm(64), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        return Loss(*layers, nn.Linear(4096, 10))

    def residual(norm: Callable[[int], Any]) -> Any:
        net = [nn.Conv2d(3, 16, 3, padding=1, bias=False), norm(16), nn.ReLU()]
        net += [Block(16, 16, 1, 1), Block(16, 32, 2, 1), Block(32, 64, 2, 1)]
        for block in net[3:]:
            for layers in (block.body, block.shortcut):
                for name, layer in list(layers.named_children()):
                    if isinstance(layer, nn.BatchNorm2d):
                        layers[int(name)] = norm(layer.num_features)
        return Loss(*net, Mean(), nn.Linear(64, 10))

    def transformer(size: int, heads: int) -> Any:
        return Loss(Layer(size, heads, False), Mean(), nn.Linear(size, 2))

    def groups(count: int) -> Any:
        return nn.GroupNorm(4, count)

    bottleneck = Loss(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), Block(64, 64, 1, 4), Mean(), nn.Linear(256, 10)
    )
    sizes = 784, 512, 512, 10
    wide = 1024, 4096, 4096, 1024
    yield "perceptron 784-512-512-10", step(dense(*sizes), 64, 784), HALF_SUMS
    yield "perceptron, FLOAT", step(dense(*sizes), 64, 784, half=False), {}
    yield "perceptron 1024-4096-4096-1024", step(dense(*wide), 256, 1024), HALF_SUMS
    yield "two convolutions", step(cnn(lambda _: nn.Identity()), 16, 3, 32, 32), HALF_SUMS
    yield "two convolutions, batch norm", step(cnn(nn.BatchNorm2d), 16, 3, 32, 32), HALF_SUMS
    yield "ResNet-8, batch norm", step(residual(nn.BatchNorm2d), 16, 3, 32, 32), HALF_SUMS
    yield "ResNet-8, group norm", step(residual(groups), 16, 3, 32, 32), HALF_SUMS
    yield "transformer layer, 256 features", step(transformer(256, 4), 4, 64, 256), HALF_SUMS
    yield "transformer layer, 512 features", step(transformer(512, 8), 4, 128, 512), HALF_SUMS
    yield "bottleneck block, 28 x 28", step(bottleneck, 4, 3, 28, 28), HALF_SUMS


# --- choices --------------------------------------------------------------------------------------

EPOCHS = 38 * 1_281_167  # The images of the 38 epochs in MLPerf Training 1.1.
SET_UP = (
    "--micro-batch 20 --batch 3200 --replicas 16 --recompute --optimiser lars --proportion 0.15 "
    "--byte-inputs"
)
# Options that are appended to `SET_UP`, or with "without", removed from it.
CHOICES = (
    "",
    "--micro-batch 1",
    "--micro-batch 2",
    "--micro-batch 4",
    "--micro-batch 8",
    "--micro-batch 16 --batch 3072",
    "without --recompute",
    "--micro-batch 12 --batch 3264 without --recompute",
    "--micro-batch 8 without --recompute",
    "--partials float",
    "--proportion 0.05",
    "--proportion 0.6",
    "without --byte-inputs",
    "--batch 320",
    "--batch 640",
    "--batch 32000",
    "--replicas 4",
    "--replicas 64 --batch 3840",
    "--replicas 128 --batch 5120",
    "--replicas 256 --batch 10240",
    "--ipu bow",
    "--ipu ipu1 --micro-batch 1",
)


def choice(text: str) -> str:
    """Return the row of docs/estimate.md for one of `CHOICES`."""
    added, _, removed = text.partition("without ")
    words = [word for word in SET_UP.split() if word != removed]
    estimate = estimate_network(parser().parse_args(["resnet50", *words, *added.split()]))
    parts = (f"`{added.strip()}`" if added else "", f"without `{removed}`" if removed else "")
    label = " ".join(filter(None, parts)) or "none"
    minutes = estimate.seconds_for(EPOCHS) / 60
    return f"| {label} | {minutes:.1f} | {estimate.fullest.share:.0%} |"


def main() -> int:
    """Print the ratios or the choices, and return the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=0)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--choices", action="store_true")
    options = arguments.parse_args()
    if options.choices:
        for text in CHOICES:
            print(choice(text), flush=True)
        return 0
    tiles = 64 if options.count else 1472
    steps: Iterator[tuple[str, Ir, Options]] = networks()
    if options.count:
        seeds = range(options.seed, options.seed + options.count)
        steps = ((f"random network {seed}", random_step(seed), HALF_SUMS) for seed in seeds)
    status = 0
    for name, step, products in steps:
        device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
        estimate, report = ir.estimate(step, device, products), built_report(step, device, products)
        ratio = estimate.cycles / report.total_cycles
        status |= abs(ratio - 1) > LIMIT
        num_bytes, built = estimate.memory[0].total, report.memory.bytes_per_tile
        print(
            f"{name:34}{estimate.cycles:12,.0f}{report.total_cycles:12,.0f}{ratio:8.2f}"
            f"{num_bytes:12,.0f}{built.mean():12,.0f}{built.max():12,.0f}",
            flush=True,
        )
    return status


if __name__ == "__main__":
    sys.exit(main())
