"""Devices: a pool that lends simulated ones, and the plain statement that there is no hardware."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest

from ipu_teach import (
    FLOAT,
    DeviceManager,
    Engine,
    Graph,
    Input,
    IPUModel,
    Output,
    Report,
    TargetType,
    Vertex,
)
from ipu_teach.device import Device
from ipu_teach.errors import InvalidMachineModelError, InvalidOptionError, NoHardwareError
from ipu_teach.program import Execute, Sequence
from ipu_teach.report import print_profile_summary
from ipu_teach.target import make_target


def test_the_manager_lends_simulated_devices() -> None:
    manager = DeviceManager.create_device_manager()
    assert repr(manager) == "DeviceManager(5 simulated devices)" and manager.num_devices == 5
    assert [d.target.num_ipus for d in manager.get_devices()] == [1, 2, 4, 8, 16]
    (four,) = manager.get_devices(TargetType.IPU_MODEL, 4)
    assert four.target == make_target(num_ipus=4) and four is manager.get_device(2)
    (three,) = manager.get_devices(TargetType.IPU_MODEL, 3)
    assert three.target == make_target(num_ipus=3) and three is manager.get_device(5)
    assert DeviceManager("bow").get_device(0).target.ipu_version == "bow"


def test_a_device_is_attached_by_one_program_at_a_time() -> None:
    device = DeviceManager().get_device(0)
    assert not device.is_attached and device.attach() and device.is_attached
    assert not device.attach()
    device.detach()
    assert not device.is_attached and device.attach()


def test_hardware_is_said_not_to_be_there() -> None:
    with pytest.raises(NoHardwareError) as caught:
        DeviceManager().get_devices(TargetType.IPU, 1)
    assert str(caught.value) == (
        "No IPU hardware is attached: this kit simulates the chip.\n"
        "  next:  ask for TargetType.IPU_MODEL, which runs the same program with the same values."
    )


def test_wrong_questions_are_answered() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        DeviceManager().get_devices("IPU")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "get_devices() was given 'IPU', which is not a TargetType.\n"
        "  next:  give TargetType.IPU_MODEL or TargetType.CPU."
    )
    for number in (5, -1, "0"):
        with pytest.raises(InvalidOptionError, match="next:  give a number from 0 to 4."):
            DeviceManager().get_device(number)  # type: ignore[arg-type]


class Double(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.x + self.x


@pytest.mark.parametrize(
    "device",
    [
        Device.create_cpu_device(),
        DeviceManager().get_devices(TargetType.CPU)[0],
        Device.create_simulator_device(make_target(tiles_per_ipu=3)),
        IPUModel(tiles_per_ipu=9).create_device().create_virtual_device(4),
        IPUModel(tiles_per_ipu=9).create_device().create_virtual_device([8, 2]),
    ],
    ids=["cpu", "manager's cpu", "simulator", "virtual", "virtual by list"],
)
def test_a_program_runs_on_every_kind_of_device(device: Device) -> None:
    graph = Graph(device)
    x, out = graph.add_variable(FLOAT, 3, "x"), graph.add_variable(FLOAT, 3, "out")
    graph.set_initial_value(x, [1, 2, 3])
    graph.create_host_read("out", out)
    cs = graph.add_compute_set("double")
    last = device.target.num_tiles - 1
    graph.add_vertices(cs, Double, last, x=x, out=out)
    for tensor in (x, out):
        graph.set_tile_mapping(tensor, last)
    engine = Engine(graph, Execute(cs))
    engine.load_and_run(device)
    np.testing.assert_array_equal(engine.read_tensor("out"), [2, 4, 6])


def test_virtual_devices_have_fewer_tiles_and_nothing_else_changes() -> None:
    whole = IPUModel("bow", tiles_per_ipu=9, num_ipus=2).create_device()
    assert whole.create_virtual_device(4).target == make_target("bow", tiles_per_ipu=4, num_ipus=2)
    single = IPUModel(tiles_per_ipu=9).create_device()
    assert single.create_virtual_device([8, 2, 5]).target.num_tiles == 3
    for device, bad in (
        (single, 0),
        (single, 10),
        (single, True),
        (single, [1, 1]),
        (single, [9]),
        (single, []),
        (whole, [1]),
    ):
        with pytest.raises(InvalidMachineModelError) as caught:
            device.create_virtual_device(bad)  # type: ignore[arg-type]
        assert "create_virtual_device() was given" in str(caught.value)
    assert str(caught.value).endswith("  next:  give a number of tiles, 1 to 9.")
    assert single.supports_remote_buffers and not single.has_gateway


# --- machines -------------------------------------------------------------------------------------


def test_a_machine_has_its_ipus_and_gives_a_power_of_two_of_them() -> None:
    for name, version, ipus in (
        ("m2000", "ipu2", 4),
        ("bow2000", "bow", 4),
        ("pod16", "bow", 16),
        ("pod64", "ipu2", 64),
    ):
        model = IPUModel(version, machine=name, tiles_per_ipu=2)
        assert (model.num_ipus, model.machine) == (ipus, name)
        assert IPUModel(version, machine=name, num_ipus=2).num_ipus == 2
        assert model.ipu_link_topology == ("TORUS" if ipus == 64 else "MESH")
    assert IPUModel("ipu2", machine="pod64", num_ipus=32).ipu_link_topology == "MESH"
    for given, words in (
        (
            {"version": "bow", "machine": "pod16", "num_ipus": 5},
            "A program cannot have 5 IPUs of the Pod16: the number must be a power of two and at "
            "most 16, so that the IPUs form rings (docs.graphcore.ai, Memory and Performance "
            "Optimisation, 7).\n"
            "  next:  set num_ipus to 1, 2, 4, 8 or 16, or leave out the machine, as in "
            "IPUModel(num_ipus=5).",
        ),
        ({"machine": "m2000", "num_ipus": 8}, "A program cannot have 8 IPUs of the IPU-M2000"),
        (
            {"version": "ipu1", "machine": "pod16"},
            "The Pod16 has no IPUs of the version 'ipu1'.\n  next:  use the version 'ipu2' or 'bow'.",
        ),
        (
            {"machine": "pod32"},
            "A model cannot have machine = 'pod32'.\n  next:  use 'm2000' or 'bow2000' or 'pod16' or 'pod64'.",
        ),
        ({"machine": ["pod16"]}, "A model cannot have machine = ['pod16']."),
    ):
        with pytest.raises(InvalidMachineModelError) as caught:
            IPUModel(**given)
        assert words in str(caught.value)


def test_a_report_says_of_which_machine_or_that_there_is_none() -> None:
    def line(**fields: Any) -> str:
        graph = Graph(IPUModel(tiles_per_ipu=2, **fields).create_device())
        engine = Engine(graph, Sequence())
        engine.load_and_run(Device(graph.target))
        opened = Report.deserialize(engine.report.serialize())
        assert opened.target == graph.target and opened.digest() == engine.report.digest()
        with redirect_stdout(io.StringIO()) as printed:
            print_profile_summary(opened)
        return next(x for x in printed.getvalue().splitlines() if "Number of IPUs" in x)

    assert line(machine="pod16").endswith("16 (Pod16)")
    assert line(num_ipus=3).endswith("3 (no machine gives so many: they give powers of two)")
    assert line(num_ipus=4).endswith("  4")
