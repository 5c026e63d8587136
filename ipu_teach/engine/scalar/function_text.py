"""The two texts of a scalar loop, whole: its operations, printed with the target's prices, and a
head around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np

from ipu_teach.compile.scalar import ScalarCode
from ipu_teach.compile.scalar.operations import Block, Count, CountRegion, Finish, Line, Operation
from ipu_teach.cost.symbols import NAME, Symbol
from ipu_teach.cost.traced import UNIT, VERTEX_OVERHEAD, array_cycles, piece_cycles, together
from ipu_teach.target import Target

BESIDE = [Symbol(name, NAME) for name in ("vec", "loads", "stores")]
_HEAD = "import math\nimport numpy as np\n"
_COMPILED = "@njit(cache=CACHED, error_model='numpy', nogil=True{})\n"


def python_text(code: ScalarCode, target: Target, watched: bool = False) -> str:
    """A module with `vertex(worker, workers, most, longer, fields…, marks…, reads…)`, which returns
    cycles in units of `UNIT`.

    Where it has counted `most` of them at the head of a loop, it asks `longer` for a new limit,
    which may raise to end it. It raises something where compute() raises. If it is `watched` it
    tells `watch` (see `observe`) what runs and how loops turn.
    """
    args = [
        "worker",
        "workers",
        "most",
        "longer",
        *(f"f_{n}" for n in code.fields),
        *(f"m_f_{n}" for n in code.marked),
    ]
    args += [f"r_m_f_{n}" for n in code.marked] if code.multi else []
    tables = "".join(f"{name} = {table.py}\n" for name, table in code.tables.items())
    begin = [
        f"    cyc = {VERTEX_OVERHEAD * UNIT}",
        *(["    vec = loads = stores = 0"] if code.vectors else []),
    ]
    begin += ["    wbit = 1 << worker"] if code.multi else []
    begin += [
        f"    f_{n} = f_{n}[()]" for n, f in code.fields.items() if not f.depth and not f.written
    ]
    body = "\n".join([*begin, *_printed(code, target, "watched" if watched else "python")])
    imported = "from ipu_teach.types.regions import to_unsigned\n"
    imported += "from ipu_teach.compile.matrices import asked\n"
    return f"{_HEAD}{imported}{tables}\n\ndef vertex({', '.join(args)}):\n{body}\n"


def dims_of(code: ScalarCode) -> list[str]:
    """What stands for length and stride of each axis of each field: the same for every vertex.

    Of a list of vectors also the place in `dims` from which on there stands where each of them
    begins, and its length.
    """
    found = []
    for name, declared in code.fields.items():
        depth = 1 if name in code.lists else declared.depth
        found += [f"f_{name}_{what}{axis}" for axis in range(depth) for what in "ns"]
        found += [f"f_{name}_t"] if name in code.lists else []
    return found


@lru_cache(1024)
def compiled_text(
    code: ScalarCode, target: Target, unit: frozenset[str], small: bool = True
) -> str:
    """A module with `run(first, last, workers, starts, dims, stop, loops, cycles, returned,
    fields…, marks…, reads…)`.

    `starts`: int64[vertices, fields], where the fields begin; `dims`: see `dims_of`; `unit`: fields
    whose last axis has stride 1; `small`: the marks of workers are bytes. It ends at a vertex that
    cannot go on, or was stopped, and returns which.
    """
    arrays = [*(f"f_{n}" for n in code.fields), *(f"m_f_{n}" for n in code.marked)]
    arrays += [f"r_f_{n}" for n in code.marked] if code.multi else []
    shared = ["workers", "starts", "dims", "stop", "loops", "cycles", "returned", *arrays]
    dims = dims_of(code)
    strides = {f"f_{n}_s{f.depth - 1}" for n, f in code.fields.items() if f.depth and n in unit}
    known = [
        f"    {name} = {'1' if name in strides else f'dims[{k}]'}" for k, name in enumerate(dims)
    ]
    begin = [f"    f_{name}_o = starts[v, {k}]" for k, name in enumerate(code.fields)]
    begin += [f"    {slot} = {zero}" for slot, zero in code.slots.items()]
    begin += [f"    cyc = {VERTEX_OVERHEAD * UNIT}"]
    begin += ["    vec = loads = stores = 0"] if code.vectors else []
    if code.multi:
        begin += [
            "    wbit = np.uint8(1 << worker)" if small else "    wbit = np.uint64(1 << worker)"
        ]
    tables = "".join(
        f"{name} = {text}\n"
        for table in code.tables.values()
        for name, text in table.compiled.items()
    )
    body = "\n".join([*begin, *_printed(code, target, "compiled")])
    ahead = "".join(line + "\n" for line in known)
    worker = "        for worker in range(workers):\n" if code.multi else ""
    inner = "            " if worker else "        "
    of_run = ", ".join(shared)
    of_vertex = ", ".join([*shared, *dims])
    return (
        f"{_HEAD}from numba import njit\nfrom ipu_teach.engine.scalar.native import *\n{tables}\n\n"
        f"{_COMPILED.format(', forceinline=True')}def vertex(v, worker, {of_vertex}):\n{body}\n\n\n"
        f"{_COMPILED.format('')}def run(first, last, {of_run}):\n{ahead}    for v in range(first, "
        f"last):\n{worker}{inner}if vertex(v, {'worker' if worker else '0'}, {of_vertex}):\n"
        f"{inner}    return v\n    return last\n"
    )


def _printed(code: ScalarCode, target: Target, text: str) -> list[str]:
    """The lines of the operations in one of the texts: "compiled", "python" or "watched"."""
    pieces = [piece_cycles(piece, target) for piece in code.pieces]
    compiled, watched = text == "compiled", text == "watched"

    def said(operation: Operation) -> list[str]:
        match operation:
            case Line():
                line = getattr(operation, text) or (operation.python if watched else None)
                return [line] if line and (not operation.tag or operation.tag in code.slots) else []
            case Count(piece):
                return [f"cyc += {pieces[piece]}" + f"; watch.pieces[{piece}] += 1" * watched]
            case CountRegion(counter, rate, elements, times):
                n, factor = (elements[0], times[0]) if compiled else (elements[1], times[1])
                name, kind, _ = code.rates[rate]
                spent = f"{factor}({array_cycles(name, np.dtype(kind), Symbol(n), target)})"
                told = f"watch.beside('{counter}', {rate}, {spent})" if watched else spent
                return [f"{counter} += {told}"]
            case Finish(answer):
                end = [f"cyc += {together(BESIDE, target)}"] * code.vectors
                if not compiled:
                    back = f"cyc if {answer[1]} else ~cyc" if answer else "cyc"
                    return [*["watch.left()"] * watched, *end, f"return {back}"]
                end += [f"if not {answer[0]}: returned[v] = False"] if answer else []
                whole = f"(cyc + {UNIT - 1} >> {UNIT.bit_length() - 1})"
                most = f"max(cycles[v], {whole})" if code.multi else whole
                return [*end, f"cycles[v] = {most}", "return 0"]
        raise TypeError(operation)

    def lines(operations: Iterable[Operation], indent: str) -> Iterator[str]:
        for operation in operations:
            found = said(operation)
            yield from (indent + line for line in found)
            if found and isinstance(operation, Block):
                inner = indent + "    "
                yield from list(lines(operation.body, inner)) or [f"{inner}pass"]

    return list(lines(code.operations, "    "))
