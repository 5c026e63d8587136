"""Calls of functions: of numbers, of functions that create arrays, and of the learner's own."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Hashable
from dataclasses import replace
from itertools import product
from textwrap import dedent
from types import FunctionType
from typing import Any

import numpy as np

from ipu_teach.arguments import Function
from ipu_teach.compile.purity import enclosed
from ipu_teach.compile.scalar.functions import Functions
from ipu_teach.compile.scalar.kinds import (
    INTS,
    SAMPLES,
    dtype_of,
    held_dtype,
    numpys,
)
from ipu_teach.compile.scalar.regions import nested_text
from ipu_teach.compile.scalar.values import (
    INSTEAD,
    Arr,
    Inner,
    Known,
    Num,
    Refused,
    Scope,
    StaticValue,
    Value,
    Vec,
)
from ipu_teach.compile.trace import DENSE, ELEMENTWISE, REDUCTIONS, STATIC_SHAPE
from ipu_teach.graph.vertex import Vertex

LIKE = (np.zeros_like, np.ones_like, np.empty_like)
MAKERS = (np.zeros, np.ones, np.empty, np.full, *LIKE)
# The Python code calls these functions of arrays unchanged.
BY_NUMPY = (
    STATIC_SHAPE
    | ELEMENTWISE
    | {*DENSE, np.arange, np.linspace, np.power, np.arctan2, np.hypot, np.astype}
)
MOST_CALLS = 8  # The maximum nesting of calls of the learner's functions.


class Calls(Functions):
    """Translates calls to their results.

    A call of the learner's own function is replaced by the function's body.
    """

    def v_Call(self, node: ast.Call) -> Value:
        function = self.value(node.func)
        if isinstance(function, Inner):
            return self._inline(function, node)
        f = function.value if isinstance(function, StaticValue) else None
        named = {str(k.arg): k.value for k in node.keywords}
        self.refuse_if(
            any(isinstance(a, ast.Starred) for a in node.args) or "None" in named,
            node,
            "a call with *",
        )
        bound: list[Value] = []
        # For a call of an array's method, `f` is (function, array).
        if isinstance(f, tuple):
            bound = [f[1]]
            f = f[0]
        if not isinstance(f, Hashable) or not callable(f):
            self.refuse(node, f"{ast.unparse(node.func)}()")
        if isinstance(f, FunctionType) and f.__module__.partition(".")[0] != "numpy":
            return self._inline(f, node)
        result = self._array_call(f, node, bound, named)
        if result is None:
            result = self._builtin_call(f, node, named)
        return self._number_call(f, node, bound, named) if result is None else result

    def _array_call(
        self,
        function: Function,
        node: ast.Call,
        bound_arrays: list[Value],
        named: dict[str, ast.expr],
    ) -> Value | None:
        """Return the result of a function that makes, reshapes or reduces an array.

        The result is None for any other function. `bound_arrays` contains the array x of a call
        `x.method()`, and is empty otherwise.
        """
        if function in MAKERS:
            return self._new_array(function, node, named)
        if (
            function is np.array
            and named.keys() <= {"dtype"}
            and isinstance(node.args[0], (ast.List, ast.Tuple))
        ):
            return self._array_of(
                node.args[0], next(iter([*node.args[1:], *named.values()]), None), node
            )
        if function is np.reshape and not named:
            return self.reshaped(*bound_arrays, *self.operands(node.args, self.value), node=node)
        if function in (sum, any, all, max, min) and len(node.args) <= (
            2 if function is sum else 1
        ):
            return self.reduction_loop(function, node, named)
        if function in (np.copy, np.array) and len(bound_arrays + node.args) == 1 and not named:
            v = self.as_vec((bound_arrays or [self.value(node.args[0])])[0], node)
            return self._materialised(replace(v, py=f"{v.py}.copy()"))
        return None

    def _builtin_call(
        self, function: Function, node: ast.Call, named: dict[str, ast.expr]
    ) -> Num | None:
        """Return the result of len(), max() or min(), or of float() called with a literal.

        The result is None for any other function.
        """
        if not named and function is len and len(node.args) == 1:
            return self._len(node)
        if not named and function in (max, min):
            best: Num = self.fixed(self.num(node.args[0]))
            for arg in node.args[1:]:
                best = self._better(function, best, self.fixed(self.num(arg)), node)
            return best
        if (
            function is float
            and len(node.args) == 1
            and isinstance(node.args[0], (ast.Constant, ast.UnaryOp))
        ):
            try:
                return self.constant(float(ast.literal_eval(node.args[0])))
            except (ValueError, TypeError):
                self.refuse(node, "float() of a text")
        return None

    def _number_call(
        self,
        function: Function,
        node: ast.Call,
        bound_arrays: list[Value],
        named: dict[str, ast.expr],
    ) -> Value:
        """Return the result of a function that the other `_call` methods do not translate.

        Its arguments are numbers or whole arrays.
        """
        if named and function not in BY_NUMPY:
            self.refuse(
                node,
                f"a named argument of {ast.unparse(node.func)}()",
                INSTEAD.get(getattr(function, "__name__", ""), ""),
            )
        args = bound_arrays + self.operands(node.args, self.value)
        if function in REDUCTIONS and len(args) == 1 and not named:
            return self.reduced(function, args[0], node)
        if (
            function is np.dot
            and len(args) == 2
            and not named
            and all(isinstance(argument, (Arr, Vec)) for argument in args)
        ):
            return self.product(args[0], args[1], "np.dot({}, {})", node)
        if function in (pow, divmod) and len(args) == 2:
            base, exponent = map(self.single, args, node.args)
            return (
                self.binary(ast.Pow, base, exponent, node)
                if function is pow
                else self._divmod(base, exponent, node)
            )
        if function in BY_NUMPY and (named or not self.is_compiled(function, args)):
            return self.by_numpy(
                function,
                args,
                {keyword: self.value(node_of_value) for keyword, node_of_value in named.items()},
                node,
            )
        return self.of_numbers(function, args, node)

    def _divmod(self, a: Num, b: Num, node: ast.Call) -> list[Value]:
        """Return divmod() of two integers: [quotient, remainder]."""
        self.refuse_if(
            not (a.alts.keys() | b.alts.keys()) <= INTS, node, "divmod() of floats", "// and %"
        )
        return [self.binary(ast.FloorDiv, a, b, node), self.binary(ast.Mod, a, b, node)]

    def _len(self, node: ast.Call) -> Num:
        """Return len() of an array or of a list of constants."""
        value = self.value(node.args[0])
        if isinstance(value, Arr):
            return self.length(value, 0, node)
        items = value.value if isinstance(value, StaticValue) else value
        self.refuse_if(not isinstance(items, (list, tuple, str, np.ndarray)), node, "len()")
        return self.constant(len(items))

    def _better(self, function: Function, best: Num, item: Num, node: ast.AST) -> Num:
        """Return the larger of two numbers if `function` is max, and the smaller if it is min.

        As in Python, the result is `best` if both numbers are equal.
        """
        is_better = self.binary(ast.Gt if function is max else ast.Lt, item, best, node)
        var = "." + self.new("l")
        depends_on_data = item.data or best.data
        loaded = set(self.loaded)
        self.branch(
            is_better, lambda: self.assign(var, item, node), lambda: self.assign(var, best, node)
        )
        self.loaded |= loaded
        result: Num = self.state.pop(var)
        self.priced("where", result.alts, depends_on_data)
        # A trace also counts a read of the element that np.where returns.
        self.spend(data=depends_on_data)
        return result

    def _new_array(self, function: Function, node: ast.Call, named: dict[str, ast.expr]) -> Arr:
        """Return the new array of np.zeros, np.ones, np.empty, np.full or a `_like` function."""
        arguments = list(node.args)
        named = dict(named)
        fill = None
        size_or_array: Any = self.value(arguments.pop(0)) if arguments else None
        default: Any = float
        if (
            function in LIKE
            and isinstance(size_or_array, Arr)
            and not size_or_array.box
            and not size_or_array.rows
        ):
            default = dtype_of(size_or_array.type)
            size_or_array = [
                self.length(size_or_array, axis, node) for axis in range(len(size_or_array.dims))
            ]
        if function is np.full and arguments:
            fill = self.single(self.value(arguments.pop(0)), node)
            default = dtype_of(next(iter(fill.alts)))
        dtype_node = named.pop("dtype", arguments.pop(0) if arguments else None)
        self.refuse_if(named or arguments, node, f"this np.{function.__name__}()")
        sizes = [
            self.single(size, node)
            for size in (size_or_array if isinstance(size_or_array, list) else [size_or_array])
        ]
        type_code = self._type_of(dtype_node, StaticValue(default), node)
        if not 1 <= len(sizes) <= 2 or any(not set(size.alts) <= INTS - {"u8"} for size in sizes):
            self.refuse(node, "this size of an array")
        size_texts = [self.named(self.int64_text(size)) for size in sizes]
        self.bail(" or ".join(f"{size} < 0" for size in size_texts), node)
        num_elements = " * ".join(size_texts)
        form_name = function.__name__.removesuffix("_like")
        name = self.new("a")
        shape = f"({', '.join(size.py for size in sizes)},)"
        if fill is not None:
            fill_text = self.dispatch([fill], self.storing(type_code, node))[0][type_code]
            self.emit(
                f"{name} = np.full({num_elements}, {fill_text})",
                f"{name} = np.full({shape}, {fill.py}, {numpys(dtype_of(type_code))})",
            )
        else:
            self.emit(
                f"{name} = np.{'ones' if form_name == 'ones' else 'zeros'}"
                f"({num_elements}, {held_dtype(type_code)})"
            )
            self.emit(None, f"{name} = np.{form_name}({shape}, {numpys(dtype_of(type_code))})")
        return Arr(
            name,
            type_code,
            dims=tuple(zip(size_texts, (*size_texts[1:], "1"), strict=True)),
            off="0",
            py=name,
            local=True,
        )

    def _type_of(self, kind: ast.expr | None, default: StaticValue, node: ast.AST) -> str:
        """Return the type code of a dtype argument, or of `default` if there is no argument."""
        dtype = default if kind is None else self.value(kind)
        try:
            type_code = np.dtype(dtype.value).str[1:]
        except (AttributeError, TypeError):
            type_code = ""
        self.refuse_if(type_code not in SAMPLES, node, "this type of an array")
        return str(type_code)

    def _array_of(self, numbers: ast.List | ast.Tuple, kind: ast.expr | None, node: ast.AST) -> Arr:
        """Return the result of np.array() for computed numbers, or for lists of such numbers."""
        rows = [row.elts for row in numbers.elts if isinstance(row, (ast.List, ast.Tuple))]
        self.refuse_if(
            rows
            and {*map(len, rows)} != {len(numbers.elts[0].elts)}  # type: ignore[attr-defined]
            or len(rows) not in (0, len(numbers.elts)),
            node,
            "rows of several lengths",
        )
        values = [
            self.fixed(number) for number in self.nums(sum(rows, []) if rows else numbers.elts)
        ]
        shape = (len(rows), len(values) // len(rows)) if rows else (len(values),)
        types = {
            np.array([SAMPLES[type_code] for type_code in combination]).dtype
            for combination in product(*(number.alts for number in values))
        }
        self.refuse_if(
            kind is None and len(types) != 1,
            node,
            "an array of several types",
            "np.array([…], np.float32)",
        )
        type_code = self._type_of(kind, StaticValue(next(iter(types))), node)
        name = self.new("a")
        self.empty(name, str(len(values)), type_code)
        array = Arr(
            name, type_code, dims=((Known(len(values)), "1"),), off="0", py=name, local=True
        )
        text = nested_text([number.py for number in values], shape, "[]")
        self.store_all(array, values, f"np.array({text}, {numpys(dtype_of(type_code))})", node)
        dims = zip(map(Known, shape), (*map(str, shape[1:]), "1"), strict=True)
        return replace(array, dims=tuple(dims))

    def store_all(self, array: Arr, values: list[Num], py: str, node: ast.AST) -> None:
        """Store numbers in an array.

        The numba code stores them one by one. In the Python code, `py` is the expression that
        creates the array with all its numbers.
        """
        with self.compiled_alone():
            for k, value in enumerate(values):
                self.write(array, [self.constant(k)], value, node)
        self.emit(None, f"{array.py} = {py}")

    # Methods for calls of the learner's own functions

    def _inline(self, f: FunctionType | Inner, node: ast.Call) -> Value:
        """Return the result of a call of the learner's own method or function.

        The call is replaced by the function's body, in a loop of one iteration. So a `return`
        becomes a `break`.
        """
        function = f.tree if isinstance(f, Inner) else f
        name = ast.unparse(node.func)
        if len(self.scopes) > MOST_CALLS or any(
            scope.function is function for scope in self.scopes
        ):
            self.refuse(node, f"{name}(), which calls itself,", "a loop")
        arguments = self._arguments(f, node)
        prefix = self.new("h") + "_"
        if isinstance(f, Inner):
            tree = f.tree
            outer_scope = f.scope
            local_names = frozenset(stored_names(tree) | set(arguments))
            scope = Scope(
                tree,
                me=outer_scope.me if outer_scope.me not in local_names else "",
                names=outer_scope.names,
                local=local_names,
                prefix=prefix,
                file=outer_scope.file,
                outer=outer_scope,
            )
        else:
            if f not in self.trees:
                self.trees[f] = tree_of(f)
            tree = self.trees[f]
            scope = scope_of(
                f, tree.args.args[0].arg if self._takes_self(node) else "", self.codelet, prefix
            )
        self.scopes.append(scope)
        for parameter, arg in arguments.items():
            self.bind(parameter, arg, node)
        counter = self.new("k")
        scope.returns = "." + counter
        was_live, self.live = self.live, True
        with self.under(f"for {counter} in range(1):", f"for {counter} in (0,):", counter):
            self.block(tree.body)
            if self.live:
                if any(scope.returns in state for state in scope.exits):
                    self.assign(scope.returns, self.constant(None), node)
                scope.exits.append(self.state)
            self.flush()
        self.live = was_live and bool(scope.exits)
        self.state = self.joined(*scope.exits)
        self.scopes.pop()
        result = self.state.pop(scope.returns, None)
        self.state = {
            variable: knowledge
            for variable, knowledge in self.state.items()
            if not variable.startswith(scope.prefix)
        }
        return self.constant(None) if result is None else result

    def _takes_self(self, node: ast.Call) -> bool:
        """Return whether a call calls a method of the vertex, such as self.method()."""
        function = node.func
        if not (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id == self.scope.me
        ):
            return False
        return not isinstance(inspect.getattr_static(self.codelet, function.attr), staticmethod)

    def _arguments(self, f: FunctionType | Inner, node: ast.Call) -> dict[str, Value]:
        """Return the values of the arguments in a call of `f`, keyed by parameter name.

        Missing arguments have their default values.
        """
        try:  # The default values of a function that is defined inside compute() must be literals.
            function = (
                eval(f"lambda {ast.unparse(f.tree.args)}: 0", {}) if isinstance(f, Inner) else f
            )
        except NameError as error:
            self.refuse(node, str(error))
        signature = inspect.signature(function)
        self_argument = [None] if self._takes_self(node) else []
        try:
            bound = signature.bind(
                *self_argument, *node.args, **{str(k.arg): k.value for k in node.keywords}
            )
        except TypeError as error:
            self.refuse(node, str(error))
        values: dict[str, Value] = {}
        for name, parameter in list(signature.parameters.items())[len(self_argument) :]:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                self.refuse(
                    node, f"{ast.unparse(node.func)}(), which takes any number of arguments,"
                )
            if name in bound.arguments:
                values[name] = self.fixed(self.value(bound.arguments[name]))
            else:
                values[name] = self.known_ahead(parameter.default)
        return values


def stored_names(tree: ast.AST) -> set[str]:
    """Return the names that a syntax tree assigns."""
    return {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def tree_of(function: FunctionType) -> ast.FunctionDef:
    """Return the syntax tree of a function, with the line numbers of its file.

    :raises Refused: if the source is not available, or the function is a lambda or is decorated,
        except by `staticmethod`.
    """
    try:
        tree = ast.parse(
            "\n" * (function.__code__.co_firstlineno - 1) + dedent(inspect.getsource(function))
        ).body[0]
    # The function may have been typed at a prompt, or created by exec.
    except (OSError, TypeError, SyntaxError):
        raise Refused(
            f"{function.__qualname__}, whose source code is not available,",
            0,
            "it in a file, or in a notebook's cell",
        ) from None
    if not isinstance(tree, ast.FunctionDef) or [
        ast.unparse(d) for d in tree.decorator_list
    ] not in ([], ["staticmethod"]):
        raise Refused(f"{function.__qualname__}, which is decorated or a lambda,")
    return tree


def scope_of(function: FunctionType, me: str, codelet: type[Vertex], prefix: str) -> Scope:
    """Return the scope of a function, with its local names and the names from outside.

    `me` is the function's parameter for the vertex, such as "self", or "". The generated names of
    the function's variables begin with `prefix`.
    """
    names = outside(function)
    if me:
        names[me] = codelet
    local = frozenset(function.__code__.co_varnames + function.__code__.co_cellvars) - {me}
    return Scope(
        function, me=me, names=names, local=local, prefix=prefix, file=function.__code__.co_filename
    )


def outside(function: FunctionType) -> dict[str, object]:
    """Return the values that a function's outer names have now: builtins, globals and closure."""
    names = {**vars(builtins), **function.__globals__}
    for name in function.__code__.co_freevars:
        names.pop(name, None)
    return names | enclosed(function)
