"""Array calls over all vertices of a group at once, made from the trace of their codelet and
replayed at each step.

`plan` makes them: `placement` says which regions are used where they lie, `buffers` lends memory to
what is computed, and `chunk` appends the calls for some of the vertices, by `operations`.
`across_vertices` forgets where vertices end, where every operation is elementwise.
"""
