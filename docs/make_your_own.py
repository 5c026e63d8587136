"""Write the outputs in docs/your-own.md: what each code block prints, or the error that ends it.

    python docs/make_your_own.py

A code block marked `python fails` must end with an error of this project. A text block below a code
block contains its output.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from ipu_teach.errors import IPUTeachError

PAGE = Path(__file__).with_name("your-own.md")
BLOCK = re.compile(r"^```python( fails)?\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.M | re.S)


def said(path: Path, text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield `(match of a code block, its output)` for each code block in the text of a page.

    The blocks run from top to bottom in the same namespace, as a reader would run them.
    """
    names: dict[str, Any] = {"__name__": path.stem.replace("-", "_")}
    for block in BLOCK.finditer(text):
        # With these empty lines above the code, errors name the line numbers of the page.
        empty_lines = "\n" * text[: block.start(2)].count("\n")
        code, out = compile(empty_lines + block[2], str(path), "exec"), io.StringIO()
        error = ""
        with redirect_stdout(out):
            try:
                exec(code, names)
            except IPUTeachError as caught:
                if not block[1]:
                    raise
                error = f"{caught}\n"
        if block[1] and "\n  next:  " not in error:
            raise AssertionError(f"this ends in no error that says what to do next:\n{block[2]}")
        yield block, error or out.getvalue()


def page(path: Path, text: str) -> str:
    """Return the text of a page with new outputs."""
    parts, position = [], 0
    for block, output in said(path, text):
        if block[3] is not None:
            parts += [text[position : block.start(3)], output]
            position = block.end(3)
    return "".join([*parts, text[position:]])


def main() -> None:
    """Write the page twice: new outputs move its lines, and some outputs quote line numbers."""
    for _ in range(2):
        PAGE.write_text(page(PAGE, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
