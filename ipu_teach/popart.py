"""`ipu_teach.popart`: PopART's words, where its users look for them."""

from __future__ import annotations

from ipu_teach.frontends.popart import (
    SGD,
    Adam,
    AnchorReturnType,
    Builder,
    ConstSGD,
    DataFlow,
    DeviceManager,
    InferenceSession,
    PyStepIO,
    PyStepIOCallback,
    PyWeightsIO,
    SessionOptions,
    TensorInfo,
    TrainingSession,
)

__all__ = [
    "SGD",
    "Adam",
    "AnchorReturnType",
    "Builder",
    "ConstSGD",
    "DataFlow",
    "DeviceManager",
    "InferenceSession",
    "PyStepIO",
    "PyStepIOCallback",
    "PyWeightsIO",
    "SessionOptions",
    "TensorInfo",
    "TrainingSession",
]
