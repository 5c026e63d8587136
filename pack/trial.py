"""`run.py pack --try`: install from a pack with each Python here, as on a machine with nothing
installed and no network.

Each trial gets a copy of the pack in a scratch folder, an empty home, none of our settings, and on
Linux a network namespace that contains only the machine's own loopback interface.
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
LONGEST = 900.0  # seconds for a step of a trial
CUT_OFF = ["unshare", "-rn"]


def try_all(folder: Path, pythons: Sequence[str]) -> int:
    """Try a pack with these Pythons, or with all those found here that it supports.

    Return 0 if all succeed.
    """
    pack = json.loads((folder / "wheels" / "pack.json").read_text(encoding="utf-8"))
    found = {
        version: python
        for python in pythons or candidates()
        if (version := version_of(python)) in pack["pythons"]
    }
    if not found:
        raise PackError(
            f"no Python of {', '.join(pack['pythons'])} is here to try it with. Name one: --try "
            "/path/to/python3"
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
    well = True
    print(f"\n{'Python':<8}{'step':<26}{'seconds':>8}  outcome")
    for version in sorted(found, key=lambda version: int(version.partition(".")[2])):
        for step, seconds, outcome in try_one(folder, found[version], cut_off):
            well = well and outcome.startswith("ok")
            print(f"{version:<8}{step:<26}{seconds:>8.1f}  {outcome}", flush=True)
    return 0 if well else 1


def candidates() -> list[str]:
    """Return the Pythons found here: on PATH by name, and pyenv's.

    The last one of a version is used.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = ["/usr/bin/python3", *(f"python3.{minor}" for minor in range(10, 20))]
    return [*map(str, sorted(pyenv.glob("*/bin/python3"))), *filter(shutil.which, named)]


def version_of(python: str) -> str:
    """Return a Python's version, such as "3.12"; "" if it does not run."""
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def try_one(folder: Path, python: str, cut_off: bool) -> list[tuple[str, float, str]]:
    """Return (step, seconds, outcome) for each step with one Python."""
    with tempfile.TemporaryDirectory(prefix="ipu teach ") as scratch:
        copy, home = Path(scratch) / "the pack", Path(scratch) / "home"
        home.mkdir()
        here = run.this_system()  # wheels for other systems need not be copied
        others = [
            path.name
            for path in (folder / "wheels").iterdir()
            if path.is_dir() and path.name not in (ANY, here)
        ]
        shutil.copytree(folder, copy, symlinks=True, ignore=shutil.ignore_patterns(*others))
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
        inside = dict(env, PYTHONPATH=str(Path(__file__).resolve().parents[1]))
        done = subprocess.run(command, env=inside, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            return [("the trial itself", 0.0, f"FAILED with status {done.returncode}")]
        steps: list[tuple[str, float, str]] = [
            (str(a), float(b), str(c)) for a, b, c in json.loads(done.stdout)
        ]
        return steps


# --- within the namespace -------------------------------------------------------------------------


def within(copy: Path, python: str, cut_off: bool) -> list[tuple[str, float, str]]:
    """Run the steps of a trial, without a network if `cut_off`.

    Return (step, seconds, outcome) of each.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    steps = []
    if cut_off:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        others = [name for _, name in socket.if_nameindex() if name != "lo"]
        steps.append(
            (
                "interfaces beside loopback",
                0.0,
                "ok: none" if not others else f"FAILED: {', '.join(others)}",
            )
        )
    for step, words in (
        ("set up, and doctor", ["doctor"]),
        ("doctor --workshop", ["doctor", "--workshop"]),
        ("run 00", ["run", "00"]),
    ):
        started = time.monotonic()
        command = [python, "run.py", *words]
        done = subprocess.run(
            command, cwd=copy, env=env, capture_output=True, text=True, timeout=LONGEST
        )
        last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1:]
        outcome = (
            f"ok: {' '.join(last)[:80]}"
            if done.returncode == 0
            else f"FAILED: {done.stderr.strip()[-600:]}"
        )
        steps.append((step, time.monotonic() - started, outcome))
        if done.returncode:
            return steps
    steps.append(("python3 run.py", *opens(copy, python, env)))
    held = sum(
        path.lstat().st_size for path in copy.rglob("*") if path.is_file() and ".venv" in path.parts
    )
    steps.append((".venv", 0.0, f"ok: {held / 1e6:,.0f} MB"))
    return steps


def opens(copy: Path, python: str, env: dict[str, str]) -> tuple[float, str]:
    """Start plain `run.py`, and request the page and the lesson from the address that it prints."""
    started = time.monotonic()
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
        said = []
        for line in server.stderr:
            said.append(line)
            address = re.search(
                r"(http://(?:localhost|127\.0\.0\.1):\d+)(/lab/tree/\S+)\?token=(\w+)", line
            )
            if address:
                break
        else:
            return time.monotonic() - started, f"FAILED: no address. {''.join(said)[-600:]}"
        base, page, token = address.groups()
        if page != f"/lab/tree/{LESSON}":
            return time.monotonic() - started, f"FAILED: it opens {page}"
        shown = fetched(f"{base}{page}?token={token}", server)
        lesson = json.loads(fetched(f"{base}/api/contents/{LESSON}?token={token}", server))
        whole = (
            "jupyter-config-data" in shown
            and lesson["type"] == "notebook"
            and lesson["content"]["cells"]
        )
        said_so = (
            f"ok: {page} is served, {len(lesson['content']['cells'])} cells"
            if whole
            else "FAILED: not the lesson"
        )
        return time.monotonic() - started, said_so
    finally:
        server.terminate()
        server.communicate()


def fetched(address: str, server: subprocess.Popen[str]) -> str:
    """Return a server's answer.

    The server prints its address a moment before it listens, so retry.
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
