"""Array calls over all vertices of a group, made from the trace of their codelet and replayed.

`batch_plan` makes the calls. `placement` decides which regions are used in place, `buffers`
provides memory for computed values, and `chunk` appends the calls for some of the vertices, with
the help of `operations`. `across_vertices` ignores the boundaries of vertices if every operation is
elementwise.
"""
