"""IPUModel, which describes a simulated IPU, the Device that it makes, and the DeviceManager, which
lends some."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from ipu_teach.errors import (
    InvalidMachineModelError,
    InvalidOptionError,
    NoHardwareError,
    WithoutSome,
    did_you_mean,
    missing,
    shown,
)
from ipu_teach.target import Target, changed, make_target, unknown_field


class TargetType(Enum):
    """Kinds of device. The kit has no IPU hardware behind it; it models one."""

    IPU = "IPU"
    IPU_MODEL = "IPU_MODEL"
    CPU = "CPU"


class Device(WithoutSome):
    """A simulated machine that an Engine is loaded on. `target` describes it; `id` tells two
    devices apart.

    A device from a `DeviceManager` is attached by one program at a time, as hardware would be; one
    that was made by `IPUModel.create_device` needs no attaching.
    """

    _made = 0

    def __init__(self, target: Target, target_type: TargetType = TargetType.IPU_MODEL) -> None:
        if not isinstance(target, Target):
            raise InvalidMachineModelError(f"""Device() was given {shown(target)}, which is no
                target.
                next:  make a device with IPUModel("ipu2").create_device().""")
        self.target = target
        self.target_type = target_type
        self.id = Device._made
        self.is_attached = False
        self.program: object = None  # what was loaded last; a device holds one program at a time
        Device._made += 1

    @classmethod
    def create_cpu_device(cls) -> Device:
        """A device of one tile with one worker and no limit of memory to speak of, for trying
        values only."""
        target = make_target(tiles_per_ipu=1, num_worker_contexts=1, memory_bytes_per_tile=2**40)
        return cls(target, TargetType.CPU)

    @classmethod
    def create_simulator_device(cls, target: Target) -> Device:
        """A device of any target; in this kit every device is a simulated one."""
        return cls(target)

    def attach(self) -> bool:
        """Take the device for this program. False if it is taken already."""
        if self.is_attached:
            return False
        self.is_attached = True
        return True

    def detach(self) -> None:
        """Give the device back."""
        self.is_attached = False

    def create_virtual_device(self, tiles: int | Sequence[int]) -> Device:
        """A device of fewer tiles: the first `tiles` of each IPU, or of a single IPU those in a
        list, numbered anew.

        All tiles are alike, so only how many there are matters. Raises `InvalidMachineModelError`.
        """
        have, single = self.target.tiles_per_ipu, self.target.num_ipus == 1
        if isinstance(tiles, int):
            count, fits = tiles, not isinstance(tiles, bool) and 1 <= tiles <= have
        else:
            listed = list(tiles) if isinstance(tiles, (list, tuple, range)) else []
            whole = all(
                isinstance(n, int) and not isinstance(n, bool) and 0 <= n < have for n in listed
            )
            count, fits = len(listed), single and whole and len(set(listed)) == len(listed) > 0
        if not fits:
            several = f", or a list of different tiles from 0 to {have - 1}" if single else ""
            raise InvalidMachineModelError(f"""create_virtual_device() was given {shown(tiles)}.
                next:  give a number of tiles, 1 to {have}{several}.""")
        return Device(changed(self.target, tiles_per_ipu=count), self.target_type)

    @property
    def has_gateway(self) -> bool:
        """Whether there is a gateway between the IPUs and their host: not in this model, which has
        a plain host link."""
        return False

    @property
    def supports_remote_buffers(self) -> bool:
        """Whether there is memory beside the tiles, for `Graph.add_remote_buffer`: always."""
        return True

    def __repr__(self) -> str:
        t = self.target
        ipus = "1 IPU" if t.num_ipus == 1 else f"{t.num_ipus} IPUs"
        return (
            f"Device({t.ipu_version} model, {ipus}, {t.num_tiles:,} "
            f"tile{'s' if t.num_tiles > 1 else ''})"
        )


class DeviceManager(WithoutSome):
    """A pool of simulated devices, found and attached as hardware would be: one of each of 1, 2, 4,
    8 and 16 IPUs.

    A device of another number of IPUs joins the pool when it is first asked for.
    """

    def __init__(self, version: str = "ipu2") -> None:
        self._version = version
        self._devices = [Device(make_target(version, num_ipus=n)) for n in (1, 2, 4, 8, 16)]

    @classmethod
    def create_device_manager(cls) -> DeviceManager:
        """A new manager, with a pool of its own."""
        return cls()

    @property
    def num_devices(self) -> int:
        """Devices in the pool."""
        return len(self._devices)

    def get_devices(
        self, target_type: TargetType = TargetType.IPU_MODEL, num_ipus: int | None = None
    ) -> list[Device]:
        """The devices of a kind, with exactly `num_ipus` IPUs if that is given: any number that
        `IPUModel` takes.

        There is no hardware: asking for `TargetType.IPU` raises `NoHardwareError`.
        """
        if target_type is TargetType.IPU:
            raise NoHardwareError("""No IPU hardware is attached: this kit simulates the chip.
                next:  ask for TargetType.IPU_MODEL; the same program runs on it, with the same
                values.""")
        if target_type is TargetType.CPU:
            return [Device.create_cpu_device()]
        if not isinstance(target_type, TargetType):
            raise InvalidOptionError(f"""get_devices() was given {shown(target_type)}.
                next:  give TargetType.IPU_MODEL or TargetType.CPU.""")
        if num_ipus is not None and all(d.target.num_ipus != num_ipus for d in self._devices):
            self._devices.append(Device(make_target(self._version, num_ipus=num_ipus)))
        return [d for d in self._devices if num_ipus is None or d.target.num_ipus == num_ipus]

    def get_device(self, number: int) -> Device:
        """Device `number` of the pool, counted from 0."""
        if not isinstance(number, int) or not 0 <= number < len(self._devices):
            raise InvalidOptionError(f"""There is no device {shown(number)}.
                next:  the pool has the devices 0 to {len(self._devices) - 1}.""")
        return self._devices[number]

    def __repr__(self) -> str:
        return f"DeviceManager({self.num_devices} simulated devices)"


class IPUModel:
    """A model of one or more IPUs, from 1 tile up.

    `version` is "ipu1" (GC2), "ipu2" (GC200), "bow" or "c600". Any field of `Target` may be changed
    by name, here or later:

        model = IPUModel("ipu2", tiles_per_ipu=13)
        model.num_ipus = 2

    `machine` is "m2000", "bow2000", "pod16" or "pod64": all its IPUs, or num_ipus=8 of them, a
    power of two, as it gives them. Without one there may be any number, on a ladder of their own.

    Values are those the machine would give; time is modelled. A field that does not exist, or a
    value that no machine has, raises `InvalidMachineModelError`. A device keeps the description
    with which it was created.
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
        if name.startswith("_") or did_you_mean(name, ["create_device"]):
            raise missing("IPUModel", name, {}, ["create_device"])
        raise unknown_field(name)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, "target", changed(self.target, **{name: value}))

    def __repr__(self) -> str:
        t = self.target
        return (
            f"IPUModel({t.ipu_version!r}, tiles_per_ipu={t.tiles_per_ipu}, num_ipus={t.num_ipus})"
        )


def target_of(given: object) -> Target | None:
    """The target that `given` is, or is a device of; None if it is neither."""
    target = given.target if isinstance(given, Device) else given
    return target if isinstance(target, Target) else None
