"""Array calls over all vertices of a group, prepared from their codelet's trace and repeated.

`batch_plan` prepares the calls. `placement` decides which regions are used in place, `buffers`
provides memory for computed values, and `chunk` appends the calls for some of the vertices, using
`operations`. If every operation is elementwise, `across_vertices` joins the regions of neighbouring
vertices.
"""
