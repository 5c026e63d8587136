"""Functions whose vertices exist only once in the graph; each call copies its tensors in and out.

    scale = graphfn.VoidFunction(graph, [graphfn.input(x, "x"), graphfn.output(y, "y")], fn)
    scale([a, b], prog)      # copies a in, calls the body, copies its result out to b
    scale([c, d], prog)      # calls the same body: its vertices exist once

The *body* of a function is the program that its calls share. The tensors of the signature only
determine shapes, dtypes and tile mappings; the body works on copies of these tensors (clones). The
constructor calls `fn` once, with a list of the clones, and `fn` builds the body. A call of the
function then appends copies and a `Call` of the body. If the function is `inlined`, there is no
common body: every call of the function calls `fn` again, with the tensors of that call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ipu_teach.errors import PoplibsError, counted, shown
from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.library import check_name, check_same, check_tensor, library
from ipu_teach.program import Call, Copy, Program, Sequence as Steps

Args = Sequence[Tensor | None]
# The function that builds a body: fn(args, prog), or fn(args) for a ProgramFunction.
Body = Callable[..., Tensor | Program | None]


@dataclass(frozen=True)
class Argument:
    """An argument in a signature, created by `input`, `output`, `inout` or `created`.

    `kind` is the name of the function that created the argument. The body works on a clone of
    `tensor`, with the same shape, dtype and tile mapping. `tensor` is None if `kind` is "created".
    """

    kind: str
    tensor: Tensor | None
    name: str

    def __repr__(self) -> str:
        return f"{self.kind}({self.name!r})"


def input(tensor: Tensor, name: str = "") -> Argument:
    """Return an argument that the body reads: a call copies the caller's tensor to the body."""
    return _argument("input", tensor, name)


def output(tensor: Tensor, name: str = "") -> Argument:
    """Return an argument that the body writes: a call copies the result to the caller's tensor.

    The body must write every element.
    """
    return _argument("output", tensor, name)


def inout(tensor: Tensor, name: str = "") -> Argument:
    """Return an argument that the body reads and writes.

    A call copies the caller's tensor to the body's tensor, and afterwards the result back.
    """
    return _argument("inout", tensor, name)


def created(name: str = "") -> Argument:
    """Return an argument whose tensor the function `fn` creates.

    `fn` gets a list of tensors in which the entry for this argument is None, and replaces None with
    the new tensor. A call copies the result to the caller's tensor. The caller may also pass a list
    with None for this argument; the call then replaces None with a new tensor that contains the
    result.
    """
    _check_name("created", name)
    return Argument("created", None, name)


def _argument(kind: str, tensor: Tensor, name: str) -> Argument:
    if not isinstance(tensor, Tensor):
        raise PoplibsError(
            f"{kind}() was given {shown(tensor)}.",
            next_step="give a tensor with the shape and dtype that the calls will use.",
        )
    _check_name(kind, name)
    return Argument(kind, tensor, name)


def _check_name(kind: str, name: str) -> None:
    if not isinstance(name, str):
        raise PoplibsError(
            f"{kind}() was given the name {shown(name)}.",
            next_step="a name must be a string in quotes.",
        )


class _GraphFunction:
    """The base class of the functions: a signature, and a body that all calls share."""

    @library
    def __init__(
        self,
        graph: Graph,
        signature: Sequence[Argument],
        fn: Body,
        debug_context: str = "",
        inlined: bool = False,
    ) -> None:
        self._kind = kind = type(self).__name__
        check_name(debug_context)
        is_signature_valid = isinstance(signature, (list, tuple)) and all(
            isinstance(entry, Argument) for entry in signature
        )
        if not is_signature_valid:
            raise PoplibsError(f"""{kind}() was given the signature {shown(signature)}.
                next:  give a list of arguments: [input(x, "x"), output(y, "y")].""")
        if not callable(fn):
            raise PoplibsError(
                f"{kind}() was given {shown(fn)} as its function.", next_step="give a function."
            )
        self._graph = graph
        self.signature = tuple(signature)
        self._inlined = fn if inlined else None
        # For each argument, `_models` contains a tensor with the shape and dtype that the tensors
        # of a call must have. It contains None for an argument that an inlined function creates.
        self._models: list[Tensor | None]
        argument_names = [self._name(number) for number in range(len(signature))]
        for name, argument in zip(argument_names, signature, strict=True):
            if argument.tensor is not None:
                check_tensor(graph, name, argument.tensor)
        label = debug_context or "graphfn"
        if inlined:
            self._models = [entry.tensor for entry in signature]
            return
        clones = [
            None if entry.tensor is None else graph.clone(entry.tensor, f"{label}/{name}")
            for name, entry in zip(argument_names, signature, strict=True)
        ]
        body_args = list(clones)
        body = Steps(name=label)
        self._result = self._build(fn, body_args, body)
        self._body_tensors = self._filled(clones, body_args)
        self._models = list(self._body_tensors)
        self._call = Call(graph.add_function(body, label))

    def _build(self, fn: Body, body_args: list[Tensor | None], body: Steps) -> Tensor | None:
        """Call `fn`, which appends programs to `body`.

        Return the tensor that contains the function's result, or None if the function has no
        result.
        """
        fn(body_args, body)
        return None

    def _name(self, number: int) -> str:
        return self.signature[number].name or f"argument{number}"

    def _filled(self, clones: list[Tensor | None], body_args: list[Tensor | None]) -> list[Tensor]:
        """Return the body's tensor for each argument, after the call of `fn`.

        `clones` is the list of tensors that `fn` received. `body_args` is the same list after the
        call: `fn` has replaced each None with a new tensor.

        :raises PoplibsError: if `fn` did not replace a None, replaced another entry, or changed the
            length of the list.
        """
        if len(body_args) != len(clones):
            raise PoplibsError(f"""The function of {self._kind} changed the length of its list of
                arguments from {len(clones)} to {len(body_args)}.
                next:  change only the entries of created arguments: args[2] = tensor.""")
        body_tensors: list[Tensor] = []
        for number, (clone, body_tensor) in enumerate(zip(clones, body_args, strict=True)):
            name = self._name(number)
            if clone is None and body_tensor is None:
                raise PoplibsError(f"""The function of {self._kind} left the created argument
                    {name!r} without a tensor.
                    next:  store a tensor there: args[{number}] = tensor.""")
            if clone is not None and body_tensor is not clone:
                raise PoplibsError(f"""The function of {self._kind} replaced its argument {name!r},
                    which is declared as {self.signature[number].kind}().
                    next:  append a program that writes to the tensor in the list, or declare the
                    argument as created().""")
            check_tensor(self._graph, name, body_tensor)
            assert body_tensor is not None
            body_tensors.append(body_tensor)
        return body_tensors

    def _append(self, args: Args, prog: Steps) -> Tensor | None:
        """Append a call to `prog`: copies of the arguments, the body, and copies of the results.

        Return the tensor that contains the function's result, or None if the function has no
        result.

        :raises PoplibsError: if the arguments do not fit the signature.
        """
        kind = self._kind
        if not isinstance(args, (list, tuple)) or len(args) != len(self.signature):
            received = (
                f"{counted(len(args), 'argument')}"
                if isinstance(args, (list, tuple))
                else shown(args)
            )
            raise PoplibsError(f"""{kind} takes {counted(len(self.signature), "argument")}, but was
                given {received}.
                where: its signature is {list(self.signature)}
                next:  give a list with a tensor for each argument. For an argument declared as
                created(), the list may contain None.""")
        for number, (argument, body_tensor, tensor) in enumerate(
            zip(self.signature, self._models, args, strict=True)
        ):
            name = self._name(number)
            if argument.kind == "created" and tensor is None:
                if not isinstance(args, list):
                    raise PoplibsError(f"""{kind} cannot store the new tensor {name!r} in its
                        arguments, because they are a tuple.
                        next:  give a list with None in the place of the new tensor.""")
                continue
            check_tensor(self._graph, name, tensor)
            assert tensor is not None
            if body_tensor is not None:
                self._check_fits(number, body_tensor, tensor)
        if self._inlined is not None:
            return self._build_in(self._inlined, args, prog)
        caller_tensors = [
            self._like(body_tensor) if tensor is None else tensor
            for body_tensor, tensor in zip(self._body_tensors, args, strict=True)
        ]
        if isinstance(args, list):
            args[:] = caller_tensors
        tensor_pairs = list(zip(self.signature, self._body_tensors, caller_tensors, strict=True))
        for argument, body_tensor, tensor in tensor_pairs:
            if argument.kind in ("input", "inout"):
                prog.add(Copy(tensor, body_tensor))
        prog.add(self._call)
        for argument, body_tensor, tensor in tensor_pairs:
            if argument.kind != "input":
                prog.add(Copy(body_tensor, tensor))
        if self._result is None:
            return None
        result = self._like(self._result)
        prog.add(Copy(self._result, result))
        return result

    def _build_in(self, fn: Body, args: Args, prog: Steps) -> Tensor | None:
        """Append the programs that `fn` builds for the tensors `args` of a call.

        Return the tensor that contains the function's result, or None if the function has no
        result.
        """
        caller_tensors = zip(self.signature, args, strict=True)
        inputs = [None if argument.kind == "created" else t for argument, t in caller_tensors]
        body_args = list(inputs)
        body = Steps()
        result = self._build(fn, body_args, body)
        filled = self._filled(inputs, body_args)
        for number, (body_tensor, tensor) in enumerate(zip(filled, args, strict=True)):
            if tensor is None or tensor is body_tensor:
                continue
            self._check_fits(number, body_tensor, tensor)
            body.add(Copy(body_tensor, tensor))
            filled[number] = tensor
        if isinstance(args, list):
            args[:] = filled
        prog.add(body)
        return result

    def _check_fits(self, number: int, body_tensor: Tensor, tensor: Tensor) -> None:
        """Raise `PoplibsError` unless `tensor`, argument `number`, fits the body's tensor."""
        advice = (
            "create another function for this shape and dtype; a function has only one of each."
        )
        context = f"argument {self._name(number)!r}"
        check_same("shapes", body_tensor.shape, tensor.shape, context, advice=advice)
        dtype_names = body_tensor.dtype.__name__, tensor.dtype.__name__
        check_same("dtypes", *dtype_names, context, advice)

    def _like(self, tensor: Tensor) -> Tensor:
        return self._graph.clone(tensor, f"{self._call.function.name}/result")

    def __repr__(self) -> str:
        return f"{self._kind}({', '.join(map(repr, self.signature))})"


class VoidFunction(_GraphFunction):
    """A function that returns no tensor: `VoidFunction(graph, signature, fn)`.

    `signature` is a list of arguments that `input`, `output`, `inout` and `created` return.
    `fn(args, prog)` appends the body, the program that all calls share, to the Sequence `prog`.
    `debug_context` is the name of the body and a prefix of its tensors' names. If `inlined` is
    true, calls share no body: each call builds programs for its own tensors, which takes more code
    but no copies.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """

    @library
    def __call__(self, args: Args, prog: Steps) -> None:
        """Append a call of the function with the tensors `args` to `prog`.

        The shapes, dtypes and order of the tensors must be those of the signature.

        :raises PoplibsError: if the tensors do not fit the signature.
        """
        self._append(args, prog)


class TensorFunction(_GraphFunction):
    """A function that returns a tensor: `TensorFunction(graph, signature, fn)`.

    `fn(args, prog)` returns the tensor that contains the result. Each call of the function returns
    a new tensor with the same tile mapping, to which the result is copied. The other parameters are
    those of `VoidFunction`.
    """

    def _build(self, fn: Body, body_args: list[Tensor | None], body: Steps) -> Tensor | None:
        result = fn(body_args, body)
        if not isinstance(result, Tensor):
            raise PoplibsError(f"""The function of TensorFunction returned {shown(result)}.
                next:  return the tensor that holds the result, or use VoidFunction.""")
        check_tensor(self._graph, "result", result)
        return result

    @library
    def __call__(self, args: Args, prog: Steps) -> Tensor:
        """Append a call of the function with the tensors `args`; return its result.

        :raises PoplibsError: if the tensors do not fit the signature.
        """
        result = self._append(args, prog)
        assert result is not None
        return result


class ProgramFunction(_GraphFunction):
    """A function whose body is a program: `ProgramFunction(graph, signature, fn)`.

    `fn(args)` returns the program, such as a Sequence. The other parameters are those of
    `VoidFunction`.
    """

    def _build(self, fn: Body, body_args: list[Tensor | None], body: Steps) -> Tensor | None:
        program = fn(body_args)
        if not isinstance(program, Program):
            raise PoplibsError(f"""The function of ProgramFunction returned {shown(program)}.
                next:  return a program, such as a Sequence, or use VoidFunction.""")
        body.add(program)
        return None

    @library
    def __call__(self, args: Args) -> Steps:
        """Return a program that calls the function with the tensors `args`.

        :raises PoplibsError: if the tensors do not fit the signature.
        """
        steps = Steps()
        self._append(args, steps)
        return steps
