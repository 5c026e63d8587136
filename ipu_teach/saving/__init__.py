"""Files that the kit saves, without pickle, and a compiled graph on disk.

Compared with `tiny`, which forgets when it ends: graph and programs as numbers in tables and
columns, with no Python among them (`writer`); read back through the calls that a learner would
make, with nothing in the file trusted (`reader`); vertex classes by name, with a hash of their text
(`codelet_sources`). `Executable.save` and `Executable.load` are its door.

`schema` declares what any saved file holds, and `archive` packs it. Reports use both.
"""
