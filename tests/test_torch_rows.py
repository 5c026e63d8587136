"""The rows of torch's operations beside torch itself, at their edges.

`python3 run.py fuzz --torch-samples 8` judges all edges, and torch's own samples of all operations.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fuzz import torch_samples  # noqa: E402
from fuzz.torch_samples import Outcome  # noqa: E402
from sampling import one_in  # noqa: E402
from torch_edges import CASES  # noqa: E402

from ipu_teach import poptorch  # noqa: E402
from ipu_teach.errors import ModelError  # noqa: E402
from ipu_teach.frontends.pytorch import capture  # noqa: E402

GROUPS = 4
# Edges like another one in the suite; `run.py fuzz --torch-samples 4 --usual` judges them too.
LIKE_ANOTHER = re.compile(
    r"(?!sum|argmax|sort|cumsum).* along 0|(?!sum|argmax|sort|var).* of a row"
    r"|(?!sums|-x|x // 2|shifts|sort|compare).* of torch.uint8|(?!sums|x \+ 100).* of torch.int16"
    r"|(max|avg)_pool.* \((3, 1, 1, False|2, 2, 0, False)\).*|(cd|pd)ist (0.5|1.5|3.0)"
    r"|scatter_reduce (mean True|amin False).*|index_reduce (mean|amin) True|multi_margin_loss 1 (mean|sum)"
    r"|.* (//|%) -?2.5|fmod -?2.5|x \*\* (2|4|-3|1.5)|integer \*\* [024]"
)
X, INTEGERS = torch.arange(12.0).reshape(3, 4), torch.arange(6).reshape(2, 3)
FIELD = torch.ones(1, 1, 4, 4)
f = torch.nn.functional
# a call, its tensors, what the error says, and what it advises
REFUSED: dict[str, tuple[Any, tuple[Any, ...], str, str]] = {
    "conv": (
        lambda x: f.conv2d(x.int(), torch.ones(1, 1, 2, 2, dtype=torch.int32)),
        (FIELD,), "convolutions only of floats, not of INT",
        "convert the input and the weights with .float()",
    ),
    "pool": (
        lambda x: f.avg_pool2d(x.int(), 2), (FIELD,), "pools only floats, not INT",
        "convert the input to floats: x.float()",
    ),
    "scatter_reduce": (
        lambda x, i: (x > 2).scatter_reduce(0, i, x > 3, "prod"), (X, INTEGERS[:, :2] % 3),
        "the device does not multiply booleans", "convert them with x.int()",
    ),
    "mask": (
        lambda x: x.index_put((x > 2,), torch.arange(9.0)), (X,), "is assigned 9 rows of values",
        "x = torch.where(mask, values, x)",
    ),
    "two masks": (
        lambda x: x.index_put((x[:, 0] > 0, x[0] > 1), torch.tensor(1.0)), (X,),
        ": the index is a mask, so the size of the result", "torch.where(mask, x, 0)",
    ),
    "masked_scatter": (
        lambda x: x.masked_scatter(x > 2, torch.arange(9.0)), (X,),
        "a source with 9 elements and a mask with 12", "F.pad(source.flatten(), (0, 3))",
    ),
    "strides": (
        lambda x: x.t().as_strided((2, 3), (1, 2)), (X,), "x is not contiguous",
        "x.contiguous() before as_strided",
    ),
    "division": (lambda x: x // 0, (INTEGERS,), "the device does not divide integers by 0", "or by 0.0"),
    "remainder": (lambda x: x % 0, (INTEGERS,), "the device does not divide integers by 0", "or by 0.0"),
    "index": (
        lambda x: x[torch.tensor([1, 3])], (X,), "the index 3 is out of range for 3 elements",
        "use indices from -3 to 2",
    ),
    "bits": (
        lambda x: x.view(torch.int16), (X,), "the device does not view the bits of torch.float32 as torch.int16",
        "view torch.float32 as torch.int32",
    ),
    "eps": (
        lambda x: f.layer_norm(x, (4,), eps=-1.0), (X,), ": eps is -1.0", "an eps of at least 0",
    ),
    "sorter": (
        lambda x: torch.searchsorted(x[0], x[0], sorter=torch.arange(4)), (X,),
        "the argument sorter is not supported",
        "sequence.gather(-1, sorter)",
    ),
    "range": (
        lambda x: torch.randint_like(x, 2**40), (X,), "has integers of more than 32 bits",
        "from -2**31 to 2**31 - 1",
    ),
    "bag": (
        lambda x, i: f.embedding_bag(i, x, max_norm=1.0), (X, INTEGERS % 3), "was given max_norm",
        "leave max_norm out",
    ),
    "volume": (
        lambda x, g: f.grid_sample(x, g, align_corners=False),
        (torch.ones(1, 1, 2, 2, 2), torch.zeros(1, 1, 1, 1, 3)), "an input with 3 spatial dimensions",
        "input[:, :, i]",
    ),
    "round": (
        lambda x: x.round(decimals=-1), (INTEGERS,), "the device cannot round integers to tens",
        "x.float().round(decimals=-1)",
    ),
    "constant": (lambda x: x + 2**40, (INTEGERS,), "cannot be represented exactly in INT", "in the range of INT"),
}  # fmt: skip


def is_like_another(name: str) -> bool:
    return LIKE_ANOTHER.fullmatch(name) is not None


@pytest.mark.parametrize("group", one_in(2, range(GROUPS), str))
def test_edges_are_those_of_torch(group: int) -> None:
    total = Outcome()
    for dtype in (torch.float32, torch.int64):
        names = [n for n in torch_samples.edges_of(dtype) if not is_like_another(n)]
        total += torch_samples.edges(names[group::GROUPS], dtype)
    assert not total.differences, "\n".join(total.differences)
    assert not total.reasons and not total.invalid
    assert total.equal > 80


def test_an_edge_of_each_kind_is_in_the_suite() -> None:
    left = {n for n in CASES if is_like_another(n)}
    assert 100 < len(left) < len(CASES) / 3
    for name in left:
        if along := re.fullmatch(r"(.*) along 0", name):
            assert {f"{along[1]} along 1"} <= CASES.keys() - left
        elif dtype := re.fullmatch(r"(.*) of torch.u?int(8|16)", name):
            assert {f"{dtype[1]} of torch.int8"} <= CASES.keys() - left


class Call(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors)


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_is_refused_with_a_next_step(name: str) -> None:
    function, tensors, problem, advice = REFUSED[name]
    with pytest.raises(ModelError) as refused:
        capture.capture_module(Call(function), tensors)
    assert problem in str(refused.value) and advice in refused.value.next_step, refused.value


def test_indices_that_are_fed_are_checked_by_the_host() -> None:
    """Subscripts count from the end; gather does not. Both refuse what is out of range."""
    subscript = poptorch.inferenceModel(Call(lambda x, i: x[i]))
    gathered = poptorch.inferenceModel(Call(lambda x, i: x.gather(0, i)))
    last = torch.tensor([-1, 0, -3])
    assert torch.equal(subscript(X, last), X[last])
    with pytest.raises(
        ModelError, match="was given the number 3, which is not from -3 to 2"
    ) as refused:
        subscript(X, torch.tensor([0, 1, 3]))
    assert "use indices from -3 to 2" in refused.value.next_step
    row = torch.tensor([[0, 2, 1, 1]])
    assert torch.equal(gathered(X, row), X.gather(0, row))
    with pytest.raises(ModelError, match="was given the number -1, which is not from 0 to 2"):
        gathered(X, row - 1)


def test_integers_beyond_32_bits_are_refused_when_they_are_fed() -> None:
    doubled = poptorch.inferenceModel(Call(lambda x: x * 2))
    assert torch.equal(doubled(torch.tensor([2**30 - 1])), torch.tensor([2**31 - 2]))
    with pytest.raises(ModelError, match="2147483648, but the device's integers have 32 bits"):
        doubled(torch.tensor([2**31]))


def test_random_numbers_have_the_moments_and_bounds_that_torch_has() -> None:
    ones = torch.ones(64, 64)

    def draws(x: Any) -> Any:
        return (
            torch.rand_like(x), torch.randn_like(x), torch.bernoulli(x * 0.25), torch.bernoulli(x),
            torch.randint_like(x, 3, 7), torch.empty_like(x).exponential_(2.0),
            torch.empty_like(x).uniform_(-1, 3), torch.randperm(64) + 0 * x[0].int(),
            torch.multinomial(x[:, :4] * torch.tensor([1.0, 0, 2, 1]), 64, replacement=True),
            f.dropout(x, 0.25, training=True), torch.rand_like(x.half()),
        )  # fmt: skip

    results = [r.double() for r in poptorch.inferenceModel(Call(draws))(ones)]
    expected = [0.5, 0, 0.25, 1, 4.5, 0.5, 1, 31.5, 7 / 4, 1, 0.5]
    for result, mean in zip(results, expected, strict=True):
        assert abs(result.mean() - mean) < 0.06, (result.mean(), mean)
    rand, normal, some, every, whole, exponential, wide, order, chosen, kept, halves = results
    assert rand.min() >= 0 and rand.max() < 1 and halves.max() < 1
    assert abs(normal.std() - 1) < 0.05 and exponential.min() > 0 and bool(every.all())
    assert set(some.unique().tolist()) == {0, 1} and set(whole.unique().tolist()) == {3, 4, 5, 6}
    assert wide.min() >= -1 and wide.max() < 3 and sorted(order.tolist()) == list(range(64))
    assert set(chosen.unique().tolist()) == {0, 2, 3}
    assert len(kept.unique()) == 2 and abs((kept == 0).double().mean() - 0.25) < 0.03


def test_all_halves_are_rounded_to_decimals_as_torch_rounds_them() -> None:
    class Rounds(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return torch.round(x, decimals=1), torch.round(x, decimals=-2)

    halves = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.float16)
    expected = Rounds()(halves)
    for actual, reference in zip(poptorch.inferenceModel(Rounds())(halves), expected, strict=True):
        torch.testing.assert_close(actual, reference, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("p", [0.0, 1.0])
@pytest.mark.parametrize("is_in_place", [False, True])
def test_dropout_that_drops_nothing_returns_its_input(p: float, is_in_place: bool) -> None:
    class Model(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))

        def forward(self, x: Any) -> Any:
            scaled = x * self.weight
            dropped = f.dropout(scaled, p, inplace=is_in_place)
            return f.hardtanh(scaled, -1, 1, inplace=True), scaled, dropped, dropped.sum()

    module = Model()
    training = poptorch.trainingModel(module, None, torch.optim.SGD(module.parameters(), 0.0))
    results = training(X)
    training.detachFromDevice()
    for actual, expected in zip(results, Model()(X), strict=True):
        torch.testing.assert_close(actual, expected.detach())


class Columns(torch.nn.Module):  # type: ignore[misc]
    """Two tables of 3 and 5 rows, whose indices are the columns of one input."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = torch.nn.ModuleList([torch.nn.Embedding(3, 2), torch.nn.Embedding(5, 2)])

    def forward(self, x: Any, y: Any) -> Any:
        first, second = (table(x.flip(-1).T[1 - i]) for i, table in enumerate(self.tables))
        scores = torch.cat([first, second, first * second], -1)
        losses = [
            torch.nn.functional.cross_entropy(s, y[:, i])
            for i, s in enumerate((scores[:, :3], scores[:, 1:]))
        ]
        return first, second, losses[0] + losses[1]


def test_each_column_of_an_input_has_its_own_limit() -> None:
    """As embeddings of categories and losses of several tasks do: 4 fits only the second column."""
    torch.manual_seed(0)
    module = Columns()
    plain = copy.deepcopy(module)
    x, y = torch.tensor([[0, 4], [2, 3], [1, 0]]), torch.tensor([[2, 4], [0, 3], [1, 1]])
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    executor = poptorch.trainingModel(module, optimizer=optimizer)
    for labels in (y, torch.tensor([[-100, 4], [0, 3], [1, 1]])):
        expected = plain(x, labels)
        for found, wanted in zip(executor(x, labels), expected, strict=True):
            torch.testing.assert_close(found, wanted.detach(), rtol=1e-5, atol=1e-6)
        plain.zero_grad()
        expected[-1].backward()
        with torch.no_grad():
            for parameter in plain.parameters():
                parameter -= 0.1 * parameter.grad
    for name, row, text in (
        ("x", [3, 0], "the number 3, which is not from 0 to 2"),
        ("x", [0, 5], "the number 5, which is not from 0 to 4"),
        ("x", [0, -100], "the number -100, which is not from 0 to 4"),
        ("y", [3, 0], "the number 3, which is not from 0 to 2"),
        ("y", [0, 5], "the number 5, which is not from 0 to 4"),
    ):
        wrong = {"x": x, "y": y} | {name: torch.tensor([row] * 3)}
        with pytest.raises(ModelError, match=f"The input '{name}' was given {text}"):
            executor(**wrong)


def ctc_by_recursion(scores: Any, labels: Any) -> Any:
    """The sum of -log(probability) for labels of a fixed length without repetitions; 0 is blank."""
    logs = scores.log_softmax(-1)
    blanks = torch.zeros_like(labels)
    path = torch.cat([torch.stack([blanks, labels], -1).flatten(1), blanks[:, :1]], 1)
    picked = [log.gather(1, path) for log in logs]
    low = torch.full_like(picked[0], -1e4)
    total = torch.cat([picked[0][:, :2], low[:, 2:]], 1)
    can_skip = (torch.arange(path.shape[1]) % 2 == 1) & (torch.arange(path.shape[1]) > 1)
    for now in picked[1:]:
        stepped = torch.cat([low[:, :1], total[:, :-1]], 1)
        skipped = torch.where(can_skip, torch.cat([low[:, :2], total[:, :-2]], 1), low)
        total = torch.logaddexp(torch.logaddexp(total, stepped), skipped) + now
    return -torch.logaddexp(total[:, -1], total[:, -2]).sum()


def test_ctc_loss_names_a_recursion_that_runs() -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(5, 2, 4), torch.tensor([[1, 3], [2, 1]])
    ctc = torch.nn.functional.ctc_loss
    expected = ctc(scores.log_softmax(-1), labels, (5, 5), (2, 2), reduction="sum")
    with pytest.raises(ModelError, match="uses the result of ctc_loss, whose size") as refused:
        poptorch.inferenceModel(Call(lambda x, y: ctc(x.log_softmax(-1), y, (5, 5), (2, 2))))(
            scores, labels
        )
    assert "write the recursion over time with torch.logaddexp" in refused.value.next_step
    found = poptorch.inferenceModel(Call(ctc_by_recursion))(scores, labels)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_an_item_is_refused_and_without_it_the_call_runs() -> None:
    x = torch.tensor([1.0, 2.0, 4.0])
    with pytest.raises(ModelError, match="uses the value of a tensor's element") as refused:
        poptorch.inferenceModel(Call(lambda x: x * x.sum().item()))(x)
    assert refused.value.next_step.startswith("leave out .item(), and use the tensor. For an if, ")
    found = poptorch.inferenceModel(Call(lambda x: x * x.sum()))(x)
    assert found.tolist() == [7.0, 14.0, 28.0]
