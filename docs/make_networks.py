"""Store the graphs of the networks of `ipu_teach.estimate`: python docs/make_networks.py [NAME ...]

The script needs torch. It captures the forward pass of each network in HALF, with the batch
`BATCH`, and writes a file below ipu_teach/estimate/stored. The weights are not stored.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ipu_teach.estimate.networks import BATCH, FOLDER, LOSS
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir.values import CONSTANT, VARIABLE, Ir, Value
from ipu_teach.frontends.pytorch.capture import capture_module
from ipu_teach.frontends.pytorch.paths import with_paths

Images = tuple[nn.Module, tuple[Tensor, ...]]


class Block(nn.Module):
    """A residual block: two convolutions, or three with a bottleneck, beside a shortcut."""

    def __init__(self, size: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        out = width * expansion
        if expansion == 1:
            convolutions = [(size, width, 3, stride), (width, out, 3, 1)]
        else:
            convolutions = [(size, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
        layers: list[nn.Module] = []
        for number, (before, after, kernel, step) in enumerate(convolutions):
            layers.append(nn.Conv2d(before, after, kernel, step, kernel // 2, bias=False))
            layers.append(nn.BatchNorm2d(after))
            if number < len(convolutions) - 1:
                layers.append(nn.ReLU())
        self.body = nn.Sequential(*layers)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or size != out:
            convolution = nn.Conv2d(size, out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """A ResNet with `counts` blocks in its four groups (He et al., arXiv:1512.03385)."""

    def __init__(self, counts: tuple[int, ...], expansion: int) -> None:
        super().__init__()
        convolution = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.stem = nn.Sequential(convolution, nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.groups = nn.ModuleList()
        size = 64
        for group, count in enumerate(counts):
            blocks = nn.Sequential()
            for number in range(count):
                width = 64 << group
                blocks.append(Block(size, width, 2 if group and not number else 1, expansion))
                size = width * expansion
            self.groups.append(blocks)
        self.head = nn.Linear(size, 1000)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.stem(x)
        for group in self.groups:
            h = group(h)
        return self.loss(self.head(h.mean((2, 3))), y)


class Layer(nn.Module):
    """A transformer layer, with the norms after the sums (BERT) or before the products (GPT)."""

    def __init__(self, size: int, heads: int, is_gpt: bool) -> None:
        super().__init__()
        self.heads, self.is_gpt = heads, is_gpt
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)
        self.drop = nn.Dropout(0.1)

    def attend(self, x: Tensor) -> Tensor:
        batch, length, size = x.shape
        shape = batch, length, 3, self.heads, size // self.heads
        q, k, v = self.qkv(x).reshape(shape).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (size // self.heads) ** -0.5
        if self.is_gpt:
            scores = scores + torch.full((length, length), -1e4, dtype=x.dtype).triu(1)
        mixed = torch.softmax(scores, -1) @ v
        return self.drop(self.out(mixed.transpose(1, 2).reshape(batch, length, size)))

    def feed(self, x: Tensor) -> Tensor:
        return self.drop(self.down(nn.functional.gelu(self.up(x))))

    def forward(self, x: Tensor) -> Tensor:
        if self.is_gpt:
            x = x + self.attend(self.first(x))
            return x + self.feed(self.second(x))
        x = self.first(x + self.attend(x))
        return self.second(x + self.feed(x))


class Language(nn.Module):
    """A transformer with an embedding, and a product of `masked` positions with the vocabulary."""

    def __init__(self, vocabulary: int, size: int, heads: int, layers: int, masked: int) -> None:
        super().__init__()
        self.masked = masked
        self.words, self.places = nn.Embedding(vocabulary, size), nn.Embedding(128, size)
        self.norm = nn.LayerNorm(size)
        self.layers = nn.ModuleList(Layer(size, heads, masked == 128) for _ in range(layers))
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.norm(self.words(x) + self.places.weight[None])
        for layer in self.layers:
            h = layer(h)
        h = h[:, : self.masked]
        return self.loss(h.reshape(-1, h.shape[-1]) @ self.words.weight.t(), y.reshape(-1))


def images(counts: tuple[int, ...], expansion: int) -> Images:
    batch = torch.zeros(BATCH, 3, 224, 224).half(), torch.zeros(BATCH, dtype=torch.long)
    return ResNet(counts, expansion), batch


def tokens(vocabulary: int, size: int, heads: int, layers: int, masked: int) -> Images:
    batch = torch.zeros(BATCH, 128, dtype=torch.long), torch.zeros(BATCH, masked, dtype=torch.long)
    return Language(vocabulary, size, heads, layers, masked), batch


MODELS: dict[str, Callable[[], Images]] = {
    "resnet18": lambda: images((2, 2, 2, 2), 1),
    "resnet50": lambda: images((3, 4, 6, 3), 4),
    "bert-base": lambda: tokens(30522, 768, 12, 12, 20),
    "bert-large": lambda: tokens(30522, 1024, 16, 24, 20),
    "gpt-small": lambda: tokens(8192, 384, 6, 6, 128),
}


def stored(module: nn.Module, batch: tuple[Tensor, ...]) -> Ir:
    """Return the graph of a forward pass without its weights, with the output "loss"."""
    captured = capture_module(module.half().train(), batch)
    graph = captured.graph
    (value,) = graph.outputs.values()
    graph.ops = with_paths(graph, [], type(module).__name__, None)
    values: dict[Value, Value] = {}

    def light(value: Value) -> Value:
        initial = value.initial
        if value.kind in (VARIABLE, CONSTANT) and initial is not None and initial.ndim:
            initial = np.zeros((), initial.dtype)
        return values.setdefault(value, replace(value, initial=initial))

    ops = [
        replace(op, inputs=tuple(map(light, op.inputs)), outs=tuple(map(light, op.outs)))
        for op in graph.ops
    ]
    variables, inputs = (
        {name: light(value) for name, value in group.items()}
        for group in (graph.variables, graph.inputs)
    )
    outputs = {LOSS: light(value)}
    return graph.but(ops=ops, variables=variables, inputs=inputs, outputs=outputs)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or MODELS:
        path = FOLDER / f"{name}.ipumodel"
        ir.save(stored(*MODELS[name]()), path)
        print(f"{path}: {path.stat().st_size:,} bytes")
