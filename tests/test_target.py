"""Machines: the presets against the published figures, and what a description may be changed to."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest

from ipu_teach import (
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    LONGLONG,
    Engine,
    Graph,
    IPUModel,
    Output,
    Target,
    Vector,
    Vertex,
)
from ipu_teach.errors import InvalidMachineModelError, UnknownMachineFieldError
from ipu_teach.program import Execute
from ipu_teach.target import (
    COUNTED,
    GIVEN,
    GROUNDS,
    MOST_TILES,
    PRESETS,
    ground,
    make_target,
    source,
)

VERSIONS = list(PRESETS)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_constant_has_a_unit_and_a_source(version: str) -> None:
    target = make_target(version)
    assert target.ipu_version == version
    for field in fields(Target):
        text = source(version, field.name)
        assert field.metadata["unit"].strip(), field.name
        assert len(text) >= 8 and text.strip() == text, field.name
        value = getattr(target, field.name)
        assert isinstance(value, {"int": int, "float": float, "str": str}[str(field.type)]), (
            field.name
        )
        if not isinstance(value, str):
            assert field.metadata["least"] <= value <= field.metadata["most"], field.name


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_preset_changes_has_its_own_source(version: str) -> None:
    for name, (value, text) in PRESETS[version].items():
        assert getattr(make_target(version), name) == value
        assert source(version, name) == text


def test_published_figures_of_ipu2() -> None:
    ipu2 = make_target("ipu2")
    assert (ipu2.num_ipus, ipu2.num_tiles, ipu2.num_worker_contexts) == (1, 1472, 6)
    assert ipu2.num_tiles * ipu2.num_worker_contexts == 8832  # threads, Bow slides
    # 624 kB in tut4's profile
    assert ipu2.bytes_per_tile == ipu2.memory_bytes_per_tile == 638_976 == 624 * 1024
    assert ipu2.num_tiles * ipu2.bytes_per_tile == 940_572_672  # 897 MiB; the datasheet says 900 MB
    # 62.5 TFLOP/s in single precision: a multiply-add of every unit in every cycle of every tile.
    peak = 2 * ipu2.conv_units_fp32 * ipu2.num_tiles * ipu2.tile_clock_frequency
    assert peak == pytest.approx(62.5e12, rel=0.01)
    # tut6: 6,681,766 cycles are 5,023.9 microseconds.
    assert 6_681_766 / ipu2.tile_clock_frequency == pytest.approx(5023.9e-6, rel=1e-4)
    assert ipu2.exchange_bytes_per_cycle == 4
    assert ipu2.host_bytes_per_cycle == pytest.approx(40_044_000 / 6_663_550.8, rel=0.01)


def test_published_figures_of_ipu1() -> None:
    ipu1 = make_target("ipu1")
    assert ipu1.num_tiles == 1216 and ipu1.bytes_per_tile == 256 * 1024
    assert ipu1.num_tiles * ipu1.bytes_per_tile == 304 * 2**20
    peak = 2 * ipu1.conv_units_fp32 * ipu1.num_tiles * ipu1.tile_clock_frequency
    assert peak == pytest.approx(31.1e12, rel=0.01)


def test_published_figures_of_the_c600() -> None:
    c600, ipu2 = make_target("c600"), make_target("ipu2")
    peak = 2 * 4 * c600.conv_units_fp16 * c600.num_tiles * c600.tile_clock_frequency
    assert peak == pytest.approx(280e12, rel=0.01) and c600.tile_clock_frequency == 1.5e9
    # the same links, seen from a faster clock
    for name in ("link_bytes_per_cycle", "rail_bytes_per_cycle"):
        seconds = (getattr(t, name) * t.tile_clock_frequency for t in (c600, ipu2))
        assert next(seconds) == pytest.approx(next(seconds), rel=0.01)


def test_published_figures_of_bow() -> None:
    bow, ipu2 = make_target("bow"), make_target("ipu2")
    peak = 2 * bow.conv_units_fp32 * bow.num_tiles * bow.tile_clock_frequency
    # half precision has four times the rate, as on ipu1 and ipu2
    assert 4 * peak == pytest.approx(348.6e12, rel=0.01)
    same = {f.name for f in fields(Target)} - set(PRESETS["bow"])
    assert all(getattr(bow, n) == getattr(ipu2, n) for n in same)
    # The same links, seen from a faster clock.
    assert bow.link_bytes_per_cycle * bow.tile_clock_frequency == pytest.approx(
        ipu2.link_bytes_per_cycle * ipu2.tile_clock_frequency, rel=0.01
    )


def test_derived_figures() -> None:
    target = make_target(
        "ipu2", num_ipus=3, tiles_per_ipu=7, relative_sync_delay="NO_DELAY", min_ipu_sync_delay=5
    )
    assert target.num_tiles == 21
    assert target.internal_sync_cycles == 5
    assert make_target("ipu2").internal_sync_cycles == 100
    assert [target.get_type_size(t) for t in (FLOAT, HALF, INT, CHAR, BOOL, LONGLONG)] == [
        4,
        2,
        4,
        1,
        1,
        8,
    ]
    assert [target.get_vector_width(t) for t in (FLOAT, HALF, INT, CHAR, BOOL, LONGLONG)] == [
        2,
        4,
        2,
        8,
        8,
        1,
    ]
    assert make_target("ipu2", data_path_width=8).get_vector_width(FLOAT) == 1


def test_a_target_is_frozen_and_compares_by_value() -> None:
    target = make_target("ipu2", tiles_per_ipu=4)
    with pytest.raises(FrozenInstanceError):
        target.num_ipus = 2  # type: ignore[misc]
    assert target == make_target("ipu2", tiles_per_ipu=np.int64(4)) and hash(target) == hash(
        make_target(tiles_per_ipu=4)
    )
    assert target != make_target("ipu2", tiles_per_ipu=5) and target != make_target(
        "bow", tiles_per_ipu=4
    )
    made = make_target(
        "ipu2",
        tiles_per_ipu=np.int64(4),
        tile_clock_frequency=10**9,
        link_bytes_per_cycle=np.float32(2),
    )
    assert type(made.tiles_per_ipu) is int and type(made.tile_clock_frequency) is float
    assert type(made.link_bytes_per_cycle) is float


class Tile(Vertex):
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = 1


@pytest.mark.parametrize("tiles", [1, 2, 3, 13, 1000])
@pytest.mark.parametrize("version", VERSIONS)
def test_any_size_runs(version: str, tiles: int) -> None:
    device = IPUModel(version, tiles_per_ipu=tiles).create_device()
    graph = Graph(device)
    out = graph.add_variable(FLOAT, (tiles, 2), "out")
    for tile in range(tiles):
        graph.set_tile_mapping(out[tile], tile)
    cs = graph.add_compute_set("cs")
    graph.add_vertices(cs, Tile, np.arange(tiles), out=out)
    graph.create_host_read("out", out)
    engine = Engine(graph, Execute(cs))
    engine.load_and_run(device)
    assert np.all(engine.read_tensor("out") == 1)
    assert engine.report.compute_cycles_per_tile.shape == (tiles,)


def test_devices() -> None:
    model = IPUModel("ipu2", tiles_per_ipu=1)
    first, second = model.create_device(), model.create_device()
    assert second.id == first.id + 1 and first.target is second.target is model.target
    assert repr(first) == "Device(ipu2 model, 1 IPU, 1 tile)"
    assert repr(IPUModel().create_device()) == "Device(ipu2 model, 1 IPU, 1,472 tiles)"


def test_a_models_fields_may_be_read_and_set() -> None:
    model = IPUModel("ipu1")
    assert (
        model.tiles_per_ipu == 1216 and model.num_tiles == 1216 and model.bytes_per_tile == 262_144
    )
    assert model.get_vector_width(HALF) == 4
    before = model.create_device()
    model.tiles_per_ipu = 4
    model.num_ipus = 2
    model.relative_sync_delay = "NO_DELAY"
    assert model.num_tiles == 8 and model.create_device().target.internal_sync_cycles == 0
    assert before.target.num_tiles == 1216
    assert repr(model) == "IPUModel('ipu1', tiles_per_ipu=4, num_ipus=2)"


def test_models_can_be_copied() -> None:
    model = IPUModel("bow", tiles_per_ipu=4)
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.target == model.target
        other.tiles_per_ipu = 5
    assert model.tiles_per_ipu == 4


FIELDS = ", ".join(f.name for f in fields(Target))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: IPUModel("ipu3"),
            "There is no machine 'ipu3'.\n  next:  choose one of 'ipu1', 'ipu2', 'bow', 'c600'.",
        ),
        (
            lambda: IPUModel(2),
            "There is no machine 2.\n  next:  choose one of 'ipu1', 'ipu2', 'bow', 'c600'.",
        ),  # type: ignore[arg-type]
        (
            lambda: IPUModel([]),
            "There is no machine [].\n  next:  choose one of 'ipu1', 'ipu2', 'bow', 'c600'.",
        ),  # type: ignore[arg-type]
        (
            lambda: IPUModel(numIPUs=2),
            "A machine has no field 'numIPUs'.\n  next:  did you mean 'num_ipus'? Its fields are "
            f"{FIELDS}.",
        ),
        (
            lambda: IPUModel(weight=2),
            f"A machine has no field 'weight'.\n  next:  Its fields are {FIELDS}.",
        ),
        (
            lambda: IPUModel().tilesPerIPU,
            "A machine has no field 'tilesPerIPU'.\n  next:  did you mean 'tiles_per_ipu'? Its "
            f"fields are {FIELDS}.",
        ),
        (
            lambda: setattr(IPUModel(), "tile_per_ipu", 2),
            "A machine has no field 'tile_per_ipu'.\n  next:  did you mean 'tiles_per_ipu'? Its "
            f"fields are {FIELDS}.",
        ),
        (
            lambda: source("ipu2", "clock"),
            f"A machine has no field 'clock'.\n  next:  Its fields are {FIELDS}.",
        ),
        (
            lambda: setattr(IPUModel(), "ipu_version", "bow"),
            "The version of a machine cannot be changed.\n  next:  make another model: "
            "IPUModel('bow').",
        ),
        (
            lambda: IPUModel(tiles_per_ipu=0),
            "A model cannot have tiles_per_ipu = 0.\n  next:  give a whole number from 1 to 4,194,304 (tiles).",
        ),
        (
            lambda: IPUModel(tiles_per_ipu=2.5),
            "A model cannot have tiles_per_ipu = 2.5.\n  next:  give a whole number from 1 to 4,194,304 (tiles).",
        ),
        (
            lambda: IPUModel(num_ipus=True),
            "A model cannot have num_ipus = True.\n  next:  give a whole number from 1 to 4,194,304 (IPUs).",
        ),
        (
            lambda: IPUModel(num_worker_contexts=10**6),
            "A model cannot have num_worker_contexts = 1000000.\n  next:  give a whole number from 1 to 1,024 "
            "(workers a tile).",
        ),
        (
            lambda: IPUModel(tile_clock_frequency=float("nan")),
            "A model cannot have tile_clock_frequency = nan.\n  next:  give a number from 1 to 1,000,000,000,000,000 "
            "(Hz).",
        ),
        (
            lambda: IPUModel(tile_clock_frequency="fast"),
            "A model cannot have tile_clock_frequency = 'fast'.\n  next:  give a number from 1 to "
            "1,000,000,000,000,000 (Hz).",
        ),
        (
            lambda: setattr(IPUModel(), "exchange_bytes_per_cycle", 0),
            "A model cannot have exchange_bytes_per_cycle = 0.\n  next:  give a whole number from 1 to "
            "1,000,000,000,000,000 (bytes a cycle and tile, each way).",
        ),
        (
            lambda: IPUModel(relative_sync_delay="SOME"),
            "A model cannot have relative_sync_delay = 'SOME'.\n  next:  use 'AUTO' or 'NO_DELAY'.",
        ),
        (
            lambda: IPUModel(codelet_prices="hand"),
            "A model cannot have codelet_prices = 'hand'.\n  next:  use 'compiled' or 'by hand'.",
        ),
        (
            lambda: IPUModel(num_ipus=100_000, tiles_per_ipu=1000),
            "A model of 100,000 IPUs with 1,000 tiles each is too large: it has 100,000,000 tiles.\n"
            "  next:  give a model at most "
            "4,194,304 tiles.",
        ),
    ],
)
def test_bad_machines(call: Any, text: str) -> None:
    with pytest.raises(InvalidMachineModelError) as caught:
        call()
    assert str(caught.value) == text
    assert isinstance(caught.value, AttributeError) == isinstance(
        caught.value, UnknownMachineFieldError
    )


@pytest.mark.parametrize(
    ("said", "meant"),
    [("tiles", "tiles_per_ipu"), ("num_workers", "num_worker_contexts"), ("ipus", "num_ipus")],
)
def test_a_field_said_short_is_known(said: str, meant: str) -> None:
    with pytest.raises(UnknownMachineFieldError) as caught:
        IPUModel("ipu2", **{said: 13})
    assert str(caught.value).startswith(
        f"A machine has no field {said!r}.\n  next:  did you mean {meant!r}? Its fields are "
    )


def test_a_pod_can_be_described() -> None:
    assert IPUModel("bow", num_ipus=1024).num_tiles == 1_507_328 <= MOST_TILES
    assert not hasattr(IPUModel(), "nonsense")


def test_create_ipu_target_is_the_preset() -> None:
    assert Target.create_ipu_target(2, "bow", tiles_per_ipu=7) == make_target(
        "bow", num_ipus=2, tiles_per_ipu=7
    )
    with pytest.raises(InvalidMachineModelError):
        Target.create_ipu_target(0)


@pytest.mark.parametrize("version", PRESETS)
def test_every_constant_says_what_it_rests_on(version: str) -> None:
    made = make_target(version)
    found = {field.name: ground(made, field.name) for field in fields(Target)}
    assert set(found.values()) <= set(GROUNDS) - {GIVEN}
    for name, where in found.items():
        assert (where == COUNTED) == source(version, name).startswith(("assumed", "our choice"))
    changed_one = make_target(version, exchange_bytes_per_cycle=8)
    assert (
        ground(changed_one, "exchange_bytes_per_cycle")
        == GIVEN
        != ground(changed_one, "data_path_width")
    )
