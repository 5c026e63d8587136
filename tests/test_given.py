"""Every view of a run, given the report of it and a recording: of programs with and without
transfers by the host, on one IPU and on several."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import pytest
from recorded_programs import ROUND_TILES, ROUNDS, round_trip_recording

from ipu_teach import show
from ipu_teach.errors import InvalidOptionError

OF_REPORTS = ("balance", "code", "host", "liveness", "memory", "program", "tile", "timeline")
OF_RECORDINGS, OF_BOTH = ("run",), ("bsp", "exchange", "ring", "streaming")
# What is given one vertex or several runs.
OTHERS = {
    "Explore",
    "Picture",
    "View",
    "crossing",
    "estimate",
    "estimates",
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


@pytest.mark.parametrize("ipus", [1, 4])
@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("name", OF_REPORTS + OF_RECORDINGS + OF_BOTH)
def test_a_view_is_drawn_of_what_it_takes_and_refuses_the_other(
    name: str, host: bool, ipus: int
) -> None:
    recording = round_trip_recording(host, ipus)
    refused = {
        recording: "is not a report" if name in OF_REPORTS else "",
        recording.report: "is not a recording" if name in OF_RECORDINGS else "",
    }
    if name == "host" and not host:
        refused[recording.report] = "a run without transfers between host and device"
    if name == "ring" and ipus == 1:
        refused = dict.fromkeys(refused, "in which no IPU sends data to another IPU")
    if name == "streaming":
        refused = dict.fromkeys(refused, "a run without transfers to or from streaming memory")
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
    paths = [folder / "every_view.py", *folder.glob("test_*.py")]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    views = {n for n in show.__all__ if n.islower()} - {"explore", "images", "picture"}
    seen = set(re.findall(r"show\.(\w+)\(", texts)) | set(re.findall(r'^    "(\w+)"', texts, re.M))
    assert len(views) > 20 and views <= seen, "add it to VIEWS of tests/browser/every_view.py"


@pytest.mark.parametrize("host", [True, False])
def test_messages_carry_the_recorded_values_however_late_they_come(host: bool) -> None:
    told = show.exchange(round_trip_recording(host, 1)).scene.data["content"]
    there, last = (
        {
            f"{t} to {(t + on) % ROUND_TILES}: {name}[{t}] = {float(t + more)}"
            for t in range(ROUND_TILES)
        }
        for name, on, more in (("y", 1, 0), ("z", 2, ROUNDS))
    )
    assert [{*lines} for lines in told.values()][:: len(told) - 1] == [there, last]
