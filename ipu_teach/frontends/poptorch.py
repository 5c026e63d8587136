"""PyTorch modules on the simulated IPU, with the names of Graphcore's PopTorch.

    options = poptorch.Options().deviceIterations(4)
    options.Training.gradientAccumulation(2)
    loader = poptorch.DataLoader(options, dataset, batch_size=16, shuffle=True)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, options, optimizer)
    for x, y in loader:
        output, loss = training(x, y)            # forward(x, y) returns its loss last
    training.detachFromDevice()                  # frees the device for another executor
    inference = poptorch.inferenceModel(model, options)

A call of `training` computes the forward pass, the backward pass and the optimiser's updates on the
device, so leave out `zero_grad()`, `backward()` and `step()`. The batch that you pass to a call
contains `batch_size * deviceIterations * gradientAccumulation * replicationFactor` examples;
`poptorch.DataLoader` returns batches of this size.

The first call captures the module's operations and compiles them into a program. A later call
compiles again if a Python value on which the program depends has changed, such as an argument, an
attribute of the module, or its mode (train or eval). `training.compiles` counts the compilations.
After each call, the module and the optimiser have the device's values, so `model.state_dict()`,
`optimizer.state_dict()` and `training.rng_state` are a complete checkpoint.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import Enum
from math import prod
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn, SupportsIndex, TypeVar
from weakref import WeakSet

import numpy as np

from ipu_teach._support.interrupts import Interrupts
from ipu_teach._support.progress import working
from ipu_teach.arguments import Between, Count, Natural, Taken, check_calls, check_class
from ipu_teach.device import IPUModel
from ipu_teach.errors import (
    InvalidOptionError,
    IPUTeachError,
    ModelError,
    NoHardwareError,
    NotOfferedError,
    UnknownNameError,
    WithoutSome,
    missing,
    shown,
)
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir
from ipu_teach.frontends.ir.attributes import Attribute
from ipu_teach.frontends.pytorch import (
    capture,
    gradients,
    losses,
    markers,
    modules,
    optimizers,
    reads,
)
from ipu_teach.frontends.pytorch.arguments import Arguments, Layer, Shapes, Tensor
from ipu_teach.frontends.pytorch.fingerprints import fingerprint
from ipu_teach.frontends.pytorch.loader import (
    AsynchronousDataAccessor,
    DataLoaderMode,
    Loader,
    has_examples,
)
from ipu_teach.frontends.pytorch.markers import lowering
from ipu_teach.frontends.pytorch.mirror import (
    Mirror,
    check_module,
    description,
    sharing_memory,
    tensors_of,
)
from ipu_teach.frontends.pytorch.paths import with_paths
from ipu_teach.frontends.pytorch.private import Argument
from ipu_teach.frontends.pytorch.reads import Reads
from ipu_teach.frontends.pytorch.rows.likelihoods import IGNORED
from ipu_teach.frontends.pytorch.tensors import fill_form, tensor_of
from ipu_teach.frontends.session import (
    Group,
    Training,
    batch_product,
    compile_graph,
    rate_of,
    select_outputs,
)
from ipu_teach.graph.source import caller, in_words
from ipu_teach.program import Program
from ipu_teach.schedules import GROUPED, SCHEDULES
from ipu_teach.types import Array

if TYPE_CHECKING:
    import torch

    from ipu_teach._support.progress import TrackedWork
    from ipu_teach.estimate.result import Estimate
    from ipu_teach.report import Report

Same = TypeVar("Same")

__all__ = [
    "AnchorMode",
    "AsynchronousDataAccessor",
    "BeginBlock",
    "Block",
    "DataLoader",
    "DataLoaderMode",
    "MultiConv",
    "Options",
    "OutputMode",
    "PipelinedExecution",
    "PoplarExecutor",
    "ReductionType",
    "ShardedExecution",
    "Stage",
    "TensorLocationSettings",
    "cond",
    "custom_op",
    "estimate",
    "for_loop",
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


# Maps names of PopTorch that this module lacks to the advice in the error message.
NOT_HERE = {
    "AutoStage": "poptorch.Stage or the argument ipu_id of Block, which give each block its stage.",
    "CPU": "torch.cond or torch's functions, or compute the tensor before the call.",
    "ConnectionType": "nothing, because the simulated device is always connected.",
    "Liveness": "poptorch.PipelinedExecution.",
    "OverlapMode": "nothing, because the schedule of transfers does not change values.",
    "OptimizerAttrTracker": "torch's learning-rate schedulers; each call reads the rates.",
    **dict.fromkeys(
        ("ParallelPhasedExecution", "SerialPhasedExecution", "Phase"),
        "poptorch.PipelinedExecution(poptorch.Stage('first'), poptorch.Stage('second')), and "
        "options.TensorLocations.setOptimizerLocation() to store state in streaming memory.",
    ),
    **dict.fromkeys(
        ("CTCBeamSearchDecoder", "TensorKeyCache"), "torch's functions on the host, after the call."
    ),
    **dict.fromkeys(
        ("set_block", "removeBlocks"), "the context manager poptorch.Block or poptorch.BeginBlock."
    ),
    "load": "poptorch.inferenceModel(module), because compiling again takes seconds.",
    "profiling": "executor.report.",
    "setLogLevel": "the report of an executor and show.program(executor.program).",
}
NAMES_PAGE = "See docs/frameworks.md, section PopTorch's names."


class _Optimizers(WithoutSome):
    """The namespace `poptorch.optim`, with the optimisers that the simulated device implements."""

    not_here = dict.fromkeys(
        ("AdamWNoBias", "LAMB", "LAMBNoBias", "RMSprop", "Adagrad", "Adadelta", "NAdam", "LBFGS"),
        "poptorch.optim.SGD, Adam or AdamW.",
    )
    SGD = optimizers.SGD
    Adam = optimizers.Adam
    AdamW = optimizers.AdamW


optim = _Optimizers()


# --- options --------------------------------------------------------------------------------------


Ipu = Annotated[int, Between(0, 63)]


def missing_with_page(
    owner: str, name: str, advice: Mapping[str, str], known: Sequence[str]
) -> AttributeError:
    """Return the error for a name that PopTorch may have, but that `owner` lacks.

    `advice` maps names to the advice in the error message, and `known` lists the names of `owner`.
    """
    error = missing(owner, name, advice, known)
    if not isinstance(error, IPUTeachError):
        return error
    kind = NotOfferedError if isinstance(error, NotOfferedError) else UnknownNameError
    return kind(error.tried, next_step=f"{error.next_step} {NAMES_PAGE}")


class OutputMode(Enum):
    """The choice of micro-batches whose outputs a call of an executor returns.

    - `All`: every micro-batch.
    - `Final`: the last micro-batch.
    - `EveryN`: every n-th micro-batch.
    - `Sum`: the sum of the outputs of all micro-batches.
    - `Default`: `Final` for training and `All` for inference.

    With several replicas, the mode applies to each replica separately.
    """

    All = "all"
    Final = "final"
    EveryN = "everyn"
    Sum = "sum"
    Default = "default"


AnchorMode = OutputMode  # PopTorch's older name


class ReductionType(Enum):
    """The reduction of gradients over micro-batches and replicas: their mean or their sum."""

    Mean = "mean"
    Sum = "sum"


class ShardedExecution:
    """The execution strategy in which the stages of a model run one after the other."""

    schedule = ""
    stages: Mapping[object, int] = {}


class Stage:
    """A stage of a pipeline: the blocks whose `user_id` is in `block_ids`."""

    def __init__(self, *block_ids: str) -> None:
        self.block_ids = block_ids
        self.number: int | None = None

    def ipu(self, number: Ipu) -> Stage:
        """Set the number of the stage's IPU in each replica. It must equal the stage's number."""
        self.number = number
        return self


class PipelinedExecution:
    """The execution strategy in which stages work on different micro-batches at the same time.

    `stages` are `Stage` objects, or the `user_id` of a block for each stage. Stage i runs on IPU i.
    Without `stages`, the argument `ipu_id` of each block selects the IPU on which the block runs.
    `schedule` is the name of a pipeline schedule, one of `ipu_teach.schedules.SCHEDULES`. With the
    schedule "sequential", only one stage works at a time. A schedule's name may also be passed as
    the only positional argument.

    :raises InvalidOptionError: if the IPU number of a stage, set with `ipu()`, is not the number of
        the stage.
    """

    def __init__(self, *stages: str | Stage, schedule: str = GROUPED) -> None:
        if len(stages) == 1 and isinstance(stages[0], str):
            schedule, stages = stages[0], ()
        if schedule not in SCHEDULES:
            raise InvalidOptionError(f"""PipelinedExecution() was given the schedule
                {shown(schedule)}.
                next:  give {" or ".join(map(repr, SCHEDULES))}, or pass two or more stages.""")
        self.schedule = schedule
        self.stages: dict[object, int] = {}
        for number, stage in enumerate(stages):
            if isinstance(stage, Stage) and stage.number not in (None, number):
                raise InvalidOptionError(f"""PipelinedExecution() was given stage {number} with
                    ipu({stage.number}), but stage {number} runs on IPU {number} of each replica.
                    next:  leave ipu() out, and give the stages in the order of their IPUs.""")
            for block_id in stage.block_ids if isinstance(stage, Stage) else (stage,):
                self.stages[block_id] = number


class TensorLocationSettings:
    """The location of tensors: on the tiles or in streaming memory, complete or sharded.

    When tensors are sharded, each replica stores only a part of them.
    """

    on_chip = True
    shared = False

    def useOnChipStorage(self, yes: bool) -> TensorLocationSettings:
        """Set whether tensors are stored on the tiles (True) or in streaming memory (False)."""
        self.on_chip = bool(yes)
        return self

    def useReplicatedTensorSharding(self, yes: bool) -> TensorLocationSettings:
        """Set whether each replica stores only its part of a tensor (True) or all of it (False)."""
        self.shared = bool(yes)
        return self


def _is_strategy(value: object) -> bool:
    """Return whether a value is an execution strategy, or the class of an execution strategy."""
    kind = value if isinstance(value, type) else type(value)
    return issubclass(kind, (ShardedExecution, PipelinedExecution))


Strategy = Annotated[
    ShardedExecution | PipelinedExecution | type[ShardedExecution] | type[PipelinedExecution],
    Taken(_is_strategy, "give poptorch.PipelinedExecution() or poptorch.ShardedExecution()."),
]
Dataset = Annotated[
    Argument,
    Taken(
        has_examples,
        "give a torch.utils.data.Dataset, such as TensorDataset(inputs, labels).",
    ),
]


class _OptionSet(WithoutSome):
    """The base class of groups of options. Setters return the object, so calls can be chained."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise missing_with_page(
                type(self).__name__.strip("_"), name, type(self).not_here, dir(self)
            )


class _Training(_OptionSet):
    """The options that apply to training only: `Options().Training`."""

    accumulation = 1
    reduction = ReductionType.Mean

    def gradientAccumulation(self, count: Count) -> _Training:
        """Set the number of micro-batches whose gradients each replica combines in one update."""
        self.accumulation = count
        return self

    def accumulationAndReplicationReductionType(self, kind: ReductionType) -> _Training:
        """Set whether an update uses the mean or the sum of the gradients."""
        self.reduction = kind
        return self


class _Precision(_OptionSet):
    """The options of numerical precision: `Options().Precision`."""

    partials: str | None = None
    stochastic = False

    def enableStochasticRounding(self, yes: bool = True) -> _Precision:
        """Set whether HALF results are rounded stochastically (True) or to the nearest (False).

        Stochastic rounding is random; its mean error is 0.
        """
        self.stochastic = bool(yes)
        return self

    def setPartialsType(self, dtype: object) -> _Precision:
        """Set the dtype of the partial sums of matrix products and convolutions.

        `dtype` is torch.float, torch.half or the name of one of them, such as "half".

        :raises InvalidOptionError: if `dtype` is any other value.
        """
        names = {"float32": "float", "float16": "half", "float": "float", "half": "half"}
        name = str(dtype).removeprefix("torch.")
        if name not in names:
            raise InvalidOptionError(f"""setPartialsType() was given {shown(dtype)}, but the dtype
                of partial sums must be torch.float or torch.half.
                next:  give one of these dtypes: options.Precision.setPartialsType(torch.half).""")
        self.partials = names[name]
        return self


class _TensorLocations(_OptionSet):
    """The options for the memory in which tensors are stored: `Options().TensorLocations`."""

    optimizer = TensorLocationSettings()

    def setOptimizerLocation(self, settings: TensorLocationSettings) -> _TensorLocations:
        """Set where the optimiser's state is stored."""
        self.optimizer = settings
        return self


class Options(_OptionSet):
    """The options of an executor. Each setter returns the options, so calls can be chained."""

    not_here = {
        "Distributed": "replicationFactor(n), whose replicas all run in this process.",
        "Jit": "nothing, because the executor captures the module at its first call.",
        "broadcastBuffers": "nothing, because all replicas start with the module's buffers.",
        "loadFromFile": "the setters of the options, in Python.",
        "toDict": "vars(options).",
    }

    def __init__(self) -> None:
        self.iterations = 1
        self.replicas = 1
        self.every = 1
        self.mode = OutputMode.Default
        self.seed = 42
        self.model = IPUModel("ipu2")
        self.strategy: PipelinedExecution | ShardedExecution = PipelinedExecution()
        self.proportion: float | None = None
        self.title = ""
        self.shows_progress = True
        self.Training = _Training()
        self.Precision = _Precision()
        self.TensorLocations = _TensorLocations()

    def deviceIterations(self, count: Count) -> Options:
        """Set the number of steps in a call.

        In training, a step is an update. In inference, each replica runs one micro-batch in a step.
        """
        self.iterations = count
        return self

    def replicationFactor(self, count: Count) -> Options:
        """Set the number of copies of the model, each of which gets its own batches."""
        self.replicas = count
        return self

    def outputMode(self, mode: OutputMode, n: Count = 1) -> Options:
        """Set which micro-batches' outputs a call returns.

        `n` is used only with `OutputMode.EveryN`, which returns every n-th micro-batch.
        """
        self.mode = mode
        self.every = n
        return self

    anchorMode = outputMode  # PopTorch's older name

    def modelName(self, name: str) -> Options:
        """Set the model's name on the progress line; "" means the name of the module's class."""
        self.title = name
        return self

    def showCompilationProgressBar(self, show: bool = True) -> Options:
        """Set whether a progress line is shown while a module is compiled."""
        self.shows_progress = bool(show)
        return self

    def enableExecutableCaching(self, path: str) -> Options:
        """Do nothing: programs are compiled in memory, and a cache would not change any value."""
        return self

    def logDir(self, log_dir: str) -> Options:
        """Do nothing, because this package writes no log files."""
        return self

    def useIpuId(self, ipu_id: Natural) -> Options:
        """Do nothing, because all simulated devices are equal."""
        return self

    def enableSyntheticData(self, enabled: bool) -> Options:
        """Accept False. Raise `InvalidOptionError` for True, because inputs are always copied."""
        if enabled:
            raise InvalidOptionError("""enableSyntheticData(True) asks for inputs that are not
                copied from the host, but the simulated device always gets the inputs of the call.
                next:  leave enableSyntheticData out, and pass torch.ones(...) of the shape of a
                batch; cycleCount() does not depend on the values.""")
        return self

    def randomSeed(self, seed: Natural) -> Options:
        """Set the seed of the random numbers on the device."""
        self.seed = seed
        return self

    def useIpuModel(self, model: bool | IPUModel = True) -> Options:
        """Set the simulated machine: an `IPUModel`, or True for `IPUModel("ipu2")`.

        The model needs one IPU for each stage and replica, so the number of IPUs in `model` is
        ignored.

        :raises NoHardwareError: if `model` is False, which asks for a real IPU.
        """
        if model is False:
            raise NoHardwareError("""useIpuModel(False) asks for a real IPU, but this package only
                simulates IPUs.
                next:  use useIpuModel(True), or useIpuModel(IPUModel("ipu2")).""")
        self.model = model if isinstance(model, IPUModel) else IPUModel("ipu2")
        return self

    def setExecutionStrategy(self, strategy: Strategy) -> Options:
        """Set the execution strategy: `PipelinedExecution()` or `ShardedExecution()`."""
        self.strategy = strategy() if isinstance(strategy, type) else strategy
        return self

    def setAvailableMemoryProportion(self, proportion: Mapping[str, float] | float) -> Options:
        """Set the fraction of a tile's memory for temporary data of a product or a convolution.

        `proportion` is a number, or a dict with a number for each IPU, such as `{"IPU0": 0.6}`. The
        smallest number of a dict applies to all IPUs.

        :raises InvalidOptionError: if `proportion` is an empty dict.
        """
        proportions = list(proportion.values()) if isinstance(proportion, Mapping) else [proportion]
        if not proportions:
            raise InvalidOptionError("""setAvailableMemoryProportion() was given an empty dict.
                next:  give a number from 0 to 1, such as 0.6, or {"IPU0": 0.6}.""")
        self.proportion = min(proportions)
        return self

    def clone(self) -> Options:
        """Return a copy of the options, which can be changed independently."""
        return copy.deepcopy(self)

    def factors(self, training: bool) -> dict[str, int]:
        """Return the three factors of the number of micro-batches in a call.

        The keys are the names of the setters, such as "deviceIterations". In inference, the factor
        "gradientAccumulation" is 1.
        """
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
    mode: DataLoaderMode = DataLoaderMode.Sync,
    async_options: Mapping[str, object] | None = None,
    **settings: object,
) -> Loader:
    """Return a `torch.utils.data.DataLoader` whose batches contain the examples of a whole call.

    `batch_size` is the number of examples in a micro-batch. With a `mode` other than `Sync`, a
    thread prepares the next batches. `async_options` are arguments of `AsynchronousDataAccessor`.
    `settings` are further arguments of torch's DataLoader.

    :raises ModelError: if there are fewer examples than a batch needs, if `drop_last` is False and
        the examples do not fill the last batch, or if torch does not accept an argument.
    """
    factors = options.factors(training=True)
    examples_per_call = batch_size * prod(factors.values())
    settings |= {"shuffle": shuffle, "num_workers": num_workers}
    loader = Loader(
        dataset,
        examples_per_call,
        batch_product("batch_size", batch_size, factors),
        bool(drop_last),
        **settings,
    )
    loader.options = options
    loader.prefetch(mode, async_options or {})
    return loader


# --- functions for modules ------------------------------------------------------------------------


def isRunningOnIpu() -> bool:
    """Return True while forward is captured for the device, and False while it runs in torch."""
    return markers.is_capturing()


def identity_loss(x: Tensor, reduction: Literal["mean", "sum", "none"] = "mean") -> Tensor:
    """Mark the loss of a module and return it: the mean or sum of `x`, or `x` itself for "none".

    A module's forward may return the marked loss at any position. Without a mark, the last output
    is the loss. If a module marks several losses, the module is trained with the last marked loss.
    The last marked loss must be computed from all other marked losses; otherwise the capture raises
    `ModelError`.
    """
    loss = x if reduction == "none" else getattr(x, reduction)()
    if markers.current is not None:
        losses.mark_loss(markers.current.losses, loss)
    return loss


def ipu_print_tensor(x: Tensor, title: str = "tensor") -> Tensor:
    """Return `x`, and print `title` and the values of `x` in each run that uses the result."""
    return markers.print_tensor(x, title)


def nop(x: Same) -> Same:
    """Return `x` unchanged. Programs written for PopTorch may call this function."""
    return x


def recomputationCheckpoint(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Return `tensors`, and keep their values in memory for the backward pass.

    In a module that calls this function, the backward pass recomputes all other values from the
    kept ones. For one argument, return a tensor; for several arguments, return a tuple.
    """
    saved = tuple(markers.keep_tensor(x) for x in tensors)
    return saved[0] if len(saved) == 1 else saved


def custom_op(
    inputs: Sequence[Tensor],
    name: str,
    domain: str = "",
    domain_version: int = 1,
    example_outputs: Sequence[Tensor] = (),
    attributes: Mapping[str, Attribute] | None = None,
) -> list[Tensor]:
    """Return the results of the operation `name`, which `ir.register(name, Row(…))` has defined.

    The results have the shapes and dtypes of `example_outputs`. `domain` and `domain_version` have
    no effect. Plain torch does not have the operation, so the results are copies of
    `example_outputs` when forward runs in torch.
    """
    return list(markers.custom_operation(inputs, name, dict(attributes or {}), example_outputs))


Tensors = Sequence[Tensor]


def for_loop(
    count: Natural, body: Callable[..., Tensors | Tensor], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """Return the tensors after `count` steps of `body`, the first of which gets `inputs`.

    Each further step gets the results of the previous step. `body(*tensors)` must return as many
    tensors as `inputs` contains, with the same shapes and dtypes. The program contains each step,
    so compiling takes time in proportion to `count`.

    :raises ModelError: if `body` returns tensors of another number, shape or dtype.
    """
    state = list(inputs)
    for _ in range(count):
        results = _as_list(body(*state))
        forms = [[(list(t.shape), t.dtype) for t in tensors] for tensors in (results, state)]
        if forms[0] != forms[1]:
            raise ModelError(
                f"The body of for_loop() was given {_forms(state)}, but returned "
                f"{_forms(results)}.",
                line=in_words(caller()),
                next_step="return as many tensors as the body is given, with the same shapes and "
                "dtypes.",
            )
        state = results
    return state


def cond(
    condition: Tensor,
    then_body: Callable[..., Tensors | Tensor],
    then_inputs: Sequence[Tensor],
    else_body: Callable[..., Tensors | Tensor],
    else_inputs: Sequence[Tensor],
) -> list[Tensor]:
    """Return the results of `then_body` if `condition` is true, and otherwise those of `else_body`.

    The device computes both bodies, and selects the results and the gradients of one of them.

    :raises ModelError: if the results of the bodies differ in their number, shapes or dtypes.
    """
    if markers.current is None:
        chosen = then_body(*then_inputs) if condition else else_body(*else_inputs)
        return _as_list(chosen)
    bodies = lambda: _as_list(then_body(*then_inputs)), lambda: _as_list(else_body(*else_inputs))
    import torch

    results: list[Tensor] = torch.cond(condition, *bodies)
    return results


def _as_list(tensors: Tensors | Tensor) -> list[Tensor]:
    """Return one tensor, or a list or tuple of tensors, as a list."""
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


def _forms(tensors: Sequence[Tensor]) -> str:
    """Return the shapes and dtypes of tensors as a string, such as "[16, 64] float32, [] int64"."""
    return ", ".join(_as_text((t.shape, t.dtype)) for t in tensors) or "no tensor"


class MultiConv:
    """A context manager for convolutions that PopTorch's compiler would run at the same time.

    The simulated device computes them one after the other, so the settings change no value.
    """

    def __enter__(self) -> MultiConv:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing, because the convolutions are computed as without the context manager."""

    def availableMemoryProportions(self, value: float | Sequence[float]) -> MultiConv:
        """Do nothing: `options.setAvailableMemoryProportion` applies to all convolutions."""
        return self

    def partialsTypes(self, value: object) -> MultiConv:
        """Raise `InvalidOptionError`, because another dtype of partial sums would change values."""
        raise InvalidOptionError("""MultiConv.partialsTypes() would apply to a few convolutions, but
            the dtype of partial sums is an option of the whole model.
            next:  call options.Precision.setPartialsType(torch.half) or leave this call out.""")

    def planType(self, value: str) -> MultiConv:
        """Do nothing, because the convolutions are always computed one after the other."""
        return self

    def perConvReservedTiles(self, value: int) -> MultiConv:
        """Do nothing, because no tiles are reserved for a convolution."""
        return self

    def cycleBackOff(self, value: float) -> MultiConv:
        """Do nothing, because the convolutions are always computed one after the other."""
        return self

    def enableConvDithering(self, value: bool | Sequence[bool]) -> MultiConv:
        """Do nothing, because the start tile of a convolution changes no value."""
        return self


class Block:
    """A context manager that places operations on an IPU: `with Block("second", ipu_id=1):`.

    `ipu_id` is the number of the IPU in each replica. If it is None, the execution strategy
    decides. The block runs on the IPU of the stage whose blocks include `user_id`, or on IPU 0 if
    the strategy has no stages. Operations after the block stay on its IPU until another block
    begins.
    """

    def __init__(self, user_id: object = None, ipu_id: Ipu | None = None) -> None:
        self.user_id = user_id
        self.ipu_id = ipu_id

    def __enter__(self) -> Block:
        number = self.ipu_id
        stages = markers.stages
        if number is None and stages and self.user_id not in stages:
            raise ModelError(
                f"The block {shown(self.user_id)} is in no stage of the execution strategy, whose "
                f"stages contain {', '.join(map(shown, stages))}.",
                line=in_words(caller()),
                next_step="add a stage: poptorch.Stage('name of the block'), or give the block an "
                "ipu_id.",
            )
        markers.mark_stage(stages.get(self.user_id, 0) if number is None else number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing, because the operations after the block stay on its IPU."""


def BeginBlock(layer: Layer, user_id: object = None, ipu_id: Ipu | None = None) -> Layer:
    """Place the operations of `layer` on an IPU, as `Block` does, and return `layer`.

    Operations after the layer stay on that IPU until another block begins.
    """
    block = Block(user_id, ipu_id)

    def enter(*_: Argument) -> None:
        block.__enter__()

    layer.register_forward_pre_hook(enter)
    return layer


# --- running --------------------------------------------------------------------------------------

_attached: WeakSet[PoplarExecutor] = WeakSet()


def trainingModel(
    module: torch.nn.Module | torch.export.ExportedProgram,
    options: Options | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> PoplarExecutor:
    """Return an executor that trains `module` on the device.

    A call of the executor runs the forward and backward passes and the updates, and returns
    forward's outputs, by default those of the last micro-batch. The last output is the loss, unless
    `identity_loss` marks another output. Submodules run in the mode (train or eval) that they have
    when the executor is called. The default optimiser is SGD with a learning rate of 0.01.

    :raises ModelError: if the module cannot be trained, or the device does not implement the
        optimiser.
    """
    module = modules.plain(module)
    modules.check_kind("trainingModel", module)
    if optimizer is None:
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise ModelError(f"""trainingModel() was given a {type(module).__name__}, which has no
                parameter that requires a gradient.
                next:  use poptorch.inferenceModel(module), or train a module with parameters.""")
        optimizer = optim.SGD(module.parameters(), lr=0.01)
    optimizers.groups_of(optimizer, module)
    return PoplarExecutor(module, options or Options(), optimizer)


def inferenceModel(
    module: torch.nn.Module | torch.export.ExportedProgram, options: Options | None = None
) -> PoplarExecutor:
    """Return an executor that runs `module` in eval mode on the device.

    A call returns the outputs of forward, by default for all micro-batches. The module itself stays
    in its mode, train or eval.

    :raises ModelError: if `module` is not a module of Python code, such as a scripted module.
    """
    module = modules.plain(module)
    modules.check_kind("inferenceModel", module)
    return PoplarExecutor(module, options or Options(), None)


def estimate(
    module: torch.nn.Module,
    options: Options | None = None,
    *batch: Argument,
    optimizer: torch.optim.Optimizer | None = None,
    training: bool = True,
    byte_inputs: bool = False,
) -> Estimate:
    """Return the modelled cycles and memory of a step of a module, without building it.

    `batch` contains the arguments of a call of the executor, with the tensors of a whole call. If
    `training` is true, the executor is `trainingModel(module, options, optimizer)`, and otherwise
    `inferenceModel(module, options)`. Print the result to see the cycles by layer.

    :raises ModelError: if the module cannot be captured or trained, or if the batch does not divide
        into micro-batches.
    """
    if not training:
        return inferenceModel(module, options).estimate(*batch, byte_inputs=byte_inputs)
    executor = trainingModel(module, options, optimizer)
    return executor.estimate(*batch, byte_inputs=byte_inputs)


@dataclass(frozen=True)
class _Compiled:
    """A compiled program, and the state of the module for which it was compiled.

    - `run`: the program on the device.
    - `captured`: the graph of the module's operations.
    - `mirror`: the connection between the module's tensors and the device's variables.
    - `reads`: the names of the attributes that forward has read, by module.
    - `description`: the Python values and settings on which the program depends.
    - `constants`: a hashable value of the module's tensors that the program contains as constants.
      It changes if one of these tensors changes.
    - `shapes`: the shapes and dtypes of the tensors among the arguments.
    - `inputs`: the names of these tensors, in the order of the captured inputs.
    - `marked`: the inputs that may contain the label that a loss ignores.
    """

    run: ir.Run
    captured: capture.Captured
    mirror: Mirror
    reads: Reads
    description: Hashable
    constants: Hashable
    shapes: Shapes
    inputs: Sequence[str]
    marked: frozenset[str]


class PoplarExecutor(WithoutSome):
    """A PyTorch module on a simulated device. Call it like the module.

    Attributes and methods that an executor lacks are looked up in the module, such as
    `parameters()`, `state_dict()`, `load_state_dict()` or a layer.

    The compiled program depends on the arguments that are not tensors, on the attributes and modes
    of modules that forward reads, and on all settings of the optimiser except its learning rates.
    If any of these has changed since the last call, a call compiles again; `compiles` counts the
    compilations. The weights, the optimiser's state and the state of the random numbers are kept. A
    tensor of another shape or dtype raises an error.

    After each call, the module's tensors and the optimiser's state have the device's values. If the
    host changes them, the next call uses the changed values.

    Ctrl-C takes effect at the end of a call, when all its steps are complete and the weights are on
    the host. A second Ctrl-C stops immediately. The host then has the weights from before the call,
    and the next call continues with these.
    """

    not_here = {
        **dict.fromkeys(
            ("getPerfCounters", "getLatency", "getComputeLatency", "getHostIpuLatency"),
            "cycleCount() and report for modelled cycles, and time.perf_counter() for the host.",
        ),
        "save": "torch.save() of module.state_dict(), optimizer.state_dict() and rng_state.",
        "loadExecutable": "a call or compile(), because compiling again takes seconds.",
        "compileAndExport": "torch.save() of module.state_dict(), because compiling takes seconds.",
    }

    def __init__(
        self, module: torch.nn.Module, options: Options, optimizer: torch.optim.Optimizer | None
    ) -> None:
        self.options = options.clone()
        self.optimizer = optimizer
        self.training = optimizer is not None
        self.compiles = 0
        self._current: _Compiled | None = None
        self._calls = 0  # The number of calls of the current program.
        self._seed: list[int] | None = None
        self._rates: list[float] = []  # The learning rates on the device.
        # Set `module` last, because `__setattr__` needs to know the executor's own attributes.
        self.module = module

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Argument:
            """Return the attribute of the module with this name."""
            module = vars(self).get("module")
            if name not in type(self).not_here and hasattr(module, name):
                return getattr(module, name)
            raise missing_with_page("PoplarExecutor", name, type(self).not_here, dir(self))

        def __setattr__(self, name: str, value: Argument) -> None:
            """Set the attribute of the module if only the module has it, else of the executor."""
            module = vars(self).get("module")
            is_own = name in vars(self) or hasattr(type(self), name)
            if is_own or not hasattr(module, name):
                object.__setattr__(self, name, value)
            else:
                setattr(module, name, value)

    def train(self, mode: bool = True) -> PoplarExecutor:
        """Call `module.train(mode)`, and return the executor. Its next call uses the new mode.

        :raises ModelError: for an inferenceModel if `mode` is True.
        """
        if mode and not self.training:
            raise ModelError(f"""train() was called on the {self.name}, which runs its module in
                eval mode.
                next:  use poptorch.trainingModel(module, options, optimizer), or call
                module.train() for calls in plain PyTorch.""")
        self.module.train(mode)
        return self

    def eval(self) -> PoplarExecutor:
        """Call `module.eval()`, and return the executor. Its next call uses the new mode."""
        return self.train(False)

    @property
    def name(self) -> str:
        """The name of this executor in error messages, such as "trainingModel of Net"."""
        kind = "trainingModel" if self.training else "inferenceModel"
        return f"{kind} of {type(self.module).__name__}"

    @property
    def run(self) -> ir.Run | None:
        """The `ir.Run` of the current program, or None before the first compilation."""
        return None if self._current is None else self._current.run

    # --- compile, attach, detach ---

    def isCompiled(self) -> bool:
        """Return whether a compiled program exists."""
        return self._current is not None

    def isAttachedToDevice(self) -> bool:
        """Return whether the weights are on the device."""
        return self in _attached

    def compile(self, *args: Argument, **kwargs: Argument) -> None:
        """Capture and compile the module for the given arguments, and attach it to the device.

        Pass the same arguments as to a call: the tensors contain the batch of a whole call. The
        program does not run.

        :raises ModelError: if the module cannot be captured, or if `attachToDevice` raises it.
            Errors of PopLibs functions are not caught.
        """
        self._prepare(Arguments(self.module, args, kwargs))
        if not self.isAttachedToDevice():
            self.attachToDevice()

    def attachToDevice(self) -> None:
        """Copy the module's weights to the device.

        :raises ModelError: before the first compilation. Also if another attached executor uses a
            tensor of this module, and one of the two executors changes this tensor.
        """
        self._compiled()
        self._refuse_shared()
        _attached.add(self)
        self.copyWeightsToDevice()

    def _refuse_shared(self) -> None:
        """Raise `ModelError` if another attached executor uses a tensor of this executor.

        Sharing a tensor is allowed if neither of the two executors changes it.
        """
        tensors = tensors_of(self.module)
        for peer in list(_attached):
            if peer is self:
                continue
            names = sharing_memory(tensors, peer._compiled().mirror.changed_tensors)
            changed_tensors = self._compiled().mirror.changed_tensors
            names += sharing_memory(changed_tensors, tensors_of(peer.module))
            if names:
                quoted = ", ".join(map(repr, sorted(set(names))[:4]))
                ellipsis = ", ..." if len(set(names)) > 4 else ""
                raise ModelError(f"""The {self.name} cannot be attached to a device while the
                    {peer.name} is attached: both use {quoted}{ellipsis}, and each device would
                    change its own copy.
                    next:  call detachFromDevice() of the {peer.name} first.""")

    def detachFromDevice(self) -> None:
        """Free the device for another executor.

        The host keeps the weights. A later call of this executor attaches it again.
        """
        if self.isAttachedToDevice():
            self._seed = self._read_seed()
            gradients.remove_placeholders(self.module)
            _attached.discard(self)

    def destroy(self) -> None:
        """Detach from the device and discard the compiled program. A later call compiles again."""
        self.detachFromDevice()
        self._current = None
        self._calls = 0

    def copyWeightsToHost(self) -> None:
        """Copy the weights, the statistics of norms and the optimiser's state to the host.

        Each call of the executor does this too.

        :raises ModelError: if the executor is not attached to the device.
        """
        compiled = self._check_attached()
        self._seed = self._read_seed()
        compiled.mirror.read()

    def copyWeightsToDevice(self) -> None:
        """Copy the weights, the statistics of norms and the optimiser's state to the device.

        Each call of the executor copies the values that the host has changed.

        :raises ModelError: if the executor is not attached to the device.
        """
        self._check_attached().mirror.write(everything=True)
        if self._seed is not None:
            self.rng_state = self._seed

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Raise `ModelError`, because an executor cannot be copied or saved."""
        raise ModelError(f"""The {self.name} cannot be copied or saved.
            next:  save its states: torch.save([module.state_dict(), optimizer.state_dict(),
            executor.rng_state], "state.pt").""")

    def state_dict(self, *args: Argument, **kwargs: Argument) -> dict[str, Tensor]:
        """Return the module's `state_dict`, with the values after the last call."""
        state: dict[str, Tensor] = self.module.state_dict(*args, **kwargs)
        return state

    def _check_attached(self) -> _Compiled:
        """Return the current program; raise `ModelError` if the weights are not on the device."""
        compiled = self._compiled()
        if not self.isAttachedToDevice():
            raise ModelError(f"""The {self.name} is not attached to a device.
                next:  call attachToDevice() of this executor, or call the executor with a
                batch.""")
        return compiled

    def _compiled(self) -> _Compiled:
        """Return the current program, or raise `ModelError` before the first compilation."""
        if self._current is None:
            raise ModelError(f"""The {self.name} is not compiled yet.
                next:  call the executor with a batch, or call its compile() with a batch.""")
        return self._current

    # --- random numbers, rates ---

    @property
    def rng_state(self) -> list[int]:
        """The state of the device's random numbers: two 32-bit words.

        The state is [] before compilation, and for a program without random operations, unless a
        state was assigned. Assign an earlier state to continue with the same random numbers.
        """
        if self.isAttachedToDevice():
            self._seed = self._read_seed()
        return list(self._seed or [])

    @rng_state.setter
    def rng_state(self, state: Sequence[int]) -> None:
        words = list(state) if isinstance(state, (list, tuple)) else [-1]
        if len(words) not in (0, 2) or not all(type(n) is int and 0 <= n < 2**32 for n in words):
            raise InvalidOptionError(f"""rng_state was set to {shown(state)}, but a state is two
                whole numbers from 0 to 2**32 - 1.
                next:  assign a list that rng_state returned earlier.""")
        self._seed = words
        if self._seed and self.run is not None and "seed" in self.run.ir.variables:
            self.run.write("seed", self._seed)

    def _read_seed(self) -> list[int] | None:
        """Return the device's seed, or the last assigned seed if the program has no seed."""
        if self.run is None or "seed" not in self.run.ir.variables:
            return self._seed
        return [int(n) for n in self.run.read("seed")]

    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Use `optimizer` and its learning rates from the next call on.

        If `optimizer` has no state for a parameter, the state of the previous optimiser is kept. A
        learning-rate scheduler does not need this function, because each call reads the learning
        rates of the executor's optimiser.

        :raises ModelError: for an inferenceModel, and for an optimiser that the device does not
            implement. Also if a program is compiled, and the two optimisers differ in more than
            their learning rates.
        """
        if not self.training:
            raise ModelError(f"""setOptimizer() was called on the {self.name}, which does not
                train.
                next:  use poptorch.trainingModel(module, options, optimizer).""")
        new_groups = optimizers.groups_of(optimizer, self.module)
        old_groups = optimizers.groups_of(self.optimizer, self.module)
        loss_scales = [_loss_scaling(either) for either in (optimizer, self.optimizer)]
        is_equal = [replace(group, rate=0) for group in new_groups] == [
            replace(group, rate=0) for group in old_groups
        ]
        if self.run is not None and not (is_equal and loss_scales[0] == loss_scales[1]):
            raise ModelError("""setOptimizer() was given an optimiser that differs from the compiled
                optimiser in more than its learning rates.
                next:  call destroy() of this executor, and pass the new optimiser to
                poptorch.trainingModel().""")
        optimizers.adopt(optimizer, self.optimizer)
        self.optimizer = optimizer
        if self._current is not None:
            self._current.mirror.optimizer = optimizer

    def _write_rates(self) -> None:
        """Copy the optimiser's learning rates that have changed to the device."""
        if not self.training:
            return
        rates = [group.rate for group in optimizers.groups_of(self.optimizer, self.module)]
        for number, rate in enumerate(rates):
            if number >= len(self._rates) or rate != self._rates[number]:
                self._compiled().run.write(rate_of(number), rate)
        self._rates = rates

    # --- the program ---

    def _description(self, call: Arguments, names: Reads) -> Hashable:
        """Return the Python values and settings on which the program depends, to compare with ==.

        The result includes neither the shapes of the arguments nor the elements of the module's
        constant tensors.
        """
        settings = dict(vars(self.options))
        # These options affect only the selected outputs and the progress line, so the program does
        # not depend on them.
        for name in ("mode", "every", "title", "shows_progress"):
            del settings[name]
        groups = []
        if self.training:
            groups = [
                (
                    replace(group, rate=0.0, numbers={}, names=()),
                    dict(group.numbers),
                    list(group.names or ()),
                )
                for group in optimizers.groups_of(self.optimizer, self.module)
            ]
        scaling = _loss_scaling(self.optimizer)
        module = description(self.module, names, self.training)
        return call.constants, module, fingerprint([settings, scaling]), groups

    def _check_batch(self, call: Arguments) -> int:
        """Return the number of micro-batches in a call.

        :raises ModelError: if a tensor has no elements, if the batch does not divide into
            micro-batches, or if the tensors differ in name, shape or dtype from those for which the
            program was compiled.
        """
        factors = self.options.factors(self.training)
        num_micro_batches = prod(factors.values())
        for name, tensor in call.tensors.items():
            if not tensor.numel():
                raise ModelError(f"""The argument {name!r} of the {self.name} has no elements: its
                    shape is {list(tensor.shape)}.
                    next:  pass a batch with at least one example.""")
            if num_micro_batches > 1 and (not tensor.dim() or tensor.shape[0] % num_micro_batches):
                raise ModelError(f"""The argument {name!r} of the {self.name} has the shape
                    {list(tensor.shape)}, but its first dimension must be a multiple of
                    {batch_product("batch_size", 1, factors)}.
                    next:  pass the batches of poptorch.DataLoader(options, dataset, batch_size),
                    which have this size.""")
        if self._current is not None and call.shapes != self._current.shapes:
            _refuse_shapes(self.name, call, self._current.shapes, factors)
        return num_micro_batches

    def _prepare(self, call: Arguments) -> dict[str, Array]:
        """Return a dict of arrays for the device; first compile if no program fits this call."""
        num_micro_batches = self._check_batch(call)
        arrays = call.arrays(num_micro_batches)
        ignored = _with_ignored_labels(arrays)
        previous = self._current
        is_current = (
            previous is not None
            and ignored <= previous.marked
            and self._description(call, previous.reads) == previous.description
            and previous.mirror.constants == previous.constants
        )
        if not is_current:
            check_module(self.module)
            marked = ignored if previous is None else previous.marked | ignored
            self._compile(call, num_micro_batches, marked)
        return arrays

    def _compile(self, call: Arguments, num_micro_batches: int, marked: frozenset[str]) -> None:
        """Capture and compile the module for a call, and replace the previous program, if any.

        `marked` contains the inputs that may contain the label that a loss ignores.
        """
        name = type(self.module).__name__
        title = f"compile {self.options.title or name}"
        with working(title, hidden=not self.options.shows_progress) as work:
            captured, step, names = self._captured_step(call, num_micro_batches, marked, work)
            steps = 1 if step.schedule and not self.training else self.options.iterations
            library_options = _lowering_options(self.options)
            run = compile_graph("", step, self.options.model, steps=steps, options=library_options)
        mirror = Mirror(run, self.module, self.optimizer, captured.counters)
        _refuse_overlaps(self.module, mirror)
        self._seed = self._read_seed()  # The new program continues with these random numbers.
        _attached.discard(self)
        self._current = _Compiled(
            run,
            captured,
            mirror,
            reads=names,
            description=self._description(call, names),
            constants=mirror.constants,
            shapes=call.shapes,
            inputs=list(call.tensors),
            marked=marked,
        )
        self._rates = []
        self._calls = 0
        self.compiles += 1

    def _captured_step(
        self, call: Arguments, num_micro_batches: int, marked: frozenset[str], work: TrackedWork
    ) -> tuple[capture.Captured, Ir, Reads]:
        """Return the captured module, the graph of a step, and the attributes that were read.

        The parameters are those of `_compile`; `work` is the progress message.
        """
        name = type(self.module).__name__
        work.words = "capture"
        in_mode = nullcontext() if self.training else modules.in_eval(self.module)
        stages = markers.named_stages(self.options.strategy.stages)
        with in_mode, stages, reads.record_reads() as names:
            captured = _captured(
                self.module, call, self.optimizer, num_micro_batches, marked=marked
            )
        graph = captured.graph
        backward = captured.backward if self.training else []
        loss = captured.loss_at if self.training else None
        graph.ops = with_paths(graph, backward, name, loss)
        if "seed" in graph.variables:
            low_word = self.options.seed & 0xFFFFFFFF
            high_word = self.options.seed >> 32
            graph.variables["seed"].initial = np.array(
                [low_word, high_word & 0xFFFFFFFF], np.uint32
            )
        work.words = "graph"
        if self.optimizer is None:
            return captured, _inference_step(graph, self.options), names
        groups = optimizers.groups_of(self.optimizer, self.module)
        scale = _loss_scaling(self.optimizer)
        return captured, _training_step(captured, self.options, groups, scale), names

    def estimate(self, *args: Argument, byte_inputs: bool = False, **kwargs: Argument) -> Estimate:
        """Return the modelled cycles and memory of a step for the given arguments.

        Pass the same tensors as to a call. Nothing is built or run. The docstring of
        `ir.estimate` describes the result and `byte_inputs`.

        :raises ModelError: if the module cannot be captured, or if the batch does not divide into
            micro-batches.
        """
        call = Arguments(self.module, args, kwargs)
        num_micro_batches = self._check_batch(call)
        check_module(self.module)
        marked = _with_ignored_labels(call.arrays(num_micro_batches))
        title = f"estimate {self.options.title or type(self.module).__name__}"
        with working(title, hidden=not self.options.shows_progress) as work:
            _, step, _ = self._captured_step(call, num_micro_batches, marked, work)
            machine = copy.copy(self.options.model)
            machine.num_ipus = step.stages * step.replicas
            options = _lowering_options(self.options)
            return ir.estimate(step, machine.create_device(), options, byte_inputs)

    # --- calls ---

    def __call__(self, *args: Argument, **kwargs: Argument) -> Argument:
        """Run the program on a batch, and return forward's outputs for the selected micro-batches.

        The module is first compiled if no program fits the call.

        :raises ModelError: if the arguments do not fit, or if the module cannot be captured. Errors
            of PopLibs functions are not caught.
        :raises InvalidOptionError: if the output mode does not suit the outputs.
        """
        call = Arguments(self.module, args, kwargs)
        arrays = self._prepare(call)
        mode = self._mode()
        compiled = self._compiled()
        captured = compiled.captured
        if self.isAttachedToDevice():
            compiled.mirror.write()
        else:
            self.attachToDevice()
        self._write_rates()
        input_pairs = zip(captured.inputs, compiled.inputs, strict=True)
        arrays_by_input = {name: arrays[argument] for name, argument in input_pairs}
        with Interrupts():  # Delay Ctrl-C until the device's values are on the host.
            try:
                run_outputs = compiled.run(**arrays_by_input)
                factors = self.options.factors(self.training)
                compiled.mirror.read(prod(factors.values()) // self.options.replicas)
            except BaseException:
                # The device may have stopped in the middle of a step, so the next call copies all
                # variables to the device again.
                compiled.mirror.forget()
                raise
            self._calls += 1
            if self.training:
                gradients.set_placeholders(self.module)
        outputs = {
            name: tensor_of(_selected(run_outputs[name], mode, self.options), dtype)
            for name, dtype in captured.outputs.items()
        }
        loss = captured.loss_at
        if self.training and loss is not None and loss in outputs:
            outputs[loss] = gradients.as_loss(outputs[loss])
        return fill_form(captured.form, [*outputs.values()])

    def _mode(self) -> OutputMode:
        """Return the output mode, where `OutputMode.Default` is replaced by `Final` or `All`.

        :raises InvalidOptionError: if the mode selects no micro-batch, or if it sums BOOL outputs.
        """
        options = self.options
        mode = options.mode
        if mode is OutputMode.Default:
            return OutputMode.Final if self.training else OutputMode.All
        steps = prod(options.factors(self.training).values()) // options.replicas
        if mode is OutputMode.EveryN and options.every > steps:
            raise InvalidOptionError(f"""outputMode(OutputMode.EveryN, {options.every}) selects no
                output, because a call has only {steps} micro-batches.
                next:  give an n from 1 to {steps}, as in
                options.outputMode(poptorch.OutputMode.EveryN, {steps}).""")
        dtypes = self._compiled().captured.outputs.values()
        if mode is OutputMode.Sum and "torch.bool" in map(str, dtypes):
            raise InvalidOptionError("""OutputMode.Sum cannot add outputs of the dtype torch.bool.
                next:  return numbers from forward: output.float().""")
        return mode

    # --- reports ---

    @property
    def report(self) -> Report:
        """The report of all runs of the current program. Raises `ModelError` without a program."""
        return self._compiled().run.engine.report

    @property
    def program(self) -> Program:
        """The program as a tree, for `show.program`. Raises `ModelError` without a program."""
        return self._compiled().run.low.program

    def cycleCount(self) -> int:
        """Return the modelled cycles of a call: the mean over all calls of the current program.

        :raises ModelError: before the first compilation.
        """
        return int(self.report.total_cycles) // max(self._calls, 1)


def _captured(
    module: torch.nn.Module,
    call: Arguments,
    optimizer: torch.optim.Optimizer | None,
    num_micro_batches: int,
    *,
    marked: frozenset[str],
) -> capture.Captured:
    """Capture the module for a micro-batch of `call`, and return the captured graph.

    `marked` contains the inputs that may contain the label that a loss ignores.

    :raises ModelError: if the module is trained and its loss depends on no parameter.
    """
    args, kwargs = call.micro_batch(num_micro_batches)
    marked_positions = [
        position for position, input_name in enumerate(call.tensors) if input_name in marked
    ]
    scale = _loss_scaling(optimizer)
    is_training = optimizer is not None
    captured = capture.capture_module(
        module, args, kwargs, marked=marked_positions, training=is_training, scale=scale
    )
    if is_training and not captured.grads:
        raise ModelError(f"""The loss of {type(module).__name__} depends on no parameter that
            requires a gradient.
            next:  compute the loss from parameters with requires_grad=True, without detach() and
            torch.no_grad(), or use poptorch.inferenceModel().""")
    return captured


def _with_ignored_labels(arrays: Mapping[str, Array]) -> frozenset[str]:
    """Return the names of the inputs that contain the label that a loss ignores."""
    return frozenset(
        input_name
        for input_name, array in arrays.items()
        if array.dtype.kind == "i" and IGNORED in array
    )


def _lowering_options(options: Options) -> dict[str, str | float | bool]:
    """Return the PopLibs options of matrix products and convolutions that `options` sets.

    They also contain "stochasticRounding" if it is enabled.
    """
    precision = options.Precision
    flags: dict[str, str | float | bool] = {}
    if precision.partials is not None:
        flags["partialsType"] = precision.partials
    if options.proportion is not None:
        flags["availableMemoryProportion"] = options.proportion
    if precision.stochastic:
        flags["stochasticRounding"] = True
    return flags


def _inference_step(graph: Ir, options: Options) -> Ir:
    """Return the inference graph with the replicas and the pipeline that the options require."""
    step = ir.replicate(graph, options.replicas)
    schedule = options.strategy.schedule
    if step.stages > 1 and schedule:
        step = ir.pipelined(step.but(accumulation=options.iterations), schedule)
    return step


def _training_step(
    captured: capture.Captured, options: Options, groups: Sequence[Group], scale: float
) -> Ir:
    """Return the training graph: the captured passes, and the update that the optimiser computes.

    `groups` contains the optimiser's parameter groups. `scale` is the factor by which the loss was
    multiplied before the backward pass.
    """
    location = options.TensorLocations.optimizer
    names = {name for group in groups for name in group.names or ()}
    training = Training(
        groups=groups,
        scale=scale,
        recompute=captured.kept or None,
        accumulation=options.Training.accumulation,
        replicas=options.replicas,
        reduction=options.Training.reduction.value,
        sharded=location.shared,
        off_chip=not location.on_chip,
        schedule=options.strategy.schedule if captured.graph.stages > 1 else "",
    )
    trained = [variable for variable in captured.trained if variable.name in names]
    return training.transform(captured.graph, None, trained, captured.grads)


def _refuse_shapes(
    executor: str, call: Arguments, compiled: Shapes, factors: Mapping[str, int]
) -> None:
    """Raise a `ModelError` that says how the tensors of a call differ from the program's.

    `executor` is the name of the executor. `compiled` contains the shapes and dtypes of the
    program's tensors, and `factors` the factors of the number of micro-batches in a call.
    """
    missing_names = [tensor_name for tensor_name in compiled if tensor_name not in call.shapes]
    extra_names = [tensor_name for tensor_name in call.shapes if tensor_name not in compiled]
    for name in missing_names:
        if name in call.values or any(
            value_name.startswith(f"{name}[") for value_name in call.values
        ):
            raise ModelError(f"""The argument {name!r} of the {executor} is a Python value or an
                array, but the program was compiled for a tensor.
                next:  pass a tensor: torch.as_tensor({name}).""")
    if missing_names or extra_names:
        raise ModelError(f"""The {executor} was called with {_listed(call.shapes)}, but was
            compiled for {_listed(compiled)}.
            next:  pass the same tensors, or call destroy() of the executor, so that the next
            call compiles again.""")
    name = next(
        tensor_name for tensor_name, shape in call.shapes.items() if shape != compiled[tensor_name]
    )
    compiled_form = compiled[name]
    batch_size = compiled_form[0][0] // prod(factors.values()) if compiled_form[0] else 1
    raise ModelError(f"""The argument {name!r} of the {executor} is {_as_text(call.shapes[name])},
        but the program was compiled for {_as_text(compiled_form)}:
        {batch_product("batch_size", batch_size, factors)}.
        next:  pass batches of equal size (DataLoader with drop_last=True), or call destroy() of
        the executor, so that the next call compiles again.""")


def _loss_scaling(optimizer: torch.optim.Optimizer | None) -> float:
    """Return the factor by which the optimiser multiplies the loss, or 1 if it has none."""
    return float(getattr(optimizer, "loss_scaling", 1.0))


def _selected(out: Array, mode: OutputMode, options: Options) -> Array:
    """Return the outputs of the micro-batches that `mode` selects, concatenated along dimension 0.

    `out` is [micro-batches, …]. The micro-batches are ordered by step, then by their number in the
    accumulation, then by replica. Several scalar outputs become a vector. If only one output is
    selected, it keeps its shape.
    """
    replicas = options.replicas
    if mode is OutputMode.Sum and out.dtype.kind in "iu":
        out = out.astype(np.int64)
    by_replica = out.reshape(out.shape[0] // replicas, replicas, *out.shape[1:])
    by_replica = select_outputs(by_replica, mode.value, options.every)
    num_selected = by_replica.shape[0] * replicas
    shape = out.shape[1:]
    if num_selected > 1:
        shape = (num_selected * out.shape[1] if out.ndim > 1 else num_selected, *out.shape[2:])
    selected: Array = by_replica.reshape(shape)
    return selected


def _refuse_overlaps(module: torch.nn.Module, mirror: Mirror) -> None:
    """Raise `ModelError` if a tensor that the program changes shares memory with another tensor."""
    tensors = tensors_of(module)
    for name, tensor in mirror.changed_tensors.items():
        others = {
            other_name: other_tensor
            for other_name, other_tensor in tensors.items()
            if other_tensor is not tensor
        }
        if sharing_memory({name: tensor}, others):
            overlapping = sharing_memory(others, {name: tensor})[0]
            raise ModelError(f"""The tensors {name!r} and {overlapping!r} of the module share
                memory, but the device stores each in a variable of its own, and changes
                {name!r}.
                next:  use the same parameter in both places (module.a = module.b), or copy one
                of the tensors with tensor.clone().""")


def _listed(shapes: Shapes) -> str:
    """Return the names, shapes and dtypes of tensors as a string."""
    return (
        ", ".join(f"{tensor_name!r} {_as_text(shape)}" for tensor_name, shape in shapes.items())
        or "no tensor"
    )


def _as_text(shape_and_dtype: tuple[Sequence[int], torch.dtype]) -> str:
    """Return a shape and a dtype as a string, such as `[16, 64] float32`."""
    shape, dtype = shape_and_dtype
    return f"{list(shape)} {str(dtype).removeprefix('torch.')}"


def _misuse(problem: str, advice: str) -> InvalidOptionError:
    """Return an `InvalidOptionError` about a wrong argument, with the line of the user's call."""
    return InvalidOptionError(problem, line=in_words(caller()), next_step=advice)


check_calls(globals(), _misuse)
for _options in (_Training, _Precision, _TensorLocations):
    check_class(_options, _misuse)
