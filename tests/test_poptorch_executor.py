"""Executors of PyTorch modules: each call gives what plain PyTorch gives, or is refused."""

from __future__ import annotations

import copy
import io
import pickle
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from ipu_teach import IPUModel
from ipu_teach.errors import InvalidOptionError, ModelError, NoHardwareError, NotOfferedError

torch = pytest.importorskip("torch", reason="torch is not installed: the extra `torch` adds it")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from ipu_teach import poptorch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*isinstance.treespec:FutureWarning")
Build = Callable[[], Any]


def options() -> Any:
    return poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=3))


def drawn(*shape: int, seed: int = 1) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, Y = drawn(4, 6), drawn(4, 3, seed=2)


def refused(call: Callable[[], Any], kind: type[Exception] = ModelError) -> str:
    """The text of the error that a call raises, on one line."""
    with pytest.raises(kind) as caught:
        call()
    text = " ".join(str(caught.value).split())
    assert "next:" in text, text
    return text


class Net(nn.Module):
    """Two layers and a squared error."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

    def between(self, h: Any) -> Any:
        return h

    def forward(self, x: Any, y: Any = None) -> Any:
        out = self.b(self.between(torch.tanh(self.a(x))))
        return out if y is None else (out, F.mse_loss(out, y))


class Normed(Net):
    def __init__(self) -> None:
        super().__init__()
        self.n = nn.BatchNorm1d(8)

    def between(self, h: Any) -> Any:
        return self.n(h)


class Called(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def new(kind: Build = Net) -> Any:
    torch.manual_seed(0)
    return kind()


def sgd(module: Any, rate: float = 0.1, **settings: Any) -> Any:
    return torch.optim.SGD(module.parameters(), rate, **settings)


def step(module: Any, optimizer: Any, *args: Any) -> Any:
    """A step of plain PyTorch, and its outputs."""
    optimizer.zero_grad()
    outputs = module(*args)
    outputs[-1].backward()
    optimizer.step()
    return outputs


def assert_equal(module: Any, plain: Any, tolerance: float = 1e-5) -> None:
    """Two modules have the same parameters and buffers."""
    for (name, found), expected in zip(
        module.state_dict().items(), plain.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(
            found, expected, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


class Pair:
    """A module on the device and its copy in plain PyTorch, trained side by side."""

    def __init__(self, module: Any, optimizer: Callable[[Any], Any] = sgd) -> None:
        self.module, self.plain = module, copy.deepcopy(module)
        self.optimizer, self.reference = optimizer(self.module), optimizer(self.plain)
        self.executor = poptorch.trainingModel(self.module, options(), self.optimizer)

    def both(self, change: Callable[[Any, Any], Any]) -> None:
        """Change a module and its optimiser, on both sides."""
        change(self.module, self.optimizer)
        change(self.plain, self.reference)

    def step(self, *args: Any) -> None:
        """One step on both sides: losses, parameters and buffers are equal."""
        args = args or (X, Y)
        loss = step(self.plain, self.reference, *args)[-1]
        torch.testing.assert_close(self.executor(*args)[-1], loss.detach())
        assert_equal(self.module, self.plain)


# --- arguments ------------------------------------------------------------------------------------


class Scale(NamedTuple):
    factor: float
    shift: float = 0.0


@dataclass
class Setting:
    factor: float
    kind: str = "mul"


class Mutable:
    """An object that is compared by identity and has attributes."""

    def __init__(self, factor: float) -> None:
        self.factor = factor


class Configured(nn.Module):
    def forward(self, x: Any, k: Any = 1, *, flag: bool = False, mode: str = "mul") -> Any:
        if isinstance(k, (list, tuple)) and not isinstance(k, Scale):
            k = sum(k)
        if isinstance(k, dict):
            k = k["factor"] * 10 + list(k.values())[0]
        factor = getattr(k, "factor", k)
        factor = 7.0 if factor is None else factor
        y = x * torch.as_tensor(factor) if mode == "mul" else x + torch.as_tensor(factor)
        return -y if flag else y


CALLS: list[list[tuple[tuple[Any, ...], dict[str, Any]]]] = [
    [((1,), {}), ((2,), {}), ((3,), {}), ((1,), {})],
    [((1.5,), {}), ((2.5,), {}), ((float("inf"),), {}), ((None,), {})],
    [((True,), {}), ((3,), {}), ((1,), {})],
    [((2,), {"flag": True}), ((2,), {"flag": False}), ((2,), {"mode": "add"}), ((2,), {})],
    [(([1, 2],), {}), (([1, 3],), {}), (((1, 3),), {}), (([1, 3, 4],), {})],
    [(({"factor": 2, "b": 3},), {}), (({"b": 3, "factor": 2},), {}), (({"factor": 5},), {})],
    [((Scale(2.0),), {}), ((Scale(3.0),), {}), ((Setting(2.0),), {}), ((Setting(4.0),), {})],
    [((Mutable(2.0),), {}), ((Mutable(3.0),), {})],
    [((np.float32(2),), {}), ((np.float32([3.0]),), {}), ((np.arange(6),), {}), ((2,), {})],
    [((), {}), ((), {"k": 4}), ((4,), {}), ((), {"flag": True, "k": 4})],
]


@pytest.mark.parametrize("calls", CALLS)
def test_another_python_argument_compiles_again(calls: Any) -> None:
    module = Configured()
    executor = poptorch.inferenceModel(module, options())
    for number, (args, kwargs) in enumerate(calls):
        expected = module(X, *args, **kwargs).float()
        for _ in range(2):
            torch.testing.assert_close(executor(X, *args, **kwargs), expected)
        assert executor.compiles <= number + 1


def test_equal_arguments_compile_once() -> None:
    executor = poptorch.inferenceModel(Configured(), options())
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((X,), {"k": 2, "flag": True}),
        ((X, 2), {"flag": True}),
        ((), {"flag": True, "k": 2, "x": X}),
        ((X, 2), {"flag": True, "mode": "mul"}),
    ]
    for args, kwargs in calls:
        torch.testing.assert_close(executor(*args, **kwargs), -2 * X)
    assert executor.compiles == 1
    for settings in (Setting(2.0), Setting(2.0)):  # equal objects
        executor(X, settings)
    assert executor.compiles == 2
    executor(X, float("nan"))
    executor(X, float("nan"))
    assert executor.compiles == 3


def test_a_changed_list_or_object_compiles_again() -> None:
    executor = poptorch.inferenceModel(Configured(), options())
    numbers, scale, array = [1, 2], Mutable(2.0), np.ones(6, np.float32)
    for change in (lambda: None, lambda: numbers.append(4), lambda: numbers.__setitem__(0, 9)):
        change()
        torch.testing.assert_close(executor(X, numbers), X * sum(numbers))
    for factor in (2.0, 3.0):
        scale.factor = factor
        torch.testing.assert_close(executor(X, scale), X * factor)
        array[...] = factor
        torch.testing.assert_close(executor(X, array), X * factor)


def test_a_large_constant_buffer_compiles_again_only_if_it_changes() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("numbers", torch.arange(70_000))

        def forward(self, x: Any) -> Any:
            return x + self.numbers[:6]

    module = Shifted()
    executor = poptorch.inferenceModel(module, options())
    for _ in range(2):
        torch.testing.assert_close(executor(X), X + torch.arange(6))
    assert executor.compiles == 1
    module.numbers.numpy()[:6] = 7  # torch does not notice this change
    torch.testing.assert_close(executor(X), X + 7)
    assert executor.compiles == 2


def test_tensors_are_matched_by_name() -> None:
    class Two(nn.Module):
        def forward(self, x: Any, y: Any, batch: Any = None) -> Any:
            return x - y if batch is None else x - y + batch["p"] * 2 - batch["q"][0]

    module = Two()
    executor = poptorch.inferenceModel(module, options())
    a, b = drawn(2, 3), drawn(2, 3, seed=5)
    torch.testing.assert_close(executor(a, b), a - b)
    torch.testing.assert_close(executor(a, y=b), a - b)
    torch.testing.assert_close(executor(y=b, x=a), a - b)
    assert executor.compiles == 1
    executor.destroy()
    for batch in ({"p": a, "q": [b]}, {"q": [b], "p": a}, {"q": (b,), "p": a}):
        torch.testing.assert_close(executor(a, b, batch), module(a, b, batch))
        torch.testing.assert_close(executor(b, a, batch=batch), module(b, a, batch))
    text = refused(lambda: executor(a, b, {"p": a, "q": [b[:1]]}))
    assert "The argument \"batch['q'][0]\" of the " in text
    assert "is [1, 3] float32, but the program was compiled for [2, 3]" in text
    text = refused(lambda: executor(a, b))
    assert "was called with 'x' [2, 3] float32, 'y' [2, 3] float32, but was compiled for" in text
    assert (
        "Two.forward does not accept these arguments: missing a required argument: 'y'"
        in refused(lambda: executor(a))
    )
    assert "forward(x, y, batch=None)." in refused(lambda: executor(a, b, c=1))


def test_tensors_in_objects_are_fed_or_refused() -> None:
    @dataclass
    class Batch:
        x: Any
        k: float = 2.0

    class Of(nn.Module):
        def forward(self, batch: Any) -> Any:
            return batch.x * batch.k

    executor = poptorch.inferenceModel(Of(), options())
    text = refused(lambda: executor(Batch(X)))
    assert "The argument 'batch' is a Batch with tensors in its attributes" in text
    assert "torch.export.register_dataclass(Batch)" in text
    torch.export.register_dataclass(Batch)
    for x, k in ((X, 2.0), (Y, 2.0), (X, 3.0)):
        if x is Y:
            executor.destroy()
        torch.testing.assert_close(executor(Batch(x[:, :3], k)), x[:, :3] * k)


def test_training_goes_on_across_a_compilation() -> None:
    class Dropped(Net):
        def forward(self, x: Any, y: Any, k: float = 1.0) -> Any:
            h = torch.tanh(self.a(x))
            mask = F.dropout(torch.ones_like(h), 0.5)
            out = self.b(h)
            return mask, F.mse_loss(out, y) * k

    pair = Pair(new(Dropped), lambda m: torch.optim.Adam(m.parameters(), 0.05))
    masks = []
    for k in (1.0, 1.0, 2.0, 2.0, 1.0):
        loss = step(pair.plain, pair.reference, X, Y, k)[1]
        mask, found = pair.executor(X, Y, k)
        torch.testing.assert_close(found, loss.detach())
        masks.append(mask)
    assert pair.executor.compiles == 3
    assert_equal(pair.module, pair.plain)
    assert not any(torch.equal(m, n) for i, m in enumerate(masks) for n in masks[:i])

    again = Pair(new(Dropped), lambda m: torch.optim.Adam(m.parameters(), 0.05))
    for mask in masks:  # one program draws the same numbers
        torch.testing.assert_close(again.executor(X, Y)[0], mask)
    assert pair.optimizer.state_dict()["state"][0]["step"] == 5


# --- modes and attributes -------------------------------------------------------------------------


def test_a_frozen_batch_norm_stays_frozen() -> None:
    module = new(Normed).train()
    module.n.running_mean += 0.3
    module.n.eval()
    pair = Pair(module)
    for _ in range(3):
        pair.step()
    assert not module.n.training and module.training and module.a.training
    pair.both(lambda m, o: m.n.train())
    pair.step()
    pair.both(lambda m, o: m.eval())
    pair.step()
    pair.both(lambda m, o: m.train())
    pair.step()
    assert pair.executor.compiles == 4
    assert module.n.num_batches_tracked == 2


@pytest.mark.parametrize("mode", [True, False])
def test_an_inference_model_leaves_the_modes(mode: bool) -> None:
    module = new(Normed).train(mode)
    module.b.train(not mode)
    executor = poptorch.inferenceModel(module, options())
    expected = copy.deepcopy(module).eval()(X)
    torch.testing.assert_close(executor(X), expected.detach())
    module.train(not mode)
    torch.testing.assert_close(executor(X), expected.detach())
    assert executor.compiles == 1 and module.training is not mode
    executor.detachFromDevice()
    training = poptorch.trainingModel(module.train(), options(), sgd(module))
    training(X, Y)
    training.detachFromDevice()
    expected = copy.deepcopy(module).eval()(X)
    torch.testing.assert_close(executor(X), expected.detach())
    assert module.training


def test_an_eval_of_the_modules_own_runs_or_is_refused() -> None:
    class Frozen(Normed):
        def train(self, mode: bool = True) -> Any:
            super().train(mode)
            self.n.eval()
            return self

    module = new(Frozen).train()
    torch.testing.assert_close(
        poptorch.inferenceModel(module, options())(X), copy.deepcopy(module).eval()(X).detach()
    )
    assert module.training and not module.n.training

    class Doubled(Net):
        factor = 1.0

        def train(self, mode: bool = True) -> Any:
            self.factor = 1.0 if mode else 2.0
            return super().train(mode)

        def between(self, h: Any) -> Any:
            return h * self.factor

    module = new(Doubled).train()
    executor = poptorch.inferenceModel(module, options())
    assert "call module.eval() before" in refused(lambda: executor(X))
    torch.testing.assert_close(executor(X) if module.eval() else None, module(X).detach())


def test_attributes_that_forward_does_not_read_may_change() -> None:
    class Logged(Net):
        width = 1.0

        def __init__(self) -> None:
            super().__init__()
            self.history, self.epoch, self.rate = [], 0, 1.0

        def between(self, h: Any) -> Any:
            return h * self.width * self.scale() * getattr(self, "extra", 1.0)

        def scale(self) -> float:
            return float(vars(self)["rate"]) if False else self.rate

    pair = Pair(new(Logged))
    for number in range(3):
        pair.step()
        pair.module.history.append(number)
        pair.module.epoch += 1
        pair.module.optimizer = pair.optimizer
    assert pair.executor.compiles == 1
    Logged.width = 0.5  # of the class
    pair.step()
    pair.both(lambda m, o: setattr(m, "extra", 2.0))
    pair.step()
    pair.both(lambda m, o: setattr(m, "width", 0.25))
    pair.step()
    assert pair.executor.compiles == 4


def halve(parameter: Any) -> None:
    parameter.grad.mul_(0.5)


def test_changed_attributes_compile_again() -> None:
    class Warm(Net):
        def __init__(self) -> None:
            super().__init__()
            self.warmth, self.sizes = 1.0, [1, 2]
            self.mask, self.inner = torch.ones(8), {"k": 1.0}

        def between(self, h: Any) -> Any:
            return h * self.warmth * sum(self.sizes) * self.mask * self.inner["k"]

    pair = Pair(new(Warm))
    changes: list[Callable[[Any, Any], Any]] = [
        lambda m, o: None,
        lambda m, o: setattr(m, "warmth", 0.5),
        lambda m, o: m.sizes.append(3),
        lambda m, o: m.mask.mul_(0.5),
        lambda m, o: setattr(m, "mask", torch.full((8,), 0.1)),
        lambda m, o: m.inner.update(k=2.0),
        lambda m, o: m.a.register_forward_hook(lambda module, args, out: out * 2),
        lambda m, o: m.a.weight.register_hook(lambda g: g * 2),
        lambda m, o: m.b.weight.register_post_accumulate_grad_hook(halve),
        lambda m, o: m.a.weight.requires_grad_(False),
        lambda m, o: m.a.weight.requires_grad_(True),
        lambda m, o: setattr(m, "b", nn.Linear(8, 3, bias=False).requires_grad_(False)),
    ]
    for number, change in enumerate(changes):
        torch.manual_seed(5)
        change(pair.module, pair.optimizer)
        torch.manual_seed(5)
        change(pair.plain, pair.reference)
        pair.step()
        pair.step()
        assert pair.executor.compiles == number + 1


def test_constant_buffers_are_part_of_the_program() -> None:
    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("index", torch.tensor([2, 0]))
            self.register_buffer("scale", torch.tensor(2.0))

        def forward(self, x: Any) -> Any:
            return x[:, self.index] * self.scale

    module = Chosen()
    executor = poptorch.inferenceModel(module, options())
    torch.testing.assert_close(executor(X), module(X))
    module.index.copy_(torch.tensor([1, 5]))
    torch.testing.assert_close(executor(X), module(X))
    module.scale.fill_(3.0)
    torch.testing.assert_close(executor(X), module(X))
    module.load_state_dict({"index": torch.tensor([3, 3]), "scale": torch.tensor(-1.0)})
    torch.testing.assert_close(executor(X), module(X))
    assert executor.compiles == 3, "the scale is a variable of the program"


def test_changes_of_a_module_in_a_list_are_noticed() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(6, 3)]  # which registers nothing

        def forward(self, x: Any) -> Any:
            return self.layers[0](x)

    module = new(Listed)
    executor = poptorch.inferenceModel(module, options())
    for number in range(3):
        with torch.no_grad():
            module.layers[0].weight.mul_(0.5)
        if number == 2:
            module.layers[0].bias = None
        for _ in range(2):
            torch.testing.assert_close(executor(X), module(X).detach())
    assert executor.compiles == 3


def test_a_module_is_left_as_it_was() -> None:
    class Remembers(Net):
        def __init__(self) -> None:
            super().__init__()
            self.last, self.seen, self.calls = None, [], 0
            self.lstm = nn.LSTM(8, 8)

        def between(self, h: Any) -> Any:
            self.last = h
            self.seen.append(h)
            self.calls += 1
            return self.lstm(h)[0]

    pair = Pair(new(Remembers))
    for _ in range(3):
        pair.executor(X, Y)
        step(pair.plain, pair.reference, X, Y)
    assert pair.executor.compiles == 1
    assert (pair.module.last, pair.module.seen, pair.module.calls) == (None, [], 0)
    pair.plain.last, pair.plain.seen, pair.plain.calls = None, [], 0
    assert_equal(pair.module, pair.plain)
    torch.testing.assert_close(pair.module(X), pair.plain(X))


def test_containers_with_methods_of_their_own_are_read_past_these() -> None:
    class Registry(OrderedDict[str, Any]):
        """As in transformers: a name stands for a class, and each look-up makes an object."""

        def __getitem__(self, key: str) -> Any:
            return super().__getitem__(key)()

        def get(self, key: str) -> Any:  # type: ignore[override]
            return self[key]

    class Queue(list[Any]):
        def __iter__(self) -> Any:
            raise AssertionError("this empties the queue")

    class Chooses(Net):
        registry, queue = Registry(relu=nn.ReLU, tanh=nn.Tanh), Queue([1, 2])

        def between(self, h: Any) -> Any:
            self.registry.pop("relu", None)
            self.queue.append(3)
            return self.registry["tanh"](h)

    poptorch.inferenceModel(new(Chooses), options())(X)
    assert [*OrderedDict.keys(Chooses.registry)] == ["relu", "tanh"]
    assert OrderedDict.__getitem__(Chooses.registry, "tanh") is nn.Tanh
    assert list.__len__(Chooses.queue) == 2


# --- losses ---------------------------------------------------------------------------------------


class Marked(Net):
    """The loss is marked, and stands where `place` says."""

    def __init__(self, place: str = "first", reduction: str = "none") -> None:
        super().__init__()
        self.place, self.reduction = place, reduction

    def forward(self, x: Any, y: Any) -> Any:
        out = self.b(torch.tanh(self.a(x)))
        errors = (out - y) ** 2
        value = errors.mean() if self.reduction == "none" else errors
        loss = poptorch.identity_loss(value, self.reduction)
        accuracy = (out.argmax(1) == y.argmax(1)).float().mean()
        outputs = {
            "first": (loss, accuracy),
            "middle": (out, loss, accuracy),
            "dict": {"loss": loss, "accuracy": accuracy},
            "twice": (loss, loss, out),
            "absent": (out, accuracy),
            "alone": loss,
            "only numbers": accuracy,
        }
        return outputs[self.place]


@pytest.mark.parametrize(
    ("place", "reduction"),
    [
        *((place, how) for place in ("alone", "absent") for how in ("none", "mean", "sum")),
        *(("first", "none"), ("middle", "mean"), ("dict", "sum"), ("twice", "none")),
        ("only numbers", "mean"),
    ],
)
def test_identity_loss_names_the_loss(place: str, reduction: str) -> None:
    module = new(lambda: Marked(place, reduction))
    plain = copy.deepcopy(module)
    plain.place = "alone"
    reference = sgd(plain)
    executor = poptorch.trainingModel(module, options(), sgd(module))
    for _ in range(3):
        loss = plain(X, Y)
        reference.zero_grad()
        loss.backward()
        reference.step()
        outputs = executor(X, Y)
        if place == "dict":
            torch.testing.assert_close(outputs["loss"], loss.detach())
        if place in ("first", "twice"):
            torch.testing.assert_close(outputs[0], loss.detach())
    module.place = plain.place
    assert_equal(module, plain)
    assert float((module.a.weight - new(Net).a.weight).detach().abs().max()) > 1e-3


def test_several_marked_losses() -> None:
    class Sum(Net):
        def forward(self, x: Any, y: Any) -> Any:
            out = self.b(torch.tanh(self.a(x)))
            first = poptorch.identity_loss((out - y) ** 2, "mean")
            second = poptorch.identity_loss(out.abs(), "mean")
            return first, poptorch.identity_loss(first + 3 * second, "none"), out

    class Apart(Sum):
        def forward(self, x: Any, y: Any) -> Any:
            first, _, out = super().forward(x, y)
            return first, poptorch.identity_loss(out, "sum")

    module = new(Sum)
    plain, reference = copy.deepcopy(module), None
    reference = sgd(plain)
    executor = poptorch.trainingModel(module, options(), sgd(module))
    for _ in range(3):
        executor(X, Y)
        reference.zero_grad()
        plain(X, Y)[1].backward()
        reference.step()
    assert_equal(module, plain)
    text = refused(lambda: poptorch.trainingModel(new(Apart), options())(X, Y))
    assert "marked 2 losses that are independent of each other" in text


def test_a_loss_that_cannot_be() -> None:
    class Vector(Net):
        def forward(self, x: Any, y: Any) -> Any:
            out = super().forward(x)
            return poptorch.identity_loss((out - y) ** 2, "none")

    assert "a single float" in refused(lambda: poptorch.trainingModel(new(Vector), options())(X, Y))
    assert "a single float" in refused(lambda: poptorch.trainingModel(new(), options())(X))

    class Detached(Net):
        def forward(self, x: Any, y: Any) -> Any:
            return super().forward(x, y)[1].detach()

    text = refused(lambda: poptorch.trainingModel(new(Detached), options())(X, Y))
    assert "depends on no parameter that requires a gradient" in text


# --- who has the weights --------------------------------------------------------------------------


def test_executors_that_share_parameters_are_refused() -> None:
    class Wrapped(nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any, y: Any) -> Any:
            return self.inner(x, y)

    inner = new()
    training = poptorch.trainingModel(Wrapped(inner), options(), sgd(inner))
    training(X, Y)
    inference = poptorch.inferenceModel(inner, options())
    text = refused(lambda: inference(X))
    assert "both use 'a.bias', 'a.weight', 'b.bias', 'b.weight'" in text
    assert "detachFromDevice() of the trainingModel of Wrapped" in text
    tied = new()
    tied.b.weight = inner.b.weight
    assert "both use 'b.weight', and each device would change its own copy" in refused(
        lambda: poptorch.inferenceModel(tied, options())(X)
    )
    view = new()
    view.b.weight = nn.Parameter(inner.b.weight.detach()[:, :])
    assert "both use 'b.weight', and each device would change its own copy" in refused(
        lambda: poptorch.inferenceModel(view, options())(X)
    )
    training.detachFromDevice()
    torch.testing.assert_close(inference(X), inner(X).detach())
    assert "both use" in refused(lambda: training(X, Y))
    inference.detachFromDevice()
    training(X, Y)


def test_buffers_that_one_executor_changes_are_not_shared() -> None:
    first = new(Normed)
    second = new(Normed)
    second.n = first.n
    training = poptorch.trainingModel(first, options(), sgd(first))
    training(X, Y)
    text = refused(lambda: poptorch.inferenceModel(second, options())(X))
    assert "'n.bias', 'n.num_batches_tracked', 'n.running_mean', 'n.running_var', ..." in text


def test_inference_models_may_share_what_nobody_changes() -> None:
    module = new()
    first, second = (poptorch.inferenceModel(module, options()) for _ in range(2))
    for _ in range(2):
        torch.testing.assert_close(first(X), module(X).detach())
        torch.testing.assert_close(second(X[:2] if second.run is None else X[:2]), first(X)[:2])
        with torch.no_grad():
            module.a.weight.mul_(0.5)


class Shared(nn.Module):
    """A module with a submodule that two others contain, too; `b` is the same norm twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))
        self.parts = nn.ModuleList([nn.Sequential(self.a, nn.Tanh()), nn.Sequential(self.a)])
        self.b = nn.ModuleDict({"first": self.a[1], "second": self.a[1]})

    def forward(self, x: Any) -> Any:
        y = self.b["second"](sum(part(x) for part in self.parts))
        return y, (y * X).sum()


def test_a_submodule_with_several_names_is_one_submodule() -> None:
    module = new(Shared)
    plain = copy.deepcopy(module)
    executor, optimizer = poptorch.trainingModel(module, options(), sgd(module)), sgd(plain)
    for _ in range(3):
        loss, expected = executor(X)[1], step(plain, optimizer, X)[1]
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-5)
    executor.detachFromDevice()
    assert_equal(module, plain)
    assert module.parts[0][0] is module.a and module.b["first"] is module.a[1]
    found = poptorch.inferenceModel(module.eval(), options())(X)[0]
    torch.testing.assert_close(found, plain.eval()(X)[0].detach(), rtol=1e-5, atol=1e-5)


class Scan(torch.autograd.Function):  # type: ignore[misc]
    """A running sum of rows, computed in place in views, as parallel scans are."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        sums = x.clone().transpose(0, 1)
        for row in range(1, sums.shape[1]):
            sums[:, row].add_(sums[:, row - 1])
        ctx.save_for_backward(sums)
        return sums.transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        assert len(ctx.saved_tensors) == 1
        return gradient.flip(0).cumsum(0).flip(0)


class Scanned(Net):
    def forward(self, x: Any) -> Any:
        y = Scan.apply(self.a(x))
        return y, (y * y).sum()


def test_a_function_of_the_users_may_change_views_in_place() -> None:
    module = new(Scanned)
    plain = copy.deepcopy(module)
    executor = poptorch.trainingModel(module, options(), sgd(module, 0.01))
    optimizer = sgd(plain, 0.01)
    for _ in range(2):
        loss, expected = executor(X)[1], step(plain, optimizer, X)[1]
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-5)


def test_tied_parameters_train_as_one_and_overlapping_ones_are_refused() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
            self.b.weight = self.a.weight

        def forward(self, x: Any) -> Any:
            out = self.b(torch.tanh(self.a(x)))
            return out, (out**2).mean()

    pair = Pair(new(Tied))
    for _ in range(3):
        pair.step(X)
    with torch.no_grad():
        pair.both(lambda m, o: m.b.weight.mul_(0.5))
    pair.step(X)
    module = new(Tied)
    module.b.weight = nn.Parameter(module.a.weight.detach())
    text = refused(lambda: poptorch.trainingModel(module, options(), sgd(module))(X))
    assert "The tensors 'a.weight' and 'b.weight' of the module share memory" in text


def test_edits_of_weights_between_calls() -> None:
    pair = Pair(new(Normed), lambda m: sgd(m, momentum=0.9))
    saved = copy.deepcopy(pair.module.state_dict())
    value = drawn(3, 8, seed=9)

    def by_numpy(m: Any, o: Any) -> None:
        m.a.weight.detach().numpy()[0] = 0.25

    def replaced(m: Any, o: Any) -> None:
        m.a.weight.data = torch.full((8, 6), 0.05)

    edits: list[Callable[[Any, Any], Any]] = [
        lambda m, o: m.load_state_dict(saved),
        lambda m, o: m.b.weight.data.copy_(value),
        lambda m, o: nn.init.constant_(m.a.bias, 0.3),
        lambda m, o: m.n.running_mean.zero_(),
        lambda m, o: m.n.reset_running_stats(),
        by_numpy,
        replaced,
        lambda m, o: o.state.clear(),
        lambda m, o: o.state[m.a.weight]["momentum_buffer"].mul_(0.5),
        lambda m, o: o.load_state_dict(copy.deepcopy(o.state_dict())),
        lambda m, o: m.load_state_dict(copy.deepcopy(saved), assign=False),
    ]
    pair.step()
    for edit in edits:
        pair.both(edit)
        pair.step()
        pair.step()
    assert pair.executor.compiles == 1
    assert pair.module.n.num_batches_tracked == pair.plain.n.num_batches_tracked


class Changing(Net):
    """A module of which a program can change many things."""

    def __init__(self) -> None:
        super().__init__()
        self.n, self.warmth = nn.BatchNorm1d(8), 1.0
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, x: Any, y: Any, k: float = 1.0, *, flag: bool = False) -> Any:
        out = self.b(self.n(torch.tanh(self.a(x)) * self.warmth)) * k + self.shift
        return F.mse_loss(out + 1 if flag else out, y)


def in_plain_torch(module: Any, optimizer: Any) -> None:
    step_of_loss(optimizer, module(X, Y))
    optimizer.zero_grad()


def step_of_loss(optimizer: Any, loss: Any) -> None:
    optimizer.zero_grad()
    if loss.requires_grad:
        loss.backward()
    optimizer.step()


@pytest.mark.parametrize("seed", range(3))
def test_programs_drawn_at_random(seed: int) -> None:
    """Steps on the device and in plain PyTorch, between changes of everything."""
    draw = random.Random(seed)
    module = new(Changing)
    kind, settings = draw.choice(
        [
            (torch.optim.SGD, {"lr": 0.05}),
            (torch.optim.SGD, {"lr": 0.05, "momentum": 0.8, "weight_decay": 0.01}),
            (torch.optim.Adam, {"lr": 0.02}),
            (torch.optim.AdamW, {"lr": 0.02, "betas": (0.5, 0.9)}),
        ]
    )
    pair = Pair(module, lambda m: kind(m.parameters(), **settings))
    schedulers = [
        torch.optim.lr_scheduler.ExponentialLR(o, 0.8) for o in (pair.optimizer, pair.reference)
    ]
    saved = copy.deepcopy([pair.plain.state_dict(), pair.reference.state_dict()])
    kwargs: dict[str, Any] = {}

    def save() -> None:
        saved[:] = copy.deepcopy([pair.plain.state_dict(), pair.reference.state_dict()])

    number, flag = 0.0, False
    edits: dict[str, Callable[[Any, Any], Any]] = {
        "attribute": lambda m, o: setattr(m, "warmth", 0.5 + flag),
        "frozen": lambda m, o: m.a.requires_grad_(flag),
        "mode": lambda m, o: m.train(flag),
        "mode of a part": lambda m, o: m.n.train(flag),
        "rate": lambda m, o: o.param_groups[0].update(lr=number / 10),
        "load": lambda m, o: m.load_state_dict(saved[0]),
        "load the optimiser": lambda m, o: o.load_state_dict(copy.deepcopy(saved[1])),
        "clear": lambda m, o: o.state.clear(),
        "weight": lambda m, o: m.b.weight.data.add_(number / 10),
        "buffer": lambda m, o: m.shift.fill_(number),
        "plain step": in_plain_torch,
    }
    others: dict[str, Callable[[], Any]] = {
        "argument": lambda: kwargs.update(k=0.5 + flag),
        "keyword": lambda: kwargs.update(flag=flag),
        "schedule": lambda: [s.step() for s in schedulers],
        "save": save,
        "detach": pair.executor.detachFromDevice,
        "destroy": pair.executor.destroy,
    }
    done: list[str] = []
    for _ in range(15):
        number, flag = draw.random(), draw.random() < 0.5
        name = draw.choice([*edits, *others])
        done.append(name)
        pair.both(edits[name]) if name in edits else others[name]()
        loss = pair.plain(X, Y, **kwargs)
        step_of_loss(pair.reference, loss)
        torch.testing.assert_close(
            pair.executor(X, Y, **kwargs),
            loss.detach(),
            rtol=1e-3,
            atol=1e-4,
            msg=lambda m: f"{done}: {m}",
        )
        for found, expected in zip(
            pair.module.state_dict().values(), pair.plain.state_dict().values(), strict=True
        ):
            torch.testing.assert_close(
                found, expected, rtol=1e-3, atol=1e-4, msg=lambda m: f"{done}: {m}"
            )


def test_an_edit_before_a_detach_is_kept() -> None:
    pair = Pair(new())
    pair.step()
    pair.both(lambda m, o: nn.init.constant_(m.a.bias, 0.7))
    pair.executor.detachFromDevice()
    assert_equal(pair.module, pair.plain)
    for use in (pair.executor.copyWeightsToHost, pair.executor.copyWeightsToDevice):
        assert "is not attached" in refused(use)
    pair.step()
    nn.init.constant_(pair.module.a.bias, 0.7)
    pair.executor.copyWeightsToHost()  # the device's, as its name says
    assert_equal(pair.module, pair.plain)


def test_a_call_that_fails_leaves_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(new(), lambda m: torch.optim.Adam(m.parameters(), 0.05))
    pair.step()
    run = pair.executor.run.__class__.__call__

    def failing(self: Any, **fed: Any) -> Any:
        run(self, **fed)
        raise ArithmeticError

    with monkeypatch.context() as patch:
        patch.setattr(pair.executor.run.__class__, "__call__", failing)
        pytest.raises(ArithmeticError, pair.executor, X, Y)
    assert_equal(pair.module, pair.plain)
    pair.step()
    pair.step()


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("on_chip", [False, True])
def test_replicas_with_state_of_the_optimiser_elsewhere(is_shared: bool, on_chip: bool) -> None:
    class Scaled(Net):
        def __init__(self) -> None:
            super().__init__()
            self.factor = 1.0

        def between(self, h: Any) -> Any:
            return h * self.factor

    opts = options().replicationFactor(2)
    opts.Training.gradientAccumulation(2)
    where = poptorch.TensorLocationSettings().useOnChipStorage(on_chip)
    opts.TensorLocations.setOptimizerLocation(where.useReplicatedTensorSharding(is_shared))
    module = new(Scaled)
    plain = copy.deepcopy(module)
    optimizer = torch.optim.Adam(module.parameters(), 0.05)
    reference = torch.optim.Adam(plain.parameters(), 0.05)
    executor = poptorch.trainingModel(module, opts, optimizer)
    x, y = drawn(8, 6), drawn(8, 3, seed=4)
    for number in range(4):
        if number == 2:  # another program goes on with the state
            module.factor = plain.factor = 0.5
            for net in (module, plain):
                nn.init.constant_(net.b.bias, 0.2)
        executor(x, y)
        step(plain, reference, x, y)
        assert_equal(module, plain)
        for ours, theirs in zip(module.parameters(), plain.parameters(), strict=True):
            for key, values in reference.state[theirs].items():
                torch.testing.assert_close(optimizer.state[ours][key], values, rtol=1e-4, atol=1e-6)
    assert executor.compiles == 2


def test_the_host_sees_the_weights_after_each_call() -> None:
    pair = Pair(new(Normed), lambda m: torch.optim.Adam(m.parameters(), 0.01))
    averaged = [torch.optim.swa_utils.AveragedModel(m) for m in (pair.module, pair.plain)]
    kept = pair.module.a.weight.detach()
    for number in range(3):
        pair.step()
        averaged[0].update_parameters(pair.module)
        averaged[1].update_parameters(pair.plain)
        torch.testing.assert_close(kept, pair.plain.a.weight.detach())
        torch.testing.assert_close(pair.module(X, Y)[1], pair.plain(X, Y)[1])  # in plain PyTorch
        state = pair.optimizer.state_dict()["state"]
        reference = pair.reference.state_dict()["state"]
        for key, values in reference.items():
            assert state[key]["step"] == values["step"] == number + 1
            torch.testing.assert_close(state[key]["exp_avg_sq"], values["exp_avg_sq"])
        for duplicate in (copy.deepcopy(pair.module), pickle.loads(pickle.dumps(pair.module))):
            assert_equal(duplicate, pair.plain)
            assert duplicate.a.weight.grad is None
        file = io.BytesIO()
        torch.save({"module": pair.module.state_dict(), "optimizer": state}, file)
        file.seek(0)
        torch.testing.assert_close(
            torch.load(file)["module"]["a.weight"], pair.plain.a.weight.detach()
        )
    assert_equal(*averaged)


def test_gradients_on_the_host_are_refused() -> None:
    pair = Pair(new())
    pair.step()
    module, optimizer = pair.module, pair.optimizer
    uses: list[Callable[[], Any]] = [
        lambda: nn.utils.clip_grad_norm_(module.parameters(), 1.0),
        lambda: nn.utils.clip_grad_value_(module.parameters(), 1.0),
        lambda: module.a.weight.grad.norm(),
        lambda: module.a.weight.grad + 1,
        lambda: module.a.weight.grad.data,
        lambda: module.a.weight.grad.numpy(),
        optimizer.step,
    ]
    before = copy.deepcopy(module.state_dict())
    for use in uses:
        text = refused(use)
        assert "the host has no gradients" in text and "call detachFromDevice()" in text
    assert all(torch.equal(v, before[n]) for n, v in module.state_dict().items())
    pair.executor(X, Y)
    step(pair.plain, pair.reference, X, Y)
    optimizer.zero_grad()
    optimizer.zero_grad(set_to_none=False)
    pair.step()
    module.zero_grad(set_to_none=False)
    pair.step()
    # a step of plain PyTorch between calls
    step(module, optimizer, X, Y)
    step(pair.plain, pair.reference, X, Y)
    pair.step()
    pair.executor.detachFromDevice()
    assert module.a.weight.grad is None
    step(module, optimizer, X, Y)
    step(pair.plain, pair.reference, X, Y)
    assert_equal(module, pair.plain)
    assert float(nn.utils.clip_grad_norm_(module.parameters(), 1e-3)) > 0
    pair.step()


def test_backward_of_a_returned_loss_is_refused() -> None:
    pair = Pair(new())
    loss = pair.executor(X, Y)[1]
    for call in (loss.backward, lambda: loss.backward(retain_graph=True)):
        text = refused(call)
        assert "backward() was called on the loss that a trainingModel returned" in text
        assert "test_poptorch_executor.py" in text and "leave out loss.backward()" in text


def test_a_returned_loss_is_otherwise_a_plain_tensor() -> None:
    loss = Pair(new()).executor(X, Y)[1]
    value = loss.item()
    assert repr(loss) == repr(torch.tensor(value)) and f"{loss:.3f}" == f"{value:.3f}"
    file = io.BytesIO()
    torch.save(loss, file)
    file.seek(0)
    copies = [loss / 1, loss.detach(), loss.clone(), copy.deepcopy(loss), torch.load(file)]
    copies += [pickle.loads(pickle.dumps(loss)), torch.stack([loss, loss]).mean(), sum([loss])]
    assert all(type(c) is torch.Tensor and c.item() == value for c in copies)
    assert np.asarray(loss) == value and loss.numpy() == value
    wanted = loss.clone().requires_grad_()  # of a function of the loss, on the host
    (wanted * 3).backward()
    assert wanted.grad == 3
    loss.requires_grad_().backward()
    assert loss.grad == 1
    net = poptorch.inferenceModel(nn.Linear(1, 1), options())
    assert net(loss.detach_().reshape(1, 1)).shape == (1, 1)


class Unmeasured(tuple):  # type: ignore[type-arg]
    """A tuple whose length means something else, as in packages of physics."""

    def __len__(self) -> int:
        raise NotImplementedError


def test_an_attribute_may_be_a_tuple_without_a_length() -> None:
    net = nn.Linear(6, 3)
    net.kinds = Unmeasured((1, 2))
    torch.testing.assert_close(poptorch.inferenceModel(net, options())(X), net(X))


def test_a_returned_loss_is_an_input_of_the_next_call() -> None:
    pair = Pair(new())
    loss = pair.executor(X, Y)[1]

    class Scaled(nn.Module):
        def forward(self, x: Any, scale: Any) -> Any:
            return x * scale

    result = poptorch.inferenceModel(Scaled(), options())(X, loss)
    assert type(result) is torch.Tensor and torch.equal(result, X * loss)


# --- optimisers -----------------------------------------------------------------------------------


def test_an_optimiser_that_gets_another_group() -> None:
    pair = Pair(new(), lambda m: torch.optim.SGD(m.a.parameters(), 0.1, momentum=0.5))
    pair.step()
    pair.both(lambda m, o: o.add_param_group({"params": m.b.parameters(), "lr": 0.3}))
    pair.step()
    pair.step()
    assert pair.executor.compiles == 2
    pair.both(lambda m, o: o.param_groups[0].update(momentum=0.25, lr=0.05))
    pair.step()
    pair.both(lambda m, o: o.param_groups[1].update(weight_decay=0.1))
    pair.step()
    assert pair.executor.compiles == 4


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 1, 0.5),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 4),
    "exponential": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.7),
    "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1)),
    "warm": lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.1, 1.0, 3),
    "cyclic": lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, 2, cycle_momentum=False),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.2, 5, cycle_momentum=False),
    "zero": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda e: 0.0),
}


@pytest.mark.filterwarnings("error:.*lr_scheduler.step")
@pytest.mark.parametrize("has_call", [False, True])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers(name: str, has_call: bool) -> None:
    pair = Pair(new())
    schedulers = [SCHEDULERS[name](o) for o in (pair.optimizer, pair.reference)]
    for _ in range(4):
        pair.step()
        for scheduler in schedulers:
            scheduler.step()
        if has_call:
            pair.executor.setOptimizer(pair.optimizer)
    assert pair.executor.compiles == 1


def test_a_scheduler_that_looks_at_the_loss_and_one_that_cycles_the_momentum() -> None:
    pair = Pair(new(), lambda m: sgd(m, momentum=0.5))
    plateau = [
        torch.optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=0)
        for o in (pair.optimizer, pair.reference)
    ]
    for loss in (1.0, 2.0, 3.0):
        pair.step()
        for scheduler in plateau:
            scheduler.step(loss)
    cycle = [
        torch.optim.lr_scheduler.OneCycleLR(o, 0.2, 5) for o in (pair.optimizer, pair.reference)
    ]
    for _ in range(3):
        pair.step()
        for scheduler in cycle:
            scheduler.step()


def test_another_optimiser_goes_on_with_the_state() -> None:
    pair = Pair(new(), lambda m: sgd(m, momentum=0.9))
    pair.step()
    pair.executor.setOptimizer(torch.optim.SGD(pair.module.parameters(), 0.02, momentum=0.9))
    pair.reference.param_groups[0]["lr"] = 0.02
    pair.step()
    pair.step()
    assert pair.executor.compiles == 1
    inference = poptorch.inferenceModel(new(), options())
    assert "does not train" in refused(lambda: inference.setOptimizer(pair.optimizer))


SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.0}),
    ("SGD", {"lr": torch.tensor(0.1)}),
    ("SGD", {"lr": 0.1, "momentum": 0.0, "dampening": 0.5}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.5, "foreach": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.5, "fused": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "betas": (0.0, 0.9)}),
    ("Adam", {"lr": 0.1, "betas": (0.0, 0.0)}),
    ("Adam", {"lr": 0.1, "betas": (0.5, 0.0), "eps": 1e-3}),
    ("Adam", {"lr": 0.1, "eps": 0.0}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.3}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.3, "decoupled_weight_decay": True}),
    ("Adam", {"lr": 0.1, "foreach": True}),
    ("Adam", {"lr": torch.tensor(0.1), "capturable": True, "foreach": True}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.0}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.3, "betas": (0.0, 0.99), "eps": 1e-6}),
]


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_settings_of_optimisers(name: str, settings: dict[str, Any]) -> None:
    kind = getattr(torch.optim, name)
    ours = {n: copy.deepcopy(v) for n, v in settings.items()}
    harmless = {n: v for n, v in settings.items() if n not in ("foreach", "fused", "capturable")}
    module = new()
    plain = copy.deepcopy(module)
    executor = poptorch.trainingModel(module, options(), kind(module.parameters(), **ours))
    reference = kind(plain.parameters(), **harmless)
    for _ in range(3):
        step(plain, reference, X, Y)
        executor(X, Y)
        assert_equal(module, plain, 2e-5)


@pytest.mark.parametrize("gradient", [0.0, 1e-21, 1e20, -1e20, 3e20, 1e30, float("nan")])
@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_adam_at_gradients_whose_square_is_no_float(name: str, gradient: float) -> None:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x: Any) -> Any:
            return (self.weight * x).sum()

    module, plain = Product(), Product()
    kind = getattr(torch.optim, name)
    executor = poptorch.trainingModel(module, options(), kind(module.parameters(), lr=0.1))
    reference = kind(plain.parameters(), lr=0.1)
    for scale in (1.0, 0.5, -2.0):
        x = torch.full((3,), gradient * scale)
        executor(x)
        reference.zero_grad()
        plain(x).backward()
        reference.step()
        torch.testing.assert_close(module.weight, plain.weight, equal_nan=True)


def test_groups_have_settings_of_their_own() -> None:
    def groups(kind: Any, *settings: dict[str, Any]) -> Callable[[Any], Any]:
        return lambda m: kind(
            [
                {"params": part.parameters(), **s}
                for part, s in zip((m.a, m.b), settings, strict=True)
            ],
            lr=0.05,
        )

    torch_adam = torch.optim.Adam
    for make in (
        groups(torch.optim.SGD, {"lr": 0.3, "momentum": 0.9}, {"weight_decay": 0.1}),
        groups(torch_adam, {"betas": (0.5, 0.9), "eps": 1e-4}, {"weight_decay": 0.2}),
        groups(torch_adam, {"decoupled_weight_decay": True, "weight_decay": 0.3}, {"lr": 0.1}),
    ):
        pair = Pair(new(), make)
        for _ in range(3):
            pair.step()


class OwnStep(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        return None


def hooked(module: Any) -> Any:
    optimizer = sgd(module)
    optimizer.register_step_post_hook(lambda *args: None)
    return optimizer


WRONG_OPTIMISERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "nesterov": (lambda m: sgd(m, momentum=0.9, nesterov=True), "SGD was given nesterov"),
    "maximize": (lambda m: sgd(m, maximize=True), "SGD was given maximize"),
    "dampening": (lambda m: sgd(m, momentum=0.9, dampening=0.5), "SGD was given dampening"),
    "differentiable": (lambda m: sgd(m, differentiable=True), "SGD was given differentiable"),
    "amsgrad": (lambda m: torch.optim.Adam(m.parameters(), amsgrad=True), "given amsgrad"),
    "adamw": (lambda m: torch.optim.AdamW(m.parameters(), maximize=True), "AdamW was given maxi"),
    "group": (
        lambda m: torch.optim.SGD(
            [{"params": m.a.parameters()}, {"params": m.b.parameters(), "maximize": True}], 0.1
        ),
        "given maximize",
    ),
    "momentum": (lambda m: sgd(m, momentum=1.0), "SGD was given momentum=1.0"),
    "RMSprop": (lambda m: torch.optim.RMSprop(m.parameters()), "RMSprop"),
    "LBFGS": (lambda m: torch.optim.LBFGS(m.parameters()), "LBFGS"),
    "NAdam": (lambda m: torch.optim.NAdam(m.parameters()), "NAdam"),
    "a class": (lambda m: torch.optim.SGD, "SGD"),
    "a list": (lambda m: [sgd(m)], "list"),
    "step": (lambda m: OwnStep(m.parameters(), 0.1), "OwnStep defines its own step()"),
    "hook": (hooked, "A hook is registered for step() of SGD"),
    "of another module": (
        lambda m: sgd(new()),
        "The optimiser SGD contains no parameter of the module Net",
    ),
}


@pytest.mark.parametrize("name", WRONG_OPTIMISERS)
def test_optimisers_that_are_refused(name: str) -> None:
    make, words = WRONG_OPTIMISERS[name]
    module = new()
    text = refused(lambda: poptorch.trainingModel(module, options(), make(module)))
    assert words in text
    if name in ("RMSprop", "LBFGS", "NAdam"):
        assert "use SGD, Adam or AdamW of poptorch.optim" in text


def test_optimisers_of_poptorch_that_are_not_here() -> None:
    for name in ("LAMB", "RMSprop"):
        text = refused(lambda n=name: getattr(poptorch.optim, n), NotOfferedError)
        assert "use instead: poptorch.optim.SGD, Adam or AdamW." in text


def test_every_argument_of_the_optimisers_is_known() -> None:
    """A newer PyTorch may add one that changes the result."""
    from ipu_teach.frontends.pytorch import optimizers

    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        defaults = kind(new().parameters(), lr=0.1).defaults
        unknown = set(defaults) - {*optimizers._KNOWN, *optimizers._REFUSED}
        assert not unknown, unknown
    for scaling in (0.0, -1.0, float("inf"), "4", True):
        text = refused(lambda s=scaling: poptorch.optim.SGD(new().parameters(), loss_scaling=s))
        assert "loss_scaling" in text


def test_a_group_without_parameters_of_the_module_trains_nothing() -> None:
    module, other = new(), new()
    optimizer = torch.optim.SGD([{"params": other.parameters()}, {"params": module.a.parameters()}])
    before = module.b.weight.detach().clone()
    poptorch.trainingModel(module, options(), optimizer)(X, Y)
    assert torch.equal(module.b.weight, before)
    text = refused(lambda: poptorch.trainingModel(nn.ReLU(), options()))
    assert "given a ReLU, which has no parameter that requires a gradient" in text


# --- modules and tensors that are refused ---------------------------------------------------------


def converted(change: Callable[[Any], Any]) -> Build:
    return lambda: change(new())


MODULES: dict[str, tuple[Build, tuple[str, ...]]] = {
    "bfloat16": (
        converted(lambda m: m.bfloat16()),
        (
            "'a.weight' has the dtype torch.bfloat16",
            "module.float() gives torch.float32, module.half()",
        ),
    ),
    "double": (converted(lambda m: m.double()), ("'a.weight' has the dtype torch.float64",)),
    "complex": (
        converted(lambda m: m.to(torch.complex64)),
        ("'a.weight' has the dtype torch.complex64",),
    ),
    "meta": (
        converted(lambda m: m.to("meta")),
        ("'a.weight' is on torch's device \"meta\"", "module.to_empty(device='cpu')"),
    ),
    "lazy": (
        lambda: nn.LazyLinear(3),
        ("a lazy module, whose tensor 'weight' has no shape yet", "module(x)"),
    ),
    "sparse": (
        lambda: Buffered(torch.eye(6).to_sparse()),
        (
            "'table' is sparse (torch.sparse_coo), but the device has only dense tensors",
            "table.to_dense()",
        ),
    ),
    "double buffer": (
        lambda: Buffered(torch.eye(6).double()),
        ("'table' has the dtype torch.float64",),
    ),
    "large number": (lambda: Buffered(torch.tensor([2**40])), ("'table' contains 1099511627776",)),
    "scripted": (lambda: torch.jit.trace(new(), X), ("given a ScriptModule", "Python module")),
    "scripted part": (
        lambda: nn.Sequential(nn.ReLU(), torch.jit.trace(nn.Linear(6, 3), X)),
        ("a module whose submodule '1' is a ScriptModule",),
    ),
    "compiled": (
        lambda: torch.compile(new()),
        ("a module compiled by torch.compile", "without torch.compile"),
    ),
    "compiled in place": (lambda: in_place(), ("without torch.compile",)),
    "parallel": (lambda: nn.DataParallel(new()), ("a DataParallel", "module.module")),
    "function": (lambda: torch.relu, ("whose forward calls this function",)),
    "class": (lambda: Net, ("the class Net", "Net(...)")),
    "number": (
        lambda: 3,
        (
            "was given 3, which is not a torch.nn.Module.",
            "pass an instance of a subclass of torch.nn.Module.",
        ),
    ),
    "none": (
        lambda: None,
        (
            "was given None, which is not a torch.nn.Module.",
            "pass an instance of a subclass of torch.nn.Module.",
        ),
    ),
}


def in_place() -> Any:
    module = new()
    module.compile()
    return module


class Buffered(nn.Module):
    def __init__(self, table: Any) -> None:
        super().__init__()
        self.register_buffer("table", table)

    def forward(self, x: Any) -> Any:
        return x + self.table.sum()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", MODULES)
def test_modules_that_are_refused(name: str) -> None:
    build, words = MODULES[name]
    module = build()
    text = refused(lambda: poptorch.inferenceModel(module, options())(X))
    for word in words:
        assert word in text, text
    if name in ("function", "class", "number", "none", "compiled", "scripted", "exported"):
        refused(lambda: poptorch.trainingModel(module, options()))


def test_modules_that_are_accepted() -> None:
    module = new().eval()
    exported = torch.export.export(module, (X,)).module()
    for kind in (exported, torch.fx.symbolic_trace(module, {"y": None})):
        torch.testing.assert_close(poptorch.inferenceModel(kind, options())(X), module(X).detach())
    half = new().half()
    found = poptorch.inferenceModel(half, options())(X.half())
    assert found.dtype is torch.float16
    torch.testing.assert_close(found.float(), half.float()(X).detach(), rtol=5e-3, atol=5e-3)


TENSORS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "float64": (X.double(), ("'x' has the dtype torch.float64", "x.float()")),
    "bfloat16": (X.bfloat16(), ("'x' has the dtype torch.bfloat16",)),
    "complex": (
        X.to(torch.complex64),
        ("'x' has the dtype torch.complex64", "torch.view_as_real(x)"),
    ),
    "sparse": (
        X.to_sparse(),
        ("'x' is sparse (torch.sparse_coo), but the device has only dense tensors", "x.to_dense()"),
    ),
    "meta": (
        X.to("meta"),
        ("'x' is on torch's device \"meta\"", "torch.zeros_like(x, device='cpu')"),
    ),
    "large": (torch.tensor([[1, 2**31]]), ("'x' contains 2147483648", "32 bits", "x.float()")),
    "small": (torch.tensor([[1, -(2**31) - 1]]), ("'x' contains -2147483649",)),
    "nested": (
        torch.nested.nested_tensor([X, X[:2]]),
        ("'x' is a nested tensor", "torch.nested.to_padded_tensor(x, 0.0)"),
    ),
    "empty": (
        X[:0],
        (
            "'x' of the inferenceModel of Sum has no elements: its shape is [0, 6]",
            "at least one example",
        ),
    ),
}


@pytest.mark.parametrize("name", TENSORS)
def test_inputs_that_are_refused(name: str) -> None:
    class Sum(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1

    tensor, words = TENSORS[name]
    text = refused(lambda: poptorch.inferenceModel(Sum(), options())(tensor))
    for word in words:
        assert word in text, text


# --- batches and outputs --------------------------------------------------------------------------


def test_views_and_other_forms_of_inputs() -> None:
    module = new()
    executor = poptorch.inferenceModel(module, options())
    with torch.inference_mode():
        constant = X.clone()
    forms = (
        X.t().contiguous().t(),
        X[:1].expand(4, 6),
        drawn(8, 12)[::2, ::2],
        (1j * torch.complex(X, X)).conj().imag,
        X.clone().requires_grad_(),
        nn.Parameter(X),
        constant,
    )
    for form in forms:
        torch.testing.assert_close(executor(form), module(form.detach().clone()).detach())
    fresh = poptorch.inferenceModel(new(), options())
    torch.testing.assert_close(fresh(constant), module(X).detach())
    with torch.inference_mode():
        torch.testing.assert_close(executor(X), module(X).detach())
    training = poptorch.trainingModel(new(), options())
    with torch.no_grad():
        training(X, Y)
    for arrays in (X.numpy(), X.tolist()):
        assert "torch.as_tensor(x)" in refused(lambda a=arrays: training(a, Y))


def test_an_executor_is_not_copied_and_not_saved() -> None:
    executor = poptorch.inferenceModel(new(), options())
    executor(X)
    for use in (copy.copy, copy.deepcopy, pickle.dumps, lambda e: torch.save(e, io.BytesIO())):
        assert "torch.save([module.state_dict(), optimizer.state_dict()," in refused(
            lambda f=use: f(executor)
        )


def test_the_state_of_random_numbers_is_checked() -> None:
    executor = poptorch.inferenceModel(Called(lambda x: F.dropout(x, 0.5)), options())
    begun = executor(X)
    kept = executor.rng_state
    first, second = executor(X), executor(X)
    executor.rng_state = kept
    assert torch.equal(executor(X), first) and torch.equal(executor(X), second)
    assert not torch.equal(first, begun)
    for state in ("abc", [1], None, [1, -1], [1.0, 2.0], [True, 1]):
        with pytest.raises(InvalidOptionError, match="two whole numbers"):
            executor.rng_state = state


def test_batches_that_do_not_divide() -> None:
    module = Called(lambda x, k: x * k)
    executor = poptorch.inferenceModel(module, options().deviceIterations(3))
    text = refused(lambda: executor(X, torch.ones(4, 1)))
    assert "'args[0]' of the inferenceModel of Called has the shape [4, 6], but" in text
    assert "must be a multiple of batch_size 1 *" in text
    text = refused(lambda: executor(drawn(6, 2), torch.tensor(2.0)))
    assert "'args[1]' of the inferenceModel of Called has the shape [], but its first" in text
    torch.testing.assert_close(executor(drawn(6, 2), torch.ones(6, 1)), drawn(6, 2))


def test_loaders_that_are_refused() -> None:
    data = torch.utils.data.TensorDataset(torch.zeros(10, 1))
    sampler = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(data), 2, True)
    text = refused(lambda: poptorch.DataLoader(options(), data, batch_sampler=sampler))
    assert "given a batch_sampler" in text and "sampler=" in text
    text = refused(lambda: poptorch.DataLoader(options(), data, batch_size=11))
    assert "has only 10 examples, but every batch must have 11" in text
    text = refused(lambda: poptorch.DataLoader(options(), data, worker=2))
    assert "DataLoader has no argument 'worker'" in text
    text = refused(
        lambda: poptorch.DataLoader(options(), data, 2, shuffle=True, sampler=sampler.sampler)
    )
    assert "torch's DataLoader raised ValueError: sampler option is mutually exclusive" in text
    assert len(poptorch.DataLoader(options(), data, 2, sampler=sampler.sampler)) == 5


def test_integers_may_be_negative_and_labels_may_not_count() -> None:
    module = Called(lambda i: (i - 1).abs() + (i < 0))
    executor = poptorch.inferenceModel(module, options())
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8):
        numbers = torch.tensor([-5, 0, 3, -128], dtype=dtype)
        executor.destroy()
        found = executor(numbers)
        assert found.dtype is dtype
        torch.testing.assert_close(found, module(numbers))

    class Labelled(Net):
        def forward(self, x: Any, y: Any) -> Any:
            out = super().forward(x)
            return out, F.cross_entropy(out, y)

    pair = Pair(new(Labelled))
    for labels in ([0, 1, 2, 0], [2, -100, 0, -100], [1, 1, -100, 2], [0, 1, 2, 0]):
        pair.step(X, torch.tensor(labels))
    assert pair.executor.compiles == 2


class Point(NamedTuple):
    x: Any
    y: Any


STRUCTURES: dict[str, Callable[[Any], Any]] = {
    "one": lambda x: x + 1,
    "list": lambda x: [x, x * 2],
    "tuple of one": lambda x: (x + 1,),
    "dict": lambda x: {"b": x, "a": [x + 1, {"c": (x * 2,)}]},
    "ordered": lambda x: OrderedDict(z=x, a=x + 1),
    "named": lambda x: Point(x, x.sum()),
    "none": lambda x: (x + 1, None, [None]),
    "constants": lambda x: (x + 1, 3, "text", True, 2.5),
    "twice": lambda x: (lambda y: (y, y))(x + 1),
    "input": lambda x: (x, x + 1, x),
    "view": lambda x: (x.t(), x[0], x.reshape(-1)),
    "scalar": lambda x: x.sum(),
    "bool": lambda x: (x > 0, (x > 0).any()),
    "int64": lambda x: (x.argmax(1), (x * 3).long(), torch.arange(3)),
    "int32": lambda x: (x * 3).int(),
    "half": lambda x: (x.half(), x.half().sum()),
    "constant tensor": lambda x: (x, torch.ones(2, 3), torch.tensor(4)),
    "nothing": lambda x: None,
    "empty": lambda x: (),
}


def assert_same(found: Any, expected: Any) -> None:
    """Structures of equal types with equal values and dtypes."""
    assert type(found) is type(expected)
    if isinstance(found, torch.Tensor):
        torch.testing.assert_close(found, expected)
    elif isinstance(found, dict):
        assert list(found) == list(expected)
        for key in found:
            assert_same(found[key], expected[key])
    elif isinstance(found, (list, tuple)):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_same(*pair)
    else:
        assert found == expected


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_and_dtypes_of_outputs(name: str) -> None:
    function = STRUCTURES[name]
    executor = poptorch.inferenceModel(Called(function), options())
    for _ in range(2):
        assert_same(executor(X), function(X))


@pytest.mark.parametrize("mode", ["All", "Final", "EveryN", "Sum"])
@pytest.mark.parametrize("dtype", ["float", "half", "int64", "int32", "bool"])
def test_output_modes(mode: str, dtype: str) -> None:
    functions: dict[str, Callable[[Any], Any]] = {
        "float": lambda x: (x, x.sum()),
        "half": lambda x: (x.half(), x.half().sum()),
        "int64": lambda x: ((x * 100).long(), x.argmax()),
        "int32": lambda x: ((x * 100).int(), (x * 100).int().amax()),
        "bool": lambda x: (x > 0, (x > 0).all()),
    }
    function = functions[dtype]
    opts = options().deviceIterations(4).outputMode(poptorch.OutputMode[mode], 2)
    executor = poptorch.inferenceModel(Called(function), opts)
    x = drawn(8, 3)
    if (mode, dtype) == ("Sum", "bool"):
        assert "OutputMode.Sum cannot add outputs of the dtype torch.bool" in refused(
            lambda: executor(x), InvalidOptionError
        )
        return
    parts = [function(part) for part in x.split(2)]
    for found, *outputs in zip(executor(x), *parts, strict=True):
        expected = {
            "All": torch.cat([o.reshape(-1, *o.shape[1:]) for o in outputs]),
            "Final": outputs[-1],
            "EveryN": torch.cat([o.reshape(-1, *o.shape[1:]) for o in outputs[1::2]]),
            "Sum": torch.stack(outputs).float().sum(0).to(outputs[0].dtype),
        }[mode]
        torch.testing.assert_close(found, expected)


def test_every_nth_of_fewer_is_refused() -> None:
    opts = options().deviceIterations(2).outputMode(poptorch.OutputMode.EveryN, 3)
    executor = poptorch.inferenceModel(Called(lambda x: x), opts)
    assert "selects no output, because a call has only 2 micro-batches" in refused(
        lambda: executor(X), InvalidOptionError
    )


def test_outputs_that_hide_tensors_are_refused() -> None:
    @dataclass
    class Output:
        value: Any

    executor = poptorch.inferenceModel(Called(lambda x: Output(x + 1)), options())
    assert "Called.forward returns an Output with tensors" in refused(lambda: executor(X))
    torch.export.register_dataclass(Output)
    torch.testing.assert_close(executor(X).value, X + 1)


def test_a_failed_compilation_leaves_the_program() -> None:
    pair = Pair(new())
    pair.step()
    pair.module.b.double()
    refused(lambda: pair.executor(X, Y))
    pair.module.b.float()
    pair.step()
    assert pair.executor.compiles == 1


BAD_CALLS: dict[str, Callable[[], Any]] = {
    "deviceIterations": lambda: options().deviceIterations(0),
    "replicationFactor": lambda: options().replicationFactor("2"),
    "outputMode": lambda: options().outputMode(0),
    "outputMode name": lambda: options().outputMode("All"),
    "outputMode n": lambda: options().outputMode(poptorch.OutputMode.EveryN, 0),
    "randomSeed": lambda: options().randomSeed(-1),
    "useIpuModel": lambda: options().useIpuModel("x"),
    "setExecutionStrategy": lambda: options().setExecutionStrategy("x"),
    "setAvailableMemoryProportion": lambda: options().setAvailableMemoryProportion("x"),
    "setAvailableMemoryProportion of none": lambda: options().setAvailableMemoryProportion({}),
    "gradientAccumulation": lambda: options().Training.gradientAccumulation(True),
    "ReductionType": lambda: options().Training.accumulationAndReplicationReductionType("mean"),
    "enableStochasticRounding": lambda: options().Precision.enableStochasticRounding("no"),
    "setPartialsType": lambda: options().Precision.setPartialsType(torch.int8),
    "useOnChipStorage": lambda: poptorch.TensorLocationSettings().useOnChipStorage(None),
    "setOptimizerLocation": lambda: options().TensorLocations.setOptimizerLocation(True),
    "PipelinedExecution": lambda: poptorch.PipelinedExecution("x"),
    "DataLoader options": lambda: poptorch.DataLoader({}, [1, 2]),
    "DataLoader dataset": lambda: poptorch.DataLoader(options(), 3),
    "DataLoader batch_size": lambda: poptorch.DataLoader(options(), [1, 2], batch_size=0),
    "DataLoader num_workers": lambda: poptorch.DataLoader(options(), [1, 2], num_workers=-1),
    "identity_loss": lambda: poptorch.identity_loss(3.0, "sum"),
    "identity_loss reduction": lambda: poptorch.identity_loss(X, "all"),
    "ipu_print_tensor": lambda: poptorch.ipu_print_tensor("x"),
    "recomputationCheckpoint": lambda: poptorch.recomputationCheckpoint([X]),
    "custom_op": lambda: poptorch.custom_op(X, "name"),
    "Block": lambda: poptorch.Block("x", ipu_id=-1),
    "Block far away": lambda: poptorch.Block("x", ipu_id=10**9),
    "BeginBlock": lambda: poptorch.BeginBlock(lambda x: x, ipu_id=1),
    "trainingModel": lambda: poptorch.trainingModel(new(), {"deviceIterations": 2}),
    "inferenceModel": lambda: poptorch.inferenceModel(new(), 3),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_arguments_of_public_functions(name: str) -> None:
    refused(BAD_CALLS[name], InvalidOptionError)


def test_real_hardware_is_refused() -> None:
    assert "useIpuModel(True)" in refused(lambda: options().useIpuModel(False), NoHardwareError)
    assert poptorch.Options().useIpuModel(True).setExecutionStrategy(poptorch.ShardedExecution)


def test_a_rate_that_a_program_sets_is_checked() -> None:
    module = new()
    optimizer = sgd(module)
    executor = poptorch.trainingModel(module, options(), optimizer)
    executor(X, Y)
    for rate in (-0.1, float("nan"), "fast", None):
        optimizer.param_groups[0]["lr"] = rate
        before = module.a.weight.detach().clone()
        assert "SGD was given lr" in refused(lambda: executor(X, Y))
        assert torch.equal(before, module.a.weight)


def test_private_names_of_torch() -> None:
    """Each has another test of what it is for; these say that it still is what it was."""
    from ipu_teach.frontends.pytorch import private

    module = new()
    assert not private.is_compiled(module) and private.is_compiled(torch.compile(module))
    module.compile()
    assert private.is_compiled(module), "a module that is compiled in place is not refused"
    module = new(Normed)
    names = private.attributes_of_module(module)
    assert {"training", "_forward_hooks", "_forward_pre_hooks"} <= set(names)
    assert not any(isinstance(v, dict) and "a" in v for v in names.values())
    tensor = torch.zeros(3)
    before = private.version(tensor)
    tensor.add_(1)
    assert private.version(tensor) == before + 1
    with torch.inference_mode():
        assert private.version(torch.zeros(3)) == 0
    optimizer = sgd(module)
    assert not private.has_step_hooks(optimizer)
    optimizer.register_step_pre_hook(lambda *args: None)
    assert private.has_step_hooks(optimizer), "a hook of a step is not refused"
