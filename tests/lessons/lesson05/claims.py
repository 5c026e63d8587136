"""The comparisons in the text of lesson 05; what this file is: test_claims.py."""

import re


def _numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,.]*", text)]


def _table(output: str) -> dict[float, list[float]]:
    """Return the rows of a table of numbers by their first number."""
    rows = (_numbers(line) for line in output.splitlines() if re.fullmatch(r"[\d\s,.%]+", line))
    return {row[0]: row[1:] for row in rows if row}


def _products(outputs: dict[str, str]) -> dict[str, tuple[float, float]]:
    """Return (bytes of the fullest tile, cycles) of the products by their name."""
    rows = re.findall(r"(?m)^(\S+) +([\d,]+) bytes +([\d,]+) modelled", outputs["code-44"])
    return {name: (_numbers(held)[0], _numbers(took)[0]) for name, held, took in rows}


def other_workers_are_idle(outputs: dict[str, str]) -> None:
    """One worker has the only vertex, and the other five are idle."""
    assert "1 vertex on 6 workers, 5 of them without one" in outputs["code-11"]


def prices_of_compiled_code(outputs: dict[str, str]) -> None:
    """`Loop` needs about four cycles per number"""
    loop, dot, guess = _numbers(re.findall(r"1024 numbers: (.*)", outputs["code-14"])[0])
    assert [round(price / 1024, 1) for price in (loop, dot, guess)] == [4.0, 2.0, 0.5]


def balance_has_less_work(outputs: dict[str, str]) -> None:
    """the fullest tile has about a fifth less work."""
    in_turn, balanced = (
        _numbers(row)[0] for row in re.findall(r"(?:in turn|balanced) .*", outputs["triangle-rows"])
    )
    assert 0.15 < 1 - balanced / in_turn < 0.25


def the_same_formula(outputs: dict[str, str]) -> None:
    """it gives the same result for the four parts of the warm-up"""
    first, second, plan = map(
        int, re.findall(r"(\d+) \+ (\d+) cycles. 05.2: (\d+)", outputs["two-supersteps"])[0]
    )
    assert first + second == plan


def the_valley(outputs: dict[str, str]) -> None:
    """On the right, the pieces are too many"""
    whole, single = (_numbers(row) for row in outputs["code-26"].splitlines()[:2])
    assert "quickest pieces = 12, 2,809" in outputs["code-26"]
    assert single[1] > whole[1] > 2_809


def the_plan_is_too_low(outputs: dict[str, str]) -> None:
    """With the observed prices, the plan is always too low, by 185 to 513 cycles."""
    rows = _table(outputs["code-30"])
    errors = [engine - prices for _, prices, engine in rows.values()]
    assert len(rows) == 6 and (min(errors), max(errors)) == (185, 513)


def the_best_of_three_columns(outputs: dict[str, str]) -> None:
    """The observed prices give 6, by a small margin; the engine gives 12."""
    rows = _table(outputs["code-30"])
    best = [min(rows, key=lambda pieces: rows[pieces][column]) for column in range(3)]
    assert best == [12, 6, 12]
    assert rows[12][1] / rows[6][1] < 1.02


def the_guess_is_too_low(outputs: dict[str, str]) -> None:
    """the engine takes 2.8 to 3.8 times as many cycles as the plan, and still the plan finds the best number, 12."""
    factors = [row[2] / row[0] for row in _table(outputs["code-30"]).values()]
    assert (round(min(factors), 1), round(max(factors), 1)) == (2.8, 3.8)


def nearly_the_best(outputs: dict[str, str]) -> None:
    """But in the engine, 6 pieces take only 2 % longer than 12."""
    six, twelve = (_table(outputs["code-30"])[pieces][-1] for pieces in (6, 12))
    assert round(100 * (six / twelve - 1)) == 2


def on_the_chip(outputs: dict[str, str]) -> None:
    """The split makes the program about 1.7 times as fast."""
    assert "1.66 times as fast on the chip" in outputs["code-32"]
    assert "4.86 times as fast on 13 tiles" in outputs["code-32"]


def above_the_plan_of_the_tutorial(outputs: dict[str, str]) -> None:
    """The run with 7 pieces takes almost four times as long as the 3,996 cycles"""
    match = re.search(r"pieces: 7   modelled cycles: ([\d,]+)", outputs["code-32"])
    assert match is not None and 3.7 < int(match[1].replace(",", "")) / 3996 < 4


def rows_on_a_tile(outputs: dict[str, str]) -> None:
    """10,000 rows on 1,472 tiles are 6 rows on some tiles, and 7 on most."""
    slow = re.search(r"tiles 0, 1 and ([\d,]+) others take 24,144", outputs["code-33"])
    assert slow is not None
    many = int(_numbers(slow[1])[0]) + 2
    assert many == 10_000 - 6 * 1_472 and many > 1_472 / 2


def most_of_the_second_round(outputs: dict[str, str]) -> None:
    """A split saves most of that second round and a part of the exchange, but no more."""
    whole, split = (_numbers(row)[1] for row in outputs["code-32"].splitlines()[:2])
    second_round, exchange = 6 * 2_012, 1_000
    assert 0.5 < (whole - split) / (second_round + exchange) < 1


def gains_by_rows(outputs: dict[str, str]) -> None:
    """With one row per tile, a split gains most"""
    gains = {rows: row[0] for rows, row in _table(outputs["code-35"]).items()}
    assert max(gains, key=lambda rows: gains[rows]) == 1
    assert gains[6] < 1.05 and gains[6] < gains[13] < gains[7]


def three_limits(outputs: dict[str, str]) -> None:
    """The second line breaks the first limit, and the third line breaks the second one."""
    rows = [_numbers(row)[1:] for row in outputs["code-39"].splitlines()[:3]]
    (fast_bytes, fast_cycles), second, third = rows
    assert second[0] > 0.55 * fast_bytes and second[1] <= 1.2 * fast_cycles
    assert third[0] <= 0.55 * fast_bytes and third[1] > 1.2 * fast_cycles
    assert 1.9 < third[1] / fast_cycles < 2.1  # "about twice as long"


def half_of_the_memory(outputs: dict[str, str]) -> None:
    """With 0.06, the product needs half of the bytes of the fastest plan, and 6 % more cycles."""
    products = _products(outputs)
    assert 0.45 < products["0.06"][0] / products["0.6"][0] < 0.5
    assert round(100 * products["0.06"][1] / products["0.6"][1]) == 106


def a_little_less(outputs: dict[str, str]) -> None:
    """With 0.03, it needs 44 % of the bytes, and 17 % more cycles."""
    products = _products(outputs)
    assert [round(100 * products["0.03"][i] / products["0.6"][i]) for i in (0, 1)] == [44, 117]


def less_is_expensive(outputs: dict[str, str]) -> None:
    """With 0.02, it needs 37 % of the bytes, and 69 % more cycles."""
    products = _products(outputs)
    assert [round(100 * products["0.02"][i] / products["0.6"][i]) for i in (0, 1)] == [37, 169]


def the_bytes_rise_again(outputs: dict[str, str]) -> None:
    """With 0.01 and 0.005, the bytes rise again"""
    products = _products(outputs)
    assert products["0.005"][0] > products["0.01"][0] > products["0.02"][0]


def worse_in_both(outputs: dict[str, str]) -> None:
    """0.15 is worse than 0.1 in both figures."""
    products = _products(outputs)
    assert all(products["0.15"][i] > products["0.1"][i] for i in (0, 1))


def the_library_is_better(outputs: dict[str, str]) -> None:
    """Four pieces by hand are not on the front."""
    products = _products(outputs)
    assert all(products["0.06"][i] < products["yours"][i] for i in (0, 1))


def smaller_groups_take_longer(outputs: dict[str, str]) -> None:
    """smaller groups are less work, but take *longer*."""
    cycles = {width: row[2] for width, row in _table(outputs["code-53"]).items()}
    assert cycles[64] > cycles[32] > cycles[16] < cycles[8] < cycles[4] < cycles[2] < cycles[1]


def a_short_dot_product(outputs: dict[str, str]) -> None:
    """for a single number, `Dot` is the slower one."""
    loop, dot, _ = _numbers(re.findall(r" 1 numbers: (.*)", outputs["code-14"])[0])
    assert loop < dot


def a_plan_promises_more(outputs: dict[str, str]) -> None:
    """The plan estimates 5.56 here, and the engine gave 4.86 above"""
    assert _table(outputs["code-35"])[1][0] == 5.56
    assert "4.86 times as fast on 13 tiles" in outputs["code-32"]


def groups_of_four(outputs: dict[str, str]) -> None:
    """the number of products falls to a quarter, but the time more than triples."""
    rows = _table(outputs["code-53"])
    assert rows[16][1] == 4 * rows[4][1] and rows[4][2] > 3 * rows[16][2]
