"""The function `explore`: a view with sliders. When a slider moves, Python runs the program again.

The lanes of one superstep keep their time axis while a slider moves, so a superstep that takes
longer has longer bars. The notebook stores the picture of the initial setting, so that readers
without a kernel also see it. Where a kernel runs, a widget with the same player replaces the stored
picture. The module needs ipywidgets and anywidget, which come with the extra `lab`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import escape
from typing import Any

from ipu_teach._support.flags import checks
from ipu_teach.errors import InvalidOptionError, IPUTeachError, shown
from ipu_teach.show.bsp import axis_of, with_axis
from ipu_teach.show.view import View, own_script, player, with_scripts

Setting = Sequence[Any]
ENDS_STYLE = "font:14px/1.4 system-ui,sans-serif;margin:4px 16px"


class Explore:
    """The result of `explore`, which a notebook shows if it is the last value of a cell.

    `view` is the picture of the initial setting.
    """

    def __init__(
        self,
        build: Callable[..., View],
        settings: dict[str, Setting],
        start: dict[str, Any],
        view: View,
        ends: str = "",
    ) -> None:
        self._build = build
        self._settings = settings
        self._start = start
        self.view = view
        self.ends = ends

    def __repr__(self) -> str:
        return " ".join(filter(None, (repr(self.view), self.ends, self._offer())))

    def html(self) -> str:
        """Return the HTML of the first picture, which the notebook stores.

        Below the picture are the titles of the pictures at both ends of each setting.
        """
        html = self.view.html("stored")
        if not self.ends:
            return html
        text = f'<p style="{ENDS_STYLE}">{escape(self.ends)}</p>'
        return f"{html.removesuffix('</div>')}{text}</div>"

    def _offer(self) -> str:
        parts = [
            f"{name.replace('_', ' ')} ({_words(setting)})"
            for name, setting in self._settings.items()
        ]
        return f"Where a kernel runs, sliders change {', '.join(parts)}."

    def _ipython_display_(self) -> None:
        from IPython.display import display

        text = " ".join(filter(None, (repr(self.view), self.ends)))
        display({"text/plain": text, "text/html": self.html()}, raw=True)
        live: dict[str, Any] = {}
        with suppress(ImportError):  # Without ipywidgets, the notebook shows the stored picture.
            live = dict(
                widget(self._build, self._settings, self._start, self.view)._repr_mimebundle_()
            )
        display(live | {"text/plain": self._offer()}, raw=True)


@checks("build")
def explore(build: Callable[..., View], **settings: Setting) -> Explore:
    """What does a picture show at one end of a setting, and at the other?

    The result is a picture with sliders. The picture is built again when a slider moves. `build` is
    called with a value for each setting, as keyword arguments, and returns a view, such as
    `show.bsp(engine.report)`. A setting is (lowest, highest, step), (lowest, highest), or a list of
    at least two choices. The default step is 1 if the numbers are integers, and a hundredth of the
    range otherwise. The initial value of a slider is the default value of this parameter of
    `build`. If the parameter has no default, it is the lowest value or the first choice.

    :raises InvalidOptionError: if there is no setting, if a setting has another form, if a default
        is outside its setting, or if `build` does not return a view.
    """
    if not settings:
        raise InvalidOptionError("""explore() was given no setting, so it has no slider to show.
            next:  give a parameter of the function with its range: explore(build, work=(1,
            10)).""")
    for name, setting in settings.items():
        _check(name, setting)
    start = {name: _start(build, name, setting) for name, setting in settings.items()}
    view = _built(build, start)
    at_ends = _at_ends(build, settings, start, view)
    longest = max(axis_of(view), *map(axis_of, at_ends.values()))
    ends = "; ".join(f"with {setting}: {end.scene.title}" for setting, end in at_ends.items())
    drawn = ", ".join(_setting_text(name, value) for name, value in start.items())
    text = f"Drawn with {drawn}. {ends[:1].upper()}{ends[1:]}."
    return Explore(build, settings, start, with_axis(view, longest), text)


def _at_ends(
    build: Callable[..., View], settings: dict[str, Setting], start: dict[str, Any], view: View
) -> dict[str, View]:
    """Map strings such as "slow tile = 1,500" to the pictures at both ends of each setting.

    If the program cannot be built at an end, there is no picture of that end, unless the slider
    begins there.
    """
    at_ends: dict[str, View] = {}
    for name, setting in settings.items():
        last = setting[1] if isinstance(setting, tuple) else setting[-1]
        for value in dict.fromkeys((setting[0], last)):
            key = _setting_text(name, value)
            if value == start[name]:
                at_ends[key] = view
                continue
            # An error is shown when the slider is moved to this end.
            with suppress(IPUTeachError):
                at_ends[key] = _built(build, {**start, name: value})
    return at_ends or {"this setting": view}


def _setting_text(name: str, value: Any) -> str:
    """Return a setting with its value as a string, such as "slow tile = 1,500"."""
    return f"{name.replace('_', ' ')} = {f'{value:,}' if _is_number(value) else value}"


def _start(build: Callable[..., View], name: str, setting: Setting) -> Any:
    """Return the initial value of a slider."""
    parameters = inspect.signature(build).parameters
    default = parameters[name].default if name in parameters else inspect.Parameter.empty
    if default is inspect.Parameter.empty:
        return setting[0]
    among = (
        setting[0] <= default <= setting[1] if isinstance(setting, tuple) else default in setting
    )
    if not among:
        raise InvalidOptionError(f"""explore() was given {shown(setting)} for the setting {name!r},
            which does not contain the default {shown(default)} of that parameter.
            next:  extend the setting so that it contains {shown(default)}, or change the
            default.""")
    return default


def _built(build: Callable[..., View], values: dict[str, Any]) -> View:
    """Return the view that `build` returns for these values.

    :raises InvalidOptionError: if `build` returns anything other than a view.
    """
    view = build(**values)
    if not isinstance(view, View):
        raise InvalidOptionError(f"""The function that explore() calls returned {shown(view)},
            which is not a view.
            next:  return a view from it, such as show.bsp(engine.report).""")
    return view


def _check(name: str, setting: Setting) -> None:
    """Check that a setting is a range of numbers or a list of choices.

    :raises InvalidOptionError: if the setting is neither.
    """
    numbers = (
        isinstance(setting, tuple)
        and len(setting) in (2, 3)
        and all(_is_number(v) for v in setting)
    )
    if numbers and setting[0] < setting[1] and (len(setting) == 2 or setting[2] > 0):
        return
    if isinstance(setting, list) and len(setting) > 1:
        return
    raise InvalidOptionError(f"""explore() was given {shown(setting)} for the setting {name!r},
        which is neither a range of numbers nor a list of choices.
        next:  give (lowest, highest), (lowest, highest, step), or a list of at least two
        choices.""")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _words(setting: Setting) -> str:
    return (
        f"{setting[0]} to {setting[1]}"
        if isinstance(setting, tuple)
        else ", ".join(str(s) for s in setting)
    )


def widget(
    build: Callable[..., View], settings: dict[str, Setting], start: dict[str, Any], view: View
) -> Any:
    """Return an ipywidgets box with the sliders above the player."""
    import anywidget
    import ipywidgets as w
    import traitlets

    class Player(anywidget.AnyWidget):
        _esm = "\n".join((player(), *map(own_script, with_scripts()), own_script("widget")))
        scene = traitlets.Unicode().tag(sync=True)

    shown_ = Player(scene=view.scene.json())
    trouble = w.HTML()
    sliders = {name: _slider(w, name, setting, start[name]) for name, setting in settings.items()}

    axis = axis_of(view)

    def again(_: object) -> None:
        nonlocal axis
        try:
            view = _built(build, {name: slider.value for name, slider in sliders.items()})
            axis = max(axis, axis_of(view))
            shown_.scene = with_axis(view, axis).scene.json()
            trouble.value = ""
        # A setting may cause an error, such as too little memory. The error replaces the picture.
        except IPUTeachError as error:
            trouble.value = (
                f'<pre role="alert" style="white-space:pre-wrap">{escape(str(error))}</pre>'
            )

    for slider in sliders.values():
        slider.observe(again, "value")
    return w.VBox([*sliders.values(), trouble, shown_])


def _slider(w: Any, name: str, setting: Setting, value: Any) -> Any:
    look = {
        "description": name.replace("_", " "),
        "style": {"description_width": "initial"},
        "layout": {"width": "100%", "max_width": "420px"},
    }
    if isinstance(setting, list):
        return w.SelectionSlider(options=setting, value=value, **look)
    is_integer = all(isinstance(v, int) for v in setting)
    kind = w.IntSlider if is_integer else w.FloatSlider
    step = setting[2] if len(setting) == 3 else 1 if is_integer else (setting[1] - setting[0]) / 100
    return kind(value=value, min=setting[0], max=setting[1], step=step, **look)
