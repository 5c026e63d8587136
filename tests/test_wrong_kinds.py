"""Every public call with one argument of a wrong kind: what leaves it is an error of the kit, never
numpy's or Python's own."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ipu_course
import ipu_teach
from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    UNSIGNED_INT,
    Engine,
    Graph,
    IPUModel,
    Tensor,
    Vertex,
    datasets,
    observe,
    program,
    show,
)
from ipu_teach.errors import (
    ControlProgramError,
    GraphObjectCreationError,
    GraphReplicationError,
    InvalidOptionError,
    IPUTeachError,
    PoplarIndexError,
    PoplarTypeError,
    PoplibsError,
    shown,
)
from ipu_teach.poplibs import gcl, poplin, popnn, popops, poprand, poputil
from ipu_teach.program import Sequence, Sync, cycle_stamp

KIT = str(Path(ipu_teach.__file__).parent)
TRIES = 2  # of each parameter
# What the kit calls itself, and no learner: they take what the kit has checked.
OWN = {
    "add_columns",
    "listed",
    "constants_in",
    "describe",
    "held_by_tile",
    "of",
    "reduce_rows",
    "take",
    "take_each",
    "like",
    "map_pieces",
}
OWN |= {"tile_pieces"}
OWN |= {"counted_loop"}  # what a body does is its own affair


class World:
    """Tensors of many dtypes and shapes, one of another graph, one that lies nowhere; an engine
    that is loaded."""

    def __init__(self) -> None:
        self.device = IPUModel(tiles_per_ipu=4).create_device()
        self.graph, self.other = Graph(self.device), Graph(self.device)
        self.x, self.h, self.i = (self.made(dtype, (4, 3)) for dtype in (FLOAT, HALF, INT))
        self.u, self.b, self.one = (
            self.made(UNSIGNED_INT, (4,)),
            self.made(BOOL, (4, 3)),
            self.made(FLOAT, ()),
        )
        self.empty, self.deep = self.made(FLOAT, (0, 3)), self.made(FLOAT, (2, 3, 4, 5))
        self.foreign, self.lost = (
            self.made(FLOAT, (4, 3), self.other),
            self.graph.add_variable(FLOAT, (4, 3), "lost"),
        )
        self.prog, self.cs = Sequence(), self.graph.add_compute_set("cs")
        graph = Graph(self.device)
        graph.create_host_read("x", self.made(FLOAT, (4, 3), graph))
        self.engine = Engine(graph, Sequence(Sync()))
        self.engine.load(self.device)
        self.engine.run()

    def made(self, dtype: Any, shape: tuple[int, ...], graph: Graph | None = None) -> Tensor:
        graph = graph or self.graph
        tensor = graph.add_variable(dtype, shape)
        graph.set_tile_mapping(tensor, 0)
        return tensor

    def sensible(self) -> dict[str, Any]:
        """What a parameter of this name may well be given; a tensor, if it is not here."""
        return {
            "graph": self.graph,
            "prog": self.prog,
            "target": self.graph.target,
            "dtype": FLOAT,
            "out_type": FLOAT,
            "debug_context": "n",
            "name": "n",
            "operation": "ADD",
            "dims": [0],
            "shape": (4, 3),
            "k": 2,
            "value": 1,
            "tensors": [self.x, self.x],
            "dim": 0,
            "rows": 3,
            "columns": 4,
            "seed": self.u[:2],
            "options": {},
            "mask": self.b,
            "indices": self.u,
            "offsets": self.u.expand([1]),
            "offset": self.u[:1],
            "sizes": [2],
            "regions": [(0, 5)],
            "number": 0,
            "sequence": self.prog,
            "tile": 0,
            "count": 2,
            "body": Sequence(),
        }

    def wrong(self) -> list[Any]:
        """What somebody may give by mistake."""
        return [
            None,
            "x",
            "",
            3.5,
            -1,
            0,
            1,
            10**9,
            10**30,
            2**63,
            float("nan"),
            float("inf"),
            True,
            b"x",
            [],
            [0],
            [-1],
            [99],
            [0, 0],
            ["a"],
            [None],
            (),
            {},
            {"x": 1},
            {1},
            1j,
            np.zeros(3),
            np.zeros((0, 2)),
            np.array(["a"]),
            np.array(None),
            np.float32(2),
            np.int64(-3),
            FLOAT,
            HALF,
            BOOL,
            Vertex,
            object(),
            len,
            range(3),
            slice(0, 2),
            ...,
            iter([1]),
            self.x,
            self.h,
            self.i,
            self.u,
            self.b,
            self.one,
            self.empty,
            self.deep,
            self.foreign,
            self.lost,
            self.x.transpose(),
            [self.x],
            [self.foreign],
            [self.lost],
            self.graph,
            self.other,
            self.prog,
            self.cs,
            self.device,
            self.device.target,
            Sync(),
        ]


def functions(library: ModuleType) -> Iterator[Callable[..., Any]]:
    """The functions that a module shows, those of its own folder."""
    for name in getattr(library, "__all__", vars(library)):
        found = getattr(library, name)
        if (
            inspect.isfunction(found)
            and found.__module__.startswith(library.__name__)
            and not name.startswith("_")
        ):
            yield found


def methods(w: World) -> Iterator[Callable[..., Any]]:
    """The public methods of what a learner holds."""
    for held in (w.graph, w.x, w.engine, w.prog, w.device, w.device.target, w.cs, w.engine.report):
        for name, member in inspect.getmembers(type(held), callable):
            if not name.startswith("_") and not name.startswith(("save", "output_", "to_csv")):
                yield getattr(held, name) if not isinstance(member, type) else member


def one_wrong(
    call: Callable[..., Any], w: World, rng: Random
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Arguments, by place and by name, of which one is wrong and the others sensible."""
    parameters = [
        p for p in inspect.signature(call).parameters.values() if p.kind is not p.VAR_KEYWORD
    ]
    sensible = w.sensible()
    for odd in parameters:
        for value in rng.sample(w.wrong(), TRIES):
            given = {
                p.name: sensible.get(p.name, w.x)
                for p in parameters
                if p.default is p.empty and p.kind != p.VAR_POSITIONAL
            }
            given[odd.name] = value
            places = [
                given.pop(p.name)
                for p in parameters
                if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL) and p.name in given
            ]
            yield places, given


CALLS: dict[str, Callable[[World], Iterator[Callable[..., Any]]]] = {
    library.__name__.rpartition(".")[2]: lambda w, library=library: functions(library)  # type: ignore[misc]
    for library in (gcl, popops, poplin, popnn, poprand, poputil)
}
CALLS |= {
    "methods": methods,
    "programs": lambda w: (c for c in vars(program).values() if _is_program(c)),
}


def _is_program(found: object) -> bool:
    own = getattr(found, "__module__", "") == program.__name__ and not getattr(
        found, "__name__", "_"
    ).startswith("_")
    return own and (
        inspect.isfunction(found) or isinstance(found, type) and issubclass(found, program.Program)
    )


@pytest.mark.parametrize("where", CALLS)
def test_a_wrong_kind_of_argument_is_answered_by_the_kit(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    w, rng, tried = World(), Random(where), 0
    for call in CALLS[where](w):
        if call.__name__ in OWN:
            continue
        for places, given in one_wrong(call, w, rng):
            tried += 1
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    call(*places, **given)
            except IPUTeachError as error:
                assert str(error)
            except TypeError as error:  # Python's own, of what binds arguments
                assert "argument" in str(error) and call.__name__ in str(error), (
                    call,
                    places,
                    given,
                )
            except Exception as error:
                raise AssertionError((call, places, given)) from error
    assert tried > 60


def shown_names() -> Iterator[tuple[str, Any]]:
    """What the kit's public modules show, and the public methods of its classes."""
    for module in (
        ipu_teach,
        program,
        gcl,
        popops,
        poplin,
        popnn,
        poprand,
        poputil,
        show,
        datasets,
        ipu_course,
    ):
        for found in (getattr(module, name) for name in getattr(module, "__all__", vars(module))):
            yield getattr(found, "__name__", ""), found
            if isinstance(found, type):
                yield from (
                    (n, m) for n, m in vars(found).items() if inspect.isfunction(m) and n[0] != "_"
                )


def flags() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Each public parameter that is True or False: the name of what has it, what to call, and the
    parameter's name."""
    for name, found in dict(shown_names()).items():
        if callable(found) and name != "DataStream":  # which graphs make
            with contextlib.suppress(ValueError):  # an exception of Python's has no signature
                yield from (
                    (name, found, p.name)
                    for p in inspect.signature(found).parameters.values()
                    if p.annotation == "bool"
                )


@pytest.mark.parametrize("given", [np.zeros(2), "no", 1, None, [True]], ids=str)
def test_a_flag_is_true_or_false(given: object) -> None:
    w, tried = World(), set()
    for name, call, flag in flags():
        parameters = inspect.signature(call).parameters
        least = {
            p.name: w.sensible().get(p.name, w.x)
            for p in parameters.values()
            if p.default is p.empty
        }
        with pytest.raises((PoplarTypeError, PoplibsError)) as caught:
            call(**least | {flag: given})
        assert (
            str(caught.value)
            == f"{name}() was given {shown(given)} as {flag}.\n  next:  give True or False."
        )
        tried.add((name, flag))
    assert len(tried) >= 28
    assert {
        ("get_tile_mapping", "require_complete"),
        ("serialize", "host"),
        ("Engine", "exact"),
    } <= tried
    assert {
        ("create_host_sliceable_tensor", "is_read"),
        ("bsp", "paired"),
        ("mnist", "download"),
    } <= tried


def test_a_flag_may_be_numpys() -> None:
    w = World()
    for given in (True, np.True_):
        assert len(w.graph.get_tile_mapping(w.x, given)) == 4
    assert w.graph.get_tile_mapping(w.lost, np.False_) == [[], [], [], []]
    with pytest.raises(
        PoplarTypeError, match=r"^get_tile_mapping\(\) was given 'yes' as allow_external"
    ):
        w.graph.get_tile_mapping(w.x, False, "yes")


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda w: observe(w.x), GraphObjectCreationError, "observe() was given Tensor("),
        (
            lambda w: cycle_stamp(w.x, w.prog, 0),
            ControlProgramError,
            "A time stamp was given Tensor(",
        ),
        (
            lambda w: w.device.target.get_type_size("FLOAT"),
            PoplarTypeError,
            "get_type_size() was given the element type 'FLOAT'",
        ),
        (
            lambda w: w.device.target.get_vector_width(4),
            PoplarTypeError,
            "get_vector_width() was given the element type 4.",
        ),
        (
            lambda w: w.x.dump(3),
            GraphObjectCreationError,
            "dump() was given 3, which cannot be written to.",
        ),
        (
            lambda w: w.x.dump_regions(b""),
            GraphObjectCreationError,
            "dump_regions() was given b'', which cannot be written to.",
        ),
        (
            lambda w: w.x.slices(np.array(None)),
            PoplarIndexError,
            "slices(array(None, dtype=object)) does not select parts of shape (4, 3)",
        ),
        (
            lambda w: Graph(w.device, np.zeros(2)),
            GraphReplicationError,
            "Graph() was given the replication factor array([0., 0.]), which is not valid.",
        ),
        (
            lambda w: Engine(w.other, w.prog, backend=np.zeros(2)),
            InvalidOptionError,
            "Engine was given backend=array([0., 0.])",
        ),
        (lambda w: w.engine.report.phases(2.5), PoplarIndexError, "There is no compiled step 2.5."),
        (lambda w: w.engine.report.phases(0, ipu=4), PoplarIndexError, "There is no IPU 4."),
        (
            lambda w: w.engine.report.transfers([1]),
            PoplarIndexError,
            "There is no compiled step [1].",
        ),
        (
            lambda w: w.engine.report.operations("x"),
            InvalidOptionError,
            "operations() was given the depth 'x', which is not a whole number.",
        ),
        (
            lambda w: poputil.clone_n(w.graph, w.x, 10**18),
            PoplibsError,
            "clone_n() was given 1,000,000,000,000,000,000 as n.",
        ),
    ],
)
def test_the_words_for_some(
    call: Callable[[Any], object], kind: type[IPUTeachError], text: str
) -> None:
    with pytest.raises(kind) as caught:
        call(World())
    assert str(caught.value).startswith(text) and "\n  next:  " in str(caught.value)
