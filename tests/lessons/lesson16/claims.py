"""The comparisons in the text of lesson 16; what this file is: test_claims.py."""

import re

from printed import whole


def _runs(outputs: dict[str, str]) -> dict[int, tuple[float, int]]:
    """Return (minutes, per cent of a tile's memory) of each micro-batch."""
    rows = re.findall(
        r"micro-batch +(\d+), .*: +([\d.]+) modelled minutes, +(\d+)%", outputs["c11"]
    )
    return {int(n): (float(minutes), int(share)) for n, minutes, share in rows}


def _per_image(outputs: dict[str, str]) -> tuple[dict[str, int], ...]:
    """Return the cycles of an image by kind, for micro-batches of 1 and 8 images."""
    return tuple(
        {kind: whole(n) for kind, n in re.findall(r"(\w+) ([\d,]+)", line.partition(":")[2])}
        for line in outputs["c13"].splitlines()[:2]
    )


def one_image_at_a_time(outputs: dict[str, str]) -> None:
    """With 16 images at a time, it would take less than a third of this time, but the network does
    not fit"""
    runs = _runs(outputs)
    assert runs[16][0] < runs[1][0] / 3 and runs[16][1] > 100


def eight_images_share_a_sync(outputs: dict[str, str]) -> None:
    """Its cycles do not depend on the number of images, so 8 images share them."""
    one, eight = _per_image(outputs)
    assert abs(one["sync"] / eight["sync"] - 8) < 0.01


def products_fall_least(outputs: dict[str, str]) -> None:
    """The products fall least in proportion."""
    one, eight = _per_image(outputs)
    assert min(one, key=lambda kind: one[kind] / eight[kind]) == "products"


def vertices_save_most(outputs: dict[str, str]) -> None:
    """They save most"""
    one, eight = _per_image(outputs)
    assert max(one, key=lambda kind: one[kind] - eight[kind]) == "vertices"


def the_line_is_right(outputs: dict[str, str]) -> None:
    """The line finds the same size as the estimates of 12 and 13 images."""
    (size,) = re.findall(r"micro-batch has (\d+) images", outputs["c17"])
    assert re.search(rf"(?m)^{size} images: .* so this fits$", outputs["c17"])
    assert re.search(rf"(?m)^{int(size) + 1} images: .* so this does not fit$", outputs["c17"])


def a_trap(outputs: dict[str, str]) -> None:
    """With 12 images and no recomputation, the run takes 27.46 minutes. With recomputation, 20 images
    fit, but the run takes 30.26 minutes."""
    rows = re.findall(
        r"(\d+) images(, rec\w+)?: ([\d.]+) modelled minutes, +(\d+)%", outputs["c19"]
    )
    assert [(n, time) for n, _, time, _ in rows][::2] == [("12", "27.46"), ("20", "30.26")]
    assert all(int(share) <= 100 for *_, share in rows)


def recomputation_never_pays(outputs: dict[str, str]) -> None:
    """By these lines, recomputation pays only from 33 images on, and only 26 images fit."""
    assert "as fast from 33 images on; 26 images fit" in outputs["c23"]


def groups_2_is_largest(outputs: dict[str, str]) -> None:
    """The bar groups.2 is longest. It is the third of the four groups of blocks."""
    assert "groups.2" in outputs["c4"]
    assert re.search(r"largest part is [\d,]+ bytes of saved activations", outputs["c4"])
    layers = re.findall(r"([a-z.\d]+)\s+[\d,]+\s+[\d,]+\s+[\d,]+\s+([\d,]{5,})\b", outputs["c4"])
    cycles = {name: whole(count) for name, count in layers}
    assert max(cycles, key=cycles.__getitem__) == "groups.2"
    assert cycles["step"] < cycles["groups.2"] / 5  # the text: "It is short"


def _settings(outputs: dict[str, str]) -> dict[str, tuple[float, float, float]]:
    """Return (minutes, per cent of the memory, per cent of the time) of each changed setting."""
    rows = re.findall(
        r"(?m)^ *(.+): ([\d.]+) modelled minutes, +([\d.]+)%.*, +([\d.]+)%", outputs["c28"]
    )
    return {name: (float(time), float(memory), float(host)) for name, time, memory, host in rows}


def float_partials_cost_both(outputs: dict[str, str]) -> None:
    """FLOAT partials take more time and more memory."""
    runs = _settings(outputs)
    assert runs["partials float"][0] > runs["as above"][0]
    assert runs["partials float"][1] > runs["as above"][1]


def a_small_proportion(outputs: dict[str, str]) -> None:
    """A small proportion takes a little more time and a little less memory"""
    runs = _settings(outputs)
    assert 0.95 < runs["proportion 0.05"][1] / runs["as above"][1] < 1
    assert 1 < runs["proportion 0.05"][0] / runs["as above"][0] < 1.03


def bytes_are_sent_faster(outputs: dict[str, str]) -> None:
    """The tiles wait for the host in this program, so the run is shorter."""
    runs = _settings(outputs)
    assert runs["8-bit input"][0] < runs["as above"][0]
    assert 0.4 < runs["8-bit input"][2] / runs["as above"][2] < 0.6


def _machines(outputs: dict[str, str]) -> dict[int, tuple[int, int, float, float]]:
    """Return (published and estimated images a second, published and estimated update)."""
    rows = re.findall(
        r"(\d+) IPUs: +([\d,]+) images per second, estimated +([\d,]+); update +([\d.]+), estimated ([\d.]+)",
        outputs["c34"],
    )
    return {int(n): (whole(a), whole(b), float(c), float(d)) for n, a, b, c, d in rows}


def the_update_is_longer(outputs: dict[str, str]) -> None:
    """On 128 and 256 IPUs, the update takes longer than on 64, and much longer than in the
    estimate."""
    machines = _machines(outputs)
    assert machines[16][2] == machines[64][2] == 5.9  # as the text says of 16 and 64 IPUs
    assert machines[64][2] < min(machines[128][2], machines[256][2])
    assert all(machines[n][2] > 1.8 * machines[n][3] for n in (128, 256))


def too_high(outputs: dict[str, str]) -> None:
    """On 256 IPUs it follows after only 2 micro-batches, so the estimated images per second are too
    high."""
    machines = _machines(outputs)
    assert machines[256][1] > 1.1 * machines[256][0]
    assert all(abs(machines[n][1] / machines[n][0] - 1) < 0.03 for n in (16, 64))


def _stages(text: str) -> list[list[tuple[float, float]]]:
    """Return the cycles of each stage, forward and backward, of each division in an output."""
    rows = re.findall(r"stage (\d), parts.*forward ([\d.]+), backward ([\d.]+)", text)
    cycles = [(float(forward), float(backward)) for _, forward, backward in rows]
    assert [int(stage) for stage, *_ in rows] == [0, 1, 2, 3] * (len(rows) // 4)
    return [cycles[first : first + 4] for first in range(0, len(rows), 4)]


def the_embedding_costs_a_third(outputs: dict[str, str]) -> None:
    """Stage 0 also has the embedding, and its backward pass takes about a third longer."""
    (stages,) = _stages(outputs["c37"])
    assert 1.25 < stages[0][1] / max(stages[1][1], stages[2][1]) < 1.4


def the_head_costs_most(outputs: dict[str, str]) -> None:
    """Stage 3 also has the head, and its backward pass takes almost twice as long as that of stage 1."""
    (stages,) = _stages(outputs["c37"])
    assert 1.8 < stages[3][1] / stages[1][1] < 2


def most_is_a_copy(outputs: dict[str, str]) -> None:
    """Most of these additional cycles are a copy."""
    (stages,) = _stages(outputs["c37"])
    (copy,) = re.findall(
        r"stage 3: copy to another stage, ([\d.]+) million cycles,\s+of .*\[30522, 768\]",
        outputs["c37"],
    )
    assert 0.7 < float(copy) / (stages[3][1] - stages[1][1]) < 1


def three_stages_wait(outputs: dict[str, str]) -> None:
    """With equal numbers of layers, three IPUs wait for the last one in each backward tick."""
    equal, _ = _stages(outputs["c40"])
    assert max(backward for _, backward in equal[:3]) < 0.8 * equal[3][1]


def a_quarter_more_sequences(outputs: dict[str, str]) -> None:
    """the pipeline processes about a quarter more sequences per second."""
    (ratio,) = re.findall(r"([\d.]+) times as many sequences", outputs["c40"])
    before, after = (whole(n) for n in re.findall(r": ([\d,]+) modelled seq", outputs["c40"]))
    assert 1.2 < float(ratio) < 1.3 and abs(after / before - float(ratio)) < 0.01
