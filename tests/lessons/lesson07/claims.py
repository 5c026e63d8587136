"""The comparisons in the text of lesson 07; what this file is: test_claims.py."""

import re

from printed import whole_numbers


def _epochs(outputs: dict[str, str]) -> dict[tuple[int, str], list[int]]:
    """Return (total, compute, exchange, host, sync) by (number of tiles, form of the pixels)."""
    rows = re.findall(r"^ *([\d,]+) +(FLOAT|bytes) +(.*)$", outputs["code-66"], re.MULTILINE)
    return {(whole_numbers(t)[0], form): whole_numbers(row) for t, form, row in rows}


def about_60_pixels(outputs: dict[str, str]) -> None:
    """Each tile multiplies about 60 pixels of every image by the matching rows of *W*."""
    assert "inner dimension divided into 13" in outputs["code-13"] and round(28 * 28 / 13) == 60


def the_loss_falls(outputs: dict[str, str]) -> None:
    """The mean loss falls in every line of this table."""
    losses = [float(loss) for loss in re.findall(r"mean loss ([\d.]+)", outputs["code-35"])]
    assert len(losses) == 5 and losses == sorted(losses, reverse=True)


def the_weights_are_larger(outputs: dict[str, str]) -> None:
    """After twenty epochs the weights are larger"""
    spans = []
    for cell in ("code-37", "code-39"):
        low, high = re.findall(r"run from (-[\d.]+) to ([\d.]+)\.\s", outputs[cell])[0]
        spans.append((float(low), float(high)))
    assert spans[1][0] < spans[0][0] and spans[0][1] < spans[1][1]


def the_trainings_agree(outputs: dict[str, str]) -> None:
    """The weights of both trainings must agree, as far as single precision allows."""
    assert "largest difference below 0.0001: True" in outputs["code-41"]


def half_of_the_time(outputs: dict[str, str]) -> None:
    """One kind of step takes about half of the time."""
    share = re.search(r"StreamCopy images: [\d,]+ in 30 supersteps, ([\d.]+) %", outputs["code-43"])
    assert share is not None and 45 < float(share[1]) < 55


def little_is_lost(outputs: dict[str, str]) -> None:
    """Very little time is lost, because the libraries distribute the work evenly."""
    share = re.search(r"([\d.]+) % of their time is waiting", outputs["code-45"])
    assert share is not None and float(share[1]) < 5


def as_many_digits(outputs: dict[str, str]) -> None:
    """With a quarter of the bytes, the machine recognises as many digits as before."""
    now, before = re.findall(r"([\d.]+) %", outputs["code-54"])
    assert now == before


def half_as_much_as_the_host(outputs: dict[str, str]) -> None:
    """the link takes about 590,000 cycles less, and the total falls by only half of that."""
    epochs = _epochs(outputs)
    total, _, _, host, _ = (
        a - b for a, b in zip(epochs[13, "FLOAT"], epochs[13, "bytes"], strict=True)
    )
    assert 0.4 < total / host < 0.6 and 580_000 < host < 600_000


def the_cast_takes_back_half(outputs: dict[str, str]) -> None:
    """Then the work is the bottleneck on 13 tiles, where the cast takes back about half of what the
    link saves."""
    half_as_much_as_the_host(outputs)
    epochs = _epochs(outputs)
    few, many = (epochs[n, "bytes"][0] / epochs[n, "FLOAT"][0] for n in (13, 1472))
    assert many < few


def a_tenth_and_an_eighth(outputs: dict[str, str]) -> None:
    """**compute** shrinks to about a tenth, and **exchange** to about an eighth"""
    epochs = _epochs(outputs)
    for form in ("FLOAT", "bytes"):
        few, many = epochs[13, form], epochs[1472, form]
        assert 1 / 14 < many[1] / few[1] < 1 / 9 and 1 / 9 < many[2] / few[2] < 1 / 7


def the_host_does_not_change(outputs: dict[str, str]) -> None:
    """**host** does not change."""
    epochs = _epochs(outputs)
    assert all(epochs[13, form][3] == epochs[1472, form][3] for form in ("FLOAT", "bytes"))


def sync_grows(outputs: dict[str, str]) -> None:
    """**sync**, which includes waiting, grows."""
    epochs = _epochs(outputs)
    assert all(epochs[13, form][4] < epochs[1472, form][4] for form in ("FLOAT", "bytes"))


def not_even_twice(outputs: dict[str, str]) -> None:
    """So a chip with 113 times as many tiles is not even twice as fast"""
    epochs = _epochs(outputs)
    assert 1 < epochs[13, "FLOAT"][0] / epochs[1472, "FLOAT"][0] < 2
    assert round(1472 / 13) == 113


def the_link_is_the_rest(outputs: dict[str, str]) -> None:
    """`why` shows 26,068 cycles on the link for each of these steps, so 782,040 for all of them."""
    assert "host exchange is 26,068 of them" in outputs["asked-as-in-06"]
    assert 30 * 26068 == 782040


def most_of_the_time_on_many_tiles(outputs: dict[str, str]) -> None:
    """With bytes, they are 4.1 times as fast, instead of 2.6."""
    epochs = _epochs(outputs)
    assert epochs[1472, "FLOAT"][3] > epochs[1472, "FLOAT"][0] / 2
    assert round(epochs[13, "bytes"][0] / epochs[1472, "bytes"][0], 1) == 2.6


def eleven_waits(outputs: dict[str, str]) -> None:
    """In 96 steps it waits 11 times, for 55 steps in total, and 55 / (96 + 55) is 36 %."""
    assert "waiting 36% of the time" in outputs["code-59"]
    assert round(100 * 55 / (96 + 55)) == 36
