"""Random modules through `ipu_teach.poptorch`, judged by torch: values, gradients and updates.

A case is one call of a compiled executor with one set of inputs: all that it returns, and after a
training step also every parameter and buffer, are compared with torch. A module that the kit
refuses is one case, "refused".
"""

from __future__ import annotations

import contextlib
import copy
import logging
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import torch

from fuzz import shrink, torch_judge, torch_lines
from fuzz.torch_programs import KINDS, PRELUDE, Program, options_of, program, values
from ipu_teach import IPUModel, poptorch
from ipu_teach.errors import IPUTeachError

Call = tuple[list[Any], dict[str, Any]]
Counts = Counter[tuple[str, str]]  # by category, and how a case ended
REASONS: Counter[str] = Counter()  # of refusals


class Fault(Exception):
    """A result that differs, or an error that is none of the kit's."""

    def __init__(self, kind: str, text: str, calls: list[Call]) -> None:
        super().__init__(text)
        self.kind, self.text, self.calls = kind, text, calls


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Let new float tensors have this dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype if dtype == torch.float64 else torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def optimizer_of(made: Program, module: Any) -> Any:
    text = made.optimizer.replace("{p}", "parameters")
    return eval(text, {"torch": torch, "poptorch": poptorch, "parameters": module.parameters()})


def cast(tensors: list[Any], dtype: torch.dtype) -> list[Any]:
    """Return copies, the floats among them in the given dtype."""
    return [t.to(dtype) if t.is_floating_point() else t.clone() for t in tensors]


class Torch:
    """The module in plain torch, in one dtype, trained or not."""

    def __init__(self, made: Program, dtype: torch.dtype, state: Any, is_trained: bool) -> None:
        self.made, self.dtype, self.is_trained = made, dtype, is_trained
        with default_dtype(dtype):
            self.module = made.make()
            self.module.load_state_dict(copy.deepcopy(state))
            if dtype == torch.float64:
                self.module.double()
        self.module.train(is_trained)
        self.optimizer = optimizer_of(made, self.module) if is_trained else None

    def __call__(self, call: Call) -> list[tuple[str, Any]]:
        """Return outputs by name, and the state after a call."""
        tensors, keywords = call
        made, outs = self.made, list[Any]()
        count = made.micro_batches * made.replicas if self.is_trained else 1
        iterations = made.iterations if self.is_trained else 1
        if not self.is_trained:
            count = made.iterations * made.replicas
        batches = [
            [
                t[n * len(t) // (count * iterations) :][: len(t) // (count * iterations)]
                for t in tensors
            ]
            for n in range(count * iterations)
        ]
        mean = "ReductionType.Sum" not in "".join(made.options)
        scale = getattr(self.optimizer, "loss_scaling", 1.0)  # hooks see scaled gradients
        with default_dtype(self.dtype):
            for step in range(iterations):
                if self.optimizer is not None:
                    self.optimizer.zero_grad()
                for batch in batches[step * count :][:count]:
                    result = self.module(*cast(batch, self.dtype), **keywords)
                    outs.append([t.detach().clone() for t in result])
                    if self.optimizer is not None:
                        loss = result[-1] / (count if mean else 1)
                        (loss * scale).backward()
                if self.optimizer is not None:
                    for parameter in self.module.parameters():
                        if parameter.grad is not None:
                            parameter.grad /= scale
                    self.optimizer.step()
        names = [*made.outputs, *(["loss"] if made.loss else [])]
        joined = list[tuple[str, Any]]()
        for name, parts in zip(names, zip(*outs, strict=True), strict=True):
            if len(parts) == 1:
                joined.append((name, parts[0]))
            elif parts[0].dim():
                joined.append((name, torch.cat(parts)))
            else:
                joined.append((name, torch.stack(parts)))
        return joined + state_of(self.module)


def state_of(module: Any) -> list[tuple[str, Any]]:
    return [(n, v.detach().clone()) for n, v in module.state_dict().items()]


def draw(made: Program, kind: str, rng: Random, is_trained: bool) -> list[Any]:
    """Return the inputs of a call: a batch for each micro-batch, replica and iteration."""
    count = made.replicas * made.iterations * (made.micro_batches if is_trained else 1)
    dtype = torch.float16 if made.is_half else torch.float32
    return [
        torch.cat([values(kind, shape, given, rng) for _ in range(count)]).to(
            dtype if given.is_floating_point else given
        )
        for shape, given in made.inputs.values()
    ]


def calls_of(made: Program, seed: int, is_trained: bool) -> list[Call]:
    """Return the calls that a program is tried with."""
    rng = Random(f"{seed} calls")
    text = "\n".join([*made.setup, *made.body, made.loss])
    kinds = KINDS[1:]
    if any(line in text for line in torch_lines.TAME):
        kinds = ["ties", "zeros", "steps", "negative"]
    if any(name in text for name in torch_lines.SQUARES):
        kinds = [kind for kind in kinds if kind != "denormal"]
    if any(name in text for name in torch_lines.CHOOSING):
        kinds = [kind for kind in kinds if kind in ("negative", "large", "denormal")]
    kinds = ["plain", *rng.sample(kinds, min(len(kinds), 4 if is_trained else 6))]
    calls = [(draw(made, kind, rng, is_trained), dict[str, Any]()) for kind in kinds]
    if re.search(r"\bk\b", text):
        calls.append((draw(made, "plain", rng, is_trained), {"k": 3}))
    if re.search(r"\bflag\b", text):
        calls.append((draw(made, "plain", rng, is_trained), {"flag": False}))
    return calls


class Check:
    """A program on the device and in torch, call by call."""

    def __init__(self, made: Program, is_trained: bool, counts: Counts) -> None:
        self.made, self.is_trained, self.counts = made, is_trained, counts
        self.module = made.make()
        if made.state:
            self.module.load_state_dict(made.state, strict=False)
        self.start = copy.deepcopy(self.module.state_dict())
        self.dtype = torch.float16 if made.is_half else torch.float32
        self.names = [*made.outputs, *(["loss"] if made.loss else [])]
        self.history: list[Call] = []
        self.executor: Any = None

    def counted(self, end: str, category: str = "") -> None:
        self.counts[category or self.made.category, end] += 1

    def run(self, call: Call) -> list[tuple[str, Any]] | None:
        """Return what the device gives for a call, and the state; nothing, if it is refused."""
        made, calls = self.made, [*self.history, call]
        try:
            if self.executor is None:
                options = options_of(made).useIpuModel(IPUModel("ipu2", tiles_per_ipu=made.tiles))
                if self.is_trained:
                    optimizer = optimizer_of(made, self.module)
                    self.executor = poptorch.trainingModel(self.module, options, optimizer)
                else:
                    self.executor = poptorch.inferenceModel(self.module.eval(), options)
            return self.asked(self.executor, call)
        except IPUTeachError as error:
            self.refused(error, calls)
        except Exception as error:
            raise bare(error, calls) from error
        return None

    def asked(self, executor: Any, call: Call) -> list[tuple[str, Any]]:
        tensors, keywords = call
        results = executor(*[t.clone() for t in tensors], **keywords)
        executor.copyWeightsToHost()
        return [*zip(self.names, results, strict=True), *state_of(self.module)]

    def refused(self, error: IPUTeachError, calls: list[Call]) -> None:
        if not error.next_step:
            raise Fault("no next step", f"refused without a next step: {error}", calls)
        self.counted("refused")
        REASONS[re.sub(r"\d+", "N", str(error).partition("\n")[0])[:150]] += 1

    def compare(self, call: Call) -> bool:
        """Compare a call; return whether the next one can go on from its state. Raises `Fault`."""
        calls = [*self.history, call]
        try:
            expected = reference(self.made, self.start, calls, self.is_trained)(self.dtype)
        except Exception:  # torch itself refuses these inputs
            return True
        if not _has_squares(self.made, expected):
            return False
        actual = self.run(call)
        if actual is None:
            return self.executor is not None and self.executor.isCompiled()
        again = reference(self.made, self.start, calls, self.is_trained)
        if text := torch_judge.differences(actual, again, self.dtype):
            raise Fault("differs", text, calls)
        self.counted("equal")
        self.history.append(call)
        state, count = expected[len(self.names) :], len(self.names)
        if not self.is_trained or (_is_finite(state) and _is_near(actual[count:], state)):
            return True
        if "SGD" not in self.made.optimizer or "momentum" in self.made.optimizer:
            return False
        self.module.load_state_dict(self.start)
        self.executor.copyWeightsToDevice()
        self.history = []
        return True

    def evaluate(self, kind: str, rng: Random) -> None:
        """Infer with the module that was trained, and train on. Raises `Fault`."""
        made = self.made
        if "# stage" in "".join(made.body) and "Pipelined" in "".join(made.options):
            made = replace(made, iterations=4, options=[*made.options, "deviceIterations(4)"])
        call = draw(made, kind, rng, is_trained=False), dict[str, Any]()
        self.executor.detachFromDevice()
        start = copy.deepcopy(self.module.state_dict())
        modes = [m.training for m in self.module.modules()]
        plain = reference(made, start, [call], is_trained=False)
        try:
            plain(self.dtype)
        except Exception:  # as a batch norm of other sizes
            return
        options = options_of(made).useIpuModel(IPUModel("ipu2", tiles_per_ipu=made.tiles))
        calls = [*self.history, call]
        try:
            inference = poptorch.inferenceModel(self.module, options)
            actual = self.asked(inference, call)
            inference.detachFromDevice()
        except IPUTeachError as error:
            return self.refused(error, calls)
        except Exception as error:
            raise bare(error, calls) from error
        if modes != [m.training for m in self.module.modules()]:
            raise Fault("mode", "inferenceModel left the module in another mode", calls)
        if text := torch_judge.differences(actual, plain, self.dtype):
            raise Fault("differs in eval after training", text, calls)
        self.counted("equal", "eval after train")
        self.module.load_state_dict(start)  # inference may have changed buffers
        self.compare((draw(self.made, kind, rng, is_trained=True), {}))


def bare(error: Exception, calls: list[Call]) -> Fault:
    """Return the fault of an error that is none of the kit's."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
    text = f"{type(error).__name__}: {str(error)[:300]} ({place})"
    return Fault(f"traceback {type(error).__name__} {last.name}", text, calls)


def check(made: Program, calls: list[Call], is_trained: bool, counts: Counts) -> None:
    """Run a program on the device and in torch, and compare each call. Raises `Fault`."""
    trial = Check(made, is_trained, counts)
    if made.is_evaluated and trial.compare(calls[0]) and trial.executor and trial.history:
        rng = Random(repr(made.body))
        trial.evaluate("plain", rng)
        calls = calls[1:]
    for call in calls:
        if not trial.compare(call):
            break
    if trial.executor is not None and trial.executor.isAttachedToDevice():
        trial.executor.detachFromDevice()


def _has_squares(made: Program, results: list[tuple[str, Any]]) -> bool:
    """Return whether float32 has the squares that a program sums: torch sums some in float64."""
    text = "\n".join([*made.setup, *made.body, made.loss])
    if not any(name in text for name in torch_lines.SQUARES):
        return True
    sizes = [v.double().nan_to_num(0, 0, 0).abs().amax() for _, v in results if v.numel()]
    return bool(max(sizes) < 1e17)


def _is_finite(state: list[tuple[str, Any]]) -> bool:
    return all(bool(v.isfinite().all()) for _, v in state)


def _is_near(actual: list[tuple[str, Any]], state: list[tuple[str, Any]]) -> bool:
    """Return whether a next step begins from nearly the same state, and from the same zeros."""
    return all(
        torch.allclose(a.double(), b.double(), 1e-3, 1e-4) and torch.equal(a == 0, b == 0)
        for (_, a), (_, b) in zip(actual, state, strict=True)
    )


def reference(made: Program, start: Any, calls: list[Call], is_trained: bool) -> Any:
    """Return a function from a dtype to the results of the last call in torch."""

    def results(dtype: torch.dtype) -> list[tuple[str, Any]]:
        plain = Torch(made, dtype, start, is_trained)
        for call in calls[:-1]:
            plain(call)
        return plain(calls[-1])

    return results


def one_program(seed: int, counts: Counts) -> Fault | None:
    """Try program number `seed`; return what is wrong, its program made as small as it gets."""
    made = program(seed)
    if not made.body:
        return None
    is_trained = bool(made.loss)
    calls = calls_of(made, seed, is_trained)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check(made, calls, is_trained, counts)
        except Fault as fault:
            counts[made.category, "fault"] += 1
            fault.text = smaller(made, fault, is_trained)
            return fault
    return None


@contextlib.contextmanager
def suppressed_reasons() -> Iterator[None]:
    """Count no refusals."""
    before = REASONS.copy()
    try:
        yield
    finally:
        REASONS.clear()
        REASONS.update(before)


def tried(made: Program, calls: list[Call], is_trained: bool) -> Fault | None:
    try:
        with suppressed_reasons():
            check(made, calls, is_trained, Counter())
    except Fault as fault:
        return fault
    except Exception:  # no program any more
        return None
    return None


def smaller(made: Program, fault: Fault, is_trained: bool) -> str:
    """Return the code of a failing program, with as few lines and calls as still fail alike."""
    calls = fault.calls

    def fails(candidate: Program, some: list[Call]) -> bool:
        problem = tried(candidate, some, is_trained)
        return problem is not None and problem.kind == fault.kind

    if fails(made, calls[-1:]):
        calls = calls[-1:]
    else:
        plain = Torch(made, torch.float32, made.make().state_dict(), is_trained)
        for call in calls[:-1]:
            plain(call)
        late = replace(made, state=dict(state_of(plain.module)))
        if fails(late, calls[-1:]):
            made, calls = late, calls[-1:]
    for simple in (
        {"is_evaluated": False},
        {"options": [], "micro_batches": 1, "replicas": 1, "iterations": 1},
        {"optimizer": "torch.optim.SGD({p}, lr=1.0)"},
        {"tiles": 1},
    ):
        candidate = replace(made, **simple)
        some = calls
        if "options" in simple:
            count = made.micro_batches * made.replicas * made.iterations if is_trained else 1
            some = [([t[: len(t) // count] for t in tensors], k) for tensors, k in calls]
        if fails(candidate, some):
            made, calls = candidate, some
    body = shrink.smallest(
        made.body, lambda rest: bool(rest) and fails(replace(made, body=rest), calls)
    )
    made = replace(made, body=body)
    setup = shrink.smallest(made.setup, lambda rest: fails(replace(made, setup=rest), calls))
    if len(setup) == 1 and fails(replace(made, setup=[]), calls):
        setup = []
    made = replace(made, setup=setup)
    for name in list(made.inputs)[::-1]:
        if len(made.inputs) > 1:
            at = list(made.inputs).index(name)
            fewer = {n: v for n, v in made.inputs.items() if n != name}
            some = [(tensors[:at] + tensors[at + 1 :], k) for tensors, k in calls]
            if fails(replace(made, inputs=fewer), some):
                made, calls = replace(made, inputs=fewer), some
    last = tried(made, calls, is_trained) or fault
    return shown(made, calls, is_trained) + "\n# " + str(last).replace("\n", "\n# ")


def shown(made: Program, calls: list[Call], is_trained: bool) -> str:
    """Return a program that runs alone and prints what the kit and torch give."""
    used = made.module()
    options = "".join(f"options.{line}\n" for line in made.options)
    text = f"{PRELUDE}\n\n{used}\n\ntorch.manual_seed(0)\nmodule = Module(){'.half()' if made.is_half else ''}\n"
    text += (
        f'options = poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu={made.tiles}))\n'
    )
    text += options
    if made.is_evaluated:
        text += "# after the first call: an inferenceModel of the module, then training goes on\n"
    if made.state:
        text += "module.load_state_dict({"
        text += (
            ", ".join(
                f"{n!r}: {literal(v)}"
                for n, v in made.state.items()
                if n in made.make().state_dict()
            )
            + "})\n"
        )
    if is_trained:
        optimizer = made.optimizer.replace("{p}", "module.parameters()")
        text += f"executor = poptorch.trainingModel(module, options, {optimizer})\n"
    else:
        text += "executor = poptorch.inferenceModel(module.eval(), options)\n"
    for tensors, keywords in calls:
        arguments = [literal(t) for t in tensors] + [f"{k}={v!r}" for k, v in keywords.items()]
        text += f"print(executor({', '.join(arguments)}))\n"
    if is_trained:
        text += "executor.detachFromDevice()\nprint(module.state_dict())\n"
    return text


def literal(tensor: Any) -> str:
    """Return the code of a tensor."""
    numbers = re.sub(r"\b(nan|inf)\b", r'float("\1")', str(tensor.tolist()))
    return f"torch.tensor({numbers}, dtype={tensor.dtype})"


def kind_of(fault: Fault) -> str:
    """Return what faults of one kind have in common: how it ended, and the lines without numbers."""
    body = fault.text.rpartition("def forward")[2].partition("\n")[2].partition("        return")[0]
    return f"{fault.kind} {re.sub(r'[0-9]+|[ ]+', ' ', body)}"


def table(counts: Counts) -> str:
    """Return how many cases of each category were equal, refused and at fault."""
    ends = ("equal", "refused", "fault")
    rows: list[tuple[str, ...]] = [("category", *ends)]
    rows += [
        (category, *(f"{counts[category, end]:,}" for end in ends))
        for category in sorted({category for category, _ in counts})
    ]
    totals = [sum(n for (_, end), n in counts.items() if end == wanted) for wanted in ends]
    rows.append(("all", *(f"{total:,}" for total in totals)))
    width = max(len(row[0]) for row in rows)
    return "\n".join(f"{row[0]:<{width}}" + "".join(f"{c:>9}" for c in row[1:]) for row in rows)


def run(first: int, most: float, seconds: float) -> int:
    """Try programs from seed `first` on, until there are `most` cases or time is over.

    The first fault of each kind is printed as a program. Returns the exit status, 1 for a fault.
    """
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)  # torch's warnings about what it traces
    counts: Counts = Counter()
    kinds: set[str] = set()
    begin, told, seed = time.monotonic(), 0.0, first
    with contextlib.suppress(KeyboardInterrupt):
        while counts.total() < most and time.monotonic() - begin < seconds:
            fault = one_program(seed, counts)
            if fault and kind_of(fault) not in kinds:
                kinds.add(kind_of(fault))
                print(
                    f"\nseed {seed}, {fault.kind}; as small as it gets:\n\n{fault.text}", flush=True
                )
            seed += 1
            if time.monotonic() - told > 1:
                told = time.monotonic()
                print(f"\r{counts.total():,} cases ", end="", file=sys.stderr, flush=True)
    print(
        f"\n{seed - first:,} programs from seed {first}\n\n{table(counts)}\n\nrefused most often:"
    )
    for reason, count in REASONS.most_common(20):
        print(f"{count:>6} {reason}")
    return 1 if kinds else 0
