"""A compiled program as an object that any number of engines can run and that a file can store.

    executable = compile_graph(graph, program)
    executable.save("adder.ipu")
    engine = Engine(Executable.load("adder.ipu", codelets=[Add]))

The file contains the graph and the programs as data, and no Python code. When the file is loaded,
the codelets are found by name. Their fields and code must be the same as when the file was saved.
The loaded graph is then compiled again, which repeats every check.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import BinaryIO

from ipu_teach._support.progress import working
from ipu_teach.compile import Compiled, StepProgress, compile_programs
from ipu_teach.cost import CostModel
from ipu_teach.engine.host_memory import check_costs
from ipu_teach.errors import (
    ControlProgramError,
    ExecutableLoadError,
    GraphMemoryAllocationError,
    InvalidOptionError,
    IPUTeachError,
    NotOfferedError,
    shown,
)
from ipu_teach.graph import Graph, Vertex
from ipu_teach.host.options import Options, Value, effective, parsed
from ipu_teach.program import Program
from ipu_teach.report import CompiledProfile, Report, StepLog, tracepoint
from ipu_teach.report.host_times import ENGINE
from ipu_teach.report.settings import InstrumentationSettings
from ipu_teach.saving.archive import read_whole, write_whole
from ipu_teach.saving.reader import rebuild
from ipu_teach.saving.writer import EXECUTABLE, written
from ipu_teach.target import Target

CHECKS = ("races", "uninitialised", "estimates")


class Executable:
    """A graph and its programs, checked and ready to run, with their modelled costs.

    Create it with `compile_graph` or `Executable.load`.
    """

    def __init__(
        self,
        compiled: Compiled,
        cost: CostModel,
        checks: Mapping[str, bool],
        options: Mapping[str, Value],
    ) -> None:
        self.compiled = compiled
        self.cost = cost
        self.checks = dict(checks)
        self.given_options = dict(options)
        self.out_of_memory: GraphMemoryAllocationError | None = None

    @cached_property
    def profile(self) -> CompiledProfile:
        """The compiled program in the form that reports use, computed on demand."""
        return CompiledProfile(self.cost)

    @property
    def target(self) -> Target:
        """The machine for which the program was compiled."""
        return self.compiled.graph.target

    @property
    def num_programs(self) -> int:
        """The number of programs that `Engine.run` can run."""
        return len(self.compiled.programs)

    @property
    def report(self) -> Report:
        """The report of the compiled program, without any runs."""
        return Report(
            self.profile,
            StepLog().snapshot(),
            _settings=InstrumentationSettings.of(effective(self.given_options)),
        )

    # Methods that save and load executables

    def serialize(self) -> bytes:
        """Return the executable as bytes, in the same format as the files that `save` writes.

        :raises NotOfferedError: if the executable contains an object that cannot be saved.
        """
        return written(self.compiled, self.checks, self.given_options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the executable to a file.

        An existing file is replaced only when the new file is complete.
        """
        write_whole(path, self.serialize(), "save()", EXECUTABLE.noun)

    @classmethod
    def deserialize(
        cls, data: bytes | BinaryIO, codelets: Iterable[type[Vertex]] = ()
    ) -> Executable:
        """Return the executable in `data`, which is bytes or a binary file open for reading.

        The executable is compiled again. `codelets` and the errors are those of `load`.
        """
        read = getattr(data, "read", None)
        content = read() if callable(read) else data
        if not isinstance(content, (bytes, bytearray, memoryview)):
            raise ExecutableLoadError(f"""deserialize() was given {shown(data)}, which is not
                bytes or a binary file.
                next:  give the bytes that serialize() returned.""")
        graph, programs, checks, options = rebuild(bytes(content), codelets, parsed)
        try:
            return compile_graph(graph, programs, options, strict=checks)
        except (InvalidOptionError, NotOfferedError):
            raise
        except Exception as error:  # A file that was not written by `save` may contain any graph.
            problem = (
                error.tried
                if isinstance(error, IPUTeachError)
                else f"{type(error).__name__}: {shown(str(error))}"
            )
            raise ExecutableLoadError(f"""The executable contains a program that does not compile:
                {problem}
                where: {getattr(error, "where", "")}
                next:  save it again, from a graph that compiles.""") from error

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], codelets: Iterable[type[Vertex]] = ()
    ) -> Executable:
        """Read a file that `save` wrote, and compile it again.

        The vertex classes are found by name among `codelets` and among all classes in this process.
        They must have the fields and the code that they had when the file was written.

        :raises ExecutableLoadError: if the file is not an executable, or a codelet is missing or
            has changed.
        """
        return read_whole(path, "load()", EXECUTABLE, lambda data: cls.deserialize(data, codelets))

    def __repr__(self) -> str:
        count = self.num_programs
        memory = ", out of memory" if self.out_of_memory is not None else ""
        return (
            f"Executable({count} program{'s' if count > 1 else ''}, {self.target.num_tiles:,} "
            f"tiles{memory})"
        )


def compile_graph(
    graph: Graph,
    programs: Program | Sequence[Program],
    options: Mapping[str, Value] | None = None,
    progress: StepProgress | None = None,
    *,
    strict: bool | Mapping[str, bool] = True,
    merge_copies: bool | None = None,
) -> Executable:
    """Check and trace a graph and its programs, and model their cost. No device is needed.

    `options`, `strict` and `merge_copies` are as for `Engine`. `progress(step, total)` is called
    during the work, and at the end with step = total.

    :raises GraphMemoryAllocationError: if a tile or the streaming memory is too small.
        `error.report` is the report, or None if the fields of a single vertex exceed the memory of
        a tile. With the option `debug.allowOutOfMemory`, the executable is returned instead, and
        only loading it fails. The error is also raised, without a report, if the program needs more
        memory than this computer has. If the program needs more than is free, there is only a
        `HostMemoryWarning`.

    The errors of a wrong graph or program are raised too.
    """
    if not isinstance(graph, Graph):
        raise ControlProgramError(f"""Engine was given {shown(graph)} as its graph, which
            is not a Graph.
            next:  write Engine(graph, program), in this order.""")
    graph = graph.get_top_level_graph()
    listed = _list_of(programs)
    if progress is not None and not callable(progress):
        raise InvalidOptionError(f"""compile_graph() was given {shown(progress)} as its progress,
            which is not a function.
            next:  give a function of (step, total).""")
    given_options = {
        **parsed(options),
        **({} if merge_copies is None else parsed({"mergeCopies": merge_copies})),
    }
    chosen = effective(given_options)
    checks = checks_of(strict, chosen)
    spill = bool(chosen["debug.allowOutOfMemory"])
    with working("compile", "part") as work:
        compiled = _compiled(
            graph,
            listed,
            check_races=checks["races"],
            options=chosen,
            progress=progress or work.note,
        )
        work.words = "memory and cycles"
        check_costs(compiled)
        cost = CostModel(compiled).priced(chosen["codelet_prices"])
        executable = Executable(compiled, cost, checks, given_options)
        _check_memory(executable, spill)
        if checks["estimates"]:
            cost.check_reproducible()
            cost.check_estimates()
        if chosen["target.saveArchive"]:
            executable.save(str(chosen["target.saveArchive"]))
        return executable


def _compiled(
    graph: Graph,
    programs: Sequence[Program],
    check_races: bool,
    options: Options,
    progress: StepProgress,
) -> Compiled:
    """Return the compiled programs.

    :raises ControlProgramError: if they are nested too deeply.

    The errors of `compile_programs` are raised too.
    """
    try:
        with tracepoint("compile", ENGINE):
            return compile_programs(
                graph,
                programs,
                check_races=check_races,
                check_fit=not options["debug.allowOutOfMemory"],
                merge_copies=bool(options["mergeCopies"]),
                progress=progress,
            )
    except RecursionError:
        raise ControlProgramError("""The programs are nested too deeply to compile.
            next:  put programs side by side in one Sequence.""") from None


def _list_of(programs: Program | Sequence[Program]) -> Sequence[Program]:
    """Return the programs as a sequence.

    :raises ControlProgramError: if they are neither one program nor a list of at least one.
    """
    listed = [programs] if isinstance(programs, Program) else programs
    if (
        not isinstance(listed, (list, tuple))
        or not listed
        or not all(isinstance(p, Program) for p in listed)
    ):
        raise ControlProgramError(f"""Engine was given {shown(programs)} as its programs, which
            is neither a program nor a list of at least one.
            next:  give one program, or a list of at least one: Engine(graph, [first, second]).""")
    return listed


def _check_memory(executable: Executable, spill: bool) -> None:
    """Raise `GraphMemoryAllocationError` with the report if a tile has too little memory.

    With `spill`, store the error in the executable instead of raising it.
    """
    try:
        executable.cost.check_memory()
    except GraphMemoryAllocationError as error:
        error.report = executable.report
        if not spill:
            raise
        executable.out_of_memory = error


def checks_of(strict: bool | Mapping[str, bool], options: Options) -> dict[str, bool]:
    """Return a dict that maps the name of each check to whether the check is on.

    If `strict` is a dict, the checks that it does not name are on.

    `debug.verify` and `debug.checkUninitialised` take precedence over `strict`.

    :raises InvalidOptionError: if `strict` is neither a bool nor a dict of known checks.
    """
    if isinstance(strict, bool):
        checks = dict.fromkeys(CHECKS, strict)
    elif isinstance(strict, Mapping) and all(
        n in CHECKS and isinstance(v, bool) for n, v in strict.items()
    ):
        checks = {**dict.fromkeys(CHECKS, True), **strict}
    else:
        raise InvalidOptionError(f"""strict was given {shown(strict)}, which is neither a bool
            nor a dict of known checks.
            next:  give True, False, or a dict such as {{"races": False}}; the checks are
            {", ".join(CHECKS)}.""")
    if options["debug.verify"]:
        checks = dict.fromkeys(CHECKS, True)
    if options["debug.checkUninitialised"] is not None:
        checks["uninitialised"] = bool(options["debug.checkUninitialised"])
    return checks
