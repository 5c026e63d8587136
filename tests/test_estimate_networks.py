"""The stored networks and the command `ipu-teach estimate`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from estimates import CHOICES, SET_UP, choice

from ipu_course.cli import main
from ipu_teach import IPUModel
from ipu_teach.errors import ModelError, ModelLoadError
from ipu_teach.estimate import networks
from ipu_teach.estimate.command import estimate_network
from ipu_teach.estimate.networks import NETWORKS, network
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import OPS

# The trainable parameters of each network: torchvision's count for the ResNets. For the language
# models, of the embeddings, the norms, and the 12 s² + 13 s parameters of each layer of s features.
PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "bert-base": (30522 + 128 + 2) * 768 + 12 * (12 * 768**2 + 13 * 768),
    "bert-large": (30522 + 128 + 2) * 1024 + 24 * (12 * 1024**2 + 13 * 1024),
    "gpt-small": (8192 + 128 + 2) * 384 + 6 * (12 * 384**2 + 13 * 384),
}


def statistics(graph: ir.Ir) -> set[str]:
    """Return the names of the variables that the forward pass changes, and of the seed."""
    return {op.inputs[0].name for op in graph.ops if OPS[op.kind].in_place}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_stored_network_has_the_parameters_of_the_published_one(name: str) -> None:
    graph = network(name, 3)
    changed = statistics(graph)
    sizes = [v.size for v in graph.variables.values() if v.name not in changed and v.floating]
    assert sum(sizes) == PARAMETERS[name]
    assert {value.shape[0] for value in graph.inputs.values()} == {3}
    assert graph.outputs["loss"].shape == ()


def test_all_stored_networks_are_below_a_megabyte() -> None:
    files = list(networks.FOLDER.iterdir())
    assert {path.stem for path in files} == NETWORKS.keys()
    assert sum(path.stat().st_size for path in files) < 1_000_000


@pytest.mark.parametrize("name", NETWORKS)
def test_a_graph_with_another_batch_fits_its_operations(name: str) -> None:
    """`Row.shape` computes the same shapes from the changed inputs as `with_batch`."""
    for batch in (1, 5):
        for op in network(name, batch).ops:
            outs = OPS[op.kind].shape(*op.inputs, **op.attrs)
            expected = outs if isinstance(outs, list) else [outs]
            assert [out.shape for out in expected] == [value.shape for value in op.outs], op


@pytest.mark.parametrize("damage", ["half", "empty", "changed", "missing"])
def test_a_damaged_network_is_refused(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = (networks.FOLDER / "resnet18.ipumodel").read_bytes()
    middle = len(data) // 2
    damaged = {
        "half": data[:middle],
        "empty": b"",
        "changed": data[:middle] + bytes([data[middle] ^ 0x55]) + data[middle + 1 :],
    }
    path = tmp_path / "resnet18.ipumodel"
    if damage in damaged:
        path.write_bytes(damaged[damage])
    monkeypatch.setattr(networks, "FOLDER", tmp_path)
    message = (
        "The stored file of the network resnet18 is missing or damaged.\n"
        f"  where: {path}\n"
        "  next:  install ipu_teach again, or use another network."
    )
    with pytest.raises(ModelLoadError) as caught:
        network("resnet18", 1)
    assert str(caught.value) == message
    assert main(["estimate", "resnet18"]) == 1
    assert capsys.readouterr().err.strip() == message


def test_stages_have_about_equal_cycles() -> None:
    graph = network("resnet18", 2)
    target = IPUModel("ipu2").create_device()
    cycles = [line.cycles for line in ir.estimate(graph, target).lines]
    staged = networks.with_stages(graph, 2, cycles)
    totals = [
        sum(count for op, count in zip(staged.ops, cycles, strict=True) if op.stage == stage)
        for stage in (0, 1)
    ]
    assert staged.stages == 2 and max(totals) < 0.65 * sum(totals)
    with pytest.raises(ModelError, match="which cannot be divided into 99 stages"):
        networks.with_stages(graph, 99, cycles)


def test_the_command_prints_time_memory_and_layers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "resnet18", "--samples", "1281167"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("A step of 16 samples takes ")
    assert "The model fits: a tile has 638,976 bytes" in text
    assert "\nstem.0 " in text and "\n1,281,167 samples take " in text
    assert main(["estimate"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(NETWORKS)


def test_the_options_of_the_command_change_the_step() -> None:
    from ipu_teach.estimate.command import parser

    def estimate(*words: str):  # type: ignore[no-untyped-def]
        return estimate_network(parser().parse_args(["resnet18", "--micro-batch", "2", *words]))

    plain = estimate()
    assert plain.samples_per_step == 2
    many = estimate("--replicas", "4", "--batch", "64")
    assert (many.num_ipus, many.accumulation, many.samples_per_step) == (4, 8, 64)
    assert many.all_reduce > 0 and many.throughput > 2 * plain.throughput
    assert estimate("--inference").cycles < plain.cycles / 2
    assert estimate("--partials", "float").cycles > plain.cycles
    assert estimate("--byte-inputs").host < plain.host
    assert estimate("--ipu", "bow").seconds < plain.seconds
    off_chip = dict(estimate("--off-chip").memory[0].uses)
    assert "optimiser state" not in off_chip and "optimiser state" in dict(plain.memory[0].uses)
    pipeline = estimate("--stages", "2")
    assert len(pipeline.memory) == 2 and pipeline.accumulation == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["resnet51"],
            "There is no stored network 'resnet51'.\n"
            "  next:  did you mean 'resnet50'? use one of resnet18, resnet50, bert-base, bert-large, "
            "gpt-small.",
        ),
        (
            ["resnet18", "--micro-batch", "4", "--replicas", "2", "--batch", "100"],
            "A batch of 100 samples cannot be divided into micro-batches of 4 on 2 replicas, because "
            "it is not a multiple of 8.\n  next:  use --batch 96, or another multiple of 8.",
        ),
        (
            ["resnet18", "--replicas", "16", "--stages", "2", "--machine", "pod16"],
            "16 replicas of 2 stages need 32 IPUs, but the Pod16 has 16.\n"
            "  next:  use at most 8 replicas, or --machine pod64.",
        ),
        (
            ["resnet18", "--stages", "8", "--machine", "m2000"],
            "1 replica of 8 stages needs 8 IPUs, but the IPU-M2000 has 4.\n"
            "  next:  use at most 1 replica of 4 stages, or --machine pod16.",
        ),
        (
            ["resnet18", "--replicas", "128", "--machine", "pod64"],
            "128 replicas of 1 stage need 128 IPUs, but the Pod64 has 64.\n"
            "  next:  use at most 64 replicas, or leave out --machine.",
        ),
        (
            ["resnet18", "--ipu", "ipu1", "--machine", "pod16"],
            "The Pod16 has no IPUs of the version ipu1.\n"
            "  next:  use --ipu ipu2 or --ipu bow, or leave out --machine.",
        ),
        (
            ["resnet18", "--stages", "2", "--micro-batch", "1", "--batch", "3"],
            "A batch of 3 samples has 3 micro-batches for each replica, but a pipeline of 2 stages "
            "needs at least 4.\n  next:  use --batch 4, or fewer stages.",
        ),
        (
            ["resnet18", "--stages", "99"],
            "The network has 15 modules, which cannot be divided into 99 stages.\n"
            "  next:  use at most 15 stages.",
        ),
        (
            ["resnet18", "--inference", "--recompute", "--off-chip"],
            "--recompute and --off-chip have no effect with --inference, which has no backward "
            "pass and no update.\n"
            "  next:  leave out --recompute and --off-chip, or leave out --inference.",
        ),
        (
            ["resnet18", "--optimiser", "lars", "--sharded", "--replicas", "2"],
            "The optimiser lars needs the norm of a complete parameter, but with --sharded, a "
            "replica updates only a part of it.\n"
            "  next:  use another optimiser, or leave out --sharded.",
        ),
    ],
)
def test_the_command_refuses_what_does_not_fit(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", *words]) == 1
    assert capsys.readouterr().err.strip() == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--proportion", "nan"], "argument --proportion: 'nan' is not a number from 0 to 1"),
        (["--proportion", "2"], "argument --proportion: '2' is not a number from 0 to 1"),
        (["--replicas", "-1"], "argument --replicas: '-1' is not a whole number of 1 or more"),
        (["--batch", "1.5"], "argument --batch: '1.5' is not a whole number of 1 or more"),
    ],
)
def test_numbers_outside_their_range_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["estimate", "resnet18", *words])
    assert capsys.readouterr().err.endswith(f"estimate: error: {message}\n")


def test_the_advice_of_an_error_works() -> None:
    from ipu_teach.estimate.command import parser

    for words in (
        ["--replicas", "8", "--stages", "2", "--machine", "pod16", "--micro-batch", "1"],
        ["--stages", "2", "--micro-batch", "1", "--batch", "4"],
        ["--stages", "15", "--micro-batch", "1"],
        ["--inference", "--stages", "2", "--micro-batch", "1", "--batch", "2"],
    ):
        assert estimate_network(parser().parse_args(["resnet18", *words])).cycles > 0, words


def test_the_command_names_its_assumptions(capsys: pytest.CaptureFixture[str]) -> None:
    fixed = (
        "Assumptions: weights and activations are HALF, and the optimiser's state is FLOAT; the "
        "elements of each value are distributed evenly over the tiles; "
    )
    assert main(["estimate", "resnet18", "--micro-batch", "2", "--batch", "8"]) == 0
    assert capsys.readouterr().out.endswith(
        f"{fixed}products add in HALF, with a memory proportion of 0.6; the host sends inputs in "
        "their own dtype; the host always has the next samples ready; the optimiser is momentum, "
        "and activations are saved; a step has 4 micro-batches of 2 samples per replica.\n"
    )
    options = ["--proportion", "0.1", "--partials", "float", "--byte-inputs", "--recompute"]
    assert main(["estimate", "resnet18", "--micro-batch", "1", *options]) == 0
    assert capsys.readouterr().out.endswith(
        f"{fixed}products add in FLOAT, with a memory proportion of 0.1; the host sends a byte per "
        "input element; the host always has the next samples ready; the optimiser is momentum, "
        "and activations are recomputed; a step has 1 micro-batch of 1 sample per replica.\n"
    )
    assert main(["estimate", "resnet18", "--micro-batch", "1", "--inference"]) == 0
    assert "; only the forward pass runs; a step has 1 micro-batch" in capsys.readouterr().out


@pytest.mark.parametrize("number", [0, 1, 6])
def test_the_page_has_the_choices(number: int) -> None:
    page = (Path(__file__).parents[1] / "docs" / "estimate.md").read_text(encoding="utf-8")
    table = page.split("| change | modelled minutes | memory of a tile |\n")[1].split("\n\n")[0]
    rows = table.splitlines()[1:]
    assert len(rows) == len(CHOICES) and rows[number] == choice(CHOICES[number])
    assert SET_UP in " ".join(page.replace("\\\n", " ").split())


def test_the_command_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from ipu_teach.estimate.command import main; main(['resnet18'])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("A step of 16 samples takes ")
