"""Copy values between a program's variables and the tensors of a module and its optimiser.

The tensors are on the host. While a module is attached, its tensors have the values of the
variables on the device. After each call, `Mirror.read` copies the variables that the device has
changed to the host. Before each call, `Mirror.write` copies the tensors that the host has changed
to the device. Therefore state dicts, in-place changes, checkpoints and runs in plain PyTorch give
the same values as without a device.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import torch

from ipu_teach.errors import ModelError
from ipu_teach.frontends.ir import OPS, Op, Run, Value
from ipu_teach.frontends.ir.autodiff import STATE
from ipu_teach.frontends.pytorch import private, reads
from ipu_teach.frontends.pytorch.arguments import check_tensor
from ipu_teach.frontends.pytorch.fingerprints import fingerprint
from ipu_teach.frontends.pytorch.reads import Reads
from ipu_teach.frontends.pytorch.tensors import array
from ipu_teach.types import Array

STATE_NAMES = {  # Maps the names of optimiser states in `frontends.ir` to PyTorch's names.
    "velocity": "momentum_buffer",
    "first": "exp_avg",
    "second": "exp_avg_sq",
    "step": "step",
}


def tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a module's parameters and buffers by name.

    A tensor that occurs twice in the module has two names.
    """
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def description(module: torch.nn.Module, names: Reads, has_modes: bool) -> Hashable:
    """Return everything in a module on which a program depends, as a value to compare with ==.

    The result covers the attributes that `names` lists for each submodule, the hooks, and the
    shapes and dtypes of parameters and buffers. It does not cover the elements of parameters and
    buffers. The attribute `training` is included only if `has_modes`.
    """
    modules = dict(module.named_modules())
    skipped = set() if has_modes else {"training"}
    attributes = {
        name: (
            type(submodule),
            reads.attribute_values(submodule, names.get(id(submodule), set()) - skipped),
        )
        for name, submodule in modules.items()
    }
    first_names = {
        id(tensor): tensor_name for tensor_name, tensor in reversed(tensors_of(module).items())
    }
    tensors = [
        (name, first_names[id(tensor)], tuple(tensor.shape), tensor.dtype, tensor.requires_grad)
        for name, tensor in tensors_of(module).items()
    ]
    hooks = [
        (private.gradient_hooks(tensor), private.accumulation_hooks(tensor))
        for tensor in module.parameters()
    ]
    known_ids = {**first_names, **{id(submodule): name for name, submodule in modules.items()}}
    identities = tuple((name, id(submodule)) for name, submodule in modules.items())
    return fingerprint((attributes, hooks), known_ids), tuple(tensors), identities


def check_module(module: torch.nn.Module) -> None:
    """Raise `ModelError` if the device cannot store a parameter or buffer of the module."""
    for name, tensor in tensors_of(module).items():
        check_tensor(name, tensor, "module")


def _spans(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[int, int]]:
    """Yield `(start, end)` for each tensor: the memory addresses between which its elements are.

    `start` is the address of the first byte, and `end` the address after the last byte. For a
    tensor without elements, yield (0, 0).
    """
    for tensor in tensors:
        last_offset = sum(
            (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        )
        begin = tensor.data_ptr()
        end = begin + (last_offset + 1) * tensor.element_size()
        yield (begin, end) if tensor.numel() else (0, 0)


def sharing_memory(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> list[str]:
    """Return the names of the tensors in `first` whose memory overlaps with a tensor in `second`.

    The memory of a tensor extends from its first to its last element, including elements of other
    tensors between them.
    """
    other_spans = sorted(_spans(list(second.values())))
    other_begins = [begin for begin, _ in other_spans]
    largest_ends = (
        np.maximum.accumulate([end for _, end in other_spans]) if other_spans else np.zeros(0)
    )
    names = []
    for name, (begin, end) in zip(first, _spans(list(first.values())), strict=True):
        # The number of spans that begin before `end`.
        num_before = int(np.searchsorted(other_begins, end))
        if num_before and end > begin and largest_ends[num_before - 1] > begin:
            names.append(name)
    return names


class Mirror:
    """The connection between a program's variables and the host's tensors with the same names.

    `counters` are the names of buffers that count forward passes, such as those of batch norms. The
    device has no variables for these buffers; the host updates them.
    """

    def __init__(
        self,
        run: Run,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        counters: Sequence[str],
    ) -> None:
        self.run = run
        self.module = module
        self.optimizer = optimizer
        self.counters = list(counters)
        self._known: dict[str, Array] = {}  # The values on the device, as last read or written.
        in_place = [op for op in run.ir.ops if OPS[op.kind].in_place]
        changed_names = {
            variable.name for op in in_place for variable in (op.inputs[0], *_state(op))
        }
        tensors = tensors_of(module)
        self.variables = [
            variable_name
            for variable_name in run.ir.variables
            if variable_name in tensors or _split(variable_name)[1]
        ]
        self.changed = [
            variable_name for variable_name in self.variables if variable_name in changed_names
        ]

    @property
    def changed_tensors(self) -> dict[str, torch.Tensor]:
        """A dict of the module's tensors that a call of the executor changes, keyed by name."""
        tensors = tensors_of(self.module)
        names = [tensor_name for tensor_name in self.changed if tensor_name in tensors]
        return {tensor_name: tensors[tensor_name] for tensor_name in (*names, *self.counters)}

    @property
    def constants(self) -> Hashable:
        """A hashable value that changes if a tensor that is a constant in the program changes."""
        names = {*self.variables, *self.counters}
        tensors = tensors_of(self.module)
        first_names = {id(tensor): tensor_name for tensor_name, tensor in reversed(tensors.items())}
        constant_tensors = {
            tensor_name: tensor
            for tensor_name, tensor in tensors.items()
            if first_names[id(tensor)] not in names
        }
        # Arrays of any size are compared by their bytes. A tensor whose elements cannot be read is
        # compared by its identity; compiling again then raises an error about this tensor.
        return fingerprint(
            {
                tensor_name: array(tensor) if _is_readable(tensor) else tensor
                for tensor_name, tensor in constant_tensors.items()
            }
        )

    # --- from the device ---

    def read(self, forwards: int = 0) -> None:
        """Copy the variables that the device has changed to the host.

        Add `forwards`, the number of forward passes since the last call, to the counters.
        """
        tensors = tensors_of(self.module)
        parameters = dict(self.module.named_parameters(remove_duplicate=False))
        changed = {name: self.run.read(name) for name in self.changed}
        with torch.no_grad():
            for name, values in changed.items():
                if name in tensors:
                    tensors[name].copy_(_tensor(values))
                else:
                    self._set_state(parameters, name, values)
                self._known[name] = values
            for name in self.counters:
                tensors[name] += forwards

    def _set_state(self, parameters: dict[str, torch.Tensor], name: str, values: Array) -> None:
        """Store `values`, a state variable of the device, in the host's optimiser.

        `name` is the name of the variable on the device, such as "layer.weight.velocity". In the
        host's optimiser, the state has the name and the shape that PyTorch gives it.
        """
        owner, kind = _split(name)
        parameter = parameters[owner]
        state = self.optimizer.state[parameter]
        shape = () if kind == "step" else tuple(parameter.shape)
        if self.run.ir.variables[name].sharded:  # The last replica's part has padding.
            values = values.reshape(-1)[: parameter.numel()]
        new_state = _tensor(values.reshape(shape))
        old_state = state.get(STATE_NAMES[kind])
        if isinstance(old_state, torch.Tensor) and old_state.shape == shape:
            old_state.copy_(new_state)
        else:
            state[STATE_NAMES[kind]] = new_state.clone()

    # --- to the device ---

    def forget(self) -> None:
        """Make the next `write` copy all variables to the device."""
        self._known.clear()

    def write(self, everything: bool = False) -> None:
        """Copy the values that the host has changed since the last `read` or `write` to the device.

        If `everything` is true, copy all variables.
        """
        tensors = tensors_of(self.module)
        parameters = dict(self.module.named_parameters(remove_duplicate=False))
        for name in self.variables:
            variable = self.run.ir.variables[name]
            values = array(tensors[name]) if name in tensors else self._state(parameters, name)
            values = np.asarray(values, variable.dtype.numpy)
            if variable.sharded:
                padded_size = variable.shape[0] * self.run.ir.replicas
                padded = np.zeros(padded_size, values.dtype)
                padded[: values.size] = values.reshape(-1)
                values = padded.reshape(self.run.ir.replicas, *variable.shape)
            if everything or not _is_same(values, self._known.get(name)):
                self.run.write(name, values)
                self._known[name] = values.copy()

    def _state(self, parameters: dict[str, torch.Tensor], name: str) -> Array:
        """Return a state of the host's optimiser, or zeros if the optimiser has taken no step yet.

        :raises ModelError: if the shape of the state differs from the parameter's.
        """
        owner, kind = _split(name)
        parameter = parameters[owner]
        state = self.optimizer.state.get(parameter, {}).get(STATE_NAMES[kind])
        if state is None:
            return np.zeros(() if kind == "step" else tuple(parameter.shape), np.float32)
        state = torch.as_tensor(state, dtype=torch.float32)
        shape = () if kind == "step" else tuple(parameter.shape)
        if tuple(state.shape) != shape:
            raise ModelError(f"""The optimiser's {STATE_NAMES[kind]} of the parameter {owner!r} has
                the shape {list(state.shape)}, but must have the shape {list(shape)}.
                next:  call optimizer.load_state_dict() with a checkpoint of this module, or create
                a new optimiser.""")
        return array(state)


def _state(op: Op) -> Sequence[Value]:
    """Return the state variables that an optimiser's operation changes; () for other operations."""
    return op.inputs[3:] if op.kind in STATE else ()


def _split(name: str) -> tuple[str, str]:
    """Return `(parameter, kind)` for the name of a variable with optimiser state.

    "weight.velocity" gives `("weight", "velocity")`. For the name of any other variable, return
    `(name, "")`.
    """
    owner, _, kind = name.rpartition(".")
    return (owner, kind) if kind in STATE_NAMES else (name, "")


def _tensor(values: Array) -> torch.Tensor:
    """Return an array as a tensor. The dtype uint32, which torch lacks, is converted to int64."""
    values = values.astype(np.int64) if values.dtype == np.uint32 else values
    return torch.from_numpy(np.ascontiguousarray(values).reshape(values.shape))


def _is_readable(tensor: torch.Tensor) -> bool:
    """Return whether the elements of a tensor are in the CPU's memory, as a dense array."""
    return tensor.device.type == "cpu" and tensor.layout is torch.strided


def _is_same(values: Array, known: Array | None) -> bool:
    """Return whether two arrays have the same dtype, shape and bits."""
    if known is None or known.shape != values.shape or known.dtype != values.dtype:
        return False
    value_bytes, known_bytes = (
        np.ascontiguousarray(item).view(np.uint8) for item in (values, known)
    )
    return bool(np.array_equal(value_bytes, known_bytes))
