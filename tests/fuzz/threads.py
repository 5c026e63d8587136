"""An answer whose thread still prints when its check is over, in a process of its own: Python's
print() does not hold on to the stream that it writes to, and one that is gone ends the process."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, sys, threading, time
from ipu_teach.lessons import check

def noisy():
    for _ in range(4000):
        print("x" * 10)

def answer(tiles, workers, megabytes):
    threading.Thread(target=noisy, daemon=True).start()
    return tiles * workers, megabytes * 1_000_000 // tiles

sys.setswitchinterval(1e-4)
verdicts = [bool(check("00.1", answer)) for _ in range(3)]
time.sleep(0.05)
os._exit(0 if all(verdicts) else 3)
"""


def still_printing() -> int:
    """The exit status of such a process; 0 where all went well."""
    run = [sys.executable, "-c", SCRIPT]
    return subprocess.run(run, stdout=subprocess.DEVNULL, timeout=120, check=False).returncode
