"""Learn to program a tile machine: Graphcore's IPU, simulated. Values are exact, time is modelled.

Start with the lessons (`python3 run.py`), or with the program in README, which imports this:

    from ipu_teach import Engine, Graph, IPUModel, Vertex, Input, Output, Vector, FLOAT
    from ipu_teach.program import Copy, Execute, Repeat, Sequence

To read how it works, begin with `tiny.py`, the machine in one file; docs/inside.md goes on.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ipu_teach import program
from ipu_teach.cost.lines import Observed
from ipu_teach.device import Device, DeviceManager, IPUModel, TargetType
from ipu_teach.elsewhere import not_in as _not_in
from ipu_teach.engine import Engine, Executable, compile_graph
from ipu_teach.errors import IPUTeachError, PoplarError
from ipu_teach.graph import (
    ComputeSet,
    DataStream,
    DebugContext,
    Graph,
    InOut,
    Input,
    MultiVertex,
    Output,
    RemoteBuffer,
    ReplicatedStreamMode,
    SupervisorVertex,
    Tensor,
    TensorCloneMethod,
    UpsampleMethod,
    VariableMappingMethod,
    Vector,
    VectorLayout,
    VectorList,
    Vertex,
    append,
    codelet,
    concat,
    same_view,
)
from ipu_teach.host import StreamCallback
from ipu_teach.observer import observe
from ipu_teach.register_steps import (
    FloatingPointBehaviour,
    get_hw_seeds,
    set_floating_point_behaviour,
    set_hw_seeds,
    set_stochastic_rounding,
)
from ipu_teach.report import (
    Report,
    compare,
    counter,
    open_report,
    print_profile_summary,
    tracepoint,
)
from ipu_teach.sweeps import Sweep, sweep
from ipu_teach.target import Target
from ipu_teach.types import (
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    LONGLONG,
    QUARTER,
    SHORT,
    SIGNED_CHAR,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    UNSIGNED_LONGLONG,
    UNSIGNED_SHORT,
    QuarterFormat,
    QuarterMetadata,
)

__version__ = "0.1.0"

__all__ = [
    "BOOL",
    "CHAR",
    "FLOAT",
    "HALF",
    "INT",
    "LONGLONG",
    "QUARTER",
    "SHORT",
    "SIGNED_CHAR",
    "UNSIGNED_CHAR",
    "UNSIGNED_INT",
    "UNSIGNED_LONGLONG",
    "UNSIGNED_SHORT",
    "ComputeSet",
    "DataStream",
    "DebugContext",
    "Device",
    "DeviceManager",
    "Engine",
    "Executable",
    "FloatingPointBehaviour",
    "Graph",
    "IPUModel",
    "IPUTeachError",
    "InOut",
    "Input",
    "MultiVertex",
    "Observed",
    "Output",
    "PoplarError",
    "QuarterFormat",
    "QuarterMetadata",
    "RemoteBuffer",
    "ReplicatedStreamMode",
    "Report",
    "StreamCallback",
    "SupervisorVertex",
    "Sweep",
    "Target",
    "TargetType",
    "Tensor",
    "TensorCloneMethod",
    "UpsampleMethod",
    "VariableMappingMethod",
    "Vector",
    "VectorLayout",
    "VectorList",
    "Vertex",
    "append",
    "codelet",
    "compare",
    "compile_graph",
    "concat",
    "counter",
    "get_hw_seeds",
    "observe",
    "open_report",
    "print_profile_summary",
    "program",
    "same_view",
    "set_floating_point_behaviour",
    "set_hw_seeds",
    "set_stochastic_rounding",
    "sweep",
    "tracepoint",
]

if not TYPE_CHECKING:  # a type checker is to complain about unknown names

    def __getattr__(name: str) -> Any:
        if name in ("poplibs", "show"):  # imported where they are used
            return import_module(f"ipu_teach.{name}")
        raise _not_in(
            "ipu_teach",
            name,
            {
                "pvti": "tracepoint(label) and counter(name), seen in report.host.",
                "DOUBLE": "FLOAT; no tile computes in 64 bits.",
                "poplar": "import ipu_teach as poplar.",
            },
            __all__,
        )
