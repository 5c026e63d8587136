"""docs/pytorch_operations.md: its tables, its functions, and the advice of errors, all followed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ipu_teach import IPUModel, poptorch  # noqa: E402
from ipu_teach.errors import ModelError  # noqa: E402
from ipu_teach.frontends.pytorch import capture  # noqa: E402
from ipu_teach.frontends.pytorch.advice import ADVICE, PAGE  # noqa: E402

SMALL = poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=4))
ROOT = Path(__file__).parents[1]
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
below: dict[str, Any] = {}
exec(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0], below)
cholesky, solve, qr, gcd, dft = (below[n] for n in ("cholesky", "solve", "qr", "gcd", "dft"))
bessel, lgamma, erfinv, matrix_exp = (
    below[n] for n in ("bessel", "lgamma", "erfinv", "matrix_exp")
)
f, linalg, special = torch.nn.functional, torch.linalg, torch.special

torch.manual_seed(3)
A = torch.randn(3, 3)
SQUARE = A.clone()
SQUARE[0, 0] = 0.0  # elimination needs a pivot
DEFINITE = A @ A.T + torch.eye(3)
LOWER = torch.tril(A) + 3 * torch.eye(3)
TALL, SIDES = torch.randn(4, 3), torch.randn(4, 2)
RIGHT = torch.randn(3, 2)
X = torch.tensor([1e-3, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 10.0])
WIDE = torch.linspace(-8, 8, 41)
UNIT = torch.linspace(-0.99, 0.99, 41)
FIRST, SECOND = torch.tensor([12, -18, 0, 7, 2**30, 0]), torch.tensor([18, 12, 5, 0, 2**20, 0])
ROWS, SEGMENT = torch.arange(12.0).reshape(3, 4), torch.tensor([0, 0, 1, 1])
LOOKUP = torch.tensor([[3.0, 1.0, 3.0, 1.0], [2.0, 2.0, 5.0, 0.0]])
EDGES = torch.tensor([0.0, 1.0, 2.0, 4.0])


def symmetric(x: Any) -> Any:
    return (x + x.mT) / 2


def positive_qr(x: Any) -> Any:
    q, r = linalg.qr(x)
    signs = torch.sign(r.diagonal())
    return q * signs, r * signs[:, None]


def rfft(x: Any) -> Any:
    parts = [x @ part for part in dft(x.shape[-1])]
    return torch.stack(parts, -1)[..., : x.shape[-1] // 2 + 1, :]


def next_above(x: Any) -> Any:
    return (x.view(torch.int32) + 1).view(torch.float32)


def split(x: Any) -> Any:
    exponent = ((x.view(torch.int32) >> 23) & 255) - 126
    return x / 2.0**exponent, exponent


def most_frequent(x: Any) -> Any:
    s = x.sort(-1).values
    n = (s[..., None] == s[..., None, :]).sum(-1)
    return s.gather(-1, n.argmax(-1, keepdim=True))


def counts(x: Any, edges: Any) -> Any:
    return ((x[:, None] >= edges[:-1]) & (x[:, None] < edges[1:])).sum(0)


# The advice that is code: a call that is refused, the code to write instead, and their tensors. An
# entry of `ADVICE` has at least one of them, or is in `BEFORE`.
FOLLOWED: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "_fft": (lambda x: torch.view_as_real(torch.fft.rfft(x)), rfft, (torch.randn(3, 12),)),
    "_linalg_det": (
        lambda x: linalg.det(x).abs(), lambda x: qr(x)[1].diagonal().prod(), (SQUARE,),
    ),
    "_linalg_slogdet": (
        lambda x: linalg.slogdet(x)[1], lambda x: qr(x)[1].diagonal().log().sum(), (SQUARE,),
    ),
    "_linalg_solve_ex": (linalg.solve, solve, (SQUARE, RIGHT)),
    "_linalg_svd": (
        lambda x: (linalg.svdvals(x) ** 2).sum(), lambda x: (x * x).sum(), (TALL,),
    ),
    "_trilinear": (
        f.bilinear, lambda a, b, w: torch.einsum("bi,oij,bj->bo", a, w, b),
        (A, A[:, :2], torch.randn(4, 3, 2)),
    ),
    "cholesky": (
        lambda x: torch.cholesky(symmetric(x)), lambda x: cholesky(symmetric(x)), (DEFINITE,),
    ),
    "digamma": (torch.lgamma, lgamma, (X,)),
    "embedding_renorm": (
        lambda w: f.embedding(torch.tensor([0, 2]), w, max_norm=1e9),
        lambda w: f.embedding(torch.tensor([0, 2]), w), (A,),
    ),
    "erfinv": (torch.erfinv, erfinv, (UNIT,)),
    "frexp": (torch.frexp, split, (WIDE,)),
    "gcd": (torch.gcd, gcd, (FIRST, SECOND)),
    "geqrf": (positive_qr, qr, (TALL,)),
    "histc": (lambda x: torch.histogram(x, EDGES.to(x.dtype))[0].long(), lambda x: counts(x, EDGES), (X,)),
    "i0": (torch.special.i0, lambda x: bessel(x, modified=True), (WIDE,)),
    "lcm": (torch.lcm, lambda a, b: (a * b).abs() // gcd(a, b).clamp(min=1), (FIRST[:4], SECOND[:4])),
    "ldexp": (torch.ldexp, lambda x, n: x * 2.0**n, (X, torch.tensor([0, 1, -1, 3, 2, -9, 5, 1]))),
    "lgamma": (torch.lgamma, lgamma, (X,)),
    "linalg_cholesky_ex": (
        lambda x: linalg.cholesky(symmetric(x)), lambda x: cholesky(symmetric(x)), (DEFINITE,),
    ),
    "linalg_inv_ex": (linalg.inv, lambda x: solve(x, torch.eye(3)), (SQUARE,)),
    "linalg_lstsq": (
        lambda x, y: linalg.lstsq(x, y).solution, lambda x, y: solve(x.mT @ x, x.mT @ y), (TALL, SIDES),
    ),
    "linalg_matrix_exp": (linalg.matrix_exp, matrix_exp, (A,)),
    "linalg_qr": (positive_qr, qr, (TALL,)),
    "linalg_solve_triangular": (
        lambda x, y: linalg.solve_triangular(torch.tril(x), y, upper=False),
        lambda x, y: solve(torch.tril(x), y), (LOWER, RIGHT),
    ),
    "mode": (lambda x: x.mode(keepdim=True).values, most_frequent, (LOOKUP,)),
    "nextafter": (lambda x: torch.nextafter(x, x + 1), next_above, (X,)),
    "resize": (
        lambda x: torch.ops.aten.resize(x, [2, 3]), lambda x: x.flatten()[:6].reshape(2, 3), (ROWS,),
    ),
    "segment_reduce": (
        lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 2])),
        lambda x: torch.zeros(2).scatter_add(0, SEGMENT, x), (ROWS[0],),
    ),
    "special_bessel": (special.bessel_j1, lambda x: bessel(x, 1), (WIDE,)),
    "special_erfcx": (special.erfcx, lambda x: torch.exp(x * x) * torch.erfc(x), (X[:7],)),
    "special_i": (special.i1, lambda x: bessel(x, 1, modified=True), (WIDE,)),
    "special_modified_bessel_i": (
        special.modified_bessel_i1, lambda x: bessel(x, 1, modified=True), (WIDE,),
    ),
    "triangular_solve": (
        lambda x, y: torch.triangular_solve(y, torch.tril(x), upper=False).solution,
        lambda x, y: solve(torch.tril(x), y), (LOWER, RIGHT),
    ),
    "unbind_copy": (torch.unbind_copy, torch.unbind, (ROWS,)),
}  # fmt: skip
# Calls whose advice needs no code of its own, because it is that of another entry, or is to compute
# the result before the call.
BEFORE: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "_histogramdd": (lambda x: torch.histogramdd(x, [2, 2])[0], (ROWS[:, :2],)),
    "_linalg_eigh": (linalg.eigvalsh, (DEFINITE,)),
    "_linear_cross_entropy": (None, ()),  # no stable public name leads to it
    "_upsample_bicubic2d_aa": (
        lambda x: f.interpolate(x[None, None], (2, 2), mode="bicubic", antialias=True), (ROWS,),
    ),
    "_upsample_bilinear2d_aa": (
        lambda x: f.interpolate(x[None, None], (2, 2), mode="bilinear", antialias=True), (ROWS,),
    ),
    "erfcx": (None, ()),
    "grid_sampler": (
        lambda x, g: torch.grid_sampler_2d(x[None, None], g, 0, 0, False), (ROWS, torch.zeros(1, 1, 1, 2)),
    ),
    "hash_tensor": (torch.hash_tensor, (ROWS,)),
    "histogram": (lambda x: torch.histogram(x, EDGES)[0], (X,)),
    "igamma": (torch.igamma, (X, X)),
    "linalg": (linalg.eigvals, (A,)),
    "linalg_householder_product": (linalg.householder_product, (TALL, X[:3])),
    "linalg_lu": (linalg.lu_factor, (A,)),
    "lu_unpack": (lambda x: torch.lu_unpack(x, torch.tensor([1, 2, 3], dtype=torch.int32))[1], (A,)),
    "ormqr": (torch.ormqr, (TALL, X[:3], TALL)),
    "polygamma": (lambda x: torch.polygamma(1, x), (X,)),
    "special": (special.zeta, (X + 1, X)),
}  # fmt: skip


class Call(torch.nn.Module):  # type: ignore[misc]
    """Functions of tensors as a module; the first tensors are parameters if `trained`."""

    def __init__(self, function: Any, trained: Any = None) -> None:
        super().__init__()
        self.function = function
        self.trained = None if trained is None else torch.nn.Parameter(trained.clone())

    def forward(self, *tensors: Any) -> Any:
        if self.trained is None:
            return self.function(*tensors)
        return weighted(self.function(self.trained, *tensors))


def leaves(result: Any) -> list[Any]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def weighted(result: Any) -> Any:
    flat = torch.cat([leaf.flatten() for leaf in leaves(result)])
    return (flat * torch.linspace(-1, 1, flat.numel() + 1)[1:].to(flat.dtype)).sum()


def double(tensors: Any) -> list[Any]:
    return [t.double() if t.is_floating_point() else t for t in tensors]


def gap(actual: Any, expected: Any) -> float:
    scale = expected.double().abs().max().clamp(min=1e-9)
    return float(((actual.double() - expected.double()).abs().max() / scale).item())


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_advice_gives_the_values_of_torch(name: str) -> None:
    call, instead, tensors = FOLLOWED[name]
    exact = call(*(tensors if name in ("frexp", "nextafter", "unbind_copy") else double(tensors)))
    for result, expected in zip(
        leaves(poptorch.inferenceModel(Call(instead), SMALL)(*tensors)), leaves(exact), strict=True
    ):
        assert result.shape == expected.shape and gap(result, expected) < 2e-6, (result, expected)


GRADIENTS = [
    "_fft", "_linalg_solve_ex", "erfinv", "lgamma", "linalg_cholesky_ex", "linalg_matrix_exp", "linalg_qr", "special_i",
]  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_functions_of_the_page_have_the_gradients_of_torch(name: str) -> None:
    call, instead, tensors = FOLLOWED[name]
    module = Call(instead, tensors[0])
    training = poptorch.trainingModel(module, SMALL, torch.optim.SGD(module.parameters(), 1.0))
    training(*tensors[1:])
    training.detachFromDevice()
    weight, *rest = double(tensors)
    weighted(call(weight.requires_grad_(), *rest)).backward()
    assert gap(tensors[0] - module.trained.detach(), weight.grad) < 1e-5


@pytest.mark.parametrize("name", ADVICE)
def test_an_error_gives_the_advice_and_the_row_of_the_page(name: str) -> None:
    call, tensors = BEFORE[name] if name in BEFORE else FOLLOWED[name][::2]
    if call is None or name == "embedding_renorm":  # the input that it changes is refused first
        return
    with pytest.raises(ModelError) as refused:
        capture.capture_module(Call(call), tensors)
    if name not in ("_fft", "hash_tensor", "linalg"):  # the dtype of the result is refused first
        assert ADVICE[name] in refused.value.next_step, refused.value
    row = re.search(rf" See {re.escape(PAGE)}, row (\S+)\.$", refused.value.next_step)
    assert row is None or f"`{row[1]}`" in TEXT, refused.value
    assert row or name in ("_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "segment_reduce")


@pytest.mark.parametrize(
    ("dtype", "advice"),
    [
        (torch.float64, "compute in float32: replace .double() and dtype=torch.float64 by .float()."),
        (torch.bfloat16, "compute in float32 or float16: x.float() or x.half(), also in torch.autocast."),
        (torch.complex64, "compute with the real and the imaginary part as two real tensors"),
        (torch.int64, ""),
    ],
)  # fmt: skip
def test_a_dtype_that_the_device_lacks_has_its_advice(dtype: Any, advice: str) -> None:
    call = Call(lambda x: x.to(dtype))
    if not advice:
        assert poptorch.inferenceModel(call, SMALL)(ROWS).dtype is dtype
        return
    with pytest.raises(ModelError, match=f"the result has the dtype {dtype}") as refused:
        capture.capture_module(call, (ROWS,))
    assert refused.value.next_step.startswith(advice)
    assert refused.value.next_step.endswith(f"See {PAGE}, row Tensor.to.")


def test_the_tables_are_those_of_the_results_and_the_refusals_those_of_today() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make_pytorch_operations as table

        table.torch_samples.operations()
    except ImportError as error:
        pytest.skip(f"this torch has no table of samples here: {error}")
    finally:
        sys.path.remove(str(ROOT / "docs"))
    assert table.check(step=20) == 0
    for row in table.stored().values():
        for *_, step in row["refusals"]:
            for name in re.findall(r"row (\S+)\.$", step):
                assert f"`{name}`" in TEXT, step
