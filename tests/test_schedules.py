"""Orders of work as lists: what a chain of layers keeps, computes again and needs."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from programs import pipeline as inference, pipeline_training as training, recompute as chain

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Tensor, concat
from ipu_teach.errors import ControlProgramError, InvalidOptionError
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Sequence
from ipu_teach.schedules import (
    BACKWARD,
    FORWARD,
    GROUPED,
    INTERLEAVED,
    RECOMPUTE,
    SCHEDULES,
    SEQUENTIAL,
    Stage,
    pipeline,
    pipeline_schedule,
    recompute,
    stash,
)


def held(layers: int, keep: Any) -> tuple[int, int]:
    """(inputs alive at most, layers computed again), walked through by hand: an input is dropped
    where nothing further on reads it before it is made anew."""
    steps = recompute(layers, keep)
    reads = [{layer} for _, layer in steps]  # every kind reads its layer's input
    makes = [
        layer + 1 if kind != BACKWARD and layer + 1 < layers else None for kind, layer in steps
    ]
    most, alive = 0, {0}
    for now in range(len(steps)):
        assert reads[now] <= alive, (now, steps[now])
        here = alive | ({makes[now]} - {None})
        most = max(most, len(here))
        needed = set()
        for one in here:
            later = range(now + 1, len(steps))
            read = next((i for i in later if one in reads[i]), None)
            made = next((i for i in later if makes[i] == one), None)
            if read is not None and (made is None or read <= made):
                needed.add(one)
        alive = needed
    return most, sum(kind == RECOMPUTE for kind, _ in steps)


def test_a_short_chain_by_hand() -> None:
    forward = [(FORWARD, i) for i in range(5)]
    assert recompute(5, [0, 2]) == [
        *forward,
        *[(BACKWARD, 4), (BACKWARD, 3), (BACKWARD, 2)],
        *[(RECOMPUTE, 0), (BACKWARD, 1), (BACKWARD, 0)],
    ]
    assert recompute(1, [0]) == [(FORWARD, 0), (BACKWARD, 0)]
    assert recompute(5, {4, 2}) == recompute(5, (0, 2, 4, 2)) and recompute(3, np.arange(3)) == [
        *forward[:3],
        *[(BACKWARD, i) for i in (2, 1, 0)],
    ]


@pytest.mark.parametrize(
    ("layers", "every"), [(16, 1), (16, 2), (16, 4), (16, 8), (16, 16), (9, 3)]
)
def test_equal_layers_hold_and_repeat_what_the_formula_says(layers: int, every: int) -> None:
    assert held(layers, range(0, layers, every)) == (
        layers // every + every - 1,
        (layers // every - 1) * (every - 1),
    )


def test_each_backward_is_done_once_and_each_layer_again_at_most_once() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        layers = int(rng.integers(1, 20))
        keep = rng.integers(0, layers, rng.integers(1, layers + 1)).tolist()
        steps = recompute(layers, keep)
        backward = [layer for kind, layer in steps if kind == BACKWARD]
        again = [layer for kind, layer in steps if kind == RECOMPUTE]
        assert backward == list(reversed(range(layers))) and len(again) == len(set(again))
        held(layers, keep)  # reads nothing that is not there


def test_gradients_have_the_same_bits_and_memory_falls() -> None:
    rng = np.random.default_rng(1)
    layers, n = 16, 3900
    weights, x0 = rng.standard_normal((layers, n), np.float32), rng.standard_normal(n, np.float32)
    results = [chain.main(range(0, layers, every), weights, x0) for every in (1, 4)]
    (all_kept, first), (some, second) = results
    assert np.array_equal(all_kept, some)
    # in float64, by a plain loop
    x = [x0.astype(np.float64)]
    for w in weights:
        x.append(np.tanh(x[-1] * w))
    slope = np.ones(n)
    for i in reversed(range(layers)):
        slope = slope * (1 - x[i + 1] ** 2)
        assert all_kept[i] == pytest.approx(slope * x[i], abs=1e-5)
        slope = slope * weights[i]
    peaks = [int(report.memory.bytes_per_tile.max()) for report in (first, second)]
    # nine inputs fewer of 1,200 bytes a tile, and some code more
    assert 0.9 * 9 * 1200 < peaks[0] - peaks[1] < 9 * 1200
    assert 1 < second.total_cycles / first.total_cycles < 4 / 3


@pytest.mark.parametrize(
    ("layers", "keep", "words"),
    [
        (
            0,
            [0],
            "recompute() was given 0 as the number of layers.\n  next:  give a whole number from 1",
        ),
        (2.5, [0], "recompute() was given 2.5 as the number of layers."),
        (
            8,
            4,
            "given keep=4, which is not a list of layers.\n  next:  list the layers whose inputs are "
            "kept. To keep one layer in 4, give keep=range(0, 8, 4).",
        ),
        (8, "03", "given keep='03', which is not a list of layers."),
        (
            8,
            [],
            "given an empty keep, but the input of layer 0 is always kept.\n  next:  write keep=[0]",
        ),
        (
            8,
            [0, 8],
            "was given layer 8 to keep, but there are 8 layers.\n  next:  name layers from 0 to 7.",
        ),
        (1, [-1], "layer -1 to keep, but there is 1 layer."),
        (8, [1.5], "layer 1.5 to keep, but there are 8 layers."),
    ],
)
def test_what_names_no_layers_is_refused(layers: Any, keep: Any, words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        recompute(layers, keep)
    assert words in str(caught.value)


# --- pipelines ------------------------------------------------------------------------------------


def as_rows(ticks: Any, stages: int) -> list[str]:
    """A row a stage: F2 is forward with micro-batch 2, B2 backward."""
    rows = [["." for _ in ticks] for _ in range(stages)]
    for t, now in enumerate(ticks):
        for kind, s, b in now:
            rows[s][t] = f"{kind[0].upper()}{b}"
    return [" ".join(row) for row in rows]


def test_the_schedules_by_hand() -> None:
    assert as_rows(pipeline_schedule(3, 4, training=False), 3) == [
        "F0 F1 F2 F3 . .",
        ". F0 F1 F2 F3 .",
        ". . F0 F1 F2 F3",
    ]
    # by rounds, in each of which all go forward and then all go backward
    assert as_rows(pipeline_schedule(2, 4, GROUPED), 2) == [
        "F0 F1 . F2 B0 F3 B1 . B2 B3",
        ". F0 B0 F1 B1 F2 B2 F3 B3 .",
    ]
    assert as_rows(pipeline_schedule(2, 4, INTERLEAVED), 2) == [
        "F0 F1 . B0 F2 B1 F3 B2 . B3",
        ". F0 B0 F1 B1 F2 B2 F3 B3 .",
    ]
    assert as_rows(pipeline_schedule(2, 1, SEQUENTIAL), 2) == ["F0 . . B0", ". F0 B0 ."]
    assert as_rows(pipeline_schedule(1, 2, GROUPED), 1) == ["F0 B0 F1 B1"]


@pytest.mark.parametrize("stages", range(2, 17))
def test_what_a_stage_stores_is_what_was_published(stages: int) -> None:
    """Twice, once and no times the stages after it, besides the one at work; nobody twice in a
    tick, all work done once, and in an order in which everything has come."""
    for schedule, times in ((GROUPED, 2), (INTERLEAVED, 1), (SEQUENTIAL, 0)):
        for batches in (2 * stages, 2 * stages + 3):
            ticks = pipeline_schedule(stages, batches, schedule)
            assert stash(ticks, stages) == [times * (stages - 1 - s) + 1 for s in range(stages)]
            when = {work: t for t, now in enumerate(ticks) for work in now}
            assert len(when) == sum(map(len, ticks)) == 2 * stages * batches
            assert all(len({s for _, s, _ in now}) == len(now) > 0 for now in ticks)
            for b in range(batches):
                way = [when[FORWARD, s, b] for s in range(stages)]
                way += [when[BACKWARD, s, b] for s in reversed(range(stages))]
                assert way == sorted(set(way))
    ticks = pipeline_schedule(stages, stages, training=False)
    assert len(ticks) == 2 * stages - 1 and stash(ticks, stages) == [1] * stages


def test_a_pipeline_gives_what_layers_in_a_row_give() -> None:
    """And takes what it takes when written by hand: the fill, as many steady ticks as there are
    micro-batches more than stages, and the drain."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 26, 78)).astype(np.float32)
    weights = (rng.standard_normal((4, 78, 78)) / np.sqrt(78)).astype(np.float32)
    expected = x.astype(np.float64)
    for w in weights:
        expected = np.tanh(expected @ w)
    y, report = inference.main(GROUPED, x, weights)
    alone, sharded = inference.main(SEQUENTIAL, x, weights)
    assert np.abs(y - expected).max() < 1e-6 and np.array_equal(y, alone)
    assert report.total_cycles == pytest.approx(103_207, rel=0.01)
    assert sharded.total_cycles == pytest.approx(259_696, rel=0.01)


def test_all_schedules_that_train_give_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((4, 13_000)).astype(np.float32)
    samples = rng.standard_normal((9, 13_000)).astype(np.float32)
    gradients = np.zeros_like(weights)
    for sample in samples:
        ys = [sample]
        for w in weights:
            ys.append(np.tanh(ys[-1] * w))
        slope = ys[-1]
        for s in reversed(range(4)):
            slope = slope - ys[s + 1] * ys[s + 1] * slope
            gradients[s] += slope * ys[s]
            slope = slope * weights[s]
    reports = {}
    for schedule in SCHEDULES:
        found, reports[schedule] = training.main(
            pipeline_schedule(4, 9, schedule), weights, samples
        )
        assert np.array_equal(found, gradients), schedule
    cycles = {schedule: report.total_cycles for schedule, report in reports.items()}
    fullest = {schedule: r.memory.bytes_per_tile.max() for schedule, r in reports.items()}
    # half the memory, likely slower; both far from one at a time
    assert cycles[GROUPED] < cycles[INTERLEAVED] < cycles[SEQUENTIAL] / 2
    # two tensors of 4,000 bytes a tile, seven times or four
    assert fullest[GROUPED] - fullest[INTERLEAVED] == pytest.approx(3 * 2 * 4000, rel=0.05)


def test_too_few_micro_batches_are_refused_with_the_rule() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        pipeline_schedule(4, 7, INTERLEAVED)
    assert str(caught.value) == (
        "pipeline_schedule() was given 7 micro-batches for 4 stages, but a pipeline needs two for "
        "each stage in training (popxl-addons, transforms/pipelining.py).\n"
        "  next:  give at least 8 micro-batches, or use the schedule 'sequential', which accepts any "
        "number."
    )
    with pytest.raises(InvalidOptionError) as caught:
        pipeline_schedule(2, 1, training=False)
    assert (
        "for 2 stages, but a pipeline needs one for each stage (PopTorch, deviceIterations)."
        in str(caught.value)
    )
    assert pipeline_schedule(4, 8) and pipeline_schedule(4, 4, training=False)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            (0, 4),
            "pipeline_schedule() was given 0 as the number of stages.\n  next:  give a whole number",
        ),
        ((4, 2.5), "was given 2.5 as the number of micro-batches."),
        ((4, 8, "gpipe"), "schedule 'gpipe'.\n  next:  use 'grouped' or 'interleaved' or"),
    ],
)
def test_what_is_no_schedule_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        pipeline_schedule(*given)
    assert words in str(caught.value)


def two_stages(tiles: tuple[int, int] = (0, 1)) -> tuple[Graph, list[Stage]]:
    """Stages on IPUs of a tile each that copy what they get."""
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=1, num_ipus=2).create_device())
    stages = []
    for tile in tiles:
        x, y, gx, gy = (graph.add_variable(FLOAT, (4,), name) for name in ("x", "y", "gx", "gy"))
        for tensor in (x, y, gx, gy):
            graph.set_tile_mapping(tensor, tile)
        stages.append(Stage(Copy(x, y), x, y, Copy(gy, gx), gy, gx))
    return graph, stages


def test_stages_without_work_or_on_an_ipu_of_anothers_are_refused() -> None:
    graph, (first, second) = two_stages()
    ticks = pipeline_schedule(2, 2, training=False)
    idle = Stage(Sequence(Sequence()), first.into, first.out)
    for stages, words in (
        (
            [idle, second],
            "Stage 0 of 2 does no work in its forward pass.\n  next:  give it a forward program",
        ),
        ([first, Stage(second.forward)], "Stage 1 of 2 has no tensor `into`."),
        ([Stage(first.forward, first.into), second], "Stage 0 of 2 has no tensor `out`."),
        ([first, first.forward], "pipeline() was given [<Stage"),
    ):
        with pytest.raises(InvalidOptionError) as caught:
            pipeline(graph, stages, ticks)  # type: ignore[arg-type]
        assert words.replace("[<Stage", "[") in str(caught.value)
    with pytest.raises(InvalidOptionError) as caught:
        pipeline(graph, [first, Stage(second.forward, second.into)], pipeline_schedule(2, 4))
    assert "Stage 1 of 2 has no tensor `grad_into`." in str(caught.value)
    graph, same = two_stages((1, 1))
    with pytest.raises(InvalidOptionError) as caught:
        pipeline(graph, same, ticks)
    assert str(caught.value) == (
        "Stage 1 uses IPU 1, but stage 0 already uses this IPU.\n  next:  build each stage on IPUs "
        "of its own: graph.create_virtual_graph(1 * tiles, 2 * tiles)."
    )


@pytest.mark.parametrize(
    ("ticks", "words"),
    [
        (
            [[(FORWARD, 0, 0)], [(FORWARD, 0, 1)]],
            "Tick 1 runs stage 0 forward with micro-batch 1, but stage 1 has not yet read "
            "micro-batch 0.",
        ),
        ([[(FORWARD, 0, 0), (FORWARD, 1, 0)]], "but no micro-batch has arrived there."),
        (
            [[(FORWARD, 0, 0)], [(FORWARD, 1, 1)]],
            "Tick 1 runs stage 1 forward with micro-batch 1, but micro-batch 0 has arrived there.",
        ),
        ([[(FORWARD, 0, 0), (BACKWARD, 0, 0)]], "but the stage has another step in that tick."),
        ([[(BACKWARD, 1, 0)]], "but the stage has not run it forward."),
        ([[("F", 0, 0)]], "pipeline() was given a tick with work of kind 'F' for stage 0."),
        (
            [[(FORWARD, 2, 0)]],
            "work of kind 'forward' for stage 2.\n  next:  use the kinds 'forward' and 'backward', and number "
            "the 2 stages from 0.",
        ),
    ],
)
def test_ticks_in_which_something_is_missing_are_refused(ticks: Any, words: str) -> None:
    graph, stages = two_stages()
    with pytest.raises((ControlProgramError, InvalidOptionError)) as caught:
        pipeline(graph, stages, ticks)
    assert words in str(caught.value)


# --- results that share memory with their inputs --------------------------------------------------

WIDTH = 4
HALF_WIDTH = WIDTH // 2
# By kind: the result of a message x [4] with weights w [4], the gradient of x, and that of w.
KINDS: dict[str, Any] = {
    "plain": (lambda x, w: x * w, lambda x, w, g: (g * w, g * x)),
    "frozen": (lambda x, w: x * w, lambda x, w, g: (g * w, 0 * g)),
    "parameterless": (lambda x, w: x * x, lambda x, w, g: (2 * x * g, 0 * g)),
    "residual": (
        lambda x, w: np.concatenate([x[:2] * w[:2], x[2:]]),
        lambda x, w, g: (
            np.concatenate([g[:2] * w[:2], g[2:]]),
            np.concatenate([g[:2] * x[:2], 0 * g[2:]]),
        ),
    ),
    "crossed": (
        lambda x, w: np.concatenate([x[2:], x[:2] * w[:2]]),
        lambda x, w, g: (
            np.concatenate([g[2:] * w[:2], g[:2]]),
            np.concatenate([g[2:] * x[:2], 0 * g[:2]]),
        ),
    ),
    "view": (lambda x, w: x[::-1], lambda x, w, g: (g[::-1], 0 * g)),
    "input": (lambda x, w: x, lambda x, w, g: (g, 0 * g)),
    "one buffer": (lambda x, w: x * w, lambda x, w, g: (g * w, 0 * g)),
    "twice": (
        lambda x, w: np.concatenate([x[:2], x[:2]]),
        lambda x, w, g: (np.concatenate([g[:2] + g[2:], 0 * g[2:]]), 0 * g),
    ),
}


def by_loop(kinds: Any, weights: Any, samples: Any) -> tuple[Any, Any]:
    """The results, and the gradients of half the sum of their squares, in float64."""
    results, gradients = [], np.zeros(weights.shape)
    for sample in samples.astype(np.float64):
        xs = [sample]
        for kind, w in zip(kinds, weights, strict=True):
            xs.append(KINDS[kind][0](xs[-1], w))
        results.append(xs[-1])
        g = xs[-1]
        for s in reversed(range(len(kinds))):
            g, dw = KINDS[kinds[s]][1](xs[s], weights[s], g)
            gradients[s] += dw
    return np.array(results), gradients


def stage_of(graph: Graph, s: int, kind: str, weights: Any) -> Any:
    """A stage on tile s, which shares as much memory as it can between input and result."""

    def variable(name: str, shape: int = WIDTH, value: Any = 0) -> Tensor:
        made = graph.add_variable(FLOAT, (shape,), f"{name}{s}")
        graph.set_tile_mapping(made, s)
        graph.set_initial_value(made, value)
        return made

    x, w, g, total = variable("x"), variable("w", value=weights), variable("g"), variable("total")
    graph.create_host_read(f"total{s}", total)
    forward, backward, keep = Sequence(), Sequence(), (x,)
    low, high = slice(0, HALF_WIDTH), slice(HALF_WIDTH, WIDTH)
    out, grad = x, g
    if kind in ("plain", "frozen", "parameterless"):
        factor = x if kind == "parameterless" else w
        out = popops.mul(graph, x, factor, forward)
        grad = popops.mul(graph, g, factor, backward)
        if kind == "parameterless":
            popops.mul_in_place(graph, grad, 2.0, backward)
        elif kind == "plain":
            popops.add_in_place(graph, total, popops.mul(graph, g, x, backward), backward)
        keep = () if kind == "frozen" else keep
    elif kind in ("residual", "crossed"):
        product = popops.mul(graph, x[low], w[low], forward)
        out = concat(product, x[high]) if kind == "residual" else concat(x[high], product)
        part, rest = (g[low], g[high]) if kind == "residual" else (g[high], g[low])
        grad = concat(popops.mul(graph, part, w[low], backward), rest)
        step = popops.mul(graph, part, x[low], backward)
        popops.add_in_place(graph, total[low], step, backward)
        keep = (x[low],)
    elif kind == "one buffer":
        popops.mul_in_place(graph, x, w, forward)
        popops.mul_in_place(graph, x, w, backward)
        g = grad = x
    elif kind == "view":
        out, grad = x.reverse(0), g.reverse(0)
    elif kind == "twice":
        out = concat(x[low], x[low])
        grad = concat(popops.add(graph, g[low], g[high], backward), variable("zero", 2))
    return Stage(
        forward, x, out, backward, g, grad, keep if kind not in ("view", "one buffer") else ()
    )


def by_pipeline(
    kinds: Any, weights: Any, samples: Any, schedule: str, is_training: bool
) -> tuple[Any, Any, Any]:
    """The results and gradients of a pipeline of stages of these kinds, and its report."""
    count = len(kinds)
    device = IPUModel("ipu2", tiles_per_ipu=1, num_ipus=count).create_device()
    graph = Graph(device)
    stages = [
        stage_of(graph, s, kind, w) for s, (kind, w) in enumerate(zip(kinds, weights, strict=True))
    ]
    feed = graph.add_host_to_device_fifo("feed", FLOAT, WIDTH)
    drain = graph.add_device_to_host_fifo("drain", FLOAT, WIDTH)
    # Nothing that stands before the first stage of parameters goes backward.
    trained = next((s for s, kind in enumerate(kinds) if kind in ("plain", "residual", "crossed")))
    for s, stage in enumerate(stages):
        if s < trained:
            stages[s] = Stage(stage.forward, stage.into, stage.out)
        elif s == trained:
            stages[s] = replace(stage, grad_into=None)
    first = stages[0]
    stages[0] = replace(first, forward=Sequence(Copy(feed, first.into), first.forward))
    last = stages[-1]
    stages[-1] = replace(
        last,
        forward=Sequence(last.forward, Copy(last.out, drain)),
        backward=Sequence(Copy(last.out, last.grad_out), last.backward),
        keep=(*last.keep, last.out),
    )
    ticks = pipeline_schedule(count, len(samples), schedule, is_training)
    engine = Engine(graph, pipeline(graph, stages, ticks))
    engine.load(device)
    results = np.zeros_like(samples)
    engine.connect_stream("feed", samples.copy())
    engine.connect_stream("drain", results)
    engine.run()
    return results, np.array([engine.read_tensor(f"total{s}") for s in range(count)]), engine.report


FIRSTS = ("plain", "frozen", "parameterless")
MIDDLES: list[tuple[str, ...]] = [
    (), *((kind,) for kind in KINDS), *((kind, kind) for kind in KINDS),
    ("residual", "view"), ("view", "crossed"), ("twice", "input"),
]  # fmt: skip


def check_pipeline(kinds: tuple[str, ...], schedule: str, is_training: bool, seed: int) -> None:
    """Check that the micro-batches keep apart although a result moves to where another leaves."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, (len(kinds), WIDTH)).astype(np.float32)
    samples = rng.uniform(-1, 1, (2 * len(kinds) + 1, WIDTH)).astype(np.float32)
    results, gradients, _ = by_pipeline(kinds, weights, samples, schedule, is_training)
    expected, expected_gradients = by_loop(kinds, weights, samples)
    expected_gradients *= is_training
    np.testing.assert_allclose(results, expected, 1e-5, 1e-6, err_msg=f"{kinds}")
    np.testing.assert_allclose(gradients, expected_gradients, 1e-4, 1e-5, err_msg=f"{kinds}")


@pytest.mark.parametrize("is_training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_stages_that_share_memory_give_what_a_loop_gives(schedule: str, is_training: bool) -> None:
    """Each middle meets each schedule, and over all schedules each first stage, in training too."""
    shift = list(SCHEDULES).index(schedule)
    for number, middle in enumerate(MIDDLES):
        first = FIRSTS[(number + shift) % len(FIRSTS)]
        check_pipeline((first, *middle, "plain"), schedule, is_training, seed=number)


@settings(max_examples=5)
@given(st.randoms(use_true_random=False))
def test_stages_drawn_at_random_give_what_a_loop_gives(rng: Random) -> None:
    """`run.py fuzz --tests 500 --only stages_drawn` draws more."""
    middle = rng.choice(MIDDLES) if rng.random() < 0.5 else rng.choices(list(KINDS), k=3)
    kinds = (rng.choice(FIRSTS), *middle, "plain")
    check_pipeline(
        kinds, rng.choice(list(SCHEDULES)), rng.random() < 0.5, seed=rng.randrange(2**32)
    )


def test_moves_that_share_memory_stay_one_exchange() -> None:
    """A tick of six residual stages has as many exchanges between IPUs as one of plain stages, and
    where nothing shares memory nothing is saved."""
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.5, 1, (6, WIDTH)).astype(np.float32)
    samples = rng.uniform(0.5, 1, (12, WIDTH)).astype(np.float32)
    moves, saves = {}, {}
    for kind in ("plain", "residual", "view"):
        kinds = ["plain", *[kind] * 4, "plain"]
        report = by_pipeline(kinds, weights, samples, GROUPED, False)[2]
        names = [step.name for step in report.steps() if step.kind == "Copy"]
        saves[kind] = sum("pipeline/leaves" in name for name in names)
        moves[kind] = len(names) - saves[kind]
    ticks = len(samples) + len(kinds) - 1
    assert moves == dict.fromkeys(moves, ticks - 1)  # after the last one nothing moves
    # in the first two and the last two ticks no result arrives where another leaves
    assert saves == {"plain": 0, "residual": ticks - 3, "view": ticks - 3}


def test_a_forward_without_backward_leaves_what_is_stored_alone() -> None:
    """Micro-batches that only go forward do not take the slot of one that trains."""
    weights = np.array([[2.0] * WIDTH, [3.0] * WIDTH], np.float32)
    device = IPUModel("ipu2", tiles_per_ipu=1, num_ipus=2).create_device()
    graph = Graph(device)
    first, last = (stage_of(graph, s, "plain", weights[s]) for s in range(2))
    feed = graph.add_host_to_device_fifo("feed", FLOAT, WIDTH)
    stages = [
        replace(first, forward=Sequence(Copy(feed, first.into), first.forward), grad_into=None),
        replace(last, backward=Sequence(Copy(last.out, last.grad_out), last.backward)),
    ]
    ticks = [[(FORWARD, s, b)] for b in range(4) for s in (0, 1)]
    ticks += [[(BACKWARD, 1, 0)], [(BACKWARD, 0, 0)]]
    stages[1] = replace(stages[1], keep=(*last.keep, last.out))
    engine = Engine(graph, pipeline(graph, stages, ticks))
    engine.load(device)
    engine.connect_stream("feed", np.arange(16, dtype=np.float32))
    engine.run()
    x = np.arange(WIDTH)
    assert np.array_equal(engine.read_tensor("total0"), 6 * x * 3 * x)
    assert np.array_equal(engine.read_tensor("total1"), 6 * x * 2 * x)


def test_a_gradient_that_would_arrive_in_what_is_kept_is_refused() -> None:
    graph, stages = two_stages()
    first: Any = stages[0]
    second = stages[1]
    shared = replace(first, grad_out=first.out, keep=(first.into, first.out))
    with pytest.raises(InvalidOptionError) as caught:
        pipeline(graph, [shared, second], pipeline_schedule(2, 4))
    assert str(caught.value) == (
        "The gradient of stage 0 arrives in `grad_out`, which shares memory with a tensor in "
        "`keep`.\n  next:  make a variable of its own for it: grad_out=graph.clone(out)."
    )
    fixed = replace(shared, grad_out=graph.clone(first.out))
    assert pipeline(graph, [fixed, second], pipeline_schedule(2, 4))


def test_a_pipeline_that_trains_nothing_is_refused() -> None:
    graph, stages = two_stages()
    frozen = [Stage(stage.forward, stage.into, stage.out) for stage in stages]
    with pytest.raises(InvalidOptionError) as caught:
        pipeline(graph, frozen, pipeline_schedule(2, 4))
    assert str(caught.value).startswith("Stage 1 of 2 does no work in its backward pass.")
    idle = replace(stages[0], backward=Sequence())
    with pytest.raises(
        InvalidOptionError, match=r"Stage 0 of 2 does no work in its backward pass\."
    ):
        pipeline(graph, [idle, stages[1]], pipeline_schedule(2, 4))
