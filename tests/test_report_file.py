"""Reports in files: what is read back answers as what was written did, and a file that lies is
refused or harmless."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from brute_force import random_device, random_space
from codelets import Sum
from damage import lied, parts, refuses_truncated, survives_flips, whole
from engine_parts import machine_of
from graphs import Space, random_superstep
from hypothesis import HealthCheck, given, settings, strategies as st
from programs import tut4
from small_reports import small_engine
from two_tile_ipus import uneven_ipus

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report, print_profile_summary, show
from ipu_teach.compile.programs import Node
from ipu_teach.cost.exchange import Traffic
from ipu_teach.errors import (
    GraphMemoryAllocationError,
    InvalidMachineModelError,
    InvalidOptionError,
    NotOfferedError,
    ReportLoadError,
)
from ipu_teach.poplibs import poputil
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.report.log import StepLog
from ipu_teach.report.writer import REPORT

RANDOMLY = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=30)
AGAIN = "\n  next:  save it again; a file that was changed by hand cannot be loaded."


def small() -> Report:
    engine = small_engine()
    engine.run(0, "first")
    engine.run(1)
    return engine.report


def answers(report: Report) -> dict[str, Any]:
    """Everything that a report says, as plain values."""
    out = io.StringIO()
    print_profile_summary(report, show_execution_steps=True, show_var_storage=True, file=out)
    memory, profile = report.memory, report.profile
    places = range(len(memory.liveness.places))
    return {
        "summary": out.getvalue(),
        "repr": repr(report),
        "target": report.target,
        "sums": [
            a.tolist()
            for a in (
                report.compute_cycles_per_tile,
                report.active_cycles_per_tile,
                report.exchange_cycles_per_tile,
                report.sync_cycles_per_tile,
                *report.exchange_bytes_per_tile,
                memory.bytes_per_tile,
                memory.always_live_bytes_per_tile,
                memory.gaps_per_tile,
            )
        ],
        "memory": (
            memory.by_category(),
            memory.by_region(),
            memory.by_variable(),
            memory.bytes_by_place(),
        ),
        "live": [memory.live_at(place) for place in places],
        "steps": [(s.index, s.kind, s.name, s.start, s.cycles, s.step) for s in report.steps()],
        "runs": report.runs,
        "facts": (
            profile.variables,
            profile.codelets,
            profile.compute_sets,
            profile.steps,
            profile.edges,
        ),
        "tree": [
            (d, n.kind, n.name, n.step, n.count, n.cases)
            for p in profile.programs
            for d, n in p.walk()
        ],
        "compute sets": report.compute_sets.records(),
        "phases": [
            [(p.kind, p.cycles, p.exchange) for p in report.phases(n)]
            for n in range(len(profile.steps))
        ],
        "messages": [
            [
                (t.source.tolist(), t.size.tolist(), [r.tolist() for r in t.receivers])
                for t in report.transfers(n)
            ]
            for n in range(len(profile.steps))
        ],
        "cycles": (
            report.total_cycles,
            report.cycles_by_codelet(),
            report.unbatched(),
            report.unknown_codelets,
        ),
    }


def test_a_saved_report_answers_as_the_live_one(tmp_path: Path) -> None:
    live = small()
    live.save(tmp_path / "run.ipureport")
    opened = Report.open(tmp_path / "run.ipureport")
    assert answers(opened) == answers(live)
    assert opened.digest() == live.digest() and opened.serialize() == live.serialize()
    assert os.listdir(tmp_path) == ["run.ipureport"]
    assert show.bsp(opened).html() == show.bsp(live).html()


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_random_programs_come_back_whole(rng: Random) -> None:
    space: Space = random_space(rng, random_device(rng))
    programs = Sequence(
        *(Execute(random_superstep(rng, space).compute_set) for _ in range(rng.randint(1, 3)))
    )
    engine = Engine(space.graph, Repeat(rng.randint(1, 3), programs), strict=False)
    engine.load_and_run(space.device)
    opened = Report.deserialize(engine.report.serialize())
    assert answers(opened) == answers(engine.report)
    # Sums agree, however they are taken.
    memory, report = opened.memory, opened
    assert sum(memory.by_category().values()) == int(memory.bytes_per_tile.sum())
    for tile in range(report.target.num_tiles):
        assert sum(memory.by_category(tile).values()) == memory.bytes_per_tile[tile]
    whole = sum(step.cycles for step in report.steps())  # of several IPUs each goes through its own
    assert (
        report.total_cycles == whole or report.target.num_ipus > 1 and report.total_cycles < whole
    )
    assert sum(
        t.received for n in report.step_numbers.tolist() for t in report.transfers(n)
    ) == int(report.exchange_bytes_per_tile[0].sum())


def test_another_rate_in_an_opened_report() -> None:
    live = small()
    opened = Report.deserialize(live.serialize())
    for change in (
        {"exchange_bytes_per_cycle": 8},
        {"host_bytes_per_second": 1e9},
        {"relative_sync_delay": "NO_DELAY"},
    ):
        assert answers(opened.what_if(**change)) == answers(live.what_if(**change))
    assert opened.what_if(memory_bytes_per_tile=100).memory.by_region()["Overflow"] > 0
    with pytest.raises(InvalidMachineModelError) as caught:
        opened.what_if(num_worker_contexts=3)
    assert str(caught.value) == (
        "what_if() cannot change num_worker_contexts in a report that was read from a file, because "
        "the file does not contain the vertices.\n  next:  call engine.report.what_if() in the "
        "process that runs the program. For a report from a file, what_if() can change the rates of "
        "exchange, sync, host and clock."
    )


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from small_reports import small_engine
engine = small_engine()
engine.run()
print(engine.report.digest())
"""


def test_the_digest_is_the_same_in_every_process() -> None:
    script = SCRIPT.format(tests=str(Path(__file__).parent))
    found = set()
    for seed in ("1", "77"):
        env = dict(os.environ, PYTHONHASHSEED=seed)
        done = subprocess.run(
            [sys.executable, "-c", script], env=env, text=True, capture_output=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    engine = small_engine()
    engine.run()
    assert found == {engine.report.digest() + "\n"}


def test_the_digest_sees_what_changes() -> None:
    report = small()
    engine = small_engine()
    engine.run(0, "first")
    assert engine.report.digest() != report.digest()
    engine.run(1)
    assert engine.report.digest() == report.digest()
    assert report.what_if(exchange_bytes_per_cycle=8).digest() != report.digest()


def test_a_program_that_does_not_fit_leaves_a_report_that_opens() -> None:
    device = IPUModel(tiles_per_ipu=4).create_device()
    graph = Graph(device)
    culprit = graph.add_variable(FLOAT, 600_000, "culprit")
    fine = graph.add_variable(FLOAT, 4000, "fine")
    graph.set_tile_mapping(culprit[:400_000], 2)
    graph.set_tile_mapping(culprit[400_000:], 1)
    poputil.map_tensor_linearly(graph, fine)
    with pytest.raises(GraphMemoryAllocationError) as caught:
        Engine(graph, Copy(culprit[:4000], fine))
    report = Report.deserialize(caught.value.report.serialize())
    fullest = int(np.argmax(report.memory.bytes_per_tile))
    assert fullest == 2 and next(iter(report.memory.at_fullest(2).items())) == (
        "culprit",
        1_600_000,
    )
    assert report.num_steps == 0 and report.memory.by_region()["Overflow"] > 0
    assert report.profile.variables[0].line.endswith(
        'culprit = graph.add_variable(FLOAT, 600_000, "culprit")'
    )


def test_the_chain_of_products(tmp_path: Path) -> None:
    shapes = [(90, 60), (60, 30), (30, 20)]
    _, live, summary = tut4.main([np.ones(shape, np.float32) for shape in shapes])
    opened = Report.deserialize(live.serialize())
    out = io.StringIO()
    print_profile_summary(opened, show_execution_steps=True, file=out)
    assert out.getvalue() == summary
    assert opened.profile.compute_sets[0].parts[0].flops == 2 * 90 * 60 * 30


# --- long runs ------------------------------------------------------------------------------------


def test_a_long_run_is_counted_to_its_end_and_kept_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ipu_teach.report.log.MOST_RUNS", 2)
    engine = small_engine()
    machine_of(engine).log = StepLog(len(engine.executable.compiled.steps), 6)
    for _ in range(4):
        engine.run()
    report = engine.report
    assert (report.num_steps, len(report.step_numbers), report.steps_not_kept) == (16, 6, 10)
    assert report.total_cycles == 4 * 1204 and len(report.steps()) == 6
    assert [(r.first, r.last) for r in report.runs] == [(0, 4), (4, 8)]
    assert answers(Report.deserialize(report.serialize())) == answers(report)
    out = io.StringIO()
    print_profile_summary(report, [], show_execution_steps=True, file=out)
    assert out.getvalue().endswith(
        "  … and 10 more, which are counted and whose order was not kept\n"
    )


def test_a_million_steps() -> None:
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    a = graph.add_variable(FLOAT, 2, "a")
    graph.set_tile_mapping(a, 0)
    engine = Engine(graph, Repeat(1_000_000, Sequence(Copy(a[:1], a[1:]))), strict=False)
    engine.load_and_run(device)
    report = engine.report
    assert report.num_steps == 1_000_000 and report.steps_not_kept == 0
    assert report.total_cycles == 1_000_000 * report.step_cost(0).cycles
    data = report.serialize()
    assert len(data) < 100_000
    assert [s.index for s in Report.deserialize(data).steps(999_999)] == [999_999]


def test_a_million_vertices() -> None:
    """1.1 million vertices on a full chip, 747 or 748 on each of its tiles."""
    device, count = IPUModel().create_device(), 1_100_000
    graph = Graph(device)
    x, out = graph.add_variable(FLOAT, (count, 2), "x"), graph.add_variable(FLOAT, (count,), "out")
    tiles = np.arange(count) * 1472 // count
    compute_set = graph.add_compute_set("sums")
    for tensor in (x, out):
        graph.set_tile_mapping(tensor, tiles)
    graph.add_vertices(compute_set, Sum, tiles, x=x, out=out)
    graph.set_initial_value(x, 0.5)
    engine = Engine(graph, Execute(compute_set))
    engine.load_and_run(device)
    report = engine.report
    again = Report.deserialize(report.serialize())
    assert answers(again) == answers(report)
    assert again.compute_sets[0].num_vertices == count
    held = dict(zip(*np.unique(np.bincount(tiles), return_counts=True), strict=True))
    assert sorted(held) == [747, 748] and sum(held.values()) == 1472
    busiest = again.compute_sets[0].cycles_per_tile
    # A tile's time is six times that of its busiest worker: ceil(747 / 6) and ceil(748 / 6) are
    # both 125 vertices.
    assert busiest.min() == busiest.max() and busiest.max() % (6 * 125) == 0
    sizes = {v.name: v.bytes for v in again.variables}
    assert sizes["x"] == 8 * count and sizes["out"] == 4 * count


# --- files that are wrong -------------------------------------------------------------------------


def refusal(data: bytes) -> str:
    with pytest.raises(ReportLoadError) as caught:
        Report.deserialize(data)
    return str(caught.value)


def ask(report: Report) -> None:
    """Ask an odd report everything: it may have odd answers."""
    answers(report)
    show.bsp(report)


def test_what_is_no_report(tmp_path: Path) -> None:
    again = "\n  next:  load a file that Report.save wrote; if it was copied, copy it again."
    assert (
        refusal(b"GIF89a")
        == f"The file is not a valid report, or it is damaged: BadZipFile: 'File is not a zip file'.{again}"
    )
    assert refusal(whole("[" * 10**6, {})).startswith(
        "The file is not a valid report, or it is damaged: RecursionError: "
    )
    header, arrays = parts(small().serialize())
    assert refusal(whole(header, arrays, zipfile.ZIP_DEFLATED)).startswith(
        "The zip file was not written by this kit"
    )
    assert refusal(whole({**header, "format": "ipu_teach executable"}, arrays)) == (
        "The file is a zip file, but contains no report of this kit.\n  next:  load a file that Report.save "
        "wrote."
    )
    assert refusal(whole({**header, "version": REPORT.version + 1}, arrays)) == (
        f"The report has format version {REPORT.version + 1}, but this kit reads only up to version "
        f"{REPORT.version}.\n  next:  update ipu_teach, or save the report again with this version."
    )
    with pytest.raises(ReportLoadError) as caught:
        Report.open(tmp_path / "gone.ipureport")
    assert str(caught.value).endswith(
        "No such file or directory.\n  next:  give the path of a file that Report.save wrote."
    )
    with pytest.raises(
        ReportLoadError,
        match=r"^deserialize\(\) was given 'x', which is not bytes\.\n  next:  give the bytes that "
        "serialize",
    ):
        Report.deserialize("x")  # type: ignore[arg-type]
    for path in ("", 3, None, "a\0b"):
        with pytest.raises(InvalidOptionError):
            small().save(path)  # type: ignore[arg-type]


def test_the_format_holds_what_the_model_has() -> None:
    """Another field of these needs another version of the format."""
    assert REPORT.version == 5
    assert set(Traffic.__dataclass_fields__) == {
        "received",
        "sent",
        "together_received",
        "together_sent",
        "sources",
        "sends",
        "link_received",
        "link_sent",
        "links",
        "stayed",
        "pieces",
        "late",
        "far",
        "words",
    }
    assert {"kind", "name", "step"} <= set(Node.__dataclass_fields__)


def test_files_of_older_versions_are_read() -> None:
    """The first had no settings and no bytes of stream copies, and did not say who wrote it;
    neither says who priced it."""
    old, newer = (
        Report.open(Path(__file__).parent / "data" / f"report_{version}.ipureport")
        for version in (1, 2)
    )
    assert {k: v for k, v in answers(old).items() if k != "host"} == {
        k: v for k, v in answers(newer).items() if k != "host"
    }
    new = Report.sample("products")
    assert old.vertex_counts() == new.vertex_counts() and old.digest() == newer.digest()
    assert [(v.name, v.bytes) for v in old.variables] == [(v.name, v.bytes) for v in new.variables]
    assert (
        old.target.codelet_prices == newer.target.codelet_prices == "by hand"
        and str(old.poplar_version) == "0.0.0"
    )
    assert answers(Report.deserialize(old.serialize())) == answers(old)
    (event,), (value,) = old.host.events, old.host.values
    assert (event.name, event.duration, event.bytes, event.direction, old.host.dropped) == (
        "compile",
        0.5,
        0,
        "",
        3,
    )
    assert (value.name, value.unit, value.time, value.value, value.series) == (
        "loss",
        "nats",
        1.0,
        2.5,
        "",
    )
    assert Report.deserialize(old.serialize()).serialize() == old.serialize()


def test_a_file_of_version_3_keeps_its_times() -> None:
    """It is of two IPUs, which waited for each other before every step: its steps follow each
    other, and end as they did."""
    report = Report.open(Path(__file__).parent / "data" / "report_3.ipureport")
    starts = [0, 763, 1523, 2463, 3403, 4589, 5529, 6715, 7655, 8841]
    assert report.target.num_ipus == 2 and report.num_steps == 10 and report.total_cycles == 9619
    assert [(s.start, s.end) for s in report.steps()] == list(
        zip(starts, [*starts[1:], 9619], strict=True)
    )
    assert report.host_bytes == 32 and report.instrumentation_settings.program_filter == "both"
    assert report.digest() == "4a686f4ff5edb9311e75182a78fd1a8d495e8bb73860b467e99f579caf319c80"
    assert answers(Report.deserialize(report.serialize())) == answers(report)


def test_a_file_that_does_not_say_how_many_replicas_ran_tells_it_by_the_names() -> None:
    graph = Graph(IPUModel(num_ipus=4, tiles_per_ipu=1).create_device(), replication_factor=2)
    x = graph.add_variable(FLOAT, (1,), "x")
    graph.set_tile_mapping(x, 1)
    graph.set_initial_value(x, 1)
    report = Engine(graph, Sequence()).report
    header, arrays = parts(report.serialize())
    assert header["replicas"] == report.replicas == 2
    header["replicas"] = 3
    assert refusal(whole(header, arrays)) == (
        "The report is damaged: 3 is not a number that shares out 4 IPUs.\n  where: "
        "header.replicas\n  next:  save it again; a file that was changed by hand cannot be loaded."
    )
    del header["replicas"]
    older = Report.deserialize(whole(header, arrays))
    assert older.replicas == 2 and older.digest() == report.digest()
    assert "replicas" not in parts(small().serialize())[0]  # one, and no name says another


def test_truncated_files() -> None:
    refuses_truncated(small().serialize(), Report.deserialize, ReportLoadError, 211)


def test_flipped_bits() -> None:
    survives_flips(small().serialize(), Report.deserialize, ReportLoadError, 5)


HOSTILE = [
    -1,
    0,
    1,
    2,
    10**6,
    2**31,
    2**40,
    2**63,
    2**70,
    None,
    True,
    "x",
    "=",
    "u1",
    [],
    {},
    [1],
    1.5,
    ["=", 3, 2**27],
]


@pytest.mark.parametrize("seed", range(5))
def test_random_lies_are_refused_or_harmless(seed: int) -> None:
    rng = Random(seed)
    header, arrays = parts((small() if seed < 4 else uneven_ipus()).serialize())
    for _ in range(100):
        changed = lied(header, HOSTILE, rng)
        try:
            report = Report.deserialize(whole(changed, arrays))
        except ReportLoadError as error:
            assert str(error)
        else:
            if report.target.num_tiles < 1000 and report.num_steps < 1000:
                ask(report)


@pytest.mark.parametrize(
    ("way", "value", "text"),
    [
        (
            ("programs",),
            [99],
            "The report is damaged: 99 is not a whole number from 0 to 4.\n  where: "
            "header.programs[0]",
        ),
        (
            ("memory", "tile"),
            ["=", 7, 8],
            "The report is damaged: 7 is not a whole number from 0 to 1.",
        ),
        (
            ("memory", "always"),
            {"Gold": ["=", 1, 2]},
            "The report is damaged: {'Gold': ['=', 1, 2]} is not bytes by category.",
        ),
        (
            ("run", "order"),
            ["=", 9, 5],
            "The report is damaged: 9 is not a whole number from 0 to 3.",
        ),
        (
            ("run", "order"),
            ["=", 3, 5],
            "The report is damaged: ['=', 3, 5] is not the order of the steps that are counted.",
        ),
        (("target", "version"), "ipu9", "The report is damaged: There is no machine 'ipu9'."),
        (
            ("target", "fields"),
            {"tiles_per_ipu": 2**40},
            "The report is damaged: A model cannot have tiles_per_ipu = 1099511627776.",
        ),
        (("edges",), -1, "The report is damaged: -1 is not a whole number from 0 to "),
        (("costs", 0, "host"), 1e400, "The report is damaged: inf is not a number from 0 to "),
        (
            ("costs", 0, "compute"),
            ["i8", 0, 2],
            "The report is damaged: ['i8', 0, 2] is not a column that ends within the file.",
        ),
        (("costs", 1, "codelets"), {"Gone": 3}, "The report is damaged: [{'kind': "),
        (("variables", 0), [], "The report is damaged: "),
        (
            ("notes", "ways", 0),
            "bath",
            "The report is damaged: 'bath' is not how a codelet runs.\n  where: "
            "header.notes.ways[0]",
        ),
    ],
)
def test_headers_that_lie(way: tuple[Any, ...], value: Any, text: str) -> None:
    header, arrays = parts(small().serialize())
    place = header
    for key in way[:-1]:
        place = place[key]
    place[way[-1]] = value
    assert refusal(whole(header, arrays)).startswith(text)


def test_a_tree_that_unfolds_without_end() -> None:
    header, arrays = parts(small().serialize())
    last = len(header["nodes"])
    header["nodes"] += [["Sequence", "", -1, 1, "", [], [last + i - 1] * 2] for i in range(60)]
    assert "is not a program of at most 1,000,000 nodes." in refusal(whole(header, arrays))
    header["nodes"] = header["nodes"][:last] + [
        ["Sequence", "", -1, 1, "", [], [last + i - 1]] for i in range(5000)
    ]
    header["programs"] = [*header["programs"], len(header["nodes"]) - 1]
    refusal_or_report = whole(header, arrays)
    try:
        ask(Report.deserialize(refusal_or_report))
    except ReportLoadError as error:
        assert "places" in str(error) or "damaged" in str(error)


@pytest.mark.parametrize("runs", [0, 1])
def test_a_program_without_steps_comes_back(runs: int) -> None:
    device = IPUModel("ipu2", tiles_per_ipu=3).create_device()
    graph = Graph(device)
    graph.set_tile_mapping(graph.add_variable(FLOAT, (4,), "x"), 0)
    engine = Engine(graph, Repeat(3, Sequence()))
    engine.load(device)
    for _ in range(runs):
        engine.run()
    back = Report.deserialize(engine.report.serialize())
    assert (
        back.digest() == engine.report.digest()
        and back.num_steps == 0
        and len(back.execution.runs) == runs
    )
    assert [row.kind for row in back.insights()] == ["fit", "skew", "always live"]


# --- samples --------------------------------------------------------------------------------------


def test_the_samples_are_what_their_script_makes() -> None:
    place = Path(__file__).resolve().parents[1] / "datasets" / "make_reports.py"
    spec = importlib.util.spec_from_file_location("make_reports", place)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules["make_reports"] = script
    spec.loader.exec_module(script)
    made = script.samples()
    assert {path.name for path in script.SAMPLES.iterdir()} == set(made)
    for name, data in made.items():
        assert (script.SAMPLES / name).read_bytes() == data, "run datasets/make_reports.py"
        assert len(data) < 25_000


def test_a_sample_can_be_looked_at() -> None:
    report = Report.sample()
    assert report.num_steps == 9 and report.execution.runs[0].name == "three products"
    show.bsp(report)
    assert Report.sample("too_large").memory.at_fullest(5) == {
        "everything": 800_000,
        "half": 15 * 2000,
    }
    with pytest.raises(InvalidOptionError) as caught:
        Report.sample("product")
    assert str(caught.value) == (
        "There is no sample report 'product'.\n  next:  did you mean 'products'? choose one of "
        "'products', 'spread', 'too_large'."
    )


@pytest.mark.parametrize(
    ("most", "says"),
    [
        ("MOST_CELLS", "of 4 compiled steps, 2 tiles and 6 variables is"),
        ("MOST_NODES", "of a program of more than 0 nodes is"),
        ("MOST_MESSAGES", "with an exchange of 1 messages is"),
    ],
)
def test_what_is_too_large_to_save(most: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"ipu_teach.report.writer.{most}", 0)
    with pytest.raises(NotOfferedError) as caught:
        small().serialize()
    assert str(caught.value).startswith(f"A report {says} too large to be saved.\n  next:  ")


def test_a_file_of_version_4_says_streaming_memory_and_knows_no_rows() -> None:
    """It was saved when a transfer with a remote buffer was told as one with the host."""
    report = Report.open(Path(__file__).parent / "data" / "report_4.ipureport")
    assert (report.streaming_bytes, report.host_bytes) == (2 * 2 * 32, 2 * 32)
    assert report.streaming_cycles == 2 * report.host_exchange_cycles > 0
    assert [o.name for o in report.operations()] == ["streaming memory", "copies", "host exchange"]
    assert report.row_moves == [] and report.host.buffers() == ()
    assert (
        report.total_cycles == 5802
        and report.digest() == "266b4019d16a5557525630fd5fe526570b37fe3220be43feedf9d271a7f3c479"
    )
    assert answers(Report.deserialize(report.serialize())) == answers(report)
