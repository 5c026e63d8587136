"""Simulated devices: `IPUModel` describes one, and a `DeviceManager` has a pool of them."""

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
from ipu_teach.target import Setting, Target, changed, make_target, unknown_field


class TargetType(Enum):
    """The kinds of device. The kit has no IPU hardware; it only models an IPU."""

    IPU = "IPU"
    IPU_MODEL = "IPU_MODEL"
    CPU = "CPU"


class Device(WithoutSome):
    """A simulated machine on which an Engine is loaded.

    `target` describes the machine, and `id` is unique. Only one program at a time can attach a
    device of a `DeviceManager`, as with hardware. A device that `IPUModel.create_device` returns
    need not be attached.
    """

    _made = 0

    def __init__(self, target: Target, target_type: TargetType = TargetType.IPU_MODEL) -> None:
        if not isinstance(target, Target):
            raise InvalidMachineModelError(f"""Device() was given {shown(target)}, which is not a
                target.
                next:  make a device with IPUModel("ipu2").create_device().""")
        self.target = target
        self.target_type = target_type
        self.id = Device._made
        self.is_attached = False
        self.program: object = None  # the program loaded last; a device holds one program at a time
        Device._made += 1

    @classmethod
    def create_cpu_device(cls) -> Device:
        """Return a device of one tile with one worker and 1 TB of memory, to check values only."""
        target = make_target(tiles_per_ipu=1, num_worker_contexts=1, memory_bytes_per_tile=2**40)
        return cls(target, TargetType.CPU)

    @classmethod
    def create_simulator_device(cls, target: Target) -> Device:
        """Return a device for any target; in this kit every device is simulated."""
        return cls(target)

    def attach(self) -> bool:
        """Attach the device to this program. Return False if it is attached already."""
        if self.is_attached:
            return False
        self.is_attached = True
        return True

    def detach(self) -> None:
        """Make the device available to other programs."""
        self.is_attached = False

    def create_virtual_device(self, tiles: int | Sequence[int]) -> Device:
        """Return a device with fewer tiles.

        `tiles` is the number of tiles on each IPU or, for a single IPU, a list of different tiles.
        The tiles of the new device are numbered from 0. Tiles differ only in their number, so the
        list is used only for its length. Raises `InvalidMachineModelError`.
        """
        have = self.target.tiles_per_ipu
        single = self.target.num_ipus == 1
        if isinstance(tiles, int):
            count = tiles
            fits = not isinstance(tiles, bool) and 1 <= tiles <= have
        else:
            listed = list(tiles) if isinstance(tiles, (list, tuple, range)) else []
            is_whole_machine = all(
                isinstance(n, int) and not isinstance(n, bool) and 0 <= n < have for n in listed
            )
            count = len(listed)
            fits = single and is_whole_machine and len(set(listed)) == len(listed) > 0
        if not fits:
            several = f", or a list of different tiles from 0 to {have - 1}" if single else ""
            raise InvalidMachineModelError(f"""create_virtual_device() was given {shown(tiles)}.
                next:  give a number of tiles, 1 to {have}{several}.""")
        return Device(changed(self.target, tiles_per_ipu=count), self.target_type)

    @property
    def has_gateway(self) -> bool:
        """Always False: the simulated IPUs have a direct link to the host, and no gateway."""
        return False

    @property
    def supports_remote_buffers(self) -> bool:
        """Whether the device has streaming memory for `Graph.add_remote_buffer`: always True."""
        return True

    def __repr__(self) -> str:
        t = self.target
        ipus = "1 IPU" if t.num_ipus == 1 else f"{t.num_ipus} IPUs"
        return (
            f"Device({t.ipu_version} model, {ipus}, {t.num_tiles:,} "
            f"tile{'s' if t.num_tiles > 1 else ''})"
        )


class DeviceManager(WithoutSome):
    """A pool of simulated devices with 1, 2, 4, 8 and 16 IPUs, one of each.

    Programs select and attach the devices as they would hardware. `get_devices` adds a device with
    another number of IPUs to the pool when a program first asks for it.
    """

    def __init__(self, version: str = "ipu2") -> None:
        self._version = version
        self._devices = [Device(make_target(version, num_ipus=n)) for n in (1, 2, 4, 8, 16)]

    @classmethod
    def create_device_manager(cls) -> DeviceManager:
        """Return a new manager, with its own pool."""
        return cls()

    @property
    def num_devices(self) -> int:
        """The number of devices in the pool."""
        return len(self._devices)

    def get_devices(
        self, target_type: TargetType = TargetType.IPU_MODEL, num_ipus: int | None = None
    ) -> list[Device]:
        """Return the devices of a kind, with exactly `num_ipus` IPUs if that is given.

        `num_ipus` may be any number that `IPUModel` accepts. `TargetType.IPU` raises
        `NoHardwareError`, as there is no hardware.
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
        """Return device `number` of the pool, counted from 0."""
        if not isinstance(number, int) or not 0 <= number < len(self._devices):
            raise InvalidOptionError(f"""There is no device {shown(number)}.
                next:  the pool has the devices 0 to {len(self._devices) - 1}.""")
        return self._devices[number]

    def __repr__(self) -> str:
        return f"DeviceManager({self.num_devices} simulated devices)"


class IPUModel:
    """A description of one or more simulated IPUs, with 1 tile or more each.

    `version` is "ipu1" (GC2), "ipu2" (GC200), "bow" or "c600". Any field of `Target` can be set by
    name, here or later:

        model = IPUModel("ipu2", tiles_per_ipu=13)
        model.num_ipus = 2

    `machine` is "m2000", "bow2000", "pod16" or "pod64". The model has all IPUs of that machine, or
    only `num_ipus` of them if that is given: a power of two. Without `machine`, a ladder of links
    joins any number of IPUs.

    Values are those that the machine would compute; time is modelled. An unknown field, or a value
    that no machine has, raises `InvalidMachineModelError`. Later changes of the model do not change
    a device that it has created.
    """

    target: Target

    def __init__(self, version: str = "ipu2", **fields: Setting) -> None:
        object.__setattr__(self, "target", make_target(version, **fields))

    def create_device(self) -> Device:
        """Return a new device that matches this description."""
        return Device(self.target)

    def __getattr__(self, name: str) -> Any:
        if "target" in self.__dict__ and hasattr(self.target, name):
            return getattr(self.target, name)
        if name.startswith("_") or did_you_mean(name, ["create_device"]):
            raise missing("IPUModel", name, {}, ["create_device"])
        raise unknown_field(name)

    def __setattr__(self, name: str, value: Setting) -> None:
        object.__setattr__(self, "target", changed(self.target, **{name: value}))

    def __repr__(self) -> str:
        t = self.target
        return (
            f"IPUModel({t.ipu_version!r}, tiles_per_ipu={t.tiles_per_ipu}, num_ipus={t.num_ipus})"
        )


def target_of(machine: object) -> Target | None:
    """Return `machine` if it is a target, its target if it is a device, and None otherwise."""
    target = machine.target if isinstance(machine, Device) else machine
    return target if isinstance(target, Target) else None
