"""The objects of which learners build programs: tensors, vertices, and their graphs.

Compared with `tiny`, tensors are views of any shape, and equal views refer to the same layout. A
compute set has a table for each codelet, in which a row is a vertex. Vertices are added one at a
time or in bulk. Codelets have every kind of field that Poplar has, and run on one worker thread, on
all six, or on the whole tile. For error messages, each object stores the line of the learner's code
that created it.

The package also has linear mappings, streams, remote buffers, clones, virtual graphs, replicas, and
the registers that control arithmetic.
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
