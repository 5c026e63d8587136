"""The CTC loss and its gradient: beside torch in float64, at edges, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from libraries import torch

from ipu_teach import FLOAT, HALF, INT, UNSIGNED_INT, Engine, Graph, IPUModel, Tensor
from ipu_teach.errors import InvalidOptionError, PoplibsError
from ipu_teach.poplibs import poputil
from ipu_teach.poplibs.popnn import ctc_loss
from ipu_teach.program import Sequence
from ipu_teach.types import Array

Operands = tuple[ctc_loss.Plan, Tensor, Tensor, Tensor, Tensor]


def operands(
    graph: Graph, steps: int, batch: int, labels: int, classes: int, dtype: Any = FLOAT
) -> Operands:
    plan = ctc_loss.plan(graph, dtype, dtype, batch, steps, labels, classes)
    x = ctc_loss.create_data_input(graph, dtype, batch, steps, classes, plan)
    numbers = ctc_loss.create_labels_input(graph, UNSIGNED_INT, batch, labels, plan)
    lengths = [graph.add_variable(UNSIGNED_INT, batch) for _ in range(2)]
    for tensor in lengths:
        poputil.map_tensor_linearly(graph, tensor)
    return plan, x, numbers, lengths[0], lengths[1]


def new_graph(tiles: int = 13) -> Graph:
    return Graph(IPUModel(tiles_per_ipu=tiles).create_device())


def ran(
    x: Array,
    labels: Any,
    lengths: tuple[list[int], list[int]],
    blank: int = 0,
    logits: bool = True,
    tiles: int = 13,
    loop: bool = False,
    options: Any = None,
) -> tuple[Array, Array]:
    """Return the loss and the gradient for x [steps, batch, classes]."""
    device = IPUModel(tiles_per_ipu=tiles).create_device()
    graph, prog = Graph(device), Sequence()
    dtype = HALF if x.dtype == np.float16 else FLOAT
    steps, batch, classes = x.shape
    labels = np.asarray(labels)
    plan, *tensors = operands(graph, steps, batch, labels.shape[1], classes, dtype)
    for tensor, values in zip(tensors, (x, labels, *lengths), strict=True):
        graph.set_initial_value(tensor, values)
    given: Any = (graph, dtype, *tensors, prog, blank, plan)
    if logits:
        results = ctc_loss.calc_loss_and_gradient_logits(*given)
    else:
        results = ctc_loss.calc_loss_and_gradient_log_probabilities(*given, options=options)
    for name, result in zip(("loss", "gradient"), results, strict=True):
        graph.create_host_read(name, result)
    engine = Engine(graph, prog, vertex_loop=loop)
    engine.load(device)
    engine.run()
    engine.run()  # again: nothing of the first run is left
    assert not engine.report.unknown_codelets
    return engine.read_tensor("loss"), engine.read_tensor("gradient")


def expected(
    x: Array, labels: Any, lengths: tuple[list[int], list[int]], blank: int = 0
) -> tuple[Array, Array]:
    """Return torch's loss and gradient of the logits x, in float64."""
    logits = torch().tensor(x.astype(float), requires_grad=True)
    loss = torch().nn.functional.ctc_loss(
        torch().log_softmax(logits, 2),
        torch().tensor(np.asarray(labels, int)),
        *(torch().tensor(length) for length in lengths),
        blank=blank,
        reduction="none",
    )
    loss.sum().backward()
    return loss.detach().numpy(), logits.grad.numpy()


def logits_of(steps: int, batch: int, classes: int, dtype: Any = np.float32) -> Array:
    values: Array = np.random.default_rng(steps).normal(size=(steps, batch, classes)).astype(dtype)
    return values


CASES: dict[str, tuple[tuple[int, int, int], Any, tuple[list[int], list[int]], int]] = {
    "some shorter than the plan": (
        (6, 3, 4),
        [[1, 2], [3, 0], [2, 3]],
        ([6, 5, 4], [2, 1, 2]),
        0,
    ),
    "repeated labels": ((8, 2, 4), [[1, 1, 2], [3, 3, 3]], ([8, 7], [3, 3]), 0),
    "an empty label": ((8, 2, 4), [[1, 1, 2], [3, 3, 3]], ([8, 7], [3, 0]), 0),
    "the last class is blank": ((5, 1, 3), [[0, 1]], ([5], [2]), 2),
    "one of each": ((1, 1, 2), [[0]], ([1], [1]), 1),
    "just long enough": ((3, 1, 3), [[1, 2, 1]], ([3], [3]), 0),
    "many parts": ((40, 1, 7), [[*range(1, 7)] * 3], ([40], [18]), 0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tiles", [1, 13])
def test_loss_and_gradient_are_torchs(name: str, tiles: int) -> None:
    torch()
    shape, *given = CASES[name]
    x = logits_of(*shape)
    loss, gradient = ran(x, *given, tiles=tiles)
    wanted_loss, wanted_gradient = expected(x, *given)
    assert np.allclose(loss, wanted_loss, rtol=1e-5)
    limit = 1e-5 * np.abs(wanted_gradient).max()
    assert np.abs(gradient - wanted_gradient).max() <= limit


def test_vertices_one_by_one_give_the_same() -> None:
    shape, *given = CASES["repeated labels"]
    fast, slow = (ran(logits_of(*shape), *given, loop=loop) for loop in (False, True))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(fast, slow, strict=True))


def test_half_is_as_good_as_its_inputs() -> None:
    shape, *given = CASES["some shorter than the plan"]
    x = logits_of(*shape, dtype=np.float16)
    loss, gradient = ran(x, *given)
    wanted_loss, wanted_gradient = expected(x, *given)
    assert loss.dtype == np.float32 and gradient.dtype == np.float16
    assert np.allclose(loss, wanted_loss, rtol=4e-3)
    assert np.abs(gradient - wanted_gradient).max() < 4e-3


def test_a_label_that_does_not_fit_has_an_infinite_loss() -> None:
    x, labels = logits_of(3, 2, 4), [[1, 2, 3, 1, 2], [2, 2, 1, 1, 3]]
    lengths = ([3, 3], [5, 1])
    loss, gradient = ran(x, labels, lengths)
    wanted_loss, wanted_gradient = expected(x, labels, lengths)
    assert loss[0] == wanted_loss[0] == np.inf
    assert np.isnan(gradient[:, 0]).any() and np.isnan(wanted_gradient[:, 0]).any()
    assert np.allclose(gradient[:, 1], wanted_gradient[:, 1], atol=1e-5)
    repeated, _ = ran(logits_of(2, 1, 3), [[1, 1]], ([2], [2]))
    assert repeated[0] == np.inf, "a blank must separate equal classes"


def test_nan_stays_in_its_sample() -> None:
    x = logits_of(5, 2, 4)
    x[2, 0, 1] = np.nan
    loss, gradient = ran(x, [[1, 2], [3, 1]], ([5, 5], [2, 2]))
    assert np.isnan(loss[0]) and np.isfinite(loss[1])
    assert np.isfinite(gradient[:, 1]).all()


def test_log_probabilities_have_the_gradient_of_logits_unless_it_is_left_out() -> None:
    shape, *given = CASES["repeated labels"]
    x = logits_of(*shape)
    log_probs = (x - np.log(np.exp(x.astype(float)).sum(2, keepdims=True))).astype(np.float32)
    wanted_loss, wanted_gradient = expected(x, *given)
    loss, gradient = ran(log_probs, *given, logits=False)
    assert np.allclose(loss, wanted_loss, rtol=1e-5)
    assert np.allclose(gradient, wanted_gradient, atol=1e-5)
    options = {"includeSoftmaxGradient": False}
    _, shares = ran(log_probs, *given, logits=False, options=options)
    lengths = given[1][0]
    inside = np.arange(8)[:, None] < np.array(lengths)
    assert np.allclose(-shares.sum(2), inside, atol=1e-5), "the positions' shares add up to 1"
    assert np.allclose(shares + np.exp(log_probs) * inside[:, :, None], gradient, atol=1e-5)


def test_a_plan_divides_the_labels_over_the_workers() -> None:
    plan = ctc_loss.plan(new_graph(2), FLOAT, FLOAT, 2, 10, 8, 5)
    assert plan.parts == 6 and plan.labels[0][0] == 0 and plan.labels[-1][1] == 8
    positions = [plan.positions(*labels) for labels in plan.labels]
    assert [p.start for p in positions[1:]] == [p.stop for p in positions[:-1]]
    assert positions[-1].stop == 17


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"in_type": INT}, "plan() was given INT as in_type. next: use FLOAT or HALF."),
        (
            {"max_time": 0},
            "plan() was given 0 as max_time. next: give a whole number of 1 or more.",
        ),
        (
            {"options": {"partialsType": "half"}},
            "plan() adds probabilities in FLOAT only. next: leave out partialsType.",
        ),
    ],
    ids=lambda part: str(part)[:20],
)
def test_a_plan_says_what_is_wrong(change: dict[str, Any], words: str) -> None:
    sizes = {"batch_size": 2, "max_time": 5, "max_label_length": 3, "num_classes": 4}
    given: dict[str, Any] = {"in_type": FLOAT, "out_type": FLOAT, **sizes, **change}
    with pytest.raises(PoplibsError) as caught:
        ctc_loss.plan(new_graph(), **given)
    assert " ".join(str(caught.value).split()) == words


def test_a_loss_says_what_does_not_fit() -> None:
    graph, prog = new_graph(), Sequence()
    plan, x, labels, lengths, label_lengths = operands(graph, 5, 2, 3, 4)
    signed = graph.add_variable(INT, 2)
    poputil.map_tensor_linearly(graph, signed)
    call = ctc_loss.calc_loss_and_gradient_logits
    for given, words in (
        ((x[:4], labels, lengths, label_lengths, 0), "two shapes of data that differ: (4, 2, 4)"),
        ((x, labels[:, :2], lengths, label_lengths, 0), "two shapes of labels that differ"),
        ((x, labels, signed, label_lengths, 0), "works on UNSIGNED_INT, but data_lengths is INT."),
        ((x, labels, lengths, label_lengths, 4), "was given 4 as blank_class."),
        ((x, labels, lengths, label_lengths, 1.0), "was given 1.0 as blank_class."),
    ):
        *tensors, blank = given
        with pytest.raises(PoplibsError) as caught:
            call(graph, FLOAT, *tensors, prog, blank, plan)  # type: ignore[call-arg, arg-type]
        assert words in str(caught.value), str(caught.value)
        assert "next:" in str(caught.value)
    with pytest.raises(PoplibsError, match="pairs of in_type and out_type that differ"):
        call(graph, HALF, x, labels, lengths, label_lengths, prog, 0, plan)
    with pytest.raises(PoplibsError, match="give a plan of ctc_loss.plan"):
        call(graph, FLOAT, x, labels, lengths, label_lengths, prog, 0, 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="has no option 'blank'"):
        ctc_loss.calc_loss_and_gradient_log_probabilities(
            graph, FLOAT, x, labels, lengths, label_lengths, prog, 0, plan, options={"blank": 1}
        )


def test_data_and_labels_have_the_sizes_of_the_plan() -> None:
    graph = new_graph()
    plan = ctc_loss.plan(graph, FLOAT, FLOAT, 2, 5, 3, 4)
    with pytest.raises(PoplibsError, match="give the sizes of the plan"):
        ctc_loss.create_data_input(graph, FLOAT, 2, 6, 4, plan)
    with pytest.raises(PoplibsError, match="give the in_type of the plan"):
        ctc_loss.create_data_input(graph, HALF, 2, 5, 4, plan)
    with pytest.raises(PoplibsError, match="give the sizes of the plan"):
        ctc_loss.create_labels_input(graph, UNSIGNED_INT, 2, 4, plan)
    with pytest.raises(PoplibsError, match="use UNSIGNED_INT"):
        ctc_loss.create_labels_input(graph, INT, 2, 3, plan)
