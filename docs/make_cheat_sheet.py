"""The kit on two pages for print: `python3 run.py cheatsheet`, or with `--check` or `--pdf FILE`.

`docs/cheat_sheet.html` is made of what tests hold true: the machines of `ipu_teach.target`, the
glossary, README's program and its picture, the rows and examples of `docs/poplar.md`, the errors'
own words. Chosen here is only what stands on it. Chromium, where it is, prints the PDF beside it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from urllib.parse import quote

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

import make_poplar_table  # noqa: E402
import poplar_rows  # noqa: E402

import ipu_teach  # noqa: E402
from bench.browser import FLAGS, find_chromium  # noqa: E402
from ipu_teach import Engine, errors, show, types  # noqa: E402
from ipu_teach.program import Program  # noqa: E402
from ipu_teach.show.svg import svg  # noqa: E402
from ipu_teach.target import Target, make_target  # noqa: E402

PAGE = DOCS / "cheat_sheet.html"
FIGURES = {
    "tiles": lambda t: f"{t.tiles_per_ipu:,}",
    "workers a tile": lambda t: f"{t.num_worker_contexts}",
    "memory of a tile, bytes": lambda t: f"{t.bytes_per_tile:,}",
    "memory of the chip, MiB": lambda t: f"{t.bytes_per_ipu / 2**20:,.0f}",
    "clock, GHz": lambda t: f"{t.clock_frequency / 1e9:g}",
    "FLOATs, HALFs at once": lambda t: ", ".join(
        str(t.get_vector_width(dtype)) for dtype in (types.FLOAT, types.HALF)
    ),
    "exchange of a tile, bytes a cycle": lambda t: f"{t.exchange_bytes_per_cycle}",
    "sync within an IPU, cycles": lambda t: f"{t.internal_sync_cycles}",
    "and of several IPUs, cycles more": lambda t: f"{t.external_sync_cycles}",
    "links to other IPUs, GB/s": lambda t: (
        f"{t.link_bytes_per_cycle * t.clock_frequency / 1e9:.3g}"
    ),
    "host, GB/s": lambda t: f"{t.host_bytes_per_second / 1e9:g}",
    "streaming memory, GB": lambda t: f"{t.streaming_bytes / 1e9:g}",
}
MACHINES = "ipu1, ipu2, bow, c600"
PHASES = "BSP, superstep, sync, exchange, compute set, vertex, edge, worker, supervisor, mapping"
CALLS = """IPUModel.create_device, Graph, Graph.add_variable, Graph.set_tile_mapping,
Graph.add_compute_set, Graph.add_vertex, Engine, Engine.load, Engine.run, Engine.report"""
BESIDE = """Graph.add_vertices, Graph.set_initial_value, Graph.add_constant,
Graph.add_host_to_device_fifo, Graph.add_device_to_host_fifo, Engine.connect_stream,
Graph.create_host_read, Engine.read_tensor, Graph.create_host_write, Engine.write_tensor,
Engine.print_profile_summary"""
FIELDS = "Input, Output, InOut, Vector, Vertex"
ERRORS = """InvalidTileMappingError, GraphConnectionError, ComputeSetRaceError,
UninitialisedReadError, GraphMemoryAllocationError, MissingPerfEstimateError, UndeclaredNameError,
CodeletError, VertexDefinitionError, DeviceValueError, PoplarTypeError, PoplarIndexError,
ControlProgramError, StreamConnectionError, TensorIOStateError, NotOfferedError"""
STYLE = """@page{size:A4;margin:9mm}*{box-sizing:border-box}
body{font:7.3pt/1.29 system-ui,sans-serif;margin:0 auto;max-width:192mm;color:#1c2127}
section{break-after:page;columns:2;column-gap:6mm}section:last-of-type{break-after:auto}
h1{font-size:14pt;margin:0 0 1.5mm}h2{font-size:9.5pt;margin:0 0 .8mm;color:#1f6fa8;
break-after:avoid}
div{margin:0 0 3mm}table{border-collapse:collapse;width:100%}
td,th{padding:.35mm 1mm .35mm 0;text-align:left;vertical-align:top;
border-bottom:.2mm solid #d5dae0}tr{break-inside:avoid}.term td:first-child{white-space:nowrap;
padding-right:2mm}
.figures :is(td,th)+:is(td,th){text-align:right}.call{table-layout:fixed}
.call td:first-child{width:45%;padding-right:2mm}
.call td{overflow-wrap:break-word}code,pre{font:.93em/1.32 ui-monospace,monospace}
pre{margin:0;white-space:pre-wrap;background:#f3f5f7;padding:1.5mm}img{width:100%}
p{margin:0 0 1mm}@media screen{body{padding:16px;font-size:15px;max-width:1000px}
section{columns:auto}@media(min-width:900px){section{columns:2}}}"""


def marked(text: str) -> str:
    """Plain words with code in backquotes, as HTML."""
    parts = re.split(r"`([^`]+)`", escape(text, quote=False))
    for i, code in enumerate(parts[1::2]):  # which may go on in another line after its dots
        parts[2 * i + 1] = "<code>" + re.sub(r"([._(])(?=[a-z])", r"\1<wbr>", code) + "</code>"
    return "".join(parts)


def table(rows: list[list[str]], kind: str = "", head: bool = False) -> str:
    """A table; the first column names its row."""
    lines = []
    for number, row in enumerate(rows):
        cells = "".join(
            f"<th>{marked(cell)}</th>" if head and not number else f"<td>{marked(cell)}</td>"
            for cell in row
        )
        lines.append(f"<tr>{cells}</tr>")
    return f'<table class="{kind}">' + "\n".join(lines) + "</table>"


def names(listed: str) -> list[str]:
    return re.split(r",\s+", listed)


def machines() -> str:
    """The figures of each preset."""
    targets: dict[str, Target] = {name: make_target(name) for name in names(MACHINES)}
    rows = [[name, *map(figure, targets.values())] for name, figure in FIGURES.items()]
    return table([["", *targets], *rows], "figures", head=True)


def phases() -> str:
    """What the glossary says of each term."""
    text = (DOCS / "glossary.md").read_text("utf-8")
    told = dict(re.findall(r"(?m)^### (.+)\n\n(.+?) \*(?:Lesson|In no)", text))
    return table(
        [[term, re.sub(r"\[(.+?)\]\(.+?\)", r"\1", told[term])] for term in names(PHASES)], "term"
    )


def program() -> tuple[str, str]:
    """README's program, which the tests run, and the picture of its run."""
    code = re.findall(r"(?s)```python\n(.*?)```", (DOCS.parent / "README.md").read_text("utf-8"))[0]
    made: dict[str, object] = {}
    exec(code.replace("engine.print_profile_summary()", ""), made)
    engine = made["engine"]
    assert isinstance(engine, Engine)
    scene = show.bsp(engine.report).scene
    image = f'<img src="data:image/svg+xml,{quote(svg(scene))}" alt="{escape(scene.sentence)}">'
    return f"<pre>{escape(code.rstrip(), quote=False)}</pre>", image


def calls(section: list[poplar_rows.Row], listed: str) -> str:
    """Rows of docs/poplar.md: the tests run their examples."""
    rows = {row.ours: row for row in reversed(section)}
    return table(
        [[f"`{rows[n].example}`", make_poplar_table.does(rows[n])] for n in names(listed)], "call"
    )


def programs() -> str:
    """Each kind of program once."""
    kinds = {
        row.ours: row
        for row in reversed(poplar_rows.PROGRAM)
        if isinstance(kind := make_poplar_table.resolve(row.ours), type)
        and issubclass(kind, Program)
    }
    return table(
        [[f"`{r.example}`", make_poplar_table.does(r)] for r in reversed(kinds.values())], "call"
    )


def first_errors() -> str:
    """What an error says of itself, and, where it is asked about most, what to do."""
    text = (DOCS / "troubleshooting.md").read_text("utf-8")
    advice = dict(re.findall(r"(?m)^\| `(\w+Error)` \| (.+) \|$", text))
    rows = []
    for name in names(ERRORS):
        told = " ".join((getattr(errors, name).__doc__ or "").split("\n\n")[0].split())
        told = advice.get(name) or re.split(r"(?<=\.) ", told)[0]
        rows.append([f"`{name}`", told[0].upper() + told[1:]])
    return table(rows, "term")


def page() -> str:
    """The whole page."""
    code, picture = program()
    in_and_out = [*poplar_rows.GRAPH, *poplar_rows.STREAM, *poplar_rows.ENGINE]
    every = [*poplar_rows.TARGET, *in_and_out]
    sizes = ", ".join(
        f"{t.__name__} {t.size}"
        for t in (
            types.FLOAT,
            types.HALF,
            types.INT,
            types.UNSIGNED_INT,
            types.SHORT,
            types.CHAR,
            types.BOOL,
        )
    )
    sides = [
        [
            (
                "The machine",
                machines() + "<p>Where each figure is from: docs/model.md. All cycles "
                "of the kit are modelled.</p>",
            ),
            ("The phases", phases()),
            ("Ten calls", calls(every, CALLS)),
            ("A program", code),
            ("Its run", picture + "<p><code>show.bsp(engine.report)</code></p>"),
        ],
        [
            ("In, out, and many at once", calls(in_and_out, BESIDE)),
            ("Fields of a vertex", calls(poplar_rows.VERTEX, FIELDS) + f"<p>Bytes: {sizes}</p>"),
            ("Kinds of program", programs()),
            ("Errors one meets first", first_errors()),
        ],
    ]
    body = "".join(
        "<section>"
        + "".join(f"<div><h2>{title}</h2>{text}</div>\n" for title, text in side)
        + "</section>"
        for side in sides
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width"><title>ipu_teach on two pages</title><style>'
        f"{STYLE}</style></head><body><h1>ipu_teach {ipu_teach.__version__} on two pages</h1>"
        f"{body}</body></html>\n"
    )


def print_pdf(target: Path) -> str:
    """Print the page by Chromium; what became of it."""
    chromium = find_chromium()
    if chromium is None:
        return (
            "no PDF: Chromium is not here. Print the page from any browser, on A4, without margins"
        )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        command = [
            chromium,
            "--headless",
            *FLAGS,
            f"--user-data-dir={home}",
            "--no-pdf-header-footer",
            f"--print-to-pdf={target.absolute()}",
            PAGE.as_uri(),
        ]
        done = subprocess.run(command, text=True, capture_output=True, timeout=120)
    return f"{target}" if target.exists() else f"no PDF: Chromium said {done.stderr.strip()[-300:]}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="run.py cheatsheet", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; 1 if it is not as made"
    )
    parser.add_argument("--pdf", type=Path, metavar="FILE", default=PAGE.with_suffix(".pdf"))
    given = parser.parse_args(arguments)
    text = page()
    if given.check:
        return int(not PAGE.exists() or PAGE.read_text("utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE)
    print(print_pdf(given.pdf))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
