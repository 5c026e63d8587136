"""A replacement for `torch.cond` that computes both branches and selects one result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch.autograd.function import FunctionCtx
from torch.overrides import TorchFunctionMode

from ipu_teach.errors import ModelError
from ipu_teach.frontends.pytorch import private
from ipu_teach.frontends.pytorch.labels import innermost_line
from ipu_teach.frontends.pytorch.private import Argument, Target, pytree
from ipu_teach.graph.source import in_words

Branch = Callable[..., Argument]


@contextmanager
def conditions_computed() -> Iterator[None]:
    """Replace `torch.cond` by a function that the device can run, in a `with` block."""
    original = torch.cond
    torch.cond = _cond
    try:
        yield
    finally:
        torch.cond = original


class _Gate(torch.autograd.Function):  # type: ignore[misc]
    """The identity function, but with the gradient 0 if `is_taken` is false.

    The gradient is 0 even where it would otherwise be NaN or inf.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, x: torch.Tensor, is_taken: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(is_taken)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (is_taken,) = ctx.saved_tensors
        return torch.where(is_taken, gradient, torch.zeros_like(gradient)), None


class _Branch(TorchFunctionMode):  # type: ignore[misc]
    """A torch function mode for the operations of one branch of `torch.cond`.

    If the branch is not taken, tensors from outside of the branch get a gradient of 0.
    """

    def __init__(self, is_taken: torch.Tensor) -> None:
        super().__init__()
        self.is_taken = is_taken
        self._own: dict[
            int, torch.Tensor
        ] = {}  # The tensors that the branch has computed, by `id`.
        self._gated: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_function__(
        self,
        func: Target,
        types: Sequence[type],
        args: Sequence[Argument] = (),
        kwargs: Mapping[str, Argument] | None = None,
    ) -> Argument:
        """Call a torch function, passing its tensors through `_gate`.

        :raises ModelError: if the function changes a tensor from outside in place.
        """
        kwargs = dict(kwargs or {})
        if (
            getattr(func, "__name__", "") == "__get__"
        ):  # Reading an attribute such as x.shape computes nothing.
            return func(*args, **kwargs)
        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        outside = [t for t in tensors if id(t) not in self._own]
        versions = [private.version(t) for t in outside]
        args, kwargs = pytree.tree_map_only(torch.Tensor, self._gate, (tuple(args), kwargs))
        results = func(*args, **kwargs)
        if [private.version(t) for t in outside] != versions:
            raise ModelError(
                "A branch of torch.cond changes a tensor in place, but the device runs both "
                "branches.",
                line=in_words(innermost_line()),
                next_step="return the new value from both branches, and assign it after the call.",
            )
        for tensor in pytree.tree_leaves(results):
            if isinstance(tensor, torch.Tensor):
                self._own[id(tensor)] = tensor
        return results

    def _gate(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the result of a `_Gate` for a tensor from outside of the branch.

        Tensors of the branch, and tensors that do not require a gradient, are returned unchanged.
        """
        if id(tensor) in self._own or not tensor.requires_grad:
            return tensor
        if id(tensor) not in self._gated:
            gated = _Gate.apply(tensor, self.is_taken)
            self._gated[id(tensor)] = tensor, gated
            self._own[id(gated)] = gated
        return self._gated[id(tensor)][1]


def _cond(
    pred: bool | torch.Tensor, true_fn: Branch, false_fn: Branch, operands: Sequence[Argument] = ()
) -> Argument:
    """Return `true_fn(*operands)` where `pred` is true, and otherwise `false_fn(*operands)`.

    If `pred` is a tensor, both branches are computed, and gradients flow only through the chosen
    branch. If `pred` is a Python value, only the chosen branch runs.

    :raises ModelError: if the results of the branches differ in their structure, shapes or dtypes.
    """
    if not isinstance(pred, torch.Tensor):
        return (true_fn if pred else false_fn)(*operands)
    is_true = pred.reshape(()).to(torch.bool)
    results = []
    for is_taken, function in ((is_true, true_fn), (~is_true, false_fn)):
        with _Branch(is_taken):
            results.append(function(*operands))
    (first, form), (second, other_form) = map(pytree.tree_flatten, results)
    forms = [
        [(tuple(t.shape), t.dtype) if isinstance(t, torch.Tensor) else t for t in leaves]
        for leaves in (first, second)
    ]
    if form != other_form or forms[0] != forms[1]:
        raise ModelError(
            "The branches of torch.cond return results of different structures, shapes or dtypes.",
            line=in_words(innermost_line()),
            next_step="return tensors of the same shapes and dtypes from both branches.",
        )
    selected = [
        torch.where(is_true, a, b) if isinstance(a, torch.Tensor) else a
        for a, b in zip(first, second, strict=True)
    ]
    return pytree.tree_unflatten(selected, form)
