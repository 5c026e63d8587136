"""The private names of PyTorch in `pytorch.private`, each with what stops working without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: the extra `torch` adds it")

from ipu_teach.frontends.pytorch import private  # noqa: E402

aten = torch.ops.aten


@pytest.fixture
def fake() -> Any:
    """A fake tensor of [2, 3], with the mode it belongs to on."""
    mode = private.fake_mode()
    tensor = private.fake_of(mode, torch.ones(2, 3))
    with private.tracing_on(mode):
        yield tensor


def test_a_fake_tensor_has_a_shape_and_no_elements(fake: Any) -> None:
    """Without it a module would run on its real numbers, and could branch on them."""
    assert isinstance(fake @ fake.T, private.FakeTensor)
    assert (fake @ fake.T).shape == (2, 2)
    real = torch.ones(3)  # a constant of the module
    assert isinstance(fake + real, private.FakeTensor)


@pytest.mark.parametrize(
    "ask", [lambda x: x.sum().item(), lambda x: bool(x.sum() > 0), lambda x: x[x > 0]]
)
def test_a_question_for_elements_is_told_from_other_errors(
    fake: Any, ask: Callable[[Any], Any]
) -> None:
    """Without it a data-dependent branch would be refused in words of torch's tracer."""
    with pytest.raises(private.VALUE_NEEDED):
        ask(fake)


def test_batch_norm_reports_its_statistics(fake: Any) -> None:
    """Without the dispatcher of Python, running statistics would not be recorded as changed."""
    from ipu_teach.frontends.pytorch.labels import Label
    from ipu_teach.frontends.pytorch.record import Recorder

    norm = torch.nn.BatchNorm1d(3)
    mode = fake.fake_mode
    tensors = [private.fake_of(mode, t) for t in (norm.running_mean, norm.running_var)]
    recorder = Recorder(dict(torch.export.default_decompositions().items()), Label)

    def run(x: Any, mean: Any, var: Any) -> list[Any]:
        return [torch.nn.functional.batch_norm(x, mean, var, training=True)]

    recorder.record(run, [fake, *tensors])
    assert any(private.is_mutable(n.target) for n in recorder.graph.nodes)


def test_the_switch_of_onednn_is_put_back() -> None:
    """Without it an LSTM and a convolution would be operations that the table does not have."""
    before = torch.backends.mkldnn.enabled
    with private.without_mkldnn():
        assert not torch.backends.mkldnn.enabled
    assert torch.backends.mkldnn.enabled == before


def test_composite_operations_are_known() -> None:
    """Without it matmul would be recorded, and not the products that it is made of."""
    assert private.is_composite(aten.matmul.default)
    assert not private.is_composite(aten.mm.default)
    assert not private.is_composite(torch.ops.prim.device.default)
    a = torch.ones(2, 3)
    product = private.decomposed(aten.matmul.default, (a, a.T), {})
    assert torch.equal(product, torch.full((2, 2), 3.0))


def test_memory_is_that_of_a_view() -> None:
    """Without it a constant that a module keeps for its next call would be refused."""
    a, b = torch.ones(4), torch.ones(4)
    assert private.memory(a) == private.memory(a[1:].view(3, 1)) != private.memory(b)


def test_hooks_of_a_tensor_are_found() -> None:
    """Without them hooks of parameters would be ignored."""
    p = torch.nn.Parameter(torch.ones(2))
    assert private.gradient_hooks(p) == private.accumulation_hooks(p) == []

    def double(g: Any) -> Any:
        return g * 2

    def halve(p: Any) -> None:
        p.grad /= 2

    p.register_hook(double)
    p.register_post_accumulate_grad_hook(halve)
    assert private.gradient_hooks(p) == [double]
    assert private.accumulation_hooks(p) == [halve]


def test_recurrent_layers_keep_their_parameters_in_lists() -> None:
    """Without them each recurrent layer would be traced three times."""
    lstm = torch.nn.LSTM(2, 3)
    module = torch.nn.Sequential(lstm, torch.nn.Linear(3, 3))
    assert private.parameter_lists(lstm) == {"_flat_weights", "_flat_weight_refs"}
    assert private.parameter_lists(module) == {"0._flat_weights", "0._flat_weight_refs"}
    before = set(vars(lstm))
    for name, parameter in lstm.named_parameters():
        assert any(parameter is listed for listed in lstm._flat_weights), name
    assert private.parameter_lists(lstm) <= before


def test_schemas_say_what_an_operation_is_called_and_changes() -> None:
    """Without them no row would be found, and a change of an input would go unnoticed."""
    assert private.operation_name(aten.add.Tensor) == "aten::add"
    assert private.operation_name(len) == ""
    assert private.is_mutable(aten.add_.Tensor) and not private.is_mutable(aten.add.Tensor)
    assert not private.is_mutable(len)
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    assert private.written_arguments(graph.call_function(aten.add_.Tensor, (x, 1))) == [x]
    assert private.written_arguments(graph.call_function(aten.add.Tensor, (x, 1))) == []
    sum_into = graph.call_function(aten.sum.IntList_out, (x, [0]), {"out": x})
    assert private.written_arguments(sum_into) == [x]


def test_views_are_known() -> None:
    """Without it a change of a view of an input would go unnoticed."""
    for view in (aten.view.default, aten.select.int, aten.split.Tensor, aten.t.default):
        assert private.returns_alias(view)
    for other in (aten.add.Tensor, aten.clone.default, len):
        assert not private.returns_alias(other)


def test_tensors_are_keys_that_do_not_live_on() -> None:
    """Without it a tensor that a module keeps outside itself would not be noticed."""
    nodes = private.WeakTensorKeyDictionary()
    kept, gone = torch.ones(2), torch.ones(2)
    nodes[kept], nodes[gone] = 1, 2
    del gone
    assert list(nodes.values()) == [1]


def test_results_of_a_subclass_are_plain_tensors() -> None:
    """Without it all that is computed from a returned loss would refuse `backward()`."""

    class Marked(torch.Tensor):  # type: ignore[misc]
        __torch_function__ = private.PLAIN_RESULTS

    marked = private.as_instance(torch.ones(2), Marked)
    assert type(marked.detach_()) is Marked
    assert type(marked + 1) is type(marked.detach()) is type(marked[0]) is torch.Tensor


def test_the_state_of_random_numbers_identifies_a_draw() -> None:
    """Without it what a checkpoint computes again would draw other random numbers."""
    before = torch.get_rng_state()
    with private.own_random_numbers():
        start = torch.get_rng_state()
        with private.tracing_on(private.fake_mode()):
            first, second = private.next_random_state(), private.next_random_state()
            torch.set_rng_state(start)
            assert private.next_random_state() == first != second
            assert torch.initial_seed() == private.CAPTURE_SEED
    assert torch.equal(torch.get_rng_state(), before)
