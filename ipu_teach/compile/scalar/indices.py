"""Indices of single elements of arrays in a scalar loop, and the checks of their range."""

from __future__ import annotations

import ast

from ipu_teach.compile.scalar.kinds import INTS
from ipu_teach.compile.scalar.operations import Block, Finish, Leave, Line
from ipu_teach.compile.scalar.values import LENGTH, Arr, Fixed, Known, Num
from ipu_teach.compile.scalar.variable_walk import VariableWalk


class Indices(VariableWalk):
    """Indices of elements, their range checks, and the offsets of the elements."""

    def length(self, array: Arr, axis: int, node: ast.AST) -> Num:
        """Return the length of an array's axis as a number."""
        self.refuse_if(not array.sized, node, "the length of a ONE_PTR field")
        py = f"len({array.py})" if axis == 0 else f"{array.py}.shape[{axis}]"
        n = array.dims[axis][0]
        return self.constant(int(n)) if isinstance(n, Known) else Num({"wi": n}, py, bound=LENGTH)

    def keys(self, owner: Arr, node: ast.expr) -> list[Num] | None:
        """Return the index of a single element as numbers, one for each axis.

        Return None if the index selects a row, a slice, or a vector of a list.

        :raises Refused: if it is any other index.
        """
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        if (
            len(parts) != len(owner.dims)
            or owner.rows
            or any(isinstance(p, ast.Slice) for p in parts)
        ):
            return None
        return self.nums(list(parts))

    def place(self, array: Arr, keys: list[Num], node: ast.AST) -> str:
        """Return the numba expression of an element's offset, after writing its range checks."""
        at = array.off
        for key, (n, s) in zip(keys, array.dims, strict=True):
            k = self._index(key, n, node)
            at = f"{at} + {k}" if s == "1" else f"{at} + {k} * {s}"
        return at

    def _index(self, key: Num, axis_length: str, node: ast.AST) -> str:
        """Return the numba expression of an index that counts from the front and is in range.

        Code that checks the range is written. `axis_length` is the numba expression of the length
        of the axis.
        """
        key = self.not_none(key)
        self.refuse_if(
            not set(key.alts) <= INTS,
            node,
            "an index that is not a whole number",
            "an int as the index, such as i of `for i in range(len(row))`,",
        )
        if key.affine is not None and self._checked_ahead(*key.affine, axis_length, node):
            return key.only[1]
        if key.const is not None:
            index_name = self.named(
                str(key.const) if key.const >= 0 else f"{axis_length} + {key.const}"
            )
        else:
            int64_text = self.int64_text(key)
            index_name = self.named(
                f"{int64_text} + {axis_length} if {int64_text} < 0 else {int64_text}"
            )
        self.bail(f"{index_name} < 0 or {index_name} >= {axis_length}", node)
        return index_name

    def _checked_ahead(self, counter: str, extra: int, axis_length: str, node: ast.AST) -> bool:
        """Return whether an index in a loop needs no range check in each iteration.

        The index is `counter` + `extra`, on an axis of length `axis_length`. It needs no check in
        the iterations if the range of the loop is within the axis, or if this function can write
        one check before the loop. It writes such a check only outside branches, because the vertex
        might never access the element in a branch. A compiler can vectorise a loop without checks.
        """
        range_start, range_end = self.ranges.get(counter, ("", ""))
        check = f"if {range_end} > {range_start} and {range_end} + {extra} > {axis_length}:"
        if not range_start or min(int(range_start), int(range_start) + extra) < 0:
            return False
        if (range_end == axis_length and extra <= 0) or check in self.ahead.get(counter, ()):
            return True
        if not isinstance(axis_length, Fixed):
            return False
        for outer_block, open_block in zip(self.open[-2::-1], self.open[::-1], strict=False):
            if not open_block.counter or any(
                isinstance(operation, (Leave, Finish)) for operation in open_block.all()
            ):
                return False
            if open_block.counter == counter:
                self.ahead[counter].add(check)
                line_number = getattr(node, "lineno", 0) or self.line or 1
                outer_block.body.insert(-1, Block(check, body=[Line(f"return {line_number}")]))
                return True
        return False

    def int64_text(self, a: Num) -> str:
        """Return the numba expression of an integer or a bool as an int64."""
        if len(a.alts) == 1 and "u8" not in a.alts:
            return a.only[1]

        def make(types: list[str], texts: list[str]) -> tuple[str, str]:
            return "i8", f"np.int64({texts[0]})" if types[0] == "u8" else texts[0]

        return self.dispatch([a], make)[0]["i8"]
