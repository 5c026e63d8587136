"""Keras' words: a program as its users write it, beside the same training in numpy."""

from __future__ import annotations

import io
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import plain_training
import pytest

from ipu_teach import HALF, datasets, keras
from ipu_teach._support import progress
from ipu_teach.errors import IPUTeachError, ModelError, ModelLoadError
from ipu_teach.keras import ipu
from ipu_teach.keras.layers import (
    Activation,
    Add,
    AveragePooling2D,
    BatchNormalization,
    Conv2D,
    Dense,
    Dropout,
    Flatten,
    GroupNormalization,
    Input,
    InputLayer,
    LayerNormalization,
    MaxPooling2D,
)


@pytest.fixture(autouse=True)
def strategy() -> Iterator[Any]:
    """A machine of few tiles, and weights that are the same each time."""
    keras.utils.set_random_seed(3)
    yield on(1)
    on(1)


def on(ipus: int) -> Any:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.ipu_model.tiles_per_ipu = 13
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


def digits(count: int) -> tuple[Any, Any]:
    found = datasets.digits()
    images = found.train_images[:count, 2:26:3, 2:26:3]
    return (images / 255).astype(np.float32), found.train_labels[:count].astype(np.int64)


X, Y = digits(160)
BATCHES = [(X[i : i + 8].reshape(8, 64), Y[i : i + 8]) for i in range(0, 160, 8)]


def perceptron(
    ipus: int = 1, steps: int | None = None, stages: bool = False, rate: float = 0.5
) -> Any:
    with on(ipus).scope():
        layers = [Dense(32, activation="relu", input_shape=(64,))]
        with ipu.keras.PipelineStage(int(stages)):
            layers.append(Dense(10, activation="softmax"))
        model = keras.Sequential(layers)
        model.compile(
            keras.optimizers.SGD(rate), "sparse_categorical_crossentropy", steps_per_execution=steps
        )
    return model


def run_of(model: Any, batch: int = 8) -> Any:
    """Return the compiled training step of a model, which `fit` would call."""
    return model._run("fit", batch)


def losses(model: Any, batch: int = 8) -> list[float]:
    """Return the loss of each update in an epoch of 160 samples, in their order.

    `fit` would give only the mean of an epoch.
    """
    count = len(BATCHES) * 8 // batch
    run = run_of(model, batch)
    run.write("rate", model.optimizer.learning_rate)
    per = run.micro_batches
    flat = X.reshape(-1, 64)
    found = []
    for start in range(0, count, per):
        part = slice(start * batch, (start + per) * batch)
        found += [*run(x=flat[part], y=Y[part])["loss"]]
    return np.asarray(found).reshape(len(found)).tolist()


def test_a_program_of_keras_with_its_import_changed_learns_as_numpy_does() -> None:
    tf = keras
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.ipu_model.tiles_per_ipu = 13
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        x_train, y_train = X.reshape(160, 8, 8, 1), tf.keras.utils.to_categorical(Y, 10)
        ds_train = tf.data.Dataset.from_tensor_slices((x_train, y_train))
        ds_train = ds_train.batch(8, drop_remainder=True).cache().repeat().prefetch(2)
        model = tf.keras.Sequential(
            [
                Conv2D(4, (3, 3), padding="same", input_shape=x_train.shape[1:]),
                BatchNormalization(),
                Activation("relu"),
                MaxPooling2D(pool_size=(2, 2)),
                Flatten(),
                Dense(10),
                Activation("softmax"),
            ]
        )
        model.compile(
            loss="categorical_crossentropy",
            optimizer=tf.keras.optimizers.SGD(learning_rate=0.1, momentum=0.5),
            metrics=["accuracy"],
        )
        before = model.get_weights()
        history = model.fit(ds_train, epochs=20, steps_per_epoch=1, verbose=0)
    kernel, bias, gamma, beta, _, _, w, c = before
    batches = [(a.reshape(8, 8, 8, 1), b) for a, b in BATCHES]
    expected = plain_training.network([kernel, bias, gamma, beta, w, c], batches, 0.1, 0.5)
    np.testing.assert_allclose(history.history["loss"], expected, 1e-5)
    assert min(history.history["accuracy"]) >= 0 and max(history.history["accuracy"]) > 0.5
    assert history.epoch == list(range(20)) and len(model.compiles) == 1


def test_losses_and_weights_are_those_of_numpy_on_any_machine() -> None:
    model = perceptron()
    before = model.get_weights()
    expected, after = plain_training.perceptron(before, BATCHES, 0.5)
    np.testing.assert_allclose(losses(model), expected, 1e-5)
    for mine, theirs in zip(model.get_weights(), after, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
    # 16 samples of an update, in two batches: one after the other, on two replicas, in a pipeline
    pairs = [(X[i : i + 16].reshape(16, 64), Y[i : i + 16]) for i in range(0, 160, 16)]
    expected, after = plain_training.perceptron(before, pairs, 0.5)
    accumulated, replicated = perceptron(1, 4), perceptron(2, 10)
    accumulated.set_gradient_accumulation_options(2, offload_weight_update_variables=True)
    for other in (accumulated, replicated):
        other.set_weights(before)
        each = np.reshape(losses(other), (-1, 2)).mean(1)
        np.testing.assert_allclose(each, expected, 1e-5)
        np.testing.assert_allclose(other.get_weights()[0], after[0], atol=1e-5)
    fours = [(X[i : i + 32].reshape(32, 64), Y[i : i + 32]) for i in range(0, 160, 32)]
    expected, after = plain_training.perceptron(before, fours, 0.5)
    pipeline = perceptron(2, stages=True)
    pipeline.set_pipeline_stage_assignment(pipeline.get_pipeline_stage_assignment())
    pipeline.set_pipelining_options(4, pipeline_schedule="Interleaved")
    pipeline.set_weights(before)
    np.testing.assert_allclose(np.reshape(losses(pipeline), (-1, 4)).mean(1), expected, 1e-5)
    assert pipeline.get_pipeline_stage_assignment() == [0, 1]


def test_other_layers_are_those_of_numpy() -> None:
    """A model that forks, by calls of its layers: it is asked, and not trained."""
    with on(1).scope():
        start = Input((6, 6, 4))
        one = Conv2D(4, 3, strides=2, padding="same", groups=2, name="conv")(start)
        two = AveragePooling2D(3, strides=2, padding="same")(start)
        both = Add()([one, GroupNormalization(2)(two)])
        model = keras.Model(start, LayerNormalization()(Activation("swish")(both)))
    x = np.random.default_rng(0).standard_normal((3, 6, 6, 4)).astype(np.float32)
    found = model.predict(x, batch_size=2)
    kernel, bias = model.get_weights()[:2]
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 1), (0, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))[:, ::2, ::2]
    parts = [
        np.einsum("nrcijk,jkio->nrco", windows[:, :, :, i : i + 2], kernel[..., i : i + 2])
        for i in (0, 2)
    ]
    one = np.concatenate(parts, -1) + bias
    inside = np.pad(np.ones((6, 6)), ((0, 1), (0, 1)))
    counts = np.lib.stride_tricks.sliding_window_view(inside, (3, 3))[::2, ::2].sum((2, 3))
    two = windows.sum((4, 5)) / counts[..., None]
    groups = two.reshape(3, 9, 2, 2)  # channels of a group are neighbours
    mean, var = groups.mean((1, 3), keepdims=True), groups.var((1, 3), keepdims=True)
    y = one + ((groups - mean) / np.sqrt(var + 1e-3)).reshape(two.shape)
    y = y / (1 + np.exp(-y))
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(found, y, atol=2e-5)


def test_what_was_learnt_of_batches_counts_when_the_model_is_asked() -> None:
    """The moving mean and variance of batch norm; dropout only while training."""
    with on(1).scope():
        model = keras.Sequential(
            [Input((64,)), BatchNormalization(momentum=0.5), Dropout(0.5), Dense(10), Dropout(0.9)]
        )
        model.compile("sgd", keras.losses.MeanSquaredError())
    x = X.reshape(160, 64)[:32]
    model.optimizer.learning_rate = 0.0
    model.fit(x, np.zeros((32, 10)), batch_size=16, epochs=1, shuffle=False, verbose=0)
    gamma, beta, mean, var, kernel, bias = model.get_weights()
    first, second = x[:16].astype(np.float64), x[16:].astype(np.float64)
    np.testing.assert_allclose(mean, first.mean(0) / 4 + second.mean(0) / 2, atol=1e-6)
    expected = 0.25 + first.var(0) / 4 + second.var(0) / 2
    np.testing.assert_allclose(var, expected, atol=1e-6)
    y = ((x - mean) / np.sqrt(var + 1e-3) * gamma + beta) @ kernel + bias
    np.testing.assert_allclose(model.predict(x, batch_size=5), y, atol=1e-5)
    assert model.evaluate(x, y, batch_size=16) < 1e-9


def test_halves_with_loss_scaling_follow_floats() -> None:
    """Weights and loss are FLOAT, and all between is HALF."""
    figures: list[Any] = []
    x = X[:64].reshape(64, 8, 8, 1)
    try:
        for policy in ("float32", "mixed_float16"):
            keras.mixed_precision.set_global_policy(policy)
            keras.utils.set_random_seed(3)
            with on(1).scope():
                layers = [Conv2D(4, 3, input_shape=(8, 8, 1)), BatchNormalization()]
                layers += [Activation("relu"), MaxPooling2D(), Flatten()]
                model = keras.Sequential([*layers, Dense(10), Activation("softmax")])
            sgd = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.2, 0.5))
            model.compile(sgd, "sparse_categorical_crossentropy")
            chances = model.predict(x, 32)
            figures.append((chances, model.fit(x, Y[:64], 32, 4, 0, shuffle=False).history["loss"]))
            assert {w.dtype for w in model.get_weights()} == {np.dtype(np.float32)}
        floats, halves = figures
        for one, other in zip(floats, halves, strict=True):
            np.testing.assert_allclose(other, one, 2**-9, 2**-9)
        assert halves[0].dtype == np.float16 and halves[1][3] < halves[1][0] - 0.3
        kinds = {v.dtype for op in model.graph("fit", 32).ops for v in op.outs if op.kind == "conv"}
        assert kinds == {HALF}
        last = Dense(3, input_shape=(4,), dtype="float32")
        assert last.dtype == "float32" != Dense(3).dtype
    finally:
        keras.mixed_precision.set_global_policy("float32")


def test_samples_come_in_batches_in_any_order() -> None:
    numbers = np.arange(10)
    data = keras.data.Dataset.from_tensor_slices((numbers, numbers * 2)).shuffle(100, 5)
    twice = [*data.batch(3, drop_remainder=True).repeat(2).batches()]
    assert all((b == 2 * a).all() for a, b in twice) and len(twice) == 6
    first, second = (np.concatenate([a for a, _ in part]) for part in (twice[:3], twice[3:]))
    assert len({*first}) == len({*second}) == 9 and [*first] != [*second]


def test_adam_and_squares_and_sigmoids() -> None:
    """Two losses, beside their gradients by hand."""
    x, goal = X.reshape(160, 64)[:32], (Y[:32, None] > 4).astype(np.float32)
    for loss in ("mse", "binary_crossentropy"):
        with on(1).scope():
            model = keras.Sequential([InputLayer((64,)), Dense(1, "sigmoid")])
            kind, decay = (keras.optimizers.Adam, 0.0), (keras.optimizers.AdamW, 0.004)
            make, less = kind if loss == "mse" else decay
            model.compile(make(0.05), loss, metrics=["accuracy"])
        w, b = (np.array(a, np.float64) for a in model.get_weights())
        history = model.fit(x, goal, 32, epochs=5, verbose=0).history
        m, v, expected = np.zeros(65), np.zeros(65), []
        for step in range(1, 6):
            p = 1 / (1 + np.exp(-(x @ w + b)))
            entropy = -(goal * np.log(p) + (1 - goal) * np.log(1 - p))
            expected.append(((p - goal) ** 2 if loss == "mse" else entropy).mean())
            dz = (2 * (p - goal) * p * (1 - p) if loss == "mse" else p - goal) / 32
            g = np.append(x.T @ dz, dz.sum())
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            rate = 0.05 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            move = rate * m / (np.sqrt(v) + 1e-7)
            w, b = ((1 - 0.05 * less) * a for a in (w, b))
            w, b = w - move[:64, None], b - move[64]
        np.testing.assert_allclose(history["loss"], expected, 1e-5)
        said = ((x @ w + b > 0) == (goal > 0.5)).mean()
        assert model.evaluate(x, goal, 16)[1] == pytest.approx(said)


SCORES = np.array([[0, 100, -100], [0, 17, -17], [3, -11, 2], [0, 0, 0]], np.float32)


def first_step(loss: Any, outputs: Any, activation: str, policy: str = "float32") -> Any:
    """The loss of the outputs, which are weights of the model, and its gradient at them."""
    keras.set_global_policy(policy)
    try:
        with on(1).scope():
            layers = [InputLayer((len(outputs),)), Dense(outputs.shape[1], use_bias=False)]
            model = keras.Sequential([*layers, Activation(activation)])
            model.compile(keras.optimizers.SGD(1.0), loss)
    finally:
        keras.set_global_policy("float32")
    model.set_weights([outputs])
    rows = np.eye(len(outputs), dtype=np.float32)

    def step(y: Any) -> tuple[float, Any]:
        found = model.fit(rows, y, len(outputs), verbose=0).history["loss"][0]
        return found, outputs - model.get_weights()[0]

    return step


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_losses_of_scores_are_exact_where_probabilities_are_0(policy: str, activation: str) -> None:
    wide = SCORES.astype(np.float64)
    logarithms = wide - wide.max(1, keepdims=True)
    logarithms -= np.log(np.exp(logarithms).sum(1, keepdims=True))
    hot = np.eye(3)[[0, 0, 1, 2]]
    sparse = keras.losses.SparseCategoricalCrossentropy
    dense = keras.losses.CategoricalCrossentropy
    for kind, y in ((sparse, np.array([0, 0, 1, 2])), (dense, hot.astype(np.float32))):
        loss = kind(from_logits=True) if activation == "linear" else kind()
        value, gradient = first_step(loss, SCORES, activation, policy)(y)
        assert value == pytest.approx(-(hot * logarithms).sum() / 4, rel=1e-6)
        tolerance = 1e-5 if policy == "float32" else 2**-10
        np.testing.assert_allclose(gradient, (np.exp(logarithms) - hot) / 4, 0, tolerance)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
@pytest.mark.parametrize("activation", ["sigmoid", "linear"])
def test_binary_losses_of_scores_are_exact_at_0_and_far_from_it(
    policy: str, activation: str
) -> None:
    z = np.array([[0.0], [0], [100], [-100], [17], [-17]], np.float32)
    y = np.array([[0.0], [1], [0], [1], [1], [0.25]], np.float32)
    loss = keras.losses.BinaryCrossentropy(True if activation == "linear" else None)
    value, gradient = first_step(loss, z, activation, policy)(y)
    expected = y * np.logaddexp(-z.astype(float), 0) + (1 - y) * np.logaddexp(z.astype(float), 0)
    assert value == pytest.approx(expected.mean(), rel=1e-6)
    tolerance = 1e-5 if policy == "float32" else 2**-10
    np.testing.assert_allclose(gradient, (np.tanh(z / 2) / 2 + 0.5 - y) / 6, 0, tolerance)


def test_losses_of_probabilities_are_clipped_as_keras_does() -> None:
    """At 0, at 1, and at a sum that is not 1."""
    p = np.array([[0, 1.0, 0], [0.25, 0.5, 0.25], [0.5, 0.5, 1], [1, 0, 0]], np.float32)
    hot, classes = np.eye(3, dtype=np.float32)[[0, 1, 2, 0]], np.array([0, 1, 2, 0])
    low, high = 1e-7, 1 - 1e-7
    clipped = np.clip(p.astype(float), low, high)
    step = first_step(keras.losses.SparseCategoricalCrossentropy(False), p, "linear")
    value, gradient = step(classes)
    shares = clipped / clipped.sum(1, keepdims=True)
    assert value == pytest.approx(-np.log(shares[range(4), classes]).mean(), rel=1e-5)
    assert np.isfinite(gradient).all()
    step = first_step(keras.losses.CategoricalCrossentropy(False), p, "linear")
    value, gradient = step(hot)
    shares = np.clip(p.astype(float) / p.sum(1, keepdims=True), low, high)
    assert value == pytest.approx(-np.log(shares[range(4), classes]).mean(), rel=1e-5)
    assert np.isfinite(gradient).all()
    step = first_step(keras.losses.BinaryCrossentropy(False), p[:, :1], "linear")
    yes = hot[:, :1]
    value, gradient = step(yes)
    c = clipped[:, :1]
    each = yes * np.log(c + low) + (1 - yes) * np.log(1 - c + low)
    assert value == pytest.approx(-each.mean(), rel=1e-5)
    slopes = -(yes / (c + low) - (1 - yes) / (1 - c + low)) / 4
    inside = (p[:, :1] >= low) & (p[:, :1] <= high)
    np.testing.assert_allclose(gradient, np.where(inside, slopes, 0), 1e-4)


@pytest.mark.parametrize(
    "optimizer",
    [
        keras.optimizers.SGD(0.5, momentum=0.9),
        keras.optimizers.Adam(0.5, beta_1=0.0),
        keras.optimizers.Adam(0.5, beta_1=0.0, beta_2=0.0, epsilon=0.25),
        keras.optimizers.Adam(0.5, epsilon=0.01),
    ],
)
def test_optimizers_are_keras_where_the_rate_changes_and_gradients_are_small(
    optimizer: Any,
) -> None:
    """The rate is in the velocity, and epsilon is that of Keras' formula, not of torch's."""
    x, goal = np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32)
    with on(1).scope():
        model = keras.Sequential([InputLayer((1,)), Dense(1, use_bias=False)])
        model.compile(optimizer, "mse")
    model.set_weights([np.full((1, 1), 1e-3, np.float32)])
    w, first, second, velocity = 1e-3, 0.0, 0.0, 0.0
    numbers = optimizer.numbers
    for step, rate in enumerate((0.5, 0.25, 0.125, 0.25), 1):
        optimizer.learning_rate = rate
        model.fit(x, goal, 1, verbose=0)
        g = 2 * w
        if optimizer.kind == "sgd":
            velocity = 0.9 * velocity - rate * g
            w += velocity
            continue
        b1, b2 = numbers["beta1"], numbers["beta2"]
        first, second = b1 * first + (1 - b1) * g, b2 * second + (1 - b2) * g * g
        corrected = rate * np.sqrt(1 - b2**step) / (1 - b1**step)
        w -= corrected * first / (np.sqrt(second) + numbers["eps"])
    assert model.get_weights()[0].item() == pytest.approx(w, rel=2e-5)


def test_callbacks_watch_a_figure() -> None:
    class Script(keras.callbacks.Callback):
        """Figures that a plan says, in the place of those that were found."""

        def __init__(self, told: Any, figures: list[float]) -> None:
            self.told, self.figures, self.rates = told, figures, list[float]()

        def on_train_begin(self, logs: Any = None) -> None:
            self.told.model = self.model
            self.told.on_train_begin()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.told.on_epoch_end(epoch, {"val_loss": self.figures[epoch]})
            self.rates.append(self.model.optimizer.learning_rate)

        def on_train_end(self, logs: Any = None) -> None:
            self.told.on_train_end()

    flat, figures = X.reshape(160, 64)[:16], [3.0, 2.0, 2.5, 2.4, 1.0, 1.0]
    model = perceptron()
    weights: list[Any] = []
    keep = keras.callbacks.Callback()
    keep.on_epoch_end = lambda *_: weights.append(model.get_weights()[0])  # type: ignore[method-assign]
    stop = keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True)
    history = model.fit(flat, Y[:16], 8, 6, verbose=0, callbacks=[Script(stop, figures), keep])
    assert history.epoch == [0, 1, 2, 3] and stop.stopped_epoch == 3
    np.testing.assert_array_equal(model.get_weights()[0], weights[1])
    assert np.abs(weights[3] - weights[1]).max() > 1e-4
    less = Script(keras.callbacks.ReduceLROnPlateau(factor=0.5, patience=2, min_lr=0.1), figures)
    model.fit(flat, Y[:16], 8, 6, verbose=0, callbacks=[less])
    assert less.rates == [0.5, 0.5, 0.5, 0.25, 0.25, 0.25]
    # read from the device: that the new rate was sent there is the subject
    assert model._current_run.read("rate") == 0.25 and len(model.compiles) == 1
    with pytest.raises(
        ModelError,
        match="(?s)monitor='val_loss', but the epochs have only the values loss.*validation_data",
    ):
        model.fit(flat, Y[:16], 8, verbose=0, callbacks=[keras.callbacks.EarlyStopping()])


def test_ctrl_c_ends_between_two_steps_and_the_weights_are_those_of_the_last() -> None:
    model = perceptron()
    before = model.get_weights()
    run = run_of(model)
    inner = run.engine.run

    def interrupted(*given: Any) -> Any:
        run.engine.run = inner
        signal.raise_signal(signal.SIGINT)  # before the step has begun
        return inner(*given)

    run.engine.run = interrupted
    flat = X.reshape(160, 64)
    with pytest.raises(KeyboardInterrupt):
        model.fit(flat, Y, 8, shuffle=False, verbose=0)
    _, after = plain_training.perceptron(before, BATCHES[:1], 0.5)
    np.testing.assert_allclose(model.get_weights()[0], after[0], atol=1e-6)
    model.fit(flat, Y, 8, shuffle=False, verbose=0)  # and it goes on
    _, after = plain_training.perceptron(before, BATCHES[:1] + BATCHES, 0.5)
    np.testing.assert_allclose(model.get_weights()[0], after[0], atol=1e-5)


def test_an_epoch_that_takes_long_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    class Slow(keras.callbacks.Callback):
        """Waits in the two runs of the second epoch."""

        runs = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.runs += 1
            words = {3: "epoch 2 of 2", 4: "epoch 2 of 2:  50%"}.get(self.runs, "")
            end = time.monotonic() + 10
            while words not in shown.getvalue() and time.monotonic() < end:
                time.sleep(0.01)

    shown = Screen()
    monkeypatch.setattr(progress, "AFTER", 0.02)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    streams = SimpleNamespace(stderr=shown, stdout=shown, modules=sys.modules)
    monkeypatch.setattr(progress, "sys", streams)
    perceptron().fit(X.reshape(160, 64)[:16], Y[:16], 8, 2, verbose=0, callbacks=[Slow()])
    assert re.search(r"epoch 2 of 2: +50%.*1/2 run", shown.getvalue())


def test_weights_are_saved_and_loaded(tmp_path: Path) -> None:
    model, other = perceptron(), perceptron()
    flat = X.reshape(160, 64)
    model.fit(flat, Y, 16, verbose=0)
    model.save_weights(tmp_path / "net.npz")
    other.evaluate(flat, Y, 16)
    other.load_weights(tmp_path / "net.npz")
    assert other.evaluate(flat, Y, 16) == model.evaluate(flat, Y, 16)
    with on(1).scope():
        third = keras.Sequential([Dense(10, input_shape=(64,))])
    with pytest.raises(ModelLoadError, match="weights of a model with the same layers"):
        third.load_weights(tmp_path / "net.npz")
    damaged = (tmp_path / "net.npz").read_bytes().replace(b'"variables"', b'"variaples"')
    (tmp_path / "net.npz").write_bytes(damaged)
    with pytest.raises(ModelLoadError, match="net.npz"):
        other.load_weights(tmp_path / "net.npz")


def test_what_a_model_says_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with on(1).scope():
        model = keras.Sequential([Dense(4, input_shape=(64,)), BatchNormalization()])
        model.add(Dense(10))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.summary()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'Model: "sequential"'
    assert [line.split() for line in lines[2:5]] == [
        ["dense", "(Dense)", "(None,", "4)", "260", "0"],
        ["batch_normalization", "(BatchNormalization)", "(None,", "4)", "16", "0"],
        ["dense_1", "(Dense)", "(None,", "10)", "50", "0"],
    ]
    assert lines[5] == "Total params: 326 (trainable 318, others 8)"
    flat = X.reshape(160, 64)
    model.fit(flat, Y, 16, epochs=2, validation_data=(flat, Y))
    said = capsys.readouterr().out
    assert re.fullmatch(r"(Epoch [12]/2: loss \d\.\d{4}, val_loss \d\.\d{4}\n){2}", said)
    model.evaluate(flat, Y, 8, verbose=1)
    assert capsys.readouterr().out == (
        "Compiled evaluate for batches of 8, 1 IPU with 13 tiles each.\n"
    )
    assert len(model.compiles) == 3 and model.report.total_cycles > 0


WRONG: dict[str, tuple[Any, str]] = {
    "outside": (
        lambda: keras.Sequential([Dense(1, input_shape=(2,))]).predict(np.ones((1, 2))),
        "outside of an IPUStrategy's scope.*in the block `with ipu",
    ),
    "before compile": (
        lambda: on(1).run(lambda: keras.Sequential([Dense(1, input_shape=(2,))])).fit(X, Y),
        r"fit\(\) was called before compile\(\)",
    ),
    "no layers": (lambda: keras.Sequential().summary(), "has no layers yet"),
    "no shape": (lambda: keras.Sequential([Dense(1)]), "dense, has no input shape"),
    "no layer": (lambda: keras.Sequential([Input((2,)), 3]), "A Sequential was given 3"),
    "activation": (lambda: Dense(1, "rely"), "did you mean 'relu'"),
    "initializer": (lambda: Dense(1, kernel_initializer="glorot")(Input((2,))), "glorot_uniform"),
    "loss": (
        lambda: perceptron().compile("sgd", "categorical"),
        "loss was given 'categorical', which",
    ),
    "no softmax": (
        lambda: (
            on(1).run(lambda: compiled(Dense(10, input_shape=(64,)))).fit(X.reshape(160, 64), Y, 16)
        ),
        "outputs are scores or probabilities.*end with a softmax.*from_logits=True",
    ),
    "shape": (
        lambda: perceptron().fit(X, Y, 16),
        r"'x' was given an array of shape \[16, 8, 8\], but a run needs \[16, 64\]",
    ),
    "class": (
        lambda: perceptron().fit(X.reshape(160, 64), Y + (Y == 9), 16, verbose=0),
        "'y' was given the number 10, which is not from 0 to 9",
    ),
    "over": (
        lambda: perceptron(1, 4).fit(X.reshape(160, 64)[:130], Y[:130], 8, verbose=0),
        r"given 130 samples for 16 batches and 2 samples more, but the batches must fill runs of 32 samples: "
        r"batch 8 \* steps 4 \* "
        r"accumulation 1 \* replicas 1.*as in x\[:128\].*drop_remainder=True",
    ),
    "no whole runs": (
        lambda: perceptron(2, 6).fit(X.reshape(160, 64), Y, 8, verbose=0),
        r"20 batches, but the batches must fill runs of 48 samples: batch 8 \* steps 3 \* accumulation 1 \* replicas 2.*x\[:144\]\.$",
    ),
    "too few": (
        lambda: perceptron().fit(X.reshape(160, 64), Y, 8, verbose=0, steps_per_epoch=21),
        "given 160 samples for 21 batches",
    ),
    "half a run": (
        lambda: perceptron(2, 3).fit(X.reshape(160, 64), Y, 8),
        r"steps_per_execution is 3, but it must be a multiple of the number of batches in an update, accumulation 1 \* replicas 2 = 2",
    ),
    "lengths": (
        lambda: perceptron().fit(X.reshape(160, 64), Y[:150], 8),
        "was given arrays of 160 and 150 samples",
    ),
    "category": (
        lambda: keras.utils.to_categorical([0, 3], 3),
        "class numbers from 0 to 3, but 3 classes have the numbers 0 to 2",
    ),
    "option": (lambda: setattr(ipu.config.IPUConfig(), "auto_select_ipu", 2), "auto_select_ipus"),
    "stages": (
        lambda: perceptron().set_pipeline_stage_assignment([0]),
        "given 1 stage for 2 layers",
    ),
    "more stages than IPUs": (
        lambda: on(1).run(staged).fit(X.reshape(160, 64), Y, 8),
        "has 2 stages, each on its own IPU, but its IPUStrategy has only 1 IPU",
    ),
    "dropout": (lambda: Dropout(1.0), "from 0 to below 1"),
    "policy": (
        lambda: keras.mixed_precision.set_global_policy("mixed_bfloat16"),
        "did you mean 'mixed_float16'",
    ),
    "scale": (
        lambda: keras.mixed_precision.LossScaleOptimizer("sgd", dynamic=True),
        "give dynamic=False, and a constant scale",
    ),
    "rate": (lambda: keras.optimizers.SGD(-1), "learning_rate was given -1"),
    "no batches": (
        lambda: perceptron().fit(keras.data.Dataset.from_tensor_slices((X, Y))),
        "The dataset is not divided into batches",
    ),
    "weights": (
        lambda: perceptron().set_weights([]),
        r"set_weights\(\) was given arrays of shapes \[\], but the model's weights have the shapes",
    ),
    "names": (
        lambda: keras.Sequential([Dense(1, name="a", input_shape=(2,)), Dense(1, name="a")]),
        "the same name. The names are a, a",
    ),
}


def staged() -> Any:
    model = compiled(Dense(4, "relu", input_shape=(64,)), Dense(10, "softmax"))
    model.set_pipeline_stage_assignment([0, 1])
    return model


def compiled(*layers: Any) -> Any:
    model = keras.Sequential(layers)
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_said(what: str) -> None:
    call, words = WRONG[what]
    with pytest.raises(IPUTeachError, match=f"(?s){words}") as error:
        call()
    assert error.value.next_step
