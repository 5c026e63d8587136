"""`run.py pack --try`: install from a pack as if on a machine without packages or network.

There is one trial for each Python of this machine. A trial has a copy of the pack in a temporary
folder, an empty home folder and none of the user's settings. On Linux it also has a network
namespace without a network: only the loopback interface exists.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import run
from pack.targets import PackError
from pack.wheels import ANY

LESSON = "00_meet_the_machine.ipynb"
LONGEST = 900.0  # The maximum duration of a step of a trial, in seconds.
CUT_OFF = ["unshare", "-rn"]


def try_all(folder: Path, pythons: Sequence[str]) -> int:
    """Try a pack with each of `pythons`, or with all Pythons of this machine if it is empty.

    Pythons that the pack does not support are skipped. Return 0 if all trials succeed, else 1.

    :raises PackError: if there is no Python for a trial.
    """
    pack = json.loads((folder / "wheels" / "pack.json").read_text(encoding="utf-8"))
    python_by_version = {
        version: python
        for python in pythons or candidates()
        if (version := version_of(python)) in pack["pythons"]
    }
    if not python_by_version:
        raise PackError(
            "this machine has no Python that the pack supports "
            f"({', '.join(pack['pythons'])}). Name one: --try /path/to/python3"
        )
    cut_off = (
        bool(shutil.which("unshare"))
        and subprocess.run([*CUT_OFF, "true"], capture_output=True).returncode == 0
    )
    if not cut_off:
        print(
            "pack: the network cannot be cut off here (unshare -rn), so the trial proves less",
            file=sys.stderr,
        )
    all_succeeded = True
    print(f"\n{'Python':<8}{'step':<26}{'seconds':>8}  outcome")
    for version in sorted(python_by_version, key=lambda version: int(version.partition(".")[2])):
        for step, seconds, outcome in try_one(folder, python_by_version[version], cut_off):
            all_succeeded = all_succeeded and outcome.startswith("ok")
            print(f"{version:<8}{step:<26}{seconds:>8.1f}  {outcome}", flush=True)
    return 0 if all_succeeded else 1


def candidates() -> list[str]:
    """Return the paths of this machine's Pythons: those of pyenv and those on PATH.

    If several have the same version, the last one is used.
    """
    pyenv_versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    python_names = ["/usr/bin/python3", *(f"python3.{minor}" for minor in range(10, 20))]
    return [
        *map(str, sorted(pyenv_versions.glob("*/bin/python3"))),
        *filter(shutil.which, python_names),
    ]


def version_of(python: str) -> str:
    """Return the version of the Python `python`, such as "3.12", or "" if it does not run."""
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def try_one(folder: Path, python: str, cut_off: bool) -> list[tuple[str, float, str]]:
    """Try the pack with `python`; return `(step, seconds, outcome)` for each step of the trial.

    `outcome` is a text that begins with "ok" or "FAILED".
    """
    with tempfile.TemporaryDirectory(prefix="ipu teach ") as scratch:
        copy, home = Path(scratch) / "the pack", Path(scratch) / "home"
        home.mkdir()
        this_system = run.this_system()  # Wheels for other systems are not copied.
        other_systems = [
            path.name
            for path in (folder / "wheels").iterdir()
            if path.is_dir() and path.name not in (ANY, this_system)
        ]
        shutil.copytree(folder, copy, symlinks=True, ignore=shutil.ignore_patterns(*other_systems))
        env = {
            "HOME": str(home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "BROWSER": "true",
        }
        command = [
            *(CUT_OFF if cut_off else []),
            sys.executable,
            "-m",
            "pack.trial",
            str(copy),
            python,
            str(int(cut_off)),
        ]
        trial_env = dict(env, PYTHONPATH=str(Path(__file__).resolve().parents[1]))
        completed = subprocess.run(command, env=trial_env, stdout=subprocess.PIPE, text=True)
        if completed.returncode:
            return [("the trial itself", 0.0, f"FAILED with status {completed.returncode}")]
        steps: list[tuple[str, float, str]] = [
            (str(a), float(b), str(c)) for a, b, c in json.loads(completed.stdout)
        ]
        return steps


# --- within the namespace -------------------------------------------------------------------------


def within(copy: Path, python: str, cut_off: bool) -> list[tuple[str, float, str]]:
    """Run the steps of a trial in `copy`, a copy of a pack.

    Return `(step, seconds, outcome)` for each step. `outcome` is a text that begins with "ok" or
    "FAILED". `cut_off` says that this process is in a namespace without a network.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    steps = []
    if cut_off:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        other_interfaces = [name for _, name in socket.if_nameindex() if name != "lo"]
        steps.append(
            (
                "interfaces beside loopback",
                0.0,
                "ok: none" if not other_interfaces else f"FAILED: {', '.join(other_interfaces)}",
            )
        )
    for step, arguments in (
        ("set up, and doctor", ["doctor"]),
        ("doctor --workshop", ["doctor", "--workshop"]),
        ("run 00", ["run", "00"]),
    ):
        start_time = time.monotonic()
        command = [python, "run.py", *arguments]
        completed = subprocess.run(
            command, cwd=copy, env=env, capture_output=True, text=True, timeout=LONGEST
        )
        last_line = (completed.stdout.strip() or completed.stderr.strip()).splitlines()[-1:]
        outcome = (
            f"ok: {' '.join(last_line)[:80]}"
            if completed.returncode == 0
            else f"FAILED: {completed.stderr.strip()[-600:]}"
        )
        steps.append((step, time.monotonic() - start_time, outcome))
        if completed.returncode:
            return steps
    steps.append(("python3 run.py", *opens(copy, python, env)))
    venv_bytes = sum(
        path.lstat().st_size for path in copy.rglob("*") if path.is_file() and ".venv" in path.parts
    )
    steps.append((".venv", 0.0, f"ok: {venv_bytes / 1e6:,.0f} MB"))
    return steps


def opens(copy: Path, python: str, env: dict[str, str]) -> tuple[float, str]:
    """Start `run.py`, and request its page and the lesson; return `(seconds, outcome)`.

    `outcome` is a text that begins with "ok" or "FAILED".
    """
    start_time = time.monotonic()
    server = subprocess.Popen(
        [python, "run.py"],
        cwd=copy,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        output_lines = []
        for line in server.stderr:
            output_lines.append(line)
            address = re.search(
                r"(http://(?:localhost|127\.0\.0\.1):\d+)(/lab/tree/\S+)\?token=(\w+)", line
            )
            if address:
                break
        else:
            return (
                time.monotonic() - start_time,
                f"FAILED: no address. {''.join(output_lines)[-600:]}",
            )
        origin, page, token = address.groups()
        if page != f"/lab/tree/{LESSON}":
            return time.monotonic() - start_time, f"FAILED: it opens {page}"
        page_text = fetched(f"{origin}{page}?token={token}", server)
        lesson = json.loads(fetched(f"{origin}/api/contents/{LESSON}?token={token}", server))
        is_complete = (
            "jupyter-config-data" in page_text
            and lesson["type"] == "notebook"
            and lesson["content"]["cells"]
        )
        outcome = (
            f"ok: {page} is served, {len(lesson['content']['cells'])} cells"
            if is_complete
            else "FAILED: not the lesson"
        )
        return time.monotonic() - start_time, outcome
    finally:
        server.terminate()
        server.communicate()


def fetched(address: str, server: subprocess.Popen[str]) -> str:
    """Return the response of a server at `address`, as text.

    The server prints its address a moment before it listens, so the request is repeated.
    """
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return str(answer.read().decode())
        except urllib.error.URLError:
            if server.poll() is not None:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    print(json.dumps(within(Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "1")))
