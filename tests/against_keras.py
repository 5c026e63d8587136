"""Compare models of the Keras front end with Keras itself: python tests/against_keras.py [WORD ...]

This needs an environment with the kit, torch and Keras (`pip install keras`), which the tests do not
need. With words, only the cases whose names contain one of them run. For each case, the same program
builds and trains a model with both; predictions, epochs, evaluations and weights are compared.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "torch")
sys.path[:] = [path for path in sys.path if not path.endswith("site-packages/keras/src")]
TOLERANCE = 1e-5  # of the largest element
RNG = np.random.default_rng(0)
CASES: dict[str, Callable[[Any], Any]] = {}


def case(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES[function.__name__] = function
    return function


def floats(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(below: int, *shape: int, seed: int = 2) -> Any:
    return np.random.default_rng(seed).integers(0, below, shape)


def trained(K: Any, layers: list[Any], x: Any, y: Any, **options: Any) -> Any:
    """Return (model, the functions that train and question it) for a Sequential of layers."""
    model = K.Sequential(layers)
    return finish(K, model, x, y, **options)


def finish(
    K: Any,
    model: Any,
    x: Any,
    y: Any,
    loss: Any = "mse",
    optimizer: Any = None,
    compiled: Any = None,
    fit: Any = None,
    evaluate: Any = None,
) -> Any:
    model.compile(optimizer or K.optimizers.SGD(0.1), loss, **(compiled or {}))

    def train() -> dict[str, Any]:
        found: dict[str, Any] = {"before": model.predict(x, batch_size=4, verbose=0)}
        options = {"batch_size": 4, "epochs": 3, "shuffle": False, "verbose": 0} | (fit or {})
        found["history"] = model.fit(x, y, **options).history
        found["after"] = model.predict(x, batch_size=4, verbose=0)
        found["evaluate"] = model.evaluate(
            x, y, batch_size=4, verbose=0, return_dict=True, **(evaluate or {})
        )
        if not (compiled or {}).get("weighted_metrics"):  # Keras repeats metrics of equal names
            found["list"] = model.evaluate(x, y, batch_size=4, verbose=0, **(evaluate or {}))
        found["weights"] = model.get_weights()
        return found

    return model, train


def sequence_case(
    name: str, make: Callable[[Any], list[Any]], shape: Any, out: Any, **options: Any
) -> None:
    def run(K: Any) -> Any:
        x = (
            floats(8, *shape)
            if options.get("classes") is None
            else whole(options["classes"], 8, *shape)
        )
        rest = {k: v for k, v in options.items() if k != "classes"}
        return trained(K, [K.Input(shape), *make(K)], x, floats(8, *out, seed=3), **rest)

    CASES[name] = run


L = lambda K: K.layers  # noqa: E731
sequence_case("dense", lambda K: [L(K).Dense(4, "tanh"), L(K).Dense(2)], (3,), (2,))
for activation in (
    "relu",
    "sigmoid",
    "tanh",
    "gelu",
    "silu",
    "exponential",
    "softmax",
    "log_softmax",
    "softplus",
    "leaky_relu",
    "relu6",
    "elu",
    "linear",
    "swish",
):
    sequence_case(
        f"activation {activation}",
        lambda K, a=activation: [L(K).Dense(6, a), L(K).Dense(2)],
        (3,),
        (2,),
    )
sequence_case(
    "embedding",
    lambda K: [L(K).Embedding(7, 3), L(K).Flatten(), L(K).Dense(2)],
    (5,),
    (2,),
    classes=7,
)
sequence_case(
    "embedding gap",
    lambda K: [L(K).Embedding(7, 3), L(K).GlobalAveragePooling1D(), L(K).Dense(2)],
    (5,),
    (2,),
    classes=7,
)
for padding in ("valid", "same", "causal"):
    for stride, dilation in ((1, 1), (2, 1), (1, 2)):
        sequence_case(
            f"conv1d {padding} {stride} {dilation}",
            lambda K, p=padding, s=stride, d=dilation: [
                L(K).Conv1D(4, 3, strides=s, padding=p, dilation_rate=d, activation="relu"),
                L(K).GlobalMaxPooling1D(),
                L(K).Dense(2),
            ],
            (9, 2),
            (2,),
        )
sequence_case(
    "conv1d groups",
    lambda K: [L(K).Conv1D(4, 2, groups=2, use_bias=False), L(K).GlobalAveragePooling1D()],
    (6, 4),
    (4,),
)
sequence_case(
    "conv2d",
    lambda K: [
        L(K).Conv2D(3, (2, 3), padding="same", activation="relu"),
        L(K).MaxPooling2D(),
        L(K).Flatten(),
        L(K).Dense(2),
    ],
    (5, 6, 2),
    (2,),
)
for kind in ("GlobalAveragePooling2D", "GlobalMaxPooling2D"):
    sequence_case(
        kind,
        lambda K, k=kind: [L(K).Conv2D(3, 2, activation="relu"), getattr(L(K), k)(), L(K).Dense(2)],
        (4, 5, 2),
        (2,),
    )
    sequence_case(
        f"{kind} keepdims",
        lambda K, k=kind: [L(K).Conv2D(3, 2), getattr(L(K), k)(keepdims=True), L(K).Flatten()],
        (4, 5, 2),
        (3,),
    )
for kind in ("MaxPooling1D", "AveragePooling1D"):
    sequence_case(
        kind,
        lambda K, k=kind: [
            L(K).Conv1D(3, 2),
            getattr(L(K), k)(2, padding="same"),
            L(K).Flatten(),
            L(K).Dense(2),
        ],
        (8, 2),
        (2,),
    )
    sequence_case(
        f"{kind} 3 2",
        lambda K, k=kind: [
            L(K).Conv1D(3, 2),
            getattr(L(K), k)(3, 2),
            L(K).Flatten(),
            L(K).Dense(2),
        ],
        (8, 2),
        (2,),
    )
sequence_case(
    "reshape",
    lambda K: [
        L(K).Dense(6),
        L(K).Reshape((2, -1)),
        L(K).Permute((2, 1)),
        L(K).Dense(2),
        L(K).Flatten(),
    ],
    (3,),
    (6,),
)
sequence_case(
    "repeat", lambda K: [L(K).Dense(3), L(K).RepeatVector(4), L(K).SimpleRNN(2)], (3,), (2,)
)
sequence_case(
    "leaky",
    lambda K: [
        L(K).Dense(4),
        L(K).LeakyReLU(),
        L(K).Dense(4),
        L(K).LeakyReLU(negative_slope=0.1),
        L(K).Dense(2),
    ],
    (3,),
    (2,),
)
sequence_case(
    "relu layer",
    lambda K: [L(K).Dense(4), L(K).ReLU(), L(K).Dense(4), L(K).ReLU(1.0, 0.1), L(K).Dense(2)],
    (3,),
    (2,),
)
for axis in (-1, 1, 2, -2):
    sequence_case(
        f"softmax {axis}",
        lambda K, a=axis: [L(K).Dense(4), L(K).Softmax(axis=a), L(K).Flatten(), L(K).Dense(2)],
        (3, 5),
        (2,),
    )
sequence_case(
    "layer norm",
    lambda K: [
        L(K).Dense(4),
        L(K).LayerNormalization(),
        L(K).Dense(4),
        L(K).LayerNormalization(epsilon=1e-5, center=False),
        L(K).Dense(2),
    ],
    (3,),
    (2,),
)
sequence_case(
    "layer norm 3d",
    lambda K: [L(K).Dense(4), L(K).LayerNormalization(scale=False), L(K).Flatten(), L(K).Dense(2)],
    (3, 5),
    (2,),
)
sequence_case(
    "batch norm",
    lambda K: [L(K).Dense(4), L(K).BatchNormalization(momentum=0.7), L(K).Dense(2)],
    (3,),
    (2,),
)
sequence_case(
    "batch norm plain",
    lambda K: [
        L(K).Conv2D(4, 2),
        L(K).BatchNormalization(center=False, scale=False),
        L(K).Flatten(),
        L(K).Dense(2),
    ],
    (4, 4, 2),
    (2,),
)
sequence_case(
    "batch norm frozen",
    lambda K: [L(K).Dense(4), L(K).BatchNormalization(trainable=False), L(K).Dense(2)],
    (3,),
    (2,),
)
sequence_case(
    "group norm",
    lambda K: [L(K).Dense(4), L(K).GroupNormalization(2), L(K).Flatten(), L(K).Dense(2)],
    (3, 5),
    (2,),
)
sequence_case(
    "group norm -1",
    lambda K: [L(K).Conv2D(4, 2), L(K).GroupNormalization(-1), L(K).Flatten(), L(K).Dense(2)],
    (4, 4, 2),
    (2,),
)
for kind in ("SimpleRNN", "LSTM", "GRU"):
    for label, options in {
        "": {},
        " sequences": {"return_sequences": True},
        " backwards": {"go_backwards": True, "return_sequences": True},
        " backwards last": {"go_backwards": True},
        " unroll": {"unroll": True, "return_sequences": True},
        " no bias": {"use_bias": False},
        " relu": {"activation": "relu"},
    }.items():
        sequence_case(
            f"{kind}{label}",
            lambda K, k=kind, o=options: [getattr(L(K), k)(3, **o), L(K).Flatten(), L(K).Dense(2)],
            (5, 2),
            (2,),
        )
sequence_case(
    "GRU reset before",
    lambda K: [
        L(K).GRU(3, reset_after=False, return_sequences=True),
        L(K).GRU(2, recurrent_activation="tanh"),
        L(K).Dense(2),
    ],
    (5, 2),
    (2,),
)
sequence_case("LSTM one step", lambda K: [L(K).LSTM(3, unit_forget_bias=False)], (1, 2), (3,))
sequence_case(
    "LSTM embedding",
    lambda K: [L(K).Embedding(9, 4), L(K).LSTM(3), L(K).Dense(2)],
    (6,),
    (2,),
    classes=9,
    optimizer="adam",
)
sequence_case("adamw", lambda K: [L(K).Dense(2)], (3,), (2,), optimizer="adamw")
sequence_case("mae", lambda K: [L(K).Dense(2)], (3,), (2,), loss="mae")
sequence_case("huber", lambda K: [L(K).Dense(2)], (3,), (2,), loss="huber")
sequence_case(
    "incomplete batch",
    lambda K: [L(K).Dense(2)],
    (3,),
    (2,),
    fit={"batch_size": 3},
    optimizer="adam",
    compiled={"metrics": ["mae"]},
)
sequence_case("large batch", lambda K: [L(K).Dense(2)], (3,), (2,), fit={"batch_size": 30})
sequence_case("epochs 0", lambda K: [L(K).Dense(2)], (3,), (2,), fit={"epochs": 0})
sequence_case(
    "weights",
    lambda K: [L(K).Dense(2)],
    (3,),
    (2,),
    fit={"sample_weight": floats(8) ** 2},
    compiled={"metrics": ["mse"], "weighted_metrics": ["mae", "mse"]},
)
sequence_case(
    "weights zero",
    lambda K: [L(K).Dense(2)],
    (3,),
    (2,),
    fit={"sample_weight": np.zeros(8)},
    compiled={"metrics": ["mse"], "weighted_metrics": ["mae"]},
    evaluate={"sample_weight": np.zeros(8)},
)
sequence_case(
    "weights temporal",
    lambda K: [L(K).Dense(2)],
    (4, 3),
    (4, 2),
    fit={"sample_weight": floats(8, 4) ** 2},
    compiled={"weighted_metrics": ["mae"]},
)
sequence_case(
    "weights column",
    lambda K: [L(K).Dense(2)],
    (3,),
    (2,),
    fit={"sample_weight": floats(8, 1) ** 2},
)
sequence_case(
    "validation",
    lambda K: [L(K).Dense(2)],
    (3,),
    (2,),
    fit={"validation_split": 0.3, "epochs": 4, "validation_freq": 2},
    compiled={"metrics": ["mae"]},
)
sequence_case(
    "validation data",
    lambda K: [L(K).Dense(2)],
    (3,),
    (2,),
    fit={
        "validation_data": (floats(5, 3), floats(5, 2)),
        "validation_batch_size": 2,
        "validation_steps": 2,
    },
    compiled={"metrics": ["mae"]},
)
sequence_case(
    "validation weights",
    lambda K: [L(K).Dense(2)],
    (3,),
    (2,),
    fit={"validation_data": (floats(5, 3), floats(5, 2), floats(5) ** 2)},
    compiled={"metrics": ["mae"], "weighted_metrics": ["mae"]},
)
sequence_case(
    "steps per epoch",
    lambda K: [L(K).Dense(2)],
    (3,),
    (2,),
    fit={"steps_per_epoch": 1, "epochs": 5},
)
sequence_case(
    "initial epoch", lambda K: [L(K).Dense(2)], (3,), (2,), fit={"initial_epoch": 2, "epochs": 5}
)


@case
def classes_sparse(K: Any) -> Any:
    metrics = [
        "accuracy",
        K.metrics.SparseTopKCategoricalAccuracy(k=2),
        "sparse_categorical_accuracy",
        "sparse_categorical_crossentropy",
    ]
    return trained(
        K,
        [K.Input((3,)), L(K).Dense(4, activation="softmax")],
        floats(12, 3),
        whole(4, 12),
        loss="sparse_categorical_crossentropy",
        compiled={"metrics": metrics},
        fit={"class_weight": {0: 2.0, 2: 0.5}},
    )


@case
def classes_sparse_column(K: Any) -> Any:
    return trained(
        K,
        [K.Input((3,)), L(K).Dense(4, activation="softmax")],
        floats(12, 3),
        whole(4, 12, 1).astype(np.float32),
        loss="sparse_categorical_crossentropy",
        compiled={"metrics": ["acc"]},
    )


@case
def classes_sequence(K: Any) -> Any:
    return trained(
        K,
        [K.Input((5, 3)), L(K).GRU(3, return_sequences=True), L(K).Dense(4, activation="softmax")],
        floats(12, 5, 3),
        whole(4, 12, 5),
        loss="sparse_categorical_crossentropy",
        compiled={"metrics": ["accuracy"], "weighted_metrics": ["accuracy"]},
        fit={"sample_weight": floats(12, 5) ** 2},
    )


@case
def classes_hot(K: Any) -> Any:
    y = K.utils.to_categorical(whole(6, 12), 6)
    loss = K.losses.CategoricalCrossentropy(label_smoothing=0.1)
    return trained(
        K,
        [K.Input((3,)), L(K).Dense(6, activation="softmax")],
        floats(12, 3),
        y,
        loss=loss,
        compiled={
            "metrics": [
                "accuracy",
                "categorical_accuracy",
                "top_k_categorical_accuracy",
                "mse",
                "mae",
                "categorical_crossentropy",
            ],
            "weighted_metrics": ["accuracy"],
        },
        fit={"class_weight": {0: 2.0, 2: 0.5, 9: 4.0}},
    )


@case
def classes_binary(K: Any) -> Any:
    return trained(
        K,
        [K.Input((3,)), L(K).Dense(1, activation="sigmoid")],
        floats(12, 3),
        whole(2, 12),
        loss="binary_crossentropy",
        compiled={
            "metrics": [
                "accuracy",
                "binary_accuracy",
                K.metrics.BinaryAccuracy(threshold=0.3, name="low"),
                "mse",
            ]
        },
        fit={"class_weight": {0: 2.0, 1: 0.5}},
    )


@case
def binary_soft(K: Any) -> Any:
    y = np.random.default_rng(5).choice([0, 0.3, 1], (12, 2)).astype(np.float32)
    return trained(
        K,
        [K.Input((3,)), L(K).Dense(2, activation="sigmoid")],
        floats(12, 3),
        y,
        loss=K.losses.BinaryCrossentropy(label_smoothing=0.2),
        compiled={"metrics": ["binary_accuracy"]},
        fit={"sample_weight": floats(12) ** 2},
    )


@case
def top_k_ties(K: Any) -> Any:
    x = np.array([[1, 1, 1, 0], [2, 1, 1, 1], [0, 0, 0, 0]] * 4, np.float32)
    return trained(
        K,
        [K.Input((4,)), L(K).Activation("linear")],
        x,
        whole(4, 12),
        loss=K.losses.SparseCategoricalCrossentropy(from_logits=True),
        compiled={
            "metrics": [
                K.metrics.SparseTopKCategoricalAccuracy(k=k, name=f"k{k}") for k in (1, 2, 3, 4)
            ]
            + ["accuracy"]
        },
        fit={"epochs": 0},
    )


@case
def several_outputs(K: Any) -> Any:
    start = K.Input((3,), name="in")
    h = L(K).Dense(4, "tanh")(start)
    one, two = L(K).Dense(2, name="one")(h), L(K).Dense(3, activation="softmax", name="two")(h)
    model = K.Model(start, [one, two])
    return finish(
        K,
        model,
        floats(10, 3),
        [floats(10, 2, seed=4), whole(3, 10)],
        loss=["mse", "sparse_categorical_crossentropy"],
        compiled={
            "loss_weights": [0.5, 2.0],
            "metrics": [["mae"], ["accuracy"]],
            "weighted_metrics": [["mae"], []],
        },
        fit={"sample_weight": [floats(10) ** 2, floats(10, seed=9) ** 2], "validation_split": 0.2},
    )


@case
def outputs_by_name(K: Any) -> Any:
    start = K.Input((3,), name="in")
    h = L(K).Dense(4, "tanh")(start)
    one, two = L(K).Dense(2, name="one")(h), L(K).Dense(3, activation="softmax", name="two")(h)
    model = K.Model(inputs=start, outputs=[one, two])
    y = {"one": floats(10, 2, seed=4), "two": whole(3, 10)}
    return finish(
        K,
        model,
        floats(10, 3),
        y,
        loss={"one": "mse", "two": "sparse_categorical_crossentropy"},
        compiled={"loss_weights": {"one": 0.5, "two": 2.0}, "metrics": {"two": ["accuracy"]}},
    )


@case
def inputs_and_merging(K: Any) -> Any:
    a, b = K.Input((3,), name="a"), K.Input((5,), dtype="int32", name="b")
    e = L(K).Embedding(6, 3)(b)
    s = L(K).GlobalAveragePooling1D()(e)
    merged = L(K).Concatenate()(
        [
            a,
            s,
            L(K).Multiply()([a, s]),
            L(K).Average()([a, s]),
            L(K).Subtract()([a, s]),
            L(K).Maximum()([a, s]),
            L(K).Minimum()([a, s]),
            L(K).Add()([a, s, s]),
        ]
    )
    model = K.Model([a, b], L(K).Dense(2)(merged))
    return finish(K, model, [floats(10, 3), whole(6, 10, 5)], floats(10, 2, seed=8))


@case
def inputs_by_name(K: Any) -> Any:
    a, b = K.Input((2, 3), name="a"), K.Input((4, 3), name="b")
    merged = L(K).Concatenate(axis=-2)([a, b])
    model = K.Model([a, b], L(K).Dense(2)(L(K).Flatten()(merged)))
    return finish(
        K, model, {"a": floats(10, 2, 3), "b": floats(10, 4, 3, seed=6)}, floats(10, 2, seed=8)
    )


@case
def states(K: Any) -> Any:
    a, b = K.Input((4, 3)), K.Input((5, 3))
    _, h, c = L(K).LSTM(3, return_state=True)(a)
    y = L(K).LSTM(3, return_sequences=True)(b, initial_state=[h, c])
    _, g = L(K).GRU(3, return_state=True)(y)
    z = L(K).SimpleRNN(3)(b, initial_state=g)
    model = K.Model([a, b], L(K).Dense(2)(L(K).Concatenate()([z, g])))
    return finish(K, model, [floats(10, 4, 3), floats(10, 5, 3, seed=6)], floats(10, 2, seed=8))


@case
def attention(K: Any) -> Any:
    a = K.Input((4, 3))
    b = K.Input((5, 2))
    one = L(K).MultiHeadAttention(2, 3)(a, a)
    two = L(K).MultiHeadAttention(2, 3, value_dim=2, output_shape=4, use_bias=False)(a, b)
    y = L(K).Concatenate()([L(K).GlobalAveragePooling1D()(t) for t in (one, two)])
    model = K.Model([a, b], L(K).Dense(2)(y))
    return finish(K, model, [floats(10, 4, 3), floats(10, 5, 2, seed=6)], floats(10, 2, seed=8))


@case
def attention_causal(K: Any) -> Any:
    a = K.Input((4, 3))
    y, scores = L(K).MultiHeadAttention(2, 3)(
        a, a, use_causal_mask=True, return_attention_scores=True
    )
    y = L(K).LayerNormalization()(L(K).Add()([a, y]))
    model = K.Model(
        a, [L(K).Dense(2, name="d")(L(K).Flatten()(y)), L(K).Reshape((-1,), name="r")(scores)]
    )
    return finish(
        K,
        model,
        floats(10, 4, 3),
        [floats(10, 2, seed=8), floats(10, 32)],
        optimizer=K.optimizers.SGD(0.02),
    )


@case
def shared_layer(K: Any) -> Any:
    a, b = K.Input((3,)), K.Input((3,))
    dense = L(K).Dense(3, "tanh")
    model = K.Model([a, b], L(K).Dense(2)(L(K).Subtract()([dense(a), dense(b)])))
    return finish(K, model, [floats(10, 3), floats(10, 3, seed=6)], floats(10, 2, seed=8))


@case
def custom_layers(K: Any) -> Any:
    ops = K.ops

    class Linear(K.layers.Layer):
        def __init__(self, units: int = 4, **options: Any) -> None:
            super().__init__(**options)
            self.units = units

        def build(self, input_shape: Any) -> None:
            self.w = self.add_weight(
                shape=(input_shape[-1], self.units), initializer="random_normal", trainable=True
            )
            self.b = self.add_weight(shape=(self.units,), initializer="zeros", trainable=True)
            self.gain = self.add_weight(shape=(), initializer="ones", trainable=False)

        def call(self, inputs: Any) -> Any:
            return ops.matmul(inputs, self.w) * self.gain + self.b

    class Block(K.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.first = Linear(5)
            self.second = K.layers.Dense(3)

        def call(self, inputs: Any, training: Any = None) -> Any:
            x = ops.tanh(self.first(inputs))
            x = self.second(x) * 2 - 1
            mean = ops.mean(x, axis=-1, keepdims=True)
            return ops.concatenate(
                [ops.relu(x) - mean, ops.exp(-ops.square(x)), x[:, :1] / 2], axis=-1
            )

    def loss(y_true: Any, y_pred: Any) -> Any:
        return ops.mean(ops.sqrt(1 + ops.square(y_true - y_pred)), axis=-1)

    def metric(y_true: Any, y_pred: Any) -> Any:
        return ops.max(ops.abs(y_true - y_pred), axis=-1)

    return trained(
        K,
        [K.Input((3,)), Block(), K.layers.Dense(2)],
        floats(8, 3),
        floats(8, 2, seed=3),
        loss=loss,
        compiled={"metrics": [metric]},
    )


@case
def callbacks(K: Any) -> Any:
    C = K.callbacks
    listed = [
        C.LearningRateScheduler(lambda epoch, lr: lr * 0.9),
        C.ReduceLROnPlateau("loss", 0.5, 1, min_delta=0.3, cooldown=1),
        C.EarlyStopping("val_loss", patience=2, restore_best_weights=True, min_delta=0.2),
    ]
    return trained(
        K,
        [K.Input((3,)), L(K).Dense(2)],
        floats(8, 3),
        floats(8, 2, seed=3),
        fit={"callbacks": listed, "epochs": 12, "validation_split": 0.25},
    )


@case
def on_batches(K: Any) -> Any:
    x, y = floats(8, 3), floats(8, 2, seed=3)
    model, _ = trained(
        K, [K.Input((3,)), L(K).Dense(2)], x, y, compiled={"metrics": ["mae"]}, optimizer="adam"
    )

    def train() -> dict[str, Any]:
        found: dict[str, Any] = {
            "one": model.train_on_batch(x, y),
            "two": model.train_on_batch(x[:3], y[:3], sample_weight=np.arange(3.0)),
        }
        found["dict"] = model.test_on_batch(x[:5], y[:5], return_dict=True)
        found["predict"] = model.predict_on_batch(x[:1])
        found["weights"] = model.get_weights()
        return found

    return model, train


@case
def generators(K: Any) -> Any:
    x, y = floats(12, 3), floats(12, 2, seed=3)
    model, _ = trained(K, [K.Input((3,)), L(K).Dense(2)], x, y, compiled={"metrics": ["mae"]})

    class Batches(K.utils.PyDataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            part = slice(index * 5, index * 5 + 5)
            return x[part], y[part], np.arange(len(x[part])) + 0.5

    def endless() -> Any:
        while True:
            for i in range(0, 12, 5):
                yield x[i : i + 5], y[i : i + 5]

    def train() -> dict[str, Any]:
        found: dict[str, Any] = {
            "sequence": model.fit(
                Batches(), epochs=2, shuffle=False, verbose=0, validation_data=Batches()
            ).history
        }
        found["generator"] = model.fit(endless(), epochs=2, steps_per_epoch=4, verbose=0).history
        found["once"] = model.fit(
            ((x[i : i + 4], y[i : i + 4]) for i in (0, 4, 8)), verbose=0
        ).history
        found["evaluate"] = model.evaluate(Batches(), verbose=0)
        found["evaluate steps"] = model.evaluate(endless(), steps=2, verbose=0)
        found["predict"] = model.predict(Batches(), verbose=0)
        found["weights"] = model.get_weights()
        return found

    return model, train


def differences(path: str, ours: Any, theirs: Any) -> list[str]:
    """Return the places where two results differ."""
    if isinstance(theirs, dict):
        if set(ours) != set(theirs):
            return [f"{path}: the names {sorted(ours)} and {sorted(theirs)}"]
        return [
            line
            for name in theirs
            for line in differences(f"{path}.{name}", ours[name], theirs[name])
        ]
    if isinstance(theirs, list) and theirs and not np.isscalar(theirs[0]):
        if len(ours) != len(theirs):
            return [f"{path}: {len(ours)} and {len(theirs)} items"]
        pairs = zip(ours, theirs, strict=True)
        return [
            line for i, (a, b) in enumerate(pairs) for line in differences(f"{path}[{i}]", a, b)
        ]
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if a.shape != b.shape:
        return [f"{path}: the shapes {a.shape} and {b.shape}"]
    scale = max(float(np.abs(b).max(initial=0)), 1e-30)
    gap = float(np.abs(a - b).max(initial=0)) / scale
    gap = np.inf if np.isnan(a).any() != np.isnan(b).any() else gap
    return [f"{path}: {gap:.1e} of the largest element"] if not gap <= TOLERANCE else []


def compare(name: str, ours: Any, theirs: Any) -> list[str]:
    """Train the models of both with the same weights, and return the differences."""
    model, train = CASES[name](ours)
    peer, train_peer = CASES[name](theirs)
    weights = model.get_weights()
    rng = np.random.default_rng(7)
    shapes = [w.shape for w in peer.get_weights()]
    if [w.shape for w in weights] != shapes:
        return [f"weights: the shapes {[w.shape for w in weights]} and {shapes}"]
    weights = [
        (np.abs(w) + 0.1 if (w == 1).all() else w + 0.1 * rng.standard_normal(w.shape)).astype(
            np.float32
        )
        for w in weights
    ]
    model.set_weights(weights)
    peer.set_weights(weights)
    return differences("", train(), train_peer())


def main() -> None:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import keras as theirs

    from ipu_teach import keras as ours
    from ipu_teach.keras import ipu

    config = ipu.config.IPUConfig()
    config.ipu_model.tiles_per_ipu = 8
    config.configure_ipu_system()
    failed = 0
    names = [n for n in CASES if not sys.argv[1:] or any(word in n for word in sys.argv[1:])]
    with ipu.ipu_strategy.IPUStrategy().scope():
        for name in names:
            try:
                lines = compare(name, ours, theirs)
            except Exception as error:
                if "-x" in sys.argv:
                    raise
                lines = [f"{type(error).__name__}: {str(error)[:600]}"]
            failed += bool(lines)
            print(f"{'differs' if lines else 'equal'}  {name}", *lines, sep="\n    ", flush=True)
    print(f"{len(names) - failed} of {len(names)} equal, Keras {theirs.__version__}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
