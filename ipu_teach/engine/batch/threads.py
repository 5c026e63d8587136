"""Several threads for the vertices of a group: each has a share of them, with calls and buffers of
its own.

No bit depends on it, for no vertex sees another. It pays where a kernel computes more than it
moves: numpy lets go of the interpreter while it works, and two threads share one memory.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

import numpy as np

from ipu_teach.engine.backend import Call, run_all
from ipu_teach.engine.site import Site

LEAST_SHARE = 256  # vertices: fewer are not worth a thread


def shares(site: Site) -> list[Site]:
    """A site cut into one for each thread, or left whole if its group is small."""
    group, threads = site.group, site.how.threads
    if len(group.rows) < threads * LEAST_SHARE:
        return [site]
    return [
        replace(site, group=replace(group, rows=rows))
        for rows in np.array_split(group.rows, threads)
    ]


def together(pool: ThreadPoolExecutor, lists: list[list[Call]]) -> None:
    """Run several lists of calls at the same time. Raises what the first of them raises, when all
    have come to an end.

    So does an interruption: no thread is to write to memory behind the back of what comes next.
    """
    waiting: list[Future[None]] = []
    try:
        for calls in lists:
            waiting.append(pool.submit(_run, calls))
        errors = [job.exception() for job in waiting]
    finally:
        wait(waiting)
    for error in errors:
        if error is not None:
            raise error


def _run(calls: list[Call]) -> None:
    with np.errstate(all="ignore"):  # a thread has its own
        run_all(calls)
