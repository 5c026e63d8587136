"""Reports on the shell: `ipu-teach report FILE | compare BEFORE AFTER | trace FILE`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ipu_teach.archive import write_whole
from ipu_teach.report.compare import compare
from ipu_teach.report.report import Report
from ipu_teach.report.summary import print_profile_summary
from ipu_teach.report.table import plain
from ipu_teach.report.trace_file import chrome_trace, steps_csv, tiles_csv

HELP = "print a saved report, compare two, or write one as a trace for Perfetto"


def main(words: Sequence[str]) -> int:
    """Do what the words after `report` ask; the exit status. Raises the errors of reports."""
    which = words[0] if words and words[0] in ("compare", "trace") else "show"
    arguments = _parser(which).parse_args(words if which == "show" else words[1:])
    if which == "compare":
        found = compare(Report.open(arguments.before), Report.open(arguments.after))
        print(found.changes.to_csv() if arguments.csv else found, end="" if arguments.csv else "\n")
        return 0
    report = Report.open(arguments.file)
    if which == "trace":
        out = arguments.out or f"{arguments.file}.json"
        text = chrome_trace(report, arguments.tiles, host=arguments.host, blocks=arguments.blocks)
        write_whole(out, text.encode("utf-8"), "report trace", "trace")
        print(f"{out}: open it in ui.perfetto.dev or chrome://tracing")
        return 0
    if arguments.insights:
        for one in report.insights():
            print(plain(f"{one.text} Advice: {one.advice}" if one.advice else one.text))
        return 0
    if arguments.csv:
        print({"steps": steps_csv, "tiles": tiles_csv}[arguments.csv](report), end="")
        return 0
    print_profile_summary(
        report, arguments.sections, show_execution_steps=arguments.steps, show_var_storage=arguments.variables
    )
    return 0


def _parser(which: str) -> argparse.ArgumentParser:
    if which == "compare":
        parser = argparse.ArgumentParser(
            prog="ipu-teach report compare", description="What changed, the largest effects first."
        )
        parser.add_argument("before", metavar="BEFORE", help="a file that Report.save wrote")
        parser.add_argument("after", metavar="AFTER", help="another one")
        parser.add_argument("--csv", action="store_true", help="every change as comma-separated text")
        return parser
    if which == "trace":
        parser = argparse.ArgumentParser(prog="ipu-teach report trace", description="Write a report as Chrome's trace events.")
        parser.add_argument("file", metavar="FILE", help="a file that Report.save wrote")
        parser.add_argument("--out", metavar="JSON", help="where to; without it, beside FILE")
        parser.add_argument("--tiles", type=int, nargs="+", metavar="N", help="tiles that get rows of their own")
        parser.add_argument(
            "--blocks", type=int, nargs="+", default=[], metavar="N", help="tiles that get a row of their blocks"
        )
        parser.add_argument("--host", action="store_true", help="the host's events too, in their own time")
        return parser
    parser = argparse.ArgumentParser(
        prog="ipu-teach report",
        description="Print a saved report.",
        epilog="Besides: ipu-teach report compare BEFORE AFTER, and ipu-teach report trace FILE.",
    )
    parser.add_argument("file", metavar="FILE", help="a file that Report.save wrote, such as run.ipureport")
    parser.add_argument("--sections", nargs="+", metavar="NAME", help="some of Target, Graph, Memory Usage, Execution, …")
    parser.add_argument("--steps", action="store_true", help="the steps of the run, the first hundred")
    parser.add_argument("--variables", action="store_true", help="the variables, the largest hundred")
    parser.add_argument("--insights", action="store_true", help="what stands out, and what one could try")
    parser.add_argument("--csv", choices=("steps", "tiles"), help="one of these tables, whole, as comma-separated text")
    return parser
