"""Scopes for names: reports show each variable, compute set and vertex with its path of scopes."""

from __future__ import annotations

from ipu_teach.errors import GraphObjectCreationError, shown


class DebugContext(str):
    """A scope for names, which can be inside another scope.

    `DebugContext("layer1", "model")` is the path `model/layer1`. It is a `str`, and calls accept
    it, or any other string, as `debug_context=`. If such a call creates an object with the name
    `weights`, the object's full name is `model/layer1/weights`. Without a name, the full name is
    the path.

        attention = DebugContext("attention")
        heads = DebugContext("heads", attention)                   # attention/heads
        scores = graph.add_variable(FLOAT, (8, 8), "scores", debug_context=heads)
        # attention/heads/scores
    """

    __slots__ = ()

    def __new__(cls, name: str = "", parent: str | None = None) -> DebugContext:
        for argument in (name, parent):
            if argument is not None and not isinstance(argument, str):
                raise GraphObjectCreationError(f"""DebugContext was given {shown(argument)},
                    which is not text.
                    next:  give names: DebugContext("layer1", parent).""")
        return super().__new__(cls, "/".join(part for part in (parent, name) if part))

    @property
    def path_name(self) -> str:
        """The full path of the scope, such as "model/layer1", from the outermost scope."""
        return str(self)


def scoped(name: str | None, debug_context: str | None, call: str) -> str | None:
    """Return `name` inside the scope `debug_context`, or None if both are missing.

    `call` is the name of the calling method, which error messages contain.
    """
    if name is not None and not isinstance(name, str):
        raise GraphObjectCreationError(f"""{call} was given the name {shown(name)},
            which is not text.
            next:  a name must be a string, as in 'weights'.""")
    if debug_context is None:
        return name
    if not isinstance(debug_context, str):
        raise GraphObjectCreationError(f"""{shown(debug_context)} was given as debug_context,
            which must be text.
            next:  give a name, or DebugContext("name", parent).""")
    path = "/".join(str(part) for part in (debug_context, name) if part)
    return path or None
