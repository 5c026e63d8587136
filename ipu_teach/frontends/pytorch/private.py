"""The private names of PyTorch that the capture uses.

PyTorch may change them without notice. `tests/test_torch_private.py` has a test for each, which
says what stops working without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

__all__ = [
    "PLAIN_RESULTS",
    "VALUE_NEEDED",
    "FakeTensor",
    "UnsupportedOperatorException",
    "WeakTensorKeyDictionary",
    "accumulation_hooks",
    "as_instance",
    "decomposed",
    "attributes_of_module",
    "cross_entropy_loss",
    "fake_mode",
    "fake_of",
    "gradient_hooks",
    "has_gradient",
    "has_step_hooks",
    "is_compiled",
    "is_composite",
    "is_mutable",
    "memory",
    "note_step",
    "operation_name",
    "pytree",
    "recurrent",
    "respell",
    "returns_alias",
    "safe_softmax",
    "tracing_on",
    "version",
    "without_mkldnn",
    "without_subclass",
    "written_arguments",
]

# the `__torch_function__` of a subclass of Tensor whose operations return plain tensors
PLAIN_RESULTS = torch._C._disabled_torch_function_impl
VALUE_NEEDED = DataDependentOutputException, DynamicOutputShapeException


def fake_mode() -> Any:
    """Return a mode in which tensors have shapes and dtypes, and no elements."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def fake_of(mode: Any, tensor: torch.Tensor) -> torch.Tensor:
    """Return a fake tensor like `tensor`, of fixed sizes."""
    fake: torch.Tensor = mode.from_tensor(tensor.detach(), static_shapes=True)
    return fake


@contextmanager
def without_mkldnn() -> Iterator[None]:
    """Choose torch's own operations, of which the table knows the spelling, not those of oneDNN.
    `torch.backends.mkldnn.flags` would also set switches that warn."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


@contextmanager
def tracing_on(mode: Any) -> Iterator[None]:
    """Run operations on fake tensors. The dispatcher of Python makes batch norm in training mode
    report its new statistics."""
    with mode, enable_python_dispatcher():
        yield


@cache
def is_composite(operation: Any) -> bool:
    """Return whether torch builds an operation from others, each with its own gradient."""
    namespace, key = operation.namespace, torch._C.DispatchKey.CompositeImplicitAutograd
    if namespace == "prim":
        return False
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operation.name(), key))


def decomposed(operation: Any, args: Sequence[Any], kwargs: Any) -> Any:
    """Run a composite operation by the operations that it is made of."""
    return operation.decompose(*args, **kwargs)


def memory(tensor: torch.Tensor) -> int:
    """Return a number of the memory that a tensor and its views share."""
    return int(tensor.untyped_storage()._cdata)


def gradient_hooks(tensor: torch.Tensor) -> list[Any]:
    """Return the functions that `tensor.register_hook` was given."""
    return list((tensor._backward_hooks or {}).values())


def accumulation_hooks(tensor: torch.Tensor) -> list[Any]:
    """Return the functions that `register_post_accumulate_grad_hook` was given."""
    return list((tensor._post_accumulate_grad_hooks or {}).values())


def operation_name(target: Any) -> str:
    """Return the name of an operation, such as `aten::add`; "" for anything else."""
    schema = getattr(target, "_schema", None)
    return str(schema.name) if schema is not None else getattr(target, "_qualified_op_name", "")


def is_mutable(target: Any) -> bool:
    """Whether an operation changes one of its arguments."""
    schema = getattr(target, "_schema", None)
    return bool(schema is not None and schema.is_mutable)


def written_arguments(node: torch.fx.Node) -> list[Any]:
    """Return the arguments of a node that its operation changes."""
    written = []
    for place, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.kwargs.get(argument.name)
            written.append(node.args[place] if place < len(node.args) else value)
    return written


def returns_alias(target: Any) -> bool:
    """Whether the results of an operation share memory with its first argument."""
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.arguments:
        return False
    return schema.arguments[0].alias_info is not None and any(
        result.alias_info is not None for result in schema.returns
    )


def has_gradient(operation: Any) -> bool:
    """Whether `register_autograd` was called for an operation of a library."""
    name = operation._schema.name
    defined = torch._library.custom_ops.OPDEFS.get(name)
    if defined is not None:
        return defined._backward_fn is not None
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "Autograd"))


def respell(operation: Any, function: Callable[..., Any]) -> None:
    """Call `function` for an operation that is composed of others, where the dispatcher of Python
    is on, as in a capture; `as_torch_spells(operation, …)` calls torch's own."""
    operation.py_impl(torch._C.DispatchKey.CompositeImplicitAutograd)(function)


def as_torch_spells(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what torch's own composition of an operation gives; `operation.decompose` would call
    the function that `respell` was given."""
    return operation._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def safe_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the softmax, and 0 where all elements of a row are -inf, as attention has it."""
    result: torch.Tensor = torch._safe_softmax(x, dim)
    return result


def cross_entropy_loss(*args: Any) -> torch.Tensor:
    """Return the loss as torch spells it, of every kind of class numbers and shares."""
    loss: torch.Tensor = torch._C._nn.cross_entropy_loss(*args)
    return loss


def recurrent(kind: str) -> Any:
    """Return the function that `torch.nn.LSTM`, GRU and RNN call: "lstm", "gru", "rnn_tanh"."""
    return getattr(torch._VF, kind)


def is_compiled(module: torch.nn.Module) -> bool:
    """Whether a module is one of torch.compile, or compiled in place."""
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None


def attributes_of_module(module: torch.nn.Module) -> dict[str, Any]:
    """Return a module's attributes, hooks among them, without parameters, buffers and parts."""
    held = ("_parameters", "_buffers", "_modules")
    return {name: value for name, value in vars(module).items() if name not in held}


def version(tensor: torch.Tensor) -> int:
    """Return how often a tensor was changed in place."""
    return 0 if tensor.is_inference() else int(tensor._version)


def as_instance(tensor: torch.Tensor, subclass: type[Any]) -> Any:
    """Return the tensor as one of a subclass. `tensor.as_subclass` returns a view, which `detach_`
    refuses."""
    return torch.Tensor._make_subclass(subclass, tensor)


def has_step_hooks(optimizer: Any) -> bool:
    """Whether an optimiser calls functions before or after its step."""
    return bool(optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)


def note_step(optimizer: Any) -> None:
    """Tell a scheduler that a step was taken, for which it asks before it warns."""
    optimizer._opt_called = True


def without_subclass() -> Any:
    """Return a context in which subclasses of Tensor are as Tensor is."""
    return torch._C.DisableTorchFunctionSubclass()
