"""Functions for neural networks: non-linearities, softmax, losses with their gradients, and counting correct answers."""

from ipu_teach.poplibs.checks import add_codelets
from ipu_teach.poplibs.popnn.kinds import NonLinearityType
from ipu_teach.poplibs.popnn.loss import MASKED_LABEL_CODE, LossType, calc_accuracy, calc_loss
from ipu_teach.poplibs.popnn.nonlinearity import (
    gelu,
    non_linearity,
    non_linearity_in_place,
    non_linearity_input_gradient,
    relu,
    sigmoid,
    swish,
    tanh,
)
from ipu_teach.poplibs.popnn.softmax import SOFTMAX_SCALING, log_softmax, softmax, softmax_in_place, softmax_input_gradient
from ipu_teach.poplibs.popops.sorting import arg_max, arg_min, max_and_arg_max, min_and_arg_min

__all__ = [
    "MASKED_LABEL_CODE",
    "LossType",
    "NonLinearityType",
    "SOFTMAX_SCALING",
    "arg_max",
    "arg_min",
    "add_codelets",
    "calc_accuracy",
    "calc_loss",
    "gelu",
    "log_softmax",
    "max_and_arg_max",
    "min_and_arg_min",
    "non_linearity",
    "non_linearity_in_place",
    "non_linearity_input_gradient",
    "relu",
    "sigmoid",
    "softmax",
    "softmax_in_place",
    "softmax_input_gradient",
    "swish",
    "tanh",
]
