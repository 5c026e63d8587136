# %% given
from ipu_teach import FLOAT, HALF
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Sequence


# %% 06.1: loops and indices
# passed: their fullest tile
def peak(report):
    held = report.memory.held_per_tile
    sizes = [size for _, size in report.memory.bytes_by_place()]
    step = sizes.index(max(sizes))
    live = [v for v in report.variables if v.always_live or any(a <= step < b for a, b in v.ranges)]
    live.sort(key=lambda v: v.bytes, reverse=True)
    return held.argmax(), step, [v.name for v in live][:3]


# %% 06.1: a list of three, a tuple of names
# passed: their fullest tile
def peak(report):
    tiles = report.compilation.tiles
    fullest = 0
    for tile in tiles:
        if tile.memory.total.excluding_gaps > tiles[fullest].memory.total.excluding_gaps:
            fullest = tile.number
    step = report.compilation.liveness_program_steps.largest("bytes", 1)[0].number
    return [fullest, step, tuple(v.name for v in report.variables.live_at(step).largest("bytes", 3))]


# %% 06.1: from the records
# passed: their fullest tile
def peak(report):
    steps = report.compilation.liveness_program_steps.records()
    step = max(steps, key=lambda row: row["bytes"])["number"]
    rows = sorted(report.variables.live_at(step).records(), key=lambda row: -row["bytes"])
    tile = max(range(len(report.compilation.tiles)), key=lambda t: report.compilation.tiles[t].memory.total.including_gaps)
    return tile, step, [row["name"] for row in rows[:3]]


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


# %% 06.1: live bytes summed by place
# like: the step with most bytes of variables
def peak(report):
    held = [tile.memory.total.including_gaps for tile in report.compilation.tiles]
    count = len(report.compilation.liveness_program_steps)
    live = [sum(v.bytes for v in report.variables.live_at(place)) for place in range(count)]
    place = int(np.argmax(live))
    names = [v.name for v in report.variables.live_at(place).largest("bytes", 3)]
    return held.index(max(held)), place, names


# %% 06.w1: without the variables
# passed: reports, step by step
def copied(report, place):
    step = report.compilation.liveness_program_steps[place]
    left = step.bytes
    for name in step.variables:
        left -= step.variables[name]
    return left


# %% 06.2: the variables at the largest step
# like: at the step with most bytes
def split(report):
    always = report.variables.always_live()
    steps = report.compilation.liveness_program_steps
    place = max(range(len(steps)), key=lambda k: steps[k].bytes)
    others = [v.bytes for v in report.variables.live_at(place) if not v.always_live]
    return sum(v.bytes for v in always), sum(others)


# %% 06.2: from the steps
# passed: 8 reports
def split(report):
    always = sum(v.bytes for v in report.compilation.always_live_variables)
    return always, max(sum(step.variables.values()) for step in report.compilation.liveness_program_steps)


# %% 06.2: less what is always live
# passed: 8 reports
def split(report):
    always = sum(v.bytes for v in report.variables if v.always_live)
    places = range(len(report.compilation.liveness_program_steps))
    return always, max(sum(v.bytes for v in report.variables.live_at(p)) for p in places) - always


# %% 06.2: with numpy, by ranges
# passed: 8 reports
def split(report):
    live = np.zeros(len(report.compilation.liveness_program_steps), int)
    always = 0
    for v in report.variables:
        if v.always_live:
            always += v.bytes
        else:
            for a, b in v.ranges:
                live[a:b] += v.bytes
    return [always, live.max()]


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


# %% 06.3: without a copy
# passed: the fullest tile holds
def lean_total(graph, readings, total):
    program = Sequence(Copy(readings[0], total))
    for sensor in range(1, len(readings)):
        popops.add_in_place(graph, total, readings[sensor], program)
    return program


# %% 06.3: a room for each row
# passed: the fullest tile holds
def lean_total(graph, readings, total):
    program = Sequence(Copy(readings[0], total))
    for sensor in range(1, len(readings)):
        room = graph.add_variable(FLOAT, total.shape, f"room {sensor}")
        graph.set_tile_mapping(room, 0)
        program.add(Copy(readings[sensor], room))
        popops.add_in_place(graph, total, room, program)
    return program


# %% 06.3: shared by all tiles
# passed: the fullest tile holds
def lean_total(graph, readings, total):
    part, n, tiles = graph.clone(total), total.num_elements, graph.target.num_tiles
    for tile in range(tiles):
        graph.set_tile_mapping(part[tile * n // tiles : (tile + 1) * n // tiles], tile)
    program = Sequence(Copy(readings[0], part))
    for sensor in range(1, len(readings)):
        popops.add_in_place(graph, part, readings[sensor], program)
    program.add(Copy(part, total))
    return program


# %% 06.3: from zero
# passed: the fullest tile holds
def lean_total(graph, readings, total):
    program = Sequence()
    popops.zero(graph, total, program)
    for row in range(readings.shape[0]):
        popops.add_in_place(graph, total, readings[row], program)
    return program


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


# %% 06.w2: from the variables themselves
# passed: five pairs
def retyped(before, after):
    dtypes = {v.name: v.dtype for v in before.variables}
    return [v.name for v in after.variables if v.dtype != dtypes[v.name]][0]


# %% 06.w2: by bytes, one by one
# like: by its bytes
def retyped(before, after):
    for old, new in zip(before.variables, after.variables):
        if old.bytes != new.bytes:
            return new.name


# %% 06.4: from the variables themselves
# passed: two with each kind of change
def changed(before, after):
    olds = {v.name: v for v in before.variables}
    lies = [[r.memory.by_variable(tile) for tile in range(TILES)] for r in (before, after)]
    for new in after.variables:
        old = olds[new.name]
        if old.dtype != new.dtype:
            name, kind = new.name, "type"
        elif old.shape != new.shape:
            name, kind = new.name, "split"
        elif any(a.get(new.name) != b.get(new.name) for a, b in zip(*lies)):
            name, kind = new.name, "mapping"
    for one, other in zip(before.execution.steps, after.execution.steps):
        if one.cycles != other.cycles:
            return name, one.name, kind


# %% 06.4: the rows as they are
# passed: two with each kind of change
def changed(before, after):
    found = compare(before, after)
    change = found.of("variables")[0]
    words = {"dtype": "type", "shape": "split"}
    return change, found.largest, words.get(change.note.split()[0], "mapping")


# %% 06.4: by what is seen in the report
# passed: two with each kind of change
def changed(before, after):
    rows = compare(before, after).data
    variable = next(row for row in rows if row["aspect"] == "variables")
    step = next(row for row in rows if row["aspect"] == "cycles")
    kind = "mapping" if variable["before"] == variable["after"] else "type" if "dtype" in variable["note"] else "split"
    return [variable["name"], step["name"], kind]


# %% 06.5: a while loop
# passed: discs of 5 to 1,000 rows
def fed(disc):
    first = 0
    while first < len(disc):
        rows = disc.read(first, 256)
        for row in rows:
            yield row
        first += len(rows)


# %% 06.5: a hundred at a time
# passed: discs of 5 to 1,000 rows
def fed(disc):
    for first in range(0, len(disc), 100):
        block = disc.read(first, 100)
        for i in range(len(block)):
            yield block[i]


# %% 06.5: a generator expression
# passed: discs of 5 to 1,000 rows
def fed(disc):
    return (row for first in range(0, len(disc), 256) for row in disc.read(first, 256))


# %% 06.w3: by numpy
# passed: and of its transpose
positions = [np.arange(6).reshape(2, 3)[0, 1], np.arange(6).reshape(2, 3).T[0, 1]]


# %% 06.6: a variable for each channel
# passed: 78 channels of 600 readings
from ipu_teach import concat


def side_by_side(graph, moments, channels):
    parts = []
    for c in range(channels):
        part = graph.add_variable(FLOAT, (moments, 1), f"channel {c}")
        graph.set_tile_mapping(part, c * graph.target.num_tiles // channels)
        parts.append(part)
    return concat(parts, 1)


# %% 06.6: turned first, then mapped as before
# passed: 78 channels of 600 readings
def side_by_side(graph, moments, channels):
    readings = graph.add_variable(FLOAT, (channels, moments), "readings").transpose()
    for c in range(channels):
        graph.set_tile_mapping(readings[:, c], c * graph.target.num_tiles // channels)
    return readings


# %% 06.6: a variable for each tile
# passed: 78 channels of 600 readings
from ipu_teach import concat


def side_by_side(graph, moments, channels):
    parts = []
    for tile in range(graph.target.num_tiles):
        mine = [c for c in range(channels) if c * graph.target.num_tiles // channels == tile]
        part = graph.add_variable(FLOAT, (len(mine), moments), f"of tile {tile}")
        graph.set_tile_mapping(part, tile)
        parts.append(part)
    return concat(parts).transpose()


# %% 06.1: the largest by a tile's share
# like: bytes of a tile
def peak(report):
    def share(variable):
        return variable.bytes / variable.tiles

    fullest = max(report.compilation.tiles, key=lambda tile: tile.memory.total.including_gaps)
    sizes = [step.bytes for step in report.compilation.liveness_program_steps]
    place = sizes.index(max(sizes))
    names = [v.name for v in sorted(report.variables.live_at(place), key=share, reverse=True)]
    return fullest.number, place, names[:3]


# %% 06.w2: the old name of a rank
# not yet: came: 'readings'
def retyped(before, after):
    names = [v.name for v in before.variables.largest("bytes", 99)]
    old = [v.dtype for v in before.variables.largest("bytes", 99)]
    new = [v.dtype for v in after.variables.largest("bytes", 99)]
    return next(name for name, a, b in zip(names, old, new, strict=True) if a != b)


# %% 06.3: a thousand moments at a time
# clause: The totals must be right
# not yet: the later ones are missing
def lean_total(graph, readings, total):
    sensors, moments = readings.shape
    program = Sequence(Copy(readings[0], total))
    buffer = graph.add_variable(FLOAT, total.shape, "buffer")
    graph.set_tile_mapping(buffer, 0)
    for sensor in range(1, sensors):
        program.add(Copy(readings[sensor], buffer))
        end = moments if moments < 1000 else moments // 1000 * 1000
        popops.add_in_place(graph, total[:end], buffer[:end], program)
    return program


# %% 06.4: as many tiles as before
# not yet: None expected
def changed(before, after):
    difference = compare(before, after)
    step = max(difference.of("cycles"), key=lambda row: abs(row.after - row.before)).name
    old = {variable.name: variable for variable in before.variables}
    for new in after.variables:
        was = old[new.name]
        if new.dtype != was.dtype:
            return new.name, step, "type"
        if new.tiles != was.tiles:
            return new.name, step, "mapping"
        if new.shape != was.shape:
            return new.name, step, "split"
