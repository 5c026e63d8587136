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
    """The products fall least."""
    one, eight = _per_image(outputs)
    assert min(one, key=lambda kind: one[kind] / eight[kind]) == "products"


def the_line_is_right(outputs: dict[str, str]) -> None:
    """The line predicts the right size."""
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
    """Among those, groups.2 is longest. It is the third of the four groups of blocks. The largest part
    of the used memory is the saved activations."""
    assert "groups.2" in outputs["c4"]
    assert re.search(r"largest part is [\d,]+ bytes of saved activations", outputs["c4"])
    layers = re.findall(r"([a-z.\d]+)\s+[\d,]+\s+[\d,]+\s+[\d,]+\s+([\d,]{5,})\b", outputs["c4"])
    longest = sorted((whole(cycles), name) for name, cycles in layers)[-2:]
    assert [name for _, name in longest] == ["groups.2", "step"]
