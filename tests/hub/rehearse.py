"""Rehearse half a day: three scripted learners of different speed on the hub.

    python3 run.py rehearsal [--pace 20]

The minutes are those of the timetable in docs/workshop.md; the answers, wrong and right, are those
in tests/lessons. When the timetable moves on, all learners do, finished or not. At each break and
at the end, the instructor's class page is checked, and saved as a picture if Playwright and
Chromium are installed. It needs the same as `python3 run.py hub`. It exits with 0 if no kernel was
lost and the fastest learner solved every exercise. Otherwise its last line says what is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from learner import Learner
from plan import ROOT, Step, solved, steps
from room import Room, held

from ipu_course.checking.gaps import read_notebook, source_of
from ipu_course.checking.naming import LESSON
from ipu_course.classroom.board import tables, text
from ipu_course.classroom.plans import PLANS
from ipu_course.classroom.roster import called

TAKEN = PLANS["half-day"]  # The exercises of each lesson in the half day.
AHEAD = {"07": ("07.4",)}  # for learners who are done early


@dataclass(frozen=True)
class Kind:
    """A kind of learner: a factor on the plan's minutes, and wrong answers before a right one."""

    name: str
    slowness: float
    wrong_first: int


KINDS = (Kind("ada", 0.7, 0), Kind("ben", 1.0, 1), Kind("cleo", 1.7, 3))


@dataclass(frozen=True)
class Slot:
    """A row of the timetable: its first and last minute, and its lesson, "" for anything else."""

    begin: int
    end: int
    lesson: str


def timetable(page: str, title: str = "Half a day") -> list[Slot]:
    """Return the rows of the timetable with this title in the text of docs/workshop.md."""
    rows = re.findall(
        rf"^\| (\d+) \| ({LESSON})?", page.split(f"## {title}\n")[1].split("\n## ")[0], re.MULTILINE
    )
    minutes = [int(minute) for minute, _ in rows]
    return [
        Slot(*pair, lesson)
        for *pair, lesson in zip(minutes, minutes[1:], (row[1] for row in rows), strict=False)
    ]


def taken(lesson: str, kind: Kind) -> Iterator[Step]:
    """Yield the steps of a kind of learner in a lesson.

    They solve the exercises of the day. For the others they run the cells and leave the gaps.
    """
    blank = [
        source_of(cell) for cell in read_notebook(ROOT / "notebooks" / solved(lesson).name)["cells"]
    ]
    wanted = TAKEN[lesson] + (AHEAD.get(lesson, ()) if kind.slowness < 1 else ())
    doing = [
        step
        for step in steps(lesson, kind.wrong_first)
        if step.exercise in (*wanted, "") or step.right
    ]
    last = max(number for number, step in enumerate(doing) if step.exercise == wanted[-1])
    for step in doing[: last + 1]:
        if step.exercise in (*wanted, ""):
            yield replace(step, minutes=step.minutes * kind.slowness)
        else:
            yield replace(step, code=blank[step.cell], minutes=0.0)


async def half_day(given: argparse.Namespace, room: Room) -> bool:
    """The whole rehearsal; whether no kernel was lost, and whoever had the time solved what there
    was."""
    slots = timetable((ROOT / "docs" / "workshop.md").read_text(encoding="utf-8"))
    given.pictures.mkdir(parents=True, exist_ok=True)
    await room.start()
    learners = [(Learner(room, kind.name, given.pace), kind) for kind in KINDS]
    waits = await asyncio.gather(*(one.arrive() for one, _ in learners))
    print(
        f"load average {os.getloadavg()[0]:.1f}; servers after "
        f"{', '.join(f'{wait:.0f}' for wait in waits)} s"
    )
    eye = Eye(room, given.pictures)
    began, space = time.monotonic(), 0.0

    def minute() -> float:
        return (time.monotonic() - began) * given.pace / 60

    async def until(then: float) -> None:
        await asyncio.sleep(max(then - minute(), 0) * 60 / given.pace)

    async def sit(one: Learner, kind: Kind, slot: Slot) -> str:
        """One learner in one slot; what is to be said of it."""
        nonlocal space
        await one.open(solved(slot.lesson).name)
        plan, errors, said = list(taken(slot.lesson, kind)), 0, ""
        for number, step in enumerate(plan):
            if minute() + step.minutes > slot.end:
                said = (
                    f"is stopped before cell {step.cell}, {len(plan) - number} of {len(plan)} runs "
                    "to go"
                )
                await until(slot.end)
                break
            await asyncio.sleep(60 * step.minutes / given.pace)
            errors += (await one.run(step.code, step.cell)).status != "ok"
        said = said or f"is done at minute {minute():.0f}"
        await one.save()
        space = max(space, room.address_space())
        await one.close()
        return f"{one.name} {said}" + (f", {errors} cells with errors" if errors else "")

    try:
        for slot in slots:
            await until(slot.begin)
            if slot.lesson:
                said = await asyncio.gather(*(sit(one, kind, slot) for one, kind in learners))
                print(f"minute {slot.begin}, lesson {slot.lesson}: {'; '.join(said)}")
            elif slot.begin:  # a break, or the end
                await until((slot.begin + slot.end) / 2)
                print(
                    f"\nminute {slot.begin}, the class "
                    f"page:\n\n{text(tables(called([str(room.homes)])))}\n"
                )
                await eye.look(f"minute{slot.begin:03}")
    finally:
        await eye.shut()
    lost = sum(one.kernels_lost for one, _ in learners)
    page = called([str(room.homes)])
    open_by_learner = {
        learner.name: [
            name
            for names in TAKEN.values()
            for name in names
            if learner.state(name) not in ("solved", "with help")
        ]
        for learner in page.learners
    }
    for name, unsolved in open_by_learner.items():
        print(f"of the day's exercises {name} has open: {', '.join(unsolved) or 'none'}")
    pictures = given.pictures if eye.saw else "none, Playwright or Chromium is missing"
    print(f"address space of a process {space:.2f} GB at most")
    print(f"load average {os.getloadavg()[0]:.1f}; pictures: {pictures}")
    open_still = open_by_learner.get(KINDS[0].name, ["any: the class page does not list them"])
    print(conclusion(KINDS[0].name, lost, open_still, given.pace))
    return lost == 0 and not open_still


def conclusion(name: str, lost: int, open_still: list[str], pace: float) -> str:
    """Return the last line: whether the rehearsal passed, and if not, why and what to do.

    `name` is the learner with time for every exercise, and `open_still` the exercises that this
    learner did not solve. `lost` is the number of lost kernels.
    """
    problems = [f"kernels were lost: {lost}"] if lost else []
    if open_still:
        problems.append(
            f"{name} has time for every exercise, but did not solve {', '.join(open_still)}"
        )
    if not problems:
        return f"The rehearsal passed: no kernel was lost, and {name} solved every exercise."
    return (
        f"The rehearsal failed: {'; '.join(problems)}. Other work on this machine makes cells slow; "
        f"at a lower pace it delays the learners less. next: python3 run.py rehearsal --pace "
        f"{pace / 2:g}"
    )


class Eye:
    """The instructor's browser: it logs in once, keeps the class page open, and takes pictures."""

    def __init__(self, room: Room, pictures: Path) -> None:
        self.room, self.pictures, self.saw = room, pictures, 0
        self._page: Any = None
        self._playwright: Any = None

    async def look(self, name: str) -> None:
        """A picture of the page as it stands, light and wide, then dark and narrow."""
        with suppress(ImportError):
            await self._open()
        if self._page is None:
            return
        await asyncio.sleep(6)  # the page reloads its data every five seconds
        for scheme, width in (("light", 1280), ("dark", 400)):
            await self._page.emulate_media(color_scheme=scheme)
            await self._page.set_viewport_size({"width": width, "height": 800})
            await self._page.screenshot(path=self.pictures / f"{name}_{scheme}.png", full_page=True)
        self.saw += 1

    async def _open(self) -> None:
        from playwright.async_api import async_playwright

        chromium = shutil.which("chromium")
        if self._page is not None or not chromium:
            return
        self._playwright = await async_playwright().start()
        browser = await self._playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        self._page = await browser.new_page()
        await self._page.goto(f"{self.room.url}/hub/login?next=/services/class/")
        await self._page.fill("#username_input", "instructor")
        await self._page.fill("#password_input", self.room.admin_password)
        await self._page.click("#login_submit")
        await self._page.wait_for_selector("#class")

    async def shut(self) -> None:
        if self._playwright is not None:
            await self._playwright.stop()


def main(words: list[str]) -> int:
    """Run the command.

    Return 0 if all went well, 1 if not, and 2 if the hub cannot run here.
    """
    parser = argparse.ArgumentParser(
        prog="python3 run.py rehearsal",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument(
        "--pace",
        type=float,
        default=20.0,
        help="times the pace of people; 20 unless told: twelve minutes",
    )
    parser.add_argument(
        "--memory", default="", help="limit of a process, as 2G, instead of the configuration's"
    )
    folder = Path(tempfile.gettempdir()) / "ipu_teach_rehearsal"
    parser.add_argument(
        "--pictures", type=Path, default=folder, help=f"where pictures go; {folder} unless told"
    )
    return held(parser.parse_args(words), half_day)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
