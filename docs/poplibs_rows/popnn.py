"""Rows of docs/poplibs.md for popnn: functions for neural networks."""

from poplar_rows import Row

from poplibs_rows.recurrent import CTC, RECURRENT

_KINDS = "`kind` is a `NonLinearityType` or its name"

_POOL = (
    'popnn.pooling.PoolParams("MAX", (2, 3), (1, 2), (1, 1), (0, 0), (0, 0), 4, 1, FLOAT)',
    "t.reshape((1, 4, 2, 3))",
)
_CALLS = {
    "Statistics": "t, 1e-5, prog",
    "Whiten": "t, {of}, {of}, prog",
    "Normalise": "t, vec, vec, {of}, {of}, prog",
    "ParamGradients": "t, t2, prog",
    "Gradients": "t, t2, {of}, vec, prog",
    "ParamUpdate": "vec, vec, -0.1, vec, vec, prog",
}
_DIFFERS = {
    "Statistics": "returns statistics in the dtype of x; PopLibs' arguments after `prog` have "
    "defaults",
    "Normalise": "returns (out, whitened); there is no form with a combined multiplicand",
    "Gradients": "accepts only whitened x",
    "ParamGradients": "accepts only whitened x, and returns FLOAT",
}


def _norm(module: str, norm: str, of: str, grouping: str = "") -> list[Row]:
    """Return a row for each of the six functions of a norm, such as the one for its statistics.

    `of` is code for a vector with as many elements as the norm has statistics.
    """
    rows = []
    for call, arguments in _CALLS.items():
        cpp = f"{norm}{'' if call == 'Normalise' else 'Norm'}{call}"
        ours = "".join(f"_{c.lower()}" if c.isupper() else c for c in cpp)
        differs = [_DIFFERS.get(call, ""), "" if call.startswith("Param") else grouping]
        rows.append(
            Row(
                f"popnn::{module.strip('_')}::{cpp}",
                f"poplibs.popnn.{module}.{ours}",
                "; ".join(filter(None, differs)),
                f"popnn.{module}.{ours}(graph, {arguments.format(of=of)})",
            )
        )
    return rows


_LAYERS = [
    Row(
        "popnn::pooling::PoolParams",
        "poplibs.popnn.pooling.PoolParams",
        "`kind` is a `PoolingType` or its name",
        _POOL[0],
    ),
    Row(
        "popnn::PoolingType",
        "poplibs.popnn.pooling.PoolingType",
        "",
        "popnn.pooling.PoolingType.MAX",
    ),
    Row(
        "popnn::pooling::pool",
        "poplibs.popnn.pooling.pool",
        "",
        f"popnn.pooling.pool(graph, {_POOL[0]}, {_POOL[1]}, prog)",
    ),
    Row(
        "popnn::pooling::poolInputGradient",
        "poplibs.popnn.pooling.pool_input_gradient",
        "accepts None for x and pooled with AVG and SUM; `ties` selects torch's rule for ties",
        "popnn.pooling.pool_input_gradient(graph, "
        f"{_POOL[0].replace('MAX', 'SUM')}, None, None, t[:, :4].reshape((1, 4, 2, 2)), prog)",
    ),
    *_norm("bn", "batch", "vec"),
    Row(
        "popnn::bn::distributedBatchNormStatistics",
        "poplibs.popnn.bn.distributed_batch_norm_statistics",
        "uses gcl for the sums if there is no callback",
        "popnn.bn.distributed_batch_norm_statistics(graph, t, 1e-5, prog)",
    ),
    Row(
        "popnn::bn::distributedBatchNormGradients",
        "poplibs.popnn.bn.distributed_batch_norm_gradients",
        "uses gcl for the sums if there is no callback; accepts only whitened x",
        "popnn.bn.distributed_batch_norm_gradients(graph, t, t2, vec, vec, prog)",
    ),
    *_norm("gn", "group", "vec[:4]", "has the argument `grouping` where PopLibs has an option"),
    *_norm("ln", "layer", "vec[:4]"),
    *_norm("in_", "instance", "t.flatten()"),
]

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
        "requires a `loss` in FLOAT; the scales and `num_correct` are keywords",
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
            f"accepts any rank; `popops.{name}` is the same",
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
        "does not have to be called",
        "popnn.add_codelets(graph)",
    ),
    *_LAYERS,
    *RECURRENT,
    *CTC,
    Row(
        "popnn max_pool, batch_norm, group_norm, layer_norm, instance_norm",
        "",
        "pooling, bn (batch), gn (group), ln (layer) and in_ (instance), modules of popnn",
    ),
    Row(
        "popnn rnn, augru, CTC inference",
        "",
        "popops and poplin, of which they can be composed",
    ),
]
