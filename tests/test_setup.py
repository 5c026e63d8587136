"""Setting up: run.py with stand-ins for uv and conda, the lists of packages, and what conftest.py
adds to nbval."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path, PurePosixPath
from types import ModuleType, SimpleNamespace
from typing import Any

import entered
import pytest
import yaml
from size import BUDGETS
from tools_said import NOBODY, SAID

import ipu_teach
from ipu_course import cli, jobs

ROOT = Path(__file__).resolve().parents[1]
needs_posix = pytest.mark.skipif(os.name == "nt", reason="the stand-ins are shell scripts")


# --- the lists agree ------------------------------------------------------------------------------


def specifiers(requirement: str) -> tuple[str, str]:
    """(name, specifier) of 'numpy>=2.2' or 'numpy >=2.2 ; marker', as both files write them."""
    found = re.match(r"([\w.-]+)\s*([^;\s]*)", requirement)
    assert found, requirement
    return found[1].lower().replace("_", "-"), found[2]


def project_section(name: str) -> list[str]:
    """The strings of one list in pyproject.toml; Python 3.10 has no reader for the format."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(rf"^{name} = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert found, name
    return re.findall(r"^\s*[\"']([^\n]*?)[\"'],?\s*$", found[1], re.MULTILINE)


WANTED = dict(
    specifiers(line) for part in ("dependencies", "lab", "test") for line in project_section(part)
)


def test_environment_yml_agrees_with_pyproject() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    plain = [line for line in environment["dependencies"] if isinstance(line, str)]
    others = [line for line in environment["dependencies"] if not isinstance(line, str)]
    assert others == [{"pip": ["-e .[lab,test]"]}]
    listed = dict(specifiers(line) for line in plain)
    assert listed.pop("python").startswith(">=3.10") and listed.pop("pip")
    renamed = {
        {"matplotlib-base": "matplotlib"}.get(name, name): least for name, least in listed.items()
    }
    assert renamed == WANTED


def test_the_lock_covers_pyproject_and_names_no_address() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in text and "--" not in text
    pins = re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)
    assert WANTED.keys() <= {name for name, _ in pins}
    for name, version in pins:
        least = WANTED.get(name, "").removeprefix(">=")
        if least:
            assert [int(part) for part in re.findall(r"\d+", version)] >= [
                int(part) for part in least.split(".")
            ], name


# --- run.py ---------------------------------------------------------------------------------------


@pytest.fixture
def run_py() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_py", ROOT / "run.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_old_python_is_told_so(
    run_py: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = SimpleNamespace(
        version_info=(3, 9, 18), version="3.9.18 (main)", stderr=sys.stderr, exit=sys.exit
    )
    monkeypatch.setattr(run_py, "sys", old)
    with pytest.raises(SystemExit) as caught:
        run_py.main()
    assert (
        caught.value.code == 2
        and "3.10 or newer is needed, and this is 3.9.18" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("family", "command"),
    [
        ({"debian"}, "sudo apt install python3-pip"),
        ({"linuxmint", "ubuntu", "debian"}, "sudo apt install python3-pip"),
        ({"fedora"}, "sudo dnf install python3-pip"),
        ({"opensuse-leap", "suse", "opensuse"}, "sudo zypper install python3-pip"),
        (set(), "-m ensurepip"),
    ],
)
def test_without_any_installer_it_names_one_command(
    run_py: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    family: set[str],
    command: str,
) -> None:
    monkeypatch.setattr(run_py, "answers", lambda command, env=None: False)
    monkeypatch.setattr(run_py, "system_family", lambda: family)
    monkeypatch.setattr(run_py, "read_stamp", lambda: "")
    with pytest.raises(SystemExit) as caught:
        run_py.setup()
    said = capsys.readouterr().err
    assert caught.value.code == 2 and command in said and said.count("\n") == 2


TESTS: dict[str, Any] = runpy.run_path(str(ROOT / "tests" / "__main__.py"))


def test_the_rooms_can_be_measured() -> None:
    command = [sys.executable, "-m", "ipu_teach", "size"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    said = subprocess.run(command, capture_output=True, text=True, cwd="/", env=env)
    assert said.returncode == 0 and re.search(
        rf"^graph +[\d,]+ +{BUDGETS['graph']:,}", said.stdout, re.MULTILINE
    ), said.stderr


def test_rooms_are_measured_without_an_environment(tmp_path: Path) -> None:
    for name in ("run.py", "ipu_course/jobs.py", "tests/size.py", "ipu_teach/tiny.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for folder in ("ipu_teach/lessons", "validation"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    env = {"PATH": str(tmp_path)}  # neither uv nor pip is found
    command = [sys.executable, "-I", str(tmp_path / "run.py"), "size"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=env)
    assert done.returncode == 0 and re.search(r"^tiny +3,", done.stdout, re.MULTILINE), done.stderr
    assert not any(path.name.startswith(".venv") for path in tmp_path.iterdir())


def test_the_quick_tests_are_files_that_exist() -> None:
    words = TESTS["for_pytest"](["--quick", "-x"])
    assert words[:3] == ["-q", "-m", "not slow"] and words[-1] == "-x"
    files = words[3:-1]
    assert (
        len(set(files)) == len(files) >= 30
        and [name for name in files if not (ROOT / name).is_file()] == []
    )
    assert not any("browser" in name for name in files)


def test_all_views_in_a_browser_are_a_command_of_their_own() -> None:
    for_pytest = TESTS["for_pytest"]
    words = for_pytest(["--browser-all"])
    assert words == ["--browser-all", "--thorough", "tests/browser"]
    assert (ROOT / words[2]).is_dir()
    photos = "tests/browser/test_photos.py"
    assert for_pytest(["--photos", "folder"]) == ["--photos", "folder", photos]
    alone = ["--browser-all", "tests/browser"]
    assert for_pytest(alone) == alone and not TESTS["all_tests"](alone)


def test_whole_tables_are_a_command_of_their_own() -> None:
    for_pytest = TESTS["for_pytest"]
    words = for_pytest(["--thorough"])
    assert words[0] == "--thorough" and len(words) == 1 + len({*words[1:]})
    assert all((ROOT / word).is_file() and "browser" not in word for word in words[1:])
    assert {"tests/test_golden.py", "tests/test_bench.py", "tests/test_cli.py"} < {*words}
    assert {"tests/lessons/test_exercises.py", "tests/lessons/test_grading.py"} < {*words}
    alone = ["--thorough", "tests/test_bench.py"]
    assert for_pytest(alone) == alone and not TESTS["all_tests"](alone)


def test_lessons_as_in_a_browser_are_a_command_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run: list[str] = []
    stand_in = SimpleNamespace(main=lambda words: run.extend(words) or 7)
    monkeypatch.setitem(sys.modules, "as_in_a_browser", stand_in)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(ROOT)
    assert TESTS["main"](["--as-in-a-browser", "03"]) == 7 and run == ["03"]


# A uv that notes what it was asked and makes a Python that says what it runs.
UV = r"""#!/bin/sh
echo "$@" >> "$LOG"
[ -n "$SETTINGS" ] && env > "$SETTINGS"
case "$1" in
  venv)
    for folder; do :; done
    mkdir -p "$folder/bin"
    printf '#!/bin/sh\n[ "$1" = -c ] || echo job "$@"\nexit ${JOB_STATUS:-0}\n' > "$folder/bin/python"
    chmod +x "$folder/bin/python" ;;
  pip)
    if [ -n "$SLOW" ]; then echo sleeping >> "$LOG"; exec sleep 60; fi
    if [ -n "$OFFLINE" ]; then echo "error: dns error: failed to lookup address" >&2; exit 2; fi
    if [ -n "$KILLED" ]; then echo "Prepared 60 of 110 packages" >&2; kill -$KILLED $$; fi
    if [ -n "$REFUSED" ]; then echo "${REFUSED}" >&2; exit 1; fi ;;
esac
"""
# A conda whose only package is that uv.
CONDA = r"""#!/bin/sh
echo conda "$@" >> "$LOG"
while [ $# -gt 0 ]; do if [ "$1" = -p ]; then mkdir -p "$2/bin"; cp "$STAND_IN" "$2/bin/uv"; fi; shift; done
"""


class Clone:
    """A folder with run.py and next to nothing else, a PATH with stand-ins, and a Python without
    pip."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "a clone"  # people's folders have spaces in their names
        self.programs = folder / "bin"
        self.log = folder / "log"
        self.home.mkdir()
        self.programs.mkdir()
        (self.home / "ipu_course").mkdir()
        for name in ("run.py", "ipu_course/jobs.py"):
            shutil.copy(ROOT / name, self.home / name)
        for name in ("requirements.lock", "pyproject.toml"):
            (self.home / name).touch()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "bare"], check=True)
        self.python = folder / "bare" / "bin" / "python"
        self.add("uv-to-copy", UV)

    def add(self, name: str, script: str) -> None:
        (self.programs / name).write_text(script, encoding="utf-8")
        (self.programs / name).chmod(0o755)

    def start(self, *words: str, apart: bool = False, **extra: str) -> subprocess.Popen[str]:
        env = {"PATH": f"{self.programs}:/usr/bin:/bin", "LOG": str(self.log)}
        env.update(extra, STAND_IN=str(self.programs / "uv-to-copy"))
        command = [str(self.python), str(self.home / "run.py"), *words]
        pipe = subprocess.PIPE
        where = self.home.parent
        return subprocess.Popen(
            command,
            env=env,
            cwd=where,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=apart,
        )

    def run(self, *words: str, **extra: str) -> tuple[int, str, str]:
        process = self.start(*words, **extra)
        out, err = process.communicate(timeout=60)
        assert "Traceback" not in err
        return process.returncode, out, err

    def asked(self) -> list[str]:
        """What uv and conda did since the last time, but for saying their version."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line for line in lines if "--version" not in line]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


# Stand-ins for pytest and mypy: each ends with a status of its own, or, with SLEEP, only by a signal.
STAND_IN = """
import os, signal, sys, time
def main(words=sys.argv[1:]):
    print("job", __name__, *words, flush=True)
    if os.environ.get("SLEEP"):
        print(os.getpid(), file=open(os.environ["LOG"], "a"), flush=True)
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            return 2
    return int(os.environ.get({!r}, 0))
if __name__ == "__main__":
    sys.exit(main())
"""


def two_jobs(folder: Path, *words: str, **extra: str) -> subprocess.Popen[str]:
    """The job `test` with these, as a group of processes of its own."""
    for name in ("pytest", "mypy"):
        (folder / f"{name}.py").write_text(STAND_IN.format(name.upper()), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, str(ROOT / "tests"), *words],
        env=os.environ | extra | {"LOG": str(folder / "log"), "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@needs_posix
@pytest.mark.parametrize(
    ("pytest_ends", "mypy_ends", "both"), [(0, 0, 0), (1, 0, 1), (0, 1, 1), (5, 1, 5)]
)
def test_mypy_runs_beside_all_tests_and_its_status_counts(
    tmp_path: Path, pytest_ends: int, mypy_ends: int, both: int
) -> None:
    process = two_jobs(tmp_path, PYTEST=str(pytest_ends), MYPY=str(mypy_ends))
    out, err = process.communicate(timeout=60)
    first, second = out.splitlines()
    assert (process.returncode, first, err) == (both, "job pytest", "") and second.startswith(
        "mypy: job __main__"
    )
    process = two_jobs(tmp_path, "tests/test_cli.py", MYPY="1")
    assert process.communicate(timeout=60)[0] == "job pytest tests/test_cli.py\n"
    assert process.returncode == 0


@needs_posix
def test_ctrl_c_ends_the_tests_and_mypy(tmp_path: Path) -> None:
    process, log = two_jobs(tmp_path, SLEEP="yes"), tmp_path / "log"
    deadline = time.monotonic() + 30
    while not log.exists() or len(log.read_text(encoding="utf-8").splitlines()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.2)
    jobs = [int(line) for line in log.read_text(encoding="utf-8").splitlines()]
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in err
    for job in jobs:
        with pytest.raises(ProcessLookupError):
            os.kill(job, 0)


def test_a_page_says_how_to_add_a_package() -> None:
    """By pip, which the first run puts into .venv, as the next test sees."""
    page = " ".join((ROOT / "docs" / "set_up.md").read_text(encoding="utf-8").split())
    assert (
        "`%pip install NAME` in a notebook, or `.venv/bin/python -m pip install NAME`, adds a "
        "package to `.venv`" in page
    )


@needs_posix
def test_the_first_run_sets_up_and_the_second_only_runs(clone: Clone) -> None:
    clone.add("uv", UV)
    status, out, err = clone.run("doctor")
    assert (status, out) == (0, "job -m ipu_teach doctor\n")
    assert err.startswith("run.py: setting up .venv, once") and err.count("\n") == 1
    venv, install = clone.asked()
    assert venv.startswith("venv ") and install.endswith(" pip -c requirements.lock -e .[lab]")
    assert clone.run("test", "-x") == (0, f"job {clone.home}/tests -x\n", "")
    assert clone.run("size", JOB_STATUS="5")[0] != 5  # by the Python that runs run.py
    assert clone.run("doctor", JOB_STATUS="5")[::2] == (5, "")
    assert clone.run("bench", "--only", "w2")[1] == f"job {clone.home}/bench --only w2\n"
    assert clone.run("lab", "03", "--no-browser")[1] == "job -m ipu_teach lab 03 --no-browser\n"
    assert clone.run()[1] == "job -m ipu_teach lab\n"
    assert clone.asked() == []
    (clone.home / "requirements.lock").write_text("new==1\n", encoding="utf-8")
    clone.run("doctor")
    assert [line.split()[0] for line in clone.asked()] == ["venv", "pip"]


@needs_posix
def test_tools_for_tests_come_with_the_first_job_that_needs_them(clone: Clone) -> None:
    clone.add("uv", UV)
    clone.run("doctor")
    clone.asked()
    missing = {"JOB_STATUS": "1"}  # what asks for the modules fails, and the job itself does
    status, out, err = clone.run("test", "-x", **missing)
    assert (status, out) == (1, f"job {clone.home}/tests -x\n") and err == (
        "run.py: adding what this job needs to .venv, once: the extra `test`: 21 packages for "
        "tests, 65 MB to fetch and 205 MB on disk\n"
    )
    python = clone.home / ".venv" / "bin" / "python"
    assert clone.asked() == [f"pip install -q --python {python} -c requirements.lock -e .[test]"]
    assert clone.run("lab", **missing)[2] == "" and clone.asked() == []
    # a later set-up keeps the tools that are there up to date
    change_the_lock(clone)
    clone.run("doctor")
    assert clone.asked()[-1].endswith(" pip -c requirements.lock -e .[lab,test]")


def test_every_job_that_needs_an_extra_names_modules_of_it() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for job, (extra, modules) in jobs.EXTRAS.items():
        assert job in jobs.SCRIPTS and f"\n{extra} = [" in text and modules


@needs_posix
def test_without_uv_and_pip_conda_brings_uv(clone: Clone) -> None:
    clone.add("mamba", CONDA)
    status, out, _ = clone.run("doctor")
    assert (status, out) == (0, "job -m ipu_teach doctor\n")
    assert [line.split()[0] for line in clone.asked()] == ["conda", "venv", "pip"]


@needs_posix
def test_a_failed_installation_is_told_and_leaves_nothing_half_made(clone: Clone) -> None:
    clone.add("uv", UV)
    status, out, err = clone.run("doctor", REFUSED="no such version")
    assert (status, out) == (1, "")
    assert (
        "no such version" in err
        and "installing the packages failed" in err
        and "Traceback" not in err
    )
    assert [path.name for path in clone.home.glob(".venv*")] == [".venv-turn"]
    assert clone.run("doctor")[:2] == (0, "job -m ipu_teach doctor\n")


@needs_posix
def test_a_full_disk_is_told_in_a_sentence(clone: Clone) -> None:
    clone.add("uv", UV)
    status, _, err = clone.run(
        "doctor", REFUSED="failed to write: No space left on device (os error 28)"
    )
    assert (
        status == 1
        and err.count("\n") == 2
        and err.endswith("Make room, then run the same command again\n")
    )


@needs_posix
def test_what_the_site_is_made_with_is_added_where_it_is_missing(clone: Clone) -> None:
    clone.add("uv", UV)
    clone.run("doctor")
    clone.asked()
    made = f"job {clone.home}/docs/site -n\n"
    assert clone.run("site", "-n") == (0, made, "") and clone.asked() == []
    missing = {"JOB_STATUS": "1"}  # what asks for the modules fails, and the job itself does
    status, out, err = clone.run("site", "-n", **missing)
    assert (status, out) == (1, made) and err.count("\n") == 1
    python = clone.home / ".venv" / "bin" / "python"
    asked = f"pip install -q --python {python} -c requirements.lock -e .[docs]"
    assert "the extra `docs`" in err and clone.asked() == [asked]
    status, out, err = clone.run("site", OFFLINE="1", **missing)
    assert (status, out) == (1, "") and err.splitlines()[1] == (
        "run.py: this job needs the extra `docs` of pyproject.toml: there is no network. Setting up "
        "needs one, once: connect, or set HTTPS_PROXY where a proxy stands between, then run the "
        "same command again"
    )


def change_the_lock(clone: Clone) -> None:
    (clone.home / "requirements.lock").write_text("new==1\n", encoding="utf-8")


@needs_posix
def test_the_old_environment_stands_until_the_new_one_does(clone: Clone) -> None:
    clone.add("uv", UV)
    clone.run("doctor")
    (clone.home / ".venv" / "mine").touch()
    change_the_lock(clone)
    status, _, err = clone.run("doctor", REFUSED="no such version")
    assert status == 1 and ".venv is as it was" in err
    assert sorted(path.name for path in clone.home.glob(".venv*")) == [".venv", ".venv-turn"]
    clone.asked()
    assert clone.run("doctor")[:2] == (0, "job -m ipu_teach doctor\n")
    assert [line.split()[0] for line in clone.asked()] == ["venv", "pip"]
    assert (clone.home / ".venv" / "mine").exists()  # what somebody added is taken over
    assert not (clone.home / ".venv-old").exists()


@needs_posix
def test_without_a_network_the_old_environment_runs_and_a_new_one_is_asked_for_in_a_sentence(
    clone: Clone,
) -> None:
    clone.add("uv", UV)
    status, out, err = clone.run("doctor", OFFLINE="yes")
    assert (status, out) == (1, "")
    assert err.splitlines()[1:] == [
        "run.py: there is no network. Setting up needs one, once: connect, or set HTTPS_PROXY where "
        "a proxy stands between, then run the same command again",
        "  it said:",
        "    error: dns error: failed to lookup address",
    ]
    clone.run("doctor")
    change_the_lock(clone)
    for _ in range(2):
        status, out, err = clone.run("doctor", OFFLINE="yes")
        assert (status, out) == (
            0,
            "job -m ipu_teach doctor\n",
        ) and "so .venv stays as it was" in err
    clone.asked()
    assert clone.run("doctor")[0] == 0
    assert [line.split()[0] for line in clone.asked()] == ["venv", "pip"]


@needs_posix
@pytest.mark.parametrize("before", [False, True], ids=["at first", "with an old one"])
def test_an_interrupted_set_up_is_taken_up_again(clone: Clone, before: bool) -> None:
    clone.add("uv", UV)
    if before:
        clone.run("doctor")
        change_the_lock(clone)
        clone.asked()
    process = clone.start("doctor", SLOW="yes")
    deadline = time.monotonic() + 30
    while "sleeping" not in (clone.log.read_text(encoding="utf-8") if clone.log.exists() else ""):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=30)[1]
    assert (
        process.returncode == 130
        and "the next run takes it up again" in err
        and "Traceback" not in err
    )
    assert sorted(path.name for path in clone.home.glob(".venv*")) == [".venv"] * before + [
        ".venv-turn"
    ]
    clone.asked()
    assert clone.run("doctor")[:2] == (0, "job -m ipu_teach doctor\n")
    assert [line.split()[0] for line in clone.asked()] == ["venv", "pip"]


@needs_posix
def test_two_at_once_set_up_once(clone: Clone) -> None:
    clone.add("uv", UV.replace("sleep 60", "sleep 1"))
    started = [clone.start("doctor", SLOW="yes") for _ in range(2)]
    said = [process.communicate(timeout=60) for process in started]
    assert [out for out, _ in said] == ["job -m ipu_teach doctor\n"] * 2
    assert [line.split()[0] for line in clone.asked()] == ["venv", "pip", "sleeping"]
    assert sum("another run.py is setting up" in err for _, err in said) == 1


@needs_posix
def test_a_set_up_that_was_killed_between_two_names_finds_the_old_environment(clone: Clone) -> None:
    clone.add("uv", UV)
    clone.run("doctor")
    (clone.home / ".venv").rename(clone.home / ".venv-old")
    clone.asked()
    assert clone.run("doctor") == (0, "job -m ipu_teach doctor\n", "") and clone.asked() == []


@needs_posix
def test_a_moved_folder_works_again_without_a_network(clone: Clone) -> None:
    clone.add("uv", UV)
    clone.run("doctor")
    packages = clone.home / ".venv" / "lib" / "python3.11" / "site-packages"
    (packages / "ipu_teach-1.dist-info").mkdir(parents=True)
    spaced = str(clone.home).replace(" ", "%20")
    texts = {
        packages / "_ipu_teach.pth": f"{clone.home}\n",
        packages / "others.pth": f"{clone.home}-of-others\n/mnt{clone.home}\n",
        packages / "ipu_teach-1.dist-info" / "direct_url.json": f'{{"url": "file://{spaced}"}}',
        clone.home / ".venv" / "bin" / "tool": f"#!{clone.home}/.venv/bin/python\n",
    }
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    shared = clone.home.parent / "shared with a cache"
    shared.hardlink_to(packages / "_ipu_teach.pth")
    old = str(clone.home)
    clone.asked()
    clone.home = clone.home.rename(clone.home.with_name("moved here"))
    status, out, err = clone.run("doctor", OFFLINE="yes")
    assert (status, out, clone.asked()) == (0, "job -m ipu_teach doctor\n", [])
    assert err == "run.py: this folder was moved or copied: .venv knows its new place\n"
    for path, text in texts.items():
        stays = path.name == "others.pth"
        want = (
            text
            if stays
            else text.replace(spaced, str(clone.home).replace(" ", "%20")).replace(
                old, str(clone.home)
            )
        )
        assert (clone.home / path.relative_to(old)).read_text(encoding="utf-8") == want
    assert shared.read_text(encoding="utf-8") == f"{old}\n"
    assert clone.run("doctor")[2] == ""


@needs_posix
def test_somebody_elses_environment_for_another_python_is_left_alone(clone: Clone) -> None:
    clone.add("uv", UV)
    (clone.home / ".venv" / "bin").mkdir(parents=True)
    (clone.home / ".venv" / "bin" / "python").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (clone.home / ".venv" / "bin" / "python").chmod(0o755)
    status, _, err = clone.run("doctor")
    assert (
        status == 1
        and "made by somebody else" in err
        and "Rename or delete it" in err
        and clone.asked() == []
    )


@needs_posix
@pytest.mark.parametrize("name", SAID)
def test_what_keeps_packages_away_is_told_apart(
    clone: Clone, run_py: ModuleType, name: str
) -> None:
    means, said = SAID[name]
    if name.startswith("pip"):  # which brings uv, from beside a Python without one
        (packages,) = clone.python.parents[1].glob("lib/python*/site-packages")
        (packages / "pip").mkdir()
        text = "import os, sys; '--version' in sys.argv or sys.exit(os.environ['REFUSED'])"
        (packages / "pip" / "__main__.py").write_text(text, encoding="utf-8")
    else:
        clone.add("uv", UV)
    status, out, err = clone.run("doctor", REFUSED=said)
    (step,) = (step for _, what, step in run_py.UNREACHED if what == means)
    begun, told, *rest = err.splitlines()
    assert (status, out) == (1, "") and begun.startswith("run.py: setting up .venv, once")
    assert told == f"run.py: {means}. {step}, then run the same command again"
    lines = [line.rstrip() for line in said.splitlines() if line]
    assert rest == ["  it said:", *("    " + line for line in lines[-run_py.LAST_LINES :])]
    assert [path.name for path in clone.home.glob(".venv*")] == [".venv-turn"]


def test_what_has_another_reason_is_not_taken_for_a_network(run_py: ModuleType) -> None:
    for said in (
        "error: No solution found when resolving dependencies: numpy==9 is unsatisfiable",
        "Because numpy was not found in the provided package locations",
        "error: Failed to parse environment variable `UV_HTTP_TIMEOUT` with invalid value `2.5`",
        "ERROR: file certifi-2025.1-py3-none-any.whl does not appear to be a Python project",
    ):
        assert run_py.unreached(said) is None
    assert {means for means, _ in SAID.values()} == {means for _, means, _ in run_py.UNREACHED}


@needs_posix
def test_whatever_keeps_packages_away_the_old_environment_runs(clone: Clone) -> None:
    clone.add("uv", UV)
    clone.run("doctor")
    change_the_lock(clone)
    means, said = SAID["uv, a certificate of a company"]
    status, out, err = clone.run("doctor", REFUSED=said)
    assert (status, out) == (0, "job -m ipu_teach doctor\n")
    assert f"run.py: {means}, so .venv stays as it was" in err and "set SSL_CERT_FILE" in err


@needs_posix
@pytest.mark.parametrize("number", ["9", "15"])
def test_a_tool_that_is_killed_half_way(clone: Clone, number: str) -> None:
    clone.add("uv", UV)
    status, out, err = clone.run("doctor", KILLED=number)
    assert (status, out) == (1, "") and err.splitlines()[1:] == [
        "Prepared 60 of 110 packages",
        "run.py: installing the packages was killed from outside, most often because memory ran "
        "out; what it said stands above. Run the same command again: it goes on, and fetches "
        "nothing twice",
    ]
    assert clone.run("doctor")[:2] == (0, "job -m ipu_teach doctor\n")


ASTRAY = {
    "PYTHONWARNINGS": "error",
    "PYTHONPATH": "/elsewhere",
    "PYTHONOPTIMIZE": "2",
    "VIRTUAL_ENV": "/another",
    "CONDA_PREFIX": "/conda",
    "PIP_TARGET": "/elsewhere",
    "PIP_PREFIX": "/elsewhere",
    "PIP_REQUIRE_HASHES": "1",
    "PIP_USER": "1",
    "PIP_CONFIG_SETTINGS": "a=b",
    "UV_PYTHON": "3.8",
    "UV_REQUIRE_HASHES": "1",
    "UV_TARGET": "/elsewhere",
    "UV_CONSTRAINT": "/elsewhere",
    "UV_PROJECT_ENVIRONMENT": "/another",
}
REACHING = {
    "PIP_INDEX_URL": "https://index.example/simple",
    "PIP_EXTRA_INDEX_URL": "https://more.example/simple",
    "PIP_FIND_LINKS": "/wheels /more",
    "PIP_PROXY": "proxy.example:3128",
    "PIP_CERT": "/our/certificates.pem",
    "PIP_TRUSTED_HOST": "index.example",
    "PIP_DEFAULT_TIMEOUT": "60",
    "UV_INDEX_OURS_PASSWORD": "secret",
    "UV_NATIVE_TLS": "1",
    "UV_HTTP_TIMEOUT": "60",
    "NO_PROXY": "localhost",
}


@needs_posix
def test_only_settings_that_say_how_packages_are_reached_reach_the_set_up(clone: Clone) -> None:
    clone.add("uv", UV)
    settings = clone.home.parent / "settings"
    status, out, err = clone.run("doctor", SETTINGS=str(settings), **ASTRAY, **REACHING)
    assert (status, out) == (0, "job -m ipu_teach doctor\n") and err.count("\n") == 1
    seen = dict(
        line.split("=", 1)
        for line in settings.read_text(encoding="utf-8").splitlines()
        if "=" in line
    )
    assert {name for name in ASTRAY if seen.get(name) == ASTRAY[name]} == set()
    assert seen["PYTHONPATH"] == str(clone.home / ".venv-uv") and seen["PIP_REQUIRE_HASHES"] == "0"
    assert {name for name in REACHING if seen.get(name) != REACHING[name]} == set()
    told = ("UV_DEFAULT_INDEX", "UV_FIND_LINKS", "UV_INSECURE_HOST", "ALL_PROXY", "SSL_CERT_FILE")
    assert [seen[name] for name in told] == [
        "https://index.example/simple",
        "/wheels,/more",
        "index.example",
        "proxy.example:3128",
        "/our/certificates.pem",
    ]


@needs_posix
def test_what_uv_was_told_stays(clone: Clone) -> None:
    clone.add("uv", UV)
    settings = clone.home.parent / "settings"
    given = {"UV_INDEX_URL": "https://a.example", "PIP_INDEX_URL": "https://b.example"}
    given |= {"HTTPS_PROXY": "http://c.example", "PIP_PROXY": "d.example"}
    clone.run("doctor", SETTINGS=str(settings), SSL_CERT_FILE="/ours.pem", **given)
    seen = settings.read_text(encoding="utf-8")
    assert "UV_DEFAULT_INDEX" not in seen and "ALL_PROXY" not in seen
    assert "PIP_CERT=/ours.pem\n" in seen


@needs_posix
def test_a_home_that_cannot_be_written_does_not_keep_uv_from_its_cache(clone: Clone) -> None:
    clone.add("uv", UV)
    settings = clone.home.parent / "settings"
    clone.run("doctor", SETTINGS=str(settings), HOME=str(clone.home.parent))
    assert "UV_CACHE_DIR" not in settings.read_text(encoding="utf-8")
    change_the_lock(clone)
    assert clone.run("doctor", SETTINGS=str(settings), HOME="/dev/null")[0] == 0
    assert f"UV_CACHE_DIR={clone.home}/.venv-cache\n" in settings.read_text(encoding="utf-8")
    assert not (clone.home / ".venv-cache").exists()


@needs_posix
def test_without_a_network_the_python_is_named_that_needs_none(clone: Clone) -> None:
    clone.add("uv", UV)
    clone.run("doctor")
    stamp = clone.home / ".venv" / "ipu_teach.stamp"
    lines = stamp.read_text(encoding="utf-8").splitlines()
    stamp.write_text("\n".join(["Python 3.99", *lines[1:]]) + "\n", encoding="utf-8")
    python = clone.home / ".venv" / "bin" / "python"
    text = python.read_text(encoding="utf-8")
    # of another version, as the one that run.py asks
    python.write_text(text.replace("[ ", 'case "$2" in *version_info*) exit 1;; esac\n[ ', 1))
    status, out, err = clone.run("lab", "03", OFFLINE="yes")
    told = ". .venv is as it was, for Python 3.99, and works without a network by: "
    assert (status, out) == (1, "") and NOBODY in err
    assert f"{told}{python} '{clone.home}/run.py' lab 03\n".replace("'", '"') in err.replace(
        f'"{python}"', str(python)
    )
    clone.add("python3.99", "#!/bin/sh\n")
    assert (
        f'{told}python3.99 "{clone.home}/run.py" lab 03\n'
        in clone.run("lab", "03", OFFLINE="yes")[2]
    )
    python.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    assert ". .venv is as it was\n" in clone.run("lab", "03", OFFLINE="yes")[2]


@needs_posix
def test_a_job_that_is_none_is_told_before_any_set_up(clone: Clone) -> None:
    for word, near in (("lba", "lab"), ("doktor", "doctor"), ("03", "lab 03")):
        status, out, err = clone.run(word)
        assert (status, out) == (2, "")
        assert err.startswith(f"run.py: there is no job {word!r}: {near}? These are there:\n")
        assert "\n  lab         open a lesson in JupyterLab, as your own copy in the work" in err
    assert clone.run("xyzzy")[2].startswith("run.py: there is no job 'xyzzy'. These are there:\n")
    assert not (clone.home / ".venv").exists()


def test_every_job_is_there_under_one_name() -> None:
    """The list, the scripts and the parsers know the same jobs, and all scripts are there."""
    (kit,) = (action for action in cli.build_parser()._actions if action.dest == "command")
    own = {*(kit.choices or ()), *cli.OWN}
    assert own | set(jobs.SCRIPTS) == set(jobs.WORDS) and not own & set(jobs.SCRIPTS)
    for script in jobs.SCRIPTS.values():
        assert (ROOT / script).is_file() or (ROOT / script / "__main__.py").is_file(), script


@needs_posix
def test_both_command_lines_list_the_same(clone: Clone, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = clone.run("--help")
    assert status == 0 and err == "" and not (clone.home / ".venv").exists()  # sets nothing up
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == out.replace("python3 run.py", "ipu-teach")
    assert jobs.LISTED in out


@needs_posix
def test_a_uv_that_does_not_answer_is_not_used(clone: Clone) -> None:
    clone.add("uv", "#!/bin/sh\nexit 127\n")  # a version manager's shim with nothing behind it
    status, _, err = clone.run("doctor")
    assert status == 2 and "none is here" in err
    assert not (clone.home / ".venv").exists()


def make_a_pack(clone: Clone, pythons: list[str]) -> Path:
    """Wheels beside run.py; uv's is a zip with the stand-in in it, as a wheel of a program is."""
    system = f"{platform.system()}-{platform.machine()}".lower()
    folder = clone.home / "wheels" / system
    folder.mkdir(parents=True)
    (clone.home / "wheels" / "any").mkdir()
    (clone.home / "wheels" / "pack.json").write_text(
        json.dumps({"pythons": pythons, "systems": [system]}), encoding="utf-8"
    )
    wheel = folder / "uv-1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("uv-1.0.data/scripts/uv", UV)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    sums = f"{digest}  wheels/{system}/{wheel.name}\n{'0' * 64}  wheels/amiga-68000/absent.whl\n"
    (clone.home / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return wheel


THIS_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@needs_posix
def test_a_pack_sets_up_from_its_wheels_alone(clone: Clone) -> None:
    wheel = make_a_pack(clone, [THIS_PYTHON])
    status, out, err = clone.run("doctor")
    assert (status, out) == (0, "job -m ipu_teach doctor\n"), err
    assert err.count("\n") == 1 and "from the wheels in this folder" in err
    venv, install = clone.asked()
    folders = (
        f"--offline --no-index --find-links {clone.home}/wheels/any --find-links {wheel.parent}"
    )
    assert folders in venv and folders in install


@needs_posix
def test_a_pack_that_was_not_copied_whole_is_told(clone: Clone) -> None:
    wheel = make_a_pack(clone, [THIS_PYTHON])
    for damage in (lambda: wheel.write_bytes(wheel.read_bytes()[:-1]), wheel.unlink):
        damage()
        status, out, err = clone.run("doctor")
        assert (
            (status, out) == (1, "")
            and "was not copied whole. Copy it again" in err
            and wheel.name in err
        )
        assert not (clone.home / ".venv").exists() and "absent" not in err


@needs_posix
def test_a_pack_for_other_pythons_says_so(clone: Clone) -> None:
    make_a_pack(clone, ["3.99"])
    clone.add("uv", UV)
    status, _, err = clone.run("doctor")
    assert (
        status == 0
        and "are for Python 3.99 on " in err
        and f"this is Python {THIS_PYTHON} on" in err
    )
    assert "--offline" not in "".join(clone.asked())
    shutil.rmtree(clone.home / ".venv")
    clone.add("python3.99", "#!/bin/sh\n")
    status, _, err = clone.run("doctor")
    assert status == 2 and err.endswith("Run this with python3.99\n")


@needs_posix
def test_ci_runs_the_test_command() -> None:
    script = ROOT / ".ci" / "run"
    assert "python3 run.py test" in script.read_text(encoding="utf-8")
    if shutil.which("bash"):
        assert subprocess.run(["bash", "-n", str(script)]).returncode == 0


def test_what_others_join_with_agrees() -> None:
    """Pythons, version, and commands that exist, in the files that hosts and tools read."""
    pythons = ["3.10", "3.11", "3.12", "3.13", "3.14"]
    assert project_section("classifiers")[-len(pythons) - 3 : -3] == [
        f"Programming Language :: Python :: {v}" for v in pythons
    ]
    jobs = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    )["jobs"]
    assert jobs["quick"]["strategy"]["matrix"]["python"] == pythons
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert commands == ["python run.py test --quick", "python run.py test"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == ipu_teach.__version__ and citation["license"] == "MIT"
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "\n## [Unreleased]" in changes and f", {ipu_teach.__version__}:" in changes


def test_readme_has_the_links_of_the_one_address() -> None:
    make = runpy.run_path(str(ROOT / "docs" / "make_links.py"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert make["page"](make["address"](), text) == text
    assert make["links"]("") == "" and "run.py site" in text.split("\n## ")[0]
    made = make["links"]("https://github.com/somebody/tiles")
    assert made.count("somebody/tiles/") == 2 and "somebody.github.io/tiles" in made
    named = re.findall(r"notebooks/\S+?\.ipynb", made) + re.findall(r"\((docs/\S+)\)", made)
    assert len(named) == 3 and all((ROOT / name).is_file() for name in named)
    with pytest.raises(SystemExit, match="its form must be https://github.com/OWNER/NAME"):
        make["links"]("git.example.org/tiles")
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert make["citation"](make["address"](), cited) == cited
    place = "https://github.com/somebody/tiles"
    told = yaml.safe_load(make["citation"](place, make["citation"]("", cited)))
    assert told["repository-code"] == place and told["title"] == "ipu_teach"


def test_readme_on_an_index_has_absolute_links_where_an_address_is_set() -> None:
    make = runpy.run_path(str(ROOT / "docs" / "make_links.py"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    place = "https://github.com/somebody/tiles"
    assert make["absolute"]("", "1.0", text) == text and make["project_urls"]("") == {}
    told = make["absolute"](place, "1.0", text)
    targets = re.findall(r"\]\(([^)]+)\)|(?:src|srcset)=\"([^\"]+)\"", told)
    assert len(targets) > 25 and all("".join(pair).startswith("https://") for pair in targets)
    assert f"]({place}/blob/v1.0/docs/beyond.md)" in told
    assert f'src="{place}/raw/v1.0/docs/gallery/slow_tile_light.gif"' in told
    same = "[a](#b) [c](https://example.org/d) `x[0](1)` ![e](f.png)"
    assert make["absolute"](place, "1", same) == same.replace("f.png", f"{place}/raw/v1/f.png")
    assert make["project_urls"](place)["Documentation"] == "https://somebody.github.io/tiles/"


def test_what_hosts_of_kernels_read_agrees() -> None:
    """Binder, dev containers and containers install the lock's versions, by files that exist."""
    container = ROOT / "deploy" / "container"
    made = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert (ROOT / ".devcontainer" / made["build"]["dockerfile"]).resolve() == (
        container / "Dockerfile"
    )
    steps = (container / "install.sh").read_text(encoding="utf-8")
    assert "deploy/container/install.sh" in (container / "Dockerfile").read_text(encoding="utf-8")
    assert f"useradd --create-home {made['remoteUser']}" in steps and " git " in steps
    assert made["remoteEnv"]["PYTHONPATH"] == "${containerWorkspaceFolder}"
    assert made["postAttachCommand"]["lab"].startswith("ipu-teach lab --no-browser --port=8888")
    assert "-c requirements.lock '.[lab]'" in steps
    wanted = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert wanted[-2:] == ["-c ../requirements.lock", ".[lab]"]
    version = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8")
    assert version.strip().removeprefix("python-") in {"3.10", "3.11", "3.12", "3.13", "3.14"}


def test_an_image_gets_what_a_wheel_needs_and_no_private_files() -> None:
    """Follow the patterns of .dockerignore, the last match of which decides, as Docker does."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]

    def is_sent(name: str) -> bool:
        paths = [name, *map(str, PurePosixPath(name).parents)]
        sent = True
        for rule in rules:
            pattern = glob_pattern(rule.removeprefix("!"))
            if any(pattern.fullmatch(path) for path in paths):
                sent = rule.startswith("!")
        return sent

    carried = runpy.run_path(str(ROOT / "hatch_build.py"))["CARRIED"]
    needed = [path for patterns in carried.values() for p in patterns for path in ROOT.glob(p)]
    names = [path.relative_to(ROOT).as_posix() for path in needed]
    names += ["pyproject.toml", "hatch_build.py", "requirements.lock", "README.md", "LICENSE"]
    names += ["ipu_teach/show/svg.py", "ipu_course/py.typed", "deploy/container/install.sh"]
    assert len(names) > 80 and [name for name in names if not is_sent(name)] == []
    private = [".git/config", "work/progress.json", "hub/cookie_secret", ".venv/pyvenv.cfg"]
    private += ["notebooks/work/01_a.ipynb", "class/ada/progress.json", "hub.sqlite", "dist/a.whl"]
    private += [
        "ipu_teach/__pycache__/tiny.pyc",
        "notebooks/.ipynb_checkpoints/01-checkpoint.ipynb",
    ]
    assert [name for name in private if is_sent(name)] == []
    docker = (ROOT / "deploy" / "jupyterhub" / "kubernetes").glob("*ignore")
    assert list(docker) == [], "it would replace the file at the top"


def glob_pattern(rule: str) -> re.Pattern[str]:
    """Return the expression for a pattern of .dockerignore: `*` stays within a folder."""
    parts = {"**/": "(?:.*/)?", "*": "[^/]*"}
    return re.compile(re.sub(r"\*\*/|\*|[^*]+", lambda m: parts.get(m[0], re.escape(m[0])), rule))


def test_the_hooks_before_a_commit_need_no_network() -> None:
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))[
        "repos"
    ]
    assert repo["repo"] == "local" and [hook["id"] for hook in repo["hooks"]] == [
        "ruff",
        "house",
        "tiny",
        "learner",
        "language",
    ]
    for hook in repo["hooks"]:
        python, script, *words = hook["entry"].split()
        assert (python, script, hook["language"]) == ("python3", "run.py", "system")
        assert [
            word for word in words if word.startswith("tests/") and not (ROOT / word).is_file()
        ] == []


# --- conftest.py ----------------------------------------------------------------------------------


def write_notebook(path: Path, *cells: tuple[str, list[Any] | None]) -> None:
    """Code cells with their stored outputs; None stands for a cell that was never run."""
    import nbformat

    made = []
    for number, (source, outputs) in enumerate(cells, start=1):
        count = None if outputs is None else number
        made.append(nbformat.v4.new_code_cell(source, execution_count=count, outputs=outputs or []))
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)


def printed(text: str, name: str = "stdout") -> Any:
    import nbformat

    return nbformat.v4.new_output("stream", name=name, text=text)


def test_what_conftest_adds_to_nbval(tmp_path: Path) -> None:
    pytest.importorskip("nbval")
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "nbval_sanitize.cfg", tmp_path / "tests")
    state = "import os; from pathlib import Path; state = Path(os.environ['IPU_TEACH_WORK'])"
    write_notebook(
        tmp_path / "a.ipynb",
        ("1 + 1;", []),  # a trailing ; hides the value
        (
            f"{state}; print(state.name[:2], list(state.iterdir())); (state / 'seen').touch()",
            [printed("a- []\n")],
        ),
        (
            "print(os.environ['OMP_NUM_THREADS'], os.environ['OPENBLAS_NUM_THREADS'])",
            [printed("1 1\n")],
        ),
        (
            "print('wall time 0.25 s at', hex(2**30 + id(state)))",
            [printed("wall time 9 ms at 0x7f0011223344\n")],
        ),
        ("import warnings; warnings.warn('look')", None),
        ("", None),
    )
    write_notebook(
        tmp_path / "b.ipynb",
        (f"{state}; print(state.name[:2], list(state.iterdir()))", [printed("b- []\n")]),
        ("print('modelled time 2.5 us')", [printed("modelled time 3.5 us\n")]),
        ("import sys; print(sys.executable)", [printed(sys.executable + "\n")]),
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA", "--color=no"]
    command += [
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        "--nbval",
        "--nbval-current-env",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    verdicts = {
        name: word
        for word, name in re.findall(
            r"^(PASSED|FAILED) \S*?(\w\.ipynb::Cell \d)", done.stdout, re.M
        )
    }
    failed = sorted(name for name, word in verdicts.items() if word == "FAILED")
    assert failed == ["a.ipynb::Cell 4", "b.ipynb::Cell 1"], done.stdout
    assert len(verdicts) == 9
    assert "saved without running it" in done.stdout


def test_without_nbval_the_other_tests_run(tmp_path: Path) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:nbval", "-p", "no:cacheprovider", "-q"]
    command += [
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        "--nbval",
        "--nbval-current-env",
        "--nbval-cell-timeout=9",
    ]
    done = subprocess.run(
        [*command, "."], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


# --- python3 run.py entered -----------------------------------------------------------------------

PART = """\
from abc import abstractmethod
def ran():
    def inner():
        return 1
    return inner
class C:
    @property
    def by_a_child(self):
        return 2
    @abstractmethod
    def abstract(self):
        raise TypeError
    def bare(self):
        ...
    def never(self):
        return 3
    def said(self):
        "Words alone."
"""
ITS_TEST = """\
import subprocess, sys
from ipu_teach import part
def test_it():
    part.ran()
    words = "import os; from ipu_teach.part import C; C().by_a_child; os._exit(0)"
    assert subprocess.run([sys.executable, "-c", words], cwd="..").returncode == 0
"""


def test_functions_that_no_process_enters_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A kit of one module, by the kit's own settings: what a child enters that ends without a word
    counts."""
    root = tmp_path / "kit"
    (root / "ipu_teach").mkdir(parents=True)
    (root / "ipu_teach" / "__init__.py").touch()
    (root / "ipu_teach" / "part.py").write_text(PART, encoding="utf-8")
    (root / "test_part.py").write_text(ITS_TEST, encoding="utf-8")
    shutil.copy(ROOT / "pyproject.toml", root)
    monkeypatch.setattr(entered, "ROOT", root)
    monkeypatch.setenv("PYTHONPATH", str(root))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    assert entered.main(["-q", "-o", "addopts=", "test_part.py"]) == 1
    said = capfd.readouterr().out.splitlines()
    assert said[-3:] == [
        "ipu_teach/part.py:3 ran.inner",
        "ipu_teach/part.py:15 C.never",
        "2 functions were entered by no test that ran.",
    ]
