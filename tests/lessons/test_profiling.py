"""The programs that lesson 06 asks about: its hidden cases, its budgets and its disc, worked out in
another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from answers import Names

from ipu_course.checking.mistakes import suspects
from ipu_course.lesson06 import checks as lesson
from ipu_teach import FLOAT, Engine, Graph, IPUModel


def test_every_known_mistake_leads_to_another_place() -> None:
    ordinary = [case for special, case in lesson._peak_cases() if not special]
    assert len(ordinary) == 3
    for case in ordinary:
        held, (tile, step) = case.held, lesson._peak(case)
        # which code, stacks and gaps do not turn round
        for found in (held.max(axis=0), held.sum(axis=1)):
            assert np.sort(found)[-1] > 1.04 * np.sort(found)[-2]
        right, report = (tile, step, case.largest(case.live[step], case.bytes)), case.report()
        answers = [mistake.answer(report) for mistake in suspects("06.1")]
        # one that counts variables alone is right here, and one that looks a step later may be
        answers = [answer for answer in answers if answer != right]
        wrong = [next(i for i in range(3) if answer[i] != right[i]) for answer in answers]
        assert sorted(wrong)[:11] == 4 * [0] + 3 * [1] + 4 * [2] and len(wrong) <= 12
        assert len({str(answer[: i + 1]) for answer, i in zip(answers, wrong, strict=True)}) == len(
            answers
        )


def test_what_the_program_would_take_if_it_fitted(names_of: Callable[[str], Names]) -> None:
    """On tiles of a mebibyte it runs; what starts each of its steps is the rest."""
    names = names_of("06")
    device = IPUModel("ipu2", tiles_per_ipu=13, memory_bytes_per_tile=2**20).create_device()
    graph = Graph(device)
    readings = graph.add_variable(FLOAT, (lesson.SENSORS, lesson.READINGS), "readings")
    total = graph.add_variable(FLOAT, lesson.READINGS, "total")
    for sensor in range(lesson.SENSORS):
        graph.set_tile_mapping(readings[sensor], sensor)
    graph.set_tile_mapping(total, 0)
    graph.set_initial_value(readings, 1)
    engine = Engine(graph, names["gathered_total"](graph, readings, total))
    engine.load_and_run(device)
    assert engine.report.total_cycles == pytest.approx(
        lesson.cycles_if_it_fitted(lesson.SENSORS, lesson.READINGS), rel=0.02
    )


def test_forty_times(
    names_of: Callable[[str], Names], solution: Callable[[str], tuple[Any, ...]]
) -> None:
    names = names_of("06")
    slow, fast = (
        names["channel_sums"](place).total_cycles
        for place in (names["where_used"], *solution("06.6"))
    )
    assert fast == lesson.sums_in_place_cycles(lesson.MOMENTS, lesson.CHANNELS) and slow > 40 * fast


def test_the_host_s_timeline_by_hand() -> None:
    """A read takes 100 microseconds, and 0.2 for each row."""
    rows = np.zeros((24, lesson.ROW), np.float32)
    for at_once, reads in ((1, 24), (10, 3), (300, 1)):
        disc = lesson.Disc(rows)
        reader = lambda disc, n=at_once: (r for i in range(0, 24, n) for r in disc.read(i, n))  # noqa: E731
        report = lesson.on_the_clock(reader, disc)
        waited = reads * 100e-6 + 24 * 0.2e-6
        assert disc.reads == reads and disc.seconds == pytest.approx(waited)
        assert report.host.starved_share == pytest.approx(waited / (waited + report.total_seconds))
        assert report.host.waiting()[0].calls == reads and report.host.streams()[0].transfers == 24
