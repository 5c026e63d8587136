"""Compare random pipelines of the frontends' graph with numpy in float64.

They have stages of work, of views or of nothing, values that skip stages, frozen parameters and
state, and run with all schedules and transforms.
"""

from __future__ import annotations

from random import Random
from typing import Any

import ir_numpy
import numpy as np

from ipu_teach import IPUModel
from ipu_teach.errors import InvalidOptionError, ModelError
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import UPDATE
from ipu_teach.schedules import SCHEDULES, SEQUENTIAL

ROWS, WIDTH = 2, 6
VIEWS = ("reverse", "reshape", "permute", "swap", "stop")
WORK = ("tanh", "relu", "add", "mul", "linear", "shared", "broadcast", "state", "state")


def view(graph: Ir, kind: str, x: Value) -> Value:
    """Return a value in the memory of `x`, of its shape."""
    if kind == "reverse":
        return graph.op("reverse", x, dim=1)
    if kind == "reshape":
        flat = graph.op("reshape", x, shape=(ROWS * WIDTH,))
        return graph.op("reshape", graph.op("reverse", flat, dim=0), shape=x.shape)
    if kind == "permute":
        turned = graph.op("permute", x, dims=(1, 0))
        return graph.op("reshape", turned, shape=x.shape)
    if kind == "swap":
        halves = [graph.op("slice", x, dim=1, begin=b, end=b + 3) for b in (3, 0)]
        return graph.op("concat", *halves, dim=1)
    return graph.op("stop", x)


class Draw:
    """A graph of 2 to 4 stages with a loss, whose operations `rng` chooses."""

    def __init__(self, rng: Random, stages: int) -> None:
        self.rng, self.graph, self.stages = rng, Ir(), stages
        self.numbers = np.random.default_rng(rng.getrandbits(32))
        self.frozen: set[Value] = set()
        self.shared: Value | None = None
        x = self.graph.input((ROWS, WIDTH), "x")
        self.values = [x]
        for s in range(stages):
            with self.graph.at(stage=s, path=f"stage{s}"):
                self.stage(s)
        with self.graph.at(stage=stages - 1, path="loss"):
            read = {self.values[-1], *rng.sample(self.values, min(2, len(self.values)))}
            total, *others = sorted(read, key=self.values.index)
            for other in others:
                total = self.graph.op("add", total, other)
            total = self.graph.op("mul", total, self.weight("last", (1, WIDTH)))
            self.loss = ir.mean(self.graph, self.graph.op("square", total))
            self.graph.output("loss", self.loss)
        for i, value in enumerate(rng.sample(self.values, rng.randint(0, 2))):
            self.graph.output(f"out{i}", value)

    def weight(self, name: str, shape: tuple[int, ...], is_frozen: bool = False) -> Value:
        values = self.numbers.normal(0, 0.5, shape).astype(np.float32)
        made = self.graph.variable(values, name)
        if is_frozen:
            self.frozen.add(made)
        return made

    def stage(self, s: int) -> None:
        rng = self.rng
        style = rng.choice(["mixed", "mixed", "mixed", "views", "nothing", "no parameters"])
        if s == 0 and style in ("views", "nothing"):
            style = "no parameters"
        is_frozen = rng.random() < 0.3
        if s and rng.random() < 0.2:
            self.values.append(self.graph.input((ROWS, WIDTH), f"x{s}"))
        for i in range(0 if style == "nothing" else rng.randint(1, 3)):
            kind = rng.choice(VIEWS + (WORK if style != "views" else ()))
            recent = self.values[-4:]
            a, b = rng.choice(recent), rng.choice(recent)
            self.values.append(self.operation(kind, f"s{s}.{i}", a, b, style, is_frozen))

    def operation(
        self, kind: str, name: str, a: Value, b: Value, style: str, is_frozen: bool
    ) -> Value:
        graph = self.graph
        if kind in ("linear", "shared", "broadcast", "state", "state") and style == "no parameters":
            kind = "tanh"
        if kind == "linear":
            return ir.linear(graph, a, self.weight(name, (WIDTH, WIDTH), is_frozen))
        if kind == "shared":
            if self.shared is None:
                self.shared = self.weight(name, (WIDTH,))
            return graph.op("mul", a, self.shared)
        if kind == "broadcast":
            row = self.weight(name, (1, WIDTH), is_frozen)
            return graph.op("add", a, graph.op("expand", row, shape=(ROWS, WIDTH)))
        if kind == "state":
            state = self.weight(name, (ROWS, WIDTH))
            self.frozen.add(state)
            rng, read = self.rng, state
            if rng.random() < 0.5:
                graph.emit("blend", state, graph.op("stop", b), momentum=0.25)
            if rng.random() < 0.5:
                read = view(graph, rng.choice(VIEWS), state)
            result = graph.op(rng.choice(["add", "mul"]), a, read) if rng.random() < 0.5 else None
            change = rng.choice(["blend", "assign", "assign a view"])
            if change == "blend":
                graph.emit("blend", state, graph.op("stop", a), momentum=0.25)
            elif change == "assign":
                graph.emit("assign", state, graph.op("tanh", graph.op("add", b, state)))
            else:
                graph.emit("assign", state, view(graph, "reverse", state))
            return result or graph.op(rng.choice(["add", "mul"]), a, read)
        if kind in VIEWS:
            return view(graph, kind, a)
        return graph.op(kind, a, b) if kind in ("add", "mul") else graph.op(kind, a)


def expected(graph: Ir, fed: dict[str, Any], replicas: int) -> tuple[dict[str, Any], Any]:
    """Return the outputs of micro-batches in sequence, and the variables after the update."""
    body = graph.but(ops=[op for op in graph.ops if op.part != UPDATE])
    update = graph.but(ops=[op for op in graph.ops if op.part == UPDATE])
    outputs: dict[str, list[Any]] = {name: [] for name in graph.outputs}
    every: list[dict[str, Any]] = [{} for _ in range(replicas)]
    count = graph.accumulation * replicas
    for i in range(count):
        rows = {name: value[i] for name, value in fed.items()}
        env = ir_numpy.interpret(body, rows, every[i % replicas])
        for name, value in graph.outputs.items():
            outputs[name].append(np.array(env[value]))
    if replicas == 1:
        ir_numpy.interpret(update, {}, every[0])
    return {name: np.stack(rows) for name, rows in outputs.items()}, every[0]


def differences_of(
    plain: Ir, graph: Ir, schedule: str, tiles: int = 1, replicas: int = 1, seed: int = 0
) -> list[str]:
    """Return how a pipeline of `graph` differs from `plain` in float64.

    Outputs count, and variables if it trains on one replica. `seed` chooses the inputs.
    """
    rng = np.random.default_rng(seed)
    count = graph.accumulation * replicas
    fed = {
        name: rng.normal(0, 1, (count, *value.shape)).astype(np.float32)
        for name, value in graph.inputs.items()
    }
    results, variables = expected(plain, fed, replicas)
    num_ipus = 1 << (graph.stages * replicas - 1).bit_length()
    device = IPUModel("ipu2", tiles_per_ipu=tiles, num_ipus=num_ipus).create_device()
    run = ir.Run(ir.Lowering(ir.pipelined(graph, schedule), device), device)
    read = {value.name for value in run.low.streams.values()}
    outputs = run(**{name: value for name, value in fed.items() if name in read})
    differences = [
        f"{name}: {np.abs(outputs[name] - result).max()}"
        for name, result in results.items()
        if not np.allclose(outputs[name], result, 1e-3, 1e-4)
    ]
    if any(op.part == UPDATE for op in plain.ops) and replicas == 1:
        differences += [
            f"{name}: {np.abs(run.read(name) - value).max()}"
            for name, value in variables.items()
            if not np.allclose(run.read(name), value, 1e-2, 1e-3)
        ]
    return differences


def one_pipeline(seed: int) -> tuple[str, str]:
    """Return how pipeline number `seed` ended, and how it differs ("" if it does not)."""
    rng = Random(seed)
    stages = rng.randint(2, 4)
    draw = Draw(rng, stages)
    schedule, is_training = rng.choice(SCHEDULES), rng.random() < 0.6
    count = 2 * stages + rng.randint(0, 2)
    if schedule == SEQUENTIAL:
        count = rng.choice([2, count])
    graph = draw.graph
    replicas = 1
    plain = graph
    if is_training:
        wanted = [v for v in graph.variables.values() if v not in draw.frozen]
        graph, gradients = ir.autodiff(graph, draw.loss, wanted)
        graph = ir.optimise(graph, gradients, rng.choice(["sgd", "adam"]), 0.05)
        plain = graph = ir.accumulate(graph, count)
        if rng.random() < 0.3:
            graph = ir.recompute(graph, rng.choice(["standard", []]))
        if rng.random() < 0.2:
            graph = ir.off_chip(graph)
    else:
        plain = graph = ir.accumulate(graph, count)
        replicas = rng.choice([1, 1, 2])
        graph = ir.replicate(graph, replicas)
    try:
        differences = differences_of(plain, graph, schedule, rng.randint(1, 3), replicas, seed)
    except (ModelError, InvalidOptionError) as error:
        return f"refused: {str(error).splitlines()[0]}", ""
    ended = f"{schedule}, {'training' if is_training else 'inference'}"
    if not differences:
        return ended, ""
    ops = "\n".join(f"{op.part} {op.stage} {op.kind} {op.inputs} -> {op.outs}" for op in graph.ops)
    return ended, f"{ended}, {count} micro-batches: {differences}\n{ops}"
