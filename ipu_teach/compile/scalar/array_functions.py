"""Calls of numpy's functions of matrices and whole arrays, in a scalar loop."""

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
    """Calls of numpy's functions of whole arrays and matrices."""

    def by_numpy(
        self, function: Function, args: list[Any], named: dict[str, Value], node: ast.AST
    ) -> Value:
        """Return the result of a call of a numpy function of arrays.

        The Python code calls the function itself. The numba code can call only the functions in
        `DENSE`. For any other function, only the Python code may run.
        """
        args = [self.as_vec(argument, node) for argument in args] if function in DENSE else args
        positional = [self._sample(argument, node) for argument in args]
        keywords = {keyword: self._sample(argument, node) for keyword, argument in named.items()}
        try:
            with np.errstate(all="ignore"):
                sample = function(
                    *(value for _, value in positional),
                    **{keyword: value for keyword, (_, value) in keywords.items()},
                )
                sample = sample[0] if function is np.linalg.qr and not named else sample
        except Exception as error:
            self.refuse(node, str(error))
        texts = [text for text, _ in positional]
        texts += [f"{keyword}={text}" for keyword, (text, _) in keywords.items()]
        prefix = "np.linalg." if getattr(function, "__module__", "") == "numpy.linalg" else "np."
        name = self.new("a")
        type_code = sample.dtype.str[1:] if isinstance(sample, np.ndarray) else kind_of(sample)
        if type_code not in SAMPLES:
            self.refuse(node, f"{prefix}{function.__name__}()")
        if function not in DENSE or named:
            self.require_python(node)
        if function is np.linalg.qr:
            return self._factors(args[0], type_code, node)
        if function in DENSE:
            return self._dense(function, args, name=name, type_code=type_code, node=node)
        self.emit(None, f"{name} = {prefix}{function.__name__}({', '.join(texts)})")
        self._spend_on_call(function, args, type_code)
        self.temporaries[name] = self.loops_over
        if isinstance(sample, np.ndarray) and sample.ndim:
            return Arr(
                name, type_code, dims=(("-1", "1"),) * sample.ndim, off="0", py=name, local=True
            )
        return Num({type_code: ZERO[SLOT[type_code]]}, name, data=True, bound=reach([type_code]))

    def _spend_on_call(self, function: Function, args: list[Any], type_code: str) -> None:
        """Count the cycles of a call of a numpy function, by the size of its largest array."""
        sizes = [f"np.size({argument.py})" for argument in args if isinstance(argument, (Arr, Vec))]
        if not sizes:
            has_data = any(isinstance(argument, Num) and argument.data for argument in args)
            self.priced(function.__name__, {type_code: ""}, has_data)
            return
        size = f"max({', '.join(sizes)})" if len(sizes) > 1 else sizes[0]
        largest_argument = Vec(("1",), type_code, lambda keyword: "", "", size=size)
        # An elementwise function and a ufunc have their own prices.
        has_price = function in ELEMENTWISE or isinstance(function, np.ufunc)
        self.spend_on_all(
            "vec", largest_argument, function.__name__ if has_price else "each", type_code
        )
        self.end_loop()

    def _dense(
        self, function: Function, operands: list[Vec], name: str, type_code: str, node: ast.AST
    ) -> Num | Arr:
        """Return the result of a function of a matrix, and count its price.

        The Python code stores the result in the variable `name`. The numba code calls numpy's own
        loop, which computes in double precision.
        """
        operand_texts = ", ".join(operand.py for operand in operands)
        self.emit(None, f"{name} = {self._noting_call(function)}, {operand_texts})")
        (num_rows, num_columns) = operands[0].dims
        last_operand = operands[-1]
        dims = () if function is np.linalg.det else last_operand.dims
        row_vector = Vec((num_rows,), type_code, lambda k: "", "", size=f"len({operands[0].py})")
        self.spend_on_all("vec", row_vector, function.__name__, type_code)
        if function in (np.linalg.inv, np.linalg.solve):
            times = (
                ("", "") if len(dims) < 2 else (f"{dims[1]} * ", f"{last_operand.py}.shape[1] * ")
            )
            self.spend_on_all("vec", row_vector, COLUMN, type_code, times=times)
        self.end_loop()
        self.bail(
            f"{num_rows} == 0 or {num_columns} != {num_rows} or "
            f"{last_operand.dims[0]} != {num_rows}",
            node,
        )
        buffers = [self._converted_copy(operand, "f8", node) for operand in operands]
        self._bail_if_unsuitable(function, buffers[0], num_rows, num_rows, node=node)
        operand_ends = ", ".join(f"{buffer}, 0" for buffer in buffers)
        out = self.new("a")
        (result_rows, result_columns) = (*dims, "1", "1")[:2]
        self.empty(out, f"{result_rows} * {result_columns}", "f8")
        loop = self.loop_at(DENSE[function], f"{'d' * len(operands)}->d")
        if len(operands) == 1:
            self.emit(f"matrix_loop({loop}, {operand_ends}, {out}, {num_rows}, {num_rows})")
        else:
            self.emit(
                f"product_loop({loop}, {operand_ends}, {out}, {num_rows}, {result_columns}, "
                f"{result_columns}, {num_rows}, 1, {result_columns}, 1, {result_columns})"
            )
        if self.multi:
            self.require_python(node)
        if not dims:
            element = self.named(self.convert(f"{out}[0]", "f8", type_code, node))
            return Num({type_code: element}, name, data=True)
        # The first number of the result is NaN if numpy would raise an error, or if an argument
        # contains a NaN.
        self.bail(f"{out}[0] != {out}[0]", node)
        return self._result_array(Vec(dims, "f8", lambda k: f"{out}[{k}]", name), type_code, node)

    def _factors(self, a: Vec, type_code: str, node: ast.AST) -> Factors:
        """Return Q and R of np.linalg.qr.

        numpy's first loop leaves R in the upper triangle of the matrix. Below the diagonal, it
        leaves the vectors from which numpy's second loop computes Q.
        """
        (num_rows, num_columns) = a.dims
        q_name = self.new("a")
        r_name = self.new("a")
        q_buffer = self.new("a")
        self.emit(None, f"{q_name}, {r_name} = {self._noting_call(np.linalg.qr)}, {a.py})")
        num_factors = self.named(f"min({num_rows}, {num_columns})")
        for name, compiled_times, python_times in (
            ("qr", "", ""),
            (TALL, f"max(0, {num_rows} - {num_columns}) * ", "max(0, {0}[0] - {0}[1]) * "),
            (WIDE, f"max(0, {num_columns} - {num_rows}) * ", "max(0, {0}[1] - {0}[0]) * "),
        ):
            square_side = Vec(
                (num_factors,), type_code, lambda _: "", "", size=f"min({a.py}.shape)"
            )
            self.spend_on_all(
                "vec",
                square_side,
                name,
                type_code,
                times=(compiled_times, python_times.format(f"{a.py}.shape")),
            )
        self.end_loop()
        self.bail(f"{num_factors} == 0", node)
        r_buffer = self._converted_copy(a, "f8", node)
        scales = self.new("a")
        raw = "qr_r_raw"
        self._bail_if_unsuitable(np.linalg.qr, r_buffer, num_rows, num_columns, node=node)
        self.empty(scales, f"{num_factors} * {num_columns}", "f8")
        self.empty(q_buffer, f"{num_rows} * {num_factors}", "f8")
        r_loop = self.loop_at(getattr(LAPACK, raw, None) or getattr(LAPACK, f"{raw}_m"), "d->d")
        self.emit(f"matrix_loop({r_loop}, {r_buffer}, 0, {scales}, {num_rows}, {num_columns})")
        q_arguments = f"{r_buffer}, 0, {scales}, 0, {q_buffer}"
        q_loop = self.loop_at(DENSE[np.linalg.qr], "dd->d")
        self.emit(
            f"product_loop({q_loop}, {q_arguments}, {num_rows}, {num_columns}, {num_factors}, "
            f"{num_columns}, 1, {num_columns}, {num_factors}, 1)"
        )
        if self.multi:
            self.require_python(node)

        def r_element(index: str) -> str:
            is_upper = f"{index} % {num_columns} >= {index} // {num_columns}"
            return f"({r_buffer}[{index}] if {is_upper} else 0.0)"

        q_dims = (num_rows, num_factors)
        r_dims = (num_factors, num_columns)
        return Factors(
            self._result_array(Vec(*factor), type_code, node)
            for factor in (
                (q_dims, "f8", lambda index: f"{q_buffer}[{index}]", q_name),
                (r_dims, "f8", r_element, r_name),
            )
        )

    def _noting_call(self, function: Function) -> str:
        """Return the beginning of a Python call that calls a function and checks its matrix.

        The call is `call_noting(function, line, …)`. The caller adds the arguments and the closing
        bracket.
        """
        return f"call_noting(np.linalg.{function.__name__}, {place(self.codelet, self.line)!r}"

    def _bail_if_unsuitable(
        self, function: Function, buf: str, num_rows: str, num_columns: str, node: ast.AST
    ) -> None:
        """Write numba code that stops at an unsuitable matrix.

        A matrix with a NaN is unsuitable, and so is a matrix that is not symmetric for cholesky.
        The Python code then runs the vertex, because only the Python code can record why a matrix
        is unsuitable.
        """
        index = self.new("i")
        fault = "{0}[{1}] != {0}[{1}]"
        if function is np.linalg.cholesky:
            fault = (
                "not abs({0}[{1}] - {0}[{1} % {2} * {2} + {1} // {2}]) <= {3} * np.sqrt(abs("
                "{0}[{1} // {2} * ({2} + 1)] * {0}[{1} % {2} * ({2} + 1)]))"
            )
        with self.under(f"for {index} in range({num_rows} * {num_columns}):"):
            self.bail(fault.format(buf, index, num_columns, ASYMMETRY), node)

    def _result_array(self, v: Vec, type_code: str, node: ast.AST) -> Arr:
        """Return the result `v` of a numpy loop as a new array with elements of type `type_code`.

        The Python variable of the array is `v.py`.
        """
        self.temporaries[v.py] = self.loops_over
        steps = (*v.dims[1:], "1")
        dims = tuple(zip(v.dims, steps, strict=True))
        return Arr(
            self._converted_copy(v, type_code, node),
            type_code,
            dims=dims,
            off="0",
            py=v.py,
            local=True,
        )

    def _converted_copy(self, v: Vec, to: str, node: ast.AST) -> str:
        """Write numba code that copies `v` to an array of type `to`, and return its name."""

        def item(k: str) -> str:
            return self.convert(v.item(k), v.type, to, node)

        return self._materialised(replace(v, type=to, item=item), False).buf

    def _sample(self, value: Value, node: ast.AST) -> tuple[str, Any]:
        """Return (Python expression of an argument, example value of the same type)."""
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
