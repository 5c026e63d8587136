"""Linear algebra: matrix products, planned for the machine, and transposes."""

from ipu_teach.poplibs.checks import add_codelets
from ipu_teach.poplibs.poplin.matmul import mat_mul, mat_mul_acc, mat_mul_grouped, mat_mul_grouped_acc
from ipu_teach.poplibs.poplin.operands import (
    create_mat_mul_grouped_input_lhs,
    create_mat_mul_grouped_input_rhs,
    create_mat_mul_grouped_output,
    create_mat_mul_input_lhs,
    create_mat_mul_input_rhs,
    create_mat_mul_output,
    mat_mul_grouped_report_plan,
    mat_mul_report_plan,
    pre_arrange_mat_mul_input_rhs,
)
from ipu_teach.poplibs.poplin.plan import MatMulPlan, PlanningCache, plan_mat_mul
from ipu_teach.poplibs.poplin.transposes import transpose

__all__ = [
    "MatMulPlan",
    "PlanningCache",
    "add_codelets",
    "create_mat_mul_grouped_input_lhs",
    "create_mat_mul_grouped_input_rhs",
    "create_mat_mul_grouped_output",
    "create_mat_mul_input_lhs",
    "create_mat_mul_input_rhs",
    "create_mat_mul_output",
    "mat_mul",
    "mat_mul_acc",
    "mat_mul_grouped",
    "mat_mul_grouped_acc",
    "mat_mul_grouped_report_plan",
    "mat_mul_report_plan",
    "plan_mat_mul",
    "pre_arrange_mat_mul_input_rhs",
    "transpose",
]
