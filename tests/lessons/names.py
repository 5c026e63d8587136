"""Which names of the kit an exercise needs, and which cell of its path showed them first.

    python3 run.py names

prints, for each path through the lessons, every exercise with the names that its reference answer
uses, and the lesson and cell where each was used or explained before; it ends with 1 where one was
not. An import shows nothing yet; text shows what it says as code. The tests ask the same.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import ipu_course
import ipu_teach
from ipu_course.checking.exercise import NUMBERS
from ipu_course.checking.gaps import gaps_in, read_notebook, source_of
from ipu_course.checking.learner import learners_form
from ipu_course.checking.naming import LESSON
from ipu_teach import Engine, Graph, Report, Target, Tensor, errors, program, show
from ipu_teach.poplibs import gcl, poplin, popnn, popops, poprand, poputil

SOLUTIONS = Path(__file__).resolve().parents[2] / "notebooks" / "solutions"
PATHS = {
    "half a day": ("00", "01", "02", "04", "07"),
    "the whole path": (*NUMBERS[:5], "tiny", *NUMBERS[5:]),
}
MODULES: dict[str, ModuleType] = {
    "gcl": gcl,
    "popops": popops,
    "poplin": poplin,
    "popnn": popnn,
    "poprand": poprand,
    "poputil": poputil,
    "expr": popops.expr,
    "show": show,
}
OF_OBJECTS = {
    name
    for kind in (Engine, Graph, Report, Target, Tensor)
    for name in dir(kind)
    if not name.startswith("_")
}
# T and index are those of arrays and lists in the answers; add a Sequence's
OF_OBJECTS = OF_OBJECTS - {"T", "index"} | {"add"}
BY_THEMSELVES = {
    name
    for module in (ipu_teach, program)
    for name, what in vars(module).items()
    if not name.startswith("_")
    and str(getattr(what, "__module__", "")).startswith(("ipu_teach", "ipu_course"))
}
WORDS = set(popops.REDUCTIONS)

Cell = tuple[str, int, str]  # lesson, number of the cell, and what it shows as code


def path_of(lesson: str) -> Path | None:
    """The solved notebook of a lesson; None for one that is not written yet."""
    return next(
        iter(SOLUTIONS.glob(f"{lesson}_*.ipynb")),
        next(iter(SOLUTIONS.glob(f"{lesson}.ipynb")), None),
    )


@cache
def cells_of(lesson: str) -> tuple[Cell, ...]:
    """What the cells of a lesson show as code, as a learner gets them."""
    path = path_of(lesson)
    cells = learners_form(read_notebook(path))["cells"] if path else []
    shown = [
        code_in(source_of(c)) if c["cell_type"] == "markdown" else without_imports(source_of(c))
        for c in cells
    ]
    return tuple((lesson, number, text) for number, text in enumerate(shown))


def code_in(text: str) -> str:
    """What stands as code in a text: between backticks, and in indented lines."""
    return "\n".join(
        re.findall(r"`+([^`]+)`+", text) + re.findall(r"^ {4}(?! *[*>-] )(.+)", text, re.MULTILINE)
    )


def without_imports(source: str) -> str:
    """A cell's code without its import lines."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (
                (node.end_lineno or node.lineno) - node.lineno + 1
            )
    return "\n".join(lines)


def needs(source: str) -> Iterator[tuple[str, str]]:
    """(exercise, name of the kit) for each name that the answers in a cell use: `popops.map`,
    `.shape`, `Copy`, `"MAX"`."""
    gaps = gaps_in(source)
    for node in ast.walk(ast.parse(source)) if gaps else ():
        name = named(node)
        line = getattr(node, "lineno", 0) - 1
        yield from ((gap.exercise, name) for gap in gaps if name and gap.first < line < gap.last)


def named(node: ast.AST) -> str:
    """The kit's name that a node of the code uses, if it does."""
    if isinstance(node, ast.Attribute):
        root: Any = node.value
        if isinstance(root, ast.Name) and root.id in MODULES:
            return f"{root.id}.{node.attr}"
        while isinstance(root, (ast.Attribute, ast.Call, ast.Subscript)):
            root = getattr(root, "func", getattr(root, "value", None))
        foreign = isinstance(root, ast.Name) and root.id in ("np", "self", *MODULES)
        return f".{node.attr}" if node.attr in OF_OBJECTS and not foreign else ""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in BY_THEMSELVES:
        return node.id
    return f'"{node.value}"' if isinstance(node, ast.Constant) and node.value in WORDS else ""


def shown_in(name: str, text: str) -> bool:
    """Whether code uses a name, or text has it between backticks by itself."""
    bare, alone = re.escape(name.removeprefix(".")), re.escape(name.rpartition(".")[2])
    return re.search(rf"(?<!\w){bare}(?!\w)|^{alone}$", text, re.MULTILINE) is not None


def introduced(path: tuple[str, ...]) -> Iterator[tuple[str, str, Cell | None]]:
    """(exercise, name, the first cell of the path that shows it, up to the exercise's own; None for
    a hole)."""
    before: list[Cell] = []
    for lesson in path:
        file = path_of(lesson)
        solved = (
            [source_of(c) if c["cell_type"] == "code" else "" for c in read_notebook(file)["cells"]]
            if file
            else []
        )
        for cell, source in zip(cells_of(lesson), solved, strict=True):
            before.append(cell)
            for exercise, name in sorted(set(needs(source))):
                yield exercise, name, next((c for c in before if shown_in(name, c[2])), None)


# --- which lesson, or else which page, names something of the kit first ---------------------------

DOCS = SOLUTIONS.parents[1] / "docs"
# of docs/site/pages.md: pages that list all names, or are about other things
LISTS = ("poplar", "poplibs", "operations", "performance")


def there(name: str) -> Any:
    """Return the object that a dotted name of the kit means, or None.

    The name of the course may follow that of the runtime. poptorch is None without torch. A
    function that has the name of its module is preferred to the module, which pydoc's `locate`
    returns since Python 3.12.
    """
    parts = name.split(".")
    what: Any = ipu_course if "ipu_course" in parts[:2] else ipu_teach
    for part in parts[parts.index(what.__name__) + 1 :]:
        if isinstance(what, ModuleType) and not hasattr(what, part):
            with suppress(ImportError):
                import_module(f"{what.__name__}.{part}")
        what = getattr(what, part, None)
    return what


def named_in(source: str, bound: dict[str, Any]) -> Iterator[Any]:
    """What of the kit a cell's code names: `popops.add`, `Copy`. An import adds to what is bound,
    and names nothing yet."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for name in node.names:
                if (whole := module + name.name).startswith(("ipu_teach", "ipu_course")):
                    bound[name.asname or name.name.partition(".")[0]] = there(
                        whole if module or name.asname else whole.partition(".")[0]
                    )
        elif isinstance(node, (ast.Attribute, ast.Name)):
            yield at(ast.unparse(node), bound)


def at(dotted: str, bound: dict[str, Any]) -> Any:
    """What of the kit a dotted name means, if anything."""
    first, *rest = dotted.split(".")
    return reduce(lambda owner, name: getattr(owner, name, None), rest, bound.get(first))


def words_in(text: str, bound: dict[str, Any]) -> Iterator[Any]:
    """What of the kit a text names as code."""
    yield from (at(word, bound) for word in re.findall(r"[\w.]+", code_in(text)))


def unbound() -> dict[str, Any]:
    """What a text may name without having imported it."""
    top = {name: getattr(ipu_teach, name) for name in ipu_teach.__all__}
    raised = {name: what for name, what in vars(errors).items() if isinstance(what, type)}
    faces = {face: there(f"ipu_teach.{face}") for face in ("keras", "popart", "poptorch")}
    return {"ipu_teach": ipu_teach} | faces | raised | vars(program) | MODULES | top


@cache
def objects_of(lesson: str) -> list[Any]:
    """What of the kit a lesson names, in the order of its cells: in its code, answers too, and as
    code in its text."""
    bound, found = unbound(), []
    for cell in read_notebook(SOLUTIONS / str(path_of(lesson)))["cells"]:
        named = named_in if cell["cell_type"] == "code" else words_in
        found += named(source_of(cell), bound)
    return found


@cache
def objects_on(page: str) -> list[Any]:
    """What of the kit a page of docs names as code."""
    text, bound, found = (DOCS / f"{page}.md").read_text(encoding="utf-8"), unbound(), []
    for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        found += named_in(block, bound)
    return [*found, *words_in(text, bound)]


def first_lesson(what: object) -> str:
    """The lesson that names a function or class first; "" for none."""
    path = PATHS["the whole path"]
    return next((one for one in path if any(o is what for o in objects_of(one))), "")


def first_page(what: object) -> str:
    """The page of docs that names it first, such as "docs/reports"; "" for none."""
    pages = (DOCS / "site" / "pages.md").read_text(encoding="utf-8")
    for page in re.findall(r"^/docs/([\w/-]+)$", pages, re.MULTILINE):
        if page not in LISTS and any(o is what for o in objects_on(page)):
            return f"docs/{page}"
    return ""


def asked_before(lesson: str) -> set[str]:
    """The lessons that a lesson says at its head one needs."""
    path = path_of(lesson)
    head = source_of(read_notebook(path)["cells"][0]) if path else ""
    needed = re.search(r"You need.*?\n\n", head, re.DOTALL)
    return set(re.findall(rf"\(({LESSON}|tiny)(?:_\w+)?\.ipynb\)", needed[0])) if needed else set()


def main(words: list[str]) -> int:
    """The command."""
    if words in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    if words:
        print(f"names: this job takes no arguments, but got {' '.join(words)}")
        return 2
    holes = 0
    for title, path in PATHS.items():
        print(f"{title}: {', '.join(path)}")
        for exercise, name, cell in introduced(path):
            holes += cell is None
            print(
                f"  {exercise}  {name:<32}{f'{cell[0]}, cell {cell[1]}' if cell else 'NOT SHOWN'}"
            )
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
