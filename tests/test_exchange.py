"""What an exchange costs, against sets of elements, plain loops, and the profiles that are
published."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from random import Random
from typing import Any

import numpy as np
import pytest
from brute_force import (
    RANDOMLY,
    elements_by_tile,
    local_addresses,
    random_device,
    random_space,
    step_cost,
)
from codelets import Sum
from graphs import Placed, Space, View, add, random_copy, random_superstep, random_view
from hypothesis import given, settings, strategies as st

from ipu_teach import FLOAT, Device, Engine, Graph, IPUModel, Report, Target, program as programs
from ipu_teach.compile import compile_programs
from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.cost import CostModel
from ipu_teach.cost.exchange import Traffic, arrival_cycles, lag, moved
from ipu_teach.cost.host_transfers import host_traffic
from ipu_teach.cost.links import link_cycles, links_of, route
from ipu_teach.program import Copy, Execute
from ipu_teach.target import changed, make_target
from ipu_teach.types import Array
from validation import halo as halo_exchange

# --- who hears what -------------------------------------------------------------------------------


def together(space: Space, wanted: list[set[int]], per_ipu: int) -> list[list[int]]:
    """[received, sent] by tile in bytes: elements whose every listener shares its bus with another
    listener."""
    listeners: dict[int, set[int]] = defaultdict(set)
    for tile, elements in enumerate(wanted):
        for e in elements:
            if space.tile[e] != tile:
                listeners[e].add(tile)

    def partner(tile: int) -> int:
        local = tile % per_ipu ^ 1
        return tile - tile % per_ipu + local if local < per_ipu else -1

    fast = {e for e, tiles in listeners.items() if all(partner(t) in tiles for t in tiles)}
    received = [space.bytes_of({e for e in fast if t in listeners[e]}) for t in range(len(wanted))]
    return [
        received,
        [space.bytes_of({e for e in fast if space.tile[e] == t}) for t in range(len(wanted))],
    ]


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_what_pairs_of_tiles_hear_together(rng: Random) -> None:
    device = random_device(rng)
    space = random_space(rng, device)
    step = random_superstep(rng, space)
    everywhere = random_view(
        rng,
        rng.choice(
            [v for v in space.variables.values() if v.tensor.dtype is FLOAT]
            or [space.variable(FLOAT, (7,))]
        ),
    ).flat()
    out = space.variable(FLOAT, (space.tiles,))
    if not everywhere.elements & {
        e for v in step.vertices for part in v.touched(("output", "inout")) for e in part
    }:
        for tile in range(space.tiles):
            placed = Placed(Sum, tile, {"x": [everywhere], "out": [out[tile]]})
            add(space, step.compute_set, placed)
            step.vertices.append(placed)
    reads, writes = step_cost(space, Execute(step.compute_set)).exchange
    wanted = elements_by_tile(space, step, ("input", "inout"))
    expected = together(space, wanted, device.target.tiles_per_ipu)
    assert [reads.together_received.tolist(), reads.together_sent.tolist()] == expected
    assert not writes.together_received.any() and not writes.together_sent.any()


def test_a_pair_of_tiles_hears_one_thing_at_twice_the_rate() -> None:
    """Tile 0 owns 100 numbers. Tiles 2 and 3 read all of them, or tile 5 alone reads half of them
    as well."""
    model = IPUModel(
        tiles_per_ipu=6, exchange_latency_cycles=0, exchange_cycles_per_row=0, shared_bus_speedup=2
    )
    space = Space(model.create_device(), Random(0))
    x, out = space.variable(FLOAT, (100,)), space.variable(FLOAT, (8,))
    space.map(x, 0)
    pair, both = space.graph.add_compute_set(), space.graph.add_compute_set()
    for number, (compute_set, tile, part) in enumerate(
        [(pair, 2, x), (pair, 3, x), (both, 2, x), (both, 3, x), (both, 5, x[:50])]
    ):
        space.map(out[number], tile)
        add(space, compute_set, Placed(Sum, tile, {"x": [part], "out": [out[number]]}))
    assert step_cost(space, Execute(pair)).exchange_cycles.tolist() == [50, 0, 50, 50, 0, 0]
    assert step_cost(space, Execute(both)).exchange_cycles.tolist() == [75, 0, 75, 75, 0, 50]


# --- instructions and distance --------------------------------------------------------------------


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_sends_and_turns_are_counted(rng: Random) -> None:
    """SENDs: stretches of a tile's memory, cut at 64 words. Turns: how often the next element comes
    from another tile."""
    space = random_space(rng, random_device(rng))
    copy, source, destination = random_copy(rng, space)
    found = step_cost(space, copy).exchange[0]
    wanted: list[set[int]] = [set() for _ in range(space.tiles)]
    for s, d in zip(
        source.ids.reshape(-1).tolist(), destination.ids.reshape(-1).tolist(), strict=True
    ):
        wanted[space.tile[d]].add(s)
    address = local_addresses(space)
    for tile in range(space.tiles):
        senders = [space.tile[e] for e in sorted(wanted[tile]) if space.tile[e] != tile]
        assert found.sources[tile] == len(list(groupby(senders)))
        sent = sorted(
            {e for t, elements in enumerate(wanted) for e in elements if space.tile[e] == tile != t}
        )
        count, stretch, end = 0, 0, -1
        for e in sent:
            # The same stretch of memory, as long as no other element of the tile comes between.
            stretch = stretch + space.size[e] if address[e] == end else space.size[e]
            end = address[e] + space.size[e]
            count += (
                stretch <= space.size[e] or (stretch - space.size[e]) // 256 < (stretch - 1) // 256
            )
        assert found.sends[tile] == count
        size = sum(space.size[e] for e in sent)
        # and parts of words at the ends
        assert -(-size // 4) <= found.words[tile] <= -(-size // 4) + 2 * len(sent)


def test_instructions_hold_up_a_tile_that_gathers_crumbs() -> None:
    """Ten numbers from ten tiles: three instructions each, which take longer than the words."""
    space = Space(
        IPUModel(
            tiles_per_ipu=11, exchange_latency_cycles=0, exchange_cycles_per_row=0
        ).create_device(),
        Random(0),
    )
    x, y = space.variable(FLOAT, (10,)), space.variable(FLOAT, (10,))
    for i in range(10):
        space.map(x[i], i)
    space.map(y, 10)
    cost = step_cost(space, Copy(x.tensor, y.tensor))
    assert cost.exchange_cycles.tolist() == [1] * 10 + [30]


def test_far_tiles_hear_later() -> None:
    """Pairs of tiles stand on 23 rows, up and down again; the first word comes after 54 cycles and
    2 for each row."""
    found = arrival_cycles(make_target("ipu2"))
    assert found[:4].tolist() == [54, 54, 56, 56]
    # the last pair of the first block, and the first of the second
    assert found[44:48].tolist() == [98, 98, 98, 98]
    assert (found.min(), found.max(), len(found)) == (54, 98, 1472)
    assert arrival_cycles(make_target("ipu1")).max() == 54 + 2 * 18
    assert (
        arrival_cycles(make_target("ipu2", num_ipus=2, tiles_per_ipu=3)).tolist()
        == [54, 54, 56] * 2
    )


def test_the_way_from_a_sender_is_as_long_as_published() -> None:
    """osmarks/ipu-stack's tests hold programs for four ways of 1,472 tiles: a sender waits 111
    cycles less its way's."""
    target = make_target("ipu2")
    waits = {(0, 1286): 0x86, (736, 100): 0x3E, (1286, 1471): 0x7D, (32, 0): 0x6C}
    assert {
        way: 111 - int(lag(*(np.array([tile]) for tile in way), target)[0]) for way in waits
    } == waits
    every = np.arange(1472)
    found = lag(np.repeat(every, 1472), np.tile(every, 1472), target)
    # the farthest sender's word takes as long again as a near one's
    assert (found.min(), found.max()) == (-78, 112)
    # the machine of the lessons
    assert np.all(lag(np.repeat(every[:13], 13), np.tile(every[:13], 13), target) < 0)


def one_way(source: int, destination: int, **fields: Any) -> int:
    """Cycles of a phase in which one tile of 1,472 sends a hundred numbers to another."""
    space = Space(IPUModel("ipu2", **fields).create_device(), Random(0))
    x, y = space.variable(FLOAT, (100,)), space.variable(FLOAT, (100,))
    space.map(x, source)
    space.map(y, destination)
    return step_cost(space, Copy(x.tensor, y.tensor)).exchange_duration


def test_a_far_sender_is_heard_later() -> None:
    """Tile 736 stands on row 0 of the ninth column, which is folded beside the eighth, tile 100 on
    row 4 of the second.

    So six columns of 4 cycles, 8 - 1 for the columns' halves, 16 for the turn from one to the
    other, |6 x (1 - 7 - 1) + 1| along, 2 less for each row that the receiver is farther out, less
    31.
    """
    assert 6 * 4 + 8 - 1 + 16 + 41 - 2 * 4 - 31 == 49
    assert one_way(0, 1286) == 54 + 100  # the receiver turns to the sender before that has to send
    assert one_way(736, 100) == 54 + 2 * 4 + 49 + 100
    assert one_way(736, 100, exchange_cycles_per_row=0) == 54 + 57 + 100
    # a column's ends
    assert (
        one_way(45, 0) == 54 + (2 * 22 + 1 + 1 - 31) + 100 and one_way(0, 45) == 54 + 2 * 22 + 100
    )


def test_what_is_near_comes_first() -> None:
    """Tile 100 hears forty numbers from beside it; what comes from far off comes 49 cycles later,
    or when they are through."""
    for far, cycles in ((1, 49 + 1), (30, 49 + 30), (5, 49 + 5), (100, 49 + 100)):
        space = Space(IPUModel("ipu2").create_device(), Random(0))
        x, y, into = (space.variable(FLOAT, (n,)) for n in (far, 40, 40 + far))
        for view, tile in ((x, 736), (y, 101), (into, 100)):
            space.map(view, tile)
        copies = [Copy(y.tensor, into[:40].tensor), Copy(x.tensor, into[40:].tensor)]
        cost = CostModel(compile_programs(space.graph, [programs.Sequence(*copies)]))
        assert cost.step(0).exchange_cycles[100] == 54 + 2 * 4 + cycles


# --- the host's data ------------------------------------------------------------------------------


def plain_host_traffic(space: Space, view: View, target: Target) -> dict[tuple[int, int], int]:
    """Bytes from the tile where a packet lands to that where they belong, byte for byte."""
    moves: dict[tuple[int, int], int] = defaultdict(int)
    for ipu in range(target.num_ipus):
        owners = [
            space.tile[e] for e in view.ids.reshape(-1).tolist() for _ in range(space.size[e])
        ]
        owners = [t for t in owners if t // target.tiles_per_ipu == ipu]
        packets = [
            owners[i : i + target.host_packet_bytes]
            for i in range(0, len(owners), target.host_packet_bytes)
        ]
        mixed = [p for p in packets if len(set(p)) > 1]
        places = [
            t
            for t in range(target.tiles_per_ipu)
            for _ in range(len(range(t, len(mixed), target.tiles_per_ipu)))
        ]
        for packet, place in zip(mixed, places, strict=True):
            for owner in packet:
                moves[ipu * target.tiles_per_ipu + place, owner] += 1
    return {way: size for way, size in moves.items() if way[0] != way[1]}


@RANDOMLY
@given(st.randoms(use_true_random=False), st.integers(1, 24))
def test_the_hosts_packets_land_and_are_moved(rng: Random, packet: int) -> None:
    device = random_device(rng, host_packet_bytes=packet)
    space = random_space(rng, device)
    view = random_view(rng, rng.choice(list(space.variables.values())))
    graph = FrozenGraph(space.graph)
    expected = plain_host_traffic(space, view, device.target)
    for to_device in (True, False):
        found = host_traffic(graph, (view.tensor,), to_device)
        here, there = (found.sent, found.received) if to_device else (found.received, found.sent)
        for tile in range(space.tiles):
            assert here[tile] == sum(size for (a, _), size in expected.items() if a == tile)
            assert there[tile] == sum(size for (_, b), size in expected.items() if b == tile)
        assert not found.links.any() and not found.together_received.any()


def test_whole_packets_need_no_rearrangement() -> None:
    """512 numbers, two packets: on one tile each they go straight there; row by row they land
    first."""
    space = Space(IPUModel(tiles_per_ipu=4).create_device(), Random(0))
    whole, rows = space.variable(FLOAT, (512,)), space.variable(FLOAT, (4, 128))
    for tile in range(4):
        space.map(rows[tile], tile)
    space.map(whole[:256], 2)
    space.map(whole[256:], 3)
    graph = FrozenGraph(space.graph)
    assert host_traffic(graph, (whole.tensor,), True).total == 0
    found = host_traffic(graph, (rows.tensor,), True)
    # The first packet lands on tile 0, which keeps a half; the second on tile 1, which passes both
    # on.
    assert found.received.tolist() == [0, 512, 512, 512] and found.sent.tolist() == [
        512,
        1024,
        0,
        0,
    ]


# --- links ----------------------------------------------------------------------------------------


def test_messages_take_the_ladder() -> None:
    """Along a rail, and across on the lower of the two rungs, which is there even if the last IPU
    stands alone."""
    assert list(route(0, 1)) == [(0, 1)]
    assert list(route(0, 4)) == [(0, 2), (2, 4)]
    assert list(route(1, 4)) == [(1, 0), (0, 2), (2, 4)]
    assert list(route(4, 1)) == [(4, 2), (2, 0), (0, 1)]
    assert list(route(2, 3)) == [(2, 3)] and list(route(3, 3)) == []
    for a in range(9):
        for b in range(9):
            steps = list(route(a, b))
            assert [s for s, _ in steps[1:]] == [t for _, t in steps[:-1]]
            assert (steps[0][0], steps[-1][1]) == (a, b) if steps else a == b
            assert all(max(s) < 9 for s in steps)
    # the links of a machine are those on which something can go
    for machine, count in (*(("", n) for n in range(1, 10)), ("pod64", 64)):
        target = make_target("ipu2", num_ipus=count, machine=machine)
        ways = (route(a, b, count if machine else 0) for a in range(count) for b in range(count))
        every = links_of(target)
        assert set(every) == {link for way in ways for link in way} and len({*every}) == len(every)


def test_in_a_torus_messages_go_the_shorter_way_round() -> None:
    """A Pod64's 32 rungs stand in a circle; of all ways over its links none is shorter."""
    assert list(route(0, 62, 64)) == [(0, 62)] and list(route(63, 1, 64)) == [(63, 1)]
    for a in range(64):
        for b in range(64):
            steps = list(route(a, b, 64))
            rungs = abs(a // 2 - b // 2)
            assert len(steps) == min(rungs, 32 - rungs) + (a % 2 != b % 2)
            assert [s for s, _ in steps[1:]] == [t for _, t in steps[:-1]]
            assert (steps[0][0], steps[-1][1]) == (a, b) if steps else a == b
            assert all(s ^ t == 1 or (s - t) % 64 in (2, 62) for s, t in steps)
    flows = np.zeros((64, 64), np.int64)
    flows[0, 62] = 3060
    near, far = (
        link_cycles(flows, make_target("ipu2", num_ipus=64, machine=name)) for name in ("pod64", "")
    )
    assert near == 20 + 100 and far == 31 * 20 + 100 - 1  # 15 ns a link, rounded up once


def test_the_busiest_link_decides() -> None:
    target = make_target("ipu1", num_ipus=4)
    flows = np.zeros((4, 4), np.int64)
    flows[0, 1] = 3650
    assert link_cycles(flows, target) == 24 + 100  # 15 ns, at 1.6 GHz
    flows[0, 3] = 1830  # over 0-1, then 1-3
    assert link_cycles(flows, target) == 2 * 24 - (-(3650 + 1830) // 36.5)
    flows[:] = 0
    flows[0, 2] = flows[2, 0] = 1830  # each way has its own wires
    assert link_cycles(flows, target) == 24 + 100
    assert link_cycles(np.zeros((4, 4), np.int64), target) == 0


def test_what_an_ipu_wants_crosses_to_it_once() -> None:
    space = Space(IPUModel(tiles_per_ipu=3, num_ipus=3).create_device(), Random(0))
    x, out = space.variable(FLOAT, (10,)), space.variable(FLOAT, (9,))
    space.map(x, 0)
    compute_set = space.graph.add_compute_set()
    for tile in range(9):
        space.map(out[tile], tile)
        add(
            space,
            compute_set,
            Placed(Sum, tile, {"x": [x if tile % 3 else x[:4]], "out": [out[tile]]}),
        )
    found = step_cost(space, Execute(compute_set)).exchange[0]
    assert found.links.tolist() == [[0, 40, 40], [0, 0, 0], [0, 0, 0]]


def test_a_sync_of_many_ipus_takes_longer() -> None:
    assert [make_target("ipu1", num_ipus=n).external_sync_cycles for n in (2, 3, 4, 8, 16)] == [
        48,
        48,
        96,
        144,
        240,
    ]


# --- laws -----------------------------------------------------------------------------------------


def random_moves(rng: Random, target: Target, count: int) -> tuple[Array, Array, Array]:
    tiles = target.num_tiles
    return tuple(
        np.array([rng.randrange(most) for _ in range(count)], np.int64)
        for most in (tiles, tiles, 999)
    )  # type: ignore[return-value]


@RANDOMLY
@given(st.randoms(use_true_random=False), st.integers(0, 30))
def test_more_bytes_are_never_cheaper(rng: Random, count: int) -> None:
    target = random_device(rng).target
    source, destination, size = random_moves(rng, target, count)
    before = moved(target, source, destination, size)
    for after in (
        moved(
            target,
            *(
                np.append(a, b)
                for a, b in zip(
                    (source, destination, size), random_moves(rng, target, 1), strict=True
                )
            ),
        ),
        moved(target, source, destination, size + rng.randrange(50)),
    ):
        assert np.all(after.tile_cycles(target) >= before.tile_cycles(target))
        assert after.link_cycles(target) >= before.link_cycles(target)


def heard_by(receivers: int, sizes: Sequence[int], target: Target) -> int:
    """Cycles of a phase in which tile 0 sends `sizes[i]` numbers of its own to each receiver, and
    the last 100 to all."""
    space = Space(Device(target), Random(0))
    x, y = (
        space.variable(FLOAT, (sum(sizes) + 100,)),
        space.variable(FLOAT, (receivers, max(sizes) + 100)),
    )
    space.map(x, 0)
    first, copies = 0, []
    for tile, size in zip(range(receivers), sizes, strict=False):
        space.map(y[tile], tile + 1)
        copies += [
            Copy(x[first : first + size].tensor, y[tile, :size].tensor),
            Copy(x[-100:].tensor, y[tile, size : size + 100].tensor),
        ]
        first += size
    cost = CostModel(compile_programs(space.graph, [programs.Sequence(*copies)]))
    assert len(cost.compiled.steps) == 1
    return cost.step(0).exchange_duration


@settings(RANDOMLY, max_examples=20)
@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=9),
    st.sampled_from(["ipu1", "ipu2"]),
    st.integers(0, 8),
)
def test_a_further_receiver_or_a_longer_message_is_never_faster(
    sizes: list[int], version: str, longer: int
) -> None:
    target = IPUModel(version, tiles_per_ipu=60).create_device().target
    by_count = [heard_by(count, sizes, target) for count in range(1, len(sizes) + 1)]
    assert by_count == sorted(by_count)
    more = [size + (i == longer) for i, size in enumerate(sizes)]
    assert heard_by(len(sizes), more, target) >= by_count[-1]


def test_a_scatters_last_word_arrives_after_it_left() -> None:
    """A hundred numbers for all and ten for each of nine tiles: 190 words leave, and the last takes
    54 cycles."""
    target = IPUModel(tiles_per_ipu=60).create_device().target
    assert heard_by(9, [10] * 9, target) == 190 + 54
    assert heard_by(1, [10], target) == 54 + 110


FASTER = {
    "exchange_bytes_per_cycle": 8,
    "shared_bus_speedup": 4,
    "exchange_latency_cycles": 0,
    "exchange_cycles_per_row": 0,
    "exchange_setup_instructions": 0,
    "link_bytes_per_cycle": 1e6,
    "rail_bytes_per_cycle": 1e6,
}


@RANDOMLY
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(FASTER)))
def test_faster_is_never_slower(rng: Random, field: str) -> None:
    device = random_device(rng)
    space = random_space(rng, device)
    quick = changed(device.target, **{field: FASTER[field]})
    exchanges: tuple[Traffic, ...] = step_cost(
        space, Execute(random_superstep(rng, space).compute_set)
    ).exchange
    for found in exchanges:
        assert np.all(found.tile_cycles(quick) <= found.tile_cycles(device.target))
        assert found.link_cycles(quick) <= found.link_cycles(device.target)


# --- published ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def halo() -> Report:
    """The published halo exchange on the full first-generation chip. Its step is costed, not
    computed, twenty times."""
    graph = Graph(IPUModel("ipu1").create_device().target)
    engine = Engine(graph, halo_exchange.build(graph, pairs=1))
    return engine.executable.report


def test_the_published_halo_exchange(halo: Report) -> None:
    """LBM's "implicit" profile: 5,682.0 cycles of exchange and 3,328.0 of sync in 20 steps, 21,010
    in all."""
    steps = [profile.cost for profile in halo.compute_sets]
    assert len(steps) == 2
    forth = steps[0].exchange[0]
    # Inside the grid: 99 numbers from the north, 99 from the one neighbour at the side, 1 from the
    # south, 2 corners.
    assert int(forth.received[600]) == 4 * (99 + 99 + 1 + 2)
    exchange = 10 * sum(float(s.exchange_cycles.mean()) for s in steps)
    assert exchange == pytest.approx(5_682.0, rel=0.05)
    assert 10 * sum(s.cycles for s in steps) == pytest.approx(21_010, rel=0.015)
