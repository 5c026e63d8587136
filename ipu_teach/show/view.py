"""The class `View`: a scene as a notebook or a file shows it.

A notebook shows a view as one HTML element. The element contains an `<img>` with the picture, which
works without scripts, without trust, without a kernel and without a network. Where scripts may run,
a script next to the image replaces the image with the live player. The HTML of a view is the same
in each run of the program.
"""

from __future__ import annotations

import base64
import gzip
import re
import sys
from collections.abc import Callable
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from urllib.parse import quote

from ipu_teach._support.flags import checks, flagged
from ipu_teach.errors import InvalidOptionError, NotHereImportError, did_you_mean, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.show.scene import WIDTH, Painted, Scene
from ipu_teach.show.svg import svg

MOST_ROWS = 24  # The maximum number of rows of the table in a page.
MOST_BYTES = 150_000  # The maximum size of a scene as JSON, in bytes.
# The characters that need no escape in a URL between double quotes.
PLAIN = " !'()*+,-./:;<=>?@[]_{|}~"
FORMATS = ("html", "svg", "png", "pdf", "gif")


def fitting(scene_of: Callable[[int], Scene], max_frames: int, min_frames: int = 16) -> View:
    """Return a view of `scene_of(max_frames)`, with fewer frames if the scene is too large.

    A scene is too large if its JSON has more than 150,000 bytes. `scene_of` is then called again
    with at most half as many frames, until the scene fits or `max_frames` is less than
    `min_frames`.
    """
    while True:
        scene = scene_of(max_frames)
        if (num_bytes := len(scene.json())) <= MOST_BYTES or max_frames < min_frames:
            return View(scene)
        max_frames = min(max_frames // 2, max_frames * MOST_BYTES // num_bytes)


@flagged
class View:
    """A picture of a program or a run, which a notebook shows as the last value of a cell.

    `repr(view)` is `text`, which is the sentence of the scene by default.
    """

    def __init__(self, scene: Scene, text: str = "") -> None:
        self.scene = scene
        self._text = text or scene.sentence

    def __repr__(self) -> str:
        return self._text

    @property
    def alt(self) -> str:
        """The sentence that replaces the picture for readers who cannot see it."""
        return self.scene.sentence

    @property
    def data(self) -> list[dict[str, str]]:
        """The table of the picture: a dict for each row, which maps headings to cells."""
        headings, rows = self.scene.table
        return [dict(zip(headings, row, strict=True)) for row in rows]

    def _repr_html_(self) -> str:
        return self.html()

    @checks("role")
    def html(self, role: str = "") -> str:
        """Return the view as an HTML element.

        `role` is an additional CSS class of that element.

        :raises PoplarTypeError: if `role` is not a string.
        """
        # HTML sanitizers treat an end tag inside an attribute as an attack, so "</" is escaped.
        poster = quote(svg(self.scene).replace('"', "'"), safe=PLAIN).replace("</", "%3C/")
        image = (
            f'<img src="data:image/svg+xml,{poster}" alt="{escape(self.alt, quote=True)}" '
            'style="max-width:100%;height:auto">'
        )
        # No line may break before a percent sign.
        live_html = re.sub(r"(?<=\d) %", "\u00a0%", table(self.scene) + script(self.scene))
        return f'<div class="ipu-view{" " + role if role else ""}">{image}{live_html}</div>'

    @checks("path")
    def save(
        self,
        path: str | Path,
        *,
        frame: int | None = None,
        width: int | None = None,
        dark: bool = False,
    ) -> Path:
        """Write the picture to a file, and return its path.

        The suffix of `path` selects the format:

        - html: a page in a single file, with the live picture.
        - svg, png, pdf: frame number `frame`, by default the poster.
        - gif: the poster, and then all frames.

        matplotlib draws png, pdf and gif files. For these, `width` is in pixels, by default 1,080
        for a png and 720 for a gif, and `dark` selects the colours of a dark page. html and svg
        files follow the reader's light or dark setting.

        :raises InvalidOptionError: if the suffix is not a format, or the frame or width is out of
            range.
        :raises NotHereImportError: if matplotlib is needed but not installed.
        """
        file_path = Path(path)
        file_format = file_path.suffix.lower().lstrip(".")
        if file_format not in FORMATS:
            raise InvalidOptionError(f"""save() was given {shown(str(path))}, whose ending is not
                a format.
                next:  {did_you_mean(file_format, FORMATS)}End it with one of
                {", ".join("." + f for f in FORMATS)}.""")
        num_frames = len(self.scene.frames)
        if frame is not None and not (is_whole(frame) and 0 <= frame < num_frames):
            raise InvalidOptionError(f"""save() was given frame={shown(frame)}, which is not a frame
                of this picture.
                next:  give a whole number from 0 to {num_frames - 1:,}.""")
        if width is not None and not (is_whole(width) and 100 <= width <= 10_000):
            raise InvalidOptionError(f"""save() was given width={shown(width)}, which is not a
                possible width.
                next:  give a whole number of pixels from 100 to 10,000.""")
        if file_format == "html":
            file_path.write_text(page(self), encoding="utf-8")
        elif file_format == "svg":
            file_path.write_text(svg(self.scene, frame), encoding="utf-8")
        else:
            try:
                from ipu_teach.show import mpl
            except ModuleNotFoundError as error:
                raise NotHereImportError(
                    f"save() draws a {file_format} with matplotlib, and matplotlib is not "
                    "installed.",
                    next_step="python -m pip install matplotlib, or save an svg or html file.",
                ) from error

            mpl.write(
                self.scene,
                file_path,
                file_format,
                frame,
                width or (WIDTH if file_format == "gif" else 1080),
                dark,
            )
        return file_path


def page(view: View) -> str:
    """Return a complete HTML page that contains the view.

    The heading of the page is the question that the view answers or, without one, the title of the
    picture.
    """
    meta_attributes = (
        'charset="utf-8"',
        'name="viewport" content="width=device-width"',
        'name="color-scheme" content="light dark"',
    )
    title = escape(view.scene.title, quote=False)
    head_html = "".join(f"<meta {attributes}>" for attributes in meta_attributes)
    function = getattr(sys.modules[__package__], view.scene.view, None)
    question = (function.__doc__ or "").strip().partition("\n")[0] if function else ""
    heading = escape(question, quote=False) or title
    return (
        f'<!doctype html><html lang="en"><head>{head_html}<title>{title}</title></head><body><main>'
        '<h1 style="font:bold 20px system-ui,sans-serif;margin:8px 16px">'
        f"{heading}</h1>{view._repr_html_()}</main></body></html>\n"
    )


def table(scene: Scene) -> str:
    """Return the table of a scene, with the scene's notes below it, as an HTML `<details>` element.

    HTML allows rows and cells without end tags, which makes the element a tenth smaller.
    """
    headings, rows = scene.table
    head_html = "".join(f'<th scope="col">{escape(heading, quote=False)}' for heading in headings)
    body_html = "".join(
        "<tr>" + "".join(f"<td>{escape(cell, quote=False)}" for cell in row)
        for row in rows[:MOST_ROWS]
    )
    row_note = (
        [f"{len(rows) - MOST_ROWS:,} more rows are in the view's data."]
        if len(rows) > MOST_ROWS
        else []
    )
    notes = "".join(f"<p>{escape(note, quote=False)}</p>" for note in (*scene.notes, *row_note))
    table_html = f"<table><thead><tr>{head_html}<tbody>{body_html}</table>"
    return f"<details><summary>Show as table</summary>{table_html}{notes}</details>"


# This JavaScript unpacks the player and starts it. A browser without DecompressionStream keeps
# the picture.
OPEN = """<script>(async(r,d,z)=>{\
const t=new Response(new Blob([Uint8Array.from(atob(z),c=>c.charCodeAt(0))]).stream()\
.pipeThrough(new DecompressionStream("gzip")));\
Function("r","d",await t.text()+"\\nlive(r,d)")(r,d)})\
(document.currentScript.parentElement,"""


def script(scene: Scene) -> str:
    """Return the `<script>` element that starts the live player.

    The element contains the data of the scene, the compressed player, and code that unpacks the
    player.
    """
    default_script = (
        "painted" if any(isinstance(mark, Painted) for mark in scene.marks) else "player"
    )
    packed = base64.b64encode(compressed(scene.view, default_script)).decode("ascii")
    return f'{OPEN}{scene.json()},"{packed}")</script>'


@cache
def compressed(view: str, default_script: str = "player") -> bytes:
    """Return the gzipped script of a view: the player, followed by the additions of that view.

    `static/make_scripts.py` writes the script. If the view has no additions, return the script with
    the name `default_script`.
    """
    static = resources.files("ipu_teach.show").joinpath("static")
    script_file = static.joinpath(f"{view}.js.gz")
    return (
        script_file if script_file.is_file() else static.joinpath(f"{default_script}.js.gz")
    ).read_bytes()


def player() -> str:
    """Return the JavaScript source of the player, without comments and indentation."""
    return gzip.decompress(compressed("player")).decode("utf-8")


def with_scripts() -> list[str]:
    """Return the sorted names of the views that have additions to the player."""
    names = (file.name for file in resources.files("ipu_teach.show").joinpath("static").iterdir())
    view_names = {name.removesuffix(".js.gz") for name in names if name.endswith(".js.gz")}
    return sorted(view_names - {"player", "widget", "puzzle"})


def own_script(view: str) -> str:
    """Return the JavaScript that `view` (or "widget") adds to the player; "" if there is none."""
    return gzip.decompress(compressed(view)).decode("utf-8").removeprefix(player())
