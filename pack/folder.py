"""Write all files of a pack except the wheels: a copy of this project, start files, checksums."""

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
# The list names all folders and files to copy, because a checkout may also contain private files,
# such as the progress of learners.
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
    "paper",
    "tests",
)
KIT += (
    "CHANGELOG.md",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "LICENSE-CONTENT",  # docs/publishing.md explains when this file exists
    "README.md",
    "SECURITY.md",
)
KIT += (
    ".ci",
    ".devcontainer",
    ".dockerignore",
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
    """Raise `PackError` if `folder` is inside this project, or contains anything but a pack."""
    if (
        folder == ROOT
        or folder in ROOT.parents
        or any(folder.is_relative_to(ROOT / name) for name in KIT)
    ):
        raise PackError(f"{folder} is a folder of the kit itself. Name another with --folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "wheels").is_dir():
        raise PackError(f"{folder} is not empty and is not a pack. Name a new folder with --folder")
    if folder.exists() and not folder.is_dir():
        raise PackError(f"{folder} is a file. Name a folder with --folder")


def copy_kit(folder: Path) -> None:
    """Copy this checkout, including uncommitted changes, to `folder`.

    If `folder` contains the copy of an earlier pack, that copy is replaced.
    """
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
    for name in KIT:
        copied_path = folder / name
        if copied_path.is_dir():
            shutil.rmtree(copied_path)
        copied_path.unlink(missing_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copied_path, ignore=ignored)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, copied_path)


def write_starts(folder: Path, targets: Iterable[Target]) -> None:
    """Write a start file for each system, instructions, and the list of targets to `folder`."""
    target_list = list(targets)
    systems = {target.system.name: target.system for target in target_list}
    pythons = sorted(
        {target.python for target in target_list}, key=lambda python: int(python.partition(".")[2])
    )
    newest = pythons[::-1]
    fields = {
        "version": __version__,
        "pythons": ", ".join(pythons),
        "spaced": " ".join(newest),
        "names": " ".join(f"python{python}" for python in newest),
        "versions": ", ".join(f"({python.replace('.', ', ')})" for python in pythons),
        "folders": "".join(
            f"    wheels/{system.folder:<14} {system.said}\n" for system in systems.values()
        ),
    }
    platforms = list(dict.fromkeys(system.sys_platform for system in systems.values()))
    for platform in platforms:
        path = folder / STARTS[platform][0]
        is_batch = platform == "win32"
        path.write_text(
            (BATCH if is_batch else SHELL).format(**fields),
            encoding="utf-8",
            newline="\r\n" if is_batch else "\n",
        )
        path.chmod(0o755)
    fields["starts"] = "".join(f"       {STARTS[platform][1]}\n" for platform in platforms)
    (folder / "START-HERE.txt").write_text(WORDS.format(**fields), encoding="utf-8", newline="\r\n")
    pack_description = {
        "pythons": pythons,
        "systems": [system.folder for system in systems.values()],
    }
    (folder / "wheels" / "pack.json").write_text(
        json.dumps(pack_description) + "\n", encoding="utf-8"
    )


def files_of(folder: Path) -> list[Path]:
    """Return all files of a pack, except the checksums and files that a user added."""
    all_paths = [
        path
        for name in (*KIT, *BESIDE)
        for path in ((folder / name).rglob("*") if (folder / name).is_dir() else [folder / name])
    ]
    return sorted(
        path
        for path in all_paths
        if path.is_file() and path.name != SUMS and "__pycache__" not in path.parts
    )


def write_all_sums(folder: Path, wheels: dict[str, str]) -> dict[str, int]:
    """Write SHA256SUMS for all files of a pack, and return {relative path: size in bytes}.

    `wheels` has the digests of the wheels, so that they need not be computed again.
    """
    path_by_name = {path.relative_to(folder).as_posix(): path for path in files_of(folder)}
    write_sums(
        folder, {name: wheels.get(name) or digest_of(path) for name, path in path_by_name.items()}
    )
    return {name: path.stat().st_size for name, path in path_by_name.items()}


def write_zip(folder: Path, path: Path) -> None:
    """Write the pack in `folder` to the zip `path`; compressed files are stored as they are."""
    unfinished_path = path.with_name(path.name + ".half")
    files = [*files_of(folder), folder / SUMS]
    try:
        with (
            zipfile.ZipFile(unfinished_path, "w") as archive,
            tqdm(files, path.name, unit=" files", disable=None) as progress,
        ):
            for file in progress:
                compression = (
                    zipfile.ZIP_STORED
                    if file.suffix in (".whl", ".gz", ".npz", ".gif", ".png")
                    else zipfile.ZIP_DEFLATED
                )
                archive.write(
                    file, f"{folder.name}/{file.relative_to(folder).as_posix()}", compression
                )
        unfinished_path.replace(path)
    finally:
        unfinished_path.unlink(missing_ok=True)
