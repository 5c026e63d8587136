"""Keras models: they connect layers, run on the device, and save their weights."""

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
    """Return whether a value is a dataset, or a tuple or list of two arrays."""
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
        "give a tuple of two arrays, (x, y), or a Dataset.",
    ),
]


class _TrainingOptions(TypedDict):
    """The attributes of `session.Training` that methods of a model set."""

    accumulation: int
    schedule: str
    off_chip: bool


class Model:
    """A model: the layers that were called between an input and an output.

    `compiles` contains a sentence about each compilation for the device.

    :raises ModelError: if the output does not depend on the input, or also depends on another
        input, and if two layers have the same name.
    """

    def __init__(self, inputs: Node, outputs: Node, name: str = "model") -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self._nodes = _in_order(outputs)
        if inputs not in self._nodes or sum(node.layer is None for node in self._nodes) > 1:
            raise ModelError("""Model() was given an output that does not depend on its input, or
                also depends on another input.
                next:  pass the Input on which the layers were called: Model(inputs, outputs).""")
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
        """Name each layer without a name after its class, with a number if the name is in use.

        :raises ModelError: if two layers have the same name.
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
            raise ModelError(f"""Two layers of the model have the same name. The names are
                {", ".join(layer.name for layer in self.layers)}.
                next:  give each layer a different name, or leave out name=.""")

    def get_pipeline_stage_assignment(self) -> list[int]:
        """Return the number of the stage of each layer."""
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
        """Return all weights by the names of their variables, such as "dense.kernel"."""
        return {
            f"{layer.name}.{short}": weights
            for layer in self.layers
            for short, weights in layer.weights.items()
        }

    def count_params(self) -> int:
        """Return the number of elements in all weights."""
        return sum(layer.count for layer in self.layers)

    def summary(self, print_fn: Callable[[str], object] = print) -> None:
        """Print the layers, with their output shapes, numbers of weights and stages.

        `print_fn` is called for each line.
        """
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

        `steps_per_execution` is the number of batches in a run of the device. If it is None, a run
        contains the batches of one update.

        :raises ModelError: for an unknown optimiser or loss.
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
        """Set how many batches of a replica an update uses, and where the optimiser's state is.

        If `offload_weight_update_variables`, the optimiser's state is stored in streaming memory.
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
        """Run the stages as a pipeline: they work on different batches at the same time.

        `pipeline_schedule` is the name of a pipeline schedule, in upper or lower case. With the
        schedule "sequential", only one stage works at a time. The other arguments have the same
        meaning as in `set_gradient_accumulation_options`.
        """
        self._options["schedule"] = pipeline_schedule.lower()
        self.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica, offload_weight_update_variables
        )

    def set_pipeline_stage_assignment(self, stages: Sequence[Natural]) -> None:
        """Set the stage of each layer. Raises `ModelError` for a list of another length."""
        if len(stages) != len(self.layers):
            names = ", ".join(layer.name for layer in self.layers)
            raise ModelError(f"""set_pipeline_stage_assignment() was given
                {counted(len(stages), "stage")} for {counted(len(self.layers), "layer")}.
                next:  pass a list with the stage of each of these layers: {names}.""")
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

        `mode` is "fit", "evaluate" or "predict".

        :raises ModelError: before `compile` is called, except for "predict".
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
        """Return the loss. Raises `ModelError` before `compile`; `mode` is the caller's name."""
        if self._loss is None:
            raise ModelError(f"""{mode}() was called before compile().
                next:  call model.compile(optimizer="sgd", loss="mse") first, with your loss.""")
        return self._loss

    def _run(self, mode: str, batch: int, verbose: bool | int | str = 0) -> Run:
        """Return the compiled program of a mode, and copy the weights to its device.

        The first call for a mode and a batch size compiles the program.

        :raises ModelError: if the model was created outside of an IPUStrategy's scope.
        """
        if self._config is None:
            raise ModelError("""The model was created outside of an IPUStrategy's scope, so it has
                no device to run on.
                next:  create it in the block `with ipu.ipu_strategy.IPUStrategy().scope():`.""")
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

        They are "steps" (the number of updates in a run), "accumulation" and "replicas". All of
        them are 1 if `mode` is not "fit".

        :raises ModelError: before `compile` is called, if there are fewer IPUs than stages, or if
            `steps_per_execution` is not a multiple of the number of batches in an update.
        """
        if mode != FIT:
            return {"steps": 1, "accumulation": 1, "replicas": 1}
        self._compiled_loss(mode)
        accumulation = self._options["accumulation"]
        num_ipus = self._config.auto_select_ipus if self._config else 1
        num_stages = 1 + max(self.get_pipeline_stage_assignment())
        replicas = num_ipus // num_stages
        if not replicas:
            raise ModelError(f"""The model has {counted(num_stages, "stage")}, each on its own IPU,
                but its IPUStrategy has only {counted(num_ipus, "IPU")}.
                next:  set config.auto_select_ipus = {num_stages}, and call
                config.configure_ipu_system() before you create the strategy.""")
        steps = self._steps or accumulation * replicas
        if steps % (accumulation * replicas):
            raise ModelError(f"""steps_per_execution is {steps}, but it must be a multiple of the
                number of batches in an update, accumulation {accumulation} * replicas {replicas} =
                {accumulation * replicas}.
                next:  call compile() with steps_per_execution={accumulation * replicas} or a
                multiple.""")
        return {
            "steps": steps // (accumulation * replicas),
            "accumulation": accumulation,
            "replicas": replicas,
        }

    def _compile(self, mode: str, batch: int, config: ipu.IPUConfig) -> Run:
        """Compile the program of a mode for batches of `batch` samples, and return it."""
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
        """Train the model, and return a record of the mean loss and metrics of each epoch.

        The epochs have the numbers `initial_epoch` to `epochs` - 1. `steps_per_epoch` is the number
        of batches in an epoch; the default is all. `validation_data` is evaluated after each epoch.
        Ctrl-C ends the training after the current run, and the model has the weights of that run.

        :raises ModelError: if the samples do not fill complete runs, before `compile` is called,
            and if the model was created outside of an IPUStrategy's scope.
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
        """Train for the `steps` batches of an epoch; return the mean loss and metrics by name."""
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
        """Return the loss, or a list of the loss and the metrics if there are metrics.

        If `return_dict`, return a dict with the loss and the metrics by name.

        :raises ModelError: if the samples do not fill complete batches, or before `compile` is
            called.
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
        """Return the output of the model for each sample.

        An incomplete last batch is filled with zeros, whose outputs are left out.
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
        """Yield the outputs of each run by name, for `steps` batches in total."""
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
        """Set all weights, in the order of the layers. Raises `ModelError` if a shape differs."""
        self._to_host()
        weight_places = [(layer, short) for layer in self.layers for short in layer.weights]
        shapes = [layer.weights[short].shape for layer, short in weight_places]
        arrays = [np.asarray(array, np.float32) for array in weights]
        if [array.shape for array in arrays] != shapes:
            raise ModelError(f"""set_weights() was given arrays of the shapes
                {shown([a.shape for a in arrays])}, but the model's weights have the shapes
                {shown(shapes)}.
                next:  pass the weights of a model with the same layers.""")
        for (layer, short), array in zip(weight_places, arrays, strict=True):
            layer.weights[short] = array
        self._to_device()

    def save_weights(self, path: str | PathLike[str]) -> None:
        """Write all weights to a file in the format of `ipu_teach`.

        The file contains a graph that has only variables.
        """
        file = Ir()
        self._to_host()
        for name, w in self._named_weights().items():
            file.variable(w, name)
        ir.save(file, path)

    def load_weights(self, path: str | PathLike[str]) -> None:
        """Set the weights to the arrays in a file that `save_weights` has written.

        They are assigned in the order of the layers.

        :raises ModelLoadError: if the file is damaged, or if a weight has another shape.
        """
        weights = [variable.initial for variable in ir.load(path).variables.values()]
        try:
            self.set_weights(weights)
        except ModelError as error:
            raise ModelLoadError(error.tried, where=str(path), next_step=error.next_step) from None

    # --- report ---

    @property
    def report(self) -> Report:
        """The report of the program that ran last.

        :raises ModelError: before the first run, and until the next run after `compile` or a change
            of an option.
        """
        if self._current_run is None:
            raise ModelError("""The model has no report, because it has not run yet.
                next:  call fit(), evaluate() or predict() first.""")
        return self._current_run.engine.report


class Sequential(Model):
    """A model whose layers run one after another.

    The first layer needs an `input_shape`, or an `Input` before it. Layers may be added until the
    model is used.
    """

    def __init__(self, layers: Sequence[Layer | Node] = (), name: str = "sequential") -> None:
        self._parts = [*layers]
        self._title = name
        if self._parts:
            self._chain()

    def add(self, layer: Layer | Node) -> None:
        """Add a layer after the last layer."""
        self._parts.append(layer)
        self._chain()

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("layers", "_current_run", "_config") and not self._parts:
            raise ModelError("""The model has no layers yet.
                next:  add a layer: model.add(Dense(10, input_shape=(64,))).""")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _chain(self) -> None:
        """Build the model from the layers so far.

        :raises ModelError: if the shape of the input is unknown, or if a part is not a layer.
        """
        first_part, *layers = self._parts
        if isinstance(first_part, Node):
            node = first_part
        elif first_part.input_shape is not None:
            node = Node(first_part.input_shape)
            layers = self._parts
        else:
            raise ModelError(f"""The first layer of a Sequential, {first_part.kind}, has no input
                shape.
                next:  pass the shape of a sample to it, as in
                {type(first_part).__name__}(…, input_shape=(64,)), or put Input((64,)) before
                it.""")
        input_node = node
        for layer in layers:
            if not isinstance(layer, Layer):
                raise ModelError(f"""A Sequential was given {shown(layer)}, which is not a layer.
                    next:  pass layers, as in Sequential([Dense(10, input_shape=(64,))]).""")
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
    """Return `(x, y)` of validation data, or `(dataset, None)` if the data are a dataset."""
    return (data, None) if isinstance(data, Dataset) else tuple(data)


def _dataset(x: Samples, y: Numbers | None, batch: int, shuffle: bool) -> Dataset:
    """Return the data of a call as a dataset in batches.

    :raises ModelError: for a dataset that is not divided into batches.
    """
    if not isinstance(x, Dataset):
        arrays = (x,) if y is None else (x, y)
        batches = Dataset.from_tensor_slices(tuple(np.asarray(array) for array in arrays)).batch(
            batch
        )
        return batches.shuffle() if shuffle else batches
    if not x.size:
        raise ModelError("""The dataset is not divided into batches.
            next:  divide it first: dataset.batch(32, drop_remainder=True).""")
    return x


def _steps(factors: dict[str, int], data: Dataset, requested: int | None) -> int:
    """Return the number of batches in an epoch.

    `requested` is the number that the caller wants, or None. The product of `factors` is the number
    of batches in a run.

    :raises ModelError: if the batches do not fill complete runs.
    """
    batches, remainder = divmod(data.samples, data.size)
    if data.drop:
        remainder = 0
    batches_per_run = prod(factors.values())
    steps = int(batches * min(data.times, 1) if requested is None else requested)
    samples_per_run = batches_per_run * data.size
    is_whole = not remainder and steps and not steps % batches_per_run
    if is_whole and steps <= batches * data.times:
        return steps
    fitting_steps = steps // batches_per_run * batches_per_run or batches_per_run
    num_fitting = min(batches // batches_per_run * batches_per_run, fitting_steps)
    batch_text = counted(steps, "batch", "batches")
    if remainder:
        batch_text += f" and {counted(remainder, 'sample')} more"
    # Without its incomplete last batch, the data may still not fill complete runs.
    drop = ""
    if remainder and batches and not batches % batches_per_run:
        drop = ", or drop the incomplete last batch: "
        drop += f"Dataset.batch({data.size}, drop_remainder=True)"
    raise ModelError(f"""The call was given {counted(data.samples, "sample")} for {batch_text}, but
        the batches must fill runs of {samples_per_run:,} samples:
        {batch_product("batch", data.size, factors)}.
        next:  pass a multiple of {samples_per_run:,} samples, as in
        x[:{num_fitting * data.size}]{drop}.""")


def _means(outputs: list[dict[str, Array]]) -> dict[str, float]:
    """Return the means of the outputs of several runs, by name."""
    by_name: dict[str, list[Array]] = {}
    for figures in outputs:
        for name, values in figures.items():
            by_name.setdefault(name, []).append(values)
    return {n: float(np.concatenate(v).astype(np.float64).mean()) for n, v in by_name.items()}


check_calls(globals(), misuse)
