"""Modules of torch on the modelled IPU, by the names that Graphcore's PopTorch had.

    options = poptorch.Options().deviceIterations(4)
    options.Training.gradientAccumulation(2)
    loader = poptorch.DataLoader(options, dataset, batch_size=16, shuffle=True)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, options, optimizer)
    for x, y in loader:
        output, loss = training(x, y)            # the module returns its loss last
    training.detachFromDevice()                  # the weights are in `model` again
    inference = poptorch.inferenceModel(model, options)

The module is captured once, at the first call, and compiled once: `training.compiles` counts. The
batch of a call is the batch of the module times device iterations, accumulation and replicas.

Going on after a stop is as in torch: `model.state_dict()`, `optimizer.state_dict()`, and
`training.rng_state` for what draws numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from math import prod
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ipu_teach.device import IPUModel
from ipu_teach.errors import InvalidOptionError, ModelError, WithoutSome, shown
from ipu_teach.frontends import from_torch, ir, session
from ipu_teach.frontends.aten import IGNORED
from ipu_teach.frontends.from_torch import lowering
from ipu_teach.frontends.ir import Ir
from ipu_teach.frontends.pytorch import optimizers
from ipu_teach.frontends.pytorch.loader import Loader
from ipu_teach.frontends.session import Training, chosen, compiled, needed, rate_of, spelt
from ipu_teach.interrupts import Interrupts
from ipu_teach.progress import working
from ipu_teach.schedules import GROUPED

__all__ = [
    "BeginBlock",
    "Block",
    "DataLoader",
    "Options",
    "OutputMode",
    "PipelinedExecution",
    "PoplarExecutor",
    "ReductionType",
    "ShardedExecution",
    "TensorLocationSettings",
    "custom_op",
    "identity_loss",
    "inferenceModel",
    "ipu_print_tensor",
    "isRunningOnIpu",
    "lowering",
    "nop",
    "optim",
    "recomputationCheckpoint",
    "trainingModel",
]

optim = SimpleNamespace(SGD=optimizers.SGD, Adam=optimizers.Adam, AdamW=optimizers.AdamW)


# --- options --------------------------------------------------------------------------------------


class OutputMode(Enum):
    """Which micro-batches' outputs come back: all, the last, every n-th, or their sum. With
    replicas, of each."""

    All, Final, EveryN, Sum, Default = "all", "final", "everyn", "sum", "default"


class ReductionType(Enum):
    """How gradients of micro-batches and replicas become one."""

    Mean, Sum = "mean", "sum"


class ShardedExecution:
    """The stages run one after the other."""

    schedule = ""


class PipelinedExecution:
    """The stages are each at work on another micro-batch; `schedule` is one of
    `ipu_teach.schedules`."""

    def __init__(self, schedule: str = GROUPED) -> None:
        self.schedule = schedule


class TensorLocationSettings:
    """Where tensors lie: on the tiles, or in streaming memory; whole, or a share in each
    replica."""

    on_chip, shared = True, False

    def useOnChipStorage(self, yes: bool) -> TensorLocationSettings:
        """False: in streaming memory."""
        self.on_chip = bool(yes)
        return self

    def useReplicatedTensorSharding(self, yes: bool) -> TensorLocationSettings:
        """True: each replica has a share."""
        self.shared = bool(yes)
        return self


def _number(name: str, value: Any, least: int = 1) -> int:
    return session.whole(f"{name}()", value, least, InvalidOptionError)


class _Some(WithoutSome):
    """Options that are set by calls, which return the options."""


class _Training(_Some):
    accumulation, reduction = 1, ReductionType.Mean

    def gradientAccumulation(self, count: int) -> _Training:
        """How many micro-batches there are to an update."""
        self.accumulation = _number("gradientAccumulation", count)
        return self

    def accumulationAndReplicationReductionType(self, kind: ReductionType) -> _Training:
        """Whether an update takes the mean of their gradients, or the sum."""
        self.reduction = ReductionType(kind)
        return self


class _Precision(_Some):
    partials: str | None = None
    stochastic = False

    def enableStochasticRounding(self, yes: bool = True) -> _Precision:
        """Whether a float that is stored in a half is rounded by chance, in the mean to itself."""
        self.stochastic = bool(yes)
        return self

    def setPartialsType(self, dtype: Any) -> _Precision:
        """The dtype of partial sums: torch.float or torch.half."""
        names = {"float32": "float", "float16": "half", "float": "float", "half": "half"}
        name = str(dtype).removeprefix("torch.")
        if name not in names:
            raise InvalidOptionError(f"""setPartialsType() was given {shown(dtype)}.
                next:  give torch.float or torch.half.""")
        self.partials = names[name]
        return self


class _TensorLocations(_Some):
    optimizer = TensorLocationSettings()

    def setOptimizerLocation(self, settings: TensorLocationSettings) -> _TensorLocations:
        """Where what the optimiser keeps lies."""
        self.optimizer = settings
        return self


class Options(_Some):
    """How a module runs. Setters return the options, so that they chain; `clone` makes others."""

    not_here = {
        "Distributed": "replicationFactor; all replicas are in this process.",
        "Jit": "nothing: torch.export captures the module.",
    }

    def __init__(self) -> None:
        self.iterations, self.replicas, self.every = 1, 1, 1
        self.mode, self.seed = OutputMode.Default, 42
        self.model = IPUModel("ipu2")
        self.strategy: Any = PipelinedExecution()
        self.proportion: float | None = None
        self.Training, self.Precision = _Training(), _Precision()
        self.TensorLocations = _TensorLocations()

    def deviceIterations(self, count: int) -> Options:
        """How many steps a call runs."""
        self.iterations = _number("deviceIterations", count)
        return self

    def replicationFactor(self, count: int) -> Options:
        """How many copies of the model work on batches of their own."""
        self.replicas = _number("replicationFactor", count)
        return self

    def outputMode(self, mode: OutputMode, n: int = 1) -> Options:
        """Which outputs come back; `n` is for EveryN."""
        self.mode, self.every = OutputMode(mode), _number("outputMode", n)
        return self

    def randomSeed(self, seed: int) -> Options:
        """What random numbers begin with."""
        self.seed = _number("randomSeed", seed, 0)
        return self

    def useIpuModel(self, model: bool | IPUModel = True) -> Options:
        """The machine: an `IPUModel`, whose number of IPUs does not matter, or True for one of an
        ipu2. There is no hardware behind the kit."""
        self.model = model if isinstance(model, IPUModel) else IPUModel("ipu2")
        return self

    def setExecutionStrategy(self, strategy: Any) -> Options:
        """`PipelinedExecution()`, or `ShardedExecution()`."""
        self.strategy = strategy() if isinstance(strategy, type) else strategy
        return self

    def setAvailableMemoryProportion(self, proportion: Mapping[str, float] | float) -> Options:
        """The part of a tile's memory that a product may take: a number, or one by IPU, of which
        the least counts."""
        several = proportion.values() if isinstance(proportion, Mapping) else [proportion]
        self.proportion = min(several)
        return self

    def clone(self) -> Options:
        """Options alike, which can be changed."""
        return copy.deepcopy(self)

    def factors(self, training: bool) -> dict[str, int]:
        """How many micro-batches a call takes, as factors."""
        return {
            "deviceIterations": self.iterations,
            "replicationFactor": self.replicas,
            "gradientAccumulation": self.Training.accumulation if training else 1,
        }


def DataLoader(
    options: Options,
    dataset: Any,
    batch_size: int = 1,
    shuffle: bool = False,
    num_workers: int = 0,
    drop_last: bool = True,
    **how: Any,
) -> Any:
    """torch's loader of batches of `batch_size` times what a run takes of them. Raises `ModelError`
    for data that do not come out even and are not to lose their end."""
    factors = options.factors(training=True)
    whole = _number("DataLoader", batch_size) * prod(factors.values())
    how |= {"shuffle": shuffle, "num_workers": num_workers}
    return Loader(
        dataset, whole, spelt("batch_size", batch_size, factors), drop_last, **how
    )


# --- what a module says ---------------------------------------------------------------------------


def isRunningOnIpu() -> bool:
    """Whether the module runs to be captured, and not in plain torch."""
    return from_torch.is_capturing()


def identity_loss(x: Any, reduction: str = "mean") -> Any:
    """A loss of one's own: x, its "mean" or "sum", or "none". Return it last."""
    if reduction not in ("mean", "sum", "none"):
        raise InvalidOptionError(f"""identity_loss() was given {shown(reduction)}.
            next:  give "mean", "sum" or "none".""")
    made = x if reduction == "none" else getattr(x, reduction)()
    if from_torch.JOINT and from_torch.is_capturing():
        from ipu_teach.frontends.pytorch import joint

        joint.current.losses.append(made)
    return made


def ipu_print_tensor(x: Any, title: str = "tensor") -> Any:
    """x; where it is used, it is printed on each run."""
    return from_torch.printed(x, title)


def nop(x: Any) -> Any:
    """x."""
    return x


def recomputationCheckpoint(*tensors: Any) -> Any:
    """The tensors, which are kept for the backward; a module that has such calls computes all else
    again. One comes back as it is, several as a tuple."""
    kept = tuple(from_torch.kept(x) for x in tensors)
    return kept[0] if len(kept) == 1 else kept


def custom_op(
    inputs: Sequence[Any],
    name: str,
    domain: str = "",
    domain_version: int = 1,
    example_outputs: Sequence[Any] = (),
    attributes: Mapping[str, Any] | None = None,
) -> list[Any]:
    """What the operation `name` makes of the inputs, by its row, `ir.register(name, Row(…))`. What
    comes out is like the examples; so it is in plain torch, which does not know the operation."""
    return list(from_torch.custom(inputs, name, dict(attributes or {}), example_outputs))


class Block:
    """`with Block("second", ipu_id=1):` puts what follows on that IPU, until another block
    begins."""

    def __init__(self, user_id: Any = None, ipu_id: int | None = None) -> None:
        self.user_id, self.ipu_id = user_id, _number("Block", 0 if ipu_id is None else ipu_id, 0)

    def __enter__(self) -> Block:
        from_torch.mark_stage(self.ipu_id)
        return self

    def __exit__(self, *error: object) -> None:
        """What follows stays there."""


def BeginBlock(layer: Any, user_id: Any = None, ipu_id: int | None = None) -> Any:
    """The layer, which begins a block on that IPU; what runs after it stays there until another
    block begins."""
    block = Block(user_id, ipu_id)
    layer.register_forward_pre_hook(lambda *_: block.__enter__() and None)
    return layer


# --- running --------------------------------------------------------------------------------------

_attached: WeakValueDictionary[int, PoplarExecutor] = WeakValueDictionary()  # by module


def trainingModel(
    module: Any, options: Options | None = None, optimizer: Any = None
) -> PoplarExecutor:
    """The module on the device, trained: a call returns what forward does, with the loss last,
    after so many updates as the options say. By default the outputs of the last micro-batch."""
    if optimizer is None:
        optimizer = optim.SGD(module.parameters(), lr=0.01)
    optimizers.recipe(optimizer, module)
    return PoplarExecutor(module, options or Options(), optimizer)


def inferenceModel(module: Any, options: Options | None = None) -> PoplarExecutor:
    """The module on the device, in its `eval` form: a call returns what forward does. By default
    of all micro-batches."""
    return PoplarExecutor(module, options or Options(), None)


class PoplarExecutor(WithoutSome):
    """A module on a device. `compiles`: how often it was compiled. `report`: of all runs.

    Ctrl-C waits for the step that runs; then the weights are brought to the host, as they are. A
    second one stops at once, and the host keeps what it had.
    """

    not_here = {
        **dict.fromkeys(
            ("getPerfCounters", "getLatency", "getComputeLatency", "getHostIpuLatency"),
            "cycleCount() and report; host times are those of this machine.",
        ),
        "save": "torch.save of module.state_dict(), optimizer.state_dict() and rng_state.",
    }

    def __init__(self, module: Any, options: Options, optimizer: Any) -> None:
        self.module, self.options, self.optimizer = module, options.clone(), optimizer
        self.training = optimizer is not None
        self.compiles = 0
        self.run: Any = None
        self.captured: Any = None
        self._calls = self._forwards = 0
        self._seed: Any = None
        self._shapes: Any = None
        self._recipe: Any = None
        self._marked: set[int] = set()  # inputs in which a class number was one that does not count

    @property
    def name(self) -> str:
        """What it is called in errors."""
        kind = "trainingModel" if self.training else "inferenceModel"
        return f"{kind} of {type(self.module).__name__}"

    # --- life ---

    def isCompiled(self) -> bool:
        """Whether there is a program."""
        return self.run is not None

    def isAttachedToDevice(self) -> bool:
        """Whether the device has the weights."""
        return _attached.get(id(self.module)) is self

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Capture and compile for arguments like these, the batch of a whole call. Raises
        `ModelError`, and what the libraries raise."""
        self._compile(args, kwargs)
        self.attachToDevice()

    def attachToDevice(self) -> None:
        """Bring the module's weights to the device. Raises `ModelError` if another executor of the
        module has it."""
        other = _attached.get(id(self.module))
        if from_torch.JOINT and other is None:
            mine = {id(t) for t in (*self.module.parameters(), *self.module.buffers())}
            other = next((e for e in list(_attached.values()) if e is not self and mine & {id(t) for t in (*e.module.parameters(), *e.module.buffers())}), None)
        if other is not None and other is not self:
            raise ModelError(f"""The {self.name} was to be attached, and the {other.name} is: the
                device has its weights, and the host older ones.
                next:  call detachFromDevice() of that one first.""")
        self._compiled()
        _attached[id(self.module)] = self
        self.copyWeightsToDevice()

    def detachFromDevice(self) -> None:
        """Bring the weights to the host, and give the device back. A later call attaches again."""
        if self.isAttachedToDevice():
            self.copyWeightsToHost()
            del _attached[id(self.module)]

    def destroy(self) -> None:
        """Detach, and forget the program; a later call compiles anew."""
        self.detachFromDevice()
        self.run = self.captured = self._shapes = None
        self._calls = 0

    def copyWeightsToHost(self) -> None:
        """The device's weights, statistics, and what the optimiser keeps, into the module and the
        optimiser."""
        run = self._compiled()
        self._seed = self._read_seed()
        mine = {n: run.read(n) for n in from_torch.state_of(self.module, list(run.ir.variables))}
        from_torch.put_back(self.module, mine, self.captured.counters, self._forwards)
        self._forwards = 0
        if self.training:
            optimizers.keep_by(self.optimizer, self.module, run.state())

    def copyWeightsToDevice(self) -> None:
        """The module's weights and statistics, and what the optimiser has of earlier steps, to the
        device."""
        run = self._compiled()
        state = from_torch.state_of(self.module, list(run.ir.variables))
        if self.training:
            kept = optimizers.kept_by(self.optimizer, self.module)
            state |= {n: v for n, v in kept.items() if n in run.ir.variables}
        run.restore(state)
        if self._seed is not None:
            self.rng_state = self._seed

    def state_dict(self, *given: Any, **how: Any) -> Any:
        """The module's, with the weights as they are now."""
        if self.isAttachedToDevice():
            self.copyWeightsToHost()
        return self.module.state_dict(*given, **how)

    def _compiled(self) -> Any:
        if self.run is None:
            raise ModelError(f"""The {self.name} was asked for its device, and is not compiled yet.
                next:  call it, or compile(…), with a batch.""")
        return self.run

    # --- what draws numbers, rates ---

    @property
    def rng_state(self) -> list[int]:
        """The state of what draws numbers: set it to go on with the same."""
        if self.isAttachedToDevice():
            self._seed = self._read_seed()
        return list(self._seed or [])

    @rng_state.setter
    def rng_state(self, state: Sequence[int]) -> None:
        self._seed = list(map(int, state))
        if self._seed and self.run is not None and "seed" in self.run.ir.variables:
            self.run.write("seed", self._seed)

    def _read_seed(self) -> Any:
        if self.run is None or "seed" not in self.run.ir.variables:
            return self._seed
        return [int(n) for n in self.run.read("seed")]

    def setOptimizer(self, optimizer: Any) -> None:
        """Go on with the rates of this optimiser; nothing is compiled. Raises `ModelError` where
        more than rates differs."""
        kind, groups = optimizers.recipe(optimizer, self.module)
        if self.run is not None:
            before, old = self._recipe
            if kind != before or [replace(g, rate=0) for g in groups] != old:
                raise ModelError("""setOptimizer() was given an optimiser that differs in more than
                    its rates from the one that was compiled.
                    next:  destroy() this executor, and make a trainingModel with the other.""")
            for number, group in enumerate(groups):
                self.run.write(rate_of(number), group.rate)
        self.optimizer = optimizer

    # --- a program ---

    def _micro(self, args: Any, kwargs: Any) -> tuple[list[Any], Any]:
        """The tensors of a call as arrays [micro-batches, …], and a structure of one micro-batch.
        Raises `ModelError` for batches that do not divide, or are others than were compiled."""
        tensors, form = from_torch.leaves((args, kwargs))
        factors = self.options.factors(self.training)
        count = prod(factors.values())
        names = (
            self.captured.inputs if self.captured else [f"input {i}" for i in range(len(tensors))]
        )
        for name, t in zip(names, tensors, strict=False):
            from_torch.check(name, t)
            if count > 1 and (not t.dim() or t.shape[0] % count):
                raise ModelError(f"""{name!r} was given as {list(t.shape)}, and its batch is no
                    multiple of {spelt("batch_size", 1, factors)}.
                    next:  give batches of a poptorch.DataLoader, which are all of one size.""")
        shapes = [(tuple(t.shape), t.dtype) for t in tensors]
        if self._shapes is not None and shapes != self._shapes:
            pairs = zip(names, shapes, self._shapes, strict=False)
            name, now, old = next(
                (p for p in pairs if p[1] != p[2]), (names[0], shapes, self._shapes)
            )
            batch = old[0][0] // count if old[0] else 1
            raise ModelError(f"""{name!r} was given as {_said(now)}, and was compiled for
                {_said(old)}: {spelt("batch_size", batch, factors)}.
                next:  give batches of one size (drop_last=True of a DataLoader), or destroy() the
                executor, which compiles for the next one.""")
        plain = repr([v for v in form[0] if not hasattr(v, "shape")]) + str(form[1])
        if from_torch.JOINT and self._shapes is not None and plain != self._plain:
            raise ModelError(f"""The {self.name} was called with {plain}, and was compiled for
                {self._plain}.
                next:  destroy() it, which compiles for the next call; or give a tensor.""")
        self._plain = plain
        self._given = shapes
        micro = [t[: t.shape[0] // count] if count > 1 else t for t in tensors]
        arrays = [from_torch.array(t) for t in tensors]
        size = [
            (count, a.shape[0] // count, *a.shape[1:]) if count > 1 else (1, *a.shape)
            for a in arrays
        ]
        whole = [a.reshape(s) for a, s in zip(arrays, size, strict=True)]
        return whole, from_torch.filled(form, micro)

    def _compile(self, args: Any, kwargs: Any) -> list[Any]:
        arrays, (one, named) = self._micro(args, kwargs)
        found = {i for i, a in enumerate(arrays) if a.dtype.kind == "i" and IGNORED in a}
        if self.run is not None and found <= self._marked:
            return arrays
        if self.run is not None:  # the first rows that do not count: the loss must count the others
            self.destroy()
        self._marked |= found
        with working(f"compile {type(self.module).__name__}") as work:
            work.words = "torch.export"
            if not from_torch.JOINT:
                self.module.train(self.training)
            before_ = {m: m.training for m in self.module.modules()}
            if from_torch.JOINT and not self.training:
                self.module.eval()
            self.captured = from_torch.captured(self.module, one, named, self._marked, self.training, float(getattr(self.optimizer, 'loss_scaling', 1.0)))
            graph = self.captured.graph
            for m, t in before_.items():
                m.training = t
            graph.ops = _named(graph, type(self.module).__name__, self.training)
            if from_torch.JOINT and self.training:
                graph.ops += [replace(op, path=op.path or "loss") for op in self.captured.backward]
            if "seed" in graph.variables:
                low, high = self.options.seed & 0xFFFFFFFF, self.options.seed >> 32
                graph.variables["seed"].initial = np.array([low, high & 0xFFFFFFFF], np.uint32)
            work.words = "graph"
            step = self._trained(graph) if self.training else self._asked(graph)
            asked = {
                "partialsType": self.options.Precision.partials,
                "availableMemoryProportion": self.options.proportion,
                "stochasticRounding": self.options.Precision.stochastic or None,
            }
            products = {name: value for name, value in asked.items() if value is not None}
            many = 1 if step.schedule and not self.training else self.options.iterations
            self.run = compiled("", step, self.options.model, many, products)
        self._shapes, self.compiles = self._given, self.compiles + 1
        return arrays

    def _asked(self, graph: Ir) -> Ir:
        made = ir.replicate(graph, self.options.replicas)
        if made.stages > 1 and self.options.strategy.schedule:
            made = ir.pipelined(
                made.but(accumulation=self.options.iterations), self.options.strategy.schedule
            )
        return made

    def _trained(self, graph: Ir) -> Ir:
        captured, options, where = self.captured, self.options, self.options.TensorLocations
        kind, groups = optimizers.recipe(self.optimizer, self.module)
        self._recipe = kind, [replace(g, rate=0) for g in groups]
        asked = {name for group in groups for name in group.names or ()}
        return Training(
            kind,
            groups,
            float(getattr(self.optimizer, "loss_scaling", 1.0)),
            captured.kept or None,
            options.Training.accumulation,
            options.replicas,
            options.Training.reduction.value,
            where.optimizer.shared,
            not where.optimizer.on_chip,
            schedule=options.strategy.schedule if graph.stages > 1 else "",
        ).of(
            graph, captured.loss, [v for v in captured.trained if v.name in asked],
            getattr(captured, "grads", None))

    # --- calls ---

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What forward returns, of the micro-batches that the output mode says."""
        arrays = self._compile(args, kwargs)
        if not self.isAttachedToDevice():
            self.attachToDevice()
        fed = dict(zip(self.captured.inputs, arrays, strict=True))
        before = self._calls
        try:
            with Interrupts():
                outs = self.run(**fed)
                self._calls += 1
                factors = self.options.factors(self.training)
                self._forwards += prod(factors.values()) // self.options.replicas
        except KeyboardInterrupt:
            if self._calls > before:
                self.copyWeightsToHost()
            raise
        kinds = self.captured.outputs
        found = [from_torch.tensor_of(self._chosen(outs[n]), dtype) for n, dtype in kinds.items()]
        return from_torch.filled(self.captured.form, found)

    def _chosen(self, out: Any) -> Any:
        """The outputs of the micro-batches that are asked for, one behind the other."""
        mode, replicas = self.options.mode, self.options.replicas
        if mode is OutputMode.Default:
            mode = OutputMode.Final if self.training else OutputMode.All
        by_replica = out.reshape(-1, replicas, *out.shape[1:])
        by_replica = chosen(by_replica, mode.value, self.options.every)
        count = by_replica.shape[0] * replicas
        if count == 1:
            return by_replica.reshape(out.shape[1:])
        return by_replica.reshape(count * out.shape[1] if out.ndim > 1 else count, *out.shape[2:])

    # --- what it cost ---

    @property
    def report(self) -> Any:
        """The report of all runs."""
        return self._compiled().engine.report

    @property
    def program(self) -> Any:
        """The program as a tree, for `show.program`."""
        return self._compiled().low.program

    def cycleCount(self) -> int:
        """The modelled cycles of a call: of all that ran on this program, by the calls."""
        return int(self.report.total_cycles) // max(self._calls, 1)


def _named(graph: Ir, name: str, training: bool) -> list[ir.Op]:
    """The operations, those of the model's own forward by its name; but for what comes after its
    modules for the last output alone, which is the loss."""
    behind = max((number for number, op in enumerate(graph.ops) if op.path), default=-1)
    others = needed(graph.but(outputs=dict(list(graph.outputs.items())[:-1]))).ops

    def path(number: int, op: ir.Op) -> str:
        is_loss = training and number > behind and op not in others
        return op.path or ("loss" if is_loss else name)

    return [replace(op, path=path(number, op)) for number, op in enumerate(graph.ops)]


def _said(what: Any) -> str:
    shape, dtype = what
    return f"{list(shape)} {str(dtype).removeprefix('torch.')}"
