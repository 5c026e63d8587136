"""Collectives: values beside numpy, rounds and bytes beside the formulas, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from all_reduces import all_reduce_report, bytes_by_link, tensors_by_ipu
from fuzz.collectives import differs, draw

from ipu_teach import FLOAT, INT, Device, Engine, Graph, IPUModel
from ipu_teach.cost.links import ring_order
from ipu_teach.errors import InvalidOptionError, PoplibsError
from ipu_teach.poplibs import gcl, popops, poputil
from ipu_teach.poplibs.gcl.ring import METHODS, choose
from ipu_teach.program import Repeat, Sequence

CONSECUTIVE, ORTHOGONAL = gcl.CommGroupType.CONSECUTIVE, gcl.CommGroupType.ORTHOGONAL


def test_ring_order_and_methods_are_the_published_ones() -> None:
    assert [ring_order(n) for n in (2, 4, 5)] == [[0, 1], [0, 2, 3, 1], [0, 2, 4, 3, 1]]
    for count, least in ((4, 1_245_184), (8, 4_980_736), (16, 39_845_888)):
        for gathers, bound in ((False, least), (True, least // 2)):
            assert choose("auto", count, bound - 1, 1, gathers) == "meet_in_middle_ring"
            assert choose("auto", count, bound, 1, gathers) == "bidirectional_ring_pair"
    assert choose("auto", 2, 10, 1) == choose("auto", 8, 10, 2) == "clockwise_ring"
    assert choose("anticlockwise_ring", 2, 10) == "anticlockwise_ring"


def test_rounds_and_bytes_are_those_of_the_formula() -> None:
    """Each link of the ring carries 2 (R - 1) / R of the tensor, one way or half of it each."""
    for ipus, n in ((4, 800), (6, 1200)):
        ring = ring_order(ipus)
        clockwise = {(a, b) for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)}
        whole = 2 * (ipus - 1) * n * 4 // ipus
        for method, share in (("clockwise_ring", 1), ("bidirectional_ring_pair", 2)):
            links = bytes_by_link(all_reduce_report(ipus, n, method, tiles=2))
            assert clockwise <= set(links) and len(links) == share * ipus
            assert max(links.values()) == pytest.approx(whole / share, rel=0.02)
        assert (
            set(bytes_by_link(all_reduce_report(ipus, n, "clockwise_ring", tiles=2))) == clockwise
        )
        anticlockwise = bytes_by_link(all_reduce_report(ipus, n, "anticlockwise_ring", tiles=2))
        assert set(anticlockwise) == {(b, a) for a, b in clockwise}
        middle = bytes_by_link(all_reduce_report(ipus, n, "meet_in_middle_ring", tiles=2))
        assert max(middle.values()) == pytest.approx(2 * (ipus // 2) * n * 4 / ipus, rel=0.02)


def test_cycles_are_those_of_a_ring_written_by_hand() -> None:
    assert [
        all_reduce_report(4, n, "clockwise_ring").total_cycles for n in (520, 5200, 52_000)
    ] == [pytest.approx(cycles, rel=0.01) for cycles in (6_549, 8_439, 27_069)]
    assert all_reduce_report(4, 52_000, "bidirectional_ring_pair").total_cycles < 25_905
    # fewer rounds: the least of all, as long as a sync is worth more than bytes
    rounds = {m: len(all_reduce_report(4, 520, m).step_numbers) for m in METHODS}
    assert rounds["meet_in_middle_ring"] < rounds["clockwise_ring"] == 9
    one_by_one, merged = (all_reduce_report(4, 520, "clockwise_ring", 6, m) for m in (False, True))
    assert one_by_one.total_cycles > 3 * merged.total_cycles
    assert len(merged.step_numbers) == 9


@pytest.mark.parametrize("seed", range(20))
def test_values_are_numpys(seed: int) -> None:
    drawn = draw(seed)
    assert not differs(drawn), drawn


def test_all_ranks_get_the_same_bits_of_floats() -> None:
    """However their sums are rounded: each element is summed in one place."""
    values = np.random.default_rng(5).standard_normal((4, 1001)).astype(np.float32)
    for method in METHODS:
        graph, (tensors,) = tensors_by_ipu(4, 1001)
        for i, tensor in enumerate(tensors):
            graph.create_host_write(f"w{i}", tensor)
        prog = Sequence()
        made = gcl.all_reduce_within_replica(
            graph, tensors, gcl.CollectiveOperator.MEAN, prog, options={"method": method}
        )
        for i, tensor in enumerate(made):
            graph.create_host_read(f"r{i}", tensor)
        engine = Engine(graph, prog)
        engine.load(Device(graph.target))
        for i, row in enumerate(values):
            engine.write_tensor(f"w{i}", row)
        engine.run()
        found = [engine.read_tensor(f"r{i}") for i in range(4)]
        assert all(np.array_equal(found[0], other) for other in found)
        assert np.abs(found[0] - values.astype(np.float64).mean(0)).max() < 4 * 2.0**-24 * 4


def test_a_replicated_program_has_its_collective_in_the_middle() -> None:
    """Gradients of each replica's own data, reduced, and taken by every replica: the weights stay
    equal, and are those of one machine with all the data."""
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=3, num_ipus=4).target, 4)
    weight, data = (graph.add_variable(FLOAT, (7,), name) for name in ("weight", "data"))
    for tensor in (weight, data):
        poputil.map_tensor_linearly(graph, tensor, 1, 1)
    graph.set_initial_value(weight, 1)
    step = Sequence()
    gradient = popops.mul(graph, weight, data, step)
    gcl.all_reduce_in_place_cross_replica(graph, gradient, "MEAN", step)
    popops.scaled_add_to(graph, weight, gradient, -0.5, step)
    graph.create_host_write("data", data)
    graph.create_host_read("weight", weight)
    engine = Engine(graph, Repeat(3, step))
    engine.load(Device(graph.get_top_level_graph().target))
    values = np.random.default_rng(1).random((4, 7)).astype(np.float32)
    engine.write_tensor("data", values)
    engine.run()
    found = engine.read_tensor("weight")
    assert all(np.array_equal(found[0], other) for other in found)
    expected = (1 - values.astype(np.float64).mean(0) / 2) ** 3
    assert np.abs(found[0] - expected).max() < 1e-6


def test_groups_by_hand() -> None:
    assert gcl.CommGroup().of(3) == [[0, 1, 2]]
    assert gcl.CommGroup(CONSECUTIVE, 2).of(8) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert gcl.CommGroup(ORTHOGONAL, 4).of(8) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    # data by 4 and tensor parallel by 2: each replica in one group of each kind
    pairs = [set(g) for g in gcl.CommGroup(CONSECUTIVE, 2).of(8)]
    assert all(len(p & set(g)) == 1 for p in pairs for g in gcl.CommGroup(ORTHOGONAL, 4).of(8))


def test_what_is_no_collective_is_refused() -> None:
    graph, (tensors, others) = tensors_by_ipu(4, 8, 2, tiles=1)
    prog, reduce, move = Sequence(), gcl.all_reduce_within_replica, gcl.broadcast_within_replica
    short = graph.create_virtual_graph(1, 2).add_variable(FLOAT, (7,), "short")
    whole = graph.create_virtual_graph(1, 2).add_variable(INT, (8,), "whole")
    both = graph.add_variable(FLOAT, (8,), "both")
    graph.set_tile_mapping(both, np.arange(8) // 4)
    for tensor in (short, whole):
        graph.set_tile_mapping(tensor, 1)
    name = "all_reduce_within_replica()"
    for call, words in (
        (
            lambda: reduce(graph, tensors, "SQUARE_ADD", prog),
            f"{name} was given SQUARE_ADD, which PopLibs also rejects",
        ),
        (
            lambda: reduce(graph, tensors, "SUB", prog),
            f"{name} was given 'SUB' as op.\n  next:  use one of ADD, MEAN, MUL, MIN, MAX",
        ),
        (
            lambda: reduce(graph, tensors, "LOGICAL_OR", prog),
            f"{name} was given tensors of FLOAT, but LOGICAL_OR works on BOOL.",
        ),
        (
            lambda: reduce(graph, [tensors[0], short], "ADD", prog),
            f"{name} was given two lengths that differ: 8 and 7.",
        ),
        (
            lambda: reduce(graph, [tensors[0], whole], "ADD", prog),
            f"{name} was given two dtypes that differ: FLOAT and INT.",
        ),
        (
            lambda: reduce(graph, [tensors[0], others[0]], "ADD", prog),
            f"{name} was given a list in which data[1] is on IPU 0, as is an earlier tensor of the "
            "list.",
        ),
        (
            lambda: reduce(graph, [both], "ADD", prog),
            f"{name} was given a list in which data[0] is on more than one IPU: 0 and 1.",
        ),
        (
            lambda: reduce(graph, [tensors, others[::-1]], "ADD", prog),
            f"{name} was given a list of tensors on IPUs [0, 1, 2, 3] and another on IPUs "
            "[3, 2, 1, 0].",
        ),
        (lambda: reduce(graph, tensors[0], "ADD", prog), "give a list of tensors, one on each IPU"),
        (
            lambda: reduce(graph, tensors, "ADD", prog, gcl.CommGroup(CONSECUTIVE, 3)),
            f"{name} was given a group size of 3, which does not divide the number of replicas or "
            "IPUs, 4.\n"
            "  next:  give a group size of 1, 2, 4.",
        ),
        (lambda: reduce(graph, tensors, "ADD", prog, 2), f"{name} was given 2 as group."),
        (
            lambda: move(graph, tensors, prog, root_replica=4),
            "broadcast_within_replica() was given 4 as root_replica.\n  next:  give a number from 0 to 3.",
        ),
        (
            lambda: gcl.all_gather_within_replica(graph, [tensors, others], prog),
            "give one tensor; only all_reduce takes several.",
        ),
        (
            lambda: gcl.all_to_all_within_replica(graph, tensors[:3], prog),
            "was given 8 elements, which cannot be divided into 3 equal parts.",
        ),
        (
            lambda: gcl.CommGroup(gcl.CommGroupType.ALL, 2),
            "CommGroup() was given the kind <CommGroupType.ALL: 'ALL'> and the size 2.",
        ),
        (
            lambda: gcl.all_reduce_cross_replica(graph, [], "ADD", prog),
            "was given [] as data.\n  next:  give a tensor, or a list of tensors.",
        ),
    ):
        with pytest.raises(PoplibsError) as caught:
            call()
        assert words in str(caught.value)
    with pytest.raises(InvalidOptionError) as error:
        reduce(graph, tensors, "ADD", prog, options={"method": "quad_directional_ring"})
    assert "give 'auto' or 'clockwise_ring' or" in str(error.value)
    assert not prog.children()
