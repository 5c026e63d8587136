"""The host's end of an engine: what is connected to its streams, and which options it is given.

Beside `tiny`, whose host writes into arrays: arrays that go round, iterators that run dry,
functions that are called and callbacks that look ahead, each with what it waited on the host's
timeline; and Poplar's engine options by name, with what each does here. Nothing in it knows how a
program runs.
"""

from ipu_teach.host.streams import StreamCallback

__all__ = ["StreamCallback"]
