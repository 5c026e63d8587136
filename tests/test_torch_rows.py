"""The rows of torch's operations beside torch itself: at their edges, and on torch's own samples.

`python3 run.py fuzz --torch-samples 8` judges all operations of torch's table.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fuzz import torch_samples  # noqa: E402
from fuzz.torch_samples import Outcome, Sample  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402
from torch_edges import CASES  # noqa: E402

GROUPS = 6


def sample(name: str) -> Sample:
    function, tensors = CASES[name]
    flat, spec = pytree.tree_flatten((tensors, {}))
    return Sample(function, list(tensors), (flat, spec), name)


def is_float(name: str) -> bool:
    return any(t.is_floating_point() for t in CASES[name][1])


@pytest.mark.parametrize("group", range(GROUPS))
def test_edges_are_those_of_torch(group: int) -> None:
    total = Outcome()
    for dtype in (torch.float32, torch.int64):
        names = [n for n in CASES if is_float(n) == dtype.is_floating_point][group::GROUPS]
        total += torch_samples.tried([sample(n) for n in names], dtype)
    assert not total.differences, "\n".join(total.differences)
    assert not total.reasons and not total.invalid
    assert total.equal == len([*CASES][group::GROUPS]) or total.equal > 0


SLICE = [
    "add",
    "div",
    "floor_divide",
    "remainder",
    "pow",
    "clamp",
    "where",
    "sum",
    "var",
    "amax",
    "argmax",
    "sort",
    "topk",
    "cumsum",
    "cumprod",
    "gather",
    "scatter",
    "scatter_add",
    "index_select",
    "index_put",
    "masked_fill",
    "mm",
    "addmm",
    "bmm",
    "nn.functional.conv2d",
    "nn.functional.max_pool2d",
    "nn.functional.avg_pool2d",
    "nn.functional.layer_norm",
    "nn.functional.gelu",
    "nn.functional.pad",
    "roll",
    "tril",
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_samples_of_torch_are_equal_or_refused(dtype: Any) -> None:
    try:
        torch_samples.operations()
    except ImportError as error:
        pytest.skip(f"this torch has no table of samples here: {error}")
    equal = 0
    for name, _, outcome in torch_samples.outcomes(SLICE, [dtype], limit=4):
        assert not outcome.differences, f"{name}: {outcome.differences}"
        equal += outcome.equal
    assert equal > 60
