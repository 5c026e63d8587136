"""torch's own sample inputs (`op_db`) on the kit: each is equal to torch in float64, or refused.

`python3 run.py fuzz --torch-samples 8 [--only NAME]` judges the edges of `tests/torch_edges.py`, and
8 samples of each operation and dtype; with `--usual`, only floats and integers of the operations in
`USUAL`. The samples of an operation are one module, so that the kit compiles once: its parameters are
the samples' tensors that want a gradient, its inputs all other tensors, and its loss a weighted sum
of all floating-point results.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import time
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch_edges import CASES

from ipu_teach import IPUModel
from ipu_teach.errors import GraphMemoryAllocationError, IPUTeachError, ModelError
from ipu_teach.frontends import ir
from ipu_teach.frontends.pytorch import capture
from ipu_teach.frontends.pytorch.tensors import array, tensor_of

DTYPES = torch.float32, torch.float16, torch.int64, torch.bool
LARGEST = 4_000  # elements of a sample's tensors together
# of results that are differences of numbers near 10,000, in the samples of torch
COARSER = {"logcumsumexp": 2e-3}
TOLERANCE = {torch.float16: 4e-3}  # relative to the largest result; 2e-5 for other dtypes
GRADIENTS = 1.0  # the least largest gradient to which others are relative: terms of 1 cancel
TOGETHER = 64  # edges that are compiled as one module
DRAWN = "uniform", "normal", "dropout_mask"  # rows of random numbers
# The operations that models use most.
USUAL = [
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
UNSTABLE = "sort", "argsort", "msort", "topk", "kthvalue", "median", "nanmedian", "mode"
JUDGE = {torch.float32: torch.float64, torch.float16: torch.float64}


def operations() -> list[Any]:
    """Return torch's table of operations with sample inputs.

    The table's module imports `expecttest` for test classes that are not used here. A module with
    the one class that it asks for stands in where that package is not installed.

    :raises ImportError: if this torch has no such table, or its other requirements are missing.
    """
    if "expecttest" not in sys.modules and find_spec("expecttest") is None:
        stand_in: Any = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


@dataclass
class Sample:
    """A call of an operation: its arguments, of which the tensors are `tensors`."""

    call: Callable[..., Any]
    tensors: list[Any]
    form: Any
    text: str

    def results(self, tensors: Sequence[Any]) -> list[Any]:
        """Return the tensors that the call returns for these tensors."""
        rest = iter(tensors)
        flat = [next(rest) if isinstance(v, torch.Tensor) else v for v in self.form[0]]
        arguments, keywords = pytree.tree_unflatten(flat, self.form[1])
        found = pytree.tree_leaves(self.call(*arguments, **keywords))
        return [v for v in found if isinstance(v, torch.Tensor)]


def described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return repr(value)


def samples(operation: Any, dtype: Any, limit: int) -> list[Sample]:
    """Return at most `limit` samples of an operation, spread over those that torch has."""
    if dtype not in operation.supported_dtypes("cpu"):
        return []
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            drawn = list(operation.sample_inputs("cpu", dtype, requires_grad=False))
    except Exception:
        return []
    found = []
    for sample in drawn:
        arguments = (sample.input, *sample.args), dict(sample.kwargs)
        flat, spec = pytree.tree_flatten(arguments)
        tensors = [v for v in flat if isinstance(v, torch.Tensor)]
        if any(t.layout != torch.strided for t in tensors):
            continue
        if sum(t.numel() for t in tensors) > LARGEST:
            continue
        text = f"{operation.name}({', '.join(map(described, flat))})"
        found.append(Sample(operation.op, tensors, (flat, spec), text))
    step = max(len(found) / limit, 1.0)
    return [found[int(i * step)] for i in range(min(limit, len(found)))]


class Undetermined(Exception):
    """The results of an operation are random numbers."""


class Calls(torch.nn.Module):  # type: ignore[misc]
    """Several samples as one module that returns all results, and a loss last if `weights`."""

    def __init__(self, chosen: Sequence[Sample], has_gradients: bool) -> None:
        super().__init__()
        self.chosen = list(chosen)
        self.weights: list[list[Any]] = []
        self.states: list[list[Any]] = []  # for each tensor: a parameter, or None for an input
        self.inputs: list[Any] = []
        for i, sample in enumerate(chosen):
            self.states.append([])
            for j, tensor in enumerate(sample.tensors):
                state = None
                if has_gradients and tensor.is_floating_point():
                    state = torch.nn.Parameter(tensor.detach().clone())
                    setattr(self, f"state{i}_{j}", state)
                else:
                    self.inputs.append(tensor.detach().clone())
                self.states[i].append(None if state is None else f"state{i}_{j}")
        self.has_gradients = has_gradients

    def forward(self, *inputs: Any) -> Any:
        rest, results = iter(inputs), []
        for sample, names in zip(self.chosen, self.states, strict=True):
            tensors = [next(rest) if n is None else getattr(self, n) for n in names]
            results.append(sample.results(tensors))
        if not self.has_gradients:
            return results
        total = 0.0
        for i, several in enumerate(results):
            for j, result in enumerate(several):
                if result.is_floating_point() and result.requires_grad:
                    total = total + (result * weight(i, j, result)).sum().to(torch.float32)
        return results, total


def weight(i: int, j: int, result: Any) -> Any:
    """Return the fixed weights of a result in the loss."""
    draw = np.random.default_rng([i, j]).uniform(0.5, 1.5, tuple(result.shape))
    return torch.tensor(draw, dtype=result.dtype)


def by_torch(module: Calls, dtype: Any) -> tuple[list[list[Any]], dict[str, Any]]:
    """Return the results and gradients of torch itself, with floating-point tensors in a dtype."""

    def cast(tensor: Any) -> Any:
        return tensor.to(dtype) if dtype and tensor.is_floating_point() else tensor.clone()

    rest = iter(module.inputs)
    results, gradients = [], {}
    for i, (sample, names) in enumerate(zip(module.chosen, module.states, strict=True)):
        tensors, leaves = [], {}
        for name in names:
            tensor = cast(next(rest) if name is None else getattr(module, name).detach())
            if name is not None:
                leaves[name] = tensor.requires_grad_(True)
            tensors.append(tensor)
        several = sample.results(tensors)
        total = None
        if module.has_gradients:
            for j, result in enumerate(several):
                if result.is_floating_point() and result.requires_grad:
                    part = (result * weight(i, j, result)).sum().to(dtype or torch.float32)
                    total = part if total is None else total + part
        if total is not None:
            found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
            gradients.update({n: g for n, g in zip(leaves, found, strict=True) if g is not None})
        results.append([dense(r.detach()) for r in several])
    return results, {n: dense(g) for n, g in gradients.items()}


def dense(tensor: Any) -> Any:
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def compiled(graph: ir.Ir) -> ir.Run:
    """Return a graph compiled for few tiles, which is quick, or for as many as it needs."""
    for tiles in (4, 64):
        device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
        with contextlib.suppress(GraphMemoryAllocationError):
            return ir.Run(ir.Lowering(graph, device), device)
    device = IPUModel("ipu2").create_device()
    return ir.Run(ir.Lowering(graph, device), device)


def by_kit(module: Calls) -> tuple[list[list[Any]], dict[str, Any]]:
    """Return the results and gradients of the kit, as arrays. Raises `ModelError` if refused."""
    example = tuple(t.clone() for t in module.inputs)
    captured: Any = capture.capture_module(module, example, {}, (), module.has_gradients)
    graph = captured.graph
    graph.ops += captured.backward
    if any(op.kind in DRAWN for op in graph.ops):
        raise Undetermined
    for variable, gradient in captured.grads.items():
        graph.output(f"d {variable.name}", gradient)
    run = compiled(graph)
    arrays = {}
    for name, tensor in zip(captured.inputs, example, strict=True):
        if (value := graph.inputs.get(name)) is not None:
            arrays[name] = array(tensor).astype(value.dtype.numpy)[None]
    outputs = run(**arrays)
    flat, spec = captured.form
    names = iter(captured.outputs)
    filled = []
    for leaf in flat:
        if isinstance(leaf, torch.Tensor):
            name = next(names)
            filled.append(tensor_of(outputs[name][0], captured.outputs[name]))
        else:
            filled.append(leaf)
    returned = pytree.tree_unflatten(filled, spec)
    results = returned[0] if module.has_gradients else returned
    gradients = {v.name: outputs[f"d {v.name}"][0] for v in captured.grads}
    return results, gradients


class Factors(TorchFunctionMode):  # type: ignore[misc]
    """A context in which `prod` multiplies factor by factor, so that the gradient of each factor is
    the product of the others.

    PyTorch divides the product by the factor, which is NaN for a factor of NaN or infinity, unless
    an element anywhere in the tensor is 0: then it multiplies the others. A captured program does
    not branch on elements, and multiplies the others always.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.prod, torch.Tensor.prod):
            return self._product(func, *args, **kwargs)
        return func(*args, **kwargs)

    @staticmethod
    def _product(func: Any, x: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
        dtype = options.get("dtype") or x.dtype
        if not dtype.is_floating_point or not x.numel() or not (dim is None or x.dim()):
            arguments = () if dim is None else (dim, keepdim)
            return func(x, *arguments, **options)
        x = x.to(dtype)
        factors = x.flatten().unbind() if dim is None else x.unbind(dim)
        product = functools.reduce(torch.mul, factors)
        return product.unsqueeze(dim) if keepdim else product


def difference(actual: Any, exact: Any, rounded: Any, tolerance: float, floor: float = 0.0) -> str:
    """Return how a result differs from torch's; "" if it is equal within rounding.

    `exact` is torch's in float64, and `rounded` in the dtype of the sample. The tolerance is relative
    to each element and to the largest one, which counts as `floor` at least: gradients cancel.
    """
    actual, exact, rounded = (
        np.asarray(array(torch.as_tensor(v))) for v in (actual, exact, rounded)
    )
    if actual.shape != rounded.shape:
        return f"shape {actual.shape} in place of {rounded.shape}"
    if actual.dtype.kind != rounded.dtype.kind:
        return f"dtype {actual.dtype} in place of {rounded.dtype}"
    if actual.dtype.kind != "f":
        fits = rounded.dtype.kind == "b" or np.array_equal(rounded, rounded.astype(np.int32))
        if np.array_equal(actual, rounded) or (
            exact.dtype.kind != "f" and np.array_equal(actual, exact)
        ):
            return ""
        note = "" if fits else " (beyond 32 bits)"
        return f"{actual.tolist()} in place of {rounded.tolist()}{note}"[:300]
    actual, exact, rounded = (v.astype(np.float64) for v in (actual, exact, rounded))
    special = ~np.isfinite(rounded) | ~np.isfinite(actual)
    same = ~special
    for known in (rounded, exact):  # the vectorised code of torch has other special values
        same |= (actual == known) | (np.isnan(actual) & np.isnan(known))
        same |= ~np.isfinite(rounded) & np.isfinite(known) & np.isclose(actual, known, tolerance)
    with np.errstate(all="ignore"):
        scale = np.abs(exact[np.isfinite(exact)]).max(initial=0.0)
        margin = tolerance * (np.abs(exact) + np.clip(scale, floor, 1e30)) + 4 * np.abs(
            rounded - exact
        )
        near = special | (np.abs(actual - exact) <= margin + 1e-30) | (actual == rounded)
    wrong = ~(same & near)
    if not wrong.any():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
    return f"{wrong.sum()} of {wrong.size}: at {at} {actual[at]:.9g} in place of {exact[at]:.9g}"


@dataclass
class Outcome:
    """The samples of an operation in a dtype: how many were equal or refused, and which differ."""

    equal: int = 0
    refused: int = 0
    invalid: int = 0  # torch itself raises an error
    undetermined: int = 0  # random numbers, or memory that is not initialised
    reasons: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    refusals: list[tuple[Sample, ModelError]] = field(default_factory=list)

    def __iadd__(self, other: Outcome) -> Outcome:
        self.equal += other.equal
        self.refused += other.refused
        self.invalid += other.invalid
        self.undetermined += other.undetermined
        self.reasons += other.reasons
        self.differences += other.differences
        self.refusals += other.refusals
        return self


def is_random(module: Calls, first: list[list[Any]]) -> bool:
    """Return whether torch's results differ when it computes them again."""
    torch.manual_seed(1)
    again, _ = by_torch(Calls(module.chosen, False), None)
    pairs = zip(pytree.tree_leaves(first), pytree.tree_leaves(again), strict=True)
    return not all(((a == b) | ((a != a) & (b != b))).all() for a, b in pairs)


def has_ties(sample: Sample, actual: Any, expected: Any) -> bool:
    """Return whether places of sorted elements differ only among equal elements."""
    if not sample.tensors or sample.text.partition("(")[0] not in UNSTABLE:
        return False
    keys, actual = sample.tensors[0], torch.as_tensor(actual)
    if expected.dtype != torch.int64:
        return False
    if keys.dim() == expected.dim() + 1:  # one place of each row
        return any(
            has_ties(sample, actual.unsqueeze(dim), expected.unsqueeze(dim))
            for dim in range(keys.dim())
            if keys.shape[:dim] + keys.shape[dim + 1 :] == expected.shape
        )
    if keys.dim() != expected.dim():
        return False
    for dim in range(keys.dim()):
        sizes = zip(expected.shape, keys.shape, strict=True)
        if any(n > m for d, (n, m) in enumerate(sizes) if d != dim):
            continue
        last = max(keys.shape[dim] - 1, 0)
        first, second = (keys.gather(dim, v.clamp(0, last)) for v in (actual, expected))
        if ((first == second) | ((first != first) & (second != second))).all():
            return True
    return False


def judged(chosen: Sequence[Sample], dtype: Any) -> Outcome:
    """Return the outcome of samples that are compiled as one module.

    :raises IPUTeachError: if the kit refuses one of them.
    """
    module = Calls(chosen, dtype.is_floating_point)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            rounded, rounded_gradients = by_torch(module, None)
        except (RuntimeError, NotImplementedError):  # torch has no gradient
            module = Calls(chosen, False)
            rounded, rounded_gradients = by_torch(module, None)
        if "empty" in chosen[0].text.partition("(")[0] or is_random(module, rounded):
            return Outcome(undetermined=len(chosen))
        try:
            with Factors():
                exact, exact_gradients = by_torch(module, JUDGE.get(dtype))
        except Exception:  # there is no such operation in float64
            if len(chosen) > 1:  # The others are judged without it.
                raise
            exact, exact_gradients = rounded, rounded_gradients
        if module.has_gradients and not rounded_gradients:
            module = Calls(chosen, False)
        results, gradients = by_kit(module)
    name = chosen[0].text.partition("(")[0]
    tolerance = max(TOLERANCE.get(dtype, 2e-5), COARSER.get(name, 0.0))
    outcome = Outcome()
    for i, sample in enumerate(chosen):
        pairs = zip(results[i], rounded[i], strict=True)
        is_unstable = any(
            has_ties(sample, a, b) and not torch.equal(torch.as_tensor(a), b) for a, b in pairs
        )
        problems = [
            f"result {j}: {problem}"
            for j, triple in enumerate(zip(results[i], exact[i], rounded[i], strict=True))
            if (problem := difference(*triple, tolerance))
            and not has_ties(sample, triple[0], triple[2])
        ]
        for name in module.states[i]:
            if name is None or name not in rounded_gradients or is_unstable:
                continue
            actual = gradients.get(name, np.zeros(rounded_gradients[name].shape, np.float32))
            expected = exact_gradients[name], rounded_gradients[name]
            if problem := difference(actual, *expected, tolerance, GRADIENTS):
                problems.append(f"gradient of tensor {name.partition('_')[2]}: {problem}")
        if problems:
            outcome.differences.append(f"{sample.text}: {'; '.join(problems)}")
        else:
            outcome.equal += 1
    return outcome


def short(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:160]


def tried(chosen: Sequence[Sample], dtype: Any) -> Outcome:
    """Return the outcome of samples, together if none is refused, and else each by itself."""
    if not chosen:
        return Outcome()
    if len(chosen) > 1:
        try:
            return judged(chosen, dtype)
        except Exception:
            middle = len(chosen) // 2
            outcome = tried(chosen[:middle], dtype)
            outcome += tried(chosen[middle:], dtype)
            return outcome
    try:
        return judged(chosen, dtype)
    except Undetermined:
        return Outcome(undetermined=1)
    except ModelError as error:
        return Outcome(refused=1, reasons=Counter([short(error)]), refusals=[(chosen[0], error)])
    except Exception as error:
        try:
            by_torch(Calls(chosen, False), None)
        except Exception:
            return Outcome(invalid=1)
        kind = "" if isinstance(error, IPUTeachError) else "bare "
        return Outcome(
            differences=[
                f"{chosen[0].text}: {kind}{type(error).__name__}: {short(error) if str(error) else ''}"
            ]
        )


def outcomes(
    names: Sequence[str] = (), dtypes: Sequence[Any] = DTYPES, limit: int = 16
) -> Iterator[tuple[str, Any, Outcome]]:
    """Yield the name, the dtype and the outcome of each operation, of all or those of `names`."""
    for operation in operations():
        if names and operation.name not in names:
            continue
        for dtype in dtypes:
            chosen = samples(operation, dtype, limit)
            if chosen:
                variant = f".{operation.variant_test_name}" if operation.variant_test_name else ""
                yield operation.name + variant, dtype, tried(chosen, dtype)


def edges_of(dtype: Any) -> list[str]:
    """Return the names of the cases of `torch_edges` with tensors of floats, or without, as `dtype`."""
    return [
        name
        for name, (_, tensors) in CASES.items()
        if any(t.is_floating_point() for t in tensors) == dtype.is_floating_point
    ]


def edges(names: Sequence[str], dtype: Any) -> Outcome:
    """Return the outcome of cases of `torch_edges`."""
    chosen = []
    for name in names:
        function, tensors = CASES[name]
        flat, spec = pytree.tree_flatten((tensors, {}))
        chosen.append(Sample(function, list(tensors), (flat, spec), name))
    return tried(chosen, dtype)


def all_edges(only: str = "") -> Iterator[tuple[str, Any, Outcome]]:
    """Yield the outcomes of the edges with `only` in their name, as `outcomes` does."""
    for dtype in (torch.float32, torch.int64):
        names = [name for name in edges_of(dtype) if only in name]
        for first in range(0, len(names), TOGETHER):
            yield (
                f"edges from {names[first]!r}",
                dtype,
                edges(names[first : first + TOGETHER], dtype),
            )


def report(limit: int, only: str = "", usual: bool = False) -> int:
    """Judge `limit` samples of each operation whose name has `only` in it, and print the counts.

    The edges whose name has `only` in it are judged first. If `usual`, the samples are those of
    floats and integers of the operations in `USUAL`. Returns the exit status: 1 if any differs.
    """
    known = USUAL if usual else [op.name for op in operations()]
    names = [name for name in known if only in name]
    dtypes = (torch.float32, torch.int64) if usual else DTYPES
    total, operation_names, begin = Outcome(), set(), time.monotonic()
    for name, dtype, outcome in chain(
        all_edges(only), outcomes(names, dtypes, limit) if names else ()
    ):
        if not name.startswith("edges from "):
            operation_names.add(name)
        total += outcome
        counts = f"{outcome.equal} equal, {outcome.refused} refused"
        print(f"{name} {str(dtype).removeprefix('torch.')}: {counts}", flush=True)
        for difference_text in outcome.differences:
            print(f"  DIFFERS {difference_text}", flush=True)
        for reason, count in outcome.reasons.items():
            print(f"  {count} refused: {reason}")
    print(
        f"{len(operation_names)} operations in {time.monotonic() - begin:,.0f} s: "
        f"{total.equal:,} samples equal, {total.refused:,} refused, {len(total.differences):,} "
        f"differ; {total.undetermined:,} are random or not initialised, {total.invalid:,} are "
        "errors in torch."
    )
    return 1 if total.differences else 0
