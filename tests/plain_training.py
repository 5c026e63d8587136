"""Trainings in numpy and float64, with gradients by hand; tests compare the frontends with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def softmax_loss(z: Any, labels: Any) -> tuple[float, Any]:
    """Return the mean cross-entropy of `z` [samples, classes], and its gradient by `z`."""
    e = np.exp(z - z.max(1, keepdims=True))
    probabilities = e / e.sum(1, keepdims=True)
    rows = np.arange(len(z))
    loss = -np.log(probabilities[rows, labels]).mean()
    probabilities[rows, labels] -= 1
    return loss, probabilities / len(z)


def perceptron(weights: Any, batches: Any, rate: float) -> tuple[list[float], list[Any]]:
    """Return the losses and the last weights of two layers with a ReLU between them.

    Each batch is a step of gradient descent. `weights` are w [in, out] and bias of each layer.
    """
    a, b, c, d = (np.array(w, np.float64) for w in weights)
    losses = []
    for x, labels in batches:
        h = np.maximum(x.astype(np.float64) @ a + b, 0)
        loss, dz = softmax_loss(h @ c + d, labels)
        dh = (dz @ c.T) * (h > 0)
        c, d = c - rate * h.T @ dz, d - rate * dz.sum(0)
        a, b = a - rate * x.T @ dh, b - rate * dh.sum(0)
        losses.append(loss)
    return losses, [a, b, c, d]


def network(weights: Any, batches: Any, rate: float, momentum: float) -> list[float]:
    """Return the losses of a small convolutional network, trained with momentum.

    Its layers: a 3 x 3 convolution with padding, batch norm, ReLU, 2 x 2 max pooling and a dense
    layer. Channels are last.
    """
    p = [np.array(w, np.float64) for w in weights]
    v = [np.zeros_like(w) for w in p]
    losses = []
    for x, labels in batches:
        k, bias, gamma, beta, w, c = p
        n, rows, columns, _ = x.shape
        windows = sliding_window_view(
            np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (1, 2)
        )  # [n, rows, columns, channels, 3, 3]
        y = np.einsum("nrcijk,jkio->nrco", windows, k) + bias
        axes, m = (0, 1, 2), n * rows * columns
        inverse = 1 / np.sqrt(y.var(axes) + 1e-3)
        white = (y - y.mean(axes)) * inverse
        z = np.maximum(white * gamma + beta, 0)
        four = z.reshape(n, rows // 2, 2, columns // 2, 2, -1).transpose(0, 1, 3, 5, 2, 4)
        four = four.reshape(*four.shape[:4], 4)
        flat = four.max(-1).reshape(n, -1)
        loss, dout = softmax_loss(flat @ w + c, labels)
        first = np.eye(4)[four.argmax(-1)] * (dout @ w.T).reshape(*four.shape[:4], 1)
        dz = first.reshape(*four.shape[:4], 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(z.shape)
        dz = dz * (z > 0)
        dwhite = dz * gamma
        dy = inverse / m * (m * dwhite - dwhite.sum(axes) - white * (dwhite * white).sum(axes))
        gradients = [
            np.einsum("nrcijk,nrco->jkio", windows, dy),
            dy.sum(axes),
            (dz * white).sum(axes),
            dz.sum(axes),
            flat.T @ dout,
            dout.sum(0),
        ]
        v = [momentum * old + gradient for old, gradient in zip(v, gradients, strict=True)]
        p = [w - rate * step for w, step in zip(p, v, strict=True)]
        losses.append(loss)
    return losses
