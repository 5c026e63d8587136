"""poplin: products of matrices, convolutions."""

from poplar_rows import Row

OPTIONS = "options `partials_type`, `available_memory_proportion`"

POPLIN = [
    Row(
        "poplin::matMul", "poplibs.poplin.mat_mul", f"also QUARTER; {OPTIONS}, and a `plan` of one's own",
        "poplin.mat_mul(graph, t, t.T, prog)",
    ),
    Row(
        "poplin::matMulGrouped", "poplibs.poplin.mat_mul_grouped", OPTIONS,
        "poplin.mat_mul_grouped(graph, t.expand([0]), t.T.expand([0]), prog)",
    ),
    Row(
        "poplin::matMulAcc", "poplibs.poplin.mat_mul_acc", f"k is a number; {OPTIONS}",
        "poplin.mat_mul_acc(graph, poplin.mat_mul(graph, t, t.T, prog), 0.5, t, t.T, prog)",
    ),
    Row(
        "poplin::createMatMulInputLHS", "poplibs.poplin.create_mat_mul_input_lhs", "",
        "poplin.create_mat_mul_input_lhs(graph, FLOAT, (4, 6), (6, 2))",
    ),
    Row(
        "poplin::createMatMulInputRHS", "poplibs.poplin.create_mat_mul_input_rhs", "",
        "poplin.create_mat_mul_input_rhs(graph, FLOAT, (4, 6), (6, 2))",
    ),
    Row("poplin::matMulReportPlan", "poplibs.poplin.plan_mat_mul", "returns the plan", "poplin.plan_mat_mul(8, 8, 8, target)"),
    Row("poplin::PlanningCache", "", "plans are remembered for as long as Python runs"),
    Row(
        "popops::rearrange, of a whole matrix", "poplibs.poplin.transpose", "",
        "poplin.transpose(graph, t, prog)",
    ),
    Row("poplin::addCodelets", "", "nothing to load"),
    Row("poplin convolutions", "", "not written; a vertex of your own"),
]  # fmt: skip
