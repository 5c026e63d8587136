"""Write the files of a pack other than wheels: the kit, start files, and all checksums."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path

from tqdm import tqdm

from ipu_teach import __version__
from pack.targets import PackError, Target
from pack.wheels import SUMS, digest_of, write_sums

ROOT = Path(__file__).resolve().parents[1]
# An explicit list, because other files in a checkout are its owner's, such as homes of learners
# with their progress.
KIT: tuple[str, ...] = (
    "bench",
    "binder",
    "datasets",
    "deploy",
    "docs",
    "ipu_teach",
    "ipu_course",
    "validation",
    "notebooks",
    "pack",
    "tests",
)
KIT += (
    "CHANGELOG.md",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
)
KIT += (
    ".ci",
    ".devcontainer",
    ".github",
    ".git-blame-ignore-revs",
    ".gitignore",
    ".pre-commit-config.yaml",
)
KIT += (
    "conftest.py",
    "environment.yml",
    "hatch_build.py",
    "index.md",
    "pyproject.toml",
    "requirements.lock",
    "run.py",
)
BESIDE = ("wheels", SUMS, "START-HERE.txt", "start.sh", "start.command", "start.bat")

SHELL = """\
#!/bin/sh
# Sets the kit up from the wheels beside this file, without a network, and opens the first lesson.
cd "$(dirname "$0")" || exit 1
ask='import sys; sys.exit(sys.version_info[:2] not in [{versions}])'
for python in {names} python3 python; do
    if "$python" -c "$ask" 2>/dev/null; then
        "$python" run.py "$@"
        status=$?
        if [ $status != 0 ] && [ -t 0 ]; then
            printf 'Press Enter to close this window. '
            read -r _
        fi
        exit $status
    fi
done
echo 'One of Python {pythons} is needed, and none was found.' \\
    'Install one, then start this again.' >&2
if [ -t 0 ]; then
    printf 'Press Enter to close this window. '
    read -r _
fi
exit 2
"""
BATCH = """\
@echo off
rem Sets the kit up from the wheels beside this file, without a network, and opens a lesson.
cd /d "%~dp0"
for %%v in ({spaced}) do (
    py -%%v -c "" >nul 2>nul && (
        py -%%v run.py %*
        goto end
    )
)
python -c "import sys; sys.exit(sys.version_info[:2] not in [{versions}])" >nul 2>nul && (
    python run.py %*
    goto end
)
echo One of Python {pythons} is needed, and none was found. Install one, then start this again.
pause
exit /b 2
:end
if errorlevel 1 pause
"""
WORDS = """\
ipu_teach {version}: learn to program a tile machine, in Jupyter. No network is needed.

1. Copy this whole folder to your disk.
2. Start it:
{starts}   or, in a terminal in this folder: python3 run.py (on Windows: py run.py)

The first start takes a minute or two and 500 MB of disk, and opens the first lesson in your
browser. It needs one of Python {pythons}, which this folder does not bring.

Of the wheels you need the folder any and the one for your system; the others may stay on the stick:
{folders}
If something does not work: python3 run.py doctor
"""
STARTS = {
    "linux": ("start.sh", "Linux: sh start.sh, in a terminal; or run it from your file manager"),
    "darwin": ("start.command", "macOS: double-click start.command"),
    "win32": ("start.bat", "Windows: double-click start.bat"),
}


def check_place(folder: Path) -> None:
    """Refuse a folder that contains anything else than a pack."""
    if (
        folder == ROOT
        or folder in ROOT.parents
        or any(folder.is_relative_to(ROOT / name) for name in KIT)
    ):
        raise PackError(f"{folder} is a folder of the kit itself. Name another with --folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "wheels").is_dir():
        raise PackError(f"{folder} is not empty, and no pack. Name a new folder with --folder")
    if folder.exists() and not folder.is_dir():
        raise PackError(f"{folder} is a file. Name a folder with --folder")


def copy_kit(folder: Path) -> None:
    """Copy the kit from this checkout, including uncommitted changes.

    The copy of an earlier pack is deleted.
    """
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
    for name in KIT:
        there = folder / name
        if there.is_dir():
            shutil.rmtree(there)
        there.unlink(missing_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, there, ignore=ignored)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, there)


def write_starts(folder: Path, targets: Iterable[Target]) -> None:
    """Write a start file for each system, a page of text, and the list of targets."""
    chosen = list(targets)
    systems = {target.system.name: target.system for target in chosen}
    pythons = sorted(
        {target.python for target in chosen}, key=lambda python: int(python.partition(".")[2])
    )
    newest = pythons[::-1]
    words = {
        "version": __version__,
        "pythons": ", ".join(pythons),
        "spaced": " ".join(newest),
        "names": " ".join(f"python{python}" for python in newest),
        "versions": ", ".join(f"({python.replace('.', ', ')})" for python in pythons),
        "folders": "".join(
            f"    wheels/{system.folder:<14} {system.said}\n" for system in systems.values()
        ),
    }
    kinds = list(dict.fromkeys(system.sys_platform for system in systems.values()))
    for kind in kinds:
        path = folder / STARTS[kind][0]
        batch = kind == "win32"
        path.write_text(
            (BATCH if batch else SHELL).format(**words),
            encoding="utf-8",
            newline="\r\n" if batch else "\n",
        )
        path.chmod(0o755)
    words["starts"] = "".join(f"       {STARTS[kind][1]}\n" for kind in kinds)
    (folder / "START-HERE.txt").write_text(WORDS.format(**words), encoding="utf-8", newline="\r\n")
    listed = {"pythons": pythons, "systems": [system.folder for system in systems.values()]}
    (folder / "wheels" / "pack.json").write_text(json.dumps(listed) + "\n", encoding="utf-8")


def files_of(folder: Path) -> list[Path]:
    """Return all files of a pack except its checksums, and without files that somebody added."""
    found = [
        path
        for name in (*KIT, *BESIDE)
        for path in ((folder / name).rglob("*") if (folder / name).is_dir() else [folder / name])
    ]
    return sorted(
        path
        for path in found
        if path.is_file() and path.name != SUMS and "__pycache__" not in path.parts
    )


def write_all_sums(folder: Path, wheels: dict[str, str]) -> dict[str, int]:
    """Write SHA256SUMS of all files, and return their sizes by path."""
    names = {path.relative_to(folder).as_posix(): path for path in files_of(folder)}
    write_sums(folder, {name: wheels.get(name) or digest_of(path) for name, path in names.items()})
    return {name: path.stat().st_size for name, path in names.items()}


def write_zip(folder: Path, path: Path) -> None:
    """Write the folder as a zip that stores wheels as they are, because they are compressed."""
    half = path.with_name(path.name + ".half")
    files = [*files_of(folder), folder / SUMS]
    try:
        with (
            zipfile.ZipFile(half, "w") as archive,
            tqdm(files, path.name, unit=" files", disable=None) as bar,
        ):
            for file in bar:
                kind = (
                    zipfile.ZIP_STORED
                    if file.suffix in (".whl", ".gz", ".npz", ".gif", ".png")
                    else zipfile.ZIP_DEFLATED
                )
                archive.write(file, f"{folder.name}/{file.relative_to(folder).as_posix()}", kind)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
