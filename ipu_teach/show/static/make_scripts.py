"""Write the scripts of the views: python ipu_teach/show/static/make_scripts.py [--check]

NAME.js.gz is the script of the page of the view NAME. It consists of measures.js, layout.js,
link.js, player.js, files that the view shares with a few other views, and NAME.js, without comments
and unnecessary spaces, compressed together. A view without a script of its own uses player.js.gz,
or painted.js.gz if it has painted marks. widget.js.gz is the script of the widget, and puzzle.js.gz
is that of the puzzles in the lessons. measures.js is generated, too.

The compressed files are stored in the repository because equal views must have equal bytes
everywhere, but the output of a compressor depends on its version. With `--check`, nothing is
written, and the exit status is 1 if a script is out of date.
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARED = ("measures.js", "layout.js", "link.js", "player.js")  # Every script contains these files.
# A view with painted marks but without a script of its own uses the player and this file.
PAINTED = "painted.js"
ALONE = ("widget.js", "puzzle.js")
# Maps each file to the views that need the file.
ALSO = {
    "stored.js": ALONE,
    PAINTED: ("balance.js", "machine.js", "memory.js"),
    "flows.js": ("bsp.js", "run.js"),
    "tape.js": ("bsp.js", "balance.js"),
    "board.js": ("run.js",),
    "messages.js": ("run.js",),
    "range.js": ("timeline.js",),
    "content.js": ("bsp.js", "exchange.js"),
    "tree.js": ("program.js", "code.js", "turns.js", "tile.js"),
}


PIECE = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|[^"/`{}]+|.')
REGEX = re.compile(r"/(?:[^/\\\n\[]|\\.|\[[^\]\n]*\])+/")
# This matches a template literal up to its end or up to an inserted expression.
TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{)")
PARTING = r"[{}()\[\];,<>=*?:|&!%]"  # These characters separate words without a space.
# A plus sign also separates words, unless it is next to another plus sign.
PLUS = re.compile(r"(?<![+ ]) *\+ *(?![+ ])")


# This matches a line of measures.js.
NUMBER = re.compile(r"^  ([A-Z_]+) = ([\d.]+)[,;]$", re.MULTILINE)


def stripped(name: str) -> str:
    """Return a script without comments, blank lines and unnecessary spaces.

    The names that measures.js defines are replaced with their numbers.
    """
    numbers = dict(NUMBER.findall((HERE / "measures.js").read_text(encoding="utf-8")))
    text = (HERE / name).read_text(encoding="utf-8")
    if name == "measures.js":
        return squeezed(text[text.index("const INKS") :])
    named = rf"(?<![.\w])({'|'.join(numbers)})(?![\w:])"
    return squeezed(re.sub(named, lambda m: numbers[m[1]], text))


def squeezed(text: str) -> str:
    """Return JavaScript without comments, blank lines and unnecessary spaces.

    Strings, templates and regular expressions are unchanged.
    """
    code = ""
    pieces = list[str]()
    at = 0
    braces: list[int] = []  # The number of open braces in each nested template expression.
    while at < len(text):
        match = REGEX.match(text, at) if code.rstrip()[-1:] in tuple("(,=:") else None
        match = match or PIECE.match(text, at)
        assert match
        piece = match[0]
        at = match.end()
        back = piece == "}" and braces[-1:] == [0]
        if back:
            braces.pop()
        elif piece in "{}" and braces:
            braces[-1] += 1 if piece == "{" else -1
        if piece == "`" or back:
            match = TEMPLATE.match(text, at)
            assert match, "a template has no end"
            piece = piece + match[0]
            at = match.end()
            braces += [0] * piece.endswith("${")
        if piece[0] in '`/"' or back:
            pieces.append("" if piece.startswith("//") else piece)
            piece = f"\0{len(pieces) - 1}\0" if pieces[-1] else ""
        code += piece
    lines = (re.sub(rf" *({PARTING}) *", r"\1", line.strip()) for line in code.splitlines())
    lines = (PLUS.sub("+", line) for line in lines)
    return re.sub("\0(\\d+)\0", lambda m: pieces[int(m[1])], "\n".join(filter(None, lines)))


def measures_js() -> str:
    """Return the numbers of measures.py, and the colours of texts in both themes, as JavaScript."""
    sys.path.insert(0, str(HERE.parents[2]))
    from ipu_teach.show import measures, palette

    numbers = {name: value for name, value in vars(measures).items() if name.isupper()}
    lines = ["const", ",\n".join(f"  {name} = {value:g}" for name, value in numbers.items()) + ";"]
    inks = (
        ", ".join(f'{name}: "{colour}"' for name, colour in ink.items())
        for ink in (palette.LIGHT, palette.DARK)
    )
    lines += ["const INKS = [", *(f"  {{ {ink} }}," for ink in inks), "];"]
    head = "// Written by make_scripts.py: the numbers of measures.py, and the inks of palette.py."
    return "\n".join([head, *lines, ""])


def scripts() -> dict[str, str]:
    """Return the contents of all generated files, keyed by file name."""
    script_names = sorted(
        path.name
        for path in HERE.glob("*.js")
        if path.name not in (*SHARED, *ALONE, *ALSO) or path.name == PAINTED
    )
    needs = {
        name: (*(also for also, needed in ALSO.items() if name in needed), name)
        for name in (*script_names, *ALONE)
    }
    parts = {"player.js": SHARED} | {
        name: files if name in ALONE else (*SHARED, *files) for name, files in needs.items()
    }
    return {f"{name}.gz": "\n".join(map(stripped, files)) for name, files in parts.items()}


def main() -> int:
    """Write those of measures.js and the compressed scripts that are missing or out of date.

    With `--check`, write nothing, and return 1 if a file is out of date.
    """
    measures = HERE / "measures.js"
    if not measures.is_file() or measures.read_text(encoding="utf-8") != measures_js():
        print(measures.name)
        if "--check" in sys.argv[1:]:
            return 1
        measures.write_text(measures_js(), encoding="utf-8")
    scripts_made = scripts()
    old = [
        p
        for p in HERE.glob("*.gz")
        if p.name not in scripts_made
        or gzip.decompress(p.read_bytes()).decode("utf-8") != scripts_made[p.name]
    ]
    stale = sorted(
        {p.name for p in old} | {name for name in scripts_made if not (HERE / name).is_file()}
    )
    for name in stale:
        print(name)
        if "--check" in sys.argv[1:]:
            continue
        if name in scripts_made:
            # zopfli, which the extra `maker` installs, makes every picture 4 % smaller.
            from zopfli.gzip import compress

            (HERE / name).write_bytes(
                compress(scripts_made[name].encode("utf-8"), numiterations=60)
            )
        else:
            (HERE / name).unlink()
    return int(bool(stale) and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
