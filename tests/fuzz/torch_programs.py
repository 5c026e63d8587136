"""Random modules of torch as lines of code, and the inputs that they are fed."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import torch

from fuzz import torch_lines as lines
from ipu_teach import poptorch

PRELUDE = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ipu_teach import IPUModel, poptorch


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return -grad


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return (grad * y * 2).sum_to_size(x.shape), (grad * x * 3).sum_to_size(y.shape)


def hook(tensor, function):
    if tensor.requires_grad:
        tensor.register_hook(function)


def no_grad(function):
    with torch.no_grad():
        return function()
"""

OWNED = " <- "  # between a line of forward and the line that makes its module
HOLE = re.compile(r"\{(\w+)\}")
NAME = re.compile(r"\b[hvxib]\d+\b")
CONSTANTS = ["0.0", "1.0", "-1.0", "0.5", "2.0", "-2.0", "3.0", "0.1"]
LARGEST = 96  # elements of a tensor
SHAPES = [(2, 3), (3, 3), (2, 4), (3, 2), (2, 2, 3), (2, 1, 2), (4, 4), (2,), (3, 1)]
KINDS = ["plain", "ties", "zeros", "steps", "special", "denormal", "large", "negative"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 0.5]


@dataclass(frozen=True)
class Program:
    """A module: lines of `__init__` and of `forward`, inputs by name, and how it runs.

    A stage of a pipeline begins at a line `# stage N`. `loss` is an expression, or "" for
    inference only.
    """

    setup: list[str]
    body: list[str]
    inputs: dict[str, tuple[tuple[int, ...], torch.dtype]]
    loss: str = ""
    optimizer: str = ""
    options: list[str] = field(default_factory=list)
    micro_batches: int = 1  # in a step
    iterations: int = 1
    replicas: int = 1
    is_half: bool = False
    is_evaluated: bool = False  # after the first step
    transform: str = "plain"
    tiles: int = 2
    state: dict[str, Any] | None = None  # in place of what `__init__` draws

    @property
    def category(self) -> str:
        """What the program is counted as."""
        kind = f"training, {self.transform}" if self.loss else "values"
        return f"{kind}, half" if self.is_half else kind

    @property
    def outputs(self) -> list[str]:
        """The names that `forward` returns, before the loss."""
        names: list[str] = []
        for line in self.body:
            names += [n for n in re.findall(r"\b(h\d+)\b(?:, v\w+)? = ", line) if n not in names]
        return names

    def module(self) -> str:
        """Return the code of the class `Module`."""
        text = ["class Module(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        text += [f"        {line}" for line in self.setup]
        arguments = ", ".join(["self", *self.inputs, "k=2", "flag=True"])
        text += ["", f"    def forward({arguments}):"]
        indent = " " * 8
        for line in self.body:
            if line.startswith("# stage"):
                text.append(f"        with poptorch.Block(ipu_id={line.split()[-1]}):")
                text.append("            pass")
                continue
            text += [indent + part for part in re.split(r"; |\n", line)]
        returned = [*self.outputs, *([self.loss] if self.loss else [])]
        text.append(f"        return {', '.join(returned)},")
        return "\n".join(text) + "\n"

    def make(self) -> Any:
        """Return a new module, whose parameters are drawn from a fixed seed."""
        names: dict[str, Any] = {}
        exec(PRELUDE + self.module(), names)
        torch.manual_seed(0)
        module = names["Module"]()
        return module.half() if self.is_half else module


def values(kind: str, shape: tuple[int, ...], dtype: torch.dtype, rng: Random) -> torch.Tensor:
    """Return a tensor of the given kind of edge values."""
    make = torch.Generator().manual_seed(rng.getrandbits(40))
    if dtype == torch.bool:
        return torch.rand(shape, generator=make) < 0.5
    if not dtype.is_floating_point:
        low = -6 if kind in ("negative", "steps", "special") else 0
        return torch.randint(low, 7, shape, generator=make, dtype=dtype)
    x = torch.randn(shape, generator=make)
    picks = torch.randint(0, 1 << 20, shape, generator=make)
    if kind == "ties":
        x = torch.randint(-1, 2, shape, generator=make).float()
    elif kind == "zeros":
        x = torch.where(picks % 2 == 0, 0.0, -0.0)
    elif kind == "steps":  # the kinks of relu6, hardtanh, hardswish, softshrink and rounding
        steps = torch.tensor([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 6.0])
        x = steps[picks % len(steps)]
    elif kind == "special":
        x = torch.where(picks % 3 == 0, torch.tensor(SPECIAL)[picks // 3 % len(SPECIAL)], x)
    elif kind == "denormal":
        x = torch.where(picks % 2 == 0, x * 1e-40, x)
    elif kind == "large":
        x = x * torch.tensor([1.0, 30.0, 100.0, 1e4])[picks % 4]
    elif kind == "negative":
        x = -x.abs()
    return x.to(dtype)


class Writer:
    """Writes a program line by line, and runs each line at once to learn the shapes."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.setup: list[str] = []
        self.body: list[str] = []
        self.names: dict[str, Any] = {"k": 2, "flag": True}
        exec(PRELUDE, self.names)
        self.names["self"] = torch.nn.Module()
        self.count = 0

    def tensors(self, *dtypes: torch.dtype) -> list[str]:
        """The names of tensors of these dtypes, each more often the newer it is."""
        names = [
            n for n, v in self.names.items() if isinstance(v, torch.Tensor) and v.dtype in dtypes
        ]
        return names + names[-2:] + names[-1:]

    def fill(self, template: str) -> tuple[str, list[str]] | None:
        """Return the template with its placeholders filled, and its lines of setup."""
        chosen: dict[str, str] = {}
        rng = self.rng

        def hole(match: re.Match[str]) -> str:
            name = match.group(1)
            if name in chosen:
                return chosen[name]
            first = (
                self.names[chosen["f"] if "f" in chosen else chosen["i"]]
                if chosen.keys()
                & {
                    "f",
                    "i",
                }
                else torch.zeros(2, 2)
            )
            if name in ("f", "g"):
                pool = self.tensors(torch.float32)
                if name == "g" and "f" in chosen and rng.random() < 0.8:
                    same = [n for n in pool if self.names[n].shape == first.shape]
                    pool = same or pool
            elif name in ("i", "j"):
                pool = self.tensors(torch.int64, torch.int32)
            elif name in ("b", "e"):
                pool = self.tensors(torch.bool)
            elif name == "c":
                pool = CONSTANTS
            elif name == "n":
                pool = ["0", "1", "2", "-1", "3"]
            elif name == "d":
                pool = [str(d) for d in range(-1, first.dim())]
            elif name == "size":
                pool = [str(first.shape[int(chosen.get("d", "0"))])]
            elif name == "last":
                pool = [str(first.shape[-1])]
            elif name == "channels":
                pool = [str(first.shape[1])]
            elif name == "rest":
                pool = [str(tuple(first.shape[1:]))]
            elif name == "s":
                pool = [str(tuple(first.shape))]
            elif name in ("p", "q", "r"):
                pool = [f"{name}{self.count}"]
            elif name == "h":
                pool = [f"h{self.count}"]
            elif name == "m":
                pool = [f"m{self.count}"]
            else:
                raise KeyError(name)
            chosen[name] = rng.choice(pool)
            return chosen[name]

        text, *state = template.split("#")
        if template.startswith("# "):
            return None
        try:
            # the tensors first: sizes are of the tensor {f}
            for name in ("f", "i"):
                if f"{{{name}}}" in template:
                    hole(HOLE.match(f"{{{name}}}"))  # type: ignore[arg-type]
            line = HOLE.sub(hole, text)
            setup = [HOLE.sub(hole, part) for part in state]
        except IndexError:  # no tensor, or no dimension, of that kind
            return None
        made = []
        for name, value in zip([n for n in "pqr" if n in chosen], setup, strict=False):
            value = value if value.startswith("torch.") else f"torch.{value}"
            if name == "r":
                made.append(f'self.register_buffer("{chosen[name]}", {value})')
                if f"{chosen[name]}1" in line:  # a running mean, and a running variance
                    made.append(f'self.register_buffer("{chosen[name]}1", {value} + 1)')
            else:
                made.append(f"self.{chosen[name]} = nn.Parameter({value})")
        return line, made

    def add(self, template: str, kind: str) -> bool:
        """Write a line, if it runs in torch and its results are small tensors."""
        if kind == "expression":
            template = "{h} = " + template
        elif kind == "module":
            template = "{h} = self.{m}({f})" + OWNED + "self.{m} = " + template
        elif kind == "tuple":
            template = "{h} = self.{m}({f})[0]" + OWNED + "self.{m} = " + template
        text, _, owned = template.partition(OWNED)
        if owned:
            filled = self.fill(text + "\n" + owned)
            if filled is None:
                return False
            line, own = filled[0].split("\n")
            setup = [own]
        else:
            filled = self.fill(text)
            if filled is None:
                return False
            line, setup = filled
        if not self.run(line, setup):
            return False
        self.setup += setup
        self.body.append(line)
        self.count += 1
        return True

    def run(self, line: str, setup: list[str]) -> bool:
        """Run a line, and undo it if it fails or its results do not suit."""
        name = f"h{self.count}"
        before = {
            n: v.clone() if isinstance(v, torch.Tensor) and v.is_leaf else v
            for n, v in self.names.items()
        }
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec("\n".join(setup), self.names)
                exec("\n".join(line.split("; ")), self.names)
            value = self.names.get(name)
            fine = (
                isinstance(value, torch.Tensor)
                and 0 < value.numel() <= LARGEST
                and value.dim() <= 4
                and not value.is_complex()
            )
        except Exception:
            fine = False
        if not fine:
            self.names.clear()
            self.names.update(before)
        return fine


def line_kinds(rng: Random) -> tuple[str, str]:
    """Return a random template and its kind."""
    tables: list[tuple[list[str], str, int]] = [
        (lines.ELEMENTWISE, "expression", 6),
        (lines.REDUCING, "expression", 4),
        (lines.VIEWS, "expression", 4),
        (lines.PRODUCTS, "expression", 3),
        (lines.MODULES, "module", 3),
        (lines.TUPLES, "tuple", 1),
        (lines.INTEGERS, "expression", 4),
        (lines.STATEMENTS, "statement", 4),
    ]
    table, kind, _ = rng.choices(tables, [weight for *_, weight in tables])[0]
    return rng.choice(table), kind


def program(seed: int) -> Program:
    """Return program number `seed`."""
    rng = Random(seed)
    torch.manual_seed(seed & 0xFFFFFFFF)
    writer = Writer(rng)
    inputs: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}
    shape = rng.choice(SHAPES)
    for number in range(rng.choice([1, 2, 2])):
        inputs[f"x{number}"] = (
            shape if rng.random() < 0.7 else (shape[0], *rng.choice(SHAPES)[1:]),
            torch.float32,
        )
    if rng.random() < 0.5:
        inputs["i0"] = shape, rng.choice([torch.int64, torch.int64, torch.int32])
    if rng.random() < 0.3:
        inputs["b0"] = shape, torch.bool
    for name, (size, dtype) in inputs.items():
        writer.names[name] = values("plain", size, dtype, rng)
    is_trained = rng.random() < 0.65
    if is_trained or rng.random() < 0.2:
        for number in range(rng.choice([1, 1, 2])):
            size = rng.choice([shape, shape[1:], (1,), shape[-1:]])
            edge = values(rng.choice(KINDS[:4]), size, torch.float32, rng).tolist()
            writer.setup.append(f"self.w{number} = nn.Parameter(torch.tensor({edge!r}))")
            exec(writer.setup[-1], writer.names)
            operator = rng.choice("+*+-")
            writer.add(f"{{h}} = x0 {operator} self.w{number}", "statement")
    wanted = len(writer.body) + rng.choice([1, 1, 2, 2, 3, 4, 5])
    for _ in range(60):
        if len(writer.body) >= wanted:
            break
        writer.add(*line_kinds(rng))
    result = Program(writer.setup, writer.body, inputs)
    if is_trained and (loss := _loss(writer, rng)):
        result = _trained(result, loss, rng)
    # in HALF torch's Adam divides by an epsilon that is 0
    is_half = rng.random() < 0.08 and "Adam" not in result.optimizer
    return replace(
        result,
        tiles=rng.choice([1, 2, 3, 4]),
        is_half=is_half,
        is_evaluated=bool(result.loss) and rng.random() < 0.2,
    )


def _loss(writer: Writer, rng: Random) -> str:
    for _ in range(40):
        filled = writer.fill(rng.choice(lines.LOSSES))
        if filled is None:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loss = eval(filled[0], writer.names)
            if loss.numel() == 1 and loss.dim() == 0 and loss.requires_grad:
                return filled[0]
        except Exception:
            pass
    return ""


def _trained(made: Program, loss: str, rng: Random) -> Program:
    optimizer = rng.choice(lines.OPTIMIZERS)
    made = replace(made, loss=loss, optimizer=optimizer)
    transform = rng.choice(
        ["plain"] * 4
        + lines.words("accumulate replicas iterations pipelined sharded recompute off_chip")
    )
    options: list[str] = []
    body = list(made.body)
    micro = replicas = iterations = 1
    text = "\n".join(made.setup + made.body)
    if transform == "replicas" and re.search(r"register_buffer|Norm1d|no_grad\(lambda: self", text):
        transform = "accumulate"  # each replica would have buffers of its own
    if transform == "recompute":
        at = rng.randrange(len(body))
        if name := re.match(r"h\d+", body[at]):
            body.insert(
                at + 1, f"{name.group()} = poptorch.recomputationCheckpoint({name.group()})"
            )
    if transform in ("pipelined", "sharded") and len(body) > 1:
        cut = rng.randrange(1, len(body))
        body.insert(cut, "# stage 1")
        if cut + 2 < len(body) and rng.random() < 0.4:
            body.insert(rng.randrange(cut + 2, len(body)), "# stage 2")
        if transform == "sharded":
            options.append("setExecutionStrategy(poptorch.ShardedExecution())")
            micro = rng.choice([1, 2])
        else:
            schedule = rng.choice(["grouped", "grouped", "interleaved", "sequential"])
            options.append(f"setExecutionStrategy(poptorch.PipelinedExecution({schedule!r}))")
            micro = 6
    if transform == "accumulate" or (transform in ("recompute", "off_chip") and rng.random() < 0.3):
        micro = rng.choice([2, 3])
    if transform == "replicas":
        replicas, micro = 2, rng.choice([1, 2])
    if transform == "iterations":
        iterations, micro = 2, rng.choice([1, 2])
    if transform == "off_chip":
        options.append(
            "TensorLocations.setOptimizerLocation(\n"
            "    poptorch.TensorLocationSettings().useOnChipStorage(False))"
        )
    if micro * replicas * iterations == 1 and not options and transform != "recompute":
        transform = "plain"
    if micro > 1:
        options.append(f"Training.gradientAccumulation({micro})")
        if rng.random() < 0.3:
            options.append(
                "Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)"
            )
    if replicas > 1:
        options.append(f"replicationFactor({replicas})")
    if iterations > 1:
        options.append(f"deviceIterations({iterations})")
    if micro * replicas * iterations > 1:
        options.append("outputMode(poptorch.OutputMode.All)")
    return replace(
        made,
        body=body,
        options=options,
        transform=transform,
        micro_batches=micro,
        replicas=replicas,
        iterations=iterations,
    )


def options_of(made: Program) -> Any:
    """Return the options that a program runs with."""
    options = poptorch.Options()
    for line in made.options:
        eval(f"options.{line}", {"options": options, "poptorch": poptorch})
    return options
