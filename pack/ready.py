"""Check whether a version can be published, and say what to tag.

docs/publishing.md lists the decisions that a person with accounts makes once. This module finds
the decisions that are still open. It also checks the changelog, and fills in the recipe for
conda-forge.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import runpy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINKS = runpy.run_path(str(ROOT / "docs" / "make_links.py"))
RECIPE = ROOT / "deploy" / "conda-forge" / "recipe.yaml"
PLACEHOLDER = "the ipu_teach authors"
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed")


def setting(name: str) -> str:
    """Return the text of a setting in the section `project` of pyproject.toml, such as `name`."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("\n[project.")[0]
    match = re.search(rf'(?m)^{name} = "([^"]*)"', project)
    return match[1] if match else ""


def citation() -> dict[str, Any]:
    """Return the content of CITATION.cff."""
    import yaml

    content: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    return content


def has_names(authors: Sequence[dict[str, str]]) -> bool:
    """Return whether every author of CITATION.cff is a person with a family name."""
    return bool(authors) and all(
        author.get("family-names") and author.get("name") != PLACEHOLDER for author in authors
    )


def undecided(address: str, content: dict[str, Any]) -> Iterator[str]:
    """Yield each open decision that must be made before anything is published, and its setting.

    `content` is that of CITATION.cff.
    """
    if not address:
        yield (
            "the repository has no public address: write it as tool.ipu-teach.address into "
            "pyproject.toml, and run python docs/make_links.py"
        )
    if not has_names(content.get("authors", ())):
        yield (
            f"the authors are a placeholder, {PLACEHOLDER!r}: name them in CITATION.cff, and run "
            "python -m pack.paper"
        )


def notes(licence: str, content: dict[str, Any]) -> Iterator[str]:
    """Yield each open decision that can wait until after the first release."""
    if not content.get("doi"):
        yield "CITATION.cff has no doi; an archive gives one to a release"
    if licence == "MIT":
        yield "the lessons have the licence of the code, MIT; docs/publishing.md proposes CC BY 4.0"


def sections(changelog: str) -> dict[str, tuple[str, str]]:
    """Return `(rest of the heading, text)` for each version in the changelog, newest first."""
    parts = re.split(r"(?m)^## \[([^\]]+)\](.*)\n", changelog)[1:]
    return {
        version: (rest.strip(), text.strip())
        for version, rest, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def changelog_faults(changelog: str, version: str, tags: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with the changelog and the tags for the version to be released.

    `tags` are the names of all tags of the repository, such as "v0.1.0".
    """
    listed = sections(changelog)
    if version not in listed:
        yield (
            f"CHANGELOG.md has no version {version}: write the heading "
            f'"## [{version}] - YEAR-MONTH-DAY" below "## [Unreleased]", above the changes'
        )
        return
    date, text = listed[version]
    try:
        datetime.date.fromisoformat(date.removeprefix("- "))
    except ValueError:
        yield f'CHANGELOG.md: the heading of {version} ends in {date!r}, and not in "- 2026-11-30"'
    if not re.search(r"(?m)^\* ", text):
        yield f"CHANGELOG.md: {version} lists no change"
    for kind in re.findall(r"(?m)^### (.*)", text):
        if kind not in KINDS:
            yield f"CHANGELOG.md: {version} has the heading {kind!r}; use one of {', '.join(KINDS)}"
    if re.search(r"(?m)^\* ", listed.get("Unreleased", ("", ""))[1]):
        yield f"CHANGELOG.md: [Unreleased] still lists changes; move them to {version}"
    if f"v{version}" in tags:
        yield f"the tag v{version} exists: raise the version in ipu_teach/__init__.py"
    for tag in tags:
        if re.fullmatch(r"v[\d.]+", tag) and numbers(tag) > numbers(version):
            yield f"the tag {tag} is newer than {version}"


def tag_commands(version: str, commit: str) -> str:
    """Return the commands that tag a commit and publish the tag."""
    return (
        f'    git tag -a v{version} -m "{setting("name")} {version}" {commit}\n'
        f"    git push origin v{version}"
    )


def recipe(sdist: Path, version: str, address: str) -> str:
    """Return the recipe for conda-forge for an sdist that a release at `address` will contain."""
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    text = RECIPE.read_text(encoding="utf-8").partition("schema_version")
    filled = "".join(text[1:]).replace("ADDRESS", address).replace("SHA256", digest)
    filled = re.sub(r"(?m)^  name: ipu_teach$", f"  name: {setting('name')}", filled)
    filled = re.sub(r'(?m)^  version: "[^"]*"$', f'  version: "{version}"', filled)
    filled = re.sub(r"(?m)^  license: .*$", f"  license: {setting('license')}", filled)
    licences = ", ".join(sorted(path.name for path in ROOT.glob("LICENSE*")))
    filled = filled.replace("license_file: LICENSE", f"license_file: [{licences}]")
    return filled.replace("MAINTAINER", LINKS["owner_and_name"](address)[0])
