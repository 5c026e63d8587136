"""The rows of docs/poplar.md: one for each C++ name, with the differences of the Python API.

docs/make_poplar_table.py writes the page. The rows of docs/poplibs.md are in docs/poplibs_rows,
which has a module for each library.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A row of the table.

    - `cpp` is the C++ name.
    - `ours` is a path below `ipu_teach`, or "" if there is no counterpart.
    - `differs` describes the differences.
    - `example` is code that the tests run.
    - `does` is a description; without it, the first sentence of the docstring is used.
    """

    cpp: str
    ours: str
    differs: str = ""
    example: str = ""
    does: str = ""


TARGET = [
    Row(
        "IPUModel",
        "IPUModel",
        "fields are keywords too: `IPUModel(tiles_per_ipu=13)`; the presets are ipu1, ipu2, bow "
        "and c600",
        'IPUModel("ipu2", tiles_per_ipu=13)',
    ),
    Row(
        "IPUModel::createDevice",
        "IPUModel.create_device",
        "no options; half always rounds",
        "IPUModel().create_device()",
    ),
    Row(
        "IPUModel::numIPUs",
        "Target.num_ipus",
        "set it on the model, read it from the target",
        "target.num_ipus",
        "IPUs of the machine.",
    ),
    Row(
        "IPUModel::tilesPerIPU",
        "Target.tiles_per_ipu",
        "set it on the model, read it from the target",
        "target.tiles_per_ipu",
        "Tiles of each IPU.",
    ),
    Row(
        "IPUModel::numWorkerContexts",
        "Target.num_worker_contexts",
        "set it on the model, read it from the target",
        "target.num_worker_contexts",
        "Workers of each tile.",
    ),
    Row(
        "IPUModel::memoryBytesPerTile",
        "Target.memory_bytes_per_tile",
        "set it on the model, read it from the target",
        "target.memory_bytes_per_tile",
        "Memory of one tile, in bytes.",
    ),
    Row(
        "IPUModel::tileClockFrequency",
        "Target.tile_clock_frequency",
        "set it on the model, read it from the target",
        "target.tile_clock_frequency",
        "Clock of the tiles, in Hz.",
    ),
    Row(
        "IPUModel::exchangeBytesPerCycle",
        "Target.exchange_bytes_per_cycle",
        "set it on the model, read it from the target",
        "target.exchange_bytes_per_cycle",
        "Bytes that a tile sends, and receives, in a cycle of exchange.",
    ),
    Row(
        "IPUModel::memcpyBytesPerCycle",
        "Target.memcpy_bytes_per_cycle",
        "set it on the model, read it from the target",
        "target.memcpy_bytes_per_cycle",
        "Bytes that a tile copies in its own memory in a cycle.",
    ),
    Row(
        "IPUModel::minIPUSyncDelay",
        "Target.min_ipu_sync_delay",
        "set it on the model, read it from the target",
        "target.min_ipu_sync_delay",
        "Cycles that every sync inside an IPU takes at least.",
    ),
    Row(
        "IPUModel::relativeSyncDelay",
        "Target.relative_sync_delay",
        'the words "AUTO" and "NO_DELAY", not an enum',
        "target.relative_sync_delay",
        "Whether a sync also costs a delay of its own.",
    ),
    Row(
        "IPUModel::globalSyncCycles",
        "Target.global_sync_cycles",
        "set it on the model, read it from the target",
        "target.global_sync_cycles",
        "Cycles of a sync of several IPUs.",
    ),
    Row(
        "popart::SyncPattern",
        "Target.sync_pattern",
        'the words "FULL", "SINGLE_PIPELINE" and "REPLICA_AND_LADDER"; a group is a replica',
        "target.sync_pattern",
        "Whether all IPUs wait when one talks to the host or to streaming memory.",
    ),
    Row(
        "popart::SessionOptions::numIOTiles",
        "Target.io_tiles",
        "any number that leaves a tile to compute, where PopART wants an even one from 32 to 192",
        "target.io_tiles",
        "Tiles of each IPU, its first ones, that are set aside for transfers.",
    ),
    Row(
        "IPUModel::IPUVersion",
        "Target.ipu_version",
        "given to the constructor and fixed",
        "target.ipu_version",
        "The name of the preset.",
    ),
    Row(
        "Target",
        "Target",
        "a frozen description; every figure in it has a source: `ipu_teach.target.source`",
    ),
    Row(
        "Target::createIPUTarget",
        "Target.create_ipu_target",
        "any field may be changed by name; `target.make_target` is the same as a function",
        'ipu_teach.Target.create_ipu_target(2, "ipu2")',
    ),
    Row(
        "Target::getNumTiles",
        "Target.num_tiles",
        "a property, like all that follow without brackets",
        "target.num_tiles",
    ),
    Row(
        "Target::getIpuLinkTopology",
        "Target.ipu_link_topology",
        'a ladder is "MESH"',
        "target.ipu_link_topology",
    ),
    Row("Target::getNumIPUs", "Target.num_ipus", "", "target.num_ipus", "IPUs of the machine."),
    Row(
        "Target::getTilesPerIPU",
        "Target.tiles_per_ipu",
        "",
        "target.tiles_per_ipu",
        "Tiles of each IPU.",
    ),
    Row(
        "Target::getNumWorkerContexts",
        "Target.num_worker_contexts",
        "",
        "target.num_worker_contexts",
        "Workers of each tile.",
    ),
    Row("Target::getBytesPerTile", "Target.bytes_per_tile", "", "target.bytes_per_tile"),
    Row(
        "Target::getExchangeBytesPerCycle",
        "Target.exchange_bytes_per_cycle",
        "",
        "target.exchange_bytes_per_cycle",
        "Bytes that a tile sends, and receives, in a cycle of exchange.",
    ),
    Row(
        "Target::getTileClockFrequency",
        "Target.tile_clock_frequency",
        "",
        "target.tile_clock_frequency",
        "Clock of the tiles, in Hz.",
    ),
    Row(
        "Target::getDataPathWidth",
        "Target.data_path_width",
        "",
        "target.data_path_width",
        "Width of a tile's data path, in bits.",
    ),
    Row("Target::getVectorWidth", "Target.get_vector_width", "", "target.get_vector_width(HALF)"),
    Row(
        "Target::getTypeSize",
        "Target.get_type_size",
        "or `FLOAT.size`",
        "target.get_type_size(FLOAT)",
    ),
    Row("Device", "Device", "always simulated"),
    Row(
        "Device::getTarget",
        "Device.target",
        "a property",
        "device.target",
        "The description of the machine.",
    ),
    Row(
        "Device::getId",
        "Device.id",
        "a property",
        "device.id",
        "A number that tells two devices apart.",
    ),
    Row(
        "Device::attach",
        "Device.attach",
        "a device from `IPUModel` may be used without it",
        "device.attach()",
    ),
    Row("Device::detach", "Device.detach", "", "device.detach()"),
    Row(
        "Device::isAttached",
        "Device.is_attached",
        "an attribute",
        "device.is_attached",
        "Whether some program has taken it.",
    ),
    Row("Device::createCPUDevice", "Device.create_cpu_device", "", "Device.create_cpu_device()"),
    Row(
        "Device::createSimulatorDevice",
        "Device.create_simulator_device",
        "",
        "Device.create_simulator_device(target)",
    ),
    Row(
        "Device::createVirtualDevice",
        "Device.create_virtual_device",
        "",
        "device.create_virtual_device(2)",
    ),
    Row(
        "Device::supportsRemoteBuffers",
        "Device.supports_remote_buffers",
        "a property; always True",
        "device.supports_remote_buffers",
    ),
    Row("DeviceManager", "DeviceManager", "lends simulated devices", "ipu_teach.DeviceManager()"),
    Row(
        "DeviceManager::createDeviceManager",
        "DeviceManager.create_device_manager",
        "",
        "ipu_teach.DeviceManager.create_device_manager()",
    ),
    Row(
        "DeviceManager::getDevices",
        "DeviceManager.get_devices",
        "asking for hardware raises `NoHardwareError`",
        "manager.get_devices(ipu_teach.TargetType.IPU_MODEL, 2)",
    ),
    Row("DeviceManager::getDevice", "DeviceManager.get_device", "", "manager.get_device(0)"),
    Row(
        "DeviceManager::getNumDevices",
        "DeviceManager.num_devices",
        "a property",
        "manager.num_devices",
    ),
    Row("TargetType", "TargetType", "IPU exists and is refused", "ipu_teach.TargetType.IPU_MODEL"),
]

GRAPH = [
    Row("Graph", "Graph", "takes a target or a device", "Graph(device)"),
    Row(
        "Graph::addVariable",
        "Graph.add_variable",
        "reading it before anything wrote it is an error",
        'graph.add_variable(FLOAT, (2, 3), "x")',
    ),
    Row("VariableMappingMethod", "VariableMappingMethod", "", "VariableMappingMethod.LINEAR"),
    Row(
        "Graph::addConstant",
        "Graph.add_constant",
        "any dtype, half too; one number or an array",
        "graph.add_constant(HALF, 3, [1, 2, 3])",
    ),
    Row("Graph::clone", "Graph.clone", "", "graph.clone(t)"),
    Row("Graph::cloneN", "Graph.clone_n", "", "graph.clone_n(t, 3)"),
    Row("TensorCloneMethod", "TensorCloneMethod", "", "TensorCloneMethod.CREATE_NEW_ORDER"),
    Row("Graph::isConstant", "Graph.is_constant", "", "graph.is_constant(t)"),
    Row("Graph::getNumVertices", "Graph.num_vertices", "a property", "graph.num_vertices"),
    Row(
        "Graph::setTileMapping",
        "Graph.set_tile_mapping",
        "the same call maps a range of vertices",
        "graph.set_tile_mapping(t, 1)",
    ),
    Row(
        "Graph::getTileMapping",
        "Graph.get_tile_mapping",
        "intervals are (begin, end) pairs",
        "graph.get_tile_mapping(t)",
    ),
    Row("Graph::addComputeSet", "Graph.add_compute_set", "", 'graph.add_compute_set("cs")'),
    Row(
        "Graph::addVertex",
        "Graph.add_vertex",
        "takes the class, and the fields by keyword",
        "graph.add_vertex(cs, Sum, x=vec, out=one)",
    ),
    Row(
        "(a loop of addVertex)",
        "Graph.add_vertices",
        "ours alone: one call for many vertices, the same graph",
        "graph.add_vertices(cs, Sum, [0, 1, 2, 3], x=t, out=t[:, 0].reshape(4))",
    ),
    Row(
        "Graph::connect", "Graph.connect", "scalars of state too", 'graph.connect(vertex["x"], vec)'
    ),
    Row(
        "Graph::setFieldSize",
        "Graph.set_field_size",
        "for a list that is connected part by part, and for a Vector of state; what is connected "
        "whole has its tensor's length",
        'graph.set_field_size(graph.add_vertex(cs, Total)["parts"], 3)',
    ),
    Row(
        "Graph::setInitialValue",
        "Graph.set_initial_value",
        "applied at every load",
        "graph.set_initial_value(vec, 0)",
    ),
    Row(
        "Graph::setPerfEstimate",
        "Graph.set_perf_estimate",
        "cycles only",
        "graph.set_perf_estimate(vertex, 20)",
    ),
    Row(
        "Graph::registerPerfEstimator",
        "Graph.register_perf_estimator",
        "or write `def cycles(self, target)` in the vertex class",
        "graph.register_perf_estimator(Sum, lambda shapes, target: 20)",
    ),
    Row(
        "Graph::getPerfEstimate",
        "Graph.get_perf_estimate",
        "",
        "(graph.set_perf_estimate(vertex, 20), graph.get_perf_estimate(vertex))",
    ),
    Row(
        "Graph::addCodelets",
        "Graph.add_codelets",
        "takes classes, modules and Python files; a class that you pass to `add_vertex` needs no "
        "adding",
        "graph.add_codelets(Sum)",
    ),
    Row("Graph::hasCodelet", "Graph.has_codelet", "", 'graph.has_codelet("Sum")'),
    Row(
        "(a codelet that every graph knows)",
        "codelet",
        "ours alone: a decorator of the vertex class",
        "codelet(Sum)",
    ),
    Row(
        "Graph::createHostWrite",
        "Graph.create_host_write",
        "a handle of its own: what the host reads too has another",
        'graph.create_host_write("put", vec)',
    ),
    Row(
        "Graph::createHostRead",
        "Graph.create_host_read",
        "a handle of its own: what the host writes too has another",
        'graph.create_host_read("get", vec)',
    ),
    Row(
        "Graph::addHostToDeviceFIFO",
        "Graph.add_host_to_device_fifo",
        "",
        'graph.add_host_to_device_fifo("more", FLOAT, 6)',
    ),
    Row(
        "Graph::addDeviceToHostFIFO",
        "Graph.add_device_to_host_fifo",
        "",
        'graph.add_device_to_host_fifo("out", FLOAT, 6)',
    ),
    Row(
        "ReplicatedStreamMode",
        "ReplicatedStreamMode",
        "a transfer of an array holds what all replicas get, one after the other; functions are "
        "called for each, with `replica=…` if they take it",
        "ReplicatedStreamMode.BROADCAST",
    ),
    Row(
        "Graph::addRemoteBuffer",
        "Graph.add_remote_buffer",
        "nothing is rearranged on the host, so there are no options for it",
        'graph.add_remote_buffer("weights", FLOAT, 24, 10)',
    ),
    Row("RemoteBuffer", "RemoteBuffer", "made by the graph"),
    Row(
        "popxl::remote_buffer",
        "Graph.add_remote_buffer",
        "entries are `repeats`; an entry is flat",
        'graph.add_remote_buffer("weights", FLOAT, 24, 10)',
    ),
    Row(
        "popart::RecomputationType, poptorch::recomputationCheckpoint",
        "schedules.recompute",
        "a list of steps, from which a loop builds the program; whoever writes the layers chooses "
        "those whose inputs are kept",
        "schedules.recompute(6, [0, 3])",
    ),
    Row(
        "Graph::createVirtualGraph",
        "Graph.create_virtual_graph",
        "",
        "graph.create_virtual_graph(0, 2)",
    ),
    Row("Graph::getTopLevelGraph", "Graph.get_top_level_graph", "", "graph.get_top_level_graph()"),
    Row(
        "replication_factor",
        "Graph",
        "an argument of the graph, whose target is then that of one replica; `read_tensor` gives "
        "(R, …), `write_tensor` takes that or what is for all",
        "Graph(device, replication_factor=1)",
        "How many times the graph is there, each time on an equal part of the IPUs.",
    ),
    Row(
        "Graph::getReplicationFactor",
        "Graph.get_replication_factor",
        "",
        "graph.get_replication_factor()",
    ),
    Row(
        "Graph::createReplicatedGraph",
        "Graph.create_replicated_graph",
        "before the first variable, and once",
        "Graph(device).create_replicated_graph(1)",
    ),
    Row(
        "Graph::getNonReplicatedTensor",
        "Graph.get_non_replicated_tensor",
        "may be asked of either graph",
        "graph.get_non_replicated_tensor(vec)",
    ),
    Row(
        "Graph::addReplicationIndexConstant",
        "Graph.add_replication_index_constant",
        "",
        "graph.set_tile_mapping(graph.add_replication_index_constant(), 0)",
    ),
    Row("Graph::addFunction", "Graph.add_function", "", "graph.add_function(Sequence())"),
    Row(
        "Graph::addHostFunction",
        "",
        "copy to a stream that ends in a function: `engine.connect_stream`",
    ),
    Row(
        "Graph::getTarget",
        "Graph.target",
        "an attribute",
        "graph.target",
        "The machine that the graph is built for.",
    ),
    Row(
        "Graph::outputVertexGraph",
        "Graph.output_vertex_graph",
        "",
        "graph.output_vertex_graph(io.StringIO(), prog)",
    ),
    Row(
        "Graph::outputComputeGraph",
        "Graph.output_compute_graph",
        "",
        "graph.output_compute_graph(io.StringIO(), prog)",
    ),
    Row("Graph::serialize", "", "keep the Python that builds the graph, or save the executable"),
    Row(
        "DebugContext", "DebugContext", "a str, and a str will do", 'DebugContext("layer", "model")'
    ),
]

TENSOR = [
    Row("Tensor", "Tensor", "made by a graph, never by hand"),
    Row(
        "Tensor::operator[]",
        "Tensor.__getitem__",
        "Python's slices and negative indices work too, which count from the end, and lists of "
        "indices",
        "t[1, 2:4]",
        "Elements by integers and slices, as in numpy; a view.",
    ),
    Row(
        "Tensor::slice",
        "Tensor.slice",
        "one dimension at a time; several: `t[a:b, c:d]`; nothing negative but `dim`",
        "t.slice(0, 2, 1)",
    ),
    Row("Tensor::slices", "Tensor.slices", "", "t.slices([(0, 1), (2, 4)])"),
    Row("Tensor::index", "Tensor.index", "nothing negative", "t.index([1, 2])"),
    Row("Tensor::flatten", "Tensor.flatten", "", "t.flatten()"),
    Row("Tensor::reshape", "Tensor.reshape", "", "t.reshape((6, 4))"),
    Row("Tensor::reshapePartial", "Tensor.reshape_partial", "", "t.reshape_partial(1, 2, [2, 3])"),
    Row("Tensor::dimShuffle", "Tensor.dim_shuffle", "", "t.dim_shuffle([1, 0])"),
    Row(
        "Tensor::dimShufflePartial",
        "Tensor.dim_shuffle_partial",
        "",
        "t.dim_shuffle_partial([0], [1])",
    ),
    Row("Tensor::dimRoll", "Tensor.dim_roll", "", "t.dim_roll(1)"),
    Row("Tensor::transpose", "Tensor.transpose", "also `t.T`", "t.transpose()"),
    Row("Tensor::expand", "Tensor.expand", "", "t.expand([0])"),
    Row("Tensor::squeeze", "Tensor.squeeze", "", "t.squeeze([])"),
    Row("Tensor::broadcast", "Tensor.broadcast", "", "t.broadcast(2, 0)"),
    Row("Tensor::subSample", "Tensor.sub_sample", "", "t.sub_sample(2, 1)"),
    Row("Tensor::upsample", "Tensor.upsample", "", "t.upsample(2, 0)"),
    Row("UpsampleMethod", "UpsampleMethod", "", "UpsampleMethod.REPEAT"),
    Row("Tensor::reverse", "Tensor.reverse", "", "t.reverse(1)"),
    Row("Tensor::reinterpret", "Tensor.reinterpret", "", "t.reinterpret(INT)"),
    Row(
        "Tensor::numElements",
        "Tensor.num_elements",
        "a property",
        "t.num_elements",
        "How many elements the view has.",
    ),
    Row("Tensor::dim", "Tensor.dim", "", "t.dim(1)"),
    Row(
        "Tensor::shape",
        "Tensor.shape",
        "a property; a tuple",
        "t.shape",
        "The lengths of the dimensions.",
    ),
    Row("Tensor::rank", "Tensor.rank", "a property", "t.rank"),
    Row(
        "Tensor::elementType",
        "Tensor.element_type",
        "a property",
        "t.element_type",
        "The dtype of the elements.",
    ),
    Row("Tensor::isContiguous", "Tensor.is_contiguous", "", "t.is_contiguous"),
    Row("Tensor::containsAliases", "Tensor.contains_aliases", "", "t.contains_aliases"),
    Row("Tensor::containsConstant", "Tensor.contains_constant", "", "t.contains_constant"),
    Row(
        "Tensor::isParallelWriteable", "Tensor.is_parallel_writeable", "", "t.is_parallel_writeable"
    ),
    Row(
        "Tensor::getContiguousRegions",
        "Tensor.get_contiguous_regions",
        "",
        "t.get_contiguous_regions()",
    ),
    Row("Tensor::intersectsWith", "Tensor.intersects_with", "", "t.intersects_with(vec)"),
    Row("Tensor::getVarRegions", "Tensor.get_var_regions", "", "t.get_var_regions()"),
    Row("Tensor::valid", "Tensor.valid", "", "t.valid"),
    Row("Tensor::dump", "Tensor.dump", "", "t.dump(io.StringIO())"),
    Row("Tensor::dumpRegions", "Tensor.dump_regions", "", "t.dump_regions(io.StringIO())"),
    Row("Tensor::getDebugStr", "Tensor.get_debug_str", "", "t.get_debug_str()"),
    Row("Tensor::getVarStr", "Tensor.get_var_str", "", "t.get_var_str()"),
    Row("Tensor::shapeToString", "Tensor.shape_to_string", "", "t.shape_to_string()"),
    Row("Tensor::operator==", "same_view", "a function; `a == b` says the same", "same_view(t, t)"),
    Row("concat", "concat", "a list, and the dimension", "concat([t, t], 1)"),
    Row("append", "append", "", "append(vec, one)"),
    Row(
        "interleave",
        "",
        "Poplar has none either: `concat` of `reshape((n, 1))` along dimension 1, then `flatten`",
    ),
    Row(
        "FLOAT, HALF, INT, …",
        "FLOAT",
        "classes, never instantiated: `FLOAT.size`, `FLOAT.numpy`; no 64-bit float on a tile",
        "FLOAT.numpy",
    ),
    Row(
        "QUARTER, QuarterMetadata",
        "QUARTER",
        "format and scale are a part of the dtype: `QUARTER[QuarterFormat.F143, -2]`; codes on the "
        "host; `popops.cast`",
        "graph.add_variable(QUARTER[QuarterFormat.F143, -2], 4)",
    ),
    Row("Tensor::hasMetadata", "Tensor.has_metadata", "", "t.has_metadata()"),
    Row(
        "Tensor::getMetadata",
        "Tensor.get_metadata",
        "of 8-bit floats",
        "graph.add_variable(QUARTER[QuarterFormat.F152, 0], 4).get_metadata()",
    ),
    Row("Tensor::associateMetadata", "", "`tensor.reinterpret(QUARTER[format, scale])`"),
    Row(
        "convertToDeviceType", "types.to_quarter", "", "types.to_quarter([1.5], QuarterMetadata())"
    ),
    Row(
        "convertFromDeviceType",
        "types.from_quarter",
        "",
        "types.from_quarter([0x40], QuarterMetadata())",
    ),
]

VERTEX = [
    Row(
        "Vertex",
        "Vertex",
        "fields are annotations; `compute(self)` is Python and numpy; a field called `in` is "
        "called `input`, and `bind`, `call`, `compute`, `context`, `cycles`, `debug_context` and "
        "`fields` are taken",
        "Sum.call(x=[1, 2, 3])",
    ),
    Row("MultiVertex", "MultiVertex", "`compute(self, worker)` is called once for each worker"),
    Row(
        "MultiVertex::numWorkers",
        "MultiVertex.num_workers",
        "without brackets; no field can have this name",
    ),
    Row(
        "SupervisorVertex",
        "SupervisorVertex",
        "one vertex that has the tile to itself; nothing to start by hand",
    ),
    Row("Input<T>", "Input", "`Input[FLOAT]`; assigning to it is an error", "Input[FLOAT]"),
    Row(
        "Output<T>",
        "Output",
        "`Output[FLOAT]`; `+=` on it is an error, and so is reading a single element",
        "Output[FLOAT]",
    ),
    Row("InOut<T>", "InOut", "", "InOut[FLOAT]"),
    Row(
        "Vector<T>",
        "Vector",
        "`Vector[Vector[T]]` takes a matrix or a list of tensors; no alignments",
        "Input[Vector[FLOAT]]",
    ),
    Row("VectorList<T>", "VectorList", "or `Vector[Vector[T]]`", "Input[VectorList[FLOAT]]"),
    Row(
        "Vector<Input<Vector<T>>>",
        "Vector",
        "written `Input[Vector[Vector[T]]]`",
        "Input[Vector[Vector[FLOAT]]]",
    ),
    Row(
        "plain members (state)",
        "Vertex",
        "a bare dtype: `bias: FLOAT = 0`; a row: `taps: Vector[FLOAT] = [1, 2]`",
        "",
        "Numbers of the vertex's own that live from run to run.",
    ),
    Row(
        "templates, poputil::templateVertex",
        "graph.vertex.template",
        "a copy of a class for other dtypes",
        'ipu_teach.graph.vertex.template(Sum, "SumHalf", {FLOAT: HALF})',
    ),
    Row(
        "VectorLayout",
        "VectorLayout",
        "in the brackets of a field; no alignment, and it changes nothing but the size of pointers",
        "Input[Vector[FLOAT, VectorLayout.ONE_PTR]]",
    ),
    Row(
        '[[poplar::constraint("elem(*x) != elem(*y)")]]',
        "",
        "nothing: a codelet whose loads need two memory elements says so in its `cycles`",
    ),
    Row("inline assembly, ipu:: intrinsics", "", "numpy in `compute`, and `cycles` for the cost"),
]

PROGRAM = [
    Row("Sequence", "program.Sequence", "also takes a list", "Sequence(Execute(cs), Execute(cs))"),
    Row("Sequence::add", "program.Sequence.add", "returns the sequence", "prog.add(Execute(cs))"),
    Row(
        "Execute",
        "program.Execute",
        "the second argument receives whether all vertices returned true",
        "Execute(cs, flag)",
    ),
    Row("Copy", "program.Copy", "counts and dtypes must match; shapes need not", "Copy(t, t2)"),
    Row(
        "Copy (stream)",
        "program.Copy",
        "one transfer of the stream's `num_elements`",
        "Copy(stream, t)",
        "Move a transfer from a stream into a tensor, or back.",
    ),
    Row(
        "Copy (remote buffer)",
        "program.Copy",
        "an unwritten row, and one that is not there, are errors",
        "Copy(t, rows, number.reshape((1,)))",
        "Move rows of a remote buffer into a tensor, or back; the offset holds their numbers.",
    ),
    Row(
        "CrossReplicaCopy",
        "program.CrossReplicaCopy",
        "the map is a permutation",
        "CrossReplicaCopy(t, graph.clone(t), {0: 0})",
    ),
    Row("Repeat", "program.Repeat", "", "Repeat(3, Execute(cs))"),
    Row(
        "RepeatWhileTrue",
        "program.RepeatWhileTrue",
        "",
        "RepeatWhileTrue(Sequence(), flag, Execute(cs))",
    ),
    Row(
        "RepeatWhileFalse",
        "program.RepeatWhileFalse",
        "",
        "RepeatWhileFalse(Sequence(), flag, Execute(cs))",
    ),
    Row("If", "program.If", "the second branch may be left out", "If(flag, Execute(cs))"),
    Row("Switch", "program.Switch", "cases as pairs or a dict", "Switch(number, {0: Execute(cs)})"),
    Row(
        "Switch::switchWithBoundsChecking",
        "program.Switch.switch_with_bounds_checking",
        "",
        "Switch.switch_with_bounds_checking(number, {0: Execute(cs)})",
    ),
    Row(
        "Switch::switchWithUnreachableDefault",
        "program.Switch.switch_with_unreachable_default",
        "the promise is checked",
        "Switch.switch_with_unreachable_default(number, {0: Execute(cs)})",
    ),
    Row("Call", "program.Call", "", "Call(graph.add_function(Execute(cs)))"),
    Row("PrintTensor", "program.PrintTensor", "", 'PrintTensor("title", t)'),
    Row("PrintTensorFmt", "program.PrintTensorFmt", "", "PrintTensorFmt(digits=3)"),
    Row("WriteUndef", "program.WriteUndef", "a later read is an error", "WriteUndef(t)"),
    Row("Sync", "program.Sync", "", "Sync(SyncType.INTERNAL)"),
    Row("SyncType", "program.SyncType", "", "SyncType.GLOBAL"),
    Row(
        "AssumeEqualAcrossReplicas",
        "program.AssumeEqualAcrossReplicas",
        "is checked whenever it runs",
        "AssumeEqualAcrossReplicas(t)",
    ),
    Row(
        "Block",
        "program.Block",
        "`engine.report.execution.blocks(tile)`; all tiles are recorded, no buffer fills, and it "
        "costs no cycles",
        'Block(Execute(cs), "name")',
    ),
    Row("Abort", "program.Abort", "", 'Abort("why")'),
    Row("AbortOnCondition", "program.AbortOnCondition", "", "AbortOnCondition(flag)"),
    Row("ErrorProgram", "program.ErrorProgram", "", 'ErrorProgram("why", PrintTensor(t))'),
    Row(
        "cycleCount",
        "program.cycle_count",
        "modelled cycles, always the same",
        "cycle_count(graph, prog, 0)",
    ),
    Row(
        "cycleStamp",
        "program.cycle_stamp",
        "modelled cycles since load",
        "cycle_stamp(graph, prog, 0)",
    ),
    Row(
        "setFloatingPointBehaviour",
        "set_floating_point_behaviour",
        "`tile` chooses one tile; a few exceptions differ, see [numbers.md](numbers.md)",
        "set_floating_point_behaviour(graph, prog, FloatingPointBehaviour())",
    ),
    Row(
        "FloatingPointBehaviour", "FloatingPointBehaviour", "", "FloatingPointBehaviour(esr=False)"
    ),
    Row(
        "setStochasticRounding",
        "set_stochastic_rounding",
        "",
        "set_stochastic_rounding(graph, prog, True)",
    ),
    Row(
        "getHwSeeds",
        "get_hw_seeds",
        "UNSIGNED_INT [tiles, workers, 4]",
        "get_hw_seeds(graph, prog)",
    ),
    Row("setHwSeeds", "set_hw_seeds", "", "set_hw_seeds(graph, get_hw_seeds(graph, prog), prog)"),
    Row(
        "dumpProgram, prettyPrint",
        "program.Program.to_string",
        "",
        "Sequence(Execute(cs)).to_string()",
    ),
]

STREAM = [
    Row("DataStream", "DataStream", "made by the graph"),
    Row(
        "Engine::connectStream",
        "Engine.connect_stream",
        "takes arrays, iterators, lists and functions; an array goes round, and a list that "
        "receives gets one array for each Copy, in the shape of the tensor that was copied",
        'engine.connect_stream("in", np.zeros(24, np.float32))',
    ),
    Row(
        "Engine::connectStreamToCallback",
        "Engine.connect_stream_to_callback",
        "",
        'engine.connect_stream_to_callback("in", lambda: np.zeros(24, np.float32))',
    ),
    Row(
        "StreamCallback",
        "StreamCallback",
        "methods are given the array to fill; a plain function will do too",
    ),
    Row(
        "Engine::writeTensor",
        "Engine.write_tensor",
        "takes an array",
        'engine.write_tensor("w", np.zeros(6))',
    ),
    Row(
        "Engine::readTensor",
        "Engine.read_tensor",
        "returns an array in the tensor's shape",
        'engine.read_tensor("r")',
    ),
    Row("Engine::listStreams", "Engine.list_streams", "", "engine.list_streams()"),
    Row(
        "Engine::copyToRemoteBuffer",
        "Engine.copy_to_remote_buffer",
        "takes an array",
        'engine.copy_to_remote_buffer(np.zeros(24), "rows", 2)',
    ),
    Row(
        "Engine::copyFromRemoteBuffer",
        "Engine.copy_from_remote_buffer",
        "returns an array; an unwritten row is an error",
        'engine.copy_from_remote_buffer("rows", 1)',
    ),
]

ENGINE = [
    Row(
        "Engine",
        "Engine",
        "compiles; `strict` instead of debug options",
        "Engine(graph, Sequence())",
    ),
    Row("Engine::load", "Engine.load", "initial values are set anew", "engine.load(device)"),
    Row("Engine::run", "Engine.run", "", "engine.run(0)"),
    Row(
        "Engine::loadAndRun",
        "Engine.load_and_run",
        "",
        "Engine(graph, Sequence()).load_and_run(device)",
    ),
    Row(
        "Engine::setPrintTensorStream",
        "Engine.set_print_tensor_stream",
        "",
        "engine.set_print_tensor_stream(None)",
    ),
    Row(
        "Engine::getReport",
        "Engine.get_report",
        "or the property `report`; immutable, and modelled",
        "engine.get_report()",
    ),
    Row(
        "Engine::getGraphProfile, getExecutionProfile",
        "Engine.report",
        "one report holds both",
        "engine.report",
    ),
    Row(
        "Engine::printProfileSummary",
        "Engine.print_profile_summary",
        "",
        'engine.print_profile_summary(["Target"])',
    ),
    Row(
        "pva::Report",
        "Report",
        "asked directly: `report.steps()`, `report.memory`, `report.compute_sets`",
        "Report.steps(engine.report)",
    ),
    Row(
        "pva::openReport",
        "open_report",
        "one file, without a second for debug information; `Report.open` is the same",
        "open_report",
    ),
    Row(
        "pva::Report::poplarVersion",
        "Report.poplar_version",
        "the version of this kit",
        "engine.report.poplar_version.major",
    ),
    Row(
        "pva::Report::instrumentationSettings",
        "Report.instrumentation_settings",
        "",
        "engine.report.instrumentation_settings",
    ),
    Row(
        "pva::Report::compilation",
        "Report.compilation",
        "",
        "engine.report.compilation.tiles[0].memory",
    ),
    Row(
        "pva::Report::execution", "Report.execution", "", "engine.report.execution.steps[0].program"
    ),
    Row(
        "pva::ExecutionReport::blocks",
        "report.query.Execution.blocks",
        "the filters may be given here too; no buffer fills, so there is neither overflow nor "
        "flush",
        "engine.report.execution.blocks(0, program_filter='.')",
    ),
    Row(
        "pva::ProgramVisitor",
        "report.profile.ProgramNode.accept",
        "any object with `visit_on_tile_execute`, `visit_do_exchange`, `visit_repeat`, …, or "
        "`visit`",
        "engine.report.compilation.programs[0].accept(object())",
    ),
    Row(
        "pva::DebugContext",
        "Report.debug_contexts",
        "a tree of names; `.find(pattern)`",
        "engine.report.debug_contexts",
    ),
    Row(
        "pva::openTrace",
        "",
        "Perfetto opens `ipu-teach report trace FILE --host`; `report.host.events` is it as data",
    ),
    Row("pvti::createTraceChannel", "", "a channel is a name: `tracepoint(label, channel)`"),
    Row(
        "pvti::Tracepoint",
        "tracepoint",
        '`with tracepoint("epoch"):`, or over a function; they nest, and are in `report.host`',
        'tracepoint("epoch")',
    ),
    Row(
        "pvti::Graph",
        "counter",
        "its values are in `report.host.values`",
        'counter("loss").add(0.5)',
    ),
    Row(
        "pvti::Graph::addSeries",
        "counter",
        "a series is the third argument",
        'counter("loss", "nats", "training").add(0.5)',
    ),
    Row(
        "pvti::HeatmapDouble", "", "keep the numbers with numpy, and draw them with `show.picture`"
    ),
    Row(
        "pvti::closeTrace", "", "`ipu-teach report trace FILE --host` writes one of a saved report"
    ),
    Row("compileGraph", "compile_graph", "", "compile_graph(graph, prog)"),
    Row(
        "Executable",
        "Executable",
        "made by `compile_graph`; give it to `Engine` in place of graph and programs",
    ),
    Row(
        "Executable::serialize",
        "Executable.serialize",
        "returns bytes; `save` writes a file",
        "compile_graph(graph, prog).serialize()",
    ),
    Row(
        "Executable::deserialize",
        "Executable.deserialize",
        "the vertex classes must exist in the process",
        "Executable.deserialize(compile_graph(graph, prog).serialize(), [Sum])",
    ),
    Row("Engine::getEngineOptions", "Engine.options", "a property", "engine.options"),
    Row("OptionFlags", "", 'a dict of the same names: `{"debug.allowOutOfMemory": True}`'),
    Row("Engine::prepare, deploy, stop", "", "`load` does all of it"),
    Row(
        "Engine::resetExecutionProfile",
        "Engine.reset_execution_profile",
        "",
        "engine.reset_execution_profile()",
    ),
    Row(
        "Engine::enableExecutionProfiling",
        "Engine.enable_execution_profiling",
        "",
        "engine.enable_execution_profiling()",
    ),
    Row(
        "Engine::disableExecutionProfiling",
        "Engine.disable_execution_profiling",
        "",
        "engine.disable_execution_profiling()",
    ),
    Row(
        "Engine::reportTiming, getTimeStamp, TimerTimePoint",
        "",
        "`cycle_count` and the report for modelled time; Python's `time` for the host's",
    ),
    Row("Engine::insertSimulatedError", "", "put an `ErrorProgram` or `Abort` into the program"),
]

ERRORS = [
    Row("poplar_error", "PoplarError"),
    Row("graph_object_creation_error", "errors.GraphObjectCreationError"),
    Row("tensor_creation_error", "errors.TensorCreationError"),
    Row("index_error", "errors.PoplarIndexError", "is an IndexError too"),
    Row("type_error", "errors.PoplarTypeError", "is a TypeError too"),
    Row("unknown_vertex_type", "errors.UnknownVertexTypeError"),
    Row("unknown_field", "errors.UnknownFieldError"),
    Row("no_size_specified", "errors.NoSizeSpecifiedError"),
    Row("file_load_error", "errors.FileLoadError"),
    Row("link_error, symbol_error", "", "Python's own ImportError and NameError"),
    Row("parse_error", "errors.ParseError"),
    Row(
        "(a codelet whose fields are wrong)",
        "errors.VertexDefinitionError",
        "popc would not have compiled it",
    ),
    Row("graph_connection_error", "errors.GraphConnectionError"),
    Row("graph_connection_error (data race)", "errors.ComputeSetRaceError", "a kind of its own"),
    Row("invalid_tile_mapping", "errors.InvalidTileMappingError"),
    Row("control_program_error", "errors.ControlProgramError"),
    Row(
        "graph_memory_allocation_error",
        "errors.GraphMemoryAllocationError",
        "carries `bytes_per_tile` and the `report`",
    ),
    Row("graph_replication_error", "errors.GraphReplicationError"),
    Row("invalid_option", "errors.InvalidOptionError"),
    Row("invalid_machine_model", "errors.InvalidMachineModelError"),
    Row("missing_perf_estimate", "errors.MissingPerfEstimateError"),
    Row("profiling_disabled", "errors.ProfilingDisabledError"),
    Row("stream_connection_error", "errors.StreamConnectionError"),
    Row("tensor_io_state_error", "errors.TensorIOStateError"),
    Row("application_runtime_error", "errors.ApplicationRuntimeError"),
    Row(
        "(undefined behaviour: a read of unwritten memory)",
        "errors.UninitialisedReadError",
        "ours alone; `strict` turns it off",
    ),
    Row("(undefined behaviour in a codelet)", "errors.CodeletError", "ours alone"),
    Row("(a name that this kit does not offer)", "errors.NotOfferedError", "ours alone"),
    Row("poputil::poplibs_error", "errors.PoplibsError"),
]

SECTIONS: dict[str, list[Row]] = {
    "Target and device": TARGET,
    "Graph": GRAPH,
    "Tensor": TENSOR,
    "Vertices": VERTEX,
    "Programs": PROGRAM,
    "Streams": STREAM,
    "Engine": ENGINE,
    "Errors": ERRORS,
}
