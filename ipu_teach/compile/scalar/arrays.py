"""Operations on whole arrays in a scalar loop: operators, functions, stores and reductions."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.arguments import Function
from ipu_teach.compile.scalar.arithmetic import BINARY, POWERS
from ipu_teach.compile.scalar.kinds import (
    FLOATS,
    SAMPLES,
    SLOT,
    ZERO,
    dtype_of,
    kind_of,
    reach,
)
from ipu_teach.compile.scalar.regions import Regions
from ipu_teach.compile.scalar.values import (
    Arr,
    Num,
    StaticValue,
    Value,
    Vec,
)
from ipu_teach.compile.scalar.writer import (
    AGAIN,
    BEYOND,
    FUSED,
    LOOP,
    OF_PRODUCT,
    PRODUCT,
    Make,
)
from ipu_teach.compile.trace import REDUCTIONS

# Maps each of numpy's reductions to numba code: its initial value, and the new result, computed
# from the result so far and one number. A reduction without an initial value starts with the first
# number.
REDUCED = {
    "add": ("np.int64(0)", "{} + np.int64({})"),
    "multiply": ("np.int64(1)", "{} * np.int64({})"),
    "maximum": ("", "np_max({}, {})"),
    "minimum": ("", "np_min({}, {})"),
    "logical_or": ("False", "{} or {} != 0"),
    "logical_and": ("True", "{} and {} != 0"),
}


class Arrays(Regions):
    """Operators, functions, stores and reductions of whole arrays and fields."""

    def as_vec(self, a: Value, node: ast.AST, load: str = "") -> Vec:
        """Return a value as an operand for whole arrays, and count the cycles of its load.

        `load` is the name of the load in the list of prices. If `load` is "" and the current loop
        over vectors has already loaded the array, the name is `AGAIN`.
        """
        if isinstance(a, Vec):
            return a
        if isinstance(a, StaticValue) and isinstance(a.value, np.ndarray):
            a = self.table(a.value, node)
            (type_code,) = self.boxes[a.box]
            a = replace(a, buf=f"{a.buf}_{SLOT[type_code]}", type=type_code, box="")
        if isinstance(a, Num):
            self.refuse_if(len(a.alts) > 1, node, "a number of several types among arrays")
            type_code, text = (self.fixed(a) if a.const is None else a).only
            return Vec((), type_code, lambda index: text, a.py)
        if not isinstance(a, Arr) or not a.readable or a.rows or a.box or not 1 <= len(a.dims) <= 2:
            self.refuse(
                node,
                "a list among arrays" if isinstance(a, Arr) else "this operand of an array",
                "a loop over its elements",
            )
        array = a
        vec = self._spans(a)
        marked = self.multi and bool(a.mark)
        if not a.local:
            self.spend_on_all("loads", vec, load or (AGAIN if a.py in self.loaded else ""), a.type)
        elif self.temporaries.get(a.py) != self.loops_over and a.py not in self.loaded and not load:
            self.spend_on_all("loads", vec, BEYOND, a.type)
            if a.py in self.temporaries and self.spilled.setdefault(a.py, node) is node:
                self.spend_on_all("stores", vec, BEYOND, a.type)
        self.loaded.add(a.py)
        if marked:
            self.emit(None, f"r_{a.mark}[...] |= wbit")

        def item(index: str) -> str:
            offset = self._nth(array, index)
            if marked:
                self.emit(f"r_{array.buf}[np.uintp({offset})] |= wbit")
            return self.named(self._element_text(array, offset))

        return replace(vec, item=item)

    @staticmethod
    def _spans(a: Arr) -> Vec:
        """Return a `Vec` that has the shape and type of an array, but no code for its elements."""
        size = f"len({a.py})" if len(a.dims) == 1 else f"{a.py}.size"
        return Vec(
            tuple(n for n, _ in a.dims),
            a.type,
            lambda k: "",
            py=a.py,
            bufs=frozenset([a.buf]),
            size=size,
        )

    @staticmethod
    def _nth(array: Arr, k: str) -> str:
        """Return the numba expression of the offset of element k, counted in row-major order."""
        if len(array.dims) == 1:
            return f"{array.off} + {k} * {array.dims[0][1]}"
        (_, s), (n, type_code) = array.dims
        return f"{array.off} + {k} // {n} * {s} + {k} % {n} * {type_code}"

    def vector(self, kind: type, left: Value, right: Value, node: ast.AST) -> Vec:
        """Return the result of an operator on whole arrays.

        The elements are not computed here, but where the result is stored. The IEEE standard fixes
        the bits of each element, except for powers.
        """
        sign, fn, name = BINARY[kind]
        left, right = (
            self._as_one_type(left, right, fn, is_right_operand=False, node=node),
            self._as_one_type(right, left, fn, is_right_operand=True, node=node),
        )
        make = self.arith(
            "*" if sign == "**" else sign, fn, node, const=[None, None], bounds=[None, None]
        )
        if sign == "**" and isinstance(right, Num) and right.const == 2:
            return self.mapped(
                np.square,
                [left],
                make=lambda types, texts: make(types * 2, texts * 2),
                name="square",
                text_format="({} ** 2)",
                node=node,
            )
        power = POWERS.get(right.const, name) if sign == "**" and isinstance(right, Num) else name
        return self.mapped(
            fn,
            [left, right],
            make=make if sign != "**" else None,
            name=power,
            text_format="({} " + sign + " {})",
            node=node,
        )

    def mapped(
        self,
        function: Function,
        args: Sequence[Value],
        make: Make | None,
        name: str,
        text_format: str,
        node: ast.AST,
    ) -> Vec:
        """Return the result of a function or an operator that is applied to each element.

        `make` writes the numba code for one element, or is None if the numba code cannot compute
        the function. `text_format` is the Python code of the call, with {} for each argument.
        `name` is the name of the operation in the list of prices.
        """
        operands = [self.as_vec(argument, node) for argument in args]
        longest = max(operands, key=lambda operand: len(operand.dims))
        py = text_format.format(*(operand.py for operand in operands))
        for operand in operands:
            self._fits(operand, longest, node)
        types = [operand.type for operand in operands]
        num_operations = len(self.operations)
        name_count = self.count
        result_type = make(types, types)[0] if make else self.type_of(function, types, node)
        del self.operations[num_operations:]
        self.count = name_count
        self.refuse_if(result_type not in SAMPLES, node, py)
        if make is None:
            self.require_python(node)
        is_fused = name in ("add", "subtract") and any(
            operand.scaled and operand.type == result_type for operand in operands
        )
        self.spend_on_all("vec", longest, FUSED if is_fused else name, result_type)

        def item(index: str) -> str:
            if make is None:
                return ZERO[SLOT[result_type]]
            return self.named(make(types, [operand.item(index) for operand in operands])[1])

        bufs = frozenset[str]().union(*(operand.bufs for operand in operands))
        is_product = name == "multiply" and result_type in ("f2", "f4")
        return Vec(
            longest.dims,
            result_type,
            item,
            py=py,
            bufs=bufs,
            size=longest.size,
            product=is_product,
            scaled=is_product and not all(operand.dims for operand in operands),
        )

    def _fits(self, v: Vec, to: Vec, node: ast.AST) -> None:
        """Write a check that two arrays have the same shape.

        If the shapes differ, the numba code stops, because only the Python code broadcasts.
        """
        if v.dims and len(v.dims) < len(to.dims):
            self.require_python(node)
        for n, m in zip(v.dims, to.dims, strict=False):
            if n != m:
                self.bail(f"{n} != {m}", node)

    def _as_one_type(
        self, a: Value, other: Value, fn: Function, is_right_operand: bool, node: ast.AST
    ) -> Value:
        """Return number `a`, converted to the result type of `fn` if it has several types.

        `other` is the other operand of `fn`. If `a` has one type, or `other` is not an array, `a`
        is returned unchanged.
        """
        if not isinstance(a, Num) or len(a.alts) == 1 or not isinstance(other, (Arr, Vec)):
            return a
        other_type = other.type
        a = self.not_none(a)
        types = {
            self.type_of(
                fn,
                [other_type, alternative] if is_right_operand else [alternative, other_type],
                node,
            )
            for alternative in a.alts
        }
        self.refuse_if(
            len(types) > 1 or types == {"b1"}, node, "a number of several types among arrays"
        )
        (result_type,) = types
        slots, _ = self.dispatch([a], self.converting(result_type, node))
        return Num(slots, a.py, data=a.data)

    def fill(self, destination: Arr, value: Value, node: ast.AST) -> None:
        """Store a number or an array in all elements of a field or array."""
        if not destination.writable:
            self._read_only(destination, node)
        self.refuse_if(
            destination.rows or destination.box, node, "this assignment to a list", "a loop"
        )
        if isinstance(value, Num) and len(value.alts) > 1:
            element_type = destination.type
            slots, _ = self.dispatch([value], self.storing(element_type, node))
            value = Num(slots, value.py, data=value.data)
        source = self.as_vec(value, node)
        element_type = destination.type
        region = self._spans(destination)
        self.refuse_if(
            len(source.dims) > len(destination.dims), node, "a matrix stored in a vector"
        )
        self._fits(source, region, node)
        if element_type not in FLOATS and source.type != element_type and source.dims:
            self.require_python(node)
        # numpy evaluates the right side completely before it stores the result.
        if destination.buf in source.bufs:
            copied = self._materialised(source, False)
            source = replace(source, item=lambda index: f"{copied.buf}[{index}]")
        index = self.new("i")
        with self.under(f"for {index} in range({region.n}):"):
            element = self.put(source.item(index), source.type, element_type, node)
            place = f"np.uintp({self._nth(destination, index)})"
            self.emit(f"{destination.buf}[{place}] = {self._stored(destination, element)}")
            if destination.mark:
                self.emit(f"m_{destination.buf}[{place}] {self._marks(element_type)}")
        self.emit(None, f"{destination.py}[...] = {source.py}")
        if destination.mark:
            self.emit(None, f"{destination.mark}[...] {self._marks(element_type)}")
        self.spend_on_all("stores", region, BEYOND if destination.local else "", element_type)
        self.end_loop()

    def reduced(self, function: Function, value: Any, node: ast.AST) -> Num:
        """Return np.sum, np.any or another reduction of a whole array, as a number.

        Floats are reduced by numpy's own loop, which sums pairwise.
        """
        vec = self.as_vec(value, node)
        ufunc = REDUCTIONS[function]
        if not vec.dims:
            self.refuse(node, f"np.{function.__name__}() of a number")
        py = f"np.{function.__name__}({vec.py})"
        letter = np.dtype(vec.type).char
        result_type = kind_of(function(np.ones(2, vec.type))[()])
        self.spend_on_all(
            "vec", vec, FUSED if function is np.sum and vec.product else ufunc.__name__, vec.type
        )
        self.end_loop()
        initial, update = REDUCED[ufunc.__name__]
        if not initial:
            self.bail(f"{vec.n} == 0", node)
        is_float_loop = vec.type in FLOATS and result_type == vec.type
        is_half = vec.type == "f2"
        # In a local array, halves are stored in single precision.
        is_local_half = is_half and is_float_loop and (isinstance(value, Vec) or value.local)
        if len(vec.dims) > 1 or self.multi or is_local_half or "u8" in (result_type, vec.type):
            self.require_python(node)
            return Num(
                {result_type: ZERO[SLOT[result_type]]}, py, data=True, bound=reach([result_type])
            )
        if not is_float_loop:
            accumulator = self.named(initial or vec.item("0"))
            index = self.new("i")
            with self.under(f"for {index} in range({vec.n}):"):
                self.emit(f"{accumulator} = {update.format(accumulator, vec.item(index))}")
            return Num({result_type: accumulator}, py, data=True, bound=reach([result_type]))
        array = value if isinstance(value, Arr) else self._materialised(vec, False)
        (length, stride) = array.dims[0]
        initial_number = {"np.int64(0)": "0", "np.int64(1)": "1"}.get(initial)
        offset = array.off
        if initial_number is None:
            start_text = f"{array.buf}[{offset}]"
            offset = f"{offset} + {stride}"
            length = f"{length} - 1"
        elif is_half:
            start_text = (
                f"np.uint16({15360 * int(initial_number)})"  # 15360 is 1.0 as the bits of a half.
            )
        else:
            start_text = f"np.{dtype_of(result_type).name}({initial_number})"
        call = (
            f"reduce_loop({self.loop_at(ufunc, f'{letter}{letter}->{letter}')}, {array.buf}, "
            f"{offset}, {length}, {stride}, {start_text})"
        )
        return Num(
            {result_type: self.named(f"half_value({call})" if is_half else call)}, py, data=True
        )

    def product(self, left: Value, right: Value, text_format: str, node: ast.AST) -> Num | Arr:
        """Return a @ b of vectors and matrices, computed by numpy's own loop.

        `text_format` is the Python code of the product, with {} for each operand.
        """
        left_vec = self.as_vec(left, node, OF_PRODUCT)
        right_vec = self.as_vec(right, node, OF_PRODUCT)
        self.refuse_if(not left_vec.dims or not right_vec.dims, node, "@ of a number")
        result_type = self.type_of(operator.mul, [left_vec.type, right_vec.type], node)
        py = text_format.format(left_vec.py, right_vec.py)
        dims = (*left_vec.dims[:-1], *right_vec.dims[1:])
        name = self.new("a")
        self.emit(None, f"{name} = {py}")
        result = Vec(dims, result_type, lambda k: "", name, size=f"np.size({name})")
        self._spend_on_product(((left_vec, left), (right_vec, right)), result)
        self.end_loop(result if dims else None)
        self.temporaries[name] = self.loops_over
        letter = np.dtype(result_type).char
        has_loop = (
            f"{letter}{letter}->{letter}" in np.matmul.types
            and result_type == left_vec.type == right_vec.type
            and result_type not in ("f2", "b1")
        )
        if not has_loop or self.multi or (text_format != "({} @ {})" and dims):
            self.require_python(node)
        else:
            left_array, right_array = (
                operand if isinstance(operand, Arr) else self._materialised(vec, False)
                for operand, vec in ((left, left_vec), (right, right_vec))
            )
            self._emit_product(
                (left_vec, left_array), (right_vec, right_array), name, result_type, node
            )
        if not dims:
            return Num(
                {result_type: self.named(f"{name}[0]")}, name, data=True, bound=reach([result_type])
            )
        return Arr(
            name,
            result_type,
            dims=tuple(zip(dims, (*dims[1:], "1"), strict=True)),
            off="0",
            py=name,
            local=True,
        )

    def _spend_on_product(self, operands: Sequence[tuple[Vec, Value]], result: Vec) -> None:
        """Count the cycles of a product of two operands.

        Each of `operands` is (the operand as a `Vec`, the value from which the `Vec` was built).
        """
        left_vec = operands[0][0]
        dims = result.dims
        for vec, field in operands:
            # A vector field is read again for each number of the result.
            if dims and len(vec.dims) == 1 and isinstance(field, Arr) and not field.local:
                self.spend_on_all(
                    "loads",
                    vec,
                    OF_PRODUCT,
                    vec.type,
                    times=(f"({result.n} - 1) * ", f"({result.size} - 1) * "),
                )
        inner_vec = Vec(
            left_vec.dims[-1:],
            result.type,
            left_vec.item,
            left_vec.py,
            size=f"{left_vec.py}.shape[-1]" if len(left_vec.dims) > 1 else left_vec.size,
        )
        self.spend_on_all(
            "vec",
            inner_vec,
            PRODUCT,
            result.type,
            times=(f"{result.n} * ", f"{result.size} * ") if dims else ("", ""),
        )

    def _emit_product(
        self,
        left: tuple[Vec, Arr],
        right: tuple[Vec, Arr],
        name: str,
        type_code: str,
        node: ast.AST,
    ) -> None:
        """Write numba code that calls numpy's product loop for two arrays.

        The result is the new array `name`. `left` and `right` are the operands, each as (`Vec`,
        array).
        """
        (left_vec, left_array) = left
        (right_vec, right_array) = right
        letter = np.dtype(type_code).char
        loop = self.loop_at(np.matmul, f"{letter}{letter}->{letter}")
        inner_length = self.named(left_vec.dims[-1])
        dims = (*left_vec.dims[:-1], *right_vec.dims[1:])
        num_rows, num_columns = (
            (*dims, "1", "1") if len(left_vec.dims) > 1 else ("1", *dims, "1")
        )[:2]
        self.bail(
            f"{inner_length} != {right_vec.dims[0]} or "
            f"{num_rows} * {inner_length} * {num_columns} == 0",
            node,
        )
        left_strides = [stride for _, stride in left_array.dims]
        right_strides = [stride for _, stride in right_array.dims]
        strides = ", ".join(
            (
                *(left_strides if len(left_strides) > 1 else (inner_length, *left_strides)),
                *(right_strides if len(right_strides) > 1 else (*right_strides, "1")),
                num_columns,
            )
        )
        self.empty(name, f"{num_rows} * {num_columns}", type_code)
        buffers = (
            f"{left_array.buf}, {left_array.off}, {right_array.buf}, {right_array.off}, {name}"
        )
        self.emit(
            f"product_loop({loop}, {buffers}, {num_rows}, {inner_length}, {num_columns}, {strides})"
        )

    def end_loop(self, result: Vec | None = None) -> None:
        """Count the cycles to start the loop over vectors whose end is reached here.

        With `result`, these cycles count once for each element of `result`.
        """
        if result is None:
            self.spend(LOOP)
        else:
            self.spend_on_all("vec", result, LOOP, result.type)
        self.loops_over += 1
        self.loaded.clear()
