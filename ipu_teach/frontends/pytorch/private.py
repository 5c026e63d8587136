"""The private names of PyTorch that the capture of modules uses.

PyTorch may change them without notice. `tests/test_torch_private.py` has a test for each name; the
test shows what fails without the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, TypeAlias

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload as Operation
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import WeakTensorKeyDictionary

__all__ = [
    "CAPTURE_SEED",
    "PLAIN_RESULTS",
    "SHAPE_NEEDED",
    "VALUE_NEEDED",
    "Argument",
    "FakeTensor",
    "Function",
    "Operation",
    "Target",
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
    "next_random_state",
    "note_step",
    "operation_name",
    "own_random_numbers",
    "parameter_lists",
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

# A subclass of Tensor with this `__torch_function__` has operations that return plain tensors.
PLAIN_RESULTS = torch._C._disabled_torch_function_impl
# An argument or a result of a torch function: a tensor, a number, a string, None, or a list, tuple
# or dict of these. The types of torch are unknown to mypy (see pyproject.toml).
Argument: TypeAlias = Any
Function: TypeAlias = Callable[..., Argument]  # A torch function or its replacement.
Target: TypeAlias = "Operation | Function"  # The callable that a torch.fx node calls.
CAPTURE_SEED = 0x1C0FFEE5EED  # The seed of torch's random generator during a capture.
SHAPE_NEEDED = DynamicOutputShapeException
VALUE_NEEDED = DataDependentOutputException, DynamicOutputShapeException


def fake_mode() -> FakeTensorMode:
    """Return a mode in which tensors have shapes and dtypes but no elements."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def fake_of(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """Return a fake tensor with the shape and dtype of `tensor`."""
    fake: torch.Tensor = mode.from_tensor(tensor.detach(), static_shapes=True)
    return fake


@contextmanager
def without_mkldnn() -> Iterator[None]:
    """In a `with` block, use torch's own operations instead of those of oneDNN.

    The table of operations does not contain oneDNN's operations. The public
    `torch.backends.mkldnn.flags` is not used, because it also sets switches that cause warnings.
    """
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


@contextmanager
def tracing_on(mode: FakeTensorMode) -> Iterator[None]:
    """Run operations on fake tensors in a `with` block, with torch's Python dispatcher enabled.

    With the dispatcher, torch runs a batch norm in training mode as `_native_batch_norm_legit`.
    This operation also has a form that returns the new statistics instead of changing the buffers.
    """
    with mode, enable_python_dispatcher():
        yield


@contextmanager
def own_random_numbers() -> Iterator[None]:
    """In a `with` block, use a seed of torch's random generator that no program uses.

    At the end of the block, the generator gets its old state back.
    """
    old_state = torch.default_generator.get_state()
    torch.default_generator.manual_seed(CAPTURE_SEED)
    try:
        yield
    finally:
        torch.default_generator.set_state(old_state)


def next_random_state() -> bytes:
    """Return the state of torch's random generator, and advance the generator by one number.

    The torch modes that are active do not record this operation.
    """
    with _disable_current_modes():
        state = torch.default_generator.get_state()
        torch.rand(())
        return bytes(state.numpy())


@cache
def is_composite(operation: Operation) -> bool:
    """Return whether torch computes an operation from other operations, which have gradients."""
    if operation.namespace == "prim":
        return False
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operation.name(), key))


def decomposed(
    operation: Operation, args: Sequence[Argument], kwargs: Mapping[str, Argument]
) -> Argument:
    """Return the result of a composite operation, computed from other operations of torch."""
    return operation.decompose(*args, **kwargs)


def memory(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage. Tensors that share memory have equal addresses."""
    return int(tensor.untyped_storage()._cdata)


def gradient_hooks(tensor: torch.Tensor) -> list[Callable[..., object]]:
    """Return the hooks that were registered with `tensor.register_hook`."""
    return list((tensor._backward_hooks or {}).values())


def accumulation_hooks(tensor: torch.Tensor) -> list[Callable[..., object]]:
    """Return the hooks that were registered with `register_post_accumulate_grad_hook`."""
    return list((tensor._post_accumulate_grad_hooks or {}).values())


def operation_name(target: Target) -> str:
    """Return an operation's name, such as "aten::add"; "" if `target` is not an operation."""
    schema = getattr(target, "_schema", None)
    return str(schema.name) if schema is not None else getattr(target, "_qualified_op_name", "")


def is_mutable(target: Target) -> bool:
    """Return whether an operation changes one of its arguments in place."""
    schema = getattr(target, "_schema", None)
    return bool(schema is not None and schema.is_mutable)


def written_arguments(node: torch.fx.Node) -> list[torch.fx.Node | None]:
    """Return the arguments of a node that its operation changes in place.

    An optional argument that the call leaves out is None.
    """
    written = []
    for argument_number, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.kwargs.get(argument.name)
            written.append(
                node.args[argument_number] if argument_number < len(node.args) else value
            )
    return written


def returns_alias(target: Target) -> bool:
    """Return whether the results of an operation share memory with its first argument."""
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.arguments:
        return False
    return schema.arguments[0].alias_info is not None and any(
        result.alias_info is not None for result in schema.returns
    )


def has_gradient(operation: Operation) -> bool:
    """Return whether an operation of a library has a gradient.

    The gradient may be registered with `register_autograd`, or as a kernel for autograd.
    """
    name = operation._schema.name
    defined = torch._library.custom_ops.OPDEFS.get(name)
    if defined is not None:
        return defined._backward_fn is not None
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "Autograd"))


def respell(operation: Operation, function: Function) -> None:
    """Make a capture call `function` in place of a composite operation.

    Torch computes a composite operation from other operations. The function is registered in
    torch's Python dispatcher, which only captures use. `as_torch_spells(operation, …)` still runs
    torch's own implementation.
    """
    operation.py_impl(torch._C.DispatchKey.CompositeImplicitAutograd)(function)


def as_torch_spells(operation: Operation, *args: Argument, **kwargs: Argument) -> Argument:
    """Return the result of an operation, computed by torch's own implementation.

    The result does not depend on `respell`. `operation.decompose` would call the function that was
    passed to `respell`.
    """
    return operation._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def safe_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the softmax along `dim`, or 0 where all elements along `dim` are -inf."""
    result: torch.Tensor = torch._safe_softmax(x, dim)
    return result


def cross_entropy_loss(*args: torch.Tensor | float | None) -> torch.Tensor:
    """Return the cross entropy as torch computes it, for class numbers or class probabilities."""
    loss: torch.Tensor = torch._C._nn.cross_entropy_loss(*args)
    return loss


def recurrent(kind: str) -> Function:
    """Return the function that `torch.nn.LSTM`, `GRU` or `RNN` calls.

    `kind` is "lstm", "gru", "rnn_tanh" or "rnn_relu".
    """
    function: Function = getattr(torch._VF, kind)
    return function


def parameter_lists(module: torch.nn.Module) -> set[str]:
    """Return the paths of the lists in which recurrent layers keep their parameters a second time.

    torch writes to these lists whenever it replaces a parameter.
    """
    return {
        f"{path}.{attribute}".strip(".")
        for path, layer in module.named_modules()
        if isinstance(layer, torch.nn.RNNBase)
        for attribute in ("_flat_weights", "_flat_weight_refs")
    }


def is_compiled(module: torch.nn.Module) -> bool:
    """Return whether a module was returned by torch.compile, or was compiled in place."""
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None


def attributes_of_module(module: torch.nn.Module) -> dict[str, object]:
    """Return a dict of a module's attributes, without parameters, buffers and submodules."""
    left_out = ("_parameters", "_buffers", "_modules")
    return {name: value for name, value in vars(module).items() if name not in left_out}


def version(tensor: torch.Tensor) -> int:
    """Return how many times a tensor was changed in place; 0 if it is from inference mode."""
    return 0 if tensor.is_inference() else int(tensor._version)


def as_instance(tensor: torch.Tensor, subclass: type[torch.Tensor]) -> torch.Tensor:
    """Return `tensor` as an instance of a subclass of Tensor.

    `tensor.as_subclass` would return a view, for which `detach_` fails.
    """
    return torch.Tensor._make_subclass(subclass, tensor)


def has_step_hooks(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether hooks that run before or after the optimiser's step are registered."""
    return bool(optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)


def note_step(optimizer: torch.optim.Optimizer) -> None:
    """Mark that the optimiser has taken a step, so that a learning-rate scheduler does not warn."""
    optimizer._opt_called = True


def without_subclass() -> AbstractContextManager[None]:
    """Return a context in which subclasses of Tensor behave like Tensor."""
    context: AbstractContextManager[None] = torch._C.DisableTorchFunctionSubclass()
    return context
