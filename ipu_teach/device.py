"""Simulated devices. `IPUModel` describes a device, and a `DeviceManager` has a pool of devices."""

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
    """The kinds of device. The kit has no IPU hardware, so all its devices are simulated."""

    IPU = "IPU"
    IPU_MODEL = "IPU_MODEL"
    CPU = "CPU"


class Device(WithoutSome):
    """A simulated machine on which an Engine is loaded.

    `target` describes the machine, and `id` is unique in the process. Only one program at a time
    can attach a device of a `DeviceManager`, as with hardware. A device that
    `IPUModel.create_device` returns need not be attached. Raises `InvalidMachineModelError` if
    `target` is not a target.
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
        self.program: object = None  # The program that was loaded last.
        Device._made += 1

    @classmethod
    def create_cpu_device(cls) -> Device:
        """Return a device of one tile, one worker and 1 TB of memory, only for checking results."""
        target = make_target(tiles_per_ipu=1, num_worker_contexts=1, memory_bytes_per_tile=2**40)
        return cls(target, TargetType.CPU)

    @classmethod
    def create_simulator_device(cls, target: Target) -> Device:
        """Return a device with the target `target`. In this kit, every device is simulated."""
        return cls(target)

    def attach(self) -> bool:
        """Attach the device to this program. Return False if it is already attached, else True."""
        if self.is_attached:
            return False
        self.is_attached = True
        return True

    def detach(self) -> None:
        """Make the device available to other programs."""
        self.is_attached = False

    def create_virtual_device(self, tiles: int | Sequence[int]) -> Device:
        """Return a device with fewer tiles.

        `tiles` is the number of tiles on each IPU. For a single IPU, `tiles` may also be a list of
        different tile numbers. Only the length of the list matters, because all tiles are equal.
        The tiles of the new device are numbered from 0. Raises `InvalidMachineModelError` if this
        device does not have these tiles.
        """
        tiles_per_ipu = self.target.tiles_per_ipu
        is_single_ipu = self.target.num_ipus == 1
        if isinstance(tiles, int):
            num_tiles = tiles
            is_valid = not isinstance(tiles, bool) and 1 <= tiles <= tiles_per_ipu
        else:
            tile_numbers = list(tiles) if isinstance(tiles, (list, tuple, range)) else []
            are_tiles = all(
                isinstance(number, int)
                and not isinstance(number, bool)
                and 0 <= number < tiles_per_ipu
                for number in tile_numbers
            )
            num_tiles = len(tile_numbers)
            is_valid = (
                is_single_ipu and are_tiles and len(set(tile_numbers)) == len(tile_numbers) > 0
            )
        if not is_valid:
            list_advice = (
                f", or a list of different tiles from 0 to {tiles_per_ipu - 1}"
                if is_single_ipu
                else ""
            )
            raise InvalidMachineModelError(f"""create_virtual_device() was given {shown(tiles)}.
                next:  give a number of tiles, 1 to {tiles_per_ipu}{list_advice}.""")
        return Device(changed(self.target, tiles_per_ipu=num_tiles), self.target_type)

    @property
    def has_gateway(self) -> bool:
        """Whether the IPUs have a gateway. Always False: they have a direct link to the host."""
        return False

    @property
    def supports_remote_buffers(self) -> bool:
        """Whether the device has streaming memory for `Graph.add_remote_buffer`. Always True."""
        return True

    def __repr__(self) -> str:
        target = self.target
        ipus_text = "1 IPU" if target.num_ipus == 1 else f"{target.num_ipus} IPUs"
        return (
            f"Device({target.ipu_version} model, {ipus_text}, {target.num_tiles:,} "
            f"tile{'s' if target.num_tiles > 1 else ''})"
        )


class DeviceManager(WithoutSome):
    """A pool of simulated devices with 1, 2, 4, 8 and 16 IPUs, one of each.

    Programs select and attach these devices in the same way as hardware. When a program first asks
    `get_devices` for another number of IPUs, a device with this number is added to the pool.
    """

    def __init__(self, version: str = "ipu2") -> None:
        self._version = version
        self._devices = [
            Device(make_target(version, num_ipus=num_ipus)) for num_ipus in (1, 2, 4, 8, 16)
        ]

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
        """Return the devices of a kind that have `num_ipus` IPUs.

        If `num_ipus` is None, return all devices of the kind. `num_ipus` may be any number that
        `IPUModel` accepts. For `TargetType.CPU`, return a list with one new CPU device, and ignore
        `num_ipus`. Raises `NoHardwareError` for `TargetType.IPU`, as there is no hardware, and
        `InvalidOptionError` for an argument that is not a `TargetType`.
        """
        if target_type is TargetType.IPU:
            raise NoHardwareError("""No IPU hardware is attached: this kit simulates the chip.
                next:  ask for TargetType.IPU_MODEL, which runs the same program with the same
                values.""")
        if target_type is TargetType.CPU:
            return [Device.create_cpu_device()]
        if not isinstance(target_type, TargetType):
            raise InvalidOptionError(f"""get_devices() was given {shown(target_type)}, which is
                not a TargetType.
                next:  give TargetType.IPU_MODEL or TargetType.CPU.""")
        if num_ipus is not None and all(
            device.target.num_ipus != num_ipus for device in self._devices
        ):
            self._devices.append(Device(make_target(self._version, num_ipus=num_ipus)))
        return [
            device
            for device in self._devices
            if num_ipus is None or device.target.num_ipus == num_ipus
        ]

    def get_device(self, number: int) -> Device:
        """Return device `number` of the pool, counted from 0.

        Raises `InvalidOptionError` if there is no such device.
        """
        if not isinstance(number, int) or not 0 <= number < len(self._devices):
            raise InvalidOptionError(f"""get_device() was given {shown(number)}, which is not the
                number of a device in the pool.
                next:  give a number from 0 to {len(self._devices) - 1}.""")
        return self._devices[number]

    def __repr__(self) -> str:
        return f"DeviceManager({self.num_devices} simulated devices)"


class IPUModel:
    """A description of one or more simulated IPUs, with 1 tile or more each.

    `version` is "ipu1" (GC2), "ipu2" (GC200), "bow" or "c600". Any field of `Target` can be set by
    name, when the model is created or later:

        model = IPUModel("ipu2", tiles_per_ipu=13)
        model.num_ipus = 2

    The field `machine` is "m2000", "bow2000", "pod16" or "pod64". The model has all IPUs of that
    machine, or `num_ipus` of them, which must be a power of two. Without `machine`, a model may
    have any number of IPUs, which are joined by a ladder of links.

    A device computes the same values as the machine, but its times are modelled. Later changes to
    the model do not affect devices that it has already created. Raises `InvalidMachineModelError`
    for an unknown field, or a value that no machine has.
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
        target = self.target
        return (
            f"IPUModel({target.ipu_version!r}, tiles_per_ipu={target.tiles_per_ipu}, "
            f"num_ipus={target.num_ipus})"
        )


def target_of(machine: object) -> Target | None:
    """Return the target of a `Device`, a target itself unchanged, and None for anything else."""
    target = machine.target if isinstance(machine, Device) else machine
    return target if isinstance(target, Target) else None
