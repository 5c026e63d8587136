"""The targets of a pack: the systems, the Pythons, and the part of the lock that each needs."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cache, cached_property

from packaging import tags
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# Packages that an installation needs in addition to the lock: uv makes .venv, pip is installed into
# it, and hatchling needs editables to install the kit.
TOOLS = ("uv", "pip", "editables")
# A marker may depend on the patch version, as `>= "3.11.5"`, so it is evaluated for the first and
# the last patch version.
PATCHES = ("0", "99")


class PackError(Exception):
    """A reason why a pack cannot be made, and what to do."""


@dataclass(frozen=True)
class System:
    """A system as packages name it: `folder` is its name in wheels/, `platforms` its tags, best
    first.

    `shared` and `each` are measured megabytes of wheels: those that all Pythons share, and those
    that each Python needs for itself.
    """

    name: str
    said: str
    folder: str
    sys_platform: str
    machine: str
    platforms: tuple[str, ...]
    shared: int
    each: int

    @property
    def markers(self) -> dict[str, str]:
        """The values with which the lock's markers are evaluated for a system."""
        named = {
            "linux": ("posix", "Linux"),
            "win32": ("nt", "Windows"),
            "darwin": ("posix", "Darwin"),
        }
        os_name, system = named[self.sys_platform]
        return {
            "os_name": os_name,
            "platform_machine": self.machine,
            "platform_release": "",
            "platform_system": system,
            "platform_version": "",
            "sys_platform": self.sys_platform,
        }


def _manylinux(machine: str) -> tuple[str, ...]:
    """Return the platform tags of Linux with glibc 2.28 (from 2018) or newer."""
    return (
        *(f"manylinux_2_{n}_{machine}" for n in range(28, 4, -1)),
        f"manylinux2014_{machine}",
        f"manylinux1_{machine}",
    )


def _macos(machine: str) -> tuple[str, ...]:
    return tuple(tags.mac_platforms((12, 0), machine))


SYSTEMS = {
    system.name: system
    for system in (
        System(
            "linux",
            "Linux on x86-64",
            "linux-x86_64",
            "linux",
            "x86_64",
            _manylinux("x86_64"),
            33,
            125,
        ),
        System(
            "linux-arm",
            "Linux on ARM",
            "linux-aarch64",
            "linux",
            "aarch64",
            _manylinux("aarch64"),
            31,
            120,
        ),
        System(
            "macos",
            "macOS 12 or newer on Apple silicon",
            "darwin-arm64",
            "darwin",
            "arm64",
            _macos("arm64"),
            29,
            92,
        ),
        System(
            "macos-intel",
            "macOS on Intel",
            "darwin-x86_64",
            "darwin",
            "x86_64",
            _macos("x86_64"),
            30,
            92,
        ),
        System(
            "windows",
            "Windows on x86-64",
            "windows-amd64",
            "win32",
            "AMD64",
            ("win_amd64",),
            30,
            99,
        ),
    )
}
DEFAULT_SYSTEMS = ("linux", "macos", "windows")
EVERYWHERE = 56  # megabytes of wheels that all systems share, as measured


@dataclass(frozen=True)
class Target:
    """A Python on a system."""

    system: System
    python: str

    def __str__(self) -> str:
        return f"{self.system.name} with Python {self.python}"

    @cached_property
    def tags(self) -> frozenset[tags.Tag]:
        """The tags of the wheels that the target can install."""
        version = tuple(int(part) for part in self.python.split("."))
        interpreter = f"cp{version[0]}{version[1]}"
        native = tags.cpython_tags(version, [interpreter], self.system.platforms)
        return frozenset(
            [*native, *tags.compatible_tags(version, interpreter, self.system.platforms)]
        )

    def fits(self, wheel: str) -> bool:
        """Return whether the target can install a wheel with this file name."""
        return not self.tags.isdisjoint(_parsed(wheel)[2])

    def pins(self, lock: Iterable[Requirement], names: Container[str] | None = None) -> list[str]:
        """Return the requirements of the target: `name==version` for the lock's lines whose markers
        hold, and the tools by name.

        `names` limits the lines to packages with these names.
        """
        found = []
        for pin in lock:
            if names is not None and canonicalize_name(pin.name) not in names:
                continue
            for patch in PATCHES:
                full = f"{self.python}.{patch}"
                known = {
                    "python_version": self.python,
                    "python_full_version": full,
                    "implementation_version": full,
                }
                known |= {
                    "implementation_name": "cpython",
                    "platform_python_implementation": "CPython",
                }
                if pin.marker is None or pin.marker.evaluate({**self.system.markers, **known}):
                    found.append(f"{pin.name}{pin.specifier}")
                    break
        return [*found, *TOOLS]


def read_lock(text: str) -> list[Requirement]:
    """Return the lines of a lock, without comments."""
    lines = (line.strip() for line in text.splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def needed_names(lock: str, wanted: Iterable[str]) -> frozenset[str]:
    """Return the names of the lock's packages that the packages `wanted` need, directly or
    indirectly.

    The comments of a lock list for each package the packages that need it ("via").
    """
    dependents: dict[str, set[str]] = {}
    package = ""
    for line in lock.splitlines():
        if line and not line.startswith((" ", "#")):
            package = canonicalize_name(Requirement(line).name)
            dependents.setdefault(package, set())
        elif (words := line.strip(" #").removeprefix("via").strip()) and package:
            dependents[package].add(canonicalize_name(words.partition(" ")[0]))
    needed: set[str] = {canonicalize_name(Requirement(text).name) for text in wanted}
    while more := {name for name, by in dependents.items() if by & needed} - needed:
        needed |= more
    return frozenset(needed)


@cache
def _parsed(wheel: str) -> tuple[str, str, frozenset[tags.Tag]]:
    name, version, _, fits = parse_wheel_filename(wheel)
    return name, str(version), fits


def answers_to(wheel: str, pin: str) -> bool:
    """Return whether a wheel satisfies a pin: `name==version`, or any version of a `name`."""
    name, _, version = pin.partition("==")
    return _parsed(wheel)[0] == canonicalize_name(name) and version in ("", _parsed(wheel)[1])


def megabytes(targets: Iterable[Target]) -> int:
    """Return the approximate size of the wheels for all of these targets, in megabytes."""
    chosen = list(targets)
    systems = {target.system.name: target.system for target in chosen}
    shared = sum(system.shared for system in systems.values())
    return EVERYWHERE + shared + sum(target.system.each for target in chosen)
