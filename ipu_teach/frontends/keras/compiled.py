"""Compiled networks: their graphs, their programs, and the weights on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np

from ipu_teach._support.progress import working
from ipu_teach.arguments import Among, Argument, Count, Natural, Numbers, Taken, check_calls
from ipu_teach.errors import ModelError, counted
from ipu_teach.frontends.ir import Ir, Run, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras import ipu, objectives
from ipu_teach.frontends.keras.batches import ArrayFeed, Batch, Feed
from ipu_teach.frontends.keras.network import Network, Nodes
from ipu_teach.frontends.keras.objectives import Objective, Shapes
from ipu_teach.frontends.keras.optimizers import optimizer_of
from ipu_teach.frontends.keras.recorded import refuse_options
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

FIT, EVALUATE, PREDICT = MODES = "fit", "evaluate", "predict"
PREDICTIONS = "predictions"
Scheduled = Annotated[
    str,
    Taken(
        is_schedule,
        f"give {' or '.join(map(repr, SCHEDULES))}.",
    ),
]
Key = tuple[str, int, Shapes]


class _TrainingOptions(TypedDict):
    """The attributes of `session.Training` that methods of a model set."""

    accumulation: int
    schedule: str
    off_chip: bool


class Compiled(Network):
    """A network with an optimiser, losses and metrics, and its programs on the device.

    - `compiles`: a list with a sentence about each compilation for the device.
    - `objectives`: the loss and the metrics of each output; empty before `compile` is called.
    - `compile_arguments`: the arguments of `compile` by name, except the optimiser.
    - `training_options`: the options of the training step. Methods of the model set them.
    - `other_state`: the device's variables that are not weights, such as the optimiser's state.
    """

    def __init__(self, inputs: Nodes, outputs: Nodes, name: str) -> None:
        super().__init__(inputs, outputs, name)
        self.stop_training = False
        self._config = ipu.current_config()
        self.training_options = _TrainingOptions(accumulation=1, schedule="", off_chip=False)
        self._runs: dict[Key, Run] = {}
        # The run whose device has the weights, or None.
        self._current_run: Run | None = None
        self.other_state: dict[str, Array] = {}
        self.compiles: list[str] = []
        self._steps: int | None = None
        self._written_rate: tuple[Run | None, float] = (None, 0.0)
        self.objectives: list[Objective] = []
        self.compile_arguments: dict[str, Argument] = {}

    # --- options ---

    def compile(
        self,
        optimizer: object = None,
        loss: object = None,
        loss_weights: object = None,
        metrics: object = None,
        weighted_metrics: object = None,
        run_eagerly: bool = False,
        steps_per_execution: Count | None = None,
        **others: object,
    ) -> None:
        """Set the optimiser, the losses and the metrics.

        For a model with several outputs, `loss` is a list with a loss for each output, a dict whose
        keys are the outputs' names, or a single loss for all outputs. `loss_weights` contains a
        factor for each loss. `metrics` and `weighted_metrics` are lists, or dicts whose keys are
        the outputs' names. `steps_per_execution` is the number of batches in a run of the device.
        If it is None, a run contains the batches of one update.

        :raises ModelError: without an optimiser, for an unknown optimiser, loss or metric, and for
            lists that do not fit the outputs.
        """
        refuse_options("compile", {"run_eagerly": run_eagerly, **others})
        if optimizer is None:
            raise misuse(
                "compile() was called without an optimizer. Keras' default is 'rmsprop', which the "
                "device does not implement.",
                "call model.compile(optimizer='adam', loss='mse') with your optimizer and loss.",
            )
        arguments: dict[str, Argument] = {
            "loss": loss,
            "loss_weights": loss_weights,
            "metrics": metrics,
            "weighted_metrics": weighted_metrics,
        }
        found = objectives.objectives_of(self.names.outputs, *arguments.values())
        self.optimizer = optimizer_of(optimizer)
        self.objectives = found
        self.compile_arguments = {**arguments, "steps_per_execution": steps_per_execution}
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
        self.training_options["accumulation"] = count
        self.training_options["off_chip"] = offload_weight_update_variables
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
        self.training_options["schedule"] = pipeline_schedule.lower()
        self.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica, offload_weight_update_variables
        )

    def set_pipeline_stage_assignment(self, stages: Sequence[Natural]) -> None:
        """Set the stage of each layer.

        :raises ModelError: if `stages` does not have one stage for each layer.
        """
        self.check_stages(stages)
        for layer, stage in zip(self.layers, stages, strict=True):
            for _, inner in layer.walk(""):
                inner.stage = stage
        self._forget()

    def _forget(self) -> None:
        """Discard all compiled programs and the optimiser's state, but keep the weights."""
        self._to_host()
        self._runs = {}
        self._current_run = None
        self.other_state = {}

    # --- graphs and runs ---

    def graph(
        self, mode: Annotated[str, Among(MODES)], batch: Count, shapes: Shapes | None = None
    ) -> Ir:
        """Return the graph for a batch of `batch` samples, without gradients.

        `mode` is "fit", "evaluate" or "predict". `shapes` are the shapes of the targets and sample
        weights, or None if there are no sample weights.

        :raises ModelError: before `compile` is called, except for "predict".
        """
        graph = Ir()
        outs = self.add_layers(graph, mode == FIT, batch)
        if mode == PREDICT:
            for number, out in enumerate(outs):
                graph.output(f"{PREDICTIONS}_{number}" if number else PREDICTIONS, out)
            return without_unused(graph)
        self._check_compiled(mode)
        stage = max(self.get_pipeline_stage_assignment(), default=0)
        objectives.add_objectives(graph, self.objectives, outs, shapes or Shapes(), stage)
        return without_unused(graph)

    def _check_compiled(self, mode: str) -> None:
        """Raise `ModelError` if `compile` has not been called; `mode` is the name of the caller."""
        if not any(objective.loss for objective in self.objectives):
            raise ModelError(f"""{mode}() was called before compile().
                next:  call model.compile(optimizer="sgd", loss="mse") first, with your loss.""")

    def _run(
        self,
        mode: str,
        batch: int,
        verbose: bool | int | str = 0,
        shapes: Shapes | None = None,
    ) -> Run:
        """Return the compiled program of a mode, and copy the weights to its device.

        The first call for a mode, a batch size and shapes compiles the program.

        :raises ModelError: if the model was created outside of an IPUStrategy's scope.
        """
        if self._config is None:
            raise ModelError("""The model was created outside of an IPUStrategy's scope, so it has
                no device to run on.
                next:  create it in the block `with ipu.ipu_strategy.IPUStrategy().scope():`.""")
        key = (mode, batch, shapes or Shapes())
        if key not in self._runs:
            self._runs[key] = self._compile(key, self._config)
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
        self._check_compiled(mode)
        accumulation = self.training_options["accumulation"]
        num_ipus = self._config.auto_select_ipus if self._config else 1
        num_stages = 1 + max(self.get_pipeline_stage_assignment(), default=0)
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

    def _compile(self, key: Key, config: ipu.IPUConfig) -> Run:
        """Compile the program for a mode, a batch size and shapes, and return it."""
        mode, batch, shapes = key
        graph = self.graph(mode, batch, shapes)
        factors = self._factors(mode)
        if mode == FIT:
            training = Training(
                self.optimizer.kind,
                [Group(self.optimizer.learning_rate, self.optimizer.numbers)],
                self.optimizer.scale,
                replicas=factors["replicas"],
                **self.training_options,
            )
            graph = training.transform(graph, graph.outputs["loss"], self.learnable(graph))
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
        self.other_state |= self._current_run.state()
        for path, layer in self.walk():
            for short in layer.weights:
                name = f"{path}.{short}"
                layer.weights[short] = self.other_state.pop(name, layer.weights[short])

    def _to_device(self) -> None:
        """Copy the layers' weights and the other variables to the device."""
        run = self._current_run
        if run is None:
            return
        state = {**self.other_state, **self.named_weights()}
        run.restore({name: values for name, values in state.items() if name in run.ir.variables})

    # --- runs over batches ---

    def _steps_of(self, mode: str, feed: Feed, requested: int | None) -> int | None:
        """Return the number of batches in an epoch, or None to use all batches that the data yield.

        `requested` is the number that the caller wants, or None. The product of the mode's factors
        is the number of batches in a run.

        :raises ModelError: if the batches do not fill complete runs.
        """
        factors = self._factors(mode)
        per_run = prod(factors.values())
        available = None if feed.is_endless else feed.steps
        steps = feed.steps if requested is None else requested
        samples = feed.samples
        remainder = 0
        if samples is not None and not (isinstance(feed, ArrayFeed) and feed.drop):
            remainder = samples % feed.size if self._is_incomplete(feed) else 0
        is_whole = (
            steps is None or steps and not steps % per_run and (per_run == 1 or not remainder)
        )
        if is_whole and (available is None or steps is None or steps <= available):
            return steps
        whole = (steps or 0) - bool(remainder and requested is None)
        raise self._unfilled(feed, factors, whole, remainder)

    def _is_incomplete(self, feed: Feed) -> bool:
        """Return whether the last batch of the data has fewer samples than the others."""
        dataset = getattr(feed, "dataset", None)
        return not getattr(dataset, "drop", False)

    def _unfilled(
        self, feed: Feed, factors: dict[str, int], steps: int, remainder: int
    ) -> ModelError:
        """Return the error for `steps` batches and `remainder` samples that fill no whole run."""
        per_run = prod(factors.values())
        if feed.samples is None:
            return ModelError(f"""The call was given {counted(steps, "batch", "batches")}, but a run
                takes {per_run}: {" * ".join(f"{name} {n}" for name, n in factors.items())}.
                next:  use a multiple of {per_run} as steps_per_epoch.""")
        size = feed.size
        batches = feed.samples // size
        fitting_steps = steps // per_run * per_run or per_run
        num_fitting = min(batches // per_run * per_run, fitting_steps)
        text = counted(steps, "batch", "batches")
        if remainder:
            text += f" and {counted(remainder, 'sample')} more"
        # Even without its incomplete last batch, the data may not fill complete runs.
        drop = ""
        if remainder and batches and not batches % per_run:
            drop = ", or drop the incomplete last batch: "
            drop += f"Dataset.batch({size}, drop_remainder=True)"
        return ModelError(f"""The call was given {counted(feed.samples, "sample")} for {text}, but
            the batches must fill runs of {per_run * size:,} samples:
            {batch_product("batch", size, factors)}.
            next:  pass a multiple of {per_run * size:,} samples, as in
            x[:{num_fitting * size}]{drop}.""")

    def _outputs(
        self,
        mode: str,
        batches: Iterator[Batch],
        steps: int | None,
        label: str,
        verbose: bool | int | str = 0,
    ) -> Iterator[tuple[dict[str, Array], int]]:
        """Yield (outputs by name, batch size) for each run, until `steps` batches have been used.

        If `steps` is None, the runs use all batches.

        :raises ModelError: if there are fewer batches than `steps`, or if they do not fill the last
            run.
        """
        per_run = prod(self._factors(mode).values())
        groups = _groups(batches, steps, per_run)
        with working(label, "run") as work:
            for group in work.each(groups, (steps or 0) // per_run):
                first = group[0]
                shapes = objectives.shapes_of(self.objectives, first.y, first.weights)
                run = self._run(mode, first.size, verbose, Shapes() if mode == PREDICT else shapes)
                if mode == FIT:
                    self._write_rate(run)
                yield run(**self._fed(run, group, mode)), first.size

    def _write_rate(self, run: Run) -> None:
        """Write the learning rate to the device, if it has changed."""
        written = (run, self.optimizer.learning_rate)
        if self._written_rate != written:
            run.write("rate", self.optimizer.learning_rate)
            self._written_rate = written

    def _fed(self, run: Run, group: Sequence[Batch], mode: str) -> dict[str, Array]:
        """Return a dict that maps the names of the graph's inputs to the arrays of a run's batches.

        :raises ModelError: if the targets are missing.
        """
        count = len(self.outputs)
        first = group[0]
        columns: list[tuple[str, list[Array | None]]] = []
        for number, name in enumerate(self.input_keys):
            columns.append((name, [batch.x[number] for batch in group]))
        for letter, width in (("y", len(first.y)), ("w", len(first.weights))):
            for number in range(width):
                arrays = [(b.y if letter == "y" else b.weights)[number] for b in group]
                columns.append((objectives.key(letter, number, count), arrays))
        fed = {
            name: _as_input(run.ir.inputs[name], np.concatenate(arrays))  # type: ignore[arg-type]
            for name, arrays in columns
            if name in run.ir.inputs and all(array is not None for array in arrays)
        }
        missing = [name for name in run.ir.inputs if name not in fed and name[0] == "y"]
        if missing and mode != PREDICT:
            raise misuse(
                f"{mode}() was called without targets for "
                f"{counted(len(missing), 'output')} with a loss or a metric.",
                f"pass the targets: model.{mode}(x, y).",
            )
        return fed

    # --- weights ---

    def current_weights(self) -> dict[str, Array]:
        """Return a dict of all weights, copied from the device; the keys are variable names."""
        self._to_host()
        return self.named_weights()

    def get_weights(self) -> list[Array]:
        """Return copies of all weights, in the order of the layers."""
        return [np.array(w) for w in self.current_weights().values()]

    def set_weights(self, weights: Sequence[Numbers]) -> None:
        """Set all weights, in the order of the layers. Raises `ModelError` if a shape differs."""
        self._to_host()
        arrays = self.check_weights(weights)
        for (layer, short), array in zip(self.weight_places(), arrays, strict=True):
            layer.weights[short] = array
        self._to_device()

    @property
    def report(self) -> Report:
        """The report of the program that ran last.

        :raises ModelError: if no program has run yet, or none since `compile` was called or an
            option was changed.
        """
        if self._current_run is None:
            raise ModelError("""The model has no report, because it has not run yet.
                next:  call fit(), evaluate() or predict() first.""")
        return self._current_run.engine.report


def _groups(batches: Iterator[Batch], steps: int | None, per_run: int) -> Iterator[list[Batch]]:
    """Yield lists of `per_run` batches of equal size, until `steps` batches have been yielded.

    If `steps` is None, yield all batches.

    :raises ModelError: if there are fewer batches than `steps`, if they do not fill the last run,
        or if the sizes of the batches of a run differ.
    """
    count = 0
    while steps is None or count < steps:
        group = list(islice(batches, per_run))
        if not group and steps is None and count:
            return
        if len(group) < per_run:
            expected = f"a run takes {per_run}" if steps is None else f"the call needs {steps}"
            raise misuse(
                f"The data ended after {counted(count + len(group), 'batch', 'batches')}, but "
                f"{expected}.",
                "yield more batches, or lower steps_per_epoch and epochs.",
            )
        sizes = [batch.size for batch in group]
        if len(set(sizes)) > 1:
            raise misuse(
                f"A run takes batches of equal size, but they have {shown_sizes(sizes)} samples.",
                "yield batches of equal size, or use steps_per_execution=1.",
            )
        count += len(group)
        yield group


def shown_sizes(sizes: Sequence[int]) -> str:
    """Return several sizes as a string, such as "8, 8 and 4"."""
    return f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"


def _as_input(value: Value, array: Array) -> Array:
    """Return the host's array with the shape and dtype that an input of the graph needs.

    A dimension of length 1 at the end is added or removed, as in Keras, and whole numbers in an
    array of floats become integers.
    """
    shape, host_shape = value.shape[1:], array.shape[1:]
    if host_shape != shape and host_shape in (
        (*shape, 1),
        (shape[:-1] if shape[-1:] == (1,) else None),
    ):
        array = array.reshape(len(array), *shape)
    if not value.floating and array.dtype.kind == "f" and np.array_equal(array, np.floor(array)):
        array = array.astype(np.int64)
    return array


check_calls(globals(), misuse, without=("shown_sizes",))
