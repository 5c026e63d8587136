"""The descriptions of streams, the channels between host and device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ipu_teach.errors import GraphObjectCreationError, InvalidOptionError, did_you_mean, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.variable_table import MOST_BYTES
from ipu_teach.types import DType, as_dtype

MOST_BUFFERED = 1024  # The maximum number of transfers that are prefetched for a stream.


class ReplicatedStreamMode(Enum):
    """The data that each replica of a graph receives from a stream.

    REPLICATE: each replica gets its own part of every transfer, in the order of the replicas.
    BROADCAST: all replicas get the same data. With a single replica, both modes have the same
    effect.
    """

    REPLICATE = "REPLICATE"
    BROADCAST = "BROADCAST"


@dataclass(frozen=True, eq=False)
class DataStream:
    """A channel between host and device, which transfers `num_elements` elements at a time.

    Connect it with `Engine.connect_stream`. `buffering_depth` is the number of transfers that a
    `StreamCallback` prefetches. `replicas` is the number of replicas that use the stream; an engine
    transfers the elements of all replicas at once.
    """

    handle: str
    dtype: type[DType]
    num_elements: int
    to_device: bool
    buffering_depth: int = 1
    mode: ReplicatedStreamMode = ReplicatedStreamMode.REPLICATE
    replicas: int = 1

    def __repr__(self) -> str:
        way = "host to device" if self.to_device else "device to host"
        return f"DataStream({self.handle!r}, {way}, {self.num_elements:,} {self.dtype.__name__})"


def make_stream(
    handle: str,
    dtype: type[DType],
    num_elements: int,
    to_device: bool,
    mode: ReplicatedStreamMode = ReplicatedStreamMode.REPLICATE,
    options: Mapping[str, int | str] | None = None,
    buffering_depth: int | None = None,
) -> DataStream:
    """Return the description of a stream, after checking the arguments.

    `options` may contain `buffering_depth` (Poplar: `bufferingDepth`). Raises
    `GraphObjectCreationError`, `PoplarTypeError` and `InvalidOptionError`.
    """
    dtype = as_dtype(dtype, f"The stream {handle!r}")
    if not is_whole(num_elements) or not 1 <= num_elements <= MOST_BYTES // dtype.size:
        raise GraphObjectCreationError(f"""The stream {handle!r} was given the size
            {shown(num_elements)}, which is not valid.
            next:  give the number of elements of one transfer, 1 or more.""")
    if not isinstance(mode, ReplicatedStreamMode):
        raise GraphObjectCreationError(f"""The stream {handle!r} was given the mode {shown(mode)},
            which is not a ReplicatedStreamMode.
            next:  give ReplicatedStreamMode.REPLICATE or BROADCAST; options are a dict:
            options={{'buffering_depth': 2}}.""")
    depth = _depth(handle, options, buffering_depth)
    return DataStream(
        handle,
        dtype,
        num_elements=int(num_elements),
        to_device=to_device,
        buffering_depth=depth,
        mode=mode,
    )


def _depth(
    handle: str,
    options: Mapping[str, int | str] | None,
    depth_argument: int | str | None,
) -> int:
    if options is not None and not isinstance(options, Mapping):
        raise InvalidOptionError(f"""The stream {handle!r} was given the options {shown(options)},
            which are not a dict.
            next:  give a dict: options={{'buffering_depth': 2}}.""")
    for name, value in (options or {}).items():
        if name not in ("buffering_depth", "bufferingDepth"):
            raise InvalidOptionError(f"""A stream has no option {shown(name)}.
                where: stream {handle!r}
                next:  {did_you_mean(name, ["buffering_depth"])}Its only option is
                'buffering_depth'.""")
        depth_argument = value if depth_argument is None else depth_argument
    if isinstance(depth_argument, str) and depth_argument.isdecimal() and len(depth_argument) < 6:
        depth_argument = int(depth_argument)
    if depth_argument is None:
        return 1
    if not is_whole(depth_argument) or not 1 <= depth_argument <= MOST_BUFFERED:
        raise InvalidOptionError(f"""The stream {handle!r} was given the buffering depth
            {shown(depth_argument)}, which is not valid.
            next:  give the number of transfers to prefetch, a whole number from 1 to
            {MOST_BUFFERED:,}.""")
    return int(depth_argument)
