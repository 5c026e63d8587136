"""Press keys on the page of a view in a browser, and read what it shows."""

from __future__ import annotations

from typing import Any

from .conftest import ROOT

# The first cell of a notebook whose other cells show views.
SETUP = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom ipu_teach import show\nfrom "
    "tests.browser import programs"
)
# A label that breaks out of a page which does not escape it, and is longer than any line.
HOSTILE = "<script>hacked = 1</script> \"quotes\" 'more' & 😀 " + "long " * 2_000


def is_playing(page: Any) -> bool:
    """Return whether the view is playing."""
    return bool(page.evaluate("document.querySelector('.ipu-live').ipuPlayer.playing"))


def position(page: Any) -> float:
    """Return the position of the player, in stills."""
    return float(page.evaluate("document.querySelector('.ipu-live').ipuPlayer.at"))


def status(page: Any) -> str:
    """Return the first line below the view."""
    text = str(page.locator(".ipu-live p").first.inner_text())
    return text.replace("\u00a0", " ")  # before a percent sign


def description(page: Any) -> str:
    """Return the description of the part that the reader points at."""
    return str(page.locator(".ipu-live p.soft").first.inner_text())


def canvas_texts(page: Any) -> list[str]:
    """Draw the canvas again, and return all texts that are written on it."""
    script = """() => {
        const box = document.querySelector('.ipu-live'), pen = box.querySelector(':scope > canvas').getContext('2d');
        const found = [], old = pen.fillText;
        pen.fillText = function (text, ...rest) { found.push(text); return old.call(this, text, ...rest); };
        box.ipuPlayer.draw();
        delete pen.fillText;
        return found;
    }"""
    texts: list[str] = page.evaluate(script)
    return [text.replace("\u00a0", " ") for text in texts]  # before a percent sign


def press(page: Any, *keys: str) -> None:
    """Press the keys, one after the other."""
    for key in keys:
        page.keyboard.press(key)


def reduce_motion(page: Any) -> None:
    """Ask for reduced motion, and wait for two frames: by then, a playing view has paused."""
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
