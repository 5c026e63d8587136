"""IPUModel, which describes a simulated IPU, and the Device that it makes."""

from __future__ import annotations

from typing import Any

from ipu_teach.errors import InvalidMachineModelError, shown
from ipu_teach.target import Target, changed, make_target, unknown_field


class Device:
    """A simulated machine that an Engine is loaded on. `target` describes it; `id` tells two devices apart."""

    _made = 0

    def __init__(self, target: Target) -> None:
        if not isinstance(target, Target):
            raise InvalidMachineModelError(
                f"Device() was given {shown(target)}, which is no target.",
                next_step='make a device with IPUModel("ipu2").create_device().',
            )
        self.target = target
        self.id = Device._made
        Device._made += 1

    def __repr__(self) -> str:
        t = self.target
        ipus = "1 IPU" if t.num_ipus == 1 else f"{t.num_ipus} IPUs"
        return f"Device({t.ipu_version} model, {ipus}, {t.num_tiles:,} tile{'s' if t.num_tiles > 1 else ''})"


class IPUModel:
    """A model of one or more IPUs, from 1 tile up.

    `version` is "ipu1" (GC2), "ipu2" (GC200) or "bow". Any field of `Target` may be changed by name, here or later:

        model = IPUModel("ipu2", tiles_per_ipu=13)
        model.num_ipus = 2

    Values are those the machine would give; time is modelled. A field that does not exist, or a value that no machine
    has, raises `InvalidMachineModelError`. A device keeps the description with which it was created.
    """

    target: Target

    def __init__(self, version: str = "ipu2", **fields: Any) -> None:
        object.__setattr__(self, "target", make_target(version, **fields))

    def create_device(self) -> Device:
        """A new device of this description."""
        return Device(self.target)

    def __getattr__(self, name: str) -> Any:
        if "target" in self.__dict__ and hasattr(self.target, name):
            return getattr(self.target, name)
        raise AttributeError(name) if name.startswith("_") else unknown_field(name)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, "target", changed(self.target, **{name: value}))

    def __repr__(self) -> str:
        t = self.target
        return f"IPUModel({t.ipu_version!r}, tiles_per_ipu={t.tiles_per_ipu}, num_ipus={t.num_ipus})"
