"""The clauses of the exercises' texts, and the wrong answers that break each of them.

    python3 run.py clauses [12.1 07.4 …]

prints each sentence of an exercise's text with the answers that break it and are refused. The text
is the paragraphs of the notebook from "**Exercise 12.1" on, the words of the gap, and the docstring
above it. An answer names its clause by a comment in `mistakes.py` or `attempts.py`:

    # clause: any number of columns

Each sentence of an exercise in `clauses.txt` has such an answer, or the file lists it there as one
that asks for nothing. Without a name, the command goes through all exercises, and lists those that
are not in the file yet. It ends with 1 if a sentence has neither.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from answers import EXERCISES, SOLUTIONS
from attempts import REFUSED, WRONG

from ipu_course.checking.gaps import gaps_in, read_notebook, reference, source_of
from ipu_course.checking.mistakes import Mistake
from ipu_course.checking.naming import EXERCISE, lesson_of

FILE = Path(__file__).with_name("clauses.txt")
NAMES = [exercise.name for exercise in EXERCISES]
MARK = re.compile(rf"\*\*Exercise ({EXERCISE})[^*]*\*\* *")
# The end of a sentence: a full stop within code, as in `a.b`, has no space behind it.
END = re.compile(r"(?<=[.?!])\s+(?=[A-Z`*(])")


@cache
def text_of(name: str) -> tuple[str, ...]:
    """Return the sentences of an exercise's text, each on one line."""
    (path,) = SOLUTIONS.glob(f"{lesson_of(name)}_*.ipynb")
    parts = []
    for cell in read_notebook(path)["cells"]:
        if cell["cell_type"] == "markdown":
            pieces = MARK.split(source_of(cell))
            for exercise, words in zip(pieces[1::2], pieces[2::2], strict=True):
                if exercise == name:
                    parts += re.split(r"\n\s*\n|\n(?=\* )", words)
    source = reference(name).cell
    (gap,) = gaps_in(source)
    above = "\n".join(source.splitlines()[: gap.first])
    docstrings = re.findall(r'"""(.*?)"""', above, re.DOTALL)
    parts += [part for text in docstrings[-1:] for part in re.split(r"\n\s*\n", text)]
    parts.append(gap.todo)
    lines = (" ".join(part.split()) for part in parts)
    return tuple(dict.fromkeys(s for line in lines if line for s in END.split(line)))


def refused(name: str) -> list[Mistake]:
    """Return the wrong answers to an exercise that name a clause."""
    return [wrong for wrong in (*WRONG, *REFUSED) if wrong.exercise == name and wrong.clause]


@dataclass(frozen=True)
class Sentence:
    """A sentence of an exercise's text, and the wrong answers that break it.

    `asks`: whether it constrains the answer; otherwise the file of clauses lists it.
    """

    words: str
    broken_by: tuple[Mistake, ...]
    asks: bool

    @property
    def is_bound(self) -> bool:
        return bool(self.broken_by) or not self.asks


@cache
def silent() -> dict[str, tuple[str, ...]]:
    """Return for each exercise that was gone through the sentences that ask for nothing."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            found[name].append(line.strip())
        elif line and not line.startswith("#"):
            name = line
            found[name] = []
    return {name: tuple(lines) for name, lines in found.items()}


def clauses(name: str) -> list[Sentence]:
    """Return the sentences of an exercise's text, each with the answers that break it."""
    return [
        Sentence(
            words,
            tuple(wrong for wrong in refused(name) if wrong.clause in words),
            words not in silent().get(name, ()),
        )
        for words in text_of(name)
    ]


def main(words: list[str]) -> int:
    """The command."""
    if words in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    if unknown := [word for word in words if word not in NAMES]:
        print(f"clauses: no exercise is called {', '.join(unknown)}. There are: {' '.join(NAMES)}")
        return 2
    unbound = 0
    for name in words or silent():
        sentences = clauses(name)
        unbound += sum(not sentence.is_bound for sentence in sentences)
        print(name)
        for sentence in sentences:
            sign = "-" if not sentence.asks else "+" if sentence.broken_by else "?"
            print(f"  {sign} {sentence.words}")
            for wrong in sentence.broken_by:
                print(f"      {wrong.about} ({wrong.path.parent.name}/{wrong.path.name})")
    left = [name for name in NAMES if name not in silent()]
    if left and not words:
        print(f"not gone through yet, {len(left)} of {len(NAMES)}: {' '.join(left)}")
    return 1 if unbound else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
