"""Write the two-page cheat sheet: `python3 run.py cheatsheet` [`--check`] [`--pdf FILE`].

`docs/cheat_sheet.html` is generated from `docs/cheat_sheet.template`. The generated parts come from
sources that tests check: the machines of `ipu_teach.target`, the glossary, README's program and its
picture, the rows and examples of `docs/poplar.md`, and the text of the errors. Chromium prints the
PDF.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

from make_poplar_table import does, resolve  # noqa: E402
from poplar_rows import SECTIONS, Row  # noqa: E402

import ipu_teach  # noqa: E402
from bench.browser import FLAGS, find_chromium  # noqa: E402
from ipu_teach import show, types  # noqa: E402
from ipu_teach.program import Program  # noqa: E402
from ipu_teach.show.svg import svg  # noqa: E402
from ipu_teach.target import make_target  # noqa: E402

TEMPLATE, PAGE = DOCS / "cheat_sheet.template", DOCS / "cheat_sheet.html"
ARGUMENT = 28  # The maximum number of characters of an argument that never breaks.
PROGRAM = r"(?s)```python\n(.*?)\n```"
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


def marked(text: str) -> str:
    """Return text as HTML, in which code between backquotes is marked as code."""
    parts = re.split(r"`([^`]+)`", text)
    return "".join(
        f"<code>{breakable(part)}</code>" if index % 2 else escape(part, quote=False)
        for index, part in enumerate(parts)
    )


def breakable(code: str) -> str:
    """Return code as HTML in which lines may break only between arguments and in a long name.

    An argument of more than `ARGUMENT` characters that is itself a call may break like a call.
    """
    name, bracket, rest = code.partition("(")
    if not bracket:
        return escape(code, quote=False)
    pieces, depth = [""], 0
    for char in rest:
        depth += (char in "([{") - (char in ")]}")
        pieces[-1] += char
        if char == " " and depth == 0:
            pieces.append("")
    arguments = (
        breakable(piece)
        if len(piece) > ARGUMENT and re.match(r"[\w.]+\(", piece)
        else f"<span>{escape(piece, quote=False)}</span>"
        for piece in pieces
    )
    return re.sub(r"([._])(?=[a-z])", r"\1<wbr>", name) + "(<wbr>" + "<wbr>".join(arguments)


def table(kind: str, rows: Iterable[Sequence[str]]) -> str:
    """Return the HTML of a table of class `kind`."""
    cells = (["<td>" + marked(cell) + "</td>" for cell in row] for row in rows)
    return (
        f'<table class="{kind}">' + "\n".join(f"<tr>{''.join(c)}</tr>" for c in cells) + "</table>"
    )


def machines(*names: str) -> str:
    """Return the HTML table of the properties of the machines `names`."""
    targets = [make_target(name) for name in names]
    figure_rows = ([name, *map(figure, targets)] for name, figure in FIGURES.items())
    return table("machines", [["", *names], *figure_rows])


def phases(*terms: str) -> str:
    """Return the HTML table of the glossary's definitions of `terms`."""
    text = (DOCS / "glossary.md").read_text("utf-8")
    definitions = dict(re.findall(r"(?m)^### (.+)\n\n(.+?) \*(?:Lesson|In no)", text))
    return table(
        "phases", ([term, re.sub(r"\[(.+?)\]\(.+?\)", r"\1", definitions[term])] for term in terms)
    )


def code() -> str:
    """Return the HTML of README's program, which the tests run; a line may break after a comma."""
    text = (DOCS.parent / "README.md").read_text("utf-8")
    pieces = escape(re.findall(PROGRAM, text)[0], quote=False).split(", ")
    return f"<pre><span>{', </span><wbr><span>'.join(pieces)}</span></pre>"


def picture() -> str:
    """Return the HTML of the picture of a run of README's program."""
    namespace: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(re.findall(PROGRAM, (DOCS.parent / "README.md").read_text("utf-8"))[0], namespace)
    scene = show.bsp(namespace["engine"].report).scene
    return f'<img src="data:image/svg+xml,{quote(svg(scene))}" alt="{escape(scene.sentence)}">'


def calls(*names: str) -> str:
    """Return the HTML table of the rows `names` of docs/poplar.md, whose examples the tests run."""
    rows = {row.ours: row for section in SECTIONS.values() for row in reversed(section)}
    return table("calls", ([f"`{rows[name].example}`", does(rows[name])] for name in names))


def programs() -> str:
    """Return the HTML table with a row for each kind of program."""
    rows = {row.ours: row for row in reversed(SECTIONS["Programs"])}
    kinds = [row for row in reversed(rows.values()) if isinstance(resolve(row.ours), type)]
    kinds = [row for row in kinds if issubclass(resolve(row.ours), Program)]
    return table("programs", ([f"`{row.example}`", does(row)] for row in kinds))


def errors(*names: str) -> str:
    """Return the HTML table of the errors `names`, with what to do or what each error means."""
    text = (DOCS / "troubleshooting.md").read_text("utf-8")
    advice = dict(re.findall(r"(?m)^\| `(\w+Error)` \| (.+) \|$", text))
    descriptions = [advice.get(name) or does(Row("", f"errors.{name}")) for name in names]
    return table(
        "errors", zip(map("`{}`".format, names), map(upper_first, descriptions), strict=True)
    )


def upper_first(text: str) -> str:
    return text[0].upper() + text[1:]


def sizes(*names: str) -> str:
    """Return the bytes per element of the dtypes called `names`, as text."""
    return ", ".join(f"{name} {getattr(ipu_teach, name).size}" for name in names)


def version() -> str:
    return ipu_teach.__version__


MAKERS: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (version, machines, phases, calls, code, picture, programs, errors, sizes)
}


def page() -> str:
    """Return the text of the page: the template with all parts filled in."""

    def part_of(match: re.Match[str]) -> str:
        return MAKERS[match[1]](*(match[2].split(", ") if match[2] else ()))

    return re.sub(r"<!-- (\w+)(?:: (.+?))? -->", part_of, TEMPLATE.read_text("utf-8"))


def print_pdf(target: Path) -> tuple[bool, str]:
    """Print the page with Chromium to `target`; return (whether it was written, a message)."""
    if not target.absolute().parent.is_dir():
        return False, f"no PDF: there is no folder {target.absolute().parent}"
    chromium = find_chromium()
    if chromium is None:
        return False, (
            "no PDF: Chromium was not found. Print the page on A4 without margins from any browser"
        )
    time_before = target.stat().st_mtime_ns if target.exists() else None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile_folder:
        command = [
            chromium,
            "--headless",
            *FLAGS,
            f"--user-data-dir={profile_folder}",
            "--no-pdf-header-footer",
            f"--print-to-pdf={target.absolute()}",
            PAGE.as_uri(),
        ]
        completed = subprocess.run(command, text=True, capture_output=True, timeout=120)
    if target.exists() and target.stat().st_mtime_ns != time_before:
        return True, f"{target}"
    return False, f"no PDF: Chromium said {completed.stderr.strip()[-300:]}"


def main(arguments: list[str]) -> int:
    text = (
        "Make the kit on two pages for print: docs/cheat_sheet.html, and a PDF of it by Chromium."
    )
    parser = argparse.ArgumentParser(prog="python3 run.py cheatsheet", description=text)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; 1 if it is not as made"
    )
    parser.add_argument("--pdf", type=Path, metavar="FILE", help="where to; else beside the page")
    options = parser.parse_args(arguments)
    text = page()
    if options.check:
        return int(not PAGE.exists() or PAGE.read_text("utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE)
    printed, message = print_pdf(options.pdf or PAGE.with_suffix(".pdf"))
    print(message)
    # Without --pdf, a missing PDF is no failure, as Chromium may be missing.
    return int(options.pdf is not None and not printed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
