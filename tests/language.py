"""Measure how the kit is written: python3 run.py language draw|lint|words|names

    python3 run.py language draw --seed 7 --count 20     random texts, for a fresh reader to mark
    python3 run.py language lint --by file               signs of prose that is read twice
    python3 run.py language lint --sign what-subject     each text with one sign
    python3 run.py language lint --store                 write tests/language.txt again
    python3 run.py language words                        texts and words of each kind
    python3 run.py language names                        the share of vague names in each package

`--since COMMIT` keeps only texts and names on lines added since that commit. docs/writing.md is the
guide that the signs come from. Of texts with a sign about 7 in 10 have to be read twice, of those
without one about 3 in 10 (130 texts marked by hand), so the count shows where to read, and not how
good a text is.

Needs the standard library alone.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import random
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from trees import walk

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "tests" / "language.txt"
PACKAGES = ("ipu_teach", "ipu_course", "validation")
FOLDERS = (*PACKAGES, "docs", "bench", "pack", "deploy")
KINDS = ("docstring", "comment", "error", "doc", "lesson", "verdict", "commit")
GENERATED = {"docs/mistakes.md"}  # made of mistakes.py, whose texts are counted there
COMMITS = 400  # the latest commits whose subjects are read

# Names that say nothing about what they hold: participles, pronouns and question words.
VAGUE = {
    *("given", "made", "came", "told", "tried", "said", "found", "asked", "seen", "kept", "held"),
    *(
        "left",
        "met",
        "ran",
        "stands",
        "goes",
        "takes",
        "hers",
        "mine",
        "its",
        "own",
        "some",
        "what",
    ),
    *("how", "one", "other", "each", "more", "most", "least", "whole", "here", "there", "alike"),
    *("apart", "together"),
}


VERDICTS = {"NotYet"}  # what a check raises is read by a learner as its verdict
LABELS = {"next_step": "next"}  # how an error's message names its keyword arguments


# How a comment for a tool begins.
TOOLS = re.compile(r"# (?:type:|noqa|---|%%|pragma|fmt|clause:)|#!")


class Text(NamedTuple):
    """A text that people read.

    `place` is "file:line" or "notebook[cell]". `beside` is the code that a reader sees with the
    text: the signature above a docstring, the line of a comment, the statement that raises an
    error; "" for other texts.
    """

    kind: str
    place: str
    words: str
    beside: str = ""

    @property
    def file(self) -> str:
        """The file of the text; "commit" for the subject of a commit."""
        return "commit" if self.kind == "commit" else re.split(r"[:\[]", self.place)[0]


class Sign(NamedTuple):
    """A pattern of prose that readers stumble over, and the kinds of texts that it counts in."""

    pattern: str
    kinds: tuple[str, ...] = KINDS


# tuned on 130 texts marked by hand; on 80 others, 18 of the 25 texts that it named were marked
SIGNS = {
    "dangling-comment": Sign(
        r"^(?:of|who|whom|whose|which|what|why|where|by|in which|in the order|for which|as|than|"
        r"those|one|so|and|but|beside)\b",
        ("comment",),
    ),
    "who-subject": Sign(
        r"(?:(?:^|[.:;!?] )(?:Who|Whoever|Whatever)|, who(?:ever)?|[:;] who(?:ever)?) "
        r"(?!are|is this|does|did|do )[a-z]"
    ),
    "what-subject": Sign(
        r"(?:^|[.:;,] |\b(?:of|for|by|in|from|than|but|with|to) )[Ww]hat (?:is|was|are|has|it|they|"
        r"one|the|an?|stands|lies|comes|came|parts|[a-z]+s)\b(?![^.]*\?)"
    ),
    "fronted-of": Sign(
        r"(?:^|[.:;] )(?:Of|Behind|Beside|Within|Beyond|Left out) (?!course)[^,.]{3,60}"
        r"(?:,| (?:is|are|has|have|lies?|stands?|comes?|goes) )"
    ),
    "lies-stands": Sign(r"\b(?:lies?|lay|stands?|stood)\b(?! (?:on (?:its|the) side|for\b))"),
    "so-many": Sign(r"\b(?:so many|so much as|as many as there|that many more)\b"),
    "is-said": Sign(
        r"\b(?:is|are|was|were) (?:told|said|taken|touched|met|asked|worked out)\b|"
        r"\bsaid (?:again|once)\b|\bsays? (?:so|who|whose)\b"
    ),
    "but-for": Sign(
        r"\b(?:but for|alike but|save for|such that|all else|in vain|thereof|henceforth|farther|"
        r"likelier|so it is|by turns)\b"
    ),
    "she-her": Sign(r"\b(?:hers|herself|she|her)\b"),
    "wrong-term": Sign(
        r"\b(?:slopes?|(?<!standard )deviation|by chance|the road|throws?|the disc|loudest)\b",
        ("lesson", "verdict", "doc", "docstring"),
    ),
    "colon-chain": Sign(r"^[^:.`]{8,}: [^:.`]{8,}: [^:.`]{8,}"),
    "what-docstring": Sign(
        # a question is the first sentence of a view's docstring
        r"^(?:What|Which|How|Where|Whose|Some|Those|The same)\b(?![^.]*\?)",
        ("docstring",),
    ),
    "long-subject": Sign(r"^.{73,}", ("commit",)),
}
LONG_SENTENCE = 34  # words


def signs(text: Text) -> Iterator[str]:
    """Yield the names of the signs that a text shows, with code and links left out."""
    plain = re.sub(
        r"`[^`]*`|\[([^\]]*)\]\([^)]*\)|\*+", lambda match: match.group(1) or "X", text.words
    )
    for name, sign in SIGNS.items():
        if text.kind in sign.kinds and re.search(sign.pattern, plain):
            yield name
    sentences = re.split(r"(?<=[.!?:;]) ", plain)
    if text.kind != "commit" and any(len(s.split()) > LONG_SENTENCE for s in sentences):
        yield "long-sentence"


def texts(root: Path = ROOT) -> Iterator[Text]:
    """Yield every text of a checkout that people read, except those of its tests."""
    for path in python_files(root, FOLDERS):
        yield from _texts_of_module(path.relative_to(root).as_posix(), path.read_text("utf-8"))
    for path in sorted(
        [*root.glob("*.md"), *(p for f in FOLDERS for p in (root / f).rglob("*.md"))]
    ):
        place = path.relative_to(root).as_posix()
        if place not in GENERATED:
            kind = "verdict" if re.search("afterwards|words", place) else "doc"
            for line, words in paragraphs(path.read_text("utf-8")):
                yield Text(kind, f"{place}:{line}", words)
    for path in sorted((root / "notebooks" / "solutions").glob("*.ipynb")):
        for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
            if cell["cell_type"] == "markdown":
                for _, words in paragraphs("".join(cell["source"])):
                    yield Text("lesson", f"{path.relative_to(root).as_posix()}[{number}]", words)
    for subject in _git(root, "log", f"-{COMMITS}", "--no-merges", "--format=%h %s").splitlines():
        yield Text("commit", *subject.split(" ", 1))


def python_files(root: Path, folders: Iterable[str]) -> list[Path]:
    """Return the Python files below some folders of a checkout, sorted."""
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def paragraphs(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield line number and words of each paragraph and bullet, without code, tables, headings."""
    in_fence = False
    start, rows = 0, list[str]()
    for number, line in enumerate([*markdown.split("\n"), ""], 1):
        if line.lstrip().startswith("```"):
            in_fence = not in_fence
        other = re.match(r"\s*(?:```|\||#|<|!\[)|    ", line)
        is_prose = not in_fence and line.strip() and not other
        is_bullet = re.match(r"\s*(?:[*>-]|\d+\.) ", line)
        if rows and (not is_prose or is_bullet):
            yield start, " ".join(rows)
            rows = []
        if is_prose:
            start = start if rows else number
            rows.append(re.sub(r"^\s*(?:> ?)?(?:[*-] )?", "", line).strip())


def _texts_of_module(place: str, source: str) -> Iterator[Text]:
    """Yield the docstrings, errors, verdicts and comments of a module."""
    is_mistakes = "mistakes" in place
    has_verdicts = re.match(r"ipu_course/.*(?:warmups|checks)", place)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    visited: set[tuple[int, str]] = set()
    nodes = list(walk(ast.parse(source)))
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    owners = {id(member): f"{cls.name}." for cls in classes for member in cls.body}
    for node in nodes:
        if isinstance(node, documented) and not is_mistakes and (doc := ast.get_docstring(node)):
            at = f"{place}:{getattr(node, 'lineno', 1)}"
            words = " ".join(without_code(doc).split())
            yield Text("docstring", at, words, _signature(node, owners))
        is_call = isinstance(node, (ast.Raise, ast.Call))
        for line, words in _error_texts(node) if is_call else ():
            if len(words.split()) > 3 and (line, words) not in visited:
                visited.add((line, words))
                yield Text("error", f"{place}:{line}", " ".join(words.split()), ast.unparse(node))
        if has_verdicts and len((words := _literal(node)).split()) > 4 and "\n\n" not in words:
            yield Text("verdict", f"{place}:{getattr(node, 'lineno', 1)}", " ".join(words.split()))
    for line, words, code in _comments(source):
        kind = "verdict" if is_mistakes else "comment"
        yield Text(kind, f"{place}:{line}", words, "" if is_mistakes else code)


def without_code(doc: str) -> str:
    """Return a docstring with "[code]." in place of each example, a paragraph that is indented."""
    paragraphs = doc.split("\n\n")
    return "\n\n".join(
        "[code]." if all(line.startswith("    ") for line in part.splitlines()) else part
        for part in paragraphs
    )


def _signature(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, owners: dict[int, str]
) -> str:
    """Return the line that opens a class or function: `def Tensor.slice(self, ...)`.

    `owners` maps the id of each member of a class to the name of the class and a dot.
    """
    if isinstance(node, ast.Module):
        return "module"
    name = owners.get(id(node), "") + node.name
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return f"class {name}({bases})" if bases else f"class {name}"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {name}({ast.unparse(node.args)}){returns}"


def _error_texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and words of a raise statement or of a call of an error's class.

    The words are those of all its literals in order, each keyword's behind its name. A verdict is
    no error: `_texts_of_module` reads the literals of the checks one by one.
    """
    call = node.exc if isinstance(node, ast.Raise) else node
    if not isinstance(call, ast.Call):
        return
    name = ast.unparse(call.func)
    is_error = isinstance(node, ast.Raise) or "Error" in name[-20:]
    if not is_error or name in VERDICTS:
        return
    words = [text for argument in call.args if (text := _literals(argument))]
    for keyword in call.keywords:
        if text := _literals(keyword.value):
            words.append(f"{LABELS.get(label := keyword.arg or '', label)}: {text}")
    if words:
        yield call.lineno, " ".join(words)


def _literals(node: ast.AST) -> str:
    """Return the words of all literals of an expression, in order."""
    formatted = [part for part in ast.walk(node) if isinstance(part, ast.JoinedStr)]
    inner = {id(part) for text in formatted for part in ast.walk(text) if part is not text}
    outer = [part for part in ast.walk(node) if id(part) not in inner and _literal(part)]
    outer.sort(key=lambda part: (getattr(part, "lineno", 0), getattr(part, "col_offset", 0)))
    return " ".join(_literal(part) for part in outer)


def _literal(node: ast.AST) -> str:
    """Return the words of a string, with {…} for a formatted value; "" for any other node."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "{…}" for v in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""


def _comments(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield first line, words and code line of each comment.

    Adjacent comment lines are one comment; a comment behind code is one for itself.
    """
    lines = source.split("\n")
    rows = list[list[tuple[int, str]]]()  # the lines of each comment
    ends = True
    if "#" not in source:
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or TOOLS.match(token.string):
            continue
        line = token.start[0]
        is_behind_code = bool(token.line[: token.start[1]].strip())
        is_label = re.match(r"# (?:why|next):", token.string)
        if ends or is_behind_code or is_label or line != rows[-1][-1][0] + 1:
            rows.append([])
        rows[-1].append((line, token.string.lstrip("# ")))
        ends = is_behind_code
    for comment in rows:
        first, last = comment[0][0], comment[-1][0]
        code = lines[first - 1].partition("# ")[0].strip()
        code = code or next((text.strip() for text in lines[last:] if text.strip()), "")
        yield first, " ".join(words for _, words in comment), code


class Added:
    """The lines and commits that a checkout has gained since a commit, uncommitted lines too."""

    def __init__(self, root: Path, commit: str) -> None:
        log = _git(root, "log", "--no-merges", "--format=%h", f"{commit}..HEAD")
        self.commits = set(log.split())
        self.lines: dict[str, set[int]] = {}
        for row in _git(root, "diff", "-U0", commit).splitlines():
            if row.startswith("+++ b/"):
                lines = self.lines.setdefault(row[6:], set())
            elif row.startswith("@@") and (hunk := re.search(r"\+(\d+)(?:,(\d+))?", row)):
                start, count = int(hunk[1]), int(hunk[2] or 1)
                lines.update(range(start, start + count))

    def has_text(self, text: Text) -> bool:
        """Return whether a text is new; one in a notebook is if the notebook changed."""
        if text.kind == "commit":
            return text.place in self.commits
        if text.kind == "lesson":
            return text.file in self.lines
        line = int(text.place.rsplit(":", 1)[1])
        # A text of up to four lines is new if one of them is.
        return not self.lines.get(text.file, set()).isdisjoint(range(line, line + 4))

    def has_line(self, file: str, line: int) -> bool:
        """Return whether a line of a file is new."""
        return line in self.lines.get(file, ())


class Binding(NamedTuple):
    """A name that an assignment or a parameter binds."""

    file: str
    line: int
    name: str

    @property
    def package(self) -> str:
        """The package, such as ipu_teach/show; ipu_course/lessons for all lessons together."""
        parts = self.file.split("/")
        if len(parts) < 3:
            return parts[0]
        return "ipu_course/lessons" if parts[1].startswith("lesson") else "/".join(parts[:2])


def bindings(root: Path = ROOT) -> Iterator[Binding]:
    """Yield the names bound in the packages; known mistakes are written as learners write."""
    for path in python_files(root, PACKAGES):
        if "mistakes" in path.name:
            continue
        file = path.relative_to(root).as_posix()
        nodes = list(walk(ast.parse(path.read_text("utf-8"))))
        methods = [n for n in nodes if isinstance(n, ast.FunctionDef)]
        # Python itself names the parameters of special methods, such as `other` of __eq__.
        special = {id(p) for m in methods if m.name.startswith("__") for p in m.args.args}
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield Binding(file, node.lineno, node.id)
            elif isinstance(node, ast.arg) and id(node) not in special:
                yield Binding(file, node.lineno, node.arg)


def hits_by_file(root: Path = ROOT) -> Counter[str]:
    """Return the number of signs in the texts of each file; commits are left out."""
    return Counter(t.file for t in texts(root) if t.kind != "commit" for _ in signs(t))


def stored_hits() -> dict[str, int]:
    """Return the signs that tests/language.txt allows for each file; a file not in it has none."""
    rows = (row.rsplit(" ", 1) for row in STORED.read_text("utf-8").splitlines() if row)
    return {file: int(count) for file, count in rows}


def _git(root: Path, *words: str) -> str:
    """Return the output of a git command in a checkout; "" where there is no repository."""
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _print_names(added: Added | None, top: int) -> None:
    found = [b for b in bindings() if added is None or added.has_line(b.file, b.line)]
    vague = [b for b in found if b.name in VAGUE]
    total, share = Counter(b.package for b in found), Counter(b.package for b in vague)
    print(
        f"{len(vague)} of {len(found)} bindings are vague ({len(vague) / max(1, len(found)):.1%})"
    )
    for package in sorted(total, key=lambda p: -share[p] / total[p]):
        print(
            f"{share[package] / total[package]:6.1%} {share[package]:5} of {total[package]:5} {package}"
        )
    for counter in (Counter(b.name for b in vague), Counter(b.file for b in vague)):
        print("", *(f"{count:6} {key}" for key, count in counter.most_common(top)), sep="\n")


def _print_lint(chosen: list[Text], by: str, sign: str | None, top: int) -> None:
    counts, words = Counter[str](), Counter[str]()
    for text in chosen:
        words[text.file] += len(text.words.split())
        for name in signs(text):
            if sign in (None, name):
                counts[name if by == "sign" else text.file] += 1
            if sign == name:
                print(text.place, text.words, sep="\t")
    if by == "sign":
        print(*(f"{count:6} {name}" for name, count in counts.most_common()), sep="\n")
        return
    rates = {f: 1000 * count / words[f] for f, count in counts.items() if words[f] > 150}
    for file in sorted(rates, key=lambda f: -rates[f])[:top]:
        print(f"{counts[file]:6} {rates[file]:7.1f} per 1,000 words  {file}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="run.py language",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("mode", choices=("draw", "lint", "words", "names"))
    parser.add_argument("--seed", type=int, default=1, help="of the texts that draw prints")
    parser.add_argument("--count", type=int, default=20, help="texts of each kind that draw prints")
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=KINDS, help="kinds of texts")
    parser.add_argument("--by", choices=("sign", "file"), default="file", help="count lint by this")
    parser.add_argument("--sign", choices=(*SIGNS, "long-sentence"), help="print the texts with it")
    parser.add_argument("--top", type=int, default=25, help="rows of lint and names")
    parser.add_argument("--since", metavar="COMMIT", help="only lines added since this commit")
    parser.add_argument("--store", action="store_true", help="allow each file the signs it has now")
    words = parser.parse_args()
    added = Added(ROOT, words.since) if words.since else None
    if words.mode == "names":
        _print_names(added, words.top)
        return
    if words.store:
        rows = (f"{file} {count}\n" for file, count in sorted(hits_by_file().items()))
        STORED.write_text("".join(rows), "utf-8")
        return
    chosen = [t for t in texts() if t.kind in words.kind and (added is None or added.has_text(t))]
    if words.mode == "lint":
        _print_lint(chosen, words.by, words.sign, words.top)
        return
    generator = random.Random(words.seed)
    for kind in words.kind:
        of_kind = [text for text in chosen if text.kind == kind]
        if words.mode == "words":
            count = sum(len(text.words.split()) for text in of_kind)
            print(f"{kind:10} {len(of_kind):6} texts {count:8} words")
        else:
            for text in generator.sample(of_kind, min(words.count, len(of_kind))):
                print(text.kind, text.place, text.beside, text.words, sep="\t")


if __name__ == "__main__":
    main()
