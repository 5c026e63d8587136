"""List comprehensions, and Python's reductions over iterables, as loops."""

from __future__ import annotations

import ast
import sys
from copy import deepcopy

from ipu_teach.arguments import Function
from ipu_teach.compile.scalar.calls import stored_names
from ipu_teach.compile.scalar.expressions import place_of
from ipu_teach.compile.scalar.loops import Loops, numbered
from ipu_teach.compile.scalar.statements import Substitution, mark_generated
from ipu_teach.compile.scalar.values import (
    Arr,
    Num,
)

# Since Python 3.12, sum() of floats compensates for rounding errors.
COMPENSATED = sys.version_info >= (3, 12)


class Comprehensions(Loops):
    """Comprehensions and reductions such as sum(). Each is rewritten as statements with a loop."""

    def v_ListComp(self, node: ast.ListComp) -> Arr:
        (part,) = node.generators[:1]
        elt = node.elt
        prefix = self.new("g_")
        self.refuse_if(
            len(node.generators) > 1 or part.ifs,
            node,
            "a list that grows",
            "np.zeros(n), and a counter,",
        )
        is_filled = (
            isinstance(elt, ast.BinOp)
            and isinstance(elt.op, ast.Mult)
            and isinstance(elt.left, ast.List)
        )
        if (
            is_filled
            and isinstance(part.iter, ast.Call)
            and ast.unparse(part.iter.func) == "range"
            and len(part.iter.args) == 1
        ):
            return self.filled(elt, part.iter.args[0])  # type: ignore[arg-type]
        seq = self._sequence(part.iter)
        array = self.listed(
            [Num({"wi": self.named(seq.count)}, seq.size)], f"[0] * ({seq.size})", node
        )
        names, _ = _renamed_parts(node, prefix, "KL")
        (loop,) = self.generated("for K, T in I:\n    L[K] = E", names, node).body
        self.bind(prefix + "L", array, node)
        self.for_loop(numbered(seq, "0"), loop)  # type: ignore[arg-type]
        result: Arr = self.state[self.scope.prefix + prefix + "L"]
        return result

    def generated(self, text: str, names: dict[str, ast.expr], node: ast.AST) -> ast.Module:
        """Return the statements in `text`, with each name in `names` replaced by its expression.

        The variables that these statements assign become local variables of the function that is
        being translated.
        """
        substitution = Substitution(names)
        module = ast.Module(
            [substitution.visit(statement) for statement in ast.parse(text).body], []
        )
        mark_generated(module, node)
        self.scope.local |= stored_names(module)
        self.scope.local |= {
            expression.id
            for name, expression in names.items()
            if name == "L" and isinstance(expression, ast.Name)
        }
        return module

    def reduction_loop(self, function: Function, node: ast.Call, named: dict[str, ast.expr]) -> Num:
        """Return the result of sum, any, all, max or min of an iterable, computed by a loop.

        `named` contains the keyword arguments of the call.
        """
        generator = node.args[0]
        prefix = self.new("g_")
        if isinstance(generator, ast.ListComp) and function in (any, all):
            self.refuse(node, f"{function.__name__}() of a list", "a generator")
        if not isinstance(generator, (ast.GeneratorExp, ast.ListComp)):
            element_name = ast.Name("T", ast.Load())
            generator = ast.GeneratorExp(
                element_name, [ast.comprehension(element_name, generator, [], 0)]
            )
        allowed: set[str] = set()
        if function is sum:
            allowed = {"start"}
        elif function in (max, min):
            allowed = {"default", "key"}
        if len(generator.generators) > 1 or named.keys() - allowed:
            self.refuse(node, f"{function.__name__}() of this", "a loop")
        names, conditions = _renamed_parts(generator, prefix, "ABFKX")
        names |= {"M": node.func, "D": named.get("default", ast.Constant(0))}
        names["S"] = [*node.args[1:], named.get("start", ast.Constant(0))][0]
        names["G"] = (
            ast.Call(named["key"], [ast.Name(prefix + "X", ast.Load())], [])
            if "key" in named
            else ast.Constant(0)
        )
        module = self.generated(
            _LOOPS[function] if "key" not in named else _BY_KEY.format("><"[function is min]),
            names,
            node,
        )
        loop = module.body[-1]
        assert isinstance(loop, ast.For)
        self.known.add(prefix + "F")
        call_place = place_of(node)
        total_name = f"{self.scope.prefix}{prefix}A"
        if call_place in self.summed:
            module.body.insert(1, _Line(f"{prefix}l = [{total_name}]"))
            collected = _Line(f"{prefix}l.append({self.scope.prefix}{prefix}X)")
            loop.body = [
                *self.generated("X = E", names, node).body,
                collected,
                *self.generated("A = A + X", names, node).body,
            ]
        for condition in reversed(conditions):
            loop.body = [ast.If(condition, loop.body, [])]
        if "default" in named:
            module.body += self.generated("if F:\n    A = D", names, node).body
        mark_generated(module, node)
        self.block(module.body)
        result = self.num(ast.copy_location(ast.Name(prefix + "A", ast.Load()), node))
        if function is sum and "wf" in result.alts and COMPENSATED:
            self.summed.add(call_place)
            self.require_python(node)
            self.emit(None, f"{total_name} = sum({prefix}l)")
        return result

    def s__Line(self, node: _Line) -> None:
        self.emit(None, node.text)


_BEST = """
F = True
for T in I:
    if F:
        A = E
        F = False
    else:
        A = M(A, E)
"""
# Python's reductions, written as loops. In these loops, M is the function, S and D are the
# arguments `start` and `default`, and G is the key. `_renamed_parts` explains the other letters.
_LOOPS = {
    sum: "A = S\nfor T in I:\n    A = A + E",
    any: "A = False\nfor T in I:\n    if E:\n        A = True\n        break",
    all: "A = True\nfor T in I:\n    if not E:\n        A = False\n        break",
    max: _BEST,
    min: _BEST,
}
_BY_KEY = """
F = True
for T in I:
    X = E
    K = G
    if F:
        A = X
        B = K
        F = False
    elif K {} B:
        A = X
        B = K
"""


def _renamed_parts(
    generator: ast.GeneratorExp | ast.ListComp, prefix: str, letters: str
) -> tuple[dict[str, ast.expr], list[ast.expr]]:
    """Return (names, conditions) of a comprehension or generator.

    `names` maps the letters in a string such as "for T in I: A = A + E" to expressions: T to the
    variables of the comprehension, E to its element, I to its iterable, and each of `letters` to a
    new variable. The names of all these variables begin with `prefix`. `conditions` are the
    expressions after `if`.
    """
    (clause,) = generator.generators
    rename = Substitution(
        {
            node.id: ast.Name(f"{prefix}_{node.id}", ast.Load())
            for node in ast.walk(clause.target)
            if isinstance(node, ast.Name)
        }
    )
    target, element, *conditions = (
        rename.visit(deepcopy(part_of_clause))
        for part_of_clause in (clause.target, generator.elt, *clause.ifs)
    )
    return {
        "T": target,
        "E": element,
        "I": clause.iter,
        **{letter: ast.Name(prefix + letter, ast.Load()) for letter in letters},
    }, conditions


class _Line(ast.stmt):
    """A line that is added only to the Python code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
