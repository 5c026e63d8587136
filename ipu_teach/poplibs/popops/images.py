"""`normalise_image`, which prepares images for a model."""

from __future__ import annotations

from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.poplibs.library import OWN, check_number, library, refused
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.popops.casts import cast
from ipu_teach.poplibs.popops.fused import map as fused_map
from ipu_teach.poplibs.popops.operands import check_finite
from ipu_teach.program import Sequence as Program
from ipu_teach.types import FLOAT, HALF, UNSIGNED_CHAR

__all__ = ["normalise_image"]


@library
def normalise_image(
    graph: Graph,
    image: Tensor,
    scale: float,
    offsets: Tensor,
    scales: Tensor,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return (image * scale - offsets) * scales for each channel, and a fourth channel of zeros.

    `offsets` and `scales` [3] are both FLOAT or both HALF. `image` [..., 3] has the same dtype, or
    is UNSIGNED_CHAR and is cast first. A fused expression computes the result, [..., 4], in the
    dtype of the offsets.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    for name, tensor in (("offsets", offsets), ("scales", scales)):
        if (
            tensor.shape != (3,)
            or tensor.dtype not in (FLOAT, HALF)
            or tensor.dtype is not offsets.dtype
        ):
            raise refused(f"""needs offsets and scales of shape (3,), both FLOAT or both HALF, but
                {name} has shape {tensor.shape} and dtype {tensor.dtype.__name__}.
                where: {tensor!r}
                next:  give tensors with a number for each channel.""")
    if image.rank == 0 or image.shape[-1] != 3 or image.dtype not in (UNSIGNED_CHAR, offsets.dtype):
        raise refused(f"""needs an image [..., 3] of UNSIGNED_CHAR or {offsets.dtype.__name__}, but
            was given shape {image.shape} of {image.dtype.__name__}.
            where: {image!r}
            next:  reorder its dimensions with dim_shuffle so that the last dimension has the 3
            channels, or cast it with popops.cast.""")
    valid_scale = float(check_number("scale", scale, offsets.dtype))
    check_finite("scale", valid_scale)
    if image.dtype is UNSIGNED_CHAR:
        image = cast(graph, image, offsets.dtype, prog, debug_context=f"{debug_context}/cast")
    normalised = (expr._1 * valid_scale - expr._2) * expr._3
    channels = fused_map(
        graph, normalised, [image, offsets, scales], prog, debug_context=debug_context
    )
    zeros = graph.add_constant(offsets.dtype, (*image.shape[:-1], 1), 0, f"{debug_context}/blank")
    graph.set_tile_mapping(zeros, graph.get_tile_mapping(channels[..., 0]))
    return concat([channels, zeros], image.rank - 1)
