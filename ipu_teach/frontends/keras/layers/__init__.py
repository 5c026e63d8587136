"""Keras layers, with the names and weights of Keras. Each layer adds its operations to a graph."""

from __future__ import annotations

from ipu_teach.frontends.keras.layers.activations import (
    Activation as Activation,
    LeakyReLU as LeakyReLU,
    ReLU as ReLU,
    Softmax as Softmax,
)
from ipu_teach.frontends.keras.layers.attention import MultiHeadAttention as MultiHeadAttention
from ipu_teach.frontends.keras.layers.base import Input as Input, Layer as Layer
from ipu_teach.frontends.keras.layers.core import (
    Dense as Dense,
    Dropout as Dropout,
    Embedding as Embedding,
    Flatten as Flatten,
    InputLayer as InputLayer,
    Permute as Permute,
    RepeatVector as RepeatVector,
    Reshape as Reshape,
)
from ipu_teach.frontends.keras.layers.images import (
    AveragePooling1D as AveragePooling1D,
    AveragePooling2D as AveragePooling2D,
    Conv1D as Conv1D,
    Conv2D as Conv2D,
    GlobalAveragePooling1D as GlobalAveragePooling1D,
    GlobalAveragePooling2D as GlobalAveragePooling2D,
    GlobalMaxPooling1D as GlobalMaxPooling1D,
    GlobalMaxPooling2D as GlobalMaxPooling2D,
    MaxPooling1D as MaxPooling1D,
    MaxPooling2D as MaxPooling2D,
)
from ipu_teach.frontends.keras.layers.merging import (
    Add as Add,
    Average as Average,
    Concatenate as Concatenate,
    Maximum as Maximum,
    Minimum as Minimum,
    Multiply as Multiply,
    Subtract as Subtract,
)
from ipu_teach.frontends.keras.layers.norms import (
    BatchNormalization as BatchNormalization,
    GroupNormalization as GroupNormalization,
    LayerNormalization as LayerNormalization,
)
from ipu_teach.frontends.keras.layers.recurrent import (
    GRU as GRU,
    LSTM as LSTM,
    SimpleRNN as SimpleRNN,
)

__all__ = [
    "Activation", "Add", "Average", "AveragePooling1D", "AveragePooling2D",
    "BatchNormalization", "Concatenate", "Conv1D", "Conv2D", "Dense", "Dropout", "Embedding",
    "Flatten", "GRU", "GlobalAveragePooling1D", "GlobalAveragePooling2D",
    "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GroupNormalization", "Input", "InputLayer",
    "LSTM", "Layer", "LayerNormalization", "LeakyReLU", "MaxPooling1D", "MaxPooling2D",
    "Maximum", "Minimum", "MultiHeadAttention", "Multiply", "Permute", "ReLU", "RepeatVector",
    "Reshape", "SimpleRNN", "Softmax", "Subtract",
]  # fmt: skip

# The kit's layers that a saved model may contain, by name.
LAYERS: dict[str, type[Layer]] = {
    name: globals()[name] for name in __all__ if name not in ("Input", "Layer")
}
