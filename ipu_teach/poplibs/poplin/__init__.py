"""Linear algebra: matrix products, planned for the machine, and transposes."""

from ipu_teach.poplibs.poplin.matmul import (
    create_mat_mul_input_lhs,
    create_mat_mul_input_rhs,
    mat_mul,
    mat_mul_accumulate,
    mat_mul_grouped,
)
from ipu_teach.poplibs.poplin.plan import MatMulPlan, plan_mat_mul
from ipu_teach.poplibs.poplin.transposes import transpose

__all__ = [
    "MatMulPlan",
    "create_mat_mul_input_lhs",
    "create_mat_mul_input_rhs",
    "mat_mul",
    "mat_mul_accumulate",
    "mat_mul_grouped",
    "plan_mat_mul",
    "transpose",
]
