"""poprand, popsparse and gcl."""

from poplar_rows import Row

_SEED = "poputil.map_tensor_linearly(graph, seed := graph.add_variable(UNSIGNED_INT, (2,))) or poprand"
_NUMBERS = "the numbers are not those of a chip; a seed is needed"

POPRAND = [
    Row(
        "poprand::uniform", "poplibs.poprand.uniform", _NUMBERS,
        f"({_SEED}).uniform(graph, seed, 1, t, FLOAT, 0, 1, prog)",
    ),
    Row(
        "poprand::normal", "poplibs.poprand.normal", _NUMBERS, f"({_SEED}).normal(graph, seed, 1, t, FLOAT, 0, 1, prog)",
    ),
    Row(
        "poprand::truncatedNormal", "poplibs.poprand.truncated_normal", _NUMBERS,
        f"({_SEED}).truncated_normal(graph, seed, 1, t, FLOAT, 0, 1, 2, prog)",
    ),
    Row(
        "poprand::bernoulli", "poplibs.poprand.bernoulli", _NUMBERS,
        f"({_SEED}).bernoulli(graph, seed, 1, t, FLOAT, 0.5, prog)",
    ),
    Row(
        "poprand::dropout", "poplibs.poprand.dropout", _NUMBERS, f"({_SEED}).dropout(graph, seed, 1, t, t, 0.5, 2, prog)",
    ),
    Row("poprand::setSeed, logUniform, shapedDropout", "", "each call takes its seed; `uniform` and `popops.exp`; `dropout`"),
    Row("popsparse, gcl", "", "one replica has nothing to reduce across"),
]  # fmt: skip
