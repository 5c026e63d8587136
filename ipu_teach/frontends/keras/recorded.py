"""Record the arguments of Keras' constructors, and refuse arguments that are not implemented."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import TypeVar

from ipu_teach.arguments import Argument, Function
from ipu_teach.errors import did_you_mean, shown
from ipu_teach.frontends.ir.values import misuse

Self = TypeVar("Self", bound="Recorded")
# `UNUSED` maps each argument of Keras that the device does not implement to a pair. The pair
# consists of the values that change nothing, such as Keras' default, and the advice for any other
# value.
LEAVE_OUT = "leave {name} out."
_PENALTY = "leave {name} out: the device adds no penalty to the loss."
_BOUND = "leave {name} out: the device does not bound weights."
_SEED = "leave {name} out, and call keras.utils.set_random_seed(3) before you create the model."
UNUSED: dict[str, tuple[tuple[object, ...], str]] = {
    **{
        f"{part}_regularizer": ((None,), _PENALTY)
        for part in (*("activity", "beta", "bias", "embeddings", "gamma", "kernel", "recurrent"),)
    },
    "regularizer": ((None,), _PENALTY),
    **{
        f"{part}_constraint": ((None,), _BOUND)
        for part in ("beta", "bias", "embeddings", "gamma", "kernel", "recurrent")
    },
    "constraint": ((None,), _BOUND),
    "seed": ((None,), _SEED),
    "noise_shape": ((None,), LEAVE_OUT),
    "data_format": (
        (None, "channels_last"),
        "use images [rows, columns, channels] and leave data_format out.",
    ),
    "autocast": ((True,), LEAVE_OUT),
    "aggregation": (("none", None, "mean", "sum", "only_first_replica"), LEAVE_OUT),
    "overwrite_with_gradient": ((False,), LEAVE_OUT),
    "batch_size": ((None,), "leave batch_size out here, and pass it to fit()."),
    **dict.fromkeys(
        ("lora_rank", "lora_alpha", "quantization_config", "attention_axes", "sliding_window"),
        ((None,), LEAVE_OUT),
    ),
    **dict.fromkeys(("renorm", "synchronized", "use_gate"), ((False,), LEAVE_OUT)),
    "renorm_clipping": ((None,), LEAVE_OUT),
    "renorm_momentum": ((0.99,), LEAVE_OUT),
    "flash_attention": ((None, False), LEAVE_OUT),
    "use_cudnn": (("auto", False), LEAVE_OUT),
    "implementation": ((1, 2), LEAVE_OUT),
    "sparse": ((None, False), LEAVE_OUT),
    "ragged": ((None, False), LEAVE_OUT),
    "optional": ((False,), LEAVE_OUT),
    "tensor": ((None,), LEAVE_OUT),
    "stateful": (
        (False,),
        "leave stateful out, and pass the last state to the next batch with initial_state=.",
    ),
    **dict.fromkeys(
        ("dropout", "recurrent_dropout"),
        ((0,), "leave {name} out, and put a Dropout layer before this one."),
    ),
    **dict.fromkeys(
        ("clipnorm", "clipvalue", "global_clipnorm", "ema_overwrite_frequency"),
        ((None,), LEAVE_OUT),
    ),
    **dict.fromkeys(("amsgrad", "nesterov", "use_ema"), ((False,), LEAVE_OUT)),
    "ema_momentum": ((0.99,), LEAVE_OUT),
    "loss_scale_factor": ((None,), "use mixed_precision.LossScaleOptimizer(optimizer)."),
    "gradient_accumulation_steps": (
        (None,),
        "use model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=4).",
    ),
    "reduction": (
        ("sum_over_batch_size", "mean"),
        "leave reduction out: a loss is the mean over the batch.",
    ),
    "ignore_class": ((None,), "leave ignore_class out, and give such samples the weight 0."),
    "run_eagerly": ((False, None), "leave run_eagerly out: the device runs compiled programs."),
    "jit_compile": (("auto", None, True, False), LEAVE_OUT),
    "auto_scale_loss": ((True, False), LEAVE_OUT),
}


def refuse_options(call: str, options: Mapping[str, object], known: tuple[str, ...] = ()) -> None:
    """Raise `ModelError` for each of `options` that the device does not implement.

    `call` is the name of the call, and `known` are the arguments that it accepts. An argument of
    Keras that the device does not implement is accepted only with a value that changes nothing,
    such as Keras' default.
    """
    for name, value in options.items():
        if name not in UNUSED:
            names = ", ".join(known) or "its own arguments"
            raise misuse(
                f"{call}() has no argument {name!r}.",
                f"{did_you_mean(name, known)}use one of {names}."
                if known
                else f"leave {name} out.",
            )
        harmless, advice = UNUSED[name]
        if not _is_among(value, harmless):
            raise misuse(
                f"{call}() was given {name}={shown(value)}, which the device does not implement.",
                advice.format(name=name),
            )


def _is_among(value: object, harmless: tuple[object, ...]) -> bool:
    """Return whether `harmless` contains a value. True and False do not count as 1 and 0 here."""
    if isinstance(value, (bool, type(None))):
        return any(value is item for item in harmless)
    plain = [item for item in harmless if not isinstance(item, (bool, type(None)))]
    return isinstance(value, (int, float, str)) and value in plain


def parameters_of(kind: type) -> tuple[str, ...]:
    """Return the names of the parameters of a constructor."""
    names = tuple(_signature(kind.__init__).parameters)  # type: ignore[misc]
    return tuple(name for name in names if name not in ("self", "options", "others"))


class Recorded:
    """The base class of objects that remember the arguments of their constructor.

    `arguments` maps the names of parameters to the values that were passed. A saved model contains
    them.
    """

    arguments: dict[str, Argument]

    def __new__(cls: type[Self], *args: Argument, **kwargs: Argument) -> Self:
        """Create the object, and record the arguments."""
        new = super().__new__(cls)
        new.arguments = _bound(cls, args, kwargs)
        return new


def _bound(
    cls: type, args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> dict[str, Argument]:
    """Return the arguments of a constructor by parameter name; {} if they do not fit it."""
    signature = _signature(cls.__init__)  # type: ignore[misc]
    try:
        bound = signature.bind(None, *args, **kwargs)
    # Leave the error to the constructor, which is called with the same arguments.
    except TypeError:
        return {}
    named: dict[str, Argument] = {}
    for name, value in [*bound.arguments.items()][1:]:
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
        else:
            named[name] = value
    return named


@cache
def _signature(function: Function) -> inspect.Signature:
    """Return the signature of a constructor. Results are cached."""
    return inspect.signature(function)
