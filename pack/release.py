"""`python3 run.py release`: build the sdist and the wheel into dist, check them, try them in empty
environments on every Python found here, and render the changes. It publishes nothing.

The version is in `ipu_teach/__init__.py`. `packaging` checks the metadata as PyPI does. The sdist
must contain every tracked file and build the same wheel. README's program must print the same on
each Python, including its report's digest.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

if not __package__:  # run as a script: make `ipu_teach` and `pack` importable
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from ipu_teach import __version__
from pack.targets import PYTHONS

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
MOST = {".whl": 8_000_000, ".gz": 30_000_000}  # bytes; a notebook with its outputs is 0.3 MB
PROGRAM = re.findall(r"(?s)```python\n(.*?)\n```", (ROOT / "README.md").read_text("utf-8"))[0]
PROGRAM += "\nprint(engine.report.digest())"


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Return the output of a command.

    :raises CalledProcessError: if it fails; the error has the output.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=env, text=True, capture_output=True, check=True)
    return done.stdout


def build() -> list[Path]:
    """Build the last commit's sdist and wheel in dist, and return their paths."""
    with tempfile.TemporaryDirectory() as folder:
        run("git", "archive", "-o", Path(folder, "tracked.tar"), "HEAD")
        unpack(Path(folder, "tracked.tar"), Path(folder, "tracked"))
        hatch(Path(folder, "tracked"), DIST)
    return [DIST / f"ipu_teach-{__version__}{end}" for end in (".tar.gz", "-py3-none-any.whl")]


def hatch(source: Path, folder: Path, *options: str) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, *options, cwd=source)


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as opened:
        opened.extractall(folder)


def contents(archive: Path) -> dict[str, bytes]:
    """Return the files of an sdist, without its top folder, or of a wheel."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(archive) as sdist:
        held = ((member, sdist.extractfile(member)) for member in sdist)
        return {m.name.partition("/")[2]: file.read() for m, file in held if file is not None}


def faults(sdist: Path, wheel: Path) -> Iterator[str]:
    """Yield the faults of the sdist and the wheel."""
    from packaging.metadata import Metadata, parse_email

    source, built = contents(sdist), contents(wheel)
    about = f"ipu_teach-{__version__}.dist-info/METADATA"
    for name, text in ((sdist.name, source["PKG-INFO"]), (wheel.name, built[about])):
        raw, unknown = parse_email(text)
        if unknown:
            yield f"{name}: its metadata has {sorted(unknown)}"
        try:
            Metadata.from_raw(raw)
        except Exception as refused:  # an exception group with everything that PyPI would refuse
            for one in getattr(refused, "exceptions", (refused,)):
                yield f"{name}: {one}"
        if raw.get("version") != __version__ or not raw.get("description"):
            yield f"{name}: its version is {raw.get('version')}, or README is not in it"
    for archive in (sdist, wheel):
        if archive.stat().st_size > MOST[archive.suffix]:
            yield f"{archive.name}: {archive.stat().st_size:,} bytes"
    tracked = set(run("git", "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    for name in sorted(tracked ^ set(source) - {"PKG-INFO"}):
        yield f"{sdist.name}: {name} is {'not ' if name in tracked else ''}in it"
    with tempfile.TemporaryDirectory() as folder:
        unpack(sdist, Path(folder))
        hatch(Path(folder, sdist.name.removesuffix(".tar.gz")), Path(folder), "-t", "wheel")
        if contents(Path(folder, wheel.name)) != built:
            yield f"{sdist.name}: the wheel that it makes is another"


def pythons() -> dict[str, str]:
    """Return the Pythons found here, by version: this one, those on PATH, uv's and pyenv's."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    uv = os.path.expanduser("~/.local/share/uv/python")
    for version in PYTHONS:
        places = glob.glob(f"{pyenv}/versions/{version}.*/bin/python")
        places += glob.glob(f"{uv}/*-{version}.*/bin/python3")
        for place in (shutil.which(f"python{version}"), *places):
            if place and subprocess.run([place, "--version"], capture_output=True).returncode == 0:
                found.setdefault(version, place)
    return found


def tried(python: str, archive: Path) -> str:
    """Return the output of a program in an empty environment with only the kit installed."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        run(python, "-m", "venv", Path(home, "kit"))
        inside = Path(home, "kit", "Scripts" if os.name == "nt" else "bin")
        run(inside / "python", "-m", "pip", "install", "-q", "--no-compile", archive)
        run(inside / "ipu-teach", "--version", cwd=Path(home))
        return run(inside / "python", "-c", PROGRAM, cwd=Path(home))


def changes() -> tuple[str, str]:
    """Return the heading and text of this version in CHANGELOG.md, or else of the next version."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    for version in (__version__, "Unreleased"):
        section = rf"(?ms)^## (\[?{re.escape(version)}\b.*?)\n(.*?)(?=^## |\Z)"
        if found := re.search(section, text):
            return found[1], found[2].strip()
    return "", ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python3 run.py release", description=__doc__)
    parser.add_argument("--no-install", action="store_true", help="build and check, and no more")
    given = parser.parse_args(arguments)
    wrong = []
    if run("git", "status", "--porcelain"):
        print("note: what is not committed is not in it")
    heading, told = changes()
    if not told:
        wrong.append(f"CHANGELOG.md has nothing of {__version__}")
    archives = build()
    wrong += faults(*archives)
    for archive in archives:
        print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB", flush=True)
    # one Python is enough for the sdist, which makes the same wheel
    here, others = {"": sys.executable}, pythons()
    said = set()
    for archive, places in zip(archives, (here, others), strict=True):
        for version, python in () if given.no_install else places.items():
            try:
                said.add(tried(python, archive))
                print(
                    f"{archive.name}: README's program runs on Python {version or 'here'}",
                    flush=True,
                )
            except subprocess.CalledProcessError as error:
                wrong.append(f"{archive.name}, {python}: {error.stdout}{error.stderr}"[-600:])
    if len(said) > 1:
        wrong.append("README's program comes to different ends")
    from nbconvert.filters import markdown2html

    notes = DIST / f"changes-{__version__}.html"
    notes.write_text(f"<h1>ipu_teach {heading}</h1>{markdown2html(told)}", encoding="utf-8")
    print(f"{notes}: what changed")
    print(*(f"wrong: {one}" for one in wrong), sep="\n") if wrong else print("all is well")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
