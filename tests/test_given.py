"""Every view of a run, given the report of it and a recording: of programs with and without
transfers by the host, on one IPU and on several."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from pathlib import Path

import numpy as np
import pytest

from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Vertex, show
from ipu_teach.errors import InvalidOptionError
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.report import Recording

TILES, ROUNDS = 12, 60  # so many rounds that not all of their messages can be told
OF_REPORTS = ("balance", "code", "host", "liveness", "memory", "program", "tile", "timeline")
OF_RECORDINGS, OF_BOTH = ("run",), ("bsp", "exchange", "ring", "streaming")
# What is given one vertex or several runs.
OTHERS = {
    "Explore",
    "Picture",
    "View",
    "crossing",
    "explore",
    "formats",
    "images",
    "machine",
    "numbers",
    "patches",
    "picture",
    "pipeline",
    "recompute",
    "sparse",
    "sweep",
}
OTHERS |= {"tiles", "turns"}


class More(Vertex):
    before: Input[FLOAT]
    after: Output[FLOAT]

    def compute(self) -> None:
        self.after = self.before + 1


@cache
def recorded(host: bool, ipus: int) -> Recording:
    """`x` goes a tile on and comes back with one more, round after round; then it goes two on."""
    device = IPUModel("ipu2", num_ipus=ipus, tiles_per_ipu=TILES // ipus).create_device()
    graph = Graph(device)
    x, y, z = (graph.add_variable(FLOAT, (TILES,), name) for name in "xyz")
    graph.set_initial_value(x, np.arange(TILES))
    more = graph.add_compute_set("more")
    for tile in range(TILES):
        vertex = graph.add_vertex(more, More, before=y[tile], after=x[tile])
        for part, on in ((x[tile], 0), (y[tile], 1), (z[tile], 2), (vertex, 0)):
            graph.set_tile_mapping(part, (tile + on) % TILES)
    steps = Sequence(Repeat(ROUNDS, Sequence(Copy(x, y), Execute(more))), Copy(x, z))
    if host:
        into, out = (
            graph.add_host_to_device_fifo("in", FLOAT, TILES),
            graph.add_device_to_host_fifo("out", FLOAT, TILES),
        )
        steps = Sequence(Copy(into, x), steps, Copy(z, out))
    engine = Engine(graph, steps)
    engine.load(device)
    if host:
        engine.connect_stream("in", np.arange(TILES, dtype=np.float32))
        engine.connect_stream("out", np.empty(TILES, np.float32))
    recording = engine.record(x, y, z)
    engine.run()
    return recording


@pytest.mark.parametrize("ipus", [1, 4])
@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("name", OF_REPORTS + OF_RECORDINGS + OF_BOTH)
def test_a_view_is_drawn_of_what_it_takes_and_refuses_the_other(
    name: str, host: bool, ipus: int
) -> None:
    recording = recorded(host, ipus)
    refused = {
        recording: "is not a report" if name in OF_REPORTS else "",
        recording.report: "is not a recording" if name in OF_RECORDINGS else "",
    }
    if name == "host" and not host:
        refused[recording.report] = "in which nothing goes between host and device"
    if name == "ring" and ipus == 1:
        refused = dict.fromkeys(refused, "in which no IPU sends to another")
    if name == "streaming":
        refused = dict.fromkeys(refused, "in which nothing goes to or from streaming memory")
    for given, why in refused.items():
        if why:
            with pytest.raises(InvalidOptionError, match=f"(?s){why}.*next: "):
                getattr(show, name)(given)
        else:
            view = getattr(show, name)(given)
            assert view.data and escape(view.alt) in view._repr_html_() and len(view.scene.frames)


def test_no_view_of_a_run_is_left_out() -> None:
    assert {*OF_REPORTS, *OF_RECORDINGS, *OF_BOTH} == {*show.__all__} - OTHERS, (
        "name it here by what it is given, or among OTHERS"
    )


def test_every_view_is_looked_at_in_a_browser() -> None:
    folder = Path(__file__).parent / "browser"
    texts = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("test_*.py"))
    views = {n for n in show.__all__ if n.islower()} - {"explore", "images", "picture"}
    seen = set(re.findall(r"show\.(\w+)\(", texts)) | set(re.findall(r'^    "(\w+)"', texts, re.M))
    assert len(views) > 20 and views <= seen, "add it to VIEWS of tests/browser/test_every_view.py"


@pytest.mark.parametrize("host", [True, False])
def test_messages_carry_the_recorded_values_however_late_they_come(host: bool) -> None:
    told = show.exchange(recorded(host, 1)).scene.data["content"]
    there, last = (
        {f"{t} to {(t + on) % TILES}: {name}[{t}] = {float(t + more)}" for t in range(TILES)}
        for name, on, more in (("y", 1, 0), ("z", 2, ROUNDS))
    )
    assert [{*lines} for lines in told.values()][:: len(told) - 1] == [there, last]
