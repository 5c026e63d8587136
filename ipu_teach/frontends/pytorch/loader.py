"""A subclass of PyTorch's `DataLoader` with the batches that a call of an executor needs."""

from __future__ import annotations

import inspect
from collections.abc import Sized

import torch

from ipu_teach.errors import ModelError, did_you_mean


def has_examples(value: object) -> bool:
    """Return whether a value can be used as a PyTorch dataset.

    A dataset is an `IterableDataset`, or an object with a length and a method `__getitem__`.
    """
    if isinstance(value, torch.utils.data.IterableDataset):
        return True
    try:
        return isinstance(value, Sized) and len(value) >= 0 and hasattr(value, "__getitem__")
    except TypeError:
        return False


class Loader(torch.utils.data.DataLoader):  # type: ignore[misc]
    """PyTorch's DataLoader with batches of `count` examples.

    `product` is a text for errors that explains how `count` is computed.

    :raises ModelError: for a `batch_sampler`, and for other arguments that torch's DataLoader does
        not accept; if there are fewer than `count` examples and no sampler; and if `drop_last` is
        False and the last batch would be incomplete.
    """

    def __init__(
        self,
        dataset: torch.utils.data.Dataset,
        count: int,
        product: str,
        drop_last: bool,
        **options: object,
    ) -> None:
        if options.get("batch_sampler") is not None:
            raise ModelError(f"""DataLoader was given a batch_sampler, but the size of a batch is
                computed from the options: {product}.
                next:  pass batch_size= instead, and sampler= for the order of the examples.""")
        example_count = len(dataset) if hasattr(dataset, "__len__") else None
        if example_count is not None and example_count % count and not drop_last:
            raise ModelError(f"""The dataset of the DataLoader has {example_count:,} examples, so
                the last batch would have {example_count % count:,} examples, but every batch must
                have {count:,}: {product}.
                next:  drop the last batch with drop_last=True, or choose a batch_size so that
                {example_count:,} is a multiple of this product.""")
        if example_count is not None and example_count < count and options.get("sampler") is None:
            raise ModelError(f"""The dataset of the DataLoader has only {example_count:,} examples,
                but every batch must have {count:,}: {product}.
                next:  choose a smaller batch_size, or use more examples.""")
        argument_names = inspect.signature(torch.utils.data.DataLoader.__init__).parameters
        for name in options:
            if name not in argument_names:
                raise ModelError(f"""DataLoader has no argument {name!r}.
                    next:  {did_you_mean(name, argument_names)}leave out {name}.""")
        try:
            super().__init__(dataset, batch_size=count, drop_last=drop_last, **options)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"torch's DataLoader raised {type(error).__name__}: {error}.",
                next_step="change the arguments of DataLoader as this message says.",
            ) from error
