"""What `python3 run.py release` looks for in an sdist and a wheel."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from ipu_teach import __version__
from pack import release

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
