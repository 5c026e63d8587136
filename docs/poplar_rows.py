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
        "the fields are also keywords, as in `IPUModel(tiles_per_ipu=13)`; the versions are "
        "ipu1, ipu2, bow and c600",
        'IPUModel("ipu2", tiles_per_ipu=13)',
    ),
    Row(
        "IPUModel::createDevice",
        "IPUModel.create_device",
        "takes no options; results in HALF are always rounded",
        "IPUModel().create_device()",
    ),
    Row(
        "IPUModel::numIPUs",
        "Target.num_ipus",
        "you set it on the model, and read it from the target",
        "target.num_ipus",
        "IPUs of the machine.",
    ),
    Row(
        "IPUModel::tilesPerIPU",
        "Target.tiles_per_ipu",
        "you set it on the model, and read it from the target",
        "target.tiles_per_ipu",
        "Tiles of each IPU.",
    ),
    Row(
        "IPUModel::numWorkerContexts",
        "Target.num_worker_contexts",
        "you set it on the model, and read it from the target",
        "target.num_worker_contexts",
        "Workers of each tile.",
    ),
    Row(
        "IPUModel::memoryBytesPerTile",
        "Target.memory_bytes_per_tile",
        "you set it on the model, and read it from the target",
        "target.memory_bytes_per_tile",
        "Memory of one tile, in bytes.",
    ),
    Row(
        "IPUModel::tileClockFrequency",
        "Target.tile_clock_frequency",
        "you set it on the model, and read it from the target",
        "target.tile_clock_frequency",
        "Clock of the tiles, in Hz.",
    ),
    Row(
        "IPUModel::exchangeBytesPerCycle",
        "Target.exchange_bytes_per_cycle",
        "you set it on the model, and read it from the target",
        "target.exchange_bytes_per_cycle",
        "Bytes that a tile sends, and receives, in a cycle of exchange.",
    ),
    Row(
        "IPUModel::memcpyBytesPerCycle",
        "Target.memcpy_bytes_per_cycle",
        "you set it on the model, and read it from the target",
        "target.memcpy_bytes_per_cycle",
        "Bytes that a tile copies in its own memory in a cycle.",
    ),
    Row(
        "IPUModel::minIPUSyncDelay",
        "Target.min_ipu_sync_delay",
        "you set it on the model, and read it from the target",
        "target.min_ipu_sync_delay",
        "Cycles that every sync inside an IPU takes at least.",
    ),
    Row(
        "IPUModel::relativeSyncDelay",
        "Target.relative_sync_delay",
        'is the word "AUTO" or "NO_DELAY", not an enum',
        "target.relative_sync_delay",
        "Whether a sync also costs a delay of its own.",
    ),
    Row(
        "IPUModel::globalSyncCycles",
        "Target.global_sync_cycles",
        "you set it on the model, and read it from the target",
        "target.global_sync_cycles",
        "Cycles of a sync of several IPUs.",
    ),
    Row(
        "popart::SyncPattern",
        "Target.sync_pattern",
        'is the word "FULL", "SINGLE_PIPELINE" or "REPLICA_AND_LADDER"; IPUs of one replica '
        "form a group",
        "target.sync_pattern",
        "Whether all IPUs wait when one talks to the host or to streaming memory.",
    ),
    Row(
        "popart::SessionOptions::numIOTiles",
        "Target.io_tiles",
        "may be any number that leaves a tile to compute; PopART requires an even number from "
        "32 to 192",
        "target.io_tiles",
        "Tiles of each IPU, its first ones, that are set aside for transfers.",
    ),
    Row(
        "IPUModel::IPUVersion",
        "Target.ipu_version",
        "is an argument of the constructor, and cannot be changed later",
        "target.ipu_version",
        "The name of the preset.",
    ),
    Row(
        "Target",
        "Target",
        "cannot be changed; `ipu_teach.target.source` returns the source of each figure in it",
    ),
    Row(
        "Target::createIPUTarget",
        "Target.create_ipu_target",
        "can set any field by its name; `target.make_target` does the same",
        'ipu_teach.Target.create_ipu_target(2, "ipu2")',
    ),
    Row(
        "Target::getNumTiles",
        "Target.num_tiles",
        "is a property, like all names below that have no brackets",
        "target.num_tiles",
    ),
    Row(
        "Target::getIpuLinkTopology",
        "Target.ipu_link_topology",
        'returns "MESH" for a ladder',
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
        "`FLOAT.size` is the same",
        "target.get_type_size(FLOAT)",
    ),
    Row("Device", "Device", "is always simulated"),
    Row(
        "Device::getTarget",
        "Device.target",
        "is a property",
        "device.target",
        "The description of the machine.",
    ),
    Row(
        "Device::getId",
        "Device.id",
        "is a property",
        "device.id",
        "A number that tells two devices apart.",
    ),
    Row(
        "Device::attach",
        "Device.attach",
        "is not needed for a device from `IPUModel`",
        "device.attach()",
    ),
    Row("Device::detach", "Device.detach", "", "device.detach()"),
    Row(
        "Device::isAttached",
        "Device.is_attached",
        "is an attribute",
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
        "is a property, and always True",
        "device.supports_remote_buffers",
    ),
    Row("DeviceManager", "DeviceManager", "manages simulated devices", "ipu_teach.DeviceManager()"),
    Row(
        "DeviceManager::createDeviceManager",
        "DeviceManager.create_device_manager",
        "",
        "ipu_teach.DeviceManager.create_device_manager()",
    ),
    Row(
        "DeviceManager::getDevices",
        "DeviceManager.get_devices",
        "raises `NoHardwareError` if you ask for hardware",
        "manager.get_devices(ipu_teach.TargetType.IPU_MODEL, 2)",
    ),
    Row("DeviceManager::getDevice", "DeviceManager.get_device", "", "manager.get_device(0)"),
    Row(
        "DeviceManager::getNumDevices",
        "DeviceManager.num_devices",
        "is a property",
        "manager.num_devices",
    ),
    Row(
        "TargetType",
        "TargetType",
        "has the member IPU, but requests for it are refused",
        "ipu_teach.TargetType.IPU_MODEL",
    ),
]

GRAPH = [
    Row("Graph", "Graph", "accepts a target or a device", "Graph(device)"),
    Row(
        "Graph::addVariable",
        "Graph.add_variable",
        "a read of elements that nothing has written is an error",
        'graph.add_variable(FLOAT, (2, 3), "x")',
    ),
    Row("VariableMappingMethod", "VariableMappingMethod", "", "VariableMappingMethod.LINEAR"),
    Row(
        "Graph::addConstant",
        "Graph.add_constant",
        "accepts any dtype, including HALF, and a number or an array",
        "graph.add_constant(HALF, 3, [1, 2, 3])",
    ),
    Row("Graph::clone", "Graph.clone", "", "graph.clone(t)"),
    Row("Graph::cloneN", "Graph.clone_n", "", "graph.clone_n(t, 3)"),
    Row("TensorCloneMethod", "TensorCloneMethod", "", "TensorCloneMethod.CREATE_NEW_ORDER"),
    Row("Graph::isConstant", "Graph.is_constant", "", "graph.is_constant(t)"),
    Row("Graph::getNumVertices", "Graph.num_vertices", "is a property", "graph.num_vertices"),
    Row(
        "Graph::setTileMapping",
        "Graph.set_tile_mapping",
        "also maps a range of vertices",
        "graph.set_tile_mapping(t, 1)",
    ),
    Row(
        "Graph::getTileMapping",
        "Graph.get_tile_mapping",
        "returns intervals as pairs (begin, end)",
        "graph.get_tile_mapping(t)",
    ),
    Row("Graph::addComputeSet", "Graph.add_compute_set", "", 'graph.add_compute_set("cs")'),
    Row(
        "Graph::addVertex",
        "Graph.add_vertex",
        "takes the vertex class, and the fields as keywords",
        "graph.add_vertex(cs, Sum, x=vec, out=one)",
    ),
    Row(
        "(a loop of addVertex)",
        "Graph.add_vertices",
        "exists only in this kit: one call adds many vertices, and the graph is the same",
        "graph.add_vertices(cs, Sum, [0, 1, 2, 3], x=t, out=t[:, 0].reshape(4))",
    ),
    Row(
        "Graph::connect",
        "Graph.connect",
        "also connects scalars of state",
        'graph.connect(vertex["x"], vec)',
    ),
    Row(
        "Graph::setFieldSize",
        "Graph.set_field_size",
        "is for a list that is connected part by part, and for a Vector of state; a field that "
        "is connected as a whole has the length of its tensor",
        'graph.set_field_size(graph.add_vertex(cs, Total)["parts"], 3)',
    ),
    Row(
        "Graph::setInitialValue",
        "Graph.set_initial_value",
        "takes effect at every load",
        "graph.set_initial_value(vec, 0)",
    ),
    Row(
        "Graph::setPerfEstimate",
        "Graph.set_perf_estimate",
        "takes only cycles into account",
        "graph.set_perf_estimate(vertex, 20)",
    ),
    Row(
        "Graph::registerPerfEstimator",
        "Graph.register_perf_estimator",
        "`def cycles(self, target)` in the vertex class has the same effect",
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
        "accepts classes, modules and Python files; a class that you pass to `add_vertex` does "
        "not have to be added",
        "graph.add_codelets(Sum)",
    ),
    Row("Graph::hasCodelet", "Graph.has_codelet", "", 'graph.has_codelet("Sum")'),
    Row(
        "(a codelet that every graph knows)",
        "codelet",
        "exists only in this kit: a decorator of the vertex class",
        "codelet(Sum)",
    ),
    Row(
        "Graph::createHostWrite",
        "Graph.create_host_write",
        "needs a handle of its own; if the host also reads the tensor, that needs another handle",
        'graph.create_host_write("put", vec)',
    ),
    Row(
        "Graph::createHostRead",
        "Graph.create_host_read",
        "needs a handle of its own; if the host also writes the tensor, that needs another handle",
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
        "a transfer from an array has the data of all replicas, one after the other; a function "
        "is called for each replica, with `replica=…` if it has this parameter",
        "ReplicatedStreamMode.BROADCAST",
    ),
    Row(
        "Graph::addRemoteBuffer",
        "Graph.add_remote_buffer",
        "has no options for rearranging on the host, because nothing is rearranged",
        'graph.add_remote_buffer("weights", FLOAT, 24, 10)',
    ),
    Row("RemoteBuffer", "RemoteBuffer", "is made by the graph"),
    Row(
        "popxl::remote_buffer",
        "Graph.add_remote_buffer",
        "the number of entries is `repeats`, and an entry has one dimension",
        'graph.add_remote_buffer("weights", FLOAT, 24, 10)',
    ),
    Row(
        "popart::RecomputationType, poptorch::recomputationCheckpoint",
        "schedules.recompute",
        "returns a list of steps, from which you build the program in a loop; you choose the "
        "layers whose inputs are kept",
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
        "is an argument of the graph, whose target is then that of one replica; `read_tensor` "
        "returns the shape (R, …), and `write_tensor` accepts this shape, or one array for all "
        "replicas",
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
        "must be called once, and before the first variable is added",
        "Graph(device).create_replicated_graph(1)",
    ),
    Row(
        "Graph::getNonReplicatedTensor",
        "Graph.get_non_replicated_tensor",
        "can be called on either graph",
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
        "copy to a stream to which `engine.connect_stream` connects a function",
    ),
    Row(
        "Graph::getTarget",
        "Graph.target",
        "is an attribute",
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
    Row(
        "Graph::serialize", "", "keep the Python code that builds the graph, or save the executable"
    ),
    Row(
        "DebugContext",
        "DebugContext",
        "is a str, and wherever it is expected you may pass a plain str",
        'DebugContext("layer", "model")',
    ),
]

TENSOR = [
    Row("Tensor", "Tensor", "is returned by a graph; you never construct it yourself"),
    Row(
        "Tensor::operator[]",
        "Tensor.__getitem__",
        "also accepts Python's slices, lists of indices, and negative indices, which count from "
        "the end",
        "t[1, 2:4]",
        "Elements by integers and slices, as in numpy; a view.",
    ),
    Row(
        "Tensor::slice",
        "Tensor.slice",
        "slices one dimension; for several, write `t[a:b, c:d]`; only `dim` may be negative",
        "t.slice(0, 2, 1)",
    ),
    Row("Tensor::slices", "Tensor.slices", "", "t.slices([(0, 1), (2, 4)])"),
    Row("Tensor::index", "Tensor.index", "does not accept negative indices", "t.index([1, 2])"),
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
    Row("Tensor::transpose", "Tensor.transpose", "`t.T` is the same", "t.transpose()"),
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
        "is a property",
        "t.num_elements",
        "How many elements the view has.",
    ),
    Row("Tensor::dim", "Tensor.dim", "", "t.dim(1)"),
    Row(
        "Tensor::shape",
        "Tensor.shape",
        "is a property, and a tuple",
        "t.shape",
        "The lengths of the dimensions.",
    ),
    Row("Tensor::rank", "Tensor.rank", "is a property", "t.rank"),
    Row(
        "Tensor::elementType",
        "Tensor.element_type",
        "is a property",
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
    Row(
        "Tensor::operator==", "same_view", "is a function; `a == b` is the same", "same_view(t, t)"
    ),
    Row("concat", "concat", "takes a list and the dimension", "concat([t, t], 1)"),
    Row("append", "append", "", "append(vec, one)"),
    Row(
        "interleave",
        "",
        "`concat` the tensors, each reshaped to (n, 1), along dimension 1, then `flatten` "
        "(Poplar has no such function either)",
    ),
    Row(
        "FLOAT, HALF, INT, …",
        "FLOAT",
        "are classes that are never instantiated, as in `FLOAT.size` and `FLOAT.numpy`; tiles "
        "have no 64-bit float",
        "FLOAT.numpy",
    ),
    Row(
        "QUARTER, QuarterMetadata",
        "QUARTER",
        "the format and the scale are part of the dtype, as in `QUARTER[QuarterFormat.F143, "
        "-2]`; arrays on the host have codes; `popops.cast` converts",
        "graph.add_variable(QUARTER[QuarterFormat.F143, -2], 4)",
    ),
    Row("Tensor::hasMetadata", "Tensor.has_metadata", "", "t.has_metadata()"),
    Row(
        "Tensor::getMetadata",
        "Tensor.get_metadata",
        "is only for 8-bit floats",
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
        "fields are annotations, and `compute(self)` is Python and numpy; call a field `input` "
        "instead of `in`; the names `bind`, `call`, `compute`, `context`, `cycles`, "
        "`debug_context` and `fields` are reserved",
        "Sum.call(x=[1, 2, 3])",
    ),
    Row("MultiVertex", "MultiVertex", "`compute(self, worker)` is called once for each worker"),
    Row(
        "MultiVertex::numWorkers",
        "MultiVertex.num_workers",
        "is written without brackets; no field can have this name",
    ),
    Row(
        "SupervisorVertex",
        "SupervisorVertex",
        "has the tile to itself; you do not start the workers yourself",
    ),
    Row(
        "Input<T>",
        "Input",
        "is written `Input[FLOAT]`; an assignment to it is an error",
        "Input[FLOAT]",
    ),
    Row(
        "Output<T>",
        "Output",
        "is written `Output[FLOAT]`; `+=` on it is an error, and so is reading a single element",
        "Output[FLOAT]",
    ),
    Row("InOut<T>", "InOut", "", "InOut[FLOAT]"),
    Row(
        "Vector<T>",
        "Vector",
        "`Vector[Vector[T]]` accepts a matrix or a list of tensors; there are no alignments",
        "Input[Vector[FLOAT]]",
    ),
    Row(
        "VectorList<T>",
        "VectorList",
        "`Vector[Vector[T]]` is also possible",
        "Input[VectorList[FLOAT]]",
    ),
    Row(
        "Vector<Input<Vector<T>>>",
        "Vector",
        "is written `Input[Vector[Vector[T]]]`",
        "Input[Vector[Vector[FLOAT]]]",
    ),
    Row(
        "plain members (state)",
        "Vertex",
        "is a bare dtype, as in `bias: FLOAT = 0`; several numbers are `taps: Vector[FLOAT] = "
        "[1, 2]`",
        "",
        "Numbers of the vertex's own that live from run to run.",
    ),
    Row(
        "templates, poputil::templateVertex",
        "graph.vertex.template",
        "makes a copy of a class for other dtypes",
        'ipu_teach.graph.vertex.template(Sum, "SumHalf", {FLOAT: HALF})',
    ),
    Row(
        "VectorLayout",
        "VectorLayout",
        "is written in the brackets of a field; it has no alignment, and affects only the size "
        "of pointers",
        "Input[Vector[FLOAT, VectorLayout.ONE_PTR]]",
    ),
    Row(
        '[[poplar::constraint("elem(*x) != elem(*y)")]]',
        "",
        "nothing; if the loads of a codelet need two memory elements, let its `cycles` take "
        "that into account",
    ),
    Row(
        "inline assembly, ipu:: intrinsics",
        "",
        "write numpy in `compute`, and define `cycles` for the cost",
    ),
]

PROGRAM = [
    Row(
        "Sequence", "program.Sequence", "also accepts a list", "Sequence(Execute(cs), Execute(cs))"
    ),
    Row("Sequence::add", "program.Sequence.add", "returns the Sequence", "prog.add(Execute(cs))"),
    Row(
        "Execute",
        "program.Execute",
        "stores in its second argument whether all vertices returned true",
        "Execute(cs, flag)",
    ),
    Row(
        "Copy",
        "program.Copy",
        "requires equal numbers of elements and equal dtypes, but not equal shapes",
        "Copy(t, t2)",
    ),
    Row(
        "Copy (stream)",
        "program.Copy",
        "transfers the stream's `num_elements` elements",
        "Copy(stream, t)",
        "Move a transfer from a stream into a tensor, or back.",
    ),
    Row(
        "Copy (remote buffer)",
        "program.Copy",
        "raises an error for a row that does not exist, or that nothing has written",
        "Copy(t, rows, number.reshape((1,)))",
        "Move rows of a remote buffer into a tensor, or back; the offset holds their numbers.",
    ),
    Row(
        "CrossReplicaCopy",
        "program.CrossReplicaCopy",
        "requires a map that is a permutation",
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
    Row("If", "program.If", "does not require the second branch", "If(flag, Execute(cs))"),
    Row(
        "Switch",
        "program.Switch",
        "accepts the cases as pairs or as a dict",
        "Switch(number, {0: Execute(cs)})",
    ),
    Row(
        "Switch::switchWithBoundsChecking",
        "program.Switch.switch_with_bounds_checking",
        "",
        "Switch.switch_with_bounds_checking(number, {0: Execute(cs)})",
    ),
    Row(
        "Switch::switchWithUnreachableDefault",
        "program.Switch.switch_with_unreachable_default",
        "checks that the default is never reached",
        "Switch.switch_with_unreachable_default(number, {0: Execute(cs)})",
    ),
    Row("Call", "program.Call", "", "Call(graph.add_function(Execute(cs)))"),
    Row("PrintTensor", "program.PrintTensor", "", 'PrintTensor("title", t)'),
    Row("PrintTensorFmt", "program.PrintTensorFmt", "", "PrintTensorFmt(digits=3)"),
    Row("WriteUndef", "program.WriteUndef", "makes a later read an error", "WriteUndef(t)"),
    Row("Sync", "program.Sync", "", "Sync(SyncType.INTERNAL)"),
    Row("SyncType", "program.SyncType", "", "SyncType.GLOBAL"),
    Row(
        "AssumeEqualAcrossReplicas",
        "program.AssumeEqualAcrossReplicas",
        "checks the tensor each time it runs",
        "AssumeEqualAcrossReplicas(t)",
    ),
    Row(
        "Block",
        "program.Block",
        "`engine.report.execution.blocks(tile)` returns the blocks of any tile; no buffer can "
        "fill, and blocks cost no cycles",
        'Block(Execute(cs), "name")',
    ),
    Row("Abort", "program.Abort", "", 'Abort("why")'),
    Row("AbortOnCondition", "program.AbortOnCondition", "", "AbortOnCondition(flag)"),
    Row("ErrorProgram", "program.ErrorProgram", "", 'ErrorProgram("why", PrintTensor(t))'),
    Row(
        "cycleCount",
        "program.cycle_count",
        "returns modelled cycles, which are equal in every run",
        "cycle_count(graph, prog, 0)",
    ),
    Row(
        "cycleStamp",
        "program.cycle_stamp",
        "counts modelled cycles since the load",
        "cycle_stamp(graph, prog, 0)",
    ),
    Row(
        "setFloatingPointBehaviour",
        "set_floating_point_behaviour",
        "can set a single `tile`; a few exceptions differ, as [numbers.md](numbers.md) explains",
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
        "returns an UNSIGNED_INT tensor of shape [tiles, workers, 4]",
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
    Row("DataStream", "DataStream", "is made by the graph"),
    Row(
        "Engine::connectStream",
        "Engine.connect_stream",
        "accepts arrays, iterators, lists and functions; after its last element an array starts "
        "again from the first; a list that receives data gets one array for each Copy, in the "
        "shape of the copied tensor",
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
        "its methods get the array that they fill; a plain function also works",
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
        "returns an array; a row that nothing has written is an error",
        'engine.copy_from_remote_buffer("rows", 1)',
    ),
]

ENGINE = [
    Row(
        "Engine",
        "Engine",
        "also compiles; it has the argument `strict` instead of debug options",
        "Engine(graph, Sequence())",
    ),
    Row("Engine::load", "Engine.load", "also sets the initial values again", "engine.load(device)"),
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
        "is also the property `report`; a report is immutable, and its figures are modelled",
        "engine.get_report()",
    ),
    Row(
        "Engine::getGraphProfile, getExecutionProfile",
        "Engine.report",
        "one report contains both",
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
        "has methods and properties such as `report.steps()`, `report.memory` and "
        "`report.compute_sets`",
        "Report.steps(engine.report)",
    ),
    Row(
        "pva::openReport",
        "open_report",
        "reads a single file, which includes the debug information; `Report.open` is the same",
        "open_report",
    ),
    Row(
        "pva::Report::poplarVersion",
        "Report.poplar_version",
        "is the version of this kit",
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
        "also accepts the filters; no buffer can fill, so there is neither overflow nor flush",
        "engine.report.execution.blocks(0, program_filter='.')",
    ),
    Row(
        "pva::ProgramVisitor",
        "report.profile.ProgramNode.accept",
        "may be any object with `visit`, or with `visit_on_tile_execute`, `visit_do_exchange`, "
        "`visit_repeat` and so on",
        "engine.report.compilation.programs[0].accept(object())",
    ),
    Row(
        "pva::DebugContext",
        "Report.debug_contexts",
        "is a tree of names, with the method `find(pattern)`",
        "engine.report.debug_contexts",
    ),
    Row(
        "pva::openTrace",
        "",
        "`ipu-teach report trace FILE --host` writes a trace for Perfetto; `report.host.events` "
        "has the same as data",
    ),
    Row(
        "pvti::createTraceChannel",
        "",
        "a channel is only a name, as in `tracepoint(label, channel)`",
    ),
    Row(
        "pvti::Tracepoint",
        "tracepoint",
        'is written `with tracepoint("epoch"):`, or is a decorator; tracepoints can be nested, '
        "and `report.host` has them",
        'tracepoint("epoch")',
    ),
    Row(
        "pvti::Graph",
        "counter",
        "`report.host.values` has its values",
        'counter("loss").add(0.5)',
    ),
    Row(
        "pvti::Graph::addSeries",
        "counter",
        "the series is the third argument",
        'counter("loss", "nats", "training").add(0.5)',
    ),
    Row(
        "pvti::HeatmapDouble", "", "store the numbers with numpy, and draw them with `show.picture`"
    ),
    Row(
        "pvti::closeTrace",
        "",
        "`ipu-teach report trace FILE --host` writes the trace of a saved report",
    ),
    Row("compileGraph", "compile_graph", "", "compile_graph(graph, prog)"),
    Row(
        "Executable",
        "Executable",
        "is returned by `compile_graph`; pass it to `Engine` instead of graph and programs",
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
        "requires the vertex classes to exist in the process",
        "Executable.deserialize(compile_graph(graph, prog).serialize(), [Sum])",
    ),
    Row("Engine::getEngineOptions", "Engine.options", "is a property", "engine.options"),
    Row(
        "OptionFlags",
        "",
        'is a dict with Poplar\'s names, as in `{"debug.allowOutOfMemory": True}`',
    ),
    Row("Engine::prepare, deploy, stop", "", "`load` does all three"),
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
        "use `cycle_count` and the report for modelled time, and Python's `time` for the host's "
        "time",
    ),
    Row("Engine::insertSimulatedError", "", "add an `ErrorProgram` or an `Abort` to the program"),
]

ERRORS = [
    Row("poplar_error", "PoplarError"),
    Row("graph_object_creation_error", "errors.GraphObjectCreationError"),
    Row("tensor_creation_error", "errors.TensorCreationError"),
    Row("index_error", "errors.PoplarIndexError", "is also an IndexError"),
    Row("type_error", "errors.PoplarTypeError", "is also a TypeError"),
    Row("unknown_vertex_type", "errors.UnknownVertexTypeError"),
    Row("unknown_field", "errors.UnknownFieldError"),
    Row("no_size_specified", "errors.NoSizeSpecifiedError"),
    Row("file_load_error", "errors.FileLoadError"),
    Row("link_error, symbol_error", "", "Python raises its own ImportError and NameError"),
    Row("parse_error", "errors.ParseError"),
    Row(
        "(a codelet whose fields are wrong)",
        "errors.VertexDefinitionError",
        "is raised where popc would not compile the codelet",
    ),
    Row("graph_connection_error", "errors.GraphConnectionError"),
    Row(
        "graph_connection_error (data race)", "errors.ComputeSetRaceError", "is a class of its own"
    ),
    Row("invalid_tile_mapping", "errors.InvalidTileMappingError"),
    Row("control_program_error", "errors.ControlProgramError"),
    Row(
        "graph_memory_allocation_error",
        "errors.GraphMemoryAllocationError",
        "has the attributes `bytes_per_tile` and `report`",
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
        "exists only in this kit; `strict` can switch it off",
    ),
    Row("(undefined behaviour in a codelet)", "errors.CodeletError", "exists only in this kit"),
    Row(
        "(a name that this kit does not offer)", "errors.NotOfferedError", "exists only in this kit"
    ),
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
