"""A compiled graph on disk.

Beside `tiny`, which forgets when it ends: graph and programs as numbers in tables and columns, with
no Python among them (`writer`); read back through the calls that a learner would make, with nothing
in the file trusted (`reader`); vertex classes by name, with a hash of their text (`codelets`).
`Executable.save` and `Executable.load` are its door.
"""

from ipu_teach.saved.reader import rebuild
from ipu_teach.saved.writer import EXECUTABLE, written

__all__ = ["EXECUTABLE", "rebuild", "written"]
