"""The machine for `ipu_teach.keras.ipu`, and the assignment of layers to its IPUs."""

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
    """The simulated machine: its `version`, and the tiles of each IPU; 0 for all."""

    version: Version = "ipu2"
    tiles_per_ipu: Natural = 0


@dataclass
class PoplarOptions(CheckedOptions):
    """Options of the library's products or convolutions."""

    poplar_options: dict[str, Any] = field(default_factory=dict)


@dataclass
class IPUConfig(CheckedOptions):
    """The machine: the number of IPUs and their model.

    A model of one stage has a replica on each IPU.
    """

    auto_select_ipus: Count = 1
    ipu_model: IPUModelOptions = field(default_factory=IPUModelOptions)
    matmuls: PoplarOptions = field(default_factory=PoplarOptions)
    convolutions: PoplarOptions = field(default_factory=PoplarOptions)

    def configure_ipu_system(self) -> None:
        """Use this machine for strategies that are made from now on. Raises `ModelError`."""
        products = self.matmuls.poplar_options
        convolutions = self.convolutions.poplar_options
        for name in products.keys() & convolutions.keys():
            if products[name] != convolutions[name]:
                raise ModelError(f"""{name!r} is {shown(products[name])} for matmuls and
                    {shown(convolutions[name])} for convolutions.
                    next:  give both the same value: a model has one value for each option.""")
        _configured[:] = [self]

    @property
    def options(self) -> dict[str, Any]:
        """The options of products and convolutions."""
        return {**self.matmuls.poplar_options, **self.convolutions.poplar_options}


_configured: list[IPUConfig] = []  # the machine of the last configure_ipu_system(), if any
_scopes: list[IPUConfig] = []
_stages: list[int] = []


class IPUStrategy:
    """`with IPUStrategy().scope():` models made in the block run on the configured machine."""

    def __init__(self) -> None:
        self.config = _configured[0] if _configured else IPUConfig()

    @contextmanager
    def scope(self) -> Iterator[IPUStrategy]:
        """Run models that are made in this block on the device."""
        _scopes.append(self.config)
        try:
            yield self
        finally:
            _scopes.pop()

    def run(self, function: Callable[..., Any], args: Sequence[Any] = ()) -> Any:
        """Call a function in the scope, and return its result."""
        with self.scope():
            return function(*args)


@contextmanager
def PipelineStage(stage: Natural) -> Iterator[None]:
    """Put layers that are made in this block on a stage: the IPU with this number."""
    _stages.append(stage)
    try:
        yield
    finally:
        _stages.pop()


def current_config() -> IPUConfig | None:
    """Return the machine of the current scope, or None outside of a scope."""
    return _scopes[-1] if _scopes else None


def current_stage() -> int:
    """Return the stage of the current `PipelineStage`, by default 0."""
    return _stages[-1] if _stages else 0


check_calls(globals(), misuse)
config = SimpleNamespace(IPUConfig=IPUConfig)
ipu_strategy = SimpleNamespace(IPUStrategy=IPUStrategy)
keras = SimpleNamespace(PipelineStage=PipelineStage)
