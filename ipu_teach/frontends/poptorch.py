"""Modules of PyTorch on the modelled IPU, by the names that Graphcore's PopTorch had.

    options = poptorch.Options().deviceIterations(4)
    options.Training.gradientAccumulation(2)
    loader = poptorch.DataLoader(options, dataset, batch_size=16, shuffle=True)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, options, optimizer)
    for x, y in loader:
        output, loss = training(x, y)            # the module returns its loss last
    training.detachFromDevice()                  # gives the device back
    inference = poptorch.inferenceModel(model, options)

A call computes the forward and backward passes and the optimiser's steps on the device, so that
`zero_grad()`, `backward()` and `step()` are left out. The batch of a call is the batch of the
module times device iterations, accumulation and replicas.

A program is captured and compiled at the first call, and again if a Python value changes that it
depends on, such as an argument, an attribute or `training`: `training.compiles` counts. After each
call the module and the optimiser have the device's values: `model.state_dict()`,
`optimizer.state_dict()` and `training.rng_state` are a checkpoint.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from enum import Enum
from math import prod
from typing import Annotated, Any, Literal
from weakref import WeakSet

import numpy as np

from ipu_teach._support.interrupts import Interrupts
from ipu_teach._support.progress import working
from ipu_teach.arguments import Among, Between, Count, Natural, Taken, check_calls, check_class
from ipu_teach.device import IPUModel
from ipu_teach.errors import InvalidOptionError, ModelError, NoHardwareError, WithoutSome, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir
from ipu_teach.frontends.pytorch import (
    capture,
    gradients,
    losses,
    markers,
    modules,
    optimizers,
    reads,
)
from ipu_teach.frontends.pytorch.arguments import Arguments, Layer, Tensor
from ipu_teach.frontends.pytorch.fingerprints import fingerprint
from ipu_teach.frontends.pytorch.loader import Loader, has_examples
from ipu_teach.frontends.pytorch.markers import lowering
from ipu_teach.frontends.pytorch.mirror import (
    Mirror,
    check_module,
    description,
    shared,
    tensors_of,
)
from ipu_teach.frontends.pytorch.paths import with_paths
from ipu_teach.frontends.pytorch.reads import Reads
from ipu_teach.frontends.pytorch.rows.likelihoods import IGNORED
from ipu_teach.frontends.pytorch.tensors import filled, tensor_of
from ipu_teach.frontends.session import (
    Training,
    batch_product,
    compile_graph,
    rate_of,
    select_outputs,
)
from ipu_teach.graph.source import caller, in_words
from ipu_teach.schedules import GROUPED, SCHEDULES

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


class _Optimizers(WithoutSome):
    """The optimisers that the device has."""

    not_here = dict.fromkeys(
        ("AdamWNoBias", "LAMB", "LAMBNoBias", "RMSprop", "Adagrad", "Adadelta", "NAdam", "LBFGS"),
        "poptorch.optim.SGD, Adam or AdamW.",
    )
    SGD, Adam, AdamW = optimizers.SGD, optimizers.Adam, optimizers.AdamW


optim = _Optimizers()


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

    def __init__(self, schedule: Annotated[str, Among(SCHEDULES)] = GROUPED) -> None:
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


Strategy = Annotated[
    Any,
    Taken(
        lambda v: (
            isinstance(v if isinstance(v, type) else type(v), type)
            and issubclass(
                v if isinstance(v, type) else type(v), (ShardedExecution, PipelinedExecution)
            )
        ),
        "give poptorch.PipelinedExecution() or poptorch.ShardedExecution().",
    ),
]
Dataset = Annotated[
    Any,
    Taken(
        has_examples,
        "give a torch.utils.data.Dataset, such as TensorDataset(inputs, labels).",
    ),
]
Ipu = Annotated[int, Between(0, 63)]


class _Some(WithoutSome):
    """Options that are set by calls, which return the options."""


class _Training(_Some):
    accumulation, reduction = 1, ReductionType.Mean

    def gradientAccumulation(self, count: Count) -> _Training:
        """How many micro-batches there are to an update."""
        self.accumulation = count
        return self

    def accumulationAndReplicationReductionType(self, kind: ReductionType) -> _Training:
        """Whether an update takes the mean of their gradients, or the sum."""
        self.reduction = kind
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
        "Jit": "nothing: a call captures the module as it runs.",
    }

    def __init__(self) -> None:
        self.iterations, self.replicas, self.every = 1, 1, 1
        self.mode, self.seed = OutputMode.Default, 42
        self.model = IPUModel("ipu2")
        self.strategy: Any = PipelinedExecution()
        self.proportion: float | None = None
        self.Training, self.Precision = _Training(), _Precision()
        self.TensorLocations = _TensorLocations()

    def deviceIterations(self, count: Count) -> Options:
        """How many steps a call runs."""
        self.iterations = count
        return self

    def replicationFactor(self, count: Count) -> Options:
        """How many copies of the model work on batches of their own."""
        self.replicas = count
        return self

    def outputMode(self, mode: OutputMode, n: Count = 1) -> Options:
        """Which outputs come back; `n` is for EveryN."""
        self.mode, self.every = mode, n
        return self

    def randomSeed(self, seed: Natural) -> Options:
        """What random numbers begin with."""
        self.seed = seed
        return self

    def useIpuModel(self, model: bool | IPUModel = True) -> Options:
        """The machine: an `IPUModel`, whose number of IPUs does not matter, or True for one of an
        ipu2. Raises `NoHardwareError` for False."""
        if model is False:
            raise NoHardwareError("""useIpuModel(False) asks for real hardware, and there is none.
                next:  useIpuModel(True), or useIpuModel(IPUModel("ipu2")).""")
        self.model = model if isinstance(model, IPUModel) else IPUModel("ipu2")
        return self

    def setExecutionStrategy(self, strategy: Strategy) -> Options:
        """`PipelinedExecution()`, or `ShardedExecution()`."""
        self.strategy = strategy() if isinstance(strategy, type) else strategy
        return self

    def setAvailableMemoryProportion(self, proportion: Mapping[str, float] | float) -> Options:
        """The part of a tile's memory that a product may take: a number, or one by IPU, of which
        the least counts."""
        shares = list(proportion.values()) if isinstance(proportion, Mapping) else [proportion]
        if not shares:
            raise InvalidOptionError("""setAvailableMemoryProportion() was given no proportion.
                next:  give a number, such as 0.6, or {"IPU0": 0.6}.""")
        self.proportion = min(shares)
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
    dataset: Dataset,
    batch_size: Count = 1,
    shuffle: bool | None = False,
    num_workers: Natural = 0,
    drop_last: bool = True,
    **settings: Any,
) -> Any:
    """torch's loader of batches of `batch_size` times what a run takes of them. Raises `ModelError`
    for data that do not come out even and are not to lose their end."""
    factors = options.factors(training=True)
    count = batch_size * prod(factors.values())
    settings |= {"shuffle": shuffle, "num_workers": num_workers}
    return Loader(
        dataset,
        count,
        batch_product("batch_size", batch_size, factors),
        bool(drop_last),
        **settings,
    )


# --- what a module says ---------------------------------------------------------------------------


def isRunningOnIpu() -> bool:
    """Whether the module runs to be captured, and not in plain torch."""
    return markers.is_capturing()


def identity_loss(x: Tensor, reduction: Literal["mean", "sum", "none"] = "mean") -> Any:
    """Mark the loss, wherever forward returns it: x, its "mean" or "sum", or x itself by "none".

    Without a mark, the last output is the loss. A loss may be marked that is part of the next one
    that is marked. Raises `ModelError` for two losses of which neither is part of the other.
    """
    loss = x if reduction == "none" else getattr(x, reduction)()
    if markers.current is not None:
        losses.mark(markers.current.losses, loss)
    return loss


def ipu_print_tensor(x: Tensor, title: str = "tensor") -> Any:
    """x; where it is used, it is printed on each run."""
    return markers.printed(x, title)


def nop(x: Any) -> Any:
    """x."""
    return x


def recomputationCheckpoint(*tensors: Tensor) -> Any:
    """The tensors, which are kept for the backward; a module that has such calls computes all else
    again. One comes back as it is, several as a tuple."""
    kept = tuple(markers.kept(x) for x in tensors)
    return kept[0] if len(kept) == 1 else kept


def custom_op(
    inputs: Sequence[Tensor],
    name: str,
    domain: str = "",
    domain_version: int = 1,
    example_outputs: Sequence[Tensor] = (),
    attributes: Mapping[str, Any] | None = None,
) -> list[Any]:
    """What the operation `name` makes of the inputs, by its row, `ir.register(name, Row(…))`. What
    comes out is like the examples; so it is in plain torch, which does not know the operation."""
    return list(markers.custom(inputs, name, dict(attributes or {}), example_outputs))


class Block:
    """`with Block("second", ipu_id=1):` puts what follows on that IPU, until another block
    begins."""

    def __init__(self, user_id: Any = None, ipu_id: Ipu | None = None) -> None:
        self.user_id, self.ipu_id = user_id, 0 if ipu_id is None else ipu_id

    def __enter__(self) -> Block:
        markers.mark_stage(self.ipu_id)
        return self

    def __exit__(self, *error: object) -> None:
        """What follows stays there."""


def BeginBlock(layer: Layer, user_id: Any = None, ipu_id: Ipu | None = None) -> Any:
    """The layer, which begins a block on that IPU; what runs after it stays there until another
    block begins."""
    block = Block(user_id, ipu_id)
    layer.register_forward_pre_hook(lambda *_: block.__enter__() and None)
    return layer


# --- running --------------------------------------------------------------------------------------

_attached: WeakSet[PoplarExecutor] = WeakSet()


def trainingModel(
    module: Any, options: Options | None = None, optimizer: Any = None
) -> PoplarExecutor:
    """Train a module on the device: a call returns what forward returns, after its updates.

    The last output is the loss, or the one that `identity_loss` marks. Submodules are in the modes,
    train or eval, that they have when the executor is called. By default the outputs of the last
    micro-batch come back. Raises `ModelError`.
    """
    modules.check_kind("trainingModel", module)
    if optimizer is None:
        if not any(p.requires_grad for p in module.parameters()):
            raise ModelError(f"""{type(module).__name__} has no parameter that requires a gradient.
                next:  train a module with parameters; inferenceModel runs any.""")
        optimizer = optim.SGD(module.parameters(), lr=0.01)
    optimizers.groups_of(optimizer, module)
    return PoplarExecutor(module, options or Options(), optimizer)


def inferenceModel(module: Any, options: Options | None = None) -> PoplarExecutor:
    """Run a module on the device, in eval mode: a call returns what forward returns.

    The module itself keeps its mode. By default the outputs of all micro-batches come back. Raises
    `ModelError`.
    """
    modules.check_kind("inferenceModel", module)
    return PoplarExecutor(module, options or Options(), None)


class PoplarExecutor(WithoutSome):
    """A module on a device. `compiles`: how often it was compiled. `report`: of all runs.

    A program is compiled for the arguments that are not tensors, the attributes and modes that
    forward reads of the module's parts, and the optimiser's settings except its rates. Before each
    call they are compared with what they are now, and the program is compiled again if one has
    changed. Weights, the optimiser's state and the random numbers go on. Tensors of other shapes or
    dtypes are refused.

    After each call the module's tensors and the optimiser's state have the device's values, and a
    change that the host makes to them is on the device in the next call.

    Ctrl-C waits for the step that runs; then the weights are brought to the host, as they are. A
    second one stops at once.
    """

    not_here = {
        **dict.fromkeys(
            ("getPerfCounters", "getLatency", "getComputeLatency", "getHostIpuLatency"),
            "cycleCount() and report; host times are those of this machine.",
        ),
        "save": "torch.save of module.state_dict(), optimizer.state_dict() and rng_state.",
        **dict.fromkeys(
            ("parameters", "named_parameters", "load_state_dict", "train", "eval"),
            "the module's own: a call of the executor notices what was changed.",
        ),
    }

    def __init__(self, module: Any, options: Options, optimizer: Any) -> None:
        self.module, self.options, self.optimizer = module, options.clone(), optimizer
        self.training = optimizer is not None
        self.compiles = 0
        self.run: Any = None
        self.captured: Any = None
        self._calls = 0
        self._mirror: Any = None
        self._reads: Reads = {}  # attributes that the forward read when it was captured
        self._program: Any = None  # what the program was compiled for, see `_description`
        self._constants: Any = None
        self._shapes: Any = None
        self._inputs: list[str] = []  # names of the tensors, in the order of the captured inputs
        self._seed: Any = None
        self._rates: list[float] = []
        self._marked: frozenset[str] = frozenset()  # inputs with labels that do not count

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
        return self in _attached

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Capture and compile for arguments like these, the batch of a whole call. Raises
        `ModelError`, and what the libraries raise."""
        self._prepare(Arguments(self.module, args, kwargs))
        if not self.isAttachedToDevice():
            self.attachToDevice()

    def attachToDevice(self) -> None:
        """Bring the module's weights to the device. Raises `ModelError` if an executor is attached
        that changes some of them, or of which this one would change some."""
        self._compiled()
        self._refuse_shared()
        _attached.add(self)
        self.copyWeightsToDevice()

    def _refuse_shared(self) -> None:
        tensors = tensors_of(self.module)
        for other in list(_attached):
            if other is self:
                continue
            # tensors that neither of them changes may be on two devices
            names = shared(tensors, other._mirror.changed_tensors)
            names += shared(self._mirror.changed_tensors, tensors_of(other.module))
            if names:
                quoted = ", ".join(map(repr, sorted(set(names))[:4]))
                more = ", ..." if len(set(names)) > 4 else ""
                raise ModelError(f"""The {self.name} was to be attached while the {other.name} is,
                    and they share {quoted}{more}: two devices would each change a copy.
                    next:  call detachFromDevice() of that one first.""")

    def detachFromDevice(self) -> None:
        """Give the device back. The host has the weights. A later call attaches again."""
        if self.isAttachedToDevice():
            self._seed = self._read_seed()
            gradients.show(self.module)
            _attached.discard(self)

    def destroy(self) -> None:
        """Detach, and forget the program; a later call compiles again."""
        self.detachFromDevice()
        self.run = self.captured = self._shapes = self._mirror = None
        self._marked = frozenset()
        self._calls = 0

    def copyWeightsToHost(self) -> None:
        """Copy the device's weights, statistics, and the optimiser's state to the module and the
        optimiser. Each call of the executor does."""
        self._check_attached()
        self._seed = self._read_seed()
        self._mirror.read()

    def copyWeightsToDevice(self) -> None:
        """Copy the module's weights and statistics, and the optimiser's state to the device. Each
        call of the executor copies those that have changed."""
        self._check_attached()
        self._mirror.write(everything=True)
        if self._seed is not None:
            self.rng_state = self._seed

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raise `ModelError`: a device is not copied and not saved."""
        raise ModelError(f"""The {self.name} was to be copied or saved.
            next:  {PoplarExecutor.not_here["save"].replace("torch.save of", "torch.save")}""")

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the module's."""
        return self.module.state_dict(*args, **kwargs)

    def _check_attached(self) -> None:
        self._compiled()
        if not self.isAttachedToDevice():
            raise ModelError(f"""The {self.name} was asked for its device, and is not attached.
                next:  call it, or attachToDevice().""")

    def _compiled(self) -> Any:
        if self.run is None:
            raise ModelError(f"""The {self.name} was asked for its device, and is not compiled yet.
                next:  call it, or compile(…), with a batch.""")
        return self.run

    # --- random numbers, rates ---

    @property
    def rng_state(self) -> list[int]:
        """The state of the random numbers: set it to go on with the same."""
        if self.isAttachedToDevice():
            self._seed = self._read_seed()
        return list(self._seed or [])

    @rng_state.setter
    def rng_state(self, state: Sequence[int]) -> None:
        words = list(state) if isinstance(state, (list, tuple)) else [None]
        if len(words) not in (0, 2) or not all(type(n) is int and 0 <= n < 2**32 for n in words):
            raise InvalidOptionError(f"""rng_state was set to {shown(state)}.
                next:  set it to what rng_state was before: two whole numbers below 2**32.""")
        self._seed = words
        if self._seed and self.run is not None and "seed" in self.run.ir.variables:
            self.run.write("seed", self._seed)

    def _read_seed(self) -> Any:
        if self.run is None or "seed" not in self.run.ir.variables:
            return self._seed
        return [int(n) for n in self.run.read("seed")]

    def setOptimizer(self, optimizer: Any) -> None:
        """Go on with the rates of this optimiser, and with the state of the one before where this
        one has none. Raises `ModelError` if more than the rates differs.

        Rates of the optimiser that the executor has are read at each call, so that a scheduler
        needs no call of this function.
        """
        if not self.training:
            raise ModelError(f"""The {self.name} was given an optimiser, and does not train.
                next:  trainingModel(module, options, optimizer).""")
        groups = optimizers.groups_of(optimizer, self.module)
        old = optimizers.groups_of(self.optimizer, self.module)
        scaling = [float(getattr(o, "loss_scaling", 1.0)) for o in (optimizer, self.optimizer)]
        is_alike = [replace(g, rate=0) for g in groups] == [replace(g, rate=0) for g in old]
        if self.run is not None and not (is_alike and scaling[0] == scaling[1]):
            raise ModelError("""setOptimizer() was given an optimiser that differs in more than its
                rates from the one that was compiled.
                next:  destroy() this executor, and make a trainingModel with the other.""")
        optimizers.adopt(optimizer, self.optimizer)
        self.optimizer = optimizer
        if self._mirror is not None:
            self._mirror.optimizer = optimizer

    def _write_rates(self) -> None:
        if not self.training:
            return
        rates = [g.rate for g in optimizers.groups_of(self.optimizer, self.module)]
        for number, rate in enumerate(rates):
            if number >= len(self._rates) or rate != self._rates[number]:
                self.run.write(rate_of(number), rate)
        self._rates = rates

    # --- a program ---

    def _description(self, call: Arguments) -> Any:
        """What a program is compiled for, besides shapes, in a form that can be compared."""
        settings = dict(vars(self.options))
        del settings["mode"], settings["every"]  # they select from what has been computed
        groups = []
        if self.training:
            groups = [
                (replace(g, rate=0.0, numbers={}, names=()), dict(g.numbers), list(g.names or ()))
                for g in optimizers.groups_of(self.optimizer, self.module)
            ]
        scaling = getattr(self.optimizer, "loss_scaling", 1.0)
        module = description(self.module, self._reads, self.training)
        return call.constants, module, fingerprint([settings, scaling]), groups

    def _check_batch(self, call: Arguments) -> int:
        """Return how many micro-batches a call takes. Raises `ModelError` for batches that do not
        divide, and for shapes and dtypes that the program was not compiled for."""
        factors = self.options.factors(self.training)
        count = prod(factors.values())
        for name, tensor in call.tensors.items():
            if not tensor.numel():
                raise ModelError(f"""{name!r} was given as {list(tensor.shape)}, without elements.
                    next:  give at least one example.""")
            if count > 1 and (not tensor.dim() or tensor.shape[0] % count):
                raise ModelError(f"""{name!r} was given as {list(tensor.shape)}, and its batch is no
                    multiple of {batch_product("batch_size", 1, factors)}.
                    next:  give batches of a poptorch.DataLoader, which are all of one size.""")
        if self._shapes is None or call.shapes == self._shapes:
            return count
        missing_names = [n for n in self._shapes if n not in call.shapes]
        more = [n for n in call.shapes if n not in self._shapes]
        for name in missing_names:
            if name in call.values or any(v.startswith(f"{name}[") for v in call.values):
                raise ModelError(f"""{name!r} was given as Python values or an array, and was
                    compiled for a tensor.
                    next:  give a tensor: torch.as_tensor({name}).""")
        if missing_names or more:
            raise ModelError(f"""The {self.name} was called with {_listed(call.shapes)}, and was
                compiled for {_listed(self._shapes)}.
                next:  give the same tensors, or destroy() the executor, which compiles for the next
                call.""")
        name = next(n for n, shape in call.shapes.items() if shape != self._shapes[n])
        old = self._shapes[name]
        batch = old[0][0] // count if old[0] else 1
        raise ModelError(f"""{name!r} was given as {_said(call.shapes[name])}, and was compiled for
            {_said(old)}: {batch_product("batch_size", batch, factors)}.
            next:  give batches of one size (drop_last=True of a DataLoader), or destroy() the
            executor, which compiles for the next one.""")

    def _prepare(self, call: Arguments) -> dict[str, Any]:
        """Compile if there is no program for this call, and return the arrays to feed by name."""
        count = self._check_batch(call)
        arrays = call.arrays(count)
        ignored = {n for n, a in arrays.items() if a.dtype.kind == "i" and IGNORED in a}
        is_current = (
            self.run is not None
            and ignored <= self._marked
            and self._description(call) == self._program
            and self._mirror.constants == self._constants
        )
        if not is_current:
            check_module(self.module)
            self._compile(call, count, self._marked | ignored)
            self._program, self._shapes = self._description(call), call.shapes
        return arrays

    def _compile(self, call: Arguments, count: int, marked: frozenset[str]) -> None:
        """Capture and compile for a call, and go on from the program before, if there was one."""
        name = type(self.module).__name__
        args, kwargs = call.micro_batch(count)
        places = [i for i, n in enumerate(call.tensors) if n in marked]
        scale = float(getattr(self.optimizer, "loss_scaling", 1.0))
        with working(f"compile {name}") as work:
            work.words = "capture"
            in_mode = nullcontext() if self.training else modules.in_eval(self.module)
            with in_mode, reads.recorded() as names:
                captured = capture.captured(self.module, args, kwargs, places, self.training, scale)
            self._check_gradients(captured)
            graph = captured.graph
            backward, loss = (captured.backward, captured.loss_at) if self.training else ([], None)
            graph.ops = with_paths(graph, backward, name, loss)
            if "seed" in graph.variables:
                low, high = self.options.seed & 0xFFFFFFFF, self.options.seed >> 32
                graph.variables["seed"].initial = np.array([low, high & 0xFFFFFFFF], np.uint32)
            work.words = "graph"
            step = self._trained(captured) if self.training else self._asked(graph)
            asked = {
                "partialsType": self.options.Precision.partials,
                "availableMemoryProportion": self.options.proportion,
                "stochasticRounding": self.options.Precision.stochastic or None,
            }
            settings = {n: value for n, value in asked.items() if value is not None}
            steps = 1 if step.schedule and not self.training else self.options.iterations
            run = compile_graph("", step, self.options.model, steps, settings)
        mirror = Mirror(run, self.module, self.optimizer, captured.counters)
        _refuse_overlaps(self.module, mirror)
        self._seed = self._read_seed()  # of the program before
        _attached.discard(self)
        self.run, self.captured, self._mirror, self._marked = run, captured, mirror, marked
        self._constants, self._reads = mirror.constants, names
        self._inputs, self._rates, self._calls = list(call.tensors), [], 0
        self.compiles += 1

    def _check_gradients(self, captured: Any) -> None:
        if self.training and not captured.grads:
            raise ModelError(f"""The loss of {type(self.module).__name__} depends on no parameter
                that requires a gradient.
                next:  compute the loss from parameters with requires_grad, without detach() and
                torch.no_grad(), or use inferenceModel.""")

    def _asked(self, graph: Ir) -> Ir:
        step = ir.replicate(graph, self.options.replicas)
        if step.stages > 1 and self.options.strategy.schedule:
            step = ir.pipelined(
                step.but(accumulation=self.options.iterations), self.options.strategy.schedule
            )
        return step

    def _trained(self, captured: Any) -> Ir:
        options, where = self.options, self.options.TensorLocations
        groups = optimizers.groups_of(self.optimizer, self.module)
        names = {name for group in groups for name in group.names or ()}
        return Training(
            groups=groups,
            scale=float(getattr(self.optimizer, "loss_scaling", 1.0)),
            recompute=captured.kept or None,
            accumulation=options.Training.accumulation,
            replicas=options.replicas,
            reduction=options.Training.reduction.value,
            sharded=where.optimizer.shared,
            off_chip=not where.optimizer.on_chip,
            schedule=options.strategy.schedule if captured.graph.stages > 1 else "",
        ).transform(
            captured.graph, None, [v for v in captured.trained if v.name in names], captured.grads
        )

    # --- calls ---

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what forward returns, of the micro-batches that the output mode selects. Raises
        `ModelError`, and what the libraries raise."""
        call = Arguments(self.module, args, kwargs)
        arrays = self._prepare(call)
        self._mode()
        if self.isAttachedToDevice():
            self._mirror.write()
        else:
            self.attachToDevice()
        self._write_rates()
        by_place = zip(self.captured.inputs, self._inputs, strict=True)
        fed = {name: arrays[argument] for name, argument in by_place}
        with Interrupts():  # Ctrl-C waits until the host has what the device has
            try:
                outs = self.run(**fed)
                factors = self.options.factors(self.training)
                self._mirror.read(prod(factors.values()) // self.options.replicas)
            except BaseException:
                self._mirror.forget()  # the device may be in the middle of a step
                raise
            self._calls += 1
            if self.training:
                gradients.hide(self.module)
        outputs = {
            name: tensor_of(self._chosen(outs[name]), dtype)
            for name, dtype in self.captured.outputs.items()
        }
        loss = self.captured.loss_at
        if self.training and loss in outputs:
            outputs[loss] = gradients.as_loss(outputs[loss])
        return filled(self.captured.form, [*outputs.values()])

    def _mode(self) -> OutputMode:
        """The output mode. Raises `InvalidOptionError` if it does not fit the outputs."""
        mode, options = self.options.mode, self.options
        if mode is OutputMode.Default:
            return OutputMode.Final if self.training else OutputMode.All
        steps = prod(options.factors(self.training).values()) // options.replicas
        if mode is OutputMode.EveryN and options.every > steps:
            raise InvalidOptionError(f"""outputMode(OutputMode.EveryN, {options.every}) selects none
                of the {steps} micro-batches of a call.
                next:  give an n from 1 to {steps}.""")
        if mode is OutputMode.Sum and "torch.bool" in map(str, self.captured.outputs.values()):
            raise InvalidOptionError("""OutputMode.Sum was asked of an output of torch.bool.
                next:  return it as numbers: output.float().""")
        return mode

    def _chosen(self, out: Any) -> Any:
        """The outputs of the micro-batches that are asked for, one behind the other."""
        mode, replicas = self._mode(), self.options.replicas
        if mode is OutputMode.Sum and out.dtype.kind in "iu":
            out = out.astype(np.int64)
        by_replica = out.reshape(out.shape[0] // replicas, replicas, *out.shape[1:])
        by_replica = select_outputs(by_replica, mode.value, self.options.every)
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


def _refuse_overlaps(module: Any, mirror: Mirror) -> None:
    """Raise `ModelError` for a tensor that is changed and shares memory with another one."""
    tensors = tensors_of(module)
    for name, tensor in mirror.changed_tensors.items():
        others = {n: t for n, t in tensors.items() if t is not tensor}
        if shared({name: tensor}, others):
            other = shared(others, {name: tensor})[0]
            raise ModelError(f"""{name!r} and {other!r} share memory and are two tensors, and the
                device has a variable for each.
                next:  use one parameter in both places, module.a = module.b, or give one a copy:
                tensor.clone().""")


def _listed(shapes: Mapping[str, Any]) -> str:
    return ", ".join(f"{n!r} {_said(shape)}" for n, shape in shapes.items()) or "no tensor"


def _said(pair: tuple[Sequence[int], Any]) -> str:
    shape, dtype = pair
    return f"{list(shape)} {str(dtype).removeprefix('torch.')}"


def _misuse(problem: str, advice: str) -> InvalidOptionError:
    return InvalidOptionError(problem, line=in_words(caller()), next_step=advice)


check_calls(globals(), _misuse)
for _options in (_Training, _Precision, _TensorLocations):
    check_class(_options, _misuse)
