"""Steps of a program that set the tiles' registers: what they change, from where on, what they
cost, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu_teach import (
    FLOAT,
    HALF,
    INT,
    UNSIGNED_INT,
    Engine,
    Executable,
    FloatingPointBehaviour,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Tensor,
    Vector,
    Vertex,
    compile_graph,
    get_hw_seeds,
    set_floating_point_behaviour,
    set_hw_seeds,
    set_stochastic_rounding,
)
from ipu_teach.errors import FloatingPointTrapError, IPUTeachError
from ipu_teach.graph.registers import DIV0, ESR, INV, NANOO, OFLO, SetHwSeeds
from ipu_teach.program import Call, Copy, Execute, If, Repeat, Sequence
from ipu_teach.types import Array, generator

TILES = 4
DEVICE = IPUModel(tiles_per_ipu=TILES).create_device()
QUIET = FloatingPointBehaviour(inv=False, div0=False, oflo=False, esr=False, nanoo=False)


class Narrow(Vertex):
    """Singles into halves."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = self.x * np.float32(1)


class Divide(Vertex):
    """out = 1 / x"""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = np.float32(1) / self.x


class Bench:
    """A graph with one row of 50 numbers on each tile, and what a program makes of them."""

    def __init__(self, codelet: type[Vertex] = Narrow, values: Any = 0.1) -> None:
        self.graph, self.prog, self.codelet = Graph(DEVICE.target), Sequence(), codelet
        self.x = self.variable(FLOAT, (TILES, 50), "x")
        self.graph.set_initial_value(self.x, values)
        self.engine: Engine | None = None
        self.outs: dict[str, Tensor] = {}

    def variable(self, dtype: Any, shape: tuple[int, ...], name: str) -> Tensor:
        tensor = self.graph.add_variable(dtype, shape, name)
        for tile in range(TILES):
            self.graph.set_tile_mapping(tensor[tile], tile)
        self.graph.create_host_read(name, tensor)
        return tensor

    def step(self, name: str) -> Execute:
        """Run the codelet on all tiles, into a variable of this name."""
        out = self.variable(self.codelet.fields["out"].dtype, (TILES, 50), name)
        self.outs[name] = out
        compute_set = self.graph.add_compute_set(name)
        self.graph.add_vertices(compute_set, self.codelet, np.arange(TILES), x=self.x, out=out)
        return Execute(compute_set)

    def run(self, *names: str, **given: Any) -> list[Array]:
        self.engine = Engine(self.graph, self.prog, **given)
        self.engine.load_and_run(DEVICE)
        return [self.engine.read_tensor(name) for name in names]


def by_chance(values: Array) -> bool:
    return len(np.unique(values)) == 2


# --- rounding by chance ---------------------------------------------------------------------------


@pytest.mark.parametrize("loop", [False, True])
def test_rounding_by_chance_holds_from_its_step_on(loop: bool) -> None:
    b = Bench()
    b.prog.add(b.step("before"))
    set_stochastic_rounding(b.graph, b.prog, True)
    b.prog.add(b.step("after"))
    set_stochastic_rounding(b.graph, b.prog, False)
    b.prog.add(b.step("last"))
    before, after, last = b.run("before", "after", "last", vertex_loop=loop)
    assert np.unique(before).tolist() == np.unique(last).tolist() == [np.float16(0.1)]
    assert by_chance(after)


def test_one_compute_set_runs_in_both_ways_wherever_the_program_goes() -> None:
    """The same step with and without, in Repeat, If and a called function; what is set in a branch
    not taken is not set."""
    b = Bench()
    step, kept = b.step("out"), {}
    flags = b.graph.add_variable(INT, (2,), "flags")
    b.graph.set_tile_mapping(flags, 0)
    b.graph.set_initial_value(flags, [0, 1])

    def keep(name: str) -> Sequence:
        kept[name] = b.variable(HALF, (TILES, 50), name)
        return Sequence(step, Copy(b.outs["out"], kept[name]))

    def switch(enable: bool) -> Sequence:
        prog = Sequence()
        set_stochastic_rounding(b.graph, prog, enable)
        return prog

    b.prog.add(If(flags[0], switch(True))).add(keep("branch not taken"))
    b.prog.add(If(flags[1], switch(True))).add(keep("branch taken"))
    b.prog.add(Repeat(3, Sequence(keep("in a loop"), switch(False), keep("later in it"))))
    b.prog.add(Call(b.graph.add_function(switch(True)))).add(keep("after a call"))
    got = dict(zip(kept, b.run(*kept), strict=True))
    assert {name: by_chance(values) for name, values in got.items()} == {
        "branch not taken": False,
        "branch taken": True,
        "in a loop": False,
        "later in it": False,
        "after a call": True,
    }


def test_options_hold_until_a_step_and_again_after_load() -> None:
    b = Bench()
    b.prog.add(b.step("before"))
    set_stochastic_rounding(b.graph, b.prog, False)
    b.prog.add(b.step("after"))
    before, after = b.run("before", "after", options={"prng.enableStochasticRounding": True})
    assert by_chance(before) and not by_chance(after)
    assert b.engine is not None
    b.engine.run()
    assert not by_chance(b.engine.read_tensor("before"))  # what a run has set holds for the next
    b.engine.load_and_run(DEVICE)
    np.testing.assert_array_equal(b.engine.read_tensor("before"), before)


def test_a_tile_alone() -> None:
    b = Bench()
    set_floating_point_behaviour(b.graph, b.prog, FloatingPointBehaviour(), tile=2)
    b.prog.add(b.step("out"))
    fast, slow = (b.run("out", vertex_loop=loop)[0] for loop in (False, True))
    assert [by_chance(row) for row in fast] == [False, False, True, False]
    np.testing.assert_array_equal(fast, slow)


# --- exceptions -----------------------------------------------------------------------------------


def test_what_stops_a_run_is_what_the_program_said_last() -> None:
    b = Bench(Divide, 0.0)
    b.prog.add(b.step("before"))
    set_floating_point_behaviour(
        b.graph, b.prog, FloatingPointBehaviour(inv=False, div0=True, oflo=False)
    )
    set_floating_point_behaviour(b.graph, b.prog, QUIET)
    b.prog.add(b.step("after"))
    for values in b.run("before", "after"):
        assert np.isinf(values).all()
    with pytest.raises(FloatingPointTrapError, match="divide by zero"):  # at the first of the two
        b.run("before", options={"debug.floatPointOpException": True})
    set_floating_point_behaviour(
        b.graph, b.prog, FloatingPointBehaviour(inv=False, div0=True, oflo=False)
    )
    b.prog.add(b.step("last"))
    with pytest.raises(FloatingPointTrapError) as caught:
        b.run("last")
    number = Divide.compute.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        "A floating-point exception stopped the run: divide by zero encountered in divide.\n  "
        f"where: test_registers.py, line {number} (Divide.compute), vertex 0 (Divide, tile 0) of "
        "compute set 'last'; fields x, out; out[0] becomes inf\n  next:  check the inputs of the "
        "vertex. To let the run continue with infinity or NaN, leave out "
        "debug.floatPointOpException and debug.nanOverflowException, or call "
        "set_floating_point_behaviour before the compute set."
    )


@pytest.mark.parametrize(
    ("bit", "x", "what"),
    [("inv", np.inf, "invalid value"), ("div0", 0, "divide by zero"), ("oflo", 1e-39, "overflow")],
)
def test_each_bit_stops_its_own_exception_on_its_tile(bit: str, x: float, what: str) -> None:
    class Signal(Vertex):
        x: Input[Vector[FLOAT]]
        out: Output[Vector[FLOAT]]

        def compute(self) -> None:
            self.out = np.float32(1) / self.x + self.x * 0

    for chosen in ("inv", "div0", "oflo"):
        for tile in (1, 3):
            b = Bench(Signal, np.repeat([[1.0], [1.0], [1.0], [x]], 50, axis=1))
            behaviour = FloatingPointBehaviour(**{**vars(QUIET), chosen: True})
            set_floating_point_behaviour(b.graph, b.prog, behaviour, tile=tile)
            b.prog.add(b.step("out"))
            if chosen == bit and tile == 3:
                with pytest.raises(FloatingPointTrapError, match=f"{what} .*\\n.*tile 3"):
                    b.run("out")
            else:
                (got,) = b.run("out")
                assert np.isfinite(got[:3]).all() and not np.isfinite(got[3]).any()


def test_halves_that_overflow_become_nan_from_the_step_on() -> None:
    b = Bench(Narrow, 1e5)
    b.prog.add(b.step("before"))
    set_floating_point_behaviour(
        b.graph, b.prog, FloatingPointBehaviour(False, False, False, esr=True, nanoo=True)
    )
    b.prog.add(b.step("after"))
    for loop in (False, True):
        before, after = b.run("before", "after", vertex_loop=loop)
        assert np.isposinf(before).all() and np.isnan(after).all()


class Halve(Vertex):
    """out = how far x gets when it is halved until it is small: cycles depend on data."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            t = self.x[i]
            while t > 1:
                t = t / 2
            self.out[i] = 1 / t


def test_cycles_that_depend_on_data_are_those_of_the_batch() -> None:
    """They are counted whatever numbers do, unless something was reported; then they are
    unknown."""
    seen = []
    for behaviour in (None, FloatingPointBehaviour(), QUIET):
        b = Bench(Halve, np.arange(1, 201).reshape(TILES, 50))
        if behaviour is not None:
            set_floating_point_behaviour(b.graph, b.prog, behaviour)
        b.prog.add(Repeat(2, b.step("out")))
        b.run()
        assert b.engine is not None
        seen.append(
            [cs.cycles_per_tile.tolist() for cs in b.engine.report.compute_sets if cs.name == "out"]
        )
    assert seen[0] == seen[1] == seen[2] and min(seen[0][0]) > 0
    b = Bench(Halve, 0.0)
    set_floating_point_behaviour(
        b.graph, b.prog, FloatingPointBehaviour(inv=True, div0=False, oflo=False, nanoo=False)
    )
    b.prog.add(b.step("out"))
    np.testing.assert_array_equal(b.run("out")[0], np.inf)


# --- seeds ----------------------------------------------------------------------------------------


def test_seeds_given_back_repeat_what_followed_them() -> None:
    b = Bench()
    set_stochastic_rounding(b.graph, b.prog, True)
    b.prog.add(b.step("warm"))
    seeds = get_hw_seeds(b.graph, b.prog)
    b.prog.add(b.step("first"))
    again = get_hw_seeds(b.graph, b.prog, "again")
    b.prog.add(b.step("second"))
    set_hw_seeds(b.graph, seeds, b.prog)
    b.prog.add(b.step("third"))
    last = get_hw_seeds(b.graph, b.prog, "last")
    assert seeds.shape == (TILES, 6, 4) and seeds.dtype is UNSIGNED_INT
    assert [
        t
        for t, _ in enumerate(b.graph.get_tile_mapping(seeds))
        if b.graph.get_tile_mapping(seeds)[t]
    ] == [0, 1, 2, 3]
    for name, tensor in (("seeds", seeds), ("again", again), ("last", last)):
        b.graph.create_host_read(name, tensor)
    warm, first, second, third, s, t, u = b.run(
        "warm", "first", "second", "third", "seeds", "again", "last"
    )
    np.testing.assert_array_equal(first, third)
    np.testing.assert_array_equal(t, u)
    assert (first != second).any() and (first != warm).any() and (s != t).any(axis=2).all()


def test_the_generators_are_the_chips() -> None:
    """Words as the registers PRNG_0_0 … PRNG_1_1 hold them; each run that rounds takes one word of
    every worker."""
    b = Bench()
    before = get_hw_seeds(b.graph, b.prog, "before")
    set_stochastic_rounding(b.graph, b.prog, True)
    b.prog.add(Repeat(3, b.step("out")))
    after = get_hw_seeds(b.graph, b.prog, "after")
    for name, tensor in (("seeds", before), ("later", after)):
        b.graph.create_host_read(name, tensor)
    seeds, later = b.run("seeds", "later", options={"prng.seed": 42})
    wanted = generator.worker_states(42, TILES, 6)
    np.testing.assert_array_equal(
        seeds[..., 0] + (seeds[..., 1].astype(np.uint64) << np.uint64(32)), wanted[..., 0]
    )
    np.testing.assert_array_equal(
        seeds[..., 2] + (seeds[..., 3].astype(np.uint64) << np.uint64(32)), wanted[..., 1]
    )
    generator.draw(wanted, 3)
    np.testing.assert_array_equal(later.view("<u8")[..., 0], wanted[..., 0])


def test_other_seeds_give_other_bits() -> None:
    class Same(Vertex):
        seeds: InOut[Vector[UNSIGNED_INT]]

        def compute(self) -> None:
            self.seeds = self.seeds + 1

    b = Bench()
    set_stochastic_rounding(b.graph, b.prog, True)
    seeds = get_hw_seeds(b.graph, b.prog)
    b.prog.add(b.step("first"))
    compute_set = b.graph.add_compute_set("change")
    b.graph.add_vertices(compute_set, Same, np.arange(TILES), seeds=seeds.flatten(1, 3))
    b.prog.add(Execute(compute_set))
    set_hw_seeds(b.graph, seeds, b.prog)
    b.prog.add(b.step("second"))
    first, second = b.run("first", "second")
    assert (first != second).any(axis=1).all()


# --- what is seen of it ---------------------------------------------------------------------------


def test_the_steps_are_in_the_program_and_the_report_with_their_cycles() -> None:
    b = Bench()
    set_floating_point_behaviour(b.graph, b.prog, FloatingPointBehaviour(), tile=1)
    set_stochastic_rounding(b.graph, b.prog, False)
    set_hw_seeds(b.graph, get_hw_seeds(b.graph, b.prog), b.prog)
    assert b.prog.to_string().splitlines()[1:] == [
        "  Execute(set_floating_point_behaviour)",
        "  Execute(set_stochastic_rounding)",
        "  Execute(get_hw_seeds)",
        "  Execute(set_hw_seeds)",
    ]
    b.run()
    assert b.engine is not None
    report = b.engine.report
    names = [
        "set_floating_point_behaviour",
        "set_stochastic_rounding",
        "get_hw_seeds",
        "set_hw_seeds",
    ]
    assert [cs.name for cs in report.compute_sets] == names
    cycles = [cs.cycles_per_tile.tolist() for cs in report.compute_sets]
    assert cycles == [[0, 62, 0, 0], [62] * 4, [176] * 4, [14 + 27 * 6] * 4]
    assert [step.name for step in report.steps()] == names
    assert set(report.ways().values()) == {"batch"} and report.unbatched() == {}


def test_an_executable_keeps_them(tmp_path: Any) -> None:
    b = Bench()
    set_stochastic_rounding(b.graph, b.prog, True)
    b.prog.add(b.step("out"))
    (wanted,) = b.run("out")
    compile_graph(b.graph, b.prog).save(tmp_path / "x.ipu")
    engine = Engine(Executable.load(tmp_path / "x.ipu", codelets=[Narrow]))
    engine.load_and_run(DEVICE)
    np.testing.assert_array_equal(engine.read_tensor("out"), wanted)


def test_bits_are_those_of_fp_ctl() -> None:
    """INV 0, DIV0 1, OFLO 2, ESR 19, NANOO 20 (graphcore/ipu_assembly_support)."""
    assert (INV, DIV0, OFLO, ESR, NANOO) == (1, 2, 4, 0x80000, 0x100000)
    assert FloatingPointBehaviour().bits == 0x180007 and QUIET.bits == 0
    assert FloatingPointBehaviour(False, True, False, True, False).bits == DIV0 | ESR


def test_a_register_vertex_runs_by_itself_too() -> None:
    assert SetHwSeeds.call(seeds=np.arange(24)) == {}


REFUSED: list[tuple[Callable[[Bench], object], str]] = [
    (
        lambda b: set_stochastic_rounding(b.graph, b.prog, 1),
        """\
set_stochastic_rounding() was given 1 as enable.
  next:  give True or False.""",
    ),
    (
        lambda b: set_stochastic_rounding(b.graph, Repeat(1, b.prog), True),
        """\
set_stochastic_rounding() was given Repeat(1, Sequence(0 programs)) as prog, \
which is not a Sequence.
  next:  give the Sequence to which to append the step.""",
    ),
    (
        lambda b: set_stochastic_rounding(DEVICE, b.prog, True),
        """\
set_stochastic_rounding() was given Device(ipu2 model, 1 IPU, 4 tiles) as graph, \
which is not a Graph.
  next:  give a Graph.""",
    ),
    (
        lambda b: set_floating_point_behaviour(b.graph, b.prog, True),
        """\
set_floating_point_behaviour() was given True as behaviour, \
which is not a FloatingPointBehaviour.
  next:  give FloatingPointBehaviour(inv=…, div0=…, oflo=…, esr=…, nanoo=…).""",
    ),
    (
        lambda b: set_floating_point_behaviour(b.graph, b.prog, QUIET, tile=4),
        """\
set_floating_point_behaviour() was given the tile 4.
  next:  give a tile from 0 to 3. For all tiles, leave out the argument tile.""",
    ),
    (
        lambda b: set_hw_seeds(b.graph, b.x, b.prog),
        """\
set_hw_seeds() was given Tensor('x', FLOAT, shape (4, 50)) as seeds, \
but it needs a tensor of UNSIGNED_INT[4, 6, 4], with four words for each worker of each tile.
  next:  give the tensor that get_hw_seeds returned, or create such a tensor with \
graph.add_variable.""",
    ),
]


@pytest.mark.parametrize(("call", "text"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_what_is_refused_is_explained_and_changes_nothing(
    call: Callable[[Bench], object], text: str
) -> None:
    b = Bench()
    before = len(b.graph.variables), len(b.graph.compute_sets), len(b.prog.programs)
    with pytest.raises(IPUTeachError) as caught:
        call(b)
    assert str(caught.value) == text
    assert (len(b.graph.variables), len(b.graph.compute_sets), len(b.prog.programs)) == before
