"""popnn: functions for neural networks."""

from poplar_rows import Row

POPNN = [
    Row("popnn::nonLinearity (SOFTMAX)", "poplibs.popnn.softmax", "softmax alone", "popnn.softmax(graph, t, prog)"),
    Row(
        "popnn::calcLoss", "poplibs.popnn.calc_loss", "cross-entropy alone", "popnn.calc_loss(graph, t, labels, loss, t2, prog)"
    ),
    Row("popnn::calcAccuracy", "poplibs.popnn.calc_accuracy", "", "popnn.calc_accuracy(graph, t, labels, number, prog)"),
]
