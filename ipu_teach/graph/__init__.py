"""What a learner builds: tensors, vertices, and the graph that holds them."""

from ipu_teach.graph.codelets import codelet
from ipu_teach.graph.graph import ComputeSet, DataStream, Graph
from ipu_teach.graph.layouts import VectorLayout
from ipu_teach.graph.stream import ReplicatedStreamMode
from ipu_teach.graph.table import VertexRange, VertexRef
from ipu_teach.graph.tensor import Tensor, concat
from ipu_teach.graph.vertex import InOut, Input, MultiVertex, Output, SupervisorVertex, Vector, VectorList, Vertex

__all__ = [
    "ComputeSet", "DataStream", "Graph", "InOut", "Input", "MultiVertex", "Output", "ReplicatedStreamMode",
    "SupervisorVertex", "Tensor", "Vector", "VectorLayout", "VectorList", "Vertex", "VertexRange", "VertexRef", "codelet",
    "concat",
]  # fmt: skip
