"""What `python3 run.py release` looks for in an sdist and a wheel, the changelog and the paper."""

from __future__ import annotations

import hashlib
import io
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from ipu_teach import __version__
from pack import paper, ready, release

ROOT = Path(__file__).resolve().parents[1]

METADATA = f"""Metadata-Version: 2.4
Name: ipu_teach
Version: {__version__}
Description-Content-Type: text/markdown

# A kit
"""


def archives(folder: Path, metadata: str, **files: str) -> tuple[Path, Path]:
    """An sdist with these files, and a wheel without any."""
    sdist, wheel = folder / "ipu_teach-0.tar.gz", folder / "ipu_teach-0-py3-none-any.whl"
    with tarfile.open(sdist, "w:gz") as archive:
        for name, text in {"PKG-INFO": metadata, **files}.items():
            member = tarfile.TarInfo(f"ipu_teach-0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    with zipfile.ZipFile(wheel, "w") as built:
        built.writestr(f"ipu_teach-{__version__}.dist-info/METADATA", metadata)
    return sdist, wheel


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files are tracked, and a wheel of an sdist is a zip without metadata of its own."""
    monkeypatch.setattr(release, "run", lambda *words: "run.py\nREADME.md\n")

    def hatch(source: Path, folder: Path, *options: str) -> None:
        _, made = archives(folder, (source / "PKG-INFO").read_text("utf-8"))
        if not (source / "README.md").exists():
            with zipfile.ZipFile(made, "a") as built:
                built.writestr("more", "")

    monkeypatch.setattr(release, "hatch", hatch)


@pytest.mark.usefixtures("stand_ins")
def test_a_good_pair_has_no_fault(tmp_path: Path) -> None:
    pair = archives(tmp_path, METADATA, **{"run.py": "", "README.md": ""})
    assert list(release.faults(*pair)) == []


@pytest.mark.usefixtures("stand_ins")
def test_each_fault_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(release.MOST, ".gz", 10)
    changed = METADATA.replace(f"Version: {__version__}", "Version: 9").replace("# A kit\n", "")
    pair = archives(
        tmp_path, changed.replace("Name", "Colour: red\nName"), **{"run.py": "", "x": ""}
    )
    sdist, wheel = (path.name for path in pair)
    found = list(release.faults(*pair))
    assert found[:4] == [
        f"{sdist}: its metadata has ['colour']",
        f"{sdist}: its version is 9, or README is not in it",
        f"{wheel}: its metadata has ['colour']",
        f"{wheel}: its version is 9, or README is not in it",
    ]
    assert found[4].startswith(f"{sdist}: ") and found[4].endswith(" bytes")
    assert found[5:] == [
        f"{sdist}: README.md is not in it",
        f"{sdist}: x is in it",
        f"{sdist}: the wheel that it makes is another",
    ]


@pytest.mark.usefixtures("stand_ins")
def test_what_pypi_would_refuse_is_refused(tmp_path: Path) -> None:
    changed = METADATA.replace("text/markdown", "text/loud")
    pair = archives(tmp_path, changed, **{"run.py": "", "README.md": ""})
    sdist, wheel = list(release.faults(*pair))
    for said, archive in zip((sdist, wheel), pair, strict=True):
        assert said.startswith(f"{archive.name}: 'description-content-type' must be one of")


def test_the_version_has_its_part_of_the_changelog_and_this_python_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heading, told = release.changes()
    assert heading in (f"[{__version__}]", "[Unreleased]") and told.startswith("The first version")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    monkeypatch.setattr(release, "PYTHONS", (version,))
    assert release.pythons() == {version: sys.executable}


CHANGELOG = """# Changes

## [Unreleased]

## [0.2.0] - 2027-01-31

### Added

* A view.
"""


def test_a_changelog_with_a_dated_heading_and_a_new_version_is_ready() -> None:
    assert list(ready.changelog_faults(CHANGELOG, "0.2.0", ["v0.1.0", "v0.1.10"])) == []


@pytest.mark.parametrize(
    ("before", "after", "tags", "said"),
    [
        ("[0.2.0]", "[0.1.0]", [], 'CHANGELOG.md has no version 0.2.0: write the heading "## [0.2'),
        ("2027-01-31", "2027-13-01", [], "CHANGELOG.md: the heading of 0.2.0 ends in '- 2027-13-"),
        ("* A view.", "A view.", [], "CHANGELOG.md: 0.2.0 lists no change"),
        ("Added", "New", [], "CHANGELOG.md: 0.2.0 has the heading 'New'; use one of Added, Chan"),
        ("d]\n", "d]\n* More.\n", [], "CHANGELOG.md: [Unreleased] still lists changes; move them"),
        ("", "", ["v0.2.0"], "the tag v0.2.0 exists: raise the version in ipu_teach/__init__.py"),
        ("", "", ["v0.10.0"], "the tag v0.10.0 is newer than 0.2.0"),
    ],
)
def test_each_fault_of_a_changelog_is_named(
    before: str, after: str, tags: list[str], said: str
) -> None:
    (fault,) = ready.changelog_faults(CHANGELOG.replace(before, after, 1), "0.2.0", tags)
    assert fault.startswith(said)


def test_nothing_is_published_without_an_address_and_with_the_placeholder_of_the_authors() -> None:
    people = [{"given-names": "Ada", "family-names": "Example"}]
    place = "https://github.com/somebody/tiles"
    assert list(ready.undecided(place, {"authors": people})) == []
    without_address, without_names = ready.undecided("", {"authors": [{"name": "x"}]})
    assert "write it as tool.ipu-teach.address into pyproject.toml" in without_address
    assert "name them in CITATION.cff, and run python -m pack.paper" in without_names
    said = release.verdict([], [without_names], "abc1234")
    assert said.startswith("to do: the authors are a placeholder") and "git tag" not in said
    assert release.verdict([], [], "abc1234").endswith(
        f'git tag -a v{__version__} -m "ipu_teach {__version__}" abc1234\n'
        f"    git push origin v{__version__}"
    )


def test_the_recipe_has_the_sdist_and_the_packages_of_environment_yml(tmp_path: Path) -> None:
    sdist = tmp_path / "x.tar.gz"
    sdist.write_bytes(b"an sdist")
    made = yaml.safe_load(ready.recipe(sdist, "0.2.0", "https://github.com/somebody/tiles"))
    assert made["context"]["version"] == "0.2.0" and made["context"]["name"] == "ipu_teach"
    assert made["source"]["sha256"] == hashlib.sha256(b"an sdist").hexdigest()
    assert made["source"]["url"].startswith(
        "https://github.com/somebody/tiles/releases/download/v$"
    )
    assert made["extra"]["recipe-maintainers"] == ["somebody"]
    conda = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    names = [line.split()[0] for line in made["requirements"]["run"]]
    assert made["requirements"]["run"][1:] == [
        line for line in conda if isinstance(line, str) and line.split()[0] in names[1:]
    ]
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    wanted = project.split("dependencies = [")[1].split("test = [")[0]
    wanted = wanted.replace("matplotlib>", "matplotlib-base>")
    assert re.findall(r'(?m)^    "([\w-]+)>', wanted) == names[1:]


def test_messages_name_the_project_as_pyproject_does() -> None:
    """A message such as `pip install ipu_teach[lab]` must change with the name of the project."""
    name = re.sub(r"[-_.]+", "-", ready.setting("name"))
    for path in [*ROOT.glob("ipu_*/**/*.py"), *ROOT.glob("docs/*.md")]:
        for wanted in re.findall(
            r"[\'\"]([\w-]+)\[(?:lab|onnx|torch|gpu)\]", path.read_text("utf-8")
        ):
            assert re.sub(r"[-_.]+", "-", wanted) == name, path


def test_the_paper_has_its_sections_references_and_numbers() -> None:
    assert list(paper.faults()) == []


TEXT = """---
title: T
---

# Summary

See @known and [@missing], with 1,472 tiles and 31 more.
<!-- README.md -->

There are 7.
"""
BIB = """@article{known,
  author = {A},
  title = {T},
  journal = {J},
  year = {2000},
}

@misc{unused,
  author = {A},
  title = {T},
  year = {2000},
  url = {https://example.org},
}
"""


def test_faults_of_a_paper_are_named() -> None:
    assert list(paper.reference_faults(TEXT, BIB)) == [
        "paper.md cites @missing, which is not in paper.bib",
        "paper.bib: unused is not cited",
        "paper.bib: known has no doi",
    ]
    assert list(paper.number_faults(TEXT)) == [
        "paper.md: the number 31 is not on README.md",
        "paper.md: the number 7 has no page: add a comment with its page below the paragraph",
    ]


def test_the_authors_of_citation_cff_go_into_the_paper() -> None:
    person = {"given-names": "Ada", "family-names": "Example", "affiliation": "A University"}
    people = [{**person, "orcid": "https://orcid.org/0000-0001"}, person, {"name": "B"}]
    made = paper.header(
        paper.with_authors(paper.PAPER.read_text("utf-8"), people)  # type: ignore[arg-type]
    )
    assert made["authors"] == [
        {"name": "Ada Example", "orcid": "0000-0001", "affiliation": 1},
        {"name": "Ada Example", "affiliation": 1},
        {"name": "B", "affiliation": 2},
    ]
    assert [place["name"] for place in made["affiliations"]] == ["A University", "Independent"]
    assert made["date"] and made["bibliography"] == "paper.bib"
