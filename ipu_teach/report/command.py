"""The command `ipu-teach report`, which prints, compares or converts saved reports."""

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
JOBS = {  # The descriptions of the subcommands. The key "" is for `ipu-teach report FILE`.
    "": "Print a saved report. `compare` prints what changed between two reports, and `trace` "
    "writes a file for Perfetto; compare --help and trace --help explain their options.",
    "compare": "Print what changed between two saved reports, the largest effects first.",
    "trace": "Write a saved report as a file that ui.perfetto.dev and chrome://tracing open.",
}

USAGE = """{0} FILE [--sections NAME [NAME ...]] [--steps] [--variables]
       {0} FILE --insights
       {0} FILE --csv TABLE
       {0} compare BEFORE AFTER [--csv]
       {0} trace FILE [--out JSON] [--tiles N [N ...]] [--blocks N [N ...]] [--host]"""


def main(arguments: Sequence[str]) -> int:
    """Run the command `ipu-teach report` and return its exit status.

    `arguments` are the command-line words after `report`: FILE, `compare BEFORE AFTER` or
    `trace FILE`, with options.

    :raises ReportLoadError: if a file cannot be read.
    :raises InvalidOptionError: if a tile or a section does not exist.
    """
    job = arguments[0] if arguments and arguments[0] in JOBS else ""
    options = _parser(job).parse_args(arguments[1:] if job else arguments)
    if job == "compare":
        comparison = compare(Report.open(options.before), Report.open(options.after))
        print(
            comparison.changes.to_csv() if options.csv else comparison,
            end="" if options.csv else "\n",
        )
        return 0
    report = Report.open(options.file)
    if job == "trace":
        out_path = options.out or f"{options.file}.json"
        trace_text = chrome_trace(report, options.tiles, host=options.host, blocks=options.blocks)
        write_whole(out_path, trace_text.encode("utf-8"), "report trace", "trace")
        print(f"{out_path}: open it in ui.perfetto.dev or chrome://tracing")
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


def _parser(job: str) -> argparse.ArgumentParser:
    command = f"{program()} report"
    parser = argparse.ArgumentParser(
        f"{command} {job}".strip(), None if job else USAGE.format(command), JOBS[job]
    )
    add = parser.add_argument
    if job == "compare":
        add("before", metavar="BEFORE", help=A_FILE)
        add("after", metavar="AFTER", help="the second such file")
        add("--csv", action="store_true", help="every change as comma-separated text")
        return parser
    add("file", metavar="FILE", help=f"{A_FILE}, such as run.ipureport")
    if job == "trace":
        add("--out", metavar="JSON", help="the file to write, by default FILE.json")
        add("--tiles", type=int, nargs="+", metavar="N", help="tiles that get rows of their own")
        add(
            "--blocks",
            type=int,
            nargs="+",
            default=[],
            metavar="N",
            help="tiles that get a row of their blocks",
        )
        add("--host", action="store_true", help="add the host's events, with their measured times")
        return parser
    add(
        "--sections",
        nargs="+",
        metavar="NAME",
        help="the sections to print: Target, Graph, Memory Usage, Execution, …",
    )
    add("--steps", action="store_true", help="print the first hundred steps of the run")
    add("--variables", action="store_true", help="print the largest hundred variables")
    add("--insights", action="store_true", help="print findings and advice instead")
    add(
        "--csv",
        choices=tuple(SHOWN),
        metavar="TABLE",
        help=f"print one table instead, complete, as CSV text: {', '.join(SHOWN)}",
    )
    return parser
