"""poplin: products of matrices, convolutions."""

from poplar_rows import Row

POPLIN = [
    Row("poplin::matMul", "poplibs.poplin.mat_mul", "FLOAT; no options", "poplin.mat_mul(graph, t, t.T, prog)"),
    Row("poplin::matMulReportPlan", "poplibs.poplin.plan_mat_mul", "returns the plan", "poplin.plan_mat_mul(8, 8, 8, target)"),
    Row(
        "poplin::createMatMulInputLHS, createMatMulInputRHS",
        "",
        "`poputil.map_tensor_linearly`; the product reads its operands wherever they lie",
    ),
    Row("poplin::addCodelets", "", "nothing to load"),
    Row("poplin convolutions", "", "not written; a vertex of your own"),
]
