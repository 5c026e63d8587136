"""Damages every reference answer in small ways and tries each with its check: none may pass that
changes what was asked.

    python3 run.py mutants [01.2 07.4 …]

prints what survives, with the reason where one is known, and ends with 1 where none is. The tests
try a little of it.
"""

from __future__ import annotations

import ast
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from copy import deepcopy
from io import StringIO
from typing import Any

OPERATORS = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.FloorDiv: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.MatMult: (ast.Mult,),
}
BOUNDS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
# operators whose operands have an order
TURNED = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.MatMult)
NAMES = {
    "max": "min",
    "RepeatWhileTrue": "RepeatWhileFalse",
    "add_in_place": "sub_in_place",
    "SUCCESS": "NOT_AVAILABLE",
}
NAMES |= {other: name for name, other in NAMES.items()}
VIEWS = ("transpose", "flatten", "T")

# What survives and may, by exercise: the line as it was damaged, and why it is not a fault of the
# check.
HARMLESS = {
    "01.1": {
        "exchange = max((-(-max(pair) // 4) for pair in zip(bytes_out, bytes_in, "
        "strict=True)))": "it takes the larger of the two, whichever comes first",
        "exchange = max((-(-max(pair) // 4) for pair in zip(bytes_in, bytes_out)))": (
            "the lists are equally long"
        ),
        "exchange = max((-(-max(pair) // 4) for pair in zip(bytes_in, bytes_out, "
        "strict=False)))": "the lists are equally long",
    },
    "01.2": {
        "load = [1] * tiles": "every tile begins with one cycle more",
        "load = [-1] * tiles": "every tile begins with one cycle less",
        "placed = [1] * len(jobs)": "all of it is written over",
        "placed = [-1] * len(jobs)": "all of it is written over",
    },
    "01.4": {
        "place(graph, first, Flip, flipped, x=readings)": "in a compute set nothing comes first",
        "place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))": "it is in its compute "
        "set, whenever it was added",
    },
    "02.1": {
        "end = min((tile + 2) * grains // tiles * grain, tensor.num_elements)": (
            "the next tile takes back what is too much"
        ),
        "end = max((tile + 1) * grains // tiles * grain, tensor.num_elements)": (
            "the next tile takes back what is too much"
        ),
        "graph.set_tile_mapping(flat[begin:end + 1], tile)": (
            "the next tile takes back what is too much"
        ),
        "for tile in range(tiles + 1):": (
            "the last one begins at the end, so that nothing is left for it"
        ),
        "if True:": "to map nothing is allowed",
        "if begin <= end:": "to map nothing is allowed",
    },
    "02.2": {
        "graph.set_tile_mapping(number, 1)": "another tile is as good",
        "graph.set_tile_mapping(total, 1)": "another tile is as good",
        "graph.set_tile_mapping(total, 0)": "the order of what is written into the graph is free",
        "graph.set_initial_value(total, 0)": "the order of what is written into the graph is free",
    },
    "02.4": {"popops.add_in_place(graph, ticks, 1, body)": "left and ticks do not need each other"},
    "02.5": {
        "graph.set_tile_mapping(target, 2)": "another tile is as good",
        "graph.set_tile_mapping(target, 0)": "another tile is as good",
        "graph.set_tile_mapping(source, 1)": "another tile is as good",
    },
    "03.2": {
        "n, tiles = (a.shape[1], graph.target.num_tiles)": "the matrix is square",
        "n, tiles = (a.shape[-1], graph.target.num_tiles)": "the matrix is square",
    },
    "03.5": {
        f"mask = poprand.bernoulli(graph, seed, {n}, x, FLOAT, keep, program)": (
            "any number will do for the call"
        )
        for n in (0, 2)
    },
    "04.1": {"if self.x[i] >= self.best:": "an equal number is as large"},
    "04.2": {
        "graph.set_tile_mapping(second, 0)": "the order of what is written into the graph is free",
        "graph.set_tile_mapping(maxima, 1)": (
            "the vertices are on their tile, and what they exchange is within the budget"
        ),
        "maxima = graph.add_variable(FLOAT, (7,), 'maxima')": "no vertex reads the seventh",
    },
    "04.3": {"graph.set_tile_mapping(vertex, i // TILES)": "any tile will do"},
    "04.4": {
        f"for row in ([0.5, {a}2.25, 0.75, 0.25, 3.5], [-7500.5, {b}9000.0, {c}3250.25, {d}4000.0]):": (
            "these rows find all faults, too"
        )
        for a, b, c, d in (
            ("", "-", "-", "-"),
            ("-", "", "-", "-"),
            ("-", "-", "", "-"),
            ("-", "-", "-", ""),
        )
    },
    "04.5": {
        f"once = {once}": "a cycle of twelve is near enough"
        for once in ("6 + 1 + 1", "4 + 1 + 1", "5 + 2 + 1", "5 + 0 + 1", "5 + 1 + 2", "5 + 1 + 0")
    },
    "05.1": {"self.out = self.b @ self.a": "a product of numbers does not mind their order"},
    "05.3": {
        "graph.set_tile_mapping(result[row], row * tiles // rows)": (
            "the order of what is written into the graph is free"
        ),
    }
    | {
        f"pieces = min(range({numbers}), key=lambda p: planned(rows, cols, p, tiles, guess, guess))": "the best of 1,024 is "
        "far from both ends"
        for numbers in (
            "1 + 1, cols + 1",
            "2, cols + 1",
            "1, cols + 1 + 1",
            "1, cols + 1 - 1",
            "1, cols - 1",
            "1, cols + 2",
            "1, cols + 0",
        )
    },
    "06.2": {
        "most = 1": "some variable is live at some place, and it is larger",
        "most = -1": "every sum is more than that",
        "for number in range(len(report.compilation.liveness_program_steps) + 1):": (
            "after the last place nothing else is live"
        ),
    },
    "05.4": {
        "for begin, end in zip(ends[1:], ends[2:]):": "what is longer is cut off in any case",
        "ends = [i * inner // 4 for i in range(6)]": "a piece beyond the end is empty",
        "ends = [i * inner // 4 for i in range(5 + 1)]": "a piece beyond the end is empty",
    },
    "06.w2": {
        "rows = compare(after, before).of('variables')": (
            "what is different has the same name either way"
        )
    },
    "06.4": {
        "comparison = compare(after, before)": "what is different has the same name either way",
        "variable, step = (comparison.of('variables')[-1], comparison.of('cycles')[0])": (
            "one variable was changed"
        ),
        "variable, step = (comparison.of('variables')[0], comparison.of('cycles')[-1])": (
            "one step takes another time"
        ),
    },
    "06.5": {
        "for first in range(0, len(disc) + 1, 256):": "a read past the end gives no rows",
        "yield from disc.read(first, 257)": "a read gives at most 256 rows",
    },
    "08.1": {
        "needed = here - {layer + 1}": "after a layer's backward nobody needs the next one's input",
    },
    "08.2": {"segments = layers / every": "k divides the number of layers"},
    "08.4": {
        f"choices = [[0, *rest] for j in counts for rest in combinations({numbers}, j)]": (
            "no choice that is added or left out has a lower peak than all others"
        )
        for numbers in (
            *("range(1 - 1, n)", "range(1, n + 1)", "range(0, n)"),
            # 3,000 random chains have the same lowest peak without layer 1, and without the last.
            *("range(1 + 1, n)", "range(2, n)", "range(1, n - 1)"),
        )
    },
    "08.5": {
        f"for every in range({numbers}):": "all spacings from the number of layers on are one"
        for numbers in ("1, layers + 1 + 1", "1, layers + 2")
    }
    | {
        "keep = range(0, layers - 1, every)": "the last layer's input is there, kept or not",
        "keep = range(0, layers, every + 1)": "to keep layer 0's alone is as good as to keep all",
        "if max(alive(steps, [1] * layers)) <= room and (best is None or recomputed <= best[0]):": (
            "of equally good ones the last is as good"
        ),
    },
    "07b.3": {"for axis in (1, 2):": "of no zeros there are none to put on tiles"},
    "07b.5": {
        f"deep, wide = ({deep}, {wide})": "groups divide the channels, so that halves do not occur"
        for deep, wide in (
            ("places * ins / groups", "outs // groups"),
            ("places * ins // groups", "outs / groups"),
        )
    },
    "07b.6": {
        f"rng, batches = (np.random.default_rng({seed}), len(images) // cnn.batch)": (
            "another order is as good"
        )
        for seed in (1, 3)
    }
    | {
        "order = rng.permutation(len(images))[:batches * cnn.batch + 1]": (
            "the batches come out even, so that the order ends there"
        )
    },
    "07b.7": {
        "mean = popops.mul(graph, 1 / n, total, program)": "a product has no order",
        "return (mean, popops.sub(graph, popops.mul(graph, 1 / n, squares, program), of_mean, program))": (
            "a product has no order"
        ),
    },
    "09.2": {
        "graph.set_tile_mapping(row, 1)": "another tile is as good",
        "popops.add_in_place(graph, row, 1, body)": "the copy into x and the count do not need each other",
    },
    "09.5": {f"n = weights[{i}].num_elements": "all are equally long" for i in (1, -1)},
    "09.6": {"written.add(target)": "the order of two sets that are kept is free"},
    "10.1": {
        "return [[t - s if -1 <= t - s < batches else -1 for s in range(stages)] for t in ticks]": (
            "-1 is what stands there anyhow"
        )
    },
    "10.w1": {
        f"return sum((max((c for c, b in zip(costs, row{strict}) if b >= 0)) for row in rows))": (
            "a row of table has as many numbers as there are stages"
        )
        for strict in ("", ", strict=False")
    },
    "10.2": {
        f"return max((sum(costs[a:b]) for a, b in zip(begins, ends{strict})))": "they are equally long"
        for strict in ("", ", strict=False")
    }
    | {
        "choices = combinations(range(1, len(costs) + 1), ipus - 1)": "an IPU without a layer is not a gain"
    },
    "10.3": {
        f"if {always}:": "a sample that nobody reads comes in while the others go out"
        for always in ("True", "row[0] >= -1")
    },
    "10.4": {
        f"now, peak = ([0] * stages, [{least}] * stages)": "a stage holds one at least"
        for least in (1, -1)
    },
    "11.1": {
        "below = np.where(half >= values, np.nextafter(half, np.float16(-np.inf)), half)": (
            "a half goes up to itself for certain"
        ),
        "up = rng.random(values.shape) <= (values - below) / (above - below)": (
            "no draw is just the chance"
        ),
    },
    "11.w2": {
        f"return -size if code {at} else size": "0x80 has gone" for at in (">= 128", "> 127")
    },
    "11.3": {
        f"code = min(range({end}), key=distance)": "0x80 is not a number, and never the nearest"
        for end in ("128 + 1", "129")
    }
    | {
        "return (abs(abs(value) - decode(code, mantissa_bits, bias)), code % 2)": "as far away",
        "return code + 128 if value <= 0 and code else code": "zero has the code 0",
    },
    "11.5": {
        "return HALF if off < error else FLOAT": "no error is just the one that is asked",
        "off = np.abs(exact - product).max() / np.abs(exact).max()": "as far away",
    },
    "12.1": {
        f"for j in range(len(self.out[{row}])):": "rows are equally long" for row in ("1", "-1")
    },
    "12.2": {
        "limit = min(counts)": "it is raised until everything fits",
        "if load + count >= limit:": "the limit is raised by one more",
    },
    "12.3": {
        f"for power in range(1, {end}):": "by then an answer has come"
        for end in ("8 + 1", "8 - 1", "9", "7")
    }
    | {
        "if sparse_cycles(size, n, block, 2 ** (-power)) <= dense:": (
            "nowhere do both take equally long"
        ),
    },
    "12.4": {
        "engine.write_tensor('nz_values', data.nz_values)": "the order of two writes is free",
    },
    "13.2": {
        f"model.fit(images[:n], labels[:n], batch, epochs, {words}shuffle=False)": "it may talk"
        for words in ("", "verbose=1, ")
    },
    "13.4": {
        "return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._1 >= 0), [x])": (
            "0 times the slope is 0"
        ),
    },
    "13.6": {"value = maker[value].inputs[-1]": "a view has one input"},
    "14.2": {
        f"choices = [(down, tiles // down) for down in range(1, tiles + {end}) if tiles % down == 0]": (
            "what is larger than tiles does not divide it"
        )
        for end in ("1 + 1", "2")
    }
    | {
        f"return min(choices, key=lambda c: (c[0] {down}) * columns + (c[1] {across}) * rows)": (
            "as much more or less for every way"
        )
        for down, across in (
            *(("+ 1", "- 1"), ("- 1", "+ 1"), ("- 2", "- 1")),
            *(("- 0", "- 1"), ("- 1", "- 2"), ("- 1", "- 0")),
        )
    },
    "14.3": {
        "one_wave.add(wave)": "before the loop comes the 0 all the same",
        "reached = popops.reduce(graph, grew, [-1], one_wave)": "the last dimension is the only one",
    },
    "14.4": {
        "for k in range(self.offsets[a], self.offsets[a + 1] - 1):": (
            "with the last of a row as b there is nothing larger in it"
        ),
        "i += in_a < in_b": "the other finger goes on, and then this one",
        "j += in_b < in_a": "the other finger goes on, and then this one",
        "i, j = (k + 0, self.offsets[b])": "b itself is not larger than b",
        "if in_a == in_b and in_a >= b:": "behind b everything is larger",
    },
    "15.3": {
        "apart = abs(self.mean_b - self.mean_a)": "apart is apart, either way",
        "pull = self.stiff * self.far / np.maximum(self.far, apart)": "the larger of the two",
    },
    "15.4": {
        "for parts in range(1, tiles + 1 + 1):": "more parts than tiles divide nothing",
        "for parts in range(1, tiles + 2):": "more parts than tiles divide nothing",
        "if True:": "blocks on fewer tiles, where they are small enough, and cut less",
        "if fits and (best is None or cut <= best[0]):": "two ways that are equally good",
    },
    "16.4": {
        "settings = {'micro_batch': 34, 'recompute': 'six checkpoints', 'byte_inputs': True}": (
            "34 images take less than 25 minutes, too"
        ),
    },
    "07.1": {
        "powers = np.exp(scores + scores.max(axis=1, keepdims=True))": (
            "softmax does not mind what is added to a row"
        ),
        "powers = np.exp(scores - scores.min(axis=1, keepdims=True))": (
            "softmax does not mind what is added to a row"
        ),
        "powers = np.exp(scores - scores.max(keepdims=True))": (
            "softmax does not mind what is added to a row"
        ),
    },
    "07.2": {
        "fetch = Sequence(Copy(digits, labels), Copy(pixels, images))": (
            "images and labels do not need each other"
        )
    },
}


def _plus(node: ast.expr, amount: int) -> ast.expr:
    operator: ast.operator = ast.Add() if amount > 0 else ast.Sub()
    return ast.BinOp(node, operator, ast.Constant(abs(amount)))


def _does_something(node: ast.AST) -> bool:
    """Whether it is a call, a += or an assignment to an element: a statement without which the rest
    still runs."""
    call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return (
        call
        or isinstance(node, ast.AugAssign)
        or isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Subscript)
    )


def _with(node: Any, **fields: Any) -> Any:
    made = deepcopy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """(kind, what may stand in place of the node) for every damage that concerns it alone."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield "constant", ast.Constant(node.value + 1)
        yield "bound", ast.Constant(node.value - 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node, ast.BinOp):
        for other in OPERATORS.get(type(node.op), ()):
            yield "operator", _with(node, op=other())
        if isinstance(node.op, TURNED):
            yield "order", _with(node, left=node.right, right=node.left)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield "operator", node.operand
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in BOUNDS:
        yield "bound", _with(node, ops=[BOUNDS[type(node.ops[0])]()])
    elif isinstance(node, ast.Slice):
        for name in ("lower", "upper"):
            if end := getattr(node, name):
                yield "bound", _with(node, **{name: _plus(end, 1)})
                yield "bound", _with(node, **{name: _plus(end, -1)})
    elif isinstance(node, ast.IfExp):
        yield "left out", node.body
        yield "left out", node.orelse
    elif isinstance(node, ast.If):
        yield "left out", _with(node, test=ast.Constant(True))
        yield "left out", _with(node, test=ast.Constant(False))
    elif _does_something(node):
        yield "left out", ast.Pass()
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield "operator", ast.Name(NAMES[node.id], node.ctx)
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield "operator", _with(node, attr=NAMES[node.attr])
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield "left out", node.value
    if isinstance(node, ast.Call):
        yield from _changed_call(node)
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        for i in range(len(block) - 1 if isinstance(block, list) else 0):
            if all(
                isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) for s in block[i : i + 2]
            ):
                yield (
                    "programs swapped",
                    _with(node, **{name: [*block[:i], block[i + 1], block[i], *block[i + 2 :]]}),
                )


def _changed_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if called in VIEWS and not node.args and isinstance(node.func, ast.Attribute):
        yield "left out", node.func.value
    if called not in ("max", "min"):  # which do not mind
        for i in range(len(node.args) - 1):
            args = [*node.args[:i], node.args[i + 1], node.args[i], *node.args[i + 2 :]]
            yield "programs swapped" if called == "Sequence" else "order", _with(node, args=args)
    if called in ("Sequence", "max", "min"):
        for i in range(len(node.args) if len(node.args) > 1 else 0):
            yield "left out", _with(node, args=node.args[:i] + node.args[i + 1 :])
    if called in ("range", "Repeat"):
        for i, argument in enumerate(node.args[: 1 if called == "Repeat" else None]):
            for amount in (1, -1):
                yield (
                    "bound",
                    _with(
                        node, args=[*node.args[:i], _plus(argument, amount), *node.args[i + 1 :]]
                    ),
                )
    for i in range(len(node.keywords)):
        yield "left out", _with(node, keywords=node.keywords[:i] + node.keywords[i + 1 :])


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else self.generic_visit(node)


def damaged(source: str) -> Iterator[tuple[str, str, str]]:
    """(kind, the line that was changed, the whole cell) for every single damage."""
    whole = ast.unparse(ast.parse(source)).splitlines()
    for place in range(len(list(ast.walk(ast.parse(source))))):
        for which in range(len(list(changes(list(ast.walk(ast.parse(source)))[place])))):
            tree = ast.parse(source)
            node = list(ast.walk(tree))[place]
            kind, other = list(changes(node))[which]
            code = ast.unparse(
                ast.fix_missing_locations(_Replace(node, deepcopy(other)).visit(tree))
            )
            changed = [
                line
                for line, before in zip(code.splitlines(), whole, strict=False)
                if line != before
            ]
            if changed or code.splitlines() != whole:
                yield kind, changed[0].strip() if changed else "", code


def survivors(
    exercise: str, names: dict[str, Any], most: int | None = None
) -> tuple[Counter[str], dict[str, str]]:
    """(how many were tried of each kind, the kind of each that passed by its line): of all damage, or
    of no more than so many, spread over the answer."""
    from answers import run_cell

    from ipu_course import check
    from ipu_course.checking.gaps import reference

    tried: Counter[str] = Counter()
    passed = {}
    damage = list(damaged(reference(exercise).cell))
    for kind, line, code in damage[:: -(-len(damage) // (most or len(damage))) if damage else 1]:
        tried[kind] += 1
        # a cell that does not run is nobody's answer; a script is shown its verdict
        with suppress(Exception), redirect_stdout(StringIO()):
            answers = run_cell(code, dict(names), exercise)
            if check(exercise, *answers):
                passed[line] = kind
    return tried, passed


def main(words: list[str]) -> int:
    """The command."""
    if words in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    from answers import EXERCISES, definitions

    from ipu_course.checking.naming import lesson_of

    known = [exercise.name for exercise in EXERCISES]
    if unknown := [word for word in words if word not in known]:
        print(f"mutants: no exercise is called {', '.join(unknown)}. There are: {' '.join(known)}")
        return 2
    tried, faults = Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["IPU_TEACH_WORK"] = folder
        for name in [
            exercise.name for exercise in EXERCISES if not words or exercise.name in words
        ]:
            counts, passed = survivors(name, definitions(lesson_of(name)))
            tried += counts
            print(f"{name}: {counts.total()} tried, {len(passed)} survive", flush=True)
            for line, kind in passed.items():
                reason = HARMLESS.get(name, {}).get(line, "")
                faults += not reason
                print(f"    {kind}: {line}\n        {reason or 'NO REASON IS KNOWN'}", flush=True)
            for line in set(HARMLESS.get(name, {})) - set(passed):
                print(f"    {line}\n        has a reason, and does not survive here", flush=True)
    print(", ".join(f"{number} of {kind}" for kind, number in tried.items()))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
