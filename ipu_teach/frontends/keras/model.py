"""Keras' models: layers as a graph, with fit, evaluate, predict and saved weights."""

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


class _Layers:
    """The layers of a model and their weights, without a device."""

    def __init__(self, inputs: Node, outputs: Node, name: str) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self._nodes = _in_order(outputs)
        if inputs not in self._nodes or sum(n.layer is None for n in self._nodes) > 1:
            raise ModelError("""A model was given an output that does not depend on its input alone.
                next:  give Model(inputs, outputs) the Input on which its layers were called.""")
        self.layers = [*dict.fromkeys(n.layer for n in self._nodes if n.layer is not None)]
        self._name_layers()

    def _name_layers(self) -> None:
        """Name each layer without a name after its kind, with a number for duplicates.

        Raises `ModelError` if two layers have the same name.
        """
        taken = {layer.name for layer in self.layers}
        for layer in self.layers:
            names = [layer.kind, *(f"{layer.kind}_{i}" for i in range(1, len(self.layers)))]
            layer.name = layer.name or next(n for n in names if n not in taken)
            taken.add(layer.name)
        if len(taken - {""}) < len(self.layers):
            raise ModelError(f"""Layers of a model have the same name:
                {", ".join(layer.name for layer in self.layers)}.
                next:  give each layer a different name, or none.""")

    def get_pipeline_stage_assignment(self) -> list[int]:
        """Return the stage of each layer."""
        return [layer.stage for layer in self.layers]

    def _learnable(self, graph: Ir) -> list[ir.Value]:
        """Return the variables that the optimiser changes."""
        return [
            graph.variables[f"{layer.name}.{short}"]
            for layer in self.layers
            for short in layer.weights
            if layer.trainable and short not in layer.fixed
        ]

    def _named_weights(self) -> dict[str, Array]:
        """Return all weights, by the names of the variables."""
        return {f"{a.name}.{short}": w for a in self.layers for short, w in a.weights.items()}

    def count_params(self) -> int:
        """Return the number of elements in all weights."""
        return sum(layer.count for layer in self.layers)

    def summary(self, print_fn: Callable[[str], object] = print) -> None:
        """Print the layers, with their output shapes, numbers of weights and stages."""
        fixed = sum(w.size for a in self.layers for s, w in a.weights.items() if s in a.fixed)
        shapes = {n.layer: (None, *n.shape) for n in self._nodes if n.layer is not None}
        rows = [("Layer (type)", "Output Shape", "Param #", "Stage")]
        rows += [
            (f"{a.name} ({type(a).__name__})", str(shapes[a]), f"{a.count:,}", str(a.stage))
            for a in self.layers
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        print_fn(f'Model: "{self.name}"')
        for row in rows:
            print_fn("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())
        total = self.count_params()
        print_fn(f"Total params: {total:,} (trainable {total - fixed:,}, others {fixed:,})")


class Model(_Layers):
    """A model: the layers that were called between an input and an output.

    `compiles` has a sentence about each compilation for the device.
    """

    def __init__(self, inputs: Node, outputs: Node, name: str = "model") -> None:
        super().__init__(inputs, outputs, name)
        self.stop_training = False
        self._config = ipu.current_config()
        self._options = _TrainingOptions(accumulation=1, schedule="", off_chip=False)
        self._runs: dict[tuple[str, int], Run] = {}
        self._current_run: Run | None = None  # the run whose device has the weights, if any
        self._other_state: dict[str, Array] = {}  # variables of the device that are not weights
        self.compiles: list[str] = []
        self._loss: Loss | None = None

    # --- options ---

    def compile(
        self,
        optimizer: object = "sgd",
        loss: object = None,
        metrics: Sequence[Metric] = (),
        steps_per_execution: Count | None = None,
    ) -> None:
        """Set the optimiser, the loss and the metrics.

        `steps_per_execution` is the number of batches in a run of the device. Raises `ModelError`
        for an unknown optimiser or loss.
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
        """Set the number of batches in an update, and whether the optimiser's state is off-chip."""
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
        """Discard all compiled programs and the optimiser's state. The weights stay."""
        self._to_host()
        self._runs = {}
        self._current_run = None
        self._other_state = {}

    # --- graphs and runs ---

    def graph(self, mode: Annotated[str, Among(MODES)], batch: Count) -> Ir:
        """Return the graph of one batch, without gradients, for "fit", "evaluate" or "predict"."""
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
        """Return the loss. Raises `ModelError` before `compile`; `mode` is the caller."""
        if self._loss is None:
            raise ModelError(f"""{mode}() was called before compile().
                next:  call model.compile(optimizer="sgd", loss=…) first.""")
        return self._loss

    def _run(self, mode: str, batch: int, verbose: bool | int | str = 0) -> Run:
        """Return the run of a mode for batches of a size, with the weights on the device.

        The first call compiles it. Raises `ModelError` if the model was created outside of a scope.
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
        """Return the number of batches in a run, as factors: steps, accumulation and replicas.

        Raises `ModelError` if `steps_per_execution` is not a multiple of an update.
        """
        if mode != FIT:
            return {"steps": 1, "accumulation": 1, "replicas": 1}
        self._compiled_loss(mode)
        k = self._options["accumulation"]
        ipus = self._config.auto_select_ipus if self._config else 1
        replicas = checked_count(
            "replicas", ipus // (1 + max(self.get_pipeline_stage_assignment()))
        )
        steps = self._steps or k * replicas
        if steps % (k * replicas):
            raise ModelError(f"""steps_per_execution is {steps}, but an update takes
                {k * replicas} batches, accumulation {k} * replicas {replicas}.
                next:  give a multiple of {k * replicas}.""")
        return {"steps": steps // (k * replicas), "accumulation": k, "replicas": replicas}

    def _compile(self, mode: str, batch: int, config: ipu.IPUConfig) -> Run:
        """Compile a mode for batches of a size."""
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
        run.restore({n: a for n, a in state.items() if n in run.ir.variables})

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
        """Train, and return the mean figures of each epoch.

        Ctrl-C ends the training after the current run, with the weights of that run. Raises
        `ModelError` if the samples do not fill complete runs, and before `compile`.
        """
        data = _dataset(x, y, batch_size, shuffle)
        steps = _steps(self._factors(FIT), data, steps_per_epoch)
        self._run(FIT, data.size, verbose)
        history = History()
        self.stop_training = False
        watchers = [history, *callbacks]
        for watcher in watchers:
            watcher.model = self
            watcher.on_train_begin()
        feed = data.batches()
        for epoch in range(initial_epoch, epochs):
            for watcher in watchers:
                watcher.on_epoch_begin(epoch)
            if data.times == 1:
                feed = data.batches()
            logs = self._train_epoch(
                data.size,
                feed,
                steps,
                label=f"epoch {epoch + 1} of {epochs}",
                watchers=watchers,
            )
            if validation_data is not None:
                inputs, targets = _input_and_target(validation_data)
                figures = self._evaluate(_dataset(inputs, targets, data.size, False))
                logs |= {f"val_{name}": value for name, value in figures.items()}
            if verbose:
                listed = ", ".join(f"{name} {value:.4f}" for name, value in logs.items())
                print(f"Epoch {epoch + 1}/{epochs}: {listed}")
            for watcher in watchers:
                watcher.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        for watcher in watchers:
            watcher.on_train_end()
        return history

    def _train_epoch(
        self, batch: int, feed: Batches, steps: int, label: str, watchers: Sequence[Callback]
    ) -> dict[str, float]:
        """Run the steps of an epoch, and return the means of their figures."""
        run = self._run(FIT, batch)
        run.write("rate", self.optimizer.learning_rate)
        figures: list[dict[str, Array]] = []
        for outputs in self._outputs(run, feed, steps, label):
            figures.append(outputs)
            for watcher in watchers:
                watcher.on_train_batch_end(outputs)
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
        """Return the loss, or with metrics a list of the loss and the metrics.

        With `return_dict`, return them by name. Raises `ModelError` if the samples do not fill
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

        An incomplete last batch is padded with zeros, whose outputs are left out.
        """
        data = _dataset(x, None, batch_size, False)
        array = data.arrays[0]
        size = data.size
        run = self._run(PREDICT, size, verbose)
        margin = -len(array) % size
        padded = np.concatenate([array, np.zeros((margin, *array.shape[1:]), array.dtype)])
        batches = Dataset((padded,), size).batches()
        outputs = self._outputs(run, batches, len(padded) // size, PREDICT)
        predictions: Array = np.concatenate([f["predictions"][0] for f in outputs])
        return predictions[: len(array)]

    def _outputs(
        self, run: Run, batches: Batches, steps: int, label: str
    ) -> Iterator[dict[str, Array]]:
        """Yield the outputs of each run, for `steps` batches in total."""
        batches_per_run = run.micro_batches
        runs = steps // batches_per_run
        with working(label, "run") as work:
            for _ in work.each(range(runs), runs):
                arrays = zip(*islice(batches, batches_per_run), strict=True)
                fed = {name: np.concatenate(a) for name, a in zip(("x", "y"), arrays, strict=False)}
                if "y" in fed and "y" in run.ir.inputs:
                    shape = run.ir.inputs["y"].shape[1:]
                    if fed["y"].shape[1:] in ((), (1,)) and shape in ((), (1,)):
                        fed["y"] = fed["y"].reshape(-1, *shape)
                yield run(**{name: a for name, a in fed.items() if name in run.ir.inputs})

    # --- weights ---

    def get_weights(self) -> list[Array]:
        """Return copies of all weights, in the order of the layers."""
        self._to_host()
        return [np.array(w) for w in self._named_weights().values()]

    def set_weights(self, weights: Sequence[Numbers]) -> None:
        """Set all weights, in the order of the layers. Raises `ModelError` for other shapes."""
        self._to_host()
        places = [(layer, short) for layer in self.layers for short in layer.weights]
        shapes = [layer.weights[short].shape for layer, short in places]
        arrays = [np.asarray(w, np.float32) for w in weights]
        if [w.shape for w in arrays] != shapes:
            raise ModelError(f"""set_weights() was given {shown([w.shape for w in arrays])}, but the
                model has weights of {shown(shapes)}.
                next:  give the weights of a model with the same layers.""")
        for (layer, short), w in zip(places, arrays, strict=True):
            layer.weights[short] = w
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
        weights = [v.initial for v in ir.load(path).variables.values()]
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
        first, *rest = self._parts
        if isinstance(first, Node):
            node = first
        elif first.input_shape is not None:
            node = Node(first.input_shape)
            rest = self._parts
        else:
            raise ModelError(f"""The first layer, {first.kind}, has no input shape.
                next:  give it input_shape=(…), without the batch, or put Input((…)) before it.""")
        start = node
        for layer in rest:
            if not isinstance(layer, Layer):
                raise ModelError(f"""A Sequential was given {shown(layer)}.
                    next:  give it layers, as in Sequential([Dense(10, input_shape=(64,))]).""")
            node = layer(node)
        super().__init__(start, node, self._title)


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
        batches = Dataset.from_tensor_slices(tuple(np.asarray(a) for a in arrays)).batch(batch)
        return batches.shuffle() if shuffle else batches
    if not x.size:
        raise ModelError("""The dataset is not divided into batches.
            next:  call dataset.batch(32, drop_remainder=True) first.""")
    return x


def _steps(factors: dict[str, int], data: Dataset, requested: int | None) -> int:
    """Return the number of batches in an epoch.

    Raises `ModelError` unless they fill complete runs; `factors` are the batches of a run, and
    `requested` is the argument of the call, if any.
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
    fits = min(batches // batches_per_run * batches_per_run, fitting_steps)
    listed = counted(steps, "batch", "batches")
    if remainder:
        listed += f" and {counted(remainder, 'sample')} more"
    raise ModelError(f"""{counted(data.samples, "sample")} were given for {listed}, but a run takes
        {samples_per_run:,} samples: {batch_product("batch", data.size, factors)}.
        next:  give a multiple of {samples_per_run:,} samples, as in x[:{fits * data.size}];
        Dataset.batch({data.size}, drop_remainder=True) drops an incomplete last batch.""")


def _means(outputs: list[dict[str, Array]]) -> dict[str, float]:
    """Return the means of the outputs of several runs, by name."""
    by_name: dict[str, list[Array]] = {}
    for figures in outputs:
        for name, values in figures.items():
            by_name.setdefault(name, []).append(values)
    return {n: float(np.concatenate(v).astype(np.float64).mean()) for n, v in by_name.items()}


check_calls(globals(), misuse)
