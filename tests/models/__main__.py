"""Compare small models of published packages with torch.

    python3 run.py models [--only NAME] [--list]

Each model has random weights and runs on the modelled machine and in torch on the CPU. Its values
in `eval`, and its losses and its state after three steps of SGD and of Adam, are compared with
torch in float64; torch's own float32 error sets the scale. A table gives the result of each: equal
(with the error of values and losses), refused (with the message), ill-conditioned (torch's own
losses change with other rounding), or differs. A package that is not installed is skipped. The exit
status is 1 if one differs.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import importlib.metadata
import importlib.util
import logging
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if importlib.util.find_spec("torch") is None:
    if sys.argv[1:] in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        sys.exit(0)
    print("models: torch is not installed; `ipu-teach doctor` names the line that installs it")
    sys.exit(2)

import torch
from fuzz.torch_judge import Rounding
from torch import nn

from ipu_teach import IPUModel, poptorch
from ipu_teach.errors import IPUTeachError
from models.builders import BUILDERS, declare_torchvision

TILES, STEPS, RUNS = 64, 3, 4
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}
CONDITIONED = (
    1e-3  # if torch's own losses differ by more with other rounding, the model tests nothing
)
FLOOR = 1e-5  # of the largest element of a tensor
Tensors = dict[str, torch.Tensor]


class Trained(nn.Module):  # type: ignore[misc]
    """A model that returns what it computes, and a loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, target: torch.Tensor, *inputs: torch.Tensor) -> Any:
        result = self.model(*inputs)
        return result, nn.functional.mse_loss(result, target)


def values_of(model: nn.Module, inputs: Any, dtype: torch.dtype) -> Tensors:
    """Return what torch computes in `eval`."""
    model = copy.deepcopy(model).to(dtype).eval()
    with torch.no_grad():
        return {"values": model(*cast(inputs, dtype))}


def steps_of(model: nn.Module, make: Any, target: Any, inputs: Any, dtype: torch.dtype) -> Tensors:
    """Return losses, and the state after three steps, of torch."""
    model = Trained(copy.deepcopy(model).to(dtype)).train()
    optimizer, found = make(model.parameters()), Tensors()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(target.to(dtype), *cast(inputs, dtype))[1]
        loss.backward()
        optimizer.step()
        found[f"loss {step}"] = loss.detach()
    return found | state_of(model)


def state_of(model: nn.Module) -> Tensors:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def cast(inputs: Any, dtype: torch.dtype) -> list[torch.Tensor]:
    return [x.to(dtype) if x.is_floating_point() else x for x in inputs]


def kit_values(model: nn.Module, inputs: Any) -> Tensors:
    executor = poptorch.inferenceModel(copy.deepcopy(model), options())
    return {"values": executor(*inputs)}


def kit_steps(model: nn.Module, make: Any, target: Any, inputs: Any) -> Tensors:
    trained = Trained(copy.deepcopy(model)).train()
    executor = poptorch.trainingModel(trained, options(), make(trained.parameters()))
    found = {f"loss {step}": executor(target, *inputs)[1] for step in range(STEPS)}
    executor.detachFromDevice()
    return found | state_of(trained)


def options() -> Any:
    return poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=TILES))


def difference(actual: Tensors, reference: Callable[[torch.dtype], Tensors]) -> tuple[float, str]:
    """Return the largest relative error of values and losses, and what differs.

    Parameters count, too, but not those whose gradient is 0 except for rounding, such as the bias
    of keys in attention: they move at random under Adam, in torch as well.
    """
    narrow = reference(torch.float32)
    try:
        wide = reference(torch.float64)
    except (RuntimeError, TypeError):  # the model fixes a dtype
        wide = narrow
    spread: list[Tensors] = []
    worst = 0.0
    for name, expected in wide.items():
        result = actual[name]
        if result.shape != expected.shape or result.dtype != narrow[name].dtype:
            return float("inf"), f"{name} is {result.dtype} {list(result.shape)}"
        if not expected.is_floating_point():
            if not torch.equal(result, expected):
                return float("inf"), f"{name} is {result.tolist()}, not {expected.tolist()}"
            continue
        size = float(expected.abs().max()) if expected.numel() else 0.0
        error = distance(result, expected)
        room = FLOOR * max(size, 1e-3) + 8 * distance(narrow[name], expected)
        if not error <= room:
            if not spread:
                for seed in range(RUNS):
                    with Rounding(seed):
                        spread.append(reference(torch.float32))
            room += 8 * max(distance(run[name], expected) for run in spread)
        if not error <= room:
            return error, f"{name} is off by {error:.1e} of {size:.1e}; room is {room:.1e}"
        if name.startswith(("values", "loss")):
            worst = max(worst, error / max(size, 1e-3))
    return worst, ""


def distance(actual: Any, expected: Any) -> float:
    """Return the largest difference: NaN and infinities in the same places count as equal."""
    a, b = actual.double(), expected.double()
    gap = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs())
    return float(gap.max()) if gap.numel() else 0.0


def judged(run: Callable[[], Tensors], reference: Callable[[torch.dtype], Tensors]) -> str:
    """Return how a run ended, in words: "equal ...", "refused: ..." or "DIFFERS: ..."."""
    try:
        actual = run()
    except IPUTeachError as error:
        return "refused: " + " ".join(str(error).split())[:300]
    except Exception as error:
        return f"DIFFERS: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    worst, fault = difference(actual, reference)
    if fault:
        return f"DIFFERS: {fault}"
    return f"{'equal' if worst < CONDITIONED else 'ill-conditioned'} {worst:.0e}"


def tried(name: str) -> dict[str, str]:
    """Return how a model's values and its training ended."""
    package, build = BUILDERS[name]
    try:
        importlib.import_module(package)
    except ImportError:
        return {"values": f"skipped: {package} is not installed"}
    torch.manual_seed(0)
    model, inputs = build()
    model.eval()
    with torch.no_grad():
        for parameter in model.parameters():  # some are initially 0, which hides faults
            parameter.add_(0.05 * torch.randn_like(parameter))
        target = torch.randn_like(model(*inputs))
    ends = {
        "values": judged(lambda: kit_values(model, inputs), lambda d: values_of(model, inputs, d))
    }
    for label, make in OPTIMIZERS.items():
        ends[label] = judged(
            lambda make=make: kit_steps(model, make, target, inputs),  # type: ignore[misc]
            lambda d, make=make: steps_of(model, make, target, inputs, d),  # type: ignore[misc]
        )
    return ends


def version(package: str) -> str:
    names = importlib.metadata.packages_distributions().get(package, [package])
    try:
        return importlib.metadata.version(names[0])
    except importlib.metadata.PackageNotFoundError:
        return "none"


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python3 run.py models", description=__doc__)
    parser.add_argument("--only", default="", help="those with this in their name or package")
    parser.add_argument("--list", action="store_true", help="name the models, and run none")
    words = parser.parse_args()
    names = [
        n for n, (package, _) in BUILDERS.items() if words.only.lower() in f"{package} {n}".lower()
    ]
    if not names:
        parser.error(f"no model or package has {words.only!r} in its name; --list names them")
    if words.list:
        print("\n".join(names))
        return 0
    torch.set_num_threads(1)
    declare_torchvision()
    logging.disable(logging.CRITICAL)
    counts: Counter[str] = Counter()
    reasons: list[str] = []
    print("| model | package | values | SGD | Adam | s |\n|---|---|---|---|---|---|", flush=True)
    for name in names:
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ends = tried(name)
            except Exception as error:
                ends = {"values": f"not built: {type(error).__name__}: {str(error)[:100]}"}
        kinds = {end.partition(" ")[0].rstrip(":") for end in ends.values()}
        worst = next(
            k
            for k in ("DIFFERS", "refused", "skipped", "not", "ill-conditioned", "equal")
            if k in kinds
        )
        counts["not built" if worst == "not" else worst] += 1
        package = BUILDERS[name][0]
        cells = [ends.get(key, "").partition(":")[0] for key in ("values", *OPTIMIZERS)]
        seconds = time.process_time() - begin
        row = [name, f"{package} {version(package)}", *cells, f"{seconds:.0f}"]
        print("| " + " | ".join(row) + " |", flush=True)
        reasons += [f"{name}, {key}: {end}" for key, end in ends.items() if ":" in end]
    print("\n" + "\n".join(reasons))
    print("\n" + ", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    return 1 if counts["DIFFERS"] else 0


if __name__ == "__main__":
    sys.exit(main())
