"""The comparisons in the text of lesson 02; what this file is: test_claims.py."""

import re

from printed import whole_numbers

from ipu_teach import FLOAT, Engine, Graph, IPUModel
from ipu_teach.poplibs import poputil
from ipu_teach.program import Copy
from ipu_teach.report import Report


def _transpose(columns: int, is_linear: bool) -> Report:
    """Return the report of a transpose of 13 rows, one on each of 13 tiles."""
    device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
    graph = Graph(device)
    a = graph.add_variable(FLOAT, (13, columns), "a")
    b = graph.add_variable(FLOAT, (columns, 13), "b")
    graph.set_initial_value(a, 0)
    for row in range(13):
        graph.set_tile_mapping(a[row], row)
    if is_linear:
        poputil.map_tensor_linearly(graph, b, grain_size=2)
    else:
        graph.set_tile_mapping(b.transpose(), graph.get_tile_mapping(a))
    engine = Engine(graph, Copy(a.transpose(), b))
    engine.load(device)
    engine.run()
    return engine.report


def a_transpose_moves_nothing(outputs: dict[str, str]) -> None:
    """The machine does nothing to create a view"""
    assert "on tiles [0, 1, 2, 3]" in outputs["code-20"]


def three_arrows(outputs: dict[str, str]) -> None:
    """One of them stayed there, and the other three were sent to other tiles."""
    assert "12 bytes arrive; 3 messages" in outputs["code-11"]


def a_short_superstep(outputs: dict[str, str]) -> None:
    """The superstep above took 645 cycles, which is about half a microsecond"""
    cycles = re.search(
        r"A run of 1 superstep on 13 tiles, (\d+) modelled cycles", outputs["code-11"]
    )
    assert cycles and int(cycles[1]) == 645
    assert round(645 / 1330, 1) == 0.5  # at 1.33 GHz


def the_last_tile(outputs: dict[str, str]) -> None:
    """So the last tile has 5 elements, and every other tile has 8."""
    assert "the most 32 on 12 tiles, the least 20" in outputs["code-18"]


def near_and_far(outputs: dict[str, str]) -> None:
    """For few bytes, the Copy within the tile is the slower one, because it pays for the start"""
    rows = [whole_numbers(row) for row in outputs["code-27b"].splitlines() if row.strip()]
    assert [within > to_next for _, within, _, to_next, _ in rows] == [True, False, False]


def nearly_all_bytes(outputs: dict[str, str]) -> None:
    """Nearly all bytes are sent. Still, the exchange is the short part of the superstep."""
    sent, total, *_ = whole_numbers(outputs["code-28"])
    assert 0.9 * total < sent < total
    shares = re.search(r"exchange ([\d.]+) %, compute ([\d.]+) %", outputs["code-28"])
    assert shares and float(shares[1]) < 0.2 * float(shares[2])


def one_tile_does_all(outputs: dict[str, str]) -> None:
    """The same number of bytes is sent as before, but the program takes about seven times as long"""
    (slow,) = re.findall(r"13 tiles, ([\d,]+) modelled", outputs["code-28c"])[:1]
    linear = whole_numbers(outputs["code-28"])[2]
    assert 7 < int(slow.replace(",", "")) / linear < 7.7


def fewer_cycles(outputs: dict[str, str]) -> None:
    """No byte is sent any more, and the Copy takes 39 % fewer cycles than with the linear mapping."""
    sent, cycles = whole_numbers(outputs["code-32"].partition("passed.")[2])
    linear = whole_numbers(outputs["code-28"])[2]
    assert sent == 0 and round(100 * (1 - cycles / linear)) == 39


def a_larger_matrix(outputs: dict[str, str]) -> None:
    """The linear mapping sends 100 times as many bytes as before, and takes about 14 times as
    many cycles as a mapping that sends nothing. With 64 columns it took 1.6 times as many."""
    ratios = {}
    bytes_sent = {}
    for columns in (64, 6400):
        linear, best = (_transpose(columns, is_linear) for is_linear in (True, False))
        ratios[columns] = linear.total_cycles / best.total_cycles
        bytes_sent[columns] = linear.exchange_bytes_per_tile[0].sum()
        assert best.exchange_bytes_per_tile[0].sum() == 0
    assert round(ratios[64], 1) == 1.6 and round(ratios[6400]) == 14
    assert round(bytes_sent[6400] / bytes_sent[64]) == 100
