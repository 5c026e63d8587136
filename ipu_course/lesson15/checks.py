"""Lesson 15, Belief propagation and capstone: correct results and known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import count, product
from typing import Any
from unittest import mock

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.calling import Broken, call, call_made
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.notebooks import work_folder
from ipu_course.checking.programs import TILES, device_of
from ipu_course.checking.quoting import difference, quoted, returned
from ipu_course.checking.time_limit import half_is_over
from ipu_course.checking.trial import Built, Parts, Ran, Trial, Var, codelet, codelet_of, recorded
from ipu_course.checking.verdict_panel import Bars, number
from ipu_course.checking.verdicts import NotAttempted, NotYet, Passed, refusing
from ipu_course.lesson15.beliefs import Belief, Edge, Spring, chain, grid, messages, network
from ipu_teach import FLOAT, Graph, Report, Target, Vertex, show
from ipu_teach._support.places import write_whole
from ipu_teach.engine.machine import BoundSteps
from ipu_teach.errors import LessonError, counted, shown
from ipu_teach.report.compare import compare as compared
from ipu_teach.show.view import View
from ipu_teach.target import GIVEN
from ipu_teach.types import Array

# The eta and lam of a Gaussian over several variables.
Gaussian = tuple[Array, Array]

# --- 15.1: Gaussians in information form ----------------------------------------------------------


def marginal_of_product(etas: Array, lams: Array, keep: int) -> tuple[Array, Array]:
    """Return `(eta, lam)` of a product of Gaussians, marginalised to the first `keep` variables."""
    spread = np.linalg.inv(np.sum(lams, axis=0))
    mean = spread @ np.sum(etas, axis=0)
    lam = np.linalg.inv(spread[:keep, :keep])
    return lam @ mean[:keep], lam


EMPTY = "one of them has only zeros"


@cache
def _gaussians() -> tuple[tuple[str, Array, Array, int], ...]:
    """Return (description, etas, lams, number of variables to keep) of each case.

    Ordinary cases come first.
    """
    draw = np.random.default_rng(1501)
    cases = []
    for message, many, n, keep in (
        ("two Gaussians of 3 variables", 2, 3, 1),
        ("three of 5 variables", 3, 5, 2),
        ("two of which all variables are kept", 2, 3, 3),
        ("one alone", 1, 4, 2),
        ("one variable", 3, 1, 1),
        (EMPTY, 3, 4, 3),
        *(
            (f"{number_} of {size} variables", number_, size, kept)
            for number_ in (1, 2)
            for size in (1, 2, 3)
            for kept in range(1, size + 1)
        ),
    ):
        roots = draw.uniform(-1, 1, (many, n, n))
        lams = roots @ roots.transpose(0, 2, 1) + 0.5 * np.eye(n)
        etas = draw.uniform(-2, 2, (many, n))
        if message == EMPTY:
            etas[1] = 0
            lams[1] = 0
        cases.append((message, etas, lams, keep))
    return tuple(cases)


def _fused(answer: Callable[..., Gaussian]) -> Passed:
    actual: list[Gaussian] = []

    def fuses_alike(like: Callable[..., Gaussian]) -> bool:
        pairs = zip(actual, _gaussians(), strict=False)
        return all(not _apart(gaussian, like(*case)) for gaussian, (_, *case) in pairs)

    for message, etas, lams, retained in _gaussians():
        case = etas, lams, retained
        description = f"{message}, keep = {retained}"
        gaussian = call(answer, *case)
        actual.append(gaussian)
        if not isinstance(gaussian, (tuple, list)) or len(gaussian) != 2:
            raise NotYet(
                description,
                returned(gaussian),
                expected="eta and lam",
                next_step="return two arrays, eta and lam, separated by a comma.",
            )
        right = marginal_of_product(*case)
        if where := _apart(gaussian, right):
            why = (
                f"the cases before are right, but this one is wrong: {message}."
                if len(actual) > 1
                else ""
            )
            half, advice = _wrong_half(gaussian, right)
            why = why.replace(f"{message}.", f"{message}. Here, {half}") if why and half else why
            why = why or half
            if not retained < len(etas[0]):
                advice = "print the sums of etas and of lams: no variable is removed here."
            # A mistake is named only if its results match the answer in a second case, too.
            if len(actual) == 1:
                actual.append(call(answer, *_gaussians()[1][1:]))
            refused = refusing("15.1", fuses_alike)
            expected = f"eta {quoted(right[0])}"
            if where.startswith("lam"):
                expected = f"lam of shape {right[1].shape}, first row {quoted(right[1][0])}"
            raise refused(description, where, expected, advice, why=why)
    return Passed(
        f"{len(actual)} products", evidence=[part for gaussian in actual for part in gaussian]
    )


def _wrong_half(actual: Gaussian, right: Gaussian) -> tuple[str, str]:
    """Return `(why, next step)`: which of eta and lam is wrong, and what to print to find out."""
    wrong = [bool(difference(*pair)) for pair in zip(actual, right, strict=True)]
    terms = "print lam_ab, inv(lam_bb) and {} of this case, and subtract their product from {}."
    if wrong == [True, False]:
        return "lam is right, but eta is not.", terms.format("eta_b", "eta_a")
    if wrong == [False, True]:
        return "eta is right, but lam is not.", terms.format("lam_ba", "lam_aa")
    return "", (
        "print the sums of etas and of lams, and then lam_ab @ inv(lam_bb): both eta and lam need "
        "these three."
    )


def _apart(actual: Gaussian, right: Gaussian) -> str:
    """Return the first difference between two Gaussians as text; "" if there is none."""
    for name, part, expected in zip(("eta", "lam"), actual, right, strict=True):
        if where := difference(part, expected):
            return f"{name}: {where}"
    return ""


# --- 15.2: messages on a tree ---------------------------------------------------------------------

NEAR = 1e-5  # The allowed error after all rounds in float32, relative to the largest value.


def tensors_of(prior: Array, sides: int, stiff: Array, far: float, right: Array) -> dict[str, Var]:
    """Return the tensors of a network by name, for a trial; `network` maps them to tiles later."""
    n = len(prior)
    zeros = np.zeros((n, sides, 2), np.float32)
    return {
        "prior": Var(FLOAT, (n, 2), given=[prior]),
        "came": Var(FLOAT, zeros.shape, given=[zeros]),
        # Only the comparison with known mistakes reads `sent`.
        "sent": Var(FLOAT, zeros.shape, right=[zeros]),
        "belief": Var(FLOAT, (n, 2), right=[right]),
        "stiff": Var(FLOAT, len(stiff), given=[stiff]),
        "far": Var(FLOAT, (), 0, given=[np.array(far)]),
    }


def solved(prior: Array, edges: Sequence[Edge], stiff: Array) -> Array:
    """Return float64[n, 2]: the mean and variance of each variable, by solving a dense system."""
    lam = np.diag(prior[:, 1].astype(float))
    for (a, _, b, _), pull in zip(edges, stiff.astype(float), strict=True):
        lam[[a, b], [a, b]] += pull
        lam[[a, b], [b, a]] -= pull
    return np.stack([np.linalg.solve(lam, prior[:, 0]), np.diag(np.linalg.inv(lam))], axis=1)


def _close(learner_run: Ran, reference_run: Ran) -> bool:
    """Return whether two answers give the same results, except for rounding."""
    pairs = (
        (learner_values[k], reference_values[k])
        for learner_values, reference_values in zip(
            learner_run.came, reference_run.came, strict=True
        )
        for k in reference_values
    )
    return all(np.allclose(a, b, 1e-3, 1e-6, equal_nan=True) for a, b in pairs)


@cache
def _trees() -> tuple[Trial, ...]:
    """Return trials of networks without loops, ordinary ones first; one has a single variable."""
    trials = []
    draw = np.random.default_rng(1502)
    star = [(0, side, side + 1, 0) for side in range(5)]
    for message, edges, n, sides, rounds in (
        ("a chain of 5 variables", chain(5), 5, 2, 5),
        ("a chain of 17 variables", chain(17), 17, 2, 17),
        ("a star: one variable and 5 around it", star, 6, 5, 3),
        ("a chain of 2 variables", chain(2), 2, 2, 2),
        ("an isolated variable", chain(1), 1, 2, 1),
    ):
        prior = np.stack([draw.uniform(-3, 3, n), draw.uniform(0.5, 2, n)], axis=1)
        stiff = draw.uniform(0.5, 3, len(edges))
        prior = prior.astype(np.float32)
        stiff = stiff.astype(np.float32)
        right = solved(prior, edges, stiff)
        tensors = tensors_of(prior, sides, stiff, far=0.0, right=right)
        form = partial(_messages, edges, rounds, lambda answer: (answer, Spring))
        words = f"{message}, {counted(rounds, 'round')}"
        trials.append(Trial(words, tensors, form=form, agree=_close, beside=_trees).twice())
    return tuple(trials)


def _messages(
    edges: Sequence[Edge],
    rounds: int,
    codelets: Callable[[type[Vertex]], tuple[type[Vertex], type[Vertex]]],
    answer: type[Vertex],
    trial: Trial,
    graph: Graph,
    parts: Parts,
) -> Built:
    """Build the program of a network, with the answer as the codelet of variables or of factors.

    `codelets(answer)` returns the codelets of variables and of factors. Variable i is on tile i %
    TILES.
    """
    tensors = dict(zip(trial.tensors, parts, strict=True))
    tiles = ([i % TILES for i in range(len(tensors["prior"]))], [e[0] % TILES for e in edges])
    program = network(graph, tensors, edges, lies=tiles, codelets=codelets(answer), rounds=rounds)
    return program, []


def _played(trial: Trial, answer: type[Vertex]) -> View:
    """Return a picture of how the beliefs change during a wrong answer's run."""
    return show.run(recorded(answer, trial, "belief", runs=1)[1])


def _is_wrong(trial: Trial, answer: type[Vertex]) -> bool:
    """Return whether an answer's beliefs are wrong after the first run of a trial."""
    with suppress(Exception):
        beliefs = trial.of(answer).came[0]["belief"]
        return bool(difference(beliefs, trial.tensors["belief"].right[0], NEAR))
    return False


def _variable(answer: type[Vertex]) -> Passed:
    codelet_of(answer, 'check("15.2", …)')
    reports = []
    pair_of_variables = next(t for t in _trees() if t.tried.startswith("a chain of 2 variables"))
    for number_, trial in enumerate(_trees()):
        run = trial.through(answer, "15.2")
        right = trial.tensors["belief"].right[0]
        actual = run.came[0]["belief"]
        for column, name in enumerate(("mean", "variance")):
            if where := difference(actual[:, column], right[:, column], NEAR):
                where, computed = run.unwritten_in(where, "belief", part=np.s_[:, column])
                why = computed or (
                    f"the chain of 5 is right, but this graph is wrong: {trial.tried}."
                    if number_
                    else ""
                )
                advice = (
                    "write down, for one variable, the messages that arrive from each side and "
                    "those that it sends."
                )
                if computed:
                    advice = (
                        "look for a divisor that is 0: before the first messages arrive, all "
                        "numbers of self.came are 0."
                    )
                elif _is_wrong(pair_of_variables, answer):
                    advice = (
                        "for one variable, check the belief, which is (mean, variance), and the "
                        "messages, which are (eta, lam)."
                    )
                draws = partial(_played, trial, answer)
                raise run.refused("15.2", f"{name}s: {where}", "", advice, why, draws)
        run.refuse_unrepeatable("belief")
        reports.append(run.report)
    return Passed(
        "four trees and an isolated variable, compared with the dense solution", evidence=reports
    )


# --- 15.3: a robust factor ------------------------------------------------------------------------


def through(message: Array, stiff: float) -> Array:
    """Return the message that a spring of strength `stiff` passes on when it gets `message`.

    It is computed as a marginal, from the covariance of both variables.
    """
    eta, lam = message.astype(float)
    spread = np.linalg.inv([[lam + stiff, -stiff], [-stiff, stiff]])
    return np.array([spread[1, 0] * eta / spread[1, 1], 1 / spread[1, 1]])


Message = tuple[float, float]  # The eta and lam of a message about one variable.
# Each case has (message from a, message from b, mean of a, mean of b, `stiff`, `far`).
FACTORS: tuple[tuple[Message, Message, float, float, float, float], ...] = (
    ((2.0, 4.0), (-1.5, 3.0), 0.25, -0.5, 6.0, 0.25),
    ((-3.0, 2.0), (1.0, 5.0), -1.75, 0.5, 8.0, 0.5),
    ((1.0, 3.0), (2.5, 4.0), 0.5, 0.625, 5.0, 0.5),
    ((0.5, 7.0), (3.0, 2.0), 0.125, 2.125, 30.0, 0.0625),
    ((1.5, 2.0), (1.0, 6.0), 0.375, 0.375, 4.0, 0.25),
)


@cache
def _pairs() -> Trial:
    """Return a trial of one factor vertex, with one run for each case in `FACTORS`."""
    edges: dict[str, list[Array]] = {}
    names = ("from_a", "from_b", "mean_a", "mean_b", "stiff", "far")
    for case in FACTORS:
        for name, value in zip(names, case, strict=True):
            edges.setdefault(name, []).append(np.array(value, np.float32))
        a, b, mean_a, mean_b, stiff, far = (np.array(value) for value in case)
        pull = float(stiff) if abs(mean_a - mean_b) <= far else stiff * far / abs(mean_a - mean_b)
        edges.setdefault("to_a", []).append(through(b, float(pull)))
        edges.setdefault("to_b", []).append(through(a, float(pull)))
    shapes = {name: () if np.ndim(values[0]) == 0 else 2 for name, values in edges.items()}
    tensors = {name: Var(FLOAT, shapes[name], 0, edges[name]) for name in names}
    tensors |= {name: Var(FLOAT, 2, 0, right=edges[name]) for name in ("to_a", "to_b")}
    description = f"one vertex, with {counted(len(FACTORS), 'pair')} of messages"
    return Trial(description, tensors, form=codelet, runs=len(FACTORS), tiles=1, agree=_close)


def cleared(prior: Array, edges: Sequence[Edge], stiff: float, far: float) -> Array:
    """Return the means of the variables at which the forces of all robust springs balance.

    They are computed by repeated dense solves. Each solve uses the pulls that follow from the means
    of the previous one.
    """
    a, b = (np.array([edge[side] for edge in edges]) for side in (0, 2))
    mean = prior[:, 0] / prior[:, 1]
    for _ in range(200):
        pull = stiff * np.minimum(1, far / np.maximum(np.abs(mean[a] - mean[b]), 1e-12))
        mean = solved(prior, edges, pull)[:, 0]
    return mean


@cache
def _image() -> Trial:
    """Return a trial with a noisy image of 6 x 5 pixels that has an edge."""
    height = 6
    width = 5
    image = np.where(np.arange(width) < 2, -0.6, 0.8) + np.zeros((height, 1))
    noisy = image + np.random.default_rng(1503).normal(0, 0.3, image.shape)
    prior = np.stack([noisy.ravel() * 8, np.full(noisy.size, 8.0)], axis=1).astype(np.float32)
    edges = grid(height, width)
    stiff = 8.0
    far = 0.25
    right = np.stack([cleared(prior, edges, stiff, far), np.zeros(noisy.size)], axis=1)
    tensors = tensors_of(prior, 4, np.full(len(edges), stiff), far=far, right=right)
    form = partial(_messages, edges, 60, lambda answer: (Belief, answer))
    return Trial("an image of 6 x 5 pixels, 60 rounds", tensors, form=form, agree=_close).twice()


def _robust(answer: type[Vertex]) -> Passed:
    codelet_of(answer, 'check("15.3", …)')
    trial_run = (trial := _pairs()).through(answer, "15.3")
    for run, case in enumerate(FACTORS):
        for name in ("to_a", "to_b"):
            right = trial.tensors[name].right[run]
            message = trial_run.came[run][name]
            if where := difference(message, right, NEAR):
                why, advice = trial.reason(trial_run, "15.3")
                gap = abs(case[2] - case[3])
                far = case[5]
                position = f"the means are {number(gap)} apart, and `far` is {number(far)}"
                where, computed = trial_run.unwritten_in(where, name, run)
                why = why or computed
                why = why or (
                    f"the cases before are right, but this one is wrong: {position}." if run else ""
                )
                advice = (
                    advice or f"compute the stiffness for these two means first, and then {name}."
                )
                values = zip(("from_a", "from_b", "mean_a", "mean_b", "stiff"), case, strict=False)
                given = ", ".join(f"{name} {value}" for name, value in values)
                description = f"{name}, where {position}; {given}"
                raise NotYet(
                    description,
                    where,
                    expected=quoted(right),
                    why=why,
                    next_step=advice,
                    draws=partial(_drawn, answer),
                )
    trial_run = (trial := _image()).through(answer, "15.3")
    right = trial.tensors["belief"].right[0][:, 0]
    if where := difference(trial_run.came[0]["belief"][:, 0], right, 2e-3):
        advice = (
            "use no values of earlier rounds: compute to_a and to_b only from the fields of this "
            "round."
        )
        raise NotYet(
            trial.tried, f"means: {where}", next_step=advice, draws=partial(_drawn, answer)
        )
    trial_run.refuse_unrepeatable("belief")
    return Passed(f"{len(FACTORS)} pairs of messages, and an image", evidence=trial_run.report)


def _drawn(answer: type[Vertex]) -> show.Picture:
    """Return images of the observed pixels, the learner's result and the right result."""
    belief = (trial := _image()).of(answer).came[0]["belief"][:, 0]
    prior = trial.tensors["prior"].given[0]
    right = trial.tensors["belief"].right[0]
    rows = [prior[:, 0] / prior[:, 1], np.nan_to_num(belief), right[:, 0]]
    alt = "An image of 6 x 5 pixels: noisy, with your factor, and as it should be."
    pictures = np.clip(np.array(rows).reshape(3, 6, 5), -2, 2)
    return show.images(pictures, alt, ["noisy", "yours", "right"])


# --- 15.4: where factors and variables lie --------------------------------------------------------

LIMIT = 1.1  # The allowed bytes of an exchange, relative to those of the best grid.
FULL = 1.5  # The allowed number of pixels on a tile, relative to the mean.
IMAGES = ((12, 12, 16), (13, 9, 6), (7, 11, 4), (10, 10, 13), (1, 20, 5), (26, 2, 7), (2, 3, 8))


def blocks(height: int, width: int, tiles: int, maximum: int) -> Array:
    """Return int64[height, width]: the tile of each pixel, in the best division into blocks.

    A division has `down` x `across` blocks with down * across == tiles, one block per tile, and at
    most `maximum` pixels in a block. The best division separates the fewest pairs of neighbouring
    pixels. A block may be empty.

    :raises ValueError: if there is no such division.
    """

    def cut(down: int) -> Array:
        rows = np.arange(height) * down // height
        columns = np.arange(width) * (tiles // down) // width
        return np.asarray(rows[:, None] * (tiles // down) + columns)

    shapes = (cut(down) for down in range(1, tiles + 1) if tiles % down == 0)
    return min((way for way in shapes if np.bincount(way.ravel()).max() <= maximum), key=cuts)


def cuts(pixels: Array) -> int:
    """Return the number of pairs of neighbouring pixels that are on two tiles.

    `pixels` has the tile of each pixel of an image.
    """
    return int((np.diff(pixels, axis=0) != 0).sum() + (np.diff(pixels, axis=1) != 0).sum())


def bytes_of(pixels: Array, factors: Array, tiles: int) -> int:
    """Return the bytes that tiles exchange in a round of messages.

    `pixels` has the tile of each pixel, and `factors` has the tile of each factor.
    """
    prior = np.ones((pixels.size, 2))
    lies = (pixels.ravel().tolist(), factors.tolist())
    engine, _ = messages(device_of(tiles), prior, grid(*pixels.shape), 1, stiff=1.0, lies=lies)
    engine.run()
    return int(engine.report.exchange_bytes_per_tile[0].sum())


def _placed(answer: Callable[[int, int, int, int], tuple[Array, Array, Array]]) -> Passed:
    flat = list[Array]()
    budget = 0
    yours = 0
    for height, width, tiles in IMAGES:
        maximum = _most(height, width, tiles)
        image = (height, width)
        try:
            result = call(answer, *image, tiles, maximum)
        except Broken as broken:
            _refuse_full_alone(broken, height, width, tiles)
            raise
        description = f"an image of {height} x {width} pixels on {counted(tiles, 'tile')}"
        parts = _three(result, image, tiles, description)
        pixels_per_tile = np.bincount(parts[0].ravel())
        draws = partial(_layout, parts[0], tiles)
        if pixels_per_tile.max() > maximum:
            message = f"tile {pixels_per_tile.argmax()} has {pixels_per_tile.max()} pixels"
            why = (
                "this tile has too many pixels, so the other tiles wait for it."
                if pixels_per_tile.max() < height * width
                else ""
            )
            why = why or (
                "no byte is exchanged, but one tile does all the work while the others wait."
            )
            advice = (
                "first give each tile about the same number of pixels, and then choose the blocks "
                "with the shortest boundaries."
            )
            raise NotYet(
                description,
                message,
                expected=f"{maximum} at the most",
                why=why,
                next_step=advice,
                draws=draws,
            )
        factors = np.concatenate([parts[1].ravel(), parts[2].ravel()])
        best = cuts(blocks(height, width, tiles, maximum))
        sent = bytes_of(parts[0], factors, tiles)
        limit = int(LIMIT * 16 * best)
        budget = budget + limit
        yours = yours + sent
        flat = [*flat, parts[0].ravel(), factors]
        if sent > limit:
            why, advice = _why_so_many(parts, best)
            bars = Bars(limit, sent, "bytes exchanged in a round")
            raise NotYet(
                description,
                f"{sent:,} bytes",
                expected=f"{limit:,} at most",
                why=why,
                next_step=advice,
                bars=bars,
                draws=draws,
            )
    bars = Bars(budget, yours, "bytes exchanged in a round")
    return Passed(f"{len(IMAGES)} images", bars, flat)


def _refuse_full_alone(broken: Broken, height: int, width: int, tiles: int) -> None:
    """Raise `NotYet` if an answer fails because it does not allow empty blocks.

    The answer has raised a ValueError, and every division of this image into blocks has an empty
    block.
    """
    cuts_down = [down for down in range(1, tiles + 1) if tiles % down == 0]
    has_full = any(down <= height and tiles // down <= width for down in cuts_down)
    if isinstance(broken.error, ValueError) and not has_full:
        raise NotYet(
            broken.tried,
            f"ValueError: {broken.error}",
            why=(
                f"on {height} x {width} pixels, every grid of {tiles} blocks has some empty "
                "blocks, which are allowed."
            ),
            next_step=(
                "do not leave out grids with empty blocks; leave out only grids with more than "
                "`most` pixels on a tile."
            ),
        )


def _most(height: int, width: int, tiles: int) -> int:
    """Return the maximum number of pixels that a tile may have."""
    return -(-int(2 * FULL) * height * width // (2 * tiles))


def _three(
    result: tuple[Array, Array, Array], image: tuple[int, int], tiles: int, description: str
) -> list[Array]:
    """Return the three arrays of tiles that an answer returned.

    :raises NotYet: if the answer does not return three such arrays.
    """
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        wanted = "three arrays: pixels, right, down"
        raise NotYet(
            description,
            returned(result),
            expected=wanted,
            next_step="return three arrays, pixels, right and down, in this order.",
        )
    height, width = image
    shapes = {"pixels": image, "right": (height, width - 1), "down": (height - 1, width)}
    for (name, shape), part in zip(shapes.items(), result, strict=True):
        try:
            part_array = np.asarray(part)
        # The answer returned rows of different lengths.
        except ValueError:
            part_array = np.zeros(0)
        if not part_array.size and 0 in shape:  # An empty list has no second dimension.
            part_array = np.zeros(shape, int)
        if part_array.shape != shape or part_array.dtype.kind not in "iu":
            kind = "" if part_array.dtype.kind in "iu" else f" of {part_array.dtype}"
            message = f"{name}: the shape {part_array.shape}{kind}"
            others = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise NotYet(
                description,
                message,
                expected=f"whole numbers, {shape}",
                next_step=f"return three arrays of these shapes, in this order: {others}.",
            )
        if part_array.size and not 0 <= part_array.min() <= part_array.max() < tiles:
            place = tuple(int(i) for i in np.argwhere((part_array < 0) | (part_array >= tiles))[0])
            why = f"the tiles have the numbers 0 to {tiles - 1}."
            if height % tiles and width % tiles:
                why += f" Neither {height} nor {width} can be divided by {tiles}"
                why += ", so strips have different widths."
            advice = "use row * parts // height, which is never too large."
            raise NotYet(
                description,
                f"{name}{list(place)} on tile {part_array[place]}",
                why=why,
                next_step=advice,
            )
    return [
        np.asarray(part, int).reshape(shape)
        for part, shape in zip(result, shapes.values(), strict=True)
    ]


def _why_so_many(parts: list[Array], fewest: int) -> tuple[str, str]:
    """Return `(why, next step)` if a placement exchanges more bytes than necessary.

    `fewest` is the number of pairs of neighbours that the best grid separates. If the placement has
    none of the typical faults, the reason only compares it with the best grid.
    """
    pixels, right, down = parts
    ends = ((right, pixels[:, :-1], pixels[:, 1:]), (down, pixels[:-1], pixels[1:]))
    lost = sum(int(((f != a) & (f != b)).sum()) for f, a, b in ends)
    if lost:
        why = (
            f"{counted(lost, 'factor')} are on the tile of neither of their variables, so their "
            "messages are sent twice."
        )
        return why, "place a factor on the tile of one of its two variables."
    pairs = right.size + down.size
    counts = np.bincount(pixels.ravel())
    if counts.max() == 1:
        why = "each tile has at most one pixel, so each pair of neighbours is on two tiles."
        return why, "place up to `most` pixels on a tile; some tiles may have none."
    by_chance = 1 - (counts * (counts - 1)).sum() / (pixels.size * (pixels.size - 1))
    if cuts(pixels) > 0.9 * pairs * by_chance:
        why = (
            "neighbouring pixels share a tile no more often than at random, but only neighbours "
            "communicate."
        )
        return why, "place blocks of neighbouring pixels on the same tile."
    along = [(np.diff(pixels, axis=axis) != 0).any() for axis in (0, 1)]
    if not all(along):
        why = (
            f"these are strips, whose boundaries are long: {cuts(pixels)} pairs of neighbours are "
            "on two tiles."
        )
        return why, (
            "divide the image in both directions, and choose the grid with the fewest such pairs."
        )
    why = (
        f"{cuts(pixels)} pairs of neighbours are on two tiles, but the best grid separates only "
        f"{fewest}."
    )
    return why, (
        "try all grids down x across with down * across = tiles, and use the one with the fewest "
        "such pairs."
    )


def _layout(pixels: Array, tiles: int) -> View:
    """Return a picture that shows the tile of each pixel."""
    graph = Graph(device_of(tiles))
    image = graph.add_variable(FLOAT, pixels.shape, "pixels")
    for place in np.ndindex(pixels.shape):
        graph.set_tile_mapping(image[place], int(pixels[place]))
    return show.tiles(image)


# --- 15.5: the capstone ---------------------------------------------------------------------------

WORDS = 20  # The minimum number of words in the paragraph.
# The largest fraction of the earlier cycles or bytes that counts as an improvement.
LESS = 0.8
EQUAL = 1e-4  # The tolerance for sums in another order, relative to the largest result.
KEPT = "capstone.md"
# A program's measurements: its report, and its results by name.
Measured = tuple[Report, dict[str, Array]]
Side = Measured | Callable[[Target], Measured]


def keep(paragraph: str, figures: str = "") -> None:
    """Append a paragraph to a file in the work folder, unless the file already contains it."""
    stripped = paragraph.strip()
    entry = f"{stripped}\n\n*{figures}*" if figures else stripped
    with suppress(OSError, LessonError, UnicodeError):  # If this fails, the check continues.
        file = work_folder() / KEPT
        text = file.read_text(encoding="utf-8") if file.exists() else "# My capstone\n"
        if stripped not in text:
            write_whole(file, f"{text.rstrip()}\n\n{entry}\n")
        elif entry not in text:
            write_whole(file, text.replace(stripped, entry, 1))


@dataclass(frozen=True)
class Execution:
    """A program that has run: its report and results.

    `number` is the index of the program among those that were loaded (see `_engines`), or -1 if it
    ran before the check.
    """

    report: Report
    results: dict[str, Array]
    number: int


class _Endless(Exception):
    """Raised if a program without the work of its vertices runs too many compute sets."""


@contextmanager
def _engines(idle: int = -1, most: int = 0) -> Iterator[list[object]]:
    """Context manager: collect the compiled programs of the engines that are loaded in the block.

    The programs are in the order of loading; a program without a compute set is left out. In the
    program with the index `idle` (-1 for none), vertices do nothing, and the compute sets may run
    at most `most` times in total.
    """
    loaded: list[object] = []
    bind = BoundSteps._bind_execute
    times = count(1)

    def bound(steps: BoundSteps, number: int, step: Any) -> Callable[[], None]:
        if not any(steps.compiled is compiled for compiled in loaded):
            loaded.append(steps.compiled)
        if not 0 <= idle < len(loaded) or steps.compiled is not loaded[idle]:
            return bind(steps, number, step)
        copies = [steps._bind_copy(copy) for copy in step.copies]

        def copy_alone() -> None:
            if next(times) > most:
                raise _Endless
            for copy in copies:
                copy()

        return copy_alone

    with mock.patch.object(BoundSteps, "_bind_execute", bound):
        yield loaded


def _right_without_vertices(
    side: Side, ran: Execution, right: dict[str, Array]
) -> dict[str, Array]:
    """Map each result to a bool array: the elements that are right even if no vertex computes."""
    none = {name: np.zeros(array.shape, bool) for name, array in right.items()}
    if not callable(side) or ran.number < 0 or half_is_over():
        return none
    executions = sum(compute_set.executions for compute_set in ran.report.compute_sets)
    with suppress(Exception), _engines(ran.number, 2 * executions):
        results = side(device_of().target)[1]
        return {
            name: np.abs(np.asarray(results[name], float) - array)
            <= EQUAL * np.abs(array).max(initial=0)
            for name, array in right.items()
        }
    return none


def _refuse_copied(faster: Side, ran: Execution, before: Side, ran_before: Execution) -> None:
    """Raise `NotYet` if most results of the faster program do not come from its vertices.

    Elements that are also right in the first program without its vertices do not count.
    """
    known = _right_without_vertices(faster, ran, ran_before.results)
    if not any(array.any() for array in known.values()):
        return
    known_before = _right_without_vertices(before, ran_before, ran_before.results)
    copied = sum(int((known[name] & ~array).sum()) for name, array in known_before.items())
    computed = sum(int((~array).sum()) for array in known_before.values())
    if 2 * copied > computed:
        raise NotYet(
            "the program after, once more with vertices that do nothing",
            f"{copied:,} of {counted(computed, 'result')} are right without them",
            expected="results that only the vertices of the next program can compute",
            why=(
                "the vertices of the faster program do not compute these results: they come from "
                "the host or from another program."
            ),
            next_step=(
                "start from the input data of the slower program, and compute all results on the "
                "device."
            ),
        )


def _side(side: Side, name: str) -> Execution:
    """Return the report and the results of a program, which has run.

    `side` is a pair (report, results), or a function of a target that returns such a pair. `name`
    is "before" or "after".

    :raises NotYet: if these are not a report and results.
    """
    description = f"the program {name}"
    with _engines() as loaded:
        result = call_made(side, description, device_of().target) if callable(side) else side
    if result is None:
        raise NotAttempted
    advice = "return a pair: engine.report, and a dictionary of arrays."
    if (
        not isinstance(result, (tuple, list))
        or len(result) != 2
        or not isinstance(result[0], Report)
    ):
        raise NotYet(
            description, returned(result), expected="(a report, results)", next_step=advice
        )
    report, results = result
    if not isinstance(results, dict) or not results:
        raise NotYet(
            description, f"results: {shown(results)}", expected="arrays by name", next_step=advice
        )
    if not report.runs:
        raise NotYet(
            description,
            "a report in which nothing ran",
            next_step=("run the engine before you return its report."),
        )
    arrays = {str(key): np.asarray(value) for key, value in results.items()}
    for key, array in arrays.items():
        if array.dtype.kind not in "biuf" or not array.size:
            raise NotYet(
                description, f"{key}: {shown(results[key])}", expected="numbers", next_step=advice
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            place = [int(i) for i in np.argwhere(~np.isfinite(array))[0]]
            why = "NaN is not equal to any number, so the results cannot be compared."
            advice = "look for a division by 0, or for an element that is never written."
            raise NotYet(
                description, f"{key}{place} is {array[tuple(place)]}", why=why, next_step=advice
            )
    wide = {k: a.astype(float) if a.dtype.kind == "f" else a for k, a in arrays.items()}
    compiled = getattr(getattr(report.profile, "model", None), "compiled", None)
    number = next((i for i, program in enumerate(loaded) if program is compiled), -1)
    return Execution(report, wide, number)


def _refuse_short(paragraph: str) -> None:
    """Raise `NotYet` unless the paragraph has at least `WORDS` words."""
    if not isinstance(paragraph, str) or len(paragraph.split()) < WORDS:
        message = counted(len(str(paragraph).split()), "word") if isinstance(paragraph, str) else ""
        advice = (
            "write what was slow, how you found it, what you changed, and how much faster it "
            "became."
        )
        wanted = f"{WORDS} words or more"
        raise NotYet(
            "your paragraph", message or returned(paragraph), expected=wanted, next_step=advice
        )


LONGEST_STEPS = "find the longest supersteps of the report with show.balance and show.exchange."


def _capstone(faster: Side, before: Side, paragraph: str) -> Passed:
    _refuse_short(paragraph)
    keep(paragraph)  # Store the paragraph first, so that it is not lost if a program fails.
    ran_before, ran = _side(before, "before"), _side(faster, "after")
    (old, right), (new, results) = ((r.report, r.results) for r in (ran_before, ran))
    description = "both programs"
    if old.target != new.target:
        why = str(compared(old, new).of("machine")[0].name).replace("_", " ") + " differs."
        advice = "create the device from the target that the function gets."
        raise NotYet(description, "two machines", expected="one", why=why, next_step=advice)
    if right.keys() != results.keys():
        message = f"after: {', '.join(sorted(results))}; before: {', '.join(sorted(right))}"
        raise NotYet(
            description,
            message,
            expected="the same names",
            next_step="return the same names as the program before.",
        )
    _refuse_unequal(results, right)
    _refuse_idle(old, new)
    _refuse_copied(faster, ran, before, ran_before)
    _refuse_own_prices(description, new)
    units = ("modelled cycles", "bytes exchanged")
    pairs = [(float(r.total_cycles), float(r.exchange_bytes_per_tile[0].sum())) for r in (old, new)]
    shares = [b / a if a else 1.0 for a, b in zip(*pairs, strict=True)]
    # Fewer bytes are no improvement if the program takes longer, as when all data is on one tile.
    best = int(np.argmin(shares)) if shares[0] <= 1 else 0
    bars = Bars(int(LESS * pairs[0][best]), pairs[1][best], units[best])
    figures = "; ".join(
        f"{u}: {a:,.0f} before, {b:,.0f} after" for u, a, b in zip(units, *pairs, strict=True)
    )
    if shares[best] > LESS:
        why = (
            f"the best saving is {100 - 100 * shares[best]:.0f} % of the {units[best]}, but 20 % "
            "are needed."
        )
        if shares[0] > 1:
            why = f"the program after takes {100 * shares[0] - 100:.1f} % more cycles than before."
        raise NotYet(
            description,
            figures,
            expected="20 % fewer cycles, or 20 % fewer bytes in no more cycles",
            why=why,
            next_step=LONGEST_STEPS,
            bars=bars,
            draws=partial(show.bsp, old, new),
        )
    keep(paragraph, f"{figures}.")
    tried = f"equal results; {compared(old, new).sentence()}"
    return Passed(tried, bars, list(results.values()))


def _refuse_own_prices(description: str, new: Report) -> None:
    """Raise `NotYet` unless the model has counted the cycles of all codelets.

    A codelet with its own cycle estimate, or with unknown cycles, is refused.
    """
    said_so = [codelet.name for codelet in new.profile.codelets if codelet.ground == GIVEN]
    if said_so or new.unknown_codelets:
        actual = f"{(said_so or new.unknown_codelets)[0]} "
        actual += "sets its own cycles" if said_so else "has no known cycles"
        why = "this exercise compares cycles, so the model counts the cycles of compute() itself."
        raise NotYet(
            description,
            actual,
            expected="cycles counted by the model",
            why=why,
            next_step="remove the estimate, and let the model count the cycles.",
        )


def _refuse_idle(old: Report, new: Report) -> None:
    """Raise `NotYet` if vertices compute in the first program, but not in the faster one."""
    before, after = (sum(p.executions for p in report.compute_sets) for report in (old, new))
    if before and not after:
        raise NotYet(
            "the program after",
            "nothing is computed on the device: no vertex runs",
            expected="the same results, computed there",
            why=(
                "the vertices of the faster program do not compute these results: they come from "
                "the host or from another program."
            ),
            next_step=(
                "start from the input data of the slower program, and compute all results on the "
                "device."
            ),
        )


def _refuse_unequal(results: dict[str, Array], right: dict[str, Array]) -> None:
    """Raise `NotYet` unless both programs give equal results, except for rounding."""
    description = "both programs"
    for name, array in right.items():
        if results[name].shape != array.shape:
            actual, wanted = (
                f"{name}: shape {array_of.shape}" for array_of in (results[name], array)
            )
            advice = "return all results, in the shapes that the previous program has."
            raise NotYet(
                description,
                actual,
                expected=wanted,
                why="this result has another shape than in the previous program.",
                next_step=advice,
            )
        if where := difference(results[name], array, EQUAL):
            why = "the programs compute different results, so their cycles cannot be compared."
            advice = "make this result equal to the result of the previous program."
            raise NotYet(
                description, f"{name}: {where}", expected="equal results", why=why, next_step=advice
            )


LESSON = lesson(
    "15",
    question("15.0", (PredictedValue("rounds", whole=True, low=1),)),
    exercise(
        "15.w1",
        warmups.formula(
            "15.w1",
            lambda mean, variance: [mean / variance, 1 / variance],
            (3, 0.5),
            (-2, 4),
            (0, 0.1),
            (1.5, 1),
            more=product((-2, -0.5, 0, 1, 3.5), (0.1, 0.5, 1, 2, 4, 10)),
        ),
    ),
    exercise("15.1", _fused),
    exercise("15.2", _variable, takes=("a codelet",)),
    exercise(
        "15.w2",
        warmups.formula(
            "15.w2",
            lambda gap, stiff, far: stiff if abs(gap) <= far else stiff * far / abs(gap),
            (-0.75, 6, 0.25),
            (0.1, 5, 0.5),
            (2, 8, 0.5),
            (0, 3, 1),
            (-0.6, 4, 0.5),
            (0.3, 7, 0.25),
            (-0.5, 9, 2),
            more=[
                (gap / 4, stiff, far)
                for gap in range(-12, 13)
                for stiff in (1, 6)
                for far in (0.25, 0.5, 1, 2)
            ],
        ),
    ),
    exercise("15.3", _robust, takes=("a codelet",)),
    question("15.4", (PredictedValue("times as many bytes", low=1),)),
    exercise("15.4", _placed),
    exercise("15.5", _capstone, takes=("the faster program", "the program before", "a paragraph")),
)
