"""Functions for compiled scalar loops, with exactly the results of numpy's or Python's arithmetic.

Only numba code imports this module. `compile.scalar` generates code that calls these functions by
name. Nothing here uses fast math: every float operation is a single IEEE operation.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

exact = njit(error_model="numpy", nogil=True, inline="never")


@intrinsic
def stopped(typingctx, words):
    """Return whether the first number of the array `words` is not 0.

    The load is atomic, because the compiler would move a plain load out of a loop that stores
    nothing.
    """

    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        word = builder.load_atomic(array.data, ordering="monotonic", align=8)
        return builder.icmp_signed("!=", word, word.type(0))

    return types.boolean(words), codegen


def _called(builder, function, data, ends, steps, counts):
    """Generate a call of `function`, one of numpy's inner loops, with the data `data`.

    Its C signature is (char **args, npy_intp *dimensions, npy_intp *steps, void *data). `ends`
    contains the pointers for `args`, and `counts` the numbers for `dimensions`.
    """
    int64_type = ir.IntType(64)
    byte_pointer = ir.IntType(8).as_pointer()
    tables = []
    for value_type, values in ((byte_pointer, ends), (int64_type, counts), (int64_type, steps)):
        table = cgutils.alloca_once(builder, ir.ArrayType(value_type, len(values)))
        for position, value in enumerate(values):
            builder.store(
                value,
                builder.gep(
                    table, [ir.Constant(ir.IntType(32), 0), ir.Constant(ir.IntType(32), position)]
                ),
            )
        tables.append(builder.bitcast(table, value_type.as_pointer()))
    value_type = ir.FunctionType(
        ir.VoidType(),
        [byte_pointer.as_pointer(), int64_type.as_pointer(), int64_type.as_pointer(), byte_pointer],
    ).as_pointer()
    builder.call(
        builder.inttoptr(function, value_type), [*tables, builder.inttoptr(data, byte_pointer)]
    )


def _place(context, builder, kind, array, at):
    """Return the LLVM pointer to element `at` of an array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), ir.IntType(8).as_pointer())


def _over(context, builder, signature, args, arrays, steps, counts):
    """Generate a call of one of numpy's inner loops for matrices, for one set of operands.

    `arrays` contains the index of each array in `args`. In `args`, each array except the last is
    followed by the number of the operand's first element in this array. `steps` are the strides of
    the matrices in elements, and `counts` are the lengths of their axes.
    """
    element_bytes = context.get_abi_sizeof(context.get_data_type(signature.args[2].dtype))
    first_elements = [*(args[argument_index + 1] for argument_index in arrays[:-1]), _whole(0)]
    ends = [
        _place(
            context, builder, signature.args[argument_index], args[argument_index], first_element
        )
        for argument_index, first_element in zip(arrays, first_elements, strict=True)
    ]
    steps = [builder.mul(step, _whole(element_bytes)) for step in steps]
    # The steps from one set of operands to the next. They are 0, because there is only one set.
    no_step = [_whole(0)] * len(arrays)
    _called(
        builder,
        args[0],
        args[1],
        ends=ends,
        steps=[*no_step, *steps],
        counts=[_whole(1), *counts],
    )
    return context.get_dummy_value()


def _whole(n):
    """Return the LLVM constant `n` of type int64."""
    return ir.Constant(ir.IntType(64), n)


def _one_element(context, builder, signature, args):
    """Generate a call of numpy's inner loop for one element, and return the result.

    The steps are those that numpy uses for a scalar, because for arrays, some loops compute in
    another way, and the last bit may differ.
    """
    element_type = context.get_value_type(signature.return_type)
    byte_pointer = ir.IntType(8).as_pointer()
    places = [cgutils.alloca_once(builder, element_type) for _ in args[1:]]
    for place, operand in zip(places[:-1], args[2:], strict=True):
        builder.store(operand, place)
    ends = [builder.bitcast(place, byte_pointer) for place in places]
    _called(builder, args[0], args[1], ends=ends, steps=[_whole(0)] * len(ends), counts=[_whole(1)])
    return builder.load(places[-1])


@intrinsic
def call_loop1(typingctx, function, data, x):
    """Return the result of a numpy function of one argument, such as np.exp(x), bit for bit.

    `function` and `data` are the addresses of numpy's inner loop and of its data.
    """
    return x(types.int64, types.int64, x), _one_element


@intrinsic
def call_loop2(typingctx, function, data, x, y):
    """Return the result of a numpy function of two arguments, such as np.remainder(x, y).

    `function` and `data` are as in `call_loop1`.
    """
    return x(types.int64, types.int64, x, x), _one_element


def _of_doubles(context, builder, signature, args):
    """Generate a call of a C function of doubles by its address, and return the result."""
    double = ir.DoubleType()
    kind = ir.FunctionType(double, [double] * len(args[2:])).as_pointer()
    return builder.call(builder.inttoptr(args[0], kind), args[2:])


@intrinsic
def call_double1(typingctx, function, data, x):
    """Return the result of a C function of one double, such as math.erf(x).

    `function` is the address of the function; `data` is not used.
    """
    double = types.float64
    return double(types.int64, types.int64, double), _of_doubles


@intrinsic
def call_double2(typingctx, function, data, x, y):
    """Return the result of a C function of two doubles, such as math.hypot(x, y).

    `function` is the address of the function; `data` is not used.
    """
    double = types.float64
    return double(types.int64, types.int64, double, double), _of_doubles


@intrinsic
def call_double3(typingctx, function, data, x, y, z):
    """Return the result of a C function of three doubles, such as math.hypot(x, y, z).

    `function` is the address of the function; `data` is not used.
    """
    double = types.float64
    return double(types.int64, types.int64, double, double, double), _of_doubles


@intrinsic
def reduce_loop(typingctx, function, data, array, at, count, step, start):
    """Return the reduction of `count` elements of an array by numpy's inner loop.

    The elements begin at element `at` and are `step` apart. The result has the initial value
    `start`. `function` and `data` are the addresses of the loop and of its data.
    """

    def codegen(context, builder, signature, args):
        kind = context.get_data_type(start)
        p8 = ir.IntType(8).as_pointer()
        result = cgutils.alloca_once(builder, kind)
        builder.store(args[6], result)
        total = builder.bitcast(result, p8)
        none = _whole(0)
        step = builder.mul(args[5], _whole(context.get_abi_sizeof(kind)))
        items = _place(context, builder, signature.args[2], args[2], args[3])
        _called(
            builder,
            args[0],
            args[1],
            ends=[total, items, total],
            steps=[none, step, none],
            counts=[args[4]],
        )
        return builder.load(result)

    return start(
        types.int64, types.int64, array, types.int64, types.int64, types.int64, start
    ), codegen


@intrinsic
def product_loop(typingctx, function, data, x, xo, y, yo, out, m, n, p, xm, xn, yn, yp, om):
    """Call numpy's inner loop of `@` for an m x n matrix x and an n x p matrix y.

    The matrices begin at element `xo` of x and `yo` of y. `xm` is the stride from one row of x to
    the next, and `xn` from one column to the next. `yn` and `yp` are these strides of y, and `om`
    is the row stride of the result. All strides are in elements.
    """

    def codegen(context, builder, signature, args):
        steps = (*args[10:], _whole(1))
        return _over(context, builder, signature, args, (2, 4, 6), steps, args[7:10])

    i8 = types.int64
    return types.void(i8, i8, x, i8, y, i8, out, *[i8] * 8), codegen


@intrinsic
def matrix_loop(typingctx, function, data, x, xo, out, m, n):
    """Call numpy's inner loop of a function of one matrix, such as np.linalg.inv.

    The matrix is m x n and row-major, and begins at element `xo` of x. The elements of a resulting
    vector are n apart.
    """

    def codegen(context, builder, signature, args):
        return _over(context, builder, signature, args, (2, 4), [args[6], _whole(1)] * 2, args[5:])

    i8 = types.int64
    return types.void(i8, i8, x, i8, out, i8, i8), codegen


@exact
def to_half(x):
    """Return a double rounded to half (once, to nearest even), as a single."""
    a = abs(x)
    if not a < 65520.0:
        return np.float32(x) if a != a else np.float32(np.copysign(np.inf, x))
    if a < 6.103515625e-05:  # Halves below the normal range are multiples of 2**-24.
        a = (a + 402653184.0) - 402653184.0
        return np.float32(np.copysign(a, x))
    u = np.float64(a).view(np.int64)
    u = ((u + 0x1FFFFFFFFFF + ((u >> 42) & 1)) >> 42) << 42
    return np.float32(np.copysign(np.int64(u).view(np.float64), x))


@exact
def half_value(bits):
    """Return a half as a single, from its 16 bits."""
    u = np.int64(bits)
    e = (u >> 10) & 31
    m = u & 1023
    if e == 0:
        a = np.float32(m) * np.float32(5.9604644775390625e-08)
        return -a if u & 0x8000 else a
    w = (
        ((u & 0x8000) << 16) | ((e + 112) << 23) | (m << 13)
        if e < 31
        else ((u & 0x8000) << 16) | 0x7F800000 | (m << 13)
    )
    return np.uint32(w).view(np.float32)


@exact
def half_bits(x):
    """Return the 16 bits of the half that is equal to the single `x`."""
    u = np.int64(np.float32(x).view(np.uint32))
    s = (u >> 16) & 0x8000
    a = u & 0x7FFFFFFF
    if a >= 0x7F800000:
        m = (a & 0x7FFFFF) >> 13
        return np.uint16(s | 0x7C00 | (m if m or a == 0x7F800000 else 1))
    if a < 0x38800000:
        return np.uint16(s | np.int64(abs(x) * np.float32(16777216.0)))
    return np.uint16(s | ((a >> 13) - (112 << 10)))


@exact
def wrap(x, bits, signed):
    """Return an int64 wrapped around to the range of an integer of `bits` bits."""
    if signed:
        return (x << (64 - bits)) >> (64 - bits)
    return x & ((1 << bits) - 1)


@exact
def floordiv(a, b):
    """Return a // b of integers. b must not be 0."""
    # Dividing the smallest integer by -1 would trap the processor.
    return -a if b == -1 else a // b


@exact
def mod(a, b):
    """Return a % b of integers. b must not be 0."""
    return np.int64(0) if b == -1 else a % b


@exact
def shift(a, k, bits, left):
    """Return an integer shifted by `k` bits as numpy shifts it.

    If `k` is at least `bits` or negative, the result is 0, except that a negative integer shifted
    to the right gives -1.
    """
    if k < 0 or k >= bits:
        return np.int64(0) if left or a >= 0 else np.int64(-1)
    return a << k if left else a >> k


@exact
def ipow(a, n):
    """Return an integer to the power n, which is 0 or more."""
    r = np.int64(1)
    while n > 0:
        if n & 1:
            r *= a
        a *= a
        n >>= 1
    return r


@exact
def np_max(a, b):
    """Return np.maximum(a, b), which is NaN if a or b is NaN."""
    return a if a >= b or a != a else b


@exact
def np_min(a, b):
    """Return np.minimum(a, b), which is NaN if a or b is NaN."""
    return a if a <= b or a != a else b


@exact
def range_len(a, b, s):
    """Return len(range(a, b, s))."""
    if s > 0:
        return max(np.int64(0), (b - a + s - 1) // s)
    return max(np.int64(0), (a - b - s - 1) // -s)


@exact
def slice_end(x, n, s):
    """Return the start or stop `x` of a slice, limited as in Python to a number from -1 to n.

    `n` is the length of the axis, and `s` is the step of the slice. A negative `x` counts from the
    end of the axis.
    """
    if x < 0:
        x += n
    if s > 0:
        return min(max(x, np.int64(0)), n)
    return min(max(x, np.int64(-1)), n - 1)


@exact
def product_fits(a, b):
    """Return whether the magnitude of a * b, computed in double precision, is below 2**61."""
    return abs(np.float64(a) * np.float64(b)) < 2.0**61
