"""Published results of examples that use streaming memory, each as a row next to the kit's result.

The results are the values of remote variables, and the sizes of a tensor's shards. Published and
modelled results must be equal.
"""

from __future__ import annotations

from ipu_teach.device import IPUModel
from ipu_teach.engine import Engine
from ipu_teach.graph import Graph
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Copy, Sequence
from ipu_teach.types import FLOAT, INT, UNSIGNED_INT
from validation.row import MODEL, Row

VARIABLE = "graphcore/popart, docs/popxl/files/remote_variable.py"
TUTORIAL = "graphcore/examples, PopXL tutorial 5, remote variables and RTS"
LOCATIONS = 'graphcore/popart, docs, "Tensor locations"'


def updated(amounts: list[int]) -> list[tuple[int, int]]:
    """For each row of a remote buffer, return (value on the chip, value in the row) after a run.

    Each row first contains 1. The program loads it, adds the row's entry of `amounts`, and stores
    it.
    """
    device = IPUModel("ipu2", tiles_per_ipu=1).create_device()
    graph = Graph(device.target)
    program = Sequence()
    buffer = graph.add_remote_buffer("rows", INT, 1, len(amounts))
    for row, amount in enumerate(amounts):
        w = graph.add_variable(INT, (1,), f"w_{row}")
        where = graph.add_constant(UNSIGNED_INT, (1,), [row])
        for tensor in (w, where):
            graph.set_tile_mapping(tensor, 0)
        program.add(Copy(buffer, w, where))
        popops.add_in_place(graph, w, amount, program)
        program.add(Copy(w, buffer, where))
        graph.create_host_read(f"w_{row}", w)
    engine = Engine(graph, program)
    engine.load(device)
    for row in range(len(amounts)):
        engine.copy_to_remote_buffer([1], "rows", row)
    engine.run()
    rows = range(len(amounts))
    return [
        (int(engine.read_tensor(f"w_{r}")[0]), int(engine.copy_from_remote_buffer("rows", r)[0]))
        for r in rows
    ]


def rows() -> list[Row]:
    """Return the table rows for two kinds of examples from PopXL.

    The rows have the values of remote variables after updates, and the sizes of a tensor's shards.
    """
    [[chip, stored]] = updated([2])
    rows_after = [int(tensor) for _, tensor in updated([1, 2])]
    figures = [
        ("a row that holds 1, and 2 added: on the chip", VARIABLE, 3, chip),
        ("a row that holds 1, and 2 added: the row", VARIABLE, 3, stored),
        ("row w_0, which held 1, after its update", TUTORIAL, 2, rows_after[0]),
        ("row w_1, which held 1, after its update", TUTORIAL, 3, rows_after[1]),
        ("1 added to row w_0 after its update", TUTORIAL, 3, 1 + rows_after[0]),
        ("1 added to row w_1 after its update", TUTORIAL, 4, 1 + rows_after[1]),
    ]
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=1, num_ipus=4).create_device().target)
    tensor = graph.add_variable(FLOAT, (5, 2, 3), "sharded")
    poputil.map_tensor_linearly(graph, tensor, 1, 1)
    elements_per_shard = sorted(
        sum(b - a for a, b in tile) for tile in graph.get_tile_mapping(tensor)
    )[::-1]
    for shard, published in enumerate((8, 8, 7, 7)):
        name = f"[5, 2, 3] over 4 replicas: elements of shard {shard}, the largest first"
        figures.append((name, LOCATIONS, published, elements_per_shard[shard]))
    name = "[5, 2, 3] over 4 replicas: elements that fill up the shards"
    figures.append((name, LOCATIONS, 2, 4 * elements_per_shard[0] - tensor.num_elements))
    return [
        Row(name, MODEL, source, published=published, modelled=modelled, tolerance=0, why="exact")
        for name, source, published, modelled in figures
    ]
