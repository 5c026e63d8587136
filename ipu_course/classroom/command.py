"""Implement `ipu-teach class FOLDER…`, which shows the progress of a class."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ipu_course.classroom.board import html, tables, text, to_csv
from ipu_course.classroom.fresh import begin_afresh
from ipu_course.classroom.ladder import Rung, climbed
from ipu_course.classroom.plans import PLANS, plan_of
from ipu_course.classroom.roster import Roster, called, files_of, listed
from ipu_course.classroom.serve import serve
from ipu_course.classroom.tables import write_csv
from ipu_teach._support.places import program

PORT = 8899


def main(words: Sequence[str]) -> int:
    """Run the command with the words after `class`, and return the exit status.

    :raises LessonError: if the class cannot be read, or a result cannot be written or served.
    """
    parser = _parser()
    options = parser.parse_args(words)
    # In `--csv FOLDER`, the parser has read the folder as the file name of --csv.
    if options.csv and Path(options.csv).is_dir():
        options.folders = [options.csv, *options.folders]
        options.csv = ""
    if not options.folders:
        parser.error("which FOLDER has the learners' folders?")
    if options.fresh:
        return begin_afresh(options.folders, options.yes)

    names = listed(Path(options.roster).expanduser()) if options.roster else None
    plan = plan_of(options.plan) if options.plan else None

    def ladder(roster: Roster) -> list[Rung] | None:
        return climbed(roster, _say) if options.ladder else None

    if options.serve:

        def page() -> str:
            roster = called(options.folders, names)
            return html(tables(roster, ladder(roster), plan))

        # A missing folder is an error before the page starts. A folder without progress files is
        # not, because learners may write some later.
        for folder in options.folders:
            list(files_of(Path(folder).expanduser()))
        return serve(page, options.port)
    roster = called(options.folders, names)
    if options.csv is None:
        print(text(tables(roster, ladder(roster), plan)))
    elif options.csv:
        write_csv(Path(options.csv), to_csv(roster, plan))
    else:
        print(to_csv(roster, plan), end="")
    return 0


def _say(rung: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[Kruns again: {rung}", end="", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{program()} class",
        description=(
            "Show how far a class is: who is where, and what stops most. Read from the learners' "
            "own progress files, on a share, in the homes of a hub, or sent in. Nothing leaves "
            "this machine."
        ),
    )
    parser.add_argument(
        "folders",
        nargs="*",
        metavar="FOLDER",
        help="a folder with the learners' folders, or a progress file",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--serve",
        action="store_true",
        help="a page on this machine that refreshes itself, until Ctrl-C",
    )
    shown.add_argument(
        "--csv",
        nargs="?",
        const="",
        metavar="FILE",
        help="a row for each learner and exercise, as comma-separated text; into a file if named",
    )
    shown.add_argument(
        "--fresh", action="store_true", help="say what would be set aside for a second group"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=PORT,
        help=f"of the page; {PORT} unless told, 0 for any that is free",
    )
    parser.add_argument(
        "--ladder",
        action="store_true",
        help="run again, on this machine, what learners shared with share()",
    )
    parser.add_argument(
        "--plan",
        metavar="PLAN",
        help=f"count only the exercises of a timetable ({', '.join(PLANS)}), or of lessons and "
        "exercises: 00,01,04.1",
    )
    parser.add_argument(
        "--roster", metavar="FILE", help="a list of the class as CSV, with the columns id and name"
    )
    parser.add_argument("--yes", action="store_true", help="with --fresh: set it aside")
    return parser
