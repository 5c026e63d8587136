"""The handles by which the host accesses a graph's streams and tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ipu_teach.errors import GraphObjectCreationError, shown
from ipu_teach.graph.debug import scoped

if TYPE_CHECKING:
    from ipu_teach.graph.remote_buffer import RemoteBuffer
    from ipu_teach.graph.stream import DataStream
    from ipu_teach.graph.tensor import Tensor

HasHandle = TypeVar("HasHandle", bound="DataStream | HostAccess | RemoteBuffer")


@dataclass(frozen=True, eq=False)
class HostAccess:
    """A tensor that the host reads or writes as a whole, outside any program, under `handle`.

    `write` is True if the host writes it.
    """

    handle: str
    tensor: Tensor
    write: bool
    replicas: int = 1

    def __repr__(self) -> str:
        return f"the handle by which the host {'writes' if self.write else 'reads'} {self.tensor!r}"


def scoped_handle(handle: str, debug_context: str | None, call: str) -> str:
    """Return `handle` inside the scope `debug_context`, after checking that it is a string."""
    check_handle(handle, call)
    return scoped(handle, debug_context, call) or ""


def register(
    known: dict[str, HasHandle], item: HasHandle, *others: Mapping[str, object]
) -> HasHandle:
    """Add `item` to `known` under its handle, and return `item`.

    Raises `GraphObjectCreationError` if the handle is already in `known` or in `others`.
    """
    for taken in (known, *others):
        if item.handle in taken:
            raise GraphObjectCreationError(
                f"There is already a handle {item.handle!r}.",
                where=repr(taken[item.handle]),
                next_step="choose another name.",
            )
    known[item.handle] = item
    return item


def check_handle(handle: str, call: str) -> None:
    """Raise `GraphObjectCreationError`, which names `call`, if a handle is not a string."""
    if not isinstance(handle, str):
        raise GraphObjectCreationError(f"""{call} was given the handle {shown(handle)},
            which is not text.
            next:  a handle must be a string, as in 'weights'.""")
