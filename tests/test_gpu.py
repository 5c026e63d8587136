"""The engine on a GPU: its path through CuPy on a stand-in everywhere, and on the device itself where there is one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from random import Random
from types import ModuleType
from typing import Any

import fake_cupy
import numpy as np
import pytest
from codelets import (
    AddToParts,
    AllPositive,
    Axpy,
    Counter,
    DotProduct,
    FlipWhereNegative,
    Gather,
    HalfScale,
    IntegerMix,
    Largest,
    PairwiseSum,
    Softmax,
    Sum,
    SumOfParts,
    Swap,
    random_codelet,
)
from graphs import Placed, Space, add, contents, differences, random_copy, random_superstep, regions, same_bits
from graphs import SHAPES  # isort: skip
from hypothesis import given, settings
from hypothesis import strategies as st
from test_exact import DEVICE, RANDOMLY, cut

from ipu_teach import FLOAT, HALF, INT, Engine, Graph, InOut, Input, Output, Vector, Vertex, cli
from ipu_teach.engine import backend
from ipu_teach.errors import InvalidOptionError
from ipu_teach.program import Copy, Execute, If, Repeat, RepeatWhileTrue, Sequence
from ipu_teach.types import Array
