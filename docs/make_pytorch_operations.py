"""Make the tables in docs/pytorch_operations.md from torch's own table of sample inputs.

python docs/make_pytorch_operations.py            judge all samples: a quarter of an hour
python docs/make_pytorch_operations.py --tables   make the tables from docs/pytorch_operations.json
python docs/make_pytorch_operations.py --check    compare names, tables and refusals

All commands need PyTorch. The first command writes the results to docs/pytorch_operations.json.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("pytorch_operations.md")
RESULTS = PAGE.with_suffix(".json")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import torch  # noqa: E402
import torch.masked  # noqa: E402
from fuzz import torch_samples  # noqa: E402
from marks import write_between  # noqa: E402

from ipu_teach.errors import ModelError  # noqa: E402
from ipu_teach.frontends.pytorch import advice, capture  # noqa: E402

LIMIT = 4  # The maximum number of samples of each operation, variant and dtype.
SHOWN = 3  # The maximum number of reasons in a table row.
MODULE = "Calls"  # The class of the module into which `torch_samples` turns a sample.
# Maps each subject to a pattern that matches the whole name of its operations. If several patterns
# match a name, the first one counts.
SUBJECTS = {
    "random numbers": r".*dropout.*|rand.*|bernoulli|multinomial|normal|cauchy|exponential|"
    r"geometric|log_normal|uniform|.*rrelu|.*fractional_max_pool.*",
    "linear algebra": r"linalg\..*|cholesky.*|geqrf|ormqr|qr|lu.*|svd.*|pca.*|pinverse|logdet|"
    r"matrix_exp|triangular_solve|.*sparse.*|trace|corrcoef|cov|cross",
    "Fourier transforms and complex numbers": r"fft\..*|i?stft|.*complex.*|polar|angle|conj.*|"
    r"real|imag|isreal|resolve_.*|c(half|float|double)|chalf",
    "products": r".*mm|.*mv|dot|vdot|inner|outer|matmul|addr|baddbmm|einsum|tensordot|kron|"
    r"chain_matmul|.*\.(bi)?linear|.*attention.*|__rmatmul__|.*cdist|.*pdist|block_diag",
    "convolutions, pooling and images": r".*(conv|pool|interpolate|upsample|grid_sample|pixel|"
    r"channel_shuffle|functional\.(un)?fold).*",
    "norms": r".*(_norm|normalize|renorm|cosine_similarity|pairwise_distance)",
    "losses": r".*(loss|cross_entropy|kl_div).*",
    "activation functions": r"nn\.functional\.(relu|hard|leaky|glu|elu|prelu|celu|selu|silu|logsig|"
    r"mish|soft(?!m)|tanhs|thre|gelu).*|.*(soft(max|min)|sigmoid)",
    "special functions": r"special\..*|.*(gamma|erf|erfc|erfinv|i0|sinc|logit|heaviside|xlogy)|"
    r"hypot|nextafter|frexp|ldexp|gcd|lcm",
    "comparisons": r"eq|ge|gt|le|lt|ne|equal|allclose|is.*|logical_.*|signbit|where|maximum|"
    r"minimum|f(max|min)|clamp.*",
    "sorting and counting": r".*(sort|topk|kthvalue|median|mode|quantile|histogram|"
    r"histogramdd|histc|bincount|bucketize|searchsorted|unique.*|count_nonzero)",
    "reductions and scans": r"(masked\.|cum|log|nan)?(sum|mean|prod|amax|amin|max|min|argmax|"
    r"argmin|all|any|aminmax|std|var|std_mean|var_mean|nansum|norm|dist|diff|sumexp|cumsumexp)|"
    r"logaddexp.*|masked\..*|cum.*|trap.*|gradient|hash_tensor",
    "indexing": r".*(index|gather|scatter|take|put|select|narrow|slice|getitem|masked_|embedding|"
    r"one_hot|nonzero|argwhere|tri[lu]|diag|segment).*",
    "new tensors and dtypes": r"(new_)?(zeros|ones|full|empty|eye|arange|linspace|logspace).*|fill|"
    r"zero_|signal\..*|scalar_tensor|bool|byte|char|double|float|half|int|long|short|bfloat16|to|"
    r"item|clone|.*triangle",
    "shapes": r".*(view|shape|expand|permute|squeeze|transpose|flatten|ravel|split|chunk|stack|cat|"
    r"tile|repeat|roll|rot90|flip|movedim|unbind|unfold|strided|copy|atleast|broadcast|meshgrid|pad|"
    r"contiguous|resize|combinations|cartesian|pad_nd).*|_chunk_cat|t|T|H|mT|mH|fliplr|flipud|"
    r"sum_to_size",
    "elementwise arithmetic": r".*",
}
INTERNAL = r"_(?!_).*|jiterator.*|torch\..*|slice|.*_backward"  # Names that users do not call.
# Operations that exist only as in-place methods, such as x.cauchy_().
TENSOR = ("cauchy", "exponential", "geometric", "log_normal", "uniform")


def public(name: str) -> str:
    """Return the public name of an operation, such as "torch.add" or "Tensor.view"."""
    if name in TENSOR:
        return f"Tensor.{name}_"
    for owner, prefix in ((torch, "torch"), (torch.Tensor, "Tensor")):
        item: Any = owner
        for part in name.split("."):
            item = getattr(item, part, None)
        if item is not None:
            return f"{prefix}.{name}"
    raise ValueError(f"{name} is no public name: add it to INTERNAL")


def table_names() -> dict[str, list[str]]:
    """Return {public name: other names} for the operations in torch's table."""
    names: dict[str, list[str]] = {}
    for operation in torch_samples.operations():
        if not re.fullmatch(INTERNAL, operation.name):
            others = names.setdefault(public(operation.name), [])
            others += [alias.name for alias in operation.aliases]
    return {name: sorted(dict.fromkeys(others)) for name, others in sorted(names.items())}


def without_seeds() -> None:
    """Prevent torch's samples of random operations from setting the seed, as a module must not."""
    torch_samples.operations()  # This call imports the module of the samples.
    from torch.testing._internal import common_methods_invocations as samples

    samples.wrapper_set_seed = lambda function, *args, **kwargs: function(*args, **kwargs)


def refusal(sample: Any) -> list[str]:
    """Return the message and the next step with which the kit refuses a sample; [] if it runs."""
    for has_gradients in (False, True):
        module = torch_samples.Calls([sample], has_gradients)
        try:
            if has_gradients and not torch_samples.by_torch(module, None)[1]:
                break
        except Exception:  # torch cannot compute a gradient for this sample.
            break
        try:
            capture.capture_module(module, tuple(module.inputs), {}, (), has_gradients)
        except ModelError as error:
            return texts(error)
        except Exception:  # An error of torch is not a refusal.
            break
    return []


def drawn_samples(number: int, dtype: Any) -> list[Any]:
    """Return the samples of an operation. Samples that work in place change a copy of the input."""
    operation = torch_samples.operations()[number]
    chosen = torch_samples.samples(operation, dtype, LIMIT)
    if operation.name in TENSOR or operation.variant_test_name == "in_place":
        for sample in chosen:
            sample.call = on_a_copy(sample.call)
    return chosen


def on_a_copy(call: Any) -> Any:
    return lambda first, *rest, **keywords: call(first * 1, *rest, **keywords)


def texts(error: ModelError) -> list[str]:
    module = re.compile(rf"\b{MODULE}(\.forward)?\b")
    return [module.sub("the module", text) for text in (error.tried, error.next_step)]


def judged(number: int) -> tuple[str, dict[str, list[int]], list[list[Any]]]:
    """Judge the samples of one operation: return its name, counts by dtype and refusals."""
    without_seeds()
    operation = torch_samples.operations()[number]
    counts, refusals = {}, []
    for dtype in torch_samples.DTYPES:
        chosen = drawn_samples(number, dtype)
        outcome = torch_samples.tried(chosen, dtype)
        if outcome.differences:
            raise AssertionError("\n".join(outcome.differences))
        kind = str(dtype).removeprefix("torch.")
        refused = [(sample, texts(error)) for sample, error in outcome.refusals]
        if outcome.undetermined:  # Such values are not compared, but the kit may refuse the sample.
            refused += [(s, text) for s in chosen if (text := refusal(s))]
            outcome.undetermined -= len(refused) - outcome.refused
            outcome.refused = len(refused)
        counts[kind] = [outcome.equal, outcome.refused, outcome.undetermined]
        positions = {id(sample): i for i, sample in enumerate(chosen)}
        refusals += [[number, kind, positions[id(sample)], *text] for sample, text in refused]
    kept = {kind: count for kind, count in counts.items() if any(count)}
    return public(operation.name), kept, merged(refusals)


def merged(refusals: list[list[Any]]) -> list[list[Any]]:
    """Return [number of equal refusals, *first refusal] for each dtype and reason."""
    first: dict[Any, list[Any]] = {}
    for refused in refusals:
        key = refused[1], limit(refused[3], set()), general(refused[4])
        first.setdefault(key, [0, *refused])[0] += 1
    return list(first.values())


def measured(numbers: list[int]) -> dict[str, Any]:
    """Return {public name: results} for the operations with these numbers in torch's table."""
    results: dict[str, Any] = {}
    with ProcessPoolExecutor() as pool:
        for name, counts, refusals in pool.map(judged, numbers):
            print(name, counts, flush=True)
            row = results.setdefault(name, {"counts": {}, "refusals": []})
            for kind, several in counts.items():
                total = row["counts"].get(kind, [0, 0, 0])
                row["counts"][kind] = [a + b for a, b in zip(total, several, strict=True)]
            row["refusals"] += refusals
    return {name: row for name, row in sorted(results.items()) if row["counts"]}


def public_numbers() -> list[int]:
    operations = torch_samples.operations()
    return [i for i, o in enumerate(operations) if not re.fullmatch(INTERNAL, o.name)]


# --- tables ---------------------------------------------------------------------------------------


def subject(name: str) -> str:
    short = re.sub(r"^(torch|Tensor)\.", "", name)
    return next(s for s, pattern in SUBJECTS.items() if re.fullmatch(pattern, short))


def limit(text: str, kinds: set[str]) -> str:
    """Return a refusal in a few words, without the numbers of the sample."""
    operation = re.search(r"implement torch's operation (\S+)\.$", text)
    if operation:
        words = f"needs `{operation[1]}`"
    elif "uses the value of a tensor's element in Python" in text:
        words = "torch reads an element in Python"
    elif size := re.search(r"uses the result of (.*), whose size", text):
        words = f"the size of {size[1]} depends on elements"
    elif "in place, but inputs cannot" in text:
        words = "changes a tensor that is an input"
    else:
        words = re.sub(r"^torch's operation \S+ cannot run on the device: ", "", text)
        words = re.sub(r", which the device does not support", "", words)
        words = re.sub(r"the result has the dtype (torch\.)?", "a result of ", words)
        words = re.sub(r"-?\b\d+(\.\d+)?(e[-+]?\d+)?\b(?!-bit)", "n", words)
    words = words.strip().rstrip(".")
    return f"{', '.join(sorted(kinds))}: {words}"


def general(step: str) -> str:
    """Return the next step as the page shows it, without the numbers of the sample."""
    step = re.sub(rf" See {re.escape(advice.PAGE)}, row .*$", "", step)
    step = step.replace(" of the page", " below")
    return re.sub(r"(?<![\w.*])-?\d+ to -?\d+", "n to m", step) if "use indices" in step else step


def reasons(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the (limit, next step) pairs of an operation, the most frequent first."""
    kinds: dict[tuple[str, str], set[str]] = {}
    number: Counter[tuple[str, str]] = Counter()
    for count, _, kind, _, text, step in row["refusals"]:
        key = limit(text, set()).removeprefix(": "), general(step)
        kinds.setdefault(key, set()).add(kind)
        number[key] += count
    every = set(row["counts"])
    return [
        ((f"{', '.join(sorted(kinds[key]))}: " if kinds[key] != every else "") + key[0], key[1])
        for key, _ in sorted(number.items(), key=lambda item: (-item[1], item[0]))
    ]


def state(row: dict[str, Any]) -> str:
    equal, refused, drawn = (sum(c[i] for c in row["counts"].values()) for i in range(3))
    if not refused:
        return "runs"
    return "limits" if equal or drawn else "refused"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def named(name: str, others: list[str]) -> str:
    return ", ".join(f"`{n}`" for n in (name, *others))


def dtypes(row: dict[str, Any]) -> str:
    """Return the dtypes in which samples run; those with refusals are in brackets."""
    return ", ".join(
        f"({kind})" if refused else kind
        for kind, (equal, refused, drawn) in row["counts"].items()
        if equal or drawn
    )


def lines(results: dict[str, Any], chosen: str) -> Iterator[str]:
    """Yield the lines of a table for each subject; `chosen` is "runs", "limits" or "refused"."""
    for topic in SUBJECTS:
        rows = {n: r for n, r in results.items() if subject(n) == topic and state(r) == chosen}
        if not rows:
            continue
        heads = {
            "runs": ("operation", "dtypes"),
            "limits": ("operation", "dtypes", "refused", "instead"),
            "refused": ("operation", "reason", "instead"),
        }[chosen]
        yield f"\n**{topic[0].upper()}{topic[1:]}**\n"
        yield f"| {' | '.join(heads)} |"
        yield "|" + "---|" * len(heads)
        for name, row in rows.items():
            cells = [named(name, row["others"])]
            if chosen != "refused":
                cells.append(dtypes(row))
            if chosen != "runs":
                several = reasons(row)[:SHOWN]
                cells.append("; ".join(dict.fromkeys(text for text, _ in several)))
                cells.append(" ".join(dict.fromkeys(capital(step) for _, step in several)))
            yield f"| {' | '.join(map(cell, cells))} |"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def summary(results: dict[str, Any]) -> str:
    number = Counter(map(state, results.values()))
    equal, refused, drawn = (
        sum(c[i] for r in results.values() for c in r["counts"].values()) for i in range(3)
    )
    return (
        f"torch's table has {len(results)} operations with public names. {number['runs']} run with "
        f"all samples, {number['limits']} with some, and {number['refused']} are refused. "
        f"{equal:,} of {equal + refused + drawn:,} samples are equal to torch's results, "
        f"{refused:,} are refused, and {drawn:,} return random or uninitialised numbers."
    )


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the text between each pair of marks on the page."""
    parts = {chosen: "\n".join(lines(results, chosen)) for chosen in ("runs", "limits", "refused")}
    return {"summary": summary(results), **parts}


def stored() -> dict[str, Any]:
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return results


def store(results: dict[str, Any]) -> None:
    rows = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in results.items()]
    RESULTS.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def changed_refusals(results: dict[str, Any], step: int) -> list[str]:
    """Return texts on the operations whose refusal is no longer the stored one.

    Only every `step`-th refused operation is tested.
    """
    without_seeds()
    changed = []
    for name, row in [item for item in results.items() if item[1]["refusals"]][::step]:
        _, number, kind, index, *text = row["refusals"][0]
        today = refusal(drawn_samples(number, getattr(torch, kind))[index])
        if today != text:
            changed.append(f"{name} ({kind}): {text} is now {today}")
    return changed


def main() -> int:
    if sys.argv[1:] == []:
        results = measured(public_numbers())
        names = table_names()
        for name, row in results.items():
            row["others"] = names[name]
        store(results)
    if sys.argv[1:] == ["--check"]:
        return check()
    for mark, text in tables(stored()).items():
        write_between(PAGE, mark, text)
    return 0


def check(step: int = 1) -> int:
    """Print what is stale and return the exit status; test every `step`-th refused operation."""
    results = stored()
    page = PAGE.read_text(encoding="utf-8")
    problems = [f"the table {m} differs" for m, t in tables(results).items() if t not in page]
    names = table_names()
    problems += [f"torch has no {n}" for n in results if n not in names]
    problems += changed_refusals(results, step)
    for problem in problems:
        print(f"{PAGE.name}: {problem}")
    if problems:
        print(
            "Run python docs/make_pytorch_operations.py, or with --tables after a change of words."
        )
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
