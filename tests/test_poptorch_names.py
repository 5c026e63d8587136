"""The names of PopTorch around a model: executors, loaders, loops, branches, stages and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from ipu_teach import IPUModel, poptorch  # noqa: E402
from ipu_teach.errors import InvalidOptionError, IPUTeachError, ModelError  # noqa: E402

F = nn.functional
X, Y = torch.arange(24.0).reshape(6, 4) / 24, torch.tensor([0, 2, 1, 1, 0, 2])


def options() -> Any:
    return poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=4))


class Net(nn.Module):  # type: ignore[misc]
    scale = 1.0

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Any, y: Any = None) -> Any:
        scores = self.layer(self.drop(x)) * self.scale
        return scores if y is None else F.cross_entropy(scores, y)


class Call(nn.Module):  # type: ignore[misc]
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors)


def message(call: Callable[[], Any], kind: type[Exception] = IPUTeachError) -> str:
    with pytest.raises(kind) as refused:
        call()
    return " ".join(str(refused.value).split())


# --- executors ------------------------------------------------------------------------------------


def test_an_executor_has_the_attributes_of_its_module() -> None:
    module, reference = Net().eval(), Net().eval()
    optimizer = torch.optim.SGD(module.parameters(), 0.5)
    training = poptorch.trainingModel(module, options(), optimizer)
    training(X, Y)
    F.cross_entropy(reference.layer(X), Y).backward()
    torch.optim.SGD(reference.parameters(), 0.5).step()
    for (name, parameter), expected in zip(
        training.named_parameters(), reference.parameters(), strict=True
    ):
        assert parameter is dict(module.named_parameters())[name]
        torch.testing.assert_close(parameter, expected)
    assert [*training.parameters()][0] is training.layer.weight is module.layer.weight
    assert torch.equal(training.state_dict()["layer.weight"], module.layer.weight)
    with pytest.raises(AttributeError, match="PoplarExecutor has no attribute 'layr'"):
        _ = training.layr


def test_loaded_weights_are_used_by_the_next_call() -> None:
    inference = poptorch.inferenceModel(Net(), options())
    inference(X)
    state = {name: torch.ones_like(v) for name, v in inference.state_dict().items()}
    assert inference.load_state_dict(state).missing_keys == []
    torch.testing.assert_close(inference(X), X.sum(1, keepdim=True).expand(6, 3) + 1)
    inference.scale = 2.0  # the module's attribute, not the executor's
    assert inference.module.scale == 2.0
    torch.testing.assert_close(inference(X), 2 * (X.sum(1, keepdim=True).expand(6, 3) + 1))


def test_train_and_eval_set_the_mode_of_the_module() -> None:
    module = Net()
    training = poptorch.trainingModel(module, options(), torch.optim.SGD(module.parameters(), 0.0))
    assert training.eval() is training and not module.training
    torch.testing.assert_close(training(X, Y), F.cross_entropy(module.layer(X), Y).detach())
    assert training.train() is training and module.training and module.drop.training
    assert abs(training(X, Y) - F.cross_entropy(module.layer(X), Y)) > 1e-4  # dropout again
    training.detachFromDevice()
    inference = poptorch.inferenceModel(module, options())
    text = message(inference.train, ModelError)
    assert "train() was called on the inferenceModel of Net, which runs its module in eval" in text
    assert "next: use poptorch.trainingModel(module, options, optimizer)" in text
    assert not inference.eval().module.training


def test_an_exported_program_is_accepted_where_a_module_is() -> None:
    module = Net().eval()
    program = torch.export.export(module, (X, Y))
    training = poptorch.trainingModel(program, options())
    expected = F.cross_entropy(module.layer(X), Y)
    gradient = torch.autograd.grad(expected, module.layer.weight)[0]
    weight = (module.layer.weight - 0.01 * gradient).detach()
    torch.testing.assert_close(training(X, Y), expected.detach())
    torch.testing.assert_close(training.state_dict()["layer.weight"], weight)
    torch.testing.assert_close(program.state_dict["layer.weight"].detach(), weight)
    training.detachFromDevice()
    program = torch.export.export(Net().eval(), (X,))
    torch.testing.assert_close(
        poptorch.inferenceModel(program, options())(X), Net().layer(X).detach()
    )


def test_a_cache_of_keys_is_refused_with_the_argument_of_transformers() -> None:
    class DynamicCache:
        def __init__(self, keys: Any) -> None:
            self.keys = keys

    text = message(
        lambda: poptorch.inferenceModel(Call(lambda x: (x + 1, DynamicCache(x))), options())(X)
    )
    assert "Call.forward returns a DynamicCache, which contains the keys and values of its" in text
    assert "next: call the model with use_cache=False" in text
    model = Call(lambda x, use_cache=False: (x + 1, DynamicCache(x)) if use_cache else x + 1)
    torch.testing.assert_close(poptorch.inferenceModel(model, options())(X), X + 1)


# --- loaders --------------------------------------------------------------------------------------


class Broken(torch.utils.data.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 6

    def __getitem__(self, position: int) -> Any:
        if position == 4:
            raise ValueError("no example 4")
        return torch.tensor(float(position))


@pytest.mark.parametrize("mode", poptorch.DataLoaderMode)
def test_a_thread_prepares_the_same_batches_in_each_epoch(mode: Any) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(20.0))

    def epochs(**settings: Any) -> list[Any]:
        torch.manual_seed(5)
        loader = poptorch.DataLoader(
            options().deviceIterations(2), data, batch_size=3, shuffle=True, **settings
        )
        assert loader.combinedBatchSize == 6 and len(loader) == 3
        batches = [batch[0] for _ in range(3) for batch in loader]
        next(iter(loader))  # an iteration that is not finished
        loader.terminate()
        return [*batches, *(batch[0] for batch in loader)]

    plain = epochs()
    assert len(plain) == 12 and len({tuple(b.tolist()) for b in plain}) == 12
    assert all(torch.equal(a, b) for a, b in zip(epochs(mode=mode), plain, strict=True))


def test_an_accessor_has_the_methods_of_poptorch() -> None:
    with poptorch.AsynchronousDataAccessor([1, 2, 3], buffer_size=1, early_preload=True) as data:
        assert len(data) == 3 and list(data) == [1, 2, 3] and list(data) == [1, 2, 3]
        assert next(iter(data)) == 1 and next(data) == 2
        data.terminate()
        assert list(data) == [1, 2, 3] and list(poptorch.AsynchronousDataAccessor([])) == []
    with pytest.raises(StopIteration):
        next(data)
    broken = poptorch.AsynchronousDataAccessor(Broken())
    received = []
    with pytest.raises(ValueError, match="no example 4"):
        received.extend(iter(v.item() for v in broken))
    text = message(lambda: poptorch.AsynchronousDataAccessor([1], buffer_size=0))
    assert "was given the buffer_size 0. next: give a whole number of 1 or more" in text
    data = torch.utils.data.TensorDataset(X)
    settings = {"mode": poptorch.DataLoaderMode.Async, "async_options": {"buffer_sise": 2}}
    text = message(lambda: poptorch.DataLoader(options(), data, **settings))
    assert "async_options with 'buffer_sise'. next: did you mean 'buffer_size'?" in text


# --- functions ------------------------------------------------------------------------------------


def test_a_loop_is_repeated_and_has_gradients() -> None:
    class Loop(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 0.0]))

        def forward(self, x: Any) -> Any:
            body = lambda h, n: [torch.tanh(h * self.weight + x), n + 1]  # noqa: E731
            h, n = poptorch.for_loop(3, body, [x, torch.zeros((), dtype=torch.int32)])
            return n, h.sum()

    module, reference = Loop(), Loop()
    n, expected = reference(X)
    expected.backward()
    training = poptorch.trainingModel(module, options(), torch.optim.SGD(module.parameters(), 1.0))
    steps, loss = training(X)
    assert steps == n == 3
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(module.weight, (reference.weight - reference.weight.grad).detach())
    assert torch.equal(poptorch.for_loop(0, lambda x: x + 1, [X])[0], X)
    text = message(lambda: poptorch.for_loop(2, lambda x: x[:2], [X]), ModelError)
    assert "given [6, 4] float32, but returned [2, 4] float32" in text
    assert "next: return as many tensors as the body is given" in text


@pytest.mark.parametrize("number", [-1.0, 1.0])
def test_cond_returns_the_tensors_of_one_body(number: float) -> None:
    def forward(c: Any, x: Any) -> Any:
        return poptorch.cond(
            c > 0, lambda a: [a * 2, a - 1], [x], lambda a, b: (a + b, b), [x, x + 3]
        )

    tensors = torch.tensor(number), X
    results = poptorch.inferenceModel(Call(forward), options())(*tensors)
    expected = [X * 2, X - 1] if number > 0 else [X + X + 3, X + 3]
    for result, plain, known in zip(results, forward(*tensors), expected, strict=True):
        torch.testing.assert_close(result, known)
        torch.testing.assert_close(plain, known)


class OctaveConv(nn.Module):  # type: ignore[misc]
    """The octave convolution of the examples of PopTorch, with two frequencies."""

    def __init__(self, is_together: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.is_together = is_together
        self.high, self.low = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.high_low, self.low_high = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)

    def convolutions(self, high: Any, low: Any) -> tuple[Any, Any]:
        below = self.high_low(F.avg_pool2d(high, 2))
        above = F.interpolate(self.low_high(low), scale_factor=2, mode="nearest")
        return self.high(high) + above, self.low(low) + below

    def forward(self, high: Any, low: Any) -> Any:
        if not self.is_together:
            high, low = self.convolutions(high, low)
        else:
            with poptorch.MultiConv().planType("parallel").cycleBackOff(0.1) as multi:
                assert multi.availableMemoryProportions([0.6] * 4).perConvReservedTiles(4) is multi
                assert multi.enableConvDithering(True) is multi
                high, low = self.convolutions(high, low)
        return high.square().mean() + low.square().mean()


def test_convolutions_of_a_multi_conv_have_the_values_of_torch() -> None:
    tensors = torch.randn(1, 4, 8, 8), torch.randn(1, 4, 4, 4)
    module, reference = OctaveConv(True), OctaveConv(False)
    training = poptorch.trainingModel(module, options(), torch.optim.SGD(module.parameters(), 0.1))
    loss = reference(*tensors)
    loss.backward()
    torch.optim.SGD(reference.parameters(), 0.1).step()
    torch.testing.assert_close(training(*tensors), loss.detach())
    for parameter, expected in zip(module.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected, rtol=1e-4, atol=1e-6)
    text = message(lambda: poptorch.MultiConv().partialsTypes(torch.half), InvalidOptionError)
    assert "next: call options.Precision.setPartialsType(torch.half)" in text


# --- stages ---------------------------------------------------------------------------------------


class Staged(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Any, y: Any) -> Any:
        with poptorch.Block("front"):
            h = torch.relu(self.first(x))
        with poptorch.Block("back"):
            return F.cross_entropy(self.second(h), y)


@pytest.mark.parametrize(
    "strategy",
    [
        poptorch.PipelinedExecution("front", "back"),
        poptorch.PipelinedExecution(poptorch.Stage("front").ipu(0), poptorch.Stage("back").ipu(1)),
    ],
)
def test_stages_place_blocks_by_name(strategy: Any) -> None:
    chosen = options().setExecutionStrategy(strategy)
    chosen.Training.gradientAccumulation(6)
    module, reference = Staged(), Staged()
    training = poptorch.trainingModel(module, chosen, torch.optim.SGD(module.parameters(), 0.5))
    training(X, Y)
    assert training.run.ir.stages == 2
    F.cross_entropy(reference.second(torch.relu(reference.first(X))), Y).backward()
    torch.optim.SGD(reference.parameters(), 0.5).step()
    for parameter, expected in zip(module.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected)


def test_stages_that_do_not_fit_are_refused() -> None:
    strategy = poptorch.PipelinedExecution("front", "rear")
    chosen = options().setExecutionStrategy(strategy).deviceIterations(2)
    text = message(lambda: poptorch.inferenceModel(Staged(), chosen)(X, Y), ModelError)
    assert "The block 'back' is in no stage of the execution strategy, whose stages" in text
    assert "contain 'front', 'rear'." in text and "poptorch.Stage('name of the block')" in text
    text = message(
        lambda: poptorch.PipelinedExecution(poptorch.Stage("a").ipu(1), "b"), InvalidOptionError
    )
    assert "stage 0 with ipu(1), but stage 0 runs on IPU 0" in text and "leave ipu() out" in text
    text = message(lambda: poptorch.PipelinedExecution("x"), InvalidOptionError)
    assert "was given the schedule 'x'" in text and "or pass two or more stages" in text


# --- options and names ----------------------------------------------------------------------------


def test_options_without_an_effect_on_results() -> None:
    chosen = options().enableExecutableCaching("cache").logDir("logs").useIpuId(1)
    chosen.modelName("digits").showCompilationProgressBar(False).enableSyntheticData(False)
    chosen.anchorMode(poptorch.AnchorMode.Final)
    module = Net()
    inference = poptorch.inferenceModel(module, chosen.deviceIterations(2))
    torch.testing.assert_close(inference(X), module.layer(X[3:]).detach())  # Final
    text = message(lambda: options().enableSyntheticData(True), InvalidOptionError)
    assert "enableSyntheticData(True) asks for inputs that are not copied" in text
    assert "next: leave enableSyntheticData out, and pass torch.ones(...)" in text
    cycles = []
    for batch in (X, torch.ones(6, 4)):
        executor = poptorch.inferenceModel(Net(), options())
        executor(batch)
        cycles.append(executor.cycleCount())
    assert cycles[0] == cycles[1]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: poptorch.trainingModle, "did you mean 'trainingModel'?"),
        (lambda: poptorch.ParallelPhasedExecution, "use instead: poptorch.PipelinedExecution("),
        (lambda: poptorch.Phase, "use instead: poptorch.PipelinedExecution("),
        (lambda: poptorch.AutoStage, "use instead: poptorch.Stage or the argument ipu_id"),
        (lambda: options().deviceIteration, "did you mean 'deviceIterations'?"),
        (lambda: options().Training.gradientAcumulation, "did you mean 'gradientAccumulation'?"),
        (lambda: options().Distributed, "use instead: replicationFactor(n)"),
        (lambda: poptorch.inferenceModel(Net()).getLatency, "use instead: cycleCount()"),
        (lambda: poptorch.inferenceModel(Net()).rng_stat, "did you mean 'rng_state'?"),
    ],
)  # fmt: skip
def test_an_unknown_name_has_the_nearest_one_and_the_page(call: Any, text: str) -> None:
    error = message(call, AttributeError)
    assert text in error
    assert error.endswith("See docs/frameworks.md, section PopTorch's names.")
