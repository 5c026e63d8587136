"""The comparisons in the text of lesson 16; what this file is: test_claims.py."""

import re

from printed import whole


def _runs(outputs: dict[str, str]) -> dict[int, tuple[float, int]]:
    """Return (minutes, per cent of a tile's memory) of each micro-batch."""
    rows = re.findall(
        r"micro-batch +(\d+), .*: +([\d.]+) modelled minutes, +(\d+)%", outputs["c11"]
    )
    return {int(n): (float(minutes), int(share)) for n, minutes, share in rows}


def _estimates(output: str) -> dict[str, dict[str, float]]:
    """Return the rows of a table of `show.estimates`: the time, its kinds, and the memory."""
    text = " ".join(output.split())
    heading, rows = re.findall(r"estimate (modelled .*?) fits (.*?)(?: $|$)", text)[-1]
    known = (
        "modelled \\w+|products|other vertices|exchange|sync|between IPUs|host|update's share|update"
        "|memory of a tile"
    )
    names = [name.split(" ")[0] for name in re.findall(known, heading)]
    names[names.index("update's")], names[-1] = "share", "memory"
    number = r"([\d,.]+)%?"
    return {
        row[0]: dict(zip(names, (float(n.replace(",", "")) for n in row[1:]), strict=True))
        for row in re.findall(rf"(\S.*?) {' '.join([number] * len(names))} (?:yes|no)", rows)
    }


def one_image_at_a_time(outputs: dict[str, str]) -> None:
    """With 16 images at a time, it would take less than a third of this time, but the network does
    not fit"""
    runs = _runs(outputs)
    assert runs[16][0] < runs[1][0] / 3 and runs[16][1] > 100


def _shrink(outputs: dict[str, str]) -> dict[str, tuple[float, float]]:
    """Return the minutes of each kind with 1 and with 16 images in a micro-batch."""
    rows = list(_estimates(outputs["c13"]).values())
    assert len(rows) == 5
    return {kind: (rows[0][kind], rows[-1][kind]) for kind in rows[0]}


def vertices_shrink_most(outputs: dict[str, str]) -> None:
    """Their piece loses most minutes"""
    kinds = _shrink(outputs)
    gains = {
        kind: kinds[kind][0] - kinds[kind][1] for kind in ("products", "other", "exchange", "sync")
    }
    assert max(gains, key=gains.__getitem__) == "other"


def syncs_are_shared(outputs: dict[str, str]) -> None:
    """Its cycles do not depend on the number of images, so with 16 images its piece almost disappears."""
    one, sixteen = _shrink(outputs)["sync"]
    assert abs(one / sixteen - 16) < 0.3


def products_shrink_less(outputs: dict[str, str]) -> None:
    """The products shrink less."""
    kinds = _shrink(outputs)
    ratios = {
        kind: kinds[kind][0] / kinds[kind][1] for kind in ("products", "other", "exchange", "sync")
    }
    assert min(ratios, key=ratios.__getitem__) == "products"


def the_host_and_the_update_stay(outputs: dict[str, str]) -> None:
    """These two thin pieces at the top hardly change: by the table below the picture, the host takes 2.02
    minutes with one image, and 1.91 minutes with 16 images."""
    kinds = _shrink(outputs)
    assert all(0.9 < kinds[kind][1] / kinds[kind][0] <= 1 for kind in ("host", "update"))
    assert kinds["host"] == (2.02, 1.91)


def the_line_is_right(outputs: dict[str, str]) -> None:
    """The estimates agree with the line: 12 images fit, and 13 do not."""
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


def only_33_images_are_as_fast(outputs: dict[str, str]) -> None:
    """Only the run with 33 images is as short with recomputation, and it does not fit."""
    rows = list(_estimates(outputs["c25"]).values())
    saved, *again = [row["modelled"] for row in rows]
    assert again[-1] <= saved < min(again[:-1])
    assert [row["memory"] > 100 for row in rows] == [False] * 4 + [True]


def the_backward_pass_is_longer(outputs: dict[str, str]) -> None:
    """The backward pass takes almost twice as long as the forward pass."""
    rows = re.findall(r"(?:groups|stem)\S+\s+([\d,]+)\s+([\d,]+)\s+[\d,]+\s+0\s", outputs["c4"])
    forward, backward = (sum(whole(row[k]) for row in rows) for k in (0, 1))
    assert len(rows) == 8 and 1.65 < backward / forward < 2


def one_image_is_fullest_in_the_update(outputs: dict[str, str]) -> None:
    """with one image a tile is fullest during the update, when no activations are left."""
    from ipu_course.lesson16.plans import resnet

    memory = resnet(1, 200).fullest
    assert memory.at == "update all_reduce" and "saved activations" not in dict(memory.uses)


def groups_2_is_largest(outputs: dict[str, str]) -> None:
    """The bar groups.2 is longest."""
    assert "groups.2" in outputs["c4"]
    assert re.search(r"largest part is [\d,]+ bytes of saved activations", outputs["c4"])
    layers = re.findall(
        r"([a-z.\d]+)\s+[\d,]+\s+[\d,]+\s+[\d,]+\s+0\s+([\d,]{5,})\b", outputs["c4"]
    )
    cycles = {name: whole(count) for name, count in layers}
    assert max(cycles, key=cycles.__getitem__) == "groups.2"
    (exchange,) = re.findall(r"gradient exchange\s+0\s+0\s+[\d,]+\s+0\s+([\d,]+)", outputs["c4"])
    assert whole(exchange) < cycles["groups.2"] / 5  # the text: "It is short"


def float_partials_cost_both(outputs: dict[str, str]) -> None:
    """So they take more time and more memory."""
    runs = _estimates(outputs["c28"])
    assert runs["partials float"]["modelled"] > runs["defaults"]["modelled"]
    assert runs["partials float"]["memory"] > runs["defaults"]["memory"]
    ratio = runs["partials float"]["products"] / runs["defaults"]["products"]
    assert 1.7 < ratio < 2.1  # "half as many numbers in a cycle"


def a_small_proportion(outputs: dict[str, str]) -> None:
    """A small proportion takes a little more time here, and a little less memory"""
    runs = _estimates(outputs["c28"])
    assert 0.95 < runs["proportion 0.05"]["memory"] / runs["defaults"]["memory"] < 1
    little = runs["proportion 0.05"]["modelled"] / runs["defaults"]["modelled"]
    assert 1 < little < 1.03

    # "With a larger micro-batch, it costs more time."
    from ipu_course.lesson16.plans import resnet

    small, usual = (
        resnet(24, 9, recompute="six checkpoints", proportion=share).cycles for share in (0.05, 0.6)
    )
    assert small / usual > 1.05 > little


def bytes_are_sent_faster(outputs: dict[str, str]) -> None:
    """With 8-bit input, the host sends half as many bytes, so the run is shorter."""
    runs = _estimates(outputs["c28"])
    assert runs["8-bit input"]["modelled"] < runs["defaults"]["modelled"]
    assert 0.4 < runs["8-bit input"]["host"] / runs["defaults"]["host"] < 0.6


def both_ways_to_recompute(outputs: dict[str, str]) -> None:
    """Both ways to recompute save memory and take more time. Six checkpoints take less time than the
    standard way"""
    runs = _estimates(outputs["c28"])
    for name in ("standard", "six checkpoints"):
        assert runs[name]["memory"] < runs["defaults"]["memory"]
        assert runs[name]["modelled"] > runs["defaults"]["modelled"]
    assert runs["six checkpoints"]["modelled"] < runs["standard"]["modelled"]


def recomputation_pays_at_last(outputs: dict[str, str]) -> None:
    """Recomputation pays if you choose well what is saved."""
    (first, fits) = re.findall(r"as fast from (\d+) images on; (\d+) images fit", outputs["c30b"])[
        0
    ]
    assert int(first) < int(fits)


def graphcore_took_28_minutes(outputs: dict[str, str]) -> None:
    """By the estimate, Graphcore's settings need 28.0 minutes. At the published rate, the training takes
    27.4 minutes."""
    assert "Graphcore's settings: 28.0 modelled minutes" in outputs["c30b"]
    assert "29,646 images per second: 27.4 minutes" in outputs["c30b"]
    (yours,) = re.findall(r"yours: .* ([\d.]+) modelled minutes", outputs["c30"])[:1]
    assert float(yours) < 25


def fewer_than_pay(outputs: dict[str, str]) -> None:
    """Graphcore had only 20 images in a micro-batch, and by your functions six checkpoints pay from 25
    images on."""
    assert "as fast from 25 images on; 35 images fit" in outputs["c30b"]


def where_six_checkpoints_are_fullest(outputs: dict[str, str]) -> None:
    """With six checkpoints, a tile is fullest near the end of the backward pass."""
    from ipu_course.lesson16.plans import resnet

    memory = resnet(8, 25, recompute="six checkpoints").fullest
    assert memory.at.startswith("backward groups.0.")


def the_update_grows(outputs: dict[str, str]) -> None:
    """On 16 IPUs, the update takes less than 3 percent of a step. On 256 IPUs, a step has only 2
    micro-batches, and the update takes 17.7 percent, more than six times as much."""
    rows = list(_estimates(outputs["c31d"]).values())
    assert 6 * rows[0]["share"] < 17.7 == rows[-1]["share"] and rows[0]["share"] < 3
    assert [row["share"] for row in rows] == sorted(row["share"] for row in rows)
    images = [whole(n) for n in re.findall(r"([\d,]+) images a step", outputs["c31d"])]
    assert (images[0], images[-1]) == (3200, 10_240) and images == sorted(images)
    needed = [whole(n) for n in re.findall(r"or ([\d,]+) images\.", outputs["c31d"])]
    assert needed[-1] > images[-1]


def _machines(outputs: dict[str, str]) -> dict[int, tuple[int, int, float, float]]:
    """Return (published and estimated images a second, published and estimated update)."""
    rows = re.findall(
        r"(\d+) IPUs: +([\d,]+) images per second, estimated +([\d,]+); update +([\d.]+), estimated ([\d.]+)",
        outputs["c34"],
    )
    return {int(n): (whole(a), whole(b), float(c), float(d)) for n, a, b, c, d in rows}


def the_update_is_longer(outputs: dict[str, str]) -> None:
    """On 128 and 256 IPUs, the update takes longer than on 64, and about twice as long as in the
    estimate."""
    machines = _machines(outputs)
    assert machines[16][2] == machines[64][2] == 5.9  # as the text says of 16 and 64 IPUs
    assert machines[64][2] < min(machines[128][2], machines[256][2])
    assert all(1.8 < machines[n][2] / machines[n][3] < 2 for n in (128, 256))


def too_high(outputs: dict[str, str]) -> None:
    """so the estimated images per second are too high, by 10 and 13 percent."""
    machines = _machines(outputs)
    assert [round(100 * (machines[n][1] / machines[n][0] - 1)) for n in (128, 256)] == [10, 13]


def two_errors_cancel(outputs: dict[str, str]) -> None:
    """But the estimated micro-batch is a little too long, and the two errors nearly cancel."""
    machines = _machines(outputs)
    published, estimated = (float(n) for n in re.findall(r": ([\d.]+) million", outputs["c34"]))
    assert published < estimated < 1.05 * published
    assert all(machines[n][3] < machines[n][2] for n in (16, 64))
    assert all(abs(machines[n][1] / machines[n][0] - 1) < 0.03 for n in (16, 64))


def _backward(outputs: dict[str, str], cell: str) -> list[int]:
    """Return the cycles of the backward pass of each stage."""
    rows = re.findall(r"stage (\d)\s+([\d,]+)\s+([\d,]+)\s+[\d,]+\s+\d+%", outputs[cell])
    assert [int(stage) for stage, *_ in rows] == [0, 1, 2, 3]
    return [whole(backward) for _, _, backward in rows]


def the_embedding_costs_a_third(outputs: dict[str, str]) -> None:
    """Stage 0 also has the embedding, and its backward pass takes about a third longer."""
    stages = _backward(outputs, "c37")
    assert 1.25 < stages[0] / max(stages[1:3]) < 1.4
    assert abs(stages[1] / stages[2] - 1) < 0.03  # "Their times differ only a little"


def the_head_costs_most(outputs: dict[str, str]) -> None:
    """Stage 3 also has the head, and its backward pass takes almost twice as long as that of stage 1."""
    stages = _backward(outputs, "c37")
    assert 1.8 < stages[3] / stages[1] < 2


def most_is_a_copy(outputs: dict[str, str]) -> None:
    """Most of the additional cycles of stage 3 are a copy."""
    stages = _backward(outputs, "c37")
    (copy,) = re.findall(
        r"stage 3: copy to another stage, ([\d.]+) million cycles, of HALF\[30522, 768\]",
        outputs["c37"],
    )
    assert 0.7 < 1e6 * float(copy) / (stages[3] - stages[1]) < 1


def three_stages_waited(outputs: dict[str, str]) -> None:
    """With equal numbers of layers, three IPUs waited in each backward tick for the last one. Now the
    backward passes are nearly equal"""
    equal, yours = _backward(outputs, "c37"), _backward(outputs, "c40")
    assert max(equal[:3]) < 0.8 * equal[3]
    assert min(yours) > 0.9 * max(yours)


def no_room_for_a_layer(outputs: dict[str, str]) -> None:
    """Stage 3 has the shortest forward pass, but its backward pass leaves no room for a further
    layer."""
    layer = _backward(outputs, "c37")[1] / 3
    yours = _backward(outputs, "c40")
    assert yours[3] + layer > max(yours)


def a_quarter_more_sequences(outputs: dict[str, str]) -> None:
    """the pipeline processes about a quarter more sequences per second."""
    (ratio,) = re.findall(r"([\d.]+) times as many", outputs["c40"])
    before, after = (whole(n) for n in re.findall(r": ([\d,]+) modelled seq", outputs["c40"]))
    assert 1.2 < float(ratio) < 1.3 and abs(after / before - float(ratio)) < 0.01
