"""The six programs to make faster: right, by computations of the test's own; slow, since each is
made faster here; and the learner's copy of one."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ipu_course.starters import names, take
from ipu_teach import IPUModel, Report, Target, compare
from ipu_teach.errors import LessonError

Data = dict[str, np.ndarray]


def machine(tiles: int) -> Target:
    return IPUModel("ipu2", tiles_per_ipu=tiles).create_device().target


def aligned(data: Data) -> Data:
    """Score by score, each pair of beginnings in a dict."""
    scores, end = [], 0
    for length in data["lengths"].tolist():
        a, b = (data[name][end : end + length].tolist() for name in "ab")
        end += length
        kept, best, last = {(0, 0): 0}, 0, {(0, 0)}
        for d in range(1, 2 * length + 1):
            now = {}
            for i in range(max(0, d - length), min(d, length) + 1):
                j = d - i
                ways = [kept[cell] - 1 for cell in ((i - 1, j), (i, j - 1)) if cell in kept]
                if (i - 1, j - 1) in kept:
                    ways.append(kept[i - 1, j - 1] + (1 if a[i - 1] == b[j - 1] else -1))
                if ways and max(ways) >= best - 6:
                    now[i, j] = max(ways)
            kept.update(now)
            best, last = max(best, *now.values(), best), set(now)
            if not last:
                break
        scores.append(best)
    return {"scores": np.array(scores)}


def most_likely(data: Data) -> Data:
    """The most likely places and slopes of all planes at once, by the normal equations."""
    seen, blur = data["seen"].astype(float), data["blur"].astype(float)
    planes = len(blur)
    normal, right = np.zeros((2 * planes, 2 * planes)), np.zeros((2 * planes, len(seen)))
    normal[0, 0], normal[1, 1] = 1 / 100, 1
    for plane in range(planes):
        normal[2 * plane, 2 * plane] += 1 / blur[plane]
        right[2 * plane] += seen[:, plane] / blur[plane]
        if plane:
            old, new = 2 * plane - 2, 2 * plane
            for row, variance in (
                ({new: 1, old: -1, old + 1: -1}, 1e-9),
                ({new + 1: 1, old + 1: -1}, 0.01),
            ):
                for i, p in row.items():
                    for j, q in row.items():
                        normal[i, j] += p * q / variance
    return {"states": np.linalg.solve(normal, right)[-2:].T}


def epidemics(data: Data) -> Data:
    """Person by person would be too long: one simulation after the other, in Python's numbers."""
    distances = []
    for rate, dice in zip(data["rate"].tolist(), data["dice"].tolist(), strict=True):
        ill, healthy, distance = 10, 990, 0
        for seen in data["seen"].tolist():
            dice ^= dice << 13 & 0xFFFFFFFF
            dice ^= dice >> 17
            dice ^= dice << 5 & 0xFFFFFFFF
            moved = []
            for mean, luck, most in (
                (rate / 100 * ill * healthy / 1000, dice // 65536, healthy),
                (ill / 10, dice % 65536, ill),
            ):
                moved.append(
                    max(0, min(most, int(mean + mean**0.5 * (luck / 65536 - 0.5) * 3.5 + 0.5)))
                )
            healthy -= moved[0]
            ill += moved[0] - moved[1]
            distance += abs(ill - seen)
        distances.append(distance)
    kept = [rate for rate, far in zip(data["rate"], distances, strict=True) if far < 1500]
    return {"distances": np.array(distances), "kept": np.array(kept)}


def looked(data: Data) -> Data:
    """Word by word."""
    words, seen, end = data["words"].tolist(), [], 0
    for length in data["lengths"].tolist():
        sentence = words[end : end + length]
        end += length
        for word in sentence:
            total = [0] * len(word)
            for other in sentence:
                looks = max(0, sum(p * q for p, q in zip(word, other, strict=True)))
                total = [t + looks * q for t, q in zip(total, other, strict=True)]
            seen.append(total)
    return {"seen": np.array(seen)}


def spiked(data: Data) -> Data:
    """Spike by spike: who spikes is a list, and only their connections are followed."""
    many = len(data["drive"])
    drive = data["drive"].tolist()
    after = [[(to, int(w)) for to, w in enumerate(row) if w] for row in data["weights"]]
    charges, counts, spiking = [0] * many, [0] * many, list[int]()
    for _ in range(50):
        charges = [c - c // 8 + d for c, d in zip(charges, drive, strict=True)]
        for source in spiking:
            for to, weight in after[source]:
                charges[to] += weight
        spiking = [k for k, charge in enumerate(charges) if charge >= 256]
        for k in spiking:
            charges[k] -= 256
            counts[k] += 1
    return {"counts": np.array(counts), "charges": np.array(charges)}


def learned(data: Data) -> Data:
    """Person by person; the gradient of the loss by differences."""
    weights = np.zeros(data["x"].shape[2])
    for x, labels, noise in zip(data["x"], data["labels"], data["noise"], strict=True):

        def loss(weights: np.ndarray, x: np.ndarray = x, labels: np.ndarray = labels) -> np.ndarray:
            return np.logaddexp(0, np.where(labels > 0, -1, 1) * (x.astype(float) @ weights))

        steps = 1e-5 * np.eye(len(weights))
        each = np.array([(loss(weights + h) - loss(weights - h)) / 2e-5 for h in steps]).T
        total = noise.astype(float)
        for gradient in each:
            total += gradient / max(1, np.sqrt((gradient**2).sum()))
        weights = weights - 0.5 / len(x) * total
    return {"weights": weights}


INDEPENDENT: dict[str, tuple[Callable[[Data], Data], float]] = {
    "alignment": (aligned, 0),
    "epidemic": (epidemics, 0),
    "kalman": (most_likely, 1e-3),
    "packing": (looked, 0),
    "private_sgd": (learned, 1e-4),
    "spiking": (spiked, 0),
}


def near(found: Data, other: Data, within: float) -> bool:
    return found.keys() == other.keys() and all(
        found[name].shape == values.shape and np.abs(found[name] - values).max() <= within
        for name, values in other.items()
    )


def starter(name: str) -> ModuleType:
    return importlib.import_module(f"ipu_course.starters.{name}")


@cache
def ran(name: str, tiles: int) -> tuple[Report, Data]:
    """What the kit's own does."""
    return starter(name).run(machine(tiles))


def cycles(report: Report) -> int:
    return report.total_cycles


def sent(report: Report) -> int:
    return int(report.exchange_bytes_per_tile[0].sum())


@pytest.mark.parametrize("name", INDEPENDENT)
def test_a_starter_is_right(name: str) -> None:
    independent, within = INDEPENDENT[name]
    data = starter(name).make()
    expected, other = starter(name).expected(data), starter(name).make(seed=99)
    assert near(expected, independent(data), within)
    assert not near(starter(name).expected(other), expected, within)  # and other data matter
    for tiles in (13, 64):
        _, found = ran(name, tiles)
        assert near(found, expected, within / 10)
        assert {n: a.dtype for n, a in found.items()} == {n: a.dtype for n, a in expected.items()}


@pytest.mark.parametrize(
    ("name", "tiles"), [("kalman", 1), *((name, 1472) for name in INDEPENDENT)]
)
def test_a_starter_runs_where_tiles_are_few_and_where_most_have_nothing_to_do(
    name: str, tiles: int
) -> None:
    _, found = ran(name, tiles)
    assert near(found, ran(name, 13)[1], INDEPENDENT[name][1] / 10)


# What makes each of them faster: a piece of its text, and another for it.
BETTER = {
    "alignment": (
        # the longest come first: deal them out in turn; and do without remainders
        ("pair * target.num_tiles // len(lengths)", "pair % target.num_tiles"),
        (
            "            now = d % 3\n            last = (d - 1) % 3\n            before = (d - 2) % 3\n",
            "            now, last, before = before, now, last\n",
        ),
        (
            "        d = 0\n",
            "        d = 0\n        now, last, before = 0, 2, 1\n",
        ),
    ),
    "kalman": (
        # a vertex for each worker
        (
            "for tile in range(target.num_tiles):",
            "for part in range(parts := 6 * target.num_tiles):",
        ),
        (
            "slice(tile * tracks // target.num_tiles, (tile + 1) * tracks // target.num_tiles)",
            "slice(part * tracks // parts, (part + 1) * tracks // parts)",
        ),
        (
            "for part in (seen[rows], states[rows], vertex):",
            "for thing in (seen[rows], states[rows], vertex):",
        ),
        ("graph.set_tile_mapping(part, tile)", "graph.set_tile_mapping(thing, part // 6)"),
    ),
    "epidemic": (
        # all days in one step, and the host gets the distances alone
        (
            "    dice: InOut[UNSIGNED_INT]\n",
            "    dice: InOut[UNSIGNED_INT]\n    seen: Input[Vector[INT]]\n    distance: InOut[INT]\n",
        ),
        ("Target, Vertex", "Target, Vector, Vertex"),
        (
            """        fall, recover, self.dice = a_day(self.rate, self.ill, self.healthy, self.dice)
        self.ill += fall - recover
        self.healthy -= fall
""",
            """        ill, healthy, dice = self.ill, self.healthy, self.dice
        for seen in self.seen:
            fall, recover, dice = a_day(self.rate, ill, healthy, dice)
            ill, healthy = ill + fall - recover, healthy - fall
            self.distance += abs(ill - seen)
""",
        ),
        (
            "    for k in range(many):\n",
            """    seen = graph.add_constant(INT, data["seen"].shape, data["seen"])
    graph.set_tile_mapping(seen, 0)
    distance = graph.add_variable(INT, (many,), "distance")
    graph.set_initial_value(distance, 0)
    for k in range(many):
""",
        ),
        ('"dice": dice[k]}', '"dice": dice[k], "distance": distance[k]}'),
        ("Day, edges)", "Day, edges, seen=seen)"),
        ("in (vertex, rate[k]", "in (vertex, distance[k], rate[k]"),
        ("Copy(ill, to_host)", "Copy(distance, to_host)"),
        ('"ill", now)', '"ill", distances)'),
        (
            """    for observed in data["seen"]:
        engine.run()
        distances += abs(now - observed)
""",
            "    engine.run()\n",
        ),
    ),
    "packing": (
        # the longest sentences first, each into the first row that has room
        (
            "return [(row, 0) for row in range(len(lengths))]",
            """places, rows = [(0, 0)] * len(lengths), []
    for k in np.argsort(-lengths, kind="stable"):
        row = next((r for r, full in enumerate(rows) if full + lengths[k] <= ROOM), len(rows))
        if row == len(rows):
            rows.append(0)
        places[k] = (row, rows[row])
        rows[row] += lengths[k]
    return places""",
        ),
    ),
    "private_sgd": (
        # the people on all tiles
        (
            "graph.set_tile_mapping(graph.add_vertex(people, Person, edges, weights=weights), 0)",
            """vertex = graph.add_vertex(people, Person, edges, weights=weights)
        for part in (vertex, *edges.values()):
            graph.set_tile_mapping(part, k % target.num_tiles)""",
        ),
    ),
    "spiking": (
        # weights where they are used, those of a neuron side by side
        ('(weights, data["weights"])', '(weights, data["weights"].T)'),
        ("weights=weights[:, k]", "weights=weights[k]"),
        (
            "graph.set_tile_mapping(vertex, k * target.num_tiles // many)",
            """for part in (vertex, weights[k]):
            graph.set_tile_mapping(part, k * target.num_tiles // many)""",
        ),
    ),
}


def better(name: str, work: Path) -> ModuleType:
    take(name)
    file = work / f"{name}.py"
    text = file.read_text()
    for old, new in BETTER[name]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file.write_text(text)
    return take(name)


@pytest.mark.parametrize("tiles", [13, 64])
@pytest.mark.parametrize("name", BETTER)
def test_a_starter_can_be_a_fifth_faster(name: str, tiles: int, fresh_desk: Path) -> None:
    slow, fast = starter(name), better(name, fresh_desk)
    (before, first), (after, second) = ran(name, tiles), fast.run(machine(tiles), slow.make())
    assert near(second, first, INDEPENDENT[name][1] / 10)
    gained = max(1 - size(after) / size(before) for size in (cycles, sent) if size(before))
    assert gained > 0.2, compare(before, after).sentence()
    assert tiles == 64 or cycles(after) < 0.8 * cycles(before)


def test_a_starter_is_copied_once_and_read_anew(
    fresh_desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, file = take("kalman"), fresh_desk / "kalman.py"
    original = importlib.import_module("ipu_course.starters.kalman")
    assert file.read_text() == Path(original.__file__ or "").read_text()
    assert capsys.readouterr().out == (
        "kalman.py lies in your work folder now: right, and slow, and yours to change.\n"
        "  next:  report, found = kalman.run(target), and ask report.why().\n"
        '         After each change, kalman = take("kalman") reads your file again.\n'
    )
    data = first.make(tracks=26)
    report, _ = first.run(machine(13), data)
    assert "kalman.py, line" in str(report.why())  # hers, where the kit's own is not named
    # as long as before, within the same second: what was read once is not taken for it
    file.write_text(file.read_text().replace("tracks: int = 234", "tracks: int = 235"))
    second = take("kalman")
    assert capsys.readouterr().out == "kalman.py in your work folder, as you left it.\n"
    assert len(second.make()["seen"]) == 235 and "235" in file.read_text()
    file.write_text(file.read_text().replace("state = state + gain", "state = state - gain"))
    _, found = take("kalman").run(machine(13), data)
    assert not near(found, original.expected(data), 1e-4)


@pytest.mark.parametrize(
    ("name", "meant"), [("kallman", "did you mean 'kalman'? "), ("../kalman", "did"), (7, "take")]
)
def test_an_unknown_starter_is_refused(name: str, meant: str, fresh_desk: Path) -> None:
    with pytest.raises(LessonError) as refused:
        take(name)
    assert refused.value.tried == f"There is no starter {name!r}."
    assert refused.value.next_step.startswith(meant)
    assert refused.value.next_step.endswith(f"take one of {', '.join(names())}.")
    assert names() == sorted(BETTER) and not fresh_desk.exists()


def test_a_work_folder_that_cannot_be_written_is_said(
    fresh_desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ipu_course.starters.write_whole", full)
    with pytest.raises(LessonError, match="The starter could not be copied: No space left"):
        take("spiking")
