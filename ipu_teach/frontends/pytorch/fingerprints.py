"""Fingerprints: hashable copies of Python values, which show whether a value has changed.

A program is compiled for the Python values at the time of its compilation. Before each call, the
fingerprint of the current values is compared with the fingerprint from the time of the compilation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from hashlib import blake2b
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from weakref import ref

import numpy as np
import torch

from ipu_teach._support.containers import elements, members
from ipu_teach.frontends.pytorch import private
from ipu_teach.types import Array

LONGEST = 1000  # A container with more elements is compared by its identity and length.
LARGEST = 1 << 16  # A tensor with more elements is compared by its identity and version.
_FREQUENT = frozenset({bool, int, str, bytes, type(None)})
_PLAIN = (bool, int, str, bytes, type(None), type(...), range, slice, Enum)
_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_NAMED = (type, FunctionType, BuiltinFunctionType, ModuleType, torch.Generator)


class _Identity:
    """A fingerprint that is equal only to fingerprints of the same object.

    It keeps the object alive, so that no new object gets the same `id`.
    """

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class _Equality:
    """A fingerprint that compares two objects by identity, and then with ==."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Equality):
            return False
        try:
            return self.value is other.value or bool(self.value == other.value)
        except Exception:  # == may fail, or its result may have no truth value
            return False

    def __hash__(self) -> int:
        return hash(type(self.value))


def fingerprint(value: object, memo: dict[int, Hashable] | None = None) -> Hashable:
    """Return a hashable copy of a value. The copies before and after a change are different.

    - Numbers are compared by type and bits, and functions and classes by identity.
    - Arrays and tensors are compared by their bytes.
    - Some tensors are compared by their identity and version: tensors with more than `LARGEST`
      elements, of a subclass other than Parameter, sparse, or not in the CPU's memory.
    - Containers are compared by their elements. A container with more than `LONGEST` elements is
      compared by its identity and length, so a change of an element is not noticed.
    - Other objects are compared by their attributes. They are also compared by identity, unless
      their class defines `==`.
    - Objects without attributes are compared by `==` if their class defines it, and otherwise by
      identity.

    `memo` maps the `id` of each object that is already known to a hashable key. The function adds
    the objects that it visits.
    """
    memo = {} if memo is None else memo
    kind = type(value)
    if kind in _FREQUENT:  # This is faster than the branch for _PLAIN below.
        return kind, value
    if isinstance(value, (float, complex)):
        return kind, repr(value)  # For repr, NaN equals NaN, and 0.0 differs from -0.0.
    if isinstance(value, slice):
        return kind, fingerprint((value.start, value.stop, value.step), memo)
    if isinstance(value, (*_PLAIN, *_TORCH)):
        return kind, value
    if isinstance(value, np.generic):
        return kind, value.tobytes()
    if isinstance(value, _NAMED):
        return _Identity(value)
    if id(value) in memo:
        return "seen", memo[id(value)]
    memo[id(value)] = len(memo)
    if isinstance(value, ref):
        return kind, fingerprint(value(), memo)
    if isinstance(value, MethodType):
        return kind, _Identity(value.__func__), _Identity(value.__self__)
    if isinstance(value, torch.nn.Module):
        return _Identity(value), fingerprint(_parts(value), memo)
    if isinstance(value, partial):
        return kind, fingerprint((value.func, value.args, value.keywords), memo)
    if isinstance(value, torch.Tensor):
        return _of_tensor(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return kind, str(value.dtype), value.shape, _digest(value)
    if isinstance(value, (Mapping, Sequence, Set)) and len(value) > LONGEST:
        return _Identity(value), len(value)
    if isinstance(value, Mapping):
        pairs = ((fingerprint(k, memo), fingerprint(v, memo)) for k, v in members(value).items())
        return kind, tuple(pairs)
    if isinstance(value, Set):
        return kind, frozenset(fingerprint(v, memo) for v in elements(value))
    if isinstance(value, Sequence):
        if isinstance(value, (list, tuple, deque)):
            value = elements(value)
        return kind, tuple(fingerprint(v, memo) for v in value)
    attributes = attributes_of(value)
    if attributes is None:
        return _Equality(value) if kind.__eq__ is not object.__eq__ else _Identity(value)
    content = tuple((n, fingerprint(v, memo)) for n, v in attributes.items())
    return (kind if kind.__eq__ is not object.__eq__ else _Identity(value)), content


def attributes_of(value: object) -> dict[str, object] | None:
    """Return a dict of an object's attributes, or None if its class stores no attributes.

    Such a class has neither `__slots__` nor a `__dict__`.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name, None) for f in fields(value)}
    slots = [n for c in type(value).__mro__ for n in _slots(c)]
    if not slots and not hasattr(value, "__dict__"):
        return None
    attributes = getattr(value, "__dict__", {})
    return {n: getattr(value, n) for n in slots if hasattr(value, n)} | dict(attributes)


def _slots(kind: type) -> Sequence[str]:
    """Return the names in the `__slots__` of one class, without names that begin with `__`."""
    names = vars(kind).get("__slots__", ())
    names = (names,) if isinstance(names, str) else tuple(names)
    return [n for n in names if not n.startswith("__")]


def _parts(module: torch.nn.Module) -> tuple[list[dict[str, object]], list[torch.Tensor]]:
    """Return `(attributes, tensors)` of a module.

    `attributes` is a list with a dict of attributes for each submodule. `tensors` contains the
    module's parameters and buffers.
    """
    tensors = [*module.parameters(), *module.buffers()]
    return [private.attributes_of_module(part) for part in module.modules()], tensors


def _of_tensor(tensor: torch.Tensor) -> Hashable:
    """Return the fingerprint of a tensor.

    A dense tensor in the CPU's memory with up to `LARGEST` elements is compared by its bytes. All
    other tensors, and tensors of a subclass other than Parameter, are compared by their identity
    and version.
    """
    layout = tuple(tensor.shape), tensor.dtype, tensor.requires_grad
    is_readable = tensor.device.type == "cpu" and tensor.layout is torch.strided
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    if is_readable and is_plain and tensor.numel() <= LARGEST:
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous().flatten()
        return "tensor", layout, _digest(plain.view(torch.uint8).numpy())
    return _Identity(tensor), layout, private.version(tensor)


def _digest(array: Array) -> bytes:
    """Return a hash of the bytes of an array."""
    return blake2b(np.ascontiguousarray(array).view(np.uint8).data, digest_size=16).digest()
