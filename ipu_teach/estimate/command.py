"""The command `ipu-teach estimate`, which prints the modelled time of a stored network's step."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ipu_teach._support.places import program
from ipu_teach.device import IPUModel
from ipu_teach.errors import ModelError, counted
from ipu_teach.estimate.networks import LOSS, NETWORKS, network, with_stages
from ipu_teach.estimate.result import Estimate
from ipu_teach.frontends import ir
from ipu_teach.frontends.session import Group, Training
from ipu_teach.poplibs.poplin.wishes import MEMORY_PROPORTION
from ipu_teach.target import MACHINES, PRESETS, Target

OPTIMISERS = ("sgd", "momentum", "adam", "adamw", "lars")
# The command-line flags that have an effect only in training.
TRAINING = "recompute", "off-chip", "sharded"


def main(arguments: Sequence[str]) -> int:
    """Run the command `ipu-teach estimate` with the words after `estimate`; return its status.

    :raises ModelError: for an unknown network, a batch that cannot be divided into micro-batches,
        or too many IPUs.
    :raises ModelLoadError: if the stored file of the network is damaged.
    """
    options = parser().parse_args(arguments)
    if not options.network:
        for name, (title, _) in NETWORKS.items():
            print(f"{name:12} {title}")
        return 0
    estimate = estimate_network(options)
    print(estimate)
    print(assumptions(options, estimate))
    if options.samples:
        seconds = estimate.seconds_for(options.samples)
        print(f"{options.samples:,} samples take {seconds / 60:,.2f} modelled minutes.")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser for the command's options."""
    options = argparse.ArgumentParser(
        prog=f"{program()} estimate",
        description="Print the modelled cycles and memory of a step of a stored network.",
        epilog=f"Without a network, the command lists them: {', '.join(NETWORKS)}.",
    )
    add = options.add_argument
    add("network", nargs="?", metavar="NETWORK")
    add("--micro-batch", type=_count, metavar="N", help="samples of a micro-batch of a replica")
    add("--batch", type=_count, metavar="N", help="samples of an update, by all replicas")
    add("--replicas", type=_count, default=1, metavar="N")
    add("--stages", type=_count, default=1, metavar="N", help="IPUs in a pipeline of a replica")
    add("--ipu", choices=tuple(PRESETS), default="ipu2")
    add("--machine", choices=tuple(MACHINES), help="limits the number of IPUs")
    add("--inference", action="store_true", help="only the forward pass")
    add("--optimiser", choices=OPTIMISERS, default="momentum")
    add("--partials", choices=("half", "float"), default="half", help="dtype of sums of products")
    add("--proportion", type=_proportion, metavar="P", help="available memory proportion, 0 to 1")
    add("--recompute", action="store_true", help="recompute activations in the backward pass")
    add("--off-chip", action="store_true", help="optimiser's state in streaming memory")
    add("--sharded", action="store_true", help="optimiser's state divided among the replicas")
    add("--byte-inputs", action="store_true", help="the host sends a byte for each input element")
    add("--samples", type=_count, metavar="N", help="also print the time for N samples")
    return options


def _count(text: str) -> int:
    """Return a positive integer from the command line."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def _proportion(text: str) -> float:
    """Return a number from 0 to 1 from the command line."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def estimate_network(options: argparse.Namespace) -> Estimate:
    """Return the estimate of a stored network with the options of the command."""
    _check(options)
    needed = options.replicas * options.stages
    micro_batch = options.micro_batch or NETWORKS.get(options.network, ("", 1))[1]
    accumulation = _accumulation(options, micro_batch)
    target = IPUModel(options.ipu, num_ipus=needed).create_device().target
    products: dict[str, str | float] = {"partialsType": options.partials}
    if options.proportion is not None:
        products["availableMemoryProportion"] = options.proportion
    graph = network(options.network, micro_batch)
    graph = _staged(graph, options.stages, target, products)
    schedule = "grouped" if options.stages > 1 else ""
    if options.inference:
        step = ir.replicate(graph, options.replicas)
        if schedule:
            step = ir.pipelined(step.but(accumulation=accumulation), schedule)
    else:
        is_momentum = options.optimiser == "momentum"
        training = Training(
            "sgd" if is_momentum else options.optimiser,
            groups=(Group(numbers={"momentum": 0.9} if is_momentum else {}),),
            recompute="standard" if options.recompute else None,
            accumulation=accumulation,
            replicas=options.replicas,
            sharded=options.sharded,
            off_chip=options.off_chip,
            schedule=schedule,
        )
        step = training.transform(graph, graph.outputs[LOSS])
    return ir.estimate(step, target, products, options.byte_inputs)


def _check(options: argparse.Namespace) -> None:
    """Check that the options suit each other and the machine.

    :raises ModelError: if they do not.
    """
    unused = [f"--{name}" for name in TRAINING if getattr(options, name.replace("-", "_"))]
    if options.inference and unused:
        names, verb = " and ".join(unused), "has" if len(unused) == 1 else "have"
        raise ModelError(f"""{names} {verb} no effect with --inference, which has no backward pass
            and no update.
            next:  leave out {names}, or leave out --inference.""")
    if options.sharded and options.optimiser == "lars":
        raise ModelError("""The optimiser lars needs the norm of a complete parameter, but with
            --sharded, a replica updates only a part of it.
            next:  use another optimiser, or leave out --sharded.""")
    if not options.machine:
        return
    title, limit, versions = MACHINES[options.machine]
    if options.ipu not in versions:
        raise ModelError(f"""The {title} has no IPUs of the version {options.ipu}.
            next:  use --ipu {" or --ipu ".join(versions)}, or leave out --machine.""")
    needed = options.replicas * options.stages
    if needed > limit:
        larger = [
            name
            for name, (_, count, kinds) in MACHINES.items()
            if count >= needed and options.ipu in kinds
        ]
        replicas = limit // options.stages
        fewer = counted(replicas, "replica") if replicas else f"1 replica of {limit} stages"
        verb = "needs" if options.replicas == 1 else "need"
        raise ModelError(f"""{counted(options.replicas, "replica")} of
            {counted(options.stages, "stage")} {verb} {needed:,} IPUs, but the {title} has {limit}.
            next:  use at most {fewer}, or
            {f"--machine {larger[0]}" if larger else "leave out --machine"}.""")


def assumptions(options: argparse.Namespace, estimate: Estimate) -> str:
    """Return a paragraph with the assumptions of an estimate: options and fixed assumptions."""
    proportion = MEMORY_PROPORTION if options.proportion is None else options.proportion
    parts = [
        "weights and activations are HALF, and the optimiser's state is FLOAT",
        "the elements of each value are distributed evenly over the tiles",
        f"products add in {options.partials.upper()}, with a memory proportion of {proportion:g}",
        "the host sends "
        + ("a byte per input element" if options.byte_inputs else "inputs in their own dtype"),
        "the host always has the next samples ready",
    ]
    if options.inference:
        parts.append("only the forward pass runs")
    else:
        recomputed = "recomputed" if options.recompute else "saved"
        parts.append(f"the optimiser is {options.optimiser}, and activations are {recomputed}")
    batches = counted(estimate.accumulation, "micro-batch", "micro-batches")
    parts.append(f"a step has {batches} of {counted(estimate.samples, 'sample')} per replica")
    return f"Assumptions: {'; '.join(parts)}."


def _accumulation(options: argparse.Namespace, micro_batch: int) -> int:
    """Return the number of micro-batches in an update.

    :raises ModelError: if the batch is not a multiple of the micro-batch times the number of
        replicas, or if it has too few micro-batches for the stages of the pipeline.
    """
    samples: int = micro_batch * options.replicas
    stages: int = options.stages
    minimum = 1 if stages == 1 else stages if options.inference else 2 * stages
    if options.batch is None:
        return 1 if stages == 1 else 2 * stages
    if options.batch % samples:
        below = max(minimum * samples, options.batch // samples * samples)
        raise ModelError(f"""A batch of {options.batch:,} samples cannot be divided into
            micro-batches of {micro_batch} on {counted(options.replicas, "replica")}, because it is
            not a multiple of {samples:,}.
            next:  use --batch {below}, or another multiple of {samples}.""")
    accumulation = int(options.batch // samples)
    if accumulation < minimum:
        raise ModelError(f"""A batch of {options.batch:,} samples has
            {counted(accumulation, "micro-batch", "micro-batches")} for each replica, but a pipeline
            of {stages} stages needs at least {minimum}.
            next:  use --batch {minimum * samples}, or fewer stages.""")
    return accumulation


def _staged(graph: ir.Ir, stages: int, target: Target, products: dict[str, str | float]) -> ir.Ir:
    """Return the forward pass, divided into stages of about equal cycles."""
    if stages == 1:
        return graph
    cycles = [line.cycles for line in ir.estimate(graph, target, products).lines]
    return with_stages(graph, stages, cycles[: len(graph.ops)])
