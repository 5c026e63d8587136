"""The command line: `ipu-teach JOB`, or `python -m ipu_teach JOB`. `jobs.py` lists the jobs.

A job is either a subcommand in `build_parser`, or a script of the repository. `lab` opens the
learner's notebook if there is one. `run` executes the solved notebook, which needs no learner to
reach its end.

Exit status: 0 for success, 1 if a lesson failed or something is missing, 2 for invalid arguments,
130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence

from ipu_course import jobs
from ipu_course.checking import learner
from ipu_course.checking.headless import run
from ipu_course.checking.notebooks import ALIASES, COURSE
from ipu_course.checking.slides import slides
from ipu_course.classroom import command as class_command, grade_command, handout, preflight
from ipu_course.doctor import PREFLIGHT, doctor
from ipu_course.lab import become, lab, move_in, opening
from ipu_teach import __version__
from ipu_teach._support.places import NOT_KEPT, bundled, checkout, not_kept, program
from ipu_teach.errors import IPUTeachError, LessonError
from ipu_teach.report import command as report_command

STOPPED = 130  # The exit status that a shell reports for a program that Ctrl-C ended.


def golden(words: Sequence[str]) -> int:
    """Compare the model with published numbers; return 0 if it is close enough to all of them.

    The programs that do this are in the package `validation`. In a checkout it is next to the other
    packages, and in a wheel it is inside `ipu_course`.
    """
    folder = str(bundled("validation", COURSE).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    status: int = importlib.import_module("validation").main(words)
    return status


def estimate(words: Sequence[str]) -> int:
    """Print how long a stored network takes; return the exit status.

    The import is inside this function because it is slow.
    """
    from ipu_teach.estimate import command

    return command.main(words)


def build_parser() -> argparse.ArgumentParser:
    """Return the argument parser with every subcommand and its help.

    In the parsed arguments, `do` is the function that runs the subcommand: call `do(arguments)`.
    """
    parser = argparse.ArgumentParser(prog=program())
    parser.add_argument("--version", action="version", version=f"ipu-teach {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    lesson = "number (07), beginning of the name, mnist or cnn"

    def job(
        name: str, epilog: str | None = None, parents: Sequence[argparse.ArgumentParser] = ()
    ) -> argparse.ArgumentParser:
        words = jobs.WORDS[name]
        return commands.add_parser(name, description=words, epilog=epilog, parents=parents)

    command = job("lab", epilog="Further options go to JupyterLab.")
    command.add_argument(
        "lesson",
        nargs="?",
        metavar="LESSON",
        help=f"{lesson}, or index; without it, the first lesson",
    )
    command.set_defaults(do=lambda options: lab(options.lesson, options.to_jupyter), to_jupyter=[])

    run_options = _run_options()
    job("run", parents=[run_options]).add_argument(
        "lesson", metavar="LESSON", help=f"{lesson}; or the path of an .ipynb file"
    )
    for name in ALIASES:
        job(name, parents=[run_options]).set_defaults(lesson=name)

    command = job("reset")
    command.add_argument("lesson", metavar="LESSON", help=f"{lesson}, or index")
    command.add_argument(
        "--progress",
        action="store_true",
        help="forget what was done in it too, predictions included",
    )
    command.set_defaults(do=lambda options: learner.reset(options.lesson, options.progress))

    command = job("slides")
    command.add_argument("lesson", metavar="LESSON", help=f"{lesson}, or tiny")
    command.add_argument("--html", metavar="FILE", help="where to; else into this folder")
    command.set_defaults(do=lambda options: slides(options.lesson, options.html))

    command = job("doctor")
    command.add_argument(
        "--workshop",
        action="store_true",
        help="open a port, a page, a kernel and a lesson: is it ready?",
    )
    command.set_defaults(
        do=lambda options: preflight.main(PREFLIGHT, opening) if options.workshop else doctor()
    )

    command = job("learner")
    command.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit 1 where one is not what it should be",
    )
    command.set_defaults(do=lambda options: learner.check() if options.check else learner.write())
    return parser


def _run_options() -> argparse.ArgumentParser:
    """Return the parser of the options that every command that runs a lesson has."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--data", choices=("digits", "mnist"), help="what a lesson that has the choice trains on"
    )
    parser.add_argument("--html", metavar="FILE", help="write the executed notebook as a page")
    parser.add_argument(
        "--store",
        action="store_true",
        help="keep the outputs in the notebook file itself (authors)",
    )
    parser.set_defaults(
        do=lambda options: run(options.lesson, options.data, options.html, options.store)
    )
    return parser


def in_the_repository(words: Sequence[str]) -> int:
    """Run a script of the repository, such as the tests, and return its exit status.

    :raises LessonError: if this package was installed from a wheel, which has no such scripts.
    """
    root = checkout()
    if root is None:
        raise LessonError(
            f"`{words[0]}` works on the kit's repository, but this kit was installed from a wheel.",
            next_step=(
                f"get the repository, and run this in its folder: python3 run.py {' '.join(words)}"
            ),
        )
    script = root / jobs.SCRIPTS[words[0]]
    return become([sys.executable, str(script), *words[1:]], dict(os.environ))


# These jobs parse their own arguments.
OWN: dict[str, Callable[[Sequence[str]], int]] = {
    "report": report_command.main,
    "estimate": estimate,
    "class": class_command.main,
    "grade": grade_command.grade,
    "assignment": grade_command.assign,
    "handout": handout.main,
    "golden": golden,
}


def speak_unicode() -> None:
    """Make standard output and standard error accept any character.

    Files and pipes get UTF-8. A terminal shows "?" for a character that it cannot display.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # None keeps the terminal's own encoding.
            encoding = None if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="replace")


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a job. For unknown arguments, print the job's usage and exit."""
    parser = build_parser()
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        usage = f"usage: {program()} {words[0]} …; {program()} {words[0]} --help says more"
        print(f"{usage}\n{words[0]}: it does not take {' '.join(unknown)}", file=sys.stderr)
        sys.exit(2)
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job that the arguments name, and return the exit status."""
    speak_unicode()
    words = list(sys.argv[1:] if argv is None else argv)
    jobs.answer(program(), words)
    job, *rest = words
    try:
        if job in jobs.SCRIPTS:
            return in_the_repository(words)
        if job in OWN:
            return OWN[job](rest)
        to_jupyter: list[str] = []
        if job == "lab" and rest[:1] not in (["-h"], ["--help"]):
            # If the first argument is an option for JupyterLab, no lesson was named.
            split = 1 if not rest or rest[0].startswith("-") else 2
            words, to_jupyter = words[:split], words[split:]
        arguments = parsed(words)
        arguments.to_jupyter = to_jupyter
        if job in ("lab", "run", *ALIASES, "reset", "doctor"):
            move_in()
        status: int = arguments.do(arguments)
        return status
    except IPUTeachError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, LessonError) else 1
    except OSError as error:
        if error.errno not in NOT_KEPT:
            raise
        print(not_kept("This cannot be kept", error.filename or "", error), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return STOPPED
