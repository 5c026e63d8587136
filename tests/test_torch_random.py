"""Random numbers of torch's operations: their distributions, seeds, gradients and recomputation.

torch draws other numbers than the device. So torch is fed the numbers that the device drew, and then
values and gradients are compared; the distributions of the numbers have tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
stats = pytest.importorskip("scipy.stats")

from torch import distributions, nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from ipu_teach import IPUModel, poptorch  # noqa: E402
from ipu_teach.errors import ModelError  # noqa: E402

F = nn.functional
ROWS, COLUMNS = 24, 12
NUMBERS = torch.linspace(-2, 2, ROWS * COLUMNS).reshape(ROWS, COLUMNS) + 0.01
Draw = Callable[[Any], Any]


def options(seed: int = 42) -> Any:
    return poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=4)).randomSeed(seed)


def weights(y: Any) -> Any:
    """Return the weights of `y` in the loss. They are large, so that a step rounds few digits off."""
    return torch.arange(y.numel(), dtype=y.dtype).reshape(y.shape) + 32


class Drawing(nn.Module):  # type: ignore[misc]
    """A module with a parameter `w` that returns `function(x * w)`, and a weighted sum as its loss."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function
        self.w = nn.Parameter(torch.linspace(0.5, 1.5, COLUMNS))

    def forward(self, x: Any) -> Any:
        results = self.function(x * self.w)
        *drawn, y = results if isinstance(results, tuple) else (results,)
        return (*drawn, y, (y * weights(y)).sum())


def trained(function: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """Return the results of a training step on the device, and the gradient of `w`."""
    module = Drawing(function)
    before = module.w.detach().clone()
    optimizer = torch.optim.SGD(module.parameters(), 1.0)
    training = poptorch.trainingModel(module, options(), optimizer)
    results = training(NUMBERS)
    training.detachFromDevice()
    return results, before - module.w.detach()


def in_torch(function: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """Return the results of a module of torch, in float64 where it can be, and the gradient of `w`."""
    module = Drawing(function).double()
    *results, loss = module(NUMBERS.double())
    loss.backward()
    return [*results, loss], module.w.grad


def assert_equal(actual: Any, expected: Any) -> None:
    scale = float(expected.detach().abs().max())
    assert float((actual.double() - expected.detach()).abs().max()) <= 1e-5 * scale


def vae(x: Any, draw: Draw) -> tuple[Any, Any]:
    mean, log_variance = x.chunk(2, 1)
    noise = draw(mean)
    z = mean + noise * torch.exp(0.5 * log_variance)
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1)
    return noise, torch.tanh(z).sum(1) + divergence


def drop_path(x: Any, draw: Draw) -> tuple[Any, Any]:
    kept = draw(x[:, :1])
    return kept, x + kept / 0.8 * torch.sin(x)


def gumbel(x: Any, draw: Draw) -> tuple[Any, Any]:
    exponential = draw(x)
    return exponential, torch.softmax((x - exponential.log()) / 0.7, -1)


def straight_through(x: Any, draw: Draw) -> tuple[Any, Any]:
    bits = draw(torch.sigmoid(x))
    return bits, bits + torch.sigmoid(x) - torch.sigmoid(x).detach()


def chosen_rows(x: Any, draw: Draw) -> tuple[Any, Any]:
    places = draw(x)
    return places, torch.gather(x.exp(), 1, places)


def of_distribution(x: Any, draw: Draw) -> tuple[Any, Any]:
    z = draw(x)
    return z, z.square() + x


def normal_sample(x: Any) -> Any:
    return distributions.Normal(x, F.softplus(x), validate_args=False).rsample()


# A module, and how the device draws its numbers.
FED: dict[str, tuple[Any, Draw]] = {
    "randn_like": (vae, torch.randn_like),
    "randn": (vae, lambda x: torch.randn(x.shape)),
    "normal_": (vae, lambda x: torch.empty(x.shape).normal_(0.5, 2.0)),
    "torch.normal": (vae, lambda x: torch.normal(0.5, torch.full(x.shape, 2.0))),
    "rand": (drop_path, lambda x: torch.floor(torch.rand(x.shape) + 0.8)),
    "bernoulli_": (drop_path, lambda x: x.new_empty(x.shape).bernoulli_(0.8)),
    "rand_like": (gumbel, lambda x: torch.rand_like(x) + 0.1),
    "exponential_": (gumbel, lambda x: torch.empty_like(x).exponential_() + 0.1),
    "uniform_": (gumbel, lambda x: torch.empty_like(x).uniform_(0.1, 3.0)),
    "bernoulli": (straight_through, torch.bernoulli),
    "randint": (chosen_rows, lambda x: torch.randint(0, COLUMNS, (ROWS, 3))),
    "random_": (chosen_rows, lambda x: torch.zeros(ROWS, 3, dtype=torch.long).random_(2, COLUMNS)),
    "randperm": (chosen_rows, lambda x: torch.randperm(COLUMNS).expand(ROWS, COLUMNS)),
    "a detached sample": (of_distribution, lambda x: normal_sample(x).detach()),
}


@pytest.mark.parametrize("name", FED)
@pytest.mark.parametrize("is_computed_again", [False, True])
def test_with_the_numbers_of_the_device_torch_has_the_same_gradients(
    name: str, is_computed_again: bool
) -> None:
    function, draw = FED[name]

    def part(x: Any) -> Any:
        return function(x, draw)

    def again(x: Any) -> Any:
        return checkpoint(part, x, use_reentrant=False)

    (numbers, *results), gradient = trained(again if is_computed_again else part)
    fed = numbers if not numbers.is_floating_point() else numbers.double()
    (_, *expected), reference = in_torch(lambda x: function(x, lambda _: fed))
    for actual, exact in zip(results, expected, strict=True):
        assert_equal(actual, exact)
    assert_equal(gradient, reference)


CHECKPOINTED: dict[str, Callable[[Any], Any]] = {
    "noise": lambda x: x * torch.randn_like(x),
    "two draws": lambda x: x * torch.randn_like(x) * torch.rand_like(x),
    "dropout": lambda x: F.dropout(x, 0.5, training=True) * 3,
    "dropout that writes": lambda x: F.dropout(x * 1, 0.5, training=True, inplace=True),
    "an operation that writes": lambda x: (x * torch.empty_like(x).normal_()).mul_(2),
    "feature dropout": lambda x: F.dropout2d(x[None, :, :, None], 0.5, training=True),
}


@pytest.mark.parametrize("name", CHECKPOINTED)
@pytest.mark.parametrize("is_reentrant", [False, True])
def test_what_a_checkpoint_computes_again_draws_the_same_numbers(
    name: str, is_reentrant: bool
) -> None:
    """The functions multiply x by random numbers, so the gradient is y / w at each place."""

    def again(x: Any) -> Any:
        return checkpoint(CHECKPOINTED[name], x, use_reentrant=is_reentrant)

    (y, _), gradient = trained(again)
    expected = (y * weights(y)).reshape(ROWS, COLUMNS).sum(0) / Drawing(again).w.detach()
    assert_equal(gradient, expected)


def test_a_checkpoint_that_keeps_no_state_draws_other_numbers_as_in_torch() -> None:
    def again(x: Any) -> Any:
        return checkpoint(
            lambda v: v * torch.randn_like(v), x, use_reentrant=False, preserve_rng_state=False
        )

    (y, _), gradient = trained(again)
    assert not torch.allclose(
        gradient, (y * weights(y)).sum(0) / Drawing(again).w.detach(), rtol=0.1
    )


def test_recomputation_on_the_device_draws_the_same_numbers() -> None:
    def again(x: Any) -> Any:
        h = poptorch.recomputationCheckpoint(x * 1)
        return torch.exp(h * torch.rand_like(h))

    (y, _), gradient = trained(again)
    w = Drawing(again).w.detach()
    assert_equal(gradient, (weights(y) * y * y.log()).sum(0).double() / w)  # y = exp(x w u)


def test_dropout_of_features_and_with_alpha() -> None:
    def features(x: Any) -> Any:
        return F.dropout2d(x.reshape(ROWS, 3, 2, 2), 0.5, training=True)

    (y, _), _ = trained(features)
    kept = (y.reshape(ROWS, 3, 4) != 0).all(-1)
    assert torch.equal(kept, (y.reshape(ROWS, 3, 4) != 0).any(-1))
    assert 0.3 < float(kept.float().mean()) < 0.7
    p, alpha = 0.3, -1.7580993408473766
    a = ((1 - p) * (1 + p * alpha**2)) ** -0.5
    b = -a * p * alpha
    (y, _), gradient = trained(lambda x: F.alpha_dropout(x, p, training=True))
    x = NUMBERS * Drawing(torch.sin).w.detach()
    kept = (y - (a * alpha + b)).abs() > 1e-5
    torch.testing.assert_close(y, torch.where(kept, a * x + b, a * alpha + b))
    assert_equal(gradient, (a * NUMBERS * kept * weights(y)).double().sum(0))
    assert abs(float(kept.float().mean()) - 0.7) < 0.1


def test_rrelu_has_random_slopes_below_zero() -> None:
    (y, _), gradient = trained(lambda x: F.rrelu(x, 0.2, 0.4, training=True))
    x = NUMBERS * Drawing(torch.sin).w.detach()
    slopes = y / x
    assert torch.equal(slopes[x > 0], torch.ones_like(slopes[x > 0]))
    below = slopes[x <= 0].numpy()
    assert stats.kstest(below, stats.uniform(0.2, 0.2).cdf).pvalue > 1e-3
    assert_equal(gradient, (NUMBERS * slopes * weights(y)).double().sum(0))
    inference = poptorch.inferenceModel(
        Drawing(lambda x: F.rrelu(x, 0.2, 0.4, training=False)), options()
    )
    torch.testing.assert_close(inference(NUMBERS)[0], torch.where(x > 0, x, 0.3 * x))


# --- distributions --------------------------------------------------------------------------------

COUNT = 4096
Normal = distributions.Normal
CONTINUOUS: dict[str, tuple[Draw, Any]] = {
    "randn": (torch.randn_like, stats.norm()),
    "rand": (torch.rand_like, stats.uniform()),
    "normal_": (lambda x: x.clone().normal_(2.0, 0.5), stats.norm(2.0, 0.5)),
    "torch.normal of means": (lambda x: torch.normal(x * 3, 2.0), stats.norm(3.0, 2.0)),
    "torch.normal of deviations": (lambda x: torch.normal(1.0, x * 2), stats.norm(1.0, 2.0)),
    "uniform_": (lambda x: x.clone().uniform_(-1, 3), stats.uniform(-1, 4)),
    "exponential_": (lambda x: x.clone().exponential_(2.0), stats.expon(scale=0.5)),
    "cauchy_": (lambda x: x.clone().cauchy_(1.0, 2.0), stats.cauchy(1.0, 2.0)),
    "log_normal_": (lambda x: x.clone().log_normal_(0.5, 0.25), stats.lognorm(0.25, scale=np.exp(0.5))),
    "randint of a wide range": (
        lambda x: torch.randint(-(2**31), 2**31 - 1, x.shape), stats.uniform(-(2**31), 2**32),
    ),
    "random_ of integers": (
        lambda x: x.int().clone().random_(), stats.uniform(0, 2**31),
    ),
    "random_ of floats": (lambda x: x.clone().random_(), stats.uniform(0, 2**24)),
    "Normal": (lambda x: Normal(x, x * 2, validate_args=False).rsample(), stats.norm(1, 2)),
    "Laplace": (
        lambda x: distributions.Laplace(x, x * 2, validate_args=False).rsample(), stats.laplace(1, 2),
    ),
    "Gumbel": (
        lambda x: distributions.Gumbel(x, x * 2, validate_args=False).rsample(), stats.gumbel_r(1, 2),
    ),
}  # fmt: skip
DISCRETE: dict[str, tuple[Draw, Any]] = {
    "bernoulli": (lambda x: torch.bernoulli(x * 0.3), stats.bernoulli(0.3)),
    "bernoulli_": (lambda x: x.clone().bernoulli_(0.8), stats.bernoulli(0.8)),
    "randint": (lambda x: torch.randint(-2, 4, x.shape), stats.randint(-2, 4)),
    "randint_like": (lambda x: torch.randint_like(x, 3, 7), stats.randint(3, 7)),
    "random_": (lambda x: x.clone().random_(5), stats.randint(0, 5)),
    "random_ of booleans": (lambda x: (x > 2).clone().random_().int(), stats.randint(0, 2)),
    "geometric_": (lambda x: x.clone().geometric_(0.4), stats.geom(0.4)),
    "dropout": (lambda x: F.dropout(x, 0.25, training=True) * 0.75, stats.bernoulli(0.75)),
    "Categorical": (
        lambda x: distributions.Categorical(
            probs=x[:, None] * torch.tensor([0.5, 0.2, 0.3]), validate_args=False
        ).sample(),
        stats.rv_discrete(values=([0, 1, 2], [0.5, 0.2, 0.3])),
    ),
}


class Draws(nn.Module):  # type: ignore[misc]
    def __init__(self, draws: dict[str, Any]) -> None:
        super().__init__()
        self.draws = draws

    def forward(self, x: Any) -> Any:
        return [draw(x) for draw, _ in self.draws.values()]


def test_continuous_distributions_are_those_of_torch() -> None:
    """By the test of Kolmogorov and Smirnov; the seed is fixed, so the test has one result."""
    results = poptorch.inferenceModel(Draws(CONTINUOUS), options())(torch.ones(COUNT))
    for (name, (_, expected)), result in zip(CONTINUOUS.items(), results, strict=True):
        numbers = result.double().numpy()
        assert stats.kstest(numbers, expected.cdf).pvalue > 1e-3, name
        if np.isfinite(expected.var()):
            error = expected.std() / COUNT**0.5
            assert abs(numbers.mean() - expected.mean()) < 4 * error, name
            assert 0.9 < numbers.var() / expected.var() < 1.1, name


def test_discrete_distributions_are_those_of_torch() -> None:
    results = poptorch.inferenceModel(Draws(DISCRETE), options())(torch.ones(COUNT))
    for (name, (_, expected)), result in zip(DISCRETE.items(), results, strict=True):
        values, counts = np.unique(result.numpy(), return_counts=True)
        shares = expected.pmf(values)
        assert (shares > 0).all(), name
        many = shares * COUNT >= 5
        observed = np.append(counts[many], COUNT - counts[many].sum())
        likely = np.append(shares[many], 1 - shares[many].sum()) * COUNT
        has_rest = likely > 1e-6
        assert (observed[~has_rest] == 0).all(), name
        assert (
            stats.chisquare(observed[has_rest], likely[has_rest], sum_check=False).pvalue > 1e-3
        ), name


# --- seeds ----------------------------------------------------------------------------------------


def drawn(seed: int, replicas: int, calls: int = 2) -> list[Any]:
    several = options(seed).replicationFactor(replicas).outputMode(poptorch.OutputMode.All)
    inference = poptorch.inferenceModel(Drawing(torch.rand_like), several)
    return [inference(torch.cat([NUMBERS] * replicas))[0] for _ in range(calls)]


def test_a_seed_gives_the_same_run_and_replicas_draw_other_numbers() -> None:
    first, second = drawn(1, 2)
    again, other = drawn(1, 2), drawn(7, 2)
    assert torch.equal(first, again[0]) and torch.equal(second, again[1])
    blocks = [first[:ROWS], first[ROWS:], second[:ROWS], second[ROWS:], other[0][:ROWS]]
    for i, one in enumerate(blocks):
        assert not any(torch.equal(one, another) for another in blocks[:i])


def test_a_capture_leaves_torchs_own_random_numbers_as_they_are() -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    trained(CHECKPOINTED["two draws"])
    assert torch.equal(torch.rand(3), expected)


# --- refusals -------------------------------------------------------------------------------------

# A module that is refused, what the error says and advises, and the module after this advice.
REFUSED: dict[str, tuple[Draw, str, str, Draw]] = {
    "manual_seed": (
        lambda x: (torch.manual_seed(0), x * torch.randn_like(x))[1],
        "sets the seed of torch's random numbers", r"options.randomSeed\(0\)",
        lambda x: x * torch.randn_like(x),
    ),
    "generator": (
        lambda x: x * torch.randn(x.shape, generator=torch.Generator()),
        "it was given a generator", "leave generator out",
        lambda x: x * torch.randn(x.shape),
    ),
    "distribution": (
        lambda x: distributions.Normal(x, 1.0).rsample(),
        "torch checks the arguments of Normal", r"Normal\(…, validate_args=False\)",
        lambda x: distributions.Normal(x, 1.0, validate_args=False).rsample(),
    ),
    "poisson": (
        lambda x: torch.poisson(x.abs()).detach() * x,
        "torch draws numbers until it accepts one", "pass them to the module as an input",
        lambda x: x * x,
    ),
    "range": (
        lambda x: x * torch.randint(0, 2**40, x.shape), "integers of more than 32 bits",
        r"choose integers from -2\*\*31 to 2\*\*31 - 1",
        lambda x: x * torch.randint(0, 2**31, x.shape),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_draw_is_refused_with_a_next_step_that_works(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # torch.compile, which another test may have used, turns these checks off in the whole process.
    monkeypatch.setattr(distributions.Distribution, "_validate_args", True)
    function, problem, advice, advised = REFUSED[name]
    with pytest.raises(ModelError, match=problem) as error:
        trained(function)
    assert error.match(f"next: .*{advice}") and error.match("line: .*test_torch_random.py")
    trained(advised)
