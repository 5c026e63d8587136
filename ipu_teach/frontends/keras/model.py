"""Models: layers as a graph, trained, asked and saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import prod
from os import PathLike
from typing import Annotated, Any

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
    machine,
    without_unused,
)
from ipu_teach.schedules import GROUPED, SCHEDULES

FIT, EVALUATE, PREDICT = MODES = "fit", "evaluate", "predict"
Scheduled = Annotated[
    str,
    Taken(
        lambda v: isinstance(v, str) and v.lower() in SCHEDULES,
        f"give {' or '.join(map(repr, SCHEDULES))}.",
    ),
]
Metric = Annotated[str, Among(METRICS)]
Verbose = bool | Annotated[int, Between(0, 2)] | Annotated[str, Among(("auto",))]
Samples = Annotated[
    Any,
    Taken(
        lambda v: isinstance(v, Dataset) or is_numeric(v) and np.ndim(v) > 0,
        "give an array whose first dimension counts samples, or a Dataset.",
    ),
]
Pairs = Annotated[
    Any,
    Taken(
        lambda v: (
            isinstance(v, Dataset)
            or isinstance(v, (tuple, list))
            and len(v) == 2
            and all(map(is_numeric, v))
        ),
        "give (x, y), two arrays, or a Dataset.",
    ),
]


class Model:
    """A model from its input to its output, as layers were called.

    `compiles`: a sentence for each time that something was compiled for the device.
    """

    def __init__(self, inputs: Node, outputs: Node, name: str = "model") -> None:
        self.name, self.stop_training = name, False
        self.inputs, self.outputs = inputs, outputs
        self._nodes = _in_order(outputs)
        if inputs not in self._nodes or sum(n.layer is None for n in self._nodes) > 1:
            raise ModelError("""A model was given an output that does not come from its input alone.
                next:  give Model(inputs, outputs) the Input that its layers were called on.""")
        self.layers = [*dict.fromkeys(n.layer for n in self._nodes if n.layer is not None)]
        self._name_layers()
        self._config = ipu.here()
        self._options: dict[str, Any] = {"accumulation": 1, "schedule": "", "off_chip": False}
        self._runs: dict[tuple[Any, ...], Run] = {}
        self._on: Run | None = None
        self._rest: dict[str, Any] = {}  # what is on the device beside weights
        self.compiles: list[str] = []
        self._loss: Loss | None = None

    def _name_layers(self) -> None:
        taken = {layer.name for layer in self.layers}
        for layer in self.layers:
            names = [layer.kind, *(f"{layer.kind}_{i}" for i in range(1, len(self.layers)))]
            layer.name = layer.name or next(n for n in names if n not in taken)
            taken.add(layer.name)
        if len(taken - {""}) < len(self.layers):
            raise ModelError(f"""Layers of a model have the same name:
                {", ".join(layer.name for layer in self.layers)}.
                next:  give each a name of its own, or none.""")

    # --- options ---

    def compile(
        self,
        optimizer: Any = "sgd",
        loss: Any = None,
        metrics: Sequence[Metric] = (),
        steps_per_execution: Count | None = None,
    ) -> None:
        """How the model learns. `steps_per_execution`: batches of a run of the device. Raises
        `ModelError`."""
        self.optimizer, self._loss = optimizer_of(optimizer), loss_of(loss)
        self._metrics = [*metrics]
        self._steps = steps_per_execution
        self._forget()

    def set_gradient_accumulation_options(
        self,
        gradient_accumulation_steps_per_replica: Count = 1,
        offload_weight_update_variables: bool = False,
    ) -> None:
        """One update for so many batches; what the optimiser keeps in streaming memory."""
        count = gradient_accumulation_steps_per_replica
        self._options |= {"accumulation": count, "off_chip": offload_weight_update_variables}
        self._forget()

    def set_pipelining_options(
        self,
        gradient_accumulation_steps_per_replica: Count = 1,
        pipeline_schedule: Scheduled = GROUPED,
        offload_weight_update_variables: bool = False,
    ) -> None:
        """Stages work at the same time, each on another batch of those of an update."""
        self._options["schedule"] = pipeline_schedule.lower()
        self.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica, offload_weight_update_variables
        )

    def get_pipeline_stage_assignment(self) -> list[int]:
        """The stage of each layer."""
        return [layer.stage for layer in self.layers]

    def set_pipeline_stage_assignment(self, stages: Sequence[Natural]) -> None:
        """Set the stage of each layer. Raises `ModelError`."""
        if len(stages) != len(self.layers):
            raise ModelError(f"""{len(self.layers)} layers were given {len(stages)} stages.
                next:  give a stage for each: {", ".join(layer.name for layer in self.layers)}.""")
        for layer, stage in zip(self.layers, stages, strict=True):
            layer.stage = stage
        self._forget()

    def _forget(self) -> None:
        """What comes next is compiled anew; the optimiser begins again."""
        self._to_host()
        self._runs, self._on, self._rest = {}, None, {}

    # --- graphs and runs ---

    def graph(self, mode: Annotated[str, Among(MODES)], batch: Count) -> Ir:
        """The operations of a batch, before gradients: "fit", "evaluate" or "predict"."""
        graph = Ir()
        values = {self.inputs: graph.input((batch, *self.inputs.shape), "x")}
        for node in self._nodes:
            if node.layer is not None:
                given = (values[parent] for parent in node.parents)
                values[node] = node.layer.add_to(graph, mode == FIT, *given)
        out = values[self.outputs]
        if mode == PREDICT:
            graph.output("predictions", out)
            return without_unused(graph)
        loss = self._compiled(mode)
        with graph.at(path="loss", stage=max(self.get_pipeline_stage_assignment())):
            y = loss.target(graph, out)
            graph.output("loss", loss(graph, out, y))
        for name in self._metrics:
            with graph.at(path=name, stage=max(self.get_pipeline_stage_assignment())):
                graph.output(name, METRICS[name](graph, out, y))
        return without_unused(graph)

    def _compiled(self, mode: str) -> Loss:
        if self._loss is None:
            raise ModelError(f"""{mode}() was called before compile().
                next:  model.compile(optimizer="sgd", loss=…) says how the model learns.""")
        return self._loss

    def _learnable(self, graph: Ir) -> list[ir.Value]:
        return [
            graph.variables[f"{layer.name}.{short}"]
            for layer in self.layers
            for short in layer.weights
            if layer.trainable and short not in layer.fixed
        ]

    def _run(self, mode: str, batch: int, verbose: Any = 0) -> Run:
        """What runs a mode with batches of that size, with the weights as they are."""
        if self._config is None:
            raise ModelError("""The model was made outside of an IPUStrategy's scope, so no device
                runs it.
                next:  make it within `with ipu.ipu_strategy.IPUStrategy().scope():`.""")
        key = (mode, batch)
        if key not in self._runs:
            self._runs[key] = self._compile(mode, batch, self._config)
            if verbose and len(self._runs) > 1:
                print(self.compiles[-1])
        if self._on is not self._runs[key]:
            self._to_host()
            self._on = self._runs[key]
            self._to_device()
        return self._on

    def _factors(self, mode: str) -> dict[str, int]:
        """How many batches a run takes, as factors. Raises `ModelError`."""
        if mode != FIT:
            return {"steps": 1, "accumulation": 1, "replicas": 1}
        self._compiled(mode)
        k = self._options["accumulation"]
        ipus = self._config.auto_select_ipus if self._config else 1
        replicas = checked_count(
            "replicas", ipus // (1 + max(self.get_pipeline_stage_assignment()))
        )
        steps = self._steps or k * replicas
        if steps % (k * replicas):
            raise ModelError(f"""steps_per_execution is {steps}, and an update takes
                {k * replicas} batches, accumulation {k} * replicas {replicas}.
                next:  give a multiple of {k * replicas}.""")
        return {"steps": steps // (k * replicas), "accumulation": k, "replicas": replicas}

    def _compile(self, mode: str, batch: int, config: ipu.IPUConfig) -> Run:
        graph, factors = self.graph(mode, batch), self._factors(mode)
        if mode == FIT:
            how = Training(
                self.optimizer.kind,
                [Group(self.optimizer.learning_rate, self.optimizer.numbers)],
                self.optimizer.scale,
                replicas=factors["replicas"],
                **self._options,
            )
            graph = how.transform(graph, graph.outputs["loss"], self._learnable(graph))
        model = machine(config.ipu_model.version, config.ipu_model.tiles_per_ipu)
        run = compile_graph(mode, graph, model, factors["steps"], config.options)
        target = run.engine.report.target
        self.compiles.append(
            f"Compiled {mode} for batches of {batch}, {counted(target.num_ipus, 'IPU')} with "
            f"{counted(target.tiles_per_ipu, 'tile')} each."
        )
        return run

    def _to_host(self) -> None:
        """The weights as they are on the device become those of the layers."""
        if self._on is None:
            return
        self._rest |= self._on.state()
        for layer in self.layers:
            for short in layer.weights:
                name = f"{layer.name}.{short}"
                layer.weights[short] = self._rest.pop(name, layer.weights[short])

    def _to_device(self) -> None:
        """The layers' weights, and what else there was, go to the device."""
        if self._on is None:
            return
        state = {**self._rest, **self._named_weights()}
        self._on.restore({n: a for n, a in state.items() if n in self._on.ir.variables})

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
        """Train, and return what each epoch came to. Ctrl-C ends it between two steps; the weights
        are those of the step before. Raises `ModelError`."""
        data = _dataset(x, y, batch_size, shuffle)
        steps = _steps(self._factors(FIT), data, steps_per_epoch)
        self._run(FIT, data.size, verbose)
        history, self.stop_training = History(), False
        told = [history, *callbacks]
        for each in told:
            each.model = self
            each.on_train_begin()
        feed = data.batches()
        for epoch in range(initial_epoch, epochs):
            for each in told:
                each.on_epoch_begin(epoch)
            run = self._run(FIT, data.size)
            if data.times == 1:
                feed = data.batches()
            run.write("rate", self.optimizer.learning_rate)
            figures: list[dict[str, Any]] = []
            for figure in self._each(run, feed, steps, f"epoch {epoch + 1} of {epochs}"):
                figures.append(figure)
                for each in told:
                    each.on_train_batch_end(figure)
            logs = _means(figures)
            if validation_data is not None:
                found = self.evaluate(*_pair(validation_data), data.size, 0, return_dict=True)
                logs |= {f"val_{name}": value for name, value in found.items()}
            if verbose:
                words = ", ".join(f"{name} {value:.4f}" for name, value in logs.items())
                print(f"Epoch {epoch + 1}/{epochs}: {words}")
            for each in told:
                each.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        for each in told:
            each.on_train_end()
        return history

    def evaluate(
        self,
        x: Samples,
        y: Numbers | None = None,
        batch_size: Count = 32,
        verbose: Verbose = 0,
        steps: Count | None = None,
        return_dict: bool = False,
    ) -> Any:
        """The loss, or a list of it and the metrics. Raises `ModelError`."""
        data = _dataset(x, y, batch_size, False)
        count = _steps(self._factors(EVALUATE), data, steps)
        run = self._run(EVALUATE, data.size, verbose)
        logs = _means([*self._each(run, data.batches(), count, EVALUATE)])
        figures = list(logs.values())
        return logs if return_dict else figures[0] if len(figures) == 1 else figures

    def predict(self, x: Samples, batch_size: Count = 32, verbose: Verbose = 0) -> Any:
        """What comes out for each sample; a last batch that is not whole is filled up with zeros,
        and what comes of them left out."""
        data = _dataset(x, None, batch_size, False)
        array, size = data.arrays[0], data.size
        run = self._run(PREDICT, size, verbose)
        margin = -len(array) % size
        filled = np.concatenate([array, np.zeros((margin, *array.shape[1:]), array.dtype)])
        whole_batches = Dataset((filled,), size)
        found = self._each(run, whole_batches.batches(), len(filled) // size, PREDICT)
        return np.concatenate([f["predictions"][0] for f in found])[: len(array)]

    def _each(
        self, run: Run, batches: Iterator[tuple[Any, ...]], steps: int, what: str
    ) -> Iterator[dict[str, Any]]:
        """What the runs return, one after the other, of so many batches."""
        per = run.micro_batches
        with working(what, "run") as work:
            for _ in work.each(range(steps // per), steps // per):
                arrays = zip(*islice(batches, per), strict=True)
                fed = {name: np.concatenate(a) for name, a in zip(("x", "y"), arrays, strict=False)}
                if "y" in fed and "y" in run.ir.inputs:
                    shape = run.ir.inputs["y"].shape[1:]
                    if fed["y"].shape[1:] in ((), (1,)) and shape in ((), (1,)):
                        fed["y"] = fed["y"].reshape(-1, *shape)
                yield run(**{name: a for name, a in fed.items() if name in run.ir.inputs})

    # --- weights ---

    def _named_weights(self) -> dict[str, Any]:
        return {f"{a.name}.{short}": w for a in self.layers for short, w in a.weights.items()}

    def get_weights(self) -> list[Any]:
        """All weights, in the order of the layers."""
        self._to_host()
        return [np.array(w) for w in self._named_weights().values()]

    def set_weights(self, weights: Sequence[Numbers]) -> None:
        """Set all of them, in the order of the layers. Raises `ModelError`."""
        self._to_host()
        mine = [(layer, short) for layer in self.layers for short in layer.weights]
        wants = [layer.weights[short].shape for layer, short in mine]
        given = [np.asarray(w, np.float32) for w in weights]
        if [w.shape for w in given] != wants:
            raise ModelError(f"""Weights of {shown([w.shape for w in given])} were given to a model
                that has {shown(wants)}.
                next:  give the weights of a model with the same layers.""")
        for (layer, short), w in zip(mine, given, strict=True):
            layer.weights[short] = w
        self._to_device()

    def save_weights(self, path: str | PathLike[str]) -> None:
        """Write all weights: a file of the kit, a graph that has variables alone."""
        file = Ir()
        self._to_host()
        for name, w in self._named_weights().items():
            file.variable(w, name)
        ir.save(file, path)

    def load_weights(self, path: str | PathLike[str]) -> None:
        """Set the weights that `save_weights` wrote, in the order of the layers. Raises
        `ModelLoadError`."""
        found = [v.initial for v in ir.load(path).variables.values()]
        try:
            self.set_weights(found)
        except ModelError as error:
            raise ModelLoadError(error.tried, where=str(path), next_step=error.next_step) from None

    # --- to look at ---

    @property
    def report(self) -> Any:
        """The report of what ran last."""
        if self._on is None:
            raise ModelError("""Nothing has run, so there is no report.
                next:  call fit(), evaluate() or predict() before.""")
        return self._on.engine.report

    def count_params(self) -> int:
        """How many numbers the weights are."""
        return sum(layer.count for layer in self.layers)

    def summary(self, print_fn: Callable[[str], Any] = print) -> None:
        """Print the layers with their shapes, weights and stages."""
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


class Sequential(Model):
    """Layers one behind the other. The first has an `input_shape`, or an Input stands before it;
    layers may be added until the model is used."""

    def __init__(self, layers: Sequence[Layer | Node] = (), name: str = "sequential") -> None:
        self._given, self._title = [*layers], name
        if self._given:
            self._chain()

    def add(self, layer: Layer | Node) -> None:
        """One more layer at the end."""
        self._given.append(layer)
        self._chain()

    def __getattr__(self, name: str) -> Any:
        if name in ("layers", "_on", "_config") and not self._given:
            raise ModelError("""The model has no layers yet.
                next:  model.add(Dense(10, input_shape=(64,))) adds one.""")
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def _chain(self) -> None:
        first, *rest = self._given
        if isinstance(first, Node):
            node = first
        elif first.input_shape is not None:
            node, rest = Node(first.input_shape), self._given
        else:
            raise ModelError(f"""The first layer, {first.kind}, does not know what it is fed.
                next:  give it input_shape=(…), without the batch, or put Input((…)) before it.""")
        start = node
        for layer in rest:
            if not isinstance(layer, Layer):
                raise ModelError(f"""A Sequential was given {shown(layer)}.
                    next:  give it layers, as in Sequential([Dense(10, input_shape=(64,))]).""")
            node = layer(node)
        super().__init__(start, node, self._title)


def _in_order(last: Node) -> list[Node]:
    """The nodes that lead to one, each after its parents."""
    found: dict[Node, None] = {}

    def visit(node: Node) -> None:
        for parent in node.parents:
            if parent not in found:
                visit(parent)
        found[node] = None

    visit(last)
    return list(found)


def _pair(given: Any) -> tuple[Any, Any]:
    return (given, None) if isinstance(given, Dataset) else tuple(given)


def _dataset(x: Any, y: Any, batch: int, shuffle: bool) -> Dataset:
    """What a call was given, in batches."""
    if not isinstance(x, Dataset):
        arrays = (x,) if y is None else (x, y)
        made = Dataset.from_tensor_slices(tuple(np.asarray(a) for a in arrays)).batch(batch)
        return made.shuffle() if shuffle else made
    if not x.size:
        raise ModelError("""A dataset without batches was given.
            next:  dataset.batch(32, drop_remainder=True) before.""")
    return x


def _steps(factors: dict[str, int], data: Dataset, wanted: int | None) -> int:
    """How many batches an epoch has. Raises `ModelError` where they are not whole runs."""
    batches, over = divmod(data.samples, data.size)
    over = 0 if data.drop else over
    per = prod(factors.values())
    steps = checked_count(
        "the number of steps", batches * min(data.times, 1) if wanted is None else wanted, 0
    )
    each = per * data.size
    if not over and steps and not steps % per and steps <= batches * data.times:
        return steps
    fits = min(batches // per * per, steps // per * per or per)
    asked = counted(steps, "batch", "batches") + (f", and {over} are over" if over else "")
    raise ModelError(f"""{counted(data.samples, "sample")} were to be {asked}; a run takes
        {each:,}: {batch_product("batch", data.size, factors)}.
        next:  give a multiple of {each:,}, as in x[:{fits * data.size}];
        Dataset.batch({data.size}, drop_remainder=True) leaves out what is over.""")


def _means(found: list[dict[str, Any]]) -> dict[str, float]:
    """The means of what runs returned, by name."""
    several: dict[str, list[Any]] = {}
    for figures in found:
        for name, values in figures.items():
            several.setdefault(name, []).append(values)
    return {n: float(np.concatenate(v).astype(np.float64).mean()) for n, v in several.items()}


check_calls(globals(), misuse)
