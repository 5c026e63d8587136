"""Record which attributes of modules forward reads.

A compiled program depends only on these attributes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType

import torch

from ipu_teach.frontends.pytorch import private

# Maps the `id` of each module to the names of the module's attributes that were read.
Reads = dict[int, set[str]]


@contextmanager
def record_reads() -> Iterator[Reads]:
    """Record the names of all attributes that are read from modules, in a `with` block.

    The `with` statement returns the record: a dict that maps the `id` of each module to a set of
    attribute names.
    """
    names: Reads = defaultdict(set)

    def read(module: torch.nn.Module, name: str) -> private.Argument:
        names[id(module)].add(name)
        return super(torch.nn.Module, module).__getattribute__(name)

    torch.nn.Module.__getattribute__ = read
    try:
        yield names
    finally:
        del torch.nn.Module.__getattribute__


def attribute_values(module: torch.nn.Module, names: set[str]) -> dict[str, object]:
    """Return a dict with the values of the attributes `names` of a module or its class.

    Methods and properties are left out. Parameters, buffers and submodules have the value None.
    """
    attributes = private.attributes_of_module(module)
    result: dict[str, object] = {}
    for name in sorted(names):
        if name in attributes:
            result[name] = attributes[name]
            continue
        value = next((vars(c)[name] for c in type(module).__mro__ if name in vars(c)), None)
        is_code = isinstance(value, (FunctionType, classmethod, staticmethod, property))
        if not is_code and not name.startswith("__"):
            result[name] = value
    return result
