"""Recordings of tensors: their values before the first step, and their changes in each step.

`Engine.record` returns a `Recording`. The recording grows with each change while the engine runs,
until it reaches its limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ipu_teach.compile import Compiled
from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.errors import InvalidOptionError, PoplarIndexError, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.tensor import Tensor
from ipu_teach.report.report import Report
from ipu_teach.types import Array, from_quarter

MOST_ELEMENTS = 65_536  # The maximum number of elements in all recorded tensors together.
MOST_ENTRIES = 1_000_000  # The maximum number of steps plus changed elements in a recording.
# In `Recording.steps`, this number means that the host changed recorded elements before a run.
HOST = -1

# A function that takes a tensor and returns two arrays: the values of its elements, and whether
# each element has been written (bool).
Look = Callable[[Tensor], tuple[Array, Array]]


class Track:
    """The recorded values of one tensor.

    The index of an element is its index in the flattened tensor.

    - `first` has the tensor's elements before the first step. `first_written` (bool) says which of
      these elements had been written by then.
    - `changes` has a tuple for each step that changed some elements: the index of the step in the
      recording, the indices of the n changed elements (int32[n]), the new values of these elements,
      and whether they have been written (bool[n]).
    - `address` has the byte address of each element in the graph's memory.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.address: Array = tensor.positions().reshape(-1) * tensor.dtype.size
        self._bits = np.dtype(f"u{tensor.dtype.size}")

    def begin(self, look: Look) -> None:
        """Discard all recorded changes, and store the current values as the first values."""
        values, written = look(self.tensor)
        self.first = values.reshape(-1).copy()
        self.first_written = written.reshape(-1).copy()
        self._now = self.first.view(self._bits)
        self._written = self.first_written
        self.changes: list[tuple[int, Array, Array, Array]] = []

    def note(self, place: int, look: Look) -> int:
        """Store the elements that have changed since the last call, and return their number.

        `place` is the index of the current step in the recording. `look` returns the values of a
        tensor, and which of its elements have been written.
        """
        values, written = (array.reshape(-1) for array in look(self.tensor))
        current_bits = np.ascontiguousarray(values).view(self._bits)
        changed_elements = np.flatnonzero((current_bits != self._now) | (written != self._written))
        if len(changed_elements):
            self.changes.append(
                (
                    place,
                    changed_elements.astype(np.int32),
                    values[changed_elements],
                    written[changed_elements],
                )
            )
            self._now = current_bits.copy()
            self._written = written.copy()
        return len(changed_elements)

    def readable(self, values: Array) -> Array:
        """Return values of the tensor as numbers: QUARTER is decoded, other types are unchanged."""
        if self.tensor.has_metadata():
            return from_quarter(values, self.tensor.get_metadata())
        return values


def _checked(graph: FrozenGraph, tensors: Sequence[object], max_steps: object) -> list[Tensor]:
    """Return the tensors to record, without duplicates.

    :raises InvalidOptionError: if a tensor cannot be recorded, if all tensors have too many
        elements, or if `max_steps` is out of range.
    """
    if not is_whole(max_steps) or not 1 <= max_steps <= MOST_ENTRIES:
        raise InvalidOptionError(f"""record() was given most={shown(max_steps)}, which is not valid.
            next:  give a whole number from 1 to {MOST_ENTRIES:,}: the number of steps and
            of changed elements to keep.""")
    checked: list[Tensor] = []
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise InvalidOptionError(f"""record() was given {shown(tensor)}, which is not a tensor.
                next:  give it tensors of the graph, one after the other: engine.record(a, b).""")
        if not tensor.num_elements:
            raise InvalidOptionError(f"""record() was given {tensor!r}, which has no elements.
                next:  record a tensor that has elements.""")
        for variable in {region.var for region in tensor.get_var_regions()}:
            variable_of_graph = (
                graph.variable_at(variable.start) if variable.start < graph.memory_bytes else None
            )
            if variable_of_graph is not variable:
                raise InvalidOptionError(f"""record() was given {tensor!r}, which is not in this
                    engine's graph.
                    next:  give a tensor of the engine's own graph, made before the engine.""")
            if variable.constant:
                raise InvalidOptionError(f"""record() was given {tensor!r}, but {variable.name!r} is
                    a constant, which never changes.
                    next:  record a variable that is computed from the constant.""")
        if tensor not in checked:
            checked.append(tensor)
    if not checked:
        raise InvalidOptionError("""record() was given nothing to record.
            next:  name the tensors whose values you want to see: engine.record(a, b).""")
    num_elements = sum(tensor.num_elements for tensor in checked)
    if num_elements > MOST_ELEMENTS:
        raise InvalidOptionError(f"""record() was given {counted(num_elements, "element")}, which is
            too many to compare after each step.
            next:  record at most {MOST_ELEMENTS:,}: a slice, as in engine.record(a[:100]).""")
    return checked


class Recording:
    """The values of the recorded tensors, step by step.

    - `report` is the report of the last run, or None before the first run.
    - `steps` has the numbers of the compiled steps that were recorded, in order. An entry `HOST`
      before the steps of a run means that the host has changed recorded elements before this run.
    - `first` is the number of steps that the engine had run before the recording began.
    - `missed` is the number of steps that ran after the recording was full.

    If an error or Ctrl-C stops a run, the run is recorded up to that point.
    """

    def __init__(self, compiled: Compiled, tensors: Sequence[Tensor], most: int) -> None:
        self.compiled = compiled
        self.most = most
        self.tracks = tuple(Track(tensor) for tensor in _checked(compiled.graph, tensors, most))
        self.report: Report | None = None
        self._look: Look | None = None
        self.first = 0
        self.steps = list[int]()
        self.missed = 0
        self._entries = 0

    def begin(self, first: int, look: Look) -> None:
        """Discard all recorded values, and begin a new recording.

        `first` is the number of steps that the machine has run so far. `look` reads the values of a
        tensor from the machine's memory.
        """
        self.first = first
        self.steps = []
        self.missed = 0
        self._entries = 0
        self._look = look
        self.report = None
        for track in self.tracks:
            track.begin(look)

    def note(self, step: int) -> None:
        """Record the changes made by compiled step `step`, which has just run, or by a host write.

        For a write of the host, `step` is `HOST`.
        """
        assert self._look is not None
        if self.missed or self._entries >= self.most:
            self.missed += step != HOST
            return
        num_changed = sum(track.note(len(self.steps), self._look) for track in self.tracks)
        if num_changed or step != HOST:
            self.steps.append(step)
            self._entries += 1 + num_changed

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The recorded tensors, in the order of the arguments of `record`."""
        return tuple(track.tensor for track in self.tracks)

    def values(self, tensor: Tensor, step: int) -> Array:
        """Return the elements of a recorded tensor after the step with index `step` in the report.

        The array has the tensor's shape and dtype. An element that has not been written is NaN, the
        smallest integer of its dtype, or True, depending on the dtype.

        :raises InvalidOptionError: if the tensor is not recorded.
        :raises PoplarIndexError: if the step is not recorded.
        """
        track = self.track(tensor, "values()")
        device_steps = np.flatnonzero(np.array(self.steps, np.int64) != HOST)
        if not is_whole(step) or not self.first <= step < self.first + len(device_steps):
            raise PoplarIndexError(f"""values() was given step {shown(step)}, which is not recorded.
                where: the recording has {counted(len(device_steps), "step")}; the first is step
                {self.first}
                next:  give the number of a recorded step.""")
        last_place = int(device_steps[step - self.first])
        elements_after = track.first.copy()
        for place, elements, new_values, _ in track.changes:
            if place <= last_place:
                elements_after[elements] = new_values
        shaped: Array = elements_after.reshape(tensor.shape)
        return shaped

    def track(self, tensor: object, call: str) -> Track:
        """Return the `Track` of a recorded tensor. `call` is the name of the call in errors.

        :raises InvalidOptionError: if the tensor is not recorded.
        """
        for track in self.tracks:
            if isinstance(tensor, Tensor) and tensor == track.tensor:
                return track
        raise InvalidOptionError(f"""{call} was given {shown(tensor)}, which is not recorded.
            where: recorded {"is" if len(self.tracks) == 1 else "are"}
            {", ".join(map(self.name, self.tracks))}
            next:  give one of these, or call engine.record(tensor) before engine.run().""")

    @staticmethod
    def name(track: Track) -> str:
        """Return the name of the tensor that `track` records."""
        return track.tensor.graph.describe(track.tensor)

    def __repr__(self) -> str:
        missed = f"; {counted(self.missed, 'step')} after it was full" if self.missed else ""
        names = ", ".join(map(self.name, self.tracks))
        steps = counted(len(self.steps), "step")
        changes = counted(self._entries - len(self.steps), "change")
        return f"Recording of {names}: {steps}, {changes}{missed}"
