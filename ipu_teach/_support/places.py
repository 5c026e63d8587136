"""Find the files that come with the kit beside its code, and write files safely.

In a checkout the folders `datasets`, `docs` and `notebooks` are beside the packages. In a wheel
each package has a folder `carried`, which hatch_build.py fills: the runtime has the data sets, and
the course the rest. Errors about folders that are full or cannot be written are made here too.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from ipu_teach.errors import LessonError

PACKAGE = Path(__file__).resolve().parents[1]
CARRIED = "carried"  # the folder of a package in a wheel
FULL = (errno.ENOSPC, errno.EDQUOT)
NOT_KEPT = (*FULL, errno.EACCES, errno.EPERM, errno.EROFS)
MEMINFO = Path("/proc/meminfo")
PROBE = 1 << 20  # bytes that are written to see whether a folder can keep any


def free_memory() -> int | None:
    """Return the bytes of this computer's memory that are free, where Linux tells."""
    return _memory("MemAvailable")


def all_memory() -> int | None:
    """Return the bytes of this computer's memory, where the system tells."""
    try:
        return _memory("MemTotal") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _memory(name: str) -> int | None:
    try:
        text = MEMINFO.read_text(encoding="ascii")
        return 1024 * int(re.findall(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)[0])
    except (OSError, IndexError):
        return None


def checkout() -> Path | None:
    """Return the checkout that this kit runs from; None if it was installed from a wheel."""
    return None if (PACKAGE / CARRIED).is_dir() else PACKAGE.parent


def program() -> str:
    """Return how this command line was called, as one would call it again."""
    by_run_py = sys.argv[0] == str(PACKAGE / "__main__.py") and checkout()
    return "python3 run.py" if by_run_py else "ipu-teach"


def bundled(name: str, package: Path = PACKAGE) -> Path:
    """Return the folder `name` that comes with a package, in a checkout or in a wheel."""
    return (checkout() or package / CARRIED) / name


def not_kept(noun: str, where: object, error: OSError) -> LessonError:
    """Return the error of something that could not be written, which says what to do."""
    step = "set IPU_TEACH_WORK to a folder " + (
        "on another disk, or make room on this one" if error.errno in FULL else "that you may write"
    )
    return LessonError(f"{noun}: {error.strerror}.", where=str(where), next_step=step)


def write_whole(file: Path, content: bytes | str) -> None:
    """Write a whole file, or none and leave what was there. Raises `OSError`."""
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    part = file.with_name(f".{file.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        part.write_bytes(data)
        os.replace(part, file)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def try_writing(folder: Path) -> None:
    """Write into a folder, or the nearest above it that exists, and leave nothing there. Raises
    `OSError`."""
    near = next((existing for existing in (folder, *folder.parents) if existing.exists()), folder)
    with tempfile.TemporaryFile(dir=near) as file:
        file.write(bytes(PROBE))
