"""The comparisons in the text of lesson 15; what this file is: test_claims.py."""

import re

from printed import whole


def _rows(outputs: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Return (bytes, cycles) of each placement."""
    rows = re.findall(
        r"(at random|in strips|yours): +([\d,]+) bytes, ([\d,]+) modelled", outputs["c34"]
    )
    return {name: (whole(b), whole(c)) for name, b, c in rows}


def the_mean_stays(outputs: dict[str, str]) -> None:
    """The mean stays the same, and the precision is lower: from 2 it becomes 1.5"""
    assert "right: mean 3.0000" in outputs["c12"] and "lam 1.5000" in outputs["c12"]


def twelve_rounds(outputs: dict[str, str]) -> None:
    """a chain of 13 needs 12 rounds."""
    off = {
        int(n): float(v)
        for n, v in re.findall(r"round +(\d+): means off by ([\d.e-]+)", outputs["c19"])
    }
    assert off[11] > 0.1 and off[12] < 1e-5


def robust_factors_are_better(outputs: dict[str, str]) -> None:
    """The robust factors leave a smaller error than plain springs: 0.124 compared with 0.195. The
    stiffness 4 of the plain springs is the best of the five. Their means agree with the dense solution"""
    stiffness = re.findall(r"springs of stiffness +(\d+): ([\d.]+)", outputs["c28"])
    assert len(stiffness) == 5 and min(stiffness, key=lambda pair: float(pair[1]))[0] == "4"
    assert "error with plain springs 0.195, with robust ones 0.124" in outputs["c28"]
    assert float(re.findall(r"off by ([\d.e-]+)", outputs["c28"])[0]) < 1e-6


def a_seventh_of_the_bytes(outputs: dict[str, str]) -> None:
    """Your placement exchanges about a seventh of the bytes of the random one, but it takes only 4 %
    fewer cycles."""
    rows = _rows(outputs)
    assert 6.5 < rows["at random"][0] / rows["yours"][0] < 7.5
    assert round(100 * (1 - rows["yours"][1] / rows["at random"][1])) == 4


def strips_take_more_cycles(outputs: dict[str, str]) -> None:
    """Strips exchange about a third of the bytes, and even take 27 % more cycles than random placement."""
    rows = _rows(outputs)
    assert 0.3 < rows["in strips"][0] / rows["at random"][0] < 0.36
    assert round(100 * (rows["in strips"][1] / rows["at random"][1] - 1)) == 27


def the_exchange_is_short(outputs: dict[str, str]) -> None:
    """even at random, the exchanges take only 528 of the 8,460 cycles."""
    assert "8,460 modelled cycles, 528 of them exchange" in outputs["c34"]
    assert "the exchange of Execute factors, 261 modelled cycles" in outputs["c36"]
    assert _rows(outputs)["at random"][1] == 8460


def bytes_fall_more_than_cycles(outputs: dict[str, str]) -> None:
    """In the example the bytes fall by 92 %, from 29,760 to 2,304, and the cycles by only 6 %"""
    cycles, sent = (whole(n) for n in re.findall(r"[\d,]{4,}", outputs["c40"]))
    after = re.findall(r"([\d,]+) bytes exchanged, 90.3 % under", outputs["c43"])[0]
    assert round(100 * (1 - whole(after) / sent)) == 92
    faster = re.findall(r"cycles before, ([\d,]+) after", outputs["c44"])[0]
    assert round(100 * (1 - whole(faster) / cycles)) == 6


def another_distance(outputs: dict[str, str]) -> None:
    """With far half or twice as large, the error is 0.158 or 0.153, still below that of plain springs."""
    assert re.findall(r"far [\d.]+: ([\d.]+)", outputs["c28"]) == ["0.158", "0.124", "0.153"]
