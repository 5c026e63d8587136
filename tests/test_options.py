"""Engine options: Poplar's names, what they change, and what is said of those that are not here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Vector, Vertex, compile_graph
from ipu_teach.errors import (
    ComputeSetRaceError,
    GraphMemoryAllocationError,
    InvalidOptionError,
    IPUTeachError,
    NotOfferedError,
    UninitialisedReadError,
)
from ipu_teach.program import Copy, Execute, Program

TILES = 2


class Total(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.x.sum()


def total(elements: int = 4, written: bool = True) -> tuple[Graph, Program]:
    graph = Graph(IPUModel(tiles_per_ipu=TILES, memory_bytes_per_tile=4096).create_device())
    x, out = graph.add_variable(FLOAT, (elements,), "x"), graph.add_variable(FLOAT, (), "out")
    for tensor in (x, out):
        graph.set_tile_mapping(tensor, 1)
    if written:
        graph.set_initial_value(x, 1)
    graph.create_host_read("out", out)
    step = graph.add_compute_set("total")
    graph.set_tile_mapping(graph.add_vertex(step, Total, x=x, out=out), 1)
    return graph, Execute(step)


def options(given: Any) -> Any:
    return Engine(*total(), options=given).options


def message(given: Any, kind: type[IPUTeachError] = InvalidOptionError) -> str:
    with pytest.raises(kind) as caught:
        options(given)
    return str(caught.value)


# --- names and values -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["debug.allowOutOfMemory", "debug.allow_out_of_memory"])
@pytest.mark.parametrize("value", [True, "true"])
def test_both_spellings_and_text(name: str, value: Any) -> None:
    assert options({name: value})["debug.allowOutOfMemory"] is True


def test_numbers_words_and_what_is_only_recorded() -> None:
    found = options(
        {
            "target.host_sync_timeout": "60",
            "exchange.streamBufferOverlap": "ANY",
            "opt.internalExchangeOptimisationTarget": "balanced",
            "auto_report.directory": "here",
            "profiler.blocks.bufferSize": 2000,
        }
    )
    assert found["target.hostSyncTimeout"] == 60
    assert found["exchange.streamBufferOverlap"] == "any"
    assert found["opt.internalExchangeOptimisationTarget"] == "balanced"
    assert found["autoReport.directory"] == "here"
    assert found["profiler.blocks.bufferSize"] == 2000
    assert found["debug.allowOutOfMemory"] is False
    with pytest.raises(TypeError):
        found["debug.verify"] = True


def test_options_of_the_host_and_of_stacks() -> None:
    found = options({"streamCallbacks.multiThreadMode": "collaborative"})
    assert found["streamCallbacks.multiThreadMode"] == "collaborative"
    assert options({"target.deterministicWorkers": "false", "target.gatewayMode": False})
    for name in ("debug.workerStackSizeInBytes", "target.workerStackSizeInBytes"):
        assert message({name: 4096}, NotOfferedError) == (
            f"{name} = 4096 is not offered by this kit.\n  next:  set the size in the machine: "
            "IPUModel(worker_stack_bytes=…)."
        )
    for unlike in ("debug.cycleEstimator", "foo.bar", "exchange.optimisationTarget"):
        assert "did you mean" not in message({unlike: 1})


def test_wrong_options() -> None:
    assert message({"debug.alowOutOfMemory": True}) == (
        "There is no engine option 'debug.alowOutOfMemory'.\n  next:  did you mean "
        "'debug.allowOutOfMemory'? give an option of Poplar's Engine, such as "
        "debug.allowOutOfMemory."
    )
    assert message({"debug.allowOutOfMemory": 1}) == (
        "The engine option 'debug.allowOutOfMemory' was given 1.\n  next:  give True or False."
    )
    assert message({"target.hostSyncTimeout": -1}) == (
        "The engine option 'target.hostSyncTimeout' was given -1.\n  next:  give a whole number, 0 "
        "or more."
    )
    assert message({"exchange.streamBufferOverlap": "some"}) == (
        "The engine option 'exchange.streamBufferOverlap' was given 'some'.\n"
        "  next:  give one of 'any', 'hostRearrangeOnly', 'none'."
    )
    assert message({"autoReport.directory": None}) == (
        "The engine option 'autoReport.directory' was given None.\n  next:  give text."
    )
    assert message(["debug.verify"]) == (
        "The engine's options are ['debug.verify'], which is not a dict.\n  next:  give a dict: "
        'options={"debug.allowOutOfMemory": True}.'
    )
    assert message({"debug.checkUninitialised": True, "debug.check_uninitialised": True}) == (
        "The option 'debug.checkUninitialised' was given twice.\n  next:  give the option once: both "
        "spellings mean the same option."
    )
    for odd in ({3: 4}, {None: 1}, {("a",): 1}, {"opt.": 1}, {"opt.x": [1]}, 5, "debug.verify"):
        assert message(odd)


@pytest.mark.parametrize(
    "name",
    [
        "autoReport.all",
        "debug.trace",
        "target.extendedMemory",
    ],
)
def test_what_is_not_here_is_refused_when_switched_on(name: str) -> None:
    assert options({name: False})[name] is False
    text = message({name: "true"}, NotOfferedError)
    assert text.startswith(f"{name} = True is not offered by this kit.\n  next:  ")


def test_stochastic_rounding_and_its_seed() -> None:
    found = options({"prng.enableStochasticRounding": "true", "prng.seed": "7"})
    assert (found["prng.enableStochasticRounding"], found["prng.seed"]) == (True, 7)
    found = options(None)
    assert (found["prng.enableStochasticRounding"], found["prng.seed"]) == (False, 0)
    assert message({"prng.seed": -1}) == (
        "The engine option 'prng.seed' was given -1.\n  next:  give a whole number, 0 or more."
    )


# --- the environment ------------------------------------------------------------------------------


def test_the_environment_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "IPU_TEACH_ENGINE_OPTIONS",
        '{"debug.allowOutOfMemory": "true", "target.hostSyncTimeout": 5}',
    )
    assert options(None)["debug.allowOutOfMemory"] is True
    found = options({"debug.allow_out_of_memory": False})
    assert (found["debug.allowOutOfMemory"], found["target.hostSyncTimeout"]) == (False, 5)


@pytest.mark.parametrize(
    "text", ["{", "[]", "3", "[" * 100_000, '{"debug.verify": ' + "9" * 5000 + "}"]
)
def test_an_environment_that_cannot_be_read_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("IPU_TEACH_ENGINE_OPTIONS", text)
    found = message(None)
    assert found.endswith(
        "which is not a JSON object.\n"
        "  where: environment variable IPU_TEACH_ENGINE_OPTIONS\n"
        "  next:  write IPU_TEACH_ENGINE_OPTIONS='{\"debug.allowOutOfMemory\": true}', or unset it."
    )


def test_a_wrong_option_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPU_TEACH_ENGINE_OPTIONS", '{"debug.verify": "maybe"}')
    assert message(None) == (
        "The engine option 'debug.verify' was given 'maybe'.\n"
        "  where: environment variable IPU_TEACH_ENGINE_OPTIONS\n  next:  give True or False."
    )


# --- what they do ---------------------------------------------------------------------------------


def test_out_of_memory_is_refused_with_the_report() -> None:
    graph, _ = total()
    big = graph.add_variable(FLOAT, (3000,), "big")
    graph.set_tile_mapping(big, 0)
    with pytest.raises(GraphMemoryAllocationError) as caught:
        Engine(graph, Copy(big[:1], big[1:2]))
    assert caught.value.report.memory.bytes_per_tile[0] >= 12000
    assert caught.value.report.memory.by_variable(0)["big"] == 12000


@pytest.mark.parametrize("elements", [1000, 5000])
def test_out_of_memory_may_be_compiled_and_not_loaded(elements: int) -> None:
    graph, program = total(elements)
    big = graph.add_variable(FLOAT, (3000,), "big")
    graph.set_tile_mapping(big, 1)
    executable = compile_graph(graph, program, {"debug.allowOutOfMemory": True})
    assert repr(executable) == "Executable(1 program, 2 tiles, out of memory)"
    engine = Engine(executable)
    assert engine.report.memory.by_variable(1)["big"] == 12000
    with pytest.raises(
        GraphMemoryAllocationError, match="Out of memory: Cannot fit all variable data"
    ) as caught:
        engine.load(IPUModel(tiles_per_ipu=TILES, memory_bytes_per_tile=4096).create_device())
    assert caught.value.report is not None


def test_checks_by_option() -> None:
    graph, program = total(written=False)
    device = IPUModel(tiles_per_ipu=TILES, memory_bytes_per_tile=4096).create_device()
    lax = Engine(graph, program, {"debug.checkUninitialised": False})
    lax.load(device)
    lax.run()
    assert np.isnan(lax.read_tensor("out"))
    for given in ({"debug.checkUninitialised": True}, {"debug.verify": True}):
        engine = Engine(graph, program, given, strict=False)
        engine.load(device)
        with pytest.raises(UninitialisedReadError):
            engine.run()


def test_verify_checks_for_races() -> None:
    graph, program = total()
    step = program.compute_set  # type: ignore[attr-defined]
    out = graph.host_accesses["out"].tensor
    other = graph.add_constant(FLOAT, (1,), 1)
    graph.set_tile_mapping(other, 0)
    graph.set_tile_mapping(graph.add_vertex(step, Total, x=other, out=out), 0)
    Engine(graph, program, strict=False)
    with pytest.raises(ComputeSetRaceError):
        Engine(graph, program, {"debug.verify": True}, strict=False)


@pytest.mark.parametrize(
    "given", [{"debug.instrument": False}, {"debug.computeInstrumentationLevel": "off"}]
)
def test_instrumentation_may_be_off(given: dict[str, Any]) -> None:
    graph, program = total()
    engine = Engine(graph, program, given)
    engine.load(IPUModel(tiles_per_ipu=TILES, memory_bytes_per_tile=4096).create_device())
    engine.run()
    assert (engine.report.num_steps, engine.report.unrecorded_steps) == (0, 1)
