"""Datasets: samples in batches."""

from ipu_teach.frontends.keras.data import Dataset as Dataset
