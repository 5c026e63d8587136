"""The Sphinx configuration of the website: the lessons, the pages of docs, and an API reference.

MyST-NB reads the notebooks and pages, and autodoc makes the reference from the docstrings. The
theme is PyData's. Furo was tried: its site is 5 MB smaller and builds in half the time. But
axe-core found four kinds of accessibility violations on every page, which only scripts of our own
could have repaired. PyData's theme has none, and the keyboard reaches everything that scrolls.

In addition to settings, this file has functions that fold answers, point links to the solved
lessons, and extend each docstring by its C++ names and the first lesson that uses it.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import MockFinder
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.nodes import make_refnode

ROOT = Path(__file__).resolve().parents[2]
if find_spec("torch") is None:
    # The reference has the PyTorch front end, too, so a mock of torch serves the whole build.
    sys.meta_path.insert(0, MockFinder(["torch"]))
    import_module("torch").__version__ = "2.13"  # the oldest version that the front end accepts
sys.path[:0] = [str(ROOT), str(ROOT / "docs"), str(ROOT / "tests" / "lessons")]

import names  # noqa: E402
from poplar_rows import SECTIONS, Row  # noqa: E402
from poplibs_rows import LIBRARIES  # noqa: E402

import ipu_teach  # noqa: E402
from ipu_course.checking.exercise import catalogue  # noqa: E402
from ipu_course.checking.gaps import gaps_in  # noqa: E402
from ipu_course.checking.learner import learners_form  # noqa: E402

project, version, author = "ipu_teach", ipu_teach.__version__, "the ipu_teach authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
include_patterns = ["*.md", "docs/**", "notebooks/index.ipynb", "notebooks/solutions/*.ipynb"]
exclude_patterns = [".*", "CODE_OF_CONDUCT.md", "SECURITY.md", "**/__pycache__", "**/.*"]
default_role = "py:obj"
# These warnings are expected: the glossary skips a heading level, and several types have the same
# name.
suppress_warnings = ["myst.header", "ref.python"]

nb_execution_mode = "off"
nb_code_prompt_show, nb_code_prompt_hide = "Show the answer", "Hide the answer"
nb_merge_streams = True
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline", "substitution"]
# A link with the scheme `code:` leads to a source page next to the reference.
CODE = {"url": "../_modules/{{path}}.html#{{fragment}}"}
myst_url_schemes = {"http": None, "https": None, "mailto": None, "code": CODE}

# Signatures show no types, because the docstrings give shapes, dtypes and units.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True, "exclude-members": "not_here"}
toc_object_entries_show_parents = "hide"

html_theme, html_title = "pydata_sphinx_theme", "ipu_teach"
templates_path = ["templates"]
html_static_path, html_css_files, html_js_files = ["static"], ["site.css"], ["players.js"]
html_copy_source, html_show_sphinx, html_show_search_summary = False, False, False
html_use_index = html_domain_indices = False
# The pages of lessons have only one sidebar, so that code has room for 100 characters at 1,280
# pixels.
SOLVED = [f"notebooks/solutions/{path.stem}" for path in ROOT.glob("notebooks/solutions/*.ipynb")]
html_sidebars = {"index": []} | dict.fromkeys(SOLVED, ["sidebar-nav-bs", "lesson-toc"])
html_theme_options = {
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": {"**": ["page-toc"]} | dict.fromkeys(SOLVED, []),
    "footer_start": [],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

LESSONS = {name: path for name in names.PATHS["the whole path"] if (path := names.path_of(name))}

PICTURE = re.compile(
    r'<picture>\n<source [^>]*srcset="([^"]+)">\n<img src="([^"]+)"[^>]* alt="([^"]+)">\n</picture>'
)
VIEW = re.compile(r"!\[[^\]]*\]\((\w+\.svg)\)")
CODE_LINK = re.compile(r"\]\(\.\./(ipu_(?:teach|course)/[\w/]+)\.py#([\w.]+)\)")


def moving() -> str:
    """Return the HTML of the view in lesson 01 of one slow tile; the start page shows it."""
    cells = names.read_notebook(LESSONS["01"])["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    pages = ["".join(data.get("text/html", ())) for data in outputs]
    return next(page for page in pages if "<script" in page and re.search("[Tt]ile 4 makes", page))


myst_substitutions = {
    "moving": moving(),
    "minutes": next(lesson.minutes for lesson in catalogue() if lesson.number == "00"),
}


def folded(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a solved lesson in which each answer is folded below the gap that a learner gets."""
    cells = []
    for solved, blank in zip(notebook["cells"], learners_form(notebook)["cells"], strict=True):
        if solved["cell_type"] == "code" and gaps_in(names.source_of(solved)):
            cells.append(blank | {"outputs": [], "id": blank["id"] + "-gap"})
            solved["metadata"]["tags"] = [*solved["metadata"].get("tags", ()), "hide-input"]
        cells.append(solved)
    return notebook | {"cells": cells}


def with_pictures_by_theme(text: str) -> str:
    """Return a page's text with each `<picture>` as two images, for light and dark themes."""
    image = "```{{image}} {}\n:class: only-{}\n:alt: {}\n```\n"
    return PICTURE.sub(
        lambda match: (
            image.format(match[2], "light", match[3]) + image.format(match[1], "dark", match[3])
        ),
        text,
    )


def with_live_views(text: str) -> str:
    """Return the text of the gallery with each picture replaced by the view that it shows."""
    sys.path.insert(0, str(ROOT / "docs" / "gallery"))
    from make_gallery import VIEWS

    return VIEW.sub(lambda match: f"````{{raw}} html\n{VIEWS[match[1]]().html()}\n````", text)


def linked(docname: str, text: str) -> str:
    """Return a page's text with its links to lessons, terms and code as on the website."""
    up = "../" * docname.count("/")
    for path in LESSONS.values():
        link = f"]({up}notebooks/solutions/{path.name})"
        text = re.sub(rf"\]\([\w./]*\b{path.name}\)", link, text)
    text = re.sub(r"(?<=glossary\.md#)[\w-]+", lambda term: term[0].lower(), text)
    text = text.replace("](../deploy/jupyterhub)", "](../deploy/jupyterhub/jupyterhub_config.py)")
    if docname == "docs/glossary":
        for lesson in LESSONS:
            text = text.replace(
                f"*Lesson {lesson}*", f"[*Lesson {lesson}*]({up}{page(lesson)}.ipynb)"
            )
    return CODE_LINK.sub(lambda m: f"](code:{m[1].removesuffix('/__init__')}#{m[2]})", text)


def page(lesson: str) -> str:
    """Return the path of a lesson's page, without a suffix."""
    return f"notebooks/solutions/{LESSONS[lesson].stem}"


def with_all_below(index: dict[str, Any]) -> dict[str, Any]:
    """Return the page of all lessons, with a table of contents in course order."""
    tree = "\n".join(f"solutions/{path.stem}" for path in LESSONS.values())
    tree = f"```{{toctree}}\n:hidden:\n\n{tree}\n```"
    cell = {"cell_type": "markdown", "id": "lessons", "metadata": {}, "source": tree}
    return index | {"cells": [*index["cells"], cell]}


def as_on_the_site(app: Sphinx, docname: str, source: list[str]) -> None:
    text = source[0]
    if docname.startswith("notebooks/"):
        made = with_all_below if docname == "notebooks/index" else folded
        text = json.dumps(made(json.loads(text)))
    if docname == "docs/gallery/README":
        text = with_live_views(text)
    source[0] = with_pictures_by_theme(linked(docname, text))


def code_that_pages_name(app: Sphinx, env: Any) -> None:
    """Make source pages for the modules to which docs/inside.md links."""
    known = env._viewcode_modules
    for path, name in CODE_LINK.findall((ROOT / "docs" / "inside.md").read_text(encoding="utf-8")):
        module = path.removesuffix("/__init__").replace("/", ".")
        if not known.get(module):
            analyzer = ModuleAnalyzer.for_module(module)
            analyzer.find_tags()
            known[module] = (analyzer.code, analyzer.tags, {}, module)
        known[module][2].setdefault(name, "docs/inside")


def for_who_listens(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Improve the HTML of a page for screen readers.

    A folded part is labelled by its visible text, an empty header cell becomes an ordinary cell,
    and the nested lists of modules become one list.
    """
    body = context.get("body", "")
    body = body.replace(' aria-label="Toggle hidden content"', "")
    body = body.replace('<th class="head"><p></p></th>', "<td></td>")
    if pagename == "_modules/index":
        head, _, modules = body.partition("<ul>")
        body = f"{head}<ul>{re.sub('</?ul>', '', modules)}</ul>"
    context["body"] = body


def back_to_the_reference(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Correct the links from a page of source code back to the reference.

    viewcode links to the first name of a module, which may not be on the target page. The link then
    leads to the name that is on that page.
    """
    module = pagename.removeprefix("_modules/").replace("/", ".")
    if entry := pagename.startswith("_modules/") and app.env._viewcode_modules.get(module):
        _, _, used, shown_as = entry
        objects = app.env.domains.python_domain.objects

        def there(found: re.Match[str]) -> str:
            name = found[2].removeprefix(f"{shown_as}.")
            ends = (full for full in objects if full.endswith(f".{name}"))
            full = next((f for f in ends if objects[f].docname == used[name]), "")
            return f'{found[1]}#{full}"'

        back = r'(class="viewcode-back" href="[^"#]*)#([^"]*)"'
        context["body"] = re.sub(back, there, context["body"])


# --- what the tables know of a name ---------------------------------------------------------------


def snake(cpp: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cpp.rpartition("::")[2]).lower()


def rows_by_name() -> dict[str, list[tuple[str, Row | None]]]:
    """Return {path below `ipu_teach`: [(C++ name, row)]} from both tables of C++ names.

    If a row lists several C++ names, only its first name is paired with the row; the other names
    are paired with None.
    """
    found: dict[str, list[tuple[str, Row | None]]] = {}
    for row in (row for rows in (*SECTIONS.values(), *LIBRARIES.values()) for row in rows):
        first, *others = row.cpp.split(", ")
        found.setdefault(row.ours, []).append((first, row))
        library, space = row.ours.rpartition(".")[0], first.rpartition("::")[0]
        for cpp in others:
            told = cpp if "::" in cpp else f"{space}::{cpp}"
            found.setdefault(f"{library}.{snake(cpp)}", []).append((told, None))
    return found


ROWS = rows_by_name()
PUBLIC = [getattr(ipu_teach, name) for name in ipu_teach.__all__]
KINDS = [*(kind for kind in PUBLIC if isinstance(kind, type)), list, dict, str, np.ndarray]
SHOWN = {lesson: "\n".join(text for _, _, text in names.cells_of(lesson)) for lesson in LESSONS}


def first_lesson(path: str) -> str:
    """Return the first lesson that uses an object; "" if there is none.

    For a method it is also "" if other classes or numpy arrays have a method of that name.
    """
    owner, _, last = path.rpartition(".")
    if not inspect.isclass(names.there(f"ipu_teach.{owner}")):
        return str(names.first_lesson(names.there(f"ipu_teach.{path}")))
    if owner not in ipu_teach.__all__ or sum(hasattr(kind, last) for kind in KINDS) > 1:
        return ""
    sought = rf"\.{re.escape(last)}(?!\w)|^{re.escape(last)}$"
    found = (lesson for lesson, text in SHOWN.items() if re.search(sought, text, re.MULTILINE))
    return next(found, "")


def where(path: str) -> str:
    """Return a line with a link to the first lesson, or else the first page, that names an object.

    The line is "" for anything other than a class or function, and for a method that no lesson
    names.
    """
    if lesson := first_lesson(path):
        return f"**First in** :doc:`/{page(lesson)}`"
    subject = names.there(f"ipu_teach.{path}")
    is_method = "." in path and inspect.isclass(names.there(f"ipu_teach.{path.rpartition('.')[0]}"))
    if is_method or not (inspect.isclass(subject) or inspect.isfunction(subject)):
        return ""
    other = names.first_page(subject)
    return "**In no lesson**" + (f"; first on :doc:`/{other}`" if other else "")


def facts(path: str) -> list[str]:
    """Return the lines below the docstring of an object on the website.

    The lines have the object's C++ names, the differences, an example call, and the first lesson
    that names the object.
    """
    known, found = ROWS.get(path, []), where(path)
    told = [f"**C++** {', '.join(f'``{cpp}``' for cpp, _ in known)}"] if known else []
    for row in [row for _, row in known if row][:1]:
        told += [f"**What differs** {as_rest(row.differs)}"] if row.differs else []
        told += [f"**Called** ``{row.example}``"] if row.example else []
    return [f"| {line}" for line in [*told, *[found] * (found != "")]]


def as_rest(text: str) -> str:
    """Return a docstring as reStructuredText.

    Stars and vertical bars are escaped, and a paragraph that is indented by four spaces becomes
    code.
    """
    text = re.sub(r"(?<=\[)\*|(?<=[(,]\s)\*|(?<=\()\*(?=\w)", r"\*", text)
    text = re.sub(r"(`[^`]*`)(\w?)|\|", escaped, text)
    return re.sub(r"(?m)^(\S.*)\n\n(?= {4})", r"\1\n\n::\n\n", text)


def escaped(found: re.Match[str]) -> str:
    return found[1] + (f"\\ {found[2]}" if found[2] else "") if found[1] else r"\|"


def with_facts(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = as_rest("\n".join(lines)).split("\n")
    if what != "module":
        lines += ["", *facts(name.removeprefix("ipu_teach.")), ""]


@cache
def public(domain: Any) -> dict[str, tuple[str, Any]]:
    """Return {ending of a full name: (full name, Sphinx's entry)} for endings that are unique."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for full, entry in domain.objects.items():
        parts = full.split(".")
        for n in range(len(parts)):
            found.setdefault(".".join(parts[n:]), []).append((full, entry))
    return {name: called[0] for name, called in found.items() if len(called) == 1}


def by_its_last_name(app: Sphinx, env: Any, node: Any, shown: nodes.Node) -> nodes.Node | None:
    """Return a link for a name such as `Graph.add_variable`; None if it is not unique."""
    name = node["reftarget"]
    full, entry = public(env.domains.python_domain).get(name, ("", None))
    if node.get("refdomain") != "py" or entry is None or not re.match(r"[A-Z]|\w+[.]", name):
        return None
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, shown, full)


def finished(app: Sphinx, error: Exception | None) -> None:
    """Delete files that visitors of the website do not need, and print its address.

    They are source maps of the theme's scripts (3.5 MB), and a folder that MyST-NB writes.
    """
    shutil.rmtree(Path(app.outdir).parent / "jupyter_execute", ignore_errors=True)
    if error is None:
        for path in Path(app.outdir, "_static").rglob("*.map"):
            path.unlink()
        print((Path(app.outdir) / "index.html").as_uri())


def setup(app: Sphinx) -> None:
    app.connect("source-read", as_on_the_site)
    app.connect("html-page-context", for_who_listens)
    app.connect("html-page-context", back_to_the_reference)
    app.connect("env-updated", code_that_pages_name)
    app.connect("autodoc-process-docstring", with_facts)
    app.connect("missing-reference", by_its_last_name)
    app.connect("build-finished", finished)
