"""Open a lesson in JupyterLab: the command, its environment, and the folders for its files."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from ipu_course.checking.notebooks import find_lesson, kept_work, learners_copies, need, work_path
from ipu_teach._support.places import try_writing


def homes() -> Iterator[tuple[str, Path]]:
    """Yield the folders in which Jupyter, IPython and matplotlib store files.

    Each item is `(environment variable that changes the folder, current path)`.
    """
    home = Path(os.path.expanduser("~"))
    with contextlib.suppress(ImportError):
        from jupyter_core import paths

        yield "JUPYTER_CONFIG_DIR", Path(paths.jupyter_config_dir())
        yield "JUPYTER_DATA_DIR", Path(paths.jupyter_data_dir())
        yield "JUPYTER_RUNTIME_DIR", Path(paths.jupyter_runtime_dir())
    yield "IPYTHONDIR", Path(os.environ.get("IPYTHONDIR") or home / ".ipython")
    cache = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    yield "MPLCONFIGDIR", Path(os.environ.get("MPLCONFIGDIR") or Path(cache, "matplotlib"))


def move_in() -> None:
    """Let programs store files in the work folder if they cannot store them in the home folder.

    This sets environment variables of this process.
    """
    if os.path.expanduser("~") == "~":  # This user has no home folder.
        os.environ["HOME"] = str(work_path())
    for name, folder in homes():
        try:
            try_writing(folder)
        except OSError:
            os.environ[name] = str(folder_in_work(name))


def folder_in_work(name: str) -> Path:
    """Return the folder inside the work folder for the environment variable `name`.

    Such a variable says where a program such as Jupyter stores files. See `homes`.
    """
    return work_path() / ".jupyter" / name.lower()


# On its first start, JupyterLab asks whether it may fetch news; the lessons fetch nothing.
NO_NEWS = (
    '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": '
    "false}}\n"
)


def lab(word: str | None, jupyter_arguments: Sequence[str]) -> int:
    """Open the learner's copy of a lesson in JupyterLab, and return its exit status.

    On a JupyterHub, JupyterLab runs as the learner's server of the hub.
    """
    lesson = find_lesson(word)
    command, env = opening(lesson)
    copy = Path(env["IPU_TEACH_WORK"], lesson.name)
    print(f"opening {copy}, your own copy", file=sys.stderr, flush=True)
    return become([*command, *jupyter_arguments], env)


def opening(lesson: Path) -> tuple[list[str], dict[str, str]]:
    """Write the learner's copy of a lesson; return `(command, environment)` that opens it."""
    need("jupyterlab", "lab")
    kept_work()
    copy = learners_copies(lesson)
    settings = copy.parent / ".jupyter" / "labconfig" / "default_setting_overrides.json"
    if not settings.exists():
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(NO_NEWS, encoding="utf-8")
    configs = [str(settings.parents[1]), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    env = dict(
        os.environ,
        JUPYTER_CONFIG_PATH=os.pathsep.join(filter(None, configs)),
        IPU_TEACH_WORK=str(copy.parent),
    )
    # The lesson is given as a URL, not as a file. Then the address that JupyterLab prints with
    # --no-browser also opens the lesson.
    options = [
        f"--ServerApp.root_dir={copy.parent}",
        f"--LabApp.default_url=/lab/tree/{quote(copy.name)}",
    ]
    if os.name != "nt" and os.geteuid() == 0:
        # In a container the user is root. This is safe, because the server listens only on this
        # machine and needs a token.
        options.append("--allow-root")
    # A JupyterHub sets the server's address and authenticates users.
    hub = "JUPYTERHUB_SERVICE_URL" in os.environ
    if hub and os.name != "nt":
        # Kernels use sockets instead of ports. When a class begins, many kernels start, and one
        # kernel may take a port that another kernel has just found to be free.
        options.append("--KernelManager.transport=ipc")
        # The path of a socket may have at most 107 characters, so use a short folder.
        env.setdefault("JUPYTER_RUNTIME_DIR", str(Path.home() / ".run"))
    return [sys.executable, "-m", "jupyterhub.singleuser" if hub else "jupyterlab", *options], env


def become(command: list[str], env: dict[str, str]) -> int:
    """Run a command in place of this process, or on Windows as a child; return its exit status."""
    if os.name != "nt":
        os.execve(command[0], command, env)
    process = subprocess.Popen(command, env=env)
    while True:
        try:
            return process.wait()
        # JupyterLab also gets Ctrl-C, and asks whether it should stop.
        except KeyboardInterrupt:
            continue
