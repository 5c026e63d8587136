"""Files that the kit saves, without pickle, and a compiled graph on disk.

Compared with `tiny`, which saves nothing, `writer` stores graph and programs as numbers in tables
and columns, without any Python. `reader` rebuilds them by the calls that a learner would make, and
checks everything. `codelet_sources` describes vertex classes by name, with a hash of their text.
Use them through `Executable.save` and `Executable.load`.

`schema` declares the contents of a saved file, and `archive` packs them. Reports use both.
"""
