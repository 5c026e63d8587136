"""The wheel: what it holds, and that a kit made of it alone works from any folder. Nothing is
fetched or installed for this."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ipu_teach
from ipu_course.checking import headless, learner, notebooks
from ipu_teach._support import places
from ipu_teach.errors import LessonError

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("hatchling")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def kit(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `ipu_teach` is the wheel's, unpacked."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return {
        **{name: value for name, value in os.environ.items() if name != "IPU_TEACH_WORK"},
        "PYTHONPATH": str(site),
    }


def said(kit: dict[str, str], folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=kit,
        text=True,
        encoding="utf-8",
        capture_output=True,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_wheel_holds_the_kit_its_lessons_and_its_digits_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"ipu_teach-{ipu_teach.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = {
            name
            for name in archive.namelist()
            if not name.startswith(f"ipu_teach-{ipu_teach.__version__}.dist-info/")
        }
        assert (
            archive.read("ipu_teach/carried/datasets/digits8.npz")
            == (ROOT / "datasets" / "digits8.npz").read_bytes()
        )
    code = {
        path.relative_to(ROOT).as_posix()
        for package in ("ipu_teach", "ipu_course")
        for path in (ROOT / package).rglob("*.py")
        if path.name != "make_scripts.py"
    }
    beside = [
        *ROOT.glob("notebooks/*.ipynb"),
        *ROOT.glob("notebooks/solutions/*.ipynb"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("docs/*.html"),
        *ROOT.glob("validation/*.py"),
        *ROOT.glob("validation/*.csv"),
    ]
    carried = {f"ipu_course/carried/{path.relative_to(ROOT).as_posix()}" for path in beside}
    carried |= {f"ipu_teach/carried/datasets/{path.name}" for path in ROOT.glob("datasets/*.[mn]*")}
    data = [
        *ROOT.glob("ipu_teach/report/samples/*"),
        *ROOT.glob("ipu_teach/estimate/stored/*.ipumodel"),
        *ROOT.glob("ipu_course/lesson*/words.md"),
        *ROOT.glob("ipu_course/checking/*.html"),
        *ROOT.glob("ipu_teach/show/static/*.gz"),
        ROOT / "ipu_teach" / "py.typed",
        ROOT / "ipu_course" / "py.typed",
    ]
    assert len(carried) > 10 and names == code | carried | {
        path.relative_to(ROOT).as_posix() for path in data
    }


@pytest.mark.thorough
def test_a_kit_from_the_wheel_opens_and_runs_lessons_from_any_folder(
    kit: dict[str, str], tmp_path: Path
) -> None:
    status, text = said(kit, tmp_path, "-m", "ipu_teach", "run", "00")
    assert status == 0, text
    assert list(tmp_path.iterdir()) == []
    # JupyterLab says its version, and ends
    status, text = said(kit, tmp_path, "-m", "ipu_teach", "lab", "01", "--version")
    assert (
        status == 0
        and f"opening {tmp_path / 'work' / '01_bulk_synchronous_parallel.ipynb'}" in text
    ), text
    copies = {path.name for path in (tmp_path / "work").glob("*.ipynb")}
    assert copies == {path.name for path in ROOT.glob("notebooks/*.ipynb")}
    assert (tmp_path / "work" / "docs" / "glossary.md").read_bytes() == (
        ROOT / "docs" / "glossary.md"
    ).read_bytes()
    where = (
        "from ipu_course.checking import notebooks; from ipu_teach import datasets; "
        "print(notebooks.work_path(), datasets.digits())"
    )
    # nothing is nested
    assert said(kit, tmp_path, "-c", where) == said(kit, tmp_path / "work", "-c", where)
    # the published figures are those that the wheel carries
    code = (
        "import sys; from ipu_course import cli; status = cli.main(['golden', '--only', 'AMP units'])"
        "; print(sys.modules['validation'].__file__); sys.exit(status)"
    )
    status, text = said(kit, tmp_path, "-c", code)
    assert status == 0 and "AMP units" in text, text
    assert str(Path("ipu_course", "carried", "validation", "__init__.py")) in text
    status, text = said(kit, tmp_path, "-m", "ipu_teach", "doctor")
    assert status == 0 and str(tmp_path / "work") in text and "only the tests" not in text, text


def test_what_writes_the_lessons_belongs_to_a_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert places.checkout() == ROOT and notebooks.NOTEBOOKS == ROOT / "notebooks"
    (tmp_path / "carried").mkdir()
    monkeypatch.setattr(places, "PACKAGE", tmp_path)
    assert places.checkout() is None
    assert places.bundled("docs", tmp_path) == tmp_path / "carried" / "docs"
    for call in (learner.check, learner.write, lambda: headless.run("00", store=True)):
        with pytest.raises(LessonError) as caught:
            call()
        assert "needs a checkout, but this kit was installed from a wheel." in str(caught.value)
        assert "next:  run it in a copy of the repository" in str(caught.value)
