"""What is captured of a module of PyTorch: gradients as torch defines them, changes in place, and
the module left as it was."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from ipu_teach import IPUModel
from ipu_teach.errors import ModelError, NotHereImportError

torch = pytest.importorskip("torch", reason="torch is not installed: the extra `torch` adds it")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from ipu_teach import poptorch  # noqa: E402
from ipu_teach.frontends import pytorch  # noqa: E402
from ipu_teach.frontends.pytorch import markers  # noqa: E402
from ipu_teach.frontends.pytorch.capture import capture_module  # noqa: E402
from ipu_teach.frontends.pytorch.labels import is_own  # noqa: E402

Forward = Callable[..., Any]


def options() -> Any:
    return poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=5))


def examples() -> tuple[Any, Any]:
    g = torch.Generator().manual_seed(7)
    return torch.randn(4, 6, generator=g), torch.randn(4, 3, generator=g)


class Net(nn.Module):
    """Two layers with something between them."""

    def __init__(self, middle: Forward | None = None) -> None:
        super().__init__()
        self.first, self.second, self.middle = nn.Linear(6, 8), nn.Linear(8, 3), middle

    def forward(self, x: Any, y: Any) -> Any:
        h = torch.tanh(self.first(x))
        out = self.second(h if self.middle is None else self.middle(self, h))
        return out, F.mse_loss(out, y)


class Around(Net):
    """A net with its forward given, and what `prepare` adds to it."""

    def __init__(self, call: Forward, prepare: Forward | None = None) -> None:
        super().__init__()
        self.call = call
        if prepare is not None:
            prepare(self)

    def forward(self, x: Any, y: Any) -> Any:
        return self.call(self, x, y)


def plain(net: Any, x: Any, y: Any) -> Any:
    return Net.forward(net, x, y)


class Sign(torch.autograd.Function):
    """The sign, with the gradient of a clamp: a straight-through estimator."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (x.abs() < 0.5).float()


def hooked(net: Any, h: Any) -> Any:
    if h.requires_grad:
        h.register_hook(lambda g: g * 3)
    return h


def partly_without_gradient(net: Any, h: Any) -> Any:
    with torch.no_grad():
        k = h * 2
    return h + k


def partly_inferred(net: Any, h: Any) -> Any:
    with torch.inference_mode():
        k = h * 2
    return h + k.clone()


def differentiated(net: Any, x: Any, y: Any) -> Any:
    x = x.clone().requires_grad_(True)
    out = net.second(torch.tanh(net.first(x)))
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return out, F.mse_loss(out, y) + g.square().mean()


def backward_twice(net: Any, x: Any, y: Any) -> Any:
    net.second(net.first(x)).mean().backward()
    return plain(net, x, y)


def clamped(net: Any, x: Any, y: Any) -> Any:
    with torch.no_grad():
        net.second.weight.clamp_(-0.05, 0.05)
    return plain(net, x, y)


def data_clamped(net: Any, x: Any, y: Any) -> Any:
    net.second.weight.data = net.second.weight.data.clamp(-0.1, 0.1)
    return plain(net, x, y)


def cloned(net: Any, x: Any, y: Any) -> Any:
    w = net.first.weight.clone()
    w.mul_(2.0)
    w[0] = 0
    out = net.second(torch.tanh(F.linear(x, w)))
    return out, F.mse_loss(out, y)


def averaged(net: Any, x: Any, y: Any) -> Any:
    net.mean.mul_(0.9)
    net.mean.add_(x.mean(0), alpha=0.1)
    net.calls += 1
    return plain(net, (x - net.mean) / net.calls, y)


def reassigned(net: Any, x: Any, y: Any) -> Any:
    net.mean = net.mean * 0.9 + x.mean(0) * 0.1
    net.calls += 1
    return plain(net, x - net.mean, y)


def swapped(net: Any, x: Any, y: Any) -> Any:
    before = net.p.clone()
    net.p.copy_(net.q)
    net.q.copy_(before)
    return plain(net, x + net.p - 2 * net.q, y)


def cached(net: Any, x: Any, y: Any) -> Any:
    if net.cache is None:
        net.cache = torch.arange(6.0) / 6
    return plain(net, x * net.cache, y)


def checkpointed_layers(net: Any, x: Any, y: Any) -> Any:
    out = checkpoint(lambda v: net.second(torch.tanh(net.first(v))), x, use_reentrant=False)
    return out, checkpoint(F.mse_loss, out, y, use_reentrant=False)


def checkpointed_scan(net: Any, x: Any, y: Any) -> Any:
    steps = x[:, None] * torch.ones(1, 3, 1)
    h = checkpoint(lambda v: net.scan(v)[0], steps, use_reentrant=False)
    out = net.second(h[:, -1])
    labels = torch.tensor([0, 2, 1, 1])
    return out, checkpoint(F.cross_entropy, out, labels, use_reentrant=False)


def with_buffers(net: Any) -> None:
    net.register_buffer("mean", torch.zeros(6))
    net.register_buffer("calls", torch.zeros((), dtype=torch.int64))


def with_two(net: Any) -> None:
    net.register_buffer("p", torch.zeros(6))
    net.register_buffer("q", torch.ones(6))


def tied(net: Any) -> None:
    net.third = nn.Linear(6, 8)
    net.third.weight = net.first.weight


PROGRAMS: dict[str, Callable[[], Any]] = {
    "detach": lambda: Net(lambda net, h: h.detach() * h),
    "no_grad": lambda: Net(partly_without_gradient),
    "inference_mode": lambda: Net(partly_inferred),
    "data": lambda: Net(lambda net, h: h * h.data),
    "autograd.Function": lambda: Net(lambda net, h: Sign.apply(h)),
    "tensor hook": lambda: Net(hooked),
    "in place": lambda: Net(lambda net, h: F.relu_(h * 2)),
    "torch.func": lambda: Net(lambda net, h: torch.func.vmap(torch.sin)(h)),
    "checkpoint": lambda: Around(checkpointed_layers),
    "checkpoint, reentrant": lambda: Net(
        lambda net, h: checkpoint(lambda v: torch.sin(v) * v, h, use_reentrant=True)
    ),
    "checkpoint of a scan": lambda: Around(
        checkpointed_scan, lambda net: setattr(net, "scan", nn.LSTM(6, 8, batch_first=True))
    ),
    "gradient in forward": lambda: Around(differentiated),
    "backward in forward": lambda: Around(backward_twice),
    "parameter clamped in forward": lambda: Around(clamped),
    "parameter's data replaced": lambda: Around(data_clamped),
    "clone of a parameter": lambda: Around(cloned),
    "buffers changed in place": lambda: Around(averaged, with_buffers),
    "buffers assigned": lambda: Around(reassigned, with_buffers),
    "buffers exchanged": lambda: Around(swapped, with_two),
    "a constant kept for the next call": lambda: Around(
        cached, lambda net: setattr(net, "cache", None)
    ),
    "unused parameter": lambda: Around(
        plain, lambda net: setattr(net, "unused", nn.Parameter(torch.ones(2)))
    ),
    "tied parameter": lambda: Around(
        lambda net, x, y: plain(net, x + net.third(x).mean(), y), tied
    ),
    "frozen parameter": lambda: Around(plain, lambda net: net.first.requires_grad_(False)),
    "parameter hook": lambda: Around(
        plain, lambda net: net.first.weight.register_hook(lambda g: g.clamp(-0.01, 0.01))
    ),
    "accumulation hook": lambda: Around(
        plain,
        lambda net: net.first.weight.register_post_accumulate_grad_hook(
            lambda p: p.grad.mul_(0.5) and None
        ),
    ),
    "backward hook": lambda: Around(
        plain, lambda net: net.second.register_full_backward_hook(lambda m, i, o: (i[0] * 2,))
    ),
    "backward prehook": lambda: Around(
        plain, lambda net: net.second.register_full_backward_pre_hook(lambda m, o: (o[0] * 2,))
    ),
    "forward hooks": lambda: Around(
        plain,
        lambda net: (
            net.first.register_forward_hook(lambda m, i, o: o * 2),
            net.first.register_forward_pre_hook(lambda m, i: (i[0] * 2,)),
        ),
    ),
    "several losses": lambda: Around(
        lambda net, x, y: (lambda out: (out.mean(), out.sum(), F.mse_loss(out, y)))(
            net.second(net.first(x))
        )
    ),
}
PROGRAMS["accumulation hook"] = lambda: Around(plain, halved)


def halved(net: Any) -> None:
    def halve(p: Any) -> None:
        p.grad.mul_(0.5)

    net.first.weight.register_post_accumulate_grad_hook(halve)


@pytest.mark.parametrize("name", PROGRAMS)
def test_three_steps_of_training_are_torchs(name: str) -> None:
    x, y = examples()
    nets = []
    for _ in range(2):
        torch.manual_seed(3)
        nets.append(PROGRAMS[name]())
    net, peer = nets
    training = poptorch.trainingModel(net, options(), poptorch.optim.SGD(net.parameters(), lr=0.1))
    plain_step = torch.optim.SGD(peer.parameters(), lr=0.1)
    for _ in range(3):
        plain_step.zero_grad()
        loss = peer(x, y)[-1]
        loss.backward()
        plain_step.step()
        assert float(training(x, y)[-1]) == pytest.approx(float(loss.detach()), rel=1e-5)
    assert training.compiles == 1
    training.detachFromDevice()
    pairs = zip(net.state_dict().values(), peer.state_dict().values(), strict=True)
    for actual, expected in pairs:
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


# --- refusals -------------------------------------------------------------------------------------


def adding(net: Any, x: Any, y: Any) -> Any:
    x += 1
    return plain(net, x, y)


def cutting(net: Any, x: Any, y: Any) -> Any:
    x[:, 0].zero_()
    return plain(net, x, y)


def growing(net: Any, x: Any, y: Any) -> Any:
    net.shift.add_(1.0)
    return plain(net, x * net.shift, y)


def moving(net: Any, x: Any, y: Any) -> Any:
    net.shift = net.shift + 1.0
    return plain(net, x * net.shift, y)


def remembering(net: Any, x: Any, y: Any) -> Any:
    h = torch.tanh(net.first(x)) + (0 if net.state is None else net.state)
    net.state = h.detach()
    out = net.second(h)
    return out, F.mse_loss(out, y)


def counting(net: Any, x: Any, y: Any) -> Any:
    net.number += 1
    return plain(net, x * net.number, y)


def drawing(net: Any, x: Any, y: Any) -> Any:
    return plain(net, x * random.random(), y)


def multiplying(net: Any, x: Any, y: Any) -> Any:
    return net.first(x) @ x, y.mean()


REFUSED: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "input": (lambda: Around(adding), ("changes the input 'x' in place", "x += 1", "y = x + 1")),
    "view of an input": (
        lambda: Around(cutting),
        ("changes the input 'x' in place", "x[:, 0].zero_()"),
    ),
    "attribute in place": (
        lambda: Around(growing, lambda net: setattr(net, "shift", torch.ones(6))),
        ("neither a parameter nor a buffer", "net.shift.add_(1.0)", "register_buffer"),
    ),
    "attribute": (
        lambda: Around(moving, lambda net: setattr(net, "shift", torch.ones(6))),
        (
            "Around.forward changes 'shift', on which the result of its next call depends",
            "register_buffer",
        ),
    ),
    "state": (
        lambda: Around(remembering, lambda net: setattr(net, "state", None)),
        ("Around.forward changes 'state'", "register_buffer"),
    ),
    "counter": (
        lambda: Around(counting, lambda net: setattr(net, "number", 0)),
        ("Around.forward changes 'number'", "register_buffer"),
    ),
    "random numbers": (lambda: Around(drawing), ("random numbers of Python", "torch.rand")),
    "number": (
        lambda: Around(lambda net, x, y: plain(net, x * x.sum().item(), y)),
        (
            "uses the value of a tensor's element in Python",
            "x.sum().item()",
            "torch.where",
        ),
    ),
    "array": (
        lambda: Around(lambda net, x, y: plain(net, torch.tensor(x.numpy()), y)),
        ("uses the value of a tensor's element in Python", "x.numpy()"),
    ),
    "mask": (
        lambda: Around(lambda net, x, y: (net.first(x), x[x > 0].mean())),
        (
            "uses the result of x[mask] or nonzero(), whose size depends on",
            "x[x > 0]",
            "torch.where(mask, x, 0)",
        ),
    ),
    "shapes": (
        lambda: Around(multiplying),
        ("torch could not capture Around: RuntimeError", "where: ", "net.first(x) @ x"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_modules_that_are_refused(name: str) -> None:
    x, y = examples()
    make, words = REFUSED[name]
    net = make()
    before = {n: t.clone() for n, t in net.state_dict().items()}
    with pytest.raises(ModelError) as caught:
        poptorch.trainingModel(net, options())(x.clone(), y)
    for word in (*words, "test_capture.py" if "line:" in str(caught.value) else ""):
        assert word in str(caught.value), str(caught.value)
    assert all(torch.equal(t, before[n]) for n, t in net.state_dict().items())


@pytest.mark.parametrize("way", ["to_sparse", "embedding"])
def test_sparse_tensors_are_refused_with_the_line(way: str) -> None:
    class Sparse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.eye(3))

        def forward(self, x: Any) -> Any:
            if way == "to_sparse":
                return (self.w * x).to_sparse().sum()  # makes it
            return F.embedding(x.long(), self.w, sparse=True).sum()

    options = poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=2))
    executor = poptorch.trainingModel(Sparse(), options)
    with pytest.raises(ModelError, match="sparse tensor") as error:
        executor(torch.tensor([0.0, 1.0, 2.0]))
    assert "dense tensors" in str(error.value)
    if way == "to_sparse":
        assert str(error.value.line).endswith("# makes it")


def test_a_gradient_that_is_zero_everywhere_leaves_the_weights() -> None:
    class Signs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.tensor([1.0, -2.0, 0.0]))

        def forward(self, x: Any) -> Any:
            signs = torch.sgn(x * self.w)
            return signs, poptorch.identity_loss(signs, "sum")

    module = Signs()
    options = poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=2))
    executor = poptorch.trainingModel(module, options, torch.optim.SGD(module.parameters(), lr=1))
    signs, loss = executor(torch.tensor([3.0, 1.0, 1.0]))
    assert signs.tolist() == [1, -1, 0] and loss == 0
    assert module.w.tolist() == [1, -2, 0]


def test_errors_name_tensors_in_containers() -> None:
    class Batch(nn.Module):
        def forward(self, batch: Any) -> Any:
            batch["ids"][0].add_(1)
            return batch["ids"][1]

    with pytest.raises(ModelError, match=r"changes the input \"batch\['ids'\]\[0\]\" in place"):
        poptorch.inferenceModel(Batch(), options())({"ids": [torch.ones(2), torch.ones(3)]})


def test_the_modules_own_errors_stay_as_they_are() -> None:
    class Picky(nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("colour")

    with pytest.raises(KeyError, match="colour"):
        poptorch.inferenceModel(Picky(), options())(torch.ones(2))


# --- the module is left as it was -----------------------------------------------------------------

SEEN: list[Any] = []


class Leaky(nn.Module):
    """Keeps tensors, counts, and changes containers."""

    total: list[Any] = []

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last, self.calls = nn.Linear(6, 3), None, 0
        self.kept, self.named, self.seen = [1], {"a": [2]}, {3}

    def forward(self, x: Any, y: Any) -> Any:
        h = self.layer(x)
        self.last, self.calls, self.new = h, self.calls + 1, h
        self.kept.append(h)
        self.named["a"].append(h)
        self.named["b"] = h
        self.seen.add(4)
        self.total.append(h)
        SEEN.append(h)
        self.train(False)
        return h, F.mse_loss(h, y)


def test_a_captured_module_is_as_it_was() -> None:
    x, y = examples()
    net, gradients = Leaky(), []
    outputs: list[Any] = []
    net.layer.register_forward_hook(lambda m, i, o: outputs.append(o))
    net.layer.weight.register_hook(lambda g: gradients.append(g))
    capture_module(net, (x, y), training=True)
    assert net.training and net.layer.training
    assert net.last is None and net.calls == 0 and not hasattr(net, "new")
    assert (net.kept, net.named, net.seen) == ([1], {"a": [2]}, {3})
    assert Leaky.total == [] and SEEN == [] and outputs == [] and gradients == []
    kinds = {type(t) for t in net.state_dict().values()}
    assert kinds == {torch.Tensor} and all(p.grad is None for p in net.parameters())


class Slotted:
    """An object whose attributes are not in a dict."""

    __slots__ = ("append", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.append = self.values.append


STORE = Slotted()
QUEUE: SimpleQueue[Any] = SimpleQueue()


def test_an_object_with_slots_is_as_it_was() -> None:
    class Keeps(nn.Module):
        def forward(self, x: Any) -> Any:
            h = x * 2
            STORE.append(h)
            return h

    capture_module(Keeps(), (torch.ones(3),))
    assert STORE.values == []


def test_a_count_in_a_class_on_which_the_result_depends_is_refused() -> None:
    class Counts(nn.Module):
        calls = 0

        def forward(self, x: Any) -> Any:
            type(self).calls += 1
            return x * self.calls

    with pytest.raises(ModelError, match="Counts.forward changes 'Counts.calls'"):
        capture_module(Counts(), (torch.ones(3),))
    assert Counts.calls == 0


def test_a_tensor_that_stays_elsewhere_is_refused() -> None:
    class Hides(nn.Module):
        def forward(self, x: Any) -> Any:
            h = x * 2
            QUEUE.put(h)
            return h

    with pytest.raises(ModelError, match="stores a tensor outside the module") as caught:
        capture_module(Hides(), (torch.ones(3),))
    assert "h = x * 2" in str(caught.value)
    while not QUEUE.empty():
        QUEUE.get()


# --- labels ---------------------------------------------------------------------------------------


def test_each_operation_has_its_module_and_line() -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3))

        def forward(self, x: Any, y: Any) -> Any:
            out = self.body(torch.tanh(x))
            return out, F.mse_loss(out, y)

    result = capture_module(Deep(), examples(), training=True)
    ops = [*result.graph.ops, *result.backward]
    assert {op.part for op in ops} == {"forward", "backward"}
    for part in ("forward", "backward"):
        paths = {op.path for op in ops if op.part == part}
        assert {"body.0", "body.1", "body.2"} <= paths <= {"", "body.0", "body.1", "body.2"}
    assert sum(op.line[1] == 0 for op in ops) <= len(ops) // 20
    assert {op.line[0] for op in ops if op.line[1]} == {__file__}


def test_packages_whose_names_begin_with_torch_are_not_torch() -> None:
    folder = torch.__file__.removesuffix("/torch/__init__.py")
    assert is_own(f"{folder}/torchvision/models/resnet.py")
    assert not is_own(torch.__file__) and not is_own(poptorch.__file__)
    assert not is_own(random.__file__), "Python's own"
    assert is_own("<stdin>") and is_own("<ipython-input-3-0123>")


def test_a_torch_that_is_too_old_is_refused() -> None:
    pytorch.check_version("2.13.0+cpu")
    pytorch.check_version("3.0.0a0+git12")
    with pytest.raises(NotHereImportError, match="torch 2.13 or newer, but torch 2.6.0") as caught:
        pytorch.check_version("2.6.0")
    assert 'pip install "torch>=2.13"' in str(caught.value)


def test_capturing_twice_gives_the_same_graph() -> None:
    net = copy.deepcopy(Net(hooked))
    graphs = [str(capture_module(net, examples(), training=True).graph) for _ in range(2)]
    assert graphs[0] == graphs[1]


def test_a_lowering_that_returns_another_shape_is_refused() -> None:
    @poptorch.lowering("aten::sinc")
    def becomes(graph: Any, x: Any) -> Any:
        return graph.op("sum", x, dims=(0,))

    class Sinc(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.sinc(x)

    try:
        with pytest.raises(
            ModelError,
            match=r"The lowering of aten::sinc returned .*FLOAT\[3\].*torch's result is FLOAT",
        ):
            capture_module(Sinc(), (torch.ones(2, 3),))
    finally:
        del markers.LOWERINGS["aten::sinc"]
