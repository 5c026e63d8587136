"""The result of an estimate: the modelled cycles of each operation, the memory of a tile, the time.

The classes contain only numbers and names, so that a picture or a table needs no front end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from ipu_teach.errors import counted
from ipu_teach.target import Target

FORWARD, BACKWARD, UPDATE = PARTS = "forward", "backward", "update"
# Maps each kind of cycles in a `Line` to its title.
COSTS = {
    "products": "products",
    "vertices": "other vertices",
    "exchange": "exchange",
    "sync": "sync",
    "links": "between IPUs",
    "streaming": "streaming memory",
}


@dataclass
class Line:
    """The modelled cycles of one execution of one operation.

    - `path` is the path of the module, `kind` the operation, and `part` the pass (forward, backward
      or update).
    - `shapes` describes the inputs, such as "conv of [20, 3, 224, 224] HALF".
    - `products` are the cycles of the vertices that compute matrix products and convolutions, and
      `vertices` the cycles of all other vertices.
    - `exchange`, `sync`, `links` and `streaming` are the cycles of exchanges within the IPU, of
      syncs, of transfers over the links between IPUs, and of transfers with streaming memory.
    - `supersteps` is the number of supersteps, and `macs` the number of multiply-adds of products.
    - `busy` is the number of cycles that the matrix-multiply units would need for `macs` at full
      speed.
    - `temporary` is the number of bytes of temporary data on the fullest tile.
    - `fallback` is True if the operation has no price, so that the fallback was used.
    """

    path: str
    kind: str
    part: str
    stage: int = 0
    shapes: str = ""
    products: float = 0.0
    vertices: float = 0.0
    exchange: float = 0.0
    sync: float = 0.0
    links: float = 0.0
    streaming: float = 0.0
    supersteps: int = 0
    macs: int = 0
    busy: float = 0.0
    temporary: int = 0
    fallback: bool = False

    @property
    def cycles(self) -> float:
        """The sum of all kinds of cycles of the operation."""
        return float(sum(getattr(self, cost) for cost in COSTS))

    @property
    def name(self) -> str:
        """The operation's name: its path and kind, such as `encoder.layer1/matmul`."""
        return f"{self.path}/{self.kind}" if self.path else self.kind


@dataclass(frozen=True)
class TileMemory:
    """The estimated bytes on a tile of one stage, at the operation `at`, which needs most memory.

    `uses` has a pair (name, bytes) for each use of memory. The bytes of variables and values are
    means over all tiles of the IPU, and the bytes of temporary data are those of the fullest tile.
    `limit` is the memory of a tile, in bytes.
    """

    uses: tuple[tuple[str, float], ...]
    at: str
    limit: int

    @property
    def total(self) -> float:
        """The bytes of all uses together."""
        return sum(size for _, size in self.uses)

    @property
    def share(self) -> float:
        """The used fraction of the tile's memory. If it exceeds 1, the model does not fit."""
        return self.total / self.limit

    @property
    def largest(self) -> tuple[str, float]:
        """The use with the most bytes, as (name, bytes)."""
        return max(self.uses, key=lambda use: use[1])


@dataclass(frozen=True, repr=False)
class Estimate:
    """The estimate of a network's step: its modelled cycles and memory. Print it to see a table.

    - `lines` has an entry for each operation.
    - `samples` is the number of samples in a micro-batch.
    - `accumulation` is the number of micro-batches in an update, and `replicas` the number of
      copies of the model.
    - `micro_batches` are the cycles of all micro-batches of an update, including host transfers.
    - `host` are the cycles of host transfers in a step, in both directions.
    - `update` are the cycles of the update, including the all-reduce.
    - `memory` has an entry for each stage.
    - `advice` says, for a model that does not fit, which choices would make it fit.
    """

    lines: tuple[Line, ...]
    target: Target
    samples: int
    accumulation: int
    replicas: int
    micro_batches: float
    host: float
    update: float
    memory: tuple[TileMemory, ...]
    advice: str = ""

    # --- time ---

    @property
    def cycles(self) -> float:
        """The modelled cycles of a step: all micro-batches of an update, and the update."""
        return self.micro_batches + self.update

    @property
    def seconds(self) -> float:
        """The modelled seconds of a step."""
        return self.cycles / self.target.tile_clock_frequency

    @property
    def samples_per_step(self) -> int:
        """The samples that all replicas process in a step."""
        return self.samples * self.accumulation * self.replicas

    @property
    def throughput(self) -> float:
        """The modelled samples per second of all replicas."""
        return self.samples_per_step / self.seconds if self.cycles else 0.0

    def seconds_for(self, samples: int) -> float:
        """Return the modelled seconds for `samples` samples, in whole steps."""
        return ceil(samples / self.samples_per_step) * self.seconds

    # --- parts ---

    @property
    def num_ipus(self) -> int:
        """The number of IPUs: one for each stage of each replica."""
        return len(self.memory) * self.replicas

    @property
    def all_reduce(self) -> float:
        """The cycles of a step in which replicas exchange gradients or parameters."""
        return sum(line.cycles for line in self.lines if line.kind in COLLECTIVES)

    @property
    def costs(self) -> dict[str, float]:
        """The cycles of one micro-batch and one update over all stages, keyed by kind of cycles."""
        totals = {
            title: sum(getattr(line, cost) for line in self.lines) for cost, title in COSTS.items()
        }
        return {**totals, "host": self.host / self.accumulation}

    @property
    def utilisation(self) -> float:
        """The fraction of the step's time in which the matrix-multiply units are busy, 0 to 1."""
        busy = sum(
            line.busy * (1 if line.part == UPDATE else self.accumulation) for line in self.lines
        )
        return busy / (self.cycles * len(self.memory)) if self.cycles else 0.0

    @property
    def fullest(self) -> TileMemory:
        """The memory of the stage whose tiles are the fullest."""
        return max(self.memory, key=lambda stage: stage.share)

    @property
    def fits(self) -> bool:
        """Whether the estimated bytes fit on a tile, in every stage."""
        return self.fullest.share <= 1

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The kinds of operations that have no price, in alphabetical order without duplicates."""
        return tuple(sorted({line.kind for line in self.lines if line.fallback}))

    @property
    def unpriced_share(self) -> float:
        """The fraction of all operations' cycles that is due to operations without a price."""
        total = sum(line.cycles for line in self.lines)
        fallback = sum(line.cycles for line in self.lines if line.fallback)
        return fallback / total if total else 0.0

    def by(self, key: Callable[[Line], str]) -> dict[str, float]:
        """Return the total cycles of the lines, keyed by `key(line)`, the largest total first."""
        totals: dict[str, float] = {}
        for line in self.lines:
            totals[key(line)] = totals.get(key(line), 0.0) + line.cycles
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    def layers(self, depth: int = 2) -> dict[str, dict[str, float]]:
        """Return the cycles of each module in each pass: {module: {pass: cycles}}.

        The passes are forward, backward and update. Modules deeper than `depth` levels are counted
        with the module that contains them. The exchange between replicas and the other operations
        outside all modules have names such as "gradient exchange" and "outside modules". The
        modules are in the order of their first operation.
        """
        totals: dict[str, dict[str, float]] = {}
        for line in self.lines:
            module = ".".join(line.path.split(".")[:depth]) or "all modules"
            is_exchange = line.part == UPDATE and line.kind in COLLECTIVES
            outside = COLLECTIVES[line.kind] if is_exchange else "outside modules"
            _add(totals, module if line.path else outside, line)
        return totals

    def stages(self) -> dict[str, dict[str, float]]:
        """Return the cycles of each stage in each pass: {"stage 0": {pass: cycles}, …}."""
        totals = {f"stage {k}": dict.fromkeys(PARTS, 0.0) for k in range(len(self.memory))}
        for line in self.lines:
            _add(totals, f"stage {line.stage}", line)
        return totals

    # --- text ---

    def sentences(self) -> list[str]:
        """Return the findings as sentences: time, memory, and operations without a price."""
        findings = [self.headline, self._memory_sentence()]
        if self.unpriced:
            findings.append(
                f"No price is known for {', '.join(self.unpriced)}. The fallback is an elementwise "
                f"operation on its largest input: {self.unpriced_share:.0%} of the cycles of all "
                "operations."
            )
        return findings

    @property
    def headline(self) -> str:
        """The modelled time of a step and the throughput, as a sentence."""
        ipus = "" if self.num_ipus == 1 else f" on {self.num_ipus:,} IPUs"
        return (
            f"A step of {counted(self.samples_per_step, 'sample')} takes {self.cycles:,.0f} "
            f"modelled cycles, or {_seconds(self.seconds)}{ipus}: {self.throughput:,.0f} samples "
            "per second."
        )

    def _memory_sentence(self) -> str:
        memory = self.fullest
        name, size = memory.largest
        where = f" of stage {self.memory.index(memory)}" if len(self.memory) > 1 else ""
        verb = "fits" if self.fits else "does not fit"
        return (
            f"The model {verb}: a tile{where} has {memory.limit:,} bytes, and needs about "
            f"{memory.total:,.0f}, at {memory.at}. The largest part is {size:,.0f} bytes of {name}."
            + (f" {self.advice}" if self.advice else "")
        )

    def table(self, depth: int = 2) -> str:
        """Return a table of modelled cycles: a row for each module, a column for each pass."""
        rows = [
            (name, *(f"{cycles[part]:,.0f}" for part in PARTS), f"{sum(cycles.values()):,.0f}")
            for name, cycles in self.layers(depth).items()
        ]
        return _aligned([("modelled cycles", *PARTS, "all"), *rows])

    def __repr__(self) -> str:
        costs = ", ".join(f"{name} {cycles:,.0f}" for name, cycles in self.costs.items() if cycles)
        return "\n".join(
            [
                *self.sentences(),
                f"Cycles of a micro-batch and an update: {costs}. The matrix-multiply units are "
                f"busy for {self.utilisation:.0%} of the time.",
                self.table(),
            ]
        )


# The operations with which replicas exchange data in the update. Each is mapped to the name of its
# exchange.
COLLECTIVES = {
    "all_reduce": "gradient exchange",
    "reduce_scatter": "gradient exchange",
    "all_gather": "parameter exchange",
}


def _add(totals: dict[str, dict[str, float]], name: str, line: Line) -> None:
    """Add the cycles of `line` to the total of its pass, `totals[name][line.part]`."""
    totals.setdefault(name, dict.fromkeys(PARTS, 0.0))[line.part] += line.cycles


def _seconds(seconds: float) -> str:
    """Return a time as a string, in the largest unit in which the number is at least 1."""
    for unit, size in (("hours", 3600.0), ("minutes", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:,.2f} {unit}"
    return f"{seconds * 1e6:,.1f} microseconds"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of strings as a table. The first column is aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    )
