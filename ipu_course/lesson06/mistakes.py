# %% given
"""Known mistakes of lesson 06; what this file is: mistakes.py."""

import numpy as np

from ipu_teach import FLOAT, Graph, IPUModel, compare
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Sequence

TILES = 13


def gathered_total(graph, readings, total):
    gathered = graph.add_variable(FLOAT, readings.shape, "gathered")
    graph.set_tile_mapping(gathered, 0)
    program = Sequence(Copy(readings, gathered), Copy(gathered[0], total))
    for sensor in range(1, len(readings)):
        popops.add_in_place(graph, total, gathered[sensor], program)
    return program


def where_used(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (moments, channels), "readings")
    for c in range(channels):
        graph.set_tile_mapping(readings[:, c], c * TILES // channels)
    return readings


# %% 06.1: variables and constants alone
# clause: Which tile is the fullest
# why:  that tile has most of variables and constants. Copies of other tiles' data, code and stacks
#   lie on a tile, too.
# next: tile.memory.total has all of them.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: sum(tile.memory.variables.values()))
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: the total for the peak
# why:  there the most variables lie, counted as if all of them were there at once. A total is no
#   peak: what is dead leaves its bytes to others.
# next: tile.memory.total is for the fullest moment.
def peak(report):
    totals = [
        sum(report.memory.by_variable(tile).values())
        for tile in range(len(report.compilation.tiles))
    ]
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return totals.index(max(totals)), step.number, [variable.name for variable in largest]


# %% 06.1: the tile with most that is always live
# why:  that one holds most of what is always live. What comes and goes is missing.
# next: tile.memory.total has both.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.always_live_bytes)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: the tile that is fullest at the fullest step
# clause: at its own fullest moment
# why:  that one is the fullest at the step at which all tiles together hold most. Another tile has
#   its own fullest moment at another step, and is fuller then.
# next: compare the tiles by their memory.total.
def peak(report):
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    tile = report.memory.fullest_tile_by_place[step.number]
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile, step.number, [variable.name for variable in largest]


# %% 06.1: tiles counted from 1
# why:  tiles are counted from 0.
# next: take tile.number.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number + 1, step.number, [variable.name for variable in largest]


# %% 06.1: when the fullest tile is fullest
# clause: At which step do all tiles together hold most
# why:  that is when tile {tile} is fullest. Asked is when all tiles together hold most.
# next: step.bytes is of all tiles together.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps).number
    places = range(len(report.compilation.liveness_program_steps))
    step = max(places, key=lambda place: sum(report.memory.live_at(place, tile).values()))
    largest = report.variables.live_at(step).largest("bytes", 3)
    return tile, step, [variable.name for variable in largest]


# %% 06.1: steps counted from 1
# why:  steps are counted from 0.
# next: take step.number.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    sizes = [step.bytes for step in report.compilation.liveness_program_steps]
    step = sizes.index(max(sizes))
    largest = report.variables.live_at(step).largest("bytes", 3)
    return tile.number, step + 1, [variable.name for variable in largest]


# %% 06.1: the last step
# why:  that is the last step. What was written early may be dead by then.
# next: ask every step for its bytes.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = report.compilation.liveness_program_steps[-1]
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: the largest of all
# why:  these are the largest of all, and one of them is not live at that step.
# next: report.variables.live_at(step.number) has those that are.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    return (
        tile.number,
        step.number,
        [variable.name for variable in report.variables.largest("bytes", 3)],
    )


# %% 06.1: without what is always live
# clause: those that are always live among them
# why:  palette is missing. It is always live, so it is live there, too.
# next: step.variables has what comes and goes, report.variables.live_at(…) has all of it.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    return tile.number, step.number, list(step.variables)[:3]


# %% 06.1: the largest on the fullest tile
# clause: are those of all tiles together
# why:  these are the largest on tile {tile}. Asked is all tiles together.
# next: sort by the bytes of report.variables.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    live = {v.name for v in report.variables.live_at(step.number)}
    there = [name for name in report.memory.by_variable(tile.number) if name in live]
    return tile.number, step.number, there[:3]


# %% 06.1: the smallest first
# clause: the largest first
# why:  the names are right, their order is turned round.
# next: the largest is first.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    live = sorted(report.variables.live_at(step.number), key=lambda variable: variable.bytes)
    return tile.number, step.number, [variable.name for variable in live[-3:]]


# %% 06.1: bytes of a tile
# why:  these have most bytes on each tile that holds them. Asked is all tiles together.
# next: sort by variable.bytes, which is of all tiles.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    live = list(report.variables.live_at(step.number))
    live.sort(key=lambda variable: -variable.bytes / variable.tiles)
    return tile.number, step.number, [variable.name for variable in live[:3]]


# %% 06.1: rows instead of names
# not yet: a list of names
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    return tile.number, step.number, report.variables.live_at(step.number).largest("bytes", 3)


# %% 06.1: two of three
# not yet: 2 names came
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 2)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: the names alone
# not yet: return all of it, in this order
def peak(report):
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    return [
        variable.name for variable in report.variables.live_at(step.number).largest("bytes", 3)
    ][:2]


# %% 06.1: variables alone
# why:  the tiles are compared without the bytes of constants, such as those of palette.
# next: compare the tiles by tile.memory.total, which contains everything on the tile.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.category["Variables"])
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: live a step later
# why:  these are live at the step after that one.
# next: live_at(step.number).
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number + 1).largest("bytes", 3)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: a row for its number
# clause: (number of the fullest tile
# not yet: asked is the number of the tile
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile, step.number, [variable.name for variable in largest]


# %% 06.1: the name of the step
# not yet: asked is the number of the step
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number, step.name, [variable.name for variable in largest]


# %% 06.1: the step with most bytes of variables
# clause: At which step do all tiles together hold most
# why:  at that step the variables have most bytes. Copies of other tiles' data are held, too, and
#   with them another step has more.
# next: take the step with the largest step.bytes. The copies are in it.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    steps = report.compilation.liveness_program_steps
    step = max(steps, key=lambda step: sum(step.variables.values()))
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: constants for all that is always live
# clause: those that are always live among them
# why:  what the host may write is missing. It is always live, like a constant.
# next: take report.variables.live_at(step.number), which contains all variables that are live.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    sizes = dict(step.variables)
    sizes |= {v.name: v.bytes for v in report.variables if v.category == "Constants"}
    return tile.number, step.number, sorted(sizes, key=sizes.get, reverse=True)[:3]


# %% 06.2: all others added up
# why:  The others are added up as if all were there at once. What is dead leaves its bytes to what
#   is live.
# next: take one place after another, and the most of what comes.
def split(report):
    always = sum(v.bytes for v in report.variables if v.always_live)
    return always, sum(v.bytes for v in report.variables if not v.always_live)


# %% 06.2: those that are always live counted twice
# why:  Those that are always live are counted again at their place.
# next: leave out what is always live.
def split(report):
    always = sum(v.bytes for v in report.variables.always_live())
    places = range(len(report.compilation.liveness_program_steps))
    return always, max(sum(v.bytes for v in report.variables.live_at(place)) for place in places)


# %% 06.2: with the buffers
# clause: Copies of other tiles' data are no variables
# why:  Copies of other tiles' data, which a step reads, are in that, too. They are no variables.
# next: step.variables has the variables alone.
def split(report):
    always = sum(v.bytes for v in report.variables.always_live())
    return always, max(step.bytes for step in report.compilation.liveness_program_steps)


# %% 06.2: from first to last
# clause: live at once, at most
# why:  One that serves twice is dead in between. From `first` to `last` there is a hole.
# next: variable.ranges has each stretch, live_at(place) looks at them.
def split(report):
    always = sum(v.bytes for v in report.variables.always_live())
    places = range(len(report.compilation.liveness_program_steps))
    others = [v for v in report.variables if not v.always_live]
    return always, max(
        sum(v.bytes for v in others if v.first <= place <= v.last) for place in places
    )


# %% 06.2: the largest variable
# why:  That is the largest of the others, alone.
# next: several are live at once: add them up.
def split(report):
    always = sum(v.bytes for v in report.variables.always_live())
    return always, max(v.bytes for v in report.variables if not v.always_live)


# %% 06.2: with code and stacks
# clause: bytes of variables are always live
# why:  code, stacks and pointers are in that, too. They are always there, but they are no
#   variables.
# next: count the bytes of variables alone.
def split(report):
    steps = report.compilation.liveness_program_steps
    return steps[0].always_live_bytes, max(sum(step.variables.values()) for step in steps)


# %% 06.2: in the other order
# clause: (bytes of variables that are always live
# why:  the two have changed places.
# next: first what is always live.
def split(report):
    always = sum(v.bytes for v in report.variables.always_live())
    return max(sum(s.variables.values()) for s in report.compilation.liveness_program_steps), always


# %% 06.2: one tile
# clause: of all tiles together.
# why:  that is one tile. Asked is all of them together.
# next: variable.bytes is of all tiles together.
def split(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.excluding_gaps)
    return tile.memory.always_live_bytes, tile.memory.not_always_live_bytes


# %% 06.2: names instead of bytes
# not yet: count bytes: variable.bytes
def split(report):
    return [v.name for v in report.variables.always_live()], [
        v.name for v in report.variables if not v.always_live
    ]


# %% 06.2: live at the end of a range, too
# why:  A range ends before its last number, as Python's do: at (2, 4) it is live at 2 and 3.
# next: begin <= place < end.
def split(report):
    always, most = sum(v.bytes for v in report.variables if v.always_live), 0
    others = [v for v in report.variables if not v.always_live]
    for place in range(len(report.compilation.liveness_program_steps)):
        live = [v for v in others if any(a <= place <= b for a, b in v.ranges)]
        most = max(most, sum(v.bytes for v in live))
    return always, most


# %% 06.2: the first range alone
# why:  One that serves twice has several ranges, and here the first alone counts.
# next: go through all of variable.ranges, or ask live_at(place).
def split(report):
    always, most = sum(v.bytes for v in report.variables if v.always_live), 0
    others = [v for v in report.variables if not v.always_live]
    for place in range(len(report.compilation.liveness_program_steps)):
        live = [v for v in others if v.ranges[0][0] <= place < v.ranges[0][1]]
        most = max(most, sum(v.bytes for v in live))
    return always, most


# %% 06.2: a name that a tile has not
# error in the answer: TileMemory has no attribute 'bytes'
def split(report):
    return sum(tile.memory.bytes for tile in report.compilation.tiles), 0


# %% 06.2: all but the last place
# why:  The last place was left out, and there most is live.
# next: range(len(report.compilation.liveness_program_steps)), without taking 1 away.
def split(report):
    always, most = sum(v.bytes for v in report.variables if v.always_live), 0
    for place in range(len(report.compilation.liveness_program_steps) - 1):
        live = [v for v in report.variables.live_at(place) if not v.always_live]
        most = max(most, sum(v.bytes for v in live))
    return always, most


# %% 06.2: the least
# why:  That is the place at which least is live. Room is needed for the one at which most is.
# next: max, and not min.
def split(report):
    always = sum(v.bytes for v in report.variables if v.always_live)
    places = range(len(report.compilation.liveness_program_steps))
    return always, min(sum(v.bytes for v in report.variables.live_at(p)) - always for p in places)


# %% 06.2: how many there are
# why:  That is how many variables are live, and asked is how many bytes they have.
# next: add up variable.bytes.
def split(report):
    always, most = sum(v.bytes for v in report.variables if v.always_live), 0
    for place in range(len(report.compilation.liveness_program_steps)):
        most = max(most, sum(not v.always_live for v in report.variables.live_at(place)))
    return always, most


# %% 06.2: the mean
# why:  That is the mean over the places. What has to fit is the largest.
# next: max, and not sum over the number of places.
def split(report):
    always = sum(v.bytes for v in report.variables if v.always_live)
    places = range(len(report.compilation.liveness_program_steps))
    live = [sum(v.bytes for v in report.variables.live_at(place)) - always for place in places]
    return always, sum(live) // len(live)


# %% 06.2: each tile at its own time
# why:  this is what tiles hold, with code and buffers, each at its own fullest moment. These need
#   not be the same moment.
# next: add up the bytes of report.variables.live_at(place) for each place, and take the largest.
def split(report):
    held = [tile.memory for tile in report.compilation.tiles]
    return sum(m.always_live_bytes for m in held), sum(m.not_always_live_bytes for m in held)


# %% 06.2: the last place alone
# why:  this is what is live at the last place. Room is needed for the one at which most is.
# next: the largest sum of all places.
def split(report):
    always = sum(variable.bytes for variable in report.variables.always_live())
    return always, sum(report.compilation.liveness_program_steps[-1].variables.values())


# %% 06.2: at the step with most bytes
# clause: Copies of other tiles' data are no variables
# why:  These are the variables at the step with most bytes, copies of other tiles' data among them.
#   At another step more bytes of variables are live.
# next: take the largest sum(step.variables.values()) of all steps.
def split(report):
    always = sum(v.bytes for v in report.variables.always_live())
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    return always, sum(step.variables.values())


# %% 06.2: constants for all that is always live
# clause: how many bytes of variables are always live
# why:  The first number counts only the constants. Variables that the host may write are always
#   live, too.
# next: add up the bytes of all rows whose always_live is true.
def split(report):
    always = sum(v.bytes for v in report.variables if v.category == "Constants")
    return always, max(sum(s.variables.values()) for s in report.compilation.liveness_program_steps)


# %% 06.2: always live without constants
# clause: how many bytes of variables are always live
# why:  Constants are missing in the first number. They are always live, too.
# next: add up the bytes of all rows whose always_live is true, of every category.
def split(report):
    always = sum(v.bytes for v in report.variables if v.always_live and v.category == "Variables")
    return always, max(sum(s.variables.values()) for s in report.compilation.liveness_program_steps)


# %% 06.3: in HALF
# clause: The same totals, as FLOATs
# why:  on the way the readings were HALF: they take half the room, and are rounded to 11 bits.
# next: keep them as FLOAT. Room comes from doing one thing after another.
from ipu_teach import HALF


def lean_total(graph, readings, total):
    gathered = graph.add_variable(HALF, readings.shape, "gathered")
    graph.set_tile_mapping(gathered, 0)
    small = graph.add_variable(HALF, readings.shape, "small")
    wide = graph.clone(total)
    for sensor in range(len(readings)):
        graph.set_tile_mapping(small[sensor], sensor)
    program = Sequence()
    popops.cast_with_output(graph, readings, small, program)
    program.add(Copy(small, gathered))
    popops.cast_with_output(graph, gathered[0], total, program)
    for sensor in range(1, len(readings)):
        popops.cast_with_output(graph, gathered[sensor], wide, program)
        popops.add_in_place(graph, total, wide, program)
    return program


# %% 06.3: row 0 is forgotten
# clause: The same totals
# why:  row 0 is missing.
# next: begin with a Copy of row 0 into total.
def lean_total(graph, readings, total):
    graph.set_initial_value(total, 0)
    program = Sequence()
    for sensor in range(1, len(readings)):
        popops.add_in_place(graph, total, readings[sensor], program)
    return program


# %% 06.3: row 0 twice
# why:  row 0 was added twice: once it was copied, and once added.
# next: add from row 1 on.
def lean_total(graph, readings, total):
    program = Sequence(Copy(readings[0], total))
    for sensor in range(len(readings)):
        popops.add_in_place(graph, total, readings[sensor], program)
    return program


# %% 06.3: added up in readings
# not yet: the second run starts from changed data
def lean_total(graph, readings, total):
    program = Sequence()
    for sensor in range(1, len(readings)):
        popops.add_in_place(graph, readings[0], readings[sensor], program)
    return Sequence(program, Copy(readings[0], total))


# %% 06.3: nothing is added
# why:  total holds the last row alone: each Copy wrote over the one before.
# next: add instead of copying.
def lean_total(graph, readings, total):
    return Sequence(*[Copy(readings[sensor], total) for sensor in range(len(readings))])


# %% 06.3: as it was
# clause: Write it so that it fits
# not yet: Most of it is 'gathered'
def lean_total(graph, readings, total):
    return gathered_total(graph, readings, total)


# %% 06.3: another device
# clause: a tile's memory stays as it is
# error in the answer: given tensors of two graphs
def lean_total(graph, readings, total):
    bigger = Graph(IPUModel("ipu2", tiles_per_ipu=1472).create_device())
    room = bigger.add_variable(FLOAT, readings.shape, "room")
    for sensor in range(len(readings)):
        bigger.set_tile_mapping(room[sensor], 100 + sensor)
    program = Sequence(Copy(readings, room), Copy(room[0], total))
    for sensor in range(1, len(readings)):
        popops.add_in_place(bigger, total, room[sensor], program)
    return program


# %% 06.3: tiles that are not there
# error in the answer: There is no tile 13
def lean_total(graph, readings, total):
    room = graph.add_variable(FLOAT, readings.shape, "room")
    graph.set_tile_mapping(room, 13)
    program = Sequence(Copy(readings, room), Copy(room[0], total))
    for sensor in range(1, len(readings)):
        popops.add_in_place(graph, total, room[sensor], program)
    return program


# %% 06.3: as many sensors as fit
# clause: for any number of sensors
# not yet: the sums of the first 10 rows, not of all 13
def lean_total(graph, readings, total):
    few = readings[:10]
    gathered = graph.add_variable(FLOAT, few.shape, "gathered")
    graph.set_tile_mapping(gathered, 0)
    program = Sequence(Copy(few, gathered), Copy(gathered[0], total))
    for sensor in range(1, len(few)):
        popops.add_in_place(graph, total, gathered[sensor], program)
    return program


# %% 06.3: as many readings as fit
# not yet: the rest was left out
def lean_total(graph, readings, total):
    most = min(total.num_elements, 9000)
    graph.set_initial_value(total[most:], 0)
    return gathered_total(graph, readings[:, :most], total[:most])


# %% 06.3: a few readings at a time
# clause: at most 1.2 times the cycles
# not yet: use room for a whole row
def lean_total(graph, readings, total):
    program, n = Sequence(), total.num_elements
    popops.zero(graph, total, program)
    for begin in range(0, n, 650):
        end = min(begin + 650, n)
        for sensor in range(len(readings)):
            popops.add_in_place(graph, total[begin:end], readings[sensor, begin:end], program)
    return program


# %% 06.3: all of it in one library call
# not yet: The field 'x' of popops::ReduceRows
def lean_total(graph, readings, total):
    program = Sequence()
    popops.reduce_with_output(graph, readings, total, [0], program)
    return program


# %% 06.3: total shared among the tiles
# clause: stay where they lie
# not yet: where total lies is given
def lean_total(graph, readings, total):
    n = total.num_elements
    for tile in range(TILES):
        graph.set_tile_mapping(total[tile * n // TILES : (tile + 1) * n // TILES], tile)
    program = Sequence(Copy(readings[0], total))
    for sensor in range(1, len(readings)):
        popops.add_in_place(graph, total, readings[sensor], program)
    return program


# %% 06.3: the readings moved
# clause: readings[s] is on tile s
# not yet: where readings lies is given
def lean_total(graph, readings, total):
    part, n = graph.clone(total), total.num_elements
    for tile in range(TILES):
        places = slice(tile * n // TILES, (tile + 1) * n // TILES)
        graph.set_tile_mapping(readings[:, places], tile)
        graph.set_tile_mapping(part[places], tile)
    program = Sequence(Copy(readings[0], part))
    for sensor in range(1, len(readings)):
        popops.add_in_place(graph, part, readings[sensor], program)
    program.add(Copy(part, total))
    return program


# %% 06.3: another tensor of the name
# not yet: it gives its name to another tensor
def lean_total(graph, readings, total):
    program = Sequence()
    total = popops.reduce(graph, readings, [0], program)
    return program


# %% 06.3: added up in HALF
# not yet: it is nearly right: a number was converted to HALF
from ipu_teach import HALF


def lean_total(graph, readings, total):
    program = Sequence()
    narrow = popops.cast(graph, readings, HALF, program)
    small = graph.add_variable(HALF, total.shape, "small")
    graph.set_tile_mapping(small, 0)
    program.add(Copy(narrow[0], small))
    for sensor in range(1, len(readings)):
        popops.add_in_place(graph, small, narrow[sensor], program)
    popops.cast_with_output(graph, small, total, program)
    return program


# %% 06.3: thirteen tiles
# clause: and of tiles
# not yet: the answer uses 13 as the number of tiles
def lean_total(graph, readings, total):
    part, n = graph.add_variable(FLOAT, total.shape, "part"), total.num_elements
    for tile in range(13):
        graph.set_tile_mapping(part[tile * n // 13 : (tile + 1) * n // 13], tile)
    program = Sequence(Copy(readings[0], part))
    for sensor in range(1, len(readings)):
        popops.add_in_place(graph, part, readings[sensor], program)
    program.add(Copy(part, total))
    return program


# %% 06.3: begun with an initial value
# why:  total begins with 0 when the program is loaded. A second run adds to what the first left.
# next: begin in the program: Copy(readings[0], total).
def lean_total(graph, readings, total):
    room, program = graph.clone(total), Sequence()
    graph.set_initial_value(total, 0)
    for sensor in range(len(readings)):
        program.add(Copy(readings[sensor], room))
        popops.add_in_place(graph, total, room, program)
    return program


# %% 06.3: by way of another tile
# not yet: rows travel twice
def lean_total(graph, readings, total):
    room = graph.add_variable(FLOAT, total.shape, "room")
    graph.set_tile_mapping(room, min(1, len(readings) - 1))
    program = Sequence(Copy(readings[0], total))
    for sensor in range(1, len(readings)):
        program.add(Copy(readings[sensor], room))
        popops.add_in_place(graph, total, room, program)
    return program


# %% 06.3: the mean
# why:  these are the means. Asked are the sums.
# next: leave the division out.
def lean_total(graph, readings, total):
    room, program = graph.clone(total), Sequence(Copy(readings[0], total))
    for sensor in range(1, len(readings)):
        program.add(Copy(readings[sensor], room))
        popops.add_in_place(graph, total, room, program)
    popops.mul_in_place(graph, total, 1 / len(readings), program)
    return program


# %% 06.4: the largest variable
# not yet: that is the largest variable
def changed(before, after):
    found = compare(before, after)
    variable = after.variables.largest("bytes", 1)[0]
    return variable.name, found.of("cycles")[0].name, "mapping"


# %% 06.4: always a mapping
# clause: In the pair above
# not yet: Its numbers have another dtype
def changed(before, after):
    found = compare(before, after)
    return found.of("variables")[0].name, found.of("cycles")[0].name, "mapping"


# %% 06.4: always a type
# clause: which of the three kinds
# not yet: It lies on other tiles
def changed(before, after):
    found = compare(before, after)
    return found.of("variables")[0].name, found.of("cycles")[0].name, "type"


# %% 06.4: type and mapping only
# not yet: the work was cut into other pieces
def changed(before, after):
    found = compare(before, after)
    kind = "type" if "dtype" in found.of("variables")[0].note else "mapping"
    return found.of("variables")[0].name, found.of("cycles")[0].name, kind


# %% 06.4: the longest step
# clause: which step takes another time because of it
# not yet: that step takes longest
def changed(before, after):
    found = compare(before, after)
    step = max(after.steps(), key=lambda step: step.cycles)
    return found.of("variables")[0].name, step.name, "mapping"


# %% 06.4: the first step
# not yet: that step takes as long as before
def changed(before, after):
    found = compare(before, after)
    names = [step.name for step in sorted(after.steps(), key=lambda step: step.cycles)]
    names.remove(found.of("cycles")[0].name)
    return found.of("variables")[0].name, names[0], "mapping"


# %% 06.4: the step for the variable
# clause: name of a step
# not yet: that is a step
def changed(before, after):
    found = compare(before, after)
    return found.of("cycles")[0].name, found.of("variables")[0].name, "mapping"


# %% 06.4: a variable that is the same in both
# not yet: that variable is the same in both reports
def changed(before, after):
    found = compare(before, after)
    return "readings", found.of("cycles")[0].name, "mapping"


# %% 06.4: what the changed step reads
# clause: which variable, which step takes another time because of it
# not yet: what they fill has another shape
def changed(before, after):
    found = compare(before, after)
    step, note = found.of("cycles")[0].name, found.of("variables")[0].note
    if "shape" in note:
        name = [
            v.name for v in after.variables if not v.name.endswith("sums") and v.name != "readings"
        ]
        return (
            min(name, key=lambda n: next(v.bytes for v in after.variables if v.name == n)),
            step,
            "split",
        )
    return found.of("variables")[0].name, step, "type" if "dtype" in note else "mapping"


# %% 06.4: in words of one's own
# clause: "mapping" or "type" or "split"
# not yet: say it in one of these
def changed(before, after):
    found = compare(before, after)
    return found.of("variables")[0].name, found.of("cycles")[0].name, found.of("variables")[0].note


# %% 06.4: how many tiles
# clause: A variable may lie on other tiles and on as many as before
# not yet: How many tiles hold it does not say which
def changed(before, after):
    olds = {variable.name: variable for variable in before.variables}
    name = kind = ""
    for new in after.variables:
        old = olds[new.name]
        if old.dtype != new.dtype:
            name, kind = new.name, "type"
        elif old.shape != new.shape:
            name, kind = new.name, "split"
        elif old.tiles != new.tiles:
            name, kind = new.name, "mapping"
    return name, compare(before, after).of("cycles")[0].name, kind


# %% 06.4: by what is exchanged
# error in the answer: There is no row 0
def changed(before, after):
    found = compare(before, after)
    return found.of("variables")[0].name, found.of("exchange")[0].name, "mapping"


# %% 06.5: one by one
# clause: so that it waits for at most 5 % of the time
# not yet: the disc was read 1,000 times
def fed(disc):
    for number in range(len(disc)):
        yield disc.read(number, 1)[0]


# %% 06.5: a few at a time
# clause: waits for at most 5 %
# not yet: the disc was read 63 times
def fed(disc):
    for first in range(0, len(disc), 16):
        yield from disc.read(first, 16)


# %% 06.5: steps longer than the reads
# clause: gives every row of the disc
# not yet: row 200 was never read. next: begin the next read at the row after the last row that came
def fed(disc):
    for first in range(0, len(disc), 256):
        yield from disc.read(first, 200)


# %% 06.5: all of it at once
# clause: Read as you go
# not yet: a read returns at most 256 rows
def fed(disc):
    yield from disc.read(0, len(disc))


# %% 06.5: the first of each read
# not yet: 3 rows went by unseen
def fed(disc):
    for first in range(0, len(disc), 256):
        yield disc.read(first, 256)[0]
    while True:
        yield disc.read(len(disc) - 1, 1)[0]


# %% 06.5: the last rows are left out
# clause: gives every row of the disc
# not yet: the rows ran out after 0 rows
def fed(disc):
    for first in range(0, len(disc) // 256 * 256, 256):
        yield from disc.read(first, 256)


# %% 06.5: reads that overlap
# not yet: that row was there before
def fed(disc):
    for first in range(0, len(disc), 255):
        yield from disc.read(first, 256)
    yield from disc.read(0, 1)


# %% 06.5: backwards
# clause: in the same order
# not yet: the rows of a read come in reverse, the last one first
def fed(disc):
    for first in range(0, len(disc), 256):
        yield from disc.read(first, 256)[::-1]


# %% 06.5: blocks instead of rows
# clause: yield the rows one by one
# error in the answer: needs 52 elements for each transfer, but was given 260
def fed(disc):
    for first in range(0, len(disc), 256):
        yield disc.read(first, 256)


# %% 06.5: rows that were changed
# clause: Give the device the same rows
# not yet: no row of the disc
def fed(disc):
    for first in range(0, len(disc), 256):
        yield from disc.read(first, 256) + 1


# %% 06.5: a list of all rows
# not yet: the whole disc was read before the first row was given
def fed(disc):
    rows = []
    while len(rows) < len(disc):
        rows.extend(disc.read(len(rows), 256))
    return rows


# %% 06.5: round and round
# clause: And end with the last row
# not yet: end where the disc ends
def fed(disc):
    while True:
        for first in range(0, len(disc), 256):
            yield from disc.read(first, 256)


# %% 06.5: past the disc
# error in the answer: 'Disc' object has no attribute '_rows'
def fed(disc):
    yield from disc._rows


# %% 06.5: the clock put back
# error in the answer: property 'seconds' of 'Disc' object has no setter
def fed(disc):
    for number in range(len(disc)):
        yield disc.read(number, 1)[0]
        disc.seconds = 0


# %% 06.6: by moments
# clause: Channel c is added up on tile
# not yet: readings are on other tiles than the vertices
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (moments, channels), "readings")
    for m in range(moments):
        graph.set_tile_mapping(readings[m], m * TILES // moments)
    return readings


# %% 06.6: as it was
# clause: such that the sums are a good forty times as fast
# not yet: with others between them
def side_by_side(graph, moments, channels):
    return where_used(graph, moments, channels)


# %% 06.6: all on tile 0
# clause: the vertices stay where they are
# not yet: bytes cross. And
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (moments, channels), "readings")
    graph.set_tile_mapping(readings, 0)
    return readings


# %% 06.6: channels first, without a view
# clause: of the shape (moments, channels) must come out
# not yet: the channels come first in it
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings")
    for c in range(channels):
        graph.set_tile_mapping(readings[c], c * TILES // channels)
    return readings


# %% 06.6: nothing is returned
# clause: return it or a view of it
# not yet: is there a `return`?
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings")
    for c in range(channels):
        graph.set_tile_mapping(readings[c], c * TILES // channels)


# %% 06.6: one channel for all
# not yet: some elements stand in it more than once
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (moments, 1), "readings")
    graph.set_tile_mapping(readings, 0)
    return readings.broadcast(channels, 1)


# %% 06.6: not mapped
# clause: map it, and return
# error in the answer: is on no tile
def side_by_side(graph, moments, channels):
    return graph.add_variable(FLOAT, (channels, moments), "readings").transpose()


# %% 06.6: an array
# not yet: which is no tensor
def side_by_side(graph, moments, channels):
    return np.zeros((moments, channels))


# %% 06.6: reshaped, not turned
# why:  reshape() keeps the order of the elements: the first row of it is the beginning of channel
#   0, and no moment of all channels. So {crossing} bytes cross.
# next: transpose() makes columns of rows.
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings")
    for c in range(channels):
        graph.set_tile_mapping(readings[c], c * TILES // channels)
    return readings.reshape((moments, channels))


# %% 06.6: in HALF
# clause: The readings, as a tensor of shape
# not yet: a tensor of HALF
from ipu_teach import HALF


def side_by_side(graph, moments, channels):
    readings = graph.add_variable(HALF, (channels, moments), "readings")
    for c in range(channels):
        graph.set_tile_mapping(readings[c], c * TILES // channels)
    return readings.transpose()


# %% 06.6: thirteen tiles
# clause: Any number of tiles
# why:  somewhere 13 stands for the number of tiles.
# next: put graph.target.num_tiles in its place.
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings")
    for c in range(channels):
        graph.set_tile_mapping(readings[c], c * 13 // channels)
    return readings.transpose()


# %% 06.6: the share rounded down
# clause: on tile c * tiles // channels
# why:  channels // tiles is rounded down, so that the shares do not come out even on 7 tiles.
# next: map channel c to tile c * tiles // channels, and round down last.
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings")
    share = max(1, channels // graph.target.num_tiles)
    for c in range(channels):
        graph.set_tile_mapping(readings[c], c // share)
    return readings.transpose()


# %% 06.6: the share rounded down, and the rest on the last tile
# clause: on tile c * tiles // channels
# why:  channels // tiles is rounded down, and the last tile gets all that remains.
# next: map channel c to tile c * tiles // channels, and round down last.
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings")
    share = max(1, channels // graph.target.num_tiles)
    for c in range(channels):
        graph.set_tile_mapping(readings[c], min(c // share, graph.target.num_tiles - 1))
    return readings.transpose()


# %% 06.6: the share rounded up
# clause: on tile c * tiles // channels
# why:  the share is rounded up, so the first tiles get more channels than they add up.
# next: map channel c to tile c * tiles // channels, and round down last.
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings")
    share = -(-channels // graph.target.num_tiles)
    for c in range(channels):
        graph.set_tile_mapping(readings[c], c // share)
    return readings.transpose()


# %% 06.w1: all that is live
# clause: that are live and belong to no variable
# why:  that is all that comes and goes, variables and copies.
# next: take the bytes of the variables away.
def copied(report, place):
    return report.compilation.liveness_program_steps[place].bytes


# %% 06.w1: all that is live taken away
# clause: that are live and belong to no variable
# why:  this also subtracts the variables that are always live, and step.bytes has none of them.
# next: take away the bytes of step.variables alone.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    return step.bytes - sum(variable.bytes for variable in report.variables.live_at(place))


# %% 06.w1: all that is live but constants taken away
# clause: that are live and belong to no variable
# why:  this also subtracts the variables that the host may write. They are always live, and
#   step.bytes leaves them out.
# next: subtract the bytes of step.variables, which leaves them out, too.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    live = report.variables.live_at(place)
    return step.bytes - sum(v.bytes for v in live if v.category != "Constants")


# %% 06.w1: the variables
# clause: copies of other tiles' data
# why:  these are the variables. What is there besides them?
# next: step.bytes has both.
def copied(report, place):
    return sum(report.compilation.liveness_program_steps[place].variables.values())


# %% 06.w1: turned round
# why:  this is right but for its sign: what belongs to variables, less all that is live.
# next: all that is live, less the variables.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    return sum(step.variables.values()) - step.bytes


# %% 06.w1: the place before
# why:  these are the copies of the place before.
# next: liveness_program_steps[place] is the place itself: both count from 0.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place - 1]
    return step.bytes - sum(step.variables.values())


# %% 06.w1: without holes
# why:  a variable counts here from the first place at which it is live to the last. In between, its
#   bytes may belong to others.
# next: take away the bytes of step.variables, which has those that are live at this place.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    live = [
        variable
        for variable in report.variables
        if not variable.always_live and variable.ranges[0][0] <= place < variable.ranges[-1][1]
    ]
    return step.bytes - sum(variable.bytes for variable in live)


# %% 06.w1: the end counted in
# why:  a variable counts here at the end of its range, too. There it is not live any more.
# next: take away the bytes of step.variables, which has those that are live at this place.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    live = [
        variable
        for variable in report.variables
        if not variable.always_live and any(begin <= place <= end for begin, end in variable.ranges)
    ]
    return step.bytes - sum(variable.bytes for variable in live)


# %% 06.w1: place 0 taken for none
# why:  this subtracts nothing at place 0. At the other places it is right.
# next: treat place 0 like the others.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    if not place:
        return step.bytes
    return step.bytes - sum(variable.bytes for variable in step.variables)


# %% 06.w2: by its rank
# why:  rows of the two reports were paired by their rank in size, and there a variable passes
#   another one.
# next: pair the rows by their names.
def retyped(before, after):
    ranks = before.variables.largest("bytes", 99), after.variables.largest("bytes", 99)
    for old, new in zip(*ranks, strict=True):
        if old.dtype != new.dtype:
            return new.name


# %% 06.w2: the largest variable
# clause: between which one variable got another dtype
# why:  that is the largest variable, and it is the same in both.
# next: take the row of compare(before, after).of("variables") whose note has dtype in it.
def retyped(before, after):
    return after.variables.largest("bytes", 1)[0].name


# %% 06.w2: the whole row
# clause: return its name
# not yet: Change(
def retyped(before, after):
    return compare(before, after).of("variables")[0]


# %% 06.w2: the step
# why:  that is the step that takes another time. It does so because of the variable.
# next: .of("variables"), and not .of("cycles").
def retyped(before, after):
    return compare(before, after).of("cycles")[0].name


# %% 06.w2: by its bytes
# clause: The name of the variable that has another dtype
# why:  this looks for other bytes. A FLOAT and an INT have as many.
# next: compare the dtypes, or ask compare(before, after).of("variables").
def retyped(before, after):
    sizes = {variable.name: variable.bytes for variable in before.variables}
    changed = [v.name for v in after.variables if sizes.get(v.name, v.bytes) != v.bytes]
    return changed[0] if changed else None


# %% 06.w2: the note
# why:  that is what the comparison says of it.
# next: row.name, of the same row.
def retyped(before, after):
    return compare(before, after).of("variables")[0].note


# %% 06.w3: columns first
# clause: All six elements of a variable of shape (2, 3)
# why:  that would be so if the first index ran fastest. In a variable the last one does.
# next: [0, 0], [0, 1], [0, 2], and then [1, 0].
places = 2, 1


# %% 06.w3: a transpose that moves
# clause: the [0, 1] of its transpose
# why:  a transpose moves nothing: its [0, 1] lies where [1, 0] of the variable lies.
# next: count again for the second.
places = 1, 1


# %% 06.w3: counted from 1
# clause: At which place among them, from 0 to 5
# why:  this counts from 1, and places are counted from 0.
# next: one less each.
places = 2, 4


# %% 06.w3: the two changed places
# clause: the place of [0, 1] in the variable, and in its transpose
# why:  these are the right two, in the other order.
# next: the place in the variable comes first, where the last index runs fastest.
places = 3, 1


# %% 06.w3: in rows of two
# clause: the [0, 1] of its transpose
# why:  the second counts [1, 0] in rows of two elements. The rows of the variable have three.
# next: count the elements before [1, 0] in the variable itself.
places = 1, 2
