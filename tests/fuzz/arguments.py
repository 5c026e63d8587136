"""Call every public function of a module with one argument replaced by a bad value.

The valid calls come from the suite: before a test calls a function, a forked process makes the same
call many times, each time with one argument spoiled. So a bad value arrives where a learner's
would, and the test then continues undisturbed.

A call ends well if it raises an error of the kit that gives a next step, or if the parameter may
have the value. Any other exception, a hang, too much memory, or a value of a wrong kind that is
accepted is a failure.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

ALL = 150_000  # about the number of calls of all groups
SECONDS = 8.0  # CPU seconds for one call; ten times as many by the clock
MEMORY = 2 << 30  # bytes that a call may allocate in addition
# By group: the modules whose functions are attacked, and the tests that make valid calls of them.
GROUPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ir": (
        (
            "frontends.ir.values", "frontends.ir.composed", "frontends.ir.transforms",
            "frontends.ir.autodiff", "frontends.ir.scans", "frontends.ir.lowering",
            "frontends.ir.saved", "frontends.session",
        ),
        ("test_ir.py", "test_ir_transforms.py"),
    ),
    "keras": (
        (
            "frontends.keras.layers", "frontends.keras.model", "frontends.keras.data",
            "frontends.keras.callbacks", "frontends.keras.ipu", "frontends.keras.losses",
            "frontends.keras.optimizers", "frontends.keras.compiled", "frontends.keras.metrics",
            "frontends.keras.network", "frontends.keras.saving",
        ),
        ("test_keras.py", "test_keras_layers.py"),
    ),
    "popart": (("frontends.popart",), ("test_popart.py",)),
    "poptorch": (
        ("frontends.poptorch",), ("test_poptorch.py", "test_poptorch_executor.py")
    ),
    "popsparse": (("poplibs.popsparse.",), ("test_sparse.py",)),
    "popops": (("poplibs.popops.",), ("test_every_function.py",)),
    "poplin": (("poplibs.poplin.",), ("test_every_function.py", "test_poplin.py", "test_dense.py")),
    "popnn": (("poplibs.popnn.",), ("test_every_function.py", "test_popnn.py", "test_layers.py")),
    "poprand": (("poplibs.poprand",), ("test_poprand.py",)),
    "gcl": (("poplibs.gcl.",), ("test_gcl.py",)),
    "optim": (("poplibs.optim", "poplibs.unit_scaling"), ("test_optim.py", "test_unit_scaling.py")),
    "poputil": (("poplibs.poputil", "poplibs.graphfn"), ("test_poputil.py", "test_graphfn.py")),
    "quarter": (("types.quarter", "types.numbers"), ("test_quarter.py", "test_numbers.py")),
    "schedules": (("schedules",), ("test_schedules.py",)),
    "sweeps": (("sweeps.",), ("test_sweep.py",)),
    "show": (
        ("show.",),
        (
            "test_show.py", "test_views.py", "test_more_views.py", "test_further_views.py",
            "test_patches_view.py", "test_pipeline_view.py", "test_recompute_view.py",
            "test_ring_view.py", "test_run_view.py", "test_sparse_views.py",
            "test_streaming_view.py", "test_tile_views.py", "test_sweep.py",
        ),
    ),
}  # fmt: skip


class Bad(NamedTuple):
    """A bad value: its name, its kind, and the function that makes it."""

    name: str
    kind: str
    make: Callable[[], Any]


class Spot(NamedTuple):
    """A parameter, which of its values, and the bad value that replaces it."""

    name: str
    place: Any
    bad: Bad


def _foreign_value() -> Any:
    from ipu_teach.frontends import ir

    return ir.Ir().input((4, 3), "foreign")


def _foreign_tensor() -> Any:
    from ipu_teach import FLOAT, Graph, IPUModel

    graph = Graph(IPUModel(tiles_per_ipu=2).create_device())
    tensor = graph.add_variable(FLOAT, (4, 3), "foreign")
    graph.set_tile_mapping(tensor, 0)
    return tensor


def _dtype(name: str) -> Any:
    import ipu_teach

    return getattr(ipu_teach, name)


def _same(value: Any) -> Callable[[], Any]:
    return lambda: value


BAD = [
    Bad("None", "none", _same(None)),
    Bad("'x'", "text", _same("x")),
    Bad("''", "text", _same("")),
    Bad("b'x'", "bytes", _same(b"x")),
    Bad("True", "flag", _same(True)),
    Bad("np.True_", "flag", _same(np.True_)),
    Bad("0", "whole", _same(0)),
    Bad("1", "whole", _same(1)),
    Bad("-1", "whole", _same(-1)),
    Bad("10**9", "huge", _same(10**9)),
    Bad("2**31", "huge", _same(2**31)),
    Bad("10**30", "huge", _same(10**30)),
    Bad("np.int64(-3)", "whole", _same(np.int64(-3))),
    Bad("3.5", "number", _same(3.5)),
    Bad("-0.5", "number", _same(-0.5)),
    Bad("np.float32(2)", "number", _same(np.float32(2))),
    Bad("nan", "infinite", _same(float("nan"))),
    Bad("inf", "infinite", _same(float("inf"))),
    Bad("1e300", "infinite", _same(1e300)),
    Bad("1j", "complex", _same(2 + 1j)),
    Bad("[]", "list", list),
    Bad("[0]", "wholes", lambda: [0]),
    Bad("[-1]", "wholes", lambda: [-1]),
    Bad("[99]", "wholes", lambda: [99]),
    Bad("[0, 0]", "wholes", lambda: [0, 0]),
    Bad("(5,)", "wholes", _same((5,))),
    Bad("(1, 2, 3)", "wholes", _same((1, 2, 3))),
    Bad("(2**31, 2**31)", "wholes", _same((2**31, 2**31))),
    Bad("[1.5]", "numbers", lambda: [1.5]),
    Bad("['a']", "texts", lambda: ["a"]),
    Bad("[None]", "list of others", lambda: [None]),
    Bad("[1j]", "list of others", lambda: [1j]),
    Bad("{}", "dict", dict),
    Bad("{'x': 1}", "dict", lambda: {"x": 1}),
    Bad("{1}", "set", lambda: {1}),
    Bad("np.zeros(3)", "array", lambda: np.zeros(3)),
    Bad("np.zeros((0, 2))", "array", lambda: np.zeros((0, 2))),
    Bad("np.array(['a'])", "array of others", lambda: np.array(["a"])),
    Bad("np.array(None)", "array of others", lambda: np.array(None)),
    Bad("np.array([1j])", "array of others", lambda: np.array([1j])),
    Bad("FLOAT", "dtype", partial(_dtype, "FLOAT")),
    Bad("INT", "dtype", partial(_dtype, "INT")),
    Bad("UNSIGNED_CHAR", "dtype", partial(_dtype, "UNSIGNED_CHAR")),
    Bad("np.float32", "class", _same(np.float32)),
    Bad("object()", "object", object),
    Bad("len", "function", _same(len)),
    Bad("range(3)", "wholes", _same(range(3))),
    Bad("a generator", "iterator", lambda: (i for i in [1])),
    Bad("...", "object", _same(...)),
    Bad("slice(0, 2)", "object", _same(slice(0, 2))),
    Bad("a value of another graph", "value", _foreign_value),
    Bad("a tensor of another graph", "tensor", _foreign_tensor),
]  # fmt: skip
# Words in annotations, and the kinds of values that they permit.
LEGAL: dict[str, set[str]] = {
    "bool": {"flag"},
    "int": {"whole", "huge"},
    "Count": {"whole", "huge"},
    "float": {"whole", "number", "huge"},
    "Rate": {"whole", "number", "huge"},
    "str": {"text"},
    "bytes": {"bytes"},
    "None": {"none"},
    "Ints": {"whole", "huge", "wholes", "list"},
    "Operand": {"whole", "number", "huge", "infinite", "flag"},
    "Factor": {"whole", "number", "huge", "infinite"},
    "AnyNumber": {"whole", "number", "huge", "infinite", "flag"},
    "Expr": {"whole", "number", "huge", "infinite", "flag"},  # a number is an expression
    "UpdateComputation": {"function"},
    "Into": {"list"},
    "Flags": {"flag"},
    "Given": {"list", "iterator", "dict"},
    "ReduceCallback": {"function"},
    "Shape": {"wholes", "list"},
    "Sequence": {"list"},
    "Collection": {"list", "set", "dict"},
    "Iterable": {"list", "set", "iterator", "dict"},
    "Mapping": {"dict"},
    "State": {"dict"},
    "Options": {"dict"},
    "DType": {"dtype"},
    "Callable": {"function", "class", "dtype"},
    "Numbers": {"whole", "number", "infinite", "huge", "flag", "wholes", "numbers", "array", "list"},
    "ArrayLike": {"whole", "number", "infinite", "huge", "flag", "wholes", "numbers", "array", "list"},
    "Array": {"array"},
    "Words": set(),
    "Codes": {"whole", "wholes", "list", "array"},
    "Overflow": set(),
    "PathLike": {"text"},
    "Natural": {"whole", "huge"},
    "Ipu": {"whole"},
    "Word": {"whole", "huge"},
    "Positive": {"whole", "number", "huge"},
    "Epsilon": {"whole", "number", "huge"},
    "Extended": {"whole", "number", "huge", "infinite"},
    "Fraction": {"whole", "number"},
    "Share": {"whole", "number"},
    "Sizes": {"whole", "huge", "wholes", "list"},
    "Margins": {"whole", "huge", "wholes", "list"},
    "Element": {"dtype"},
    "list": {"list"},
    "dict": {"dict"},
    "tuple": {"list"},
    "Values": {"list"},
    "Decay": {"whole", "number", "huge"},
    "Distance": {"whole", "number", "huge"},
    "Verbose": {"whole", "flag"},
    "Pair": {"whole", "huge", "wholes"},
    "Size": {"whole", "huge"},
    "Switch": {"whole", "flag"},
    "At": {"whole", "text", "none"},
    "Setting": {"wholes", "texts", "list"},
}  # fmt: skip
# Parameters annotated with Any or object, and the kinds they accept; all others accept everything.
TAKEN: dict[str, str] = {}
# Parameters that ignore their value or accept any, with the reason.
ANYTHING: dict[str, str] = {
    "poplibs.popops.fused.map.expression": "a number is an expression",
    "poplibs.popops.host_slices.create_host_transferable_tensor.shape": "a number is a shape",
    **dict.fromkeys(
        (f"frontends.poptorch.PoplarExecutor.__call__.{name}" for name in ("flag", "mode", "k")),
        "what forward takes is the module's own affair",
    ),
    **dict.fromkeys(
        (f"frontends.popart.Opset.{name}.strides" for name in ("conv", "maxpool", "averagepool")),
        "one for all dimensions",
    ),
    **dict.fromkeys(
        (f"frontends.popart.Opset.{name}.axes" for name in ("reducesum", "reducemean", "slice")),
        "all dimensions",
    ),
    "frontends.keras.layers.images.Conv2D.__init__.input_shape": "the model's first layer has one",
    "poplibs.popnn.pooling.pool_input_gradient.x": "an average's gradient does not read it",
    "poplibs.popnn.pooling.pool_input_gradient.pooled": "an average's gradient does not read it",
    "frontends.keras.ipu.IPUStrategy.run.args": "what the function takes is its own affair",
    "frontends.keras.model.Model.fit.epochs": "a training may be as long as a learner wants",
    "frontends.keras.model.Model.fit.steps_per_epoch": "an epoch may be, too",
    "frontends.ir.op.leaky.slope": "a row of the tests', which says nothing of its attribute",
}


@dataclass
class Ended:
    """How the calls of a group ended: a count of each ending, and the text of each failure."""

    count: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)


GOOD = ("refused", "accepted")


def _is_outside(frame: Any) -> bool:
    return not frame.f_globals.get("__name__", "").startswith(("ipu_teach", "ipu_course"))


SWITCHES = ("keepdims", "transA", "transB", "count_include_pad", "inputIsLogProbability")
WHOLES = {"int", "float", "Count", "Natural", "Size"}


def _legal(annotation: Any, default: Any) -> set[str] | None:
    """Return the kinds of values that a parameter may have; None if any."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    text = text or str(annotation)
    words = set(_words(text))
    if text.startswith("Callable"):
        return LEGAL["Callable"] | ({"none"} if "None" in words else set())
    if {"Any", "object", "Attribute"} & words or annotation is inspect.Parameter.empty:
        return None
    legal = set[str]().union(*(LEGAL.get(w, set()) for w in words))
    if {"Sequence", "Iterable", "Collection", "tuple"} & words and WHOLES & words:
        legal |= {"wholes", "list"} | ({"numbers"} if "float" in words else set())
        if "|" not in text:
            legal -= {"whole", "huge", "number"}
    if {"Sequence", "Iterable", "Collection"} & words and "str" in words and "|" not in text:
        legal = (legal - {"text"}) | {"texts"}
    return legal | ({"none"} if default is None else set())


def _like(value: Any) -> set[str] | None:
    """Return the kinds of values that may replace one that was given by name."""
    if isinstance(value, bool):
        return {"flag"}
    if isinstance(value, int):
        return {"whole", "huge"}
    if isinstance(value, float):
        return {"whole", "huge", "number", "infinite"}
    if isinstance(value, str):
        return {"text"}
    if isinstance(value, (list, tuple, range)):
        return {"wholes", "list"}
    return {"dtype"} if inspect.isclass(value) else None


def _words(text: str) -> Iterator[str]:
    word = ""
    for letter in text + " ":
        if letter.isalnum() or letter == "_":
            word += letter
        elif word:
            yield word
            word = ""


def _is_offered(member: Any, name: str, module: Any) -> bool:
    """Return whether a name is for learners.

    A name of the libraries is, if its module or package lists it; one of the views, if their
    package does.
    """
    if module.__name__.startswith("ipu_teach.show."):
        return name in sys.modules["ipu_teach.show"].__all__
    if not module.__name__.startswith("ipu_teach.poplibs."):
        return True
    package = sys.modules[".".join(module.__name__.split(".")[:3])]
    listed = (*getattr(module, "__all__", ()), *getattr(package, "__all__", ()))
    return not listed or name in listed


# Classes that learners do not instantiate themselves, and methods that only the kit calls.
MADE_BY_THE_KIT = {
    "frontends.ir.values.Op",
    "frontends.ir.values.Value",
    "poplibs.poplin.plan.MatMulPlan",
    "poplibs.poplin.conv.ConvPlan",
    "poplibs.popops.slice_plans.SlicePlan",
    "poplibs.popsparse.static_plan.SparsePlan",
    "poplibs.popsparse.buckets.Bucket",
    "poplibs.popsparse.dynamic.SparseTensor",
    "poplibs.gcl.groups.CommGroup.of",
}


class Attacker:
    """Records the valid calls of a group's functions, and makes spoiled ones.

    `limit` is the maximum number of spoiled calls, `share` the part of the bad values that each
    argument gets. `reports`: print the endings of each function.
    """

    def __init__(
        self, limit: int, seed: int = 0, share: float = 1.0, seconds: float = SECONDS
    ) -> None:
        self.seconds = seconds
        self.limit, self.rng, self.share = limit, Random(seed), share
        self.groups: dict[str, Ended] = {}
        self.seen: set[tuple[str, frozenset[str]]] = set()
        self.done = 0
        self.is_busy = False
        self._undo: list[tuple[Any, str, Any]] = []

    # --- hooks ---

    def install(self, names: list[str]) -> None:
        """Hook the functions of groups by name."""
        for name in names:
            ended = self.groups.setdefault(name, Ended())
            for module in _modules(GROUPS[name][0]):
                self._hook_module(module, ended)

    def remove(self) -> None:
        """Remove the hooks."""
        for owner, name, original in reversed(self._undo):
            setattr(owner, name, original)
        self._undo.clear()

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._undo.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def _hook_module(self, module: Any, ended: Ended) -> None:
        for name, member in list(vars(module).items()):
            if f"{module.__name__[10:]}.{name}" in MADE_BY_THE_KIT:
                continue
            if name.startswith("_") or getattr(member, "__module__", "") != module.__name__:
                continue
            if not _is_offered(member, name, module):
                continue
            if inspect.isfunction(member):
                hook = self._hooked(member, f"{module.__name__[10:]}.{name}", ended)
                for loaded in [
                    m for n, m in sys.modules.items() if n.startswith(("ipu_teach", "ipu_course"))
                ]:
                    for alias, found in list(vars(loaded).items()):
                        if found is member:
                            self._set(loaded, alias, hook)
            elif inspect.isclass(member) and not issubclass(member, BaseException):
                self._hook_class(member, f"{module.__name__[10:]}.{name}", ended)

    def _hook_class(self, member: Any, title: str, ended: Ended) -> None:
        for name, method in list(vars(member).items()):
            if name == "__getattr__" and member.__name__ == "Opset":
                self._set(member, name, self._hooked_opset(method, title, ended))
            if name.startswith("_") and name not in ("__init__", "__call__"):
                continue
            if f"{title}.{name}" in MADE_BY_THE_KIT:
                continue
            if inspect.isfunction(method):
                self._set(member, name, self._hooked(method, f"{title}.{name}", ended, 1))
            elif isinstance(method, classmethod):
                hook = self._hooked(method.__func__, f"{title}.{name}", ended, 1)
                self._set(member, name, classmethod(hook))

    def _hooked_opset(self, find: Any, title: str, ended: Ended) -> Any:
        def found(opset: Any, name: str) -> Any:
            return self._hooked(find(opset, name), f"{title}.{name}", ended)

        return found

    def _hooked(self, function: Any, title: str, ended: Ended, skip: int = 0) -> Any:
        inside = title.endswith("Ir.emit")  # rows of gradients are asked for by the kit alone

        @wraps(function)
        def hook(*args: Any, **kwargs: Any) -> Any:
            wanted = not self.is_busy and self.done < self.limit
            if wanted and (inside or _is_outside(sys._getframe(1))):
                self.attack(function, title, args, kwargs, ended, skip)
            return function(*args, **kwargs)

        return hook

    # --- attacks ---

    def attack(
        self, function: Any, title: str, args: Any, kwargs: Any, ended: Ended, skip: int
    ) -> None:
        if title.endswith(("Ir.op", "Ir.emit")):
            if not (len(args) > 1 and isinstance(args[1], str)):
                return
            title = f"frontends.ir.op.{args[1]}"
        key = title, frozenset(kwargs) | {str(len(args))}
        base = title, frozenset({"any"})
        if key in self.seen or (base in self.seen and not set(kwargs) - self._named(title)):
            return
        self.seen |= {key, base}
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except (TypeError, ValueError):
            return
        spots = []
        for name, place in self._places(bound, skip):
            if name == "kind" and title.startswith("frontends.ir.op.") and title[16:] != "add":
                continue  # the name of a row is looked up alike, whichever it is
            if (title, frozenset({f"{name} {place}"})) in self.seen:
                continue
            self.seen.add((title, frozenset({f"{name} {place}"})))
            values = [v for v in BAD if self.rng.random() < self.share]
            values = values[: max(self.limit - self.done, 0)]
            self.done += len(values)
            spots += [Spot(name, place, bad) for bad in values]
        for spot, how, text in _in_a_child(self, partial(spoiled, function, bound), spots):
            self._judge(bound, title, spot, how, text, ended)

    def _named(self, title: str) -> set[str]:
        return {next(iter(k)).split()[-1] for t, k in self.seen if t == title and len(k) == 1}

    def _places(self, bound: Any, skip: int) -> Iterator[tuple[str, Any]]:
        """Yield the name of each parameter, and the index of each value of those with several."""
        for name, parameter in [*bound.signature.parameters.items()][skip:]:
            if parameter.kind is parameter.VAR_POSITIONAL:
                yield from ((name, i) for i in range(min(len(bound.arguments.get(name, ())), 4)))
            elif parameter.kind is parameter.VAR_KEYWORD:
                yield from ((name, key) for key in bound.arguments.get(name, {}))
            else:
                yield name, name

    def _judge(self, bound: Any, title: str, spot: Spot, how: str, text: str, ended: Ended) -> None:
        """Count how a call ended, and note a fault."""
        name, place, bad = spot
        parameter = bound.signature.parameters[name]
        annotation = TAKEN.get(f"{title}.{place}", parameter.annotation)
        legal = _legal(annotation, parameter.default)
        if place in SWITCHES:
            legal = LEGAL["Switch"]  # which ONNX has as 0 and 1
        if legal is None and parameter.kind is parameter.VAR_KEYWORD:
            legal = _like(bound.arguments[name][place])
        if title.startswith("frontends.ir.op.") and name == "inputs":
            legal = LEGAL["Numbers"]
        where = f"{title}({name}{'' if place == name else f'[{place}]'}="
        ending = "accepted" if how == "free" else how
        is_called = bad.kind in ("function", "class") and "Callable" in str(annotation)
        is_free = bad.kind == "tensor" and "Tensor" in str(annotation)
        if is_free and "graph" not in bound.signature.parameters and how == "accepted":
            how = "free"  # there is no graph that it could be another's
        if how in ("traceback", "hang") and (is_called or f"{title}.{place}" in ANYTHING):
            ending = "accepted"
        if how == "accepted" and legal is not None and bad.kind not in legal:
            ending = "silent" if f"{title}.{place}" not in ANYTHING else "accepted"
        elif how == "accepted" and bad.kind not in ("none", "flag"):
            ended.accepted.append(f"{where}{bad.name})")
        ended.count[ending] += 1
        if ending not in GOOD:
            ended.faults.append(f"{ending}: {where}{bad.name}) {text}")


def spoiled(function: Any, bound: Any, spot: Spot) -> tuple[str, str]:
    """Return how a call with one spoiled argument ends, and the text of its error."""
    name, place, bad = spot
    given, value = {**bound.arguments}, bad.make()
    kind = bound.signature.parameters[name].kind
    if kind is inspect.Parameter.VAR_POSITIONAL:
        given[name] = (*given[name][:place], value, *given[name][place + 1 :])
    elif kind is inspect.Parameter.VAR_KEYWORD:
        given[name] = {**given[name], place: value}
    else:
        given[name] = value
    ordered: Any = {p: given[p] for p in bound.signature.parameters if p in given}
    call = inspect.BoundArguments(bound.signature, ordered)
    return _ending(function, call.args, call.kwargs)


def _ending(function: Any, args: Any, kwargs: Any) -> tuple[str, str]:
    from ipu_teach.errors import IPUTeachError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*args, **kwargs)
            if isinstance(result, AbstractContextManager) and hasattr(result, "gen"):
                with result:
                    pass
    except IPUTeachError as error:
        text = str(error)
        return ("refused" if error.next_step else "without next"), text.splitlines()[0][:160]
    except MemoryError as error:
        return "memory", str(error)[:100]
    except BaseException as error:
        if function_raised(error):
            return "accepted", ""
        frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ else []
        place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
        return "traceback", f"{type(error).__name__}: {str(error)[:100]} at {place}"
    return "accepted", ""


def function_raised(error: BaseException) -> bool:
    """Return whether the error comes from a function among the arguments, not from the kit."""
    frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ else []
    own = frames and "/ipu_teach/" not in frames[-1].filename and "/tests/" in frames[-1].filename
    return bool(own and frames[-1].filename != __file__) or "len() takes" in str(error)


def _in_a_child(
    attacker: Attacker, call: Callable[[Spot], tuple[str, str]], spots: list[Spot]
) -> Iterator[tuple[Spot, str, str]]:
    """Yield each spot with its ending; after a crash, a new child handles the remaining spots."""
    start = 0
    while start < len(spots):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            attacker.is_busy = True
            _child(call, spots[start:], attacker.seconds, writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            endings = [json.loads(line) for line in pipe if line.endswith("\n")]
        status = os.waitpid(child, 0)[1]
        for ending, text in endings:
            yield spots[start], ending, text
            start += 1
        if start < len(spots):
            is_hung = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (
                signal.SIGALRM,
                signal.SIGPROF,
            )
            yield spots[start], "hang" if is_hung else "crash", f"status {status}"
            start += 1


def _child(
    call: Callable[[Spot], tuple[str, str]], spots: list[Spot], seconds: float, writing: int
) -> None:
    """Make the spoiled calls, and end this process."""
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        for number in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, signal.SIG_DFL)
        _limit_memory()
        for spot in spots:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.setitimer(signal.ITIMER_REAL, 10 * seconds)
            line = json.dumps(call(spot)) + "\n"
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.write(writing, line.encode())
        status = 0
    finally:
        os._exit(status)


def _limit_memory() -> None:
    import resource

    with open("/proc/self/statm") as sizes:
        used = int(sizes.read().split()[0]) * resource.getpagesize()
    with suppress(ValueError, OSError):
        resource.setrlimit(
            resource.RLIMIT_AS, (used + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1])
        )


def _modules(names: tuple[str, ...]) -> Iterator[Any]:
    """Yield modules by name; a name that ends in a dot means all modules below it."""
    for name in names:
        module = import_module(f"ipu_teach.{name.rstrip('.')}")
        yield module
        if name.endswith("."):
            for loaded in sorted(sys.modules):
                if loaded.startswith(f"{module.__name__}."):
                    yield sys.modules[loaded]


class _Plugin:
    """The plugin of pytest for the tests of a group."""

    def __init__(self, attacker: Attacker) -> None:
        self.attacker = attacker

    def pytest_runtest_setup(self, item: Any) -> None:
        """Skip the remaining tests once enough calls were made."""
        import pytest

        if self.attacker.done >= self.attacker.limit:
            pytest.skip("enough calls")


def attack_group(group: str, share: float, seed: int, limit: int = ALL) -> Ended:
    """Spoil the calls that the tests of a group make, in this process."""
    import pytest

    attacker = Attacker(limit, seed, share)
    attacker.install([group])
    folder = Path(__file__).resolve().parents[1]
    tests = [str(folder / name) for name in GROUPS[group][1]]
    words = ["-q", "-n0", "-p", "no:nbval", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
    pytest.main([*words, *tests], plugins=[_Plugin(attacker)])
    attacker.remove()
    return attacker.groups[group]


def attack_all(count: int, seed: int, only: str = "") -> int:
    """Spoil about `count` calls of all groups with `only` in their name; return the exit status.

    Each group runs in a process of its own. A table and all failures are printed.
    """
    root = Path(__file__).resolve().parents[2]
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}",
    }
    total: Counter[str] = Counter()
    faults: list[str] = []
    print(f"{'module':<12}{'calls':>9}{'refused':>9}{'harmless':>10}{'wrong':>7}")
    for group in [name for name in GROUPS if only in name]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ended.json"
            words = ["-m", "fuzz.arguments", group, str(count / ALL), str(seed), str(path)]
            run = subprocess.run(
                [sys.executable, *words],
                cwd=folder,
                env=env,
                capture_output=True,
                text=True,
            )
            if not path.exists():
                faults.append(
                    f"{group}: no call was recorded: {run.stdout[-300:]}{run.stderr[-300:]}"
                )
                continue
            endings, wrong, _ = json.loads(path.read_text(encoding="utf-8"))
        total.update(endings)
        faults += wrong
        print(_row(group, Counter(endings)), flush=True)
    print(_row("all", total))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def _row(name: str, count: Counter[str]) -> str:
    calls, refused, harmless = count.total(), count["refused"], count["accepted"]
    wrong = calls - refused - harmless
    return f"{name:<12}{calls:>9,}{refused:>9,}{harmless:>10,}{wrong:>7,}"


def main() -> None:
    """Attack a group, and write how its calls ended to a file."""
    group, share, seed, path = sys.argv[1:]
    ended = attack_group(group, min(float(share), 1.0), int(seed))
    text = json.dumps([ended.count, ended.faults, ended.accepted])
    Path(path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
