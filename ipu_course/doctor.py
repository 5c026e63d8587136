"""Report whether this machine has everything that lessons and tests need: `ipu-teach doctor`."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ipu_course.checking.notebooks import install_line, writable_work_path
from ipu_course.lab import folder_in_work, homes
from ipu_teach._support.places import PACKAGE, checkout, free_memory
from ipu_teach.errors import DatasetError, LessonError

# A row is (verdict, subject, details). The verdict is "ok", "note" or "FIX".
DoctorRow = tuple[str, str, str]
# Maps each package without which the course still runs to the text at the end of its note.
SPARED = {"numba": "; loops over elements run slower without it"}
# The address of wheels without GPU libraries, which would take 5 GB.
TORCH_WHEELS = "https://download.pytorch.org/whl/cpu"


def check_home() -> DoctorRow:
    """Check whether the programs that `ipu-teach lab` starts can store files in the home folder.

    Programs that cannot use the home folder store their files in the work folder.
    """
    moved = [name for name, folder in homes() if folder == folder_in_work(name)]
    if moved:
        text = f"not all of it can be written: {', '.join(moved)} go into the work folder"
        return "note", "home", f"{os.path.expanduser('~')}, {text}"
    return "ok", "home", os.path.expanduser("~")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def check_packages() -> Iterator[DoctorRow]:
    """Yield a row of the report for each package that the lessons or the tests need.

    There is no row for a package that only the tests need and that is not installed.
    """
    try:
        wanted = importlib.metadata.requires("ipu_teach") or []
    except importlib.metadata.PackageNotFoundError:
        yield (
            "FIX",
            "ipu_teach",
            f"not installed: in {PACKAGE.parent}, {sys.executable} -m pip install -e .[lab,test]",
        )
        return
    for requirement in wanted:
        parts = re.match(
            r"([\w.-]+)\s*(?:>=\s*([\w.]+))?.*?(?:;.*extra\s*==\s*[\"'](\w+)[\"'])?$", requirement
        )
        if parts is None or parts[3] not in (None, "lab", "test" if checkout() else None):
            continue
        name = parts[1]
        minimum = parts[2] or "0"
        extra = parts[3]
        why = "; only the tests need it" if extra == "test" else SPARED.get(name, "")
        bad = "note" if why else "FIX"
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if extra == "test":  # `run.py test` installs these packages.
                continue
            yield bad, name, f"missing: {install_line(name + '>=' + minimum)}{why}"
            continue
        if _numbers(version) < _numbers(minimum):
            yield bad, name, f"{version} is too old: {install_line(name + '>=' + minimum)}{why}"
        else:
            yield "ok", name, version


def check_gpu() -> DoctorRow:
    """Report whether the engine runs on a GPU, and why.

    The row is a note if there is a GPU that cannot be used.
    """
    from ipu_teach.engine.backend import cuda_devices, cupy_module

    cupy, text = cupy_module()
    if cupy is not None:
        return "ok", "GPU", f"the engine runs on {text}"
    idle = cuda_devices() and os.environ.get("IPU_TEACH_GPU") != "0"
    return (
        "note" if idle else "ok",
        "GPU",
        f"{text}; the engine runs on numpy, which is all it needs",
    )


def check_torch() -> DoctorRow:
    """Check whether torch is installed; only `ipu_teach.poptorch` needs it."""
    try:
        return "ok", "torch", importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        status = "not here, which is fine: for ipu_teach.poptorch alone, 192 MB to fetch: "
        return "ok", "torch", status + f"{install_line('torch')} --index-url {TORCH_WHEELS}"


def check_data() -> Iterator[DoctorRow]:
    """Yield a row of the report for the bundled digits, and one for MNIST, which is optional.

    Both data sets are read, because a file that exists may be damaged.
    """
    from ipu_teach import datasets

    for name, read in (
        ("digits", datasets.digits),
        ("MNIST", lambda: datasets.mnist(download=False)),
    ):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield "ok", name, str(read())
        except DatasetError as error:
            # If a file is damaged, it must be repaired. If MNIST is missing, nothing needs to be
            # done.
            if name == "digits" or Path(error.where).is_file():
                yield "FIX", name, " ".join(str(error).split())
            else:
                yield "ok", name, "not here, which is fine: --data mnist fetches it once"


def check_work() -> DoctorRow:
    """Check whether the learner's notebooks can be stored in the work folder."""
    try:
        return "ok", "work folder", str(writable_work_path())
    except LessonError as error:
        return "FIX", "work folder", f"{error.tried} {error.where}: {error.next_step}"


def check_memory() -> DoctorRow:
    """Report how much memory is free, if the operating system says it."""
    memory = free_memory()
    if memory is None:
        return "ok", "memory", "cannot tell on this system; 1 GB is enough"
    free = memory / 2**30
    if free < 1:
        return (
            "FIX",
            "memory",
            f"{free:.1f} GB free; the full chip wants 1 GB: close other programs",
        )
    return "ok", "memory", f"{free:.1f} GB free"


def doctor() -> int:
    """Print what is installed and how to get missing parts.

    Return 1 if something must be fixed, else 0.
    """
    version = sys.version.split()[0]
    python: DoctorRow = ("ok", "Python", f"{version}, {sys.executable}")
    if sys.version_info < (3, 10):  # noqa: UP036
        python = ("FIX", "Python", f"{version} is too old: 3.10 or newer is needed")
    rows = [python, *check_packages(), check_gpu(), check_torch(), *check_data()]
    rows += [check_work(), check_home(), check_memory()]
    width = max(len(name) for _, name, _ in rows)
    for mark, name, text in rows:
        print(f"{mark:4}  {name:{width}}  {text}")
    faults = sum(mark == "FIX" for mark, _, _ in rows)
    print("all is well" if not faults else f"to fix: {faults}, marked FIX above")
    return 1 if faults else 0


PREFLIGHT: dict[str, Callable[[], DoctorRow | Iterable[DoctorRow]]] = {
    "Is everything installed?": lambda: [
        row for row in check_packages() if "only the tests" not in row[2]
    ],
    "Can your work be kept?": check_work,
    "Is there enough memory?": check_memory,
}
