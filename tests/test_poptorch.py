"""Modules of torch on the modelled IPU, beside plain torch."""

from __future__ import annotations

import copy
import io
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz import operations

from ipu_teach import IPUModel, datasets, show
from ipu_teach.errors import InvalidOptionError, ModelError, PoplarError, UnknownOperationError
from ipu_teach.frontends import ir
from ipu_teach.poplibs import popops

torch = pytest.importorskip("torch", reason="torch is not installed: the extra `torch` adds it")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from ipu_teach import poptorch  # noqa: E402
from ipu_teach.frontends.poptorch import _selected  # noqa: E402
from ipu_teach.frontends.pytorch import markers  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*isinstance.treespec:FutureWarning")
Make = Callable[[], Any]
CLASSES = torch.tensor([2, 0, 1, 1])


def options(tiles: int = 5) -> Any:
    return poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=tiles))


def drawn(seed: int = 3) -> Any:
    return torch.Generator().manual_seed(seed)


def classified(o: Any, y: Any) -> Any:
    return o if y is None else (o, F.cross_entropy(o, y))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 9), nn.Linear(9, 4)

    def forward(self, x: Any, y: Any = None) -> Any:
        return classified(self.second(torch.relu(self.first(torch.flatten(x, 1)))), y)


class Cnn(nn.Module):
    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.c1, self.bn = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.c2, self.gn = nn.Conv2d(4, 4, 3, padding=1), nn.GroupNorm(2, 4)
        self.act, self.drop, self.fc = nn.ReLU(inplace=True), nn.Dropout(p), nn.Linear(4, 4)

    def forward(self, x: Any, y: Any = None) -> Any:
        x = F.max_pool2d(self.act(self.bn(self.c1(x))), 2)
        x = F.adaptive_avg_pool2d(F.gelu(self.gn(self.c2(x))), 1)
        return classified(self.fc(self.drop(x.flatten(1))), y)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(8, 8), nn.Linear(8, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)

    def forward(self, x: Any, y: Any = None) -> Any:
        o = self.out(self.layer(self.words(x)))
        return o if y is None else (o, F.cross_entropy(o.view(-1, 8), y.view(-1)))


class Graphs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 6), nn.Linear(6, 4)

    def forward(self, x: Any, source: Any, target: Any, y: Any = None) -> Any:
        for layer in (self.first, self.second):
            h = layer(x)
            x = torch.relu(torch.zeros_like(h).index_add(0, target, h[source]) + h)
        o = F.log_softmax(x, dim=1)
        return o if y is None else (o, F.nll_loss(o, y))


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 4)

    def forward(self, x: Any, y: Any = None) -> Any:
        return classified(self.out(self.lstm(x)[0][:, -1]), y)


class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(3, 4, 2, bidirectional=True), nn.Linear(8, 4)

    def forward(self, x: Any, y: Any = None) -> Any:
        with torch.autocast("cuda", enabled=False):  # as libraries have it around what needs floats
            h = self.gru(x.transpose(0, 1))[0]
        return classified(self.out(h[-1]), y)


def floats(*shape: int) -> Callable[[Any], Any]:
    return lambda g: torch.randn(*shape, generator=g)


def numbers(below: int, *shape: int) -> Callable[[Any], Any]:
    return lambda g: torch.randint(0, below, shape, generator=g)


MODELS: dict[str, tuple[Make, tuple[Callable[[Any], Any], ...]]] = {
    "mlp": (Mlp, (floats(6, 3, 4), numbers(4, 6))),
    "cnn": (Cnn, (floats(4, 1, 6, 6), numbers(4, 4))),
    "transformer": (Transformer, (numbers(8, 2, 4), numbers(8, 2, 4))),
    "graph": (Graphs, (floats(7, 5), numbers(7, 15), numbers(7, 15), numbers(4, 7))),
    "lstm": (Lstm, (floats(3, 3, 3), numbers(4, 3))),
    "gru": (Gru, (floats(3, 3, 3), numbers(4, 3))),
}


def batches(name: str, count: int) -> list[tuple[Any, ...]]:
    g = drawn()
    return [tuple(draw(g) for draw in MODELS[name][1]) for _ in range(count)]


def step(module: Any, optimizer: Any, *parts: tuple[Any, ...]) -> float:
    """A step of plain torch, by the mean of the parts' losses."""
    optimizer.zero_grad()
    losses = [module(*part)[-1] for part in parts]
    (sum(losses) / len(losses)).backward()
    optimizer.step()
    return float(losses[-1].detach())


def apart(a: Any, b: Any) -> float:
    """How far the numbers of two modules are from each other."""
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return max(float((x.double() - y.double()).abs().max()) for x, y in pairs)


@pytest.mark.parametrize("name", MODELS)
def test_models_train_as_in_torch(name: str) -> None:
    torch.manual_seed(0)
    net = MODELS[name][0]()
    other = copy.deepcopy(net)
    training = poptorch.trainingModel(net, options(), torch.optim.SGD(net.parameters(), 0.1))
    plain = torch.optim.SGD(other.parameters(), 0.1)
    given = batches(name, 20)
    for batch in given:
        theirs = step(other, plain, batch)
        assert float(training(*batch)[-1]) == pytest.approx(theirs, rel=1e-5)
    assert training.compiles == 1
    training.detachFromDevice()
    assert apart(net, other) < 1e-5
    asked = poptorch.inferenceModel(net, options())
    torch.testing.assert_close(asked(*given[0][:-1]), other.eval()(*given[0][:-1]).detach())


@pytest.mark.parametrize("name", ["cnn", "transformer"])
def test_the_report_has_a_row_for_each_module(name: str) -> None:
    net = MODELS[name][0]()
    training = poptorch.trainingModel(net, options(), torch.optim.Adam(net.parameters(), 0.1))
    training(*batches(name, 1)[0])
    report = training.report
    rows = {row.name: row for row in report.by_module()}
    modules = {n for n, m in net.named_modules() if n and not (list(m.children()) or "drop" in n)}
    more = {"cnn": {"Cnn"}, "transformer": {"layer", "layer.self_attn"}}[name]
    # torch's layer takes the weights of out_proj, and its activation is a function
    modules -= {"layer.self_attn.out_proj", "layer.activation"}
    assert set(rows) == modules | more | {"inputs", "loss", "outputs", "update", "no module"}
    # each by what its compute sets are called, and the optimiser's are called
    wanted = dict.fromkeys(rows, 0)
    for done in report.execution.steps:
        path = done.name.split("/")
        if done.kind == "Execute":
            wanted["update" if "adam" in path else path[0]] += done.cycles
    for row in rows.values():
        copies = row.cycles - wanted[row.name]
        assert copies == 0 or row.name in ("inputs", "outputs", "Cnn", "layer.self_attn"), row
    assert sum(row.cycles for row in rows.values()) == report.total_cycles
    received = report.exchange_bytes_per_tile[0].sum()
    assert sum(row.bytes_received for row in rows.values()) == received
    assert sum(row.memory_bytes for row in rows.values()) == report.memory.bytes_per_tile.sum()
    # what is nobody's, by the categories and variables that are
    kinds, variables = report.memory.by_category(), report.memory.at_fullest()
    nobodys = [n for n in variables if n in ("x", "y", "rate", "pad") or n.endswith("(state)")]
    left = kinds["Edge pointers"] + kinds["Stacks"] + kinds["Host packet headers"]
    assert rows["no module"].memory_bytes == left + sum(variables[n] for n in nobodys)
    moments = 8 * sum(p.numel() for p in net.parameters())
    assert rows["update"].memory_bytes - rows["update"].code_bytes >= moments
    boxes = set(show.timeline(report).scene.mark("programs").names)
    assert modules <= boxes


def test_layers_that_are_drawn() -> None:
    """`run.py fuzz --operations` draws more."""
    for seed in (1, 2, 5):
        assert operations.one_stack(seed) == ("stacks", "")


def test_a_program_of_the_listings_on_digits(tmp_path: Any) -> None:
    data = datasets.digits()
    train = torch.utils.data.TensorDataset(
        torch.tensor(data.train_images[:192], dtype=torch.float32).reshape(-1, 28 * 28) / 255,
        torch.tensor(data.train_labels[:192].astype(np.int64)),
    )
    test = torch.utils.data.TensorDataset(*train[128:])

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.out = nn.Linear(28 * 28, 32), nn.Linear(32, 10)
            self.loss = nn.NLLLoss()

        def forward(self, x: Any, labels: Any = None) -> Any:
            o = torch.log_softmax(self.out(torch.relu(self.hidden(x))), dim=1)
            return (o, self.loss(o, labels)) if self.training else o

    torch.manual_seed(1)
    model = Classifier()
    model.train()
    opts = options(13).deviceIterations(2)
    loader = poptorch.DataLoader(opts, train, batch_size=32, shuffle=True, num_workers=0)
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.01)
    poptorch_model = poptorch.trainingModel(model, options=opts, optimizer=optimizer)
    losses = [float(poptorch_model(x, y)[1]) for _ in range(3) for x, y in loader]
    assert len(losses) == 9 and losses[-1] < losses[0]
    poptorch_model.detachFromDevice()
    torch.save(model.state_dict(), tmp_path / "classifier.pth")

    plain = Classifier().eval()
    plain.load_state_dict(torch.load(tmp_path / "classifier.pth"))
    model.eval()
    asking = poptorch.inferenceModel(model, options=opts)
    right = 0
    for x, y in poptorch.DataLoader(opts, test, batch_size=16):
        found = asking(x)
        torch.testing.assert_close(found, plain(x).detach())
        right += int((found.argmax(1) == y).sum())
    assert right > 32
    assert 0 < asking.cycleCount() < poptorch_model.cycleCount()


# --- functions ------------------------------------------------------------------------------------

X = (3, 4, 6)
# The edges of `test_torch_rows.py` and the losses and attentions of `test_whole.py` are not here.
FUNCTIONS: list[Callable[[Any], Any]] = [
    # elements, with torch's own spelling of some
    lambda x: F.hardswish(x) + F.relu6(x * 9) + F.leaky_relu(x, 0.2) + F.elu(x) + F.softplus(x),
    lambda x: F.mish(x) + F.glu(torch.cat([x, x])[:2].transpose(0, 2), -1).sum() + F.selu(x),
    lambda x: (1 - x) ** 3 + 2.0**x + torch.add(x, x, alpha=3) / 7 - x.clamp(-0.2, 0.3) % 0.25,
    lambda x: torch.where(x > 0, 1.0, x) + x.masked_fill(x < 0, -1e9).softmax(-1) + x.detach() * x,
    lambda x: ((x > 0) & ~(x > 1) | (x < -1)).float() * x + (x * 3).abs().int() // 2 + x.sign(),
    # reductions
    lambda x: x.mean(1, True) + x.var(-1, keepdim=True) + x.amax((0, 2), True) + x.std(),
    lambda x: x.relu().max(1, keepdim=True)[0] + x.min(2)[0].unsqueeze(-1) + x.argmax(1, True),
    lambda x: x.logsumexp(1, True) + x.cumsum(1) + x.softmax(1) + (x > 0).any(1, True) + x.prod(),
    lambda x: (
        x.topk(2, 1)[0].sum(1, True) + x.sort()[0] * x.argsort(0) + x.topk(3, -1, False)[1].sum()
    ),
    lambda x: F.normalize(x, dim=1) + F.cosine_similarity(x, x * x + 1, -1).unsqueeze(-1),
    # views and look-ups
    lambda x: x.unflatten(2, (2, -1)).permute(-1, 0, 1, 2)[:, :, ::2, -1] @ x[0, :2, :2].mT,
    lambda x: torch.stack([x.roll(1, 2).flip(1), x.repeat(1, 2, 1).chunk(2, 1)[1]], -1).unbind(3)[
        0
    ],
    lambda x: F.pad(x, (-1, 2, 0, 1), value=0.5)[..., None, 2] + x.tril().unfold(1, 2, 1).sum(),
    lambda x: x[:, CLASSES] + x[[0, 1], [1, 2]].sum() + x.index_select(1, CLASSES),
    lambda x: x.gather(1, CLASSES.view(1, 4, 1).expand(3, 4, 6)) + x.diagonal(1, 1, 2).sum(),
    lambda x: torch.zeros(3, 3, 6).scatter_add(1, CLASSES.view(1, 4, 1).expand(3, 4, 6), x),
    lambda x: F.embedding(CLASSES, x[0], padding_idx=1) + F.one_hot(x[0].argmax(1), 6),
    # products, convolutions, pools, norms
    lambda x: torch.einsum("bij,bkj->bik", x, x) + (x[0, 0] @ x.transpose(1, 2)).sum(),
    lambda x: F.conv1d(x, torch.ones(2, 2, 3), padding="same", groups=2),
    lambda x: F.conv_transpose2d(x[None], torch.ones(3, 2, 3, 3) / 9, None, 2, 1, 1),
    lambda x: F.max_pool2d(x, (3, 4), 2, ceil_mode=True),
    lambda x: F.layer_norm(x, (4, 6), torch.full((4, 6), 2.0)) + F.instance_norm(x),
    lambda x: F.rms_norm(x, (6,)),
    # losses
    lambda x: F.smooth_l1_loss(x, x * x) + F.binary_cross_entropy(x.sigmoid(), (-x).sigmoid()),
    lambda x: F.l1_loss(x, x * x + 0.3) + F.hinge_embedding_loss(x, x * 0 + 1),
    lambda x: F.kl_div(x.log_softmax(-1), (x * 2).softmax(-1), reduction="batchmean"),
    # in place, and tied together by torch itself
    lambda x: (x * 2).relu_() + (x * 3).add_(1).mul_(2),
    lambda x: torch.gru_cell(
        x[0], x[1, :, :2], x[:2].reshape(6, 8)[:, :6], x[2, :3, :4].reshape(6, 2)
    ),
]


class Functions(nn.Module):
    """All of them of one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(X, generator=drawn(5)))

    def forward(self, fed: Any) -> Any:
        found = [f(self.w) for f in FUNCTIONS]
        each = [(y * torch.linspace(0.5, 1.5, y.numel()).view(y.shape)).sum() for y in found]
        return found, sum(each) + fed.sum()


def test_functions_and_their_gradients_are_torchs() -> None:
    net, other = Functions(), Functions()
    training = poptorch.trainingModel(net, options(3), torch.optim.SGD(net.parameters(), 1.0))
    found, loss = training(torch.zeros(1))
    theirs, plain = other(torch.zeros(1))
    plain.backward()
    for number, (ours, y) in enumerate(zip(found, theirs, strict=True)):
        torch.testing.assert_close(ours, y.detach(), msg=lambda m, n=number: f"function {n}: {m}")
    training.detachFromDevice()
    torch.testing.assert_close(other.w - net.w, other.w.grad, rtol=1e-4, atol=1e-4)


class Marked(nn.Module):
    """A loss whose rows of the class -100 do not count, which is what torch has if nothing is said."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x: Any, y: Any) -> Any:
        o = self.layer(x)
        return F.nll_loss(o.log_softmax(1), y) + F.cross_entropy(o, y.flatten(), ignore_index=-100)


def test_rows_of_the_class_that_torch_ignores_do_not_count() -> None:
    net = Marked()
    other = copy.deepcopy(net)
    training = poptorch.trainingModel(net, options(2), torch.optim.SGD(net.parameters(), 0.5))
    plain = torch.optim.SGD(other.parameters(), 0.5)
    x = torch.randn(4, 3, generator=drawn())
    for y in ([0, 3, 1, 2], [2, -100, 0, -100], [1, 1, -100, 3], [3, 2, 1, 0]):
        labels = torch.tensor(y)
        theirs = float(other(x, labels).detach())
        assert float(training(x, labels)) == pytest.approx(theirs, rel=1e-5)
        step(Whole(other), plain, (x, labels))
    assert training.compiles == 2, "with the first such row a program that counts"
    training.detachFromDevice()
    assert apart(net, other) < 1e-6
    with pytest.raises(ModelError, match="was given the number -99, which is not from 0 to 3"):
        training(x, torch.tensor([0, -99, 1, 2]))


class Whole(nn.Module):
    """A module that returns its loss alone, as one that returns it last."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, *given: Any) -> Any:
        return (self.module(*given),)


def test_buffers_that_a_parametrization_changes_come_back() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(5, 4)))
    other = copy.deepcopy(net)
    begun = net[0].parametrizations.weight[0]._u.clone()

    class Squared(nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            y = self.inner(x)
            return y, (y * y).mean()

    training = poptorch.trainingModel(
        Squared(net), options(2), torch.optim.SGD(net.parameters(), 0.5)
    )
    plain = torch.optim.SGD(other.parameters(), 0.5)
    x = torch.randn(6, 5, generator=drawn())
    for _ in range(3):
        theirs = step(Squared(other), plain, (x,))
        assert float(training(x)[1]) == pytest.approx(theirs, rel=1e-5)
    training.detachFromDevice()
    assert apart(net, other) < 1e-5
    assert float((net[0].parametrizations.weight[0]._u - begun).abs().max()) > 1e-3


# --- options --------------------------------------------------------------------------------------


def test_a_call_takes_iterations_accumulation_and_replicas() -> None:
    torch.manual_seed(0)
    net = Mlp()
    other = copy.deepcopy(net)
    opts = options(3).deviceIterations(2).replicationFactor(2).outputMode(poptorch.OutputMode.All)
    opts.Training.gradientAccumulation(3)
    # the sum over 3 micro-batches and 2 replicas, at a sixth of the rate
    opts.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    training = poptorch.trainingModel(net, opts, poptorch.optim.SGD(net.parameters(), lr=0.1 / 6))
    plain = torch.optim.SGD(other.parameters(), 0.1)
    parts = batches("mlp", 12)
    out, losses = training(*(torch.cat(several) for several in zip(*parts, strict=True)))
    assert out.shape == (72, 4) and losses.shape == (12,)
    for first in (0, 6):
        for number, part in enumerate(parts[first : first + 6]):
            theirs = float(other(*part)[1].detach())
            assert float(losses[first + number]) == pytest.approx(theirs, rel=1e-5)
        step(other, plain, *parts[first : first + 6])
    training.detachFromDevice()
    assert apart(net, other) < 1e-6

    for mode, kept in (("Final", [10, 11]), ("Sum", None), ("EveryN", [4, 5, 10, 11])):
        training.options.outputMode(poptorch.OutputMode[mode], 3)
        # the selection alone: a call would train on
        chosen = _selected(losses.detach().numpy(), poptorch.OutputMode[mode], training.options)
        wanted = losses.reshape(6, 2).sum(0) if kept is None else losses[kept]
        np.testing.assert_allclose(chosen, wanted.numpy(), 1e-6)


def test_blocks_are_stages() -> None:
    class InBlocks(Mlp):
        def forward(self, x: Any, y: Any = None) -> Any:
            h = torch.relu(self.first(torch.flatten(x, 1)))
            with poptorch.Block("second", ipu_id=1):
                return classified(self.second(h), y)

    torch.manual_seed(0)
    net, marked = InBlocks(), Mlp()
    marked.load_state_dict(net.state_dict())
    poptorch.BeginBlock(marked.second, "second", ipu_id=1)
    plain = copy.deepcopy(net)
    parts = batches("mlp", 4)
    whole = [torch.cat(several) for several in zip(*parts, strict=True)]
    for model, strategy in ((net, "PipelinedExecution"), (marked, "ShardedExecution")):
        opts = options(3).setExecutionStrategy(getattr(poptorch, strategy)())
        opts.Training.gradientAccumulation(4)
        training = poptorch.trainingModel(model, opts, torch.optim.SGD(model.parameters(), 0.1))
        training(*whole)
        assert training.report.target.num_ipus == 2
        training.detachFromDevice()
    asking = poptorch.inferenceModel(net, options(3).deviceIterations(2))
    step(plain, torch.optim.SGD(plain.parameters(), 0.1), *parts)
    torch.testing.assert_close(asking(whole[0]), plain(whole[0]).detach())
    assert apart(net, plain) < 1e-6 and apart(marked, plain) < 1e-6

    with pytest.raises(PoplarError, match="1 micro-batch for 2 stages"):
        poptorch.trainingModel(net, options(3)).compile(*parts[0])


def test_of_shares_of_memory_by_ipu_products_get_the_least() -> None:
    x, opts = torch.ones(4, 3), options(3)
    opts.setAvailableMemoryProportion({"IPU0": 0.5, "IPU1": -1.0})
    with pytest.raises(PoplarError, match=r"availableMemoryProportion.* -1\.0"):
        poptorch.inferenceModel(nn.Linear(3, 2), opts)(x)
    opts.setAvailableMemoryProportion(0.5)
    net = nn.Linear(3, 2)
    torch.testing.assert_close(poptorch.inferenceModel(net, opts)(x), net(x).detach())


def test_state_of_the_optimiser_off_chip_shared_and_what_is_computed_again() -> None:
    class Again(Mlp):
        def forward(self, x: Any, y: Any = None) -> Any:
            h = poptorch.recomputationCheckpoint(self.first(torch.flatten(x, 1)))
            return classified(self.second(torch.tanh(h).relu()), y)

    torch.manual_seed(0)
    net = Again()
    other = copy.deepcopy(net)
    opts = options(3).replicationFactor(2)
    where = poptorch.TensorLocationSettings().useOnChipStorage(False)
    opts.TensorLocations.setOptimizerLocation(where.useReplicatedTensorSharding(True))
    training = poptorch.trainingModel(net, opts, torch.optim.AdamW(net.parameters(), 0.01))
    plain = torch.optim.AdamW(other.parameters(), 0.01)
    parts = batches("mlp", 2)
    for _ in range(2):
        training(*(torch.cat(several) for several in zip(*parts, strict=True)))
        step(other, plain, *parts)
    assert training.report.streaming_bytes
    training.detachFromDevice()
    assert apart(net, other) < 1e-5


class Dropped(nn.Module):
    """A layer, what is dropped of it, and a loss of that."""

    def __init__(self, drop: Any) -> None:
        super().__init__()
        self.first, self.drop, self.second = nn.Linear(12, 9), drop, nn.Linear(9, 4)

    def forward(self, x: Any, y: Any) -> Any:
        h = torch.tanh(self.first(torch.flatten(x, 1)))
        dropped = self.drop(h)
        return h, dropped, F.cross_entropy(self.second(dropped), y)


def test_with_the_masks_of_the_device_torch_drops_as_it_does() -> None:
    class Masked(nn.Module):
        def forward(self, h: Any) -> Any:
            return h * self.mask

    torch.manual_seed(0)
    net, masked = Dropped(nn.Dropout(0.4)), Masked()
    other = Dropped(masked)
    other.load_state_dict(net.state_dict())
    training = poptorch.trainingModel(net, options(), torch.optim.SGD(net.parameters(), 0.1))
    plain, masks = torch.optim.SGD(other.parameters(), 0.1), []
    for batch in batches("mlp", 6):
        h, dropped, loss = training(*batch)
        masked.mask = (dropped != 0).float() / 0.6
        torch.testing.assert_close(dropped, h * masked.mask)
        masks.append(masked.mask)
        assert float(loss) == pytest.approx(step(other, plain, batch), rel=1e-5)
    training.detachFromDevice()
    assert apart(net, other) < 1e-5
    kept = float(torch.stack(masks).mean()) * 0.6
    assert abs(kept - 0.6) < 4 * (0.24 / (6 * 54)) ** 0.5
    assert not any(torch.equal(a, b) for a, b in zip(masks, masks[1:], strict=False))


def test_stochastic_rounding_is_an_option() -> None:
    class Halved(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.half()

    means = []
    for stochastic in (False, True):
        opts = options(3)
        opts.Precision.enableStochasticRounding(stochastic)
        # an eighth of the way from 1 to the next half
        found = poptorch.inferenceModel(Halved(), opts)(torch.full((800,), 1 + 2.0**-13))
        means.append(float((found.double() - 1).mean()) * 2**10)
    assert means[0] == 0 and abs(means[1] - 1 / 8) < 4 * (7 / 64 / 800) ** 0.5


# --- life -----------------------------------------------------------------------------------------


def test_a_stopped_training_goes_on_in_every_bit() -> None:
    given = batches("cnn", 4)

    def made() -> tuple[Any, Any, Any]:
        torch.manual_seed(0)
        net = Cnn(p=0.3)
        optimizer = poptorch.optim.Adam(net.parameters(), lr=0.01)
        return net, optimizer, poptorch.trainingModel(net, options(3).randomSeed(7), optimizer)

    whole, optimizer, training = made()
    for batch in given[:2]:
        training(*batch)
    saved = io.BytesIO()  # of a training that goes on, on the device
    torch.save([training.state_dict(), optimizer.state_dict(), training.rng_state], saved)
    assert optimizer.state_dict()["state"][0]["step"] == 2
    losses = [float(training(*batch)[1]) for batch in given[2:]]
    training.detachFromDevice()
    assert whole.bn.num_batches_tracked == 4
    saved.seek(0)

    net, optimizer, second = made()
    kept = torch.load(saved)
    net.load_state_dict(kept[0])
    optimizer.load_state_dict(kept[1])
    second.rng_state = kept[2]
    assert [float(second(*batch)[1]) for batch in given[2:]] == losses
    for name, tensor in second.state_dict().items():
        assert torch.equal(tensor, whole.state_dict()[name]), name


def test_rates_change_and_nothing_compiles() -> None:
    torch.manual_seed(0)
    net = Mlp()
    other = copy.deepcopy(net)
    groups = [
        {"params": net.first.parameters(), "lr": 0.3},
        {"params": net.second.parameters(), "momentum": 0.0},
    ]
    optimizer = poptorch.optim.SGD(groups, lr=0.1, momentum=0.5, loss_scaling=64.0)
    same = [
        {"params": other.first.parameters(), "lr": 0.3},
        {"params": other.second.parameters(), "momentum": 0.0},
    ]
    plain = torch.optim.SGD(same, lr=0.1, momentum=0.5)
    training = poptorch.trainingModel(net, options(3), optimizer)
    schedules = [torch.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (optimizer, plain)]
    for batch in batches("mlp", 3):
        training(*batch)
        step(other, plain, batch)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for schedule in schedules:
                schedule.step()
        training.setOptimizer(optimizer)
    assert training.compiles == 1
    training.copyWeightsToHost()
    assert apart(net, other) < 1e-6
    for model, its in ((net, optimizer), (other, plain)):  # as torch, by group
        moving = [
            n
            for n, p in model.named_parameters()
            if its.state[p].get("momentum_buffer") is not None
        ]
        assert moving == ["first.weight", "first.bias"]
    with pytest.raises(ModelError, match="in more than its learning rates"):
        training.setOptimizer(torch.optim.SGD(net.parameters(), 0.1))

    training.destroy()
    assert not training.isCompiled() and not training.isAttachedToDevice()
    training(*batches("mlp", 1)[0])
    assert training.compiles == 2


def test_ctrl_c_waits_for_the_step_and_brings_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Mlp()
    (batch,) = batches("mlp", 1)
    training = poptorch.trainingModel(net, options(3), torch.optim.SGD(net.parameters(), 0.1))
    training.compile(*batch)
    begun = net.second.weight.detach().clone()
    run = training.run.__class__.__call__

    def pressed(self: Any, **fed: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return run(self, **fed)

    monkeypatch.setattr(training.run.__class__, "__call__", pressed)
    with pytest.raises(KeyboardInterrupt):
        training(*batch)
    assert not torch.equal(net.second.weight, begun)
    np.testing.assert_array_equal(net.second.weight.detach(), training.run.read("second.weight"))


# --- operations of one's own ----------------------------------------------------------------------


def test_an_operation_of_ones_own_may_have_the_name_of_a_row() -> None:
    @torch.library.custom_op("kit_tests::tanh", mutates_args=())
    def tanh(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)

    tanh.register_fake(torch.empty_like)

    class Named(nn.Module):
        def forward(self, x: Any) -> Any:
            return tanh(x) + 1

    x = torch.linspace(-2, 2, 7)
    model = poptorch.inferenceModel(Named(), options(3))
    torch.testing.assert_close(model(x), torch.tanh(x) + 1)
    assert "tanh" in model.program.to_string()


def test_what_is_printed_is_so_in_torch_too(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.tensor([1.0, 2.0])
    assert torch.equal(poptorch.ipu_print_tensor(x, "seen"), x)
    assert capfd.readouterr().out == "seen: tensor([1., 2.])\n"


def test_operations_of_ones_own(capfd: pytest.CaptureFixture[str]) -> None:
    row = ir.Row(
        lambda x, slope: ir.Out(x.shape, x.dtype),
        lambda low, x, slope: popops.max(
            low.graph, x, popops.mul(low.graph, x, slope, low.prog, low.name), low.prog, low.name
        ),
        lambda g, op, d: [
            g.op("select", g.op("gt", op.inputs[0], 0.0), d, g.op("mul", d, op.attrs["slope"]))
        ],
    )
    ir.register("sloped", row)

    @torch.library.custom_op("kit_tests::sloping", mutates_args=())
    def sloping(x: torch.Tensor, slope: float) -> torch.Tensor:
        return torch.where(x > 0, x, x * slope)

    sloping.register_fake(lambda x, slope: torch.empty_like(x))

    @poptorch.lowering("kit_tests::sloping")
    def becomes(graph: Any, x: Any, slope: float) -> Any:
        return graph.op("max", x, graph.op("mul", x, slope))

    class Sloped(nn.Module):
        def __init__(self, way: str) -> None:
            super().__init__()
            self.layer, self.way = nn.Linear(3, 2), way

        def forward(self, x: Any) -> Any:
            h = self.layer(x)
            if not poptorch.isRunningOnIpu():
                h = F.leaky_relu(h, 0.1)
            elif self.way == "custom_op":
                (h,) = poptorch.custom_op([h], "sloped", "mine", 1, [h], {"slope": 0.1})
            else:
                h = poptorch.nop(poptorch.ipu_print_tensor(sloping(h, 0.1), "sloped"))
            return h, poptorch.identity_loss(h * h, reduction="sum")

    try:
        x = torch.randn(4, 3, generator=drawn())
        for way in ("custom_op", "library"):
            net = Sloped(way)
            other = copy.deepcopy(net)
            training = poptorch.trainingModel(
                net, options(3), torch.optim.SGD(net.parameters(), 0.1)
            )
            training(x)
            training.detachFromDevice()
            step(other, torch.optim.SGD(other.parameters(), 0.1), (x,))
            assert apart(net, other) < 1e-6
    finally:
        del ir.OPS["sloped"], markers.LOWERINGS["kit_tests::sloping"]
    assert "sloped: [[" in "".join(capfd.readouterr())


# --- what goes wrong ------------------------------------------------------------------------------


class Of(nn.Module):
    """A layer, and a function of it and what is fed."""

    def __init__(self, function: Callable[[Any, Any], Any], dtype: Any = torch.float32) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(3, 2, dtype=dtype), function

    def forward(self, x: Any) -> Any:
        return self.function(self.layer, x)


def branching(layer: Any, x: Any) -> Any:
    return layer(x) if x.sum() > 0 else -layer(x)


def in_halves(layer: Any, x: Any) -> Any:
    with torch.autocast("cpu"):
        return layer(x)


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "unknown operation": (
        lambda: Of(lambda layer, x: torch.linalg.eigvalsh(layer(x)[:2])),
        UnknownOperationError,
        (
            "The device does not implement torch's operation aten::_linalg_eigh",
            "where: Of",
            "test_poptorch.py",
            "See docs/pytorch_operations.md, row torch.linalg.eigh",
        ),
    ),
    "a form that is not there": (
        lambda: Of(lambda layer, x: F.conv1d(x.int()[None], x.int()[None])),
        ModelError,
        (
            "torch's operation aten::convolution cannot run on the device",
            "where: Of",
            "F.conv1d(x.int()",
            "with .float()",
        ),
    ),
    "branch": (
        lambda: Of(branching),
        ModelError,
        ("Of uses the value of a tensor's element in Python", "if x.sum() > 0", "torch.where"),
    ),
    "dtypes that torch chooses": (
        lambda: Of(in_halves),
        ModelError,
        (
            "the result has the dtype torch.bfloat16",
            "where: layer",
            "return layer(x)",
            "torch.autocast",
        ),
    ),
    "shapes": (
        lambda: Of(lambda layer, x: layer(x) @ x),
        ModelError,
        (
            "torch could not capture Of: RuntimeError",
            "[4, 2] X [4, 3]",
            "where: Of",
            "layer(x) @ x",
        ),
    ),
    "in place on what is fed": (
        lambda: Of(lambda layer, x: layer(x.add_(1))),
        ModelError,
        ("changes the input 'x' in place", "layer(x.add_(1))", "y = x + 1"),
    ),
    "double": (
        lambda: Of(lambda layer, x: layer(x), torch.float64),
        ModelError,
        ("'layer.weight' has the dtype torch.float64", "module.float()"),
    ),
    "another device": (
        lambda: Of(lambda layer, x: layer(x)).to("meta"),
        ModelError,
        ("'layer.weight' is on torch's device \"meta\"", "module.to_empty(device='cpu')"),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_modules_that_cannot_be(case: str, capfd: pytest.CaptureFixture[str]) -> None:
    module, kind, words = WRONG[case]
    with pytest.raises(kind) as caught:
        poptorch.inferenceModel(module(), options(3))(torch.ones(4, 3))
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert "".join(capfd.readouterr()) == ""


def test_calls_that_cannot_be() -> None:
    def said(call: Callable[[], Any], kind: type[Exception] = ModelError) -> str:
        with pytest.raises(kind) as caught:
            call()
        return " ".join(str(caught.value).split())

    net = Mlp()
    (x, y) = batches("mlp", 1)[0]
    training = poptorch.trainingModel(net, options(3), torch.optim.SGD(net.parameters(), 0.1))
    assert "is not compiled yet" in said(training.copyWeightsToHost)
    training(x, y)
    assert (
        "The argument 'x' of the trainingModel of Mlp is [5, 3, 4] float32, but the program was "
        "compiled for [6, 3, 4] float32" in said(lambda: training(x[:5], y[:5]))
    )
    assert "'x' has the dtype torch.float64" in said(lambda: training(x.double(), y))
    assert "was given the number 4, which is not from 0 to 3" in said(
        lambda: training(x, y * 0 + 4)
    )
    assert "was given the number -1" in said(lambda: training(x, y * 0 - 1))
    asking = poptorch.inferenceModel(net, options(3))
    assert "while the trainingModel of Mlp is attached" in said(lambda: asking(x))

    opts = options(3).deviceIterations(2).replicationFactor(3)
    opts.Training.gradientAccumulation(4)
    product = "deviceIterations 2 * replicationFactor 3 * gradientAccumulation 4 = "
    data = torch.utils.data.TensorDataset(torch.zeros(50, 1))
    ragged = said(lambda: poptorch.DataLoader(opts, data, batch_size=2, drop_last=False))
    assert (
        "has 50 examples, so the last batch would have 2 examples, but every batch must have 48: "
        f"batch_size 2 * {product}48" in ragged
    )
    assert len(poptorch.DataLoader(opts, data, batch_size=2)) == 1
    other = poptorch.trainingModel(Mlp(), opts)
    assert f"must be a multiple of batch_size 1 * {product}24" in said(lambda: other(x, y))
    assert "return the loss last" in said(lambda: poptorch.trainingModel(Mlp())(x))
    rms = torch.optim.RMSprop(net.parameters())
    assert "use SGD, Adam or AdamW of poptorch.optim" in said(
        lambda: poptorch.trainingModel(net, opts, rms)
    )
    nesterov = torch.optim.SGD(net.parameters(), 0.1, 0.9, nesterov=True)
    assert "nesterov" in said(lambda: poptorch.trainingModel(net, opts, nesterov))
    assert "cycleCount() and report" in said(lambda: training.getLatency, AttributeError)
    assert "did you mean 'deviceIterations'" in said(lambda: opts.deviceIteration, AttributeError)
    for call in (
        lambda: opts.deviceIterations(0),
        lambda: opts.Precision.setPartialsType(torch.int8),
        lambda: poptorch.identity_loss(x, "all"),
    ):
        assert "next: give" in said(call, InvalidOptionError)


def test_without_torch_two_lines_say_how_to_add_it() -> None:
    program = "import sys; sys.modules['torch'] = None; import ipu_teach.poptorch"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    lines = done.stderr.strip().splitlines()[-2:]
    assert "its CPU build is a download of 192 MB, and takes 754 MB on disk" in lines[0]
    assert "pip install torch --index-url https://download.pytorch.org/whl/cpu" in lines[1]


SHARING = ("view", "activation", "nothing", "residual", "frozen", "parameterless")


class Stages(nn.Module):
    """Three blocks of which the middle one shares memory, and a skip connection around it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.kind = kind
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)
        self.middle = nn.Linear(6, 6)
        if kind == "frozen":
            self.first.requires_grad_(False)

    def forward(self, x: Any, y: Any = None) -> Any:
        with poptorch.Block("first", ipu_id=0):
            h = x.tanh() @ x.new_ones(4, 6) if self.kind == "parameterless" else self.first(x)
        with poptorch.Block("middle", ipu_id=1):
            if self.kind == "view":
                z = h.flip(1).reshape(-1, 2, 3).transpose(1, 2).reshape(-1, 6)
            elif self.kind == "activation":
                z = torch.tanh(h)
            elif self.kind == "nothing":
                z = h
            else:
                z = torch.tanh(self.middle(h)) + h
        with poptorch.Block("last", ipu_id=2):
            return classified(self.last(z + h), y)


@pytest.mark.parametrize(
    ("schedule", "kind"),
    [
        *(("grouped", kind) for kind in SHARING),
        *(("interleaved", kind) for kind in SHARING[::2]),
        *(("sharded", kind) for kind in SHARING[1::2]),
    ],
)
def test_stages_that_share_memory_train_and_infer_as_torch_does(schedule: str, kind: str) -> None:
    """Each kind has two schedules here, and in `test_schedules.py` all that are pipelines."""
    strategy: Any = poptorch.ShardedExecution()
    if schedule != "sharded":
        strategy = poptorch.PipelinedExecution(schedule)
    x = torch.randn(12, 4, generator=drawn())
    y = torch.randint(0, 3, (12,), generator=drawn())
    device = IPUModel("ipu2", tiles_per_ipu=2, num_ipus=4)
    model, reference = Stages(kind), Stages(kind)
    inference = poptorch.Options().deviceIterations(6).useIpuModel(device)
    inference.setExecutionStrategy(strategy)
    result = poptorch.inferenceModel(model, inference)(x)
    torch.testing.assert_close(result, reference(x).detach(), atol=1e-5, rtol=1e-5)
    training = poptorch.Options().useIpuModel(device)
    training.Training.gradientAccumulation(6)
    training.setExecutionStrategy(strategy)
    trained = [p for p in model.parameters() if p.requires_grad]
    executor = poptorch.trainingModel(model, training, poptorch.optim.SGD(trained, lr=0.5))
    optimiser = torch.optim.SGD([p for p in reference.parameters() if p.requires_grad], lr=0.5)
    for _ in range(2):
        executor(x, y)
        optimiser.zero_grad()
        reference(x, y)[1].backward()
        optimiser.step()
    executor.copyWeightsToHost()
    for (name, actual), expected in zip(
        model.named_parameters(), reference.parameters(), strict=True
    ):
        torch.testing.assert_close(
            actual.detach(), expected.detach(), atol=1e-5, rtol=1e-4, msg=f"{kind}: {name}"
        )


def test_batch_norm_of_a_half_module_trains_as_in_torch() -> None:
    """Its running statistics are blended in FLOAT, as by torch, and kept in HALF."""
    torch.manual_seed(3)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 3)
    ).half()

    class Step(nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner, self.loss = inner, nn.CrossEntropyLoss()

        def forward(self, x: Any, y: Any) -> Any:
            scores = self.inner(x)
            return scores, self.loss(scores, y)

    plain = Step(copy.deepcopy(net))
    module = Step(net)
    training = poptorch.trainingModel(
        module, options(), torch.optim.SGD(module.parameters(), lr=0.1)
    )
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(2):
        x, y = (300 * torch.randn(5, 2, 6, 6)).half(), torch.randint(0, 3, (5,))
        training(x, y)
        optimizer.zero_grad()
        plain(x, y)[1].backward()
        optimizer.step()
    training.copyWeightsToHost()
    for (name, actual), expected in zip(
        net.state_dict().items(), plain.inner.state_dict().values(), strict=True
    ):
        assert actual.dtype is expected.dtype, name
        torch.testing.assert_close(actual, expected, rtol=2e-2, atol=5e-3, msg=name)
