"""Elements, rows and slices of arrays in a scalar loop, and tables of constants."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from ipu_teach.compile.scalar.indices import Indices
from ipu_teach.compile.scalar.kinds import (
    CODES,
    FLOATS,
    INTS,
    SLOT,
    ZERO,
    is_number,
    numpys,
    reach,
)
from ipu_teach.compile.scalar.values import (
    Arr,
    ConstantTable,
    Fixed,
    Known,
    Num,
    Value,
    Vec,
)
from ipu_teach.compile.scalar.writer import (
    WORD,
)
from ipu_teach.graph.vector_layout import VectorLayout
from ipu_teach.graph.vertex import Field
from ipu_teach.types import Array

# Maps the size of an element in bytes to the integer in which the lowest bit of each byte is 1.
# This integer is the mark of a stored element.
MARKS = {1: 1, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}
MOST_NUMBERS = 1 << 12  # The maximum number of elements in a table of constants.


class Regions(Indices):
    """Loads, stores and slices of fields and local arrays, and tables of constants."""

    def region(self, name: str, declared: Field) -> Arr:
        """Return the `Arr` of a field."""
        dims = tuple((Fixed(f"f_{name}_n{k}"), f"f_{name}_s{k}") for k in range(declared.depth))
        mark = (
            f"m_f_{name}" if declared.kind == "output" or (self.multi and declared.written) else ""
        )
        readable = declared.kind != "output" or declared.depth > 0
        sized = VectorLayout.ONE_PTR not in declared.layouts[:1]
        rows = f"f_{name}_t" if name in self.lists else ""
        # `free` is True for a constant of the vertex, because operations on constants cost nothing.
        free = declared.kind == "state" and not declared.depth and name not in self.assigned
        return Arr(
            buf=f"f_{name}",
            type=declared.dtype.numpy.str[1:],
            dims=dims,
            off=f"f_{name}_o",
            py=f"f_{name}",
            mark=mark,
            readable=readable,
            writable=declared.written,
            sized=sized,
            rows=rows,
            free=free,
        )

    # Methods for single elements

    def _element_text(self, array: Arr, at: str) -> str:
        """Return the numba expression of a buffer's element at offset `at`.

        The expression has the type in which the numba code calculates: int64 for integers, single
        for halves.
        """
        # The index is unsigned, because numba wraps negative indices around.
        raw = f"{array.buf}[np.uintp({at})]"
        if array.type == "f2" and not array.local:
            return f"half_value({raw})"
        return f"np.int64({raw})" if array.type in INTS and array.type != "u8" else raw

    def load(self, array: Arr, keys: list[Num], node: ast.AST) -> Num:
        """Write the code that reads an element of an array, and return the element.

        `keys` is the index of the element, as one number for each axis.
        """
        if not array.readable:
            self.refuse(
                node,
                f"reading the Output {array.buf[2:]}",
                "an InOut, or a local variable that is assigned once",
            )
        offset = self.place(array, keys, node)
        depends_on_data = not array.free or any(index.data for index in keys)
        key_text = ("][" if array.box else ", ").join(index.py for index in keys) or "()"
        self.spend(data=depends_on_data)
        if array.box:
            table = self.tables.get(array.box)
            types = sorted(self.boxes[array.box])
            if not types:  # No number has been stored in the list so far.
                return self.not_none(Num({"no": "False"}, "None"))
            if (
                table is not None
                and array.off == "0"
                and len(array.dims) == 1
                and isinstance(keys[0].const, int)
            ):
                if -len(table.values) <= keys[0].const < len(table.values):
                    return table.values[keys[0].const]
                return keys[0]
            offset = self.named(offset)
            values = {
                slot: self.named(f"{array.buf}_{slot}[np.uintp({offset})]")
                for slot in sorted({SLOT[type_code] for type_code in types})
            }
            tag = self.named(f"{array.buf}_tag[np.uintp({offset})]") if len(types) > 1 else ""
            bound = None if "wi" in types else reach(types)
            if table is not None and "wi" in types:
                bound = max(
                    constant_number.bound
                    for constant_number in table.values
                    if constant_number.bound is not None
                )
            return Num(
                {type_code: values[SLOT[type_code]] for type_code in types},
                f"{array.py}[{key_text}]",
                tag,
                depends_on_data,
                bound=bound,
            )
        is_preloaded = not keys and not array.writable  # A scalar field is read before the loop.
        name = (
            Fixed(f"{array.buf}_v")
            if is_preloaded
            else self.named(self._element_text(array, offset))
        )
        if self.multi and array.mark:
            self.emit(
                f"r_{array.buf}[np.uintp({offset})] |= wbit", f"r_{array.mark}[{key_text}] |= wbit"
            )
        py = array.py if is_preloaded else f"{array.py}[{key_text}]"
        return Num({array.type: name}, py, data=depends_on_data, bound=reach([array.type]))

    def write(self, array: Arr, keys: list[Num], value: Any, node: ast.AST) -> None:
        """Write the code that stores a number in an element of an array.

        `keys` is the index of the element, as one number for each axis.
        """
        self.refuse_if(
            not isinstance(value, Num), node, "a store of something other than a single number"
        )
        if not array.writable:
            self._read_only(array, node)
        offset_text = f"np.uintp({self.place(array, keys, node)})"
        element_type = array.type
        key_text = ("][" if array.box else ", ").join(index.py for index in keys) or "()"
        is_cut = element_type[0] == "u" and not array.local and FLOATS & value.alts.keys()
        self.emit(
            None,
            f"{array.py}[{key_text}] = "
            f"{f'to_unsigned({value.py}, {array.py}.dtype)' if is_cut else value.py}",
        )
        # Memory is written in words, so a smaller store takes more instructions.
        is_word = array.box or int(array.type[1]) >= 4
        self.spend("", *(("", 1) if is_word else (WORD, 3)))
        if array.box:
            self.boxes[array.box] |= set(value.alts)
            for slot, slot_text in {
                SLOT[element_type]: slot_text for element_type, slot_text in value.alts.items()
            }.items():
                self.emit(f"{array.buf}_{slot}[{offset_text}] = {slot_text}")
            if len(self.boxes[array.box]) > 1:
                self.emit(
                    f"{array.buf}_tag[{offset_text}] = "
                    f"{value.tag if len(value.alts) > 1 else CODES[value.only[0]]}"
                )
            return
        slots, _ = self.dispatch([value], self.storing(element_type, node))
        self.emit(f"{array.buf}[{offset_text}] = {self._stored(array, slots[element_type])}")
        if array.mark:
            marking = self._marks(element_type)
            self.emit(
                f"m_{array.buf}[{offset_text}] {marking}", f"{array.mark}[{key_text}] {marking}"
            )

    def _marks(self, type_code: str) -> str:
        """Return the end of a statement that marks an element as stored, such as "= 257".

        The caller writes the beginning of the statement: an element of the array of marks.
        `type_code` is the type of the stored element.
        """
        return "|= wbit" if self.multi else f"= {MARKS[int(type_code[1])]}"

    def _stored(self, array: Arr, x: str) -> str:
        """Return the numba expression of `x`, converted to the type of the numbers in the buffer.

        The buffer of a HALF field contains the 16 bits of each number.
        """
        return f"half_bits({x})" if array.type == "f2" and not array.local else x

    # Methods for rows and slices

    def view(self, owner: Arr, index: ast.expr, node: ast.AST) -> Arr:
        """Return the part of an array that an index selects.

        The index has a slice, has fewer numbers than the array has axes, or selects a vector of a
        list.
        """
        index_nodes = index.elts if isinstance(index, ast.Tuple) else [index]
        if len(index_nodes) > len(owner.dims) or (
            (owner.rows or owner.box) and (len(index_nodes) > 1 or isinstance(index, ast.Slice))
        ):
            self.refuse(
                node,
                "a slice of a list" if len(index_nodes) == 1 else "this index",
                "a loop over its elements",
            )
        offset = owner.off
        is_free = owner.free
        dims: list[tuple[str, str]] = []
        texts = []
        remaining_dims = owner.dims[len(index_nodes) :]
        for index_node, (axis_length, stride) in zip(index_nodes, owner.dims, strict=False):
            if isinstance(index_node, ast.Slice):
                first_index, num_items, step, text = self._slice(index_node, axis_length, node)
                dims.append(
                    (num_items, stride if step == "1" else self.named(f"{stride} * {step}"))
                )
            else:
                index_number = self.num(index_node)
                first_index = self._index(index_number, axis_length, node)
                text = index_number.py
                is_free = is_free and not index_number.data
            offset = self.offset_of(owner, offset, first_index, stride)
            texts.append(text)
        owner = replace(owner, sized=True, free=is_free)
        return self.part(
            owner, offset, first_index, dims=(*dims, *remaining_dims), key=f"[{', '.join(texts)}]"
        )

    @staticmethod
    def offset_of(owner: Arr, off: str, first: str, step: str) -> str:
        """Return the numba expression of the offset of item number `first` along an axis.

        `off` is the offset of item 0, and `step` is the stride of the axis. For a list of vectors,
        the array `dims` contains the offset of each vector.
        """
        if owner.rows:
            return f"{off} + dims[{owner.rows} + 2 * {first}]"
        return f"{off} + {first} * {step}"

    def part(
        self, owner: Arr, off: str, first: str, dims: tuple[tuple[str, str], ...], key: str
    ) -> Arr:
        """Return the part `owner[key]` of an array, which begins at offset `off`.

        `dims` has the axes of the part. For a list of vectors, the part is vector number `first`,
        whose length is in the array that the numba code calls `dims`.
        """
        if owner.rows:
            dims = ((self.named(f"dims[{owner.rows} + 2 * {first} + 1]"), "1"),)
        mark = owner.mark and owner.mark + key
        return replace(owner, dims=dims, off=self.named(off), py=owner.py + key, mark=mark, rows="")

    def reshaped(self, owner: Any, *shape: Value, node: ast.expr) -> Arr:
        """Return a vector or matrix in another shape, with the same elements in row-major order."""
        owner = self._materialised(owner) if isinstance(owner, Vec) else owner
        dimensions = shape[0] if shape and isinstance(shape[0], list) else shape
        sizes = [self.single(length, node) for length in dimensions]
        is_plain = isinstance(owner, Arr) and owner.sized and not owner.rows and not owner.box
        if (
            not is_plain
            or len(owner.dims) > 2
            or not 1 <= len(sizes) <= 2
            or any(not set(length.alts) <= INTS for length in sizes)
        ):
            self.refuse(node, "this .reshape()", "a loop over its elements")
        texts = [length.py for length in sizes]
        (_, row_stride) = owner.dims[0]
        (row_length, element_stride) = owner.dims[-1]
        num_elements = self.named(" * ".join(length for length, _ in owner.dims))
        is_vector = len(owner.dims) == 1
        if not is_vector:  # numpy copies a matrix whose rows are not contiguous.
            self.refuse_if(self.multi and owner.mark, node, "a matrix's .reshape()")
            self.bail(f"{row_stride} != {row_length} * {element_stride}", node)
        known_lengths = [self.int64_text(length) for length in sizes if length.const != -1] or ["1"]
        inferred_length = self.named(f"{num_elements} // max(1, {' * '.join(known_lengths)})")
        length_texts = [
            inferred_length if length.const == -1 else self.named(self.int64_text(length))
            for length in sizes
        ]
        self.bail(
            f"min({', '.join(length_texts)}, 0) < 0 or "
            f"{' * '.join(length_texts)} != {num_elements}",
            node,
        )
        call_suffix = f".reshape({', '.join(texts)})"
        result: Arr = replace(
            owner,
            dims=(
                (
                    length_texts[0],
                    element_stride
                    if len(length_texts) == 1
                    else self.named(f"{length_texts[1]} * {element_stride}"),
                ),
                *[(length, element_stride) for length in length_texts[1:]],
            ),
            py=owner.py + call_suffix,
            mark=owner.mark and owner.mark + call_suffix,
            writable=owner.writable and (is_vector or owner.local),
        )
        return result

    def _read_only(self, array: Arr, node: ast.AST) -> NoReturn:
        """Refuse a store into an array that cannot be written."""
        field = self.codelet.fields.get(array.buf[2:])
        if array.box:
            self.refuse(node, "an assignment to a table", "an InOut")
        if field is not None and field.written:
            self.refuse(node, f"an assignment to {field.name}.reshape()", "its elements")
        self.refuse(node, f"an assignment to the Input {array.buf[2:]}", "an InOut")

    def _slice(
        self, slice_node: ast.Slice, axis_length: str, node: ast.AST
    ) -> tuple[str, str, str, str]:
        """Return the slice first:last:step as (first index, number of items, step, Python code).

        All except the Python code are numba expressions. `axis_length` is the numba expression of
        the length of the axis.
        """
        nodes = (slice_node.lower, slice_node.upper, slice_node.step)
        numbers = iter(
            [
                self.not_none(bound)
                for bound in self.nums(
                    [bound_node for bound_node in nodes if bound_node is not None]
                )
            ]
        )
        bound_texts = ["", "", "1"]
        python_texts = ["", "", ""]
        for position, operand in enumerate(nodes):
            if operand is not None:
                bound = next(numbers)
                self.refuse_if(not set(bound.alts) <= INTS - {"u8"}, node, "this slice")
                bound_texts[position] = self.int64_text(bound)
                python_texts[position] = bound.py
        first_text, last_text, step_text = bound_texts
        if step_text == "1":
            clamped_ends = [
                self.named(
                    f"max(0, {bound_text} + {axis_length}) if {bound_text} < 0 else "
                    f"min({bound_text}, {axis_length})"
                )
                if bound_text
                else ""
                for bound_text in (first_text, last_text)
            ]
            num_items = self.named(
                f"max(0, {clamped_ends[1] or axis_length} - {clamped_ends[0] or 0})"
            )
            return (
                clamped_ends[0] or "0",
                num_items,
                step_text,
                f"{python_texts[0]}:{python_texts[1]}",
            )
        self.bail(f"{step_text} == 0", node)
        begin_text = self.named(
            f"slice_end({first_text}, {axis_length}, {step_text})"
            if first_text
            else f"0 if {step_text} > 0 else {axis_length} - 1"
        )
        end_text = (
            f"slice_end({last_text}, {axis_length}, {step_text})"
            if last_text
            else f"{axis_length} if {step_text} > 0 else -1"
        )
        return (
            begin_text,
            self.named(f"range_len({begin_text}, {end_text}, {step_text})"),
            step_text,
            ":".join(python_texts),
        )

    # Methods for tables of constants

    def table(self, value: Sequence[object] | Array, node: ast.AST) -> Arr:
        """Return a table of constants as an `Arr`.

        `value` is a literal, or a list, tuple or array that belongs to the codelet or its module.
        The numbers of the table are written into the generated code.
        """
        numbers = value if isinstance(value, np.ndarray) else np.array(value, object)
        is_list = numbers.dtype == object
        values = numbers.reshape(-1).tolist() if is_list else list(numbers.reshape(-1))
        if not 0 < len(values) <= MOST_NUMBERS or not all(map(is_number, values)) or None in values:
            self.refuse(node, "this list of constants")
        constants = [self.constant(constant) for constant in values]
        py = nested_text([constant.py for constant in constants], numbers.shape)
        py = py if is_list else f"np.array({py}, {numpys(numbers.dtype)})"
        name = next(
            (table_name for table_name, known_table in self.tables.items() if known_table.py == py),
            f"K{len(self.tables)}",
        )
        types = self.boxes[name] = {constant.only[0] for constant in constants}
        lines = {}
        for slot in sorted({SLOT[known_table] for known_table in types}):
            texts = [
                constant.only[1] if SLOT[constant.only[0]] == slot else ZERO[slot]
                for constant in constants
            ]
            lines[f"{name}_{slot}"] = f"np.array([{', '.join(texts)}])"
        if len(types) > 1:
            lines[f"{name}_tag"] = (
                f"np.array({[CODES[constant.only[0]] for constant in constants]}, np.int8)"
            )
        self.tables[name] = ConstantTable(py, lines, constants)
        strides = [str(int(np.prod(numbers.shape[axis + 1 :]))) for axis in range(numbers.ndim)]
        dims = tuple(zip(map(Known, numbers.shape), strides, strict=True))
        return Arr(
            name, "?", dims=dims, off="0", py=name, writable=False, local=True, box=name, free=True
        )


def nested_text(texts: list[str], shape: tuple[int, ...], brackets: str = "()") -> str:
    """Return the source code of nested tuples of shape `shape`, or of lists if `brackets` is "[]".

    `texts` contains the items in row-major order.
    """
    texts_per_part = len(texts) // shape[0]
    part_texts = texts
    if len(shape) > 1:
        part_texts = [
            nested_text(
                texts[part_number * texts_per_part : part_number * texts_per_part + texts_per_part],
                shape[1:],
                brackets,
            )
            for part_number in range(shape[0])
        ]
    return f"{brackets[0]}{', '.join(part_texts)},{brackets[1]}"
