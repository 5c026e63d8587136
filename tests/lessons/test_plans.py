"""The plans of lesson 16: the stages of a pipeline, and the divisions that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from ipu_course.lesson16.checks import GOAL
from ipu_course.lesson16.plans import bert, resnet, stages_of
from ipu_teach.errors import ModelError


def test_the_slowest_stage_sets_the_pace() -> None:
    """A run of 64 micro-batches has 67 forward and 67 backward ticks, most of them with all stages."""
    for starts in ([0, 4, 7, 10], [0, 4, 8, 12]):
        estimate = bert(starts)
        forward, backward = np.max(stages_of(estimate), axis=0)
        ticks = 67 * (forward + backward)
        assert estimate.accumulation == 64 and estimate.samples == 8
        assert 0.97 < (estimate.cycles - estimate.update - estimate.host) / ticks <= 1.0
        seconds = estimate.cycles / estimate.target.tile_clock_frequency
        assert estimate.throughput == pytest.approx(512 / seconds)


def test_each_operation_of_a_layer_is_on_the_stage_of_its_part() -> None:
    estimate = bert((0, 4, 8, 12))
    assert estimate.num_ipus == 4 and estimate.fits
    stages: dict[str, set[int]] = {}
    for line in estimate.lines:
        stages.setdefault(".".join(line.path.split(".")[:2]), set()).add(line.stage)
    for layer in range(12):
        assert stages[f"layers.{layer}"] == {(layer + 1) // 4}
    assert stages["norm"] == {0} and stages["loss"] == {3}


def test_a_boundary_next_to_that_of_the_answer_misses_the_goal() -> None:
    assert bert([0, 4, 8, 12]).throughput > 1.05 * GOAL
    for starts in ([0, 5, 9, 13], [0, 4, 8, 11], [0, 4, 9, 13], [0, 4, 7, 11]):
        assert bert(starts).throughput < 0.97 * GOAL


@pytest.mark.parametrize(
    ("starts", "text"),
    [
        (3, "bert() was given starts=3: the starts should be a list.\n  next:  write a list of four"),
        (np.array(4), "the starts should be a list."),
        (np.full((4, 4), 1), "not all starts are whole numbers."),
        ([0, 4, 7, float("nan")], "not all starts are whole numbers."),
        ([0, 4, 7, 10**30], "the parts are 0 to 13."),
        ([[0], [4, 7], 8, 10], "not all starts are whole numbers."),
        ([], "the pipeline has 4 stages, and this has 0."),
        ([0, 4.0, 7, 10], "not all starts are whole numbers."),
        ([False, 4, 7, 10], "not all starts are whole numbers."),
        ([0, 4, 7], "the pipeline has 4 stages, and this has 3."),
        ([1, 4, 7, 10], "before the first start.\n  next:  let stage 0 start with part 0."),
        ([0, 4, 7, 14], "the parts are 0 to 13.\n  next:  choose starts from 0 to 13."),
        ([-1, 4, 7, 10], "the parts are 0 to 13."),
        ([0, 4, -7, 10], "the parts are 0 to 13."),
        ([0, 4, 4, 10], "stage 1 has no part, because the starts do not increase.\n  next:  let stage 2"),
        ([0, 0, 4, 10], "next:  let stage 1 start after part 0."),
    ],
)  # fmt: skip
def test_a_division_with_a_fault_is_refused(starts: object, text: str) -> None:
    with pytest.raises(ModelError) as caught:
        bert(starts)  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_an_unknown_recomputation_is_refused() -> None:
    with pytest.raises(ModelError, match='use None, "standard" or "six checkpoints"'):
        resnet(recompute="all")
