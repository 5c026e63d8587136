"""Make the table in docs/operations.md from the tests of the front ends' operations.

python docs/make_operations.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("operations.md")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from ir_cases import GROUPS, CallRecorder, device, graph_of, random_graph, training_step  # noqa: E402

from ipu_teach.frontends import ir  # noqa: E402
from ipu_teach.frontends.ir.rows import no_gradients  # noqa: E402

OPENING, CLOSING = "<!-- table -->\n", "<!-- end of table -->"
MOST = 3  # The maximum number of shapes of an operation that the table shows.


def gradient(graph: ir.Ir, op: ir.Op) -> str:
    """Return the operations that compute the gradient of `op`, as a cell of the table."""
    gradient_rule = ir.OPS[op.kind].grad
    if gradient_rule is None:
        return "none: it changes a variable" if ir.OPS[op.kind].in_place else "none"
    if gradient_rule is no_gradients:
        return "0"
    if op.attrs.get("reverse"):
        return ""  # A reversed scan has a gradient only if the operations of its steps have one.
    gradient_graph = graph.but(ops=[])
    gradient_rule(gradient_graph, op, *(ir.Value(v.shape, v.dtype, "g") for v in op.outs))
    kinds = list(dict.fromkeys(added.kind for added in gradient_graph.ops))
    return ", ".join(f"`{kind}`" for kind in kinds) or "passed on"


def graphs() -> list[ir.Ir]:
    """Return the computation graphs of the tests, with gradients and updates."""
    tested_graphs = []
    for cases in GROUPS.values():
        graph, loss = graph_of(cases)
        tested_graphs.append(ir.autodiff(graph, loss)[0])
    tested_graphs += [
        training_step(kind)[0] for kind in ("sgd", "momentum", "adam", "adamw", "lars")
    ]
    accumulated = ir.accumulate(training_step("adam")[0], 2)
    tested_graphs.append(ir.phased(ir.sharded(ir.replicate(accumulated, 2))))
    return [*tested_graphs, ir.replicate(training_step("adam")[0], 2), random_graph()]


def table() -> str:
    """Return the table: for each operation, its tested shapes, library calls and gradient."""
    rows: dict[str, tuple[list[str], str]] = {}
    for graph in graphs():
        CallRecorder(graph, device(3, graph.replicas))
        for op in graph.ops:
            input_shapes = ", ".join(str(list(v.shape)) for v in op.inputs[:3])
            shapes, longest = rows.get(op.kind, ([], ""))
            if input_shapes not in shapes and len(shapes) < MOST:
                shapes.append(input_shapes)
            rows[op.kind] = shapes, max(longest, gradient(graph, op), key=len)
    lines = ["| operation | shapes tried | PopLibs calls | gradient |", "|---|---|---|---|"]
    for kind in ir.OPS:
        shapes, gradient_text = rows.get(kind, ([], ""))
        calls = (
            ", ".join(f"`{c}`" for c in CallRecorder.calls.get(kind, {}))
            or "none: a view, or a copy"
        )
        lines.append(f"| `{kind}` | {'; '.join(shapes)} | {calls} | {gradient_text} |")
    return "\n".join(lines)


def main() -> Any:
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(OPENING)[0], text.split(CLOSING)[1]
    PAGE.write_text(f"{before}{OPENING}{table()}\n{CLOSING}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
