"""The host's side of an engine: the data that is connected to streams, and the engine's options.

`streams` connects arrays, iterators, functions and callbacks to streams, and records each transfer
on the host's timeline. `options` declares the engine options under Poplar's names.

Compared with `tiny`, whose host writes into arrays, this package adds streams, the timeline of
their transfers, and options. It does not depend on the engine: the engine calls it when a program
copies to or from a stream.
"""

from ipu_teach.host.streams import StreamCallback

__all__ = ["StreamCallback"]
