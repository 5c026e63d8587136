"""The comparisons in the text of the lesson on `tiny.py`; what this file is: test_claims.py."""

import re
from pathlib import Path

from printed import whole_numbers

from ipu_teach import tiny


def fewer_than_350_lines(outputs: dict[str, str]) -> None:
    """`ipu_teach/tiny.py` has fewer than 350 lines of Python"""
    assert len(Path(tiny.__file__).read_text("utf-8").splitlines()) < 350


def a_broadcast_takes_no_longer(outputs: dict[str, str]) -> None:
    """So a broadcast takes no longer than sending to *one* receiver."""
    rows = [whole_numbers(row) for row in re.findall(r"\d+ receivers: .*", outputs["code-16"])]
    assert [row[0] for row in rows] == [1, 4, 12] and {(row[1], row[3]) for row in rows} == {(4, 1)}


def five_of_six_unused(outputs: dict[str, str]) -> None:
    """With one vertex on a tile, five of six cycles are unused."""
    cycles = dict(whole_numbers(row) for row in re.findall(r"\d+ vertices: .*", outputs["code-18"]))
    assert cycles[1] == cycles[6] == 6 * 20


def the_order_matters_without_the_check(outputs: dict[str, str]) -> None:
    """**the order in which you list vertices does not matter.**"""
    assert "2.0 or 1.0" in outputs["code-21"] and "a race" in outputs["code-21"]


def the_array_written_revealed_it(outputs: dict[str, str]) -> None:
    """Here the array `written` revealed it."""
    assert "element 1 of 'y' is read, but nothing has written it" in outputs["code-24"]


def values_agree_and_cycles_do_not(outputs: dict[str, str]) -> None:
    """Values and bytes are equal, but cycles are not."""
    assert "26 equal values, and equal bytes" in outputs["code-29"]
    (row,) = re.findall(r"^dots +(.*)$", outputs["code-29"], re.MULTILINE)
    *_, cycles, _ = whole_numbers(row)
    assert cycles != whole_numbers(re.findall(r"the kit: .*", outputs["code-29"])[0])[-1]


def mostly_computing(outputs: dict[str, str]) -> None:
    """Both show that most of the time is spent on computing."""
    (row,) = re.findall(r"^dots +(.*)$", outputs["code-29"], re.MULTILINE)
    _, _, computing, cycles, _ = whole_numbers(row)
    _, kit_computing, kit_cycles = whole_numbers(re.findall(r"the kit: .*", outputs["code-29"])[0])
    assert computing > cycles / 2 and kit_computing > kit_cycles / 2
