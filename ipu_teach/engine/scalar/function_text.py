"""Print a translated codelet as the source code of two modules, one for Python and one for numba.

Both modules contain the operations of the translation, and count cycles with the target's prices.
"""

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
    """Return the source code of a Python module, whose function `vertex` runs one vertex.

    The function is `vertex(worker, workers, most, longer, fields…, marks…, reads…)`. It returns the
    vertex's cycles in units of 1/`UNIT` cycle, inverted (~) if compute() returns false. Each
    iteration of a loop begins with a check: if more than `most` units have been counted,
    `longer(cycles)` is called. `longer` returns the next limit, or raises an error to end the
    vertex. The function raises an error in the same cases as compute(). With `watched`, it calls
    the object `watch`, which counts the statements that run and the iterations of loops (see
    `observer.watch`).
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
    begin = [f"    cyc = {VERTEX_OVERHEAD * UNIT}"]
    if code.vectors:
        begin.append("    vec = loads = stores = 0")
    if code.multi:
        begin.append("    wbit = 1 << worker")
    begin += [
        f"    f_{n} = f_{n}[()]" for n, f in code.fields.items() if not f.depth and not f.written
    ]
    body = "\n".join([*begin, *_print_operations(code, target, "watched" if watched else "python")])
    imported = "from ipu_teach.types.regions import to_unsigned\n"
    imported += "from ipu_teach.compile.matrices import call_noting\n"
    return f"{_HEAD}{imported}{tables}\n\ndef vertex({', '.join(args)}):\n{body}\n"


def dims_of(code: ScalarCode) -> list[str]:
    """Return the names of the variables that `run` reads from its argument `dims`, in order.

    They are the length and the stride of each axis of each field, which are the same for all
    vertices. A list of vectors has a further variable: the index in `dims` from which the starts
    and lengths of its vectors are stored.
    """
    names = []
    for name, declared in code.fields.items():
        depth = 1 if name in code.lists else declared.depth
        names += [f"f_{name}_{suffix}{axis}" for axis in range(depth) for suffix in "ns"]
        names += [f"f_{name}_t"] if name in code.lists else []
    return names


@lru_cache(1024)
def compiled_text(
    code: ScalarCode,
    target: Target,
    unit_stride_fields: frozenset[str],
    has_byte_marks: bool = True,
) -> str:
    """Return the source code of a module for numba, whose function `run` runs several vertices.

    The function is `run(first, last, workers, starts, dims, stop, loops, cycles, returned, fields…,
    marks…, reads…)`. `starts` is int64[vertices, fields], the start of each field. For `dims`, see
    `dims_of`. `unit_stride_fields` contains the names of the fields whose last axis has stride 1.
    With `has_byte_marks`, each mark of workers is one byte, and otherwise eight. If `run` cannot
    continue with a vertex, or is stopped in it, `run` returns the number of this vertex; otherwise,
    it returns `last`.
    """
    arrays = [
        *(f"f_{field_name}" for field_name in code.fields),
        *(f"m_f_{field_name}" for field_name in code.marked),
    ]
    arrays += [f"r_f_{field_name}" for field_name in code.marked] if code.multi else []
    shared = ["workers", "starts", "dims", "stop", "loops", "cycles", "returned", *arrays]
    dims = dims_of(code)
    strides = {
        f"f_{field_name}_s{field.depth - 1}"
        for field_name, field in code.fields.items()
        if field.depth and field_name in unit_stride_fields
    }
    unpacked = [
        f"    {name} = {'1' if name in strides else f'dims[{position}]'}"
        for position, name in enumerate(dims)
    ]
    first_lines = [
        f"    f_{name}_o = starts[v, {position}]" for position, name in enumerate(code.fields)
    ]
    first_lines += [f"    {slot} = {zero}" for slot, zero in code.slots.items()]
    first_lines += [f"    cyc = {VERTEX_OVERHEAD * UNIT}"]
    first_lines += ["    vec = loads = stores = 0"] if code.vectors else []
    if code.multi:
        first_lines += [
            "    wbit = np.uint8(1 << worker)"
            if has_byte_marks
            else "    wbit = np.uint64(1 << worker)"
        ]
    tables = "".join(
        f"{name} = {text}\n"
        for table in code.tables.values()
        for name, text in table.compiled.items()
    )
    body = "\n".join([*first_lines, *_print_operations(code, target, "compiled")])
    dims_lines = "".join(line + "\n" for line in unpacked)
    worker_loop = "        for worker in range(workers):\n" if code.multi else ""
    indent = "            " if worker_loop else "        "
    run_parameters = ", ".join(shared)
    vertex_parameters = ", ".join([*shared, *dims])
    return (
        f"{_HEAD}from numba import njit\nfrom ipu_teach.engine.scalar.native import *\n{tables}\n\n"
        f"{_COMPILED.format(', forceinline=True')}def vertex(v, worker, {vertex_parameters}):\n"
        f"{body}\n\n\n{_COMPILED.format('')}def run(first, last, {run_parameters}):\n{dims_lines}"
        f"    for v in range(first, last):\n{worker_loop}{indent}"
        f"if vertex(v, {'worker' if worker_loop else '0'}, {vertex_parameters}):\n"
        f"{indent}    return v\n    return last\n"
    )


def _print_operations(code: ScalarCode, target: Target, text_kind: str) -> list[str]:
    """Return the operations as lines of source code.

    `text_kind` is "compiled" for numba code, "python" for Python code, and "watched" for Python
    code that reports what it does.
    """
    pieces = [piece_cycles(piece, target) for piece in code.pieces]
    is_compiled = text_kind == "compiled"
    is_watched = text_kind == "watched"

    def printed(operation: Operation) -> list[str]:
        match operation:
            case Line():
                line = getattr(operation, text_kind) or (operation.python if is_watched else None)
                is_needed = not operation.tag or operation.tag in code.slots
                return [line] if line and is_needed else []
            case Count(piece):
                line = f"cyc += {pieces[piece]}"
                return [f"{line}; watch.pieces[{piece}] += 1" if is_watched else line]
            case CountRegion(counter, rate, elements, times):
                element_text, factor = (
                    (elements[0], times[0]) if is_compiled else (elements[1], times[1])
                )
                name, kind, _ = code.rates[rate]
                amount = (
                    f"{factor}({array_cycles(name, np.dtype(kind), Symbol(element_text), target)})"
                )
                if is_watched:
                    amount = f"watch.count_work('{counter}', {rate}, {amount})"
                return [f"{counter} += {amount}"]
            case Finish(answer):
                last_lines = [f"cyc += {together(BESIDE, target)}"] if code.vectors else []
                if not is_compiled:
                    result = f"cyc if {answer[1]} else ~cyc" if answer else "cyc"
                    return [
                        *(["watch.leave()"] if is_watched else []),
                        *last_lines,
                        f"return {result}",
                    ]
                last_lines += [f"if not {answer[0]}: returned[v] = False"] if answer else []
                cycles = f"(cyc + {UNIT - 1} >> {UNIT.bit_length() - 1})"
                slowest = f"max(cycles[v], {cycles})" if code.multi else cycles
                return [*last_lines, f"cycles[v] = {slowest}", "return 0"]
        raise TypeError(operation)

    def lines(operations: Iterable[Operation], indent: str) -> Iterator[str]:
        for operation in operations:
            printed_lines = printed(operation)
            yield from (indent + line for line in printed_lines)
            if printed_lines and isinstance(operation, Block):
                inner_indent = indent + "    "
                yield from list(lines(operation.body, inner_indent)) or [f"{inner_indent}pass"]

    return list(lines(code.operations, "    "))
