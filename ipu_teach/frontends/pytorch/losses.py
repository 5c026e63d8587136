"""The losses that a module marks with `poptorch.identity_loss`."""

from __future__ import annotations

import torch

from ipu_teach.errors import ModelError


def mark_loss(marked: list[torch.Tensor], loss: torch.Tensor) -> None:
    """Add `loss` to the list `marked`, and remove marked losses from which it was computed."""
    marked[:] = [*(m for m in marked if not _is_part(m, loss)), loss]


def final_loss(marked: list[torch.Tensor]) -> torch.Tensor | None:
    """Return the only loss in the list `marked`, or None if the list is empty.

    :raises ModelError: if the list contains several losses.
    """
    if len(marked) > 1:
        raise ModelError(f"""identity_loss() marked {len(marked)} losses that are independent of
            each other, but a module is trained with a single loss.
            next:  mark only the sum of the losses:
            poptorch.identity_loss(first + second, reduction="none").""")
    return marked[0] if marked else None


def _is_part(term: torch.Tensor, loss: torch.Tensor) -> bool:
    """Return whether `loss` was computed from `term`, according to the graph of autograd."""
    if term is loss:
        return True
    if term.grad_fn is None or loss.grad_fn is None:
        return False
    visited = set()
    nodes_to_visit = [loss.grad_fn]
    while nodes_to_visit:
        node = nodes_to_visit.pop()
        if node is term.grad_fn:
            return True
        if node is not None and node not in visited:
            visited.add(node)
            nodes_to_visit += [following for following, _ in node.next_functions]
    return False
