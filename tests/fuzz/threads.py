"""Check an answer whose thread still prints after its check, in a process of its own.

Python's print() holds no reference to the stream that it writes to. A stream that is freed
meanwhile ends the process.
"""

from __future__ import annotations

import os
import subprocess
import sys

# Each print() gets its stream, and waits for its text until the check is over. Then it writes the end
# of the line to the stream. PYTHONMALLOC=debug overwrites freed memory, so that a freed stream is
# never readable by chance.
SCRIPT = """
import gc, threading
from ipu_course import check

over, threads = threading.Event(), []

class Late:
    def __init__(self):
        self.asked = threading.Event()

    def __str__(self):
        self.asked.set()
        over.wait(60)
        return "late"

def answer(tiles, workers, megabytes):
    late = Late()
    threads.append(threading.Thread(target=print, args=(late,), daemon=True))
    threads[-1].start()
    late.asked.wait(60)
    return tiles * workers, megabytes * 1_000_000 // tiles

verdicts = [bool(check("00.1", answer)) for _ in range(3)]
gc.collect()
over.set()
for thread in threads:
    thread.join(60)
raise SystemExit(0 if all(verdicts) and threads else 3)
"""


def still_printing() -> int:
    """Run such a process; return its exit status, which is 0 if all went well."""
    run = [sys.executable, "-c", SCRIPT]
    debug = os.environ | {"PYTHONMALLOC": "debug"}
    return subprocess.run(
        run, stdout=subprocess.DEVNULL, timeout=180, check=False, env=debug
    ).returncode
