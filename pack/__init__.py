"""`python3 run.py pack`: put the kit, the lessons and the wheels of all dependencies into one
folder, for a room without a network.

In that folder, `python3 run.py` installs from the wheels and opens the first lesson.
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

STOPPED = 130  # the exit status that a shell reports for a program ended by Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python3 run.py pack",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    some = "several with commas or spaces between them"
    every = f"{', '.join(PYTHONS)}; all without this option"
    parser.add_argument(
        "--python", nargs="+", metavar="VERSION", help=f"for these Pythons, {some}: {every}"
    )
    named = f"{', '.join(SYSTEMS)}; {', '.join(DEFAULT_SYSTEMS)} without this option"
    parser.add_argument(
        "--system", nargs="+", metavar="NAME", help=f"for these systems, {some}: {named}"
    )
    default = Path("dist") / f"ipu_teach-{__version__}"
    parser.add_argument(
        "--folder",
        type=Path,
        help=f"where to make it; {default} of this checkout without this option",
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
    text = (
        "then set up from it here, in a folder of its own, without a network and with an empty "
        "home,\n"
    )
    text += (
        "with each of these Pythons, or all that are found: doctor, lesson 00, and the lesson in "
        "JupyterLab"
    )
    parser.add_argument("--try", nargs="*", dest="trial", metavar="PYTHON", help=text)
    options = parser.parse_args(arguments)
    try:
        targets = chosen(options.system, options.python)
        folder = (options.folder or pack_folder.ROOT / default).absolute()
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
        full = (
            ". Make room, or name a folder on another disk with --folder"
            if error.errno == errno.ENOSPC
            else ""
        )
        print(f"pack: {error}{full}", file=sys.stderr)
        return 1
    return 0


def chosen(systems: Sequence[str] | None, pythons: Sequence[str] | None) -> list[Target]:
    """Return the targets that the options name."""

    def among(
        words: Sequence[str] | None, known: Sequence[str], default: Sequence[str], what: str
    ) -> list[str]:
        found = [part for word in words or default for part in word.split(",") if part]
        for part in found:
            if part not in known:
                raise PackError(
                    f"{part!r} is not a {what} that a pack can be for. There are {', '.join(known)}"
                )
        return [name for name in known if name in found]

    names = among(systems, list(SYSTEMS), DEFAULT_SYSTEMS, "system")
    return [
        Target(SYSTEMS[n], python)
        for n in names
        for python in among(pythons, PYTHONS, PYTHONS, "Python")
    ]


def lesson_packages() -> list[str]:
    """Return the packages that lessons need: dependencies, the extra lab, and the build backend.

    Without the backend pip cannot install the kit from its folder. pyproject.toml is read by
    patterns, as Python 3.10 has no reader for such files.
    """
    text = (pack_folder.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lists = re.findall(r"^(dependencies|lab) = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    names = [name for _, block in lists for name in re.findall(r'^    "([\w.-]+)', block, re.M)]
    return names + re.findall(r'^requires = \["([\w.-]+)', text, re.MULTILINE)


def make(
    folder: Path, targets: Sequence[Target], archive: Path | None, tests: bool = False
) -> None:
    """Make a pack, and print its contents; with `tests`, include the tools for tests.

    Valid files of an earlier or an unfinished pack are kept.
    """
    pack_folder.check_place(folder)
    (folder / "wheels").mkdir(parents=True, exist_ok=True)
    text = (pack_folder.ROOT / "requirements.lock").read_text(encoding="utf-8")
    lock, names = read_lock(text), None if tests else needed_names(text, lesson_packages())
    said = ", ".join(dict.fromkeys(t.system.name for t in targets))
    said += " with Python " + ", ".join(dict.fromkeys(t.python for t in targets))
    about = "about" if tests else "at most"  # the sizes were measured with the tools for tests
    print(f"pack: for {said}: {about} {megabytes(targets):,} MB, in {folder}", flush=True)
    started = time.monotonic()
    store = Store(folder)
    kept = sum((folder / name).stat().st_size for name in store.sums)
    room = shutil.disk_usage(folder).free
    if room + kept < megabytes(targets) * 10**6:
        raise PackError(
            f"the disk has {room // 10**6:,} MB free. Make room, or name a folder on another one "
            "with --folder"
        )
    used: set[str] = set()
    nowhere: list[str] = []
    for target in targets:
        pins = target.pins(lock, names)
        missing = store.fetch(target, pins)
        nowhere += [f"{pin.replace('==', ' ')} for {target}" for pin in missing]
        serving = store.serving(target, pins)
        used |= set(serving.values())
        left = [pin for pin in pins if pin not in serving and pin not in missing]
        if left:
            raise PackError(f"pip found no wheel for {target} of {', '.join(left)}")
        print(
            f"pack: {target}: {len(serving)} wheels, {size(folder, set(serving.values()))}",
            flush=True,
        )
    if nowhere:
        text = "there is no wheel of\n    " + "\n    ".join(nowhere)
        raise PackError(
            f"{text}\nSo there can be no pack for these. Leave them out with --system and --python"
        )
    store.keep(used)
    fetched = time.monotonic() - started
    pack_folder.copy_kit(folder)
    pack_folder.write_starts(folder, targets)
    sizes = pack_folder.write_all_sums(folder, store.sums)
    kit = sum(n for name, n in sizes.items() if not name.startswith("wheels/"))
    print(f"\n{'kit and lessons':<16}{_mb(kit):>8} MB")
    for part in (ANY, *dict.fromkeys(target.system.folder for target in targets)):
        here = [n for name, n in sizes.items() if name.startswith(f"wheels/{part}/")]
        print(f"{part:<16}{_mb(sum(here)):>8} MB{len(here):>6} wheels")
    print(f"{'all':<16}{_mb(sum(sizes.values())):>8} MB{len(sizes):>6} files")
    print(
        f"\npack: {folder}; {_mb(kept)} MB were here; wheels took {fetched:.0f} s, the rest "
        f"{_since(started) - fetched:.0f} s"
    )
    if archive is not None:
        began = time.monotonic()
        pack_folder.write_zip(folder, archive.absolute())
        print(f"pack: {archive}: {_mb(archive.stat().st_size)} MB, took {_since(began):.0f} s")


def size(folder: Path, names: set[str]) -> str:
    return f"{_mb(sum((folder / name).stat().st_size for name in names))} MB"


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f}"


def _since(moment: float) -> float:
    return time.monotonic() - moment
