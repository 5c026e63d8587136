"""numpy's functions of complete arrays and of matrices in a scalar loop."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.arguments import Function
from ipu_teach.compile.matrices import ASYMMETRY
from ipu_teach.compile.scalar.arrays import Arrays
from ipu_teach.compile.scalar.kinds import (
    SAMPLES,
    SLOT,
    ZERO,
    dtype_of,
    kind_of,
    numpys,
    reach,
)
from ipu_teach.compile.scalar.values import (
    Arr,
    Factors,
    Num,
    StaticValue,
    Value,
    Vec,
)
from ipu_teach.compile.scalar.writer import (
    COLUMN,
    TALL,
    WIDE,
)
from ipu_teach.compile.trace import DENSE, ELEMENTWISE, LAPACK, place


class ArrayFunctions(Arrays):
    """Calls of numpy's functions of arrays."""

    def by_numpy(
        self, f: Function, args: list[Any], named: dict[str, Value], node: ast.AST
    ) -> Value:
        """Return the result of a numpy function of arrays that only CPython's text can call.

        The functions in DENSE are compiled too.
        """
        args = [self.as_vec(a, node) for a in args] if f in DENSE else args
        positional = [self._sample(a, node) for a in args]
        keywords = {k: self._sample(a, node) for k, a in named.items()}
        try:
            with np.errstate(all="ignore"):
                sample = f(*(x for _, x in positional), **{k: x for k, (_, x) in keywords.items()})
                sample = sample[0] if f is np.linalg.qr and not named else sample
        except Exception as error:
            self.refuse(node, str(error))
        text = ", ".join(
            [*(x for x, _ in positional), *(f"{k}={x}" for k, (x, _) in keywords.items())]
        )
        prefix = "np.linalg." if getattr(f, "__module__", "") == "numpy.linalg" else "np."
        name = self.new("a")
        t = sample.dtype.str[1:] if isinstance(sample, np.ndarray) else kind_of(sample)
        if t not in SAMPLES:
            self.refuse(node, f"{prefix}{f.__name__}()")
        if f not in DENSE or named:
            self.require_python(node)
        if f is np.linalg.qr:
            return self._factors(args[0], t, node)
        if f in DENSE:
            return self._dense(f, args, name=name, t=t, node=node)
        self.emit(None, f"{name} = {prefix}{f.__name__}({text})")
        sizes = [f"np.size({a.py})" for a in args if isinstance(a, (Arr, Vec))]
        longest = Vec(
            ("1",),
            t,
            lambda k: "",
            "",
            size=f"max({', '.join(sizes)})" if len(sizes) > 1 else "".join(sizes),
        )
        if not sizes:
            self.priced(f.__name__, {t: ""}, any(isinstance(a, Num) and a.data for a in args))
        else:
            # whether the function has its own price
            has_price = f in ELEMENTWISE or isinstance(f, np.ufunc)
            self.spend_on_all("vec", longest, f.__name__ if has_price else "each", t)
        if sizes:
            self.end_loop()
        self.temporaries[name] = self.loops_over
        if isinstance(sample, np.ndarray) and sample.ndim:
            return Arr(name, t, dims=(("-1", "1"),) * sample.ndim, off="0", py=name, local=True)
        return Num({t: ZERO[SLOT[t]]}, name, data=True, bound=reach([t]))

    def _dense(
        self, f: Function, operands: list[Vec], name: str, t: str, node: ast.AST
    ) -> Num | Arr:
        """Return the result of a function of a matrix, and count its price.

        `name` is the result in CPython's text. The compiled text calls numpy's own loop, which
        computes in double precision.
        """
        self.emit(None, f"{name} = {self._noting_call(f)}, {', '.join(v.py for v in operands)})")
        (n, width) = operands[0].dims
        last = operands[-1]
        dims = () if f is np.linalg.det else last.dims
        rows = Vec((n,), t, lambda k: "", "", size=f"len({operands[0].py})")
        self.spend_on_all("vec", rows, f.__name__, t)
        if f in (np.linalg.inv, np.linalg.solve):
            many = ("", "") if len(dims) < 2 else (f"{dims[1]} * ", f"{last.py}.shape[1] * ")
            self.spend_on_all("vec", rows, COLUMN, t, times=many)
        self.end_loop()
        self.bail(f"{n} == 0 or {width} != {n} or {last.dims[0]} != {n}", node)
        buffers = [self._converted_copy(v, "f8", node) for v in operands]
        self._bail_if_unsuitable(f, buffers[0], n, n, node=node)
        ends = ", ".join(f"{a}, 0" for a in buffers)
        out = self.new("a")
        (m, p) = (*dims, "1", "1")[:2]
        self.empty(out, f"{m} * {p}", "f8")
        loop = self.loop_at(DENSE[f], f"{'d' * len(operands)}->d")
        if len(operands) == 1:
            self.emit(f"matrix_loop({loop}, {ends}, {out}, {n}, {n})")
        else:
            self.emit(f"product_loop({loop}, {ends}, {out}, {n}, {p}, {p}, {n}, 1, {p}, 1, {p})")
        if self.multi:
            self.require_python(node)
        if not dims:
            x = self.named(self.convert(f"{out}[0]", "f8", t, node))
            return Num({t: x}, name, data=True)
        # true if numpy raises an error, or an argument contains a NaN
        self.bail(f"{out}[0] != {out}[0]", node)
        return self._result_array(Vec(dims, "f8", lambda k: f"{out}[{k}]", name), t, node)

    def _factors(self, a: Vec, t: str, node: ast.AST) -> Factors:
        """Return the factors of np.linalg.qr.

        numpy's first loop leaves R in the upper triangle of the matrix. Below it are the vectors
        from which the second loop computes Q.
        """
        (m, n) = a.dims
        q = self.new("a")
        r = self.new("a")
        out = self.new("a")
        self.emit(None, f"{q}, {r} = {self._noting_call(np.linalg.qr)}, {a.py})")
        k = self.named(f"min({m}, {n})")
        for name, nb, py in (
            ("qr", "", ""),
            (TALL, f"max(0, {m} - {n}) * ", "max(0, {0}[0] - {0}[1]) * "),
            (WIDE, f"max(0, {n} - {m}) * ", "max(0, {0}[1] - {0}[0]) * "),
        ):
            square = Vec((k,), t, lambda _: "", "", size=f"min({a.py}.shape)")
            self.spend_on_all("vec", square, name, t, times=(nb, py.format(f"{a.py}.shape")))
        self.end_loop()
        self.bail(f"{k} == 0", node)
        packed = self._converted_copy(a, "f8", node)
        scales = self.new("a")
        raw = "qr_r_raw"
        self._bail_if_unsuitable(np.linalg.qr, packed, m, n, node=node)
        self.empty(scales, f"{k} * {n}", "f8")
        self.empty(out, f"{m} * {k}", "f8")
        first = self.loop_at(getattr(LAPACK, raw, None) or getattr(LAPACK, f"{raw}_m"), "d->d")
        self.emit(f"matrix_loop({first}, {packed}, 0, {scales}, {m}, {n})")
        sides = f"{packed}, 0, {scales}, 0, {out}"
        second = self.loop_at(DENSE[np.linalg.qr], "dd->d")
        self.emit(f"product_loop({second}, {sides}, {m}, {n}, {k}, {n}, 1, {n}, {k}, 1)")
        if self.multi:
            self.require_python(node)

        def upper(e: str) -> str:
            return f"({packed}[{e}] if {e} % {n} >= {e} // {n} else 0.0)"

        left = (m, k)
        right = (k, n)
        return Factors(
            self._result_array(Vec(*factor), t, node)
            for factor in ((left, "f8", lambda e: f"{out}[{e}]", q), (right, "f8", upper, r))
        )

    def _noting_call(self, f: Function) -> str:
        """Return the beginning of a call in CPython's text that notes a fault of the matrix."""
        return f"call_noting(np.linalg.{f.__name__}, {place(self.codelet, self.line)!r}"

    def _bail_if_unsuitable(self, f: Function, buf: str, m: str, n: str, node: ast.AST) -> None:
        """Leave the compiled text if a matrix has a fault, which CPython's text can note."""
        k = self.new("i")
        fault = "{0}[{1}] != {0}[{1}]"
        if f is np.linalg.cholesky:
            fault = (
                "not abs({0}[{1}] - {0}[{1} % {2} * {2} + {1} // {2}]) <= {3} * np.sqrt(abs("
                "{0}[{1} // {2} * ({2} + 1)] * {0}[{1} % {2} * ({2} + 1)]))"
            )
        with self.under(f"for {k} in range({m} * {n}):"):
            self.bail(fault.format(buf, k, n, ASYMMETRY), node)

    def _result_array(self, v: Vec, t: str, node: ast.AST) -> Arr:
        """Return the result of a numpy loop as an array, called `v.py` in CPython's text."""
        self.temporaries[v.py] = self.loops_over
        steps = (*v.dims[1:], "1")
        dims = tuple(zip(v.dims, steps, strict=True))
        return Arr(self._converted_copy(v, t, node), t, dims=dims, off="0", py=v.py, local=True)

    def _converted_copy(self, v: Vec, to: str, node: ast.AST) -> str:
        """Return the name of a new array in the compiled text, with elements of type `to`."""

        def item(k: str) -> str:
            return self.convert(v.item(k), v.type, to, node)

        return self._materialised(replace(v, type=to, item=item), False).buf

    def _sample(self, value: Value, node: ast.AST) -> tuple[str, Any]:
        """Return (CPython's text of an argument, a sample of its type)."""
        if isinstance(value, (Arr, Vec)):
            v = self.as_vec(value, node)
            return v.py, (np.eye(3) if len(v.dims) == 2 else np.ones(3)).astype(dtype_of(v.type))
        if isinstance(value, Num):
            return value.py, SAMPLES[next(iter(value.alts))] if value.const is None else value.const
        if isinstance(value, list):
            texts, samples = zip(*(self._sample(item, node) for item in value), strict=True)
            return f"({', '.join(texts)},)", samples
        if isinstance(value, StaticValue) and isinstance(value.value, (str, type)):
            known = value.value
            return numpys(np.dtype(known)) if isinstance(known, type) else repr(known), known
        self.refuse(node, "this argument")
