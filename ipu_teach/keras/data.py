"""Datasets: sequences of training examples that are grouped into batches."""

from ipu_teach.frontends.keras.data import Dataset as Dataset
