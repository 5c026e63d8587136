"""Keras' models: layers that are trained, evaluated and run, and whose weights are saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import prod
from os import PathLike
from typing import TYPE_CHECKING, Annotated, NoReturn, TypedDict

import numpy as np

from ipu_teach._support.progress import working
from ipu_teach.arguments import (
    Among,
    Between,
    Count,
    Natural,
    Numbers,
    Taken,
    check_calls,
    is_numeric,
)
from ipu_teach.errors import ModelError, ModelLoadError, counted, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Run
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras import ipu
from ipu_teach.frontends.keras.callbacks import Callback, History
from ipu_teach.frontends.keras.data import Dataset
from ipu_teach.frontends.keras.layers import Layer, Node
from ipu_teach.frontends.keras.losses import METRICS, Loss, loss_of
from ipu_teach.frontends.keras.optimizers import optimizer_of
from ipu_teach.frontends.session import (
    Group,
    Training,
    batch_product,
    checked_count,
    compile_graph,
    is_schedule,
    machine,
    without_unused,
)
from ipu_teach.schedules import GROUPED, SCHEDULES
from ipu_teach.types import Array

if TYPE_CHECKING:
    from ipu_teach.report import Report

Batches = Iterator[tuple[Array, ...]]
FIT, EVALUATE, PREDICT = MODES = "fit", "evaluate", "predict"


def _has_samples(value: Numbers) -> bool:
    """Return whether a value is a dataset, or an array whose first dimension counts samples."""
    return isinstance(value, Dataset) or is_numeric(value) and np.ndim(value) > 0


def _is_pair(value: object) -> bool:
    """Return whether a value is a dataset, or two arrays."""
    if isinstance(value, Dataset):
        return True
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(map(is_numeric, value))


Scheduled = Annotated[
    str,
    Taken(
        is_schedule,
        f"give {' or '.join(map(repr, SCHEDULES))}.",
    ),
]
Metric = Annotated[str, Among(METRICS)]
Verbose = bool | Annotated[int, Between(0, 2)] | Annotated[str, Among(("auto",))]
Samples = Annotated[
    Numbers | Dataset,
    Taken(
        _has_samples,
        "give an array whose first dimension counts samples, or a Dataset.",
    ),
]
Pairs = Annotated[
    tuple[Numbers, Numbers] | Dataset,
    Taken(
        _is_pair,
        "give (x, y), two arrays, or a Dataset.",
    ),
]


class _TrainingOptions(TypedDict):
    """Options of `Training` that a model sets by its own methods."""

    accumulation: int
    schedule: str
    off_chip: bool


class Model:
    """A model: the layers that were called between an input and an output.

    `compiles` contains a sentence about each compilation for the device. Raises `ModelError` if the
    output does not depend on this input alone.
    """

    def __init__(self, inputs: Node, outputs: Node, name: str = "model") -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self._nodes = _in_order(outputs)
        if inputs not in self._nodes or sum(node.layer is None for node in self._nodes) > 1:
            raise ModelError("""A model was given an output that does not depend on its input alone.
                next:  give Model(inputs, outputs) the Input on which its layers were called.""")
        self.layers = [*dict.fromkeys(node.layer for node in self._nodes if node.layer is not None)]
        self._name_layers()
        self.stop_training = False
        self._config = ipu.current_config()
        self._options = _TrainingOptions(accumulation=1, schedule="", off_chip=False)
        self._runs: dict[tuple[str, int], Run] = {}
        self._current_run: Run | None = None  # the run whose device has the weights, if any
        self._other_state: dict[str, Array] = {}  # variables of the device that are not weights
        self.compiles: list[str] = []
        self._loss: Loss | None = None

    def _name_layers(self) -> None:
        """Give each layer without a name the name of its kind, or this name and a number.

        Raises `ModelError` if two layers have the same name.
        """
        taken_names = {layer.name for layer in self.layers}
        for layer in self.layers:
            candidates = [
                layer.kind,
                *(f"{layer.kind}_{number}" for number in range(1, len(self.layers))),
            ]
            layer.name = layer.name or next(
                candidate for candidate in candidates if candidate not in taken_names
            )
            taken_names.add(layer.name)
        if len(taken_names - {""}) < len(self.layers):
            raise ModelError(f"""Layers of a model have the same name:
                {", ".join(layer.name for layer in self.layers)}.
                next:  give each layer a different name, or none.""")

    def get_pipeline_stage_assignment(self) -> list[int]:
        """Return the stage of each layer."""
        return [layer.stage for layer in self.layers]

    def _learnable(self, graph: Ir) -> list[ir.Value]:
        """Return the variables of `graph` that the optimiser changes."""
        return [
            graph.variables[f"{layer.name}.{short}"]
            for layer in self.layers
            for short in layer.weights
            if layer.trainable and short not in layer.fixed
        ]

    def _named_weights(self) -> dict[str, Array]:
        """Return all weights, by the names of the variables."""
        return {
            f"{layer.name}.{short}": weights
            for layer in self.layers
            for short, weights in layer.weights.items()
        }

    def count_params(self) -> int:
        """Return the number of elements in all weights."""
        return sum(layer.count for layer in self.layers)

    def summary(self, print_fn: Callable[[str], object] = print) -> None:
        """Print the layers, with their output shapes, numbers of weights and stages."""
        num_fixed = sum(
            weights.size
            for layer in self.layers
            for short, weights in layer.weights.items()
            if short in layer.fixed
        )
        shapes = {node.layer: (None, *node.shape) for node in self._nodes if node.layer is not None}
        table_rows = [("Layer (type)", "Output Shape", "Param #", "Stage")]
        table_rows += [
            (
                f"{layer.name} ({type(layer).__name__})",
                str(shapes[layer]),
                f"{layer.count:,}",
                str(layer.stage),
            )
            for layer in self.layers
        ]
        column_widths = [max(map(len, column)) for column in zip(*table_rows, strict=True)]
        print_fn(f'Model: "{self.name}"')
        for row in table_rows:
            print_fn(
                "  ".join(
                    cell.ljust(weights) for cell, weights in zip(row, column_widths, strict=True)
                ).rstrip()
            )
        num_params = self.count_params()
        print_fn(
            f"Total params: {num_params:,} (trainable {num_params - num_fixed:,}, others "
            f"{num_fixed:,})"
        )

    # --- options ---

    def compile(
        self,
        optimizer: object = "sgd",
        loss: object = None,
        metrics: Sequence[Metric] = (),
        steps_per_execution: Count | None = None,
    ) -> None:
        """Set the optimiser, the loss and the metrics.

        `steps_per_execution` is the number of batches in a run of the device, by default those of
        one update. Raises `ModelError` for an unknown optimiser or loss.
        """
        self.optimizer = optimizer_of(optimizer)
        self._loss = loss_of(loss)
        self._metrics = [*metrics]
        self._steps = steps_per_execution
        self._forget()

    def set_gradient_accumulation_options(
        self,
        gradient_accumulation_steps_per_replica: Count = 1,
        offload_weight_update_variables: bool = False,
    ) -> None:
        """Set the number of batches in an update, and where the optimiser's state is stored.

        With `offload_weight_update_variables`, the state is in streaming memory.
        """
        count = gradient_accumulation_steps_per_replica
        self._options["accumulation"] = count
        self._options["off_chip"] = offload_weight_update_variables
        self._forget()

    def set_pipelining_options(
        self,
        gradient_accumulation_steps_per_replica: Count = 1,
        pipeline_schedule: Scheduled = GROUPED,
        offload_weight_update_variables: bool = False,
    ) -> None:
        """Run the stages as a pipeline, each on a different batch of an update.

        The other arguments are those of `set_gradient_accumulation_options`.
        """
        self._options["schedule"] = pipeline_schedule.lower()
        self.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica, offload_weight_update_variables
        )

    def set_pipeline_stage_assignment(self, stages: Sequence[Natural]) -> None:
        """Set the stage of each layer. Raises `ModelError` for a list of another length."""
        if len(stages) != len(self.layers):
            names = ", ".join(layer.name for layer in self.layers)
            raise ModelError(f"""{len(self.layers)} layers were given {len(stages)} stages.
                next:  give one stage for each layer: {names}.""")
        for layer, stage in zip(self.layers, stages, strict=True):
            layer.stage = stage
        self._forget()

    def _forget(self) -> None:
        """Discard all compiled programs and the optimiser's state, but keep the weights."""
        self._to_host()
        self._runs = {}
        self._current_run = None
        self._other_state = {}

    # --- graphs and runs ---

    def graph(self, mode: Annotated[str, Among(MODES)], batch: Count) -> Ir:
        """Return the graph for a batch of `batch` samples, without gradients.

        `mode` is "fit", "evaluate" or "predict". Raises `ModelError` before `compile`, except for
        "predict".
        """
        graph = Ir()
        values = {self.inputs: graph.input((batch, *self.inputs.shape), "x")}
        for node in self._nodes:
            if node.layer is not None:
                inputs = (values[parent] for parent in node.parents)
                values[node] = node.layer.add_to(graph, mode == FIT, *inputs)
        out = values[self.outputs]
        if mode == PREDICT:
            graph.output("predictions", out)
            return without_unused(graph)
        loss = self._compiled_loss(mode)
        with graph.at(path="loss", stage=max(self.get_pipeline_stage_assignment())):
            y = loss.target(graph, out)
            graph.output("loss", loss(graph, out, y))
        for name in self._metrics:
            with graph.at(path=name, stage=max(self.get_pipeline_stage_assignment())):
                graph.output(name, METRICS[name](graph, out, y))
        return without_unused(graph)

    def _compiled_loss(self, mode: str) -> Loss:
        """Return the loss. Raises `ModelError` before `compile`, naming the call `mode`."""
        if self._loss is None:
            raise ModelError(f"""{mode}() was called before compile().
                next:  call model.compile(optimizer="sgd", loss=…) first.""")
        return self._loss

    def _run(self, mode: str, batch: int, verbose: bool | int | str = 0) -> Run:
        """Return the compiled program of a mode, and copy the weights to its device.

        The first call for a mode and a batch size compiles the program. Raises `ModelError` if the
        model was created outside of a scope.
        """
        if self._config is None:
            raise ModelError("""The model was made outside of an IPUStrategy's scope, so no device
                runs it.
                next:  make it within `with ipu.ipu_strategy.IPUStrategy().scope():`.""")
        key = (mode, batch)
        if key not in self._runs:
            self._runs[key] = self._compile(mode, batch, self._config)
            if verbose and len(self._runs) > 1:
                print(self.compiles[-1])
        run = self._runs[key]
        if self._current_run is not run:
            self._to_host()
            self._current_run = run
            self._to_device()
        return run

    def _factors(self, mode: str) -> dict[str, int]:
        """Return the factors whose product is the number of batches in a run.

        They are called "steps" (the updates of a run), "accumulation" and "replicas". In every
        `mode` except fit, all are 1. Raises `ModelError` if the model was not compiled, or if
        `steps_per_execution` is not a multiple of the batches in an update.
        """
        if mode != FIT:
            return {"steps": 1, "accumulation": 1, "replicas": 1}
        self._compiled_loss(mode)
        accumulation = self._options["accumulation"]
        num_ipus = self._config.auto_select_ipus if self._config else 1
        replicas = checked_count(
            "replicas", num_ipus // (1 + max(self.get_pipeline_stage_assignment()))
        )
        steps = self._steps or accumulation * replicas
        if steps % (accumulation * replicas):
            raise ModelError(f"""steps_per_execution is {steps}, but an update takes
                {accumulation * replicas} batches, accumulation {accumulation} * replicas
                {replicas}.
                next:  give a multiple of {accumulation * replicas}.""")
        return {
            "steps": steps // (accumulation * replicas),
            "accumulation": accumulation,
            "replicas": replicas,
        }

    def _compile(self, mode: str, batch: int, config: ipu.IPUConfig) -> Run:
        """Return a newly compiled program of a mode, for batches of `batch` samples."""
        graph = self.graph(mode, batch)
        factors = self._factors(mode)
        if mode == FIT:
            training = Training(
                self.optimizer.kind,
                [Group(self.optimizer.learning_rate, self.optimizer.numbers)],
                self.optimizer.scale,
                replicas=factors["replicas"],
                **self._options,
            )
            graph = training.transform(graph, graph.outputs["loss"], self._learnable(graph))
        model = machine(config.ipu_model.version, config.ipu_model.tiles_per_ipu)
        run = compile_graph(mode, graph, model, steps=factors["steps"], options=config.options)
        target = run.engine.report.target
        self.compiles.append(
            f"Compiled {mode} for batches of {batch}, {counted(target.num_ipus, 'IPU')} with "
            f"{counted(target.tiles_per_ipu, 'tile')} each."
        )
        return run

    def _to_host(self) -> None:
        """Copy the weights from the device to the layers, and the other variables to the model."""
        if self._current_run is None:
            return
        self._other_state |= self._current_run.state()
        for layer in self.layers:
            for short in layer.weights:
                name = f"{layer.name}.{short}"
                layer.weights[short] = self._other_state.pop(name, layer.weights[short])

    def _to_device(self) -> None:
        """Copy the layers' weights and the other variables to the device."""
        run = self._current_run
        if run is None:
            return
        state = {**self._other_state, **self._named_weights()}
        run.restore({name: values for name, values in state.items() if name in run.ir.variables})

    # --- fit, evaluate, predict ---

    def fit(
        self,
        x: Samples,
        y: Numbers | None = None,
        batch_size: Count = 32,
        epochs: Natural = 1,
        verbose: Verbose = 1,
        callbacks: Sequence[Callback] = (),
        validation_data: Pairs | None = None,
        shuffle: bool = True,
        steps_per_epoch: Count | None = None,
        initial_epoch: Natural = 0,
    ) -> History:
        """Train the model, and return the means of the loss and the metrics in each epoch.

        Ctrl-C ends the training after the current run, with the weights of that run. Raises
        `ModelError` if the samples do not fill complete runs, and before `compile`.
        """
        data = _dataset(x, y, batch_size, shuffle)
        steps = _steps(self._factors(FIT), data, steps_per_epoch)
        self._run(FIT, data.size, verbose)
        history = History()
        self.stop_training = False
        all_callbacks = [history, *callbacks]
        for callback in all_callbacks:
            callback.model = self
            callback.on_train_begin()
        batches = data.batches()
        for epoch in range(initial_epoch, epochs):
            for callback in all_callbacks:
                callback.on_epoch_begin(epoch)
            if data.times == 1:
                batches = data.batches()
            logs = self._train_epoch(
                data.size,
                batches,
                steps,
                label=f"epoch {epoch + 1} of {epochs}",
                callbacks=all_callbacks,
            )
            if validation_data is not None:
                inputs, targets = _input_and_target(validation_data)
                figures = self._evaluate(_dataset(inputs, targets, data.size, False))
                logs |= {f"val_{name}": value for name, value in figures.items()}
            if verbose:
                figure_texts = ", ".join(f"{name} {value:.4f}" for name, value in logs.items())
                print(f"Epoch {epoch + 1}/{epochs}: {figure_texts}")
            for callback in all_callbacks:
                callback.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        for callback in all_callbacks:
            callback.on_train_end()
        return history

    def _train_epoch(
        self, batch: int, batches: Batches, steps: int, label: str, callbacks: Sequence[Callback]
    ) -> dict[str, float]:
        """Train for the `steps` batches of an epoch; return the means of the loss and metrics."""
        run = self._run(FIT, batch)
        run.write("rate", self.optimizer.learning_rate)
        figures: list[dict[str, Array]] = []
        for outputs in self._outputs(run, batches, steps, label):
            figures.append(outputs)
            for callback in callbacks:
                callback.on_train_batch_end(outputs)
        return _means(figures)

    def evaluate(
        self,
        x: Samples,
        y: Numbers | None = None,
        batch_size: Count = 32,
        verbose: Verbose = 0,
        steps: Count | None = None,
        return_dict: bool = False,
    ) -> float | list[float] | dict[str, float]:
        """Return the loss or, if there are metrics, a list of the loss and the metrics.

        With `return_dict`, return a dict by name. Raises `ModelError` if the samples do not fill
        complete batches, and before `compile`.
        """
        logs = self._evaluate(_dataset(x, y, batch_size, False), verbose, steps)
        if return_dict:
            return logs
        figures = list(logs.values())
        return figures[0] if len(figures) == 1 else figures

    def _evaluate(
        self, data: Dataset, verbose: bool | int | str = 0, steps: int | None = None
    ) -> dict[str, float]:
        """Return the loss and the metrics by name."""
        count = _steps(self._factors(EVALUATE), data, steps)
        run = self._run(EVALUATE, data.size, verbose)
        return _means([*self._outputs(run, data.batches(), count, EVALUATE)])

    def predict(self, x: Samples, batch_size: Count = 32, verbose: Verbose = 0) -> Array:
        """Return the output for each sample.

        An incomplete last batch is filled with zeros; the outputs for these zeros are left out.
        """
        data = _dataset(x, None, batch_size, False)
        array = data.arrays[0]
        batch_size_of_run = data.size
        run = self._run(PREDICT, batch_size_of_run, verbose)
        num_padding = -len(array) % batch_size_of_run
        padded = np.concatenate([array, np.zeros((num_padding, *array.shape[1:]), array.dtype)])
        batches = Dataset((padded,), batch_size_of_run).batches()
        outputs = self._outputs(run, batches, len(padded) // batch_size_of_run, PREDICT)
        predictions: Array = np.concatenate([figures["predictions"][0] for figures in outputs])
        return predictions[: len(array)]

    def _outputs(
        self, run: Run, batches: Batches, steps: int, label: str
    ) -> Iterator[dict[str, Array]]:
        """Yield the outputs of each run, for `steps` batches in total."""
        batches_per_run = run.micro_batches
        num_runs = steps // batches_per_run
        with working(label, "run") as work:
            for _ in work.each(range(num_runs), num_runs):
                arrays = zip(*islice(batches, batches_per_run), strict=True)
                arrays_by_input = {
                    name: np.concatenate(arrays_of_input)
                    for name, arrays_of_input in zip(("x", "y"), arrays, strict=False)
                }
                if "y" in arrays_by_input and "y" in run.ir.inputs:
                    shape = run.ir.inputs["y"].shape[1:]
                    if arrays_by_input["y"].shape[1:] in ((), (1,)) and shape in ((), (1,)):
                        arrays_by_input["y"] = arrays_by_input["y"].reshape(-1, *shape)
                yield run(
                    **{
                        name: arrays_of_input
                        for name, arrays_of_input in arrays_by_input.items()
                        if name in run.ir.inputs
                    }
                )

    # --- weights ---

    def get_weights(self) -> list[Array]:
        """Return copies of all weights, in the order of the layers."""
        self._to_host()
        return [np.array(w) for w in self._named_weights().values()]

    def set_weights(self, weights: Sequence[Numbers]) -> None:
        """Set all weights, in the order of the layers. Raises `ModelError` for other shapes."""
        self._to_host()
        weight_places = [(layer, short) for layer in self.layers for short in layer.weights]
        shapes = [layer.weights[short].shape for layer, short in weight_places]
        arrays = [np.asarray(array, np.float32) for array in weights]
        if [array.shape for array in arrays] != shapes:
            raise ModelError(f"""set_weights() was given {shown([a.shape for a in arrays])}, but the
                model has weights of {shown(shapes)}.
                next:  give the weights of a model with the same layers.""")
        for (layer, short), array in zip(weight_places, arrays, strict=True):
            layer.weights[short] = array
        self._to_device()

    def save_weights(self, path: str | PathLike[str]) -> None:
        """Write all weights to a file of the kit: a graph that has only variables."""
        file = Ir()
        self._to_host()
        for name, w in self._named_weights().items():
            file.variable(w, name)
        ir.save(file, path)

    def load_weights(self, path: str | PathLike[str]) -> None:
        """Set the weights to those in a file from `save_weights`, in the order of the layers.

        Raises `ModelLoadError` for a damaged file, and for weights of other shapes.
        """
        weights = [variable.initial for variable in ir.load(path).variables.values()]
        try:
            self.set_weights(weights)
        except ModelError as error:
            raise ModelLoadError(error.tried, where=str(path), next_step=error.next_step) from None

    # --- report ---

    @property
    def report(self) -> Report:
        """The report of the program that ran last. Raises `ModelError` before the first run."""
        if self._current_run is None:
            raise ModelError("""The model has not run, so there is no report.
                next:  call fit(), evaluate() or predict() first.""")
        return self._current_run.engine.report


class Sequential(Model):
    """A model whose layers run one after the other.

    The first layer needs an `input_shape`, or an `Input` before it. Layers may be added until the
    model is used.
    """

    def __init__(self, layers: Sequence[Layer | Node] = (), name: str = "sequential") -> None:
        self._parts = [*layers]
        self._title = name
        if self._parts:
            self._chain()

    def add(self, layer: Layer | Node) -> None:
        """Add a layer at the end."""
        self._parts.append(layer)
        self._chain()

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("layers", "_current_run", "_config") and not self._parts:
            raise ModelError("""The model has no layers yet.
                next:  model.add(Dense(10, input_shape=(64,))) adds one.""")
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def _chain(self) -> None:
        """Build the model from the layers so far.

        Raises `ModelError` if the shape of the input is unknown, or if a part is not a layer.
        """
        first_part, *layers = self._parts
        if isinstance(first_part, Node):
            node = first_part
        elif first_part.input_shape is not None:
            node = Node(first_part.input_shape)
            layers = self._parts
        else:
            raise ModelError(f"""The first layer, {first_part.kind}, has no input shape.
                next:  give it input_shape=(…), without the batch, or put Input((…)) before it.""")
        input_node = node
        for layer in layers:
            if not isinstance(layer, Layer):
                raise ModelError(f"""A Sequential was given {shown(layer)}.
                    next:  give it layers, as in Sequential([Dense(10, input_shape=(64,))]).""")
            node = layer(node)
        super().__init__(input_node, node, self._title)


def _in_order(last: Node) -> list[Node]:
    """Return a node and all nodes on which it depends, each after its parents."""
    ordered: dict[Node, None] = {}

    def visit(node: Node) -> None:
        for parent in node.parents:
            if parent not in ordered:
                visit(parent)
        ordered[node] = None

    visit(last)
    return list(ordered)


def _input_and_target(data: Pairs) -> tuple[Samples, Numbers | None]:
    """Return (x, y) of validation data, or (dataset, None)."""
    return (data, None) if isinstance(data, Dataset) else tuple(data)


def _dataset(x: Samples, y: Numbers | None, batch: int, shuffle: bool) -> Dataset:
    """Return the data of a call as a dataset in batches.

    Raises `ModelError` for a dataset without batches.
    """
    if not isinstance(x, Dataset):
        arrays = (x,) if y is None else (x, y)
        batches = Dataset.from_tensor_slices(tuple(np.asarray(array) for array in arrays)).batch(
            batch
        )
        return batches.shuffle() if shuffle else batches
    if not x.size:
        raise ModelError("""The dataset is not divided into batches.
            next:  call dataset.batch(32, drop_remainder=True) first.""")
    return x


def _steps(factors: dict[str, int], data: Dataset, requested: int | None) -> int:
    """Return the number of batches in an epoch.

    `requested` is this number if the caller sets it. `factors` are the factors of the number of
    batches in a run. Raises `ModelError` unless the batches fill complete runs.
    """
    batches, remainder = divmod(data.samples, data.size)
    if data.drop:
        remainder = 0
    batches_per_run = prod(factors.values())
    steps = checked_count(
        "the number of steps", batches * min(data.times, 1) if requested is None else requested, 0
    )
    samples_per_run = batches_per_run * data.size
    is_whole = not remainder and steps and not steps % batches_per_run
    if is_whole and steps <= batches * data.times:
        return steps
    fitting_steps = steps // batches_per_run * batches_per_run or batches_per_run
    num_fitting = min(batches // batches_per_run * batches_per_run, fitting_steps)
    batch_text = counted(steps, "batch", "batches")
    if remainder:
        batch_text += f" and {counted(remainder, 'sample')} more"
    raise ModelError(f"""{counted(data.samples, "sample")} were given for {batch_text}, but a run
        takes {samples_per_run:,} samples: {batch_product("batch", data.size, factors)}.
        next:  give a multiple of {samples_per_run:,} samples, as in x[:{num_fitting * data.size}];
        Dataset.batch({data.size}, drop_remainder=True) drops an incomplete last batch.""")


def _means(outputs: list[dict[str, Array]]) -> dict[str, float]:
    """Return the means of the outputs of several runs, by name."""
    by_name: dict[str, list[Array]] = {}
    for figures in outputs:
        for name, values in figures.items():
            by_name.setdefault(name, []).append(values)
    return {n: float(np.concatenate(v).astype(np.float64).mean()) for n, v in by_name.items()}


check_calls(globals(), misuse)
