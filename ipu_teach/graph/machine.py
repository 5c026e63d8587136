"""What a graph is built for: the target that its constructor was given."""

from __future__ import annotations

from ipu_teach.device import Device
from ipu_teach.errors import GraphObjectCreationError, NotOfferedError, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.target import Target


def target_of(given: object, replication_factor: object) -> Target:
    """The target that `given` is, or is a device of. Raises `GraphObjectCreationError` and `NotOfferedError`."""
    target = given.target if isinstance(given, Device) else given
    if not is_whole(replication_factor) or replication_factor != 1:
        raise NotOfferedError(f"""Graph() was given the replication factor {shown(replication_factor)}; this kit has one
            replica.
            next:  leave it out.""")
    if not isinstance(target, Target):
        raise GraphObjectCreationError(f"""Graph() was given {shown(target)}, which is no target.
            next:  give it a target, as in Graph(IPUModel("ipu2").create_device().target).""")
    return target
