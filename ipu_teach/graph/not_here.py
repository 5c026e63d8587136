"""Advice for names that Poplar's Graph and Tensor or numpy's arrays have, but this kit does not."""

from __future__ import annotations

from ipu_teach.errors import NotOfferedError
from ipu_teach.graph.numpy_calls import CALLS, call_for

GRAPH = {
    "add_host_function": (
        "copy to a stream that ends in a function: engine.connect_stream(handle, function)."
    ),
    "add_function_buffer": (
        "graph.add_function and Call; the code of functions always lies on the tiles."
    ),
    "serialize": (
        "keep the Python that builds the graph, or save the executable: compile_graph(graph, "
        "program).save(path)."
    ),
    "reorder_to_simplify": "nothing: regions are found by the kit, in whatever order a view has.",
    "get_simplifying_rearranger": (
        "nothing: regions are found by the kit, in whatever order a view has."
    ),
    "get_sorted_contiguous_regions": "tensor.get_contiguous_regions().",
    "find_unbroadcast_tensor": "keep the tensor as it was before broadcast.",
    "trace": "debug_context= on every call that makes something, or a DebugContext.",
    "get_max_field_dim": "Vertex.fields names each field's depth.",
    "get_max_vertex_field_value": "any length up to the tile's memory.",
}
TENSOR = {
    "associate_metadata": (
        "tensor.reinterpret(QUARTER[format, scale]): format and scale are a part of the dtype."
    ),
}
ARRAY = {"ndim": "tensor.rank.", "size": "tensor.num_elements."} | {
    name: call_for(name) for name in CALLS if name not in ("reshape", "transpose", "squeeze")
}


def no_flops() -> NotOfferedError:
    """Return the error for an estimate of floating-point operations, which no report counts."""
    return NotOfferedError("""set_perf_estimate() was given flops, which this kit does not count.
        next:  give only cycles.""")
