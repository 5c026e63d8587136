"""Rows of docs/poplibs.md for poputil and poputil::graphfn: helpers for building graphs."""

from poplar_rows import Row

POPUTIL = [
    Row(
        "poputil::mapTensorLinearly",
        "poplibs.poputil.map_tensor_linearly",
        "",
        "poputil.map_tensor_linearly(graph, t)",
    ),
    Row(
        "poputil::calcLinearTileMapping",
        "poplibs.poputil.calc_linear_tile_mapping",
        "",
        "poputil.calc_linear_tile_mapping(graph, 100, FLOAT)",
    ),
    Row(
        "poputil::broadcastToMatch",
        "poplibs.poputil.broadcast_to_match",
        "",
        "poputil.broadcast_to_match(vec, (4, 6))",
    ),
    Row(
        "poputil::balancedPartition",
        "poplibs.poputil.balanced_partition",
        "",
        "poputil.balanced_partition(10, 3)",
    ),
    Row(
        "poputil::expandToMatchRanks",
        "poplibs.poputil.expand_to_match_ranks",
        "",
        "poputil.expand_to_match_ranks(t, vec)",
    ),
    Row(
        "poputil::getTileImbalance",
        "poplibs.poputil.get_tile_imbalance",
        "",
        "poputil.get_tile_imbalance(graph, t)",
    ),
    Row(
        "poputil::mapTensorLinearlyWithOffset",
        "poplibs.poputil.map_tensor_linearly_with_offset",
        "",
        "poputil.map_tensor_linearly_with_offset(graph, t, 2)",
    ),
    Row(
        "poputil::duplicate",
        "poplibs.poputil.duplicate",
        "places each element on the tile of the original",
        "poputil.duplicate(graph, t, prog)",
    ),
    Row(
        "poputil::cloneN",
        "poplibs.poputil.clone_n",
        "places each element on the tile of the original",
        "poputil.clone_n(graph, t, 3)",
    ),
    Row(
        "poputil::cloneToIpu",
        "poplibs.poputil.clone_to_ipu",
        "",
        "poputil.clone_to_ipu(graph, t, 0)",
    ),
    Row(
        "poputil::copyToIpu",
        "poplibs.poputil.copy_to_ipu",
        "",
        "poputil.copy_to_ipu(graph, t, 0, prog)",
    ),
    Row(
        "poputil::dimIsSplitOverTiles",
        "poplibs.poputil.dim_is_split_over_tiles",
        "",
        "poputil.dim_is_split_over_tiles(graph, t, 0)",
    ),
    Row(
        "poputil::dimIsSplitOverIPUs",
        "poplibs.poputil.dim_is_split_over_ipus",
        "",
        "poputil.dim_is_split_over_ipus(graph, t, 0)",
    ),
    Row(
        "poputil::splitRegions",
        "poplibs.poputil.split_regions",
        "",
        "poputil.split_regions([(0, 9)], 2, 3)",
    ),
    Row(
        "poputil::splitRegionsBetweenWorkers",
        "poplibs.poputil.split_regions_between_workers",
        "",
        "poputil.split_regions_between_workers(target, [(0, 9)], 2)",
    ),
    Row(
        "poputil::templateVertex",
        "poplibs.poputil.template_vertex",
        "",
        'poputil.template_vertex("Scale", FLOAT)',
    ),
    Row(
        "poputil::chooseMappingOffset",
        "poplibs.poputil.choose_mapping_offset",
        "takes the seed as a keyword",
        "poputil.choose_mapping_offset(1472, (4, 64))",
    ),
    Row(
        "poputil::factorDims",
        "poplibs.poputil.factor_dims",
        "",
        "poputil.factor_dims(t, [2, 3], 0)",
    ),
    Row(
        "poputil::unfactorDims",
        "poplibs.poputil.unfactor_dims",
        "",
        "poputil.unfactor_dims(poputil.factor_dims(t, [2, 3], 0), 2, 0)",
    ),
    Row(
        "poputil::TensorUseTracker",
        "poplibs.poputil.TensorUseTracker",
        "has no `extendPartialUsage` and no mapping method; elements without a use stay unmapped",
        "poputil.TensorUseTracker(target.num_tiles)",
    ),
    Row(
        "poputil::createBroadcastOperand",
        "poplibs.poputil.create_broadcast_operand",
        "has no dithering",
        "poputil.create_broadcast_operand(graph, t, FLOAT, 1)",
    ),
    Row("poputil::graphfn::input", "poplibs.graphfn.input", "", 'graphfn.input(t, "x")'),
    Row("poputil::graphfn::output", "poplibs.graphfn.output", "", 'graphfn.output(t, "y")'),
    Row("poputil::graphfn::inout", "poplibs.graphfn.inout", "", 'graphfn.inout(t, "z")'),
    Row(
        "poputil::graphfn::created",
        "poplibs.graphfn.created",
        "takes None in a call, where C++ takes an empty tensor",
        'graphfn.created("made")',
    ),
    Row(
        "poputil::graphfn::VoidFunction",
        "poplibs.graphfn.VoidFunction",
        "takes `inlined` as its last argument",
        "graphfn.VoidFunction(graph, [graphfn.inout(t)], lambda a, p: popops.mul_in_place(graph, "
        "a[0], 2, p))([t2], prog)",
    ),
    Row(
        "poputil::graphfn::TensorFunction",
        "poplibs.graphfn.TensorFunction",
        "takes `inlined` as its last argument",
        "graphfn.TensorFunction(graph, [graphfn.input(t)], lambda args, prog: popops.add(graph, "
        "args[0], 1, prog))([t2], prog)",
    ),
    Row(
        "poputil::graphfn::ProgramFunction",
        "poplibs.graphfn.ProgramFunction",
        "takes `inlined` as its last argument",
        "graphfn.ProgramFunction(graph, [graphfn.input(t)], lambda args: "
        "PrintTensor(args[0]))([t2])",
    ),
]
