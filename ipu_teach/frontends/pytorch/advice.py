"""Advice for torch's operations that the device does not implement.

`docs/pytorch_operations.md` lists all operations of torch with their limits. An error ends with the
name of the operation's row on this page. The page also contains the code that the advice mentions.
"""

from __future__ import annotations

import torch

PAGE = "docs/pytorch_operations.md"
_FACTORS = (
    "compute it before the call, and pass the result as an input. For the gradient of a small "
    "matrix, use the functions cholesky, solve or qr of the page."
)
_HOST = "compute it in torch before the call, and pass the result as an input."
_BESSEL = "use the function bessel of the page."
_SERIES = "use the function lgamma of the page, or compute it before the call and pass the result."
_EDGES = "count with comparisons: ((x[:, None] >= edges[:-1]) & (x[:, None] < edges[1:])).sum(0)."
# Maps a prefix of an operation's name, without "aten::", to the next step in the error message. If
# several prefixes match, the longest one counts.
ADVICE = {
    "_fft": "multiply by the matrices that the function dft of the page returns.",
    "_linalg_det": "use the function qr of the page: the absolute value of the determinant is "
    "qr(a)[1].diagonal().prod().",
    "_linalg_eigh": "compute it before the call, and pass the result as an input. For the largest "
    "eigenvalue, multiply a vector by the matrix repeatedly and normalise it.",
    "_linalg_slogdet": "use the function qr of the page: the logarithm of the absolute value of "
    "the determinant is qr(a)[1].diagonal().log().sum().",
    "_linalg_solve_ex": "use the function solve of the page.",
    "_linalg_svd": "compute it before the call, and pass the result as an input. The sum of the "
    "squares of all singular values is (a * a).sum().",
    "_trilinear": "write torch.einsum('bi,oij,bj->bo', x1, weight, x2).",
    "_upsample_bicubic2d_aa": "use antialias=False.",
    "_upsample_bilinear2d_aa": "use antialias=False.",
    "cholesky": "use the functions cholesky and solve of the page.",
    "digamma": _SERIES,
    "erfcx": "write torch.exp(x * x) * torch.erfc(x), for x below 9.",
    "erfinv": "use the function erfinv of the page.",
    "embedding_renorm": "limit the norms once, before training, and leave max_norm out.",
    "frexp": "for normal floats, write exponent = ((x.view(torch.int32) >> 23) & 255) - 126 and "
    "mantissa = x / 2.0**exponent.",
    "gcd": "use the function gcd of the page.",
    "geqrf": "use the function qr of the page.",
    "grid_sampler": "use torch.nn.functional.grid_sample.",
    "hash_tensor": _HOST,
    "histc": _EDGES,
    "_histogramdd": _EDGES,
    "histogram": _EDGES,
    "i0": _BESSEL,
    "igamma": _HOST,
    "lcm": "use the function gcd of the page: (a * b).abs() // gcd(a, b).clamp(min=1).",
    "ldexp": "write x * 2.0 ** other.",
    "lgamma": _SERIES,
    "linalg": _FACTORS,
    "linalg_cholesky_ex": "use the function cholesky of the page.",
    "linalg_householder_product": "use the function qr of the page.",
    "linalg_inv_ex": "use the function solve of the page: solve(a, torch.eye(n)).",
    "linalg_lu": "use the function solve of the page, which needs no factors.",
    "_linear_cross_entropy": "use torch.nn.functional.linear and cross_entropy.",
    "linalg_matrix_exp": "use the function matrix_exp of the page.",
    "linalg_qr": "use the function qr of the page.",
    "linalg_solve_triangular": "use the function solve of the page.",
    "lu_unpack": "use the function solve of the page, which needs no factors.",
    "mode": "count equal elements: s = x.sort(-1).values; "
    "n = (s[..., None] == s[..., None, :]).sum(-1); s.gather(-1, n.argmax(-1, keepdim=True)).",
    "nextafter": "for the next larger float of a positive x, write "
    "(x.view(torch.int32) + 1).view(torch.float32).",
    "ormqr": "use the function qr of the page, and multiply by q.",
    "polygamma": _SERIES,
    "resize": "write x.flatten()[:n].reshape(shape), or pad x first.",
    "segment_reduce": "add with torch.zeros(n).scatter_add(0, segment, x), where segment has the "
    "number of the segment of each element.",
    "special": _HOST,
    "special_bessel": _BESSEL,
    "special_erfcx": "write torch.exp(x * x) * torch.erfc(x), for x below 9.",
    "special_i": _BESSEL,
    "special_modified_bessel_i": _BESSEL,
    "triangular_solve": "use the function solve of the page.",
    "unbind_copy": "use torch.unbind.",
}
_COMPLEX = (
    "compute with the real and the imaginary part as two real tensors, and multiply by the "
    "matrices of the function dft of the page in place of torch.fft."
)
_DTYPES = {
    torch.float64: "compute in float32: replace .double() and dtype=torch.float64 by .float().",
    torch.bfloat16: "compute in float32 or float16: x.float() or x.half(), also in torch.autocast.",
    **dict.fromkeys((torch.complex32, torch.complex64, torch.complex128), _COMPLEX),
}
_CONVERT = (
    "convert floats with x.float() or x.half(), and leave out torch.autocast to other dtypes."
)
# Maps torch's internal name of an operation to the name of its row, where the public function has
# another name.
_ROWS = {
    "_fft_c2c": "torch.fft.fft",
    "_fft_c2r": "torch.fft.irfft",
    "_fft_r2c": "torch.fft.rfft",
    "_native_batch_norm_legit": "torch.nn.functional.batch_norm",
    "_to_copy": "Tensor.to",
    "_trilinear": "torch.nn.functional.bilinear",
    "_unique2": "torch.unique",
    "convolution": "torch.nn.functional.conv2d",
    "index": "torch.masked_select",
    "_histogramdd_bin_edges": "torch.histogramdd",
    "linalg_matrix_exp": "torch.matrix_exp",
    "max_pool2d_with_indices": "torch.nn.functional.max_pool2d",
    "max_pool3d_with_indices": "torch.nn.functional.max_pool3d",
    "native_group_norm": "torch.nn.functional.group_norm",
    "native_layer_norm": "torch.nn.functional.layer_norm",
    "resize": "Tensor.resize_",
    "segment_reduce": "",  # The page has no row for this operation.
}
_OWNERS = (
    (torch, "torch"),
    (torch.Tensor, "Tensor"),
    (torch.nn.functional, "torch.nn.functional"),
)


def next_step(name: str) -> str:
    """Return the advice for an operation of torch; "" if there is none."""
    short = name.rpartition("::")[2]
    prefixes = [prefix for prefix in ADVICE if short.startswith(prefix)]
    return ADVICE[max(prefixes, key=len)] if prefixes else ""


def for_dtype(dtype: torch.dtype) -> str:
    """Return the advice for a result of a dtype that the device does not support."""
    return _DTYPES.get(dtype, _CONVERT)


def row_of(name: str) -> str:
    """Return the name of an operation's row in the table of operations, such as "torch.linalg.qr".

    `name` is torch's internal name, such as "linalg_qr". Return "" if no public function belongs to
    the operation.
    """
    name = name.rpartition("::")[2].removesuffix("_backward")
    if name in _ROWS:
        return _ROWS[name]
    for plain in dict.fromkeys([name, name.lstrip("_"), name.lstrip("_").removesuffix("_ex")]):
        for space in ("linalg", "fft", "special"):
            attribute = plain.removeprefix(f"{space}_")
            if attribute != plain and callable(getattr(getattr(torch, space), attribute, None)):
                return f"torch.{space}.{attribute}"
        for owner, prefix in _OWNERS:
            if plain[:1].isalpha() and callable(getattr(owner, plain, None)):
                return f"{prefix}.{plain}"
    return ""


def hint(name: str) -> str:
    """Return " See the row … of docs/…", the end of an error's next step; "" without a row."""
    row = row_of(name)
    return f" See {PAGE}, row {row}." if row else ""
