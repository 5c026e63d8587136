"""Measure how a class fares on the hub: real JupyterHub, real proxy, scripted learners.

    python3 run.py hub [--learners 30]

Each learner works through lesson 01 over the kernels' own websocket protocol, at ten times the pace
of people: they read, answer each exercise wrong once and then right, and save. The output shows
lost kernels, how long cells took compared with the same cells alone, and memory. With `--trouble`
one learner takes all the memory that the hub allows, and the hub restarts meanwhile. It needs
`pip install -e '.[lab,hub]'` and `npm install configurable-http-proxy`, and Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))
from figures import Cells, compared, quantile
from learner import Answer, Learner
from plan import Step, solved, steps
from room import Room, free_memory, held, status_of

from ipu_course.checking.learner_calls import DONE
from ipu_course.checking.state import FILE, NoProgress, read

LESSON = "01"
ALONE = 3  # runs of a single learner
HASTE = 25.0  # how much faster than the class this learner is
GOAL = 5.0  # the goal for the 95th percentile: so many times the same cell alone
SPARE = 2.5  # GB that must be free when the next learner starts
SPREAD = 60.0  # seconds, at the pace of people, between the first and the last start
BOMB = "held = []\nwhile True:\n    held.append(bytearray(64 << 20))"
Seen = dict[str, list[tuple[int, Answer]]]  # by learner: steps and their answers
MARK = "a_name_of_hers = 2 * 21"  # is there at the end, or the kernel is another one


async def lesson(
    one: Learner, plan: list[Step], pace: float, seen: list[tuple[int, Answer]]
) -> None:
    """Go through a lesson; what each step came to goes into `seen`."""
    await one.run(MARK)
    for number, step in enumerate(plan):
        await asyncio.sleep(60 * step.minutes / pace)
        seen.append((number, await one.run(step.code, step.cell)))
    await one.save()


async def alone(room: Room, plan: list[Step], pace: float) -> dict[int, list[float]]:
    """Seconds of each step when nobody else is there."""
    found = defaultdict(list)
    one = Learner(room, "alone", pace)
    await one.arrive()
    for _ in range(ALONE):
        seen: list[tuple[int, Answer]] = []
        await one.open(solved(LESSON).name)
        await lesson(one, plan, pace * HASTE, seen)
        await one.close()
        for step, answer in seen:
            found[step].append(answer.seconds)
    await one.leave()
    return found


async def arrivals(room: Room, number: int, pace: float) -> tuple[list[Learner], list[float]]:
    """The learners, all of whom come at once, and seconds that each waited; fewer where memory
    ends."""
    coming: list[tuple[Learner, asyncio.Task[float]]] = []
    for count in range(number):
        if free_memory() < SPARE:
            print(f"{count} learners instead of {number}: less than {SPARE} GB of memory is left")
            break
        one = Learner(room, f"learner{count:02}", pace)
        coming.append((one, asyncio.create_task(one.arrive())))
        await asyncio.sleep(0.5)
    waits = await asyncio.gather(*(task for _, task in coming))
    return [one for one, _ in coming], waits


async def bomb(room: Room, pace: float) -> float:
    """One more learner, who takes all the memory that she can get; the moment at which she
    began."""
    one = Learner(room, "bomber", pace)
    await one.arrive()
    await one.open(solved(LESSON).name)
    began = time.monotonic()
    answer = await one.run(BOMB)
    said = answer.outputs[-1].get("ename", "") if answer.outputs else ""
    print(
        f"the bomb: {said or answer.status} after {answer.seconds:.1f} s, {one.kernels_lost} of "
        "her kernels lost"
    )
    await one.leave()
    return began


async def whole(given: argparse.Namespace, room: Room) -> bool:
    """The class, from the first who comes to the last figure; whether the goal was met."""
    plan = list(steps(LESSON))
    minutes = sum(step.minutes for step in plan)
    print(f"{os.cpu_count()} cores, {loaded()}, {free_memory():.1f} GB of memory free")
    print(f"the hub is up after {await room.start():.1f} s")
    base = await alone(room, plan, given.pace)
    print(
        f"alone, {ALONE} times: {sum(map(median, base.values())):.1f} s of waiting for {len(plan)} "
        f"cells, {loaded()}"
    )
    learners, waits = await arrivals(room, given.learners, given.pace)
    middle, last = quantile(waits, 0.5), max(waits)
    print(
        f"{len(learners)} come at once: a server after {middle:.0f} s, the last after {last:.0f} "
        f"s, {loaded()}"
    )
    seen: Seen = {one.name: [] for one in learners}
    began, starts = time.monotonic(), random.Random(1)

    async def take_part(one: Learner) -> None:
        await asyncio.sleep(starts.uniform(0, SPREAD) / given.pace)
        await one.open(solved(LESSON).name)
        await lesson(one, plan, given.pace, seen[one.name])

    busy = [asyncio.create_task(take_part(one)) for one in learners]
    if given.trouble:
        await asyncio.sleep(15 * minutes / given.pace)  # a quarter of the lesson
        blast = await bomb(room, given.pace)
        near = [
            (step, answer.seconds)
            for name in seen
            for step, answer in seen[name]
            if answer.began + answer.seconds >= blast
        ]
        if near:
            print(f"  cells of the others meanwhile: {told(compared(base, near))}")
        # half of it
        await asyncio.sleep(max(30 * minutes / given.pace - (time.monotonic() - began), 0))
        before = [one.reopened for one in learners]
        print(f"the hub restarts: it is back after {await room.restart():.1f} s", end="")
        await asyncio.sleep(10)
        broke = sum(one.reopened > count for one, count in zip(learners, before, strict=True))
        again = sum(one.repeated for one in learners)
        print(
            f"; {broke} learners' lines broke and were opened again, {again} cells were run a "
            "second time"
        )
    for task in busy:
        await task
    took = time.monotonic() - began
    print(
        f"lesson {LESSON}, {minutes:.0f} minutes of people at {given.pace:g} times their pace: "
        f"{took:.0f} s, {loaded()}"
    )
    return await verdict(room, learners, seen, plan, base)


async def shut_out(room: Room, one: Learner) -> bool:
    """Whether a learner and a stranger are refused at the class page, by the proxy's address and by
    its own."""
    for address in (f"{room.url}/services/class", room.class_page + "/services/class"):
        for path in ("/", "/table"):
            for token in (one.token, ""):
                if await status_of(address + path, token) not in (302, 403):
                    return False
    return True


async def verdict(
    room: Room,
    learners: list[Learner],
    seen: Seen,
    plan: list[Step],
    base: dict[int, list[float]],
) -> bool:
    """Print what became of the class; whether no kernel was lost, nothing saved was lost, and the
    goal was met."""
    answers = [(step, answer) for name in seen for step, answer in seen[name]]
    cells = compared(base, [(step, answer.seconds) for step, answer in answers])
    states = Counter(answer.status for _, answer in answers)
    same = [(await one.run("a_name_of_hers")).text.strip() == "42" for one in learners]
    kept = [(await one.stored())["cells"] == one.notebook["cells"] for one in learners]
    lost = sum(one.kernels_lost > 0 or not alive for one, alive in zip(learners, same, strict=True))
    print(
        f"cells: {told(cells)}; "
        f"{', '.join(f'{count} {state}' for state, count in states.most_common())}"
    )
    step, factor = cells.worst_cell
    print(
        f"  slowest beside itself alone: cell {plan[step].cell}, {factor:.1f} times at its own "
        "95th percentile"
    )
    done = [solved_by(room, one) for one in learners]
    kept_out = await shut_out(room, learners[0])
    print(f"the class page is {'refused' if kept_out else 'SHOWN'} to a learner and to a stranger")
    print(
        f"kernels lost: {lost}; notebooks as they were saved: {kept.count(True)} of {len(kept)}; ",
        end="",
    )
    print(f"exercises solved: {min(done)} to {max(done)} by each")
    memory = room.memory()
    each = [memory.get(one.name, 0.0) for one in learners]
    rest = sum(memory.values()) - sum(each)
    print(
        f"memory: {quantile(each, 0.5):.0f} MB a learner, {max(each):.0f} at most; hub, proxy, "
        f"services {rest:.0f} MB;",
        end=" ",
    )
    print(f"address space of a process {room.address_space():.2f} GB at most")
    met = (
        kept_out
        and lost == 0
        and all(kept)
        and cells.times[1] <= GOAL
        and states["ok"] == len(answers)
    )
    print(
        f"the goal, no kernel and nothing saved lost, and {GOAL:g} times at most, is "
        f"{'met' if met else 'missed'}"
    )
    return met


def loaded() -> str:
    """Return how busy this machine is, including other work."""
    return f"load average {os.getloadavg()[0]:.1f}"


def told(cells: Cells) -> str:
    """Return the times of cells, in words."""
    both = zip(cells.seconds, cells.times, strict=True)
    middle, high, longest = (
        f"{seconds:.2f} s ({times:.1f} times alone)" for seconds, times in both
    )
    return (
        f"{cells.answers} answers, the middle one {middle}, 95th percentile {high}, longest "
        f"{longest}"
    )


def solved_by(room: Room, one: Learner) -> int:
    """Return how many solved exercises the learner's own progress file has."""
    try:
        data = read(room.homes / one.name / "work" / FILE)
    except (OSError, NoProgress):
        return 0
    return sum(
        record.get("state") in DONE[:2]
        for record in data["records"].values()
        if isinstance(record, dict)
    )


def learners(word: str) -> int:
    """Return the number of learners that a word stands for."""
    if not word.isdecimal() or not 1 <= int(word) <= 100:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number from 1 to 100")
    return int(word)


def main(words: list[str]) -> int:
    """Run the command.

    Return 0 if the goal was met, 1 if it was missed, and 2 if the hub cannot run here.
    """
    parser = argparse.ArgumentParser(
        prog="python3 run.py hub",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument(
        "--learners",
        type=learners,
        default=30,
        metavar="N",
        help="1 to 100; 30 unless told",
    )
    parser.add_argument(
        "--pace", type=float, default=10.0, help="times the pace of people; 10 unless told"
    )
    parser.add_argument(
        "--memory", default="", help="limit of a process, as 2G, instead of the configuration's"
    )
    parser.add_argument(
        "--trouble", action="store_true", help="with a memory bomb, and a restart of the hub"
    )
    return held(parser.parse_args(words), whole)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
