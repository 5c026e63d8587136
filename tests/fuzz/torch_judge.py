"""Judge what a module gives by torch on the CPU, in float64, in float32, and with rounding errors.

A result must have torch's dtype, shape, NaN and infinities, and be as near to float64 as float32
allows. One that is not is compared with runs of torch in which each inexact operation is off by a
few units in the last place: rounding, and comparisons of nearly equal values, may differ so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isinf
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from fuzz import torch_lines
from fuzz.torch_lines import words

RUNS = 12  # with rounding errors
ULPS = 4
EXACT = frozenset(
    words("""abs neg relu maximum minimum clamp max min amax amin where sort topk gather index
    index_select select slice view expand permute transpose t cat stack clone copy detach
    zeros_like ones_like full_like full zeros ones scalar_tensor arange argmax argmin argsort sign
    sgn floor ceil round trunc eq ne lt le gt ge threshold_backward hardtanh masked_fill flip roll
    constant_pad_nd _reshape_alias _unsafe_view unsqueeze squeeze repeat lift_fresh alias
    embedding diagonal unfold fill empty_like empty new_zeros new_full new_empty_strided
    empty_strided scatter index_put masked_select isnan logical_not hardtanh_backward tril triu
    max_pool2d_with_indices max_pool2d_with_indices_backward relu6 split split_with_sizes
    unbind median cummax cummin copysign fmax fmin""")
)
SUMS = frozenset(
    words("""mm bmm addmm baddbmm sum mean convolution convolution_backward dot var var_mean std
    native_layer_norm native_layer_norm_backward native_batch_norm native_batch_norm_backward
    native_group_norm native_group_norm_backward _softmax _softmax_backward_data _log_softmax
    _log_softmax_backward_data cumsum avg_pool2d logsumexp linalg_vector_norm
    _scaled_dot_product_flash_attention_for_cpu""")
)
UPDATES = frozenset(words("add_ sub_ mul_ div_ addcmul_ addcdiv_ lerp_"))


class Rounding(TorchDispatchMode):  # type: ignore[misc]
    """Changes the results of inexact operations by up to `ULPS` units in the last place."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name in UPDATES and args[0].is_floating_point():
            exact = _widened(args[0]).clone()
            func(exact, *tree_map(_widened, args[1:]), **tree_map(_widened, kwargs))
            func(*args, **kwargs)
            return args[0].copy_(self.rounded(args[0], exact))
        if name in torch_lines.CHOOSING and args[0].dim():
            return self.chosen(func, *args, **kwargs)
        if func._schema.is_mutable or name in EXACT or func.is_view:
            return func(*args, **kwargs)
        if name == "linalg_vector_norm" and isinf(args[1]):  # the largest element
            return func(*args, **kwargs)
        if name == "gelu":  # 0.5 x (1 + erf(x)), whose sum cancels
            return func(*args, **kwargs) + 0.5 * (self.nudged(args[0]) - args[0])
        if name in SUMS:
            args = tree_map(self.nudged, args)
        results = func(*args, **kwargs)
        try:
            exact = func(*tree_map(_widened, args), **tree_map(_widened, kwargs))
        except Exception:
            return tree_map(self.nudged, results)
        return tree_map(self.rounded, results, exact)

    def chosen(self, func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a choice among elements that are in a random order: of equal ones, any."""
        names = [a.name for a in func._schema.arguments]
        named = dict(zip(names, (x, *args), strict=False)) | kwargs
        dim = named.get("dim", -1)
        if "dim" not in names:
            return func(x, *args, **kwargs)
        order = torch.randperm(x.shape[dim], generator=self.generator)
        values, places = func(**named | {names[0]: x.index_select(dim, order)})
        return values, order[places]

    def nudged(self, value: Any) -> Any:
        """Return a float tensor with relative errors; anything else as it is."""
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        ulps = torch.randint(-ULPS, ULPS + 1, value.shape, generator=self.generator)
        epsilon = torch.finfo(value.dtype).eps
        return value * (1 + ulps.to(value.dtype) * epsilon).to(value.dtype)

    def rounded(self, value: Any, exact: Any) -> Any:
        """Return a float tensor with errors where it is not exact."""
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        if not isinstance(exact, torch.Tensor) or exact.shape != value.shape:
            return self.nudged(value)
        return torch.where(value.double() == exact.double(), value, self.nudged(value))


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return torch.float64 if value in (torch.float32, torch.float16) else value


def unlike(
    actual: Any, narrow: Any, wide: Any, floor: float, name: str, spread: Sequence[Any] = ()
) -> str:
    """Return in words how a tensor differs from torch's, or "".

    `narrow` and `wide` are torch's in float32 and float64; `spread` are those with rounding errors.
    """
    if not isinstance(actual, torch.Tensor):
        return f"{name} is {actual!r} in place of {narrow!r}"
    if actual.dtype != narrow.dtype or actual.shape != narrow.shape:
        return (
            f"{name} is {actual.dtype} {list(actual.shape)} in place of "
            f"{narrow.dtype} {list(narrow.shape)}"
        )
    actual, narrow = actual.detach(), narrow.detach()
    if not actual.is_floating_point():
        fits = actual == narrow
        for other in spread:
            fits = fits | (other == actual)
    else:
        fits = _close(actual.double(), narrow.double(), wide.detach().double(), floor)
        if narrow.dtype == torch.float16:  # the device sums in FLOAT what overflows in torch
            fits |= narrow.isinf() & ((actual - wide).abs() <= floor * wide.abs())
        if spread:
            others = torch.stack([other.detach().double() for other in spread])
            fits = fits | _within(actual.double(), others, floor)
    if bool(fits.all()):
        return ""
    return f"{name} is {_listed(actual)} in place of {_listed(narrow)}"


def _close(actual: Any, narrow: Any, wide: Any, floor: float) -> Any:
    same = (actual == narrow) | (actual.isnan() & (narrow.isnan() | wide.isnan()))
    same |= (actual == wide) & actual.isinf()
    error = (narrow - wide).abs()
    error = torch.where(error.isfinite(), error, 0.0)
    room = floor * narrow.abs() + 8 * error + _absolute(narrow, floor)
    near = ((actual - wide).abs() <= room) | ((actual - narrow).abs() <= room)
    # of an ill-conditioned value torch itself has no digit right
    lost = error > 0.05 * torch.maximum(narrow.abs(), wide.abs())
    return same | ((near | lost) & actual.isfinite() & narrow.isfinite())


def _absolute(values: Any, floor: float) -> float:
    """Return the error permitted beside 0: `floor` of the largest finite value, at most of 1."""
    finite = values[values.isfinite()].abs()
    return floor * min(1.0, float(finite.max()) if finite.numel() else 0.0) + 1e-36


def _within(actual: Any, others: Any, floor: float) -> Any:
    finite = torch.where(others.isfinite(), others, torch.nan)
    low, high = finite.nan_to_num(nan=torch.inf).amin(0), finite.nan_to_num(nan=-torch.inf).amax(0)
    middle = (low + high) / 2
    reach = (high - low) * 4 + floor * middle.abs() + _absolute(others, floor)
    inside = (actual - middle).abs() <= reach
    same = (actual.isnan() & others.isnan().any(0)) | (actual == others).any(0)
    return same | (inside & actual.isfinite())


def _listed(tensor: Any) -> str:
    text = str(tensor.tolist())
    return text if len(text) < 400 else text[:400] + "…"


Reference = Callable[[torch.dtype], list[tuple[str, Any]]]


def differences(actual: Sequence[tuple[str, Any]], reference: Reference, dtype: torch.dtype) -> str:
    """Return in words how named results differ from those of `reference`, or "".

    `reference(dtype)` runs torch from the same start; it is called again with rounding errors
    where a result is not close enough.
    """
    floor = 2e-6 if dtype == torch.float32 else 2.0**-10
    narrow = reference(dtype)
    try:
        wide = reference(torch.float64)
        if any(a.shape != b.shape for (_, a), (_, b) in zip(narrow, wide, strict=True)):
            wide = narrow
    except (RuntimeError, ValueError):  # the module mixes dtypes
        wide = narrow
    if len(actual) != len(narrow):
        return f"{len(actual)} results in place of {len(narrow)}"
    wrong = [
        number
        for number, ((name, a), (_, n), (_, w)) in enumerate(zip(actual, narrow, wide, strict=True))
        if unlike(a, n, w, floor, name)
    ]
    if not wrong:
        return ""
    spread = []
    for seed in range(RUNS):
        # without a library that computes a whole LSTM at once, and so rounds nothing within it
        with torch.backends.mkldnn.flags(enabled=False), Rounding(seed):
            spread.append(reference(dtype))
    for number in wrong:
        name, value = actual[number]
        others = [run[number][1] for run in spread]
        others = [o for o in others if o.shape == value.shape] if hasattr(value, "shape") else []
        fault = unlike(value, narrow[number][1], wide[number][1], floor, name, others)
        if fault:
            return fault
    return ""
