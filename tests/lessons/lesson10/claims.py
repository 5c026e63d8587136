"""The comparisons in the text of lesson 10; what this file is: test_claims.py."""

import re

from printed import whole_numbers

from ipu_teach.schedules import pipeline_schedule


def more_micro_batches(outputs: dict[str, str]) -> None:
    """So the share of busy ticks grows."""
    shares = [int(share) for share in re.findall(r"(\d+)% busy", outputs["c7"])]
    assert len(shares) == 2 and shares[0] < shares[1]


def ticks_of_eight_micro_batches(outputs: dict[str, str]) -> None:
    """There are 11 ticks. IPU 3 has no micro-batch in ticks 0, 1 and 2, and IPU 0 has none in ticks 8,
    9 and 10."""
    assert "for 8 micro-batches" in outputs["c20"]
    rows = [[tick - stage for stage in range(4)] for tick in range(8 + 4 - 1)]
    idle = [[tick for tick, row in enumerate(rows) if not 0 <= row[stage] < 8] for stage in (3, 0)]
    assert len(rows) == 11 and idle == [[0, 1, 2], [8, 9, 10]]


def grouped_is_faster(outputs: dict[str, str]) -> None:
    """The grouped schedule is the fastest. The interleaved one stores less, and the sequential one
    stores the least."""
    rows = dict(re.findall(r"(\w+): stages(.*)", outputs["c28"]))
    schedules = ("grouped", "interleaved", "sequential")
    grouped, interleaved, sequential = (whole_numbers(rows[name]) for name in schedules)
    assert grouped[4] < interleaved[4] < sequential[4]  # cycles
    assert sum(grouped[:4]) > sum(interleaved[:4]) > sum(sequential[:4])
    assert grouped[5] > interleaved[5] > sequential[5]
    ticks = [len(pipeline_schedule(4, 8, schedule)) for schedule in schedules[:2]]
    assert ticks == [22, 22]


def the_order_keeps_the_bits(outputs: dict[str, str]) -> None:
    """All three schedules give exactly the same gradients"""
    assert "the same bits: True" in outputs["c28"]


def few_and_manywhole_numbers(outputs: dict[str, str]) -> None:
    """For few numbers, few rounds are best; for many numbers, few bytes are."""
    assert re.search(r"fastest: +everybody +everybody +both ways", outputs["c42"])


def replicas_pay_with_many_samples(outputs: dict[str, str]) -> None:
    """That pays if the work is large compared with the communication."""
    rows = [whole_numbers(row) for row in re.findall(r"\d+ samples: .*", outputs["c53"])]
    assert [four < one for _, one, four in rows] == [False, False, False, True]


def most_of_a_step_is_communication(outputs: dict[str, str]) -> None:
    """On one replica, a step with 256 samples takes 3.7 times as long as a step with 32. On four
    replicas it takes only 1.4 times as long"""
    rows = [whole_numbers(row) for row in re.findall(r"\d+ samples: .*", outputs["c53"])]
    (_, one_32, four_32), *_, (_, one_256, four_256) = rows
    assert round(one_256 / one_32, 1) == 3.7 and round(four_256 / four_32, 1) == 1.4


def seven_five_three_and_one(outputs: dict[str, str]) -> None:
    """Your `stored` returned 7, 5, 3 and 1: it also counts the micro-batch at work."""
    assert "grouped: stages hold [7, 5, 3, 1]" in outputs["c28"]


def the_ring_wins_in_the_middle(outputs: dict[str, str]) -> None:
    """So your ring wins in the middle, from about 9,300 to about 32,500 numbers"""
    rows = re.findall(r"faster than (everybody|ring) from about ([\d,]+)", outputs["c46"])
    assert rows == [("everybody", "9,300"), ("ring", "32,500")]
