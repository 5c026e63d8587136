"""Learn to program a tile machine: Graphcore's IPU, simulated. Values are exact, time is modelled.

Start with the lessons (`python3 run.py`), or with the program in README, which imports this:

    from ipu_teach import Engine, Graph, IPUModel, Vertex, Input, Output, Vector, FLOAT
    from ipu_teach.program import Copy, Execute, Repeat, Sequence

To read how the kit works, begin with `tiny.py`, which contains a complete small machine in one
file. Then continue with docs/inside.md.

The public names of this package are those of `_api.py`. Python loads `_api.py` when a program first
uses one of the names, so `from ipu_teach import tiny` loads numpy and nothing else.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ipu_teach._api import *
    from ipu_teach._api import __all__ as __all__

else:  # Type checkers do not see this function, so they report unknown names.
    import sys
    from importlib import import_module
    from importlib.util import find_spec

    def __getattr__(name: str) -> Any:
        """Return a public name or a module of this package, and import it if necessary."""
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        is_module = find_spec(f"{__name__}.{name}") is not None
        asking = sys._getframe(1).f_code.co_filename
        if is_module and asking.startswith("<frozen importlib"):
            # After this error, `from ipu_teach import tiny` imports the module.
            raise AttributeError(name)
        api = vars(import_module("ipu_teach._api"))
        names = {public: api[public] for public in api.get("__all__", ()) if public in api}
        globals().update(names)
        if name == "__all__":
            return api[name]
        if name in names:
            return names[name]
        if is_module:
            errors = import_module("ipu_teach.errors")
            try:
                return import_module(f"{__name__}.{name}")
            # hasattr() returns False only for an AttributeError, so convert the ImportError.
            except errors.NotHereImportError as missing:
                raise errors.NotOfferedError(
                    missing.tried, where=missing.where, next_step=missing.next_step
                ) from None
        raise import_module("ipu_teach._support.elsewhere").not_in(
            "ipu_teach",
            name,
            {
                "pvti": "tracepoint(label) and counter(name), seen in report.host.",
                "DOUBLE": "FLOAT; no tile computes in 64 bits.",
                "poplar": "import ipu_teach as poplar.",
            },
            names,
        )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
