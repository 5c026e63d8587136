"""A subclass of PyTorch's `DataLoader` with the batches that a call of an executor needs."""

from __future__ import annotations

import inspect
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING

import torch

from ipu_teach.errors import InvalidOptionError, ModelError, did_you_mean, shown
from ipu_teach.frontends.pytorch.private import Argument

if TYPE_CHECKING:
    from ipu_teach.frontends.poptorch import Options

_END = object()  # The last item in a queue of batches.


class DataLoaderMode(Enum):
    """The way in which a DataLoader prepares batches.

    - `Sync`: each batch when it is requested.
    - `Async`: the next batches in a thread.
    - `AsyncRebatched`: the same as `Async`, because all batches have the size that a call needs.
    """

    Sync = 0
    Async = 1
    AsyncRebatched = 2


class _Prefetched:
    """An iterator whose thread fetches the items of another iterator in advance.

    The caller's thread fetches the first item, because a sampler draws its random numbers then.
    """

    def __init__(self, items: Iterator[Argument], size: int) -> None:
        self.items: queue.Queue[tuple[Argument, BaseException | None]] = queue.Queue(size)
        self.is_stopped = threading.Event()
        self.items.put(_next(items))
        arguments = items, self.items, self.is_stopped
        self.thread = threading.Thread(target=_fill, args=arguments, daemon=True)
        self.thread.start()

    def __iter__(self) -> _Prefetched:
        return self

    def __next__(self) -> Argument:
        if self.is_stopped.is_set():
            raise StopIteration
        item, error = self.items.get()
        if item is _END:
            self.is_stopped.set()
            raise StopIteration if error is None else error
        return item

    def close(self) -> None:
        """Stop the thread and discard the items that it has taken."""
        self.is_stopped.set()
        while self.thread.is_alive():
            with suppress(queue.Empty):
                self.items.get_nowait()
            self.thread.join(0.01)

    def __del__(self) -> None:
        self.is_stopped.set()


def _next(items: Iterator[Argument]) -> tuple[Argument, BaseException | None]:
    """Return `(item, None)`, or `(_END, error)` at the end; `error` is None at the regular end."""
    try:
        return next(items), None
    except StopIteration:
        return _END, None
    except BaseException as error:
        return _END, error


def _fill(
    items: Iterator[Argument],
    into: queue.Queue[tuple[Argument, BaseException | None]],
    is_stopped: threading.Event,
) -> None:
    """Put the items of an iterator into a queue, until the end or until the event is set."""
    item: Argument = None
    while item is not _END and not is_stopped.is_set():
        item, error = _next(items)
        while not is_stopped.is_set():
            with suppress(queue.Full):
                into.put((item, error), timeout=0.05)
                break


class AsynchronousDataAccessor:
    """An iterable over the batches of a dataset or DataLoader, which a thread prepares in advance.

    `buffer_size` is the number of prepared batches. With `early_preload`, the thread begins at once
    instead of at the beginning of the iteration. `load_indefinitely` and `sharing_strategy` have no
    effect, because no process is started.
    """

    def __init__(
        self,
        dataset: Iterable[Argument],
        buffer_size: int = 3,
        sharing_strategy: object = None,
        load_indefinitely: bool = True,
        early_preload: bool = False,
    ) -> None:
        if type(buffer_size) is not int or buffer_size < 1:
            raise InvalidOptionError(f"""AsynchronousDataAccessor() was given the buffer_size
                {shown(buffer_size)}.
                next:  give a whole number of 1 or more, such as 3.""")
        self.dataset = dataset
        self.buffer_size = buffer_size
        self._batches: _Prefetched | None = None
        self._is_new = early_preload
        if early_preload:
            self._batches = _Prefetched(iter(dataset), buffer_size)

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __iter__(self) -> AsynchronousDataAccessor:
        if not self._is_new:
            self.terminate()
            self._batches = _Prefetched(iter(self.dataset), self.buffer_size)
        self._is_new = False
        return self

    def __next__(self) -> Argument:
        if self._batches is None:
            raise StopIteration
        return next(self._batches)

    def terminate(self) -> None:
        """Stop the thread. A later iteration begins with the first batch."""
        if self._batches is not None:
            self._batches.close()
        self._batches = None
        self._is_new = False

    def __enter__(self) -> AsynchronousDataAccessor:
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the thread at the end of a `with` block."""
        self.terminate()


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

    `product` is a string for error messages that explains how `count` is computed.

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

    options: Options
    _accessor: AsynchronousDataAccessor | None = None

    def prefetch(self, mode: DataLoaderMode, settings: Mapping[str, object]) -> None:
        """Let a thread prepare the batches, unless `mode` is `DataLoaderMode.Sync`.

        `settings` are arguments of `AsynchronousDataAccessor`.

        :raises ModelError: if `AsynchronousDataAccessor` has no argument of such a name.
        """
        names = inspect.signature(AsynchronousDataAccessor).parameters
        for name in settings:
            if name not in names or name == "dataset":
                raise ModelError(f"""DataLoader was given async_options with {name!r}.
                    next:  {did_you_mean(name, names)}leave out {name}.""")
        if mode is not DataLoaderMode.Sync:
            self._accessor = AsynchronousDataAccessor(_Batches(self), **settings)  # type: ignore[arg-type]

    @property
    def combinedBatchSize(self) -> int:
        """The number of examples in the batch of a call."""
        size: int = self.batch_size
        return size

    def __iter__(self) -> Iterator[Argument]:
        return super().__iter__() if self._accessor is None else iter(self._accessor)

    def terminate(self) -> None:
        """Stop the thread that prepares batches, if there is one."""
        if self._accessor is not None:
            self._accessor.terminate()


class _Batches:
    """The batches of a loader in order, without a thread."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Argument]:
        batches: Iterator[Argument] = torch.utils.data.DataLoader.__iter__(self.loader)
        return batches

    def __len__(self) -> int:
        return len(self.loader)
