# %% given
from ipu_teach import FLOAT, HALF
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Sequence


# %% 06.1: sorted by all that ever lies there
# like: the total for the peak
def peak(report):
    tiles = range(len(report.compilation.tiles))
    by_total = sorted(tiles, key=lambda t: sum(report.memory.by_variable(t).values()), reverse=True)
    bytes_ = [step.bytes for step in report.compilation.liveness_program_steps]
    fullest = bytes_.index(max(bytes_))
    rows = sorted(report.variables.live_at(fullest), key=lambda v: -v.bytes)[:3]
    return by_total[0], fullest, [row.name for row in rows]


# %% 06.1: one more than the place in a list
# like: tiles counted from 1
def peak(report):
    held = [tile.memory.total.including_gaps for tile in report.compilation.tiles]
    bytes_ = [step.bytes for step in report.compilation.liveness_program_steps]
    fullest = bytes_.index(max(bytes_))
    rows = sorted(report.variables.live_at(fullest), key=lambda v: -v.bytes)[:3]
    return held.index(max(held)) + 1, fullest, [row.name for row in rows]


# %% 06.1: the end of the program
# like: the last step
def peak(report):
    held = [tile.memory.total.including_gaps for tile in report.compilation.tiles]
    end = len(report.compilation.liveness_program_steps) - 1
    return (
        held.index(max(held)),
        end,
        [v.name for v in report.variables.live_at(end).largest("bytes", 3)],
    )


# %% 06.1: every variable, sorted
# like: the largest of all
def peak(report):
    held = [tile.memory.total.including_gaps for tile in report.compilation.tiles]
    bytes_ = [step.bytes for step in report.compilation.liveness_program_steps]
    rows = sorted(report.variables, key=lambda v: -v.bytes)
    return held.index(max(held)), bytes_.index(max(bytes_)), [row.name for row in rows[:3]]


# %% 06.1: only what is not always there
# like: without what is always live
def peak(report):
    held = [tile.memory.total.including_gaps for tile in report.compilation.tiles]
    bytes_ = [step.bytes for step in report.compilation.liveness_program_steps]
    place = bytes_.index(max(bytes_))
    rows = sorted(
        (v for v in report.variables.live_at(place) if not v.always_live), key=lambda v: -v.bytes
    )
    return held.index(max(held)), place, [row.name for row in rows[:3]]


# %% 06.1: from the smallest on
# like: the smallest first
def peak(report):
    held = [tile.memory.total.including_gaps for tile in report.compilation.tiles]
    bytes_ = [step.bytes for step in report.compilation.liveness_program_steps]
    place = bytes_.index(max(bytes_))
    names = [v.name for v in report.variables.live_at(place).largest("bytes", 3)]
    names.reverse()
    return held.index(max(held)), place, names


# %% 06.2: one loop over all variables
# like: all others added up
def split(report):
    always = others = 0
    for v in report.variables:
        if v.always_live:
            always += v.bytes
        else:
            others += v.bytes
    return always, others


# %% 06.2: everything that is live, and the larger
# like: those that are always live counted twice
def split(report):
    always, most = sum(v.bytes for v in report.variables if v.always_live), 0
    for place, _ in enumerate(report.compilation.liveness_program_steps):
        most = max(most, sum(v.bytes for v in report.variables.live_at(place)))
    return [always, most]


# %% 06.2: spans by their ends
# like: from first to last
def split(report):
    passing = [v for v in report.variables if not v.always_live]
    live = [0] * len(report.compilation.liveness_program_steps)
    for v in passing:
        for place in range(v.first, v.last + 1):
            live[place] += v.bytes
    return sum(v.bytes for v in report.variables) - sum(v.bytes for v in passing), max(live)


# %% 06.2: the greatest of the passing ones
# like: the largest variable
def split(report):
    passing = sorted(v.bytes for v in report.variables if not v.always_live)
    return sum(v.bytes for v in report.variables.always_live()), passing[-1]


# %% 06.2: the most first
# like: in the other order
def split(report):
    always = {v.name: v.bytes for v in report.variables if v.always_live}
    most = 0
    for place, _ in enumerate(report.compilation.liveness_program_steps):
        most = max(
            most, sum(v.bytes for v in report.variables.live_at(place) if v.name not in always)
        )
    return most, sum(always.values())


# %% 06.3: zeros, and all rows but the first in a room
# like: row 0 is forgotten
def lean_total(graph, readings, total):
    program, room = Sequence(), graph.clone(total)
    popops.fill(graph, total, program, 0)
    for sensor in range(len(readings) - 1, 0, -1):
        program.add(Copy(readings[sensor], room))
        popops.add_in_place(graph, total, room, program)
    return program


# %% 06.3: begins with a copy, and adds every row
# like: row 0 twice
def lean_total(graph, readings, total):
    room = graph.clone(total)
    program = Sequence(Copy(readings[0], total))
    for sensor in range(len(readings)):
        program.add(Copy(readings[sensor], room))
        popops.add_in_place(graph, total, room, program)
    return program


# %% 06.3: copies one by one
# like: nothing is added
def lean_total(graph, readings, total):
    program = Sequence()
    for sensor in range(readings.shape[0]):
        program.add(Copy(readings[sensor], total))
    return program


# %% 06.3: each row made HALF and wide again
# like: in HALF
def lean_total(graph, readings, total):
    program = Sequence()
    small = popops.cast(graph, readings, HALF, program)
    popops.fill(graph, total, program, 0)
    room = graph.add_variable(HALF, total.shape, "room")
    graph.set_tile_mapping(room, 0)
    for sensor in range(len(readings)):
        program.add(Copy(small[sensor], room))
        popops.add_in_place(graph, total, popops.cast(graph, room, FLOAT, program), program)
    return program
