"""PyTorch's `DataLoader`, with batches for a whole call of an executor."""

from __future__ import annotations

from typing import Any

import torch

from ipu_teach.errors import ModelError

class Loader(torch.utils.data.DataLoader):  # type: ignore[misc]
    """torch's loader of data, which checks how its data end. Raises `ModelError`."""

    def __init__(self, dataset: Any, whole: int, product: str, drop_last: bool, **how: Any) -> None:
        if not drop_last and hasattr(dataset, "__len__") and len(dataset) % whole:
            raise ModelError(f"""{len(dataset):,} examples end in a batch of
                {len(dataset) % whole:,}, and each run takes {whole:,}: {product}.
                next:  leave the rest out with drop_last=True, or choose a batch_size with which it
                comes out even.""")
        super().__init__(dataset, batch_size=whole, drop_last=drop_last, **how)
