"""Define exercises, predictions and lessons, and find them by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import import_module
from typing import TypeVar

import numpy as np

from ipu_course.checking.naming import exercise_meant, lesson_of, number_of
from ipu_course.checking.precision import Precision
from ipu_course.checking.quoting import plain
from ipu_course.checking.verdict_panel import number
from ipu_course.checking.verdicts import Passed
from ipu_course.checking.words import section, text
from ipu_teach.errors import AnswerKindError, UnknownExerciseError, counted, did_you_mean, shown
from ipu_teach.types import Array

REFUSALS = 3  # The number of refused attempts after which a puzzle is offered.
MOST = 1e15  # The largest number that is allowed in a prediction.
Guess = str | int | float  # A valid value of a prediction.
NUMBER = re.compile(r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:e[+-]?\d+)?) ?(%|per ?cent)?")


@dataclass(frozen=True)
class Exercise:
    """An exercise: its name, its title, the function that checks answers, and its texts.

    * `judge` checks the answers and returns `Passed`.
    * `hints` are ordered: the first one says little, and the last one almost the whole solution, so
      that only the code remains to be written.
    * `thought` is a text for learners who have solved the exercise: a question or another approach.
    * `takes` describes each argument that check() takes after the exercise's name: usually "a
      function".
    * `precision` is the required floating-point precision, if results are not whole numbers.
    * `decoys` has the wrong lines of the puzzle: pairs of a wrong line and the line of the
      reference answer that it replaces. An exercise without decoys has no puzzle, for example
      because its answer has fewer than three lines.
    """

    name: str
    title: str
    judge: Callable[..., Passed]
    hints: tuple[str, ...]
    thought: str = ""
    takes: tuple[str, ...] = ("a function",)
    precision: Precision | None = None
    decoys: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class PredictedValue:
    """One value of a prediction: its label, its unit and the allowed values.

    `choices` has the allowed words, and is () for a number. If `whole` is True, only integers are
    allowed. `low` and `high` are the smallest and the largest allowed number.
    """

    label: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    whole: bool = False
    low: float = 0
    high: float = float("inf")

    @property
    def share(self) -> bool:
        """Whether the value is a fraction from 0 to 1, which a learner may write in per cent."""
        return not self.whole and (self.low, self.high) == (0, 1)

    @property
    def per_cent(self) -> bool:
        """Whether the value is in per cent, which a learner may write with or without "%"."""
        return not self.whole and (self.low, self.high) == (0, 100)

    def value(self, answer: object) -> Guess | None:
        """Return `answer` as str, int or float, or None if it is not an allowed value.

        An allowed value may still be a wrong prediction. A number may be written as text.
        """
        if self.choices:
            word = str(answer).strip().removesuffix(self.unit).strip().lower()
            return next((choice for choice in self.choices if choice.lower() == word), None)
        value, has_sign = _number_in(answer, self.unit)
        if self.share and value is not None and (has_sign or 1 < value <= 100):
            # The learner wrote a percentage.
            value = float(value) / 100
        elif has_sign and not self.per_cent:
            return None
        if (
            value is None
            or self.whole
            and not isinstance(value, int)
            or not self.low <= value <= min(self.high, MOST)
        ):
            return None
        return value if isinstance(value, int) else float(value)

    def readings(self, answer: object) -> tuple[str, ...]:
        """Return two unambiguous strings, one for each meaning of an ambiguous answer; else ().

        The answer 0.97 is ambiguous if the value is in per cent: it may mean 0.97 % or 97 %.
        """
        value, has_sign = _number_in(answer, self.unit)
        if not self.per_cent or value is None or has_sign or not 0 < value <= 1:
            return ()
        return (f'"{float(value):g} %"', f"{100 * float(value):g}")

    @property
    def kind(self) -> str:
        """The kind of value as a plural noun: "words", "shares", "whole numbers" or "numbers"."""
        if self.choices:
            return "words"
        return "shares" if self.share else "whole numbers" if self.whole else "numbers"

    def example(self, place: int) -> Guess:
        """Return an allowed value, which a message shows as an example.

        `place` is the index of this value in its prediction. The example depends on `place`, so
        that the values of one prediction usually have different examples.
        """
        if self.choices:
            return self.choices[-1 - place % len(self.choices)]
        if self.share:
            return (0.5, 0.8, 0.3)[place % 3]
        if self.per_cent:
            return 50
        if self.high < float("inf"):
            return (int if self.whole else float)((self.low + self.high) / 2)
        return (7, 12, 9)[place % 3] if self.whole else (1.5, 2.5, 3.5)[place % 3]

    def asks(self) -> str:
        """Return a description of the allowed values, such as "a number from 0 to 1"."""
        if self.choices:
            return " or ".join(repr(choice) for choice in self.choices)
        bounds = f" from {number(self.low)}" + (
            f" to {number(self.high)}" if self.high < float("inf") else " on"
        )
        cent = ', or per cent, as "20 %"' if self.share else ""
        return f"{'a whole number' if self.whole else 'a number'}{bounds}{cent}"

    def said(self, value: Guess) -> str:
        """Return a value with its label and unit as text."""
        text = value if isinstance(value, str) else number(value)
        return f"{self.label} {text}{' ' if self.unit else ''}{self.unit}".strip()


def _number_in(answer: object, unit: str) -> tuple[int | float | Fraction | None, bool]:
    """Return `(number, has_per_cent_sign)` for a number or for a text that contains only a number.

    The text may end in `unit`. `number` is None if `answer` is not a number.
    """
    if not isinstance(answer, str):
        return plain(answer), False
    match = NUMBER.fullmatch(answer.strip().removesuffix(unit).strip().lower())
    if match is None:
        return None, False
    try:
        digits = match[1].replace(",", "")
        return (int(digits) if digits.isdecimal() else float(digits)), match[2] is not None
    except ValueError:
        return None, False


@dataclass(frozen=True)
class Question:
    """A prediction: its question, the values that it asks for, and an explanation of the result."""

    name: str
    title: str
    parts: tuple[PredictedValue, ...]
    why: str

    @property
    def form(self) -> str:
        """The form of a prediction, with an example: "a pair of shares, such as (0.5, 0.8)"."""
        parts = self.parts
        examples = tuple(part.example(place) for place, part in enumerate(parts))
        if len(parts) == 1:
            return f"{parts[0].asks()}, such as {examples[0]!r}"
        names = "; ".join(part.label.removesuffix(":") for part in parts)
        if len({part.asks() for part in parts}) == 1:
            group = f"{'a pair of' if len(parts) == 2 else len(parts)} {parts[0].kind}"
            kinds = f"each is {parts[0].asks()}"
        else:
            group = "a pair" if len(parts) == 2 else f"{len(parts)} values"
            kinds = "; ".join(f"{part.label}: {part.asks()}" for part in parts)
        return f"{group} ({names}), such as {examples!r}; {kinds}"

    def asks(self) -> str:
        """Return a sentence that tells the learner how to answer, and which values are valid."""
        return f"put your guess in place of the dots: {self.form}."

    def values(self, answer: object) -> tuple[Guess, ...]:
        """Return `answer` as a tuple with one value for each element of `parts`.

        :raises AnswerKindError: if `answer` is not a valid prediction.
        """
        values = self._separate(answer)
        read = [part.value(value) for part, value in zip(self.parts, values, strict=False)]
        guesses = tuple(guess for guess in read if guess is not None)
        if not len(guesses) == len(values) == len(self.parts):
            raise AnswerKindError(
                f"Prediction {self.name} was given {shown(answer)}, which is not a valid guess.",
                where=self.title,
                next_step=f"give {self.form}.",
            )
        return guesses

    def guessed(self, answer: object) -> tuple[Guess, ...]:
        """Return the values of a learner's guess as a tuple, and refuse an ambiguous guess.

        :raises AnswerKindError: if `answer` is not a valid prediction, or can be read in two ways.
        """
        for part, value in zip(self.parts, self._separate(answer), strict=False):
            if readings := part.readings(value):
                raise AnswerKindError(
                    f"Prediction {self.name} was given {shown(value)}, which can be read in two "
                    "ways.",
                    where=self.title,
                    next_step=f"give {readings[0]} or {readings[1]}, whichever you mean.",
                )
        return self.values(answer)

    def _separate(self, answer: object) -> Sequence[object] | Array:
        """Return the values of `answer` as a sequence.

        A text is split at commas if the prediction asks for several values.
        """
        if isinstance(answer, (tuple, list)) or isinstance(answer, np.ndarray) and answer.ndim == 1:
            return answer
        if isinstance(answer, str) and len(self.parts) > 1:
            return [part.strip(" '\"") for part in answer.strip(" ()[]").split(",")]
        return (answer,)

    def said(self, values: tuple[Guess, ...]) -> str:
        """Return the values of a prediction as text, with labels and units."""
        return ", ".join(part.said(value) for part, value in zip(self.parts, values, strict=True))


@dataclass(frozen=True)
class Drawn:
    """A question with chosen numbers: its text, and a function that computes the answer.

    The function runs a program on the simulated machine and returns the result.
    """

    asks: str
    answer: Callable[[], tuple[Guess, ...]]


@dataclass(frozen=True)
class Later(Question):
    """A prediction that a later lesson asks again, with other numbers.

    Its correct answer is not stored: a program on the simulated machine computes it.
    """

    draw: Callable[[np.random.Generator], Drawn]

    def drawn(self) -> Drawn:
        """Return the question with chosen numbers.

        The random generator is seeded with the name, so the numbers are the same in every process.
        """
        return self.draw(np.random.default_rng([ord(sign) for sign in self.name]))


@dataclass(frozen=True)
class Lesson:
    """A lesson: its number, its title, its duration in minutes, and its exercises and predictions.

    `items` are in the order of the notebook. `later` has the predictions of this lesson that a
    later lesson asks again.
    """

    number: str
    title: str
    minutes: int
    items: tuple[Exercise | Question, ...]
    later: tuple[Later, ...] = ()

    @property
    def exercises(self) -> tuple[Exercise, ...]:
        """The items of the lesson that are exercises, in order; the other items are predictions."""
        return tuple(item for item in self.items if isinstance(item, Exercise))


def exercise(
    name: str,
    judge: Callable[..., Passed],
    takes: tuple[str, ...] = ("a function",),
    precision: Precision | None = None,
) -> Exercise:
    """Build an exercise from its check function; its prose is read from the lesson's `words.md`."""
    entries = section(lesson_of(name), f"check {name}")
    decoys = zip(entries.get("decoy", ()), entries.get("for", ()), strict=True)
    return Exercise(
        name,
        text(entries, "title"),
        judge,
        hints=tuple(entries.get("hint", ())),
        thought=text(entries, "thought"),
        takes=takes,
        precision=precision,
        decoys=tuple(decoys),
    )


def question(name: str, parts: tuple[PredictedValue, ...]) -> Question:
    """Build a prediction that asks for `parts`; its prose is read from the lesson's `words.md`."""
    entries = section(lesson_of(name), f"predict {name}")
    return Question(name, text(entries, "title"), parts, text(entries, "why"))


def later(
    name: str,
    parts: tuple[PredictedValue, ...],
    draw: Callable[[np.random.Generator], Drawn],
) -> Later:
    """Build a prediction that a later lesson asks again; its prose is in `words.md`."""
    entries = section(lesson_of(name), f"predict {name}")
    return Later(
        name, title=text(entries, "title"), parts=parts, why=text(entries, "why"), draw=draw
    )


def lesson(number: str, *items: Exercise | Question, later: tuple[Later, ...] = ()) -> Lesson:
    """Build a lesson from its exercises and predictions, given in the order of the notebook."""
    entries = section(number, "lesson")
    minutes = int(text(entries, "minutes"))
    return Lesson(number, text(entries, "title"), minutes, items=items, later=later)


# The numbers of the lessons that have exercises, in order.
NUMBERS = (
    *("00", "01", "02", "03", "04", "05", "06", "07", "07b"),
    *("08", "09", "10", "11", "12", "13", "14", "15", "16"),
)


@cache
def catalogue() -> tuple[Lesson, ...]:
    """Return all lessons that have exercises, in order."""
    return tuple(import_module(f"ipu_course.lesson{n}.checks").LESSON for n in NUMBERS)


def asked_again_in(lesson: Lesson) -> tuple[Later, ...]:
    """Return the predictions of earlier lessons that this lesson asks again.

    A prediction is asked again in the first lesson whose number is at least two higher.
    """
    questions: list[Later] = []
    for earlier in catalogue():
        two_on = [
            known
            for known in catalogue()
            if number_of(known.number) >= number_of(earlier.number) + 2
        ]
        questions += earlier.later if two_on[:1] == [lesson] else ()
    return tuple(questions)


Item = TypeVar("Item", bound=Exercise | Question)


def _named(name: str, kind: type[Item], noun: str, call: str) -> Item:
    """Return the exercise or prediction called `name`.

    `kind` is the class to look for, `noun` is its word in the error message, and `call` is the
    function that the learner called.

    :raises UnknownExerciseError: if there is no item of this kind. The message suggests the nearest
        name.
    """
    items = [item for known in catalogue() for item in (*known.items, *known.later)]
    by_name = {item.name: item for item in items if isinstance(item, kind)}
    if isinstance(name, str) and name in by_name:
        return by_name[name]
    has_other_kind = any(item.name == name for item in items)
    if has_other_kind:
        instead = "predict" if kind is Exercise else "check"
        raise UnknownExerciseError(f"""{name} is
            {"a prediction, but" if kind is Exercise else "an exercise, but"} {call}() takes
            {"an exercise" if kind is Exercise else "a prediction"}.
            next:  {instead}("{name}", …).""")
    padded = exercise_meant(str(name)) if isinstance(name, (str, float)) else ""
    near = f"did you mean {padded!r}? " if padded in by_name else did_you_mean(name, by_name)
    numbers = ", ".join(known.number for known in catalogue())
    like = next(example for example in by_name if ".w" not in example)
    raise UnknownExerciseError(f"""There is no {noun} {shown(name)}.
        next:  {near}Names are strings, such as {like!r}. The lessons with exercises are
        {numbers}.""")


def find_exercise(name: str, call: str) -> Exercise:
    """Return the exercise called `name`; `call` is what the learner called, such as "hint".

    :raises UnknownExerciseError: if there is no such exercise. The message suggests the nearest
        name.
    """
    return _named(name, Exercise, "exercise", call)


def find_question(name: str) -> Question:
    """Return the prediction called `name`.

    :raises UnknownExerciseError: if there is no such prediction. The message suggests the nearest
        name.
    """
    return _named(name, Question, "prediction", "predict")


def refuse_other_kinds(exercise: Exercise, answers: tuple[object, ...]) -> None:
    """Raise `AnswerKindError` for a wrong number of answers, or a value in place of a function."""
    wanted = " and ".join(exercise.takes)
    if len(answers) != len(exercise.takes):
        raise AnswerKindError(f"""check({exercise.name!r}) was given
            {counted(len(answers), "answer")}; it takes {len(exercise.takes)}.
            where: {exercise.title}
            next:  give it {wanted}.""")
    for answer, kind in zip(answers, exercise.takes, strict=True):
        if (
            kind == "a function"
            and answer is not ...
            and answer is not None
            and not callable(answer)
        ):
            raise AnswerKindError(f"""check({exercise.name!r}) takes a function, but was given
                {shown(answer)}.
                where: {exercise.title}
                next:  give the function itself, without brackets: the check calls it.""")
