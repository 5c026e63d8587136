"""poplin: products of matrices, convolutions."""

from poplar_rows import Row

OPTIONS = "PopLibs' options in a dict; the commonest also as keywords"
_GROUPED = "shapes with the number of groups in front"

POPLIN = [
    Row(
        "poplin::matMul",
        "poplibs.poplin.mat_mul",
        f"also QUARTER; {OPTIONS}; a `plan` of one's own",
        "poplin.mat_mul(graph, t, t.T, prog)",
    ),
    Row(
        "poplin::matMulGrouped",
        "poplibs.poplin.mat_mul_grouped",
        OPTIONS,
        "poplin.mat_mul_grouped(graph, t.expand([0]), t.T.expand([0]), prog)",
    ),
    Row(
        "poplin::matMulAcc",
        "poplibs.poplin.mat_mul_acc",
        OPTIONS,
        "poplin.mat_mul_acc(graph, poplin.mat_mul(graph, t, t.T, prog), 0.5, t, t.T, prog)",
    ),
    Row(
        "poplin::matMulGroupedAcc",
        "poplibs.poplin.mat_mul_grouped_acc",
        OPTIONS,
        "poplin.mat_mul_grouped_acc(graph, poplin.mat_mul(graph, t, t.T, prog).expand([0]), 1, "
        "t.expand([0]), t.T.expand([0]), prog)",
    ),
    Row(
        "poplin::createMatMulInputLHS",
        "poplibs.poplin.create_mat_mul_input_lhs",
        "",
        "poplin.create_mat_mul_input_lhs(graph, FLOAT, (4, 6), (6, 2))",
    ),
    Row(
        "poplin::createMatMulInputRHS",
        "poplibs.poplin.create_mat_mul_input_rhs",
        "",
        "poplin.create_mat_mul_input_rhs(graph, FLOAT, (4, 6), (6, 2))",
    ),
    Row(
        "poplin::createMatMulOutput",
        "poplibs.poplin.create_mat_mul_output",
        "",
        "poplin.create_mat_mul_output(graph, FLOAT, (4, 6), (6, 2))",
    ),
    *(
        Row(
            f"poplin::createMatMulGrouped{side}",
            f"poplibs.poplin.create_mat_mul_grouped_{name}",
            _GROUPED,
            f"poplin.create_mat_mul_grouped_{name}(graph, FLOAT, (3, 4, 6), (3, 6, 2))",
        )
        for side, name in (
            ("InputLHS", "input_lhs"),
            ("InputRHS", "input_rhs"),
            ("Output", "output"),
        )
    ),
    Row(
        "poplin::preArrangeMatMulInputRHS",
        "poplibs.poplin.pre_arrange_mat_mul_input_rhs",
        "the product needs not be told: it looks where its operands lie",
        "poplin.pre_arrange_mat_mul_input_rhs(graph, (6, 4), t, prog)",
    ),
    Row(
        "poplin::matMulReportPlan",
        "poplibs.poplin.mat_mul_report_plan",
        "prints to `file`, by default the screen",
        "poplin.mat_mul_report_plan(graph, FLOAT, (4, 6), (6, 2))",
    ),
    Row(
        "poplin::matMulGroupedReportPlan",
        "poplibs.poplin.mat_mul_grouped_report_plan",
        "prints to `file`",
        "poplin.mat_mul_grouped_report_plan(graph, FLOAT, (3, 4, 6), (3, 6, 2))",
    ),
    Row(
        "poplin::matMulReportPlan, as a value",
        "poplibs.poplin.plan_mat_mul",
        "",
        "poplin.plan_mat_mul(8, 8, 8, target)",
    ),
    Row(
        "poplin::PlanningCache",
        "poplibs.poplin.PlanningCache",
        "plans are remembered without one; it says which were used",
        "poplin.PlanningCache()",
    ),
    Row(
        "popops::rearrange, of a whole matrix",
        "poplibs.poplin.transpose",
        "",
        "poplin.transpose(graph, t, prog)",
    ),
    Row(
        "poplin::addCodelets",
        "poplibs.poplin.add_codelets",
        "needs not be called",
        "poplin.add_codelets(graph)",
    ),
    Row("poplin convolutions", "", "a vertex of your own"),
]
