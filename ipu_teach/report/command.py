"""The command `ipu-teach report FILE | compare BEFORE AFTER | trace FILE`, for saved reports."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ipu_teach._support.places import program
from ipu_teach.report.compare import compare
from ipu_teach.report.html import TABLES
from ipu_teach.report.report import Report
from ipu_teach.report.summary import print_profile_summary
from ipu_teach.report.table import Table, plain
from ipu_teach.report.trace_file import chrome_trace
from ipu_teach.saving.archive import write_whole

A_FILE = "a file that Report.save wrote"
SHOWN = {name.lower(): name for name in TABLES}
JOBS = {
    "": "Print a saved report.",
    "compare": "What changed, the largest effects first.",
    "trace": "Write a report as Chrome's trace events.",
}


def main(words: Sequence[str]) -> int:
    """Run the command with the words after `report`, and return the exit status.

    Raises the errors of reports.
    """
    which = words[0] if words and words[0] in JOBS else ""
    options = _parser(which).parse_args(words[1:] if which else words)
    if which == "compare":
        comparison = compare(Report.open(options.before), Report.open(options.after))
        print(
            comparison.changes.to_csv() if options.csv else comparison,
            end="" if options.csv else "\n",
        )
        return 0
    report = Report.open(options.file)
    if which == "trace":
        out = options.out or f"{options.file}.json"
        text = chrome_trace(report, options.tiles, host=options.host, blocks=options.blocks)
        write_whole(out, text.encode("utf-8"), "report trace", "trace")
        print(f"{out}: open it in ui.perfetto.dev or chrome://tracing")
    elif options.insights:
        for insight in report.insights():
            print(
                plain(
                    f"{insight.text} Advice: {insight.advice}" if insight.advice else insight.text
                )
            )
    elif options.csv:
        print(Table(report.tables.get(SHOWN[options.csv], ())).to_csv(), end="")
    else:
        print_profile_summary(
            report,
            options.sections,
            show_execution_steps=options.steps,
            show_var_storage=options.variables,
        )
    return 0


def _parser(which: str) -> argparse.ArgumentParser:
    called = f"{program()} report"
    other_jobs = (
        "" if which else f"Besides: {called} compare BEFORE AFTER, and {called} trace FILE."
    )
    parser = argparse.ArgumentParser(
        prog=f"{called} {which}".strip(), description=JOBS[which], epilog=other_jobs
    )
    add = parser.add_argument
    if which == "compare":
        add("before", metavar="BEFORE", help=A_FILE)
        add("after", metavar="AFTER", help="another one")
        add("--csv", action="store_true", help="every change as comma-separated text")
        return parser
    add("file", metavar="FILE", help=f"{A_FILE}, such as run.ipureport")
    if which == "trace":
        add("--out", metavar="JSON", help="where to; without it, beside FILE")
        add("--tiles", type=int, nargs="+", metavar="N", help="tiles that get rows of their own")
        add(
            "--blocks",
            type=int,
            nargs="+",
            default=[],
            metavar="N",
            help="tiles that get a row of their blocks",
        )
        add("--host", action="store_true", help="the host's events too, in their own time")
        return parser
    add(
        "--sections",
        nargs="+",
        metavar="NAME",
        help="some of Target, Graph, Memory Usage, Execution, …",
    )
    add("--steps", action="store_true", help="the steps of the run, the first hundred")
    add("--variables", action="store_true", help="the variables, the largest hundred")
    add("--insights", action="store_true", help="what stands out, and what one could try")
    add("--csv", choices=tuple(SHOWN), help="one of these tables, whole, as comma-separated text")
    return parser
