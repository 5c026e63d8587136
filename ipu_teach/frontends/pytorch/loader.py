"""PyTorch's `DataLoader`, with batches for a whole call of an executor."""

from __future__ import annotations

from typing import Any

import torch

from ipu_teach.errors import ModelError


class Loader(torch.utils.data.DataLoader):  # type: ignore[misc]
    """PyTorch's loader with batches of `count` examples, as `product` explains. Raises
    `ModelError` for data that end in a smaller batch, or that fill none."""

    def __init__(
        self, dataset: Any, count: int, product: str, drop_last: bool, **options: Any
    ) -> None:
        if options.get("batch_sampler") is not None:
            raise ModelError(f"""DataLoader was given a batch_sampler, and the size of a batch is
                {product}.
                next:  give batch_size, and sampler= for the order of the examples.""")
        examples = len(dataset) if hasattr(dataset, "__len__") else None
        if examples is not None and examples % count and not drop_last:
            raise ModelError(f"""{examples:,} examples end in a batch of {examples % count:,}, and
                each run takes {count:,}: {product}.
                next:  leave the rest out with drop_last=True, or choose a batch_size with which it
                comes out even.""")
        if examples is not None and examples < count and options.get("sampler") is None:
            raise ModelError(f"""{examples:,} examples make no batch, and each run takes {count:,}:
                {product}.
                next:  choose a smaller batch_size, or give more examples.""")
        super().__init__(dataset, batch_size=count, drop_last=drop_last, **options)
