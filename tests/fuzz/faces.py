"""Random modules through `ipu_teach.poptorch`, judged by torch: values, gradients and updates.

A case is one call of a compiled executor with one set of inputs: all that it returns, and after a
training step also every parameter and buffer, are compared with torch. A module that the kit
refuses is one case, "refused".
"""

from __future__ import annotations

import copy
import re
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

import torch

from fuzz import shrink, torch_judge, torch_lines
from fuzz.torch_programs import KINDS, PRELUDE, Program, options_of, program, values
from ipu_teach import IPUModel, poptorch
from ipu_teach.errors import IPUTeachError

Call = tuple[list[Any], dict[str, Any]]


class Fault(Exception):
    """A result that differs, or an error that is none of the kit's."""

    def __init__(self, kind: str, text: str, calls: list[Call]) -> None:
        super().__init__(text)
        self.kind, self.text, self.calls = kind, text, calls


@contextmanager
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
            [t[n * len(t) // (count * iterations) :][: len(t) // (count * iterations)] for t in tensors]
            for n in range(count * iterations)
        ]
        mean = "ReductionType.Sum" not in "".join(made.options)
        with default_dtype(self.dtype):
            for step in range(iterations):
                if self.optimizer is not None:
                    self.optimizer.zero_grad()
                for batch in batches[step * count :][:count]:
                    result = self.module(*cast(batch, self.dtype), **keywords)
                    outs.append([t.detach().clone() for t in result])
                    if self.optimizer is not None:
                        loss = result[-1] / (count if mean else 1)
                        loss.backward()
                if self.optimizer is not None:
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
    text = "\n".join([*made.body, made.loss])
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


def check(made: Program, calls: list[Call], is_trained: bool, counts: Counter[str]) -> None:
    """Run a program on the device and in torch, and compare each call. Raises `Fault`."""
    module = made.make()
    if made.state:
        module.load_state_dict(made.state, strict=False)
    start = copy.deepcopy(module.state_dict())
    options = options_of(made).useIpuModel(IPUModel("ipu2", tiles_per_ipu=made.tiles))
    dtype = torch.float16 if made.is_half else torch.float32
    history: list[Call] = []
    executor: Any = None
    for number, call in enumerate(calls):
        try:
            expected = reference(made, start, [*history, call], is_trained)(dtype)
        except Exception:  # torch itself refuses these inputs
            counts["torch refuses"] += 1
            continue
        try:
            if executor is None:
                if is_trained:
                    optimizer = optimizer_of(made, module)
                    executor = poptorch.trainingModel(module, options, optimizer)
                else:
                    executor = poptorch.inferenceModel(module.eval(), options)
            tensors, keywords = call
            results = executor(*[t.clone() for t in tensors], **keywords)
            executor.copyWeightsToHost()
        except IPUTeachError as error:
            if not error.next_step:
                raise Fault("no next step", f"refused without a next step: {error}", calls[: number + 1]) from error
            counts["refused"] += 1
            reasons[re.sub(r"\d+", "N", str(error).split("\n")[0])[:150]] += 1
            if executor is None or not executor.isCompiled():
                return
            continue
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {str(error)[:300]} ({last.filename.rpartition('/')[2]}:{last.lineno})"
            raise Fault(f"traceback {type(error).__name__} {last.name}", text, [*history, call]) from error
        names = [*made.outputs, *(["loss"] if made.loss else [])]
        actual = [*zip(names, results, strict=True), *state_of(module)]
        text = torch_judge.differences(
            actual, reference(made, start, [*history, call], is_trained), dtype
        )
        if text:
            raise Fault("differs", text, [*history, call])
        counts["trained" if is_trained else "values"] += 1
        history.append(call)
        state = expected[len(names) :]
        if is_trained and not (_is_finite(state) and _is_near(actual[len(names) :], state)):
            if "SGD" not in made.optimizer or "momentum" in made.optimizer:
                break
            module.load_state_dict(start)
            executor.copyWeightsToDevice()
            history = []
    if executor is not None and executor.isAttachedToDevice():
        executor.detachFromDevice()


def _is_finite(state: list[tuple[str, Any]]) -> bool:
    return all(bool(v.isfinite().all()) for _, v in state)


def _is_near(actual: list[tuple[str, Any]], state: list[tuple[str, Any]]) -> bool:
    """Return whether a next step begins from nearly the same state."""
    return all(
        torch.allclose(a.double(), b.double(), 1e-3, 1e-4)
        for (_, a), (_, b) in zip(actual, state, strict=True)
    )


reasons: Counter[str] = Counter()


def reference(made: Program, start: Any, calls: list[Call], is_trained: bool) -> Any:
    """Return a function from a dtype to the results of the last call in torch."""

    def results(dtype: torch.dtype) -> list[tuple[str, Any]]:
        plain = Torch(made, dtype, start, is_trained)
        for call in calls[:-1]:
            plain(call)
        return plain(calls[-1])

    return results


def one_program(seed: int, counts: Counter[str]) -> Fault | None:
    """Try program number `seed`; return what is wrong, its program made as small as it gets."""
    made = program(seed)
    if not made.body:
        return None
    made = replace(made, tiles=Random(seed).choice([1, 2, 3, 4]))
    is_trained = bool(made.loss)
    calls = calls_of(made, seed, is_trained)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check(made, calls, is_trained, counts)
        except Fault as fault:
            fault.text = smaller(made, fault, is_trained)
            return fault
    return None


def tried(made: Program, calls: list[Call], is_trained: bool) -> Fault | None:
    try:
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
    text = f'{PRELUDE}\n\n{used}\n\ntorch.manual_seed(0)\nmodule = Module(){".half()" if made.is_half else ""}\n'
    text += f'options = poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu={made.tiles}))\n'
    text += options
    if made.state:
        text += "module.load_state_dict({"
        text += ", ".join(f"{n!r}: {literal(v)}" for n, v in made.state.items() if n in made.make().state_dict()) + "})\n"
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
