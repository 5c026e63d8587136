"""The loss that a module marks by `identity_loss`."""

from __future__ import annotations

from typing import Any

from ipu_teach.errors import ModelError


def mark(marked: list[Any], loss: Any) -> None:
    """Add a loss to those that are marked, in the place of those that are part of it."""
    marked[:] = [*(m for m in marked if not _is_part(m, loss)), loss]


def final(marked: list[Any]) -> Any:
    """Return the loss that is marked, or None. Raises `ModelError` for several that are
    independent of each other."""
    if len(marked) > 1:
        raise ModelError(f"""identity_loss() marked {len(marked)} losses that are independent of
            each other, and a module is trained by one.
            next:  mark their sum alone: identity_loss(first + second, reduction="none").""")
    return marked[0] if marked else None


def _is_part(term: Any, loss: Any) -> bool:
    """Whether `loss` was computed from `term`, by the record of autograd."""
    if term is loss:
        return True
    if term.grad_fn is None or loss.grad_fn is None:
        return False
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is term.grad_fn:
            return True
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return False
