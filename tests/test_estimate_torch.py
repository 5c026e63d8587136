"""`poptorch.estimate` compared with the cycles of the executor's own program."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: the extra `torch` adds it")
from torch import nn  # noqa: E402

from ipu_teach import IPUModel, poptorch  # noqa: E402
from ipu_teach.errors import ModelError  # noqa: E402


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 128)
        self.last = nn.Linear(128, 10)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x: Any, y: Any = None) -> Any:
        out = self.last(torch.relu(self.first(x)))
        return out if y is None else (out, self.loss(out, y))


def options(**settings: int) -> poptorch.Options:
    chosen = poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=32))
    chosen.replicationFactor(settings.get("replicas", 1))
    chosen.Training.gradientAccumulation(settings.get("accumulation", 1))
    return chosen


@pytest.mark.parametrize("training", [True, False])
def test_the_estimate_of_a_module_is_near_the_cycles_of_its_program(training: bool) -> None:
    model, chosen = Net(), options(accumulation=2)
    batch = (torch.randn(64, 64), torch.zeros(64, dtype=torch.long))[: 1 + training]
    if training:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        estimate = poptorch.estimate(model, chosen, *batch, optimizer=optimizer)
        executor = poptorch.trainingModel(model, chosen, optimizer)
    else:
        estimate = poptorch.estimate(model, chosen, *batch, training=False)
        executor = poptorch.inferenceModel(model, chosen)
    executor(*batch)
    assert estimate.cycles == pytest.approx(executor.cycleCount(), rel=0.15)
    assert {"first", "last"} <= estimate.layers().keys()
    assert estimate.samples_per_step == 64


def test_an_executor_estimates_without_compiling() -> None:
    executor = poptorch.trainingModel(Net(), options(replicas=2))
    batch = torch.randn(8, 64), torch.zeros(8, dtype=torch.long)
    estimate = executor.estimate(*batch, byte_inputs=True)
    assert not executor.isCompiled() and executor.compiles == 0
    assert estimate.num_ipus == 2 and estimate.samples == 4 and estimate.all_reduce > 0


def test_a_batch_that_does_not_divide_is_refused() -> None:
    batch = torch.randn(9, 64), torch.zeros(9, dtype=torch.long)
    with pytest.raises(ModelError) as caught:
        poptorch.estimate(Net(), options(replicas=2), *batch)
    assert str(caught.value).splitlines()[0] == (
        "The argument 'x' of the trainingModel of Net has the shape [9, 64], but its first "
        "dimension must be a multiple of batch_size 1 * deviceIterations 1 * replicationFactor 2 * "
        "gradientAccumulation 1 = 2."
    )
