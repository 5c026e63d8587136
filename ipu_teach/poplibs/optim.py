"""Optimisers: a parameter takes one step against its gradient, by torch's formulas.

    state = optim.adam(graph, weights, slope, rate, prog)       # in the program of one step
    graph.create_host_read("first", state["first"])             # a tensor as any other
    graph.create_host_write("rate", rate)                       # another rate: nothing is compiled

PopLibs has no optimisers; frameworks build them from library calls, as these are built. `parameter`
and `slope`, its gradient, are FLOAT or HALF, of one shape. `rate` is a number or one FLOAT: a
tensor of it can be written between two runs. A call returns its state: tensors by name that are 0
at first and mapped like the parameter, FLOAT whatever its dtype. To interrupt training, read them
and the parameter, and write them before it goes on: the training is then the same as without a
stop. A call that is given such a `state` keeps it there. All values are computed in FLOAT and
rounded once.

Rates that change with the step are functions for the host: `warm_up`, `cosine`, `stairs`.
"""

from __future__ import annotations

from math import cos, inf, log, pi
from typing import Any

from ipu_teach.arguments import is_finite
from ipu_teach.errors import PoplibsError, did_you_mean, shown
from ipu_teach.graph import Graph, Tensor
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.library import (
    OWN,
    as_given,
    check_alike,
    check_dtype,
    check_number,
    check_same,
    check_tensor,
    library,
    refused,
    variant,
)
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.popops.fused import map as mapped, map_in_place
from ipu_teach.poplibs.popops.in_float import in_float
from ipu_teach.poplibs.popops.operands import check_factor, check_finite
from ipu_teach.poplibs.popops.reductions import SingleReduceOp, reduce_many
from ipu_teach.poplibs.poputil import like
from ipu_teach.program import Sequence as Program
from ipu_teach.types import FLOAT, HALF

__all__ = ["adam", "adamw", "cosine", "lars", "sgd", "stairs", "warm_up"]

State = dict[str, Tensor]
Rate = float | Tensor


class _Step:
    """One step of one parameter, as expressions of the tensors that it has."""

    def __init__(
        self,
        graph: Graph,
        w: Tensor,
        slope: Tensor,
        rate: Rate,
        prog: Program,
        name: str,
        numbers: dict[str, float],
        given: State | None,
        *names: str,
    ) -> None:
        self.graph = graph
        self.w = w
        self.slope = slope
        self.prog = prog
        self.name = name
        self.state: State = {}
        self.given = {} if given is None else given
        self._check_state(names)
        check_dtype("parameter", w, FLOAT, HALF)
        check_dtype("slope", slope, FLOAT, HALF)
        check_alike("give a slope for each element.", "", parameter=w, slope=slope)
        for argument, number in numbers.items():
            below = 1.0 if argument in ("momentum", "beta1", "beta2") else inf
            if not 0 <= check_number(argument, number, FLOAT) < below:
                bound = "0 or more" if below > 1 else "0 to below 1"
                raise as_given(number, argument, f"give {bound}.")
        self.rate = check_factor(graph, "rate", rate, FLOAT)
        check_finite("rate", self.rate)

    def _check_state(self, names: tuple[str, ...]) -> None:
        """Raise `PoplibsError` unless the state that was given has these names and no other."""
        listed = ", ".join(map(repr, names))
        if not isinstance(self.given, dict):
            raise as_given(self.given, "state", "give the dict that an earlier call returned.")
        for name in self.given:
            if name not in names:
                raise refused(
                    f"was given a state with {shown(name)}.",
                    next_step=f"{did_you_mean(name, names)}It keeps {listed}.",
                )
        if self.given and (lost := [name for name in names if name not in self.given]):
            raise refused(
                f"was given a state without {lost[0]!r}.",
                next_step=f"give all that an earlier call returned: {listed}.",
            )
        for name, tensor in self.given.items():
            check_tensor(self.graph, name, tensor)

    def keep(self, name: str) -> Tensor:
        """Return a tensor of the state, given or new and 0 at first; "step" is one number."""
        if name in self.given:
            tensor = self.state[name] = self.given[name]
            shape = () if name == "step" else self.w.shape
            where = f"{name} {tensor!r}"
            check_dtype(name, tensor, FLOAT)
            check_same("shapes", tensor.shape, shape, where, "give what an earlier call returned.")
            return tensor
        if name == "step":
            tensor = self.graph.add_variable(FLOAT, (), f"{self.name}/{name}")
            self.graph.set_tile_mapping(tensor, 0)
        else:
            tensor = like(self.graph, self.w, f"{self.name}/{name}", FLOAT)
        self.graph.set_initial_value(tensor, 0)
        self.state[name] = tensor
        return tensor

    def set(self, first: Tensor, expression: Any, *others: Any) -> None:
        """`first` becomes the value of `expression(first, *others)`, of tensors and numbers."""
        result, tensors = in_float(expression, first, *others, out=first.dtype)
        map_in_place(self.graph, result, tensors, self.prog, self.name)

    def scalar(self, expression: Any, *operands: Any) -> Tensor | float:
        """Evaluate a scalar expression: a tensor, or a number if it contains no
        tensor."""
        result, tensors = in_float(expression, *operands)
        if not isinstance(result, expr.Expr):
            return float(result)
        return mapped(self.graph, result, tensors, self.prog, f"{self.name}/scalar")


def _decayed(decay: float) -> Any:
    """Return the gradient, plus the gradient of decay / 2 times the squared parameter."""
    return (lambda g, w: g + decay * w) if decay else (lambda g, w: g)


@library
def sgd(
    graph: Graph,
    parameter: Tensor,
    slope: Tensor,
    rate: Rate,
    prog: Program,
    debug_context: str = OWN,
    *,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    scaled_velocity: bool = False,
    state: State | None = None,
) -> State:
    """Append a step of stochastic gradient descent: v = momentum v + g, w -= rate v, where g is the
    gradient plus `weight_decay` times w.

    The formula is that of torch.optim.SGD without dampening. With `scaled_velocity`, v = momentum v
    + rate g and w -= v, as in Keras: the steps differ as soon as the rate changes. State:
    "velocity", v; none without momentum. Raises `PoplibsError`.
    """
    numbers = {"momentum": momentum, "weight_decay": weight_decay}
    step = _Step(graph, parameter, slope, rate, prog, debug_context, numbers, state, "velocity")
    g = _decayed(weight_decay)
    if not momentum:
        step.set(parameter, lambda w, d, rate: w - rate * g(d, w), slope, step.rate)
        return step.state
    v = step.keep("velocity")
    if scaled_velocity:
        both = slope, parameter, step.rate
        step.set(v, lambda v, d, w, rate: v * momentum + rate * g(d, w), *both)
        step.set(parameter, lambda w, v: w - v, v)
        return step.state
    step.set(v, lambda v, d, w: v * momentum + g(d, w), slope, parameter)
    step.set(parameter, lambda w, v, rate: w - rate * v, v, step.rate)
    return step.state


def _adam(
    decays_by: float | None,
    graph: Graph,
    parameter: Tensor,
    slope: Tensor,
    rate: Rate,
    prog: Program,
    debug_context: str = OWN,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    eps_hat: bool = False,
    scaled_square: bool = False,
    weight_decay: float | None = None,
    state: State | None = None,
) -> State:
    decay = (decays_by or 0.0) if weight_decay is None else weight_decay
    numbers = {"beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": decay}
    state_names = ("first", "second", "step")
    step = _Step(graph, parameter, slope, rate, prog, debug_context, numbers, state, *state_names)
    is_decoupled = decays_by is not None
    g = _decayed(0.0 if is_decoupled else decay)
    both = (slope, parameter)
    first, second, count = map(step.keep, state_names)
    step.set(count, lambda n: n + 1.0)
    step.set(first, lambda m, d, w: m + (1 - beta1) * (g(d, w) - m), *both)

    def square(g: Any) -> Any:  # only the scaled square of a gradient of 1e20 is a finite FLOAT
        return (1 - beta2) * g * g if scaled_square else (1 - beta2) * (g * g)

    step.set(second, lambda v, d, w: v * beta2 + square(g(d, w)), *both)

    def left(beta: float, n: Any) -> Any:  # 1 - beta^n, without what a difference would lose
        return -expr.Expm1(n * log(beta)) if beta else 1.0

    length = step.scalar(lambda rate, n: rate / left(beta1, n), step.rate, count)
    root = step.scalar(lambda n: expr.Sqrt(left(beta2, n)) if beta2 else 1.0, count)
    shrink = step.scalar(lambda rate: 1 - rate * decay, step.rate) if is_decoupled else 1.0

    def stepped(w: Any, m: Any, v: Any, length: Any, root: Any, shrink: Any) -> Any:
        divisor = (expr.Sqrt(v) + eps) / root if eps_hat else expr.Sqrt(v) / root + eps
        return w * shrink - length * m / divisor

    step.set(parameter, stepped, first, second, length, root, shrink)
    return step.state


@variant(_adam, None)
def adam() -> None:
    """Append a step of Adam, by running means of the gradient and of its square, both corrected for
    their start at 0.

    State: "first", "second", and "step", the number of steps, one FLOAT. `weight_decay` (default 0)
    times the parameter is part of the gradient, as in torch.optim.Adam. With `eps_hat`, `eps` is
    added to the root of the running mean before its correction, as in Keras. With `scaled_square`
    the gradient is multiplied by 1 - beta2 before it is squared, as in torch. Raises
    `PoplibsError`.
    """


@variant(_adam, 0.01)
def adamw() -> None:
    """Append a step like `adam`, with the weights decaying separately from the gradient: w -= rate
    `weight_decay` w, by default 0.01. As torch.optim.AdamW. Raises `PoplibsError`."""


@library
def lars(
    graph: Graph,
    parameter: Tensor,
    slope: Tensor,
    rate: Rate,
    prog: Program,
    debug_context: str = OWN,
    *,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    trust: float = 0.001,
    eps: float = 1e-8,
    state: State | None = None,
) -> State:
    """Return a step whose length follows that of the parameter: v = momentum v + rate r (g + decay
    w), w -= v.

    r = `trust` |w| / (|g| + decay |w| + eps), or 1 where |w| or |g| is 0; |w| is the root of the
    sum of squares over the whole parameter, one layer (arXiv:1708.03888). State: "velocity", v.
    torch has none. Raises `PoplibsError`.
    """
    decay = weight_decay
    numbers = {"momentum": momentum, "weight_decay": decay, "trust": trust, "eps": eps}
    step = _Step(graph, parameter, slope, rate, prog, debug_context, numbers, state, "velocity")
    jobs = [SingleReduceOp(t.flatten(), [0], "SQUARE_ADD", FLOAT) for t in (parameter, slope)]
    norms = reduce_many(graph, jobs, prog, f"{debug_context}/norms")

    def ratio(rate: Any, w: Any, g: Any) -> Any:
        w, g = expr.Sqrt(w), expr.Sqrt(g)
        trust_ratio = trust * w / (g + decay * w + eps)
        return rate * expr.Select(trust_ratio, 1.0, expr.And(w > 0.0, g > 0.0))

    length = step.scalar(ratio, step.rate, *norms)
    slanted = _decayed(decay)
    v = step.keep("velocity")

    def moved(v: Any, d: Any, w: Any, length: Any) -> Any:
        return v * momentum + length * slanted(d, w)

    step.set(v, moved, slope, parameter, length)
    step.set(parameter, lambda w, v: w - v, v)
    return step.state


def warm_up(step: int, steps: int, rate: float) -> float:
    """Return the rate of step number `step`, counted from 0: in `steps` equal stairs up to `rate`,
    and then that."""
    _check_steps("warm_up", step, steps, rate)
    return rate * min(1.0, (step + 1) / steps)


def cosine(step: int, steps: int, rate: float, last: float = 0.0) -> float:
    """Return the rate of step number `step`, counted from 0: half a wave from `rate` down to `last`
    at step `steps`, and then that."""
    _check_steps("cosine", step, steps, rate, last)
    return last + (rate - last) * (1 + cos(pi * min(step, steps) / steps)) / 2


def stairs(step: int, steps: int, rate: float, factor: float = 0.1) -> float:
    """Return the rate of step number `step`, counted from 0: `rate`, times `factor` after every
    `steps` steps."""
    _check_steps("stairs", step, steps, rate, factor)
    return float(rate * factor ** (step // steps))


def _check_steps(name: str, step: object, steps: object, *rates: Any) -> None:
    if not (is_whole(step) and step >= 0 and is_whole(steps) and steps >= 1):
        raise PoplibsError(f"""{name}() was given step {shown(step)} of {shown(steps)}.
            next:  give whole numbers: a step of 0 or more, and 1 step or more.""")
    for rate in rates:
        if not is_finite(rate):
            raise PoplibsError(f"""{name}() was given the rate {shown(rate)}.
                next:  give a number.""")
