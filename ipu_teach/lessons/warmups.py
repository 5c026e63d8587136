"""Warm-ups of two minutes, one step of the larger exercise that follows: `01.w1` and its like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu_teach import FLOAT, INT
from ipu_teach.lessons.exercise import Exercise, Question
from ipu_teach.lessons.judging import (
    NotYet,
    Passed,
    call,
    call_text,
    compare,
    difference,
    plain,
    quoted,
    refusing,
)
from ipu_teach.lessons.mistakes import suspects
from ipu_teach.lessons.programs import TILES
from ipu_teach.lessons.trial import Ran, Trial, Var, appends, by_rows, codelet, codelet_of
from ipu_teach.program import RepeatWhileTrue
from ipu_teach.types import QuarterFormat
from ipu_teach.types.numbers import fitting_power
from ipu_teach.types.quarter import numbers

Judge = Callable[..., Passed]


def _formula(name: str, right: Callable[..., Any], *cases: tuple[Any, ...]) -> Judge:
    """Of a function of numbers, tried on these; the first is an ordinary case."""
    given = {f"drawn, {case}": case for case in cases}
    return lambda answer: compare(answer, right, given, suspects(name))


def _nudge(name: str) -> str:
    return f'follow it by hand; hint("{name}") has a nudge.'


def _call(name: str, right: Callable[[Any], Any], asks: str, precise: float = 1e-6) -> Judge:
    """Of a call that appends to a program, on a row of 4 numbers for each of 13 tiles, and on 3."""

    def judge(answer: Any) -> Passed:
        reports = []
        for rows in (TILES, 3):
            x = (np.random.default_rng(rows).permutation(4 * rows) / 8 - 1).reshape(rows, 4)
            x = x.astype(np.float32)
            tensors = {"x": Var(FLOAT, x.shape, by_rows, [x], kept=True)}
            form = appends(right(x).shape, asks=asks)
            trial = Trial(f"{rows} rows of 4 numbers", tensors, form=form)
            ran = trial.of(answer)
            ran.refuse_changed("use the call that makes a new tensor, without in_place.")
            if where := difference(ran.result, right(x), precise):
                raise ran.refused(name, where, quoted(right(x)[0]), _nudge(name))
            reports.append(ran.report)
        return Passed("13 rows of 4 numbers, and 3", evidence=reports)

    return judge


def _trial(name: str, trial: Trial, out: str, ready: Callable[[Any, Ran], None]) -> Judge:
    """Of what a trial runs: what comes in the tensor `out` is right, and `ready` likes the rest."""

    def judge(answer: Any) -> Passed:
        ran = trial.of(answer)
        if found := ran.wrong(out):
            raise ran.refused(name, found.words, quoted(found.right), _nudge(name))
        ready(answer, ran)
        return Passed(trial.tried, evidence=ran.engine.report)

    return judge


def _loops(answer: Any, ran: Ran) -> None:
    if not ran.steps[RepeatWhileTrue.__name__]:
        why = "the number of rounds was fixed when the program was written."
        advice = "let the device look: RepeatWhileTrue(Sequence(), left, body)."
        raise NotYet(ran.trial.tried, "no RepeatWhileTrue", "one", why, advice)


def _on_tile_3(answer: Any, ran: Ran) -> None:
    ran.refuse_other_tiles([3], "a vertex works where it is mapped to.", "map it to tile 3.")


def _vertex(name: str, trial: Trial, out: str) -> Judge:
    """Of a codelet."""

    def judge(answer: Any) -> Passed:
        codelet_of(answer, f'check("{name}")')
        return _trial(name, trial, out, lambda *_: None)(answer)

    return judge


def _pieces(answer: Any) -> Passed:
    """Six pieces that follow each other, and differ by one at most: there are several ways."""
    came = {n: [call(answer, n, k) for k in range(6)] for n in (97, 30, 5, 100)}

    def alike(like: Any) -> bool:
        return all([like(n, k) for k in range(6)] == pieces for n, pieces in came.items())

    for n, pieces in came.items():
        if told := _uneven(answer, n, pieces):
            raise refusing("04.w3", alike)(*told, SIDE)
    return Passed("97, 30, 5 and 100 numbers, in six pieces each", evidence=[*came.values()])


def _uneven(answer: Any, n: int, pieces: list[Any]) -> tuple[str, str, str] | None:
    """What was tried, what came and what should have, of six pieces that are not what is asked."""
    at, sizes = 0, []
    for k, piece in enumerate(pieces):
        pair = [plain(end) for end in piece] if isinstance(piece, (tuple, list)) else []
        tried = call_text(answer, (n, k))
        if len(pair) != 2 or not all(isinstance(end, int) for end in pair):
            return tried, quoted(piece), "(begin, end), two whole numbers"
        if pair[0] != at or k == 5 and pair[1] != n:
            asked = f"a piece from {at} on" if pair[0] != at else f"an end at {n}, behind the last"
            return tried, quoted(piece), asked
        at = int(pair[1] or 0)
        sizes.append(at - int(pair[0] or 0))
    if max(sizes) - min(sizes) <= 1:
        return None
    said = f"pieces of {', '.join(map(str, sizes))}"
    return f"six pieces of {n}", said, "sizes that differ by one at most"


SIDE = "write the six pieces of 97 down, one behind the other."
LEFT = {"left": Var(INT, (), 0, given=[3, 7, 0], right=[0, 0, 0])}
DOWN = Trial("left from 3, 7 and 0", LEFT, runs=3, most_rounds=100)
ROW = np.array([3, -1.5, 0.25, 8, -6], np.float32)
HALF_A_ROW = {"x": Var(FLOAT, 5, 0, [ROW]), "out": Var(FLOAT, 5, 0, right=[ROW / 2])}
HALVES = Trial("5 numbers", HALF_A_ROW, form=codelet, tiles=1)
ONE_VERTEX = Trial(
    "a row of 5 numbers", {"x": Var(FLOAT, 5, 3, [ROW]), "out": Var(FLOAT, (), 3, right=[8.0])}
)

LISTS = {"ends": [0, 3, 3, 5, 7, 8], "neighbours": [1, 4, 2, 1, 2, 0, 4, 3]}
LISTS["distance"] = [0, 1, 2, -1, 1]
LOOKED = {name: Var(INT, len(x), 0, [x]) for name, x in LISTS.items()}
LOOKED |= {"level": Var(INT, (), 0, [1]), "hit": Var(INT, 5, 0, right=[[1, 0, 1, 1, 0]])}
FIVE_ROWS = Trial("5 rows of neighbours, one of them empty", LOOKED, form=codelet, tiles=1)

NUMBERS = {form.grid.mantissa_bits: numbers(form) for form in QuarterFormat}  # by their bits

# The name, before which item of its lesson it stands, what it is about, the check, and a nudge.
FUNCTION, CODELET = "a function", "a codelet"
_ALL = (
    ("00.w1", "00.3", "Dealt like cards", FUNCTION,
     _formula("00.w1", lambda i, tiles: i % tiles, (30, 13), (12, 13), (13, 13), (7, 1), (400, 17)),
     "after the last tile comes tile 0 again. What remains when i is divided by tiles?"),
    ("01.w1", "01.1", "Cycles of a message", FUNCTION,
     _formula("01.w1", lambda size: -(-size // 4), (18,), (16,), (1,), (0,), (4001,)),
     "4 bytes in a cycle, and a cycle that has begun is paid in full."),
    ("01.w2", "01.2", "The emptiest tile", FUNCTION,
     _formula("01.w2", lambda load: int(np.argmin(load)), ([30, 12, 45, 20],), ([5, 9, 5],), ([7],),
              ([60, 50, 40, 30, 20, 10],)),
     "min(load) is how much it has; load.index( ) says where that stands."),
    ("02.w1", "02.1", "How many grains", FUNCTION,
     _formula("02.w1", lambda count, grain: -(-count // grain), (101, 4), (8, 4), (3, 4), (50, 7)),
     "the last grain may be short, and is a grain all the same."),
    ("02.w2", "02.3", "Where its source lies", FUNCTION,
     _formula("02.w2", lambda rows, i, j: rows[j], ([4, 9, 2, 7], 1, 2), ([5, 3], 1, 0)),
     "b[i, j] gets a[j, i]. In which row of a is that?"),
    ("02.w3", "02.4", "One loop on the device", FUNCTION, _trial("02.w3", DOWN, "left", _loops),
     "RepeatWhileTrue(Sequence(), left, body) looks at left before every round."),
    ("03.w1", "03.1", "One call", FUNCTION,
     _call("03.w1", np.exp, "the tensor that popops.exp made", 1e-5),
     "popops.exp(graph, x, program) appends to the program and gives a tensor back."),
    ("03.w2", "03.3", "One expression", FUNCTION,
     _call("03.w2", lambda x: 2 * x + 1, "the tensor that popops.map made"),
     "expr._1 is the first tensor of the list: 2 * expr._1 + 1."),
    ("03.w3", "03.4", "One sum for each column", FUNCTION,
     _call("03.w3", lambda x: x.sum(axis=0), "the tensor that popops.reduce made"),
     "the list names the dimensions that go away. Rows are dimension 0."),
    ("04.w1", "04.1", "A codelet of one line", CODELET, _vertex("04.w1", HALVES, "out"),
     "a loop over range(len(self.x)), and in it self.out[i] = …"),
    ("04.w2", "04.2", "One vertex on one tile", FUNCTION,
     _trial("04.w2", ONE_VERTEX, "out", _on_tile_3),
     "graph.add_vertex(compute_set, Largest, x=x, out=out), and then its tile."),
    ("04.w3", "04.2", "Piece k of six", FUNCTION,
     _pieces,
     "the piece after it begins where this one ends: put k + 1 in place of k."),
    ("07b.w1", "07b.1", "How many windows", FUNCTION,
     _formula("07b.w1", lambda size, k, stride, padding: (size + 2 * padding - k) // stride + 1,
              (14, 3, 1, 1), (9, 4, 2, 0), (28, 5, 3, 2), (3, 3, 1, 0), (8, 1, 3, 1)),
     "with a stride of 1 a window of 3 fits into 5 elements three times. How often into 3?"),
    ("07b.w2", "07b.7", "From two sums", FUNCTION,
     _formula("07b.w2", lambda n, total, squares: squares / n - (total / n) ** 2, (4, 10, 30),
              (5, 5, 15), (1, 3, 9), (8, -4, 20)),
     "the mean of the squares, less the square of the mean."),
    ("09.w1", "09.1", "Which row", FUNCTION,
     _formula("09.w1", lambda layer, batch, batches: layer * batches + batch, (3, 2, 5), (7, 0, 8),
              (2, 1, 3), (0, 0, 4), (6, 0, 1)),
     "before layer 2 stand the rows of layers 0 and 1, `batches` of each."),
    ("09.w2", "09.3", "How long the turns take", FUNCTION,
     _formula("09.w2", lambda load, work, layers: load + (layers - 1) * max(load, work) + work,
              (310, 720, 8), (990, 410, 6), (42, 690, 11), (70, 30, 1), (50, 50, 4)),
     "while layer 0 computes, row 1 comes: how long are both? What has nothing beside it?"),
    ("09.w3", "09.5", "A shard and its padding", FUNCTION,
     _formula("09.w3", lambda n, replicas: [-(-n // replicas), -n % replicas], (30, 4), (521, 8),
              (103, 4), (520, 4), (3, 4)),
     "all shards are equally long, and together they hold every number."),
    ("10.w1", "10.3", "How long a pipeline takes", FUNCTION,
     _formula("10.w1", lambda costs, batches: (batches + len(costs) - 1) * max(costs),
              ([30, 50, 20], 6), ([7, 4], 9), ([12], 5), ([3, 8, 8, 5], 1)),
     "how many ticks are there? Each takes as long as the slowest stage."),
    ("10.w2", "10.5", "Which chunk goes", FUNCTION,
     _formula("10.w2", lambda place, k, many: (place - k) % many, (2, 1, 4), (0, 2, 5), (1, 3, 4),
              (3, 0, 6)),
     "what came in a round goes on in the next: it began one place before, and so on."),
    ("11.w1", "11.1", "The chance of going up", FUNCTION,
     _formula("11.w1", lambda value, below, above: (value - below) / (above - below),
              (0.4, 0.25, 0.5), (-0.4, -0.5, -0.25), (2049.5, 2048, 2050), (3, 3, 4)),
     "in the middle it is a half. How far is the value on the way from below to above?"),
    ("11.w2", "11.3", "What a byte stands for", FUNCTION,
     _formula("11.w2", lambda code, bits, bias: float(NUMBERS[bits][code]), (0x4D, 3, 8),
              (0x96, 2, 16), (0xF9, 3, 8), (0x03, 3, 8), (0x81, 2, 16), (0x7F, 2, 16), (0, 3, 8),
              (0x80, 3, 8)),
     "0x4d of F143 is 0 1001 101: (1 + 5 / 8) * 2 ** (9 - 8). With exponent 0 there is no 1 +."),
    ("11.w3", "11.4", "A loss scale", FUNCTION,
     _formula("11.w3", lambda largest: 2.0 ** fitting_power(largest, 65504), (0.013,), (3.0,),
              (65504.0,), (63.96875,), (63.9692,), (65504.5,), (1e-6,), (90_000.0,)),
     "how often can it be doubled, and is still no larger than 65,504?"),
    ("12.w1", "12.1", "Blocks of a row", FUNCTION,
     _formula("12.w1", lambda offsets, row: offsets[row + 1] - offsets[row], ([0, 2, 2, 7, 8], 2),
              ([0, 2, 2, 7, 8], 1), ([0, 3, 4], 0), ([0, 0, 5, 9], 2)),
     "offsets[row] blocks stand before those of the row. And after them?"),
    ("12.w2", "12.5", "Room in a bucket", FUNCTION,
     _formula("12.w2", lambda blocks, buckets: -(-blocks * 13 // (10 * buckets)), (60, 12),
              (64, 12), (1, 13), (101, 7), (40, 4)),
     "blocks * 1.3 / buckets, and then up to a whole number."),
    ("14.w1", "14.1", "A block's halo", FUNCTION,
     _formula("14.w1", lambda rows, columns: 2 * (rows + columns) + 4, (5, 8), (24, 24), (1, 7),
              (1, 1), (12, 3)),
     "the slice has rows + 2 rows. How many numbers is that in all, and how many are its own?"),
    ("14.w2", "14.3", "Who has a neighbour there", CODELET, _vertex("14.w2", FIVE_ROWS, "hit"),
     "for each p: begin with 0, and go through k from ends[p] to before ends[p + 1]."),
    ("15.w1", "15.1", "The other form", FUNCTION,
     _formula("15.w1", lambda mean, variance: [mean / variance, 1 / variance], (3, 0.5), (-2, 4),
              (0, 0.1), (1.5, 1)),
     "(mean, variance) is ready: which of the two numbers has no mean in it?"),
    ("15.w2", "15.3", "How hard it pulls", FUNCTION,
     _formula("15.w2", lambda apart, stiff, far: stiff if abs(apart) <= far else
              stiff * far / abs(apart), (-0.75, 6, 0.25), (0.1, 5, 0.5), (2, 8, 0.5), (0, 3, 1)),
     "np.maximum(abs(apart), far) is far as long as they are near."),
)  # fmt: skip


def among(*items: Exercise | Question) -> tuple[Exercise | Question, ...]:
    """The items of a lesson with its warm-ups among them, in the order of the notebook."""
    warm = [
        (before, Exercise(name, title, judge, (hint,), takes=(takes,)))
        for name, before, title, takes, judge, hint in _ALL
    ]
    return tuple(
        one for item in items for one in (*(w for before, w in warm if before == item.name), item)
    )
