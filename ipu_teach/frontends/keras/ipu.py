"""The machine that Keras models run on, and the assignment of layers to its IPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TypeVar

from ipu_teach.arguments import Count, Natural, check_calls
from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.session import CheckedOptions, Version
from ipu_teach.poplibs.options import Options

Result = TypeVar("Result")


@dataclass
class IPUModelOptions(CheckedOptions):
    """The version of the simulated machine, and the number of tiles of each IPU.

    If `tiles_per_ipu` is 0, an IPU has all tiles of its version.
    """

    version: Version = "ipu2"
    tiles_per_ipu: Natural = 0


@dataclass
class PoplarOptions(CheckedOptions):
    """The PopLibs options of matrix products or of convolutions."""

    poplar_options: dict[str, object] = field(default_factory=dict)


@dataclass
class IPUConfig(CheckedOptions):
    """The configuration of the machine: the number of IPUs, their version, and the PopLibs options.

    A Keras model with a single stage is trained on all IPUs: each IPU has a replica.
    """

    auto_select_ipus: Count = 1
    ipu_model: IPUModelOptions = field(default_factory=IPUModelOptions)
    matmuls: PoplarOptions = field(default_factory=PoplarOptions)
    convolutions: PoplarOptions = field(default_factory=PoplarOptions)

    def configure_ipu_system(self) -> None:
        """Use this machine for all strategies that are created from now on.

        :raises ModelError: if matrix products and convolutions have different values for an option.
        """
        matmul_options = self.matmuls.poplar_options
        convolution_options = self.convolutions.poplar_options
        for name in matmul_options.keys() & convolution_options.keys():
            if matmul_options[name] != convolution_options[name]:
                raise ModelError(f"""The option {name!r} is {shown(matmul_options[name])} for
                    matmuls and {shown(convolution_options[name])} for convolutions, but a model has
                    a single value for each option.
                    next:  set {name!r} to the same value in config.matmuls and
                    config.convolutions.""")
        _configured[:] = [self]

    @property
    def options(self) -> Options:
        """The options of matrix products and of convolutions in one dict."""
        return {**self.matmuls.poplar_options, **self.convolutions.poplar_options}


_configured: list[IPUConfig] = []  # The last configured machine, or nothing.
_scopes: list[IPUConfig] = []  # The machines of the open scopes, innermost last.
_stages: list[int] = []  # The stages of the open PipelineStage blocks, innermost last.


class IPUStrategy:
    """A strategy, whose scope `with IPUStrategy().scope():` sets the machine of models.

    Models that are created in the `with` block run on the strategy's machine: the machine that was
    configured last when the strategy was created.
    """

    def __init__(self) -> None:
        self.config = _configured[0] if _configured else IPUConfig()

    @contextmanager
    def scope(self) -> Iterator[IPUStrategy]:
        """Make models that are created in the `with` block run on the strategy's machine."""
        _scopes.append(self.config)
        try:
            yield self
        finally:
            _scopes.pop()

    def run(self, function: Callable[..., Result], args: Sequence[object] = ()) -> Result:
        """Call `function(*args)` in the scope, and return its result."""
        with self.scope():
            return function(*args)


@contextmanager
def PipelineStage(stage: Natural) -> Iterator[None]:
    """Place layers that are created in the `with` block on the IPU with the number `stage`."""
    _stages.append(stage)
    try:
        yield
    finally:
        _stages.pop()


def current_config() -> IPUConfig | None:
    """Return the machine of the innermost open scope, or None outside of all scopes."""
    return _scopes[-1] if _scopes else None


def current_stage() -> int:
    """Return the stage of the innermost `PipelineStage` block, or 0 outside of all blocks."""
    return _stages[-1] if _stages else 0


check_calls(globals(), misuse)
config = SimpleNamespace(IPUConfig=IPUConfig)
ipu_strategy = SimpleNamespace(IPUStrategy=IPUStrategy)
keras = SimpleNamespace(PipelineStage=PipelineStage)
