"""`ipu_teach.keras.ipu`: which machine a model runs on, and which part of it on which IPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from ipu_teach.arguments import Count, Natural, check_calls
from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.session import CheckedOptions, Version


@dataclass
class IPUModelOptions(CheckedOptions):
    """Of the simulated machine: its `version`, and how many tiles each IPU has; 0 for all."""

    version: Version = "ipu2"
    tiles_per_ipu: Natural = 0


@dataclass
class PoplarOptions(CheckedOptions):
    """Options of the library's products or convolutions."""

    poplar_options: dict[str, Any] = field(default_factory=dict)


@dataclass
class IPUConfig(CheckedOptions):
    """The machine: how many IPUs, and which. A model of one stage has a replica on each."""

    auto_select_ipus: Count = 1
    ipu_model: IPUModelOptions = field(default_factory=IPUModelOptions)
    matmuls: PoplarOptions = field(default_factory=PoplarOptions)
    convolutions: PoplarOptions = field(default_factory=PoplarOptions)

    def configure_ipu_system(self) -> None:
        """Strategies made from now on are of this machine. Raises `ModelError`."""
        products, convolutions = self.matmuls.poplar_options, self.convolutions.poplar_options
        for name in products.keys() & convolutions.keys():
            if products[name] != convolutions[name]:
                raise ModelError(f"""{name!r} is {shown(products[name])} for matmuls and
                    {shown(convolutions[name])} for convolutions.
                    next:  give both the same: a model has one value of an option.""")
        _configured[:] = [self]

    @property
    def options(self) -> dict[str, Any]:
        """What products and convolutions are told."""
        return {**self.matmuls.poplar_options, **self.convolutions.poplar_options}


_configured: list[IPUConfig] = []  # the one that counts
_scopes: list[IPUConfig] = []
_stages: list[int] = []


class IPUStrategy:
    """`with IPUStrategy().scope():` models made within run on the machine that was configured."""

    def __init__(self) -> None:
        self.config = _configured[0] if _configured else IPUConfig()

    @contextmanager
    def scope(self) -> Iterator[IPUStrategy]:
        """Models made within run on the device."""
        _scopes.append(self.config)
        try:
            yield self
        finally:
            _scopes.pop()

    def run(self, function: Callable[..., Any], args: Sequence[Any] = ()) -> Any:
        """What a function returns that is called within the scope."""
        with self.scope():
            return function(*args)


@contextmanager
def PipelineStage(stage: Natural) -> Iterator[None]:
    """Layers made within are on this stage: the IPU of this number."""
    _stages.append(stage)
    try:
        yield
    finally:
        _stages.pop()


def here() -> IPUConfig | None:
    """The machine of the scope that we are in."""
    return _scopes[-1] if _scopes else None


def stage_here() -> int:
    """The stage whose scope we are in."""
    return _stages[-1] if _stages else 0


check_calls(globals(), misuse)
config = SimpleNamespace(IPUConfig=IPUConfig)
ipu_strategy = SimpleNamespace(IPUStrategy=IPUStrategy)
keras = SimpleNamespace(PipelineStage=PipelineStage)
