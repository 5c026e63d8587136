"""The house: which floor may import which, how large rooms may be, and what `import ipu_teach` may
not drag in."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import runpy
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import minutes
import numpy as np
import private_names
import pytest
import rooms
import size
from trees import walk

from ipu_teach import errors, keras, schedules, show
from ipu_teach.keras import ipu
from ipu_teach.poplibs import poplin, popnn, popops

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, COURSE = ROOT / "ipu_teach", ROOT / "ipu_course"

# The table of CONTRIBUTING.md: each row has the number of a layer and its modules.
FLOOR = {
    room: int(row[1])
    for row in re.finditer(
        r"^\| (\d+) \| (.*) \|$",
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    for room in re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", row[2]))
}
# tiny is in the garden: it imports nothing of the house, and only lessons import it.
FLOOR |= {"tiny": 0, "__main__": FLOOR["cli"]}
# Doors that stay shut although the floors would allow them: PopLibs builds graphs, and knows
# nothing of running them.
SHUT = {
    ("poplibs", "engine"),
    ("engine", "poplibs"),
    ("poplibs", "compile"),
    ("poplibs", "report"),
    ("device", "graph"),
    ("graph", "program"),
    ("show", "frontends"),
    ("frontends", "show"),
}

MOST_PRIVATE_USES = 124  # of the kit's private names in all files of the tests
LONGEST_FUNCTION = 60  # lines, without the docstring
LONGEST_CLASS = 400  # lines
# The public classes that may be longer: each has one method for every call that users know.
FACADES = {"Graph", "Report", "Tensor"}
LONGEST_CELL = 25
LONGEST_OUTPUT = 15
HEAVIEST_NOTEBOOK = 300 * 1024  # bytes

MODULES = sorted(
    path
    for name in ("ipu_teach", "ipu_course", "validation")
    for path in (ROOT / name).rglob("*.py")
)
KIT = rooms.modules()
NOTEBOOKS = [
    p for p in sorted((ROOT / "notebooks").rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts
]


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(module: str) -> str:
    """Return the name on a floor that a module belongs to; "" for the runtime's package itself."""
    top, part = (module.split(".") + [""])[:2]
    if top == "ipu_course" or part == "lessons":
        return part if part in ("cli", "classroom", "jobs") else "course"
    return part


def faults_in(module: str, text: str) -> list[str]:
    here = room_of(module)
    seen = [(room_of(other), line) for other, _, line in rooms.imports(text, KIT, types=True)]
    return [
        f"{module}, line {line}: imports {there}"
        for there, line in seen
        if there in FLOOR
        and there != here
        and (
            FLOOR[there] > FLOOR[here]
            or (here, there) in SHUT
            or (there == "tiny" and here != "course")
        )
    ]


def test_every_room_has_a_floor() -> None:
    assert {room_of(module) for module in KIT} - {""} == set(FLOOR)


def test_no_import_runs_upstairs() -> None:
    found = {m: faults_in(m, text) for m, text in KIT.items() if room_of(m)}
    assert {module: faults for module, faults in found.items() if faults} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import ipu_teach.show",
        "from ipu_teach import show",
        "from ipu_teach.show import bsp",
        "if TYPE_CHECKING:\n    from ipu_teach.show import bsp",
        "def f():\n    from ipu_teach.show.svg import poster",
    ],
)
def test_the_check_sees_every_way_upstairs(source: str) -> None:
    assert len(faults_in("ipu_teach.report.query", source)) == 1
    assert faults_in("ipu_course.checking.check", source) == []


def test_the_check_knows_the_shut_doors() -> None:
    assert faults_in("ipu_teach.engine.loop", "from ipu_teach.tiny import Tensor") != []
    assert faults_in("ipu_teach.tiny", "from ipu_teach.errors import shown") != []
    assert faults_in("ipu_course.checking.check", "from ipu_teach import tiny") == []
    report = "from ipu_teach.report import Report"
    assert faults_in("ipu_teach.poplibs.popops", report) != []


def test_the_runtime_names_the_course_only_where_it_must() -> None:
    """The command line starts in the course, `lessons` is its former place, and `elsewhere` says in
    an error where a name of the course is. Nothing else knows of it, and nothing imports it late."""
    named = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "ipu_course" in path.read_text(encoding="utf-8")
    }
    former = {f"lessons/{path.name}" for path in (PACKAGE / "lessons").glob("*.py")}
    assert named == {"__main__.py", "_support/elsewhere.py"} | former
    validated = [m for m, text in KIT.items() if re.search(r"(from|import) validation\b", text)]
    assert validated == []


def test_no_module_imports_one_that_imports_it() -> None:
    assert rooms.circles() == []


def test_no_room_takes_what_another_keeps_to_itself() -> None:
    assert rooms.back_doors() == []


def test_the_page_draws_the_rooms_as_they_are() -> None:
    """`python tests/rooms.py` prints the drawing."""
    assert f"```text\n{rooms.table()}\n```" in (ROOT / "docs" / "inside.md").read_text(
        encoding="utf-8"
    )


def test_the_page_says_what_every_room_is_for() -> None:
    page = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")
    named = {
        name
        for row in re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert named == set(FLOOR) - {"tiny", "__main__"}  # tiny: above it


def test_circles_and_back_doors_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "graph/a.py": "from ipu_teach.cost import b\nfrom ipu_teach.cost.b import _own",
        "cost/b.py": (
            "import ipu_teach.cost.c, typing\nif typing.TYPE_CHECKING:\n    import ipu_teach.cost.d"
        ),
        "cost/c.py": "from ipu_teach.graph.a import name\n",
        "cost/d.py": "import ipu_teach.cost.b\ndef f():\n    import ipu_teach.graph.a",
    }
    for name, text in files.items():
        (tmp_path / "ipu_teach" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ipu_teach" / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(rooms, "ROOT", tmp_path)
    assert rooms.circles() == [["ipu_teach.cost.b", "ipu_teach.cost.c", "ipu_teach.graph.a"]]
    assert rooms.back_doors() == ["ipu_teach.graph.a, line 2: ipu_teach.cost.b._own"]


# Functions of engine and compile that have a parameter `group`: how far vertices that run alike are
# handed on. `Site` has one.
MOST_HANDED_ON = 17


def test_the_way_of_a_group_grows_no_longer() -> None:
    trees = [
        ast.parse(path.read_text(encoding="utf-8"))
        for room in ("engine", "compile")
        for path in (PACKAGE / room).rglob("*.py")
    ]
    made = [
        n.args
        for tree in trees
        for n in ast.walk(tree)
        if isinstance(n, (ast.FunctionDef, ast.Lambda))
    ]
    taken = [
        args
        for args in made
        if any(a.arg == "group" for a in (*args.posonlyargs, *args.args, *args.kwonlyargs))
    ]
    assert 10 < len(taken) <= MOST_HANDED_ON


def trained_on_four() -> None:
    """A model of two stages, of which two replicas run, down to its picture."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus, config.ipu_model.tiles_per_ipu = 4, 4
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        layers = [keras.layers.Dense(8, input_shape=(8,)), keras.layers.Dense(4)]
        model = keras.Sequential(layers)
    model.set_pipeline_stage_assignment([0, 1])
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
    model.compile("sgd", "mse", steps_per_execution=8)
    model.fit(np.ones((16, 8), np.float32), np.ones((16, 4), np.float32), 2, verbose=0)
    show.pipeline(schedules.pipeline_schedule(2, 4), model.report)


@pytest.mark.parametrize(
    ("names", "rooms_on_the_way"),
    [
        (
            "replication_factor get_replication_factor replication replicas",
            "frontends graph poplibs compile host report cost show",
        ),
        ("stage stages", "frontends ipu_teach.schedules show"),
    ],
    ids=["replicas", "stage"],
)
def test_a_value_comes_back_to_a_room_three_times_at_most(
    names: str, rooms_on_the_way: str
) -> None:
    found = rooms.way(set(names.split()), trained_on_four)
    assert {*rooms_on_the_way.split()} <= {*found} and max(map(found.count, found)) <= 1 + 3, found


def test_the_lower_of_a_row_is_called_in_one_place() -> None:
    """From the table to the lowering, and back once for what PopLibs calls the row makes."""
    files = (PACKAGE / "frontends").rglob("*.py")
    called = [label(path) for path in files if "row.lower(" in path.read_text(encoding="utf-8")]
    assert called == ["ipu_teach/frontends/ir/lowering.py"]


ROOMS = [
    "graph",
    "types",
    "compile",
    "cost",
    "report",
    "saving",
    "host",
    "engine",
    "poplibs",
    "sweeps",
    "observer",
    "show",
    "course",
    "validation",
]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_in_five_lines_what_it_adds_to_tiny(room: str) -> None:
    folder = {"course": COURSE, "validation": ROOT / "validation"}.get(room, PACKAGE / room)
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    (lines,) = [
        part.splitlines() for part in text.split("\n\n") if part.startswith("Compared with `tiny`")
    ]
    assert 3 <= len(lines) <= 5


# --- budgets --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def printed_sizes() -> tuple[int, str]:
    """The exit status and the table of `run.py size` without numpy, pytest and the kit itself."""
    return said("-S", "-E", str(ROOT / "tests" / "size.py"))


def test_rooms_keep_to_their_budgets(printed_sizes: tuple[int, str]) -> None:
    """`python3 run.py size` prints them all. Lower the budget of a room that became smaller."""
    rows = printed_sizes[1].splitlines()[1:-2]  # without the head and the two sums
    tokens = {row[:20].rstrip(): int(row[20:30].replace(",", "")) for row in rows}
    assert tokens.keys() == size.BUDGETS.keys()
    over = {name: number for name, number in tokens.items() if number > size.BUDGETS[name]}
    assert over == {}


def test_only_code_is_counted_by_tokens_and_lines() -> None:
    source = (
        '"""A\ndocstring."""\n\n# why\nx = [\n    1,  # one\n\n]\n\n\ndef f():\n    "What."\n    '
        'return """a\n\n    b"""\n'
    )
    # x = [ 1 , ] def f ( ) : return "…"
    assert size.python_size(source) == (13, 3 + 1 + 3)
    script = "// why\n\n/* a\n * b */\nlet x = 1;  // one\nf(`a\n${b}`, 'c // d');\n"
    # let x = 1 ; f ( `…` , '…' ) ;
    assert size.javascript_size(script) == (12, 1 + 2)


@pytest.mark.parametrize(
    "text", ['f"{a:>{b}} and {c!r}"', 'f"a"', "f'''{\n  a\n}'''", "f\"{f'{a}'}\""]
)
def test_a_formatted_text_is_one_token_in_every_python(text: str) -> None:
    """Since Python 3.12 the tokenizer looks into it."""
    assert size.python_size(f"x = {text}\n").tokens == 3


def test_how_wide_lines_are_set_changes_no_tokens() -> None:
    wide, narrow = "f(a, b)\n", "f(\n    a,\n    b\n)\n"
    assert size.python_size(wide).tokens == size.python_size(narrow).tokens == 6


def test_files_are_counted_in_their_rooms() -> None:
    rooms = {
        "ipu_teach/tiny.py": "tiny",
        "ipu_teach/errors.py": size.GROUND,
        "ipu_teach/types/half.py": size.GROUND,
        "ipu_teach/_support/own_code.py": size.GROUND,
        "ipu_teach/engine/batch/batch_plan.py": size.ENGINE,
        "ipu_teach/compile/trace.py": size.ENGINE,
        "ipu_teach/poplibs/popops/casts.py": "poplibs",
        "ipu_course/checking/mistakes.py": "course: checking",
        "ipu_course/cli.py": "course: checking",
        "ipu_course/classroom/board.py": "course: classroom",
        "ipu_course/lesson07/checks.py": "course: lessons",
        "ipu_course/lesson07b/mistakes.py": size.MISTAKES,
        "ipu_teach/show/static/player.js": size.JAVASCRIPT,
        "ipu_teach/keras/__init__.py": "frontends",
        "validation/row.py": "validation",
    }
    assert {path: size.room_of(path) for path in rooms} == rooms
    measured = size.sizes([(path, "x = 1\n") for path in rooms])
    assert sum(room.lines for room in measured.values()) == len(rooms)
    assert sum(room.tokens for room in measured.values()) == 3 * len(rooms)


def test_the_table_shows_budgets_and_changes() -> None:
    now, before = (
        size.sizes([("ipu_teach/graph/a.py", "x = 1\ny = 2\n")]),
        size.sizes([("ipu_teach/graph/a.py", "x = 1\n")]),
    )
    assert size.table(now, None).splitlines()[-1].split() == ["all", "6", "2", "3.0"]
    assert ["graph", "6", f"{size.BUDGETS['graph']:,}", "+3", "2", "3.0"] in [
        line.split() for line in size.table(now, before).splitlines()
    ]


def test_sizes_are_counted_by_the_standard_library(printed_sizes: tuple[int, str]) -> None:
    """So `run.py size` needs no environment."""
    status, text = printed_sizes
    assert status == 0 and re.search(r"^known mistakes +[\d,]+ +[\d,]+", text, re.MULTILINE), text


SOURCES = [
    *MODULES,
    *sorted(ROOT.glob("*.py")),
    *(
        path
        for folder in ("pack", "docs", "deploy", "binder")
        for path in (ROOT / folder).rglob("*.py")
    ),
]


def length(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """Return the lines of a function or class, without the docstrings in it."""
    lines = (node.end_lineno or 0) - node.lineno + 1
    for inner in ast.walk(node):
        documented = isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if documented and ast.get_docstring(inner) is not None:
            lines -= (inner.body[0].end_lineno or 0) - inner.body[0].lineno + 1
    return lines


def too_long(source: str) -> list[str]:
    """Return the names of the functions and classes in `source` that are too long."""
    limits = {
        ast.FunctionDef: LONGEST_FUNCTION,
        ast.AsyncFunctionDef: LONGEST_FUNCTION,
        ast.ClassDef: LONGEST_CLASS,
    }
    return [
        node.name
        for node in walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and (node.end_lineno or 0) - node.lineno >= limits[type(node)]
        and length(node) > limits[type(node)]
    ]


def test_functions_and_classes_are_short() -> None:
    """Split a longer one by its ideas. Only the facades are longer."""
    names = {label(path): too_long(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert len(names) > 500
    longer = sorted(f"{path}: {name}" for path, found in names.items() for name in found)
    assert {entry.rpartition(" ")[2] for entry in longer} == FACADES, longer
    assert len(longer) == len(FACADES), longer


@pytest.mark.parametrize(
    ("head", "lines", "is_long"),
    [
        ("def f():", 59, False),
        ("def f():", 60, True),
        ("async def f():", 60, True),
        ('def f():\n    """Do.\n\n    A\n    b.\n    """', 59, False),
        ('def f():\n    """Do."""', 60, True),
        ("class A:", 399, False),
        ("class A:", 400, True),
    ],
)
def test_long_functions_and_classes_are_seen(head: str, lines: int, is_long: bool) -> None:
    assert bool(too_long(head + "\n    x = 1" * lines)) == is_long


# --- notebooks ------------------------------------------------------------------------------------


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else "".join(value)


def output_lines(cell: dict[str, Any]) -> int:
    """How many lines a reader sees under a cell; what is drawn does not count."""
    count = 0
    for output in cell["outputs"]:
        data = output.get("data", {})
        if output["output_type"] == "stream":
            lines = text_of(output["text"]).splitlines()
            count += len(lines)
        elif "text/plain" in data and not {"text/html", "image/png", "image/svg+xml"} & data.keys():
            count += len(text_of(data["text/plain"]).splitlines())
    return count


@pytest.mark.parametrize("path", NOTEBOOKS, ids=label)
def test_notebooks_are_light(path: Path) -> None:
    assert path.stat().st_size < HEAVIEST_NOTEBOOK
    faults = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] != "code":
            continue
        length = len(text_of(cell["source"]).splitlines())
        if length > LONGEST_CELL:
            faults.append(f"cell {number} has {length} lines")
        if output_lines(cell) > LONGEST_OUTPUT:
            faults.append(f"cell {number} prints {output_lines(cell)} lines")
    assert faults == []


# --- words ----------------------------------------------------------------------------------------

KINDS = ("*.md", "*.py", "*.toml", "*.yml", "*.cfg", "*.lock", "*.ipynb")
FOLDERS = (
    *(".github", "bench", "datasets", "docs", "ipu_course", "ipu_teach", "notebooks", "tests"),
    "validation",
)
TEXTS = [path for kind in (*KINDS, "*.cff", "*.yaml") for path in ROOT.glob(kind)]
TEXTS += [path for kind in KINDS for folder in FOLDERS for path in (ROOT / folder).rglob(kind)]
# Put together here, so that this file does not hold them.
UNWANTED = (
    "../" + "shared",
    "pypi" + ".org",
    "python" + "hosted.org",
    "anaconda" + ".org",
    "anaconda" + ".com",
)


def test_texts_stand_alone() -> None:
    """The repository names nothing that lies outside it, and no package index: people have their
    own."""
    assert len(TEXTS) > 900
    texts = {label(path): path.read_text(encoding="utf-8") for path in TEXTS}
    faults = {
        name: words
        for name, text in texts.items()
        if (words := [word for word in UNWANTED if word in text])
    }
    assert faults == {}


def test_every_error_is_the_kits_and_explains_itself() -> None:
    own = [
        value
        for _, value in inspect.getmembers(errors, inspect.isclass)
        if value.__module__ == errors.__name__
    ]
    classes = [value for value in own if issubclass(value, BaseException)]
    assert errors.IPUTeachError in classes and len(classes) >= 5
    for kind in classes:
        assert issubclass(kind, errors.IPUTeachError), kind
        assert "__doc__" in vars(kind) and (kind.__doc__ or "").strip(), kind


# --- errors as they are printed -------------------------------------------------------------------

ERRORS = {name for name, _ in inspect.getmembers(errors, inspect.isclass)} | {"refused"}
# The call of an error whose text begins with three quotation marks.
PRINTED_ERROR = re.compile(rf'\b(?:{"|".join(ERRORS)})\((?:\s|\(|#.*\n)*f?"""')
LABELS = {"where": "where: ", "line": "line:  ", "next": "next:  "}


def faults_of_errors(source: str) -> list[str]:
    """What is wrong with the errors in `source` that are written as they are printed."""
    lines, faults = source.splitlines(), []
    if not PRINTED_ERROR.search(source):
        return faults
    for call in walk(ast.parse(source)):
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id in ERRORS
            and call.args
        ):
            continue
        text = call.args[0]
        if not re.match('f?"""', lines[text.lineno - 1].encode()[text.col_offset :].decode()):
            continue
        first = lines[text.lineno - 1]
        margin = len(first) - len(first.lstrip()) + 4
        seen = []
        for number in range(text.lineno + 1, (text.end_lineno or 0) + 1):
            line = lines[number - 1]
            label = re.match(r" *(\w+( \w+)?): ", line)  # one word or two
            if line[:margin].strip() or line[margin : margin + 1].isspace() or not line.strip():
                faults.append(f"line {number} is not indented by {margin}")
            elif label and not line[margin:].startswith(LABELS.get(label[1], "\0")):
                faults.append(f"line {number} begins with {label[1]}:")
            elif label:
                seen.append(label[1])
        if seen != [name for name in LABELS if name in seen]:
            faults.append(f"line {text.lineno}: {', '.join(seen)}")
        if call.keywords or call.args[1:]:
            faults.append(f"line {text.lineno} has other arguments too")
    return faults


def test_errors_have_three_labels_in_order() -> None:
    """One that is misspelt would go on with the line before it, in silence."""
    paths = [*MODULES, *(ROOT / "bench").glob("*.py")]
    assert len(paths) > 500
    found = {label(path): faults_of_errors(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: faults for name, faults in found.items() if faults} == {}


GOOD = [
    'raise PoplarError(f"""It {x!r} went',
    "    wrong, and further.",
    "    where: here",
    "    line:  there, which",
    "    is far",
    '    next:  do this.""")',
]


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (5, '    nxt:  do this.""")'),
        (5, '    next: do this.""")'),
        (5, '  next:  do this.""")'),
        (5, '      next:  do this.""")'),
        (5, '    next step:  do this.""")'),
        (5, '    next:  do this.""", where="here")'),
        (3, "    where: there"),
        (2, "    next:  first"),
        (1, ""),
    ],
)
def test_the_check_sees_labels_that_go_wrong(number: int, line: str) -> None:
    assert faults_of_errors("\n".join(GOOD)) == []
    assert faults_of_errors("\n".join([*GOOD[:number], line, *GOOD[number + 1 :]])) != []


# --- tools ----------------------------------------------------------------------------------------


def said(*command: str) -> tuple[int, str]:
    env = dict(os.environ, NO_COLOR="1")
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=env,
        text=True,
        encoding="utf-8",
        capture_output=True,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


def test_import_is_light() -> None:
    heavy = (
        "'matplotlib', 'IPython', 'ipywidgets', 'cupy', 'torch', 'numba', 'jupyter_client', "
        "'nbformat'"
    )
    probe = f"import sys, ipu_teach; print(sorted(m for m in ({heavy}) if m in sys.modules))"
    assert said("-c", probe) == (0, "[]\n")


# --- how much of it a program enters --------------------------------------------------------------

# Files of the package in which the smallest program calls a function, without streams and reports.
# 40 and 30 were aimed at. What is left is an idea each that such a program has use for, and these
# are not put together for this count: what it is built of (graph, 12), what is looked at before it
# runs (compile, 8; cost, 2), what runs it (engine, 11), a batch of views, chunks and products (8),
# and what is around every run (target, program, options, flags, progress, Ctrl-C, log, host's
# timeline: 10).
MOST_FILES = {"batch": 53, "plain vertex loop": 44}
ENTERED = """
import os, sys
import ipu_teach
from ipu_teach import FLOAT, Engine, Graph, IPUModel
from ipu_teach.program import Execute

sys.path.insert(0, "tests")
from codelets import DotProduct

def program(vertex_loop):
    device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
    graph = Graph(device)
    matrix = graph.add_variable(FLOAT, (26, 64), "matrix")
    vector = graph.add_variable(FLOAT, (64,), "vector")
    result = graph.add_variable(FLOAT, (26,), "result")
    graph.set_tile_mapping(vector, 0)
    graph.set_initial_value(matrix, 1.0)
    graph.set_initial_value(vector, 2.0)
    dot = graph.add_compute_set("dot")
    for row in range(26):
        vertex = graph.add_vertex(dot, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row // 2)
    engine = Engine(graph, Execute(dot), vertex_loop=vertex_loop)
    engine.load(device)
    engine.run()

package, seen = os.path.dirname(ipu_teach.__file__), set()

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(package) and code.co_name != "<module>":
        seen.add(os.path.relpath(code.co_filename, package))

sys.setprofile(note)
program(sys.argv[1] == "plain vertex loop")
sys.setprofile(None)
print(len(seen), *sorted(seen))
"""


@pytest.mark.parametrize("way", MOST_FILES)
def test_a_small_program_enters_few_files(way: str) -> None:
    status, text = said("-c", ENTERED, way)
    count, *names = text.split()
    assert (
        status == 0
        and os.path.join("graph", "tensor.py") in names
        and os.path.join("engine", "machine.py") in names
    )
    assert int(count) <= MOST_FILES[way], text


def test_ruff_check() -> None:
    status, text = said("-m", "ruff", "check", "--no-cache", ".")
    assert status == 0, text


def test_ruff_format() -> None:
    status, text = said("-m", "ruff", "format", "--no-cache", "--check", ".")
    assert status == 0, text


@pytest.mark.slow
def test_a_caller_of_a_library_has_the_types_of_all_its_names(tmp_path: Path) -> None:
    """A library's package works its list of names out at run time; mypy must find them all without
    it."""
    lines = [
        "from ipu_teach.poplibs import poplin, popnn, popops",
        "from ipu_teach.poplibs.popops import *",
        "reveal_type(tanh)",
    ]
    lines += [
        f"reveal_type({library.__name__.split('.')[-1]}.{n})"
        for library in (poplin, popnn, popops)
        for n in library.__all__
    ]
    caller = tmp_path / "caller.py"
    caller.write_text("\n".join(lines), encoding="utf-8")
    _, *mypy = runpy.run_path(str(ROOT / "tests" / "__main__.py"))["MYPY"]
    status, text = said(*mypy, str(caller))
    assert status == 0, text
    types = re.findall(r'Revealed type is "(.*)"', text)
    assert len(types) == len(lines) - 2 and "Any" not in types
    assert (
        types[0]
        == types[len(poplin.__all__) + len(popnn.__all__) + 1 + popops.__all__.index("tanh")]
        != "types.ModuleType"
    )


def test_the_minutes_of_the_suite_are_told_in_the_rows_that_are_measured() -> None:
    text = (ROOT / "docs" / "authoring.md").read_text(encoding="utf-8")
    table = text.partition("## What each minute of the suite buys")[2].partition("## ")[0]
    told = re.findall(r"^\| (.+?) \| \d+ \| .+ \|$", table, re.MULTILINE)
    files = [
        *(ROOT / "tests").rglob("test_*.py"),
        *(ROOT / "notebooks" / "solutions").glob("*.ipynb"),
    ]
    measured = {minutes.row_of(path.relative_to(ROOT).as_posix()) for path in files}
    assert sorted(told) == sorted(measured) and measured == minutes.ROWS.keys()


def test_no_test_module_imports_from_another() -> None:
    """What several test modules need is in a library beside them."""
    imported = {
        label(path): private_names.tests_imported(path.read_text(encoding="utf-8"))
        for folder in (ROOT / "tests", ROOT / "docs", ROOT / "bench")
        for path in sorted(folder.rglob("*.py"))
    }
    assert len(imported) > 200
    assert {name: modules for name, modules in imported.items() if modules} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import test_exact",
        "import tests.test_exact as exact",
        "from test_exact import run",
        "from tests.test_exact import run",
        "from .test_views import place",
        "from tests import test_exact",
        "def f():\n    from test_exact import run",
    ],
)
def test_every_way_to_import_a_test_module_is_seen(source: str) -> None:
    assert len(private_names.tests_imported(source)) == 1


def test_every_library_of_the_tests_has_a_name_of_its_own() -> None:
    """Two libraries with one name would be one module for all tests that a worker runs."""
    folders_with_paths = [
        folder
        for folder in [ROOT / "tests", *(ROOT / "tests").iterdir()]
        if folder.is_dir() and not (folder / "__init__.py").exists()
    ]
    paths: dict[str, list[str]] = defaultdict(list)
    for folder in folders_with_paths:
        for path in folder.glob("*.py"):
            if path.stem not in ("conftest", "__main__"):
                paths[path.stem].append(label(path))
    assert len(paths) > 150 and "quoted_calls" in paths
    assert [found for found in paths.values() if len(found) > 1] == []


def test_private_names_are_used_where_they_are_the_subject() -> None:
    """Use a public function, a report or `engine_parts` instead. Fewer uses: lower the limit."""
    assert len(private_names.all_private_uses()) <= MOST_PRIVATE_USES


def test_uses_of_private_names_are_counted_where_they_reach_into_the_kit() -> None:
    known = frozenset({"_machine", "_own"})
    source = """
from ipu_teach.engine import _machine
engine._machine.memory
monkeypatch.setattr(Engine, "_machine", None)
monkeypatch.setattr("ipu_teach.engine._machine", None)
class A:
    def f(self):
        self._own = 1
        self._machine, other._own, print("_machine"), view._repr_html_()
"""
    uses = private_names.private_uses("a.py", source, known)
    assert [(use.line, use.kind) for use in uses] == [
        (2, "import"),
        (4, "text"),
        (5, "text"),
        (3, "attribute"),
    ]


def test_the_codelets_of_a_library_have_names_of_their_own() -> None:
    """A report adds up the cycles of all vertices whose codelets have one name."""
    places = defaultdict[tuple[str, str], list[str]](list)
    for path in (PACKAGE / "poplibs").rglob("*.py"):
        library = path.relative_to(PACKAGE / "poplibs").parts[0]
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                if "compute" in methods:
                    places[library, node.name].append(path.name)
    assert len(places) > 90
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
