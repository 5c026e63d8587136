"""python3 run.py fuzz [--minutes N] [--seed S] [--graphs N] [--compiled]

Random graphs, layouts, codelets and programs run on every way of the engine and on the judge: values, what is defined, races,
bytes and cycles. The first that differs is made smaller, line by line, and printed as code; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz import compare, pool, shrink, writer


def tried(lines: list[str], ways: list[str]) -> compare.Wrong | None:
    """What is wrong with a program; nothing, if it cannot be built."""
    try:
        return compare.difference(lines, *ways)[1]
    except Exception:
        return None


def smaller(lines: list[str], wrong: compare.Wrong, ways: list[str]) -> str:
    """A failing program, made as small as it gets, as code with the text of the codelets that were drawn for it."""

    def fails(rest: list[str]) -> bool:
        found = tried(rest, ways)
        return found is not None and found.kind == wrong.kind

    least = shrink.smallest(lines, fails)
    used = {entry.name: entry.source for entry in pool.POOL if entry.source and any(f"{entry.name}," in line for line in least)}
    found = tried(least, ways) or wrong
    return "\n".join([*(f"# {name}:\n{source}" for name, source in used.items()), *least, f"# {found.text}"])


def main() -> int:
    text = (__doc__ or "").split("\n\n")[1]
    parser = argparse.ArgumentParser(prog="run.py fuzz", description=text)
    parser.add_argument("--minutes", type=float, default=1, help="how long (1)")
    parser.add_argument("--seed", type=int, default=None, help="of the first program; the next has the next (by the clock)")
    parser.add_argument("--graphs", type=int, default=None, help="stop after so many")
    parser.add_argument("--compiled", action="store_true", help="compile every loop too; the first time takes long")
    options = parser.parse_args()
    first = int(time.time()) * 1000 if options.seed is None else options.seed
    print(f"seed {first}", flush=True)
    found: Counter[str] = Counter()
    end, seed, told = time.monotonic() + options.minutes * 60, first, 0.0
    try:
        while time.monotonic() < end and seed - first != options.graphs:
            lines, ways = writer.Writer(seed).lines, ["batched", "vertex_loop", Random(seed).choice(["shuffled", "threads"])]
            ways += [compare.COMPILED] if options.compiled else []
            ended, wrong = compare.difference(lines, *ways)
            if wrong is not None:
                print(f"\nseed {seed} differs; as small as it gets:\n\n{smaller(lines, wrong, ways)}")
                return 1
            found[ended.partition(":")[0] or "ran to their end"] += 1
            seed += 1
            if time.monotonic() - told > 1:
                told = time.monotonic()
                print(f"\r{seed - first:,} programs, {max(0, end - told):,.0f} s left ", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        pass
    ends = ", ".join(f"{count:,} {name}" for name, count in found.most_common())
    print(f"\n{seed - first:,} programs from seed {first}: {ends}; none differs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
