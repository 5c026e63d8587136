"""Files that the kit saves, without pickle: compiled programs (executables) and reports.

Compared with `tiny`, which saves nothing, `writer` stores graph and programs as numbers in tables
and columns, without any Python. `reader` rebuilds them by the calls that a learner would make, and
checks everything. `codelet_sources` describes vertex classes by name, with a hash of their source
text. Use these modules through `Executable.save` and `Executable.load`.

`schema` declares the contents of a saved file, and `archive` packs them. Reports use both.

These terms occur in the docstrings of the package:

- A file has a *header*, which is JSON, and *columns*, which are arrays of integers. Large data are
  in the columns, and the header refers to the columns.
- A *codec* is a pair of functions that write a value to a file and read it.
- A *table* in the header is a list of values that stores equal values only once. Other parts of the
  header refer to a value by its index.
- The *error of the file format* is the class of error for a damaged file, such as
  `ReportLoadError`.
"""
