"""The host's side of an engine: the data that is connected to streams, and the engine's options.

Compared with `tiny`, whose host writes into arrays, this package has streams and options. `streams`
connects arrays, iterators, functions and callbacks that prefetch, and records each transfer on the
host's timeline. `options` has Poplar's engine options by name, with the effect of each. This
package does not depend on the engine.
"""

from ipu_teach.host.streams import StreamCallback

__all__ = ["StreamCallback"]
