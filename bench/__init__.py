"""`python3 run.py bench`: measure speed as ratios to floors in the same process.

A row of the benchmark has a workload and a floor: the same work in plain numpy, or in another form.
Seconds depend on the machine and on what else it does, but the ratio of two workloads that are
measured alternately is stable. Every goal is an upper limit of such a ratio.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from bench.measure import Result, Row, run_rows
from ipu_teach.errors import InvalidOptionError, IPUTeachError, did_you_mean

# The exit status that a shell reports for a program that Ctrl-C ended.
STOPPED = 130

ROUNDS = 7


def all_rows(in_browser: bool = False, peers: bool = False) -> list[Row]:
    """Return the rows to measure, in the order of the table.

    By default these are the rows of the engine and the graphs. With `in_browser` they are the rows
    of the views, and with `peers` the comparisons with other tile engines.
    """
    if peers:
        from bench import peers as beside

        return list(beside.ROWS)
    if in_browser:
        from bench import browser

        return list(browser.ROWS)
    from bench import gpu, graphs, heat, kernels, networks, order, replicas, scalar, sparse, waiting

    rooms = (kernels, heat, sparse, scalar, graphs, replicas, waiting, networks, order, gpu)
    return [row for room in rooms for row in room.ROWS]


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `python3 run.py bench`."""
    text = "Measure how fast the kit is on this machine, each figure beside a floor."
    parser = argparse.ArgumentParser(prog="python3 run.py bench", description=text)
    parser.add_argument(
        "--json", action="store_true", help='print {"rows": [...]} instead of a table'
    )
    parser.add_argument(
        "--only", metavar="IDS", default="", help="some rows, with commas between: w1a,w2"
    )
    parser.add_argument(
        "--browser", action="store_true", help="measure the views in Chromium instead"
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="measure beside interpreters and simulators instead (extra: bench)",
    )
    parser.add_argument(
        "--rounds", metavar="N", type=int, default=ROUNDS, help=f"rounds of each row ({ROUNDS})"
    )
    return parser


def chosen_rows(only: str, in_browser: bool = False, peers: bool = False) -> list[Row]:
    """Return the rows that `only` names, or all rows if it is empty.

    :raises InvalidOptionError: if a name is unknown.
    """
    rows = all_rows(in_browser, peers)
    wanted = [word.strip() for word in only.split(",") if word.strip()]
    known = {row.id: row for row in rows}
    for word in wanted:
        if word not in known:
            raise InvalidOptionError(f"""There is no row {word!r} in the benchmark.
                next:  {did_you_mean(word, known)}The rows are {", ".join(known)}.""")
    return [known[word] for word in wanted] or rows


def main(words: Sequence[str] | None = None) -> int:
    """Run the rows and print them.

    Return 1 if a goal is missed, a row failed or an option is invalid.
    """
    arguments = build_parser().parse_args(words)
    try:
        return run(arguments)
    except IPUTeachError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return STOPPED


def run(arguments: argparse.Namespace) -> int:
    """Measure the rows that the parsed options select, and print them; return the exit status."""
    from tqdm import tqdm

    if arguments.rounds < 1:
        raise InvalidOptionError(
            f"--rounds was given {arguments.rounds}, but at least one round must be measured.",
            next_step="give a whole number from 1 on.",
        )
    rows = chosen_rows(arguments.only, arguments.browser, arguments.peers)
    total = sum(min(arguments.rounds, row.most_rounds) for row in rows)
    results: list[Result] = []
    with tqdm(total=total, file=sys.stderr, unit="round") as bar:

        def tick(name: str) -> None:
            bar.set_postfix_str(name)
            bar.update(1)

        results.extend(run_rows(rows, arguments.rounds, tick))
    print(
        json.dumps({"rows": [result.as_dict() for result in results]}, indent=1)
        if arguments.json
        else table(results)
    )
    return 1 if any(result.missed or result.failed for result in results) else 0


def table(results: Sequence[Result]) -> str:
    """Return the results as a text table in which missed goals are marked."""
    lines = [f"{'row':5} {'goal':>7} {'result':>8}  {'spread':17} workload / floor"]
    for result in results:
        row = result.row
        value = "-" if result.value is None else f"{result.value:.3g}"
        spread = "" if result.least is None else f"[{result.least:.3g} .. {result.largest:.3g}]"
        mark = "*" if result.missed else " "
        worst = (
            "" if result.worst is None else f"; worst {result.worst:.3g}, goal {row.worst_goal:g}"
        )
        note = worst + (f" ({result.note})" if result.note else "")
        lines.append(
            f"{row.id:5} {row.goal:>7g} {value:>8}{mark} {spread:17} {row.what} / {row.floor}{note}"
        )
    missed, failed = (
        sum(result.missed for result in results),
        sum(result.failed for result in results),
    )
    lines.append(
        "every measured goal is reached" if not missed else f"goals missed: {missed}, marked *"
    )
    if failed:
        lines.append(f"rows that failed: {failed}")
    return "\n".join(lines)
