"""Keras' words: a program as its users write it, beside the same training in numpy."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import plain_training
import pytest

from ipu_teach import datasets, keras
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


def perceptron(ipus: int = 1, steps: int | None = None, stages: bool = False, rate: float = 0.5) -> Any:
    with on(ipus).scope():
        model = keras.Sequential([
            Dense(32, activation="relu", input_shape=(64,)), Dense(10, activation="softmax")
        ])
        if stages:
            model.set_pipeline_stage_assignment([0, 1])
        model.compile(keras.optimizers.SGD(rate), "sparse_categorical_crossentropy", [], steps)
    return model


def losses(model: Any, batch: int = 8) -> list[float]:
    """Of each update of 160 samples in their order: an epoch of each."""
    count = len(BATCHES) * 8 // batch
    run = model._run("fit", batch)
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
        ds_train = ds_train.batch(8, drop_remainder=True).repeat()
        model = tf.keras.Sequential([
            Conv2D(4, (3, 3), padding="same", input_shape=x_train.shape[1:]),
            BatchNormalization(),
            Activation("relu"),
            MaxPooling2D(pool_size=(2, 2)),
            Flatten(),
            Dense(10),
            Activation("softmax"),
        ])
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
    pipeline.set_pipelining_options(4, pipeline_schedule="Interleaved")
    pipeline.set_weights(before)
    np.testing.assert_allclose(np.reshape(losses(pipeline), (-1, 4)).mean(1), expected, 1e-5)
    assert pipeline.get_pipeline_stage_assignment() == [0, 1]
