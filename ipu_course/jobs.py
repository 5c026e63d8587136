"""The jobs of the command line, with the same names for `run.py` and `ipu-teach`.

run.py loads this file by itself before any package is installed. It therefore imports only the
standard library.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Sequence

LISTED = """\
  lab         open a lesson in JupyterLab, as your own copy in the work folder: lab 03; the first
              one where none is named, as run.py alone does
  run         run a solved lesson, or a notebook file of yours, without a browser: run 03
  mnist       run lesson 07, which learns to read digits (--data mnist, --html FILE)
  cnn         run lesson 07b, a small CNN
  reset       put a fresh copy of a lesson into the work folder; your old one is kept beside it
  slides      write a lesson's pictures as slides with speaker's notes, a page that needs no network
  doctor      say what is here, what is missing, and what to do about it (--workshop: try it all)
  report      print a saved report, compare two, or write one as a trace for Perfetto
  estimate    print how long a network such as ResNet-50 takes on a machine, without building it
  class       show how far a class is, from the learners' own progress files
  grade       run learners' notebooks in processes with limits, and give points for their answers
  assignment  write a lesson as an assignment of nbgrader
  handout     write the reference answers of a lesson as a page
  golden      print every published figure beside what the kit models, and why the two differ

For those who work on the kit, in its repository:

  test        run every test, and mypy beside them; test --quick, the first thing after a change,
              takes under a minute on two cores
  learner     write the learner's notebooks from the solved ones
  fuzz        run random programs on every way, against a judge (--minutes N, --seed S)
  models      run small models of published packages, and compare them with torch on the CPU
  mutants     damage the lessons' answers in small ways, and see that no check lets one pass
  clauses     list the clauses of an exercise's text beside the wrong answers that break them
  verdicts    record the verdict on every known answer, and compare two records
  entered     run the tests, and name the functions that nothing enters
  names       say which lesson shows what each exercise needs, on every path through them
  site        make the folder site: the lessons with their pictures live, the pages of docs and a
              reference, to be read without a kernel
  pack        make a folder or zip that sets up without a network: the kit, the lessons, the wheels
  release     build sdist and wheel, check them, try them on every Python to be had
  cheatsheet  make the kit on two pages for print: docs/cheat_sheet.html, and a PDF by Chromium
  bench       measure how fast the kit is, each workload beside a floor
  hub         run a class of scripted learners on JupyterHub, on this machine
  rehearsal   run half a day with three scripted learners on the hub; pictures of the class page
  size        count the tokens and lines of each room; size COMMIT: and the change since then
  language    lint texts, draw some for a fresh reader, and count vague names
"""
WORDS: dict[str, str] = dict(re.findall(r"^  ([a-z]+) +(.+(?:\n {14}.+)*)", LISTED, re.MULTILINE))
# Each of these jobs has a script in the repository. The other jobs are in `ipu_course.cli`.
SCRIPTS = {
    "test": "tests",
    "fuzz": "tests/fuzz",
    "models": "tests/models",
    "mutants": "tests/lessons/mutants.py",
    "clauses": "tests/lessons/clauses.py",
    "verdicts": "tests/lessons/verdicts.py",
    "entered": "tests/entered.py",
    "names": "tests/lessons/names.py",
    "site": "docs/site",
    "pack": "pack",
    "release": "pack/release.py",
    "cheatsheet": "docs/make_cheat_sheet.py",
    "bench": "bench",
    "hub": "tests/hub",
    "rehearsal": "tests/hub/rehearse.py",
    "size": "tests/size.py",
    "language": "tests/language.py",
}
BARE = ("size", "language")  # The jobs that run on any Python, without an environment.
TEST_TOOLS = (
    *("pytest", "xdist", "coverage", "nbval", "hypothesis", "ml_dtypes"),
    *("mypy", "ruff", "yaml", "scipy", "hatchling"),
)
# Maps a job to (extra, modules): the extra in pyproject.toml that the job needs in addition to the
# lessons' packages. run.py installs the extra into .venv before the job first runs, if one of these
# modules is missing.
EXTRAS: dict[str, tuple[str, Sequence[str]]] = {
    "site": ("docs", ("sphinx", "myst_nb", "pydata_sphinx_theme")),
    **dict.fromkeys(
        (
            *("test", "fuzz", "models", "mutants", "clauses", "verdicts", "entered", "names"),
            *("release", "bench", "hub", "rehearsal"),
        ),
        ("test", TEST_TOOLS),
    ),
}


def answer(program: str, words: Sequence[str]) -> None:
    """Return None if the first word is a job; otherwise print help or an error, and exit."""
    job = words[0] if words else ""
    if job in WORDS or job == "--version":
        return
    listed = f"usage: {program} JOB [arguments]\n\n{LISTED}\n{program} JOB --help says more of one."
    if job in ("-h", "--help", "help"):
        print(listed)
        sys.exit(0)
    near = [f"lab {job}"] if job.isdigit() else difflib.get_close_matches(job, WORDS, 1)
    problem = "which job?"
    if job:
        problem = f"there is no job {job!r}" + (f": {near[0]}?" if near else ".")
    print(f"{program.split()[-1]}: {problem} These are there:\n\n{listed}", file=sys.stderr)
    sys.exit(2)
