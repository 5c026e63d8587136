"""What the capture of PyTorch keeps whole: gradients at edges beside torch's, and what is traced."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu_teach import FLOAT, IPUModel, show
from ipu_teach.errors import ModelError
from ipu_teach.frontends.session import compile_graph, without_unused

torch = pytest.importorskip("torch", reason="torch is not installed: the extra `torch` adds it")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from ipu_teach import poptorch  # noqa: E402
from ipu_teach.frontends.pytorch import capture, private, whole  # noqa: E402
from ipu_teach.frontends.pytorch.markers import LOWERINGS  # noqa: E402
from ipu_teach.frontends.pytorch.tensors import array  # noqa: E402

Loss = Callable[..., Any]
INF, NAN = float("inf"), float("nan")
FINITE = torch.tensor(
    [
        [0.0, -0.0, 1.0, -1.0],
        [3.0, 3.0, 3.0, -3.0],  # ties
        [1e-40, -1e-40, 30.0, -30.0],
        [1e4, -1e4, 100.0, 99.0],
        [2.0, 1.0, 0.5, -100.0],
    ]
)
BROKEN = FINITE.clone()
BROKEN[0, 1], BROKEN[1, 2], BROKEN[2, 0] = NAN, INF, -INF
BROKEN[3] = torch.tensor([INF, INF, -INF, 0.0])
EDGES = {"finite": FINITE, "NaN and infinite": BROKEN}
FACTORS = torch.arange(20.0).reshape(5, 4) - 7.5


class Module(nn.Module):
    def __init__(self, loss: Loss, weight: Any) -> None:
        super().__init__()
        self.weight, self.loss = nn.Parameter(weight.clone()), loss

    def forward(self, *inputs: Any) -> Any:
        return self.loss(self.weight, *inputs)


def captured(loss: Loss, weight: Any, *inputs: Any) -> Any:
    marked = [i for i, t in enumerate(inputs) if not t.is_floating_point() and (t == -100).any()]
    return capture.capture_module(Module(loss, weight), inputs, {}, marked, True)


class OnTheDevice:
    """A loss and its gradient by `weight`, compiled once: a call computes them for other values.

    `weight` and `inputs` are examples. An input that contains -100 has labels that are ignored.
    """

    def __init__(self, loss: Loss, weight: Any, *inputs: Any) -> None:
        result = captured(loss, weight, *inputs)
        graph = result.graph
        graph.ops = [*graph.ops, *result.backward]
        ((parameter, gradient),) = result.grads.items()
        graph.outputs = {"loss": next(iter(graph.outputs.values())), "gradient": gradient}
        self.names, self.parameter = result.inputs, parameter.name
        self.run = compile_graph("", without_unused(graph), IPUModel("ipu2", tiles_per_ipu=4))

    def __call__(self, weight: Any, *inputs: Any) -> tuple[Any, Any]:
        self.run.write(self.parameter, array(weight))
        fed = {n: array(t)[None] for n, t in zip(self.names, inputs, strict=True)}
        found = self.run(**fed)
        return torch.tensor(found["loss"][0]), torch.tensor(found["gradient"][0])


def in_torch(loss: Loss, weight: Any, *inputs: Any) -> tuple[Any, Any]:
    """The same in float64."""
    leaf = weight.double().requires_grad_()
    wide = [t.double() if t.is_floating_point() else t for t in inputs]
    with sdpa_kernel(SDPBackend.MATH):
        value = loss(leaf, *wide)
    value.backward()
    return value.detach(), leaf.grad


def agree(
    name: str, loss: Loss, weight: Any, *inputs: Any, device: OnTheDevice | None = None
) -> OnTheDevice:
    """Compare the loss and its gradient with torch's; return what was compiled, for other values."""
    device = device or OnTheDevice(loss, weight, *inputs)
    got, expected = device(weight, *inputs), in_torch(loss, weight, *inputs)
    for what, a, b in zip(("loss", "gradient"), got, expected, strict=True):
        torch.testing.assert_close(
            a.double(),
            b.double(),
            rtol=1e-4,
            atol=1e-6,
            equal_nan=True,
            msg=f"{name}: {what}: {a}, not {b}",
        )
    return device


# --- gradients at edges ---------------------------------------------------------------------------

SHARES = torch.softmax(torch.randn(5, 4, generator=torch.Generator().manual_seed(1)), 1)
CLASSES = torch.tensor([0, 1, 3, 1, 2])
SOME_IGNORED, ALL_IGNORED = torch.tensor([0, -100, 3, 1, -100]), torch.full((5,), -100)
# The labels of one graph: the first are its example.
LABELS = {
    "classes": [CLASSES],
    "ignored": [SOME_IGNORED, ALL_IGNORED, CLASSES],
    "shares": [SHARES],
}
# Where no label may be ignored, every two of a reduction, weights and smoothing meet.
UNMARKED = [
    *(("mean", True, 0.0), ("mean", False, 0.1), ("sum", True, 0.1), ("sum", False, 0.0)),
    *(("none", True, 0.1), ("none", False, 0.0)),
]
WEIGHTS = torch.tensor([1.0, 0.0, 2.5, 0.5])
ROWS = torch.tensor([1.0, 2.0, 0.0, -1.0, 0.5])


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction: str, labels: str) -> None:
    for weight in (None, WEIGHTS):
        for smoothing in (0.0, 0.1):
            if labels == "classes" and (reduction, weight is None, smoothing) not in UNMARKED:
                continue

            def loss(x: Any, y: Any, weight: Any = weight, smoothing: float = smoothing) -> Any:
                w = weight if weight is None else weight.to(x.dtype)
                y = y.to(x.dtype) if y.is_floating_point() else y
                each = F.cross_entropy(x, y, w, reduction=reduction, label_smoothing=smoothing)
                return (each * ROWS.to(x.dtype)).sum() if reduction == "none" else each * 1.5

            device: OnTheDevice | None = None
            for scores, x in EDGES.items():
                for y in LABELS[labels]:
                    what = f"{scores} {y} {weight} {smoothing}"
                    device = agree(what, loss, x, y, device=device)


def test_likelihoods() -> None:
    for labels in (LABELS["classes"], LABELS["ignored"]):
        for reduction in ("mean", "sum", "none"):

            def nll(x: Any, y: Any, reduction: str = reduction) -> Any:
                each = F.nll_loss(F.log_softmax(x, 1), y, reduction=reduction)
                return (each * 1.5).sum()

            device: OnTheDevice | None = None
            for scores, x in EDGES.items():
                for y in labels:
                    device = agree(f"nll {scores} {y} {reduction}", nll, x, y, device=device)


def test_other_forms_of_cross_entropy() -> None:
    forms: dict[str, Loss] = {
        "weights": lambda x, y: F.nll_loss(F.log_softmax(x, 1), y, WEIGHTS.to(x.dtype)),
        "ignore 1": lambda x, y: F.cross_entropy(x, y, ignore_index=1),
        "images": lambda x, y: F.nll_loss(
            F.log_softmax(x.t().reshape(1, 4, 5, 1), 1), y.reshape(1, 5, 1)
        ),
        "sequences": lambda x, y: F.cross_entropy(x.t().reshape(1, 4, 5), y.reshape(1, 5)),
        "no batch": lambda x, y: F.cross_entropy(x[0], y[0]),
        "made labels": lambda x, y: F.cross_entropy(x, (y + 1) % 4),
        "made ignored": lambda x, y: F.cross_entropy(x, torch.where(y == 1, -100, y)),
    }
    for name, loss in forms.items():
        device = agree(name, loss, FINITE, CLASSES)
        agree(f"{name}, NaN and infinite", loss, BROKEN, CLASSES, device=device)

    def plain(x: Any, y: Any) -> Any:
        return F.cross_entropy(x, y)

    of_halves = OnTheDevice(plain, FINITE.half(), CLASSES)
    for x in EDGES.values():
        got, gradient = of_halves(x.half(), CLASSES)
        expected, by_x = in_torch(plain, x.half(), CLASSES)
        assert got.dtype == gradient.dtype == torch.float16
        torch.testing.assert_close(got.double(), expected, rtol=1e-3, atol=0, equal_nan=True)
        torch.testing.assert_close(gradient.double(), by_x, rtol=1e-3, atol=1e-6, equal_nan=True)
    nothing, of_two = torch.tensor([2, 2]), None
    for x in EDGES.values():
        of_two = agree(
            "all of a class",
            lambda x, y: F.cross_entropy(x, y, ignore_index=2), x[:2], nothing,
            device=of_two,
        )  # fmt: skip


ELEMENTS: dict[str, Loss] = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "threshold": lambda x: F.threshold(x, 0.5, 2.0),
    "softmax": lambda x: F.softmax(x, 1),
    "softmax of columns": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, 1),
    "log_softmax of columns": lambda x: F.log_softmax(x, 0),
    "slices": lambda x: x[1:4, ::2].repeat(2, 2)[:5, :4],
    "places": lambda x: x[2] * x[-1] + x[:, 1:2],
    "squares": lambda x: (x - 1).square(),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_and_views(name: str) -> None:
    def loss(x: Any) -> Any:
        return (ELEMENTS[name](x) * FACTORS.to(x.dtype)).sum()

    device = agree("finite", loss, FINITE)
    agree("NaN and infinite", loss, BROKEN, device=device)


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def attention(mask: Any = None, causal: bool = False, scale: float | None = None) -> Loss:
    def loss(x: Any) -> Any:
        q, k, v = (part.reshape(1, 2, -1, 2) for part in x.split(4, dim=1))
        bias = mask if mask is None or mask.dtype == torch.bool else mask.to(x.dtype)
        y = F.scaled_dot_product_attention(q, k, v, bias, is_causal=causal, scale=scale)
        return (y * FACTORS.to(x.dtype).reshape(1, 2, 5, 2)).sum()

    return loss


SEEN = torch.rand(5, 5, generator=torch.Generator().manual_seed(0)) > 0.4
SEEN[2] = False  # a query that sees no key


FORMS = {
    "plain": attention(),
    "causal": attention(causal=True),
    "of BOOL": attention(SEEN),
    "of floats": attention(torch.where(SEEN, 0.3, -INF)),
    "a scale": attention(scale=0.7),
}


@pytest.mark.parametrize("form", FORMS)
def test_attention(form: str) -> None:
    x = drawn(5, 12)
    with_nan, with_infinity = x.clone(), x.clone()
    with_nan[1, 5], with_infinity[1, 5] = NAN, INF
    values = {"zeros": x * 0, "large": x * 1e3, "NaN": with_nan, "infinite": with_infinity}
    device = agree("drawn", FORMS[form], x)
    for name, other in values.items():
        agree(name, FORMS[form], other, device=device)


@pytest.mark.parametrize("layer", [nn.GRU, nn.RNN])  # torch refuses it for its LSTM
def test_the_output_of_a_layer_of_cells_may_be_changed_in_place(layer: Any) -> None:
    class Negated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(4)
            self.cells = layer(3, 2)

        def forward(self, x: Any) -> Any:
            out = self.cells(x)[0]
            out.mul_(-1.0)
            return out, out.square().sum()

    plain, module = Negated(), Negated()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.5)
    executor = poptorch.trainingModel(
        module,
        poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=4)),
        torch.optim.SGD(module.parameters(), lr=0.5),
    )
    x = drawn(4, 2, 3)
    for _ in range(2):
        optimizer.zero_grad()
        expected, loss = plain(x)
        loss.backward()
        optimizer.step()
        out, actual = executor(x)
        torch.testing.assert_close(out, expected)
        torch.testing.assert_close(actual, loss)
    for ours, theirs in zip(module.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_heads_of_attention_share_keys_and_values() -> None:
    def loss(x: Any) -> Any:
        q = x.reshape(1, 4, 3, 5)
        y = F.scaled_dot_product_attention(q, q[:, :2], q[:, 1:3] * 2, enable_gqa=True)
        return (y * torch.arange(60.0).reshape(y.shape)).sum()

    agree("shared heads", loss, drawn(3, 20))


def test_attention_refuses_what_torch_refuses() -> None:
    both = attention(SEEN, causal=True)
    with pytest.raises(RuntimeError, match="attn_mask should not be set when is_causal=True"):
        captured(both, drawn(5, 12))


def test_scores_of_halves_are_larger_than_a_half_holds() -> None:
    x = torch.tensor([[[-11048.0, 0.5], [0.52, 40.0], [-0.3, 3.0]]])

    def loss(x: Any) -> Any:
        y = F.scaled_dot_product_attention(x, x, x, is_causal=True)
        return ((y.float() if y.dtype == torch.float16 else y) * 1e-3).sum()

    got, expected = OnTheDevice(loss, x.half())(x.half()), in_torch(loss, x.half())
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=4e-3, atol=4e-3)


def test_look_ups_and_products() -> None:
    index, rows = torch.tensor([1, 1, 0]), torch.arange(12.0).reshape(3, 4)
    for padding in (None, 0, 1):
        agree(
            f"padding {padding}",
            lambda w, i, p=padding: (F.embedding(i, w, padding_idx=p) * rows.to(w.dtype)).sum(),
            FINITE,
            index,
        )
    agree("a NaN for the padding", lambda w, i: (F.embedding(i, w, 1) * NAN).sum(), FINITE, index)
    agree(
        "by frequency",
        lambda w, i: (F.embedding(i, w, scale_grad_by_freq=True) * rows.to(w.dtype)).sum(),
        FINITE,
        index,
    )
    agree("a transpose", lambda w: (w.t() @ w @ torch.ones(4, 2, dtype=w.dtype)).sum(), FINITE[:3])
    agree("linear", lambda w, x: F.linear(x, w).square().sum(), drawn(3, 4), drawn(2, 6, 4))


def test_dropout_has_the_mask_of_the_forward_in_its_gradient() -> None:
    def loss(w: Any) -> Any:
        y = F.dropout(w, 0.75)
        return (y * y).sum()

    result = captured(loss, torch.ones(40))
    graph = result.graph
    graph.ops = [*graph.ops, *result.backward]
    (gradient,) = result.grads.values()
    graph.outputs = {"loss": next(iter(graph.outputs.values())), "gradient": gradient}
    run = compile_graph("", without_unused(graph), IPUModel("ipu2", tiles_per_ipu=4))()
    assert set(np.unique(run["gradient"][0])) == {0.0, 32.0}  # 2 * 4 * 4, or nothing
    assert run["loss"][0] == (run["gradient"][0] > 0).sum() * 16


# --- operations of one's own ----------------------------------------------------------------------


def test_an_operation_with_a_gradient_of_its_own_keeps_it() -> None:
    @torch.library.custom_op("kit_tests::stepped", mutates_args=())
    def stepped(x: torch.Tensor) -> torch.Tensor:
        return (x > 0).to(x.dtype)

    stepped.register_fake(torch.empty_like)
    stepped.register_autograd(lambda ctx, g: g * 2)  # straight through, and twice

    @poptorch.lowering("kit_tests::stepped")
    def becomes(graph: Any, x: Any) -> Any:
        return graph.op("cast", graph.op("gt", x, 0.0), dtype=FLOAT)

    try:
        agree("stepped", lambda x: (stepped(x) * FACTORS.to(x.dtype)).sum(), FINITE)
    finally:
        del LOWERINGS["kit_tests::stepped"]


def test_an_operation_without_one_has_that_of_its_lowering() -> None:
    @torch.library.custom_op("kit_tests::twice", mutates_args=())
    def twice(x: torch.Tensor, by: float) -> list[torch.Tensor]:
        return [x * by, x + by]

    twice.register_fake(lambda x, by: [torch.empty_like(x), torch.empty_like(x)])

    @poptorch.lowering("kit_tests::twice")
    def becomes(graph: Any, x: Any, by: float) -> Any:
        return [graph.op("mul", x, by), graph.op("add", x, by)]

    def loss(x: Any) -> Any:
        a, b = twice(x, 3.0)
        return (a * FACTORS + b * b).sum()

    try:
        _, gradient = OnTheDevice(loss, FINITE)(FINITE)
        torch.testing.assert_close(gradient, 3 * FACTORS + 2 * (FINITE + 3))
    finally:
        del LOWERINGS["kit_tests::twice"]


class Cells(nn.Module):
    def __init__(self, kind: Any, how: str) -> None:
        super().__init__()
        more = {"proj_size": 2} if how == "projected" else {}
        twice = {"num_layers": 2, "bidirectional": True} if how == "two layers" else {}
        self.cells, self.how = kind(3, 4, batch_first=how != "steps first", **more, **twice), how

    def forward(self, x: Any) -> Any:
        y, state = self.cells(x[0] if self.how == "no batch" else x)
        return y, y.square().sum() + sum(
            s.sum() for s in (state if type(state) is tuple else [state])
        )


@pytest.mark.parametrize("how", ["", "steps first", "two layers", "no batch", "projected"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_layers_of_cells(kind: Any, how: str) -> None:
    if how == "projected" and kind is not nn.LSTM:
        return
    torch.manual_seed(0)
    net, x = Cells(kind, how), drawn(2, 5, 3)
    plain = copy.deepcopy(net)
    program = training(net)
    y, loss = program(x)
    expected, value = plain(x)
    torch.testing.assert_close(y, expected.detach(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(loss, value.detach(), rtol=1e-4, atol=1e-6)
    value.backward()
    torch.optim.SGD(plain.parameters(), 0.1).step()
    program.detachFromDevice()
    for a, b in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_layer_of_cells_is_traced_once(kind: Any) -> None:
    calls = itertools.count()  # in which the capture sees no change

    class Counted(Cells):
        def forward(self, x: Any) -> Any:
            next(calls)
            return super().forward(x)

    capture.capture_module(Counted(kind, ""), (drawn(2, 5, 3),), {}, (), True)
    assert next(calls) == 1


def test_a_layer_of_cells_in_a_module_that_changes_is_refused() -> None:
    class Changing(Cells):
        def forward(self, x: Any) -> Any:
            self.how += "."
            return self.cells(x * len(self.how))[0].sum()

    with pytest.raises(ModelError, match=r"Changing\.forward changes 'how', on which"):
        capture.capture_module(Changing(nn.GRU, ""), (drawn(2, 5, 3),), {}, (), True)


def test_sequences_that_are_packed_are_refused() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.LSTM(3, 4)

        def forward(self, x: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 2]))
            return self.cells(packed)[0].data

    with pytest.raises(
        ModelError, match=r"uses the result of x\[mask\], whose size depends on the values"
    ):
        poptorch.inferenceModel(Packed())(drawn(5, 2, 3))


def test_nothing_outlives_a_capture() -> None:
    captured(attention(causal=True), drawn(5, 12))
    assert whole.current is None
    q = drawn(1, 2, 5, 4)
    plain = F.scaled_dot_product_attention(q, q, q)  # torch's own again
    torch.testing.assert_close(plain, torch.softmax(q @ q.transpose(-2, -1) / 2, -1) @ q)


# --- what is traced -------------------------------------------------------------------------------


class Block(nn.Module):
    """What lesson 13's networks and the benchmark's are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm, self.drop, self.out = nn.LayerNorm(4), nn.Dropout(0.1), nn.Linear(4, 3)

    def forward(self, x: Any, y: Any) -> Any:
        h = torch.relu(self.bn(self.conv(x))).flatten(2).transpose(1, 2)
        h = self.norm(h + self.drop(self.attend(h, h, h, need_weights=False)[0]))
        o = self.out(torch.tanh(h).mean(1))
        return o, F.cross_entropy(o, y)


def training(net: Any, optimizer: Any = None) -> Any:
    opts = poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=5))
    return poptorch.trainingModel(net, opts, optimizer or torch.optim.SGD(net.parameters(), 0.1))


def test_a_network_is_made_of_rows_that_a_learner_knows() -> None:
    torch.manual_seed(0)
    program = training(Block())
    program(drawn(2, 1, 4, 4), torch.tensor([0, 2]))
    ops = program.run.ir.ops
    found: dict[tuple[str, str], list[str]] = {}
    for op in ops:
        if op.kind not in ("reshape", "permute", "expand", "reinterpret", "slice", "pad"):
            found.setdefault((op.part, op.path), []).append(op.kind)
    assert found["forward", "bn"] == ["norm", "to_variance", "mul", "blend", "blend"]
    assert found["forward", "attend"] == [
        *("matmul", "add", "matmul", "mul", "softmax", "matmul", "matmul", "add"),
    ]  # fmt: skip
    assert found["forward", "loss"] == ["cross_entropy", "sum", "mul"]
    assert found["backward", "loss"] == ["mul"]
    assert found["backward", "Block"].count("non_linearity_grad") == 2  # relu and tanh
    assert found["backward", "bn"] == ["norm_grad", "norm_param_grad"]
    assert found["backward", "drop"] == ["mul"]
    assert sorted(found["backward", "out"]) == ["matmul", "matmul", "sum"]
    assert {path for part, path in found if part == "backward"} == {
        *("conv", "bn", "attend", "norm", "drop", "out", "Block", "loss"),
    }  # fmt: skip
    words = program.program.to_string()
    assert all(f"{path}/" in words for path in ("bn", "attend", "loss"))
    assert show.program(program.report) is not None


def test_the_loss_on_the_line_of_the_model_is_told_from_it() -> None:
    class Line(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 3), nn.Linear(3, 2)

        def forward(self, x: Any, y: Any) -> Any:
            return F.mse_loss(self.b(torch.tanh(self.a(x))), y)

    program = training(Line())
    program(drawn(3, 4), drawn(3, 2))
    paths = [op.path for op in program.run.ir.ops if op.part == "backward"]
    assert list(dict.fromkeys(paths)) == ["loss", "b", "Line", "a"]


@pytest.mark.parametrize(
    "how", ["one", "accumulation", "replicas", "recompute", "off chip", "pipeline"]
)
def test_transforms_keep_what_is_kept_whole(how: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.bn = nn.LSTM(4, 4, batch_first=True), nn.LayerNorm(4)
            self.attend, self.out = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

        def forward(self, x: Any, y: Any) -> Any:
            h = self.bn(self.lstm(x)[0])
            if how == "recompute":
                h = poptorch.recomputationCheckpoint(h)
            with poptorch.Block(ipu_id=1 if how == "pipeline" else 0):
                o = self.out(torch.relu(self.attend(h, h, h, need_weights=False)[0].mean(1)))
                return o, F.cross_entropy(o, y)

    torch.manual_seed(0)
    net = Net()
    plain = copy.deepcopy(net)
    opts = poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=5))
    parts = 1
    if how == "accumulation":
        opts.Training.gradientAccumulation(parts := 2)
    if how == "pipeline":
        opts.Training.gradientAccumulation(parts := 4)
    if how == "replicas":
        opts.replicationFactor(parts := 2)
    if how == "off chip":
        place = poptorch.TensorLocationSettings().useOnChipStorage(False)
        opts.TensorLocations.setOptimizerLocation(place)
    x, y = drawn(8, 5, 4), torch.tensor([0, 2, -100, 1, 1, 0, 2, -100])
    program = poptorch.trainingModel(
        net, opts, torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    )
    optimizer = torch.optim.SGD(plain.parameters(), 0.1, momentum=0.9)
    for _ in range(2):
        program(x, y)
        optimizer.zero_grad()
        each = zip(x.chunk(parts), y.chunk(parts), strict=True)
        sum(plain(a, b)[1] / parts for a, b in each).backward()
        optimizer.step()
    program.detachFromDevice()
    for a, b in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-5)


# --- private names of torch -----------------------------------------------------------------------


def test_torch_says_whether_an_operation_has_a_gradient() -> None:
    """Else an operation with a gradient of its own would get that of its lowering."""
    plain = torch.library.custom_op(
        "kit_tests::plain", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    assert not private.has_gradient(torch.ops.kit_tests.plain.default)
    plain.register_autograd(lambda ctx, g: g)
    assert private.has_gradient(torch.ops.kit_tests.plain.default)
    library = torch.library.Library("kit_tests", "FRAGMENT")
    library.define("defined(Tensor x) -> Tensor")
    assert not private.has_gradient(torch.ops.kit_tests.defined.default)
    torch.library.register_autograd("kit_tests::defined", lambda ctx, g: g, lib=library)
    assert private.has_gradient(torch.ops.kit_tests.defined.default)


def test_torch_lets_a_composed_operation_be_spelled_in_another_way() -> None:
    """Else attention would have products by the root of its scale, and a mask of what is -inf."""
    graph = captured(attention(), drawn(5, 12)).graph
    assert [op.kind for op in graph.ops].count("softmax") == 1
    assert "eq" not in [op.kind for op in graph.ops]


def test_torch_has_a_softmax_of_rows_that_are_hidden() -> None:
    """Else a query that sees no key would be NaN."""
    x = torch.tensor([[0.0, 0.0], [-INF, -INF]])
    assert torch.equal(private.safe_softmax(x, -1), torch.tensor([[0.5, 0.5], [0.0, 0.0]]))


def test_torch_spells_cross_entropy_of_all_kinds() -> None:
    """Else weights, smoothing and shares would not be captured."""
    x, y = FINITE[:2], torch.tensor([1, -100])
    loss = private.cross_entropy_loss(x, y, None, 1, -100, 0.1)
    torch.testing.assert_close(loss, F.cross_entropy(x, y, label_smoothing=0.1))


def test_torch_calls_layers_of_cells_by_these_names() -> None:
    """Else an LSTM would be spelled out step by step."""
    for layer, kind in ((nn.LSTM, "lstm"), (nn.GRU, "scan")):
        ops = captured(lambda w, layer=layer: layer(4, 4)(w)[0].sum(), FINITE).graph.ops
        assert [op.kind for op in ops].count(kind) == 1
    assert {private.recurrent(kind) for kind in whole.RECURRENT} <= set(whole.SPELLED)
