"""`torch.cond` on the device, which computes both branches, compared with an `if` in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from ipu_teach import IPUModel, poptorch  # noqa: E402
from ipu_teach.errors import ModelError  # noqa: E402


def options() -> Any:
    return poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=4))


def with_if(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    return (true_fn if bool(pred) else false_fn)(*operands)


Cond = Callable[..., Any]


class Branching(nn.Module):  # type: ignore[misc]
    """A module whose branches use operands, parameters and other tensors from outside."""

    def __init__(self, function: Any, cond: Cond | None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function, self.cond = function, cond
        self.w = nn.Parameter(torch.tensor([0.5, 0.0, 2.0]))
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        y = self.function(self, x * self.w, self.cond or torch.cond)
        return y, sum(part.sum() for part in (y if isinstance(y, tuple) else (y,)))


def roots(net: Any, x: Any, cond: Cond) -> Any:
    """The branch that is not taken has infinite gradients and NaN."""
    return cond(x.sum() > 0, lambda v: v.sqrt() * 2, lambda v: v.abs().log1p(), (x,))


def layers(net: Any, x: Any, cond: Cond) -> Any:
    h = torch.tanh(x)
    return cond(
        (x > 0).all(), lambda v: net.first(v) + h / h, lambda v: net.second(v).exp() * net.w, (x,)
    )


def several(net: Any, x: Any, cond: Cond) -> Any:
    def both(v: Any) -> Any:
        return v.sin(), (v * 2).sum()

    return cond(x.sum() > 0, both, lambda v: (v.cos(), v.prod()), (x,))


def nested(net: Any, x: Any, cond: Cond) -> Any:
    def inner(v: Any) -> Any:
        return cond(v[0] > 1, lambda u: u.sqrt(), lambda u: u.square(), (v,))

    return cond(x.sum() > 0, inner, lambda v: -v, (x,))


FUNCTIONS = {f.__name__: f for f in (roots, layers, several, nested)}
INPUTS = [[1.0, 2.0, 3.0], [-1.0, -2.0, 0.5], [4.0, 0.0, 1.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_the_branch_that_is_taken(name: str) -> None:
    ours, theirs = (Branching(FUNCTIONS[name], c) for c in (None, with_if))
    training = poptorch.trainingModel(ours, options(), torch.optim.SGD(ours.parameters(), 0.5))
    theirs.double()
    optimizer = torch.optim.SGD(theirs.parameters(), 0.5)
    for numbers in INPUTS:
        x = torch.tensor(numbers)
        with torch.no_grad():
            for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                other.copy_(own)
        *_, loss = training(x)
        training.copyWeightsToHost()
        optimizer.zero_grad()
        *_, expected = theirs(x.double())
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(
            loss.double(), expected.detach(), equal_nan=True, rtol=1e-5, atol=1e-5
        )
        for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(
                own.detach().double(), other.detach(), equal_nan=True, rtol=1e-5, atol=1e-5
            )
        with torch.no_grad():
            ours.w.copy_(torch.tensor([0.5, 0.0, 2.0]))
        training.copyWeightsToDevice()


def test_a_predicate_of_python_chooses_when_the_module_is_captured() -> None:
    def chosen(net: Any, x: Any, cond: Cond) -> Any:
        return cond(x.shape[0] == 3, torch.sin, torch.cos, (x,))

    x = torch.ones(3)
    ours = Branching(chosen, None)
    y, _ = poptorch.inferenceModel(ours, options())(x)
    torch.testing.assert_close(y, torch.sin(x * ours.w).detach())


def while_loop(net: Any, x: Any, cond: Cond) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda v: v.sum() < 9, lambda v: (v + 1,), (x,))[0]


REFUSED: dict[str, tuple[Any, str, str]] = {
    "shapes": (
        lambda net, x, cond: cond(x.sum() > 0, lambda v: v, lambda v: v.sum(), (x,)),
        "different structures, shapes or dtypes", "the same shapes and dtypes",
    ),
    "in place": (
        lambda net, x, cond: cond(x.sum() > 0, lambda v: v + net.calls.add_(1), lambda v: v, (x,)),
        "changes a tensor in place, but the device runs both branches", "assign it after the call",
    ),
    "loop": (while_loop, "calls torch's operation while_loop", "for step in range"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_branch_is_refused_with_a_next_step(name: str) -> None:
    function, problem, advice = REFUSED[name]
    with pytest.raises(ModelError, match=problem) as error:
        poptorch.inferenceModel(Branching(function, None), options())(torch.ones(3))
    assert error.match(f"next: .*{advice}") and error.match("line: .*test_torch_cond.py")
