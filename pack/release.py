"""`python3 run.py release`: build and check the sdist and the wheel, and say what to tag.

It writes the sdist, the wheel, the changes and the recipe for conda-forge to dist. It
tries the sdist and the wheel in empty environments with each Python of this machine. It publishes
nothing.

The version is read from `ipu_teach/__init__.py`. `packaging` checks the metadata as PyPI does. The
sdist must contain every tracked file and build the same wheel. The program in README must print the
same on each Python, including the digest of its report. If the changelog is not ready, or if a
decision of docs/publishing.md is open, the command names the problem or decision and exits with 1.
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

# If this file runs as a script, make `ipu_teach` and `pack` importable.
if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from ipu_teach import __version__
from pack import paper, ready
from pack.targets import PYTHONS

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
NAME = re.sub(r"[-_.]+", "_", ready.setting("name")).lower()
# The maximum sizes in bytes, by suffix. A notebook with its outputs has 0.3 MB.
MOST = {".whl": 8_000_000, ".gz": 30_000_000}
PROGRAM = re.findall(r"(?s)```python\n(.*?)\n```", (ROOT / "README.md").read_text("utf-8"))[0]
PROGRAM += "\nprint(engine.report.digest())"


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command in the folder `cwd`, and return its output.

    :raises CalledProcessError: if it fails; the exception contains the output.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    completed = subprocess.run(
        command, cwd=cwd, env=env, text=True, capture_output=True, check=True
    )
    return completed.stdout


def build() -> list[Path]:
    """Build the sdist and the wheel of the last commit in dist, and return their paths."""
    with tempfile.TemporaryDirectory() as folder:
        run("git", "archive", "-o", Path(folder, "tracked.tar"), "HEAD")
        unpack(Path(folder, "tracked.tar"), Path(folder, "tracked"))
        hatch(Path(folder, "tracked"), DIST)
    return [DIST / f"{NAME}-{__version__}{end}" for end in (".tar.gz", "-py3-none-any.whl")]


def hatch(source: Path, folder: Path, *options: str) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, *options, cwd=source)


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(folder)


def contents(archive: Path) -> dict[str, bytes]:
    """Return the contents of the files of an sdist or a wheel, keyed by path.

    Paths in an sdist are relative to its top folder.
    """
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(archive) as sdist:
        members_and_files = ((member, sdist.extractfile(member)) for member in sdist)
        return {
            member.name.partition("/")[2]: file.read()
            for member, file in members_and_files
            if file is not None
        }


def faults(sdist: Path, wheel: Path) -> Iterator[str]:
    """Yield a description of each fault of the sdist and the wheel."""
    from packaging.metadata import Metadata, parse_email

    sdist_files, wheel_files = contents(sdist), contents(wheel)
    metadata_name = f"{NAME}-{__version__}.dist-info/METADATA"
    for name, text in (
        (sdist.name, sdist_files["PKG-INFO"]),
        (wheel.name, wheel_files[metadata_name]),
    ):
        metadata, unknown = parse_email(text)
        if unknown:
            yield f"{name}: its metadata has {sorted(unknown)}"
        try:
            Metadata.from_raw(metadata)
        # `problems` is an exception group with all faults for which PyPI would refuse the metadata.
        except Exception as problems:
            for problem in getattr(problems, "exceptions", (problems,)):
                yield f"{name}: {problem}"
        if metadata.get("version") != __version__ or not metadata.get("description"):
            yield f"{name}: its version is {metadata.get('version')}, or README is not in it"
    for archive in (sdist, wheel):
        if archive.stat().st_size > MOST[archive.suffix]:
            yield f"{archive.name}: {archive.stat().st_size:,} bytes"
    tracked = set(run("git", "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    for name in sorted(tracked ^ set(sdist_files) - {"PKG-INFO"}):
        yield f"{sdist.name}: {name} is {'not ' if name in tracked else ''}in it"
    with tempfile.TemporaryDirectory() as folder:
        unpack(sdist, Path(folder))
        hatch(Path(folder, sdist.name.removesuffix(".tar.gz")), Path(folder), "-t", "wheel")
        if contents(Path(folder, wheel.name)) != wheel_files:
            yield f"{sdist.name}: the wheel that it makes is another"


def pythons() -> dict[str, str]:
    """Return this machine's Pythons, keyed by version: this one and those of PATH, uv, pyenv."""
    python_by_version = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    uv = os.path.expanduser("~/.local/share/uv/python")
    for version in PYTHONS:
        paths = glob.glob(f"{pyenv}/versions/{version}.*/bin/python")
        paths += glob.glob(f"{uv}/*-{version}.*/bin/python3")
        for python in (shutil.which(f"python{version}"), *paths):
            if (
                python
                and subprocess.run([python, "--version"], capture_output=True).returncode == 0
            ):
                python_by_version.setdefault(version, python)
    return python_by_version


def tried(python: str, archive: Path) -> str:
    """Return the output of README's program in an environment with only `archive`."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        run(python, "-m", "venv", Path(home, "kit"))
        programs = Path(home, "kit", "Scripts" if os.name == "nt" else "bin")
        run(programs / "python", "-m", "pip", "install", "-q", "--no-compile", archive)
        run(programs / "ipu-teach", "--version", cwd=Path(home))
        return run(programs / "python", "-c", PROGRAM, cwd=Path(home))


def changes() -> tuple[str, str]:
    """Return `(heading, text)` of this version in CHANGELOG.md, or of "Unreleased"."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    for version in (__version__, "Unreleased"):
        section = rf"(?ms)^## (\[?{re.escape(version)}\b.*?)\n(.*?)(?=^## |\Z)"
        if match := re.search(section, text):
            return match[1], match[2].strip()
    return "", ""


def attempts(archives: Sequence[Path], problems: list[str]) -> None:
    """Run README's program with each archive, and append the failures to `problems`."""
    # The sdist builds the same wheel, so it is tried with only one Python.
    this_python, all_pythons = {"": sys.executable}, pythons()
    outputs = set()
    for archive, pythons_to_try in zip(archives, (this_python, all_pythons), strict=True):
        for version, python in pythons_to_try.items():
            try:
                outputs.add(tried(python, archive))
                print(
                    f"{archive.name}: README's program runs on Python {version or 'here'}",
                    flush=True,
                )
            except subprocess.CalledProcessError as error:
                problems.append(f"{archive.name}, {python}: {error.stdout}{error.stderr}"[-600:])
    if len(outputs) > 1:
        problems.append("README's program comes to different ends")


def write_notes(address: str, sdist: Path) -> None:
    """Write this version's changes to dist and, with an address, the recipe for conda-forge."""
    from nbconvert.filters import markdown2html

    heading, notes_text = changes()
    notes_path = DIST / f"changes-{__version__}.html"
    notes_path.write_text(f"<h1>{NAME} {heading}</h1>{markdown2html(notes_text)}", encoding="utf-8")
    print(f"{notes_path}: the changes of this version")
    if address:
        (DIST / "recipe.yaml").write_text(
            ready.recipe(sdist, __version__, address), encoding="utf-8"
        )
        print(f"{DIST / 'recipe.yaml'}: the recipe for conda-forge")


def verdict(problems: Sequence[str], decisions: Sequence[str], commit: str) -> str:
    """Return the last lines of the output: all problems and open decisions, or what to tag."""
    lines = [f"wrong: {problem}" for problem in problems]
    lines += [f"to do: {decision}" for decision in decisions]
    if lines:
        return "\n".join([*lines, "not ready to publish; docs/publishing.md has the steps"])
    return "all is well. Tag this commit:\n" + ready.tag_commands(__version__, commit)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if there are problems or open decisions, else 0."""
    parser = argparse.ArgumentParser(
        prog="python3 run.py release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--no-install", action="store_true", help="build and check, and no more")
    options = parser.parse_args(arguments)
    address, citation = ready.LINKS["address"](), ready.citation()
    if run("git", "status", "--porcelain"):
        print("note: what is not committed is not in it")
    for note in ready.notes(ready.setting("license"), citation):
        print(f"note: {note}")
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    tags = run("git", "tag", "--list").split()
    decisions = [
        *ready.undecided(address, citation),
        *ready.changelog_faults(changelog, __version__, tags),
    ]
    archives = build()
    problems = [*faults(*archives), *paper.faults()]
    for archive in archives:
        print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB", flush=True)
    if not options.no_install:
        attempts(archives, problems)
    write_notes(address, archives[0])
    commit = run("git", "rev-parse", "--short", "HEAD").strip()
    print(verdict(problems, decisions, commit))
    return int(bool(problems or decisions))


if __name__ == "__main__":
    raise SystemExit(main())
