"""Connectionist temporal classification (CTC): the loss of sequences of labels, with its gradient.

    plan = ctc_loss.plan(graph, FLOAT, FLOAT, batch, max_time, max_labels, classes)
    x = ctc_loss.create_data_input(graph, FLOAT, batch, max_time, classes, plan)
    labels = ctc_loss.create_labels_input(graph, UNSIGNED_INT, batch, max_labels, plan)
    loss, gradient = ctc_loss.calc_loss_and_gradient_logits(
        graph, FLOAT, x, labels, data_lengths, label_lengths, prog, 0, plan
    )

A sequence of n labels has 2 n + 1 positions: a blank, then each label followed by a blank. A loop
over the time steps computes the logarithm of the probability of all paths that end at each position
(alpha). A second loop, backward in time, computes the logarithm of the probability of all paths
from each position to the end (beta). A sample's positions are divided over the workers of several
tiles. Each step of a loop is one compute set, in which the workers exchange the probabilities at
their borders. The gradient follows from alpha and beta in a last compute set.

Cycles are PopLibs' estimates of its vertices (popnn/PerformanceEstimation.hpp). PopLibs' plan also
divides the time steps, and runs the two loops at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, Input, Output, Tensor, Vector, Vertex, concat
from ipu_teach.poplibs.laying import Edges, linear, step, typed
from ipu_teach.poplibs.library import (
    OWN,
    Row,
    advised,
    as_given,
    check_dtype,
    check_same,
    check_sizes,
    library,
    refused,
)
from ipu_teach.poplibs.options import Option, Options, settled
from ipu_teach.poplibs.placing import balanced_partition, dealt
from ipu_teach.poplibs.popnn.recurrent import TimeLoop
from ipu_teach.poplibs.popnn.softmax import log_softmax
from ipu_teach.poplibs.popops import (
    cast,
    create_sliceable_tensor,
    dynamic_slice,
    dynamic_update,
    fill,
    zero,
)
from ipu_teach.program import Copy, Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT, Array, DType

__all__ = [
    "Plan",
    "calc_loss_and_gradient_log_probabilities",
    "calc_loss_and_gradient_logits",
    "create_data_input",
    "create_labels_input",
    "plan",
]

PLAN_OPTIONS = (
    Option("availableMemoryProportion", float, 0.6, 0.0, 1.0, effect=False),
    Option("partialsType", FLOAT, FLOAT),
)
OPTIONS = (Option("includeSoftmaxGradient", bool, True),)
# The logarithm of the probability 0.
NEVER = np.float32(-np.inf)


@advised("give a plan of ctc_loss.plan(…).")
@dataclass(frozen=True)
class Plan:
    """The plan of a CTC loss: the sizes of its tensors, and the division of a sample's labels.

    `parts` is the number of workers between which the positions of a sample are divided.
    """

    in_type: type[DType]
    out_type: type[DType]
    batch_size: int
    max_time: int
    max_label_length: int
    num_classes: int
    parts: int

    @property
    def labels(self) -> list[tuple[int, int]]:
        """The interval of labels in each part. The last part also contains the last blank."""
        return balanced_partition(self.max_label_length, self.parts)

    def positions(self, begin: int, end: int) -> slice:
        """Return the positions of labels `begin` to `end` - 1, with the blank before each label.

        If `end` is the maximum length, the last blank is included.
        """
        return slice(2 * begin, 2 * end + (end == self.max_label_length))


def _log_sum(*terms: Array) -> Array:
    """Return the logarithm of the sum of exponentials, element by element."""
    largest = np.maximum(np.maximum(terms[0], terms[1]), terms[2])
    shift = np.where(largest == NEVER, np.float32(0), largest)
    total = np.exp(terms[0] - shift) + np.exp(terms[1] - shift) + np.exp(terms[2] - shift)
    result: Array = shift + np.log(total)
    return result


def _classes(position: Array, labels: Array, first_label: Array | int, blank: Array) -> Array:
    """Return the class at each position. `labels[0]` is label number `first_label`."""
    is_label = position % 2 == 1
    number = np.maximum(position // 2 - first_label, 0)
    return np.where(is_label, np.take(labels, number, mode="clip"), blank)


class CTCAlpha(Vertex):
    """Compute alpha at some positions for a time step, from alpha at the step before.

    `before` contains alpha at the step before, for the two preceding positions and then for these
    positions. `labels` contains the labels at the positions, preceded by one earlier label. `first`
    is the number of the first position. In the field annotations, HALF stands for the dtype of the
    logarithms of probabilities.
    """

    before: Input[Vector[FLOAT]]
    x: Input[Vector[HALF]]
    labels: Input[Vector[UNSIGNED_INT]]
    time: Input[UNSIGNED_INT]
    data_length: Input[UNSIGNED_INT]
    out: Output[Vector[FLOAT]]
    first: UNSIGNED_INT
    blank: UNSIGNED_INT

    def compute(self) -> None:
        position = np.arange(len(self.out)) + self.first
        first_label = self.first // 2
        # The label before the first label is a copy of the first label, so no path skips to the
        # first label. Position 1 needs no skip, because a path may start there.
        classes = _classes(position, self.labels[1:], first_label, self.blank)
        label_before = _classes(position, self.labels, first_label, self.blank)
        may_skip = (position % 2 == 1) & (classes != label_before)
        skipped = np.where(may_skip, self.before[:-2], NEVER)
        total = _log_sum(self.before[2:], self.before[1:-1], skipped)
        total = np.where(self.time == 0, np.where(position < 2, np.float32(0), NEVER), total)
        alpha = total + np.take(self.x, classes, mode="clip").astype(np.float32)
        self.out = np.where(self.time < self.data_length, alpha, self.before[2:])

    def cycles(self, target: Target) -> int:
        return int(vertices.ctc_alpha(len(self.out)))


class CTCBeta(Vertex):
    """Compute beta at some positions for a time step, from the step after it.

    `after` contains beta times the probability of the class, both at the step after, for these
    positions and then for the next two. `labels` contains the labels at the positions, followed by
    one later label. `with_class` receives beta times the probability of the class at this step.
    """

    after: Input[Vector[FLOAT]]
    x: Input[Vector[HALF]]
    labels: Input[Vector[UNSIGNED_INT]]
    time: Input[UNSIGNED_INT]
    data_length: Input[UNSIGNED_INT]
    label_length: Input[UNSIGNED_INT]
    out: Output[Vector[FLOAT]]
    with_class: Output[Vector[FLOAT]]
    first: UNSIGNED_INT
    blank: UNSIGNED_INT

    def compute(self) -> None:
        position = np.arange(len(self.out)) + self.first
        first_label = self.first // 2
        classes = _classes(position, self.labels, first_label, self.blank)
        label_after = _classes(position + 2, self.labels, first_label, self.blank)
        may_skip = (position % 2 == 1) & (classes != label_after)
        skipped = np.where(may_skip, self.after[2:], NEVER)
        total = _log_sum(self.after[:-2], self.after[1:-1], skipped)
        last = 2 * self.label_length
        is_end = (position == last) | (position + 1 == last)
        ends = np.where(is_end, np.float32(0), NEVER)
        following_time = self.time + 1
        total = np.where(following_time == self.data_length, ends, total)
        beta = np.where(following_time <= self.data_length, total, NEVER)
        self.out = beta
        self.with_class = beta + np.take(self.x, classes, mode="clip").astype(np.float32)

    def cycles(self, target: Target) -> int:
        return int(vertices.ctc_alpha(len(self.out)))


class CTCLoss(Vertex):
    """Set `loss` of a sample to minus the logarithm of the probability of its labels."""

    alpha: Input[Vector[FLOAT]]
    data_length: Input[UNSIGNED_INT]
    label_length: Input[UNSIGNED_INT]
    loss: Output[FLOAT]

    def compute(self) -> None:
        last = 2 * self.label_length
        position = np.arange(len(self.alpha))
        is_end = (position == last) | (position + 1 == last)
        reached = np.where(is_end, self.alpha, NEVER)
        largest = np.max(reached)
        shift = np.where(largest == NEVER, np.float32(0), largest)
        loss = -(shift + np.log(np.sum(np.exp(reached - shift))))
        empty = np.where(self.label_length == 0, np.float32(0), -NEVER)
        self.loss = np.where(self.data_length == 0, empty, loss)

    def cycles(self, target: Target) -> int:
        return int(vertices.ctc_log_sum())


class CTCGradient(Vertex):
    """Compute the gradient of a sample's loss for a time step.

    With `includes_softmax`, it is the gradient of the logits before the softmax.
    """

    alpha: Input[Vector[FLOAT]]
    beta: Input[Vector[FLOAT]]
    x: Input[Vector[HALF]]
    labels: Input[Vector[UNSIGNED_INT]]
    loss: Input[FLOAT]
    data_length: Input[UNSIGNED_INT]
    out: Output[Vector[FLOAT]]
    time: UNSIGNED_INT
    blank: UNSIGNED_INT
    includes_softmax: UNSIGNED_INT

    def compute(self) -> None:
        position = np.arange(len(self.alpha))
        classes = _classes(position, self.labels, 0, self.blank)
        share = np.exp(self.alpha + self.beta + self.loss)
        number = np.arange(len(self.out)).reshape(-1, 1)
        shares = np.sum(np.where(classes.reshape(1, -1) == number, share.reshape(1, -1), 0), axis=1)
        probabilities = np.exp(self.x.astype(np.float32))
        gradient = np.where(self.includes_softmax == 1, probabilities, np.float32(0)) - shares
        self.out = np.where(self.time < self.data_length, gradient, np.float32(0))

    def cycles(self, target: Target) -> int:
        return int(vertices.ctc_gradient(len(self.alpha), len(self.out)))


@library
def plan(
    graph: Graph,
    in_type: type[DType],
    out_type: type[DType],
    batch_size: int,
    max_time: int,
    max_label_length: int,
    num_classes: int,
    options: Options | None = None,
) -> Plan:
    """Return the plan of a CTC loss for batches of these sizes.

    `in_type` and `out_type`, FLOAT or HALF, are the dtypes of the data and of the gradient.
    `num_classes` includes the blank. Each worker of the machine gets at least one label of a
    sample. `options` may contain PopLibs' "availableMemoryProportion", which has no effect, and
    "partialsType", which may only be FLOAT.

    :raises PoplibsError: if a size or a dtype is invalid.
    :raises InvalidOptionError: if an option is invalid.
    """
    for name, dtype in (("in_type", in_type), ("out_type", out_type)):
        if dtype is not FLOAT and dtype is not HALF:
            raise as_given(dtype, name, "use FLOAT or HALF.")
    sizes = {
        "batch_size": batch_size,
        "max_time": max_time,
        "max_label_length": max_label_length,
        "num_classes": num_classes,
    }
    check_sizes(graph.target, 1, **sizes)
    if settled(PLAN_OPTIONS, options)["partialsType"] is not FLOAT:
        raise refused("adds probabilities in FLOAT only.", next_step="leave out partialsType.")
    workers = graph.target.num_tiles * graph.target.num_worker_contexts
    parts = max(1, min(int(max_label_length), workers // int(batch_size)))
    batch, steps, labels, classes = (int(size) for size in sizes.values())
    return Plan(in_type, out_type, batch, steps, labels, classes, parts)


@library
def create_data_input(
    graph: Graph,
    dtype: type[DType],
    batch_size: int,
    max_time: int,
    num_classes: int,
    plan: Plan,
    debug_context: str = OWN,
) -> Tensor:
    """Return an unwritten variable [max_time, batch_size, num_classes] for the data.

    The steps of a sample are distributed so that a slice of a time step exchanges little.

    :raises PoplibsError: if a size or dtype differs from the plan.
    """
    shape = (max_time, batch_size, num_classes)
    planned = (plan.max_time, plan.batch_size, plan.num_classes)
    check_same("shapes", shape, planned, repr(plan), "give the sizes of the plan.")
    check_same("dtypes", dtype, plan.in_type, repr(plan), "give the in_type of the plan.")
    return create_sliceable_tensor(graph, dtype, shape, [0], debug_context)


@library
def create_labels_input(
    graph: Graph,
    dtype: type[DType],
    batch_size: int,
    max_label_length: int,
    plan: Plan,
    debug_context: str = OWN,
) -> Tensor:
    """Return an unwritten UNSIGNED_INT variable [batch_size, max_label_length] for the labels.

    :raises PoplibsError: if a size differs from the plan, or if `dtype` is not UNSIGNED_INT.
    """
    shape = (batch_size, max_label_length)
    planned = (plan.batch_size, plan.max_label_length)
    check_same("shapes", shape, planned, repr(plan), "give the sizes of the plan.")
    if dtype is not UNSIGNED_INT:
        raise as_given(dtype, "dtype", "use UNSIGNED_INT.")
    return linear(graph, UNSIGNED_INT, shape, debug_context)


@library
def calc_loss_and_gradient_log_probabilities(
    graph: Graph,
    out_type: type[DType],
    log_probs: Tensor,
    labels: Tensor,
    data_lengths: Row,
    label_lengths: Row,
    prog: Program,
    blank_class: int,
    plan: Plan,
    debug_context: str = OWN,
    options: Options | None = None,
) -> tuple[Tensor, Tensor]:
    """Return `(loss, gradient)` of `log_probs` [max_time, batch, classes], from log-softmax.

    `labels` [batch, max_label_length] contains class numbers. `data_lengths` and `label_lengths`
    [batch] are the numbers of time steps and of labels of each sample. These three tensors are
    UNSIGNED_INT. Labels must be below the number of classes and must not be the blank, and lengths
    must not exceed those of the plan; as in PopLibs, the device checks neither labels nor lengths.

    The loss [batch], FLOAT, is minus the logarithm of the probability of a sample's labels. It is
    infinite if no path fits, for example because there are more labels than time steps; the
    gradient of the labels' classes is then NaN, as in torch. The gradient has `out_type` and the
    shape of `log_probs`. It is the gradient with respect to the logits before log-softmax, unless
    `options` set "includeSoftmaxGradient" to False. Do not apply the gradient of log-softmax again.

    :raises PoplibsError: if a shape, a dtype or `blank_class` does not fit.
    :raises InvalidOptionError: if an option is invalid.
    """
    includes_softmax: bool = settled(OPTIONS, options)["includeSoftmaxGradient"]
    _check(plan, out_type, log_probs, labels, data_lengths, label_lengths, blank_class)
    work = _Work(graph, plan, int(blank_class), prog, debug_context)
    return work.run(log_probs, labels, (data_lengths, label_lengths), includes_softmax)


@library
def calc_loss_and_gradient_logits(
    graph: Graph,
    out_type: type[DType],
    logits: Tensor,
    labels: Tensor,
    data_lengths: Row,
    label_lengths: Row,
    prog: Program,
    blank_class: int,
    plan: Plan,
    debug_context: str = OWN,
) -> tuple[Tensor, Tensor]:
    """Return `(loss, gradient)` of logits [max_time, batch, classes], after a log-softmax.

    `gradient` is the gradient with respect to the logits. The other arguments, results and errors
    are those of `calc_loss_and_gradient_log_probabilities`.
    """
    _check(plan, out_type, logits, labels, data_lengths, label_lengths, blank_class)
    matrix = logits.reshape((plan.max_time * plan.batch_size, plan.num_classes))
    x = log_softmax(graph, matrix, prog, f"{debug_context}/log-softmax").reshape(logits.shape)
    work = _Work(graph, plan, int(blank_class), prog, debug_context)
    return work.run(x, labels, (data_lengths, label_lengths), True)


def _check(
    plan: Plan,
    out_type: type[DType],
    x: Tensor,
    labels: Tensor,
    data_lengths: Tensor,
    label_lengths: Tensor,
    blank_class: int,
) -> None:
    """Raise `PoplibsError` unless the arguments of a CTC loss fit its plan."""
    advice = "make a plan of these sizes and dtypes, or give tensors that fit the plan."
    shapes = {
        "shapes of data": (x, (plan.max_time, plan.batch_size, plan.num_classes)),
        "shapes of labels": (labels, (plan.batch_size, plan.max_label_length)),
        "shapes of data_lengths": (data_lengths, (plan.batch_size,)),
        "shapes of label_lengths": (label_lengths, (plan.batch_size,)),
    }
    for words, (tensor, shape) in shapes.items():
        check_same(words, tensor.shape, shape, repr(tensor), advice)
    names = {"labels": labels, "data_lengths": data_lengths, "label_lengths": label_lengths}
    for name, tensor in names.items():
        check_dtype(name, tensor, UNSIGNED_INT)
    dtypes = (x.dtype.__name__, getattr(out_type, "__name__", repr(out_type)))
    planned = (plan.in_type.__name__, plan.out_type.__name__)
    check_same("pairs of in_type and out_type", dtypes, planned, repr(x), advice)
    is_class = isinstance(blank_class, (int, np.integer)) and not isinstance(blank_class, bool)
    if not is_class or not 0 <= blank_class < plan.num_classes:
        raise as_given(blank_class, "blank_class", f"give a class below {plan.num_classes}.")


@dataclass(frozen=True)
class _Work:
    """A CTC loss while its program is built. `name` is the name of the call, for debugging."""

    graph: Graph
    plan: Plan
    blank: int
    prog: Program
    name: str

    def run(
        self, x: Tensor, labels: Tensor, lengths: tuple[Tensor, Tensor], includes_softmax: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the loss and the gradient; append the programs that compute them."""
        alpha, last_alpha = self._loop(x, labels, lengths, backward=False)
        beta, _ = self._loop(x, labels, lengths, backward=True)
        batch = self.plan.batch_size
        loss = self.graph.add_variable(FLOAT, (batch,), f"{self.name}/loss")
        samples = dealt([(i, i + 1) for i in range(batch)], self.graph.target.num_tiles)
        edges_of_samples = [
            (
                tile,
                {
                    "alpha": last_alpha[i],
                    "data_length": lengths[0][i],
                    "label_length": lengths[1][i],
                    "loss": loss[i],
                },
            )
            for tile, (i, _) in samples
        ]
        step(self.graph, self.prog, f"{self.name}/loss", CTCLoss, edges_of_samples, ["loss"])
        gradient = self.graph.add_variable(FLOAT, x.shape, f"{self.name}/gradient")
        codelet = typed(CTCGradient, [x.dtype], {HALF: x.dtype})
        rows = [(t, b) for t in range(self.plan.max_time) for b in range(batch)]
        state = {"blank": self.blank, "includes_softmax": int(includes_softmax)}
        edges_of_rows = [
            (
                tile,
                {
                    "alpha": alpha[t, b],
                    "beta": beta[t, b],
                    "x": x[t, b],
                    "labels": labels[b],
                    "loss": loss[b],
                    "data_length": lengths[0][b],
                    "out": gradient[t, b],
                    "time": t,
                    **state,
                },
            )
            for tile, (t, b) in dealt(rows, self.graph.target.num_tiles)
        ]
        step(self.graph, self.prog, f"{self.name}/gradient", codelet, edges_of_rows, ["out"])
        if self.plan.out_type is HALF:
            gradient = cast(self.graph, gradient, HALF, self.prog, f"{self.name}/cast")
        return loss, gradient

    def _loop(
        self, x: Tensor, labels: Tensor, lengths: tuple[Tensor, Tensor], *, backward: bool
    ) -> tuple[Tensor, Tensor]:
        """Return `(sequence, state)`; append the loop that computes alpha, or beta if `backward`.

        `sequence` [max_time, batch, positions] contains the values of all steps. `state` is the
        state after the last step of the loop.
        """
        graph, prog, plan = self.graph, self.prog, self.plan
        name = f"{self.name}/{'beta' if backward else 'alpha'}"
        shape = (plan.batch_size, 2 * plan.max_label_length + 1)
        sequence = graph.add_variable(FLOAT, (plan.max_time, *shape), name)
        state, new_state = (graph.add_variable(FLOAT, shape, f"{name}/{n}") for n in ("now", "new"))
        stored = graph.add_variable(FLOAT, shape, f"{name}/beta") if backward else new_state
        for tile, sample, begin, end in self._parts():
            part = plan.positions(begin, end)
            for tensor in {state, new_state, stored}:
                graph.set_tile_mapping(tensor[sample, part], tile)
            graph.set_tile_mapping(sequence[:, sample, part], tile)
        loop = TimeLoop(graph, plan.max_time, prog, name, backward)
        time, body = loop.index, loop.body
        fill(graph, state, prog, float(NEVER), f"{name}/first")
        zero(graph, sequence, prog, f"{name}/zero")
        now = dynamic_slice(graph, x, time, [0], [1], body, f"{name}/slice")[0]
        base = CTCBeta if backward else CTCAlpha
        codelet = typed(base, [x.dtype], {HALF: x.dtype})
        edges = self._edges((state, new_state, stored), now, labels, lengths, time, backward)
        step(graph, body, f"{name}/step", codelet, edges)
        rows = stored.flatten().expand([0])
        all_rows = sequence.reshape((plan.max_time, stored.num_elements))
        dynamic_update(graph, all_rows, rows, time, [0], [1], body, f"{name}/store")
        body.add(Copy(new_state, state))
        loop.append()
        return sequence, state

    def _parts(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield `(tile, sample, first label, end of the labels)` for each part of a sample."""
        parts = [
            (sample, begin, end)
            for sample in range(self.plan.batch_size)
            for begin, end in self.plan.labels
        ]
        for tile, (sample, begin, end) in dealt(parts, self.graph.target.num_tiles):
            yield tile, sample, begin, end

    def _edges(
        self,
        states: tuple[Tensor, Tensor, Tensor],
        x: Tensor,
        labels: Tensor,
        lengths: tuple[Tensor, Tensor],
        time: Tensor,
        backward: bool,
    ) -> Iterator[tuple[int, Edges]]:
        """Yield a pair (tile, edges) for each vertex of a step.

        `states` are the state before the step, the state after the step and, if `backward`, beta.
        """
        state, new_state, stored = states
        plan = self.plan
        border = self.graph.add_constant(FLOAT, (2,), [NEVER, NEVER], f"{self.name}/border")
        self.graph.set_tile_mapping(border, 0)
        for tile, sample, begin, end in self._parts():
            part = plan.positions(begin, end)
            old, classes = state[sample], labels[sample]
            edges: Edges = {
                "x": x[sample],
                "time": time[0],
                "data_length": lengths[0][sample],
                "first": 2 * begin,
                "blank": self.blank,
            }
            if backward:
                edges["after"] = concat([old, border])[part.start : part.stop + 2]
                edges["labels"] = concat([classes, classes[-1:]])[begin : end + 1]
                edges |= {"out": stored[sample, part], "with_class": new_state[sample, part]}
                edges["label_length"] = lengths[1][sample]
            else:
                edges["before"] = concat([border, old])[part.start : part.stop + 2]
                edges["labels"] = concat([classes[:1], classes])[begin : max(end, begin + 1) + 1]
                edges["out"] = new_state[sample, part]
            yield tile, edges
