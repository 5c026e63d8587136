"""Find the files that come with the kit, and write files safely.

In a checkout, the folders `datasets`, `docs` and `notebooks` are next to the packages. In a wheel,
these files are in a folder `carried` inside a package: the data sets are in the package of the
runtime, and the other files are in the package of the course. hatch_build.py fills these folders.
This module also builds the errors about folders that are full or read-only.
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
CARRIED = "carried"  # The folder in a wheel's package that contains these files.
FULL = (errno.ENOSPC, errno.EDQUOT)
NOT_KEPT = (*FULL, errno.EACCES, errno.EPERM, errno.EROFS)
MEMINFO = Path("/proc/meminfo")
PROBE = 1 << 20  # The number of bytes that are written to test whether a folder can store data.


def free_memory() -> int | None:
    """Return the bytes of memory that programs can get without swapping (MemAvailable).

    Return None on systems without /proc/meminfo.
    """
    return _memory("MemAvailable")


def all_memory() -> int | None:
    """Return the memory of this computer in bytes; None if the system does not report it."""
    try:
        return _memory("MemTotal") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf.
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
    """Return the command with which this program was started: "python3 run.py" or "ipu-teach"."""
    is_run_py = sys.argv[0] == str(PACKAGE / "__main__.py") and checkout()
    return "python3 run.py" if is_run_py else "ipu-teach"


def bundled(name: str, package: Path = PACKAGE) -> Path:
    """Return the folder `name` that comes with `package`, in a checkout or in a wheel."""
    return (checkout() or package / CARRIED) / name


def not_kept(noun: str, where: Path | str, error: OSError) -> LessonError:
    """Return the error for a file, `where`, that could not be written, with advice.

    `noun` is the first sentence of the error without a full stop, such as "The starter could not be
    copied".
    """
    advice = "set IPU_TEACH_WORK to a folder " + (
        "on another disk, or make room on this one" if error.errno in FULL else "that you may write"
    )
    return LessonError(f"{noun}: {error.strerror}.", where=str(where), next_step=advice)


def write_whole(file: Path, content: bytes | str) -> None:
    """Write `content` to `file`; if an `OSError` is raised, an existing file stays as it was."""
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    part_file = file.with_name(f".{file.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        part_file.write_bytes(data)
        os.replace(part_file, file)
    finally:
        with suppress(OSError):
            part_file.unlink(missing_ok=True)


def try_writing(folder: Path) -> None:
    """Write a temporary file into `folder`, or into its nearest parent that exists.

    :raises OSError: if the file cannot be written.
    """
    existing_folder = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    with tempfile.TemporaryFile(dir=existing_folder) as file:
        file.write(bytes(PROBE))
