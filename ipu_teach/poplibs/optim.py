"""Optimisers: each call appends one update of a parameter, with torch's formulas.

    state = optim.adam(graph, weights, slope, rate, prog)       # in the program of one step
    graph.create_host_read("first", state["first"])             # read the state like any tensor
    graph.create_host_write("rate", rate)                       # change the rate without compiling

PopLibs has no optimisers; frameworks compose them from library calls, as this module does.
`parameter` and its gradient `slope` are FLOAT or HALF, and have the same shape. `rate` is a number,
or a FLOAT tensor of one element, which the host can write between two runs. All values are computed
in FLOAT and rounded once.

A call returns its state, a dict of FLOAT tensors that are initially 0. They have the shape and tile
mapping of the parameter, except "step", which is a single number. If you pass such a dict as
`state`, the call updates its tensors instead of creating new ones. To interrupt training, read the
parameter and the state. To continue, write them back; the result is the same as without
interruption.

`warm_up`, `cosine` and `stairs` compute rates that change with the step, on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, inf, log, pi

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
from ipu_teach.poplibs.popops.expr import ExprLike
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
Expression = Callable[..., ExprLike]


class _Step:
    """One update of a parameter `w`, built from expressions of tensors.

    `numbers` maps the names of numeric arguments to their values, which the constructor checks.
    `state_names` are the names of the state's tensors. `restored` is the state from an earlier
    call, or None.

    :raises IPUTeachError: if an argument is invalid; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """

    def __init__(
        self,
        graph: Graph,
        w: Tensor,
        slope: Tensor,
        rate: Rate,
        *,
        prog: Program,
        name: str,
        numbers: dict[str, float],
        restored: State | None,
        state_names: tuple[str, ...],
    ) -> None:
        self.graph = graph
        self.w = w
        self.slope = slope
        self.prog = prog
        self.name = name
        self.state: State = {}
        self.restored = {} if restored is None else restored
        self._check_state(state_names)
        check_dtype("parameter", w, FLOAT, HALF)
        check_dtype("slope", slope, FLOAT, HALF)
        check_alike("give a slope for each element of the parameter.", "", parameter=w, slope=slope)
        for argument, number in numbers.items():
            upper_bound = 1.0 if argument in ("momentum", "beta1", "beta2") else inf
            if not 0 <= check_number(argument, number, FLOAT) < upper_bound:
                bound_text = "of 0 or more" if upper_bound > 1 else "from 0 to below 1"
                raise as_given(number, argument, f"give a number {bound_text}.")
        self.rate = check_factor(graph, "rate", rate, FLOAT)
        check_finite("rate", self.rate)

    def _check_state(self, state_names: tuple[str, ...]) -> None:
        """Raise `PoplibsError` unless the restored state is empty or has the names `state_names`.

        Each value of the restored state must be a tensor of the graph.
        """
        name_list = ", ".join(map(repr, state_names))
        if not isinstance(self.restored, dict):
            raise as_given(self.restored, "state", "give the dict that an earlier call returned.")
        for name in self.restored:
            if name not in state_names:
                raise refused(
                    f"was given a state with the unknown entry {shown(name)}.",
                    next_step=f"{did_you_mean(name, state_names)}Give only {name_list}.",
                )
        if self.restored and (
            missing_names := [name for name in state_names if name not in self.restored]
        ):
            raise refused(
                f"was given a state without {missing_names[0]!r}.",
                next_step=f"give all tensors that an earlier call returned: {name_list}.",
            )
        for name, tensor in self.restored.items():
            check_tensor(self.graph, name, tensor)

    def keep(self, name: str) -> Tensor:
        """Return the tensor `name` of the restored state, or else a new tensor of zeros.

        "step" is a single number; every other tensor has the shape of the parameter.
        """
        if name in self.restored:
            tensor = self.state[name] = self.restored[name]
            shape = () if name == "step" else self.w.shape
            context = f"{name} {tensor!r}"
            check_dtype(name, tensor, FLOAT)
            check_same(
                "shapes",
                tensor.shape,
                shape,
                context,
                advice="give the state that an earlier call returned.",
            )
            return tensor
        if name == "step":
            tensor = self.graph.add_variable(FLOAT, (), f"{self.name}/{name}")
            self.graph.set_tile_mapping(tensor, 0)
        else:
            tensor = like(self.graph, self.w, f"{self.name}/{name}", FLOAT)
        self.graph.set_initial_value(tensor, 0)
        self.state[name] = tensor
        return tensor

    def set(self, target: Tensor, expression: Expression, *others: Rate) -> None:
        """Append a program that sets `target` to `expression(target, *others)`.

        `expression` is a function of tensors and numbers.
        """
        result, tensors = in_float(expression, target, *others, out=target.dtype)
        assert isinstance(result, expr.Expr)
        map_in_place(self.graph, result, tensors, self.prog, debug_context=self.name)

    def scalar(self, expression: Expression, *operands: Rate) -> Rate:
        """Return `expression(*operands)`: a tensor if an operand is a tensor, otherwise a float."""
        result, tensors = in_float(expression, *operands)
        if not isinstance(result, expr.Expr):
            return float(result)
        return mapped(self.graph, result, tensors, self.prog, debug_context=f"{self.name}/scalar")


def _decayed(decay: float) -> Callable[[ExprLike, ExprLike], ExprLike]:
    """Return a function of gradient g and parameter w that returns g + `decay` * w.

    The term `decay` * w is the gradient of `decay` / 2 times the squared parameter.
    """
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
    """Append a step of stochastic gradient descent: v = momentum v + g, then w = w - rate v.

    Here w is `parameter`, and g is `slope` plus `weight_decay` times w. This is torch.optim.SGD
    without dampening. With `scaled_velocity`, the step is v = momentum v + rate g, then w = w - v,
    as in Keras; apart from rounding, the results differ only if the rate changes. The returned
    state contains "velocity" (v), and is empty without momentum.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is invalid, or if `state` does
        not fit.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    numbers = {"momentum": momentum, "weight_decay": weight_decay}
    step = _Step(
        graph,
        parameter,
        slope,
        rate,
        prog=prog,
        name=debug_context,
        numbers=numbers,
        restored=state,
        state_names=("velocity",),
    )
    decayed_gradient = _decayed(weight_decay)
    if not momentum:
        step.set(
            parameter,
            lambda w, gradient, rate: w - rate * decayed_gradient(gradient, w),
            slope,
            step.rate,
        )
        return step.state
    velocity = step.keep("velocity")
    if scaled_velocity:

        def scaled(velocity: ExprLike, gradient: ExprLike, w: ExprLike, rate: ExprLike) -> ExprLike:
            return velocity * momentum + rate * decayed_gradient(gradient, w)

        step.set(velocity, scaled, slope, parameter, step.rate)
        step.set(parameter, lambda w, velocity: w - velocity, velocity)
        return step.state
    step.set(
        velocity,
        lambda velocity, gradient, w: velocity * momentum + decayed_gradient(gradient, w),
        slope,
        parameter,
    )
    step.set(parameter, lambda w, velocity, rate: w - rate * velocity, velocity, step.rate)
    return step.state


def _correction(beta: float, n: ExprLike) -> ExprLike:
    """Return 1 - beta^n for a step number n, without loss of precision if beta^n is near 1."""
    return -expr.Expm1(n * log(beta)) if beta else 1.0


def _root_of_correction(beta: float, n: ExprLike) -> ExprLike:
    return expr.Sqrt(_correction(beta, n)) if beta else 1.0


def _update_means(
    step: _Step,
    mean: Tensor,
    mean_square: Tensor,
    decayed_gradient: Callable[[ExprLike, ExprLike], ExprLike],
    beta1: float,
    beta2: float,
    *,
    scaled_square: bool,
) -> None:
    """Append the updates of Adam's running means: of the gradient and of the squared gradient.

    `decayed_gradient(gradient, parameter)` returns the gradient plus weight decay, and the means
    are computed from this sum. `beta1` and `beta2` are the decay rates of the two means. If
    `scaled_square` is true, the square is computed as ((1 - beta2) g) g, and otherwise as (1 -
    beta2) (g g).
    """

    def square(gradient: ExprLike) -> ExprLike:
        # The square of a gradient of 1e20 is infinite in FLOAT. With `scaled_square`, one factor
        # is multiplied by 1 - beta2 first, and the product is finite.
        return (
            (1 - beta2) * gradient * gradient
            if scaled_square
            else (1 - beta2) * (gradient * gradient)
        )

    step.set(
        mean,
        lambda mean_value, gradient, w: (
            mean_value + (1 - beta1) * (decayed_gradient(gradient, w) - mean_value)
        ),
        step.slope,
        step.w,
    )
    step.set(
        mean_square,
        lambda square_value, gradient, w: (
            square_value * beta2 + square(decayed_gradient(gradient, w))
        ),
        step.slope,
        step.w,
    )


def _moved_by_adam(eps: float, eps_hat: bool) -> Expression:
    """Return a function that computes the parameter after a step of Adam.

    The function's arguments are, in order:

    * the parameter;
    * the running mean of the gradient, and the running mean of the squared gradient;
    * the step length;
    * the square root of the factor that corrects the second mean;
    * the factor by which decoupled weight decay multiplies the parameter.

    The function divides by the sum of `eps` and the root of the second mean. If `eps_hat` is true,
    `eps` is added before the root is corrected, and otherwise after that.
    """

    def moved(
        w: ExprLike,
        mean_value: ExprLike,
        square_value: ExprLike,
        step_length: ExprLike,
        root_of_correction: ExprLike,
        weight_factor: ExprLike,
    ) -> ExprLike:
        divisor = (
            (expr.Sqrt(square_value) + eps) / root_of_correction
            if eps_hat
            else expr.Sqrt(square_value) / root_of_correction + eps
        )
        return w * weight_factor - step_length * mean_value / divisor

    return moved


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
    step = _Step(
        graph,
        parameter,
        slope,
        rate,
        prog=prog,
        name=debug_context,
        numbers=numbers,
        restored=state,
        state_names=state_names,
    )
    is_decoupled = decays_by is not None
    decayed_gradient = _decayed(0.0 if is_decoupled else decay)
    mean, mean_square, step_count = map(step.keep, state_names)
    step.set(step_count, lambda num_steps: num_steps + 1.0)
    _update_means(
        step, mean, mean_square, decayed_gradient, beta1, beta2, scaled_square=scaled_square
    )
    step_length = step.scalar(
        lambda rate, num_steps: rate / _correction(beta1, num_steps), step.rate, step_count
    )
    root_of_correction = step.scalar(
        lambda num_steps: _root_of_correction(beta2, num_steps), step_count
    )
    weight_factor = step.scalar(lambda rate: 1 - rate * decay, step.rate) if is_decoupled else 1.0

    moved = _moved_by_adam(eps, eps_hat)
    step.set(parameter, moved, mean, mean_square, step_length, root_of_correction, weight_factor)
    return step.state


@variant(_adam, None)
def adam() -> None:
    """Append a step of Adam, with running means of the gradient and of the squared gradient.

    Both means are corrected, because they start at 0. The returned state contains the two means,
    "first" and "second", and the number of steps, "step", a FLOAT. As in torch.optim.Adam,
    `weight_decay` (default 0) times the parameter is added to the gradient. With `eps_hat`, `eps`
    is added to the root of the second mean before the correction, as in Keras. With
    `scaled_square`, the square of the gradient g is computed as ((1 - beta2) g) g, as in torch,
    instead of (1 - beta2) (g g).

    :raises IPUTeachError: (usually a PoplibsError) if an argument is invalid, or if `state` does
        not fit.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """


@variant(_adam, 0.01)
def adamw() -> None:
    """Append a step of Adam with weight decay that does not depend on the gradient.

    The parameter is multiplied by 1 - rate * `weight_decay` (default 0.01) before the step, as in
    torch.optim.AdamW. The step, the state and the other parameters are those of `adam`.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is invalid, or if `state` does
        not fit.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """


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
    """Append a step of LARS (arXiv:1708.03888): v = momentum v + rate r (g + decay w), w = w - v.

    Here w is `parameter`, g is `slope` and decay is `weight_decay`. The trust ratio r is `trust`
    |w| / (|g| + decay |w| + `eps`), or 1 if |w| or |g| is 0. The norm |w| is the root of the sum of
    squares over all elements, so a parameter should be one layer. The returned state contains
    "velocity" (v). torch has no such optimiser.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is invalid, or if `state` does
        not fit.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    decay = weight_decay
    numbers = {"momentum": momentum, "weight_decay": decay, "trust": trust, "eps": eps}
    step = _Step(
        graph,
        parameter,
        slope,
        rate,
        prog=prog,
        name=debug_context,
        numbers=numbers,
        restored=state,
        state_names=("velocity",),
    )
    reductions = [
        SingleReduceOp(tensor.flatten(), [0], "SQUARE_ADD", FLOAT) for tensor in (parameter, slope)
    ]
    norms = reduce_many(graph, reductions, prog, f"{debug_context}/norms")

    def ratio(rate: ExprLike, w: ExprLike, gradient_norm: ExprLike) -> ExprLike:
        w, gradient_norm = expr.Sqrt(w), expr.Sqrt(gradient_norm)
        trust_ratio = trust * w / (gradient_norm + decay * w + eps)
        return rate * expr.Select(trust_ratio, 1.0, expr.And(w > 0.0, gradient_norm > 0.0))

    step_length = step.scalar(ratio, step.rate, *norms)
    decayed = _decayed(decay)
    velocity = step.keep("velocity")

    def moved(
        velocity: ExprLike, gradient: ExprLike, w: ExprLike, step_length: ExprLike
    ) -> ExprLike:
        return velocity * momentum + step_length * decayed(gradient, w)

    step.set(velocity, moved, slope, parameter, step_length)
    step.set(parameter, lambda w, velocity: w - velocity, velocity)
    return step.state


def warm_up(step: int, steps: int, rate: float) -> float:
    """Return the learning rate of step number `step` (from 0), which rises linearly to `rate`.

    It reaches `rate` after `steps` equal increments and stays there.

    :raises PoplibsError: if a step is not a whole number in its range, or the rate is not finite.
    """
    _check_steps("warm_up", step, steps, rate)
    return rate * min(1.0, (step + 1) / steps)


def cosine(step: int, steps: int, rate: float, last: float = 0.0) -> float:
    """Return the learning rate of step number `step` (from 0), which falls from `rate` to `last`.

    It follows half a cosine wave, reaches `last` at step `steps`, and stays there.

    :raises PoplibsError: if a step is not a whole number in its range, or a rate is not finite.
    """
    _check_steps("cosine", step, steps, rate, last)
    return last + (rate - last) * (1 + cos(pi * min(step, steps) / steps)) / 2


def stairs(step: int, steps: int, rate: float, factor: float = 0.1) -> float:
    """Return the learning rate of step number `step` (from 0), which decays in stairs.

    The first `steps` steps have the rate `rate`. After every `steps` steps, the rate is multiplied
    by `factor`.

    :raises PoplibsError: if a step is not a whole number in its range, or a number is not finite.
    """
    _check_steps("stairs", step, steps, rate, factor)
    return float(rate * factor ** (step // steps))


def _check_steps(name: str, step: int, steps: int, *rates: float) -> None:
    if not (is_whole(step) and step >= 0 and is_whole(steps) and steps >= 1):
        raise PoplibsError(f"""{name}() was given step={shown(step)} and steps={shown(steps)}.
            next:  give whole numbers: 0 or more as step, and 1 or more as steps.""")
    for rate in rates:
        if not is_finite(rate):
            raise PoplibsError(f"""{name}() was given {shown(rate)} as a rate or factor.
                next:  give a finite number.""")
