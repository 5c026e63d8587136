"""`python3 run.py pack`: put this project and the wheels that it needs into a folder.

On a machine without a network, `python3 run.py` in that folder installs the wheels and opens the
first lesson.
"""

from __future__ import annotations

import argparse
import errno
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ipu_teach import __version__
from pack import folder as pack_folder
from pack.targets import (
    DEFAULT_SYSTEMS,
    PYTHONS,
    SYSTEMS,
    PackError,
    Target,
    megabytes,
    needed_names,
    read_lock,
)
from pack.wheels import ANY, Store

# The exit status that a shell reports for a program that Ctrl-C ended.
STOPPED = 130
# The folder is relative to the checkout.
DEFAULT_FOLDER = Path("dist") / f"ipu_teach-{__version__}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command `pack` with its arguments, and return the exit status."""
    options = build_parser().parse_args(arguments)
    try:
        targets = chosen(options.system, options.python)
        folder = (options.folder or pack_folder.ROOT / DEFAULT_FOLDER).absolute()
        make(
            folder,
            targets,
            folder.with_name(folder.name + ".zip") if options.zip is True else options.zip,
            options.tests,
        )
        if options.trial is not None:
            from pack.trial import try_all

            return try_all(folder, options.trial)
    except PackError as error:
        print(f"pack: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("pack: stopped; the same command goes on from here", file=sys.stderr)
        return STOPPED
    except OSError as error:
        space_advice = (
            ". Make room, or name a folder on another disk with --folder"
            if error.errno == errno.ENOSPC
            else ""
        )
        print(f"pack: {error}{space_advice}", file=sys.stderr)
        return 1
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog="python3 run.py pack",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    list_help = "several with commas or spaces between them"
    pythons_help = f"{', '.join(PYTHONS)}; all without this option"
    parser.add_argument(
        "--python",
        nargs="+",
        metavar="VERSION",
        help=f"for these Pythons, {list_help}: {pythons_help}",
    )
    systems_help = f"{', '.join(SYSTEMS)}; {', '.join(DEFAULT_SYSTEMS)} without this option"
    parser.add_argument(
        "--system",
        nargs="+",
        metavar="NAME",
        help=f"for these systems, {list_help}: {systems_help}",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help=f"where to make it; {DEFAULT_FOLDER} of this checkout without this option",
    )
    parser.add_argument(
        "--zip",
        nargs="?",
        type=Path,
        const=True,
        metavar="FILE",
        help="pack the folder into a zip, too",
    )
    parser.add_argument(
        "--tests", action="store_true", help="carry the tools for tests as well, 65 MB more"
    )
    trial_help = (
        "then set up from it here, in a folder of its own, without a network and with an empty "
        "home,\n"
    )
    trial_help += (
        "with each of these Pythons, or all that are found: doctor, lesson 00, and the lesson in "
        "JupyterLab"
    )
    parser.add_argument("--try", nargs="*", dest="trial", metavar="PYTHON", help=trial_help)
    return parser


def chosen(systems: Sequence[str] | None, pythons: Sequence[str] | None) -> list[Target]:
    """Return the targets that the options name. Raises `PackError` if there is no such target."""

    def selected(
        option_values: Sequence[str] | None,
        supported: Sequence[str],
        defaults: Sequence[str],
        noun: str,
    ) -> list[str]:
        requested = [part for word in option_values or defaults for part in word.split(",") if part]
        for part in requested:
            if part not in supported:
                raise PackError(
                    f"{part!r} is not a {noun} for which a pack can be made. Choose from "
                    f"{', '.join(supported)}"
                )
        return [name for name in supported if name in requested]

    names = selected(systems, list(SYSTEMS), DEFAULT_SYSTEMS, "system")
    return [
        Target(SYSTEMS[system], python)
        for system in names
        for python in selected(pythons, PYTHONS, PYTHONS, "Python")
    ]


def lesson_packages() -> list[str]:
    """Return the packages that lessons need: dependencies, the extra `lab`, and the build backend.

    Without the build backend, pip cannot install this project from its folder. pyproject.toml is
    read with regular expressions, because Python 3.10 has no module for TOML files.
    """
    text = (pack_folder.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lists = re.findall(r"^(dependencies|lab) = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    names = [name for _, block in lists for name in re.findall(r'^    "([\w.-]+)', block, re.M)]
    return names + re.findall(r'^requires = \["([\w.-]+)', text, re.MULTILINE)


def make(
    folder: Path, targets: Sequence[Target], archive: Path | None, tests: bool = False
) -> None:
    """Make a pack in `folder`, and print what it contains.

    With `tests`, the pack includes the packages for tests. With `archive`, a zip of the folder is
    written to that path. Valid wheels of an earlier or unfinished pack are kept.

    :raises PackError: if there is not enough room, or if a wheel does not exist.
    """
    pack_folder.check_place(folder)
    (folder / "wheels").mkdir(parents=True, exist_ok=True)
    targets_text = ", ".join(dict.fromkeys(target.system.name for target in targets))
    targets_text += " with Python " + ", ".join(dict.fromkeys(target.python for target in targets))
    bound = "about" if tests else "at most"  # The measured sizes include the tools for tests.
    print(f"pack: for {targets_text}: {bound} {megabytes(targets):,} MB, in {folder}", flush=True)
    start_time = time.monotonic()
    store = Store(folder)
    kept_bytes = sum((folder / name).stat().st_size for name in store.sums)
    _refuse_full_disk(folder, targets, kept_bytes)
    fetch_wheels(store, targets, tests)
    fetch_seconds = time.monotonic() - start_time
    pack_folder.copy_kit(folder)
    pack_folder.write_starts(folder, targets)
    _print_contents(pack_folder.write_all_sums(folder, store.sums), targets)
    print(
        f"\npack: {folder}; {_mb(kept_bytes)} MB were here; wheels took {fetch_seconds:.0f} s, the "
        f"rest {_since(start_time) - fetch_seconds:.0f} s"
    )
    if archive is not None:
        zip_start = time.monotonic()
        pack_folder.write_zip(folder, archive.absolute())
        print(f"pack: {archive}: {_mb(archive.stat().st_size)} MB, took {_since(zip_start):.0f} s")


def _refuse_full_disk(folder: Path, targets: Sequence[Target], kept_bytes: int) -> None:
    """Raise `PackError` if the disk has no room for the wheels that are not in `folder` yet.

    `kept_bytes` is the size of the wheels that already are in `folder`.
    """
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes + kept_bytes < megabytes(targets) * 10**6:
        raise PackError(
            f"the disk has {free_bytes // 10**6:,} MB free. Make room, or name a folder on another "
            "disk with --folder"
        )


def fetch_wheels(store: Store, targets: Sequence[Target], tests: bool = False) -> None:
    """Download the missing wheels of all targets, and delete the wheels that no target needs.

    :raises PackError: if a wheel does not exist, or pip did not find it.
    """
    text = (pack_folder.ROOT / "requirements.lock").read_text(encoding="utf-8")
    pins_of_lock, names = read_lock(text), None if tests else needed_names(text, lesson_packages())
    used: set[str] = set()
    pins_without_wheel: list[str] = []
    for target in targets:
        pins = target.pins(pins_of_lock, names)
        missing = store.fetch(target, pins)
        pins_without_wheel += [f"{pin.replace('==', ' ')} for {target}" for pin in missing]
        wheel_by_pin = store.serving(target, pins)
        used |= set(wheel_by_pin.values())
        missing_pins = [pin for pin in pins if pin not in wheel_by_pin and pin not in missing]
        if missing_pins:
            raise PackError(f"pip found no wheel for {target} of {', '.join(missing_pins)}")
        print(
            f"pack: {target}: {len(wheel_by_pin)} wheels, "
            f"{size(store.folder, set(wheel_by_pin.values()))}",
            flush=True,
        )
    if pins_without_wheel:
        text = "there is no wheel of\n    " + "\n    ".join(pins_without_wheel)
        raise PackError(
            f"{text}\nSo there can be no pack for these. Leave them out with --system and --python"
        )
    store.keep(used)


def _print_contents(bytes_by_name: dict[str, int], targets: Sequence[Target]) -> None:
    """Print the megabytes of a pack: the kit, the wheels of each system, and all files."""
    kit_bytes = sum(
        num_bytes for name, num_bytes in bytes_by_name.items() if not name.startswith("wheels/")
    )
    print(f"\n{'kit and lessons':<16}{_mb(kit_bytes):>8} MB")
    for folder_name in (ANY, *dict.fromkeys(target.system.folder for target in targets)):
        wheel_sizes = [
            num_bytes
            for name, num_bytes in bytes_by_name.items()
            if name.startswith(f"wheels/{folder_name}/")
        ]
        print(f"{folder_name:<16}{_mb(sum(wheel_sizes)):>8} MB{len(wheel_sizes):>6} wheels")
    print(f"{'all':<16}{_mb(sum(bytes_by_name.values())):>8} MB{len(bytes_by_name):>6} files")


def size(folder: Path, names: set[str]) -> str:
    return f"{_mb(sum((folder / name).stat().st_size for name in names))} MB"


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f}"


def _since(start_time: float) -> float:
    return time.monotonic() - start_time
