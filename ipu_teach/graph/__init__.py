"""What a learner builds: tensors, vertices, and the graph that holds them.

Beside `tiny`: tensors are views of any shape, with layouts shared by all that are alike; vertices
are rows of a table for each codelet, added one at a time or in bulk; codelets have every kind of
field Poplar has, and contexts of six workers; the line of the learner's that made each thing is
kept for errors. Also linear mappings, streams, remote buffers, clones, virtual graphs, replicas,
and registers that say how numbers behave.
"""

from ipu_teach.graph.clone import TensorCloneMethod
from ipu_teach.graph.codelet_registry import codelet
from ipu_teach.graph.compute_set import ComputeSet
from ipu_teach.graph.debug import DebugContext
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.join import append, same_view
from ipu_teach.graph.mapping import VariableMappingMethod
from ipu_teach.graph.remote_buffer import RemoteBuffer
from ipu_teach.graph.stream import DataStream, ReplicatedStreamMode
from ipu_teach.graph.tensor import Shape, Tensor, UpsampleMethod, concat
from ipu_teach.graph.vector_layout import VectorLayout
from ipu_teach.graph.vertex import (
    InOut,
    Input,
    MultiVertex,
    Output,
    SupervisorVertex,
    Vector,
    VectorList,
    Vertex,
    template,
)
from ipu_teach.graph.vertex_table import VertexRange, VertexRef

__all__ = [
    "ComputeSet",
    "DataStream",
    "DebugContext",
    "Graph",
    "InOut",
    "Input",
    "MultiVertex",
    "Output",
    "RemoteBuffer",
    "ReplicatedStreamMode",
    "Shape",
    "SupervisorVertex",
    "Tensor",
    "TensorCloneMethod",
    "UpsampleMethod",
    "VariableMappingMethod",
    "Vector",
    "VectorLayout",
    "VectorList",
    "Vertex",
    "VertexRange",
    "VertexRef",
    "append",
    "codelet",
    "concat",
    "same_view",
    "template",
]
