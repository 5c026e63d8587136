"""Packs: who needs which wheel, what is kept of an earlier try, and what stands in the folder. The
wheels are made up."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pack
from pack import folder as pack_folder, lesson_packages, wheels
from pack.targets import PYTHONS, SYSTEMS, PackError, Target, answers_to, needed_names, read_lock
from pack.wheels import Store

ROOT = Path(__file__).resolve().parents[1]
LOCK = read_lock((ROOT / "requirements.lock").read_text(encoding="utf-8"))
LINUX = Target(SYSTEMS["linux"], "3.12")
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def named(pins: list[str]) -> set[str]:
    return {pin.partition("==")[0] for pin in pins}


# --- targets --------------------------------------------------------------------------------------


def test_each_target_needs_the_lines_whose_markers_hold() -> None:
    windows, mac = (
        named(Target(SYSTEMS[name], "3.12").pins(LOCK)) for name in ("windows", "macos")
    )
    linux = named(LINUX.pins(LOCK))
    assert windows - linux == {"colorama", "pywinpty"} and linux - windows == {
        "pexpect",
        "ptyprocess",
    }
    assert mac - linux == {"appnope"} and linux - mac == set()
    assert {"uv", "pip", "editables", "numpy", "jupyterlab"} <= linux
    old = named(Target(SYSTEMS["linux"], "3.10").pins(LOCK))
    assert {"exceptiongroup", "tomli", "overrides"} <= old and not {
        "exceptiongroup",
        "tomli",
        "overrides",
    } & linux


def test_a_pack_carries_what_lessons_need_and_tests_are_asked_for() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert {"numpy", "tqdm", "jupyterlab", "numba", "hatchling"} <= {*lesson_packages()}
    assert not {"pytest", "mypy"} & {*lesson_packages()}
    names = needed_names(text, lesson_packages())
    assert {"numpy", "jupyterlab", "anyio", "argon2-cffi-bindings"} <= names
    assert not {"pytest", "scipy", "mypy", "ruff", "hypothesis"} & names
    target = Target(SYSTEMS["linux"], "3.12")
    small, large = (
        {pin.partition("==")[0] for pin in target.pins(LOCK, chosen)} for chosen in (names, None)
    )
    assert small < large and {"pytest", "scipy"} <= large - small


def test_packages_are_needed_by_those_that_the_lock_names() -> None:
    lock = """\
a==1
    # via kit (pyproject.toml)
b==1
    # via
    #   a
    #   t
c==1
    # via b
d==1 ; sys_platform == 'darwin'
    # via t
t==1
    # via kit (pyproject.toml)
"""
    assert needed_names(lock, ["a"]) == {"a", "b", "c"}
    assert needed_names(lock, ["t>=1"]) == {"t", "b", "c", "d"}


def test_no_line_of_the_lock_is_left_out_everywhere() -> None:
    served = {
        pin
        for system in SYSTEMS.values()
        for python in PYTHONS
        for pin in Target(system, python).pins(LOCK)
    }
    assert {f"{line.name}{line.specifier}" for line in LOCK} <= served


def test_a_marker_that_asks_for_a_patch_brings_both() -> None:
    lock = read_lock(
        "a==1 ; python_full_version < '3.11.5'\na==2 ; python_full_version >= '3.11.5'\n    # via "
        "b\n"
    )
    assert Target(SYSTEMS["linux"], "3.11").pins(lock)[:-3] == ["a==1", "a==2"]
    assert Target(SYSTEMS["linux"], "3.12").pins(lock)[:-3] == ["a==2"]


@pytest.mark.parametrize(
    ("wheel", "system", "python", "fits"),
    [
        ("a-1-py3-none-any.whl", "windows", "3.14", True),
        ("a-1-py2.py3-none-any.whl", "linux", "3.10", True),
        ("a-1-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", "linux", "3.12", True),
        ("a-1-cp312-cp312-manylinux_2_28_x86_64.whl", "linux", "3.11", False),
        ("a-1-cp312-cp312-manylinux_2_34_x86_64.whl", "linux", "3.12", False),
        ("a-1-cp312-cp312-musllinux_1_2_x86_64.whl", "linux", "3.12", False),
        ("a-1-cp312-cp312-manylinux_2_28_aarch64.whl", "linux", "3.12", False),
        ("a-1-cp312-cp312-manylinux_2_28_aarch64.whl", "linux-arm", "3.12", True),
        ("a-1-cp39-abi3-win_amd64.whl", "windows", "3.13", True),
        ("a-1-cp314-cp314t-win_amd64.whl", "windows", "3.14", False),
        ("a-1-cp311-cp311-macosx_11_0_arm64.whl", "macos", "3.11", True),
        ("a-1-cp311-cp311-macosx_10_9_universal2.whl", "macos", "3.11", True),
        ("a-1-cp311-cp311-macosx_14_0_arm64.whl", "macos", "3.11", False),
        ("a-1-cp311-cp311-macosx_10_13_x86_64.whl", "macos", "3.11", False),
        ("uv-1-py3-none-macosx_10_12_x86_64.whl", "macos-intel", "3.12", True),
    ],
)
def test_a_wheel_fits_by_its_tags(wheel: str, system: str, python: str, fits: bool) -> None:
    assert Target(SYSTEMS[system], python).fits(wheel) is fits


def test_a_wheel_answers_to_its_name_and_version() -> None:
    assert answers_to("ast_serialize-0.13.1-py3-none-any.whl", "ast-serialize==0.13.1")
    assert answers_to("pip-26.3-py3-none-any.whl", "pip")
    assert not answers_to("numpy-2.5.5-py3-none-any.whl", "numpy==2.5.4")


# --- fetching -------------------------------------------------------------------------------------


class Index:
    """Stands in for pip: writes a small file for each pin, and knows what it was asked."""

    def __init__(self, without: tuple[str, ...] = ()) -> None:
        self.without = without
        self.asked: list[str] = []

    def __call__(self, target: Target, pins: list[str], folder: Path) -> str | None:
        for pin in pins:
            if pin.partition("==")[0] in self.without:
                return pin
        folder.mkdir(exist_ok=True)
        for pin in pins:
            name, _, version = pin.partition("==")
            tag = f"none-{target.system.platforms[-1]}" if name in ("uv", "numpy") else "none-any"
            (folder / f"{name.replace('-', '_')}-{version or '1.0'}-py3-{tag}.whl").write_text(
                pin, encoding="utf-8"
            )
        self.asked += pins
        return None


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Index:
    """An index that answers instead of pip."""
    index = Index()
    monkeypatch.setattr(wheels, "_download", index)
    return index


def test_what_is_here_and_whole_is_kept(tmp_path: Path, index: Index) -> None:
    (tmp_path / "wheels").mkdir()
    pins = ["a==1", "numpy==2", "uv"]
    store = Store(tmp_path)
    assert store.fetch(LINUX, pins) == [] and index.asked == pins
    assert sorted(store.serving(LINUX, pins)) == sorted(pins)
    index.asked.clear()
    assert Store(tmp_path).fetch(LINUX, pins) == [] and index.asked == []
    assert Store(tmp_path).fetch(
        Target(SYSTEMS["windows"], "3.12"), pins
    ) == [] and index.asked == ["numpy==2", "uv"]
    index.asked.clear()
    (tmp_path / "wheels" / "any" / "a-1-py3-none-any.whl").write_text("half", encoding="utf-8")
    again = Store(tmp_path)
    assert again.fetch(LINUX, pins) == [] and index.asked == ["a==1"]
    again.keep(set(again.serving(LINUX, pins).values()))
    assert sorted(path.name for path in (tmp_path / "wheels").iterdir()) == ["any", "linux-x86_64"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "WARNING: Retrying: Failed to establish a new connection\nERROR: No matching "
            "distribution found for a==1",
            "network",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on "
            "device",
            "is full",
        ),
        ("ERROR: something else", "something else"),
    ],
)
def test_what_pip_says_is_told_in_words(
    said: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "_run", lambda command, hear: (1, said.splitlines()))
    (tmp_path / "wheels").mkdir()
    with pytest.raises(PackError) as caught:
        Store(tmp_path).fetch(LINUX, ["a==1"])
    assert told in str(caught.value)


def test_pip_is_asked_for_one_version_of_a_package_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(
        wheels,
        "_run",
        lambda command, hear: asked.append(command[command.index("--dest") + 2 :]) or (0, []),
    )
    (tmp_path / "wheels").mkdir()
    Store(tmp_path).fetch(LINUX, ["a==1", "b==1", "a==2"])
    assert asked == [["a==2", "b==1"], ["a==1"]]


def test_a_command_is_heard_line_by_line() -> None:
    heard: list[str] = []
    status, said = wheels._run(
        [sys.executable, "-c", "print('one'); print('two'); raise SystemExit(3)"], heard.append
    )
    assert (status, said, heard) == (3, ["one", "two"], ["one\n", "two\n"])


# --- the folder -----------------------------------------------------------------------------------


def test_the_kit_is_what_git_tracks() -> None:
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("no checkout of git")
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    assert {name.partition("/")[0] for name in tracked if name} == {
        name for name in pack_folder.KIT if (ROOT / name).exists()
    }


def test_a_pack_holds_the_kit_the_wheels_and_their_checksums(
    tmp_path: Path,
    index: Index,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(pack_folder, "KIT", ("run.py", "notebooks", "pack"))
    made = tmp_path / "a pack"
    words = [
        "--system",
        "linux,windows",
        "--python",
        "3.12",
        "3.13",
        "--folder",
        str(made),
        "--zip",
    ]
    assert pack.main(words) == 0, capsys.readouterr().err
    (made / "work").mkdir()
    (made / "work" / "mine.ipynb").touch()
    index.asked.clear()
    assert pack.main(words) == 0 and index.asked == [] and (made / "work" / "mine.ipynb").exists()
    said = capsys.readouterr().out
    assert "linux with Python 3.12" in said and "windows-amd64" in said and " wheels" in said
    sums = dict(
        reversed(line.split("  "))
        for line in (made / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    )
    here = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    assert here - set(sums) == {"SHA256SUMS", "work/mine.ipynb"} and set(sums) <= here
    assert all(
        hashlib.sha256((made / name).read_bytes()).hexdigest() == digest
        for name, digest in sums.items()
    )
    assert {
        "run.py",
        "notebooks/solutions/00_meet_the_machine.ipynb",
        "pack/__init__.py",
        "start.sh",
        "start.bat",
        "START-HERE.txt",
    } <= here
    assert "start.command" not in here and not any("__pycache__" in name for name in here)
    listed = json.loads((made / "wheels" / "pack.json").read_text(encoding="utf-8"))
    assert listed == {"pythons": ["3.12", "3.13"], "systems": ["linux-x86_64", "windows-amd64"]}
    assert b"py -%%v run.py %*\r\n" in (made / "start.bat").read_bytes()
    with zipfile.ZipFile(tmp_path / "a pack.zip") as archive:
        assert archive.testzip() is None
        assert set(archive.namelist()) == {f"a pack/{name}" for name in here - {"work/mine.ipynb"}}
        assert archive.getinfo("a pack/start.sh").external_attr >> 16 & 0o111 == 0o111


def test_a_package_without_a_wheel_is_named(
    tmp_path: Path, index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    index.without = ("numpy", "llvmlite")
    assert (
        pack.main(
            ["--system", "macos-intel", "--python", "3.12", "--folder", str(tmp_path / "made")]
        )
        == 1
    )
    said = capsys.readouterr().err
    assert (
        said.startswith("pack: there is no wheel of\n")
        and said.count(" for macos-intel with Python 3.12\n") == 2
    )
    assert (
        "numpy 2.5" in said
        and "llvmlite 0.5" in said
        and "Leave them out with --system and --python" in said
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--system", "amiga"],
            "'amiga' is not a system for which a pack can be made. Choose from linux, linux-arm, macos,",
        ),
        (
            ["--python", "3.9"],
            "'3.9' is not a Python for which a pack can be made. Choose from 3.10, 3.11,",
        ),
        (["--folder", str(ROOT / "docs")], "is a folder of the kit itself"),
        (["--folder", str(ROOT.parent)], "is a folder of the kit itself"),
        (["--folder", str(ROOT / "run.py")], "is a folder of the kit itself"),
    ],
)
def test_what_cannot_be_is_told(
    words: list[str], told: str, index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pack.main(words) == 1 and told in capsys.readouterr().err and index.asked == []


def test_a_folder_with_something_else_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "diary").touch()
    for place, told in (
        (tmp_path, "is not empty and is not a pack"),
        (tmp_path / "diary", "is a file"),
    ):
        assert pack.main(["--folder", str(place)]) == 1 and told in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["diary"]


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
def test_the_start_file_finds_a_python_that_the_wheels_are_for(tmp_path: Path) -> None:
    folder, programs = tmp_path / "a pack", tmp_path / "bin"
    (folder / "wheels").mkdir(parents=True)
    programs.mkdir()
    (programs / "dirname").symlink_to(shutil.which("dirname") or "")
    (folder / "run.py").write_text("import sys; print(sys.argv[1:]); sys.exit(3)", encoding="utf-8")
    pack_folder.write_starts(folder, [Target(SYSTEMS[name], HERE) for name in ("linux", "macos")])

    def start(name: str) -> tuple[int, str, str]:
        command = ["/bin/sh", str(folder / name), "lab", "a b"]
        done = subprocess.run(
            command,
            env={"PATH": str(programs)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr

    assert start("start.sh")[::2] == (
        2,
        f"One of Python {HERE} is needed, and none was found. Install one, then start this "
        "again.\n",
    )
    # a shim with nothing behind it
    (programs / f"python{HERE}").write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    (programs / f"python{HERE}").chmod(0o755)
    (programs / "python3").symlink_to(sys.executable)
    assert start("start.sh") == start("start.command") == (3, "['lab', 'a b']\n", "")
