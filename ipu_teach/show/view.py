"""A scene in a notebook: a sentence, a picture with a table, and where scripts may run, the live
player.

The HTML is one element. Its picture is an `<img>` that needs no script and no trust, and works with
no kernel and no network; the script beside it puts the player in its place. Nothing in it changes
from run to run.
"""

from __future__ import annotations

import base64
import gzip
import re
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

MOST_ROWS = 24  # of the table in a page
MOST_BYTES = 150_000  # of a scene
PLAIN = " !'()*+,-./:;<=>?@[]_{|}~"  # in an address, and between double quotes, as they are
FORMATS = ("html", "svg", "png", "pdf", "gif")


def fitting(scene_of: Callable[[int], Scene], max_frames: int, min_frames: int = 16) -> View:
    """Return the view of a scene of at most `max_frames` parts. While it is too large, it is built
    again with at most half as many, down to `min_frames`."""
    while True:
        scene = scene_of(max_frames)
        if (size := len(scene.json())) <= MOST_BYTES or max_frames < min_frames:
            return View(scene)
        max_frames = min(max_frames // 2, max_frames * MOST_BYTES // size)


@flagged
class View:
    """A picture of a program or a run. A notebook shows it as the last value of a cell. `repr`
    returns a sentence, or `text` if that is given."""

    def __init__(self, scene: Scene, text: str = "") -> None:
        self.scene = scene
        self._text = text or scene.sentence

    def __repr__(self) -> str:
        return self._text

    @property
    def alt(self) -> str:
        """The sentence that stands for the picture."""
        return self.scene.sentence

    @property
    def data(self) -> list[dict[str, str]]:
        """The rows of the table beside the picture, each a dictionary."""
        headings, rows = self.scene.table
        return [dict(zip(headings, row, strict=True)) for row in rows]

    def _repr_html_(self) -> str:
        return self.html()

    @checks("role")
    def html(self, role: str = "") -> str:
        """Return the view as an HTML element; `role` is an additional class of that element."""
        # An end of an element within an attribute is what cleaners of pages take for an attack.
        poster = quote(svg(self.scene).replace('"', "'"), safe=PLAIN).replace("</", "%3C/")
        image = (
            f'<img src="data:image/svg+xml,{poster}" alt="{escape(self.alt, quote=True)}" '
            'style="max-width:100%;height:auto">'
        )
        # before a percent sign no line breaks
        live = re.sub(r"(?<=\d) %", "\u00a0%", table(self.scene) + script(self.scene))
        return f'<div class="ipu-view{" " + role if role else ""}">{image}{live}</div>'

    @checks("path")
    def save(
        self,
        path: str | Path,
        *,
        frame: int | None = None,
        width: int | None = None,
        dark: bool = False,
    ) -> Path:
        """Write the picture: html (live, one file), svg, png, pdf (frame number `frame`, else the
        poster) or gif (all frames).

        The ending of `path` decides. png, pdf and gif are drawn by matplotlib: `width` is that of a
        png (1,080 if left out) or a gif (720) in pixels, and `dark` takes the colours of a dark
        page. html and svg follow their reader's. Returns the path. Raises `InvalidOptionError`.
        """
        target = Path(path)
        ending = target.suffix.lower().lstrip(".")
        if ending not in FORMATS:
            raise InvalidOptionError(f"""save() was given {shown(str(path))}, whose ending is not
                a format.
                next:  {did_you_mean(ending, FORMATS)}End it with one of
                {", ".join("." + f for f in FORMATS)}.""")
        count = len(self.scene.frames)
        if frame is not None and not (is_whole(frame) and 0 <= frame < count):
            raise InvalidOptionError(f"""save() was asked for frame {shown(frame)}.
                next:  give a whole number from 0 to {count - 1:,}.""")
        if width is not None and not (is_whole(width) and 100 <= width <= 10_000):
            raise InvalidOptionError(f"""save() was asked for a width of {shown(width)}.
                next:  give a whole number of pixels from 100 to 10,000.""")
        if ending == "html":
            target.write_text(page(self), encoding="utf-8")
        elif ending == "svg":
            target.write_text(svg(self.scene, frame), encoding="utf-8")
        else:
            try:
                from ipu_teach.show import mpl
            except ModuleNotFoundError as error:
                raise NotHereImportError(
                    f"save() draws a {ending} with matplotlib, and matplotlib is not installed.",
                    next_step="python -m pip install matplotlib, or save an svg or html file.",
                ) from error

            mpl.write(
                self.scene,
                target,
                ending,
                frame,
                width or (WIDTH if ending == "gif" else 1080),
                dark,
            )
        return target


def page(view: View) -> str:
    """Return a whole HTML page with the view in it."""
    metas = (
        'charset="utf-8"',
        'name="viewport" content="width=device-width"',
        'name="color-scheme" content="light dark"',
    )
    head = "".join(f"<meta {m}>" for m in metas) + f"<title>{escape(view.scene.title)}</title>"
    return (
        "<!doctype html><html "
        f'lang="en"><head>{head}</head><body><main>{view._repr_html_()}</main></body></html>\n'
    )


def table(scene: Scene) -> str:
    """Return the folded table of a scene as HTML, with notes on what the picture leaves out below
    it.

    Rows and cells have no end tags, which HTML allows and which saves a tenth of the size.
    """
    headings, rows = scene.table
    head = "".join(f'<th scope="col">{escape(h)}' for h in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}" for cell in row) for row in rows[:MOST_ROWS]
    )
    rest = (
        [f"{len(rows) - MOST_ROWS:,} more rows are in the view's data."]
        if len(rows) > MOST_ROWS
        else []
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in (*scene.notes, *rest))
    cells = f"<table><thead><tr>{head}<tbody>{body}</table>"
    return f"<details><summary>Show as table</summary>{cells}{notes}</details>"


# Unpacks the script and starts the player. A browser without DecompressionStream keeps the picture.
OPEN = """<script>(async(r,d,z)=>{\
const t=new Response(new Blob([Uint8Array.from(atob(z),c=>c.charCodeAt(0))]).stream()\
.pipeThrough(new DecompressionStream("gzip")));\
Function("r","d",await t.text()+"\\nlive(r,d)")(r,d)})\
(document.currentScript.parentElement,"""


def script(scene: Scene) -> str:
    """Return the HTML element that starts the player: the data, the compressed script, and the
    code that unpacks it."""
    plain = "painted" if any(isinstance(mark, Painted) for mark in scene.marks) else "player"
    packed = base64.b64encode(compressed(scene.view, plain)).decode("ascii")
    return f'{OPEN}{scene.json()},"{packed}")</script>'


@cache
def compressed(view: str, plain: str = "player") -> bytes:
    """Return the player with the additions of a view, compressed by `static/make_scripts.py`. A
    view without additions gets `plain`."""
    static = resources.files("ipu_teach.show").joinpath("static")
    script_file = static.joinpath(f"{view}.js.gz")
    return (
        script_file if script_file.is_file() else static.joinpath(f"{plain}.js.gz")
    ).read_bytes()


def player() -> str:
    """Return the source of the player, without comments and indentation."""
    return gzip.decompress(compressed("player")).decode("utf-8")


def with_scripts() -> list[str]:
    """Return the views that have additions to the player."""
    names = (file.name for file in resources.files("ipu_teach.show").joinpath("static").iterdir())
    view_names = {name.removesuffix(".js.gz") for name in names if name.endswith(".js.gz")}
    return sorted(view_names - {"player", "widget", "puzzle"})


def own_script(view: str) -> str:
    """Return the additions of a view, or of "widget", to the player; "" if there are none."""
    return gzip.decompress(compressed(view)).decode("utf-8").removeprefix(player())
