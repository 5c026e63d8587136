"""Rows of docs/poplibs.md for the recurrent layers and the CTC loss of popnn."""

from poplar_rows import Row

_SHAPE = "(1, 2, 2)"
_OUTPUT = f"t[0, :4].reshape({_SHAPE})"
_X = "vec.reshape((1, 2, 3))"
_STATES = {
    "lstm": "popnn.lstm.LstmState(t[0, :4].reshape((2, 2)), t2[0, :4].reshape((2, 2)))",
    "gru": "t[0, :4].reshape((2, 2))",
}
_STORED = {"lstm": "t.reshape((1, 6, 2, 2))", "gru": "t[:2].reshape((1, 3, 2, 2))"}
_GRADIENTS = {
    "lstm": "t.flatten()[:16].reshape((1, 4, 2, 2))",
    "gru": "t[:2].reshape((1, 3, 2, 2))",
}
_POINTERS = {
    "lstm_fwd": "returns the last cell state, too; a flag instead of a pointer for `intermediates`",
    "gru_fwd": "a flag instead of a pointer for `intermediates`",
}
_RETURNED = "returns the gradients of input and units, for which PopLibs has pointers"
_FIELDS = "the fields of `RnnParams` are its own; no numbers of steps that vary"


def _creators(module: str, params: str) -> list[Row]:
    rows = []
    for name in ("Input", "InitialState", "Weights", "WeightsKernel", "WeightsBiases"):
        ours = "create" + "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
        call = f"popnn.{module}.{ours}(graph, {params})"
        rows.append(
            Row(f"popnn::{module}::create{name}", f"poplibs.popnn.{module}.{ours}", "", call)
        )
    return rows


def _layer(module: str, prefix: str, units: str) -> list[Row]:
    """Return the rows of a module: `prefix` begins the names of its classes, such as "Lstm"."""
    path, cpp = f"poplibs.popnn.{module}", f"popnn::{module}"
    params = f"popnn.{module}.{prefix}Params(FLOAT, 2, 1, [3, 2])"
    weights = f"popnn.{module}.create_weights(graph, {params})"
    state, stored = _STATES[module], _STORED[module]
    operands = f"{state}, {stored}, {weights}, {_X}, {_OUTPUT}"
    forward = (
        f"prog, {state}, {weights}, {_X}, True"
        if module == "lstm"
        else f"{state}, {_X}, {weights}, True, prog"
    )
    calls = {
        "Fwd": forward,
        "Bwd": f"prog, {operands}, {_OUTPUT}",
        "WU": f"prog, {state}, {stored}, {_GRADIENTS[module]}, {weights}, {_X}, {_OUTPUT}",
        "BwdWithWU": f"prog, {operands}, {_OUTPUT}",
    }
    names = {"Fwd": "fwd", "Bwd": "bwd", "WU": "wu", "BwdWithWU": "bwd_with_wu"}
    unit_class = f"Basic{prefix}CellUnit"
    order = f"get_default_basic_{module}_cell_order"
    return [
        Row(
            f"{cpp}::{prefix}Params",
            f"{path}.{prefix}Params",
            _FIELDS,
            params,
        ),
        Row(
            f"{cpp}::{prefix}Weights",
            f"{path}.{prefix}Weights",
            "a named tuple",
            f"popnn.{module}.{prefix}Weights(*{weights})",
        ),
        Row(
            unit_class,
            f"{path}.{unit_class}",
            "",
            f"popnn.{module}.{unit_class}.{units}",
        ),
        Row(
            f"{cpp}::getDefaultBasic{prefix}CellOrder",
            f"{path}.{order}",
            "",
            f"popnn.{module}.{order}()",
        ),
        *_creators(module, params),
        *(
            Row(
                f"{cpp}::{module}{suffix}",
                f"{path}.{module}_{names[suffix]}",
                _POINTERS.get(f"{module}_{names[suffix]}", "" if suffix == "WU" else _RETURNED),
                f"popnn.{module}.{module}_{names[suffix]}(graph, {params}, {arguments})",
            )
            for suffix, arguments in calls.items()
        ),
    ]


_PARAMS = "popnn.lstm.LstmParams(FLOAT, 2, 1, [3, 2])"

RECURRENT = [
    *_layer("lstm", "Lstm", "BASIC_LSTM_CELL_FORGET_GATE"),
    Row(
        "popnn::lstm::LstmState",
        "poplibs.popnn.lstm.LstmState",
        "a named tuple",
        _STATES["lstm"],
    ),
    Row(
        "popnn::lstm::createInitialOutput",
        "poplibs.popnn.lstm.create_initial_output",
        "",
        f"popnn.lstm.create_initial_output(graph, {_PARAMS})",
    ),
    Row(
        "popnn::lstm::createInitialCellState",
        "poplibs.popnn.lstm.create_initial_cell_state",
        "",
        f"popnn.lstm.create_initial_cell_state(graph, {_PARAMS})",
    ),
    Row(
        "popnn::lstm::zeroInitialState",
        "poplibs.popnn.lstm.zero_initial_state",
        "",
        f"popnn.lstm.zero_initial_state(graph, {_STATES['lstm']}, prog)",
    ),
    *_layer("gru", "Gru", "BASIC_GRU_CELL_RESET_GATE"),
]

_PLAN = "popnn.ctc_loss.plan(graph, FLOAT, FLOAT, 2, 4, 3, 3)"
_SEQUENCES = (
    "t.reshape((4, 2, 3)), concat([labels, labels[:2]]).reshape((2, 3)), "
    "labels[:2], labels[2:], prog, 0"
)
_LENGTHS = "PopLibs' calls are in `popnn::ctc`; lengths and labels are UNSIGNED_INT"

CTC = [
    Row(
        "popnn::ctc::plan",
        "poplibs.popnn.ctc_loss.plan",
        "divides the labels, not the time",
        _PLAN,
    ),
    Row(
        "popnn::ctc::createDataInput",
        "poplibs.popnn.ctc_loss.create_data_input",
        "",
        f"popnn.ctc_loss.create_data_input(graph, FLOAT, 2, 4, 3, {_PLAN})",
    ),
    Row(
        "popnn::ctc::createLabelsInput",
        "poplibs.popnn.ctc_loss.create_labels_input",
        "UNSIGNED_INT",
        f"popnn.ctc_loss.create_labels_input(graph, UNSIGNED_INT, 2, 3, {_PLAN})",
    ),
    *(
        Row(
            f"popnn::ctc::calcLossAndGradient{name}",
            f"poplibs.popnn.ctc_loss.calc_loss_and_gradient_{ours}",
            _LENGTHS,
            f"popnn.ctc_loss.calc_loss_and_gradient_{ours}(graph, FLOAT, {_SEQUENCES}, {_PLAN})",
        )
        for name, ours in (("LogProbabilities", "log_probabilities"), ("Logits", "logits"))
    ),
]
