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
# why:  this is the tile with the most bytes of variables and constants. A tile also holds copies of
#   other tiles' data, code and stacks.
# next: compare the tiles by tile.memory.total, which includes all of them.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: sum(tile.memory.variables.values()))
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: the total for the peak
# why:  on this tile the sum of all variables is largest. But they are not live all at once: when a
#   variable is no longer needed, others use its memory.
# next: compare the tiles by tile.memory.total, which is the maximum over all steps.
def peak(report):
    totals = [
        sum(report.memory.by_variable(tile).values())
        for tile in range(len(report.compilation.tiles))
    ]
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return totals.index(max(totals)), step.number, [variable.name for variable in largest]


# %% 06.1: the tile with most that is always live
# why:  this tile holds the most data that are always live. The variables that are live for a while
#   are missing.
# next: compare the tiles by tile.memory.total, which has both.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.always_live_bytes)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: the tile that is fullest at the fullest step
# clause: at the step at which it is fullest
# why:  this tile is the fullest at the step at which all tiles together hold the most. But at
#   another step, another tile is fuller.
# next: compare the tiles by tile.memory.total: it is for each tile's own fullest step.
def peak(report):
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    tile = report.memory.fullest_tile_by_place[step.number]
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile, step.number, [variable.name for variable in largest]


# %% 06.1: tiles counted from 1
# why:  tiles are counted from 0.
# next: return tile.number.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number + 1, step.number, [variable.name for variable in largest]


# %% 06.1: when the fullest tile is fullest
# clause: At which step do all tiles together hold the most
# why:  at this step, tile {tile} alone is the fullest. The exercise asks for the step at which all
#   tiles together hold the most.
# next: compare the steps by step.bytes, which is the sum over all tiles.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps).number
    places = range(len(report.compilation.liveness_program_steps))
    step = max(places, key=lambda place: sum(report.memory.live_at(place, tile).values()))
    largest = report.variables.live_at(step).largest("bytes", 3)
    return tile, step, [variable.name for variable in largest]


# %% 06.1: steps counted from 1
# why:  steps are counted from 0.
# next: return step.number.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    sizes = [step.bytes for step in report.compilation.liveness_program_steps]
    step = sizes.index(max(sizes))
    largest = report.variables.live_at(step).largest("bytes", 3)
    return tile.number, step + 1, [variable.name for variable in largest]


# %% 06.1: the last step
# why:  this is always the last step. Variables that were written early may no longer be live there.
# next: compare all steps by step.bytes.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = report.compilation.liveness_program_steps[-1]
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: the largest of all
# why:  these are the three largest variables of the whole program, and one of them is not live at
#   that step.
# next: use report.variables.live_at(step.number) instead of report.variables.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    return (
        tile.number,
        step.number,
        [variable.name for variable in report.variables.largest("bytes", 3)],
    )


# %% 06.1: without what is always live
# clause: including variables that are always live
# why:  the constant `palette` is missing. It is always live, so it is live at that step, too.
# next: use report.variables.live_at(step.number): unlike step.variables, it includes what is always
#   live.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    return tile.number, step.number, list(step.variables)[:3]


# %% 06.1: the largest on the fullest tile
# clause: are those of all tiles together
# why:  these are the largest variables on tile {tile}. The exercise asks for their bytes on all
#   tiles together.
# next: sort by variable.bytes of report.variables.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    live = {v.name for v in report.variables.live_at(step.number)}
    there = [name for name in report.memory.by_variable(tile.number) if name in live]
    return tile.number, step.number, there[:3]


# %% 06.1: the smallest first
# clause: the largest first
# why:  the names are right, but their order is reversed.
# next: put the largest variable first.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    live = sorted(report.variables.live_at(step.number), key=lambda variable: variable.bytes)
    return tile.number, step.number, [variable.name for variable in live[-3:]]


# %% 06.1: bytes of a tile
# why:  these variables have the most bytes per tile. The exercise asks for their bytes on all tiles
#   together.
# next: sort by variable.bytes, which is the sum over all tiles.
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
# not yet: the answer has 2 names
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 2)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: the names alone
# not yet: in this order
def peak(report):
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    return [
        variable.name for variable in report.variables.live_at(step.number).largest("bytes", 3)
    ][:2]


# %% 06.1: variables alone
# why:  the tiles are compared without the bytes of constants, such as palette.
# next: compare the tiles by tile.memory.total, which contains everything on the tile.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.category["Variables"])
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: live a step later
# why:  these variables are live one step later.
# next: use report.variables.live_at(step.number).
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number + 1).largest("bytes", 3)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: a row for its number
# clause: (number of the fullest tile
# not yet: the exercise asks for the number of the tile
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile, step.number, [variable.name for variable in largest]


# %% 06.1: the name of the step
# not yet: the exercise asks for the number of the step
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number, step.name, [variable.name for variable in largest]


# %% 06.1: the step with most bytes of variables
# clause: At which step do all tiles together hold the most
# why:  at this step the variables have the most bytes. But tiles also hold copies of other tiles'
#   data, and with these copies another step needs more.
# next: return the number of the step with the largest step.bytes, which includes the copies.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    steps = report.compilation.liveness_program_steps
    step = max(steps, key=lambda step: sum(step.variables.values()))
    largest = report.variables.live_at(step.number).largest("bytes", 3)
    return tile.number, step.number, [variable.name for variable in largest]


# %% 06.1: constants for all that is always live
# clause: including variables that are always live
# why:  variables that the host may write are missing. They are always live, like constants.
# next: use report.variables.live_at(step.number), which contains all variables that are live.
def peak(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    sizes = dict(step.variables)
    sizes |= {v.name: v.bytes for v in report.variables if v.category == "Constants"}
    return tile.number, step.number, sorted(sizes, key=sizes.get, reverse=True)[:3]


# %% 06.2: all others added up
# why:  In the second number, all variables that are not always live are added up, as if they were
#   live at the same time.
# next: add up the live variables of each step, and return the largest sum.
def split(report):
    always = sum(v.bytes for v in report.variables if v.always_live)
    return always, sum(v.bytes for v in report.variables if not v.always_live)


# %% 06.2: those that are always live counted twice
# why:  The second number includes the variables that are always live, so they are counted twice.
# next: leave out variables whose always_live is true.
def split(report):
    always = sum(v.bytes for v in report.variables.always_live())
    places = range(len(report.compilation.liveness_program_steps))
    return always, max(sum(v.bytes for v in report.variables.live_at(place)) for place in places)


# %% 06.2: with the buffers
# clause: Copies of other tiles' data are no variables
# why:  The second number includes copies of other tiles' data, which are no variables.
# next: add up step.variables, which has only variables.
def split(report):
    always = sum(v.bytes for v in report.variables.always_live())
    return always, max(step.bytes for step in report.compilation.liveness_program_steps)


# %% 06.2: from first to last
# clause: live at once, at most
# why:  A variable that is used twice may have a gap between its ranges, in which it is not live.
#   From variable.first to variable.last, the gap is counted, too.
# next: use report.variables.live_at(number), or each range in variable.ranges.
def split(report):
    always = sum(v.bytes for v in report.variables.always_live())
    places = range(len(report.compilation.liveness_program_steps))
    others = [v for v in report.variables if not v.always_live]
    return always, max(
        sum(v.bytes for v in others if v.first <= place <= v.last) for place in places
    )


# %% 06.2: the largest variable
# why:  The second number is the size of one variable, the largest. Several variables are live at
#   once.
# next: add up all variables that are live at a step.
def split(report):
    always = sum(v.bytes for v in report.variables.always_live())
    return always, max(v.bytes for v in report.variables if not v.always_live)


# %% 06.2: with code and stacks
# clause: bytes of variables are always live
# why:  The first number includes code, stacks and pointers. They are always live, but they are no
#   variables.
# next: add up variable.bytes only.
def split(report):
    steps = report.compilation.liveness_program_steps
    return steps[0].always_live_bytes, max(sum(step.variables.values()) for step in steps)


# %% 06.2: in the other order
# clause: (bytes of variables that are always live
# why:  the two numbers are in the wrong order.
# next: return the bytes that are always live first.
def split(report):
    always = sum(v.bytes for v in report.variables.always_live())
    return max(sum(s.variables.values()) for s in report.compilation.liveness_program_steps), always


# %% 06.2: one tile
# clause: of all tiles together.
# why:  these are the bytes of one tile. The exercise asks for all tiles together.
# next: use variable.bytes, which is the sum over all tiles.
def split(report):
    tile = max(report.compilation.tiles, key=lambda tile: tile.memory.total.excluding_gaps)
    return tile.memory.always_live_bytes, tile.memory.not_always_live_bytes


# %% 06.2: names instead of bytes
# not yet: return numbers of bytes
def split(report):
    return [v.name for v in report.variables.always_live()], [
        v.name for v in report.variables if not v.always_live
    ]


# %% 06.2: live at the end of a range, too
# why:  A range ends before its second number, like Python's range: with (2, 4), a variable is live
#   at steps 2 and 3.
# next: test begin <= number < end.
def split(report):
    always, most = sum(v.bytes for v in report.variables if v.always_live), 0
    others = [v for v in report.variables if not v.always_live]
    for place in range(len(report.compilation.liveness_program_steps)):
        live = [v for v in others if any(a <= place <= b for a, b in v.ranges)]
        most = max(most, sum(v.bytes for v in live))
    return always, most


# %% 06.2: the first range alone
# why:  A variable that is used twice has two ranges, and only the first one is counted.
# next: go through all of variable.ranges, or use report.variables.live_at(number).
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
# why:  The last step is left out, and at that step the most bytes are live.
# next: loop over range(len(report.compilation.liveness_program_steps)), without subtracting 1.
def split(report):
    always, most = sum(v.bytes for v in report.variables if v.always_live), 0
    for place in range(len(report.compilation.liveness_program_steps) - 1):
        live = [v for v in report.variables.live_at(place) if not v.always_live]
        most = max(most, sum(v.bytes for v in live))
    return always, most


# %% 06.2: the least
# why:  The second number is for the step at which the least is live. The exercise asks for the
#   most.
# next: use max instead of min.
def split(report):
    always = sum(v.bytes for v in report.variables if v.always_live)
    places = range(len(report.compilation.liveness_program_steps))
    return always, min(sum(v.bytes for v in report.variables.live_at(p)) - always for p in places)


# %% 06.2: how many there are
# why:  The second number is the number of live variables. The exercise asks for their bytes.
# next: add up variable.bytes.
def split(report):
    always, most = sum(v.bytes for v in report.variables if v.always_live), 0
    for place in range(len(report.compilation.liveness_program_steps)):
        most = max(most, sum(not v.always_live for v in report.variables.live_at(place)))
    return always, most


# %% 06.2: the mean
# why:  The second number is the mean over the steps. The exercise asks for the largest.
# next: use max instead of the sum divided by the number of steps.
def split(report):
    always = sum(v.bytes for v in report.variables if v.always_live)
    places = range(len(report.compilation.liveness_program_steps))
    live = [sum(v.bytes for v in report.variables.live_at(place)) - always for place in places]
    return always, sum(live) // len(live)


# %% 06.2: each tile at its own time
# why:  this adds up what each tile holds at its own fullest step, with code and copies. These steps
#   can be different.
# next: add up the bytes of report.variables.live_at(number) for each step, and return the largest
#   sum.
def split(report):
    held = [tile.memory for tile in report.compilation.tiles]
    return sum(m.always_live_bytes for m in held), sum(m.not_always_live_bytes for m in held)


# %% 06.2: the last place alone
# why:  this is what is live at the last step. The exercise asks for the step at which the most is
#   live.
# next: compute the sum for every step, and return the largest.
def split(report):
    always = sum(variable.bytes for variable in report.variables.always_live())
    return always, sum(report.compilation.liveness_program_steps[-1].variables.values())


# %% 06.2: at the step with most bytes
# clause: Copies of other tiles' data are no variables
# why:  The second number is for the step with the largest step.bytes, which includes copies of
#   other tiles' data. At another step, the variables alone have more bytes.
# next: return the largest sum(step.variables.values()) of all steps.
def split(report):
    always = sum(v.bytes for v in report.variables.always_live())
    step = max(report.compilation.liveness_program_steps, key=lambda step: step.bytes)
    return always, sum(step.variables.values())


# %% 06.2: constants for all that is always live
# clause: how many bytes of variables are always live
# why:  The first number counts only constants. Variables that the host may write are always live,
#   too.
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
# clause: The totals must be right, with all additions in FLOAT
# why:  the readings are converted to HALF on the way. That halves their memory, but rounds them to
#   11 bits.
# next: keep FLOAT, and save memory by adding one row after another.
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
# clause: The totals must be right
# why:  row 0 is missing in the totals.
# next: begin with Copy(readings[0], total).
def lean_total(graph, readings, total):
    graph.set_initial_value(total, 0)
    program = Sequence()
    for sensor in range(1, len(readings)):
        popops.add_in_place(graph, total, readings[sensor], program)
    return program


# %% 06.3: row 0 twice
# why:  row 0 is in the totals twice: it is copied, and then added.
# next: add from row 1 on.
def lean_total(graph, readings, total):
    program = Sequence(Copy(readings[0], total))
    for sensor in range(len(readings)):
        popops.add_in_place(graph, total, readings[sensor], program)
    return program


# %% 06.3: a tree that loses rows
# clause: for any number of sensors
# why:  each step adds the second half of the rows to the first half. Where the number of rows is
#   odd, the last row is left out.
# next: keep the last row of an odd number for the next step, or add the rows one after another.
def lean_total(graph, readings, total):
    work = graph.clone(readings)
    program, count = Sequence(Copy(readings, work)), len(readings)
    while count > 1:
        count //= 2
        popops.add_in_place(graph, work[:count], work[count : 2 * count], program)
    program.add(Copy(work[0], total))
    return program


# %% 06.3: every second row
# not yet: rows 1, 3, 5, 7, 9 and 11 of 13 are missing from the sums
def lean_total(graph, readings, total):
    program = Sequence(Copy(readings[0], total))
    for sensor in range(2, len(readings), 2):
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
# why:  `total` has only the last row, because each Copy overwrites the row before.
# next: add the later rows with popops.add_in_place.
def lean_total(graph, readings, total):
    return Sequence(*[Copy(readings[sensor], total) for sensor in range(len(readings))])


# %% 06.3: as it was
# clause: Write a program that fits
# not yet: Most of it is 'gathered'
def lean_total(graph, readings, total):
    return gathered_total(graph, readings, total)


# %% 06.3: another device
# clause: the memory of a tile stays as it is
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
# not yet: the later ones are missing
def lean_total(graph, readings, total):
    most = min(total.num_elements, 9000)
    graph.set_initial_value(total[most:], 0)
    return gathered_total(graph, readings[:, :most], total[:most])


# %% 06.3: a few readings at a time
# clause: at most 1.2 times the cycles
# not yet: add whole rows
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
# clause: stay on their tiles
# not yet: the tile mapping of `total` is fixed
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
# not yet: the tile mapping of `readings` is fixed
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
# not yet: only gives the name `total` to another tensor
def lean_total(graph, readings, total):
    program = Sequence()
    total = popops.reduce(graph, readings, [0], program)
    return program


# %% 06.3: added up in HALF
# not yet: it is nearly right: some numbers are converted to HALF
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
# not yet: the code uses the constant 13 for the number of tiles
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
# why:  `total` is 0 only when the program is loaded. A second run adds to the totals of the first
#   run.
# next: begin the program with Copy(readings[0], total).
def lean_total(graph, readings, total):
    room, program = graph.clone(total), Sequence()
    graph.set_initial_value(total, 0)
    for sensor in range(len(readings)):
        program.add(Copy(readings[sensor], room))
        popops.add_in_place(graph, total, room, program)
    return program


# %% 06.3: by way of another tile
# not yet: each row is sent twice
def lean_total(graph, readings, total):
    room = graph.add_variable(FLOAT, total.shape, "room")
    graph.set_tile_mapping(room, min(1, len(readings) - 1))
    program = Sequence(Copy(readings[0], total))
    for sensor in range(1, len(readings)):
        program.add(Copy(readings[sensor], room))
        popops.add_in_place(graph, total, room, program)
    return program


# %% 06.3: the mean
# why:  these are the means. The exercise asks for the sums.
# next: leave out the division.
def lean_total(graph, readings, total):
    room, program = graph.clone(total), Sequence(Copy(readings[0], total))
    for sensor in range(1, len(readings)):
        program.add(Copy(readings[sensor], room))
        popops.add_in_place(graph, total, room, program)
    popops.mul_in_place(graph, total, 1 / len(readings), program)
    return program


# %% 06.4: the largest variable
# not yet: this is the largest variable
def changed(before, after):
    found = compare(before, after)
    variable = after.variables.largest("bytes", 1)[0]
    return variable.name, found.of("cycles")[0].name, "mapping"


# %% 06.4: always a mapping
# clause: In the pair above
# not yet: The variable has another dtype
def changed(before, after):
    found = compare(before, after)
    return found.of("variables")[0].name, found.of("cycles")[0].name, "mapping"


# %% 06.4: always a type
# clause: which of the three kinds
# not yet: The variable is on other tiles
def changed(before, after):
    found = compare(before, after)
    return found.of("variables")[0].name, found.of("cycles")[0].name, "type"


# %% 06.4: type and mapping only
# not yet: the work was divided among another number of vertices
def changed(before, after):
    found = compare(before, after)
    kind = "type" if "dtype" in found.of("variables")[0].note else "mapping"
    return found.of("variables")[0].name, found.of("cycles")[0].name, kind


# %% 06.4: the longest step
# clause: which step is slower or faster because of this change
# not yet: this step takes the longest
def changed(before, after):
    found = compare(before, after)
    step = max(after.steps(), key=lambda step: step.cycles)
    return found.of("variables")[0].name, step.name, "mapping"


# %% 06.4: the first step
# not yet: this step takes as long as before
def changed(before, after):
    found = compare(before, after)
    names = [step.name for step in sorted(after.steps(), key=lambda step: step.cycles)]
    names.remove(found.of("cycles")[0].name)
    return found.of("variables")[0].name, names[0], "mapping"


# %% 06.4: the step for the variable
# clause: name of a step
# not yet: this is the name of a step
def changed(before, after):
    found = compare(before, after)
    return found.of("cycles")[0].name, found.of("variables")[0].name, "mapping"


# %% 06.4: a variable that is the same in both
# not yet: this variable is the same in both reports
def changed(before, after):
    found = compare(before, after)
    return "readings", found.of("cycles")[0].name, "mapping"


# %% 06.4: what the changed step reads
# clause: which variable changed, which step is slower or faster because of this change
# not yet: the variable that they write has another shape
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
# not yet: return one of these three words
def changed(before, after):
    found = compare(before, after)
    return found.of("variables")[0].name, found.of("cycles")[0].name, found.of("variables")[0].note


# %% 06.4: how many tiles
# clause: A variable may move to other tiles while the number of its tiles stays the same
# not yet: The number of its tiles is the same
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
# clause: every row of the disc
# not yet: row 200 was never read. next: begin the next read after the last row that was returned
def fed(disc):
    for first in range(0, len(disc), 256):
        yield from disc.read(first, 200)


# %% 06.5: all of it at once
# clause: Read as you go
# not yet: a read returns at most 256 rows
def fed(disc):
    yield from disc.read(0, len(disc))


# %% 06.5: the first of each read
# not yet: 3 rows were left out
def fed(disc):
    for first in range(0, len(disc), 256):
        yield disc.read(first, 256)[0]
    while True:
        yield disc.read(len(disc) - 1, 1)[0]


# %% 06.5: the last rows are left out
# clause: every row of the disc
# not yet: the rows ran out after 0 rows
def fed(disc):
    for first in range(0, len(disc) // 256 * 256, 256):
        yield from disc.read(first, 256)


# %% 06.5: reads that overlap
# not yet: the device got this row before
def fed(disc):
    for first in range(0, len(disc), 255):
        yield from disc.read(first, 256)
    yield from disc.read(0, 1)


# %% 06.5: backwards
# clause: in the same order
# not yet: the rows of each read are in reverse order
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
# not yet: the whole disc was read before the first row was yielded
def fed(disc):
    rows = []
    while len(rows) < len(disc):
        rows.extend(disc.read(len(rows), 256))
    return rows


# %% 06.5: round and round
# clause: End after the last row
# not yet: end after the last row of the disc
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
# clause: with which the sums are more than forty times as fast
# not yet: but not contiguously
def side_by_side(graph, moments, channels):
    return where_used(graph, moments, channels)


# %% 06.6: all on tile 0
# clause: The vertices stay on their tiles
# not yet: bytes are exchanged. And
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (moments, channels), "readings")
    graph.set_tile_mapping(readings, 0)
    return readings


# %% 06.6: channels first, without a view
# clause: Return a tensor of shape (moments, channels)
# not yet: its first dimension is the channels
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
# not yet: some elements are in it more than once
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (moments, 1), "readings")
    graph.set_tile_mapping(readings, 0)
    return readings.broadcast(channels, 1)


# %% 06.6: not mapped
# clause: map it, and return
# error in the answer: is not mapped to any tile
def side_by_side(graph, moments, channels):
    return graph.add_variable(FLOAT, (channels, moments), "readings").transpose()


# %% 06.6: an array
# not yet: which is no tensor
def side_by_side(graph, moments, channels):
    return np.zeros((moments, channels))


# %% 06.6: reshaped, not turned
# why:  reshape() keeps the order of the elements: its first row is the beginning of channel 0, not
#   one moment of all channels. So {crossing} bytes are exchanged.
# next: use transpose(), which exchanges rows and columns.
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings")
    for c in range(channels):
        graph.set_tile_mapping(readings[c], c * TILES // channels)
    return readings.reshape((moments, channels))


# %% 06.6: in HALF
# clause: Return the readings, as a tensor of shape
# not yet: a tensor of HALF
from ipu_teach import HALF


def side_by_side(graph, moments, channels):
    readings = graph.add_variable(HALF, (channels, moments), "readings")
    for c in range(channels):
        graph.set_tile_mapping(readings[c], c * TILES // channels)
    return readings.transpose()


# %% 06.6: thirteen tiles
# clause: any number of tiles
# why:  the code uses the constant 13 for the number of tiles.
# next: put graph.target.num_tiles in its place.
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings")
    for c in range(channels):
        graph.set_tile_mapping(readings[c], c * 13 // channels)
    return readings.transpose()


# %% 06.6: the share rounded down
# clause: on tile c * tiles // channels
# why:  channels // tiles is rounded down, so on 7 tiles some channels are on another tile than the
#   vertex that adds them up.
# next: map channel c to tile c * tiles // channels, and round down last.
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings")
    share = max(1, channels // graph.target.num_tiles)
    for c in range(channels):
        graph.set_tile_mapping(readings[c], c // share)
    return readings.transpose()


# %% 06.6: the share rounded down, and the rest on the last tile
# clause: on tile c * tiles // channels
# why:  channels // tiles is rounded down, and the last tile gets all channels that remain.
# next: map channel c to tile c * tiles // channels, and round down last.
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings")
    share = max(1, channels // graph.target.num_tiles)
    for c in range(channels):
        graph.set_tile_mapping(readings[c], min(c // share, graph.target.num_tiles - 1))
    return readings.transpose()


# %% 06.6: the share rounded up
# clause: on tile c * tiles // channels
# why:  the number of channels per tile is rounded up, so the first tiles get more channels than
#   they add up.
# next: map channel c to tile c * tiles // channels, and round down last.
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings")
    share = -(-channels // graph.target.num_tiles)
    for c in range(channels):
        graph.set_tile_mapping(readings[c], c // share)
    return readings.transpose()


# %% 06.w1: all that is live
# clause: that are live and belong to no variable
# why:  this is step.bytes: variables and copies together.
# next: subtract the bytes of the variables: sum(step.variables.values()).
def copied(report, place):
    return report.compilation.liveness_program_steps[place].bytes


# %% 06.w1: all that is live taken away
# clause: that are live and belong to no variable
# why:  this also subtracts the variables that are always live. They are not in step.bytes.
# next: subtract only the bytes of step.variables.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    return step.bytes - sum(variable.bytes for variable in report.variables.live_at(place))


# %% 06.w1: all that is live but constants taken away
# clause: that are live and belong to no variable
# why:  this also subtracts the variables that the host may write. They are always live, so they are
#   not in step.bytes.
# next: subtract only the bytes of step.variables, which leaves them out, too.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    live = report.variables.live_at(place)
    return step.bytes - sum(v.bytes for v in live if v.category != "Constants")


# %% 06.w1: the variables
# clause: copies of other tiles' data
# why:  these are the bytes of the variables. The exercise asks for the other bytes of the step.
# next: subtract them from step.bytes.
def copied(report, place):
    return sum(report.compilation.liveness_program_steps[place].variables.values())


# %% 06.w1: turned round
# why:  the sign is wrong: this subtracts all live bytes from those of the variables.
# next: subtract the bytes of the variables from step.bytes.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    return sum(step.variables.values()) - step.bytes


# %% 06.w1: the place before
# why:  these are the copies of the step before.
# next: use liveness_program_steps[number]: steps are counted from 0 there, too.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place - 1]
    return step.bytes - sum(step.variables.values())


# %% 06.w1: without holes
# why:  this counts a variable from the first step at which it is live to the last one. In between
#   there may be steps at which it is not live.
# next: subtract the bytes of step.variables, which has only the variables that are live at this
#   step.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    live = [
        variable
        for variable in report.variables
        if not variable.always_live and variable.ranges[0][0] <= place < variable.ranges[-1][1]
    ]
    return step.bytes - sum(variable.bytes for variable in live)


# %% 06.w1: the end counted in
# why:  this counts a variable at the end of its range, too, where it is no longer live.
# next: subtract the bytes of step.variables, which has only the variables that are live at this
#   step.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    live = [
        variable
        for variable in report.variables
        if not variable.always_live and any(begin <= place <= end for begin, end in variable.ranges)
    ]
    return step.bytes - sum(variable.bytes for variable in live)


# %% 06.w1: place 0 taken for none
# why:  nothing is subtracted at step 0. The other steps are right.
# next: treat step 0 like the others.
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    if not place:
        return step.bytes
    return step.bytes - sum(variable.bytes for variable in step.variables)


# %% 06.w2: by its rank
# why:  the rows of the two reports were paired by their rank in size. But a variable that gets
#   smaller can change its rank.
# next: pair the rows by their names.
def retyped(before, after):
    ranks = before.variables.largest("bytes", 99), after.variables.largest("bytes", 99)
    for old, new in zip(*ranks, strict=True):
        if old.dtype != new.dtype:
            return new.name


# %% 06.w2: the largest variable
# clause: one variable got another dtype
# why:  this is the largest variable, and its dtype is the same in both reports.
# next: return the name of the row of compare(before, after).of("variables") whose note contains
#   dtype.
def retyped(before, after):
    return after.variables.largest("bytes", 1)[0].name


# %% 06.w2: the whole row
# clause: return its name
# not yet: Change(
def retyped(before, after):
    return compare(before, after).of("variables")[0]


# %% 06.w2: the step
# why:  this is the step that is slower or faster because of the variable. The exercise asks for the
#   variable.
# next: use .of("variables") instead of .of("cycles").
def retyped(before, after):
    return compare(before, after).of("cycles")[0].name


# %% 06.w2: by its bytes
# clause: Return the name of the variable that has another dtype
# why:  this looks for a change in bytes. But a FLOAT and an INT have the same size.
# next: compare the dtypes, or use compare(before, after).of("variables").
def retyped(before, after):
    sizes = {variable.name: variable.bytes for variable in before.variables}
    changed = [v.name for v in after.variables if sizes.get(v.name, v.bytes) != v.bytes]
    return changed[0] if changed else None


# %% 06.w2: the note
# why:  this is the note of the comparison. The exercise asks for the name of the variable.
# next: return row.name of the same row.
def retyped(before, after):
    return compare(before, after).of("variables")[0].note


# %% 06.w3: columns first
# clause: All six elements of a variable of shape (2, 3)
# why:  this is right if the first index changed fastest. In a variable, the last index changes
#   fastest.
# next: write down the order: [0, 0], [0, 1], [0, 2], then [1, 0].
positions = 2, 1


# %% 06.w3: a transpose that moves
# clause: element [0, 1] of its transpose
# why:  a transpose moves nothing: its element [0, 1] is element [1, 0] of the variable.
# next: as the second number, write the position of element [1, 0] of the variable.
positions = 1, 1


# %% 06.w3: counted from 1
# clause: At which position among them, from 0 to 5
# why:  positions are counted from 0, and here they are counted from 1.
# next: subtract 1 from both numbers.
positions = 2, 4


# %% 06.w3: the two changed places
# clause: the position of [0, 1] in the variable, and in its transpose
# why:  the two numbers are right, but in the wrong order.
# next: give the position in the variable first.
positions = 3, 1


# %% 06.w3: in rows of two
# clause: element [0, 1] of its transpose
# why:  the second number counts rows of two elements. The rows of the variable have three.
# next: write down all six elements of the variable in their order, and count those before [1, 0].
positions = 1, 2
