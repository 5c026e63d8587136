"""The arguments of a call of a module, divided into tensors and Python values.

Tensors are copied to the device at each call. Python values are part of the compiled program, so
the program is compiled again when a value changes.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import numpy as np
import torch

from ipu_teach.arguments import Taken
from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.pytorch.fingerprints import attributes_of, fingerprint
from ipu_teach.frontends.pytorch.private import Argument, pytree
from ipu_teach.frontends.pytorch.tensors import array, dtype_of
from ipu_teach.types import Array

# `ipu_teach.arguments` checks the arguments of functions that have these annotations.
Tensor = Annotated[Argument, Taken(lambda v: isinstance(v, torch.Tensor), "give a torch.Tensor.")]
Layer = Annotated[
    Argument, Taken(lambda v: isinstance(v, torch.nn.Module), "give a torch.nn.Module.")
]
Shapes = dict[str, tuple[tuple[int, ...], torch.dtype]]  # Each tensor's shape and dtype, by name.
_DEPTH = 4  # Objects are searched for tensors down to this number of levels.
_INT = np.iinfo(np.int32)


class Arguments:
    """The arguments of a call of a module.

    - `tensors`: the tensors in the order of the flattened arguments, by names such as `x`,
      `batch['ids']` or `args[0]`.
    - `values`: the arguments that are not tensors, by name.
    - `constants`: a hashable copy of everything that is not a tensor, with which calls are compared
      with ==.

    :raises ModelError: if forward does not accept the arguments, or the device cannot store a
        tensor.
    """

    def __init__(
        self, module: torch.nn.Module, args: tuple[Argument, ...], kwargs: Mapping[str, Argument]
    ) -> None:
        flat_arguments, self._spec = pytree.tree_flatten((args, dict(kwargs)))
        self._flat = flat_arguments
        self.tensors: dict[str, torch.Tensor] = {}
        self.values: dict[str, Argument] = {}
        signature = _signature(module)
        arguments_by_name = dict(_named(type(module).__name__, signature, args, kwargs))
        parameters = signature.parameters.values()
        specs = {}
        leaves = {}
        for name, value in arguments_by_name.items():
            paths, specs[name] = pytree.tree_flatten_with_path(value)
            leaves[name] = [(name + pytree.keystr(path), leaf) for path, leaf in paths]
        for name, leaf in (pair for pairs in leaves.values() for pair in pairs):
            if isinstance(leaf, torch.Tensor):
                check_tensor(name, leaf)
                self.tensors[name] = leaf
            else:
                self._refuse_hidden(name, leaf)
                self.values[name] = leaf
        defaults = _defaults(parameters, set(arguments_by_name))
        self.constants = frozenset(
            [
                (
                    "order",
                    tuple(kwargs)
                    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
                    else (),
                )
            ]
            + [(argument_name, repr(spec)) for argument_name, spec in specs.items()]
            + [
                (argument_name, repr(pytree.tree_structure(argument_value)))
                for argument_name, argument_value in defaults.items()
            ]
            + [
                (argument_name, fingerprint(argument_value))
                for argument_name, argument_value in self.values.items()
            ]
            + [
                (argument_name + pytree.keystr(path), fingerprint(argument_value))
                for argument_name, default in defaults.items()
                for path, argument_value in pytree.tree_flatten_with_path(default)[0]
            ]
        )

    def _refuse_hidden(self, name: str, leaf: Argument) -> None:
        """Raise `ModelError` if an argument contains tensors in the attributes of its objects.

        `pytree` flattens only tuples, lists, dicts and registered classes, so it does not find
        these tensors. `leaf` is an element of the flattened argument `name`.
        """
        if not has_tensor(leaf):
            return
        kind = type(leaf).__name__
        raise ModelError(
            f"The argument {name!r} is {_article(kind)} with tensors in its attributes, but only "
            "tensors in tuples, lists and dicts are copied to the device.",
            next_step=f"pass the tensors as separate arguments. If {kind} is a dataclass, call "
            f"torch.export.register_dataclass({kind}) instead.",
        )

    @property
    def shapes(self) -> Shapes:
        """The shape and the dtype of each tensor, by the tensor's name."""
        return {
            tensor_name: (tuple(tensor.shape), tensor.dtype)
            for tensor_name, tensor in self.tensors.items()
        }

    def arrays(self, count: int) -> dict[str, Array]:
        """Return a dict with the tensors as arrays, each divided into `count` micro-batches.

        The shape of an array is [count, batch / count, …].
        """
        arrays = {}
        for name, tensor in self.tensors.items():
            values = array(tensor.resolve_conj().resolve_neg())
            batch = (values.shape[0] // count, *values.shape[1:]) if count > 1 else values.shape
            arrays[name] = values.reshape((count, *batch))
        return arrays

    def micro_batch(self, count: int) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
        """Return `(args, kwargs)` with the first of `count` equal parts of each tensor.

        Tensors are divided along their first dimension. Other arguments are unchanged.
        """
        first_parts = [
            _part(argument, count) if isinstance(argument, torch.Tensor) else argument
            for argument in self._flat
        ]
        args, kwargs = pytree.tree_unflatten(first_parts, self._spec)
        return args, kwargs


def _part(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """Return the first of `count` equal parts of a batch, as a tensor that autograd accepts."""
    first_part = tensor[: tensor.shape[0] // count] if count > 1 else tensor
    with torch.inference_mode(False):
        return first_part.clone() if first_part.is_inference() else first_part


def has_tensor(value: object, depth: int = _DEPTH) -> bool:
    """Return whether an object is a tensor, or contains a tensor in its elements or attributes.

    The search goes down `depth` levels. It covers the values of mappings, the elements of lists,
    tuples and sets, and the attributes of other objects. It skips classes, modules, strings and
    numpy arrays.
    """
    if isinstance(value, torch.Tensor):
        return True
    if depth == 0 or isinstance(value, (type, torch.nn.Module, str, bytes, np.ndarray)):
        return False
    if callable(value) and not hasattr(value, "__dict__"):
        return False
    if isinstance(value, Mapping):
        return any(has_tensor(v, depth - 1) for v in value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(has_tensor(v, depth - 1) for v in value)
    attributes = attributes_of(value) or {}
    return any(has_tensor(v, depth - 1) for v in attributes.values())


def refuse_hidden_outputs(module: str, leaves: Sequence[Argument]) -> None:
    """Raise `ModelError` if an output of forward contains tensors in its attributes.

    `module` is the name of the module's class. `leaves` are the outputs, flattened by
    `pytree.tree_flatten`, which does not look into the attributes of objects.
    """
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor) and has_tensor(leaf):
            kind = type(leaf).__name__
            if kind.endswith("Cache"):  # This is a key-value cache of a transformers model.
                raise ModelError(
                    f"{module}.forward returns {_article(kind)}, which contains the keys and "
                    "values of its attention, but the device returns tensors only.",
                    next_step="call the model with use_cache=False, or set "
                    "model.config.use_cache = False.",
                )
            raise ModelError(
                f"{module}.forward returns {_article(kind)} with tensors in its attributes, but "
                "only tensors in tuples, lists and dicts are copied from the device.",
                next_step=f"return a tuple or a dict. If {kind} is a dataclass, call "
                f"torch.export.register_dataclass({kind}) instead.",
            )


def check_tensor(name: str, tensor: torch.Tensor, module: str = "") -> None:
    """Raise `ModelError` if the device cannot store a tensor.

    If `module` is empty, `name` is the name of an argument. Otherwise, it is the name of a
    parameter or buffer.
    """
    owner = "module" if module else name
    if tensor.is_meta:
        like = f"torch.zeros_like({name}, device='cpu')"
        allocation = f"{owner}.to_empty(device='cpu')" if module else like
        raise ModelError(f"""The tensor {name!r} is on torch's device "meta", so it has a shape but
            no elements.
            next:  allocate its elements with {allocation}, and then set their values.""")
    if tensor.device.type != "cpu":
        raise ModelError(f"""The tensor {name!r} is on {tensor.device}, but poptorch reads tensors
            from the CPU's memory.
            next:  move it to the CPU: {owner}.cpu().""")
    if tensor.is_nested:
        raise ModelError(f"""The tensor {name!r} is a nested tensor, but a tensor on the device has
            a single shape.
            next:  pad its parts to one size: torch.nested.to_padded_tensor({name}, 0.0).""")
    if tensor.layout is not torch.strided:
        raise ModelError(f"""The tensor {name!r} is sparse ({tensor.layout}), but the device has
            only dense tensors.
            next:  make it dense: {name}.to_dense().""")
    if dtype_of(tensor.dtype) is None:
        floating = tensor.is_floating_point()
        advice = f"convert it: {owner}.float() gives torch.float32, {owner}.half() torch.float16."
        if tensor.is_complex():
            advice = f"pass its parts as real tensors: torch.view_as_real({name})."
        elif not floating:
            advice = f"convert it to torch.int32: {name}.to(torch.int32)."
        raise ModelError(f"""The tensor {name!r} has the dtype {tensor.dtype}, which the device does
            not support.
            next:  {advice}""")
    if tensor.dtype is torch.int64 and tensor.numel():
        smallest, largest = (int(v) for v in torch.aminmax(tensor))
        if smallest < _INT.min or largest > _INT.max:
            wrong = smallest if smallest < _INT.min else largest
            raise ModelError(f"""The tensor {name!r} contains {wrong}, but the device's integers
                have 32 bits: {_INT.min} to {_INT.max}.
                next:  use numbers in this range, or floats: {name}.float().""")


def _signature(module: torch.nn.Module) -> inspect.Signature:
    """Return the signature of forward, or `(*args, **kwargs)` if forward is not Python code."""
    try:
        return inspect.signature(module.forward)
    except (TypeError, ValueError):  # forward is not Python code
        anything = [
            inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
            inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
        ]
        return inspect.Signature(anything)


def _positional(signature: inspect.Signature, count: int) -> list[str]:
    """Return the names of the first `count` positional arguments of forward.

    An argument has the name of its parameter. Arguments that belong to `*args` are named `args[0]`,
    `args[1]` and so on.
    """
    names = []
    variadic = "args"
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            variadic = parameter.name
        elif parameter.kind in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        ):
            names.append(parameter.name)
    return (names + [f"{variadic}[{i}]" for i in range(max(0, count - len(names)))])[:count]


def _named(
    module: str,
    signature: inspect.Signature,
    args: tuple[Argument, ...],
    kwargs: Mapping[str, Argument],
) -> Iterator[tuple[str, Argument]]:
    """Yield `(name, value)` for each argument of a call of forward.

    `module` is the name of the module's class.

    :raises ModelError: if forward does not accept these arguments.
    """
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        empty = inspect.Signature.empty
        plain = [p.replace(annotation=empty) for p in signature.parameters.values()]
        signature = signature.replace(parameters=plain, return_annotation=empty)
        raise ModelError(
            f"{module}.forward does not accept these arguments: {error}.",
            next_step=f"pass the arguments of its signature: forward{signature}.",
        ) from None
    yield from zip(_positional(signature, len(args)), args, strict=True)
    yield from kwargs.items()


def _defaults(parameters: Iterable[inspect.Parameter], present: set[str]) -> dict[str, Argument]:
    """Return a dict with the default values of the parameters whose names are not in `present`."""
    empty = inspect.Parameter.empty
    return {
        p.name: p.default for p in parameters if p.default is not empty and p.name not in present
    }


def _article(word: str) -> str:
    """Return `word` with the article "a" or "an" in front of it."""
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {shown(word)[1:-1]}"
