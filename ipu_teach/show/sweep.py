"""The view `sweep`: one program on several machines or in several forms, with the quickest and the slowest run named.

A bar for each report, in the order given, is as long as its run, and split as the average tile spends it. Modelled.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ipu_teach.engine.sweep import Sweep
from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.report import Report
from ipu_teach.show import palette
from ipu_teach.show.facts import checked
from ipu_teach.show.scene import Bar, Drawing, Lanes, Scene, Still, label, number
from ipu_teach.show.view import View

# By what `Report.proportions` calls it.
PARTS = {
    "compute": palette.COMPUTE,
    "exchange": palette.EXCHANGE,
    "exchange between IPUs": palette.LINKS,
    "host exchange": palette.HOST,
    "sync and waiting": palette.WAIT.lettered("W", "sync and waiting"),
}
MOST = 64


def sweep(found: Sweep | Mapping[object, Report]) -> View:
    """What `engine.sweep` found, or reports by the value that tells them apart: `show.sweep({16: a, 32: b})`.

    The line stands at the end of the quickest run. Up to 64 are shown. Raises `InvalidOptionError` for something else, for
    nothing, and for a report in which nothing has run, unless the sweep says that it does not fit.
    """
    if isinstance(found, Sweep):
        rows = [(counted(n, "tile"), r, fits) for (n, r), fits in zip(found, found.fits, strict=True)]
    elif isinstance(found, Mapping):
        rows = [(label(name, 24), checked(report, "sweep"), True) for name, report in found.items()]
    else:
        raise InvalidOptionError(f"""show.sweep() was given {shown(found)}, which is no sweep.
            next:  give it sweep(build, num_tiles=[…]), or reports by name: {{"16 rows": a, "32 rows": b}}.""")
    ran = [i for i, (_, report, fits) in enumerate(rows[:MOST]) if fits and report.num_steps]
    if not ran:
        raise InvalidOptionError("show.sweep() was given nothing that has run.", next_step="give it a report at least.")
    clocks = {report.target.tile_clock_frequency for _, report, _ in rows}
    unit = "modelled cycles" if len(clocks) == 1 else "modelled ns"
    return View(_scene(rows[:MOST], ran, unit, [f"The picture shows {MOST} of {len(rows):,}."] if len(rows) > MOST else []))


def _scene(rows: list[tuple[str, Report, bool]], ran: list[int], unit: str, notes: list[str]) -> Scene:
    scale = [1.0 if unit == "modelled cycles" else 1e9 / report.target.tile_clock_frequency for _, report, _ in rows]
    total = np.array([round(rows[i][1].total_cycles * scale[i]) if i in ran else 0 for i in range(len(rows))])
    best, worst = min(ran, key=lambda i: total[i]), max(ran, key=lambda i: total[i])
    shares = np.array([[r.proportions[name] if i in ran else 0.0 for name in PARTS] for i, (_, r, _) in enumerate(rows)])
    ends = np.round(np.cumsum(shares, axis=1) * total[:, None]).astype(np.int64)
    parts = np.diff(ends, axis=1, prepend=0)
    some = [i for i in range(len(PARTS)) if parts[:, i].any()]
    bars = tuple(Bar(i, ends[:, i] - parts[:, i], parts[:, i], 0) for i in some)
    said = {best: ", quickest", worst: ", slowest"} if total[best] < total[worst] else {}
    names = tuple(name + (said.get(i, "") if i in ran else ", does not fit") for i, (name, *_) in enumerate(rows))
    values = {"all": total} | {f"part{i}": parts[:, i] for i in some}
    told = ", ".join(f"{name} {{part{i}}}" for i, name in enumerate(PARTS) if i in some)
    say = f"{{label}}: {{all}} {unit}; the average tile: {told}"
    span = int(total[worst]) or 1
    times = f", {total[worst] / total[best]:.2f} times as long" if total[best] and total[best] < total[worst] else ""
    quick, slow = (f"{rows[i][0]}, {number(total[i])}" for i in (best, worst))
    note = f"quickest {quick} {unit}; slowest {slow}{times}"
    head, high = "a run below the other; the line is the quickest", 22.0 * len(rows)
    lanes = Lanes("runs", head, 150, 34, 554, high, len(rows), None, names, say, values, True, limit=int(total[best]))
    cells = ([number(v) if i in ran else "" for v in (total[i], *parts[i])] for i in range(len(rows)))
    return Scene(
        "sweep",
        f"{counted(len(rows), 'run')} side by side",
        f"{counted(len(rows), 'run')} side by side: {note}.",
        34 + lanes.height + 22,
        tuple(PARTS.values()),
        (lanes,),
        (Still("the runs", note, 0, 0, True, lanes={"runs": (0, 0, span)}),),
        np.zeros(1, np.int64),
        (("run", unit, *PARTS), tuple((name, *row) for name, row in zip(names, cells, strict=True))),
        (Drawing(span, bars, unit),),
        notes=tuple(notes),
    )
