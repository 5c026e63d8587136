"""Rows of docs/poplibs.md for popops.

They are element-wise operations, reductions, slices, sorting, fills and casts.
"""

from poplar_rows import Row


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _forms(
    name: str, operands: str, differs: str = "", cpp: str = "", in_place: bool = True
) -> Row:
    """Return the row of an operation that also has forms in place or with an output.

    `operands` is code for the operands in the row's example call.
    """
    stem = cpp or _camel(name)
    forms = [f"{name}_in_place"] * in_place + [f"{name}_with_output"]
    names = ", ".join([f"popops::{stem}"] + [f"{stem}InPlace"] * in_place + [f"{stem}WithOutput"])
    also = f"has the form{'s' * in_place} " + " and ".join(f"`{form}`" for form in forms)
    return Row(
        names,
        f"poplibs.popops.{name}",
        "; ".join(filter(None, (differs, also))),
        f"popops.{name}(graph, {operands}, prog)",
    )


_FLOATS = (
    "asin",
    "cbrt",
    "ceil",
    "cos",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "gelu_erf",
    "inv",
    "log",
    "log1p",
    "neg",
    "relu",
    "rsqrt",
    "sigmoid",
    "signum",
    "sin",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "abs",
)
_PAIRS = (
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "rem",
    "max",
    "min",
    "atan2",
    "eq",
    "neq",
    "lt",
    "lteq",
    "gt",
    "gteq",
    "inv_std_dev_to_variance",
    "variance_to_inv_std_dev",
)
_BITS = (
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_xnor",
    "shift_left",
    "shift_right",
    "shift_right_sign_extend",
)
_DIFFERS = {
    "div": "returns 0 for an integer division by 0",
    "erf": "is exact, and rounded once",
    "max": "returns NaN if one operand is NaN",
    "min": "returns NaN if one operand is NaN",
}

OF_TWO = [
    *(_forms(name, "t, t2", _DIFFERS.get(name, "")) for name in _PAIRS),
    *(_forms(name, "labels, labels") for name in _BITS),
    *(_forms(name, "flag, flag") for name in ("logical_and", "logical_or")),
]
OF_ONE = [
    *(_forms(name, "t", _DIFFERS.get(name, "")) for name in sorted(_FLOATS)),
    _forms("round", "t", "rounds numbers such as 0.5 away from 0"),
    _forms("nearby_int", "t", "rounds numbers such as 0.5 to the nearest even number"),
    _forms("is_finite", "t", in_place=False),
    _forms("is_inf", "t", in_place=False),
    _forms("is_nan", "t", cpp="isNaN", in_place=False),
    *(_forms(name, "labels") for name in ("bitwise_not", "popcount", "count_leading_zeros")),
    _forms("logical_not", "flag"),
]
OF_THREE = [
    _forms("select", "t, t2, flag"),
    _forms("clamp", "t, 0, 1"),
    Row(
        "popops::map, mapInPlace, mapWithOutput",
        "poplibs.popops.map",
        "adds one vertex to each tile, even for a single operation; accepts up to 8 tensors; has "
        "the forms `map_in_place` and `map_with_output`",
        "popops.map(graph, popops.expr.Tanh(popops.expr._1 * 2), [t], prog)",
    ),
    Row(
        "popops::expr::PlaceHolder, _1, _2, …",
        "poplibs.popops.expr.PlaceHolder",
        "are `expr._1` to `expr._8`; Python's operators build expressions from them",
        "popops.expr.PlaceHolder(1)",
    ),
    Row(
        "popops::expr::Const",
        "poplibs.popops.expr.Const",
        "may be replaced by a plain number",
        "popops.expr.Const(2)",
    ),
    Row(
        "popops::expr::Cast",
        "poplibs.popops.expr.Cast",
        "",
        "popops.expr.Cast(popops.expr._1, HALF)",
    ),
    Row(
        "popops::expr::Select, Clamp, Add, Tanh, …",
        "poplibs.popops.expr.Select",
        "there is one node for each operation, with the C++ names, including `IsNaN`, `Shl` and "
        "`ShrSE`",
        "popops.expr.Select(popops.expr._1, 0, popops.expr._1 > 0)",
        "For each element: the first where the third is true, else the second.",
    ),
]
REDUCTIONS = [
    Row(
        "popops::reduce",
        "poplibs.popops.reduce",
        "takes the operation as a word, or as `ReduceParams`",
        'popops.reduce(graph, t, [0], prog, "MAX")',
    ),
    Row(
        "popops::reduceWithOutput",
        "poplibs.popops.reduce_with_output",
        "",
        'popops.reduce_with_output(graph, t, vec, [0], prog, "ADD")',
    ),
    Row(
        "popops::reduceMany",
        "poplibs.popops.reduce_many",
        "returns the outputs",
        "popops.reduce_many(graph, [popops.SingleReduceOp(t, [0])], prog)",
    ),
    Row(
        "popops::ReduceParams",
        "poplibs.popops.ReduceParams",
        "accepts a number for the scale",
        'popops.ReduceParams("ADD", 0.5)',
    ),
    Row(
        "popops::SingleReduceOp",
        "poplibs.popops.SingleReduceOp",
        "",
        "popops.SingleReduceOp(t, [0])",
    ),
    Row(
        "(a reduction's plan)",
        "poplibs.popops.plan_reduce",
        "exists only in this kit; you can print it, or show it in a notebook",
        "popops.plan_reduce(100, 3, FLOAT, target)",
    ),
    Row("popops::allTrue", "poplibs.popops.all_true", "", "popops.all_true(graph, flag, prog)"),
    Row("popops::hasNaN", "poplibs.popops.has_nan", "", "popops.has_nan(graph, t, prog)"),
    Row(
        "popops::hasNaNOrInf",
        "poplibs.popops.has_nan_or_inf",
        "",
        "popops.has_nan_or_inf(graph, t, prog)",
    ),
]
IN_PLACE = [
    Row(
        "popops::scaledAddTo",
        "poplibs.popops.scaled_add_to",
        "takes the factor, k, before prog",
        "popops.scaled_add_to(graph, t, t2, 0.5, prog)",
    ),
    Row(
        "popops::scaledAddTo (axpby)",
        "poplibs.popops.axpby_to",
        "has a name of its own, and computes a = ka a + kb b; also accepts "
        "`ScaledAddSpecialisation`",
        "popops.axpby_to(graph, t, 0.9, t2, 0.1, prog)",
    ),
    Row(
        "popops::scaledSubtractFrom",
        "poplibs.popops.scaled_subtract_from",
        "",
        "popops.scaled_subtract_from(graph, t, t2, 0.5, prog)",
    ),
    Row(
        "popops::cast",
        "poplibs.popops.cast",
        "has the form `cast_with_output`; use `expr.Cast` within an expression",
        "popops.cast(graph, t, HALF, prog)",
    ),
    Row("popops::fill", "poplibs.popops.fill", "", "popops.fill(graph, t, prog, 1)"),
    Row(
        "popops::zero",
        "poplibs.popops.zero",
        "appends to prog; there is no form for a compute set",
        "popops.zero(graph, t, prog)",
    ),
    Row("popops::iota", "poplibs.popops.iota", "", "popops.iota(graph, labels, 3, prog)"),
    Row(
        "popops::encodeOneHot",
        "poplibs.popops.encode_one_hot",
        "takes on and off as keywords",
        "popops.encode_one_hot(graph, labels, t, prog)",
    ),
    Row(
        "popops::pad",
        "poplibs.popops.pad",
        "is one function, with `PaddingType.CONSTANT`, `EDGE` and `REFLECT`",
        "popops.pad(graph, t, [1, 0], [0, 2])",
    ),
    Row(
        "popops::rearrange::regroupTensor",
        "poplibs.popops.rearrange",
        "keeps the order of the tensor's elements",
        "popops.rearrange(graph, t, prog)",
    ),
    Row(
        "popops::rearrange::partialTranspose",
        "poplibs.popops.transpose",
        "transposes the last two dimensions",
        "popops.transpose(graph, t, prog)",
    ),
    Row(
        "popops::normaliseImage",
        "poplibs.popops.normalise_image",
        "",
        "popops.normalise_image(graph, t.reshape((2, 4, 3)), 0.1, vec[:3], vec[3:], prog)",
    ),
]
SLICES = [
    Row(
        "popops::createSliceableTensor",
        "poplibs.popops.create_sliceable_tensor",
        "takes no sizes and no grain; the plan is a keyword",
        "popops.create_sliceable_tensor(graph, FLOAT, (5, 8), [0])",
    ),
    Row(
        "popops::createSliceTensor",
        "poplibs.popops.create_slice_tensor",
        "",
        "popops.create_slice_tensor(graph, t, [0], [1], 3)",
    ),
    Row(
        "popops::dynamicSlice",
        "poplibs.popops.dynamic_slice",
        "treats an offset beyond the end as 0",
        "popops.dynamic_slice(graph, t, labels[:1], [0], [2], prog)",
    ),
    Row(
        "popops::dynamicSliceWithOutput",
        "poplibs.popops.dynamic_slice_with_output",
        "",
        "popops.dynamic_slice_with_output(graph, t2[:2], t, labels[:1], [0], [2], prog)",
    ),
    Row(
        "popops::dynamicUpdate",
        "poplibs.popops.dynamic_update",
        "",
        "popops.dynamic_update(graph, t, t2[:2], labels[:1], [0], [2], prog)",
    ),
    Row(
        "popops::embedding::plan",
        "poplibs.popops.embedding_plan",
        "partitions rows and columns, but not lookups; you can print the plan, or show it in a "
        "notebook",
        "popops.embedding_plan(graph, FLOAT, 100, 8, [20])",
    ),
    Row(
        "popops::SlicePlan",
        "poplibs.popops.SlicePlan",
        "is returned by `embedding_plan`",
        "popops.SlicePlan",
    ),
    Row(
        "popops::createIndicesTensor",
        "poplibs.popops.create_indices_tensor",
        "",
        "popops.create_indices_tensor(graph, [0], 5)",
    ),
    Row(
        "popops::sequenceSlice",
        "poplibs.popops.sequence_slice",
        "leaves out rows outside the tensor",
        "popops.sequence_slice(graph, t, t2, labels, labels, labels, False, prog)",
    ),
    Row(
        "popops::createHostSliceableTensor",
        "poplibs.popops.create_host_sliceable_tensor",
        "",
        "popops.create_host_sliceable_tensor(graph, FLOAT, (2, 300), True)",
    ),
    Row(
        "popops::createHostTransferableTensor",
        "poplibs.popops.create_host_transferable_tensor",
        "",
        "popops.create_host_transferable_tensor(graph, FLOAT, (2, 300), True)",
    ),
    Row(
        "popops::CircBuf",
        "poplibs.popops.CircBuf",
        "begins with entries that are all 0; `getIndex()` is `index`",
        "popops.CircBuf(graph, FLOAT, 4, (3,))",
    ),
    Row(
        "popops::multiSlice",
        "poplibs.popops.multi_slice",
        "returns zeros where there is no such slice; plan and options are keywords",
        "popops.multi_slice(graph, t, labels.expand([1]), [0], [1], prog)",
    ),
    Row(
        "popops::multiUpdate",
        "poplibs.popops.multi_update",
        "takes plan and options as keywords",
        "popops.multi_update(graph, t, t2.expand([1]), labels.expand([1]), [0], [1], prog)",
    ),
    Row(
        "popops::multiUpdateAdd",
        "poplibs.popops.multi_update_add",
        "takes plan and options as keywords, and accepts a number for the scale",
        "popops.multi_update_add(graph, t, t2.expand([1]), labels.expand([1]), 0.1, [0], [1], "
        "prog)",
    ),
    Row(
        "popops::multiUpdateMax",
        "poplibs.popops.multi_update_max",
        "takes plan and options as keywords",
        "popops.multi_update_max(graph, t, t2.expand([1]), labels.expand([1]), [0], [1], prog)",
    ),
    Row(
        "popops::gather",
        "poplibs.popops.gather",
        "",
        "popops.gather(graph, t, labels, 1, [1], [1, 6], [0], [0], prog)",
    ),
    Row(
        "popops::scatter",
        "poplibs.popops.scatter",
        "takes a function of the old and the new value as the keyword `update_computation`",
        "popops.scatter(graph, t, labels, t2, 1, [1], [0], [0], prog)",
    ),
    Row(
        "popops::selectScalarFromRows",
        "poplibs.popops.select_scalar_from_rows",
        "",
        "popops.select_scalar_from_rows(graph, t, labels, prog)",
    ),
    Row(
        "popops::updateScalarInRows",
        "poplibs.popops.update_scalar_in_rows",
        "",
        "popops.update_scalar_in_rows(graph, t, labels, prog)",
    ),
]
ORDER = [
    Row(
        "popops::topK",
        "poplibs.popops.top_k",
        "merges sorted chunks on one tile, or by ranks over many tiles, as a plan decides; "
        "PopLibs uses a bitonic network. Equal elements keep their order. It is reversed if the "
        "largest elements are returned in ascending order, or the smallest in descending order",
        "popops.top_k(graph, popops.TopKParams(2), t, prog)",
    ),
    Row(
        "popops::topKKeyValue",
        "poplibs.popops.top_k_key_value",
        "",
        "popops.top_k_key_value(graph, popops.TopKParams(2), t, t2, prog)",
    ),
    Row(
        "popops::topKWithPermutation",
        "poplibs.popops.top_k_with_permutation",
        "",
        "popops.top_k_with_permutation(graph, popops.TopKParams(2), t, prog)",
    ),
    Row(
        "popops::TopKParams",
        "poplibs.popops.TopKParams",
        "is always stable",
        "popops.TopKParams(3, largest=False)",
    ),
    Row("popops::SortOrder", "poplibs.popops.SortOrder"),
    Row(
        "popops::sort, sortInPlace",
        "poplibs.popops.sort",
        "has the form `sort_in_place`",
        "popops.sort(graph, t, 0, prog)",
    ),
    Row(
        "popops::sortKeyValue, sortKeyValueInPlace",
        "poplibs.popops.sort_key_value",
        "has the form `sort_key_value_in_place`",
        "popops.sort_key_value(graph, t, t2, 0, prog)",
    ),
]
REST = [
    Row(
        "popops::countedLoop",
        "poplibs.popops.counted_loop",
        "has an INT as its counter, and returns the program",
        "popops.counted_loop(graph, 0, 4, 1, lambda counter: Sequence())",
    ),
    Row(
        "popops::countedForLoop",
        "poplibs.popops.counted_for_loop",
        "reads the limit before every iteration",
        "popops.counted_for_loop(graph, number, 0, number, 1, Sequence())",
    ),
    Row(
        "popops::addCodelets",
        "poplibs.popops.add_codelets",
        "does not have to be called",
        "popops.add_codelets(graph)",
    ),
    Row("popops::splineBasis, splineWeighting", "", "an expression of `popops.map`"),
]

POPOPS = {
    "popops: two operands": OF_TWO,
    "popops: one operand": OF_ONE,
    "popops: three operands and expressions": OF_THREE,
    "popops: reductions": REDUCTIONS,
    "popops: updates, casts, fills": IN_PLACE,
    "popops: slices": SLICES,
    "popops: order": ORDER,
    "popops: the rest": REST,
}
