"""PopART's words for the kit's graph: a Builder of operations whose tensors have ids, and sessions
that run what was built. Operations are those of ONNX, by name and attribute; the model is a file of
the kit, not of ONNX."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Annotated, Any

import numpy as np

from ipu_teach._support.progress import working
from ipu_teach.arguments import (
    Among,
    Between,
    Count,
    Fraction,
    Natural,
    Numbers,
    Positive,
    Share,
    Taken,
    check,
    check_calls,
)
from ipu_teach.device import Device
from ipu_teach.errors import ModelError, did_you_mean, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Run, Value
from ipu_teach.frontends.ir.saved import MODEL, loaded, written
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.session import (
    CheckedOptions,
    Group,
    Training,
    Version,
    checked_name,
    input_of,
    machine,
    select_outputs,
    without_unused,
)
from ipu_teach.saving.archive import read_whole, write_whole
from ipu_teach.schedules import SCHEDULES
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, DType

Ints = Sequence[int]
TYPES: dict[str, type[DType]] = {"FLOAT": FLOAT, "FLOAT16": HALF, "INT32": INT, "BOOL": BOOL}
TYPES |= {"UINT32": UNSIGNED_INT}
Type = Annotated[str, Among(TYPES)]
Size = Annotated[int, Between(1, 2**24)]
Switch = bool | Annotated[int, Between(0, 1)]
ATTRIBUTES: dict[str, Any] = {  # of operations, whichever has them
    "alpha": float,
    "axes": Ints | None,
    "axis": int,
    "beta": float,
    "count_include_pad": Switch,
    "dilations": Size | Sequence[Size],
    "ends": Ints,
    "epsilon": Annotated[float, Between(0)],
    "group": Count,
    "ignoreIndex": int | None,
    "inputIsLogProbability": Switch,
    "keepdims": Switch,
    "kernel_shape": Sequence[Size],
    "momentum": Share,
    "num_groups": Count,
    "num_outputs": Count,
    "pads": Sequence[Natural],
    "perm": Ints,
    "ratio": Fraction,
    "reduction": Annotated[str, Among(("Mean", "Sum", "None"))],
    "scale": float,
    "shape": Ints,
    "starts": Ints,
    "strides": Size | Sequence[Size],
    "title": str,
    "to": Type,
    "transA": Switch,
    "transB": Switch,
}


@dataclass(frozen=True)
class TensorInfo:
    """The dtype of a tensor, "FLOAT" or "FLOAT16" or a whole number's, and its shape."""

    dtype: Type
    shape: Sequence[Natural]

    @property
    def type(self) -> type[DType]:
        """The device's dtype."""
        return TYPES[self.dtype]


# --- operations -----------------------------------------------------------------------------------


def _pads(pads: Ints) -> dict[str, Any]:
    half = len(pads) // 2
    return {"lower": pads[:half] or 0, "upper": pads[half:] or 0}


def _pool(kind: str) -> Callable[..., Value]:
    return lambda g, x, *, kernel_shape, count_include_pad=0, pads=(), strides=(): ir.pool(
        g, kind, x, kernel_shape, strides or 1, **_pads(pads), count_padding=bool(count_include_pad)
    )


def _gemm(
    g: Ir,
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    a, b = ir.turned(g, a) if transA else a, ir.turned(g, b) if transB else b
    y = g.op("matmul", a, b)
    y = y if alpha == 1 else g.op("mul", y, alpha)
    if c is None:
        return y
    return g.op("add", y, c if beta == 1 else g.op("mul", c, beta))


def _reduced(call: Callable[..., Value]) -> Callable[..., Value]:
    def reduce(g: Ir, x: Value, *, axes: Ints | None = None, keepdims: int = 1) -> Value:
        return call(g, x, axes, bool(keepdims))

    return reduce


def _slice(g: Ir, x: Value, *, axes: Ints = (), starts: Ints, ends: Ints) -> Value:
    for dim, start, end in zip(axes or range(len(starts)), starts, ends, strict=True):
        n = x.shape[dim]
        begin, stop = (min(i + n if i < 0 else i, n) for i in (start, end))
        x = g.op("slice", x, dim=dim, begin=begin, end=stop)
    return x


def _gather(g: Ir, x: Value, index: Value, *, axis: int = 0) -> Value:
    if axis == 0:
        return ir.embedding(g, x, index)
    return ir.transpose(g, _gather(g, ir.transpose(g, x, 0, axis), index), 0, axis)


def _nll(
    g: Ir,
    x: Value,
    labels: Value,
    *,
    reduction: str = "Mean",
    ignoreIndex: int | None = None,
    inputIsLogProbability: bool = False,
) -> Value:
    """Of probabilities, or of their logarithms. The loss of what a softmax made is that of its
    scores, in FLOAT: PopART takes the logarithm of no less than 1e-7, which ends at 16.1."""
    how: Any = {"reduction": reduction.lower(), "ignored": ignoreIndex}
    before = input_of(g, x, "log_softmax" if inputIsLogProbability else "softmax")
    if before is not None:
        return ir.cross_entropy(g, before, labels, **how)
    return ir.nll(g, x if inputIsLogProbability else _logarithms(g, x), labels, **how)


def _logarithms(g: Ir, x: Value) -> Value:
    """The logarithms of probabilities, in FLOAT: of no less than one bound, with the gradient
    1 / x of an x of no less than another, both as PopART has them."""
    least, least_divisor = (6.104e-5, 6.104e-5) if x.dtype is HALF else (1e-7, 1e-10)

    def valued(with_gradient: Value, value: Value) -> Value:
        difference = g.op("sub", value, with_gradient)
        return g.op("add", with_gradient, g.op("stop", difference))

    x = g.cast(x, FLOAT)
    divisor = valued(x, g.op("max", x, least_divisor))
    return valued(g.op("log", divisor), g.op("log", g.op("max", x, least)))


def _plain(kind: str) -> Callable[..., Value]:
    return lambda g, *x: g.op(kind, *x)


def _along(kind: str) -> Callable[..., Value]:
    return lambda g, x, *, axis=-1: ir.along(g, kind, x, axis)


ONE = ("neg", "abs", "exp", "log", "sqrt", "relu", "sigmoid", "tanh", "gelu")
TWO = ("add", "sub", "mul", "div", "pow", "matmul")
ONNX: dict[str, Callable[..., Value]] = {
    **{name: _plain(name) for name in (*ONE, *TWO)},
    "identity": _plain("copy"),
    "softmax": _along("softmax"),
    "logsoftmax": _along("log_softmax"),
    "gemm": _gemm,
    "conv": lambda g, x, w, b=None, *, dilations=1, group=1, kernel_shape=(), pads=(), strides=1: (
        ir.conv(g, x, w, b, strides or 1, **_pads(pads), dilation=dilations or 1, groups=group)
    ),
    "maxpool": _pool("max_pool"),
    "averagepool": _pool("avg_pool"),
    "reshape": lambda g, x, *, shape: g.op("reshape", x, shape=tuple(shape)),
    "flatten": lambda g, x: g.op("reshape", x, shape=(x.shape[0], -1)),
    "transpose": lambda g, x, *, perm: g.op("permute", x, dims=tuple(perm)),
    "concat": lambda g, *x, axis: g.op("concat", *x, dim=axis),
    "slice": _slice,
    "gather": _gather,
    "reducesum": _reduced(lambda g, x, *how: ir.reduced(g, "sum", x, *how)),
    "reducemean": _reduced(ir.mean),
    "argmax": lambda g, x: g.op("arg_max", x),
    "cast": lambda g, x, *, to: g.op("cast", x, dtype=TensorInfo(to, ()).type),
    "dropout": lambda g, x, *, num_outputs=1, ratio=0.5: ir.dropout(g, x, ratio),
    "batchnormalization": lambda g, x, a, b, m, v, *, num_outputs=1, epsilon=1e-5, momentum=0.9: (
        ir.batch_norm(g, x, a, b, m, v, num_outputs > 1, 1 - momentum, epsilon)
    ),
}
GRAPHCORE: dict[str, Callable[..., Value]] = {
    "nllloss": _nll,
    "l1loss": lambda g, x, *, scale=1.0: g.op("mul", ir.reduced(g, "sum", g.op("abs", x)), scale),
    "identityloss": lambda g, x, *, reduction="Mean": (
        ir.mean(g, x) if reduction == "Mean" else ir.reduced(g, "sum", x)
    ),
    "groupnormalization": lambda g, x, a, b, *, num_groups, epsilon=1e-5: ir.norm(
        g, "group", x, a, b, epsilon, num_groups
    ),
    "gelu": _plain("gelu"),
    "printtensor": lambda g, x, *, title="": g.op("print", x, title=title),
}


class Opset:
    """Operations by name, each of a list of ids and attributes: `aiOnnx.matmul([x, w])`."""

    def __init__(self, builder: Builder, table: Mapping[str, Callable[..., Value]]) -> None:
        self._builder, self._table = builder, table

    def __getattr__(self, name: str) -> Callable[..., str]:
        if name.startswith("_"):
            raise AttributeError(name)
        make = self._table[checked_name("an opset", name, self._table)]

        def operation(args: Sequence[str], debugContext: str = "", **attributes: Any) -> str:
            check(name, "debugContext", debugContext, str, misuse)
            return self._builder._made(name, make, args, debugContext, attributes)

        return operation

    def constant(self, value: Numbers, debugContext: str = "") -> str:
        """The id of a constant."""
        array = np.asarray(value)
        dtype = ir.values.dtype_of(array, debugContext or "constant")
        return self._builder._noted(self._builder._graph.constant(array, dtype), "constant")


class Builder:
    """A model, operation by operation; tensors are known by their ids, which are strings."""

    def __init__(self) -> None:
        self._graph, self._values = Ir(), dict[str, Value]()
        self._scopes: list[str] = []
        self.aiOnnx, self.aiGraphcore = Opset(self, ONNX), Opset(self, GRAPHCORE)

    def _noted(self, value: Value, name: str = "") -> str:
        if value.name not in self._values or self._values[value.name] is not value:
            value.name = f"{name}:{len(self._values)}" if name else value.name
        self._values[value.name] = value
        return value.name

    def _of(self, name: str, where: str) -> Value:
        if name not in self._values:
            raise ModelError(f"""{where} was given {shown(name)}, which is no tensor of this
                Builder.
                next:  {did_you_mean(name, self._values)}give an id that one of its calls
                returned.""")
        return self._values[name]

    def _made(
        self,
        name: str,
        make: Callable[..., Value],
        args: Sequence[str],
        context: str,
        attributes: dict[str, Any],
    ) -> str:
        if isinstance(args, str):
            raise ModelError(f"""{name}() was given the id {args!r}.
                next:  give a list of ids, as in aiOnnx.{name}([{args!r}]).""")
        check(name, "its inputs", args, Sequence[str], misuse)
        known = [
            p.name for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY
        ]
        for attribute, value in attributes.items():
            if attribute not in known:
                listed = f"it has {', '.join(known)}" if known else "it has none"
                near = did_you_mean(attribute, known)
                raise misuse(f"{name}() has no attribute {attribute!r}.", f"{near}{listed}.")
            check(name, attribute, value, ATTRIBUTES.get(attribute, Any), misuse)
        given = [self._of(arg, name) for arg in args]
        with self._graph.at(path="/".join([*self._scopes, *filter(None, [context])])):
            try:
                return self._noted(make(self._graph, *given, **attributes))
            except (TypeError, ValueError, LookupError, ArithmeticError) as error:
                raise ModelError(f"""{name}() was given {len(given)} tensors and
                    {", ".join(attributes) or "no attributes"}, which it does not take: {error}.
                    next:  give it the inputs and attributes that ONNX has for it.""") from None

    def addInputTensor(self, info: TensorInfo, name: str = "") -> str:
        """The id of what the host feeds, a micro-batch."""
        title = name or f"input:{len(self._values)}"
        dtype = UNSIGNED_INT if info.type is INT else info.type  # class numbers and indices
        return self._noted(self._graph.input(info.shape, title, dtype))

    def addInitializedInputTensor(self, array: Numbers, name: str = "") -> str:
        """The id of a variable, which a session trains, with its first value."""
        return self._noted(self._graph.variable(array, name or f"init:{len(self._values)}"))

    def addOutputTensor(self, name: str) -> None:
        """This tensor is what the model is for. Others can come back as well: see `DataFlow`."""
        self._of(name, "addOutputTensor()")

    def getTensorShape(self, name: str) -> list[int]:
        """The shape of a tensor."""
        return list(self._of(name, "getTensorShape()").shape)

    def getModelProto(self) -> bytes:
        """The model as a file of the kit."""
        known = {**self._graph.variables, **self._graph.inputs}
        made = {n: v for n, v in self._values.items() if n not in known and v.kind != "constant"}
        return written(self._graph.but(outputs=made))

    def saveModelProto(self, path: str | PathLike[str]) -> None:
        """Write the model, a file of the kit that a session reads."""
        write_whole(path, self.getModelProto(), "saveModelProto()", "model")

    def virtualGraph(self, ipu: Natural) -> Any:
        """Operations made within are on this IPU."""
        return self._graph.at(stage=ipu)

    pipelineStage = virtualGraph  # here a stage is an IPU

    def executionPhase(self, phase: Natural) -> Any:
        """Operations made within are of this phase, between which streaming memory holds what
        remains."""
        return self._graph.at(phase=phase)

    pingPongPhase = executionPhase

    @contextmanager
    def nameScope(self, name: str) -> Iterator[None]:
        """Operations made within have this in front of their names."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()


# --- sessions -------------------------------------------------------------------------------------


@dataclass
class ExecutionPhaseSettings(CheckedOptions):
    """How many phases a model has; 0 for none."""

    phases: Natural = 0


@dataclass
class TensorLocationSettings(CheckedOptions):
    """Whether something lies in streaming memory, and whether replicas have a share each."""

    offChip: bool = False
    replicatedTensorSharding: bool = False


def _is_schedule(value: object) -> bool:
    return isinstance(value, str) and value.lower() in SCHEDULES


SCHEDULED = f"give {' or '.join(map(repr, SCHEDULES))}."


@dataclass
class SessionOptions(CheckedOptions):
    """What a session does with a model."""

    virtualGraphMode: Annotated[str, Among(("Off", "Manual", "ExecutionPhases"))] = "Off"
    enablePipelining: bool = False
    pipelineSchedule: Annotated[str, Taken(_is_schedule, SCHEDULED)] = "grouped"
    executionPhaseSettings: ExecutionPhaseSettings = field(default_factory=ExecutionPhaseSettings)
    enableGradientAccumulation: bool = False
    accumulationFactor: Count = 1
    accumulationAndReplicationReductionType: Annotated[str, Among(("Mean", "Sum"))] = "Mean"
    enableReplicatedGraphs: bool = False
    replicatedGraphCount: Count = 1
    autoRecomputation: Annotated[str, Among(("None", "Standard", "RecomputeAll"))] = "None"
    optimizerStateTensorLocationSettings: TensorLocationSettings = field(
        default_factory=TensorLocationSettings
    )
    partialsTypeMatMuls: Annotated[str, Among(("", "float", "half"))] = ""


@dataclass(frozen=True)
class AnchorReturnType:
    """Which micro-batches of a run come back: "ALL", "FINAL", "SUM", or "EVERYN" with n."""

    kind: Annotated[str, Among(("ALL", "FINAL", "SUM", "EVERYN"))] = "ALL"
    n: Count = 1


@dataclass(frozen=True)
class DataFlow:
    """How many updates a run makes, and what comes back."""

    batchesPerStep: Count
    anchors: Mapping[str, AnchorReturnType]


MACHINE: dict[str, Any] = {"numIPUs": Count, "tilesPerIPU": Natural, "ipuVersion": Version}


class DeviceManager:
    """Devices: of a model with `numIPUs` and `tilesPerIPU`, or the whole machine."""

    def createIpuModelDevice(self, options: Mapping[str, Any]) -> Device:
        """A device of so many IPUs and tiles."""
        for name, value in options.items():
            kind = MACHINE[checked_name("createIpuModelDevice", name, MACHINE)]
            check("createIpuModelDevice", name, value, kind, misuse)
        version = options.get("ipuVersion", "ipu2")
        tiles, ipus = options.get("tilesPerIPU", 0), options.get("numIPUs", 1)
        return machine(version, tiles, ipus).create_device()

    def acquireAvailableDevice(self, numIpus: Count = 1) -> Device:
        """A device of whole IPUs."""
        return machine(ipus=numIpus).create_device()


Rate = Annotated[float, Between(0)]


class SGD:
    """Descent. Each option is (value, constant): `{"defaultLearningRate": (0.1, False)}`."""

    kind = "sgd"
    names: Mapping[str, str] = {
        "defaultMomentum": "momentum",
        "defaultWeightDecay": "weight_decay",
    }
    defaults: Mapping[str, float] = {"momentum": 0.0, "weight_decay": 0.0}

    def __init__(self, options: Mapping[str, tuple[Rate, bool]]) -> None:
        known = ["defaultLearningRate", "lossScaling", *self.names]
        given = {
            checked_name(type(self).__name__, n, known): float(v[0]) for n, v in options.items()
        }
        scale, call = given.get("lossScaling", 1.0), type(self).__name__
        check(call, "lossScaling", scale, Positive, misuse)
        self.rate = given.pop("defaultLearningRate", 0.1)
        self.scale = given.pop("lossScaling", 1.0)
        self.numbers = {**self.defaults, **{self.names[n]: v for n, v in given.items()}}


def ConstSGD(learningRate: Rate, weightDecay: Rate = 0.0) -> SGD:
    """Descent with numbers that do not change."""
    pairs = {"defaultLearningRate": learningRate, "defaultWeightDecay": weightDecay}
    return SGD({name: (value, True) for name, value in pairs.items()})


class Adam(SGD):
    """By running means of the gradient and of its square.

    The weights decay apart from the gradient, PopART's `WeightDecayMode.Decay`.
    """

    kind = "adamw"
    defaults: Mapping[str, float] = {"eps": 1e-6, "weight_decay": 0.0}
    names = {
        "defaultBeta1": "beta1",
        "defaultBeta2": "beta2",
        "defaultEps": "eps",
        "defaultWeightDecay": "weight_decay",
    }


@dataclass(frozen=True)
class PyStepIO:
    """Arrays of a run by id: what goes in, and where what comes back is written."""

    inputs: Mapping[str, Any]
    anchors: Mapping[str, Any]


@dataclass(frozen=True)
class PyStepIOCallback:
    """Functions that are asked for the micro-batches of a run, `input(id, is_prefetch)`, one after
    the other, and told what comes back, `output(id)` being an array to write to."""

    input: Callable[[str, bool], Any]
    input_complete: Callable[[str], Any]
    output: Callable[[str], Any]
    output_complete: Callable[[str], Any]


@dataclass(frozen=True)
class PyWeightsIO:
    """Arrays by id, into which `readWeights` writes."""

    weights: Mapping[str, Any]


class InferenceSession:
    """Runs a model: `prepareDevice`, `weightsFromHost`, then `run` as often as wanted."""

    def __init__(
        self,
        fnModel: bytes | str | PathLike[str],
        dataFlow: DataFlow,
        deviceInfo: Device,
        userOptions: SessionOptions | None = None,
    ) -> None:
        if isinstance(fnModel, bytes):
            model = loaded(fnModel)
        else:
            model = read_whole(fnModel, f"{type(self).__name__}()", MODEL, loaded)
        self._flow, self._device = dataFlow, deviceInfo
        self._options = userOptions or SessionOptions()
        self._model = self._placed(model)
        self._run: Run | None = None

    def _placed(self, graph: Ir) -> Ir:
        """Without the marks that the options do not ask for."""
        mode = self._options.virtualGraphMode
        o = self._options
        if o.enablePipelining and mode != "Manual":
            raise ModelError(f"""enablePipelining was given with virtualGraphMode {mode!r}.
                next:  options.virtualGraphMode = "Manual", and builder.virtualGraph(i).""")
        ops = graph.ops if mode != "Off" else [replace(op, stage=0) for op in graph.ops]
        if not o.executionPhaseSettings.phases:
            ops = [replace(op, phase=0) for op in ops]
        return graph.but(ops=ops)

    def _value(self, name: str) -> Value:
        known = self._model.outputs
        if name not in known:
            raise ModelError(f"""{shown(name)} is no tensor that the model makes.
                next:  {did_you_mean(name, known)}there are {", ".join(known)}.""")
        return known[name]

    def _graph(self) -> Ir:
        wanted = {n: self._value(n) for n in self._flow.anchors}
        return without_unused(self._model.but(outputs=wanted))

    def prepareDevice(self) -> None:
        """Compile for the device."""
        options = {"partialsType": p} if (p := self._options.partialsTypeMatMuls) else {}
        with working("compile"):
            low = ir.Lowering(self._graph(), self._device, self._flow.batchesPerStep, options)
            self._run = Run(low, self._device)

    @property
    def _ready(self) -> Run:
        if self._run is None:
            raise ModelError("""The session was asked before prepareDevice().
                next:  session.prepareDevice() compiles the model.""")
        return self._run

    def weightsFromHost(self) -> None:
        """The model's values go to the device."""
        run = self._ready
        for name, value in self._model.variables.items():
            run.write(name, np.broadcast_to(np.asarray(value.initial), value.shape))

    def weightsToHost(self) -> None:
        """The values on the device become the model's."""
        for name, value in self._model.variables.items():
            value.initial = self._ready.read(name)

    def readWeights(self, io: PyWeightsIO) -> None:
        """Write the model's values into arrays."""
        for name, array in io.weights.items():
            value = ir.values.named_value(self._model, name)
            np.copyto(array, np.broadcast_to(np.asarray(value.initial), value.shape))

    def modelToHost(self, path: str | PathLike[str]) -> None:
        """Write the model, with its values as they are on the device."""
        self.weightsToHost()
        write_whole(path, written(self._model), "modelToHost()", "model")

    def _lead(self, kind: AnchorReturnType) -> tuple[int, ...]:
        factors = self._ready.factors
        steps = {"ALL": factors["steps"], "EVERYN": factors["steps"] // kind.n}.get(kind.kind, 1)
        lead = steps, factors["accumulation"], factors["replicas"]
        return tuple(n for n in lead if n > 1)

    def initAnchorArrays(self) -> dict[str, Any]:
        """Arrays for what comes back: [updates, accumulated, replicas, …], each only where there
        are several."""
        return {
            name: np.zeros(
                (*self._lead(kind), *self._value(name).shape), self._value(name).dtype.numpy
            )
            for name, kind in self._flow.anchors.items()
        }

    def _returned(self, name: str, found: Any) -> Any:
        kind = self._flow.anchors[name]
        rows = found.reshape((self._ready.factors["steps"], -1, *found.shape[1:]))
        rows = select_outputs(rows, kind.kind.lower(), kind.n)
        return rows.reshape((*self._lead(kind), *found.shape[1:]))

    def run(self, io: PyStepIO | PyStepIOCallback) -> None:
        """One run of the device. Raises `ModelError`."""
        run = self._ready
        if isinstance(io, PyStepIO):
            fed = {
                name: np.reshape(a, (run.micro_batches, *run.ir.inputs[name].shape))
                if np.size(a) == run.micro_batches * run.ir.inputs[name].size
                else a
                for name, a in io.inputs.items()
                if name in run.ir.inputs
            }
            for name, array in run(**fed).items():
                np.copyto(io.anchors[name], self._returned(name, array))
            return
        several: dict[str, list[Any]] = {name: [] for name in run.ir.inputs}
        for count in range(run.micro_batches):
            for name in several:
                several[name].append(np.array(io.input(name, count > 0)))
                io.input_complete(name)
        for name, array in run(**{n: np.stack(a) for n, a in several.items()}).items():
            for row in array:
                np.copyto(io.output(name), row)
                io.output_complete(name)

    def getReport(self) -> Any:
        """The report of the last run."""
        return self._ready.engine.report


class TrainingSession(InferenceSession):
    """As an InferenceSession, and each run makes updates."""

    def __init__(
        self,
        fnModel: bytes | str | PathLike[str],
        dataFlow: DataFlow,
        loss: str,
        optimizer: SGD,
        deviceInfo: Device,
        userOptions: SessionOptions | None = None,
    ) -> None:
        super().__init__(fnModel, dataFlow, deviceInfo, userOptions)
        self._loss, self._optimizer = loss, optimizer

    def _graph(self) -> Ir:
        o = self._options
        recomputed = {"None": None, "Standard": "standard", "RecomputeAll": ()}
        keep: Any = recomputed[o.autoRecomputation]
        place = o.optimizerStateTensorLocationSettings
        loss = self._value(self._loss)
        graph = super()._graph()
        kept = graph.outputs
        step = Training(
            self._optimizer.kind,
            [Group(self._optimizer.rate, self._optimizer.numbers)],
            self._optimizer.scale,
            keep,
            o.accumulationFactor if o.enableGradientAccumulation else 1,
            o.replicatedGraphCount if o.enableReplicatedGraphs else 1,
            o.accumulationAndReplicationReductionType.lower(),
            place.replicatedTensorSharding,
            place.offChip,
            o.executionPhaseSettings.phases > 0,
            o.pipelineSchedule.lower() if o.enablePipelining else "",
        ).transform(self._model.but(outputs={**kept, self._loss: loss}), loss)
        return step.but(outputs={n: step.outputs[n] for n in kept})

    def updateOptimizerFromHost(self, optimizer: SGD) -> None:
        """Another learning rate; nothing is compiled. Raises `ModelError` for other numbers."""
        if (optimizer.kind, optimizer.numbers) != (self._optimizer.kind, self._optimizer.numbers):
            raise ModelError("""updateOptimizerFromHost() was given another optimiser.
                next:  change its learning rate alone, or make another session.""")
        self._optimizer = optimizer
        self._ready.write("rate", optimizer.rate)


check_calls(globals(), misuse)

__all__ = [
    "SGD", "Adam", "AnchorReturnType", "Builder", "ConstSGD", "DataFlow", "DeviceManager",
    "ExecutionPhaseSettings", "InferenceSession", "PyStepIO", "PyStepIOCallback", "PyWeightsIO",
    "SessionOptions", "TensorInfo", "TensorLocationSettings", "TrainingSession",
]  # fmt: skip
