"""The exercises of lesson 07b, A small CNN: correct results and known mistakes.

Values are small integers where possible, so that sums in any order are equal. If an exercise has a
budget, the cost is compared with the library's own version on the same machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import combinations_with_replacement, product
from types import EllipsisType

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.calling import Answer, Broken, answering, call_made
from ipu_course.checking.comparing import compare
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import first, given_to, suspects
from ipu_course.checking.programs import device_of, graph_of, run_once, tiles_of
from ipu_course.checking.quoting import difference, name_of, plain, quoted, returned, said_by
from ipu_course.checking.trial import Built, Parts, Ran, Trial, Var, appends, linearly, narrowed
from ipu_course.checking.verdict_panel import Bars, number
from ipu_course.checking.verdicts import MODELLED, NotAttempted, NotYet, Passed
from ipu_course.lesson07b.network import Cnn, small
from ipu_teach import FLOAT, HALF, Graph, Report, Tensor, datasets
from ipu_teach.errors import counted
from ipu_teach.graph.layouts import Shape
from ipu_teach.poplibs import gcl, poplin, popops
from ipu_teach.program import Sequence as Steps
from ipu_teach.types import Array


def _whole(draw: np.random.Generator, shape: Shape) -> Array:
    """Return random small integers, none of them zero, as an array of this shape."""
    values: Array = (draw.integers(1, 4, shape) * draw.choice([-1, 1], shape)).astype(np.float32)
    return values


def _as_near(learner_run: Ran, reference_run: Ran) -> bool:
    """Return whether two runs have the same results, except for rounding."""
    return all(
        np.allclose(learner_run.came[0][name], actual, rtol=0, atol=1e-4)
        for name, actual in reference_run.came[0].items()
    )


# --- 07b.1 ----------------------------------------------------------------------------------------


def patches_of(x: Array, k: int, stride: int) -> Array:
    """Return [windows, k * k * channels]: the elements of each k x k window of `x`.

    `x` has the shape [batch, rows, columns, channels].
    """
    windows = np.lib.stride_tricks.sliding_window_view(x, (1, k, k, x.shape[3]))
    patches: Array = windows[:, ::stride, ::stride, 0, 0].reshape(-1, k * k * x.shape[3])
    return patches


def _view(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
    """Return an empty program, and the view of `parts` that the answer returns."""
    returned_value = call_made(answer, trial.tried, *parts, *trial.more)
    if not isinstance(returned_value, Tensor):
        advice = "reshape the result of concat, and return it."
        raise NotYet(trial.tried, returned(returned_value), expected="a tensor", next_step=advice)
    return Steps(), [returned_value]


WINDOWS = (
    *((2, 5, 6, 3, 3, 1), (1, 7, 4, 2, 2, 2), (3, 3, 3, 1, 3, 1), (2, 9, 7, 2, 3, 2)),
    *((1, 4, 5, 5, 1, 1), (1, 6, 6, 1, 2, 3), (2, 5, 5, 4, 4, 1), (1, 8, 3, 2, 1, 2)),
)


def _patches(answer: Callable[..., Tensor]) -> Passed:
    for *shape, k, stride in WINDOWS:
        x = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
        # The stride defaults to 1.
        options = (k, stride) if stride > 1 else (k,)
        arguments = ", ".join(map(str, options))
        description = f"{name_of(answer)}(x, {arguments}), where x has the shape {tuple(shape)}"
        variable = {"x": Var(FLOAT, tuple(shape), linearly, [x])}
        trial = Trial(description, variable, more=options, form=_view)
        run = _built_alike(trial, answer, "07b.1")
        right = patches_of(x, k, stride)
        if where := difference(run.result, right):
            shaped = f", not {right.shape}" * where.startswith("the shape")
            advice = (
                "list the windows of this call by hand, and the elements of the first row that "
                "differs."
            )
            if shaped:
                advice = (
                    f"compare your numbers of windows with windows({shape[1]}, {k}, {stride}, 0) "
                    f"down and windows({shape[2]}, {k}, {stride}, 0) across."
                )
                if np.size(run.result) == right.size:
                    advice = (
                        "the number of elements is right: reshape to batch * down * across rows "
                        "and k * k * channels columns."
                    )
            raise run.refused("07b.1", where + shaped, "", advice)
    return Passed(
        "8 shapes, with strides of 1, 2 and 3: views, and nothing is copied", evidence=right
    )


# --- 07b.2 ----------------------------------------------------------------------------------------

LAYERS = (
    (2, 5, 6, 3, 4, 3, 1),
    (1, 6, 5, 2, 2, 3, 0),
    (3, 3, 5, 2, 1, 2, 1),
    (2, 4, 5, 3, 3, 1, 0),
)


def slopes_of(x: Array, w: Array, dy: Array, padding: int) -> tuple[Array, Array, Array]:
    """Return the gradients of x, w and the bias of a convolution, computed window by window."""
    k = len(w)
    sides = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    wide = np.pad(x.astype(float), sides)
    dx = np.zeros_like(wide)
    dw = np.zeros(w.shape)
    for b, i, j in np.ndindex(*dy.shape[:3]):
        window = b, slice(i, i + k), slice(j, j + k)
        dx[window] += w @ dy[b, i, j]
        dw += wide[window][..., None] * dy[b, i, j]
    inner = slice(padding, wide.shape[1] - padding), slice(padding, wide.shape[2] - padding)
    return dx[:, inner[0], inner[1]], dw, dy.sum((0, 1, 2))


def backward_trial(
    layer: Shape, drawn: Callable[[np.random.Generator, Shape], Array] = _whole
) -> tuple[Trial, tuple[Array, Array, Array]]:
    """Return `(trial, right gradients)` for answer(graph, x, w, dy, padding, program).

    The answer returns three gradients. `layer` is (batch, rows, columns, channels in, channels out,
    size of the kernel, padding). `drawn(generator, shape)` returns random numbers of this shape.
    """
    batch, rows, columns, ins, outs, k, padding = layer
    draw = np.random.default_rng(702)
    x = drawn(draw, (batch, rows, columns, ins))
    w = drawn(draw, (k, k, ins, outs))
    dy = drawn(draw, (batch, rows + 2 * padding - k + 1, columns + 2 * padding - k + 1, outs))
    inputs = {"x": x, "w": w, "dy": dy}
    tensors = {name: Var(FLOAT, a.shape, linearly, [a]) for name, a in inputs.items()}
    description = f"x of shape {x.shape}, w of {w.shape}, padding {padding}"

    def form(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
        program = Steps()
        returned_value = call_made(answer, description, graph, *parts, padding, program)
        if not (isinstance(returned_value, (tuple, list)) and len(returned_value) == 3) or not all(
            isinstance(part, Tensor) for part in returned_value
        ):
            raise NotYet(
                description, returned(returned_value), expected="three tensors: dx, dw and db"
            )
        return program, list(returned_value)

    return Trial(description, tensors, form=form, agree=_as_near), slopes_of(x, w, dy, padding)


def _backward(answer: Callable[..., tuple[Tensor, Tensor, Tensor]]) -> Passed:
    for layer in LAYERS:
        trial, rights = backward_trial(layer)
        run = _built_alike(trial, answer, "07b.2")
        _refuse_other_order(run, rights)
        for n, (name, right) in enumerate(zip(("dx", "dw", "db"), rights, strict=True)):
            if where := difference(run.came[0][f"result {n}"], right):
                shaped = f", not {right.shape}" * where.startswith("the shape")
                images = counted(layer[0], "image")
                advice = f"compute one element of {name} by hand, over {images} of the batch."
                if name == "db" and shaped:
                    advice = "reduce dy over dimensions 0, 1 and 2, so that the channels remain."
                raise run.refused("07b.2", f"{name}: {where}{shaped}", "", advice)
    trial, rights = backward_trial(MEDIUM, _normal)
    run = trial.of(answer)
    for n, (name, right) in enumerate(zip(("dx", "dw", "db"), rights, strict=True)):
        actual = run.came[0][f"result {n}"]
        if where := difference(actual, right, NEAR):
            why, advice = narrowed(actual, right)
            raise NotYet(trial.tried, f"{name}: {where}", why=why, next_step=advice)
    minimum = products_cycles(MEDIUM)
    bars = Bars(2 * minimum, int(run.cycles), MODELLED)
    if bars.yours > bars.budget:
        why = "two products are enough, but this takes more than twice their cycles."
        advice = "use one mat_mul for dx and one for dw, for all windows at once."
        raise NotYet(trial.tried, number(bars.yours), why=why, next_step=advice, bars=bars)
    return Passed("5 layers, compared with the sums of the definition", bars, run.report)


def _refuse_other_order(run: Ran, rights: tuple[Array, ...]) -> None:
    """Raise `NotYet` if the answer returned the right gradients in another order."""
    names = ("dx", "dw", "db")
    gradients = dict(zip(names, rights, strict=True))
    returned_order = [
        name
        for n in range(len(names))
        for name, right in gradients.items()
        if not difference(run.came[0][f"result {n}"], right)
    ]
    if sorted(returned_order) == sorted(names) and returned_order != list(names):
        raise NotYet(
            run.trial.tried,
            ", ".join(returned_order),
            expected=", ".join(names),
            why=f"the gradients are right, but in the wrong order: {returned_order[0]} is first.",
            next_step=f"return {', '.join(names)}, in this order.",
        )


MEDIUM = (2, 14, 14, 8, 8, 3, 1)
NEAR = 1e-5  # The allowed error of sums in FLOAT, relative to the largest sum.


def _normal(draw: np.random.Generator, shape: Shape) -> Array:
    """Return normally distributed random numbers, most of which HALF cannot represent."""
    return draw.standard_normal(shape).astype(np.float32)


def _built_alike(trial: Trial, answer: Answer, exercise: str) -> Ran:
    """Return a run of the answer of an exercise.

    :raises NotYet: if a known mistake fails with the same error.
    """
    try:
        return trial.through(answer, exercise)
    except Broken as broken:
        message = said_by(broken.error)

        def fails_alike(like: Answer) -> bool:
            try:
                trial.of(like)
            except Broken as other:
                return said_by(other.error) == message
            return False

        why, advice = first(suspects(exercise), fails_alike)
        if why:
            raise NotYet(trial.tried, message, why=why, next_step=advice) from None
        raise


@cache
def products_cycles(layer: Shape) -> int:
    """Return the modelled cycles of the two products of a backward pass, as poplin plans them."""
    batch, rows, columns, ins, outs, k, padding = layer
    target = device_of().target
    patch_count = batch * (rows + 2 * padding - k + 1) * (columns + 2 * padding - k + 1)
    back = poplin.plan_mat_mul(batch * rows * columns, k * k * outs, ins, target)
    update = poplin.plan_mat_mul(k * k * ins, patch_count, outs, target)
    assert back is not None and update is not None
    return back.cycles + update.cycles


# --- 07b.3 ----------------------------------------------------------------------------------------

MANY = 512
# The shape of the input of the layer whose cycles are measured.
WIDE = (4, 14, 14, 32)


def layer_report(around: Answer, tiles: int = MANY, images: int = WIDE[0]) -> tuple[Report, Array]:
    """Return `(report, tiles)` of a 3x3 layer, where `tiles` has the tile of each padding zero.

    `around(graph, x, 1)` adds the zeros around the input of the layer.
    """
    graph = graph_of(tiles)
    x = graph.add_variable(FLOAT, (images, *WIDE[1:]), "x")
    linearly(graph, x)
    graph.set_initial_value(x, 1)
    description = f"a layer of {WIDE[3]} channels on {counted(tiles, 'tile')}"
    wide = call_made(around, description, graph, x, 1)
    patches = given_to("07b.3")["patches"](wide, 3)
    program = Steps()
    w_shape = (patches.shape[1], WIDE[3])
    w = poplin.create_mat_mul_input_rhs(graph, FLOAT, patches.shape, w_shape, name="w")
    graph.set_initial_value(w, 1)
    y = poplin.mat_mul(graph, patches, w, program, debug_context="layer")
    graph.create_host_read("y", y)
    engine = run_once(graph, program)
    lies = tiles_of(graph, wide)
    inner = np.zeros(lies.shape, bool)
    inner[:, 1:-1, 1:-1] = True
    return engine.report, lies[~inner]


@cache
def spread_cycles(tiles: int = MANY, images: int = WIDE[0]) -> int:
    """Return the modelled cycles of the 3x3 layer if popops.pad adds and maps its zeros.

    The zeros are those around the input of the layer.
    """

    def padded(graph: Graph, x: Tensor, padding: int) -> Tensor:
        widths = [0, padding, padding, 0]
        return popops.pad(graph, x, widths, widths)

    report, _ = layer_report(padded, tiles, images)
    return int(report.total_cycles)


def _with_graph(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
    """Build the program of answer(graph, *tensors, *more), which returns a tensor.

    The program only fills the tensor.
    """
    return _view(partial(answer, graph), trial, graph, parts)


def _zeros(answer: Callable[[Graph, Tensor, int], Tensor]) -> Passed:
    for *shape, p, dtype in (
        (2, 3, 4, 2, 1, FLOAT),
        (1, 1, 5, 3, 2, FLOAT),
        (3, 4, 4, 1, 3, FLOAT),
        (1, 2, 3, 2, 1, HALF),
    ):
        x = np.arange(1, np.prod(shape) + 1, dtype=dtype.numpy).reshape(shape)
        kind = "" if dtype is FLOAT else f", in {dtype.__name__}"
        description = (
            f"{name_of(answer)}(graph, x, {p}), where x has the shape {tuple(shape)}{kind}"
        )
        variable = {"x": Var(dtype, tuple(shape), linearly, [x])}
        run = Trial(description, variable, more=(p,), form=_with_graph).through(answer, "07b.3")
        right = np.pad(x, ((0, 0), (p, p), (p, p), (0, 0)))
        if where := difference(run.result, right):
            shaped = f", not {right.shape}" * where.startswith("the shape")
            advice = "add p rows and columns of zeros on each side."
            raise run.refused("07b.3", where + shaped, "", advice)
    bars, report = _layer_bars(answer, WIDE[0])
    _layer_bars(answer, 1)
    return Passed(
        f"4 shapes, and a layer on {MANY} tiles, with {WIDE[0]} images and with 1", bars, report
    )


def _layer_bars(answer: Callable[[Graph, Tensor, int], Tensor], images: int) -> tuple[Bars, Report]:
    """Return (bars of cycles and budget, report) of the layer with this number of images.

    :raises NotYet: if the cycles exceed the budget.
    """
    description = f"a layer of {WIDE[3]} channels on {MANY} tiles"
    if images != WIDE[0]:
        description += f", with {counted(images, 'image')}"
    with answering(description):
        report, lies = layer_report(answer, images=images)
    bars = Bars(round(1.1 * spread_cycles(images=images)), int(report.total_cycles), MODELLED)
    if bars.yours > bars.budget:
        tile, maximum = Counter(lies.tolist()).most_common(1)[0]
        why = (
            f"{maximum:,} of {len(lies):,} zeros are on tile {tile}, and all other tiles wait for "
            "it."
        )
        if maximum < len(lies) / 4:
            why = (
                "the zeros are spread over the tiles, but another step takes more cycles than the "
                "budget."
            )
        advice = "spread the zeros over the tiles: poputil.map_tensor_linearly(graph, zeros)."
        if maximum == len(lies) and images == 1:
            why = (
                f"all {len(lies):,} zeros of this image are on tile {tile}, and others wait for it."
            )
            advice = "place a few of the zeros on each tile, for any number of images."
        raise NotYet(description, "", why=why, next_step=advice, bars=bars)
    return bars, report


# --- 07b.4 ----------------------------------------------------------------------------------------


def pool_slopes(x: Array, dy: Array, k: int, stride: int) -> Array:
    """Return the gradient of the input x of a maximum pooling; equal maxima share it."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (k, k))[::stride, ::stride]
    largest = windows == windows.max((2, 3), keepdims=True)
    shares = largest * (dy / largest.sum((2, 3)))[..., None, None]
    gradient = np.zeros(x.shape)
    for a, b in np.ndindex(k, k):
        down, across = (s * stride for s in dy.shape)
        gradient[a : a + down : stride, b : b + across : stride] += shares[:, :, a, b]
    return gradient


def _pool(answer: Callable[..., Array]) -> Passed:
    draw = np.random.default_rng(704)

    def case(
        rows: int, columns: int, k: int, stride: int, ties: bool = False, below: bool = False
    ) -> tuple[Array, Array, int, int]:
        x = draw.permutation(rows * columns).reshape(rows, columns).astype(float)
        out = (rows - k) // stride + 1, (columns - k) // stride + 1
        return (
            np.maximum(0, x // 6 - 3) if ties else x - below * rows * columns,
            draw.permutation(out[0] * out[1]).reshape(out) - out[0] * out[1] / 2 + 0.75,
            k,
            stride,
        )

    cases = {
        "drawn, small": case(2, 3, 2, 1),
        "drawn": case(6, 8, 2, 2),
        "drawn, some equally large": case(6, 8, 2, 2, ties=True),
        "drawn, others equally large": case(4, 4, 2, 2, ties=True),
        "windows overlap": case(7, 9, 3, 2),
        "windows overlap, some equally large": case(6, 5, 3, 1, ties=True),
        "windows with gaps between": case(8, 7, 2, 3),
        "a window of one element": case(3, 4, 1, 1),
        "all elements are negative": case(4, 3, 2, 1, below=True),
    }
    nearly = np.array([[100, 100.0005], [0, 0]])
    cases["one element is only nearly as large"] = (nearly, np.array([[1.0]]), 2, 2)

    def small() -> Iterator[tuple[Array, Array, int, int]]:
        for rows, columns, k, stride in product((1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3), (1, 2, 3)):
            if k <= min(rows, columns):
                out = (rows - k) // stride + 1, (columns - k) // stride + 1
                x = draw.integers(-1, 2, (rows, columns)).astype(float)
                yield x, draw.integers(1, 9, out) / 2, k, stride

    advice = "find the largest element of one window by hand, and compare its gradient."
    return compare(answer, pool_slopes, cases, suspects("07b.4"), next_step=advice, more=small())


# --- 07b.5 ----------------------------------------------------------------------------------------

# The multiply-add units of ipu2 load a panel of DEEP x ACROSS weights, if values and sums are HALF.
DEEP = 16
ACROSS = 16


def units_busy(places: int, ins: int, outs: int, groups: int) -> float:
    """Return the fraction of the multiply-add units that have work in a convolution.

    The kernel has `places` pixels. `ins` and `outs` are the numbers of input and output channels,
    which are divided into `groups` groups.
    """
    deep = places * ins // groups
    wide = outs // groups
    return deep * wide / (-(-deep // DEEP) * DEEP * (-(-wide // ACROSS) * ACROSS))


def _busy(answer: Callable[..., float]) -> Passed:
    cases: dict[str, tuple[int, int, int, int]] = {
        f"drawn, {case}": case
        for case in (
            (9, 48, 60, 3),
            (1, 24, 40, 4),
            (9, 64, 32, 16),
            (25, 6, 12, 1),
            (9, 20, 33, 1),
        )
    }
    cases["each channel is a group"] = (4, 32, 32, 32)
    sizes = product((1, 4, 25), (1, 2, 5, 48, 17), (1, 3, 16, 20), (1, 2, 3, 4))
    more = [(places, ins * g, outs * g, g) for places, ins, outs, g in sizes]
    return compare(answer, units_busy, cases, suspects("07b.5"), more=more)


# --- 07b.6 ----------------------------------------------------------------------------------------

EPOCHS = 2
LOW = 0.94
HIGH = 0.995
# The maximum number of trainings. If an answer shuffles correctly, but classifies slightly too few
# images correctly, it is trained again with the images in another order. It is refused only if all
# these trainings classify too few.
TRAININGS = 3


@cache
def _digits(training: int = 0) -> tuple[datasets.Dataset, Array, Array]:
    """Return (digits, their small training images, their small test images).

    The training images are sorted by label. Each value of `training` puts the images of a label
    into another order.
    """
    data = datasets.digits()
    drawn = np.random.default_rng(training).permutation(len(data.train_labels))
    order = drawn[np.argsort(data.train_labels[drawn], kind="stable")]
    data.train_images[:], data.train_labels[:] = data.train_images[order], data.train_labels[order]
    return data, small(data.train_images), small(data.test_images)


@cache
def _network() -> Cnn:
    """Return the network of the lesson; each training first loads its initial weights again."""
    return Cnn(6, 16, tiles=4)


class _Watched:
    """The network of the lesson, with a record of an answer's calls."""

    def __init__(self, cnn: Cnn, allowed: int, training: int) -> None:
        self.cnn = cnn
        self.batch = cnn.batch
        self.allowed = allowed
        self.losses = list[float]()
        self.rates = list[float]()
        # The fraction of the running statistics that comes from batches.
        self.followed = 0.0
        self.kinds = list[int]()
        self.kept = list[float]()
        # The number of images that were passed to read() after the last training step.
        self.read_last = 0
        # Whether images of the training half were passed to read().
        self.read_training = False
        self.wrong = ""
        data, images, _ = _digits(training)
        labels = data.train_labels.tolist()
        self.known = {image.tobytes(): t for image, t in zip(images, labels, strict=True)}

    def learn(self, images: Array, labels: Array, rate: float) -> float:
        """Run a training step; record an image outside the training half, or a wrong label."""
        for image, label in zip(np.asarray(images, np.float32), labels, strict=False):
            known_label = self.known.get(np.ascontiguousarray(image).tobytes())
            if known_label is None:
                self.wrong = self.wrong or "an image that is not one of images"
            elif known_label != label:
                self.wrong = self.wrong or f"an image of a {known_label} with the label {label}"
        if len(self.losses) >= self.allowed:
            raise _TooMany
        _refuse_other_batch(images, self.batch)
        self.read_last = 0
        self.losses.append(self.cnn.learn(images, labels, rate))
        self.rates.append(float(rate))
        self.kinds.append(len(set(np.asarray(labels).tolist())))
        return self.losses[-1]

    def keep(self, share: float) -> None:
        """Update the running statistics with those of the last batch, weighted by `share`."""
        self.kept.append(float(share))
        self.followed += (1 - self.followed) * float(share)
        self.cnn.keep(share)

    def read(self, images: Array) -> Array:
        """Return the digits that the network predicts for `images`."""
        self.read_last += len(images)
        flat = np.ascontiguousarray(np.asarray(images, np.float32))
        self.read_training |= any(image.tobytes() in self.known for image in flat)
        return self.cnn.read(images)


class _TooMany(Exception):
    """Raised if the answer takes more training steps than are allowed."""


def _refuse_other_batch(images: Array, batch: int) -> None:
    """Raise `ValueError` unless there are `batch` images."""
    if len(images) != batch:
        raise ValueError(
            f"cnn.learn() takes exactly cnn.batch = {batch} images, but got {len(images)}"
        )


class _Substitute:
    """A network without weights, which classifies one more test image wrongly after each epoch.

    Its batch and its number of epochs differ from those of the lesson. It reveals answers that
    ignore `cnn.batch` or `epochs`, or that return the best of several tests.
    """

    batch = 4
    epochs = 4
    steps_per_epoch = 15
    description = "a network with cnn.batch = 4, on 60 images, with epochs=4"

    def __init__(self) -> None:
        data, images, tests = _digits()
        every = slice(0, 25 * self.batch * self.steps_per_epoch, 25)
        self.images, self.labels = images[every], data.train_labels[every]
        self.tests, self.test_labels = tests[:20], data.test_labels[:20]
        self.place = {image.tobytes(): i for i, image in enumerate(self.tests)}
        self.steps = 0
        # The number of images in the last training step.
        self.last_batch = self.batch
        # One entry per call of read() on all test images: the fraction of right predictions.
        self.shares = list[float]()

    def learn(self, images: Array, labels: Array, rate: float) -> float:
        """Count a training step, and return a loss that falls."""
        self.last_batch = len(images)
        _refuse_other_batch(images, self.batch)
        if self.steps >= self.epochs * self.steps_per_epoch:
            raise _TooMany
        self.steps += 1
        return 1 / self.steps

    def keep(self, share: float) -> None: ...

    def read(self, images: Array) -> Array:
        """Return the labels of test images, and 1 for any other image.

        After n epochs, the labels of the first n test images are wrong.
        """
        places = [
            self.place.get(image.tobytes(), -1)
            for image in np.ascontiguousarray(np.asarray(images, np.float32))
        ]
        epoch = self.steps // self.steps_per_epoch
        labels = np.append(self.test_labels, 0)
        digits = np.array([labels[i] if i >= epoch else (labels[i] + 1) % 10 for i in places])
        if len(places) == len(self.tests):
            self.shares.append(1 - epoch / len(self.tests))
        return digits


def _refuse_fixed(answer: Callable[..., float | EllipsisType]) -> None:
    """Raise `NotYet` if the answer is wrong for another batch or another number of epochs."""
    cnn = _Substitute()
    every_epoch = f"go through the images {cnn.epochs} times here: once for each of `epochs`."
    try:
        with answering(cnn.description):
            data = cnn.images, cnn.labels, cnn.tests, cnn.test_labels
            result = plain(answer(cnn, *(part.copy() for part in data), cnn.epochs))
    except Broken as broken:
        if cnn.last_batch != cnn.batch:
            why = f"a step gets {cnn.last_batch} images, although cnn.batch is {cnn.batch} here."
            advice = "cut the images into batches of cnn.batch."
            actual = said_by(broken.error)
            raise NotYet(cnn.description, actual, why=why, next_step=advice) from None
        if isinstance(broken.error, _TooMany):
            why = "this goes through all images more than `epochs` times."
            maximum = cnn.epochs * cnn.steps_per_epoch
            actual = f"step {maximum + 1}"
            raise NotYet(cnn.description, actual, why=why, next_step=every_epoch) from None
        raise
    if cnn.steps <= (cnn.epochs - 1) * cnn.steps_per_epoch:
        raise NotYet(
            cnn.description,
            f"{counted(cnn.steps, 'step')}, where an epoch has {cnn.steps_per_epoch}",
            expected=f"{cnn.epochs * cnn.steps_per_epoch} steps",
            why=f"the images are used fewer than {cnn.epochs} times.",
            next_step=every_epoch,
        )
    right = 1 - cnn.epochs / len(cnn.tests)
    if result is None or abs(float(result) - right) > 1e-6:
        why = "the network has another share after the last step."
        if result is not None and cnn.shares and abs(float(result) - max(cnn.shares)) < 1e-6:
            why = "this is the best of several tests, and not the share after the last epoch."
        advice = "return np.mean(cnn.read(test_images) == test_labels), after the last step."
        actual = "no number" if result is None else quoted(result)
        raise NotYet(cnn.description, actual, f"{right:.4g}", why, advice)


def _trained(answer: Callable[..., float | EllipsisType]) -> Passed:
    for training in range(TRAININGS):
        watched, learner_value, right, on_images = _training(answer, training)
        fault = _fault(watched, learner_value, right, on_images)
        if fault is None or not fault[2].startswith(MIXED) or right < CLOSE:
            break
    if fault:
        raise NotYet(_description(), *fault)
    _refuse_fixed(answer)
    return Passed(
        f"{_description()}: {100 * right:.1f} % of the {len(_digits()[2])} test images "
        "read correctly",
        evidence=watched.losses,
    )


def _description() -> str:
    images = len(_digits()[1])
    return f"training on {images:,} digits, which come sorted, in at most {_allowed()} steps"


def _allowed() -> int:
    """Return the number of training steps that an answer may take."""
    return EPOCHS * (len(_digits()[1]) // _network().batch)


def _training(
    answer: Callable[..., float | EllipsisType], training: int
) -> tuple[_Watched, float | None, float, Callable[[], float]]:
    """Train; return (record of the calls, returned value, test accuracy, training accuracy).

    The accuracies are fractions of images that are classified correctly. The training accuracy is
    returned as a function that computes it. The number `training` chooses the order of the images.

    :raises NotYet: if the answer takes more steps than are allowed.
    """
    data, images, tests = _digits(training)
    cnn = _network()
    cnn.engine.load()
    watched = _Watched(cnn, _allowed(), training)
    try:
        with answering(_description()):
            result = answer(watched, images, data.train_labels, tests, data.test_labels, EPOCHS)
    except Broken as broken:
        if not isinstance(broken.error, _TooMany):
            raise
        why = f"the training goes through all images more than {EPOCHS} times."
        advice = "go through the images `epochs` times, in batches of cnn.batch."
        raise NotYet(_description(), f"step {_allowed() + 1}", why=why, next_step=advice) from None
    if result is ...:
        raise NotAttempted
    right = float(np.mean(cnn.read(tests) == data.test_labels))
    share = plain(result)

    def on_images() -> float:
        return float(np.mean(cnn.read(images) == data.train_labels))

    return watched, None if share is None else float(share), right, on_images


# A training with at least this test accuracy may be repeated with another order of images.
CLOSE = 0.85
MIXED = "the batches were shuffled, and the statistics were kept."


def _fault(
    watched: _Watched,
    learner_value: float | None,
    right: float,
    on_images: Callable[[], float],
) -> tuple[str, str, str, str] | None:
    """Return (actual, expected, why, next step) for a wrong training; None for a right one."""
    actual = f"{100 * right:.1f} % of the test images read correctly"
    if watched.wrong:
        why = f"the network learned from {watched.wrong}."
        advice = "index images and labels with the same numbers: images[batch] and labels[batch]."
        if "label" not in watched.wrong:
            advice = "pass unchanged rows of `images` to cnn.learn: images[batch]."
        return actual, "", why, advice
    if not watched.losses:
        advice = "call cnn.learn for each batch of cnn.batch images, in each of the epochs."
        return actual, "", "cnn.learn was never called.", advice
    if right > HIGH:
        why = "so few steps cannot give this result."
        advice = "change the network only with cnn.learn."
        return actual, f"{100 * HIGH:.1f} % at most", why, advice
    if right < LOW:
        return actual, f"{100 * LOW:.0f} % or more", *_too_few(watched)
    if learner_value is None or not 0 <= learner_value <= 1:
        actual = "no number" if learner_value is None else quoted(learner_value)
        advice = "return the mean of cnn.read(test_images) == test_labels."
        if learner_value is not None and abs(learner_value / 100 - right) < 0.004:
            advice = "leave out the factor of 100."
        return actual, "the share that is read correctly, from 0 to 1", "", advice
    test_images = len(_digits()[2])
    if abs(learner_value - right) > 0.004 or watched.read_last < test_images:
        why = "the trained network classifies another share of the test images correctly."
        advice = "return np.mean(cnn.read(test_images) == test_labels), after the last step."
        if watched.read_training and abs(learner_value - on_images()) < 0.004:
            why = "this is the share of the training images, not of the test images."
        elif abs(1 - learner_value - right) < 0.004:
            why = "this is the share of the test images that are classified incorrectly."
            advice = "compare with == instead of !=."
        elif watched.read_last < test_images:
            why = (
                f"only {watched.read_last} of the {test_images} test images were read after the "
                "last step."
            )
            advice = "give all of test_images to cnn.read, after the last step."
        return f"{learner_value:.4g}", f"{right:.4g}", why, advice
    return None


SHUFFLE = "draw a new order in each epoch: np.random.default_rng(epoch).permutation(len(images))."


def _too_few(watched: _Watched) -> tuple[str, str]:
    """Return `(why, next step)` for a training that classifies too few images correctly."""
    steps = len(watched.losses)
    if np.mean(watched.kinds) < 4:
        why = (
            f"a batch had {np.mean(watched.kinds):.1f} kinds of digits on average: the images were "
            "not shuffled."
        )
        return why, SHUFFLE
    if not watched.kept:
        why = "cnn.keep was never called, so cnn.read uses mean 0 and standard deviation 1."
        return why, "call cnn.keep(0.1) after each step."
    if not np.isfinite(watched.losses).all() or watched.losses[-1] > 1.5 * watched.losses[0]:
        why = (
            f"the loss grew from {watched.losses[0]:.3g} to {watched.losses[-1]:.3g}, because the "
            "rate is too large."
        )
        return why, "start with a smaller rate: 0.06."
    if watched.followed < 0.9:
        why = (
            f"cnn.keep was called {counted(len(watched.kept), 'time')} in {steps} steps: "
            f"{1 - watched.followed:.0%} of the kept statistics are still those of the start."
        )
        return why, "call cnn.keep(0.1) after each step."
    if steps < 0.75 * watched.allowed:
        why = f"the training took only {steps} of the {watched.allowed} allowed steps."
        return why, f"go through the images {EPOCHS} times: once for each of `epochs`."
    first, last = watched.rates[0], watched.rates[-1]
    why = f"{MIXED} The rate was {first:.3g} in the first step and {last:.3g} in the last."
    advice = "let the rate decrease from 0.06 to 0.01: np.linspace(0.06, 0.01, epochs)."
    if 0.04 <= first <= 0.08 and last <= 0.03:
        advice = SHUFFLE
    return why, advice


# --- 07b.7 ----------------------------------------------------------------------------------------

CHANNELS = 5


def _together(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
    """Build the program of answer(graph, x, replicas, together, program).

    `together(tensor, program)` is a function that sums a tensor over the replicas. The answer
    returns two tensors, the mean and the variance.
    """

    def together(tensor: Tensor, program: Steps) -> Tensor:
        summed: Tensor = gcl.all_reduce_cross_replica(graph, tensor, "ADD", program)
        return summed

    form = appends(
        (CHANNELS,),
        (CHANNELS,),
        asks="two tensors: mean and variance",
        step="return mean, variance.",
    )
    return form(answer, replace(trial, more=(trial.replicas, together)), graph, parts)


def _joined(answer: Callable[..., tuple[Tensor, Tensor]]) -> Passed:
    for replicas, samples in ((2, 3), (4, 7), (1, 8)):
        draw = np.random.default_rng(707)
        x = draw.normal(size=(replicas, samples, CHANNELS)) * 2 + np.arange(replicas)[:, None, None]
        x = x.astype(np.float32)
        description = (
            f"{name_of(answer)} on {counted(replicas, 'replica')} with {samples} samples each"
        )
        variable = {"x": Var(FLOAT, x.shape[1:], linearly, [x if replicas > 1 else x[0]])}
        trial = Trial(
            description,
            variable,
            form=_together,
            ipus=replicas,
            replicas=replicas,
            agree=_as_near,
        )
        run = trial.through(answer, "07b.7")
        all_samples = x.reshape(-1, CHANNELS).astype(float)
        for n, (name, right) in enumerate(
            (("mean", all_samples.mean(0)), ("variance", all_samples.var(0)))
        ):
            actual = run.came[0][f"result {n}"].reshape(replicas, CHANNELS)
            off = np.argwhere(~(np.abs(actual - right) <= 1e-4))
            if len(off):
                r, c = off[0].tolist()
                where = f"the {name} of channel {c} on replica {r}: {number(float(actual[r, c]))}"
                advice = (
                    "put the sum of x through together(…), and divide it by replicas * x.shape[0]."
                )
                if name == "variance":
                    advice = (
                        "take the mean of x * x over all samples of all replicas, and subtract the "
                        "square of the mean that you return."
                    )
                raise run.refused("07b.7", where, number(float(right[c])), advice)
    return Passed("2, 4 and 1 replicas: equal to one batch with all samples", evidence=actual)


LESSON = lesson(
    "07b",
    question("07b.0", (PredictedValue("", "bytes are copied", whole=True),)),
    exercise(
        "07b.w1",
        warmups.formula(
            "07b.w1",
            lambda size, k, stride, padding: (size + 2 * padding - k) // stride + 1,
            (14, 3, 1, 1),
            (9, 4, 2, 0),
            (28, 5, 3, 2),
            (3, 3, 1, 0),
            (8, 1, 3, 1),
            (10, 3, 2, 0),
            (7, 2, 4, 1),
            (11, 4, 3, 2),
            (13, 3, 4, 0),
            more=[
                (size, k, stride, padding)
                for size, k, stride, padding in product(
                    range(1, 9), range(1, 6), range(1, 5), range(3)
                )
                if size + 2 * padding >= k
            ],
        ),
    ),
    exercise("07b.1", _patches),
    exercise("07b.2", _backward),
    question("07b.3", (PredictedValue("", low=0, high=1),)),
    exercise("07b.3", _zeros),
    exercise("07b.4", _pool),
    question(
        "07b.5",
        tuple(
            PredictedValue(f"with {counted(g, 'channel')} a group", low=0, high=1)
            for g in (1, 4, 16)
        ),
    ),
    exercise("07b.5", _busy),
    question("07b.6", (PredictedValue("", "of 100", low=0, high=100),)),
    exercise("07b.6", _trained),
    exercise(
        "07b.w2",
        warmups.formula(
            "07b.w2",
            lambda n, total, squares: squares / n - (total / n) ** 2,
            (4, 10, 30),
            (5, 5, 15),
            (3, 6, 12),
            (8, -4, 20),
            more=[
                (count, sum(numbers), sum(number**2 for number in numbers))
                for count in (1, 2, 3, 4)
                for numbers in combinations_with_replacement(range(-1, 4), count)
            ],
        ),
    ),
    exercise("07b.7", _joined),
)
