"""Engine options under Poplar's names, or under the same names in snake case.

For example, `Engine(graph, program, options={"debug.allowOutOfMemory": True})`. Values are bool,
int or str; as in Poplar, "true", "false" and digits are accepted too. The environment variable
IPU_TEACH_ENGINE_OPTIONS may contain a JSON object of options. If the program sets the same option,
the program's value counts.

Some options have no effect, because the simulated machine always or never does what they ask for.
The engine accepts them, and `engine.options` shows them. An option that would change a result but
is not implemented raises an error when it is switched on.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import TypeAlias

from ipu_teach.errors import InvalidOptionError, NotOfferedError, did_you_mean, shown
from ipu_teach.graph.registers import DIV0, ESR, INV, NANOO, OFLO, STOP_ON_NANOO
from ipu_teach.report.table import expression
from ipu_teach.target import PRICES

ENVIRONMENT = "IPU_TEACH_ENGINE_OPTIONS"
# The number of I/O tiles, as an option of PopART and as an environment variable of Graphcore's gcl.
IO_TILES, GCL_IO_TILES = "numIOTiles", "GCL_NUM_IO_TILES"
# An error about an unknown option suggests another one if their names are at least this similar.
# The limit is high, because many names begin with "debug.".
CLOSE = 0.8
Value: TypeAlias = bool | int | str | None
Options: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True)
class _Option:
    """An engine option.

    - `kind` is bool, int, str, or a tuple of the permitted words.
    - `instead` is the advice in the error for an option that is not implemented. It is "" for any
      other option.
    - `control` contains the bits of the register FP_CTL that are set on every tile if the option is
      switched on (see `fp.traps`).
    """

    kind: type[bool] | type[int] | type[str] | tuple[str, ...]
    default: Value = None
    instead: str = ""
    control: int = 0


_REPORT = "use engine.report, which has the same figures."
_WORKER_STACK = "set the size in the machine: IPUModel(worker_stack_bytes=…)."
_SUPERVISOR_STACK = "set the size in the machine: IPUModel(supervisor_stack_bytes=…)."
_LEVELS = ("Vertex", "Tile", "Ipu", "Device", "Off")

_OPTIONS: dict[str, _Option] = {
    "autoReport.all": _Option(bool, False, _REPORT),
    "autoReport.directory": _Option(str, "."),
    "autoReport.outputGraphProfile": _Option(bool, False, _REPORT),
    "autoReport.outputExecutionProfile": _Option(bool, False, _REPORT),
    "autoReport.outputDebugInfo": _Option(bool, False, _REPORT),
    "autoReport.outputSerializedGraph": _Option(
        bool, False, "call compile_graph(graph, program).save(path) to write the graph."
    ),
    "autoReport.outputLoweredVars": _Option(bool, False, _REPORT),
    "autoReport.executionProfileProgramRunCount": _Option(int, 2),
    "autoReport.streamAtEachRun": _Option(bool, True),
    # An option of the kit, not of Poplar. By default, the target determines the value.
    "codelet_prices": _Option(PRICES),
    "debug.allowOutOfMemory": _Option(bool, False),
    "debug.branchRecordFlush": _Option(bool, False),
    "debug.branchRecordTile": _Option(int),
    "debug.checkUninitialised": _Option(bool),
    "debug.computeInstrumentationLevel": _Option(_LEVELS, "Vertex"),
    "debug.floatPointOpException": _Option(bool, False, control=INV | DIV0 | OFLO),
    "debug.instrument": _Option(bool, True),
    "debug.instrumentCompute": _Option(bool, True),
    "debug.instrumentControlFlow": _Option(bool, True),
    "debug.instrumentExternalExchange": _Option(bool, False),
    "debug.loweredVarDumpFile": _Option(str, ""),
    "debug.nanOverflowException": _Option(bool, False, control=NANOO | STOP_ON_NANOO),
    "debug.nanOverflowMode": _Option(bool, False, control=NANOO),
    "debug.outputAllSymbols": _Option(bool, False),
    "debug.retainDebugInformation": _Option(bool, True),
    "debug.runtimeVerify": _Option(bool),
    "debug.supervisorStackSizeInBytes": _Option(int, None, _SUPERVISOR_STACK),
    "debug.trace": _Option(bool, False, "call engine.report.steps() for the steps that ran."),
    "debug.traceFile": _Option(str, ""),
    "debug.verify": _Option(bool),
    "debug.workerStackSizeInBytes": _Option(int, None, _WORKER_STACK),
    "mergeCopies": _Option(bool, True),
    IO_TILES: _Option(int, 0, "use IPUModel(io_tiles=…), which sets the I/O tiles of each IPU."),
    "exchange.enablePrefetch": _Option(bool, True),
    "exchange.multicastPolicy": _Option(str, "balanced"),
    "exchange.streamBufferOverlap": _Option(
        ("any", "hostRearrangeOnly", "none"), "hostRearrangeOnly"
    ),
    "prng.enable": _Option(bool, True),
    "prng.enableStochasticRounding": _Option(bool, False, control=ESR),
    "prng.seed": _Option(int, 0),
    "profiler.blocks.bufferSize": _Option(int),
    "profiler.blocks.filter": _Option(str, ".*"),
    "profiler.blocks.implicitFlush": _Option(bool, True),
    "profiler.blocks.tile": _Option(int, 0),
    "profiler.format": _Option(str, "v4"),
    "profiler.includeCycleEstimates": _Option(bool, True),
    "profiler.programs.filter": _Option(str, ""),
    "streamCallbacks.maxLookahead": _Option(str, "unlimited"),
    "streamCallbacks.multiThreadMode": _Option(str, "single"),
    "streamCallbacks.numWorkerThreads": _Option(str, "auto"),
    "target.deterministicWorkers": _Option(str, "true"),
    "target.extendedMemory": _Option(
        bool, False, "keep the program in tile memory, and stream the data that does not fit."
    ),
    "target.gatewayMode": _Option(bool, True),
    "target.gatewayWriteCombining": _Option(bool, False),
    "target.hostSyncTimeout": _Option(int, 300),
    "target.saveArchive": _Option(str, ""),
    "target.supervisorStackSizeInBytes": _Option(int, None, _SUPERVISOR_STACK),
    "target.syncReplicasIndependently": _Option(
        bool, False, 'use IPUModel(sync_pattern="REPLICA_AND_LADDER"): each replica syncs alone.'
    ),
    "target.workerStackSizeInBytes": _Option(int, None, _WORKER_STACK),
}


def control_bits(options: Options) -> int:
    """Return the bits of the register FP_CTL that the options of an engine set."""
    return reduce(or_, (option.control for name, option in _OPTIONS.items() if options[name]), 0)


def _twin(name: str) -> str:
    """Return the name of an option in snake case, such as "debug.runtime_verify"."""
    return re.sub(r"(?<=[a-z])([A-Z])", lambda match: "_" + match[1].lower(), name)


_TWINS = {_twin(name): name for name in _OPTIONS}


def effective(options: Options | None, engine_options: Options | None = None) -> Options:
    """Return the values of all engine options, with Poplar's option names as keys.

    There are four sources: the defaults, the environment variable, `engine_options` and `options`.
    A later source takes precedence over an earlier one.
    """
    defaults = {name: option.default for name, option in _OPTIONS.items()}
    return MappingProxyType(
        {**defaults, **from_environment(), **(engine_options or {}), **parsed(options)}
    )


def parsed(options: Options | None, where: str = "") -> dict[str, Value]:
    """Return `options` with Poplar's names and with values of the right type.

    `where` is the source of the options, which error messages quote.

    :raises InvalidOptionError: if an option is unknown or a value is wrong.
    :raises NotOfferedError: if an option is not implemented.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InvalidOptionError(f"""The engine's options are {shown(options)}, which is not a dict.
            where: {where}
            next:  give a dict: options={{"debug.allowOutOfMemory": True}}.""")
    values: dict[str, Value] = {}
    for key, value in options.items():
        name = _TWINS.get(key, key) if isinstance(key, str) else None
        if name in values:
            raise InvalidOptionError(
                f"The option {name!r} was given twice.",
                where=where,
                next_step="give the option once: both spellings mean the same option.",
            )
        if (
            name is not None
            and re.fullmatch(r"opt\.\w+", name)
            and isinstance(value, (bool, int, str))
        ):
            values[name] = value
        elif name not in _OPTIONS:
            in_camel_case = isinstance(key, str) and key != key.lower()
            candidates = _OPTIONS if in_camel_case else _TWINS
            raise InvalidOptionError(f"""There is no engine option {shown(key)}.
                where: {where}
                next:  {did_you_mean(key, candidates, CLOSE)}give an option of Poplar's Engine, such
                as debug.allowOutOfMemory.""")
        else:
            values[name] = _value(name, value, where)
    return values


def from_environment() -> dict[str, Value]:
    """Return the options in the environment variable IPU_TEACH_ENGINE_OPTIONS.

    :raises InvalidOptionError: if its text is not a JSON object of options. The error names the
        variable.
    :raises NotOfferedError: if GCL_NUM_IO_TILES is set to anything but 0. This variable of
        Graphcore's
        gcl stands for an option that is not implemented.
    """
    if GCL_IO_TILES in os.environ:
        parsed({IO_TILES: os.environ[GCL_IO_TILES]}, f"environment variable {GCL_IO_TILES}")
    text = os.environ.get(ENVIRONMENT, "")
    if not text.strip():
        return {}
    where = f"environment variable {ENVIRONMENT}"
    try:
        options = json.loads(text)
    except (ValueError, RecursionError):
        options = None
    if not isinstance(options, dict):
        raise InvalidOptionError(f"""{ENVIRONMENT} contains {shown(text)}, which is not a JSON
            object.
            where: {where}
            next:  write {ENVIRONMENT}='{{"debug.allowOutOfMemory": true}}', or unset it.""")
    return parsed(options, where)


def _value(name: str, original: Value, where: str) -> Value:
    """Return `original` as a value of the option `name`.

    `where` is the source of the value, which error messages quote.

    :raises InvalidOptionError: if it is not a valid value.
    :raises NotOfferedError: if the option is not implemented.
    """
    option = _OPTIONS[name]
    value = _converted(option.kind, original)
    if value is None:
        raise InvalidOptionError(
            f"The engine option {name!r} was given {shown(original)}.",
            where=where,
            next_step=f"give {_accepted(option.kind)}.",
        )
    if name.endswith(".filter"):
        expression(value, f"The engine option {name!r}")
    if option.instead and value != option.default:
        raise NotOfferedError(
            f"{name} = {shown(value)} is not offered by this kit.",
            where=where,
            next_step=option.instead,
        )
    return value


def _converted(kind: type | tuple[str, ...], original: Value) -> Value:
    """Return `original` as a value of an option of type `kind`, or None if it is not valid.

    `kind` is bool, int, str, or a tuple of the permitted words. A word is valid in upper and lower
    case.
    """
    if isinstance(kind, tuple):
        return next(
            (
                word
                for word in kind
                if isinstance(original, str) and original.lower() == word.lower()
            ),
            None,
        )
    if kind is bool:
        return (
            original
            if isinstance(original, bool)
            else {"true": True, "false": False}.get(str(original))
        )
    if kind is int:
        if isinstance(original, str) and re.fullmatch(r"[0-9]{1,18}", original):
            return int(original)
        is_valid = (
            isinstance(original, int) and not isinstance(original, bool) and 0 <= original < 2**63
        )
        return original if is_valid else None
    return original if isinstance(original, str) else None


def _accepted(kind: type | tuple[str, ...]) -> str:
    """Return the values that an option of type `kind` accepts, as text such as "True or False".

    `kind` is bool, int, str, or a tuple of the permitted words.
    """
    if isinstance(kind, tuple):
        return "one of " + ", ".join(map(repr, kind))
    return {bool: "True or False", int: "a whole number, 0 or more", str: "text"}[kind]
