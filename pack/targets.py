"""The targets of a pack: systems and Python versions, and the locked packages that each needs."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cache, cached_property

from packaging import tags
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# These packages are needed in addition to the lock: uv makes .venv, pip is installed into it, and
# hatchling needs editables to install the kit.
TOOLS = ("uv", "pip", "editables")
# A marker may depend on the patch version, as in `>= "3.11.5"`, so each marker is evaluated for the
# first and the last patch version.
PATCHES = ("0", "99")


class PackError(Exception):
    """Raised if a pack cannot be made; the text has the reason and what to do."""


@dataclass(frozen=True)
class System:
    """An operating system and processor for which a pack can be made.

    - `name` is the value of the command's option, and `said` is a description for people.
    - `folder` is the folder of its wheels in wheels/. `platforms` has the platform tags of its
      wheels, best first.
    - `sys_platform` and `machine` are the values of Python's `sys.platform` and
      `platform.machine()`.
    - `shared` and `each` are measured sizes in megabytes: `shared` of the wheels that all Python
      versions share, and `each` of the wheels for one Python version.
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
        """The values of the variables that environment markers use, for this system."""
        names_by_platform = {
            "linux": ("posix", "Linux"),
            "win32": ("nt", "Windows"),
            "darwin": ("posix", "Darwin"),
        }
        os_name, system = names_by_platform[self.sys_platform]
        return {
            "os_name": os_name,
            "platform_machine": self.machine,
            "platform_release": "",
            "platform_system": system,
            "platform_version": "",
            "sys_platform": self.sys_platform,
        }


def _manylinux(machine: str) -> tuple[str, ...]:
    """Return the tags of wheels that run on any Linux with glibc 2.28 (2018) or newer."""
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
# The measured size of the wheels that all systems share, in MB.
EVERYWHERE = 56


@dataclass(frozen=True)
class Target:
    """A version of Python, such as "3.12", on a system."""

    system: System
    python: str

    def __str__(self) -> str:
        return f"{self.system.name} with Python {self.python}"

    @cached_property
    def tags(self) -> frozenset[tags.Tag]:
        """The tags of all wheels that the target can install."""
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
        """Return the packages to install: `name==version` from the lock, and tools by name.

        Requirements whose markers do not apply are left out. If `names` is not None, packages with
        other names are left out, too.
        """
        requirements = []
        for pin in lock:
            if names is not None and canonicalize_name(pin.name) not in names:
                continue
            for patch in PATCHES:
                full_version = f"{self.python}.{patch}"
                version_markers = {
                    "python_version": self.python,
                    "python_full_version": full_version,
                    "implementation_version": full_version,
                }
                version_markers |= {
                    "implementation_name": "cpython",
                    "platform_python_implementation": "CPython",
                }
                if pin.marker is None or pin.marker.evaluate(
                    {**self.system.markers, **version_markers}
                ):
                    requirements.append(f"{pin.name}{pin.specifier}")
                    break
        return [*requirements, *TOOLS]


def read_lock(text: str) -> list[Requirement]:
    """Return the requirements in the text of a lock file."""
    lines = (line.strip() for line in text.splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def needed_names(lock: str, wanted: Iterable[str]) -> frozenset[str]:
    """Return the names of the `wanted` packages and of all that these need, also indirectly.

    `lock` is the text of a lock file. Its comments list, for each package, the packages that need
    it ("via").
    """
    dependents: dict[str, set[str]] = {}
    package = ""
    for line in lock.splitlines():
        if line and not line.startswith((" ", "#")):
            package = canonicalize_name(Requirement(line).name)
            dependents.setdefault(package, set())
        elif (dependent := line.strip(" #").removeprefix("via").strip()) and package:
            dependents[package].add(canonicalize_name(dependent.partition(" ")[0]))
    needed: set[str] = {canonicalize_name(Requirement(text).name) for text in wanted}
    while (
        further := {
            name for name, dependents_of_name in dependents.items() if dependents_of_name & needed
        }
        - needed
    ):
        needed |= further
    return frozenset(needed)


@cache
def _parsed(wheel: str) -> tuple[str, str, frozenset[tags.Tag]]:
    name, version, _, wheel_tags = parse_wheel_filename(wheel)
    return name, str(version), wheel_tags


def answers_to(wheel: str, pin: str) -> bool:
    """Return whether a wheel satisfies a pin: `name==version`, or `name` for any version."""
    name, _, version = pin.partition("==")
    return _parsed(wheel)[0] == canonicalize_name(name) and version in ("", _parsed(wheel)[1])


def megabytes(targets: Iterable[Target]) -> int:
    """Return the approximate size of the wheels for all `targets` together, in megabytes."""
    target_list = list(targets)
    systems = {target.system.name: target.system for target in target_list}
    shared = sum(system.shared for system in systems.values())
    return EVERYWHERE + shared + sum(target.system.each for target in target_list)
