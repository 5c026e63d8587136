"""What popops and poputil refuse: with every word, at the call, and without a change to the
graph."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from poplibs_bench import RANDOMLY, WRONG_VALUES, TensorKinds

from ipu_teach import FLOAT, HALF, INT, QUARTER, Graph, IPUModel, IPUTeachError, QuarterFormat  # noqa: F401 (in the calls)
from ipu_teach.errors import InvalidOptionError, InvalidTileMappingError, PoplibsError
from ipu_teach.poplibs import poplin, popnn, popops, poputil
from ipu_teach.poplibs.popops import (  # noqa: F401
    ReduceParams,
    SingleReduceOp,
    SortOrder,
    TopKParams,
    elementwise,
    expr,
)

# A call, and below it the error it raises, with every word.
REFUSED = """
popops.exp(graph, count, prog)
exp() works on FLOAT and HALF, but its operand is INT.
  where: Tensor('count', INT, shape ())
  next:  cast it with popops.cast.

popops.exp(graph, 2, prog)
exp() was given 2 as its operand.
  next:  give a tensor.

popops.logical_not(graph, x, prog)
logical_not() works on BOOL, but its operand is FLOAT.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  cast it with popops.cast.

popops.bitwise_and(graph, x, y, prog)
bitwise_and() works on integers, but its first operand is FLOAT.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  cast it with popops.cast.

popops.gt_in_place(graph, x, y, prog)
gt_in_place() cannot write its result, BOOL, to its first operand, FLOAT.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  use gt(), which returns a new tensor.

popops.lt_in_place(graph, x, 1, prog)
lt_in_place() cannot write its result, BOOL, to its first operand, FLOAT.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  use lt(), which returns a new tensor.

popops.add_with_output(graph, x, y, v, prog)
add_with_output() was given two shapes that differ: (4,) and (4, 3).
  where: out Tensor('v', FLOAT, shape (4,))
  next:  give an out of shape (4, 3).

popops.exp_with_output(graph, x, h, prog)
exp_with_output() was given two dtypes that differ: HALF and FLOAT.
  where: out Tensor('h', HALF, shape (4, 3))
  next:  give an out of FLOAT.

popops.map(graph, expr._1 + expr._2, [x], prog)
The expression contains _2, but the list of tensors has only 1.
  next:  add the missing tensors to the list; _1 is its first tensor.

popops.map(graph, expr._1 + expr._2, [x, h], prog)
Add was given two dtypes: _1 is FLOAT, and _2 is HALF.
  where: in Add(_1, _2)
  next:  convert one of them: expr.Cast(_2, FLOAT).

popops.map(graph, expr.Exp(expr._1), [count], prog)
Exp works on FLOAT and HALF, but was given INT.
  where: in Exp(_1)
  next:  convert the operand: expr.Cast(_1, FLOAT).

popops.map(graph, expr.Select(expr._1, expr._1, expr._1), [x], prog)
Select needs a condition of BOOL, but _1 is FLOAT.
  where: in Select(_1, _1, _1)
  next:  give the condition last, as in expr.Select(_1, _2, _3 > 0).

popops.map(graph, x, [x], prog)
map() was given Tensor('x', FLOAT, shape (4, 3)), which is not an expression.
  next:  give placeholders, numbers, or expressions of them: expr._1 + 2. Tensors go into the list of map().

popops.map(graph, expr._1, [], prog)
map() was given the tensors [].
  next:  give a list of 1 to 8 tensors; _1 in the expression is the first tensor.

popops.map(graph, expr._1, [x.transpose(), x], prog)
map() was given shapes (3, 4) and (4, 3), which do not broadcast.
  where: Tensor('x', FLOAT, shape (3, 4)) and Tensor('x', FLOAT, shape (4, 3))
  next:  dimensions are compared from the last; each must be equal, 1, or missing.

popops.map_in_place(graph, expr._1 > 0, [x], prog)
map_in_place() cannot write its result, BOOL of shape (4, 3), to its first tensor, which is FLOAT of shape (4, 3).
  where: Gt(_1, 0) of Tensor('x', FLOAT, shape (4, 3))
  next:  use map(), which returns a new tensor, or convert with expr.Cast.

expr.PlaceHolder(9)
PlaceHolder() was given 9.
  next:  give a number from 1 to 8.

expr.Add(expr._1)
Add() was given 1 operands, but needs 2.
  next:  give 2: Add computes a + b.

bool(expr._1 > 0)
Python asked whether the expression Gt(_1, 0) is true.
  next:  use expr.Select, expr.And or expr.Or, which decide for each element; an expression has no value while the graph is built.

popops.select(graph, x, y, v, prog)
select() needs a mask of BOOL, but its third operand is FLOAT.
  where: Tensor('v', FLOAT, shape (4,))
  next:  compare first: popops.gt(graph, x, 0, prog).

popops.select(graph, 1, 2, flag, prog)
select() was given two numbers as a and b.
  where: 1 and 2
  next:  give a tensor as a or b.

popops.clamp(graph, x, h, 1, prog)
clamp() was given two dtypes that differ: FLOAT and HALF.
  where: Tensor('x', FLOAT, shape (4, 3)) and Tensor('h', HALF, shape (4, 3))
  next:  cast one of them with popops.cast.

popops.reduce(graph, x, [0], prog, "LOGICAL_AND")
reduce() with LOGICAL_AND works on BOOL, but x is FLOAT.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  compare first: popops.neq(graph, x, 0, prog).

popops.reduce(graph, labels, [0], prog, "LOG_ADD")
reduce() with LOG_ADD works on FLOAT and HALF, but x is UNSIGNED_INT.
  where: Tensor('labels', UNSIGNED_INT, shape (4,))
  next:  cast it with popops.cast.

popops.reduce(graph, x, [0], prog, out_type=INT)
reduce() cannot reduce FLOAT to INT; it converts only HALF and FLOAT.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  leave out_type out, and convert the result with popops.cast.

popops.reduce(graph, x, [0], prog, ReduceParams("MAX", scale=2))
reduce() with MAX was given scale.
  next:  leave scale out; only ADD and SQUARE_ADD have a scale and an update.

popops.reduce(graph, x, [0], prog, ReduceParams("ADD", update=True))
reduce() was given update=True, but no output to which the result is added.
  next:  use reduce_with_output, or give outputs to reduce_many.

popops.reduce(graph, x, [0], prog, ReduceParams("ADD", scale=x))
reduce() was given a scale that is neither a number nor a FLOAT tensor of one element.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  create the tensor with graph.add_variable(FLOAT, ()).

popops.reduce(graph, labels, [0], prog, ReduceParams("ADD", scale=2))
reduce() can scale FLOAT and HALF, but x is UNSIGNED_INT.
  where: Tensor('labels', UNSIGNED_INT, shape (4,))
  next:  leave scale out.

popops.reduce_with_output(graph, x, v, [0], prog)
reduce_with_output() was given two shapes that differ: (4,) and (3,).
  where: out Tensor('v', FLOAT, shape (4,))
  next:  give an out of shape (3,).

popops.reduce_many(graph, [x], prog)
reduce_many() was given [Tensor('x', FLOAT, shape (4, 3))].
  next:  give a list: [SingleReduceOp(x, [0]), …].

popops.reduce_many(graph, [SingleReduceOp(x, [0])], prog, outputs=[])
reduce_many() was given 1 reduction and the outputs [].
  next:  give a list with one tensor for each reduction, or leave outputs out.

popops.scaled_subtract_from(graph, x, y, h, prog)
scaled_subtract_from() needs k as a tensor of 1 element of FLOAT, but was given 12 of HALF.
  where: Tensor('h', HALF, shape (4, 3))
  next:  give a number, or a tensor of one element; for a factor per element, use popops.mul.

popops.scaled_add_to(graph, x, y, 1, prog, options={"optimiseForSpeed": True})
scaled_add_to() has no option 'optimiseForSpeed'.
  next:  did you mean 'optimizeForSpeed'? Its options are optimizeForSpeed, scaleFloatToHalfTolerance.

popops.scaled_add_to(graph, x, y, 1, prog, options={"optimizeForSpeed": "yes"})
scaled_add_to() was given the option 'optimizeForSpeed' as 'yes'.
  next:  give True or False.

popops.scaled_add_to(graph, x, y, 1, prog, options={"optimizeForSpeed": True, "optimize_for_speed": True})
scaled_add_to() was given the option 'optimizeForSpeed' twice.
  next:  give it once: both spellings mean the same.

popops.scaled_subtract_from(graph, x, y, 1, prog, options=[1])
scaled_subtract_from() was given the options [1].
  next:  give a dict, as in options={'optimizeForSpeed': …}.

popops.axpby_to(graph, x, 1, y, 1, prog, options={"scale_float_to_half_tolerance": -1})
axpby_to() was given the option 'scaleFloatToHalfTolerance' as -1.
  next:  give a number of 0 or more.

popops.axpby_to(graph, x, 1, y, 1, prog, specialisation="DEFAULT")
axpby_to() was given 'DEFAULT' as specialisation.
  next:  use ScaledAddSpecialisation.DEFAULT or X_MINUS_AX_PLUS_BY.

popops.iota(graph, v, 0, prog)
iota() works on INT and UNSIGNED_INT, but x is FLOAT.
  where: Tensor('v', FLOAT, shape (4,))
  next:  cast it with popops.cast.

popops.encode_one_hot(graph, labels[:3], x, prog)
encode_one_hot() was given two numbers of rows that differ: 3 and 4.
  where: indices Tensor(a view of 'labels', UNSIGNED_INT, shape (3,)) and encoded Tensor('x', FLOAT, shape (4, 3))
  next:  give an index for each row.

popops.encode_one_hot(graph, labels, x, prog, on=float("nan"))
encode_one_hot() was given nan as on.
  next:  give a number that is neither NaN nor infinite.

popops.all_true(graph, x, prog)
all_true() works on BOOL, but x is FLOAT.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  compare first: popops.neq(graph, x, 0, prog).

popops.has_nan(graph, labels, prog)
has_nan() works on FLOAT and HALF, but x is UNSIGNED_INT.
  where: Tensor('labels', UNSIGNED_INT, shape (4,))
  next:  cast it with popops.cast.

popops.pad(graph, x, [1], [1, 1])
pad() was given [1] as lower for 2 dimensions.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  give a list with a whole number for each dimension.

popops.pad(graph, x, [0, 3], [0, 0], popops.PaddingType.REFLECT)
pad() with REFLECT was given lower 3 and upper 0 for dimension 1 of 3 elements.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  remove at most 3 elements. With EDGE, at least one element must remain. With REFLECT, more elements must remain than are added on either side.

popops.pad(graph, x, [0, 0], [0, 0], "EDGE")
pad() was given 'EDGE' as padding.
  next:  use PaddingType.CONSTANT, EDGE or REFLECT.

popops.counted_loop(graph, 0, 5, -1, print)
counted_loop() was given begin=0, end=5 and step=-1.
  next:  give a step above 0 if end is above begin, and below 0 if end is below begin.

popops.counted_loop(graph, 0, 5, 0, print)
counted_loop() was given begin=0, end=5 and step=0.
  next:  give a step above 0 if end is above begin, and below 0 if end is below begin.

popops.counted_loop(graph, 0, 5, 1, prog)
counted_loop() was given Sequence(0 programs) as body.
  next:  give a function of the counter that returns a program.

popops.counted_loop(graph, 0, 5, 1, lambda counter: None)
The body of counted_loop() returned None.
  next:  return a program, such as a Sequence.

popops.counted_loop(graph, 0.5, 5, 1, print)
counted_loop() was given 0.5 as begin.
  next:  give a whole number from -2**31 to 2**31 - 1.

popops.create_sliceable_tensor(graph, FLOAT, (4, 3), [2])
create_sliceable_tensor() was given the dimensions [2] for the shape (4, 3).
  next:  give a list of different dimensions, as in [0].

popops.counted_for_loop(graph, count, 0, one, 1, prog)
counted_for_loop() needs tensors of one element as counter and limit, both INT or both UNSIGNED_INT.
  where: counter Tensor('count', INT, shape ()) and limit Tensor('one', FLOAT, shape (1,))
  next:  create both tensors with graph.add_variable(INT, ()).

popops.dynamic_slice(graph, x, v, [0], [1], prog)
dynamic_slice() needs an offset of 1 element of UNSIGNED_INT, but was given 4 of FLOAT.
  where: Tensor('v', FLOAT, shape (4,))
  next:  give an element for each dimension in dims, and cast it with popops.cast.

popops.dynamic_slice(graph, x, labels[:1], [0], [5], prog)
dynamic_slice() was given the sizes [5] for dimensions of 4.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  give a list with a size for each dimension, from 1 to its length.

popops.dynamic_slice(graph, x, labels[:1], [], [], prog)
dynamic_slice() was given the dimensions [].
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  give a list of different dimensions, as in [0].

popops.dynamic_update(graph, x, y, labels[:1], [0], [2], prog)
dynamic_update() was given two shapes that differ: (2, 3) and (4, 3).
  where: x Tensor('x', FLOAT, shape (4, 3)) and update Tensor('y', FLOAT, shape (4, 3))
  next:  give an update with the shape of the slice.

popops.multi_slice(graph, x, labels, [0], [1], prog)
multi_slice() needs offsets with 2 dimensions; it has 1.
  where: Tensor('labels', UNSIGNED_INT, shape (4,))
  next:  reshape, flatten or index the tensor.

popops.multi_slice(graph, x, v.expand([1]), [0], [1], prog)
multi_slice() needs offsets [slices, 1] of UNSIGNED_INT or INT, but was given shape (4, 1) of FLOAT.
  where: Tensor('v', FLOAT, shape (4, 1))
  next:  give a number for each dimension in dims; for one dimension, write offsets.expand([1]).

popops.multi_update_add(graph, x, x.expand([1]), labels.expand([1]), x, [0], [1], prog)
multi_update_add() needs scale as a tensor of 1 element of FLOAT, but was given 12 of FLOAT.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  give a number, or a tensor of one element; for a factor per element, use popops.mul.

popops.gather(graph, x, labels, 1, [1], [1, 9], [0], [0], prog)
gather() was given [1, 9] as slice_sizes.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  give a size for each dimension of x, from 1 to its length, and 1 for the dimensions in collapsed_slice_dims.

popops.gather(graph, x, v, 1, [1], [1, 3], [0], [0], prog)
gather() works on indices of INT and UNSIGNED_INT, but was given FLOAT.
  where: Tensor('v', FLOAT, shape (4,))
  next:  cast indices with popops.cast.

popops.gather(graph, x, labels, 2, [1], [1, 3], [0], [0], prog)
gather() was given 2 as index_vector_dim.
  where: Tensor('labels', UNSIGNED_INT, shape (4,))
  next:  give a dimension of indices, or 1 if each number in indices is a start position.

popops.gather(graph, x, labels, 1, [5], [1, 3], [0], [0], prog)
gather() was given [5] as offset_dims.
  next:  give a list of 1 different dimensions, from 0 to 1.

popops.scatter(graph, x, labels, y[:2], 1, [1], [0], [0], prog)
scatter() was given two shapes that differ: (4,) and (2,).
  where: x Tensor('x', FLOAT, shape (4, 3)) and updates Tensor(a view of 'y', FLOAT, shape (2, 3))
  next:  give updates the dimensions of indices without index_vector_dim, and those of a slice.

popops.select_scalar_from_rows(graph, x, labels[:2], prog)
select_scalar_from_rows() needs indices of 4 UNSIGNED_INT, but was given 2 of UNSIGNED_INT.
  where: Tensor(a view of 'labels', UNSIGNED_INT, shape (2,))
  next:  give one index for each row of x, and cast indices with popops.cast.

popops.top_k(graph, 3, x, prog)
top_k() was given 3 as params.
  next:  give TopKParams(k).

popops.top_k(graph, TopKParams(4), x, prog)
top_k() was given k=4 for rows of 3 elements.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  give a k from 0 to 3, the length of the last dimension.

popops.top_k(graph, TopKParams(2, True, "up"), x, prog)
TopKParams() was given 'up' as sort_order.
  next:  give one of SortOrder.NONE, SortOrder.ASCENDING, SortOrder.DESCENDING.

popops.top_k_key_value(graph, TopKParams(2), x, v, prog)
top_k_key_value() was given two shapes that differ: (4, 3) and (4,).
  where: keys Tensor('x', FLOAT, shape (4, 3)) and values Tensor('v', FLOAT, shape (4,))
  next:  give a value for each key.

popops.arg_max(graph, empty.transpose(), prog)
arg_max() was given rows without elements.
  where: Tensor(empty tensor, FLOAT, shape (3, 0))
  next:  give rows of at least one element.

popops.sort(graph, flag, 0, prog)
sort() works on numbers, but x is BOOL.
  where: Tensor('flag', BOOL, shape (4, 3))
  next:  cast it with popops.cast.

popops.normalise_image(graph, x, 1, v, v, prog)
normalise_image() needs offsets and scales of shape (3,), both FLOAT or both HALF, but offsets has shape (4,) and dtype FLOAT.
  where: Tensor('v', FLOAT, shape (4,))
  next:  give tensors with a number for each channel.

popops.reduce(graph, x, [0], prog, options={"accumType.intertile": FLOAT})
reduce() has no option 'accumType.intertile'.
  next:  did you mean 'accumType.interTile'? Its options are accumType.interTile, accumType.inVertex.

popops.reduce(graph, labels, [0], prog, options={"accumType.interTile": HALF})
reduce() was given an accumType for UNSIGNED_INT.
  next:  leave accumType out; it is only for FLOAT and HALF.

popops.reduce(graph, x, [0], [3])
reduce() was given [3] as prog.
  next:  give a Sequence; the call appends to it.

popops.embedding_plan(graph, FLOAT, 0, 3, [2])
embedding_plan() was given 0 as num_entries.
  next:  give a whole number of 1 or more.

popops.embedding_plan(graph, FLOAT, 4, 3, [])
embedding_plan() was given [] as num_lookups.
  next:  give a list of whole numbers, each 1 or more, as in [100].

popops.embedding_plan(graph, FLOAT, 4, 3, [2], {"usedForSlice": False, "usedForUpdate": False})
embedding_plan() was given False for both usedForSlice and usedForUpdate.
  next:  leave one of them True.

popops.embedding_plan(graph, FLOAT, 4, 3, [2], {"operation_for_update": "mul"})
embedding_plan() was given the option 'operationForUpdate' as 'mul'.
  next:  give 'none' or 'add' or 'max'.

popops.multi_slice(graph, x, labels.expand([1]), [0], [1], prog, plan=3)
multi_slice() was given 3 as plan.
  next:  give what embedding_plan returns.

popops.multi_slice(graph, x, labels.expand([1]), [0], [1], prog, plan=popops.embedding_plan(graph, FLOAT, 5, 3, [4]))
multi_slice() was given a plan for another table. The plan is for a FLOAT table of shape (5, 3) on 5 tiles, sliced along \
dimensions [0]. The table is a FLOAT tensor of shape (4, 3) on 5 tiles, sliced along dimensions [0].
  next:  create a plan for this table with popops.embedding_plan.

popops.multi_slice(graph, x, labels.expand([1]), [0], [2], prog, plan=popops.embedding_plan(graph, FLOAT, 4, 3, [4]))
multi_slice() was given a plan and the sizes [2].
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  give sizes=[1], or leave the plan out.

popops.multi_update(graph, x, x.expand([1]), labels.expand([1]), [0], [1], prog, options={"usedForUpdat": True})
multi_update() has no option 'usedForUpdat'.
  next:  did you mean 'usedForUpdate'? Its options are usedForSlice, usedForUpdate, operationForUpdate, availableMemoryProportion, \
planMinimisationTarget, indicesDistribution, indicesAreSorted.

popops.create_sliceable_tensor(graph, FLOAT, (4, 3), [1], plan=popops.embedding_plan(graph, FLOAT, 4, 3, [4]))
create_sliceable_tensor() was given a plan for another table. The plan is for a FLOAT table of shape (4, 3) on 5 tiles, \
sliced along dimensions [0]. The table is a FLOAT tensor of shape (4, 3) on 5 tiles, sliced along dimensions [1].
  next:  create a plan for this table with popops.embedding_plan.

popops.create_indices_tensor(graph, [0], -1)
create_indices_tensor() was given dims=[0] and num_indices=-1.
  next:  give a list of dimensions, and a whole number of 0 or more as num_indices.

popops.CircBuf(graph, FLOAT, 0, (3,))
CircBuf() was given 0 as size.
  next:  give a whole number of 1 or more.

popops.sequence_slice(graph, x, h, labels, labels, labels, False, prog)
sequence_slice() was given two dtypes that differ: FLOAT and HALF.
  where: t_in Tensor('x', FLOAT, shape (4, 3)) and t_out Tensor('h', HALF, shape (4, 3))
  next:  cast one of them with popops.cast.

popops.sequence_slice(graph, x, y, labels, labels[:2], labels, False, prog)
sequence_slice() needs n, in_offset and out_offset with the dtype UNSIGNED_INT and with equal lengths, but in_offset has the dtype UNSIGNED_INT and the length 2.
  where: Tensor(a view of 'labels', UNSIGNED_INT, shape (2,))
  next:  give each of the three tensors one element for each group of rows, and cast them with popops.cast.

popops.sequence_slice(graph, x, x.transpose(), labels, labels, labels, False, prog)
sequence_slice() was given two shapes of a row that differ: (3,) and (4,).
  where: t_in Tensor('x', FLOAT, shape (4, 3)) and t_out Tensor('x', FLOAT, shape (3, 4))
  next:  give tensors with rows of one shape.

popops.create_host_sliceable_tensor(graph, FLOAT, (3,), True)
create_host_sliceable_tensor() was given the shape (3,).
  next:  give a shape (rows, length of a row).

popops.dynamic_slice_with_output(graph, x, y, labels[:1], [0], [2], prog)
dynamic_slice_with_output() was given two shapes that differ: (4, 3) and (2, 3).
  where: out Tensor('x', FLOAT, shape (4, 3))
  next:  give an out of shape (2, 3).

poputil.TensorUseTracker(0)
TensorUseTracker() was given 0 as num_tiles.
  next:  give graph.target.num_tiles.

poputil.TensorUseTracker(5).add(graph, 5, x)
TensorUseTracker.add() was given tile 5, but the number of tiles is 5.
  next:  give a tile from 0 to 4.

poputil.factor_dims(x, [3], 0)
factor_dims() was given the factors [3] and start_dim=0.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  give a list of whole numbers, each of which divides its dimension.

poputil.unfactor_dims(x, 2, 0)
unfactor_dims() was given num_dims=2 and start_dim=0, which do not fit a tensor of 2 dimensions.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  give whole numbers for which start_dim + 2 * num_dims is at most 2: num_dims dimensions, and then num_dims factors.

poputil.choose_mapping_offset(0, (3,))
choose_mapping_offset() was given 0 as num_tiles.
  next:  give a whole number of 1 or more.

popops.map(graph, expr._1, [x], prog, options={"enableGenerateCodelets": False})
map() has no option 'enableGenerateCodelets'.
  next:  did you mean 'enableGenerateCodelet'? Its options are enableGenerateCodelet.

popops.add_codelets(3)
add_codelets() was given 3 as its graph.
  next:  give a Graph as the first argument.

popops.plan_reduce(3, 3, FLOAT, graph.target, "MEAN")
plan_reduce() was given the operation 'MEAN'.
  next:  use ADD, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD, LOG_ADD.

poputil.clone_to_ipu(graph, x, 1)
clone_to_ipu() was given IPU 1, but the number of IPUs is 1.
  next:  count IPUs from 0, or create a device with more IPUs: IPUModel(num_ipus=2).

poputil.expand_to_match_ranks(x, 3)
expand_to_match_ranks() was given 3 as b.
  next:  give a tensor.

poputil.split_regions([(3, 1)], 1, 2)
split_regions() was given regions=[(3, 1)], grain_size=1, max_parts=2 and min_elements_per_part=0.
  next:  give a list of (begin, end) intervals, and whole numbers; grain_size and max_parts are 1 or more.

poputil.clone_n(graph, x, 0)
clone_n() was given 0 as n.
  next:  give a whole number of 1 or more.
"""
REFUSALS = [tuple(case.split("\n", 1)) for case in REFUSED.strip().split("\n\n")]
SMALL = QUARTER[QuarterFormat.F143, -2]


@pytest.mark.parametrize(("call", "text"), REFUSALS, ids=[call for call, _ in REFUSALS])
def test_what_is_refused_is_explained_and_changes_nothing(call: str, text: str) -> None:
    shelf = TensorKinds()
    before = shelf.state()
    with pytest.raises(IPUTeachError) as caught:
        eval(call, globals(), vars(shelf))
    assert type(caught.value) is (
        InvalidOptionError if " option" in text or "usedForSlice and" in text else PoplibsError
    )
    assert str(caught.value) == text
    assert shelf.state() == before or "The body of" in text  # which was called with a counter


LOST = [
    "popops.add(graph, x, lost, prog)",
    "popops.add(graph, lost, x, prog)",
    "popops.add_in_place(graph, x, lost, prog)",
    "popops.exp(graph, lost, prog)",
    "popops.reduce(graph, lost, [0], prog)",
    "popops.cast(graph, lost, HALF, prog)",
    "popops.map(graph, expr._1 + expr._2, [x, lost], prog)",
    "popops.clamp(graph, x, lost, 1, prog)",
    "popops.scaled_add_to(graph, x, lost, 1, prog)",
    "popops.exp_with_output(graph, x, lost, prog)",
    "popops.dynamic_slice(graph, lost, labels[:1], [0], [1], prog)",
    "popops.sort(graph, lost, 0, prog)",
    "popops.zero(graph, lost, prog)",
    "popops.iota(graph, lost_count.expand([0]), 1, prog)",
]


@pytest.mark.parametrize("call", LOST)
def test_what_lies_on_no_tile_is_named_at_the_call(call: str) -> None:
    shelf = TensorKinds()
    before = shelf.state()
    with pytest.raises(InvalidTileMappingError) as caught:
        eval(call, globals(), vars(shelf))
    function = call.split("(")[0].removeprefix("popops.")
    count = 1 if "lost_count" in call else 12
    first, where, advice = str(caught.value).split("\n")
    assert first.startswith(f"{function}() was given ") and first.endswith(
        f" with {count} of its {count} elements not mapped to any tile."
    )
    assert where.startswith("  where: Tensor(") and "'lost" in where
    assert advice == (
        "  next:  graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, "
        "tensor)."
    )
    assert shelf.state() == before


@pytest.mark.parametrize(
    "call",
    [
        "popops.exp(graph, q, prog)",
        "popops.map(graph, expr._1, [q], prog)",
        "popops.sort(graph, q, 0, prog)",
        "popops.reduce(graph, q, [0], prog)",
        "popops.multi_slice(graph, q, labels.expand([1]), [0], [1], prog)",
    ],
)
def test_eight_bit_floats_are_cast_first(call: str) -> None:
    shelf = TensorKinds()
    small = shelf.graph.add_variable(SMALL, (4,), "q")
    poputil.map_tensor_linearly(shelf.graph, small)
    with pytest.raises(PoplibsError, match=r"QUARTER\[F143, -2\](.|\n)*  next: "):
        eval(call, globals(), {**vars(shelf), "q": small})


FUNCTIONS = [
    f
    for f in (getattr(popops, name) for name in popops.__all__)
    if inspect.isfunction(f)
    and f is not popops.reduce_rows
    and (
        f.__module__ != elementwise.__name__
        or f.__name__.split("_")[0] in ("add", "exp", "eq", "logical")
    )
] + [
    poputil.expand_to_match_ranks,
    poputil.get_tile_imbalance,
    poputil.map_tensor_linearly_with_offset,
    poputil.duplicate,
    poputil.clone_n,
    poputil.clone_to_ipu,
    poputil.copy_to_ipu,
    poputil.dim_is_split_over_tiles,
    poputil.dim_is_split_over_ipus,
    poputil.split_regions,
    poputil.split_regions_between_workers,
    poputil.calc_linear_tile_mapping,
    poputil.map_tensor_linearly,
    poputil.balanced_partition,
    poputil.broadcast_to_match,
    poputil.clone,
    poplin.mat_mul,
    poplin.plan_mat_mul,
    popnn.softmax,
    popnn.calc_loss,
    popnn.calc_accuracy,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@settings(RANDOMLY, max_examples=20)
@given(st.data())
def test_garbage_is_refused_in_the_kits_own_words(function: Any, data: st.DataObject) -> None:
    shelf = TensorKinds()
    sensible: dict[str, Any] = {
        "graph": shelf.graph,
        "prog": shelf.prog,
        "target": shelf.graph.target,
        "dtype": FLOAT,
        "debug_context": "name",
        "name": "name",
        "operation": "ADD",
        "dims": [0],
        "shape": (4, 3),
        "k": 2,
        "value": 1,
        "expected": shelf.labels,
        "loss": shelf.v,
        "num_correct": shelf.count,
        "m": 3,
        "mask": shelf.flag,
        "expression": expr._1 + 1,
        "tensors": [shelf.x, shelf.y],
        "params": TopKParams(2),
        "sizes": [2],
        "scale": 0.5,
        "offset": shelf.labels[:1],
        "offsets": shelf.labels.expand([1]),
        "indices": shelf.labels,
        "dim": 0,
        "padding": popops.PaddingType.EDGE,
        "lower": [1, 0],
        "upper": [0, 2],
        "start": 3,
        "begin": 0,
        "end": 4,
        "step": 1,
        "body": shelf.prog,
        "counter": shelf.count,
        "limit": shelf.count,
        "operations": [SingleReduceOp(shelf.x, [0])],
        "outputs": None,
        "out_type": None,
        "rows": 3,
        "columns": 4,
        "on": 1,
        "off": 0,
        "updates": shelf.x.expand([1]),
        "update": shelf.x[:2],
        "num_slices": 2,
        "index_vector_dim": 1,
        "offset_dims": [1],
        "slice_sizes": [1, 3],
        "collapsed_slice_dims": [0],
        "start_index_map": [0],
        "n": 2,
        "ipu": 0,
        "regions": [(0, 5)],
        "grain_size": 2,
        "max_parts": 3,
        "min_elements_per_tile": 0,
        "min_elements_per_part": 0,
        "min_elements_per_worker": 0,
    }
    junk = st.sampled_from(
        [
            *WRONG_VALUES,
            *vars(shelf).values(),
            shelf.x[1:],
            shelf.x.transpose(),
            shelf.v[2],
            expr._2,
            SortOrder.NONE,
        ]
    )
    arguments = {
        name: data.draw(junk)
        if data.draw(st.integers(0, 3)) == 0
        else sensible.get(
            name, shelf.x if parameter.default is parameter.empty else parameter.default
        )
        for name, parameter in inspect.signature(function).parameters.items()
    }
    if function is popops.counted_loop:  # what a body does is its own affair
        arguments["body"] = data.draw(st.sampled_from([lambda counter: shelf.prog, None, 3]))
    before = shelf.state()
    try:
        function(**arguments)
    except IPUTeachError as error:
        assert str(error)
        assert shelf.state() == before


def test_every_refusal_says_what_to_do_next() -> None:
    assert len(REFUSALS) > 60
    assert [call for call, text in REFUSALS if "\n  next:  " not in text] == []


def test_the_tensors_of_two_graphs_do_not_mix() -> None:
    graph = Graph(IPUModel(tiles_per_ipu=2).create_device())
    other = graph.add_variable(FLOAT, (4, 3), "z")
    shelf = TensorKinds()
    for call in (
        "map(graph, expr._1, [z], prog)",
        "sort(graph, z, 0, prog)",
        "select(graph, x, z, flag, prog)",
    ):
        with pytest.raises(PoplibsError, match="was given a tensor of another graph"):
            eval(f"popops.{call}", globals(), {**vars(shelf), "z": other})
