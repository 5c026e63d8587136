"""Layers, data, losses and files of the Keras front end, beside numpy in float64."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu_teach import keras
from ipu_teach.errors import IPUTeachError, ModelError, ModelLoadError
from ipu_teach.keras import ipu, layers

RNG = np.random.default_rng(0)
X = RNG.standard_normal((10, 3)).astype(np.float32)
Y = RNG.standard_normal((10, 2)).astype(np.float32)


@pytest.fixture(autouse=True)
def machine() -> Iterator[None]:
    """A machine of few tiles, for all models of a test."""
    keras.utils.set_random_seed(3)
    config = ipu.config.IPUConfig()
    config.ipu_model.tiles_per_ipu = 5
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        yield


def numbers(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def randomised(model: Any) -> list[Any]:
    """Give a model random weights, also where they are 0 or 1 at first, and return them."""
    model.set_weights([0.5 * numbers(*w.shape) for w in model.get_weights()])
    return [w.astype(np.float64) for w in model.get_weights()]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def plain_lstm(x: Any, w: Any, u: Any, b: Any, h: Any, c: Any) -> Any:
    outputs = []
    for step in range(x.shape[1]):
        i, f, new, o = np.split(x[:, step] @ w + h @ u + b, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(new)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs, 1), h, c


def plain_gru(x: Any, w: Any, u: Any, b: Any, h: Any) -> Any:
    for step in range(x.shape[1]):
        z, r, new = np.split(x[:, step] @ w + b[0], 3, -1)
        z_h, r_h, new_h = np.split(h @ u + b[1], 3, -1)
        z, r = sigmoid(z + z_h), sigmoid(r + r_h)
        h = z * h + (1 - z) * np.tanh(new + r * new_h)
    return h


@pytest.mark.parametrize("unroll", [False, True])
def test_recurrent_layers_are_loops_over_steps(unroll: bool) -> None:
    start = keras.Input((4, 3))
    whole, h, c = layers.LSTM(2, return_sequences=True, return_state=True, unroll=unroll)(start)
    back = layers.GRU(2, go_backwards=True, unroll=unroll)(whole, initial_state=h)
    model = keras.Model(start, [whole, c, back])
    w = randomised(model)
    x = numbers(6, 4, 3)
    outs = model.predict(x, batch_size=4)
    zeros = np.zeros((6, 2))
    expected, last, cell = plain_lstm(x.astype(float), *w[:3], zeros, zeros)
    reversed_result = plain_gru(expected[:, ::-1], *w[3:], last)
    for out, values in zip(outs, (expected, cell, reversed_result), strict=True):
        np.testing.assert_allclose(out, values, atol=1e-6)


def test_attention_embedding_and_causal_convolution() -> None:
    start = keras.Input((5,))
    rows = layers.Embedding(7, 4)(start)
    y, scores = layers.MultiHeadAttention(2, 3)(
        rows, rows, use_causal_mask=True, return_attention_scores=True
    )
    z = layers.Conv1D(2, 2, dilation_rate=2, padding="causal")(y)
    model = keras.Model(start, [scores, z])
    w = randomised(model)
    index = RNG.integers(0, 7, (3, 5))
    given_scores, given = model.predict(index.astype(np.float32), batch_size=3)
    x = w[0][index]
    q, k, v = (np.einsum("btd,dhn->bhtn", x, w[i]) + w[i + 1][:, None] for i in (1, 3, 5))
    logits = np.where(np.tri(5) > 0, q @ k.swapaxes(2, 3) / np.sqrt(3), -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    y = np.einsum("bhtn,hnd->btd", weights @ v, w[7]) + w[8]
    padded = np.pad(y, ((0, 0), (2, 0), (0, 0)))
    expected = padded[:, :5] @ w[9][0] + padded[:, 2:] @ w[9][1] + w[10]
    np.testing.assert_allclose(given_scores, weights, atol=1e-6)
    np.testing.assert_allclose(given, expected, atol=1e-5)


def linear_steps(w: Any, b: Any, batches: Any, rate: float = 0.1) -> list[float]:
    """Train a linear model in float64 with weighted squared errors, in place."""
    losses = []
    for x, y, s in batches:
        error = x.astype(float) @ w + b - y
        losses.append((s[:, None] * error**2).mean())
        slope = 2 * s[:, None] * error / error.size
        w -= rate * x.T.astype(float) @ slope
        b -= rate * slope.sum(0)
    return losses


def linear() -> tuple[Any, Any, Any]:
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"], weighted_metrics=["mse"])
    w, b = (a.astype(float) for a in model.get_weights())
    return model, w, b


def test_weights_an_incomplete_batch_and_validation() -> None:
    model, w, b = linear()
    s = np.arange(10) / 3
    logs = model.fit(X, Y, 3, 2, 0, shuffle=False, sample_weight=s, validation_split=0.2).history
    sizes = np.array([3, 3, 2])
    parts = [slice(0, 3), slice(3, 6), slice(6, 8)]
    for epoch in range(2):
        losses = linear_steps(w, b, [(X[p], Y[p], s[p]) for p in parts])
        assert logs["loss"][epoch] == pytest.approx((losses * sizes).sum() / 8, rel=1e-5)
    error = X[8:].astype(float) @ w + b - Y[8:]
    assert logs["val_mae"][1] == pytest.approx(np.abs(error).mean(), rel=1e-5)
    squares = (s[8:] * (error**2).mean(1)).sum()
    assert logs["val_mse"][1] == pytest.approx(squares / s[8:].sum(), rel=1e-5)
    assert logs["val_loss"][1] == pytest.approx(squares / 2, rel=1e-5)
    np.testing.assert_allclose(model.get_weights()[0], w, atol=1e-6)
    zero = model.evaluate(X, Y, sample_weight=np.zeros(10), return_dict=True)
    assert zero["loss"] == zero["mse"] == 0 < zero["mae"]


@pytest.mark.parametrize("steps", [None, 1, 2, 3])
@pytest.mark.parametrize("samples", [9, 10, 12])
def test_predict_has_no_row_for_what_fills_the_last_batch(steps: int | None, samples: int) -> None:
    model, w, b = linear()
    x = np.resize(X, (samples, *X.shape[1:]))
    expected = (x.astype(float) @ w + b)[: 4 * (steps or 3)]
    found = model.predict(x, batch_size=4, steps=steps)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_generators_batches_and_steps() -> None:
    class Pairs(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Any:
            part = slice(6 * index, 6 * index + 6)
            return X[part], Y[part]

    one = np.ones(10)
    batches = [(X[:6], Y[:6], one[:6]), (X[6:], Y[6:], one[6:])]
    model, w, b = linear()
    model.fit(Pairs(), epochs=2, verbose=0, shuffle=False)
    model.fit((Pairs()[i % 2] for i in range(4)), epochs=2, steps_per_epoch=2, verbose=0)
    model.train_on_batch(X[:6], Y[:6])
    linear_steps(w, b, batches * 4 + batches[:1])
    np.testing.assert_allclose(model.get_weights()[0], w, atol=1e-6)
    with pytest.raises(ModelError, match="(?s)ended after 1 batch, but the call needs 2"):
        model.fit(iter([Pairs()[0]]), steps_per_epoch=2, verbose=0)


def test_several_outputs_have_their_own_losses_and_metrics() -> None:
    start = keras.Input((3,))
    one = layers.Dense(2, name="one")(start)
    two = layers.Dense(3, activation="softmax", name="two")(start)
    model = keras.Model(start, [one, two])
    model.compile(
        "sgd",
        {"one": "mse", "two": "sparse_categorical_crossentropy"},
        loss_weights=[0.5, 2.0],
        metrics={"two": ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(k=2, name="k")]},
    )
    classes = RNG.integers(0, 3, 10)
    logs = model.evaluate(X, {"one": Y, "two": classes}, 10, return_dict=True)
    w, b, v, c = (a.astype(float) for a in model.get_weights())
    square = ((X @ w + b - Y) ** 2).mean()
    scores = X @ v + c
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    entropy = -np.log(p[range(10), classes]).mean()
    assert logs["loss"] == pytest.approx(0.5 * square + 2 * entropy, rel=1e-5)
    assert logs["one_loss"] == pytest.approx(square, rel=1e-5)
    assert logs["two_accuracy"] == pytest.approx((scores.argmax(1) == classes).mean())
    rank = (scores > scores[range(10), classes][:, None]).sum(1)
    assert logs["two_k"] == pytest.approx((rank < 2).mean())


class Scaled(layers.Layer):
    def __init__(self, units: int, **options: Any) -> None:
        super().__init__(**options)
        self.units = units
        self.inner = layers.Dense(units)

    def build(self, input_shape: Any) -> None:
        assert input_shape == (None, 3)
        self.w = self.add_weight(shape=(self.units,), initializer="ones", name="w")

    def call(self, inputs: Any) -> Any:
        return keras.ops.tanh(self.inner(inputs)) * self.w + inputs[:, :1]


def test_a_layer_of_ones_own_is_saved_with_its_model(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((3,)), Scaled(4), layers.Dense(2)])
    model.compile("adam", "mse", metrics=["mae"])
    w, kernel, bias, last, shift = randomised(model)
    hidden = np.tanh(X @ kernel + bias) * w + X[:, :1]
    np.testing.assert_allclose(model.predict(X, 5), hidden @ last + shift, atol=1e-5)
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "net-{epoch}-{mae:.1f}", monitor="loss")
    model.fit(X, Y, 5, 1, 0, shuffle=False, callbacks=[checkpoint])
    (path,) = tmp_path.iterdir()
    with pytest.raises(ModelLoadError, match="(?s)'Scaled', which is not a class.*custom_objects"):
        keras.models.load_model(path)
    loaded = keras.models.load_model(path, {"Scaled": Scaled})
    assert isinstance(loaded, keras.Sequential)
    for both in (model, loaded):  # with Adam's moments
        both.fit(X, Y, 5, 1, 0, shuffle=False)
    for ours, theirs in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    path.write_bytes(path.read_bytes().replace(b'"units":4', b'"units":9'))
    with pytest.raises(ModelLoadError):
        keras.models.load_model(path, {"Scaled": Scaled})


def test_a_schedule_sets_the_rate_of_each_epoch() -> None:
    model, w, b = linear()
    rates = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1))
    logs = model.fit(X, Y, 10, 3, 0, callbacks=rates).history
    for rate in (0.1, 0.05, 0.1 / 3):
        linear_steps(w, b, [(X, Y, np.ones(10))], rate)
    np.testing.assert_allclose(model.get_weights()[0], w, atol=1e-6)
    assert logs["learning_rate"] == pytest.approx([0.1, 0.05, 0.1 / 3])


WRONG: dict[str, tuple[Any, str]] = {
    "argument": (lambda: layers.Dense(2, unit=3), r"Dense\(\) has no argument 'unit'.*'units'"),
    "regularizer": (
        lambda: layers.Dense(2, kernel_regularizer="l2"),
        "kernel_regularizer='l2', which the device does not implement.*leave kernel_regularizer out",
    ),
    "stateful": (lambda: layers.LSTM(2, stateful=True), "stateful=True.*initial_state"),
    "dropout": (lambda: layers.GRU(2, recurrent_dropout=0.1), "recurrent_dropout=0.1.*Dropout layer"),
    "mask_zero": (lambda: layers.Embedding(3, 2, mask_zero=True), "no masks.*leave mask_zero out"),
    "mask": (
        lambda: layers.LSTM(2)(keras.Input((3, 2)), mask=True),
        "called with mask=True.*leave mask out",
    ),
    "floats": (
        lambda: layers.Embedding(3, 2)(layers.Dense(2)(keras.Input((3,)))),
        "must be integer indices.*dtype='int32'",
    ),
    "causal": (lambda: layers.Conv2D(2, 2, padding="causal"), "padding='causal'.*give 'valid'"),
    "batch axis": (lambda: layers.Concatenate(0)([keras.Input((3,))] * 2), "axis from 1 to 1"),
    "reshape": (lambda: layers.Reshape((2, -1))(keras.Input((3,))), "product is 3"),
    "split": (lambda: fit(validation_split=1.0), "leaves 0 for training and 10"),
    "both weights": (
        lambda: fit(sample_weight=np.ones(10), class_weight={0: 1.0}),
        "class_weight was given, but|class_weight and sample_weight were both given",
    ),
    "weights": (lambda: fit(sample_weight=np.ones((10, 2))), "a sample has losses of shape"),
    "optimizer": (lambda: linear()[0].compile(loss="mse"), "without an optimizer.*'rmsprop'"),
    "metric": (lambda: linear()[0].compile("sgd", "mse", metrics=["auc"]), "metric 'auc'.*use one of"),
    "losses": (lambda: linear()[0].compile("sgd", ["mse", "mse"]), "2 items in loss, but.*1 output"),
    "ops": (lambda: keras.ops.fft, "keras.ops has no function 'fft'"),
    "subclass": (lambda: keras.Model(), "without inputs and outputs"),
}  # fmt: skip


def fit(**options: Any) -> None:
    linear()[0].fit(X, Y, 5, verbose=0, **options)


@pytest.mark.parametrize("name", WRONG)
def test_arguments_without_effect_are_refused(name: str) -> None:
    call, words = WRONG[name]
    with pytest.raises(IPUTeachError, match=f"(?s){words}") as error:
        call()
    assert error.value.next_step


@pytest.mark.parametrize(
    "options", [{}, {"go_backwards": True}, {"use_bias": False}, {"activation": "relu"}]
)
def test_an_lstm_has_the_gradients_of_torch(options: dict[str, Any]) -> None:
    """PopLibs' LSTM computes the first three layers, and a scan the last one."""
    torch = pytest.importorskip("torch")
    x, wanted = numbers(4, 6, 3), numbers(4, 5)
    model = keras.Sequential([keras.Input((6, 3)), layers.LSTM(5, **options)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    weights = randomised(model)
    model.fit(x, wanted, batch_size=4, epochs=1, shuffle=False, verbose=0)
    moved = [w.astype(np.float64) - v for w, v in zip(model.get_weights(), weights, strict=True)]
    kernel, recurrent, *bias = (torch.tensor(w, requires_grad=True) for w in weights)
    activate = torch.relu if "activation" in options else torch.tanh
    h = c = torch.zeros(4, 5, dtype=torch.float64)
    for step in np.moveaxis(x, 1, 0)[:: -1 if "go_backwards" in options else 1]:
        gates = torch.tensor(step.astype(np.float64)) @ kernel + h @ recurrent + sum(bias)
        i, f, new, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * activate(new)
        h = o.sigmoid() * activate(c)
    ((h - torch.tensor(wanted)) ** 2).mean().backward()
    for change, value in zip(moved, (kernel, recurrent, *bias), strict=True):
        gradient = value.grad.numpy()
        error = np.abs(change / -0.1 - gradient).max()
        assert error <= 1e-5 * np.abs(gradient).max() + 1e-6
