"""The exercises of lesson 08, Recomputation and liveness: correct results and known mistakes.

An answer's steps are a list of (kind, layer). This module computes the memory in use at each step
from the list, and the smallest sufficient memory from the positions of the saved layers. It also
executes such a list on numbers. Neither depends on how an answer computes its result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import combinations
from types import FrameType
from typing import TypeVar

import numpy as np

from ipu_course.checking.calling import Answer, Broken, answering, call, call_all
from ipu_course.checking.comparing import compare, gives_alike
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import suspects
from ipu_course.checking.programs import SYNC, TILES, device_of, run_once, tiles_of
from ipu_course.checking.quoting import call_text, name_of, plain, quoted, returned, said_by
from ipu_course.checking.trial import Built, Parts, Ran, Trial, Var, by_rows
from ipu_course.checking.verdict_panel import Bars
from ipu_course.checking.verdicts import MODELLED, NotYet, Passed, refusing
from ipu_teach import (
    FLOAT,
    UNSIGNED_INT,
    Graph,
    InOut,
    Input,
    Output,
    Report,
    Tensor,
    Vector,
    Vertex,
    show,
)
from ipu_teach.errors import counted, shown
from ipu_teach.program import Copy, Execute, Sequence as Steps
from ipu_teach.schedules import BACKWARD, FORWARD, RECOMPUTE, recompute
from ipu_teach.show.view import View
from ipu_teach.types import Array

KINDS = (FORWARD, RECOMPUTE, BACKWARD)
Order = list[tuple[str, int]]


class Listed(Order):
    """A list of steps that a verdict shows as the call that builds the list.

    Only the check uses this class: an answer gets a copy, which is a plain list.
    """

    said = ""

    def __repr__(self) -> str:
        return self.said

    def __deepcopy__(self, memo: dict[int, Order]) -> Order:
        return [*self]


def _listed(layers: int, keep: Collection[int]) -> Listed:
    """Return the list of steps that the library's `recompute` gives, as plain tuples."""
    listed = Listed((step.kind, step.layer) for step in recompute(layers, keep))
    listed.said = f"recompute({layers}, {sorted(keep)})"
    return listed


def alive_while(steps: Order, sizes: Sequence[int]) -> list[int]:
    """Return the total size of the inputs in memory while each step runs.

    The input of a layer is in memory from the step that computes it to its last read before it is
    computed again. The input of layer 0 is in memory from the start.
    """
    is_alive = np.zeros((len(steps), len(sizes)), bool)
    for layer in range(len(sizes)):
        writes = [p for p, (k, i) in enumerate(steps) if k != BACKWARD and i + 1 == layer]
        writes = writes if layer else [0]
        for begin, end in zip(writes, [*writes[1:], len(steps)], strict=True):
            uses = [p for p in range(begin, end) if steps[p][1] == layer]
            is_alive[begin : max(uses, default=begin) + 1, layer] = True
    return [int(size) for size in is_alive @ np.array(sizes)]


def most_alive(sizes: Sequence[int], keep: Collection[int]) -> int:
    """Return the peak memory of a chain if the layers in `keep` save their inputs.

    `sizes` has the size of the input of each layer.
    """
    return max(alive_while(_listed(len(sizes), {0, *keep}), sizes))


def computed_again(keep: Collection[int]) -> int:
    """Return how many layers are recomputed if the inputs of the layers in `keep` are saved.

    Between two saved inputs, all layers are recomputed except the last one, whose result is the
    second saved input. No layer after the last saved input is recomputed.
    """
    starts = sorted({0, *keep})
    return starts[-1] - len(starts) + 1


def _all_kept(most: int) -> list[tuple[int, set[int]]]:
    """Return every (layers, saved layers) with layer 0 saved, for 1 to `most` layers."""
    return [
        (layers, {0, *others})
        for layers in range(1, most + 1)
        for count in range(layers)
        for others in combinations(range(1, layers), count)
    ]


# --- 08.w1 and 08.1 -------------------------------------------------------------------------------


def _last_read(steps: Order, layer: int) -> int:
    """Return the index of the last step that reads the input of a layer."""
    return int(np.flatnonzero([i == layer for _, i in steps])[-1])


def _last_reads(answer: Callable[..., int]) -> Passed:
    draw = np.random.default_rng(800)
    cases = {
        f"drawn, {n} layers": (_listed(n, range(0, n, every)), int(draw.integers(1, n - 1)))
        for n, every in ((7, 3), (11, 4), (5, 2))
    }
    cases |= {
        "the layer is layer 0": (_listed(5, [0, 2]), 0),
        "the chain has one layer": (_listed(1, [0]), 0),
    }
    more = [(_listed(n, keep), layer) for n, keep in _all_kept(6) for layer in range(n)]
    return compare(answer, _last_read, cases, suspects("08.w1"), more=more)


def _alive(answer: Callable[..., int]) -> Passed:
    draw = np.random.default_rng(801)
    chains = {f"drawn, {n} layers": (n, keep) for n, *keep in ((7, 3, 5), (11, 4, 8), (13, 2, 7))}
    chains |= {
        "all inputs are saved": (5, [*range(5)]),
        "only the input of layer 0 is saved": (5, [0]),
    }
    chains |= {"the chain has two layers": (2, [1]), "the chain has one layer": (1, [0])}
    cases = {
        name: (_listed(n, keep), draw.permutation(np.arange(3, 30))[:n].tolist())
        for name, (n, keep) in chains.items()
    }
    more = [
        (_listed(n, keep), draw.permutation(np.arange(1, n + 1)).tolist())
        for n, keep in _all_kept(6)
    ]
    return compare(answer, alive_while, cases, suspects("08.1"), more=more)


# --- 08.2 -----------------------------------------------------------------------------------------


@cache
def _price(layers: int, every: int) -> tuple[int, int]:
    """Return `(inputs in memory at once, recomputed layers)` if one input in `every` is saved."""
    keep = range(0, layers, every)
    return most_alive([1] * layers, keep), computed_again(keep)


def _prices(answer: Callable[..., tuple[int, int]]) -> Passed:
    cases: dict[str, tuple[int, int]] = {
        f"drawn, {layers} layers": (layers, every)
        for layers, every in ((20, 5), (12, 3), (28, 4), (64, 16), (30, 2))
    }
    cases |= {
        "all inputs are saved": (7, 1),
        "only the input of layer 0 is saved": (11, 11),
        "one layer": (1, 1),
    }
    if (price := plain(call(answer, 20, 5))) is not None:
        advice = "return both numbers, with a comma between them."
        raise NotYet(
            call_text(answer, (20, 5)),
            f"one number, {quoted(price)}",
            expected="two",
            next_step=advice,
        )
    more = [(n, every) for n in range(1, 25) for every in range(1, n + 1) if n % every == 0]
    return compare(answer, _price, cases, suspects("08.2"), more=more)


# --- 08.3 -----------------------------------------------------------------------------------------


def _steps_of(steps: Order, description: str, layers: int) -> Order:
    """Return the steps of an answer as plain tuples.

    :raises NotYet: if `steps` is not a list of steps.
    """
    pairs = []
    advice = 'a step is a pair, as ("forward", 0); return a list of them.'
    if not isinstance(steps, (list, tuple)):
        raise NotYet(
            description,
            returned(steps, ", which is no list"),
            expected="a list",
            next_step=advice,
        )
    for place, step in enumerate(steps):
        kind, layer = step if isinstance(step, (list, tuple)) and len(step) == 2 else (step, step)
        if kind not in KINDS or not isinstance(plain(layer), int) or not 0 <= layer < layers:
            expected = f"a pair of {', '.join(KINDS)} and a layer from 0 to {layers - 1}"
            raise NotYet(
                description, f"{quoted(step)} at index {place}", expected=expected, next_step=advice
            )
        pairs.append((kind, int(layer)))
    return pairs


def follow(
    steps: Order, layers: int, keep: Collection[int]
) -> tuple[dict[int, np.float32], int, tuple[str, str]]:
    """Execute a list of steps on numbers; return (gradients, peak, fault).

    `gradients` maps each layer to the gradient of its weight, and `peak` is the largest number of
    inputs in memory at once. `fault` is (the first step that cannot be executed, the reason).

    An input that is not saved is discarded after the forward step of its layer, unless it comes
    after the last saved input. Every input is discarded after its backward step. The output of a
    layer is tanh(x * w).
    """
    draw = np.random.default_rng(803)
    w = draw.uniform(0.5, 1.5, layers).astype(np.float32)
    inputs = {0: draw.standard_normal(16).astype(np.float32)}
    slopes: dict[int, np.float32] = {}
    slope = np.ones(16, np.float32)
    maximum = 1
    forward = 0
    why = ""
    for place, (kind, layer) in enumerate(steps):
        # The index of the layer that reads the output of `layer`.
        output = layer + 1
        if layer not in inputs:
            gone = "is not computed yet" if layer > forward else "was discarded and not recomputed"
            why = f"this step reads the input of layer {layer}, but that input {gone}."
        elif kind == FORWARD and layer != forward:
            why = f"the forward steps of all {layers} layers come first, once each and in order."
        elif kind == BACKWARD and forward < layers:
            why = (
                "the backward steps start from the last layer's output, but that output is not "
                "computed yet."
            )
        elif kind == RECOMPUTE and (output in inputs or output in slopes or output == layers):
            still = "is still in memory" if output in inputs else "is not needed by a later step"
            why = f"this step computes the input of layer {output}, but that input {still}."
        if why:
            return slopes, maximum, (f"{kind} {layer} at index {place}", why)
        y = np.tanh(inputs[layer] * w[layer])
        if kind == BACKWARD:
            lost = slope * (1 - y * y)
            slopes[layer], slope = (lost * inputs.pop(layer)).sum(), lost * w[layer]
            continue
        inputs[output] = y
        maximum = max(maximum, len(inputs.keys() - {layers}))
        if kind == FORWARD:
            forward = output
            if layer not in {0, *keep} and layer < max(keep):
                del inputs[layer]
    return slopes, maximum, ("", "")


def _refuse_library(answer: Callable[..., Order]) -> None:
    """Raise `NotYet` if an answer calls the library's `recompute`.

    An error that the answer raises is ignored here, because the next part of the check reports it.
    """
    library_calls = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is recompute.__code__:
            library_calls.append(frame)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        with suppress(Broken, NotYet):
            call(answer, 7, {3, 5})
    finally:
        sys.setprofile(before)
    if library_calls:
        why = (
            "this list comes from the library's `recompute`, but the exercise asks you to build it."
        )
        advice = "build the list yourself: begin with a forward step for each layer."
        raise NotYet(
            call_text(answer, (7, {3, 5})), "a call of `recompute`", why=why, next_step=advice
        )


def _schedules(answer: Callable[..., Order]) -> Passed:
    _refuse_library(answer)
    cases = ((7, {3, 5}), (9, {0, 2, 6}), (11, {8, 4, 1}), (5, {0, 1, 2, 3, 4}), (6, {0}), (1, {0}))
    # An answer must also accept an unsorted list. (Most of the sets above iterate in order.)
    tried = (*cases, (13, [9, 0, 4]))
    short = _all_kept(6)

    def results() -> Iterator[tuple[tuple[int, Collection[int]], Order]]:
        for case in tried:
            yield case, call(answer, *case)
        yield from zip(short, call_all(answer, short), strict=True)

    for (layers, kept_layers), result in results():
        description = call_text(answer, (layers, kept_layers))
        steps = _steps_of(result, description, layers)
        if fault := _fault(steps, layers, kept_layers):
            other = next(case for case in cases if case != (layers, kept_layers))
            alike = gives_alike(_pairs_of(answer), (layers, kept_layers), other)
            advice = (
                "write down which inputs are in memory after each step of your list, up to this "
                "step."
            )
            actual, expected, why = fault
            refused = refusing("08.3", partial(_orders, alike))
            raise refused(description, actual, expected, advice, why=why)
    words = (
        f"{len(tried) + len(short)} chains, executed on numbers: the gradients have the same bits "
        "as with all inputs saved"
    )
    return Passed(words, evidence=tuple(steps))


def _orders(alike: Callable[[Callable[..., Order]], bool], like: Callable[..., Order]) -> bool:
    """Return whether the known mistake `like` returns the same steps as the learner's answer."""
    return alike(_pairs_of(like))


def _pairs_of(answer: Callable[..., Order]) -> Callable[..., Order]:
    """Wrap an answer in a function that returns its steps as a list of pairs."""
    return lambda layers, keep: [(kind, layer) for kind, layer in answer(layers, keep)]


def _fault(steps: Order, layers: int, keep: Collection[int]) -> tuple[str, str, str] | None:
    """Return (actual, expected, why) for a wrong list of steps; None for a right one."""
    right = follow(_listed(layers, range(layers)), layers, range(layers))[0]
    slopes, maximum, (stuck, why) = follow(steps, layers, keep)
    if stuck:
        return stuck, "", why
    for layer in reversed(range(layers)):
        if layer not in slopes:
            why = f"the list has no backward step of layer {layer}."
            return f"no backward {layer}", "one for each layer", why
        if slopes[layer] != right[layer]:
            actual = f"{quoted(slopes[layer])} for the gradient of the weight of layer {layer}"
            why = "the backward steps go from the last layer to the first, one after another."
            return actual, quoted(right[layer]), why
    if maximum > (minimum := most_alive([1] * layers, keep)):
        why = "inputs are recomputed long before their backward steps. Recompute them just before."
        return f"{counted(maximum, 'input')} in memory at once", f"at most {minimum}", why
    return None


# --- 08.4 -----------------------------------------------------------------------------------------

HILLS = [8, 6, 4, 2, 1, 1, 2, 4, 6, 8, 8, 8]


@cache
def _least(sizes: tuple[int, ...], k: int) -> int:
    """Return the lowest peak memory if at most k inputs are saved, including that of layer 0.

    All choices are tried, also those with fewer than k inputs, because these may need less memory.
    """
    rest = range(1, len(sizes))
    return min(
        most_alive(sizes, options) for count in range(k) for options in combinations(rest, count)
    )


def _places(answer: Callable[..., list[int]]) -> Passed:
    draw = np.random.default_rng(804).permutation
    drawn = [(draw(np.arange(1, 2 * n))[:n].tolist(), k) for n, k in ((11, 3), (9, 4), (10, 2))]
    cases = [(HILLS, 3), *drawn, ([1] * 16, 4), ([5, 2, 7], 1), ([4], 1), ([3, 9], 2)]
    # For these four layers, the best choice saves three inputs and takes 23 units of memory, while
    # saving all four takes 29. The list continues with all other short chains.
    short = [([9, 6, 6, 8], 4)]
    short += [
        (draw(np.arange(2, 10))[:n].tolist(), k) for n in range(2, 6) for k in range(1, n + 1)
    ]
    bars = None
    kept = []
    alike = []
    for tried in (cases, short):
        actual, saves_the_same = _kept_by(answer, tried)
        alike.append(saves_the_same)
        for case, kept_layers in actual:
            bars_of_case = _judged_place(answer, case, kept_layers, alike)
            bars = bars or bars_of_case
        kept += [kept_layers for _, kept_layers in actual]
    return Passed(f"{len(cases) + len(short)} chains; below, one large at both ends", bars, kept)


def _judged_place(
    answer: Callable[..., list[int]],
    case: tuple[list[int], int],
    kept_layers: list[int],
    alike: Sequence[Callable[[Saves], bool]],
) -> Bars:
    """Compare the memory of an answer's saved layers with the minimum, as bars.

    Each function in `alike` belongs to one or more cases. It returns whether another answer saves
    the same layers in those cases.

    :raises NotYet: if the memory is more than the minimum, or the saved layers are not allowed.
    """
    sizes, k = case
    description = call_text(answer, case)
    message = quoted(kept_layers)
    advice = f"return layer 0 and at most {counted(k - 1, 'other layer')}."
    if 0 not in kept_layers:
        why = (
            "layer 0 is missing, but its input is always in memory, so layer 0 is one of the "
            "saved layers."
        )
        raise NotYet(description, message, "0 among the layers", why, advice)
    if (number := len({*kept_layers})) > k:
        message += f", which are {number} layers"
        why = "layer 0 counts as one of the k layers."
        raise NotYet(description, message, f"at most {k}", why, advice)
    bars = Bars(_least(tuple(sizes), k), most_alive(sizes, kept_layers), "at once")
    if bars.yours > bars.budget:
        advice = (
            "compute max(alive(schedule(n, keep), sizes)) for each choice of at most k layers, and "
            "return the choice with the lowest."
        )

        def fails_alike(like: Saves) -> bool:
            return all(saves_the_same(like) for saves_the_same in alike)

        raise refusing("08.4", fails_alike)(description, message, "", advice, bars=bars)
    return bars


# A chain is given by its number of layers, or by the sizes of the layers' inputs.
Chain = TypeVar("Chain", bound=int | list[int])
# A function that returns the layers whose inputs are saved.
Saves = Callable[..., list[int]]


def _kept_by(
    answer: Saves, cases: list[tuple[Chain, int]]
) -> tuple[list[tuple[tuple[Chain, int], list[int]]], Callable[[Saves], bool]]:
    """Return (case, layers that the answer saves) for each case, and a predicate.

    The predicate returns whether another answer saves the same layers in all cases.
    """
    actual = []
    for case, saved in zip(cases, call_all(answer, cases), strict=True):
        sizes = case[0]
        layers = sizes if isinstance(sizes, int) else len(sizes)
        actual.append((case, _kept_of(saved, partial(call_text, answer, case), layers)))

    def saves_the_same(like: Saves) -> bool:
        return all({0, *like(*case)} == {0, *kept_layers} for case, kept_layers in actual)

    return actual, saves_the_same


def _kept_of(saved: list[int], description: Callable[[], str], layers: int) -> list[int]:
    """Return the layers whose inputs an answer saves, as a list of indices.

    `saved` is the value that the answer returned, and `description()` returns the text of the call.

    :raises NotYet: if the answer did not return valid layers.
    """
    advice = "return a list of layers: [0, 4, 9]."
    is_list = isinstance(saved, (list, tuple, set, frozenset, range, np.ndarray))
    if not is_list or getattr(saved, "ndim", 1) == 0:
        actual = returned(saved, ", which names no layers")
        raise NotYet(description(), actual, next_step=advice)
    for layer in saved:
        if not isinstance(plain(layer), int) or not 0 <= layer < layers:
            why = f"there are {counted(layers, 'layer')}, from 0 to {layers - 1}."
            if plain(layer) in range(layers):
                why = "the number of a layer is an integer, and this is a float."
            raise NotYet(description(), f"layer {shown(layer)}", why=why, next_step=advice)
    return [int(layer) for layer in saved]


# --- 08.5 -----------------------------------------------------------------------------------------

# The chain has LAYERS layers, whose inputs have NUMBERS elements on each tile. Only ROOM of these
# inputs fit in memory.
LAYERS = 24
ROOM = 10
NUMBERS = 1500
# The bytes of a tile's weights, code, stacks and gaps: fewer than the inputs of two layers take.
BESIDES = 9000
# The memory of a tile in bytes: enough for ROOM inputs and the gradient.
MEMORY = 4 * NUMBERS * (ROOM + 1) + BESIDES


class Forward(Vertex):
    """A vertex that computes y = tanh(x * w)."""

    x: Input[Vector[FLOAT]]
    w: Input[FLOAT]
    y: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.y = np.tanh(self.w * self.x)


class Backward(Vertex):
    """A vertex that replaces the gradient of y by that of x, and computes the gradient of w."""

    x: Input[Vector[FLOAT]]
    w: Input[FLOAT]
    slope: InOut[Vector[FLOAT]]
    dw: Output[FLOAT]

    def compute(self) -> None:
        y = np.tanh(self.w * self.x)
        lost = self.slope * (1 - y * y)
        self.dw = (lost * self.x).sum()
        self.slope = lost * self.w


def chain_cycles(layers: int, again: int, numbers: int) -> int:
    """Return the modelled cycles of a chain of layers with an even number of elements on each tile.

    According to docs/model.md, a vertex that is alone on its tile runs in only one of every six
    cycles. A tanh, a product and the loop together take 7.5 of the vertex's own cycles per element.
    The backward pass has three more products, two differences and a sum.
    """
    forward = SYNC + 72 + 45 * numbers
    backward = SYNC + 36 + 72 * numbers
    return layers * (forward + backward) + again * forward


def _ran(steps: Order, layers: int, numbers: int, memory: int) -> Report:
    """Return the report of a chain of layers that executes `steps`.

    Each tile has `memory` bytes of memory, and `numbers` elements of each layer's input.
    """
    graph = Graph(device_of(memory_bytes_per_tile=memory))
    program = Steps()
    w, dw = (graph.add_variable(FLOAT, (TILES, layers), name) for name in ("w", "dw"))
    x = [graph.add_variable(FLOAT, (TILES, numbers), f"x{i}") for i in range(layers + 1)]
    for tensor in (w, dw, *x):
        by_rows(graph, tensor)
    graph.set_initial_value(w, 1)
    graph.set_initial_value(x[0], 1)
    for kind, i in steps:
        work = graph.add_compute_set(f"{kind} {i}")
        for tile in range(TILES):
            edges = {"x": x[i][tile], "w": w[tile, i]}
            back = {"slope": x[layers][tile], "dw": dw[tile, i]}
            edges |= back if kind == BACKWARD else {"y": x[i + 1][tile]}
            codelet = Backward if kind == BACKWARD else Forward
            graph.set_tile_mapping(graph.add_vertex(work, codelet, edges), tile)
        program.add(Execute(work))
    return run_once(graph, program).report


def _in_memory(layers: int, kept_layers: Collection[int]) -> View:
    """Return a view of the memory at each step, on tiles that are large enough."""
    return show.liveness(_ran(_listed(layers, {0, *kept_layers}), layers, 100, 4 * MEMORY))


def _best_even(layers: int, room: int) -> int:
    """Return the minimum number of recomputed layers if the saved inputs are evenly spaced."""
    return min(again for maximum, again in _even_spacings(layers) if maximum <= room)


@cache
def _even_spacings(layers: int) -> tuple[tuple[int, int], ...]:
    """Return (inputs in memory at once, recomputed layers) for each spacing from 1 to `layers`."""
    return tuple(_price(layers, every) for every in range(1, layers + 1))


def _fits_in(layers: int, room: int, kept_layers: Collection[int]) -> bool:
    """Return whether the saved inputs fit and need no more recomputation than the best spacing."""
    is_small = most_alive([1] * layers, kept_layers) <= room
    return is_small and computed_again(kept_layers) <= _best_even(layers, room)


def _fits(answer: Callable[..., list[int]]) -> Passed:
    cases = [(12, 7), (16, 9), (17, 9), (30, 11), (20, 8), (9, 9), (6, 40), (1, 1), (LAYERS, ROOM)]
    # For each short chain, the list has every value of `room` for which an even spacing of the
    # saved inputs fits.
    short = [
        (layers, room)
        for layers in range(1, 15)
        for room in range(min(maximum for maximum, _ in _even_spacings(layers)), layers + 2)
    ]
    actual, fails_alike = _kept_by(answer, cases)
    if all(_fits_in(*case, kept_layers) for case, kept_layers in actual):
        further, fails_alike = _kept_by(answer, short)
        actual = [*further, *actual]
    for (layers, room), kept_layers in actual:
        maximum = most_alive([1] * layers, kept_layers)
        again = computed_again(kept_layers)
        best = _best_even(layers, room)
        message = f"saving {quoted(kept_layers)}: "
        if maximum <= room and again <= best:
            continue
        advice = "return the spacing that fits and recomputes the fewest layers."
        if maximum > room:
            advice = "try every spacing from 1 to `layers`, and leave out those above `room`."
        message += f"{counted(maximum, 'input')} at once, {counted(again, 'layer')} recomputed"
        expected = f"at most {room} at once and {best} recomputed"
        draws = partial(_in_memory, layers, kept_layers) if maximum > room else None
        description = call_text(answer, (layers, room))
        raise refusing("08.5", fails_alike)(description, message, expected, advice, draws=draws)
    report = _ran(_listed(layers, kept_layers), layers, NUMBERS, MEMORY)
    bars = Bars(round(1.01 * chain_cycles(layers, best, NUMBERS)), report.total_cycles, MODELLED)
    fullest = int(report.memory.held_per_tile.max())
    words = f"{len(actual)} chains; the last needs {fullest:,} of {MEMORY:,} bytes of a tile"
    return Passed(words, bars, (report.total_cycles, fullest))


# --- 08.6 -----------------------------------------------------------------------------------------

# The indices of layers differ by powers of two, by powers of ten, and by 1. So an answer that uses
# only a remainder of the index (such as layer % 8) gives two layers the same random numbers, and is
# found.
DRAWING = (0, 1, 2, 8, 10, 16, 32, 64, 100)
ORDER = [*((FORWARD, i) for i in DRAWING), (BACKWARD, 2), (RECOMPUTE, 0), (BACKWARD, 1)]
SEEDS = ((8, 6), (9, 6), (8, 7), (6, 8), (8, 6))  # The last pair is equal to the first.


def _drops(answer: Callable[..., Tensor]) -> Passed:
    description = f"{name_of(answer)} for {len(ORDER)} steps of {len(DRAWING)} layers, "
    trial = _dropping(f"{description}with {len(SEEDS) - 1} seeds")
    trial_run = trial.of(answer)
    trial_run.refuse_changed(
        "pass the seed unchanged, and use the layer as the modifier: it makes the draws differ."
    )
    x = trial.tensors["x"].given[0]
    runs = [{step: run[f"result {k}"] for k, step in enumerate(ORDER)} for run in trial_run.came]
    if refusal := _undropped(trial.tried, runs, x):
        raise refusal
    _refuse_elsewhere(trial_run)
    _refuse_stored_masks(answer, f"{description}the later steps run first")
    words = ": each layer drops the same numbers in all its steps"
    return Passed(trial.tried + words, evidence=tuple(runs[0].values()))


def _refuse_elsewhere(trial_run: Ran) -> None:
    """Raise `NotYet` if an element of a result is on another tile than the same element of `x`."""
    home = tiles_of(trial_run.graph, trial_run.tensors["x"])
    for (kind, layer), result in zip(ORDER, trial_run.results, strict=True):
        away = int((tiles_of(trial_run.graph, result) != home).sum())
        if away:
            raise NotYet(
                trial_run.trial.tried,
                f"{kind} {layer}: {counted(away, 'element')} of the result, of {home.size:,}, on "
                "another tile than in x",
                expected="each element on the tile where x has it",
                why="an element on another tile than in x must be copied to that tile.",
                next_step="pass x as the reference: then the result has the tile mapping of x.",
            )


def _refuse_stored_masks(answer: Callable[..., Tensor], description: str) -> None:
    """Raise `NotYet` if a step reads a tensor that an earlier step of the same layer wrote.

    The steps are built in their order, and executed from the last to the first.
    """
    try:
        _dropping(description, runs_backwards=True).of(answer)
    except Broken as broken:
        why = "a step reads what another step of its layer wrote: the mask is kept in memory."
        advice = "draw again in each step: the same seed and modifier give the same mask."
        raise NotYet(description, said_by(broken.error), why=why, next_step=advice) from None


def _dropping(description: str, runs_backwards: bool = False) -> Trial:
    """Return a trial of answer(graph, x, seed, kind, layer, program), which appends dropout.

    The answer is called once for each step in `ORDER`. Each call gets its own program and its own
    tensor x, and returns x after dropout. With `runs_backwards`, the program of the last step runs
    first.
    """
    x = np.random.default_rng(806).uniform(1, 2, (TILES, 120)).astype(np.float32)
    seeds = [np.array(seed, np.uint32) for seed in SEEDS]

    def form(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
        programs = []
        results = []
        for kind, layer in ORDER:
            given_x, seed = parts
            programs.append(program := Steps(Copy(given_x, own := graph.clone(given_x))))
            with answering(f"{name_of(answer)}(graph, x, seed, {kind!r}, {layer}, program)"):
                returned_value = answer(graph, own, seed, kind, layer, program)
            if not isinstance(returned_value, Tensor) or returned_value.shape != x.shape:
                actual = returned(returned_value, ", which is no tensor like x")
                raise NotYet(
                    trial.tried,
                    actual,
                    expected="a tensor",
                    next_step=("return the tensor that poprand.dropout returns."),
                )
            results.append(returned_value)
        return Steps(*(reversed(programs) if runs_backwards else programs)), results

    tensors = {
        "x": Var(FLOAT, x.shape, by_rows, [x] * len(seeds), kept=True),
        "seed": Var(UNSIGNED_INT, 2, 0, seeds, kept=True),
    }
    return Trial(description, tensors, form=form, runs=1 if runs_backwards else len(seeds))


def _undropped(
    description: str, runs: list[dict[tuple[str, int], Array]], x: Array
) -> NotYet | None:
    """Return the verdict on a wrong dropout; None if the dropout is right.

    Each item of `runs` is the dict {step: result} of one run.
    """
    results = runs[0]
    is_kept = {step: actual != 0 for step, actual in results.items()}
    if refusal := _misscaled(description, results, x):
        return refusal
    if not np.array_equal(results[FORWARD, 0], runs[-1][FORWARD, 0]):
        why = (
            "both runs had the same seed, but other elements were set to 0: the draws do not "
            "depend on the seed."
        )
        return NotYet(
            description,
            "other masks in two runs with one seed",
            "the same",
            why,
            "pass `seed` to each draw.",
        )
    return (
        _unlike_forward(description, is_kept)
        or _shared_mask(description, is_kept)
        or _unseeded(description, runs)
    )


def _misscaled(description: str, results: dict[tuple[str, int], Array], x: Array) -> NotYet | None:
    """Return the verdict if a step does not drop half of the numbers or does not double the others.

    `results` is {step: result} of a run.
    """
    refused = partial(NotYet, description)
    for (kind, layer), actual in results.items():
        is_kept = actual != 0
        if is_kept.all():
            return refused(
                f"{kind} {layer} sets no element to 0",
                "about a half",
                "",
                "apply dropout in every kind of step.",
            )
        if abs(is_kept.mean() - 0.5) > 5 * 0.5 / is_kept.size**0.5:
            message = f"{kind} {layer} keeps {100 * is_kept.mean():.0f} % of the elements"
            return refused(message, "about 50 %", "", "pass 0.5 as the keep_probability.")
        if not np.array_equal(actual[is_kept], 2 * x[is_kept]):
            why = (
                "half of the elements are set to 0, so the other half must be doubled to keep the "
                "mean."
            )
            place = tuple(int(i) for i in np.argwhere(is_kept)[0])
            message = f"{quoted(actual[place])} for a number that is kept, {quoted(x[place])}"
            return refused(message, quoted(2 * x[place]), why, "pass 1 / 0.5 as the scale.")
    drawn = np.array([actual != 0 for actual in results.values()][: len(DRAWING)])
    if abs(drawn.mean() - 0.5) > 5 * 0.5 / drawn.size**0.5:
        message = f"{100 * drawn.mean():.1f} % of {drawn.size:,} elements are kept"
        return refused(message, "about 50 %", "", "pass 0.5 as the keep_probability.")
    return None


def _unlike_forward(description: str, is_kept: dict[tuple[str, int], Array]) -> NotYet | None:
    """Return the verdict if a step drops other elements than the forward step of the same layer."""
    for kind, layer in sorted(ORDER, key=lambda step: step[0] != RECOMPUTE):
        if not np.array_equal(is_kept[kind, layer], is_kept[FORWARD, layer]):
            step_name = "recompute" if kind == RECOMPUTE else "backward"
            why = (
                f"the {step_name} step sets other elements to 0 than the forward step of the same "
                "layer."
            )
            advice = "use `layer` as the modifier, which is the same in all steps of a layer."
            message = f"{kind} {layer} sets other elements to 0 than forward {layer}"
            steps = (FORWARD, kind)
            masks = {f"{step} {layer}": is_kept[step, layer] for step in steps}
            draws = partial(_masks, masks)
            return NotYet(description, message, "the same", why, advice, draws=draws)
    return None


def _shared_mask(description: str, is_kept: dict[tuple[str, int], Array]) -> NotYet | None:
    """Return a verdict if the dropout of two layers sets the same elements to 0, else None."""
    for first, second in combinations(DRAWING, 2):
        if np.array_equal(is_kept[FORWARD, first], is_kept[FORWARD, second]):
            why = f"layers {first} and {second} set the same elements to 0."
            alike = all(
                np.array_equal(is_kept[FORWARD, first], is_kept[FORWARD, layer])
                for layer in DRAWING
            )
            return NotYet(
                description,
                f"one mask for {'all' if alike else 'two'} layers",
                "one for each",
                why,
                "use the number of the layer as the modifier.",
            )
    return None


def _unseeded(description: str, runs: list[dict[tuple[str, int], Array]]) -> NotYet | None:
    """Return the verdict if another seed drops the same elements; `runs` has one run per seed."""
    same = [
        seed
        for seed, run in zip(SEEDS[1:-1], runs[1:-1], strict=True)
        if np.array_equal(runs[0][FORWARD, 0], run[FORWARD, 0])
    ]
    if same:
        why = (
            "two seeds set the same elements to 0, so the draw does not depend on both numbers of "
            "the seed."
        )
        message = f"the same mask for the seeds {SEEDS[0]} and {same[0]}"
        if len(same) == len(SEEDS) - 2:
            why = "all seeds set the same elements to 0, so the draw does not depend on `seed`."
            message = "the same mask for all seeds"
        return NotYet(description, message, "another one", why, "draw on the device, with `seed`.")
    return None


def _masks(masks: dict[str, Array]) -> show.Picture:
    """Return small images that show which elements each mask keeps."""
    shares = "; ".join(
        f"{name} keeps {mask.sum():,} of {mask.size:,}" for name, mask in masks.items()
    )
    return show.images(
        np.array([*masks.values()]),
        titles=[*masks],
        alt=f"The elements that dropout keeps: {shares}.",
    )


LESSON = lesson(
    "08",
    question(
        "08.0",
        (
            PredictedValue("most", "inputs at once", whole=True, high=16),
            PredictedValue("again", "layers", whole=True, high=16),
        ),
    ),
    exercise("08.w1", _last_reads),
    exercise("08.1", _alive),
    exercise("08.2", _prices),
    exercise("08.3", _schedules),
    exercise("08.4", _places),
    exercise("08.5", _fits),
    exercise("08.6", _drops),
)
