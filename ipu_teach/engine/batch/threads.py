"""Divide the vertices of a group among several threads, each with its own calls and buffers.

The results do not depend on the threads, because vertices are independent. Threads are worthwhile
if a kernel computes more than it moves data: numpy lets other threads run while it computes, but
all threads share the memory bandwidth.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

import numpy as np

from ipu_teach.engine.backend import Call, run_all
from ipu_teach.engine.site import Site

# The number of vertices below which a thread costs more time than it saves.
LEAST_SHARE = 256


def shares(site: Site) -> list[Site]:
    """Return a site for each thread, with nearly equal numbers of vertices.

    If a thread would get fewer than `LEAST_SHARE` vertices, return [site].
    """
    group = site.group
    threads = site.mode.threads
    if len(group.rows) < threads * LEAST_SHARE:
        return [site]
    return [
        replace(site, group=replace(group, rows=rows))
        for rows in np.array_split(group.rows, threads)
    ]


def run_parallel(pool: ThreadPoolExecutor, lists: list[list[Call]]) -> None:
    """Run several lists of calls at the same time, and wait for all of them.

    Only after that, the first error or the interruption is raised. So no thread writes to memory
    after this function has ended.
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
    with np.errstate(all="ignore"):  # numpy's error state is set per thread.
        run_all(calls)
