"""Rows of docs/poplibs.md for poprand: random numbers and dropout."""

from poplar_rows import Row

_SEED = (
    "poputil.map_tensor_linearly(graph, seed := graph.add_variable(UNSIGNED_INT, (2,))) or poprand"
)
_NUMBERS = "does not return the numbers of a chip; the seed may be None"

POPRAND = [
    Row(
        "poprand::uniform",
        "poplibs.poprand.uniform",
        _NUMBERS,
        f"({_SEED}).uniform(graph, seed, 1, t, FLOAT, 0, 1, prog)",
    ),
    Row(
        "poprand::normal",
        "poplibs.poprand.normal",
        _NUMBERS,
        f"({_SEED}).normal(graph, seed, 1, t, FLOAT, 0, 1, prog)",
    ),
    Row(
        "poprand::truncatedNormal",
        "poplibs.poprand.truncated_normal",
        _NUMBERS,
        f"({_SEED}).truncated_normal(graph, seed, 1, t, FLOAT, 0, 1, 2, prog)",
    ),
    Row(
        "poprand::bernoulli",
        "poplibs.poprand.bernoulli",
        _NUMBERS,
        f"({_SEED}).bernoulli(graph, seed, 1, t, FLOAT, 0.5, prog)",
    ),
    Row(
        "poprand::dropout",
        "poplibs.poprand.dropout",
        _NUMBERS,
        f"({_SEED}).dropout(graph, seed, 1, t, t, 0.5, 2, prog)",
    ),
    Row(
        "poprand::logUniform",
        "poplibs.poprand.log_uniform",
        f"{_NUMBERS}; there is no base, since it would change only last digits",
        f"({_SEED}).log_uniform(graph, seed, 1, t, FLOAT, 1, 2, prog)",
    ),
    Row(
        "poprand::shapedDropout",
        "poplibs.poprand.shaped_dropout",
        _NUMBERS,
        f"({_SEED}).shaped_dropout(graph, seed, 1, t, t[0], 0.5, 2, prog)",
    ),
    Row(
        "poprand::setSeed",
        "poplibs.poprand.set_seed",
        "",
        f"({_SEED}).set_seed(graph, seed, 1, prog)",
    ),
]
