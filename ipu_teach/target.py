"""The description of a machine, and the presets ipu1, ipu2, bow and c600.

Every constant names its unit and its source. The short names of sources are:

- Poplar docs: Graphcore's Poplar API reference, classes Target and IPUModel.
- PopLibs: graphcore/poplibs, file as named.
- PopART: graphcore/popart, willow/include/popart, device headers.
- tutorial 6: graphcore/examples, tutorials/poplar/tut6_matrix_vector_opt, README and tests.
- LBM: thorbenlouw/lbm-graphcore, experiments/halo-exchange-approaches.
- IPU1 study: Saghetti0/graphcore-ipu-research, research/ipu1/ipu1_consts.c.
- Bow slides: Graphcore, "ImageNet training in a few minutes".

The source also says whether a figure was derived from a published figure, or assumed.
"""

from __future__ import annotations

import builtins
import math
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, TypeAlias

import numpy as np

from ipu_teach.errors import (
    InvalidMachineModelError,
    PoplarTypeError,
    UnknownMachineFieldError,
    WithoutSome,
    did_you_mean,
    shown,
)
from ipu_teach.types import QUARTER, Array, DType, as_dtype

# The values of the option `codelet_prices`, which decides whether a user's codelet costs the cycles
# of compiled code or of hand-written code.
PRICES = COMPILED, BY_HAND = "compiled", "by hand"
# The sync patterns, with PopART's names. A pattern decides which IPUs wait while an IPU exchanges
# data with the host.
SYNC_PATTERNS = FULL, SINGLE_PIPELINE, REPLICA_AND_LADDER = (
    "FULL",
    "SINGLE_PIPELINE",
    "REPLICA_AND_LADDER",
)
# For each machine: its title, the number of its IPUs, and the possible versions of these IPUs.
MACHINES = {
    "m2000": ("IPU-M2000", 4, ("ipu2",)),
    "bow2000": ("Bow-2000", 4, ("bow",)),
    "pod16": ("Pod16", 16, ("ipu2", "bow")),
    "pod64": ("Pod64", 64, ("ipu2", "bow")),
}
# The value of a field: a str, int or float, depending on the field.
Setting: TypeAlias = Any
MESH, TORUS = "MESH", "TORUS"
# The maximum number of tiles in a model, which is enough for 2,849 full IPUs. Tables with an entry
# for each tile still fit into the memory of a laptop.
MOST_TILES = 2**22


def _constant(
    default: Setting,
    unit: str,
    source: str,
    minimum: float = 0,
    maximum: float = 1e15,
    words: tuple[str, ...] = (),
) -> Any:
    """Return a field of `Target` with the value for ipu2, its unit and its source.

    If the field is a number, it must be from `minimum` to `maximum`. If it is a string, it must be
    in `words`.
    """
    return field(
        default=default,
        metadata={
            "unit": unit,
            "source": source,
            "least": minimum,
            "most": maximum,
            "words": words,
        },
    )


@dataclass(frozen=True)
class Target(WithoutSome):
    """The machine that a program is compiled for. The defaults describe `ipu2`, the GC200.

    `make_target` creates a target. The unit and the source of each field are in its metadata.
    """

    ipu_version: str = _constant("ipu2", "name", "Poplar docs, IPUModel constructor")
    num_ipus: int = _constant(1, "IPUs", "Poplar docs, IPUModel::numIPUs", 1, MOST_TILES)
    machine: str = _constant(
        "",
        "name of a machine, or none",
        "Graphcore, datasheets of IPU-M2000, IPU-POD16 and IPU-POD128: 4, 16 and 64 IPUs",
        words=("", *MACHINES),
    )
    tiles_per_ipu: int = _constant(
        1472, "tiles", "simehaa/IPU README: GC200 has 1,472 tiles", 1, MOST_TILES
    )
    num_worker_contexts: int = _constant(
        6, "workers a tile", "IPU1 study; 8,832 threads an IPU in the Bow slides", 1, 1024
    )
    memory_bytes_per_tile: int = _constant(
        638_976, "bytes", "osmarks/ipu-stack, memory.rs; 624 kB in tut4's profile", 1
    )
    non_interleaved_bytes_per_tile: int = _constant(
        212_992,
        "bytes, where code may lie",
        "osmarks/ipu-stack, memory.rs: 208 KiB; the rest is interleaved",
    )
    instruction_bytes: int = _constant(
        4, "bytes an instruction", "Graphcore, Tile Vertex ISA: 32-bit instructions"
    )
    pointer_bytes: int = _constant(
        4, "bytes an address or a length in a vertex", "Poplar docs, VectorLayout: words"
    )
    worker_stack_bytes: int = _constant(
        512, "bytes a worker", "PopLibs tools, single_conv_layer.cpp (2018)"
    )
    supervisor_stack_bytes: int = _constant(
        128, "bytes a tile", "PopLibs tools, single_conv_layer.cpp (2018)"
    )
    vertex_code_bytes: int = _constant(
        440,
        "bytes a codelet and tile",
        "assumed: tut4's matMul has 1,770 bytes of code a tile for its four or so codelets",
    )
    control_code_bytes_per_step: int = _constant(
        16,
        "bytes a step of a program and tile",
        "assumed: four instructions, to sync, exchange, start the workers, and return",
    )
    host_packet_header_bytes: int = _constant(
        4, "bytes a packet", "assumed: one word; tut4's profile shows 12.1 kB in all"
    )
    tile_clock_frequency: float = _constant(
        1.33e9, "Hz", "derived from tutorial 6: 6,681,766 cycles are 5,023.9 microseconds", 1
    )
    exchange_bytes_per_cycle: int = _constant(
        4,
        "bytes a cycle and tile, each way",
        "derived from tutorial 6: its planner costs come out only with 4",
        1,
    )
    shared_bus_speedup: int = _constant(
        1,
        "times the rate, for what both tiles of a pair hear",
        "our choice: PopLibs' planner counts 2 (popops/ExchangeEstimator.cpp), but a further "
        "receiver speeds up nothing",
        1,
        64,
    )
    exchange_latency_cycles: int = _constant(
        54,
        "cycles from the start of an exchange to its first word",
        "osmarks/ipu-stack, EXCHANGE_INSTRUCTION_REFERENCE.md: decoded from a program of Poplar's "
        "SDK 3.4, row 0",
    )
    exchange_cycles_per_row: int = _constant(
        2,
        "cycles a row of tiles",
        "osmarks/ipu-stack, EXCHANGE_INSTRUCTION_REFERENCE.md: 52 + 2 x row after the selection",
    )
    exchange_rows: int = _constant(23, "rows of tiles", "osmarks/ipu-stack, topology.rs", 1)
    exchange_setup_instructions: int = _constant(
        3,
        "instructions to turn to another sender",
        "osmarks/ipu-stack, EXCHANGE_INSTRUCTION_REFERENCE.md",
    )
    exchange_send_words: int = _constant(
        64, "words of 4 bytes a SEND", "IPU1 study; osmarks/ipu-stack agrees", 1
    )
    memcpy_bytes_per_cycle: int = _constant(
        8, "bytes a cycle and tile", "PopLibs tools, single_conv_layer.cpp (2018)", 1
    )
    data_path_width: int = _constant(64, "bits", "PopLibs tools, single_conv_layer.cpp (2018)", 8)
    codelet_prices: str = _constant(
        "compiled",
        "compiled or by hand",
        "assumed: what a C++ compiler makes of a vertex; see docs/model.md",
        words=PRICES,
    )
    relative_sync_delay: str = _constant(
        "AUTO",
        "AUTO or NO_DELAY",
        "Poplar docs, IPUModel::relativeSyncDelay",
        words=("AUTO", "NO_DELAY"),
    )
    min_ipu_sync_delay: int = _constant(
        0, "cycles", "tutorial 6 sets 0; Poplar's own default is not published"
    )
    auto_sync_delay: int = _constant(
        100,
        "cycles a sync under AUTO",
        "assumed: the Mk1 model shows 166, hardware 64 to 117 (LBM); no Mk2 figure",
    )
    global_sync_cycles: int = _constant(
        600, "cycles a sync of several IPUs", "osmarks/ipu-stack, cost.rs (SDK value)"
    )
    global_sync_seconds_per_hop: float = _constant(
        30e-9,
        "seconds for each further link that a sync of several IPUs passes",
        "PopLibs Util.cpp: 15 ns each way",
        0,
        1,
    )
    sync_pattern: str = _constant(
        FULL,
        "all IPUs wait at every talk with the host; each IPU, or those of each replica, for itself",
        "PopART, SyncPattern: Full is the default; a group of IPUs is a replica here",
        words=SYNC_PATTERNS,
    )
    io_tiles: int = _constant(
        0,
        "tiles of each IPU, its first ones, that are set aside for transfers",
        "PopART, SessionOptions: numIOTiles is 0 unless it is set",
        0,
        MOST_TILES,
    )
    host_bytes_per_second: float = _constant(
        8e9,
        "bytes a second",
        "derived from tutorial 6: 40,044,000 bytes in 6,663,550.8 cycles of Poplar's model",
        1,
    )
    silicon_host_bytes_per_second: float = _constant(
        20.2e9,
        "bytes a second of a real machine, for what_if",
        "derived from tutorial 6: the same in 2,641,488.4 cycles",
        1,
    )
    streaming_bytes: int = _constant(
        112 * 10**9,
        "bytes of streaming memory an IPU",
        "assumed of every machine: up to 112 GB an IPU, told of machines of the second generation",
        0,
    )
    streaming_bytes_per_second: float = _constant(
        8e9,
        "bytes a second and IPU, to or from streaming memory",
        "assumed: the host link's rate; none is published",
        1,
    )
    host_packet_bytes: int = _constant(
        1024, "bytes a packet", "PopLibs, popops/HostSliceTensor.cpp; IPU1 study agrees", 1
    )
    link_bytes_per_cycle: float = _constant(
        61.2,
        "bytes a cycle and IPU, each way",
        "assumed: 6 links of 16 GB/s at 85 %, seen from 1.333 GHz (Util.cpp has the 85 %)",
        1e-9,
    )
    rail_bytes_per_cycle: float = _constant(
        30.6,
        "bytes a cycle, each way, to the next pair of IPUs",
        "assumed half of the links in a pair, as in Util.cpp",
        1e-9,
    )
    conv_units_fp32: int = _constant(
        16, "AMP units a tile", "derived: 62.5 TFLOP/s are 16 multiply-adds a cycle and tile", 1
    )
    conv_units_fp16: int = _constant(
        16,
        "AMP units a tile",
        "PopLibs tests, poplin/codelets/ConvPartial1x1Out.cpp; 250 TFLOP/s are 64 multiply-adds",
        1,
    )
    conv_units_fp16_sums_fp32: int = _constant(
        8,
        "AMP units a tile, of halves added up in single precision",
        "PopLibs, poplin/codelets/ConvPartial1x1Out.cpp: 8 for (half, float), 16 for (half, half)",
        1,
    )
    conv_unit_pipeline_depth: int = _constant(
        4, "stages", "PopLibs tools, single_conv_layer.cpp (2018)", 1
    )
    conv_unit_coeff_load_bytes_per_cycle: int = _constant(
        8,
        "bytes a cycle",
        "PopLibs, poplin/PerformanceEstimation.hpp: 16, halved outside interleaved memory",
        1,
    )

    @staticmethod
    def create_ipu_target(num_ipus: int = 1, version: str = "ipu2", **changes: Setting) -> Target:
        """Return a target of `num_ipus` IPUs, for compiling without a device.

        `changes` maps names of fields of the target to other values. Raises
        `InvalidMachineModelError` for an unknown version or field, or a value that the field does
        not accept.
        """
        return make_target(version, num_ipus=num_ipus, **changes)

    @property
    def num_tiles(self) -> int:
        """The number of tiles on all IPUs together."""
        return self.num_ipus * self.tiles_per_ipu

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the sets of tiles that each have their own clock: str[sets].

        Each IPU is a set. If there are I/O tiles, each IPU is two sets: its I/O tiles, followed by
        its other tiles.
        """
        templates = ("IPU {} I/O", "IPU {}") if self.io_tiles else ("IPU {}",)
        return tuple(name.format(ipu) for ipu in range(self.num_ipus) for name in templates)

    @property
    def num_sets(self) -> int:
        """The number of sets of tiles in `sets`."""
        return self.num_ipus * (1 + (self.io_tiles > 0))

    @property
    def set_starts(self) -> Array:
        """The number of the first tile of each set of tiles in `sets`: int64[sets]."""
        starts_in_ipu = np.array([0, self.io_tiles][: 1 + (self.io_tiles > 0)])
        starts_by_ipu: Array = (
            np.arange(self.num_ipus)[:, None] * self.tiles_per_ipu + starts_in_ipu
        )
        return starts_by_ipu.reshape(-1)

    def set_of(self, tiles: Array) -> Array:
        """Return int64[tiles]: for each tile, the index in `sets` of the set to which it belongs.

        Raises `PoplarTypeError` if `tiles` is neither an integer nor an array of integers.
        """
        if np.asarray(tiles).dtype.kind not in "iu":
            raise PoplarTypeError(f"""Target.set_of() was given {shown(tiles)} as tiles, which
                are not whole numbers.
                next:  give the number of a tile, or an array of these numbers.""")
        return np.asarray(np.searchsorted(self.set_starts, tiles, "right") - 1)

    @property
    def bytes_per_tile(self) -> int:
        """The memory of one tile in bytes (Poplar's `getBytesPerTile`)."""
        return self.memory_bytes_per_tile

    @property
    def bytes_per_ipu(self) -> int:
        """The memory of one IPU in bytes."""
        return self.tiles_per_ipu * self.memory_bytes_per_tile

    @property
    def total_memory(self) -> int:
        """The memory of all IPUs in bytes."""
        return self.num_tiles * self.memory_bytes_per_tile

    @property
    def clock_frequency(self) -> float:
        """The clock frequency of a tile in Hz; the property has libpva's name."""
        return self.tile_clock_frequency

    @property
    def type(self) -> str:
        """The kind of machine, always "IPU_MODEL"; the property has libpva's name."""
        return "IPU_MODEL"

    @property
    def ipu_link_topology(self) -> str:
        """The arrangement of the links between IPUs: "MESH" (a ladder of links) or "TORUS".

        It is "TORUS", a ladder with joined ends, only for all 64 IPUs of a Pod64 (Graphcore,
        datasheet of the IPU-POD128: a 2D torus).
        """
        return TORUS if (self.machine, self.num_ipus) == ("pod64", 64) else MESH

    @property
    def internal_sync_cycles(self) -> int:
        """The cycles of a sync inside an IPU, from the arrival of the last tile to the end."""
        return self.min_ipu_sync_delay + (
            self.auto_sync_delay if self.relative_sync_delay == "AUTO" else 0
        )

    @property
    def external_sync_cycles(self) -> int:
        """The extra cycles of a sync of all IPUs, compared with a sync inside each IPU."""
        return sync_of(self.num_ipus, self)

    @property
    def host_bytes_per_cycle(self) -> float:
        """The number of bytes that the host link transfers in one tile cycle."""
        return self.host_bytes_per_second / self.tile_clock_frequency

    @property
    def streaming_bytes_per_cycle(self) -> float:
        """The number of bytes that each IPU exchanges with streaming memory in one tile cycle."""
        return self.streaming_bytes_per_second / self.tile_clock_frequency

    @property
    def streaming_memory(self) -> int:
        """The streaming memory of all IPUs in bytes."""
        return self.num_ipus * self.streaming_bytes

    def get_type_size(self, dtype: builtins.type[DType]) -> int:
        """Return the size of one element of `dtype` in bytes."""
        return as_dtype(dtype, "get_type_size()").size

    def get_vector_width(self, dtype: builtins.type[DType]) -> int:
        """Return the number of elements of `dtype` in a word of the data path.

        A word of 64 bits contains 2 elements of FLOAT, or 4 of HALF.
        """
        # as_dtype does not accept QUARTER without a format, but all its formats have one byte.
        element_type = dtype if dtype is QUARTER else as_dtype(dtype, "get_vector_width()")
        return max(1, self.data_path_width // (8 * element_type.size))


def sync_of(ipus: int, target: Target) -> int:
    """Return the extra cycles of a sync of `ipus` neighbouring IPUs.

    These are the cycles that such a sync takes longer than a sync inside each IPU. They grow with
    the length of the ladder of links that joins the IPUs.
    """
    # The number of links along the ladder, not counting the first (PopLibs, Util.cpp).
    further_links = ipus // 2 // 2
    return target.global_sync_cycles + math.ceil(
        further_links * target.global_sync_seconds_per_hop * target.tile_clock_frequency
    )


# Maps each field that differs from ipu2 to its value and its source.
_IPU1: dict[str, tuple[Setting, str]] = {
    "ipu_version": ("ipu1", "Poplar docs, IPUModel constructor"),
    "tiles_per_ipu": (1216, "IPU1 study: 1,280 tiles, 64 of them spare"),
    "memory_bytes_per_tile": (262_144, "IPU1 study: 256 KiB"),
    "non_interleaved_bytes_per_tile": (131_072, "IPU1 study: 128 KiB"),
    "tile_clock_frequency": (
        1.6e9,
        "UoB-HPC/ipu-hpc-cookbook, timing-program-execution; boards run at 1.3e9",
    ),
    "exchange_rows": (19, "IPU1 study: 19 usable rows of four tiles in each column"),
    "auto_sync_delay": (
        148,
        "derived from LBM: 3,328 cycles of sync in 20 supersteps, less the waiting modelled here",
    ),
    "global_sync_cycles": (
        48,
        "derived from PopLibs Util.cpp: 15 ns each way between two IPUs at 1.6 GHz",
    ),
    "host_bytes_per_second": (8e9, "assumed equal to ipu2; no Mk1 figure is published"),
    "link_bytes_per_cycle": (
        36.5,
        "derived from PopLibs Util.cpp: 128 Gbit/s links at 85 %, inside one card",
    ),
    "rail_bytes_per_cycle": (
        18.3,
        "derived from PopLibs Util.cpp: two of the links, where a card has four",
    ),
    "conv_units_fp32": (8, "derived: 31.1 TFLOP/s are 8 multiply-adds a cycle and tile"),
    "conv_units_fp16": (
        8,
        "PopLibs tools, single_conv_layer.cpp (2018); 124.5 TFLOP/s are 32 multiply-adds",
    ),
}
_BOW: dict[str, tuple[Setting, str]] = {
    "ipu_version": ("bow", "Bow slides"),
    "tile_clock_frequency": (1.85e9, "graphcore-research/tessellate-ipu, notebook IPU Peak Flops"),
    "host_bytes_per_second": (8e9, "assumed equal to ipu2; no Bow figure is published"),
    "link_bytes_per_cycle": (44.2, "assumed: the links of ipu2 seen from a clock of 1.85 GHz"),
    "rail_bytes_per_cycle": (22.1, "assumed: the links of ipu2 seen from a clock of 1.85 GHz"),
}
_C600: dict[str, tuple[Setting, str]] = {
    "ipu_version": (
        "c600",
        "Graphcore, C600 datasheet: the Mk2 IPU with FP8 support on a PCIe card",
    ),
    "tile_clock_frequency": (1.5e9, "osmarks/ipu-stack, README: 1,472 tiles at 1.5 GHz"),
    "host_bytes_per_second": (8e9, "assumed equal to ipu2; no C600 figure is published"),
    "link_bytes_per_cycle": (54.3, "assumed: the links of ipu2 seen from a clock of 1.5 GHz"),
    "rail_bytes_per_cycle": (27.1, "assumed: the links of ipu2 seen from a clock of 1.5 GHz"),
    "conv_units_fp16_sums_fp32": (
        16,
        "PopLibs, poplin/codelets/ConvPartial1x1Out.cpp: 16 for (half, float) on IPU21, as here",
    ),
}
PRESETS: dict[str, dict[str, tuple[Setting, str]]] = {
    "ipu1": _IPU1,
    "ipu2": {},
    "bow": _BOW,
    "c600": _C600,
}


# The kinds of evidence for a figure, strongest first. The beginning of a source decides its kind.
GROUNDS = SILICON, GRAPHCORE, DATASHEET, COUNTED, GIVEN = (
    "silicon",
    "Graphcore's model or formulas",
    "a datasheet",
    "our counting",
    "figures given with the program",
)
_BEGIN = {
    SILICON: ("graphcore-research/tessellate-ipu", "derived from tutorial 6: the same in"),
    GRAPHCORE: (
        "Poplar docs",
        "PopART",
        "PopLibs",
        "Graphcore, Tile",
        "tutorial 6",
        "derived from tutorial 6",
        "derived from PopLibs",
        "derived from LBM",
        "IPU1 study",
        "osmarks/ipu-stack",
        "UoB-HPC",
    ),
    DATASHEET: ("Bow slides", "Graphcore, C600", "Graphcore, datasheets", "simehaa", "derived: "),
    COUNTED: ("assumed", "our choice"),
}


def ground(target: Target, name: str) -> str:
    """Return the kind of evidence for field `name` of a target, as an item of `GROUNDS`.

    If the value differs from the preset, the kind is `GIVEN`. Otherwise, the kind depends on the
    source of the field.
    """
    version = target.ipu_version
    if getattr(target, name) != getattr(make_target(version), name):
        return GIVEN
    return next(
        kind for kind, beginnings in _BEGIN.items() if source(version, name).startswith(beginnings)
    )


def source(version: str, name: str) -> str:
    """Return the source of field `name` of the preset `version`.

    Raises `InvalidMachineModelError` if there is no such version or field.
    """
    _preset(version)
    if name not in Target.__dataclass_fields__:
        raise unknown_field(name)
    if name in PRESETS[version]:
        return PRESETS[version][name][1]
    return str(Target.__dataclass_fields__[name].metadata["source"])


def make_target(version: str = "ipu2", **changes: Setting) -> Target:
    """Return the preset `version` with other values for the fields in `changes`.

    If `changes` has `machine` but not `num_ipus`, the target has all IPUs of the machine. Raises
    `InvalidMachineModelError` for an unknown version or field, or for a value that a field does not
    accept.
    """
    base = {name: value for name, (value, _) in _preset(version).items()}
    if isinstance(name := changes.get("machine"), str) and name in MACHINES:
        changes = {"num_ipus": MACHINES[name][1], **changes}
    return changed(Target(**base), **changes)


def changed(target: Target, **changes: Setting) -> Target:
    """Return a copy of `target` with other values for the fields in `changes`.

    Raises `InvalidMachineModelError` for an unknown field, or for a value that a field, or the
    machine, does not accept.
    """
    field_by_name = {field.name: field for field in fields(Target) if field.name != "ipu_version"}
    for name, value in changes.items():
        if name == "ipu_version":
            raise InvalidMachineModelError(f"""The version of a machine cannot be changed.
                next:  make another model: IPUModel({shown(value)}).""")
        if name not in field_by_name:
            raise unknown_field(name)
        changes[name] = _validated(field_by_name[name], value)
    new_target = replace(target, **changes)
    if new_target.num_tiles > MOST_TILES:
        raise InvalidMachineModelError(f"""A model of {new_target.num_ipus:,} IPUs with
            {new_target.tiles_per_ipu:,} tiles each is too large: it has {new_target.num_tiles:,}
            tiles.
            next:  give a model at most {MOST_TILES:,} tiles.""")
    most_io_tiles = new_target.tiles_per_ipu - 1
    if new_target.io_tiles > most_io_tiles:
        raise InvalidMachineModelError(f"""A machine with {new_target.io_tiles:,} I/O tiles
            on each IPU has no tiles left to compute: tiles_per_ipu is
            {new_target.tiles_per_ipu:,}.
            next:  set io_tiles to at most {most_io_tiles:,}, or give each IPU more tiles.""")
    if new_target.machine:
        title, num_ipus, versions = MACHINES[new_target.machine]
        if new_target.ipu_version not in versions:
            raise InvalidMachineModelError(f"""The {title} has no IPUs of
                the version {new_target.ipu_version!r}.
                next:  use the version {" or ".join(map(repr, versions))}.""")
        if new_target.num_ipus > num_ipus or new_target.num_ipus & new_target.num_ipus - 1:
            powers_of_two = [2**i for i in range(num_ipus.bit_length())]
            raise InvalidMachineModelError(f"""A program cannot have
                {new_target.num_ipus} IPUs of the {title}: the number must be a power of two and at
                most {num_ipus}, so that the IPUs form rings (docs.graphcore.ai, Memory and
                Performance Optimisation, 7).
                next:  set num_ipus to {", ".join(map(str, powers_of_two[:-1]))} or
                {powers_of_two[-1]}, or leave out the machine, as in
                IPUModel(num_ipus={new_target.num_ipus}).""")
    return new_target


def _preset(version: object) -> dict[str, tuple[Setting, str]]:
    if not isinstance(version, str) or version not in PRESETS:
        raise InvalidMachineModelError(f"""There is no machine {shown(version)}.
            next:  choose one of {", ".join(map(repr, PRESETS))}.""")
    return PRESETS[version]


def unknown_field(name: str) -> UnknownMachineFieldError:
    """Return the error for an unknown field `name` of a machine.

    The error suggests a field whose name begins with `name`, such as tiles_per_ipu for tiles, or
    else a field with a similar name.
    """
    field_names = [known.name for known in fields(Target)]
    longer_names = [field for field in field_names if field.startswith(f"{name}_")]
    suggestion = did_you_mean(name, longer_names, 0) or did_you_mean(name, field_names)
    return UnknownMachineFieldError(f"""A machine has no field {name!r}.
        next:  {suggestion}Its fields are {", ".join(field_names)}.""")


def _validated(field: Field[Setting], value: Setting) -> Setting:
    """Return `value` converted to the type of `field`.

    Raises `InvalidMachineModelError` if the field does not accept it.
    """
    name = field.name
    type_name = field.type
    metadata = field.metadata
    if type_name == "str":
        if not isinstance(value, str) or value not in metadata["words"]:
            raise InvalidMachineModelError(
                f"A model cannot have {name} = {shown(value)}.",
                next_step=f"use {' or '.join(map(repr, filter(None, metadata['words'])))}.",
            )
        return value
    number_types = (
        (int, np.integer) if type_name == "int" else (int, float, np.integer, np.floating)
    )
    minimum, maximum = metadata["least"], metadata["most"]
    if (
        not isinstance(value, number_types)
        or isinstance(value, bool)
        or not minimum <= value <= maximum
    ):
        raise InvalidMachineModelError(f"""A model cannot have {name} = {shown(value)}.
            next:  give {"a whole number" if type_name == "int" else "a number"} from {minimum:g} to
            {maximum:,.0f} ({metadata["unit"]}).""")
    return int(value) if type_name == "int" else float(value)
