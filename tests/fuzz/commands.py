"""Give damaged files to the commands of `ipu-teach`, in processes that use a copy of the kit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

from fuzz import files

LONGEST = 120  # seconds for one command; `run` starts a kernel
PERMITTED = (0, 1, 2)  # the exit statuses that commands use

# The kind of file, its place, the arguments of the command, and a word that its refusal must contain.
COMMANDS: list[tuple[str, str, list[str]]] = [
    ("digits", "datasets/digits8.npz", ["doctor"]),
    ("IDX", f"data/mnist/{files.IMAGES}.gz", ["doctor"]),
    ("solved notebook", "notebooks/solutions/01_x.ipynb", ["learner"]),
    ("solved notebook", "notebooks/solutions/01_x.ipynb", ["learner", "--check"]),
    ("solved notebook", "own.ipynb", ["run", "own.ipynb"]),
    ("learner's notebook", "notebooks/01_x.ipynb", ["learner", "--check"]),
    ("learner's notebook", "notebooks/01_x.ipynb", ["learner"]),
    # JupyterLab prints this instead of opening a browser.
    ("learner's copy", "work/01_x.ipynb", ["lab", "01", "--version"]),
    ("learner's copy", "work/01_x.ipynb", ["reset", "01", "--progress"]),
    ("progress", "work/progress.json", ["reset", "01", "--progress"]),
    ("progress", "class/ada/progress.json", ["class", "class"]),
    ("progress", "class/ada.json", ["class", "class", "--csv"]),
    ("progress", "class/ada/progress.json", ["class", "class", "--fresh", "--yes"]),
    ("report", "run.ipureport", ["report", "run.ipureport", "--steps", "--variables"]),
    ("report", "run.ipureport", ["report", "run.ipureport", "--insights"]),
    ("report", "run.ipureport", ["report", "compare", "run.ipureport", "run.ipureport"]),
    ("report", "run.ipureport", ["report", "trace", "run.ipureport"]),
]


def course(folder: Path) -> Path:
    """Make a copy of the kit in `folder`, with one lesson.

    As in a checkout, the notebooks and the digits are beside the package.
    """
    shutil.copytree(
        files.ROOT / "ipu_teach", folder / "ipu_teach", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "pyproject.toml").write_bytes((files.ROOT / "pyproject.toml").read_bytes())
    return folder


def one_command(seed: int, kit: Path) -> tuple[str, str]:
    """Run command number `seed` on a damaged file; `kit` is a copy that `course` made.

    Return how it ended, and what is wrong with that ("" if nothing).
    """
    kind, path, words = COMMANDS[seed % len(COMMANDS)]
    content = files.PARSERS[kind][1](Random(seed))
    for made in (
        "notebooks",
        "datasets",
        "data",
        "work",
        "class",
        "run.ipureport.json",
        "own.ipynb",
    ):
        shutil.rmtree(kit / made, ignore_errors=True)
        (kit / made).unlink(missing_ok=True)
    (kit / "work").mkdir()
    for other, text in {
        "notebooks/solutions/01_x.ipynb": files.good_notebook(),
        "notebooks/01_x.ipynb": files.good_notebook(),
        "datasets/digits8.npz": (files.ROOT / "datasets" / "digits8.npz").read_bytes(),
        f"data/mnist/{files.LABELS}": files.idx(files.np.arange(20) % 10),
        path: content,
    }.items():
        (kit / other).parent.mkdir(parents=True, exist_ok=True)
        (kit / other).write_bytes(text)
    target = (kit / "notebooks/01_x.ipynb").read_bytes()
    env = {
        **os.environ,
        "IPU_TEACH_WORK": str(kit / "work"),
        "IPU_TEACH_DATA": str(kit / "data"),
        "PYTHONPATH": str(kit),
    }
    ended, wrong = f"{words[0]} of {kind}", ""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ipu_teach", *words],
            cwd=kit,
            env=env,
            capture_output=True,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        return ended, f"{' '.join(words)}, seed {seed}: takes more than {LONGEST} s"
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    ended += f" ended with {done.returncode}"
    name = re.escape(Path(path).name)
    if "Traceback" in said or done.returncode not in PERMITTED:
        wrong = (
            "ends with a traceback" if "Traceback" in said else "ends otherwise than a command does"
        )
    elif done.returncode and words[0] != "run" and not re.search(rf"{name}|ada|MNIST", said):
        wrong = "does not name the file"
    elif (kit / files.MARK).exists() and words[0] != "run":
        wrong = "what stands in the file was run"
    elif (
        words == ["learner"]
        and done.returncode
        and (kit / "notebooks/01_x.ipynb").read_bytes() != target
    ):
        wrong = "the learner's notebook was overwritten"
    elif (
        path.startswith(("work", "class"))
        and "progress" not in path
        and not _kept(kit / path.partition("/")[0], content)
    ):
        wrong = "what the learner had made is gone"
    shutil.rmtree(kit / files.MARK, ignore_errors=True)
    return ended, wrong and f"{' '.join(words)}, seed {seed}: {wrong}\n{said[-1500:]}"


def _kept(folder: Path, content: bytes) -> bool:
    return any(path.is_file() and path.read_bytes() == content for path in folder.rglob("*"))
