"""Pictures: the text that stands for them, what cannot be drawn, and the same bytes for the same
picture."""

from __future__ import annotations

import base64
import re
import struct
import subprocess
import sys
import warnings
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from matplotlib.figure import Figure

from ipu_teach import HALF, IPUTeachError, show
from ipu_teach.errors import InvalidOptionError, PoplarTypeError
from ipu_teach.show import Picture, images, picture
from ipu_teach.types import Array

NO_TEXT = (
    "A picture was given no alternative text.\n"
    '  next:  say what it shows: alt="Ten digits, written by hand."'
)


class Tags(HTMLParser):
    """The tags of a page, with their attributes as a browser reads them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def pixels_of(png: bytes) -> Array:
    """The image, (height, width, 4), decoded by matplotlib's own reader."""
    import io

    from matplotlib.image import imread

    return np.asarray(imread(io.BytesIO(png), format="png"))


def a_figure() -> Figure:
    figure = Figure(figsize=(2, 1))
    figure.add_subplot().plot([1, 3, 2])
    return figure


# --- the text -------------------------------------------------------------------------------------

TEXTS = [
    "Ten digits, written by hand.",
    'The "weights" of class 3 & <their> signs',
    "it's > 5 \"quoted\" &amp; 'twice'",
    '"><script>alert(1)</script><img alt="',
    "Verluste über der Zeit: 0 → 1 · 5 µs",
    "two\nlines",
]


@pytest.mark.parametrize("alt", TEXTS)
def test_html_is_one_image_with_its_text(alt: str) -> None:
    shown = Picture(b"\x89PNG of no importance", alt)
    ((tag, attributes),) = Tags(shown._repr_html_()).found
    assert tag == "img"
    assert attributes["alt"] == alt
    kind, data = str(attributes["src"]).split(",", 1)
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data, validate=True) == b"\x89PNG of no importance"
    assert "http" not in shown._repr_html_().split("alt=")[0]


@settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip))
def test_any_text_survives_html(alt: str) -> None:
    ((_, attributes),) = Tags(Picture(b"png", alt)._repr_html_()).found
    assert attributes["alt"] == alt


def test_a_picture_prints_as_its_text() -> None:
    shown = images(np.zeros((1, 2, 2)), "An empty square.")
    assert repr(shown) == str(shown) == shown.alt == "An empty square."


@pytest.mark.parametrize("alt", ["", " ", "\n\t", None, 3, b"text", ["text"]])
def test_no_picture_without_text(alt: Any) -> None:
    for draw in (
        lambda: Picture(b"png", alt),
        lambda: picture(a_figure(), alt),
        lambda: images(np.zeros((1, 2, 2)), alt),
    ):
        with pytest.raises(InvalidOptionError) as caught:
            draw()
        assert str(caught.value) == NO_TEXT


def test_the_package_offers_the_same_names() -> None:
    assert (show.Picture, show.picture, show.images) == (Picture, picture, images)


# --- what is drawn --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int8, np.int32, bool])
@pytest.mark.parametrize("diverging", [False, True])
def test_images_of_every_dtype_are_drawn(dtype: type, diverging: bool) -> None:
    shown = images(np.eye(3)[None].astype(dtype), "A diagonal.", diverging=diverging)
    assert np.ptp(pixels_of(shown.png)[..., :3]) > 0.5


def test_more_than_five_images_take_a_second_row() -> None:
    two, six = (images(np.ones((n, 4, 3)), "Squares.", range(n)) for n in (2, 6))
    (width, height), (wide, high) = size_of(two.png), size_of(six.png)
    assert wide > 2 * width and high > 1.5 * height


def test_a_figure_of_ones_own_is_drawn() -> None:
    assert np.ptp(pixels_of(picture(a_figure(), "A zigzag.").png)) > 0.5


def colours(values: list[list[list[float]]]) -> Array:
    """Red, green and blue in the middle of the only picture's left and right half."""
    pixels = pixels_of(images(np.array(values), "Two halves.", diverging=True).png)
    middle = pixels[pixels.shape[0] // 2]
    return middle[[len(middle) // 4, 3 * len(middle) // 4], :3]


def test_signed_values_are_red_below_zero_blue_above_and_white_at_zero() -> None:
    (below, above), (zero, _) = colours([[[-2, 2]]]), colours([[[0, 1]]])
    assert below[0] > below[2] + 0.2
    assert above[2] > above[0] + 0.2
    assert np.all(zero > 0.95)


@pytest.mark.parametrize(
    "stack",
    [
        np.zeros((2, 3, 3)),
        np.full((1, 2, 2), -128, np.int8),
        np.array([[[np.nan, 1.0]]]),
        np.full((1, 2, 2), np.nan),
        np.array([[[np.inf, -1.0]]]),
    ],
    ids=["zeros", "int8 minimum", "one nan", "all nan", "infinity"],
)
def test_odd_values_are_drawn_without_a_warning(stack: Array) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert size_of(images(stack, "Odd values.", diverging=True).png) > (0, 0)


def test_lists_and_numpy_titles_are_taken_too() -> None:
    listed = images([[[0, 1], [1, 0]], [[1, 1], [0, 0]]], "Two squares.", np.array([3, 8]))  # type: ignore[arg-type]
    assert (
        listed.png
        == images(np.array([[[0, 1], [1, 0]], [[1, 1], [0, 0]]]), "Two squares.", [3, 8]).png
    )


# --- what is refused ------------------------------------------------------------------------------

SHAPE = "\n  next:  give an array of shape (n, height, width)."
REAL = "\n  next:  give an array of real numbers."
TITLES = "\n  next:  give a list with a title for each picture."
GOOD = np.zeros((2, 3, 3))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: images(np.zeros((3, 3)), "x"),
            "images() was given an array of shape (3, 3), which is not a list of pictures." + SHAPE,
        ),
        (
            lambda: images(np.zeros((1, 2, 3, 4)), "x"),
            "images() was given an array of shape (1, 2, 3, 4), which is not a list of pictures."
            + SHAPE,
        ),
        (
            lambda: images(np.zeros(()), "x"),
            "images() was given an array of shape (), which is not a list of pictures." + SHAPE,
        ),
        (
            lambda: images(np.zeros((0, 3, 3)), "x"),
            "images() was given an array of shape (0, 3, 3), which is not a list of pictures."
            + SHAPE,
        ),
        (
            lambda: images(np.zeros((2, 0, 3)), "x"),
            "images() was given an array of shape (2, 0, 3), which is not a list of pictures."
            + SHAPE,
        ),
        (
            lambda: images(np.zeros((2, 3, 0)), "x"),
            "images() was given an array of shape (2, 3, 0), which is not a list of pictures."
            + SHAPE,
        ),
        (
            lambda: images(None, "x"),
            "images() was given an array of shape (), which is not a list of pictures." + SHAPE,
        ),  # type: ignore[arg-type]
        (
            lambda: images([[[1, 2], [3]]], "x"),
            "images() was given pictures of different sizes." + SHAPE,
        ),  # type: ignore[arg-type]
        (
            lambda: images(GOOD.astype(complex), "x"),
            "images() was given an array of dtype complex128, which it cannot draw." + REAL,
        ),
        (
            lambda: images(GOOD.astype(str), "x"),
            "images() was given an array of dtype <U32, which it cannot draw." + REAL,
        ),
        (
            lambda: images(GOOD.astype(object), "x"),
            "images() was given an array of dtype object, which it cannot draw." + REAL,
        ),
        (
            lambda: images(GOOD, "x", ["one"]),
            "images() was given titles=['one'], which is not a title for each of 2 pictures."
            + TITLES,
        ),
        (
            lambda: images(GOOD, "x", "ab"),
            "images() was given titles='ab', which is not a title for each of 2 pictures." + TITLES,
        ),
        (
            lambda: images(GOOD, "x", 5),  # type: ignore[arg-type]
            "images() was given titles=5, which is not a title for each of 2 pictures." + TITLES,
        ),
        (
            lambda: picture("a plot", "x"),
            "picture() was given 'a plot', which is not a matplotlib figure.\n"
            "  next:  give a matplotlib figure.",
        ),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_drawn_is_refused(call: Any, text: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        call()
    assert str(caught.value) == text
    assert isinstance(caught.value, IPUTeachError)


# --- determinism ----------------------------------------------------------------------------------


def chunks(png: bytes) -> list[bytes]:
    """The names of a PNG file's parts."""
    names, at = [], 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        names.append(png[at + 4 : at + 8])
        assert (
            zlib.crc32(png[at + 4 : at + 8 + length])
            == struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0]
        )
        at += 12 + length
    return names


def test_the_same_picture_has_the_same_bytes() -> None:
    stack = np.random.default_rng(5).standard_normal((2, 5, 5))
    first = images(stack, "Noise.", range(2), diverging=True)
    images(-stack, "Other noise.")
    again = images(stack.copy(), "Noise.", range(2), diverging=True)
    assert first.png == again.png
    assert first._repr_html_() == again._repr_html_()
    assert picture(a_figure(), "A zigzag.").png == picture(a_figure(), "A zigzag.").png


def test_the_file_names_no_program_and_no_time() -> None:
    png = images(np.eye(4)[None], "A diagonal.").png
    assert re.search(rb"matplotlib|Software|Creation", png) is None
    assert set(chunks(png)) <= {b"IHDR", b"PLTE", b"tRNS", b"pHYs", b"IDAT", b"IEND"}


def test_drawing_leaves_no_figure_open() -> None:
    """Figures of pyplot pile up in a notebook's memory; these are none of pyplot's."""
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    images(GOOD, "Two squares.")
    assert plt.get_fignums() == before


def test_matplotlib_waits_for_the_first_picture() -> None:
    probe = "import sys, ipu_teach.show; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], timeout=120).returncode == 0


# a report that no view looks at before it has looked at its other arguments
REPORT: Any = None
CURVES = {"dense": {0.5: 1.0, 0.25: 2.0}, "sparse": {0.5: 1.0, 0.25: 2.0}}
MISUSED: dict[str, tuple[Any, tuple[Any, ...], str, tuple[Any, ...], str]] = {
    "liveness": (show.liveness, (REPORT,), "axis", (None, 3, np.zeros(3)), "give a text"),
    "sweep": (show.sweep, ({1: 2.0},), "parameter", (None, 3, np.zeros(3)), "give a text"),
    "unit": (show.sweep, ({1: 2.0},), "unit", (None, 3, b"ms"), "give a text"),
    "crossing": (show.crossing, (CURVES,), "unit", (None, 3, object()), "give a text"),
    "explore": (show.explore, (), "build", (None, "bsp", 3), "give a function"),
    "formats": (
        show.formats, ([1.0], HALF), "seed", (None, -1, 2.5, "x", True, [1]),
        "give a whole number of 0 or more",
    ),
    "tile": (show.tile, (REPORT,), "tile", (slice(2), "x", 1.5), "give a whole number"),
    "step": (show.tile, (REPORT,), "step", (np.zeros(3), 1.5), "give a text, in quotes, or a whole"),
    "picture": (Picture, (), "png", (None, "x", 3), "give bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSED)
def test_an_argument_of_the_wrong_kind_is_refused_before_anything_is_drawn(name: str) -> None:
    call, args, parameter, values, advice = MISUSED[name]
    options: dict[str, Any] = {"alt": "A dot."} if call is Picture else {}
    options |= {"work": (1, 3)} if call is show.explore else {}
    for value in values:
        with pytest.raises(PoplarTypeError) as caught:
            call(*args, **options, **{parameter: value})
        assert f"{call.__name__}() was given" in caught.value.tried
        assert f"as {parameter}." in caught.value.tried and advice in caught.value.next_step


def test_a_view_takes_a_path_and_a_class_as_text(tmp_path: Path) -> None:
    view = show.numbers(HALF)
    for value in (None, 3, b"view.svg", ["view.svg"]):
        with pytest.raises(PoplarTypeError, match="as path"):
            view.save(value)  # type: ignore[arg-type]
        with pytest.raises(PoplarTypeError, match="as role"):
            view.html(value)  # type: ignore[arg-type]
    assert view.save(tmp_path / "view.svg").exists() and 'class="ipu-view wide"' in view.html(
        "wide"
    )


def test_numbers_refuses_what_single_precision_does_not_hold() -> None:
    for value in (1e300, float("nan"), float("-inf"), True, 1j):
        with pytest.raises(InvalidOptionError, match="give dtypes and a finite number"):
            show.numbers(HALF, value=value)  # type: ignore[arg-type]
    assert show.numbers(HALF, value=np.float32(0.5))
