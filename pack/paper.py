"""Check the paper for the Journal of Open Source Education, and build its PDF.

    python -m pack.paper                   # copies the authors from CITATION.cff, and checks
    python -m pack.paper --pdf paper.pdf   # also builds a PDF, with pandoc and Chromium

The journal asks for a file paper.md of about 1000 words, with a header and a statement of need. The
paper also describes the learning objectives, the content, the instructional design, the experience
of use and the story of the project. The journal's own service makes the final PDF from paper.md and
paper.bib.

Every number in the paper must be on a page of this repository. A comment after a paragraph, such as
`<!-- README.md docs/model.md -->`, names the pages with the numbers of the paragraph.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# If this file runs as a script, make `pack` importable.
if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from pack import ready

ROOT = Path(__file__).resolve().parents[1]
PAPER, REFERENCES = ROOT / "paper" / "paper.md", ROOT / "paper" / "paper.bib"
SECTIONS = (
    "Summary",
    "Statement of need",
    "Learning objectives",
    "Content",
    "Instructional design",
    "How it was tested",
    "Experience of use",
    "Story of the project",
    "References",
)
HEADER = ("title", "tags", "authors", "affiliations", "date", "bibliography")
# The fields that BibTeX requires for each type of entry, and that every reference here has.
FIELDS = {
    "article": ("author", "title", "journal", "year", "doi"),
    "inproceedings": ("author", "title", "booktitle", "year"),
    "incollection": ("author", "title", "booktitle", "publisher", "year"),
    "book": ("author", "title", "publisher", "year"),
    "misc": ("author", "title", "year", "url"),
}
MOST_WORDS = 1100  # The journal expects about 1000 words.


def header(text: str) -> dict[str, Any]:
    """Return the metadata at the beginning of the paper; {} if there are none."""
    import yaml

    match = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    content = yaml.safe_load(match[1]) if match else None
    return content if isinstance(content, dict) else {}


def body(text: str) -> str:
    """Return the paper without its metadata."""
    return re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)


def authors(people: Sequence[dict[str, str]]) -> str:
    """Return the lines of the paper's header for the authors of CITATION.cff.

    A person has `given-names`, `family-names` and, if known, `orcid` and `affiliation`. The
    placeholder for an unknown author has only `name`.
    """
    places = list(dict.fromkeys(person.get("affiliation", "") for person in people))
    lines = ["authors:"]
    for person in people:
        names = (person.get("given-names", ""), person.get("family-names", ""))
        lines.append(f"  - name: {' '.join(filter(None, names)) or person.get('name', '')}")
        if person.get("orcid"):
            lines.append(f"    orcid: {person['orcid'].rpartition('/')[2]}")
        lines.append(f"    affiliation: {places.index(person.get('affiliation', '')) + 1}")
    lines.append("affiliations:")
    for number, place in enumerate(places, 1):
        lines += [f"  - name: {place or 'Independent'}", f"    index: {number}"]
    return "\n".join(lines) + "\n"


def with_authors(text: str, people: Sequence[dict[str, str]]) -> str:
    """Return the paper with the authors of CITATION.cff in its header."""
    return re.sub(r"(?ms)^authors:\n.*?(?=^date:)", lambda _: authors(people), text, count=1)


def entries(text: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Return `(type, fields)` of each entry in a BibTeX file, keyed by the name of the entry.

    Each field must be on a line of its own, as in `title = {Some words},`.
    """
    result = {}
    for kind, key, rest in re.findall(r"(?ms)^@(\w+)\{([^,\s]+),\n(.*?)^\}", text):
        fields = re.findall(r"(?m)^\s*(\w+)\s*=\s*\{(.*)\},?$", rest)
        result[key] = (kind.lower(), {name.lower(): value for name, value in fields})
    return result


def reference_faults(text: str, references: str) -> Iterator[str]:
    """Yield each citation without an entry, each unused entry, and each missing field."""
    cited = set(re.findall(r"(?<![\w.])@([\w:-]+)", body(text)))
    listed = entries(references)
    count = len(re.findall(r"(?m)^@", references))
    if count != len(listed):
        yield f"paper.bib: {count - len(listed)} of {count} entries cannot be read, or are double"
    for key in sorted(cited - set(listed)):
        yield f"paper.md cites @{key}, which is not in paper.bib"
    for key in sorted(set(listed) - cited):
        yield f"paper.bib: {key} is not cited"
    for key, (kind, fields) in listed.items():
        if kind not in FIELDS:
            yield f"paper.bib: {key} has the type {kind!r}; use one of {', '.join(FIELDS)}"
        for field in FIELDS.get(kind, ()):
            if not fields.get(field, "").strip():
                yield f"paper.bib: {key} has no {field}"


def number_faults(text: str) -> Iterator[str]:
    """Yield each number in a paragraph that is on none of the pages named in its comment."""
    comment = r"\n<!--([^>]*)-->"
    for paragraph in re.split(r"\n\n+", body(text)):
        pages = [page for found in re.findall(comment, paragraph) for page in found.split()]
        missing = [page for page in pages if not (ROOT / page).is_file()]
        yield from (f"paper.md names {page}, which does not exist" for page in missing)
        known = "\n".join((ROOT / p).read_text("utf-8") for p in pages if p not in missing)
        words = re.sub(comment, "", paragraph)
        for number in re.findall(
            r"(?<![\w.@])\d[\d,.]*\d|(?<![\w.@])\d", re.sub(r"@\S+", "", words)
        ):
            if not re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d]|[.,]\d)", known):
                advice = "has no page: add a comment with its page below the paragraph"
                where = f"is not on {', '.join(pages)}" if pages else advice
                yield f"paper.md: the number {number} {where}"


def faults() -> Iterator[str]:
    """Yield a description of each fault of the paper and its references."""
    text = PAPER.read_text(encoding="utf-8")
    metadata = header(text)
    for name in HEADER:
        if not metadata.get(name):
            yield f"paper.md: its header has no {name}"
    titles = re.findall(r"(?m)^# (.*)", body(text))
    for title in SECTIONS:
        if title not in titles:
            yield f"paper.md has no section {title!r}"
    if titles[-1:] != ["References"]:
        yield "paper.md must end with the section 'References'"
    if with_authors(text, ready.citation()["authors"]) != text:
        yield "paper.md has other authors than CITATION.cff: run python -m pack.paper"
    words = len(re.sub(r"<!--.*?-->", "", body(text), flags=re.DOTALL).split())
    if words > MOST_WORDS:
        yield f"paper.md has {words} words, and the journal expects about 1000 at most"
    yield from reference_faults(text, REFERENCES.read_text(encoding="utf-8"))
    yield from number_faults(text)


def build_pdf(path: Path) -> None:
    """Build the PDF of the paper.

    :raises SystemExit: if pandoc or Chromium is missing or fails.
    """
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    pandoc = shutil.which("pandoc")
    if not (pandoc and chromium):
        raise SystemExit("The PDF needs pandoc and Chromium, and one of them is not installed.")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "paper.html")
        names = [person["name"] for person in header(PAPER.read_text("utf-8"))["authors"]]
        options = ["--citeproc", "--standalone", "--metadata=lang:en-GB", f"--output={page}"]
        options += [f"--metadata=author:{name}" for name in names]
        browser = [chromium, "--headless", "--no-sandbox", "--no-pdf-header-footer"]
        browser += [f"--print-to-pdf={path.resolve()}", page.as_uri()]
        for command in ([pandoc, PAPER.name, *options], browser):
            done = subprocess.run(command, cwd=PAPER.parent, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{Path(command[0]).name} failed: {done.stderr.strip()[-600:]}")
    if not path.is_file():
        raise SystemExit(f"Chromium wrote no file {path}: {done.stderr.strip()[-600:]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the authors into the paper, check it, and build its PDF; return 1 if it has faults."""
    parser = argparse.ArgumentParser(prog="python -m pack.paper", description=__doc__)
    parser.add_argument("--pdf", type=Path, help="also build a PDF")
    options = parser.parse_args(arguments)
    text = PAPER.read_text(encoding="utf-8")
    PAPER.write_text(
        with_authors(text, ready.citation()["authors"]), encoding="utf-8", newline="\n"
    )
    problems = list(faults())
    for problem in problems:
        print(f"wrong: {problem}")
    if options.pdf:
        build_pdf(options.pdf)
        print(f"{options.pdf}: the paper")
    if not problems:
        print(f"{PAPER}: all is well")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
