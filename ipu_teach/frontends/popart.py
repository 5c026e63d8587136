"""A front end with PopART's names: a Builder of models, and sessions that run them.

Each tensor of a Builder is identified by its id, a string. Operations and attributes have the names
of ONNX. Models are saved in a file format of `ipu_teach`; files of ONNX can be read, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np

from ipu_teach._support.progress import working
from ipu_teach.arguments import (
    Among,
    Between,
    Count,
    Hint,
    Natural,
    Numbers,
    Positive,
    Taken,
    check,
    check_calls,
    hints_of,
)
from ipu_teach.device import Device
from ipu_teach.errors import ModelError, ModelLoadError, counted, did_you_mean, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Run, Unfit, Value
from ipu_teach.frontends.ir.attributes import Attribute
from ipu_teach.frontends.ir.saved import graph_to_bytes
from ipu_teach.frontends.ir.values import CONSTANT, MADE, misuse
from ipu_teach.frontends.popart_files import Node, OnnxModel, read_model
from ipu_teach.frontends.popart_operations import (
    NUMBERS,
    STATIC,
    TABLES,
    TYPES,
    Make,
    Type,
    operation_of,
    parameters_of,
)
from ipu_teach.frontends.session import (
    CheckedOptions,
    Group,
    Training,
    Version,
    checked_name,
    is_schedule,
    machine,
    select_outputs,
    without_unused,
)
from ipu_teach.saving.archive import write_whole
from ipu_teach.schedules import SCHEDULES
from ipu_teach.types import Array, DType

if TYPE_CHECKING:
    from ipu_teach.report import Report

# An array, or a value that numpy.asarray accepts. A run checks the array's shape and dtype.
HostArray: TypeAlias = Any


@dataclass(frozen=True)
class TensorInfo:
    """The shape of a tensor, and its dtype as PopART names it.

    The dtypes are "FLOAT", "FLOAT16", "INT32", "UINT32" and "BOOL". "INT64" is another name of
    "INT32", because the device has integers of 32 bits.
    """

    dtype: Type
    shape: Sequence[Natural]

    @property
    def type(self) -> type[DType]:
        """The dtype on the device, such as HALF for "FLOAT16"."""
        return TYPES[self.dtype]


class Opset:
    """The operations of a Builder by name, as in `aiOnnx.matmul([x, w])`, where x and w are ids.

    An operation takes a list of ids, and attributes as keyword arguments. The id "" stands for an
    optional input that is left out. The operation returns the id of its result, or a list of ids if
    it has several results. `dir()` lists the operations.
    """

    def __init__(self, builder: Builder, domain: str) -> None:
        self._builder = builder
        self._domain = domain

    def __dir__(self) -> list[str]:
        return ["constant", *TABLES[self._domain]]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        make = operation_of(self._domain, name)

        def operation(args: Sequence[str], debugContext: str = "", **attributes: Attribute) -> Any:
            check(name, "debugContext", debugContext, str, refuse=misuse)
            results = self._builder._add(
                name, make, args, context=debugContext, attributes=attributes
            )
            return results if len(results) > 1 else results[0]

        return operation

    def constant(self, value: Numbers, debugContext: str = "") -> str:
        """Add a constant to the model, and return its id.

        :raises ModelError: if the device does not support the dtype.
        """
        array = np.asarray(value)
        ir.values.dtype_of(array, debugContext or "constant")
        return self._builder._register(array, "constant")


class Builder:
    """A model under construction. Its tensors are identified by ids, which are strings.

    Without `model`, the model is empty. Otherwise, `model` is a saved model: the path of a file or
    its contents, in the format of ONNX or of `ipu_teach`.

    :raises ModelLoadError: if `model` is damaged, or contains something that is not supported.
    """

    def __init__(self, model: bytes | str | PathLike[str] | None = None) -> None:
        self._graph = Ir()
        self._values: dict[str, Value] = {}
        # The constants, and the initial values of variables that no operation has used yet.
        self._arrays: dict[str, Array] = {}
        self._initializers: set[str] = set()
        # Maps the ids of unsupported results of ONNX nodes to descriptions of these results.
        self._uncomputed: dict[str, str] = {}
        self._output_ids: list[str] = []
        self._scopes: list[str] = []
        self.aiOnnx = Opset(self, "")
        self.aiGraphcore = Opset(self, "ai.graphcore")
        if model is not None:
            content = read_model(model, "Builder()")
            if isinstance(content, OnnxModel):
                self._read_onnx(content)
            else:
                self._graph = content.but(outputs={})
                self._values = {**content.variables, **content.inputs, **content.outputs}
                self._output_ids = [*content.outputs]

    def _read_onnx(self, model: OnnxModel) -> None:
        """Add the inputs, initializers and nodes of an ONNX model."""
        for name, array in model.initializers.items():
            self._arrays[name] = array
            self._initializers.add(name)
        for name, dtype, shape in model.inputs:
            self._values[name] = self._graph.input(shape, name, dtype)
        for node in model.nodes:
            with node.errors():
                self._add_node(node)
        for name in model.outputs:
            if not self._is_variable(name):
                value = self._value(name, "Builder()")
                if value.kind == CONSTANT:  # An anchor must be the result of an operation.
                    self._values[name] = value = self._graph.op("copy", value)
                    value.name = name
        self._output_ids = [*model.outputs]

    def _add_node(self, node: Node) -> None:
        """Add an operation of an ONNX model. If the host knows the inputs, it computes the results.

        The host computes results only from constants, not from variables that can be trained.
        """
        inputs = [name for name in node.inputs if name]
        if node.value is not None:
            results: Sequence[Value | Array] = [node.value]
        elif inputs and all(
            name in self._arrays and not self._is_variable(name) for name in inputs
        ):
            results = node.computed([self._arrays.get(name) for name in node.inputs])
        else:
            make = operation_of(node.domain, node.operation)
            names = parameters_of(make)[1]
            extra = {k: v for k, v in node.implied.items() if k in names}
            ids = self._add(
                node.operation,
                make,
                node.inputs,
                context=node.name,
                attributes={**extra, **node.attributes},
            )
            results = [self._arrays[i] if i in self._arrays else self._values[i] for i in ids]
        for name, result in zip(node.outputs, results, strict=False):
            if isinstance(result, Value):
                if result.kind == MADE and result.name not in self._output_ids:
                    result.name = name
                self._values[name] = result
            else:
                self._arrays[name] = np.asarray(result)
        for number, name in enumerate(node.outputs[len(results) :], len(results) + 1):
            self._uncomputed[name] = f"result {number} of {node.proto.op_type}"

    def _is_variable(self, name: str) -> bool:
        """Return whether `name` is an initializer of floats, which a session can train."""
        return name in self._initializers and self._arrays[name].dtype.kind == "f"

    def _register(self, value: Value | Array, name: str = "") -> str:
        """Register a value or a constant under its id, and return the id.

        The id of a new value consists of `name` and a number. If `name` is "", the id of a new
        value is the value's current name. A value that is already registered keeps its id.
        """
        new_name = f"{name}:{len(self._values) + len(self._arrays)}"
        if not isinstance(value, Value):
            self._arrays[new_name] = value
            return new_name
        if value.name not in self._values or self._values[value.name] is not value:
            value.name = new_name if name else value.name
        self._values[value.name] = value
        return value.name

    def _value(self, name: str, call: str) -> Value:
        """Return the value with the id `name`; error messages name the caller `call`.

        :raises ModelError: if the Builder has no such value.
        """
        if name in self._arrays and name not in self._values:
            array = self._arrays[name]
            if self._is_variable(name):
                self._values[name] = self._graph.variable(array, name)
            else:
                dtype = ir.values.dtype_of(array, name)
                self._values[name] = self._graph.constant(array, dtype)
        if name in self._uncomputed:
            raise ModelLoadError(
                f"The ONNX model uses {shown(name)}, which is {self._uncomputed[name]}. This "
                "result is not supported.",
                next_step="write only the part of the model that does not use this result: "
                "onnx.utils.extract_model(path, new_path, input_names, output_names).",
            )
        if name not in self._values:
            raise ModelError(f"""{call} was given {shown(name)}, which is not the id of a tensor of
                this Builder.
                next:  {did_you_mean(name, self._values)}pass an id that a call of this Builder
                returned, such as builder.addInputTensor(…).""")
        return self._values[name]

    def _static(self, name: str, call: str, attribute: str) -> Attribute:
        """Return the elements of the constant `name`, used as an attribute of the operation `call`.

        :raises ModelError: if the tensor is not a constant.
        """
        array = self._arrays.get(name)
        if array is None:
            value = self._value(name, call)
            if value.initial is None or value.kind != CONSTANT and value.floating:
                raise misuse(
                    f"{call}() was given {shown(name)} as its input {attribute!r}, which is not a "
                    "constant. It must be a constant, because a model has fixed shapes.",
                    f"pass the id of a constant: builder.aiOnnx.constant(…), or {attribute}=….",
                )
            array = np.broadcast_to(value.initial, value.shape)
        if attribute == "values":
            return array
        return array.reshape(()).item() if attribute in NUMBERS else array.tolist()

    def _add(
        self,
        name: str,
        make: Make,
        args: Sequence[str],
        *,
        context: str,
        attributes: Mapping[str, Attribute],
    ) -> list[str]:
        """Add the operation `name` to the graph, and return the ids of its results.

        `make(graph, *inputs, **attributes)` adds the operation. `args` are the ids of the
        operation's inputs, and `context` is the last part of its path.

        :raises ModelError: if the operation does not accept its inputs or attributes.
        """
        if isinstance(args, str):
            raise ModelError(f"""{name}() was given the id {args!r} instead of a list of ids.
                next:  pass a list: builder.aiOnnx.{name}([{args!r}]).""")
        check(name, "its inputs", args, Sequence[str], refuse=misuse)
        count = parameters_of(make)[0] if name in STATIC else len(args)
        static = zip(STATIC.get(name, ()), args[count:], strict=False)
        constants = {k: self._static(arg, name, k) for k, arg in static if arg}
        attributes = {**attributes, **constants}
        _check_attributes(name, make, attributes)
        values = [self._value(arg, name) if arg else None for arg in args[:count]]
        with self._graph.at(path="/".join([*self._scopes, *filter(None, [context])])):
            try:
                results = make(self._graph, *values, **attributes)
            except Unfit as error:
                raise misuse(f"{name} is not possible: {error.why}.", error.advice) from None
            except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
                raise ModelError(f"""{name}() does not accept {counted(len(values), "tensor")} and
                    {", ".join(attributes) or "no attributes"}: {error}.
                    next:  pass the inputs and attributes of ONNX's operation {name}.""") from None
        results = results if isinstance(results, list) else [results]
        return [self._register(r, "" if isinstance(r, Value) else name) for r in results]

    def addInputTensor(self, info: TensorInfo, name: str = "") -> str:
        """Add a tensor that the host passes for each micro-batch, and return its id.

        :raises ModelError: if the name is already used.
        """
        input_name = name or f"input:{len(self._values)}"
        return self._register(self._graph.input(info.shape, input_name, info.type))

    def addInitializedInputTensor(self, array: Numbers, name: str = "") -> str:
        """Add a variable with its initial value, which a session can train, and return its id.

        :raises ModelError: if the name is already used, or if the device does not support the
            dtype.
        """
        return self._register(self._graph.variable(array, name or f"init:{len(self._values)}"))

    def addOutputTensor(self, name: str) -> None:
        """Add an id to the list that `getOutputTensorIds` returns.

        The anchors of the `DataFlow` select the outputs that a run returns.

        :raises ModelError: if there is no such tensor.
        """
        self._value(name, "addOutputTensor()")
        self._output_ids.append(name)

    def getInputTensorIds(self) -> list[str]:
        """Return the ids of the inputs that the host passes for each micro-batch."""
        return [*self._graph.inputs]

    def getOutputTensorIds(self) -> list[str]:
        """Return the ids of the model's outputs: outputs of the loaded file and added outputs."""
        return [*self._output_ids]

    def getTensorShape(self, name: str) -> list[int]:
        """Return the shape of the tensor with this id; raise `ModelError` for an unknown id."""
        return list(self._value(name, "getTensorShape()").shape)

    def _model(self) -> Ir:
        """Return the graph with all results of operations as its outputs."""
        stored = {**self._graph.variables, **self._graph.inputs}
        results = {
            n: v for n, v in self._values.items() if n not in stored and v.kind != "constant"
        }
        return self._graph.but(outputs=results)

    def getModelProto(self) -> bytes:
        """Return the model as bytes in the file format of `ipu_teach`, which a session can read."""
        return graph_to_bytes(self._model())

    def saveModelProto(self, path: str | PathLike[str]) -> None:
        """Write the model to a file in the format of `ipu_teach`, which a session can read."""
        write_whole(path, self.getModelProto(), "saveModelProto()", "model")

    def virtualGraph(self, ipu: Natural) -> AbstractContextManager[None]:
        """Place operations that are added in a `with` block on the IPU with the number `ipu`."""
        return self._graph.at(stage=ipu)

    pipelineStage = virtualGraph  # each stage has an IPU of its own

    def executionPhase(self, phase: Natural) -> AbstractContextManager[None]:
        """Assign the operations that are added in a `with` block to the execution phase `phase`.

        Values that a later phase needs are stored in streaming memory between the phases.
        """
        return self._graph.at(phase=phase)

    pingPongPhase = executionPhase

    @contextmanager
    def nameScope(self, name: str) -> Iterator[None]:
        """Put `name` in front of the paths of the operations that are added in a `with` block."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()


def _check_attributes(name: str, make: Make, attributes: Mapping[str, Attribute]) -> None:
    """Raise `ModelError` if an attribute of an operation is unknown or has the wrong type."""
    names = parameters_of(make)[1]
    for attribute, value in attributes.items():
        if attribute not in names:
            listed = f"use one of {', '.join(names)}" if names else f"leave out {attribute}"
            suggestion = did_you_mean(attribute, names)
            raise misuse(f"{name}() has no attribute {attribute!r}.", f"{suggestion}{listed}.")
        check(name, attribute, value, hints_of(make).get(attribute), refuse=misuse)


# --- sessions -------------------------------------------------------------------------------------


@dataclass
class ExecutionPhaseSettings(CheckedOptions):
    """The number of a model's execution phases.

    If the number is 0, the phases of operations are ignored. If it is any other number, each
    operation runs in its phase.
    """

    phases: Natural = 0


@dataclass
class TensorLocationSettings(CheckedOptions):
    """The memory of tensors: the tiles or streaming memory, with complete or sharded tensors."""

    offChip: bool = False
    replicatedTensorSharding: bool = False


SCHEDULED = f"give {' or '.join(map(repr, SCHEDULES))}."


@dataclass
class SessionOptions(CheckedOptions):
    """The options of a session."""

    virtualGraphMode: Annotated[str, Among(("Off", "Manual", "ExecutionPhases"))] = "Off"
    enablePipelining: bool = False
    pipelineSchedule: Annotated[str, Taken(is_schedule, SCHEDULED)] = "grouped"
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
    """The choice of steps whose results a run returns for an output.

    In training, a step is an update. In inference, a step is a micro-batch. `kind` is "ALL",
    "FINAL" for the last step, "SUM" for the sum over all steps, or "EVERYN" for every `n`-th step.
    A run returns the results of all micro-batches and replicas of a selected step.
    """

    kind: Annotated[str, Among(("ALL", "FINAL", "SUM", "EVERYN"))] = "ALL"
    n: Count = 1


@dataclass(frozen=True)
class DataFlow:
    """The number of updates in a run, and the choice of the outputs that the run returns.

    `anchors` maps the id of each of these outputs to its `AnchorReturnType`. In inference,
    `batchesPerStep` is the number of micro-batches instead of updates.
    """

    batchesPerStep: Count
    anchors: Mapping[str, AnchorReturnType]


MACHINE: dict[str, Hint] = {"numIPUs": Count, "tilesPerIPU": Natural, "ipuVersion": Version}


class DeviceManager:
    """An object that creates simulated devices."""

    def createIpuModelDevice(self, options: Mapping[str, Attribute]) -> Device:
        """Return a device with the given "numIPUs", "tilesPerIPU" and "ipuVersion".

        The default is 1 IPU with all tiles of the version "ipu2".

        :raises ModelError: for any other name, and for a value of the wrong type.
        """
        for name, value in options.items():
            kind = MACHINE[checked_name("createIpuModelDevice", name, MACHINE)]
            check("createIpuModelDevice", name, value, kind, refuse=misuse)
        version = options.get("ipuVersion", "ipu2")
        tiles = options.get("tilesPerIPU", 0)
        ipus = options.get("numIPUs", 1)
        return machine(version, tiles, ipus).create_device()

    def acquireAvailableDevice(self, numIpus: Count = 1) -> Device:
        """Return a device with `numIpus` IPUs, each with all tiles of the version "ipu2"."""
        return machine(ipus=numIpus).create_device()


Rate = Annotated[float, Between(0)]


class SGD:
    """Gradient descent, with or without momentum.

    Each option is a pair of a value and a bool, as in `{"defaultLearningRate": (0.1, False)}`. In
    PopART, the bool says whether the value is constant; it has no effect here.

    :raises ModelError: for an unknown option, or for a value that the option does not accept.
    """

    kind = "sgd"
    names: Mapping[str, str] = {
        "defaultMomentum": "momentum",
        "defaultWeightDecay": "weight_decay",
    }
    defaults: Mapping[str, float] = {"momentum": 0.0, "weight_decay": 0.0}

    def __init__(self, options: Mapping[str, tuple[Rate, bool]]) -> None:
        name = type(self).__name__
        option_names = ["defaultLearningRate", "lossScaling", *self.names]
        settings = {
            checked_name(name, option, option_names): float(pair[0])
            for option, pair in options.items()
        }
        check(name, "lossScaling", settings.get("lossScaling", 1.0), Positive, refuse=misuse)
        self.rate = settings.pop("defaultLearningRate", 0.1)
        self.scale = settings.pop("lossScaling", 1.0)
        self.numbers = {
            **self.defaults,
            **{self.names[option]: pair for option, pair in settings.items()},
        }


def ConstSGD(learningRate: Rate, weightDecay: Rate = 0.0) -> SGD:
    """Return an `SGD` without momentum, with this learning rate and weight decay."""
    pairs = {"defaultLearningRate": learningRate, "defaultWeightDecay": weightDecay}
    return SGD({name: (value, True) for name, value in pairs.items()})


class Adam(SGD):
    """The optimiser Adam, which uses moving averages of the gradient and of its square.

    The weight decay is not part of these averages: it acts on the weights directly, as with
    PopART's `WeightDecayMode.Decay`.
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
    """The arrays for a run: two dicts whose keys are ids of tensors.

    `inputs` contains the arrays of the inputs. The run writes its outputs to the arrays in
    `anchors`.
    """

    inputs: Mapping[str, HostArray]
    anchors: Mapping[str, HostArray]


@dataclass(frozen=True)
class PyStepIOCallback:
    """Functions that provide the inputs of a run and receive its outputs.

    `input(id, is_prefetch)` returns the next micro-batch of an input, and `output(id)` returns an
    array to which the next output is written. `input_complete(id)` is called after each input, and
    `output_complete(id)` after each output. The outputs of all micro-batches are written, whatever
    the `AnchorReturnType`.
    """

    input: Callable[[str, bool], HostArray]
    input_complete: Callable[[str], object]
    output: Callable[[str], HostArray]
    output_complete: Callable[[str], object]


@dataclass(frozen=True)
class PyWeightsIO:
    """A dict of arrays to which `readWeights` copies the weights; the keys are ids."""

    weights: Mapping[str, HostArray]


class InferenceSession:
    """A session that runs a model.

    Call `prepareDevice`, then `weightsFromHost`, and then `run` as often as needed.
    """

    def __init__(
        self,
        fnModel: bytes | str | PathLike[str],
        dataFlow: DataFlow,
        deviceInfo: Device,
        userOptions: SessionOptions | None = None,
    ) -> None:
        model = Builder(fnModel)._model()
        self._flow = dataFlow
        self._device = deviceInfo
        self._options = userOptions or SessionOptions()
        self._model = self._placed(model)
        self._run: Run | None = None

    def _placed(self, graph: Ir) -> Ir:
        """Return the graph, without the stages and phases that the options do not enable.

        :raises ModelError: if pipelining is enabled without the virtual graph mode "Manual".
        """
        options = self._options
        mode = options.virtualGraphMode
        if options.enablePipelining and mode != "Manual":
            raise ModelError(f"""The session option enablePipelining needs the virtualGraphMode
                "Manual", but the mode is {mode!r}.
                next:  set options.virtualGraphMode = "Manual", and place operations with
                builder.virtualGraph(0) and so on.""")
        placed_ops = graph.ops if mode != "Off" else [replace(op, stage=0) for op in graph.ops]
        if not options.executionPhaseSettings.phases:
            placed_ops = [replace(op, phase=0) for op in placed_ops]
        return graph.but(ops=placed_ops)

    def _value(self, name: str) -> Value:
        """Return the result of the model with the id `name`.

        :raises ModelError: if the model has no such result.
        """
        outputs = self._model.outputs
        if name not in outputs:
            raise ModelError(f"""The session was given {shown(name)}, which is not the id of a
                result of the model.
                next:  {did_you_mean(name, outputs)}use one of {", ".join(outputs)}.""")
        return outputs[name]

    def _graph(self) -> Ir:
        """Return the graph to compile: the model with the anchors as its only outputs."""
        outputs = {n: self._value(n) for n in self._flow.anchors}
        return without_unused(self._model.but(outputs=outputs))

    def prepareDevice(self) -> None:
        """Compile the model for the device.

        :raises ModelError: if the model cannot run on this device.
        """
        options = {"partialsType": p} if (p := self._options.partialsTypeMatMuls) else {}
        with working("compile"):
            lowering = ir.Lowering(self._graph(), self._device, self._flow.batchesPerStep, options)
            self._run = Run(lowering, self._device)

    @property
    def _ready(self) -> Run:
        """The compiled model. Raises `ModelError` before `prepareDevice` is called."""
        if self._run is None:
            raise ModelError("""The session was used before its model was compiled.
                next:  call session.prepareDevice() first.""")
        return self._run

    def weightsFromHost(self) -> None:
        """Copy the variables of the model to the device."""
        run = self._ready
        for name, value in self._model.variables.items():
            run.write(name, np.broadcast_to(np.asarray(value.initial), value.shape))

    def weightsToHost(self) -> None:
        """Copy the variables from the device to the model."""
        for name, value in self._model.variables.items():
            value.initial = self._ready.read(name)

    def readWeights(self, io: PyWeightsIO) -> None:
        """Copy variables of the model to the arrays in `io`.

        To get the values on the device, call `weightsToHost` first.

        :raises ModelError: if an id does not belong to a variable.
        """
        for name, array in io.weights.items():
            value = ir.values.named_variable(self._model, name)
            np.copyto(array, np.broadcast_to(np.asarray(value.initial), value.shape))

    def modelToHost(self, path: str | PathLike[str]) -> None:
        """Copy the variables from the device to the model, and write the model to a file."""
        self.weightsToHost()
        write_whole(path, graph_to_bytes(self._model), "modelToHost()", "model")

    def _lead(self, kind: AnchorReturnType) -> tuple[int, ...]:
        """Return the leading dimensions of an anchor's array, before the output's dimensions.

        They are the numbers of selected updates, of micro-batches in an update, and of replicas,
        except those that are 1. `kind` is the anchor's `AnchorReturnType`.
        """
        factors = self._ready.factors
        selected_steps = {"ALL": factors["steps"], "EVERYN": factors["steps"] // kind.n}.get(
            kind.kind, 1
        )
        leading_lengths = selected_steps, factors["accumulation"], factors["replicas"]
        return tuple(n for n in leading_lengths if n > 1)

    def initAnchorArrays(self) -> dict[str, Array]:
        """Return a dict with an array of zeros for each output; the key is the output's id.

        The shape of an array is [updates, accumulation, replicas, *shape of the output]. `updates`
        is the number of updates whose results the anchor selects, `accumulation` the number of
        micro-batches in an update, and `replicas` the number of replicas. Each of the three is left
        out if it is 1.
        """
        arrays = {}
        for name, kind in self._flow.anchors.items():
            value = self._value(name)
            arrays[name] = np.zeros((*self._lead(kind), *value.shape), value.dtype.numpy)
        return arrays

    def _selected(self, name: str, outputs: Array) -> Array:
        """Return the part of `outputs` [micro-batches, …] that the anchor `name` selects.

        It has the shape of the array that `initAnchorArrays` creates for this anchor.
        """
        anchor = self._flow.anchors[name]
        steps = self._ready.factors["steps"]
        outputs_by_step = outputs.reshape((steps, len(outputs) // steps, *outputs.shape[1:]))
        outputs_by_step = select_outputs(outputs_by_step, anchor.kind.lower(), anchor.n)
        return outputs_by_step.reshape((*self._lead(anchor), *outputs.shape[1:]))

    def run(self, io: PyStepIO | PyStepIOCallback) -> None:
        """Run the program once, with the inputs and outputs in `io`.

        :raises ModelError: if the inputs do not fit the model.
        """
        if isinstance(io, PyStepIO):
            self._run_arrays(io)
        else:
            self._run_callbacks(io)

    def _run_arrays(self, io: PyStepIO) -> None:
        """Run the program with the input arrays in `io`, and copy its outputs into `io.anchors`.

        An input array may have any shape that contains the elements of all micro-batches. Inputs
        that the program does not have are ignored. An output array receives the micro-batches that
        its anchor selects.
        """
        run = self._ready
        input_arrays = {}
        for name, array in io.inputs.items():
            if name in run.ir.inputs:
                value = run.ir.inputs[name]
                is_complete = np.size(array) == run.micro_batches * value.size
                full_shape = (run.micro_batches, *value.shape)
                input_arrays[name] = np.reshape(array, full_shape) if is_complete else array
        for name, array in run(**input_arrays).items():
            np.copyto(io.anchors[name], self._selected(name, array))

    def _run_callbacks(self, io: PyStepIOCallback) -> None:
        """Run the program, and call the functions in `io` for its inputs and outputs."""
        run = self._ready
        input_rows: dict[str, list[Array]] = {name: [] for name in run.ir.inputs}
        for micro_batch in range(run.micro_batches):
            for name in input_rows:
                input_rows[name].append(np.array(io.input(name, micro_batch > 0)))
                io.input_complete(name)
        for name, array in run(**{n: np.stack(a) for n, a in input_rows.items()}).items():
            for output in array:
                np.copyto(io.output(name), output)
                io.output_complete(name)

    def getReport(self) -> Report:
        """Return the report of all runs so far."""
        return self._ready.engine.report


class TrainingSession(InferenceSession):
    """A session that trains a model: each run also updates the weights.

    `loss` is the id of the loss.
    """

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
        self._loss = loss
        self._optimizer = optimizer

    def _graph(self) -> Ir:
        """Return the graph to compile, whose outputs are the anchors.

        It consists of the model, the backward pass and the optimiser's update.
        """
        options = self._options
        kept_values: dict[str, str | tuple[()] | None] = {
            "None": None,
            "Standard": "standard",
            "RecomputeAll": (),
        }
        location = options.optimizerStateTensorLocationSettings
        loss = self._value(self._loss)
        outputs = super()._graph().outputs
        training = Training(
            self._optimizer.kind,
            [Group(self._optimizer.rate, self._optimizer.numbers)],
            self._optimizer.scale,
            recompute=kept_values[options.autoRecomputation],
            accumulation=options.accumulationFactor if options.enableGradientAccumulation else 1,
            replicas=options.replicatedGraphCount if options.enableReplicatedGraphs else 1,
            reduction=options.accumulationAndReplicationReductionType.lower(),
            sharded=location.replicatedTensorSharding,
            off_chip=location.offChip,
            phased=options.executionPhaseSettings.phases > 0,
            schedule=options.pipelineSchedule.lower() if options.enablePipelining else "",
        )
        graph = self._model.but(outputs={**outputs, self._loss: loss})
        step = training.transform(graph, loss)
        return step.but(outputs={n: step.outputs[n] for n in outputs})

    def updateOptimizerFromHost(self, optimizer: SGD) -> None:
        """Change the learning rate, without compiling again.

        :raises ModelError: if `optimizer` differs in anything other than the learning rate, or if
            `prepareDevice` has not been called.
        """
        previous = self._optimizer
        settings = optimizer.kind, optimizer.scale, optimizer.numbers
        if settings != (previous.kind, previous.scale, previous.numbers):
            raise ModelError("""updateOptimizerFromHost() was given an optimiser that differs from
                the session's optimiser in more than the learning rate.
                next:  change only defaultLearningRate, or create a new TrainingSession.""")
        self._optimizer = optimizer
        self._ready.write("rate", optimizer.rate)


check_calls(globals(), misuse)

__all__ = [
    "SGD", "Adam", "AnchorReturnType", "Builder", "ConstSGD", "DataFlow", "DeviceManager",
    "ExecutionPhaseSettings", "InferenceSession", "PyStepIO", "PyStepIOCallback", "PyWeightsIO",
    "SessionOptions", "TensorInfo", "TensorLocationSettings", "TrainingSession",
]  # fmt: skip
