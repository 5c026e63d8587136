"""PyTorch's `DataLoader`, with batches that are large enough for a call of an executor."""

from __future__ import annotations

import inspect
from collections.abc import Sized

import torch

from ipu_teach.errors import ModelError, did_you_mean


def has_examples(value: object) -> bool:
    """Return whether a value can be used as a dataset of PyTorch.

    It is an `IterableDataset`, or has a length and a method `__getitem__`.
    """
    if isinstance(value, torch.utils.data.IterableDataset):
        return True
    try:
        return isinstance(value, Sized) and len(value) >= 0 and hasattr(value, "__getitem__")
    except TypeError:
        return False


class Loader(torch.utils.data.DataLoader):  # type: ignore[misc]
    """PyTorch's DataLoader, with batches of `count` examples.

    `product` is a text that explains this number in errors. Raises `ModelError` for a
    `batch_sampler` and for unknown arguments. It also raises `ModelError` if the last batch would
    be incomplete without `drop_last`, and if there are fewer examples than a batch has.
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
            raise ModelError(f"""DataLoader was given a batch_sampler, but the options determine the
                size of a batch, {product}.
                next:  give batch_size, and sampler= for the order of the examples.""")
        example_count = len(dataset) if hasattr(dataset, "__len__") else None
        if example_count is not None and example_count % count and not drop_last:
            raise ModelError(f"""{example_count:,} examples end in a batch of
                {example_count % count:,}, but each run takes {count:,}: {product}.
                next:  leave the rest out with drop_last=True, or choose a batch_size so that
                {example_count:,} is a multiple of a run.""")
        if example_count is not None and example_count < count and options.get("sampler") is None:
            raise ModelError(f"""{example_count:,} examples fill no batch: each run takes {count:,}:
                {product}.
                next:  choose a smaller batch_size, or give more examples.""")
        argument_names = inspect.signature(torch.utils.data.DataLoader.__init__).parameters
        for name in options:
            if name not in argument_names:
                raise ModelError(f"""DataLoader has no argument {name!r}.
                    next:  {did_you_mean(name, argument_names)}leave it out.""")
        try:
            super().__init__(dataset, batch_size=count, drop_last=drop_last, **options)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"torch's DataLoader refuses these arguments: {error}.",
                next_step="give a combination of arguments that torch.utils.data.DataLoader takes.",
            ) from error
