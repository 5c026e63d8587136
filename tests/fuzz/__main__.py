"""Compare random programs on every path of the engine with the judge: python3 run.py fuzz [options]

Random graphs, layouts, codelets and programs run on every path of the engine and on the judge:
values, definedness, races, bytes and cycles must be equal. Each tenth program is spoiled, and must
end with an error of the kit. The first program that differs is reduced line by line and printed as
code; the exit status is then 1. Ctrl-C ends the run with a summary.

Other options compare other things:

--codelets       random loops over elements, by CPython and by numba, with the vertex loop
--replicas       replicated programs with as many runs of one replica
--costs          the cost model with its laws, on random programs and machines
--collectives    collectives of gcl with numpy
--layers         pooling and norms with torch
--sparse         sparse products with scipy
--operations     operations of the frontends with float64, and stacks of layers with torch
--pipelines      pipelines with one micro-batch after the other in float64
--torch-samples  torch's own sample inputs, forward and backward, on the PyTorch frontend: each
                 result equals torch's in float64, or the kit refuses the sample
--onnx-nodes     ONNX's own tests of its operations, read by popart: each is equal, or refused
--faces          random modules of torch with edge values and all transforms: all outputs and,
                 after a step of training, all parameters and buffers are compared
--tests          the suite's random tests, in turn, each on its own seed
--files          damaged and hostile files, within 4 GB of memory, and for some of them commands:
                 each file is read, or refused by an error that names it; nothing of the learner's
                 is lost, and no code in a file runs
--arguments      the suite's calls of public functions, each with one argument spoiled: an error of
                 the kit with a next step, no hang, no Python traceback, and no silent acceptance
--threads        answers whose threads still print after the check, each in its own process
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from math import inf
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz import (
    arguments,
    collectives,
    commands,
    compare,
    costs,
    files,
    layers,
    loops,
    operations,
    pipelines,
    pool,
    replicas,
    shrink,
    sparse,
    suite,
    threads,
    writer,
)

EACH = 4000  # one in so many files goes to a command
MEMORY = 4 << 30  # bytes of memory for reading damaged files

# Returns from a seed how the case ended, and what is wrong in words ("" if nothing).
One = Callable[[int], tuple[str, str]]


def tried(lines: list[str], ways: list[str], spoiled: bool = False) -> compare.Wrong | None:
    """Return what is wrong with a program; None if nothing is, or if it cannot be built."""
    try:
        return compare.difference(lines, *ways, spoiled=spoiled)[1]
    except Exception:
        return None


def smaller(lines: list[str], wrong: compare.Wrong, ways: list[str], spoiled: bool = False) -> str:
    """Return the code of a failing program, reduced as far as possible, with its codelets."""

    def fails(rest: list[str]) -> bool:
        found = tried(rest, ways, spoiled)
        return found is not None and found.kind == wrong.kind

    least = shrink.smallest(lines, fails)
    used = {
        entry.name: entry.source
        for entry in pool.POOL
        if entry.source and any(f"{entry.name}," in line for line in least)
    }
    text = (tried(least, ways, spoiled) or wrong).text.replace("\n", "\n# ")
    return "\n".join(
        [*(f"# {name}:\n{source}" for name, source in used.items()), *least, f"# {text}"]
    )


def one_program(seed: int, compiled: bool) -> tuple[str, str]:
    """Compare program number `seed` on its paths."""
    lines, spoiled = writer.program(seed)
    ways = [
        "batched",
        "vertex_loop",
        Random(seed).choice(["shuffled", "threads"]),
        *([compare.COMPILED] if compiled else []),
    ]
    ended, wrong = compare.difference(lines, *ways, spoiled=spoiled)
    ended = ended.partition(":")[0] or "to its end"
    return f"{ended}, spoiled" if spoiled else ended, "" if wrong is None else smaller(
        lines, wrong, ways, spoiled
    )


def one_codelet(seed: int, compiled: bool) -> tuple[str, str]:
    """Compare codelet number `seed`, by CPython and by numba."""
    source, ways = loops.source_of(seed), [loops.PYTHON, *([compare.COMPILED] if compiled else [])]
    ended, wrong = loops.difference(source, seed, *ways)
    if wrong is None:
        return ended, ""
    kind = wrong.kind

    def fails(rest: list[str]) -> bool:
        try:
            found = loops.difference("\n".join(rest), seed, *ways)[1]
        except Exception:  # it is no longer a program
            return False
        return found is not None and found.kind == kind

    return ended, "\n".join([*shrink.smallest(source.splitlines(), fails), f"# {wrong.text}"])


def one_replicated(seed: int, compiled: bool) -> tuple[str, str]:
    """Compare program number `seed`, replicated."""
    lines, rng = replicas.program(seed), Random(seed)
    how = {"merge": rng.random() < 0.5, "way": rng.choice(list(compare.WAYS))}
    ended, wrong = replicas.difference(lines, seed, **how)
    if wrong is None:
        return ended or "to its end", ""

    def fails(rest: list[str]) -> bool:
        try:
            found = replicas.difference([*lines[:2], *rest], seed, **how)[1]
        except Exception:  # it is no longer a program
            return False
        return found is not None and found.kind == wrong.kind

    least = [*lines[:2], *shrink.smallest(lines[2:], fails)]
    return ended, "\n".join([*least, f"# {how}: {wrong.kind}: {wrong.text}"])


def one_cost(seed: int, compiled: bool) -> tuple[str, str]:
    """Check the laws of the cost model on program and machine number `seed`."""
    return "lawful", "\n".join(costs.broken(seed))


def one_collective(seed: int, compiled: bool) -> tuple[str, str]:
    """Compare collective number `seed` with numpy."""
    drawn = collectives.draw(seed)
    return drawn.kind, collectives.differs(drawn)


def one_layer(seed: int, compiled: bool) -> tuple[str, str]:
    """Compare pooling or norm number `seed` with torch."""
    if seed % 2:
        normed = layers.draw_norm(seed)
        return normed.kind, layers.norm_differs(normed)
    pooled = layers.draw_pool(seed)
    return str(pooled.params.kind), layers.pool_differs(pooled)


def one_sparse(seed: int, compiled: bool) -> tuple[str, str]:
    """Compare sparse product number `seed` with scipy."""
    drawn = sparse.draw(seed)
    return drawn.kind, sparse.differs(drawn)


def one_operation(seed: int, compiled: bool) -> tuple[str, str]:
    """Compare operation number `seed` of the frontends, or a stack of layers."""
    return operations.one_operation(seed)


def one_pipeline(seed: int, compiled: bool) -> tuple[str, str]:
    """Compare pipeline number `seed` of the frontends with numpy."""
    return pipelines.one_pipeline(seed)


def one_file(seed: int, kit: Path) -> tuple[str, str]:
    """Read damaged file number `seed` in this process.

    A command of the copy of the kit reads each `EACH`-th one.
    """
    if seed % EACH == 0:
        return commands.one_command(seed // EACH, kit)
    kinds = list(files.PARSERS)
    with tempfile.TemporaryDirectory() as folder:
        return files.one_file(kinds[seed % len(kinds)], seed, Path(folder))


def one_test(seed: int, compiled: bool) -> tuple[str, str]:
    """Run a random test of the suite on the values that `seed` draws."""
    return suite.one_test(seed)


def one_of_threads(seed: int, compiled: bool) -> tuple[str, str]:
    """Run a process in which a thread of an answer outlives its check."""
    status = threads.still_printing()
    return "fine", f"status {status}" if status else ""


SMALLEST = "differs; as small as it gets"
# By option: the function of a seed, the plural of its cases, and the description of a failure.
KINDS = {
    "graphs": (one_program, "programs", SMALLEST),
    "codelets": (one_codelet, "codelets", SMALLEST),
    "costs": (one_cost, "programs", SMALLEST),
    "collectives": (one_collective, "collectives", "differs"),
    "layers": (one_layer, "layers", "differs"),
    "sparse": (one_sparse, "products", "differs"),
    "operations": (one_operation, "operations", "differs"),
    "pipelines": (one_pipeline, "pipelines", "differs"),
    "tests": (one_test, "tests", "fails"),
    "replicas": (one_replicated, "programs", SMALLEST),
    "threads": (one_of_threads, "processes", "ended"),
}


def run(one: One, noun: str, first: int, most: float, seconds: float, fault: str = SMALLEST) -> int:
    """Call `one` with seeds from `first` on; return the exit status.

    `fault` describes what went wrong, in the output.
    """
    found: Counter[str] = Counter()
    begin, seed, told = time.monotonic(), first, 0.0
    try:
        while seed - first < most and time.monotonic() - begin < seconds:
            ended, wrong = one(seed)
            if wrong:
                print(f"\nseed {seed} {fault}:\n\n{wrong}")
                return 1
            found[ended] += 1
            seed += 1
            if time.monotonic() - told > 1:
                told = time.monotonic()
                left = f"{seconds - told + begin:,.0f} s left" if most == inf else f"of {most:,.0f}"
                print(f"\r{seed - first:,} {noun}, {left} ", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        pass
    ends = ", ".join(f"{count:,} {name}" for name, count in found.most_common())
    pace = (seed - first) / max(time.monotonic() - begin, 1e-9)
    print(
        f"\n{seed - first:,} {noun} from seed {first}, {pace:.1f} a second: {ends}; none "
        f"{fault.partition(';')[0]}"
    )
    return 0


def limit_memory() -> None:
    """Limit this process and its children to `MEMORY`, if the system supports limits."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def lacks_package(options: argparse.Namespace) -> bool:
    """Return whether an option needs torch or onnx and it is missing; then print a next step."""
    by_torch = ("layers", "operations", "faces", "torch_samples")
    needed = "torch" if any(getattr(options, name) is not None for name in by_torch) else ""
    needed = "onnx" if options.onnx_nodes else needed
    if not needed or find_spec(needed):
        return False
    advice = "`python3 run.py doctor` prints the command that installs it"
    if needed == "onnx":
        advice = "`.venv/bin/python -m pip install onnx` installs it"
    print(
        f"fuzz: this option compares with {needed}, which is not installed; {advice}",
        file=sys.stderr,
    )
    return True


def main() -> int:
    text = (__doc__ or "").split("\n\n")[1]
    parser = argparse.ArgumentParser(prog="python3 run.py fuzz", description=text)
    parser.add_argument(
        "--minutes",
        type=float,
        default=None,
        help="how long (1, or until as many have run as are wanted)",
    )
    parser.add_argument(
        "--seed", type=int, default=None, help="of the first; the next has the next (by the clock)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--graphs", type=int, default=None, help="run so many programs")
    what.add_argument(
        "--codelets", type=int, default=None, help="run so many loops over elements instead"
    )
    what.add_argument(
        "--costs",
        type=int,
        default=None,
        help="try the laws of the model of time on so many programs instead",
    )
    what.add_argument(
        "--collectives", type=int, default=None, help="try so many collectives of gcl instead"
    )
    what.add_argument(
        "--layers", type=int, default=None, help="try so much pooling, and norms, beside torch"
    )
    what.add_argument(
        "--sparse", type=int, default=None, help="try so many sparse products, beside scipy"
    )
    what.add_argument(
        "--operations", type=int, default=None, help="try so many operations of the frontends"
    )
    what.add_argument(
        "--pipelines", type=int, default=None, help="try so many pipelines of the frontends"
    )
    what.add_argument(
        "--tests",
        type=int,
        default=None,
        help="run the suite's random tests on so many seeds instead",
    )
    what.add_argument(
        "--torch-samples",
        type=int,
        default=None,
        help="judge so many of torch's samples of each operation and dtype instead",
    )
    what.add_argument(
        "--onnx-nodes", action="store_true", help="run ONNX's own tests of its operations instead"
    )
    what.add_argument(
        "--replicas", type=int, default=None, help="run so many programs replicated instead"
    )
    what.add_argument(
        "--faces",
        type=int,
        default=None,
        help="run so many cases of random modules of torch, judged by torch",
    )
    what.add_argument(
        "--threads",
        type=int,
        default=None,
        help="let answers whose threads print on be checked in so many processes instead",
    )
    what.add_argument(
        "--arguments",
        type=int,
        default=None,
        help="make about so many calls with one argument spoiled instead",
    )
    what.add_argument(
        "--files",
        action="store_true",
        help="give damaged and hostile files to all that read one instead",
    )
    parser.add_argument(
        "--only",
        default="",
        help="with --tests, --torch-samples and --onnx-nodes: those with this in file or name; with "
        "--arguments: those of the modules with this in their name, as keras",
    )
    parser.add_argument(
        "--usual",
        action="store_true",
        help="with --torch-samples: floats and integers of the operations that models use most",
    )
    parser.add_argument(
        "--count", type=int, default=None, help="with --files: so many of each kind of file"
    )
    parser.add_argument(
        "--compiled", action="store_true", help="compile every loop too; the first time takes long"
    )
    options = parser.parse_args()
    chosen = (options.torch_samples, options.arguments, options.tests, options.onnx_nodes or None)
    if options.only and chosen == (None,) * len(chosen):
        parser.error("--only goes with --tests, --arguments, --torch-samples or --onnx-nodes")
    if options.usual and options.torch_samples is None:
        parser.error("--usual goes with --torch-samples")
    if lacks_package(options):
        return 2
    if options.onnx_nodes:
        from fuzz import onnx_nodes

        return onnx_nodes.report(options.only)
    if options.torch_samples is not None:
        from fuzz import torch_samples

        return torch_samples.report(options.torch_samples, options.only, options.usual)
    first = int(time.time()) * 1000 if options.seed is None else options.seed
    count = None if options.count is None else options.count * len(files.PARSERS)
    if options.tests is not None and not any(options.only in n for n in suite.random_tests()):
        parser.error(f"no random test has {options.only!r} in its name")
    if options.arguments is not None:
        return arguments.attack_all(options.arguments, first, options.only)
    if options.faces is not None:
        from fuzz import faces  # needs torch

        print(f"seed {first}", flush=True)
        return faces.run(first, options.faces, 60 * (options.minutes or inf))
    name = next((name for name in KINDS if getattr(options, name) is not None), "graphs")
    one, noun, fault = KINDS[name]
    if options.only:
        one = lambda seed, compiled: suite.one_test(seed, options.only)  # noqa: E731
    most = count if getattr(options, name) is None else getattr(options, name)
    if most is not None and most < 1:
        parser.error(f"--{name} got {most}: give how many are to run, 1 or more")
    if options.minutes is not None and not options.minutes > 0:
        parser.error(f"--minutes got {options.minutes:g}: give a number of minutes above 0")
    seconds = inf if options.minutes is None and most is not None else 60 * (options.minutes or 1)
    until = inf if most is None else most
    print(f"seed {first}", flush=True)
    with tempfile.TemporaryDirectory() as cache:
        if options.files:
            limit_memory()
            kit = commands.course(Path(cache) / "kit")
            return run(
                lambda seed: one_file(seed, kit), "files", first, until, seconds, "went wrong"
            )
        if options.codelets is not None:
            os.environ["IPU_TEACH_CACHE"] = cache  # no other process will use these loops
        return run(lambda seed: one(seed, options.compiled), noun, first, until, seconds, fault)


if __name__ == "__main__":
    sys.exit(main())
