"""Functions: Python's and numpy's of numbers, new arrays, and the learner's own, which stand in place of their calls."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from textwrap import dedent
from types import FunctionType
from typing import Any

import numpy as np

from ipu_teach.compile.scalar.arithmetic import BINARY
from ipu_teach.compile.scalar.arrays import Arrays
from ipu_teach.compile.scalar.values import (
    FLOATS,
    INTS,
    SAMPLES,
    SLOT,
    ZERO,
    Arr,
    Const,
    Num,
    Refused,
    Scope,
    Vec,
    dtype_of,
    is_number,
    kind_of,
)
from ipu_teach.compile.scalar.variables import held_dtype
from ipu_teach.compile.trace import ROUNDED
from ipu_teach.graph.vertex import Vertex

# Functions whose result IEEE fixes to the bit, and how the compiled text says them.
EXACT: dict[Any, str] = {
    abs: "abs", np.sqrt: "np.sqrt", np.fabs: "abs", np.absolute: "abs", np.floor: "np.floor", np.ceil: "np.ceil",
    np.trunc: "np.trunc", np.rint: "np.rint", np.negative: "-", np.positive: "", np.square: "square",
}  # fmt: skip
BY_OPERATOR: dict[Any, type] = {
    np.add: ast.Add, np.subtract: ast.Sub, np.multiply: ast.Mult, np.divide: ast.Div, np.less: ast.Lt, np.greater: ast.Gt,
    np.left_shift: ast.LShift, np.right_shift: ast.RShift, np.bitwise_and: ast.BitAnd, np.bitwise_or: ast.BitOr,
    np.bitwise_xor: ast.BitXor, np.floor_divide: ast.FloorDiv, np.remainder: ast.Mod, np.less_equal: ast.LtE,
    np.greater_equal: ast.GtE, np.equal: ast.Eq, np.not_equal: ast.NotEq,
}  # fmt: skip
# What numpy computes in its own way: its own loop is called.
BY_LOOP = frozenset((
    np.exp, np.log, np.sin, np.cos, np.tan, np.tanh, np.exp2, np.log2, np.log10, np.log1p, np.expm1, np.sinh, np.cosh,
    np.arcsin, np.arccos, np.reciprocal, np.cbrt, np.arctan,
))  # fmt: skip
UNSTEADY = frozenset((np.cbrt, np.arctan))  # whose half has another path for a number by itself
MATH = frozenset((math.sqrt, math.exp, math.log, math.sin, math.cos, math.tan, math.tanh, math.atan, math.atan2, math.fabs,
                  math.log1p, math.expm1, math.sinh, math.cosh, math.asin, math.acos, math.log2, math.log10))  # fmt: skip
NUMPYS = {"atan": "arctan", "atan2": "arctan2", "fabs": "absolute", "asin": "arcsin", "acos": "arccos"}
NUMBERS = frozenset(type(sample) for sample in SAMPLES.values())
REDUCERS = {id(np.any): "logical_or", id(np.all): "logical_and", id(np.max): "maximum", id(np.min): "minimum",
            id(np.prod): "multiply"}  # fmt: skip
# Of Python's functions those of which the compiled text has no exact one.
OTHER_MATH = frozenset((
    math.floor, math.ceil, math.acosh, math.asinh, math.atanh, math.copysign, math.erf, math.erfc, math.fmod, math.gamma,
    math.hypot, math.lgamma, math.pow,
))  # fmt: skip
MAKERS = (np.zeros, np.ones, np.empty)
MOST_CALLS = 8  # functions within functions


class Calls(Arrays):
    """What a call comes to."""

    def value(self, node: ast.expr) -> Any:
        """What an expression is."""
        raise NotImplementedError

    def operands(self, nodes: list[ast.expr], read: Callable[[ast.expr], Any]) -> list[Any]:
        """Values from left to right."""
        raise NotImplementedError

    def single(self, value: Any, node: ast.expr) -> Num:
        """`value`, which must be a number."""
        raise NotImplementedError

    def over_all(self, f: Any, node: ast.Call) -> Num:
        """Python's sum, any, all, max or min of many."""
        raise NotImplementedError

    def block(self, body: list[ast.stmt]) -> None:
        """Walk some statements."""
        raise NotImplementedError

    def v_Call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        if not isinstance(function, Const):
            self.refuse(node, f"{ast.unparse(node.func)}()")
        f = function.value
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            self.refuse(node, "a call with *")
        if isinstance(f, tuple) and f[0] == "sum" and not node.args and not node.keywords:
            return self.total(f[1], node)
        if f is np.sum and len(node.args) == 1 and not node.keywords:
            return self.total(self.value(node.args[0]), node)
        if isinstance(f, FunctionType):
            return self._inline(f, node)
        if any(f is maker for maker in MAKERS):
            return self._new_array(f, node)
        if node.keywords:
            self.refuse(node, "a named argument")
        if f is len and len(node.args) == 1:
            return self._len(node)
        if (f is max or f is min) and len(node.args) > 1:
            return self._best(f, node)
        if any(f is g for g in (sum, any, all, max, min)) and len(node.args) == 1:
            return self.over_all(f, node)
        if callable(f) and id(f) in REDUCERS and len(node.args) == 1:
            return self.reduced(f, self.value(node.args[0]), REDUCERS[id(f)], node)
        if f is np.dot and len(node.args) == 2:
            return self.product(self.value(node.args[0]), self.value(node.args[1]), node)
        return self._of_numbers(f, node)

    def _of_numbers(self, f: Any, node: ast.Call) -> Any:
        way: Callable[[Any, list[Num], ast.AST], Num] | None = None
        count, kind = 1, f if isinstance(f, type) else None
        if f is abs or (isinstance(f, np.ufunc) and f in EXACT):
            way = self._exact
        elif isinstance(f, np.ufunc) and f in BY_OPERATOR:
            way, count = self._by_operator, 2
        elif f is np.maximum or f is np.minimum:
            way, count = self._extreme, 2
        elif isinstance(f, np.ufunc) and f in BY_LOOP:
            way = self._by_loop
        elif kind in (int, float, bool) or (kind is not None and issubclass(kind, np.generic) and kind in NUMBERS):
            way = self._cast
        elif inspect.isbuiltin(f) and f in MATH:
            way, count = self._math, 2 if f is math.atan2 else 1
        elif inspect.isbuiltin(f) and f in OTHER_MATH:
            way, count = self._other_math, len(node.args)
        if way is None or len(node.args) != count:
            self.refuse(node, f"{ast.unparse(node.func)}()")
        args = self.operands(node.args, self.value)
        if isinstance(f, np.ufunc) and any(isinstance(a, (Arr, Vec)) for a in args):
            return self._on_regions(f, args, node)
        return way(f, [self.single(a, n) for a, n in zip(args, node.args, strict=True)], node)

    def _on_regions(self, f: Any, args: list[Any], node: ast.AST) -> Vec:
        """One of numpy's functions on whole regions; those whose bits depend on how elements lie are refused."""
        if f not in ROUNDED:
            self.refuse(node, f"np.{f.__name__}() of a whole array", "a loop over its elements")
        args = [self.constant(a.value) if isinstance(a, Const) and is_number(a.value) else a for a in args]
        py = f"np.{f.__name__}({', '.join(getattr(a, 'py', '') for a in args)})"
        return self.mapped(f, args, None, f.__name__, py, node)

    def _len(self, node: ast.Call) -> Num:
        array = self.value(node.args[0])
        if isinstance(array, Arr):
            return self.length(array, 0, node)
        if isinstance(array, Const) and isinstance(array.value, (list, tuple)):
            return self.constant(len(array.value))
        self.refuse(node, "len()")

    def _exact(self, f: Any, args: list[Num], node: ast.AST) -> Num:
        (a,) = args

        def make(ts: list[str], xs: list[str]) -> tuple[str, str]:
            r = kind_of(f(SAMPLES[ts[0]]))
            if r not in SAMPLES or (r in INTS and EXACT[f] == "np.sqrt"):
                self.refuse(node, f"{text_of(f)} of {ts[0]}")
            x, g = self.convert(xs[0], ts[0], r, node), EXACT[f]
            if g == "square":
                return r, self.wrapped(f"({x} * {x})", r)
            if r in INTS:
                if g == "np.rint":
                    self.refuse(node, f"{text_of(f)} of whole numbers")
                g = "" if g.startswith("np.") else g
                if r in ("wi", "u8", "i8"):
                    return r, x if r[0] == "u" and g == "abs" else f"{g}({x})"
            return r, self.wrapped(f"{g}({x})", r)

        slots, tag = self.dispatch([a], make)
        self.priced("absolute" if f is abs else f.__name__, slots, a.data)
        return Num(slots, f"{text_of(f)}({a.py})", tag, a.data, bound=a.bound if f is abs else None)

    def _by_operator(self, f: Any, args: list[Num], node: ast.AST) -> Num:
        """np.add and its kin, which make numpy's numbers of Python's."""
        sign, data = BINARY[BY_OPERATOR[f]][0], any(a.data for a in args)
        slots, tag = self.dispatch(args, self.arith(sign, f, node, [None, None], [None, None]))
        self.priced(f.__name__, slots, data)
        return Num(slots, f"{text_of(f)}({', '.join(a.py for a in args)})", tag, data)

    def _extreme(self, f: Any, args: list[Num], node: ast.AST) -> Num:
        def make(ts: list[str], xs: list[str]) -> tuple[str, str]:
            r = kind_of(f(*(SAMPLES[t] for t in ts)))
            a, b = (self.convert(x, t, r, node) for x, t in zip(xs, ts, strict=True))
            return r, f"{'np_max' if f is np.maximum else 'np_min'}({a}, {b})"

        slots, tag = self.dispatch(args, make)
        data = any(a.data for a in args)
        self.priced(f.__name__, slots, data)
        return Num(slots, f"{text_of(f)}({', '.join(a.py for a in args)})", tag, data)

    def _by_loop(self, f: Any, args: list[Num], node: ast.AST) -> Num:
        (a,) = args

        def make(ts: list[str], xs: list[str]) -> tuple[str, str]:
            r = kind_of(f(SAMPLES[ts[0]]))
            if r not in FLOATS or (r == "f2" and f in UNSTEADY):
                self.refuse(node, f"np.{f.__name__} of {ts[0]}")
            letter = dtype_of(r).char
            k, x = self.loop_number(f, f"{letter}->{letter}"), self.convert(xs[0], ts[0], r, node)
            call = f"call_loop(loops[{2 * k}], loops[{2 * k + 1}], {f'half_bits({x})' if r == 'f2' else x})"
            return r, f"half_value({call})" if r == "f2" else call

        slots, tag = self.dispatch([a], make)
        self.priced(f.__name__, slots, a.data)
        return Num(slots, f"np.{f.__name__}({a.py})", tag, a.data)

    def _cast(self, f: Any, args: list[Num], node: ast.AST) -> Num:
        (a,) = args
        if f is not bool:
            self.spend(data=a.data)
        to = kind_of(f(0))
        slots, tag = self.dispatch([a], lambda ts, xs: (to, self.put(xs[0], ts[0], to, node)))
        name = f.__name__ if f in (int, float, bool) else f"np.{np.dtype(f).name.replace('bool', 'bool_')}"
        return Num(slots, f"{name}({a.py})", tag, a.data, bound=a.bound if f is int else None)

    def _math(self, f: Any, args: list[Num], node: ast.AST) -> Num:
        def make(ts: list[str], xs: list[str]) -> tuple[str, str]:
            xs = [self.put(x, t, "wf", node) for x, t in zip(xs, ts, strict=True)]
            text = f"np.sqrt({xs[0]})" if f is math.sqrt else f"math.{f.__name__}({', '.join(xs)})"
            if f in (math.log, math.log2, math.log10):
                text = f"{text} if {xs[0]} > 0.0 else np.nan"
            elif f in (math.asin, math.acos):
                text = f"{text} if abs({xs[0]}) <= 1.0 else np.nan"
            elif f is math.log1p:
                text = f"{text} if {xs[0]} > -1.0 else np.nan"
            name = self.named(text)
            self.bail(f"not ({name} - {name} == 0.0)", node)  # errors, and what is infinite, are Python's to say
            return "wf", name

        data = any(a.data for a in args)
        slots, tag = self.dispatch(args, make)
        self.spend(NUMPYS.get(f.__name__, f.__name__), "float32", data=data)
        return Num(slots, f"math.{f.__name__}({', '.join(a.py for a in args)})", tag, data)

    def _other_math(self, f: Any, args: list[Num], node: ast.AST) -> Num:
        self.by_python(node, f"math.{f.__name__}()")
        data, t = any(a.data for a in args), "wi" if f in (math.floor, math.ceil) else "wf"
        self.spend(NUMPYS.get(f.__name__, f.__name__), "float32", data=data)
        return Num({t: ZERO[SLOT[t]]}, f"math.{f.__name__}({', '.join(a.py for a in args)})", data=data)

    def _best(self, f: Any, node: ast.Call) -> Num:
        """The builtin max or min: the first, unless a later one is strictly better."""
        best = self.fixed(self.num(node.args[0]))
        for arg in node.args[1:]:
            best = self.better(f, best, self.fixed(self.num(arg)), node)
        return best

    def better(self, f: Any, best: Num, item: Num, node: ast.AST) -> Num:
        """`item` where it is strictly better than `best`, which is the builtin `f` of what came before."""
        wins = self.binary(ast.Gt if f is max else ast.Lt, item, best, node)
        x, var, data = self.truth(wins), "." + self.new("l"), item.data or best.data
        self.emit(f"if {x}:", f"if {wins.py}:")
        before, ends = dict(self.state), []
        for value in (item, best):
            self.state = dict(before)
            self.depth += 1
            self.assign(var, replace(value, data=data), node)
            self.depth -= 1
            ends.append(self.state)
            if value is item:
                self.both("else:")
        self.state = self.joined(*ends)
        found: Num = replace(self.state.pop(var))
        self.priced("where", found.alts, data)
        self.spend(data=data)  # the trace reads the one element that np.where gives it
        return found

    def _new_array(self, f: Any, node: ast.Call) -> Arr:
        given = {k.arg: k.value for k in node.keywords}
        kind = given.pop("dtype", node.args[1] if len(node.args) > 1 else None)
        if given or not 1 <= len(node.args) <= 2:
            self.refuse(node, f"this np.{f.__name__}")
        known = self.value(kind) if kind is not None else Const(float)
        try:
            dtype = np.dtype(known.value)
        except (AttributeError, TypeError):
            self.refuse(node, "this type of an array")
        t, size = dtype.str[1:], self.num(node.args[0])
        if t not in SAMPLES or list(size.alts) != ["wi"]:
            self.refuse(node, "this size or type of an array")
        n, name = self.new("n"), self.new("a")
        self.emit(f"{n} = {size.only[1]}")
        self.bail(f"{n} < 0", node)
        made = f"np.zeros({n}, {held_dtype(t)})" if f is np.empty else f"np.{f.__name__}({n}, {held_dtype(t)})"
        py = f"np.{f.__name__}({size.py}, np.{dtype.name.replace('bool', 'bool_')})"
        self.emit(f"{name} = {made}", f"{name} = {py}")
        return Arr(name, t, ((n, "1"),), "0", name, local=True)

    # The learner's own functions

    def _inline(self, f: FunctionType, node: ast.Call) -> Any:
        """The body of a method or function, in place of its call: a loop of one turn, so that `return` is a `break`."""
        if len(self.scopes) > MOST_CALLS or any(scope.function is f for scope in self.scopes):
            self.refuse(node, f"{f.__name__}() calls itself", "a loop")
        if f not in self.trees:
            self.trees[f] = tree_of(f)
        tree, given = self.trees[f], self._arguments(f, node)
        me = tree.args.args[0].arg if self._takes_self(node) else ""
        scope = scope_of(f, me, self.codelet, self.new("h") + "_")
        for name, arg in given.items():
            self.scopes.append(scope)
            self.bind(name, arg, node)
            self.scopes.pop()
        self.scopes.append(scope)
        once = self.new("k")
        self.emit(f"for {once} in range(1):", f"for {once} in (0,):")
        self.depth += 1
        scope.returns = "." + once
        live, self.live = self.live, True
        self.block(tree.body)
        if self.live:
            scope.exits.append(self.state)
            if any(scope.returns in state for state in scope.exits):
                self.refuse(node, f"{f.__name__}() may end without a value")
        self.flush()
        self.both("pass")
        self.depth -= 1
        self.live = live and bool(scope.exits)
        self.state = self.joined(*scope.exits)
        self.scopes.pop()
        found = self.state.pop(scope.returns, None)
        self.state = {n: v for n, v in self.state.items() if not n.startswith(scope.prefix)}
        return Const(None) if found is None else found

    def _takes_self(self, node: ast.Call) -> bool:
        """True for self.method()."""
        f = node.func
        if not (isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id == self.scope.me):
            return False
        return not isinstance(inspect.getattr_static(self.codelet, f.attr), staticmethod)

    def _arguments(self, f: FunctionType, node: ast.Call) -> dict[str, Any]:
        """The values of the function's arguments by name, defaults included."""
        signature, first = inspect.signature(f), [None] if self._takes_self(node) else []
        try:
            bound = signature.bind(*first, *node.args, **{str(k.arg): k.value for k in node.keywords})
        except TypeError as error:
            self.refuse(node, str(error))
        found: dict[str, Any] = {}
        for name, parameter in list(signature.parameters.items())[len(first) :]:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                self.refuse(node, f"{f.__name__}() takes any number of arguments")
            if name in bound.arguments:
                value = self.value(bound.arguments[name])
                found[name] = self.fixed(value) if isinstance(value, Num) else value
            else:
                found[name] = Const(parameter.default)
        return found


def text_of(f: Any) -> str:
    """A function as CPython's text calls it."""
    return "abs" if f is abs else f"np.{f.__name__}"


def tree_of(f: FunctionType) -> ast.FunctionDef:
    """The text of a function as a tree, its lines counted as in the file. Raises `Refused`."""
    try:
        tree = ast.parse(dedent(inspect.getsource(f))).body[0]
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, or made by exec
        raise Refused(f"the text of {f.__qualname__} is not to be had") from None
    if not isinstance(tree, ast.FunctionDef) or tree.decorator_list not in ([], None) and not _static(tree):
        raise Refused(f"{f.__qualname__} is no plain function")
    ast.increment_lineno(tree, f.__code__.co_firstlineno - 1)
    return tree


def _static(tree: ast.FunctionDef) -> bool:
    return [ast.unparse(d) for d in tree.decorator_list] == ["staticmethod"]


def scope_of(f: FunctionType, me: str, codelet: type[Vertex], prefix: str) -> Scope:
    """The names of a function: its own, and those it finds outside."""
    names = outside(f)
    if me:
        names[me] = codelet
    return Scope(f, me, names, frozenset(f.__code__.co_varnames) - {me}, prefix)


def outside(f: FunctionType) -> dict[str, Any]:
    """What names mean to a function that are not its own, now."""
    names = {**vars(builtins), **f.__globals__}
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            names.pop(name, None)
    return names
