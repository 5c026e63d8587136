"""The exercises of lesson 13, Frameworks: correct results and known mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from ipu_course.checking.calling import Broken, answering, call_made
from ipu_course.checking.comparing import Pairs, compare
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import Reason, suspects
from ipu_course.checking.programs import device_of
from ipu_course.checking.quoting import difference, name_of, plain, returned, said_by
from ipu_course.checking.verdicts import NotYet, Passed, refusing
from ipu_course.lesson13.captures import captured
from ipu_teach import HALF, Report, Tensor, keras
from ipu_teach.errors import DeviceValueError, counted, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.keras import ipu
from ipu_teach.types import Array

# A function that lowers an operation if it is called with (low, x, slope), or the operation's
# gradient if it is called with (low, x, slope, g).
Lowers = Callable[..., Tensor]
# The settings and the written values of a run: (batch, iterations, rate, first weight, second
# weight). A value that was not written is None.
State = tuple[float | None, ...]

# --- 13.1 and 13.3: what goes in, and what comes back ---------------------------------------------


def samples_of(
    batch: int, iterations: int, accumulation: int, replicas: int, stages: int, training: bool
) -> int:
    """Return the number of samples that a call takes, by adding up micro-batches and replicas."""
    updates = range(iterations)
    micro_batches = range(accumulation) if training else range(1)
    return len(
        [s for _ in updates for _ in micro_batches for _ in range(replicas) for s in range(batch)]
    )


def _samples(answer: Callable[..., int]) -> Passed:
    drawn = [(16, 4, 3, 2, 5, True), (8, 5, 2, 3, 4, False), (5, 7, 1, 1, 2, True)]
    drawn += [(1, 1, 6, 5, 3, False), (13, 2, 9, 1, 1, True), (3, 10, 2, 4, 2, True)]
    cases = {f"drawn, {case}": case for case in drawn}
    cases |= {"nothing is more than 1": (1, 1, 1, 1, 1, True)}
    more = product((1, 2, 3), (1, 3), (1, 2, 4), (1, 2, 5), (1, 2, 3), (True, False))
    return compare(answer, samples_of, cases, suspects("13.1"), more=more)


MODES = ("All", "Final", "EveryN", "Sum", "Default")


def back_of(
    mode: str, n: int, batch: int, micro: int, replicas: int, training: bool
) -> tuple[int, int]:
    """Return `(rows of the outputs, number of losses)` that a call of a PopTorch model returns.

    `mode` is the output mode, such as "All". `n` is used only in the mode "EveryN", which returns
    the outputs of every n-th micro-batch. The call has `micro` micro-batches of `batch` samples in
    each replica. The numbers are counted micro-batch by micro-batch.
    """
    if mode == "Default":
        mode = "Final" if training else "All"
    every = {"All": range(micro), "Final": [micro - 1], "EveryN": range(n - 1, micro, n)}
    # In the mode "Sum", each replica returns one result.
    samples_kept = [(m, r) for m in every.get(mode, [0]) for r in range(replicas)]
    return batch * len(samples_kept), len(samples_kept)


def _back(answer: Callable[..., tuple[int, int]]) -> Passed:
    drawn = [(mode, 4, 16, 12, 2, True) for mode in MODES]
    drawn += [("Default", 2, 8, 6, 3, False), ("EveryN", 3, 5, 7, 1, True)]
    drawn += [("Sum", 2, 3, 9, 1, False), ("Final", 5, 7, 4, 3, False)]
    # In this case, n = 3 divides neither 5 nor 10, and 10 // 3 is 3.
    drawn += [("EveryN", 3, 1, 5, 2, True)]
    cases = {f"drawn, {case}": case for case in drawn}
    cases |= {"a replica has fewer micro-batches than n": ("EveryN", 8, 4, 5, 2, True)}
    more = product(MODES, (1, 2, 3, 5), (1, 2), (1, 2, 3, 6, 7), (1, 3), (True, False))
    advice = "set replicas to 1 first, and count the outputs that come back in this mode."
    known = suspects("13.3")
    try:
        return compare(answer, back_of, cases, known, advice, otherwise=_of_modes, more=more)
    except Broken as broken:
        if isinstance(broken.error, KeyError) and broken.error.args[0] in MODES:
            mode = broken.error.args[0]
            why = f'a dictionary here has no entry for the mode "{mode}".'
            advice = f'treat "{mode}" before this line: its meaning is in the list of modes.'
            raise NotYet(broken.tried, said_by(broken.error), "", why, advice) from None
        raise


def _of_modes(pairs: Pairs[Any, Any]) -> Reason:
    """Return (why, next step) if an answer is wrong in one mode only."""
    wrong = {case[0] for case, result in pairs if difference(result, back_of(*case))}
    if len(wrong) != 1:
        return "", ""
    mode = wrong.pop()
    why = f'the other modes are right, but "{mode}" is not.'
    return why, f'read the line of "{mode}" above: how many outputs does it give for one replica?'


# --- 13.2: the port -------------------------------------------------------------------------------

PIXELS = 6
CLASSES = 3


def _start() -> Array:
    """Return the initial weights of every model in this check."""
    return np.random.default_rng(1302).uniform(-1, 1, (PIXELS, CLASSES)).astype(np.float32)


def _one_layer() -> keras.Model:
    """Return a model of one layer that has the initial weights returned by `_start`."""
    model = keras.Sequential([keras.layers.Dense(CLASSES, input_shape=(PIXELS,))])
    model.set_weights([_start(), np.zeros(CLASSES, np.float32)])
    return model


def _counted(models: list[keras.Model]) -> keras.Model:
    """Return a new model of one layer, and append it to `models`."""
    models.append(_one_layer())
    return models[-1]


def plain_loop(
    images: Array, labels: Array, epochs: int, batch: int, steps: int, rate: float = 0.5
) -> list[Array]:
    """Return [weights, bias] after training by gradient descent, one batch after another.

    A call takes `steps` batches. Samples at the end that do not fill a complete call are left out.
    """
    w = _start().astype(float)
    b = np.zeros(CLASSES)
    usable = len(images) - len(images) % (batch * steps)
    for begin in [*range(0, usable, batch)] * epochs:
        x = images[begin : begin + batch].astype(float)
        y = labels[begin : begin + batch]
        scores = np.exp(x @ w + b)
        slope = (scores / scores.sum(1, keepdims=True) - np.eye(CLASSES)[y]) / batch
        w = w - rate * x.T @ slope
        b = b - rate * slope.sum(0)
    return [w, b]


@contextmanager
def _machine() -> Iterator[None]:
    """Context manager: use a machine of four tiles, then restore the previous configuration."""
    before = [*ipu._configured]
    config = ipu.IPUConfig()
    config.ipu_model.tiles_per_ipu = 4
    config.configure_ipu_system()
    try:
        yield
    finally:
        ipu._configured[:] = before


def _refuse_several(description: str, models: list[keras.Model], model: keras.Model) -> None:
    """Raise `NotYet` if several models were created, or if programs were compiled again."""
    if len(models) > 1:
        why = (
            "each new model starts again with the weights of make(), and loses what the model "
            "before it learned."
        )
        message = f"{len(models)} models were created"
        raise NotYet(
            description,
            message,
            expected="1",
            why=why,
            next_step="call make() once, before all loops.",
        )
    if len(model.compiles) > 1:
        why = "the program is compiled again, but a compiled program can run any number of times."
        message = f"{len(model.compiles)} programs were compiled"
        raise NotYet(
            description,
            message,
            expected="1",
            why=why,
            next_step="call compile() and fit() only once, outside of loops.",
        )


def _ported(answer: Callable[..., keras.Model]) -> Passed:
    draw = np.random.default_rng(1303)
    reports = []
    for many, epochs, batch, steps in ((34, 2, 4, 3), (15, 3, 5, 1)):
        images = draw.uniform(0, 2, (many, PIXELS)).astype(np.float32)
        labels = draw.integers(0, CLASSES, many)
        description = f"{many} digits, {epochs} epochs, batches of {batch}, {steps} a call"
        with _machine():
            keras.utils.set_random_seed(1304)
            models = list[keras.Model]()
            make = partial(_counted, models)
            arguments = make, images.copy(), labels.copy(), epochs, batch, steps
            model = call_made(answer, description, *arguments)
            runs = _runs(model, description)
        _refuse_several(description, models, model)
        wanted = epochs * (many // (batch * steps))
        if runs != wanted:
            raise NotYet(
                description,
                f"{runs} runs of the device",
                str(wanted),
                *(
                    _without_end(model, images, labels, epochs, batch=batch, steps=steps)
                    or _whose(model, runs, wanted, epochs=epochs, batch=batch, steps=steps)
                ),
            )
        weights = model.get_weights()
        right = plain_loop(images, labels, epochs, batch=batch, steps=steps)
        rate = model.optimizer.learning_rate
        for name, learner_values, values in zip(("weights", "bias"), weights, right, strict=True):
            if where := difference(learner_values, values, 1e-4):
                why, advice = _other_loop(
                    weights, images, labels, epochs=epochs, batch=batch, steps=steps, rate=rate
                )
                raise NotYet(description, f"{name}: {where}", why=why, next_step=advice)
        reports.append(model.report)
    words = "34 digits, and 15: weights and bias equal to those of the plain loop"
    return Passed(words, evidence=reports)


def _without_end(
    model: keras.Model, images: Array, labels: Array, epochs: int, *, batch: int, steps: int
) -> tuple[str, str] | None:
    """Return (why, next step) if the model treated all epochs as one long epoch; None otherwise.

    In this case, its weights are those of the plain loop over the digits repeated `epochs` times.
    """
    many = np.concatenate([images] * epochs), np.concatenate([labels] * epochs)
    if len(model.report.runs) != len(many[0]) // (batch * steps):
        return None
    loop = plain_loop(*many, 1, batch=batch, steps=steps)
    pairs = zip(model.get_weights(), loop, strict=True)
    if any(difference(actual, right, 1e-4) for actual, right in pairs):
        return None
    return (
        "all epochs are one long array of digits here, so the last digits of an epoch are in the "
        "same call as the first digits of the next epoch.",
        "cut images and labels to n digits first, and pass epochs=epochs to fit().",
    )


def _other_loop(
    learner_weights: list[Array],
    x: Array,
    y: Array,
    *,
    epochs: int,
    batch: int,
    steps: int,
    rate: float,
) -> tuple[str, str]:
    """Return `(why, next step)` for wrong weights, by comparing them with typical wrong loops."""
    n = len(x) // (batch * steps) * batch * steps
    loops = {
        (
            f"the model makes one update for {batch * steps} digits, a whole call, but it should "
            "make one for each batch."
        ): (
            plain_loop(x, y, epochs, batch=batch * steps, steps=1),
            "pass batch_size=batch to fit(), and do not accumulate gradients.",
        ),
        "the rate is 0.01, the default, but it should be 0.5.": (
            plain_loop(x, y, epochs, batch=batch, steps=steps, rate=0.01),
            "use keras.optimizers.SGD(0.5).",
        ),
        f"the rate is {rate:g}, not 0.5.": (
            plain_loop(x, y, epochs, batch=batch, steps=steps, rate=rate),
            "use keras.optimizers.SGD(0.5).",
        ),
        "the model trains on the last digits, and leaves out the first ones.": (
            plain_loop(x[-n:], y[-n:], epochs, batch=batch, steps=steps),
            "leave out the digits at the end: images[:n] and labels[:n].",
        ),
    }
    for why, (weights, advice) in loops.items():
        pairs = zip(learner_weights, weights, strict=True)
        if not any(difference(actual, right, 1e-4) for actual, right in pairs):
            return why, advice
    right_weights, _ = plain_loop(x, y, epochs, batch=batch, steps=steps)
    if not difference(learner_weights[0], right_weights, 1e-4):
        return (
            "the weights are right, but the bias is wrong.",
            "print model.get_weights() right after fit(), and again before you return the model.",
        )
    return (
        "the number of calls is right, but their digits differ from those of the plain loop.",
        "pass the images to fit() in their own order, with shuffle=False.",
    )


def _whose(
    model: keras.Model, runs: int, wanted: int, *, epochs: int, batch: int, steps: int
) -> tuple[str, str]:
    """Return `(why, next step)` if the device ran `runs` times instead of `wanted` times."""
    sizes = [size for mode, size, _ in model._runs if mode == "fit"]
    if sizes != [batch]:
        why = f"the batches have {', '.join(map(str, sizes))} digits, not {batch}."
        return why, "use fit(…, batch_size=batch)."
    if (model._steps or 1) == steps and not runs % (wanted // epochs):
        why = f"the model trains for {counted(runs * epochs // wanted, 'epoch')}, not {epochs}."
        return why, "call fit(…, epochs=epochs) once."
    if 1 < (model._steps or 1) != steps:
        why = f"a call takes {model._steps} batches here, not {steps}."
        return why, "use compile(…, steps_per_execution=steps)."
    if runs > wanted and (model._steps or 1) < steps:
        return "the loop over batches runs on the host, with a separate call for each batch.", (
            "pass steps_per_execution=steps to compile()."
        )
    if runs > wanted:
        return "", "count the batches that fit() gets, and divide this number by `steps`."
    return "the returned model was not trained for all epochs.", (
        "pass the number of epochs to fit()."
    )


def _runs(model: keras.Model, description: str) -> int:
    """Return how often the device ran the program of a model.

    :raises NotYet: if the answer returned no model, or one that did not run.
    """
    if not isinstance(model, keras.Model):
        raise NotYet(
            description, returned(model), expected="a model", next_step="return the model."
        )
    if not model.compiles:
        why = "the model never ran on the device."
        raise NotYet(
            description,
            "a model that never ran",
            why=why,
            next_step="call model.compile(…) and model.fit(…).",
        )
    return len(model.report.runs)


# --- 13.4: an operation that is not there ---------------------------------------------------------

SLOPES = ((0.1, (37,)), (3.0, (5, 4)), (-0.5, (1,)), (0.0, (6,)), (1.0, (2, 3)))


def like(x: ir.Value, *others: ir.Value, slope: float) -> ir.Out:
    """Return the shape and dtype of an operation's result, which equal those of its operand `x`."""
    return ir.Out(x.shape, x.dtype)


@contextmanager
def rows(answer: Lowers) -> Iterator[None]:
    """Context manager: define two operations that are lowered by the learner's answer."""

    def lowered_to(low: ir.Lowering, x: ir.Value, slope: float, *g: ir.Value) -> Tensor:
        tensor = answer(low, x, slope, *g)
        if not isinstance(tensor, Tensor):
            description = f"{name_of(answer)} {'with' if g else 'without'} g"
            raise NotYet(
                description,
                returned(tensor),
                expected="a tensor",
                next_step="return the result of low.call.",
            )
        return tensor

    row = {
        "your forward": ir.Row(like, lambda low, x, slope: lowered_to(low, x, slope)),
        "your gradient": ir.Row(like, lambda low, x, g, slope: lowered_to(low, x, slope, g)),
    }
    ir.OPS.update(row)
    try:
        yield
    finally:
        for name in row:
            del ir.OPS[name]


def _x(place: int) -> Array:
    """Return different numbers of both signs, and zero, for the case with the index `place`."""
    n = int(np.prod(SLOPES[place][1]))
    drawn = np.random.default_rng(1304).permutation(n) / 8 - (n // 2) / 8
    return drawn.reshape(SLOPES[place][1]).astype(np.float32)


@dataclass(frozen=True)
class Lowered:
    """The results of an answer for all elements of `SLOPES`.

    `came` has the tuple (forward result, gradient, final value of x) for each of them.
    """

    came: list[tuple[Array, Array, Array]]
    compute_sets: int
    report: Report


@cache
def lowered(answer: Lowers) -> Lowered:
    """Run an answer's two operations on 13 tiles for all `SLOPES`, and return the results."""
    graph = ir.Ir()
    with rows(answer):
        for i, (slope, _) in enumerate(SLOPES):
            x = graph.variable(_x(i), f"x{i}")
            g = graph.variable(_x(i)[::-1] + 0.25, f"g{i}")
            y = graph.op("your forward", x, slope=slope)
            back = graph.op("your gradient", x, g, slope=slope)
            for name, value in (("y", y), ("back", back), ("x", x)):
                graph.output(f"{name}{i}", value)
        device = device_of()
        run = ir.Run(ir.Lowering(graph, device), device)
        out = run()
    names = ("y", "back", "x")
    (program,) = run.engine.report.compilation.programs[:1]
    sets = sum(node.kind == "Execute" for _, node in program.walk())
    actual = [tuple(out[f"{n}{i}"][0] for n in names) for i in range(len(SLOPES))]
    return Lowered(actual, sets, run.engine.report)


def _alike(lowering: Lowered, reference_answer: Lowers) -> bool:
    """Return whether another answer gives the same results with the same number of compute sets."""
    theirs = lowered(reference_answer)
    pairs = zip(lowering.came, theirs.came, strict=True)
    same = all(np.array_equal(a, b) for pair, two in pairs for a, b in zip(pair, two, strict=True))
    return same and lowering.compute_sets == theirs.compute_sets


def _refuse_condition_first(description: str, error: BaseException) -> None:
    """Raise `NotYet` if an error shows that the answer passed the condition first to Select."""
    message = getattr(error, "tried", "")
    if message.startswith("Select was given two dtypes") and "is BOOL, and" in message:
        raise NotYet(
            description,
            message,
            why=(
                "the condition is the first argument here, as in numpy.where, but in Select it is "
                "the last."
            ),
            next_step="write expr.Select(a, b, condition).",
        )


def _refuse_tensor_as_value(description: str, error: BaseException) -> None:
    """Raise `NotYet` if the answer compares a tensor in Python, or tests whether it is true."""
    if not isinstance(error, DeviceValueError):
        return
    message = said_by(error)
    why = "x is a tensor: its values are not known while the program is written."
    advice = "compare in the expression: expr._1 > 0 is the condition of expr.Select."
    if re.search(r" [*+/-] ", message):
        why = "this computes with tensors in Python, but they have no values yet."
        advice = "compute within the expression: expr._1 and expr._2 are the elements of [x, g]."
    if "in a condition" in message:
        why = "a tensor has no value while the program is written, so Python cannot test it."
        advice = "test whether g was passed: if g is None."
    raise NotYet(description, message, why=why, next_step=advice)


def _lowering(answer: Lowers) -> Passed:
    slopes = ", ".join(f"{slope:g}" for slope, _ in SLOPES)
    description = f"{name_of(answer)} with slopes {slopes}"
    try:
        with answering(description):
            lowering = lowered(answer)
    except Broken as broken:
        _refuse_condition_first(description, broken.error)
        _refuse_tensor_as_value(description, broken.error)
        raise
    refused = refusing("13.4", partial(_alike, lowering))
    for i, (slope, _) in enumerate(SLOPES):
        x = _x(i)
        g = _x(i)[::-1] + 0.25
        factor = np.where(x > 0, 1, slope)
        # Adding 0.0 turns -0.0 into 0.0.
        wanted = {"the forward": x * factor + 0.0, "the gradient": g * factor + 0.0}
        wanted |= {"x, afterwards": x}
        for (name, right), result in zip(wanted.items(), lowering.came[i], strict=True):
            if where := difference(result, right.astype(np.float32)):
                advice = (
                    "compute the result for one positive number, one negative number and 0 by hand."
                )
                raise refused(f"{name}, slope {slope}", where, "", advice)
    if lowering.compute_sets > 2 * len(SLOPES):
        advice = (
            "write everything as one expression for one call of popops.map, which adds one compute "
            "set."
        )
        message = f"{lowering.compute_sets} compute sets for {2 * len(SLOPES)} operations"
        raise refused(description, message, "one for each", advice)
    return Passed(description, evidence=lowering.report)


# --- 13.5: what compiles again --------------------------------------------------------------------


@dataclass
class StandIn:
    """A substitute for a `Run`, which records its compile options and the values written to it."""

    batch: int
    iterations: int
    held: dict[str, float] = field(default_factory=dict)

    def write(self, name: str, value: float | Array) -> None:
        """Record a value instead of writing it; the arguments are those of `Run.write`."""
        self.held[name] = float(np.asarray(value).ravel()[0])


# Each call is ((batch, iterations, rate, w, v), text), where the text says what differs from the
# previous call.
CALLS = (
    ((16, 4, 0.5, 1.0, 5.0), "no program has been compiled yet"),
    ((16, 4, 0.5, 1.0, 5.0), "nothing changed"),
    ((16, 4, 0.25, 1.0, 5.0), "another rate"),
    ((16, 4, 0.25, 2.0, 5.0), "another w"),
    ((16, 4, 0.25, 2.0, 6.0), "another v"),
    ((8, 4, 0.25, 2.0, 6.0), "another batch"),
    ((8, 2, 0.25, 2.0, 6.0), "another number of iterations"),
    ((16, 4, 0.125, 3.0, 7.0), "the first batch again, with another rate and weights"),
    ((4, 8, 0.125, 3.0, 7.0), "a batch and iterations of the same product"),
    ((1, 12, 0.125, 3.0, 7.0), "a single sample, and 12 iterations"),
    ((11, 2, 0.125, 3.0, 7.0), "1 and 12 before, now 11 and 2: other numbers with the same digits"),
)


def gone_on(answer: Callable[..., StandIn]) -> list[tuple[int, State]]:
    """Return, for each call, (number of programs compiled so far, values of the returned run)."""
    stand_ins = []
    cache_ = dict[tuple[int, int], StandIn]()
    compiled = []

    def build(batch: int, iterations: int) -> StandIn:
        stand_ins.append(StandIn(batch, iterations))
        return stand_ins[-1]

    for (batch, iterations, rate, *values), _ in CALLS:
        weights = {name: np.full(3, value) for name, value in zip("wv", values, strict=True)}
        run = answer(cache_, build, batch, iterations, rate, weights)
        rate_used, w, v = (run.held.get(name) for name in ("rate", *weights))
        state: State = (run.batch, run.iterations, rate_used, w, v)
        compiled.append((len(stand_ins), state))
    return compiled


def _recompiled(answer: Callable[..., StandIn]) -> Passed:
    description = f"{len(CALLS)} calls of {name_of(answer)}, one after the other"
    # The (batch, iterations) of the programs that the calls have needed so far.
    needed = set()

    def watched(*arguments: object) -> StandIn:
        run = answer(*arguments)
        if not isinstance(run, StandIn):
            advice = "return the run from build(), or from the cache."
            raise NotYet(description, returned(run), expected="a run", next_step=advice)
        return run

    with answering(description):
        calls = gone_on(watched)
    _refuse_elsewhere(description, calls[0][0])
    for number, (case, new) in enumerate(CALLS):
        needed.add(case[:2])
        programs, state = calls[number]
        if programs != len(needed) or state != case:
            refused = refusing("13.5", lambda like: gone_on(like) == calls)
            message, right = (
                f"{counted(number, 'program')} compiled; "
                f"the run has (batch, iterations, rate, w, v) = {values}"
                for number, values in ((programs, state), (len(needed), case))
            )
            advice = (
                "call build() only for a new (batch, iterations), and call run.write in each call, "
                "for the rate and for the weights."
            )
            raise refused(f"call {number + 1}: {new}", message, right, advice)
    with answering(description):
        again = gone_on(watched)
    _refuse_elsewhere(description, again[0][0])
    return Passed(description, evidence=[n for n, _ in calls])


def _refuse_elsewhere(description: str, programs: int) -> None:
    """Raise `NotYet` if the first call with an empty cache did not compile a program.

    In this case, the answer returned a run that it had stored outside the cache in earlier calls.
    """
    if not programs:
        raise NotYet(
            f"{description}, with an empty cache",
            "call 1 returned a run, but build() was not called",
            expected="1 program",
            why="this run was stored outside `cache`, in calls with another cache.",
            next_step="store the runs only in the argument `cache`.",
        )


# --- 13.6: what the backward keeps ----------------------------------------------------------------


def kept_by(graph: ir.Ir) -> dict[str, int]:
    """Return {name: bytes} of the forward pass's results that the backward pass reads.

    If the backward pass reads a view, the tensor that is viewed is included instead. Inputs and
    variables are not results, so they are not included.
    """
    ops = [op for op in graph.ops if op.part == "forward"]
    inputs = {v: v for op in ops if not ir.OPS[op.kind].view for v in op.outs}
    for op in graph.ops:
        if ir.OPS[op.kind].view and op.inputs[0] in inputs:
            inputs[op.outs[0]] = inputs[op.inputs[0]]
    later = [op for op in graph.ops if op.part == "backward" and not ir.OPS[op.kind].view]
    read = {inputs[v] for op in later for v in op.inputs if v in inputs}
    return {v.name: int(np.prod(v.shape)) * v.dtype.size for v in inputs.values() if v in read}


def _narrow() -> ir.Ir:
    """Return a computation graph with two dtypes, in which a value is read through two views."""
    graph = ir.Ir()
    x = graph.input((6, 4), "x")
    w = graph.variable(np.ones((2, 12), np.float16), "w")
    half = graph.op("cast", graph.op("reshape", x, shape=(2, 12)), dtype=HALF)
    rows = graph.op("reshape", graph.op("add", half, w), shape=(4, 6))
    gate = graph.op("sigmoid", graph.op("reshape", graph.op("mul", half, w), shape=(4, 6)))
    out = graph.op("matmul", graph.op("permute", rows, dims=(1, 0)), gate)
    graph.output("loss", ir.reduced(graph, "sum", graph.op("mul", out, out)))
    return graph


def _part() -> ir.Ir:
    """Return a computation graph in which a value is read only through a slice.

    The graph also reads integers (the result of an arg_max) that it has computed itself.
    """
    graph = ir.Ir()
    x = graph.input((6, 8), "x")
    table = graph.variable(np.ones((8, 5), np.float32), "table")
    best = graph.op("arg_max", graph.op("sigmoid", x))
    weight = graph.variable(np.ones((6, 8), np.float32), "weight")
    half = graph.op("slice", graph.op("mul", x, weight), dim=1, begin=0, end=4)
    found = ir.reduced(graph, "sum", graph.op("gather", table, best))
    graph.output("loss", graph.op("add", found, ir.reduced(graph, "sum", graph.op("sin", half))))
    return graph


@cache
def graphs() -> dict[str, ir.Ir]:
    """Return {name: computation graph}; each graph includes its backward pass."""
    several = {"the CNN": captured("cnn"), "the perceptron": captured("perceptron")}
    several |= {"a graph of HALF": _narrow(), "a graph with a slice": _part()}
    return {name: ir.autodiff(g, g.outputs["loss"])[0] for name, g in several.items()}


def _reader(graph: ir.Ir, name: str) -> str:
    """Return a sentence that names an operation of the backward pass that reads value `name`.

    The sentence is "" if no such operation is found.
    """
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            maker = graph.maker()
            while value.name != name and value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value.name == name:
                return f"the operation {op.outs[0].name} of the backward pass reads {name}."
    return ""


def _reason(graph: ir.Ir, name: str, sizes: dict[str, Any], right: dict[str, int]) -> Reason:
    """Return `(why, next step)` for a value with wrong bytes, a missing value or an extra value."""
    find = f"print(graph), and find the operations that compute and read {name}."
    if name not in sizes:
        return _reader(graph, name), find
    if name in right:
        return (
            f"the name {name} is right, but its bytes are wrong.",
            f"print the size and the dtype.size of {name}, and multiply them.",
        )
    maker = {value.name: op for op in graph.ops for value in op.outs}.get(name)
    if maker is None:
        return f"no operation of this graph computes {name}.", "count only values in graph.maker()."
    if ir.OPS[maker.kind].view:
        return f"{name} is a view, which has no memory of its own.", find
    if maker.part == "backward":
        return f"the backward pass computes {name} itself.", find
    return f"no operation of the backward pass reads {name}.", find


def _kept(answer: Callable[[ir.Ir], dict[str, int]]) -> Passed:
    actual = {}
    for name, graph in graphs().items():
        description = f"{name_of(answer)} of {name}"
        returned_value = call_made(answer, description, graph.but())
        if not isinstance(returned_value, dict):
            advice = 'return a dictionary, such as {"relu9": 4608}.'
            raise NotYet(
                description,
                returned(returned_value),
                expected="names with their bytes",
                next_step=advice,
            )
        for key in returned_value:
            if not isinstance(key, str):
                kind = "values" if isinstance(key, ir.Value) else f"of type {type(key).__name__}"
                raise NotYet(
                    description,
                    f"the key {shown(key)}",
                    expected="the names of values, as text",
                    why=f"the keys of the dictionary are {kind}, not names.",
                    next_step="use value.name as the key.",
                )
        actual[name] = {n: plain(b) for n, b in returned_value.items()}

    def keeps_alike(like: Callable[[ir.Ir], dict[str, int]]) -> bool:
        return all(like(graph.but()) == actual[name] for name, graph in graphs().items())

    for name, graph in graphs().items():
        right = kept_by(graph)
        sizes = actual[name]
        if right == sizes:
            continue
        refused = refusing("13.6", keeps_alike)
        wrong = {n for n in (*right, *sizes) if right.get(n) != sizes.get(n)}
        # An answer may collect names in a set, so their order is ignored.
        outputs = (v.name for op in graph.ops for v in op.outs)
        place = {name: number for number, name in enumerate(outputs)}
        # Wrong names are reported before wrong bytes, and missing names before extra names.
        first_wrong = min(
            wrong,
            key=lambda n: (n in sizes, n in right, place.get(n, len(place)), n),
        )
        message, wanted = (
            f"{b[first_wrong]} bytes" if first_wrong in b else "left out" for b in (sizes, right)
        )
        reason, advice = _reason(graph, first_wrong, sizes, right)
        tried = f"{name_of(answer)} of {name}"
        raise refused(tried, f"{first_wrong}: {message}", wanted, advice, reason)
    total = sum(kept_by(graphs()["the CNN"]).values())
    return Passed(
        f"{len(actual)} graphs",
        evidence=list(actual["the CNN"].values()),
        figure=total,
        unit="bytes",
    )


YES = ("yes", "no")

LESSON = lesson(
    "13",
    question("13.0", (PredictedValue("forward", low=0, high=1),)),
    exercise("13.1", _samples),
    exercise("13.2", _ported),
    exercise("13.3", _back),
    exercise("13.4", _lowering),
    question(
        "13.5",
        tuple(
            PredictedValue(f"another {name}", choices=YES)
            for name in ("rate", "batch", "number of iterations", "set of weights")
        ),
    ),
    exercise("13.5", _recompiled),
    exercise("13.6", _kept),
)
