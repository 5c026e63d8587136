"""Rows of docs/poplibs.md for poplin: matrix products, convolutions and QR factorisation."""

from poplar_rows import Row

OPTIONS = "takes PopLibs' options in a dict; the most common ones are also keywords"
_GROUPED = "takes shapes that begin with the number of groups"
_PARAMS = "ConvParams(FLOAT, 1, (2, 2), (1, 1), 2, 2)"
_INPUT = "poplin.create_input(graph, poplin." + _PARAMS + ")"
_WEIGHTS = "poplin.create_weights(graph, poplin." + _PARAMS + ")"

_FACTORS = (
    "for a small matrix, use `np.linalg.{}` in a codelet ([codelets.md](codelets.md)); factor a "
    "large one block by block, with `poplin.mat_mul`"
)

POPLIN = [
    Row(
        "poplin::matMul",
        "poplibs.poplin.mat_mul",
        f"also multiplies QUARTER; {OPTIONS}; accepts a `plan` of your own",
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
        "is the only call you need: the product itself finds out how its operands are mapped",
        "poplin.pre_arrange_mat_mul_input_rhs(graph, (6, 4), t, prog)",
    ),
    Row(
        "poplin::matMulReportPlan",
        "poplibs.poplin.mat_mul_report_plan",
        "prints to `file`, or to the screen by default",
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
        "is optional, because plans are always reused; it lists the plans that were used",
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
        "does not have to be called",
        "poplin.add_codelets(graph)",
    ),
    Row(
        "poplin::ConvParams",
        "poplibs.poplin.ConvParams",
        "has the number of channels of all groups together; negative padding replaces "
        "truncation; there is no output transform",
        f"poplin.{_PARAMS}",
    ),
    *(
        Row(f"poplin::{cpp}", f"poplibs.poplin.{name}", differs, f"poplin.{name}({arguments})")
        for cpp, name, differs, arguments in (
            ("createInput", "create_input", "", f"graph, poplin.{_PARAMS}"),
            ("createWeights", "create_weights", "", f"graph, poplin.{_PARAMS}"),
            ("createBiases", "create_biases", "", f"graph, {_INPUT}"),
            (
                "convolution",
                "convolution",
                "is a product of a view of patches; " + OPTIONS,
                f"graph, {_INPUT}, {_WEIGHTS}, poplin.{_PARAMS}, prog",
            ),
            (
                "convolution, of a gradient",
                "convolution_input_gradient",
                "also transforms the weights",
                f"graph, {_INPUT}, {_WEIGHTS}, poplin.{_PARAMS}, prog",
            ),
            (
                "calculateWeightDeltas",
                "calculate_weight_deltas",
                OPTIONS,
                f"graph, {_INPUT}, {_INPUT}, poplin.{_PARAMS}, prog",
            ),
            (
                "convolutionWeightUpdate",
                "convolution_weight_update",
                OPTIONS,
                f"graph, {_INPUT}, {_WEIGHTS}, {_INPUT}, poplin.{_PARAMS}, -0.1, prog",
            ),
            (
                "convolutionBiasUpdate",
                "convolution_bias_update",
                "accumulates sums of HALF in FLOAT",
                f"graph, {_INPUT}, t[0, :2], -0.1, prog",
            ),
            ("addBias", "add_bias", "", f"graph, {_INPUT}, t[0, :2], prog"),
            (
                "weightsTransposeChansFlipXY",
                "weights_transpose_chans_flip_xy",
                "flips every dimension of the field",
                f"graph, {_WEIGHTS}, poplin.create_weights(graph, poplin.{_PARAMS}), prog",
            ),
            ("getFwdFlops", "get_fwd_flops", "", f"poplin.{_PARAMS}"),
            ("getBwdFlops", "get_bwd_flops", "", f"poplin.{_PARAMS}"),
            ("getWuFlops", "get_wu_flops", "", f"poplin.{_PARAMS}"),
            (
                "getFwdPerfectCycleCount",
                "get_fwd_perfect_cycle_count",
                "",
                f"graph, poplin.{_PARAMS}",
            ),
            (
                "reportPlanInfo, as a value",
                "plan_convolution",
                "returns a `MatMulPlan` for each product of a pass",
                f"poplin.{_PARAMS}, target",
            ),
        )
    ),
    Row("poplin multi-convolutions", "", "poplin.convolution of each, one after the other"),
    *(
        Row(f"poplin::{cpp}", "", _FACTORS.format(function))
        for cpp, function in (
            ("cholesky", "cholesky"),
            ("createCholeskyInput", "cholesky"),
            ("triangularSolve", "solve"),
            ("triangularMask", "solve"),
            ("createTriangularSolveInputLHS", "solve"),
            ("createTriangularSolveInputRHS", "solve"),
            ("createTriangularSolveOutput", "solve"),
            ("experimental::QRFactorization", "qr"),
            ("experimental::createQRFactorizationMatrices", "qr"),
        )
    ),
]
