"""Six programs to make faster: small versions of published work on the machine, correct and slow.

Each file has three functions. `make(seed)` returns the data, `run(target, data)` returns a report
and the results by name, and `expected(data)` returns the same results, computed by numpy. The
function `take` copies a file for the learner.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from ipu_course.checking.notebooks import work_folder
from ipu_teach._support.places import not_kept, write_whole
from ipu_teach.errors import LessonError, did_you_mean, shown

__all__ = ["names", "take"]

HERE = Path(__file__).parent


def names() -> list[str]:
    """Return the names of the starters in alphabetical order."""
    return sorted(path.stem for path in HERE.glob("[a-z]*.py"))


def take(name: str) -> ModuleType:
    """Return the learner's own copy of a starter as a module, which each call reads again.

    The first call copies `NAME.py` into the work folder. An existing file is never overwritten. The
    original is still available for comparisons: `from ipu_course.starters import kalman`.

    :raises LessonError: if the name is unknown, or the copy cannot be written.
    """
    if name not in names():
        raise LessonError(f"""There is no starter {shown(name)}.
            next:  {did_you_mean(name, names())}take one of {", ".join(names())}.""")
    file = work_folder() / f"{name}.py"
    if file.exists():
        print(f"{file.name} in your work folder, as you left it.")
    else:
        try:
            write_whole(file, (HERE / file.name).read_text(encoding="utf-8"))
        except OSError as error:
            raise not_kept("The starter could not be copied", file, error) from error
        print(f"""{file.name} lies in your work folder now: right, and slow, and yours to change.
  next:  report, found = {name}.run(target), and ask report.why().
         After each change, {name} = take("{name}") reads your file again.""")
    # The source is executed instead of imported, because `import` would not notice a second change
    # within the same second. The module is in sys.modules, because codelets find their source
    # there.
    sys.modules[name] = module = ModuleType(name)
    module.__file__ = str(file)
    text = file.read_text(encoding="utf-8")
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return module
