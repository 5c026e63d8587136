"""Lesson 07, MNIST logistic regression: questions, correct results and known mistakes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from ipu_course.checking.calling import Answer, Broken, answering, call, call_made
from ipu_course.checking.comparing import compare
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import first, suspects
from ipu_course.checking.programs import OTHER, all_of, graph_of, loaded, program_of
from ipu_course.checking.quoting import difference, name_of, plain, quoted, returned, said_by
from ipu_course.checking.trial import (
    Built,
    Parts,
    Ran,
    StreamIn,
    StreamOut,
    Trial,
    Var,
    linearly,
    refuse_fixed_tiles,
    refuse_growing,
)
from ipu_course.checking.verdict_panel import Bars, number
from ipu_course.checking.verdicts import ORDINARY, NotYet, Passed
from ipu_teach import (
    FLOAT,
    INT,
    UNSIGNED_INT,
    DataStream,
    Device,
    Engine,
    Graph,
    StreamCallback,
    Tensor,
    datasets,
    show,
)
from ipu_teach.errors import StreamConnectionError, UninitialisedReadError, counted, shown
from ipu_teach.poplibs import poplin, popnn, popops, poputil
from ipu_teach.program import Copy, Program, Repeat, Sequence
from ipu_teach.types import Array

BATCH = 50
PIXELS = 28 * 28
CLASSES = 10
RATE = 0.1

# --- 07.1 -----------------------------------------------------------------------------------------

# The change of a weight over which gradients are computed as differences. Their relative error is
# at most 1e-9.
STEP = 1e-5
# (images, labels, weights, bias)
SlopeCase = tuple[Array, Array, Array, Array]
TwoSlopes = tuple[Array, Array]


def _scores(images: Array, weights: Array, bias: Array) -> Array:
    scores: Array = images @ weights + bias
    return scores


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities: Array = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def _mean_loss(images: Array, labels: Array, weights: Array, bias: Array) -> float:
    right = _softmax(_scores(images, weights, bias))[np.arange(len(labels)), labels]
    return float(-np.log(right).mean())


@cache
def _batches() -> dict[str, tuple[SlopeCase, TwoSlopes]]:
    """Return {description: (batch, right gradients)} for batches of several shapes.

    The gradients are computed from differences of the loss, not from a formula.
    """
    draw = np.random.default_rng(701)
    cases = {}
    shapes = {
        "drawn": (6, 5, 3),
        "drawn, 11": (11, 7, 13),
        "drawn, 20": (20, 16, 10),
        "there is one image": (1, 6, 10),
    }
    for name, (count, pixels, classes) in shapes.items():
        images, weights, bias = (
            draw.normal(size=shape) for shape in ((count, pixels), (pixels, classes), (classes,))
        )
        labels = draw.integers(classes, size=count)
        slopes = []
        for array in (weights, bias):
            slope = np.zeros_like(array)
            for place in np.ndindex(array.shape):
                batch = array[place]
                array[place] = batch + STEP
                above = _mean_loss(images, labels, weights, bias)
                array[place] = batch - STEP
                slope[place] = (above - _mean_loss(images, labels, weights, bias)) / (2 * STEP)
                array[place] = batch
            slopes.append(slope)
        cases[name] = ((images, labels, weights, bias), (slopes[0], slopes[1]))
    return cases


def _slopes(answer: Callable[..., TwoSlopes]) -> Passed:
    cases = _batches()
    results = {name: call(answer, *batch) for name, (batch, _) in cases.items()}
    wrong = {
        name: where for name, (_, right) in cases.items() if (where := _apart(results[name], right))
    }
    if not wrong:
        rounded = [
            np.round(np.asarray(part, float), 5) + 0.0 for r in results.values() for part in r
        ]
        about = f"{name_of(answer)} on {len(cases)} batches, compared with differences of the loss"
        return Passed(about, evidence=rounded)
    fault = next(iter(wrong))
    batch, right = cases[fault]

    def gives_the_same(like: Callable[..., TwoSlopes]) -> bool:
        return all(
            not _apart(results[name], like(*deepcopy(arguments)))
            for name, (arguments, _) in cases.items()
        )

    why, advice = first(suspects("07.1"), gives_the_same)
    advice = advice or "compute one image by hand: scores, probabilities, errors."
    shapes = _shapes_of(results[fault])
    pixels, classes = batch[2].shape
    if shapes and shapes[0] == (classes, pixels) and pixels != classes:
        why = "the gradient of `weights` is transposed: its rows must be pixels, as in `weights`."
        advice = "compute images.T @ errors."
    elif shapes and shapes[1] == (1, classes):
        why = "keepdims=True leaves a dimension of 1, which bias does not have."
        advice = "leave out keepdims in the sum for bias."
    elif shapes and shapes[1] == (len(batch[1]),):
        why = "the gradient of `bias` is summed over the digits instead of the images."
        advice = "sum with axis=0."
    elif len(wrong) == 1 and not fault.startswith(ORDINARY):
        why = f"the other batches are right. This batch is special: {fault}."
    draws = None
    if len(shapes) == 2 and shapes[0] == (pixels, classes):
        draws = partial(_beside, "gradients of weights", results[fault][0], right[0])
    raise NotYet(_batch_text(answer, batch), wrong[fault], why=why, next_step=advice, draws=draws)


def _beside(label: str, actual: Array, right: Array) -> show.Picture:
    """Return the actual and the right array as small images with one colour scale."""
    both = np.array([actual, right], float)
    alt = "; ".join(
        f"{title}, from {number(float(array.min()))} to {number(float(array.max()))}"
        for title, array in zip(("yours", "right"), both, strict=True)
    )
    return show.images(
        both, titles=["yours", "right"], diverging=bool(right.min() < 0), alt=f"The {label}: {alt}."
    )


def _batch_text(answer: Answer, batch: SlopeCase) -> str:
    count = len(batch[1])
    pixels, classes = batch[2].shape
    return (
        f"{name_of(answer)} on {counted(count, 'image')} of {pixels} pixels, in {classes} classes"
    )


def _shapes_of(parts: TwoSlopes) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of a pair of gradients; () if `parts` is not a pair of arrays."""
    try:
        weights, bias = parts
        return np.shape(weights), np.shape(bias)
    except Exception:  # `parts` is not a pair, or not of arrays.
        return ()


def _apart(parts: TwoSlopes, right: TwoSlopes) -> str:
    """Return where a pair of gradients is wrong, in words; "" if it is right."""
    if not isinstance(parts, (tuple, list)) or len(parts) != 2:
        return returned(parts, ", and not a pair: the gradients of weights, and those of bias")
    for name, learner_part, should in zip(("weights", "bias"), parts, right, strict=True):
        if where := difference(learner_part, should):
            shape = f", not {should.shape}" if where.startswith("the shape") else ""
            return f"the gradients of {name}: {where}{shape}"
    return ""


def _errors_of_one(answer: Callable[..., Array]) -> Passed:
    draw = np.random.default_rng(711)
    cases = {}
    for number_, classes in enumerate((3, 10, 7)):
        p = _softmax(draw.normal(size=(1, classes)))[0]
        cases[f"drawn {number_}"] = (p, int(draw.integers(classes)))
    cases["the last digit is the right one"] = (p, classes - 1)

    def right(p: Array, label: int) -> Array:
        error: Array = p - np.eye(len(p))[label]
        return error

    advice = "copy p, and subtract 1 at index label."
    more = [
        (probabilities, label)
        for classes in range(2, 11)
        for probabilities in _softmax(draw.normal(size=(1, classes)))
        for label in range(classes)
    ]
    return compare(answer, right, cases, suspects("07.w1"), next_step=advice, more=more)


# --- 07.2 -----------------------------------------------------------------------------------------


def _counting(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
    """Build the program of an answer with a `learn` step that only records its inputs.

    The loss that this step computes encodes the image, the label and the number of the round.
    """
    images, labels, loss, rounds = parts
    increment = graph.add_constant(FLOAT, (4,), 1, "one")
    graph.set_tile_mapping(increment, 4)
    graph.set_initial_value(rounds, 0)
    learn = Sequence()
    (steps,) = trial.more
    popops.add_in_place(graph, rounds, increment, learn)
    fault = popops.cast(graph, labels, FLOAT, learn)
    popops.scaled_add_to(graph, fault, images[:, 2], k=10, prog=learn)
    popops.scaled_add_to(graph, fault, rounds, k=10_000, prog=learn)
    learn.add(Copy(fault, loss))
    return program_of(
        answer, f"an epoch of {counted(steps, 'step')}", graph, images, labels, loss, learn, steps
    ), []


def _named(trial_run: Ran) -> None:
    """Raise `NotYet` unless the answer created its streams under the required names."""
    handles = {stream.handle for stream in trial_run.engine.list_streams()}
    if missing := [name for name in trial_run.trial.streams if name not in handles]:
        actual = f"the streams {', '.join(map(repr, sorted(handles)))}" if handles else "no stream"
        advice = "create the three streams, with the names of the exercise."
        raise NotYet(
            trial_run.trial.tried, actual, expected=f"a stream {missing[0]!r}", next_step=advice
        )


def _steps(pixels: Array, labels: Array) -> Trial:
    """Return a trial of one epoch, with batches of four images of three pixels each."""
    tensors = {"images": Var(FLOAT, (4, 3), 0), "labels": Var(UNSIGNED_INT, (4,), 1)}
    tensors |= {"loss": Var(FLOAT, (4,), 2), "rounds": Var(FLOAT, (4,), 3)}
    description = f"an epoch of {counted(len(labels), 'step')}, in one engine.run()"
    images = StreamIn(FLOAT, pixels, 12, hers=True)
    digits = StreamIn(UNSIGNED_INT, labels, 4, hers=True)
    streams: dict[str, StreamIn | StreamOut] = {
        "images": images,
        "labels": digits,
        "loss": StreamOut(FLOAT, 4, hers=True),
    }
    return Trial(description, tensors, streams, more=(len(labels),), form=_counting, ready=_named)


def _epoch(answer: Callable[..., Program]) -> Passed:
    draw = np.random.default_rng(702)
    sizes = {
        steps: _steps(np.zeros((steps, 12)), np.zeros((steps, 4))).build(answer)
        for steps in (2, 23)
    }
    for steps in (5, 23, 1):
        pixels = draw.permutation(steps * 12).astype(np.float32).reshape(steps, 12)
        labels = draw.integers(1, CLASSES, steps * 4).astype(np.uint32).reshape(steps, 4)
        run = _steps(pixels, labels).build(answer)
        run.load()
        description = run.trial.tried
        ran_dry = ""
        try:
            run.run()
        except Broken as broken:
            if isinstance(broken.error, UninitialisedReadError):
                raise _too_early(description, broken.error) from None
            if not isinstance(broken.error, StreamConnectionError):
                raise
            ran_dry = broken.error.tried
        losses = run.sent["loss"].reshape(-1, 4)
        right = labels + 10.0 * pixels[:, 2::3] + 10_000.0 * np.arange(1, steps + 1)[:, None]
        if ran_dry:
            why = (
                "the program fetches more batches than there are steps."
                if len(losses) >= steps
                else "an iteration fetches more than one batch from a stream."
            )
            advice = "use Repeat(steps, …), and fetch one batch from each stream in an iteration."
            of = {stream.handle: stream.num_elements for stream in run.engine.list_streams()}
            if of["images"] == 4 and of["labels"] == 12:
                why = "the names of the two streams are exchanged."
                advice = 'give the stream of the pixels the name "images".'
            raise NotYet(description, ran_dry, why=why, next_step=advice)
        if len(losses) != steps:
            raise _lost_steps(description, run.program, len(losses), steps)
        if where := difference(losses, right):
            raise run.refused(
                "07.2", f"the losses: {where}", "", "trace the first two iterations by hand."
            )
    why = "a Python loop appended every step, and each step needs memory for its code."
    refuse_growing(sizes, "batches", why, "write one step, and return Repeat(steps, step).")
    return Passed(
        "5, 23 and 1 batches, each epoch in one engine run, with a program that does not grow",
        evidence=losses,
    )


def _lost_steps(description: str, program: Program, actual: int, steps: int) -> NotYet:
    why = ""
    advice = "send the losses of the batch in each iteration."
    loops = [p for p in all_of(program) if isinstance(p, Repeat)]
    if not actual:
        why = "nothing in the program sends the losses."
        advice = "end an iteration with a Copy of `loss` to its stream."
    elif not loops and actual == 1:
        why = (
            "the program has one step and no loop, so the host would have to call run for each "
            "batch."
        )
        advice = "put the step into Repeat(steps, …)."
    elif actual == 1:
        why = "the losses are sent only once, because the Copy to the stream is after the loop."
        advice = "put this Copy into the loop, after `learn`."
    elif actual < steps:
        why = "there are fewer iterations than steps."
        advice = "use Repeat(steps, …)."
    else:
        why = "an iteration sends the losses more than once."
    return NotYet(
        description,
        f"the losses of {counted(actual, 'batch', 'batches')}",
        expected=f"of {steps}",
        why=why,
        next_step=advice,
    )


def _too_early(description: str, error: UninitialisedReadError) -> NotYet:
    """Return the refusal of an answer that reads a value before it is written."""
    actual = said_by(error)
    for name in ("images", "labels", "loss"):
        if f"'{name}'" in error.tried or f"{name}[" in error.tried:
            why = (
                f"`learn` reads `{name}` before the program writes it: no stream is copied to "
                f"`{name}` before `learn`."
            )
            advice = f"copy the stream to `{name}` before `learn`."
            if name == "loss":
                why = "`loss` is sent before `learn` computes it."
                advice = "put `learn` before the Copy that sends the losses."
            return NotYet(description, actual, why=why, next_step=advice)
    return NotYet(description, actual, next_step=error.next_step)


# --- 07.3 -----------------------------------------------------------------------------------------

# The accuracy may be at most LOW below and HIGH above that of plain numpy. In 100 random orders of
# the batches, it differed by -0.03 to 0.007.
LOW = 0.04
HIGH = 0.02
# The maximum accuracy on test labels that are all wrong: `TURNED` was added to each. A right answer
# stays below 0.03 in all 100 orders.
LEAK = 0.1
TURNED = 3
EPOCHS = 12
EVERY = 297  # The number of all test images of the digits.
FEWER = 263  # The number of test images in the smaller set "early".


@cache
def _digits(tests: str) -> datasets.Dataset:
    """Return 750 of the digits in a fixed random order, with one of three sets of test images.

    `tests` is "" for the test images of the lesson. With "turned", all their labels are wrong, so
    no correct answer can predict them. With "early", the set is smaller and begins with images
    that are classified correctly by the weights after one epoch, but not by those after three.
    """
    all_digits = datasets.digits()
    order = np.random.default_rng(703).permutation(len(all_digits.train_labels))
    subset = replace(
        all_digits,
        train_images=all_digits.train_images[order[:750]],
        train_labels=all_digits.train_labels[order[:750]],
    )
    images = all_digits.test_images
    labels = all_digits.test_labels
    if tests == "turned":
        labels = ((labels + TURNED) % CLASSES).astype(labels.dtype)
    if tests == "early":
        pool = np.concatenate([all_digits.train_images[order[750:]], images])
        first, third = (_read(*_learnt(subset)[epochs], pool) for epochs in (1, 3))
        change = first != third
        images = np.concatenate([pool[change], images])[:FEWER]
        labels = np.concatenate([first[change].astype(labels.dtype), labels])[:FEWER]
    return replace(subset, test_images=images, test_labels=labels)


def _pixels(images: Array) -> Array:
    return images.reshape(-1, PIXELS) / 255.0


def _learnt(data: datasets.Dataset) -> list[tuple[Array, Array]]:
    """Return [(weights, bias)] after 0, 1, ..., `EPOCHS` epochs, computed by numpy in float64."""
    parameters: list[tuple[Array, Array]] = [(np.zeros((PIXELS, CLASSES)), np.zeros(CLASSES))]
    batches = list(
        zip(np.split(_pixels(data.train_images), 15), np.split(data.train_labels, 15), strict=True)
    )
    for _ in range(EPOCHS):
        weights = parameters[-1][0].copy()
        bias = parameters[-1][1].copy()
        for images, labels in batches:
            errors = _softmax(_scores(images, weights, bias)) - np.eye(CLASSES)[labels]
            weights -= RATE / BATCH * images.T @ errors
            bias -= RATE / BATCH * errors.sum(axis=0)
        parameters.append((weights, bias))
    return parameters


@cache
def _shares(tests: str) -> list[float]:
    """Return the fraction of test images that numpy's weights classify correctly after each epoch.

    The first fraction is for the weights before training.
    """
    data = _digits(tests)
    return [
        _right(*learnt, data.test_images, data.test_labels) / len(data.test_labels)
        for learnt in _learnt(data)
    ]


def _read(weights: Array, bias: Array, images: Array) -> Array:
    """Return the classes that the weights predict for `images`, computed by numpy."""
    labels: Array = _scores(_pixels(images), weights, bias).argmax(axis=1)
    return labels


def _right(weights: Array, bias: Array, images: Array, labels: Array) -> int:
    """Return the number of `images` that the weights classify correctly."""
    return int((_read(weights, bias, images) == labels).sum())


def _trainer(data: datasets.Dataset) -> Engine:
    """Return an engine with the two programs of the lesson: an epoch of training, and the test."""
    graph = graph_of()
    images = graph.add_variable(FLOAT, (BATCH, PIXELS), "images")
    labels = graph.add_variable(UNSIGNED_INT, BATCH, "labels")
    weights = graph.add_variable(FLOAT, (PIXELS, CLASSES), "weights")
    bias = graph.add_variable(FLOAT, CLASSES, "bias")
    loss = graph.add_variable(FLOAT, BATCH, "loss")
    deltas = graph.add_variable(FLOAT, (BATCH, CLASSES), "deltas")
    hits = graph.add_variable(INT, (), "num_correct")
    for tensor in (images, labels, weights, bias, loss, deltas, hits):
        poputil.map_tensor_linearly(graph, tensor)
    for tensor in (weights, bias, hits):
        graph.set_initial_value(tensor, 0)
    for name, tensor in (("weights", weights), ("bias", bias), ("num_correct", hits)):
        graph.create_host_read(name, tensor)
    size = images.num_elements
    streams = {
        name: (
            graph.add_host_to_device_fifo(f"{name}images", FLOAT, size),
            graph.add_host_to_device_fifo(f"{name}labels", UNSIGNED_INT, BATCH),
        )
        for name in ("", "test_")
    }
    forward = Sequence()
    learn = Sequence()
    test = Sequence()
    scores = popops.add(graph, poplin.mat_mul(graph, images, weights, forward), bias, forward)
    popnn.calc_loss(graph, popnn.softmax(graph, scores, forward), labels, loss, deltas, learn)
    slopes = (
        poplin.mat_mul(graph, images.transpose(), deltas, learn),
        popops.reduce(graph, deltas, [0], learn),
    )
    for tensor, slope in zip((weights, bias), slopes, strict=True):
        popops.scaled_add_to(
            graph, tensor, slope, k=-RATE / BATCH, prog=learn, debug_context="update"
        )
    learn.add(Copy(loss, graph.add_device_to_host_fifo("loss", FLOAT, BATCH)))
    popnn.calc_accuracy(graph, scores, labels, hits, test)
    reset = Sequence()
    popops.fill(graph, hits, reset, 0)
    fetch = {
        name: Sequence(Copy(pair[0], images), Copy(pair[1], labels))
        for name, pair in streams.items()
    }
    epoch = Repeat(len(data.train_labels) // BATCH, Sequence(fetch[""], forward, learn))
    tests = Repeat(-(-len(data.test_labels) // BATCH), Sequence(fetch["test_"], forward, test))
    return loaded(graph, [epoch, Sequence(reset, tests)], "the lesson's program")


@dataclass(frozen=True)
class _Trained:
    """The result of a training: the returned fraction, the final weights, and what was run.

    `ran` and `tests_ran` are the numbers of epochs and of tests that were run since the engine was
    loaded last. The answer loaded the engine `loads` times, and so lost the results of `lost`
    epochs.
    """

    tried: str
    data: datasets.Dataset
    share: float
    ran: int
    tests_ran: int
    loads: int
    lost: int
    weights: Array
    bias: Array

    @property
    def tests_right(self) -> int:
        """The number of test images that the final weights classify correctly."""
        return _right(self.weights, self.bias, self.data.test_images, self.data.test_labels)


def _train(answer: Callable[..., float]) -> Passed:
    engine = _trainer(_digits(""))
    # One entry per load by the answer: the number of epochs that were run before this load.
    lost: list[int] = []
    load = engine.load

    def counted_load(device: Device | None = None) -> None:
        lost.append(sum(run.program == 0 for run in engine.report.runs))
        load(device)

    setattr(engine, "load", counted_load)  # noqa: B010  # changes only this engine
    runs = []
    for epochs, tests in ((EPOCHS, ""), (3, "early"), (EPOCHS, "turned")):
        data = _digits(tests)
        description = f"{epochs} epochs of 750 digits, and {len(data.test_labels)} test images"
        load()
        lost.clear()
        returned_value = call_made(answer, description, engine, data, epochs)
        per_cent = 100 * int(engine.read_tensor("num_correct")) / len(data.test_labels)
        share = _share_of(description, returned_value, per_cent)
        updates = next(p.executions for p in engine.report.compute_sets if p.name == "update")
        learnt = engine.read_tensor("weights"), engine.read_tensor("bias")
        tests_ran = sum(run.program == 1 for run in engine.report.runs)
        ran = (updates // 15, tests_ran, len(lost), sum(lost))
        runs.append(_Trained(description, data, share, *ran, *learnt))
    full_run, short, turned_round = runs
    for run, epochs in ((full_run, EPOCHS), (short, 3)):
        is_constant = 0 < run.share < 1 and len({one_run.share for one_run in runs}) == 1
        _ran(run, epochs, constant=is_constant)
    _seen_nothing(turned_round)
    digits = _digits_of([full_run, short])
    for run, tests in ((full_run, ""), (short, "early")):
        _counted(run, _shares(tests), digits)
    reached = _shares("")[EPOCHS]
    if not reached - LOW <= full_run.share <= reached + HIGH:
        expected = f"{reached - LOW:.3f} to {reached + HIGH:.3f}; plain numpy gives {reached:.3f}"
        why = (
            "the returned share is that of these weights. But they learnt from other pixels or "
            "labels than those of data.train_images and data.train_labels."
        )
        advice = "connect the pixels as numbers from 0 to 1, and each batch with its own labels."
        raise NotYet(
            full_run.tried, f"{full_run.share:.4g}", expected=expected, why=why, next_step=advice
        )
    if full_run.tests_ran > 1:
        raise NotYet(
            full_run.tried,
            f"the right share, after {full_run.tests_ran} tests",
            expected="one test, after the last epoch",
            next_step="call engine.run(1) once, after the loop over the epochs.",
        )
    return Passed(
        f"3 and {EPOCHS} epochs of 750 digits, compared with plain numpy; then every test label "
        "was replaced by a wrong one",
        evidence=[run.share for run in runs],
    )


def _ran(run: _Trained, epochs: int, constant: bool) -> None:
    """Raise `NotYet` unless `epochs` epochs were run and the returned fraction depends on them."""
    data = run.data
    actual = f"{run.share:.4g}"
    if constant:
        raise NotYet(
            run.tried,
            actual,
            why="the result is the same for every training and every test set.",
            next_step='compute the share from engine.read_tensor("num_correct").',
        )
    if run.ran and abs(run.share - float((data.test_labels == 0).mean())) < 1e-6:
        why = (
            "this is the share of untrained weights, which predict 0 for every image, so the "
            "test ran before the training."
        )
        raise NotYet(
            run.tried,
            actual,
            why=why,
            next_step="run the epochs, engine.run(0), before the test, engine.run(1).",
        )
    if run.ran != epochs:
        why = f"program 0, which is an epoch, ran {counted(run.ran, 'time')}."
        why += "" if run.ran else " The weights are still 0, so nothing was learnt."
        advice = "call engine.run(0) `epochs` times."
        if run.lost and not run.ran:
            why = (
                f"engine.load() after {counted(run.lost, 'epoch')} restored the initial weights: "
                "the training is lost."
            )
            advice = "leave out engine.load(): the engine is loaded already."
        elif run.loads > 1:
            why = (
                f"the engine was loaded {counted(run.loads, 'time')}. Each load sets weights to "
                "0 again, so only the training after the last load counts."
            )
            advice = "leave out engine.load(): the engine is loaded already."
        raise NotYet(run.tried, actual, why=why, next_step=advice)
    trained = _right(run.weights, run.bias, data.train_images, data.train_labels) / len(
        data.train_labels
    )
    tests = run.tests_right / len(data.test_labels)
    if abs(run.share - trained) < 1e-6 < abs(trained - tests):
        raise NotYet(
            run.tried,
            actual,
            why="this is the share of the training images.",
            next_step="connect data.test_images, and count the right results for these images.",
        )


def _seen_nothing(run: _Trained) -> None:
    """Raise `NotYet` if the answer has used the test labels for training.

    All test labels are wrong here, so no sound answer predicts a larger fraction than `LEAK` of
    them.
    """
    if run.share <= LEAK:
        return
    if abs(1 - run.share - run.tests_right / len(run.data.test_labels)) < 0.01:
        why = "this is the share of images that were not recognised."
        actual = f"{run.share:.4g}"
        right = f"{1 - run.share:.4g}"
        raise NotYet(
            run.tried,
            actual,
            expected=right,
            why=why,
            next_step="return the share of hits.",
        )
    why = (
        f"{TURNED} was added to each test label, so weights that never saw these labels agree with "
        "almost none."
    )
    if run.tests_right > LEAK * len(run.data.test_labels):
        why = f"{why} But these weights agree with many, so they were trained on these labels."
        advice = "train only on data.train_images and data.train_labels."
    else:
        why += " The weights agree with few, so the labels came in with the test images."
        advice = "connect only the pixels of the test images, without their labels."
    actual = f"{100 * run.share:.0f} % of these labels predicted"
    raise NotYet(
        f"{EPOCHS} epochs; each test label was replaced by a wrong one",
        actual,
        why=why,
        next_step=advice,
    )


def _digits_of(runs: list[_Trained]) -> int:
    """Return the number of decimal places to which an answer rounds the accuracies of all runs.

    The result is 0 if the accuracies are not rounded.
    """
    for digits in range(1, 5):
        if all(
            abs(run.share - round(run.tests_right / len(run.data.test_labels), digits)) < 1e-9
            for run in runs
        ):
            return digits
    return 0


def _counted(run: _Trained, shares: list[float], digits: int) -> None:
    """Raise `NotYet` unless the returned fraction is the accuracy of the final weights.

    A difference of one test image is allowed, because rounding may decide how it is classified.
    `shares[n]` is the accuracy in plain numpy after n epochs. `digits` is the number of decimal
    places to which the learner's fraction was rounded; 0 if it was not rounded.
    """
    tests = run.tests_right
    count = len(run.data.test_labels)
    if _is_whole(run.share * count) and abs(run.share - tests / count) < 1.5 / count:
        return
    padded = -(-count // BATCH) * BATCH
    why = f"these weights recognise {tests} of {count} test images."
    advice = "test once, after the training, on all test images."
    if not run.share:
        why = "no hit was counted, because the test program did not run after the training."
        advice = "call engine.run(1) before you read num_correct."
    elif digits:
        why = f"the share was rounded to {counted(digits, 'digit')} after the point."
        advice = "return the hits divided by len(data.test_labels), without rounding."
    elif abs(run.share - tests / padded) < 1e-6:
        why = (
            f"the hits were divided by {padded}, which includes the blank images that fill the "
            "last batch."
        )
        advice = "divide by len(data.test_labels)."
    elif count != EVERY and _is_whole(run.share * EVERY) and abs(run.share * EVERY - tests) < 1.5:
        why = f"the hits were divided by {EVERY}, but here there are {count} test images."
        advice = "divide by len(data.test_labels)."
    elif abs(run.share * len(run.data.train_labels) - tests) < 1.5:
        why = "the hits were divided by the number of training images."
        advice = "divide by len(data.test_labels)."
    elif abs(run.share - max(shares[1 : run.ran + 1])) < 1.5 / count:
        why = (
            "this is the largest result of several tests. The test images decided which result "
            "counts, so the share is too good."
        )
        advice = "test once, after the last epoch, and return that share."
    raise NotYet(
        run.tried, f"{run.share:.4g}", expected=f"{tests / count:.4g}", why=why, next_step=advice
    )


def _is_whole(value: float) -> bool:
    return abs(value - round(value)) < 1e-3


def _share_of(description: str, result: float, per_cent: float) -> float:
    """Return the answer's result as a float from 0 to 1.

    `per_cent` is the percentage of the test images that were classified correctly in the last test.

    :raises NotYet: if the result is not such a number.
    """
    share = plain(result)
    if share is None:
        actual = returned(result, ", which is no number")
        raise NotYet(
            description,
            actual,
            expected="a share, from 0 to 1",
            next_step="return the number of hits, divided by the number of test images.",
        )
    if not 0 <= share <= 1:
        why = ""
        advice = "divide by the number of test images."
        if isinstance(share, int) and 1 < share <= EVERY:
            why = "this may be the number of recognised images. The exercise asks for their share."
        elif 1 < share <= 2:
            why = "this counts hits among more images than it divides by."
        elif 1 < share <= 100:
            why = "this looks like a percentage. It should be a share."
            if abs(share - per_cent) < 1e-6:
                advice = "leave out the factor of 100."
        raise NotYet(
            description,
            quoted(result),
            expected="a share, from 0 to 1",
            why=why,
            next_step=advice,
        )
    return float(share)


# --- 07.4 -----------------------------------------------------------------------------------------

# The allowed error of a pixel, which is computed by a single FLOAT operation.
ROUNDING = 1e-6


def _feeding(batches: list[Array]) -> Callable[[Ran], None]:
    """Return a function for `Trial.ready`, which connects the answer's stream of images.

    Run i of the program gets batch i, as often as the program fetches it.
    """

    def ready(run: Ran) -> None:
        description = run.trial.tried
        streams = [stream for stream in run.engine.list_streams() if stream.to_device]
        if [stream.handle for stream in streams] != ["images"]:
            actual = ", ".join(repr(stream.handle) for stream in streams) or "none"
            advice = 'create the stream with graph.add_host_to_device_fifo("images", …).'
            raise NotYet(
                description,
                f"streams to the device: {actual}",
                expected="one, named 'images'",
                next_step=advice,
            )
        (stream,) = streams

        def feed() -> Array:
            sent = batches[len(run.came)]
            if stream.num_elements != sent.size:
                why = "a transfer must be a whole batch, with as many elements as `images`."
                actual = f"a stream of {stream.num_elements} elements"
                raise NotYet(
                    description,
                    actual,
                    expected=f"{sent.size}",
                    why=why,
                    next_step="give the stream images.num_elements.",
                )
            return sent.reshape(-1).astype(stream.dtype.numpy)

        run.engine.connect_stream_to_callback("images", feed)

    return ready


def _grey(batches: list[Array]) -> Trial:
    """Return a trial with two batches of pixels, one per run.

    The second run reveals values that remain from the first.
    """
    rows, columns = batches[0].shape
    images = Var(FLOAT, (rows, columns), linearly, right=[batch / 255.0 for batch in batches])
    description = f"a batch of {counted(rows, 'image')}, {counted(columns, 'pixel')} each"

    def agree(learner_run: Ran, reference_run: Ran) -> bool:
        run = next(run for run in range(len(batches)) if _misread(learner_run, run).any())
        return np.allclose(
            reference_run.came[run]["images"],
            learner_run.came[run]["images"],
            rtol=ROUNDING,
            atol=ROUNDING,
        )

    return Trial(
        description, {"images": images}, runs=len(batches), ready=_feeding(batches), agree=agree
    )


def _misread(trial_run: Ran, run: int) -> Array:
    """Return bool[images' shape]: which pixels are wrong by more than ROUNDING."""
    wrong: Array = ~(
        np.abs(trial_run.came[run]["images"] - trial_run.trial.tensors["images"].right[run])
        <= ROUNDING
    )
    return wrong


def _bytes(answer: Callable[..., Program]) -> Passed:
    draw = np.random.default_rng(704)
    worst = 0.0
    fault = ""
    for rows, columns in ((7, 37), (BATCH, PIXELS), (1, 1)):
        batches: list[Array] = [
            (draw.permutation(rows * columns) % 256).astype(np.uint8).reshape(rows, columns)
            for _ in range(2)
        ]
        for batch in batches:
            batch.flat[-1] = 255
        trial = _grey(batches)
        try:
            trial_run = trial.of(answer)
        except Broken as broken:
            inner = broken.error.__cause__
            raise (
                inner if isinstance(inner, NotYet) else _unlike_bytes(broken, batches[0])
            ) from None
        for run, batch in enumerate(batches):
            if (wrong := _misread(trial_run, run)).any():
                raise _misscaled(
                    trial_run, run, batch, tuple(int(i) for i in np.argwhere(wrong)[0])
                )
        if columns < PIXELS:
            refuse_fixed_tiles(
                trial,
                answer,
                OTHER,
                lambda other_run: not any(_misread(other_run, run).any() for run in (0, 1)),
            )
        else:
            _refuse_crowded(trial_run)
        bytes_per_number = trial_run.engine.report.host_bytes / len(batches) / (rows * columns)
        if bytes_per_number > worst:
            worst = bytes_per_number
            fault = trial.tried
    bars = Bars(1, worst, "B a pixel")
    if worst > 1:
        dtype = next(stream.dtype for stream in trial_run.engine.list_streams() if stream.to_device)
        why = f"a pixel is sent as {dtype.__name__}, which has {counted(dtype.size, 'byte')}."
        if dtype.size == 1:
            why = "the program fetches more than the pixels of one batch."
        advice = "fetch the batch once, as UNSIGNED_CHAR, and convert it on the tiles."
        raise NotYet(
            fault,
            f"the program fetches {number(worst)} bytes per pixel from the host",
            why=why,
            next_step=advice,
            bars=bars,
        )
    return Passed(
        "3 sizes of batches, two of each, every grey level",
        bars,
        [np.rint(255 * c["images"]) for c in trial_run.came],
    )


def _refuse_crowded(run: Ran) -> None:
    """Raise `NotYet` if one tile receives more than twice the mean number of bytes."""
    received = np.zeros(run.graph.target.num_tiles, np.int64)
    for step in all_of(run.program):
        if isinstance(step, Copy) and isinstance(step.source, DataStream):
            assert isinstance(step.destination, Tensor)
            for tile, intervals in enumerate(run.graph.get_tile_mapping(step.destination)):
                size = step.destination.dtype.size
                received[tile] += size * sum(end - begin for begin, end in intervals)
    if received.max() > 2 * received.mean():
        tile = int(received.argmax())
        raise NotYet(
            run.trial.tried,
            f"tile {tile} receives {received[tile]:,} bytes",
            expected=f"{int(2 * received.mean()):,} at most",
            why=(
                f"tile {tile} receives {received[tile] / received.sum():.0%} of the bytes, and "
                "sends on those whose pixels are on other tiles."
            ),
            next_step="map the variable of bytes to all tiles, for example like `images`.",
        )


def _unlike_bytes(broken: Broken, batch: Array) -> Exception:
    """Return an error that is caused by a wrong conversion of bytes as `NotYet`.

    The causes are a read of `images` before it is written, a factor that is not an integer, and a
    batch of constant size. Any other error is returned unchanged.
    """
    message = said_by(broken.error)
    rows, columns = batch.shape
    if isinstance(broken.error, UninitialisedReadError) and "of 'images'" in message:
        why = "this reads images before anything is written into it."
        advice = (
            "begin with popops.cast_with_output(graph, raw, images, …), which fills images, and "
            "scale images after it."
        )
        return NotYet(broken.tried, message, why=why, next_step=advice)
    if "holds whole numbers" in message:
        why = "bytes are integers, and 1 / 255 is none, so the scaling must come after the cast."
        advice = "cast `raw` into `images` first, then multiply `images`."
        return NotYet(broken.tried, message, why=why, next_step=advice)
    if batch.shape != (BATCH, PIXELS) and any(
        size in message for size in (f"({BATCH}, {PIXELS})", f"{BATCH * PIXELS:,}")
    ):
        why = (
            f"this batch is {rows} x {columns}, but the answer contains the size of the lesson's "
            f"batch, {BATCH} x {PIXELS}."
        )
        return NotYet(
            broken.tried,
            message,
            why=why,
            next_step="use images.shape and images.num_elements.",
        )
    return broken


def _misscaled(trial_run: Ran, run: int, batch: Array, place: tuple[int, ...]) -> NotYet:
    """Return the refusal of a wrong pixel at the index `place`, with the reason."""
    actual = trial_run.came[run]["images"]
    right = trial_run.trial.tensors["images"].right[run]
    if not trial_run.steps["fetch"]:
        why = "the program fetches nothing from the stream."
        advice = "begin the program with a Copy from the stream."
    elif trial_run.unwritten_at("images", run).all():
        why = "the program writes nothing into `images`."
        advice = "write to `images` with popops.cast_with_output, or with a Copy."
    else:
        why, advice = trial_run.trial.reason(
            trial_run, "07.4", advice="trace one pixel by hand: 51 must become 0.2."
        )
        times = float(actual[place]) / float(right[place] or np.nan)
        if not why and np.allclose(actual, times * right):
            why = f"every pixel is {number(times)} times as large as it should be."
    became, expected = quoted(float(actual[place])), number(float(right[place]))
    if number(float(actual[place])) == expected:
        became, expected = f"{actual[place]:.7f}", f"{right[place]:.7f}"
    was = f"a pixel of {batch[place]} became {became}"
    draws = (
        None if np.isnan(actual).any() else partial(_beside, "pixels of the batch", actual, right)
    )
    return NotYet(
        trial_run.trial.tried,
        was,
        expected=expected,
        why=why,
        next_step=advice,
        draws=draws,
    )


# --- 07.5 -----------------------------------------------------------------------------------------

# The maximum fraction of the time that the device may wait.
EXPOSED = 0.05
# The maximum number of ready transfers. It limits the memory that the host needs.
MOST_READY = 16
# Each item is (number of batches that a read returns, number of training steps that the next read
# lasts).
READERS = ((8, 4), (8, 7), (16, 11), (12, 3), (24, 5), (9, 1))


@dataclass(frozen=True)
class Reader:
    """The batch reader that is passed to an answer: the lesson's reader without its clock."""

    at_once: int
    steps: int
    ready: Callable[[], bool]
    next_batch: Callable[[], Array]


class _Clock:
    """A batch reader's simulated time, measured in training steps.

    The reader has `at_once` batches, and then needs `steps` training steps to read more.
    """

    def __init__(self, batches: Array, at_once: int, steps: int) -> None:
        self.batches = batches
        self.at_once = at_once
        self.steps = steps
        self.now = self.waited = self.taken = self.there_at = self.ahead = 0
        self.was_asked = False
        self.reader = Reader(at_once, steps, self.ready, self.next_batch)

    def ready(self) -> bool:
        self.was_asked = True
        return self.now >= self.there_at

    def next_batch(self) -> Array:
        self.waited += max(0, self.there_at - self.now)
        # The device has waited until the read ended.
        self.there_at = min(self.there_at, self.now)
        batch: Array = self.batches[self.taken % len(self.batches)].copy()
        self.taken += 1
        self.ahead = max(self.ahead, self.taken - self.now)
        if self.taken % self.at_once == 0:
            self.there_at = self.now + self.steps
        return batch


# A function that returns a stream and the callback that fills it.
Feeds = Callable[..., tuple[DataStream, StreamCallback]]


def _fed_by(answer: Feeds, clock: _Clock, description: str) -> tuple[DataStream, StreamCallback]:
    """Run a program that fetches all batches from an answer; return its stream and callback.

    The answer takes the batches from the reader of `clock`.

    :raises NotYet: if batches arrive in another order, or too many are taken ahead.
    """
    count, size = clock.batches.shape
    graph = graph_of()
    batch = graph.add_variable(FLOAT, (size,), "batch")
    graph.set_tile_mapping(batch, 0)
    returned_value = call_made(answer, description, graph, clock.reader, size)
    stream, callback = _pair(description, returned_value, size)
    received: list[Array] = []

    def step(values: Array) -> None:
        received.append(values.copy())
        clock.now += 1

    done = graph.add_device_to_host_fifo("check of 07.5", FLOAT, size)
    engine = loaded(
        graph, Repeat(count, Sequence(Copy(stream, batch), Copy(batch, done))), description
    )
    engine.connect_stream_to_callback("check of 07.5", step)
    with answering(description):
        engine.connect_stream_to_callback(stream.handle, callback)
        engine.run()
    _in_order(description, np.array(received), clock.batches)
    # The transfer in progress counts as ready, too.
    if clock.ahead > MOST_READY + 1:
        actual = f"{clock.ahead:,} batches taken from the reader and not yet used"
        why = f"batches in a list of your own need memory of the host, too: only {MOST_READY} fit."
        advice = "take one batch in each prefetch, and write it to the array."
        raise NotYet(
            description, actual, expected=f"at most {MOST_READY}", why=why, next_step=advice
        )
    return stream, callback


def _read_ahead(answer: Feeds) -> Passed:
    size = 12
    count = 96
    worst = (0.0, 0, 0)
    for at_once, steps in READERS:
        description = (
            f"{count} steps, with a reader that takes {steps} of them for {at_once} batches"
        )
        batches = (
            (np.random.default_rng(705).permutation(count * size) % 251)
            .astype(np.float32)
            .reshape(count, size)
        )
        clock = _Clock(batches, at_once, steps)
        stream, callback = _fed_by(answer, clock, description)
        share = clock.waited / (count + clock.waited)
        if share >= worst[0]:
            worst = (share, at_once, steps)
            ahead = clock.ahead
            wide = stream.buffering_depth
            was = description
            was_asked = clock.was_asked
    bars = Bars(100 * EXPOSED, 100 * worst[0], "% of the time, waiting for the reader")
    if worst[0] <= EXPOSED:
        return Passed(
            f"{len(READERS)} readers, {count} steps each; below, the longest wait",
            bars,
            (worst, wide),
        )
    has_default_prefetch = type(callback).prefetch is StreamCallback.prefetch
    why = (
        f"{counted(wide, 'transfer')} may be ready ahead, but a read takes {worst[2]} steps: the "
        "ready batches run out."
    )
    advice = "work out how many batches the device uses during a read, and make the buffer as deep."
    if has_default_prefetch:
        why = "the callback has no prefetch, so the device waits for each batch."
        advice = "write a method prefetch(self, array)."
    elif ahead <= 1:
        why = "prefetch never put a batch into its array, so none was ready ahead."
        advice = "if reader.ready(): fill the array, and return self.Result.SUCCESS."
    elif wide >= worst[2]:
        why = (
            "the buffer is deep enough, but the reader was asked for batches that it did not have, "
            "so the device waited."
        )
        advice = "call reader.ready() in prefetch, and take a batch only if it is true."
    elif not was_asked:
        why = "prefetch takes a batch even if the reader has none ready, so the device waits there."
        advice = "call reader.ready() in prefetch, and take a batch only if it is true."
    raise NotYet(
        was,
        f"the device waits {100 * worst[0]:.0f} % of the time",
        why=why,
        next_step=advice,
        bars=bars,
    )


class _Marked(StreamCallback):
    """A callback whose arrays contain NaN until the learner's `fetch` fills them."""

    def __init__(self, callback: StreamCallback) -> None:
        self.callback = callback

    def fetch(self, array: Array) -> None:
        array[:] = np.nan
        self.callback.fetch(array)


def _counting_up(answer: Answer) -> Passed:
    description = "a stream of 3 numbers, fetched 5 times"
    with answering(description):
        callback = answer() if isinstance(answer, type) else answer
    if not isinstance(callback, StreamCallback):
        raise NotYet(
            description,
            returned(callback),
            expected="a StreamCallback",
            next_step="write class Counting(StreamCallback): …",
        )
    if type(callback).prefetch is not StreamCallback.prefetch:
        raise NotYet(
            description,
            f"{type(callback).__name__} has a method prefetch",
            expected="only the method fetch",
            next_step="leave out prefetch.",
        )
    firsts = _counted_up(callback, description)
    if isinstance(answer, type):
        description = f"a second {answer.__name__}(), {description}"
        with answering(description):
            callback = answer()
        _counted_up(callback, description)
    return Passed("two streams of 3 numbers, each fetched 5 times", evidence=firsts)


def _fetched(callback: StreamCallback, description: str, size: int, rounds: int) -> list[Array]:
    """Run a program that fetches `rounds` arrays of `size` elements, and return the arrays."""
    graph = graph_of()
    received = list[Array]()
    batch = graph.add_variable(FLOAT, size, "batch")
    graph.set_tile_mapping(batch, 0)
    stream = graph.add_host_to_device_fifo("numbers", FLOAT, size)
    back = graph.add_device_to_host_fifo("check", FLOAT, size)
    engine = loaded(
        graph, Repeat(rounds, Sequence(Copy(stream, batch), Copy(batch, back))), description
    )
    engine.connect_stream_to_callback("check", lambda values: received.append(values.copy()))
    try:
        with answering(description):
            engine.connect_stream_to_callback("numbers", _Marked(callback))
            engine.run()
    except Broken as broken:
        _refuse_unset(broken, callback, description)
        raise
    return received


def _refuse_unset(broken: Broken, callback: StreamCallback, description: str) -> None:
    """Raise `NotYet` if the error is that the callback reads an attribute that it never set."""
    cause = broken.error.__cause__
    if isinstance(cause, AttributeError) and cause.obj is callback:
        why = f"`self.{cause.name}` has no value when fetch is called for the first time."
        advice = f"give it one in the class, before fetch: {cause.name} = 0."
        raise NotYet(description, f"AttributeError: {cause}", why=why, next_step=advice) from None


def _counted_up(callback: StreamCallback, description: str) -> list[float]:
    """Run a program that fetches 5 arrays of the callback, and return the first number of each.

    :raises NotYet: if the arrays are not filled with 1, 2, …, 5.
    """
    size = 3
    rounds = 5
    received = _fetched(callback, description, size, rounds)
    firsts = [float(row[0]) for row in received]
    if all((row == n).all() for n, row in enumerate(received, 1)):
        return firsts
    why = ""
    advice = "keep a number in the object, add 1 to it in each fetch, and fill array[:] with it."
    actual = quoted(firsts)
    right = quoted(list(range(1, rounds + 1)))
    uneven = next((n for n, row in enumerate(received) if len(set(row.tolist())) > 1), -1)
    if np.isnan(received).all():
        actual = "5 arrays that were not filled"
        why = "`fetch` wrote nothing to the arrays. `array = …` only gives the name `array` to "
        why += "another array."
        advice = "fill the array itself: array[:] = …"
        held = [np.full(size, held, np.float32) for held in (7, 100)]
        left = [values.copy() for values in held]
        with answering(description):
            for values in left:
                callback.fetch(values)
        if not all(map(np.array_equal, held, left)):
            actual = "5 arrays of nan"
            why = (
                f"the result depends on the earlier contents of the array: 7 became "
                f"{quoted(left[0][0])}, and 100 became {quoted(left[1][0])}."
            )
            advice = "keep the number in the object, and fill the array with it: array[:] = …"
    elif np.isnan(received).any():
        unfilled = int(np.argmax(np.isnan(received).any(axis=1)))
        actual = f"array {unfilled + 1} is {quoted(received[unfilled])}"
        right = quoted(np.full(size, unfilled + 1.0))
        why = "not all elements have the number."
        advice = "fill all elements: array[:] = …"
    elif uneven >= 0:
        actual = f"array {uneven + 1} is {quoted(received[uneven])}"
        right = quoted(np.full(size, uneven + 1.0))
        why = "the elements of one array are different, and they should all be equal."
        advice = "write the same number to all elements: array[:] = self.number."
    elif len(set(firsts)) == 1:
        why = f"each array is filled with {number(firsts[0])}."
        advice = "keep the number in the object: self.number += 1 in each fetch."
    elif firsts == list(range(rounds)):
        why = "the count begins at 0."
        advice = "add 1 first, then fill the array."
    elif firsts == [firsts[0] + n for n in range(rounds)]:
        why = f"the count of this object begins at {number(firsts[0])}."
        advice = "keep the count in self.number, and set it to 0 in __init__."
    raise NotYet(description, actual, expected=right, why=why, next_step=advice)


def _pair(
    description: str, returned_value: tuple[DataStream, StreamCallback], size: int
) -> tuple[DataStream, StreamCallback]:
    """Return the stream and the callback that the answer returned.

    :raises NotYet: if the answer returned anything else.
    """
    expected = "a stream, and the StreamCallback that feeds it"
    if not isinstance(returned_value, (tuple, list)) or len(returned_value) != 2:
        raise NotYet(
            description,
            returned(returned_value),
            expected=expected,
            next_step="return both: return stream, Ahead().",
        )
    stream, callback = returned_value
    if isinstance(callback, type):
        raise NotYet(
            description,
            f"the class {callback.__name__}",
            expected=expected,
            why="a class is no object yet.",
            next_step="create an object of the class: Ahead().",
        )
    if not isinstance(stream, DataStream) or not isinstance(callback, StreamCallback):
        raise NotYet(
            description,
            shown(returned_value),
            expected=expected,
            next_step="return the stream first, then the callback.",
        )
    if not stream.to_device or stream.num_elements != size or stream.dtype is not FLOAT:
        raise NotYet(
            description,
            shown(stream),
            expected=f"a stream to the device of {size} FLOATs",
            next_step="give the stream the dtype FLOAT and `size` elements.",
        )
    if stream.handle != "images":
        advice = 'use the name "images": the check connects the stream by its name.'
        raise NotYet(
            description, f"a stream {stream.handle!r}", expected="'images'", next_step=advice
        )
    if stream.buffering_depth > MOST_READY:
        why = f"the host has memory for only {MOST_READY} transfers."
        raise NotYet(
            description,
            f"{stream.buffering_depth} transfers ready ahead",
            why=why,
            next_step="use buffering_depth=reader.steps.",
        )
    return stream, callback


def _in_order(description: str, received: Array, batches: Array) -> None:
    """Raise `NotYet` unless step i received batch i."""
    if np.array_equal(received, batches):
        return
    step = int(np.argmax((received != batches).any(axis=1)))
    which = next(
        (n for n, batch in enumerate(batches) if np.array_equal(batch, received[step])), -1
    )
    actual = (
        f"in step {step} the device got batch {which}"
        if which >= 0
        else f"in step {step} the device got {quoted(received[step])}"
    )
    why = ""
    advice = "use each batch of the reader for one step, in order."
    if not received[step].any():
        why = (
            "this array was never filled. `array = …` only gives the name `array` to another array."
        )
        advice = "fill the array itself: array[:] = reader.next_batch()."
        filled = received[received.any(axis=1)]
        if len(filled) and np.array_equal(filled, batches[: len(filled)]):
            why = "this array was never filled: a call returned SUCCESS without a batch."
            advice = "if no batch is ready, return self.Result.NOT_AVAILABLE."
    elif which > step:
        why = "a batch was taken from the reader and never used."
        advice = "write each batch that you take to the array, and return self.Result.SUCCESS."
    elif which >= 0:
        why = "the device got the same batch twice."
        advice = "take a new batch from the reader each time."
    raise NotYet(description, actual, expected=f"batch {step}", why=why, next_step=advice)


LESSON = lesson(
    "07",
    question("07.0", (PredictedValue("", "of 100", low=0, high=100),)),
    exercise("07.w1", _errors_of_one),
    exercise("07.1", _slopes),
    exercise("07.2", _epoch),
    exercise("07.3", _train),
    exercise("07.4", _bytes),
    exercise("07.w2", _counting_up, takes=("a class",)),
    exercise("07.5", _read_ahead),
    question("07.6", (PredictedValue("", "times as fast"),)),
)
