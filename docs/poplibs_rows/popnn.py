"""popnn: functions for neural networks."""

from poplar_rows import Row

_KINDS = "`kind` is a `NonLinearityType` or its name"

POPNN = [
    Row(
        "popnn::nonLinearity",
        "poplibs.popnn.non_linearity",
        f"the scaling is `SOFTMAX_SCALING`; {_KINDS}",
        'popnn.non_linearity(graph, "GELU", t, prog)',
    ),
    Row(
        "popnn::nonLinearityInPlace",
        "poplibs.popnn.non_linearity_in_place",
        _KINDS,
        'popnn.non_linearity_in_place(graph, "TANH", t, prog)',
    ),
    Row(
        "popnn::nonLinearityInputGradient",
        "poplibs.popnn.non_linearity_input_gradient",
        _KINDS,
        'popnn.non_linearity_input_gradient(graph, "RELU", t, t2, prog)',
    ),
    *(
        Row(f"popnn::{name}", f"poplibs.popnn.{name}", "", f"popnn.{name}(graph, t, prog)")
        for name in ("relu", "sigmoid", "tanh", "gelu", "swish", "softmax")
    ),
    Row(
        "popnn::softmaxInPlace",
        "poplibs.popnn.softmax_in_place",
        "",
        "popnn.softmax_in_place(graph, t, prog)",
    ),
    Row("popnn::logSoftmax", "poplibs.popnn.log_softmax", "", "popnn.log_softmax(graph, t, prog)"),
    Row(
        "popnn::nonLinearityInputGradient (SOFTMAX)",
        "poplibs.popnn.softmax_input_gradient",
        "",
        "popnn.softmax_input_gradient(graph, t, t2, prog)",
    ),
    Row(
        "popnn::calcLoss",
        "poplibs.popnn.calc_loss",
        "`loss` is FLOAT; scales and `num_correct` are keywords",
        "popnn.calc_loss(graph, t, labels, loss, t2, prog, deltas_scale=8, model_output_scaling=2, "
        "num_correct=number)",
    ),
    Row(
        "popnn::calcAccuracy",
        "poplibs.popnn.calc_accuracy",
        "",
        "popnn.calc_accuracy(graph, t, labels, number, prog)",
    ),
    *(
        Row(
            f"popnn::{poplar}",
            f"poplibs.popnn.{name}",
            f"any rank; also `popops.{name}`",
            f"popnn.{name}(graph, t, prog)",
        )
        for poplar, name in (
            ("argMax", "arg_max"),
            ("argMin", "arg_min"),
            ("maxAndArgMax", "max_and_arg_max"),
            ("minAndArgMin", "min_and_arg_min"),
        )
    ),
    Row(
        "popnn::addCodelets",
        "poplibs.popnn.add_codelets",
        "needs not be called",
        "popnn.add_codelets(graph)",
    ),
    Row(
        "popnn pooling, norms, recurrent layers, CTC",
        "",
        "popops and poplin, of which they can be composed",
    ),
]
