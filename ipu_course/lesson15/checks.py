"""The exercises of lesson 15, Belief propagation and capstone: what is right, and mistakes by
name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.calling import call, call_made
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.notebooks import work_folder
from ipu_course.checking.programs import TILES, device_of
from ipu_course.checking.quoting import difference, quoted, returned
from ipu_course.checking.trial import Built, Ran, Trial, Var, codelet, codelet_of
from ipu_course.checking.verdict_panel import Bars, number
from ipu_course.checking.verdicts import NotAttempted, NotYet, Passed, refusing
from ipu_course.lesson15.beliefs import Belief, Edge, Spring, chain, grid, messages, network
from ipu_teach import FLOAT, Graph, Report, show
from ipu_teach._support.places import write_whole
from ipu_teach.errors import LessonError, counted, shown
from ipu_teach.report.compare import compare as compared
from ipu_teach.target import GIVEN
from ipu_teach.types import Array

# --- 15.1: Gaussians in information form ----------------------------------------------------------


def marginal_of_product(etas: Array, lams: Array, keep: int) -> tuple[Array, Array]:
    """What is asked, by way of the covariances of what is kept."""
    spread = np.linalg.inv(np.sum(lams, axis=0))
    mean = spread @ np.sum(etas, axis=0)
    lam = np.linalg.inv(spread[:keep, :keep])
    return lam @ mean[:keep], lam


@cache
def _gaussians() -> tuple[tuple[str, Array, Array, int], ...]:
    """What is said of them, etas, lams, and how many variables are kept; ordinary ones first."""
    draw, made = np.random.default_rng(1501), []
    for said, many, n, keep in (
        ("two Gaussians of 3 variables", 2, 3, 1),
        ("three of 5 variables", 3, 5, 2),
        ("two of which all variables are kept", 2, 3, 3),
        ("one alone", 1, 4, 2),
        ("one variable", 3, 1, 1),
        ("one of them knows nothing", 3, 4, 3),
    ):
        roots = draw.uniform(-1, 1, (many, n, n))
        lams = roots @ roots.transpose(0, 2, 1) + 0.5 * np.eye(n)
        etas = draw.uniform(-2, 2, (many, n))
        if "nothing" in said:
            etas[1], lams[1] = 0, 0
        made.append((said, etas, lams, keep))
    return tuple(made)


def _fused(answer: Callable[..., Any]) -> Passed:
    came: list[Any] = []

    def alike(like: Any) -> bool:
        pairs = zip(came, _gaussians(), strict=False)
        return all(not _apart(hers, like(*case)) for hers, (_, *case) in pairs)

    for said, etas, lams, kept in _gaussians():
        case = etas, lams, kept
        tried = f"{said}, keep = {kept}"
        came.append(hers := call(answer, *case))
        if not isinstance(hers, (tuple, list)) or len(hers) != 2:
            raise NotYet(tried, returned(hers), "eta and lam", "", "return both: eta, lam.")
        right = marginal_of_product(*case)
        if where := _apart(hers, right):
            why = f"what came before is right; here: {said}." if len(came) > 1 else ""
            advice = "take two Gaussians of two variables, and keep one, by hand."
            raise refusing("15.1", alike)(tried, where, f"eta {quoted(right[0])}", advice, why)
    return Passed(f"{len(came)} products", evidence=[part for hers in came for part in hers])


def _apart(hers: Sequence[Any], right: Sequence[Any]) -> str:
    """Where one of eta and lam is another, in words."""
    for name, mine, its in zip(("lam", "eta"), (hers[1], hers[0]), right[::-1], strict=True):
        if where := difference(mine, its):
            return f"{name}: {where}"
    return ""


# --- 15.2: messages on a tree ---------------------------------------------------------------------

NEAR = 1e-5  # of the largest: what float32 loses in so many rounds


def tensors_of(prior: Array, sides: int, stiff: Array, far: float, right: Array) -> dict[str, Var]:
    """The tensors of a network as a trial has them; `network` says where they lie."""
    n = len(prior)
    zeros = np.zeros((n, sides, 2), np.float32)
    return {
        "prior": Var(FLOAT, (n, 2), given=[prior]),
        "came": Var(FLOAT, zeros.shape, given=[zeros]),
        "sent": Var(FLOAT, zeros.shape, right=[zeros]),  # read, for it tells mistakes apart
        "belief": Var(FLOAT, (n, 2), right=[right]),
        "stiff": Var(FLOAT, len(stiff), given=[stiff]),
        "far": Var(FLOAT, (), 0, given=[far]),
    }


def solved(prior: Array, edges: Sequence[Edge], stiff: Array) -> Array:
    """(mean, variance) of each variable, from one dense matrix in float64."""
    lam = np.diag(prior[:, 1].astype(float))
    for (a, _, b, _), pull in zip(edges, stiff.astype(float), strict=True):
        lam[[a, b], [a, b]] += pull
        lam[[a, b], [b, a]] -= pull
    return np.stack([np.linalg.solve(lam, prior[:, 0]), np.diag(np.linalg.inv(lam))], axis=1)


def _close(hers: Ran, other: Ran) -> bool:
    """Whether two answers come to the same but for rounding."""
    pairs = (
        (mine[k], its[k]) for mine, its in zip(hers.came, other.came, strict=True) for k in its
    )
    return all(np.allclose(a, b, 1e-3, 1e-6, equal_nan=True) for a, b in pairs)


@cache
def _trees() -> tuple[Trial, ...]:
    made, draw = [], np.random.default_rng(1502)
    star = [(0, side, side + 1, 0) for side in range(5)]
    for said, edges, n, sides, rounds in (
        ("a chain of 5 variables", chain(5), 5, 2, 5),
        ("a chain of 17 variables", chain(17), 17, 2, 17),
        ("a star: one variable and 5 around it", star, 6, 5, 3),
        ("a chain of 2 variables", chain(2), 2, 2, 2),
        ("a variable alone", chain(1), 1, 2, 1),
    ):
        prior = np.stack([draw.uniform(-3, 3, n), draw.uniform(0.5, 2, n)], axis=1)
        stiff = draw.uniform(0.5, 3, len(edges))
        prior, stiff = prior.astype(np.float32), stiff.astype(np.float32)
        tensors = tensors_of(prior, sides, stiff, 0.0, solved(prior, edges, stiff))
        form = partial(_messages, edges, rounds, lambda answer: (answer, Spring))
        words = f"{said}, {counted(rounds, 'round')}"
        made.append(Trial(words, tensors, form=form, agree=_close))
    return tuple(made)


def _messages(
    edges: Sequence[Edge],
    rounds: int,
    codelets: Callable[[Any], tuple[Any, Any]],
    answer: Any,
    trial: Trial,
    graph: Graph,
    parts: list[Any],
) -> Built:
    """A network with an answer among its two codelets, variable by variable on the next tile."""
    tensors = dict(zip(trial.tensors, parts, strict=True))
    tiles = [[i % TILES for i in range(len(tensors["prior"]))], [e[0] % TILES for e in edges]]
    return network(graph, tensors, edges, (tiles[0], tiles[1]), codelets(answer), rounds), []


def _played(trial: Trial, answer: Any) -> Any:
    """The beliefs of a network as they change, for who was refused."""
    made: list[Any] = []
    of = replace(trial, ready=lambda ran: made.append(ran.engine.record(ran.tensors["belief"])))
    of.of(answer)
    return show.run(made[0])


def _variable(answer: Any) -> Passed:
    codelet_of(answer, 'check("15.2", …)')
    reports = []
    for number_, trial in enumerate(_trees()):
        ran = trial.through(answer, "15.2")
        right, came = trial.tensors["belief"].right[0], ran.came[0]["belief"]
        for column, name in enumerate(("mean", "variance")):
            if where := difference(came[:, column], right[:, column], NEAR):
                why = f"the chain of 5 is right; here: {trial.tried}." if number_ else ""
                advice = "take a chain of two: what does each tell the other?"
                draws = partial(_played, trial, answer)
                found = f"{name}s: {where}".replace("nan", "nothing was written")
                raise ran.refused("15.2", found, "", advice, why, draws)
        reports.append(ran.report)
    return Passed("four trees and a variable alone, beside the dense solve", evidence=reports)


# --- 15.3: a robust factor ------------------------------------------------------------------------


def through(message: Array, stiff: float) -> Array:
    """A message through a spring: the marginal of both variables, by their covariance."""
    eta, lam = message.astype(float)
    spread = np.linalg.inv([[lam + stiff, -stiff], [-stiff, stiff]])
    return np.array([spread[1, 0] * eta / spread[1, 1], 1 / spread[1, 1]])


# Messages from a and from b, both means, stiff and far.
FACTORS: tuple[tuple[Any, ...], ...] = (
    ((2.0, 4.0), (-1.5, 3.0), 0.25, -0.5, 6.0, 0.25),
    ((-3.0, 2.0), (1.0, 5.0), -1.75, 0.5, 8.0, 0.5),
    ((1.0, 3.0), (2.5, 4.0), 0.5, 0.625, 5.0, 0.5),
    ((0.5, 7.0), (3.0, 2.0), 0.125, 2.125, 30.0, 0.0625),
    ((1.5, 2.0), (1.0, 6.0), 0.375, 0.375, 4.0, 0.25),
)


@cache
def _pairs() -> Trial:
    """One vertex, five times."""
    given: dict[str, list[Any]] = {}
    names = ("from_a", "from_b", "mean_a", "mean_b", "stiff", "far")
    for case in FACTORS:
        for name, value in zip(names, case, strict=True):
            given.setdefault(name, []).append(np.float32(value))
        a, b, mean_a, mean_b, stiff, far = (np.array(value) for value in case)
        pull = float(stiff) if abs(mean_a - mean_b) <= far else stiff * far / abs(mean_a - mean_b)
        given.setdefault("to_a", []).append(through(b, float(pull)))
        given.setdefault("to_b", []).append(through(a, float(pull)))
    shapes = {name: () if np.ndim(values[0]) == 0 else 2 for name, values in given.items()}
    tensors = {name: Var(FLOAT, shapes[name], 0, given[name]) for name in names}
    tensors |= {name: Var(FLOAT, 2, 0, right=given[name]) for name in ("to_a", "to_b")}
    tried = f"one vertex, with {counted(len(FACTORS), 'pair')} of messages"
    return Trial(tried, tensors, form=codelet, runs=len(FACTORS), tiles=1, agree=_close)


def cleared(prior: Array, edges: Sequence[Edge], stiff: float, far: float) -> Array:
    """Where all robust springs are at rest: the dense solve, again and again with its own pulls."""
    a, b = (np.array([edge[side] for edge in edges]) for side in (0, 2))
    mean = prior[:, 0] / prior[:, 1]
    for _ in range(200):
        pull = stiff * np.minimum(1, far / np.maximum(np.abs(mean[a] - mean[b]), 1e-12))
        mean = solved(prior, edges, pull)[:, 0]
    return mean


@cache
def _image() -> Trial:
    """An image of 6 x 5 with an edge in it, and noise."""
    height, width = 6, 5
    image = np.where(np.arange(width) < 2, -0.6, 0.8) + np.zeros((height, 1))
    seen = image + np.random.default_rng(1503).normal(0, 0.3, image.shape)
    prior = np.stack([seen.ravel() * 8, np.full(seen.size, 8.0)], axis=1).astype(np.float32)
    edges, stiff, far = grid(height, width), 8.0, 0.25
    right = np.stack([cleared(prior, edges, stiff, far), np.zeros(seen.size)], axis=1)
    tensors = tensors_of(prior, 4, np.full(len(edges), stiff), far, right)
    form = partial(_messages, edges, 60, lambda answer: (Belief, answer))
    return Trial("an image of 6 x 5 pixels, 60 rounds", tensors, form=form, agree=_close)


def _robust(answer: Any) -> Passed:
    codelet_of(answer, 'check("15.3", …)')
    ran = (trial := _pairs()).through(answer, "15.3")
    for run, case in enumerate(FACTORS):
        for name in ("to_a", "to_b"):
            right, hers = trial.tensors[name].right[run], ran.came[run][name]
            if where := difference(hers, right, NEAR):
                why, advice = trial.reason(ran, "15.3")
                apart, far = abs(case[2] - case[3]), case[5]
                here = f"the means are {number(apart)} apart, and far is {number(far)}"
                why = why or (f"what came before is right; here {here}." if run else "")
                advice = advice or "work out by hand how much the spring pulls, then one message."
                where = where.replace("nan", "nothing was written")
                tried = f"{name}, where {here}"
                raise NotYet(
                    tried, where, quoted(right), why, advice, draws=partial(_drawn, answer)
                )
    ran = (trial := _image()).through(answer, "15.3")
    right = trial.tensors["belief"].right[0][:, 0]
    if where := difference(ran.came[0]["belief"][:, 0], right, 2e-3):
        advice = "write both messages from what came in this round alone."
        raise NotYet(trial.tried, f"means: {where}", "", "", advice, draws=partial(_drawn, answer))
    return Passed(f"{len(FACTORS)} pairs of messages, and an image", evidence=ran.report)


def _drawn(answer: Any) -> Any:
    """What is seen, what her factor makes of it, and what it should."""
    hers = (trial := _image()).of(answer).came[0]["belief"][:, 0]
    prior, right = trial.tensors["prior"].given[0], trial.tensors["belief"].right[0]
    rows = [prior[:, 0] / prior[:, 1], np.nan_to_num(hers), right[:, 0]]
    alt = "An image of 6 x 5 pixels: as it is seen, as your factor leaves it, and as it should."
    pictures = np.clip(np.array(rows).reshape(3, 6, 5), -2, 2)
    return show.images(pictures, alt, ["seen", "yours", "right"])


# --- 15.4: where factors and variables lie --------------------------------------------------------

LIMIT, FULL = 1.1, 1.5  # times the reference's bytes, and times an even share of pixels
IMAGES = ((12, 12, 16), (13, 9, 6), (7, 11, 4), (10, 10, 13), (1, 20, 5), (26, 2, 7), (2, 3, 8))


def blocks(height: int, width: int, tiles: int, most: int) -> Array:
    """The tile of each pixel: of all ways to cut into as many blocks as tiles, none of more than
    `most` pixels, that which cuts the fewest pairs of neighbours."""

    def cut(down: int) -> Array:
        rows = np.arange(height) * down // height
        columns = np.arange(width) * (tiles // down) // width
        return np.asarray(rows[:, None] * (tiles // down) + columns)

    found = (cut(down) for down in range(1, tiles + 1) if tiles % down == 0)
    return min((way for way in found if np.bincount(way.ravel()).max() <= most), key=cuts)


def cuts(pixels: Array) -> int:
    """Pairs of neighbours that lie on two tiles."""
    return int((np.diff(pixels, axis=0) != 0).sum() + (np.diff(pixels, axis=1) != 0).sum())


def bytes_of(pixels: Array, factors: Array, tiles: int) -> int:
    """Bytes that a round exchanges."""
    prior, lies = np.ones((pixels.size, 2)), (pixels.ravel().tolist(), factors.tolist())
    engine, _ = messages(device_of(tiles), prior, grid(*pixels.shape), 1, stiff=1.0, lies=lies)
    engine.run()
    return int(engine.report.exchange_bytes_per_tile[0].sum())


def _placed(answer: Callable[..., Any]) -> Passed:
    flat, budget, yours = list[Array](), 0, 0
    for height, width, tiles in IMAGES:
        hers = call(answer, height, width, tiles, most := _most(height, width, tiles))
        tried = f"an image of {height} x {width} pixels on {counted(tiles, 'tile')}"
        parts = _three(hers, (height, width), tiles, tried)
        held = np.bincount(parts[0].ravel())
        draws = partial(_layout, parts[0], tiles)
        if held.max() > most:
            said = f"tile {held.argmax()} has {held.max()} pixels"
            why = "it works while the others wait." if held.max() < height * width else ""
            why = why or "nothing is sent, and one tile does all the work."
            advice = "deal the image out first, then look at the borders."
            raise NotYet(tried, said, f"{most} at the most", why, advice, draws=draws)
        factors = np.concatenate([parts[1].ravel(), parts[2].ravel()])
        best = cuts(blocks(height, width, tiles, most))
        sent, limit = bytes_of(parts[0], factors, tiles), int(LIMIT * 16 * best)
        budget, yours, flat = budget + limit, yours + sent, [*flat, parts[0].ravel(), factors]
        if sent > limit:
            why, advice = _why_so_many(parts, tiles)
            bars = Bars(limit, sent, "bytes exchanged in a round")
            raise NotYet(tried, f"{sent:,} bytes", f"{limit:,}", why, advice, bars, draws)
    bars = Bars(budget, yours, "bytes exchanged in a round")
    return Passed(f"{len(IMAGES)} images", bars, flat)


def _most(height: int, width: int, tiles: int) -> int:
    return -(-int(2 * FULL) * height * width // (2 * tiles))


def _three(hers: Any, image: tuple[int, int], tiles: int, tried: str) -> list[Array]:
    """An answer's three arrays of tiles. Raises `NotYet` for what is none."""
    if not isinstance(hers, (tuple, list)) or len(hers) != 3:
        asked = "three arrays: pixels, right, down"
        raise NotYet(tried, returned(hers), asked, "", "return pixels, right, down.")
    height, width = image
    shapes = {"pixels": image, "right": (height, width - 1), "down": (height - 1, width)}
    for (name, shape), part in zip(shapes.items(), hers, strict=True):
        try:
            found = np.asarray(part)
        except ValueError:  # rows of different lengths
            found = np.zeros(0)
        if found.shape != shape or found.dtype.kind not in "iu":
            kind = "" if found.dtype.kind in "iu" else f" of {found.dtype}"
            said = f"{name}: the shape {found.shape}{kind}"
            raise NotYet(tried, said, f"whole numbers, {shape}", "", "a tile for each of them.")
        if found.size and not 0 <= found.min() <= found.max() < tiles:
            place = tuple(int(i) for i in np.argwhere((found < 0) | (found >= tiles))[0])
            why = f"the tiles are 0 to {tiles - 1}."
            if height % tiles and width % tiles:
                why += f" Neither {height} nor {width} can be divided by {tiles}"
                why += ": not all strips are equally wide."
            advice = "row * parts // height is the part of a row, and never too large."
            raise NotYet(tried, f"{name}{list(place)} on tile {found[place]}", "", why, advice)
    return [np.asarray(part) for part in hers]


def _why_so_many(parts: list[Array], tiles: int) -> tuple[str, str]:
    """Why a placement exchanges more than need be: what can be seen of it."""
    pixels, right, down = parts
    ends = ((right, pixels[:, :-1], pixels[:, 1:]), (down, pixels[:-1], pixels[1:]))
    lost = sum(int(((f != a) & (f != b)).sum()) for f, a, b in ends)
    if lost:
        why = f"{counted(lost, 'factor')} lie with neither variable: each fetches and sends twice."
        return why, "put a factor on the tile of one of its two variables."
    pairs = right.size + down.size
    if cuts(pixels) > 0.8 * pairs * (1 - 1 / tiles):
        why = "neighbours lie together no more often than by chance, and only neighbours talk."
        return why, "pixels that are neighbours belong on one tile."
    along = [(np.diff(pixels, axis=axis) != 0).any() for axis in (0, 1)]
    if not all(along):
        why = f"strips have long borders: {cuts(pixels)} pairs of neighbours lie on two tiles."
        return why, "cut in both directions: count the pairs of each way to do it."
    why = f"{cuts(pixels)} pairs of neighbours lie on two tiles."
    return why, "of all a * b = tiles, which cuts the fewest pairs?"


def _layout(pixels: Array, tiles: int) -> Any:
    graph = Graph(device_of(tiles))
    image = graph.add_variable(FLOAT, pixels.shape, "pixels")
    for place in np.ndindex(pixels.shape):
        graph.set_tile_mapping(image[place], int(pixels[place]))
    return show.tiles(image)


# --- 15.5: the capstone ---------------------------------------------------------------------------

WORDS, LESS = 20, 0.8  # of a paragraph; of cycles or bytes
EQUAL = 1e-4  # of the largest result: sums in another order
KEPT = "capstone.md"


def keep(paragraph: str, figures: str = "") -> None:
    """Put a paragraph into the work folder, below those that are there; once each."""
    hers = paragraph.strip()
    entry = f"{hers}\n\n*{figures}*" if figures else hers
    with suppress(OSError, LessonError, UnicodeError):  # where nothing can be kept
        file = work_folder() / KEPT
        text = file.read_text(encoding="utf-8") if file.exists() else "# My capstone\n"
        if hers not in text:
            write_whole(file, f"{text.rstrip()}\n\n{entry}\n")
        elif entry not in text:
            write_whole(file, text.replace(hers, entry, 1))


def _side(side: Any, name: str) -> tuple[Report, dict[str, Array]]:
    """The report and the results of a program, which is run if it is a function."""
    tried, made = f"the program {name}", side
    if callable(side):
        made = call_made(side, tried, device_of().target)
    if made is None:
        raise NotAttempted
    advice = "return a pair: engine.report, and a dictionary of arrays."
    if not isinstance(made, (tuple, list)) or len(made) != 2 or not isinstance(made[0], Report):
        raise NotYet(tried, returned(made), "(a report, results)", "", advice)
    report, results = made
    if not isinstance(results, dict) or not results:
        raise NotYet(tried, f"results: {shown(results)}", "arrays by name", "", advice)
    if not report.runs:
        raise NotYet(tried, "a report in which nothing ran", "", "", "run the engine first.")
    arrays = {str(key): np.asarray(value) for key, value in results.items()}
    for key, array in arrays.items():
        if array.dtype.kind not in "biuf" or not array.size:
            raise NotYet(tried, f"{key}: {shown(results[key])}", "numbers", "", advice)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            place = [int(i) for i in np.argwhere(~np.isfinite(array))[0]]
            why = "it is equal to nothing, so nothing can be said of it."
            advice = "was it ever written? Is anything divided by 0?"
            raise NotYet(tried, f"{key}{place} is {array[tuple(place)]}", "", why, advice)
    return report, {k: a.astype(float) if a.dtype.kind == "f" else a for k, a in arrays.items()}


def _capstone(faster: Any, before: Any, paragraph: Any) -> Passed:
    if not isinstance(paragraph, str) or len(paragraph.split()) < WORDS:
        said = counted(len(str(paragraph).split()), "word") if isinstance(paragraph, str) else ""
        advice = "what was slow, how did you see it, what did you change, and what did it bring?"
        asked = f"{WORDS} words or more"
        raise NotYet("your paragraph", said or returned(paragraph), asked, "", advice)
    keep(paragraph)  # first: whatever is wrong with the programs, it is not lost
    (old, right), (new, hers) = _side(before, "before"), _side(faster, "after")
    tried = "both programs"
    if old.target != new.target:
        why = str(compared(old, new).of("machine")[0].name).replace("_", " ") + " differs."
        advice = "make the device of the target that the function is given."
        raise NotYet(tried, "two machines", "one", why, advice)
    if right.keys() != hers.keys():
        said = f"after: {', '.join(sorted(hers))}; before: {', '.join(sorted(right))}"
        raise NotYet(tried, said, "the same names", "", "return what the program before returns.")
    for name, array in right.items():
        if hers[name].shape != array.shape:
            came, asked = (f"{name}: shape {one.shape}" for one in (hers[name], array))
            advice = "return all of the results, as the program before does."
            raise NotYet(tried, came, asked, "results of two shapes are not equal.", advice)
        if where := difference(hers[name], array, EQUAL):
            why = "they do not compute the same, so one cannot be quicker than the other."
            advice = "make it equal first. Whatever is quicker then counts."
            raise NotYet(tried, f"{name}: {where}", "equal results", why, advice)
    said_so = [codelet.name for codelet in new.profile.codelets if codelet.ground == GIVEN]
    if said_so or new.unknown_codelets:
        came = f"{(said_so or new.unknown_codelets)[0]} "
        came += "says itself what it costs" if said_so else "costs nobody knows what"
        why = "here the cost decides, and it is counted from compute()."
        raise NotYet(tried, came, "cycles as they are counted", why, "leave that to the model.")
    units = ("modelled cycles", "bytes exchanged")
    pairs = [(float(r.total_cycles), float(r.exchange_bytes_per_tile[0].sum())) for r in (old, new)]
    shares = [b / a if a else 1.0 for a, b in zip(*pairs, strict=True)]
    best = int(np.argmin(shares))
    bars = Bars(int(LESS * pairs[0][best]), pairs[1][best], units[best])
    figures = "; ".join(
        f"{u}: {a:,.0f} before, {b:,.0f} after" for u, a, b in zip(units, *pairs, strict=True)
    )
    if shares[best] > LESS:
        why = f"the best of both is {units[best]}, {100 - 100 * shares[best]:.0f} % fewer."
        advice = "what takes longest? show.balance and show.exchange of the report say."
        draws = partial(show.bsp, old, new)
        raise NotYet(tried, figures, "20 % fewer of one of them", why, advice, bars, draws)
    keep(paragraph, f"{figures}.")
    return Passed(f"equal results; {compared(old, new).sentence()}", bars, list(hers.values()))


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
        ),
    ),
    exercise("15.1", _fused),
    exercise("15.2", _variable, takes=("a codelet",)),
    exercise(
        "15.w2",
        warmups.formula(
            "15.w2",
            lambda apart, stiff, far: stiff if abs(apart) <= far else stiff * far / abs(apart),
            (-0.75, 6, 0.25),
            (0.1, 5, 0.5),
            (2, 8, 0.5),
            (0, 3, 1),
        ),
    ),
    exercise("15.3", _robust, takes=("a codelet",)),
    question("15.4", (PredictedValue("times as many bytes", low=1),)),
    exercise("15.4", _placed),
    exercise("15.5", _capstone, takes=("the faster program", "the program before", "a paragraph")),
)
