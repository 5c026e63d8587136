"""The exercises of lesson 10, Many IPUs: correct results and known mistakes.

A budget is computed from the cycles of one step, such as a tick of a pipeline or a round of a ring,
which is measured alone. So the cycles of an answer show how many such steps it takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import count, pairwise, permutations, product

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.calling import Answer, call, call_all, call_made
from ipu_course.checking.comparing import compare, refuse_floats
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import first, suspects
from ipu_course.checking.programs import (
    BATCH,
    TILES,
    WIDTH,
    all_of,
    drawn_layers,
    gone_through,
    graph_of,
    layer_of,
    one_program,
    run_once,
)
from ipu_course.checking.quoting import call_text, is_of_integers, name_of, plain, quoted, returned
from ipu_course.checking.trial import (
    UNWRITTEN,
    Built,
    Parts,
    Ran,
    Trial,
    Var,
    appends,
    equal,
    linearly,
    on_ipu,
)
from ipu_course.checking.verdict_panel import Bars
from ipu_course.checking.verdicts import MODELLED, NotYet, Passed, refusing
from ipu_teach import FLOAT, Graph, Report, Tensor, concat, show
from ipu_teach.cost.links import around as joined_ipus, route
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Program, Sequence as Steps
from ipu_teach.schedules import BACKWARD, FORWARD, SCHEDULES, pipeline_schedule
from ipu_teach.show.ring import bytes_between_ipus
from ipu_teach.show.view import View
from ipu_teach.types import Array

# For each tick, a list of its operations, each as (kind, stage, micro-batch).
Schedule = list[list[tuple[str, int, int]]]
LINK = "bytes over the busiest link"

# --- 10.1 -----------------------------------------------------------------------------------------


def table_of(stages: int, batches: int) -> list[list[int]]:
    """Return int[ticks][stages]: the micro-batch of each stage in each tick; -1 if it is idle."""
    table = np.full((batches + stages - 1, stages), -1)
    for s in range(stages):
        table[s : s + batches, s] = np.arange(batches)
    return [[int(b) for b in row] for row in table]


def _ticks(answer: Callable[[int, int], list[list[int]]]) -> Passed:
    drawn = {f"drawn, {case}": case for case in ((4, 6), (3, 5), (2, 7))}
    special = {
        "the pipeline has one stage": (1, 4),
        "there are fewer micro-batches than stages": (5, 2),
    }
    advice = (
        "write down the table for three stages and four micro-batches by hand, with a row for each "
        "tick."
    )
    cases = drawn | special
    # The case of 4 stages and 4 micro-batches is left out, because the lesson asks for a prediction
    # about it.
    more = [case for case in product(range(1, 8), range(1, 8)) if case != (4, 4)]
    known = suspects("10.1")
    return compare(answer, table_of, cases, known, next_step=advice, whole=True, more=more)


# --- 10.2 -----------------------------------------------------------------------------------------

LAYERS = [9, 1, 1, 1, 4, 4, 2, 2, 2, 3, 3, 6]
# For these costs, three criteria give three different cuts: the smallest maximum of the sums, the
# smallest difference between sums, and the smallest sum of squares.
UNLIKE = ([2, 12, 6, 3, 8, 5], 4)


def slowest(costs: list[int], begins: list[int]) -> int:
    """Return the cost of the slowest stage; `begins` has the first layer of each stage."""
    ends = [*begins[1:], len(costs)]
    return max(sum(costs[a:b]) for a, b in zip(begins, ends, strict=True))


@cache
def least_slowest(costs: tuple[int, ...], ipus: int) -> int:
    """Return the lowest possible cost of the slowest stage.

    The function tries increasing limits. For each limit, every IPU takes as many layers as the
    limit allows, until `ipus` IPUs are enough for all layers.
    """
    for limit in count(max(costs)):
        stages = 1
        room = limit
        for cost in costs:
            if cost > room:
                stages = stages + 1
                room = limit
            room -= cost
        if stages <= ipus:
            return limit
    raise AssertionError


# A case and its answer: ((costs of the layers, number of IPUs), first layer of each IPU).
Cut = tuple[tuple[list[int], int], list[int]]


def _cuts_alike(cuts: list[Cut], like: Callable[[list[int], int], list[int]]) -> bool:
    """Return whether another answer, `like`, returns these cuts for the same cases."""
    return all([*like(*case)] == row for case, row in cuts)


def _no_cut(row: list[int], layers: int, ipus: int) -> tuple[str, str]:
    """Return (why, next step) for integers that cannot be the first layers of the IPUs."""
    advice = "run this call in a new cell, and add up the costs of each IPU by hand."
    if len(row) != ipus:
        return "", "return one number for each IPU, such as [0, 3, 6, 9] for four."
    if row[0]:
        return "the first IPU begins with layer 0.", advice
    for ipu, (layer, next_layer) in enumerate(pairwise(row)):
        if next_layer == layer:
            why = (
                f"IPUs {ipu} and {ipu + 1} begin with the same layer, so one of them has no layer."
            )
            return why, advice
        if next_layer < layer:
            return f"IPU {ipu + 1} begins before IPU {ipu}.", advice
    return (
        f"the last layer is {layers - 1}: an IPU that begins with {row[-1]} has no layer.",
        advice,
    )


def _cuts(answer: Callable[[list[int], int], list[int]]) -> Passed:
    draw = np.random.default_rng(1005).integers
    drawn = [(draw(1, 15, n).tolist(), ipus) for n, ipus in ((11, 3), (9, 4), (10, 2))]
    cases = [(LAYERS, 4), *drawn, UNLIKE, ([5, 2, 7], 1), ([4, 1, 3], 3)]
    results = [call(answer, list(costs), ipus) for costs, ipus in cases]
    cuts = _judged_cuts(answer, cases, results)
    # These are short chains in which many layers cost the same. They are tried only if the other
    # cases are right.
    short = [(draw(1, 5, n).tolist(), ipus) for n in range(1, 8) for ipus in range(1, n + 1)]
    cuts += _judged_cuts(answer, short, call_all(answer, short))
    bars = Bars(least_slowest(tuple(LAYERS), 4), slowest(LAYERS, cuts[0]), "of the slowest")
    return Passed(f"{len(cuts)} chains; below, the twelve layers", bars, cuts)


def _judged_cuts(
    answer: Callable[[list[int], int], list[int]],
    cases: list[tuple[list[int], int]],
    results: list[list[int]],
) -> list[list[int]]:
    """Return an answer's cuts as lists of integers; raise `NotYet` if a cut is not the best."""
    rows = []
    for (costs, ipus), begins in zip(cases, results, strict=True):
        description = call_text(answer, (costs, ipus))
        begins_given = [*begins] if isinstance(begins, (list, tuple, np.ndarray)) else []
        if begins_given and all(plain(b) is not None for b in begins_given):
            refuse_floats(description, begins)
        row = [int(b) for b in map(plain, begins_given) if isinstance(b, int)]
        rising = len(row) == len(begins_given) == ipus and row == sorted({*row, 0})
        if not rising or row[-1] >= len(costs) or row[0] < 0:
            expected = f"{ipus} first layers: 0 first, and each larger than the one before"
            why, advice = _no_cut(row, len(costs), ipus)
            if len(row) < len(begins_given):
                why = ""
            raise NotYet(
                description, returned(begins), expected=expected, why=why, next_step=advice
            )
        rows.append(row)
    actual = list(zip(cases, rows, strict=True))
    for (costs, ipus), row in actual:
        minimum = least_slowest(tuple(costs), ipus)
        bars = Bars(minimum, slowest(costs, row), "of the slowest")
        if bars.yours > minimum:
            refused = refusing("10.2", partial(_cuts_alike, actual))
            advice = (
                "for every choice, compute the largest sum of a stage, and return the choice where "
                "it is smallest."
            )
            description = call_text(answer, (costs, ipus))
            raise refused(description, quoted(row), "", advice, bars=bars)
    return rows


# --- 10.w1 ----------------------------------------------------------------------------------------


def pipelined_cycles(costs: list[int], batches: int) -> int:
    """Return the cycles of a pipeline; each tick takes as long as its slowest busy stage."""
    ticks = table_of(len(costs), batches)
    return sum(max(c for c, b in zip(costs, row, strict=True) if b >= 0) for row in ticks)


# --- 10.3 -----------------------------------------------------------------------------------------

Pipeline = tuple[list[Program], list[Tensor], list[Tensor]]


def each_on(ipu: int) -> Callable[[Graph, Tensor], None]:
    """Return a function that maps a tensor to the tiles of the IPU with index `ipu`.

    Each slice along the first dimension is distributed over all tiles of the IPU.
    """

    def place(graph: Graph, tensor: Tensor) -> None:
        for number in range(tensor.shape[0]):
            on_ipu(ipu)(graph, tensor[number])

    return place


def stages_on(graph: Graph, weights: Array, rows: int = BATCH) -> Pipeline:
    """Return (programs, their input tensors, their output tensors); stage i is a layer on IPU i."""
    works = list[Program]()
    into = list[Tensor]()
    out = list[Tensor]()
    for s, values in enumerate(weights):
        part = graph.create_virtual_graph(s * TILES, (s + 1) * TILES)
        work = Steps()
        x, w, y = layer_of(part, work, s, rows=rows, width=len(values))
        graph.set_initial_value(w, values)
        works.append(work)
        into.append(x)
        out.append(y)
    return works, into, out


@cache
def _pipelines(name: str) -> tuple[Trial, ...]:
    """Return the trials of the answer called `name`; the cost is measured in the last one only."""
    cases = ((3, 2), (5, 2), (3, 4), (4, 8, BATCH, WIDTH))
    return tuple(_through_stages(name, *case) for case in cases)


def _through_stages(name: str, stages: int, batches: int, rows: int = 3, width: int = 13) -> Trial:
    """Return a trial of answer(stages, into, out, samples, results), which returns a program.

    `stages` has the programs of the stages, `into` their input tensors, and `out` their output
    tensors. `samples` and `results` have a tensor [rows, width] for each of `batches`
    micro-batches.
    """
    description = f"{name} with {stages} stages and {batches} micro-batches"
    weights = drawn_layers(stages)[1][:, :width, :width]
    draw = np.random.default_rng(1003).standard_normal
    samples = draw((batches, rows, width)).astype(np.float32)
    right = np.array([gone_through(x, weights) for x in samples])

    def form(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
        ends = ([part[b] for b in range(batches)] for part in parts)
        returned_value = call_made(answer, trial.tried, *stages_on(graph, weights, rows), *ends)
        return one_program(returned_value, trial.tried), []

    tensors = {
        "samples": Var(FLOAT, samples.shape, each_on(0), [samples]),
        "results": Var(FLOAT, samples.shape, each_on(stages - 1), right=[right]),
    }

    def beside() -> Sequence[Trial]:
        # The trials with 4 micro-batches distinguish more mistakes than those with 2.
        return _pipelines(name)[2:0:-1]

    return Trial(description, tensors, form=form, ipus=stages, agree=_alike, beside=beside)


def _alike(learner_run: Ran, reference_run: Ran) -> bool:
    """Return whether two programs give the same results.

    If a run ends with an error or without a result, the results alone would match many programs. So
    both programs must also stop at the same element and execute the same number of compute sets,
    and either both or neither must read samples.
    """
    if learner_run.error is None and not learner_run.blank:
        return equal(learner_run, reference_run)
    fault = {
        (str(getattr(run.error, "tried", "")), run.steps["Execute"], _takes_in(run))
        for run in (learner_run, reference_run)
    }
    return equal(learner_run, reference_run) and len(fault) == 1


def _takes_in(run: Ran) -> bool:
    """Return whether a Copy of the program reads samples."""
    (samples,) = run.tensors["samples"].get_var_regions()
    sources = (step.source for step in all_of(run.program) if isinstance(step, Copy))
    regions = (s.get_var_regions() for s in sources if isinstance(s, Tensor))
    return any(part.var == samples.var for region in regions for part in region)


@cache
def tick_cycles(stages: int) -> int:
    """Return the modelled cycles of one tick of a pipeline in which all stages work.

    In such a tick, a micro-batch arrives, all stages compute, and then all stages send on their
    results at the same time.
    """
    graph = graph_of(ipus=stages)
    works, into, out = stages_on(graph, drawn_layers(stages)[1])
    ends = [graph.clone(tensor) for tensor in (into[0], out[-1])]
    graph.set_initial_value(concat(into + ends[:1]), 0)
    moves = [Copy(a, b) for a, b in zip(out, [*into[1:], ends[1]], strict=True)]
    tick = Steps(Copy(ends[0], into[0]), works, moves)
    cycles_of_one, two = (run_once(graph, Steps([tick] * n)).report.total_cycles for n in (1, 2))
    return two - cycles_of_one


def _costs_alike(answer: Answer, *trials: Trial) -> Callable[[Answer], bool]:
    """Return a predicate for whether an answer gives the same results at the same cost as `answer`.

    The total cycles and the cycles of exchanges between IPUs may each differ by 2 %.
    """
    outcomes = [(trial, trial.outcome(answer)) for trial in trials]

    def costs(run: Ran) -> tuple[float, float]:
        return run.report.total_cycles, run.report.global_exchange_cycles

    def costs_alike(like: Answer) -> bool:
        return all(
            trial.agree(run, known := trial.outcome(like))
            and np.allclose(costs(run), costs(known), rtol=0.02)
            for trial, run in outcomes
        )

    return costs_alike


def _senders(report: Report) -> show.Picture | None:
    """Return a picture of the IPUs that send in each round; None if no IPU sends to another."""
    compiled = (step.step for step in report.steps())
    sends = [
        {a for a, _ in transfers} for s in compiled if (transfers := bytes_between_ipus(report, s))
    ]
    if not sends:
        return None
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    alone = sum(len(ipus) == 1 for ipus in sends)
    figure = Figure(figsize=(6, 0.8 + 0.25 * report.target.num_ipus), layout="constrained")
    axes = figure.add_subplot(
        xlabel="round", ylabel="IPU that sends", yticks=range(report.target.num_ipus)
    )
    places = [(k, ipu) for k, ipus in enumerate(sends, 1) for ipu in ipus]
    rounds, rows = zip(*places, strict=True)
    axes.barh(rows, 0.8, left=np.array(rounds) - 0.4, color="#0072b2")
    axes.set(xlim=(0.5, len(sends) + 0.5), ylim=(report.target.num_ipus - 0.5, -0.5))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return show.picture(
        figure, f"{counted(len(sends), 'round')} of copies: in {alone} of them only one IPU sends."
    )


def _built(answer: Callable[..., Program]) -> Passed:
    for trial in _pipelines(name_of(answer)):
        run = trial.through(answer, "10.3")
        actual = run.came[0]["results"]
        right = trial.tensors["results"].right[0]
        off = np.argwhere(~(np.abs(actual - right) <= 1e-4))
        draws = partial(_senders, run.report)
        for b, i, j in off[:1].tolist():
            advice = (
                "write down for each tick what your program does with micro-batch 0, and then with "
                "micro-batch 1."
            )
            is_blank = run.unwritten_at("results")[b, i, j]
            message = UNWRITTEN if is_blank else quoted(actual[b, i, j])
            message = f"results[{b}][{i}, {j}]: {message}"
            raise run.refused("10.3", message, quoted(right[b, i, j]), advice, draws=draws)
    batches, stages = len(right), trial.ipus
    ticks = batches + stages - 1
    bars = Bars(round(1.03 * ticks * tick_cycles(stages)), int(run.cycles), MODELLED)
    if bars.yours > bars.budget:
        advice = (
            "find the rounds in the picture in which only one IPU sends, and put their copies into "
            "one round."
        )
        refused = refusing("10.3", _costs_alike(answer, trial.beside()[0], trial))
        raise refused(trial.tried, "", "", advice, bars=bars, draws=draws)
    words = "3 and 5 stages with 2 micro-batches, 3 with 4, and 4 with 8"
    return Passed(words, bars, run.report)


# --- 10.4 -----------------------------------------------------------------------------------------


def held(ticks: Schedule, stages: int) -> list[int]:
    """Return, for each stage, the maximum number of micro-batches in memory at once."""
    when: dict[tuple[str, int], dict[int, int]] = {}
    for t, now in enumerate(ticks):
        for kind, s, b in now:
            when.setdefault((kind, s), {})[b] = t
    return [
        max(
            sum(f <= t <= when[BACKWARD, s][b] for b, f in when[FORWARD, s].items())
            for t in range(len(ticks))
        )
        for s in range(stages)
    ]


def in_rounds(stages: int, batches: int) -> Schedule:
    """Return a schedule in which every stage runs forward and backward in each tick.

    The last stage runs both with the same micro-batch.
    """
    last = 2 * (stages - 1)
    every = [
        [
            (kind, s, t - (s if kind == FORWARD else last - s))
            for kind in (FORWARD, BACKWARD)
            for s in range(stages)
        ]
        for t in range(batches + last)
    ]
    return [[work for work in now if 0 <= work[2] < batches] for now in every]


def in_waves() -> Schedule:
    """Return a schedule of 3 stages whose memory peaks only after some backward steps.

    Each stage begins one tick after the stage before it.
    """
    waves = ("FBFFBFFFBBBB", "FFBBFFFFBBBB", "FBFBFBFFFBBB")
    ticks: Schedule = [[] for _ in range(len(waves[0]) + 2)]
    for s, wave in enumerate(waves):
        for t, letter in enumerate(wave):
            kind = FORWARD if letter == "F" else BACKWARD
            ticks[t + s].append((kind, s, wave[:t].count(letter)))
    return ticks


def in_reverse() -> Schedule:
    """Return a schedule of 2 stages that runs the backward passes in a different order.

    The forward passes are in the order of the micro-batches. Among the backward passes, that of
    micro-batch 0 is the last one.
    """
    # For each stage: the tick in which each micro-batch runs.
    forward = ((0, 1, 5), (1, 2, 6))
    backward = ((9, 4, 8), (8, 3, 7))
    ticks: Schedule = [[] for _ in range(10)]
    for kind, times in ((FORWARD, forward), (BACKWARD, backward)):
        for s, row in enumerate(times):
            for b, t in enumerate(row):
                ticks[t].append((kind, s, b))
    return ticks


def _in_every_order() -> list[tuple[Schedule, int]]:
    """Return (schedule, stages) for one stage: all orders of up to 3 micro-batches, one order of 4.

    In the order of 4 micro-batches, micro-batch 0 stays in memory until the end, long after the
    backward pass of micro-batch 1.
    """
    orders = [
        order
        for many in (1, 2, 3)
        for order in permutations([(kind, b) for kind in (FORWARD, BACKWARD) for b in range(many)])
        if all(order.index((FORWARD, b)) < order.index((BACKWARD, b)) for b in range(many))
    ]
    four = ((FORWARD, 0), (FORWARD, 1), (BACKWARD, 1), (FORWARD, 2), (FORWARD, 3), (BACKWARD, 3))
    orders.append((*four, (BACKWARD, 2), (BACKWARD, 0)))
    return [([[(kind, 0, b)] for kind, b in order], 1) for order in orders]


def _stored(answer: Callable[[Schedule, int], list[int]]) -> Passed:
    cases: dict[str, tuple[Schedule, int]] = {}
    for stages in (3, 2, 4, 8):
        for schedule in SCHEDULES:
            ticks = pipeline_schedule(stages, 2 * stages, schedule)
            cases[f"drawn, {schedule}, {stages}"] = (
                [[(work.kind, work.stage, work.micro_batch) for work in now] for now in ticks],
                stages,
            )
    cases |= {
        "a stage has a forward and a backward in one tick": (in_rounds(3, 7), 3),
        "a stage gets more micro-batches after its first backward": (in_waves(), 3),
        "the last micro-batch goes backward first": (in_reverse(), 2),
        "the list of a tick has the backward first": ([now[::-1] for now in in_rounds(3, 7)], 3),
    }
    advice = (
        "for each tick: add its forwards to the counts, look at the counts, and then subtract its "
        "backwards."
    )

    def draws(ticks: Schedule, stages: int) -> View:
        return show.pipeline(ticks)

    known = suspects("10.4")
    more = _in_every_order()
    return compare(answer, held, cases, known, next_step=advice, draws=draws, more=more)


# --- 10.5 -----------------------------------------------------------------------------------------


def chunks_of(tensor: Tensor, many: int) -> list[Tensor]:
    """Divide a tensor into `many` consecutive pieces of nearly equal size, and return them."""
    n = tensor.num_elements
    return [tensor[n * c // many : n * (c + 1) // many] for c in range(many)]


def _by_chunks(ipu: int, many: int) -> Callable[[Graph, Tensor], None]:
    """Return a function that spreads each of `many` pieces of a tensor over an IPU's tiles."""

    def place(graph: Graph, tensor: Tensor) -> None:
        part = graph.create_virtual_graph(ipu * TILES, (ipu + 1) * TILES)
        for chunk in chunks_of(tensor, many):
            for tile, piece in enumerate(chunks_of(chunk, TILES)):
                if piece.num_elements:
                    part.set_tile_mapping(piece, tile)

    return place


@cache
def _reductions(name: str) -> tuple[Trial, ...]:
    """Return the trials of the answer called `name`; the cost is measured in the last one only."""
    return tuple(_reducing(name, *case) for case in ((30, 4), (3, 4), (520, 2), (52_000, 4)))


def _reducing(name: str, numbers: int, ipus: int) -> Trial:
    """Return a trial of answer(graph, parts, program), which appends to the program."""
    description = f"{name} with {numbers:,} numbers on each of {ipus} IPUs"
    draw = np.random.default_rng(1005).permutation
    values = draw(ipus * numbers).reshape(ipus, numbers).astype(np.float32)

    tensors = {
        f"parts[{i}]": Var(
            FLOAT, numbers, _by_chunks(i, ipus), given=[values[i]], right=[values.sum(axis=0)]
        )
        for i in range(ipus)
    }
    return Trial(
        description,
        tensors,
        form=appends(together=ipus),
        ipus=ipus,
        agree=_sums_alike,
        beside=lambda: _reductions(name)[::2],  # The trials with 30 and 520 numbers.
    )


def _sums_alike(learner_run: Ran, reference_run: Ran) -> bool:
    """Return whether the results are equal, and either both answers add numbers or neither does."""
    adds = {run.steps["Execute"] > 0 for run in (learner_run, reference_run)}
    return equal(learner_run, reference_run) and len(adds) == 1


def busiest_link(report: Report) -> int:
    """Return the maximum number of bytes that a run sends over one link between two IPUs."""
    ends = joined_ipus(report.target)
    links = Counter[tuple[int, int]]()
    for step in report.steps():
        for (source, target), size in bytes_between_ipus(report, step.step).items():
            for link in route(source, target, ends):
                links[link] += size
    return max(links.values(), default=0)


@cache
def ring_cycles(numbers: int, ipus: int) -> int:
    """Return the cycles of a ring all-reduce over `ipus` IPUs.

    It takes 2 (`ipus` - 1) rounds, and half of the rounds also add. The cycles are computed from
    those of the copy and of the addition in one round, which is measured.
    """
    graph = graph_of(ipus=ipus)
    around = [*range(0, ipus, 2), *reversed(range(1, ipus, 2))]
    sent = list[Tensor]()
    inbox = list[Tensor]()
    for ipu in around:
        for tensors in (sent, inbox):
            tensors.append(graph.add_variable(FLOAT, numbers // ipus))
            on_ipu(ipu)(graph, tensors[-1])
    graph.set_initial_value(concat(sent), 1)
    program = Steps(Copy(concat(sent), concat(inbox[1:] + inbox[:1])))
    popops.add_in_place(graph, concat(sent), concat(inbox), program)
    report = run_once(graph, program).report
    move, add = (step.cycles for step in report.steps())
    return (ipus - 1) * (2 * move + add)


def _rounds(report: Report) -> show.View:
    """Return a view of the rounds of a ring all-reduce.

    For a program without a ring, the view shows which IPUs make the others wait.
    """
    try:
        return show.ring(report)
    except InvalidOptionError:
        return show.bsp(report)


def _reduced(answer: Callable[..., None]) -> Passed:
    for trial in _reductions(name_of(answer)):
        run = trial.through(answer, "10.5")
        draws = partial(_rounds, run.report)
        for difference in filter(None, map(run.wrong, trial.tensors)):
            advice = "write down which chunk each IPU sends in each round, as in 10.w2."
            expected = quoted(difference.expected)
            raise run.refused("10.5", difference.came, expected, advice, draws=draws)
    ipus, numbers = trial.ipus, run.tensors["parts[0]"].num_elements
    bars = Bars(2 * (ipus - 1) * 4 * numbers // ipus, busiest_link(run.report), LINK)
    if bars.yours <= bars.budget:
        bars = Bars(round(1.25 * ring_cycles(numbers, ipus)), int(run.cycles), MODELLED)
    if bars.yours > bars.budget:
        why, advice = {
            LINK: (
                (
                    "the busiest link carries more than 2 (R - 1) chunks, where R is the number of "
                    "IPUs."
                ),
                (
                    "use 2 (R - 1) rounds; in each, every IPU sends one chunk to the next IPU of "
                    "around(R)."
                ),
            ),
            MODELLED: (
                (
                    "the links carry no more bytes than necessary, but in some rounds not all IPUs "
                    "send."
                ),
                "use one Copy and one addition for all positions of a round.",
            ),
        }[bars.unit]
        small = _reducing(name_of(answer), numbers // 10, ipus)
        refused = refusing("10.5", _costs_alike(answer, small, small.beside()[1]))
        raise refused(trial.tried, "", "", advice, why=why, bars=bars, draws=draws)
    words = "30, 3 and 52,000 numbers on 4 IPUs, and 520 on 2: all IPUs have the sums"
    return Passed(words, bars, run.report)


# --- 10.6 -----------------------------------------------------------------------------------------


def _from_where(answer: Callable[..., int]) -> Passed:
    def right(first: tuple[int, int], second: tuple[int, int]) -> int:
        sizes = np.arange(40_001)
        costs = [1000 * fixed + per_element * sizes for fixed, per_element in (first, second)]
        return int(np.argmax(costs[0] < costs[1]))

    cases: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
        "drawn, near the beginning": ((1800, 130), (1300, 720)),
        "drawn, a ring": ((6342, 399), (2259, 838)),
        "drawn, steeper": ((5100, 130), (700, 977)),
        "drawn, near": ((3011, 410), (2987, 411)),
        "both methods cost the same at a whole number": ((3000, 400), (2000, 500)),
        "the first method is always faster": ((2000, 400), (2500, 800)),
        "the first method is always faster, by a few cycles": ((1000, 400), (1001, 2401)),
    }
    more = [
        ((fixed, cheap), (other, cheap + gain))
        for fixed in range(5)
        for other in range(5)
        for cheap in (1, 400)
        for gain in (1, 3, 1000)
    ]
    return compare(answer, right, cases, suspects("10.6"), more=more)


# --- 10.7 -----------------------------------------------------------------------------------------

FEATURES = 26
OUTPUTS = 13
RATE = 0.5


def _learning(description: str, replicas: int, batch: int) -> Trial:
    """Return a trial of answer(graph, w, x, t, rate, program), which appends a training step."""
    draw = np.random.default_rng(1007).standard_normal
    w = draw((FEATURES, OUTPUTS)).astype(np.float32)
    x = draw((2, replicas, batch, FEATURES)).astype(np.float32)
    t = draw((2, replicas, batch, OUTPUTS)).astype(np.float32)
    after = [w.astype(float)]
    for inputs, targets in zip(x, t, strict=True):
        a, b = (
            operand.reshape(replicas * batch, -1).astype(float) for operand in (inputs, targets)
        )
        after.append(after[-1] - RATE / len(a) * (a.T @ (a @ after[-1] - b)))

    shaped = (x, t) if replicas > 1 else (x[:, 0], t[:, 0])
    rights = [np.array([value] * replicas if replicas > 1 else value) for value in after[1:]]
    tensors = {
        "w": Var(FLOAT, w.shape, linearly, given=[w], right=rights),
        "x": Var(FLOAT, x.shape[2:], linearly, [*shaped[0]]),
        "t": Var(FLOAT, t.shape[2:], linearly, [*shaped[1]]),
    }
    return Trial(
        description,
        tensors,
        more=(RATE,),
        form=appends(),
        runs=2,
        ipus=replicas,
        replicas=replicas,
        agree=_nearly,
    )


def _nearly(learner_run: Ran, reference_run: Ran) -> bool:
    """Return whether two answers give the same weights w, except for rounding."""
    pairs = zip(learner_run.came, reference_run.came, strict=True)
    return all(np.allclose(a["w"], b["w"], rtol=0, atol=1e-4) for a, b in pairs)


def _together(answer: Callable[..., None]) -> Passed:
    for replicas, batch in ((2, 3), (4, 5), (1, 8)):
        description = (
            f"{name_of(answer)} on {counted(replicas, 'replica')} with {batch} samples each, run "
            "twice"
        )
        trial = _learning(description, replicas, batch)
        trial_run = trial.through(answer, "10.7")
        draws = partial(show.timeline, trial_run.report)
        for run, rights in enumerate(trial.tensors["w"].right):
            shape = replicas, FEATURES, OUTPUTS
            actual = trial_run.came[run]["w"].reshape(shape)
            right = rights.reshape(shape)
            differing = [r for r in range(replicas) if not np.array_equal(actual[r], actual[0])]
            off = np.argwhere(~(np.abs(actual - right) <= 1e-4))
            if differing or len(off):
                r, i, j = (off if len(off) else np.argwhere(actual != actual[0]))[0].tolist()
                message = f"w[{i}, {j}] on replica {r}: {{}} after run {run + 1}"
                fault = message.format(quoted(actual[r, i, j])), quoted(right[r, i, j])
                advice = "print the gradient on each replica before w changes: all must be equal."
                if not len(off):
                    fault = message.format(actual[r, i, j]), f"{actual[0, i, j]}, as on replica 0"
                    advice = (
                        "add up the gradients with an all-reduce, which gives every replica the "
                        "same bits."
                    )
                raise trial_run.refused("10.7", *fault, advice, draws=draws, nearest=True)
    words = (
        "2, 4 and 1 replicas, two steps: w has the same bits on all replicas, and the values that "
        "one machine with all samples computes"
    )
    return Passed(words, evidence=actual)


# --- 10.8 -----------------------------------------------------------------------------------------

Groups = tuple[list[list[int]], list[list[int]]]


def groups_of(copies: int, parts: int) -> Groups:
    """Return (replicas grouped by copy of the model, replicas grouped by part of the model).

    The parts of a copy are on consecutive replicas.
    """
    numbers = np.arange(copies * parts).reshape(copies, parts)
    return numbers.tolist(), numbers.T.tolist()


def _sorted(returned_value: Groups, description: str) -> Groups:
    """Return the groups of an answer as sorted lists.

    :raises NotYet: if the answer did not return groups.
    """
    try:
        across, within = ([sorted(group) for group in kind] for kind in returned_value)
    except (TypeError, ValueError):
        advice = "return two lists of lists, as ([[0, 1], [2, 3]], [[0, 2], [1, 3]])."
        raise NotYet(description, returned(returned_value), next_step=advice) from None
    if not all(map(is_of_integers, [*across, *within])):
        why = "some numbers are not integers, but replicas have integers as their numbers."
        advice = "convert the numbers with int(…)."
        raise NotYet(description, returned(returned_value), why=why, next_step=advice)
    across, within = ([[int(r) for r in group] for group in kind] for kind in (across, within))
    return sorted(across), sorted(within)


def _grouped(answer: Callable[[int, int], Groups]) -> Passed:
    cases = [(4, 2), (2, 3), (3, 1), (1, 4), (2, 2)]
    small = ((a, b) for a, b in product(range(1, 6), range(1, 6)))
    cases += [case for case in small if case not in cases]
    actual = [_sorted(call(answer, *case), call_text(answer, case)) for case in cases]

    def groups_the_same(like: Callable[[int, int], Groups]) -> bool:
        return all(
            _sorted(like(*case), "") == groups for case, groups in zip(cases, actual, strict=True)
        )

    for case, both_kinds in zip(cases, actual, strict=True):
        for kind, right, groups_of_kind in zip(
            ("one copy", "one part"), groups_of(*case), both_kinds, strict=True
        ):
            if groups_of_kind != right:
                why, advice = first(suspects("10.8"), groups_the_same)
                advice = advice or (
                    "write the replicas into a table, with a row for each copy: the rows and the "
                    "columns are the groups."
                )
                fault = f"{kind}: {quoted(groups_of_kind)}", quoted(right), why, advice
                raise NotYet(call_text(answer, case), *fault)
    return Passed(f"{len(cases)} machines, of 1 to 25 replicas", evidence=actual)


SIZES = ("520", "5,200", "52,000")
WAYS = ("ring", "both ways", "all to one", "everybody")

LESSON = lesson(
    "10",
    question(
        "10.0", tuple(PredictedValue(f"with {n} micro-batches", low=0, high=1) for n in (4, 16))
    ),
    exercise("10.1", _ticks),
    exercise("10.2", _cuts),
    exercise(
        "10.w1",
        warmups.formula(
            "10.w1",
            pipelined_cycles,
            ([30, 50, 20], 6),
            ([7, 4], 9),
            ([12], 5),
            ([3, 8, 8, 5], 1),
            ([50, 10, 400], 2),
            ([40, 10, 30, 20], 5),
            ([40, 10, 30, 20], 3),
            ([50, 10, 10, 20, 40], 2),
            more=[
                (list(costs), batches)
                for stages in (1, 2, 3)
                for costs in product((1, 2, 5), repeat=stages)
                for batches in range(1, 5)
            ],
        ),
    ),
    exercise("10.3", _built),
    exercise("10.4", _stored),
    exercise(
        "10.w2",
        warmups.formula(
            "10.w2",
            lambda place, k, many: (place - k) % many,
            (2, 1, 4),
            (0, 2, 5),
            (1, 3, 4),
            (3, 0, 6),
            more=[
                (place, k, many)
                for many in range(1, 7)
                for place in range(many)
                for k in range(2 * many + 1)
            ],
        ),
    ),
    exercise("10.5", _reduced),
    question("10.6", tuple(PredictedValue(f"for {n}", choices=WAYS) for n in SIZES)),
    exercise("10.6", _from_where),
    exercise("10.7", _together),
    question("10.7", (PredictedValue("", "samples", choices=("32", "64", "128", "256")),)),
    exercise("10.8", _grouped),
)
