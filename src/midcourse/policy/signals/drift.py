"""Scope drift: how far the recent actions are from the goal, as a number that means the same for every encoder.

The last actions are vectors; the cosine of their mean and the goal is how close they are. What cosine is close depends
on encoder, language and kind of work, so it is put on a scale that was made from recorded runs: 0 is as close as work
on a goal usually is, 1 as far as work on another goal of the same place (another issue of a repository, another
customer of a shop). The mean of all such goals, and that of all such actions, is subtracted first: what they have in
common tells nothing.

Only words are compared, and some good work shares few of them with its goal ("who is likely to leave?", "join the
accounts against the MRR table"). So a run is held to what it has itself reached, where that is less than the usual:
drift is going away. A run that has come nowhere near its goal in three windows is held to the usual after all. And an
excursion is no course: of the last four windows, the closest counts.

The scales in ``drift_scales.json`` are made and judged by ``python -m bench.drift_study``.
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from midcourse.errors import InvalidInput
from midcourse.policy.run_activity import Called
from midcourse.policy.signals.encoders import Encoder

if TYPE_CHECKING:
    import numpy as np

    Vector: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]

Language: TypeAlias = Literal["latin", "cjk", "other"]
GENERAL: Final = "general"
DOMAINS: Final = ("code", "support", "web", GENERAL)
WINDOW: Final = 8
ENOUGH: Final = 3
"""Actions before which nothing is said: one or two are no course."""
PATIENCE: Final = 3
"""Windows in which a run has to come half way to its goal, to be held to no more than it has reached."""
LASTING: Final = 4
"""Windows, one action apart, of which the closest counts."""
_GOAL, _ARGUMENTS, _TEXT, _SHORT = 2000, 200, 300, 4
"""Characters that are read of a goal, of arguments and of a text; words below which an action is also its name."""


# ---- texts

_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN: Final = re.compile(r"(?:\\[nrt]|[\W_])+")
_CJK: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_LATIN: Final = re.compile("[A-Za-z\u00c0-\u024f]")


def words(text: str) -> str:
    """Return the words of a text with single spaces between: paths, ``snake_case`` and ``camelCase`` are split."""
    return _BETWEEN.sub(" ", _HUMPS.sub(" ", text)).strip()


def action_text(name: str, arguments: str, text: str) -> str:
    """Return the text of an action: the beginnings of its arguments and of its result.

    Its name tells little: a run calls a few tools all the time. It counts where there is next to nothing else.
    """
    told = words(f"{arguments[:_ARGUMENTS]} {text[:_TEXT]}")
    return told if told.count(" ") >= _SHORT - 1 else f"{words(name)} {told}".strip()


def text_of(call: Called) -> str:
    return action_text(call.name, call.arguments, call.text)


def language_of(text: str) -> Language:
    """Return the language by script, as far as scales differ. A Chinese character counts as a few Latin letters."""
    cjk, latin = len(_CJK.findall(text)), len(_LATIN.findall(text))
    other = sum(map(str.isalpha, text)) - cjk - latin
    if 3 * cjk >= max(latin, other, 1):
        return "cjk"
    return "other" if other > latin else "latin"


# ---- scales


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of cosines, for one encoder and kind of work.

    ``on`` is the median of windows and their own goal, ``off`` that of windows and goals of other tasks. ``auc`` is how
    often one of the former is closer than one of the latter, in the runs it was made from: 0.5 would be chance. The
    centres are what goals and actions have in common, as 16-bit floats.
    """

    on: float
    off: float
    auc: float
    runs: int
    goals: int
    goal_centre: bytes
    action_centre: bytes

    def drift(self, cosine: float, *, held_to: float | None = None) -> float:
        """Return the drift, from 0 to 1, where ``held_to`` (by default ``on``) is 0."""
        return min(1.0, max(0.0, ((self.on if held_to is None else held_to) - cosine) / (self.on - self.off)))


class Scales(msgspec.Struct, frozen=True, kw_only=True):
    """The scales that come with the package: by encoder, language and domain."""

    how: str
    encoders: dict[str, dict[str, dict[str, Scale]]]


@cache
def shipped() -> Scales:
    """Return the scales in ``drift_scales.json``."""
    return msgspec.json.decode(
        files("midcourse.policy.signals").joinpath("drift_scales.json").read_bytes(), type=Scales
    )


def scale_for(encoder: str, language: Language, domain: str) -> Scale | None:
    """Return the scale for this, or the nearest one; None for an unknown encoder."""
    known: Mapping[str, Mapping[str, Scale]] = shipped().encoders.get(encoder, {})
    places = ((language, domain), (language, GENERAL), ("latin", GENERAL))
    return next((found for spoken, kind in places if (found := known.get(spoken, {}).get(kind))), None)


# ---- measuring


class Drift:
    """The drift of one run: it gets the goal and the actions one by one, and keeps only the last few.

    An action costs one encoding and a mean over the window. With ``lasting`` 1, an excursion counts at once. ``scale``
    is one of ``calibrate``; without it, one of the package is used for the goal's language and ``domain``.

    Raises:
        InvalidInput: a window of no action, or numpy is not there (``drift_not_installed``).
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        domain: str = GENERAL,
        scale: Scale | None = None,
        window: int = WINDOW,
        lasting: int = LASTING,
    ) -> None:
        np = _numpy()
        if window < 1 or lasting < 1:
            raise InvalidInput(
                f"A window of {window} actions, {lasting} of them in a row, shows nothing. Take 1 or more of both.",
                field="window",
            )
        self._encoder, self._domain, self._given = encoder, domain, scale
        self._window: deque[Vector] = deque(maxlen=window)
        self._cosines: deque[float] = deque(maxlen=lasting)
        self._scale: Scale | None = None
        self._goal: Vector | None = None
        self._goal_centre: Vector = np.zeros(1, np.float32)
        self._centre: Vector = self._goal_centre
        self._forget()

    def goal(self, text: str) -> None:
        """Set the goal from now on. Earlier actions no longer count."""
        np = _numpy()
        self._scale = self._given or scale_for(self._encoder.name, language_of(text), self._domain)
        if self._scale is not None:
            self._goal_centre = np.frombuffer(self._scale.goal_centre, "<f2").astype(np.float32)
            self._centre = np.frombuffer(self._scale.action_centre, "<f2").astype(np.float32)
        self._goal = self._direction(text[:_GOAL])
        self._forget()

    def act(self, text: str) -> None:
        """Add an action: a text of ``text_of``. One without a word does not count."""
        vector = _unit(self._encoder.encode(text)) if text else None
        if vector is None:
            return
        self._window.append(vector)
        self._seen += 1
        if self._goal is None or self._scale is None:
            return
        if len(vector) != len(self._centre):
            raise InvalidInput(
                f"The encoder '{self._encoder.name}' makes vectors of {len(vector)} numbers, and its scale is for "
                f"{len(self._centre)}. Calibrate it again.",
                field="encoder",
            )
        # The sum is made anew each time: one that is carried on would depend on all that was ever in it.
        self._now = _unit(sum(self._window) / len(self._window) - self._centre)
        if self._seen >= ENOUGH and self._now is not None:
            self._cosines.append(float(self._now @ self._goal))
            self._best = max(self._best, self._cosines[-1])

    def value(self) -> float | None:
        """Return the drift: 0 as close as usual work on the goal, 1 as far as work on another; None if unknown."""
        closeness = self.closeness
        if self._scale is None or closeness is None:
            return None
        return self._scale.drift(closeness, held_to=self._held_to(self._scale))

    def alignment(self, hypothesis: str) -> float | None:
        """Return the distance to the agent's hypothesis: 0 if the actions are about it, 1 if about another one."""
        if self._scale is None or self._now is None or self._seen < ENOUGH:
            return None
        if self._hypothesis[0] != hypothesis:
            self._hypothesis = (hypothesis, self._direction(hypothesis[:_GOAL]))
        direction = self._hypothesis[1]
        return None if direction is None else self._scale.drift(float(self._now @ direction))

    @property
    def closeness(self) -> float | None:
        """The cosine of the goal and the closest of the last windows."""
        return max(self._cosines, default=None)

    def _held_to(self, scale: Scale) -> float:
        came_near = self._best >= (scale.on + scale.off) / 2
        if not came_near and self._seen > PATIENCE * (self._window.maxlen or 0):
            return scale.on
        return min(scale.on, self._best)

    def _direction(self, text: str) -> "Vector | None":
        told = words(text)
        vector = _unit(self._encoder.encode(told)) if told else None
        if vector is None or self._scale is None or len(vector) != len(self._goal_centre):
            return vector
        return _unit(vector - self._goal_centre)

    def _forget(self) -> None:
        self._window.clear()
        self._cosines.clear()
        self._seen = 0
        self._best = -1.0
        self._now: Vector | None = None
        self._hypothesis: tuple[str, Vector | None] = ("", None)


def _unit(vector: "Sequence[float] | np.ndarray[Any, Any]") -> "Vector | None":
    """Scale a vector to length 1; None for a zero vector."""
    np = _numpy()
    array: Vector = np.asarray(vector, np.float32)
    length = float(np.sqrt(array @ array))
    return array / length if 0 < length < float("inf") else None


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise InvalidInput(
            "Drift needs numpy, which is not installed. Run: pip install 'midcourse[drift]'", code="drift_not_installed"
        ) from error
    return numpy


# ---- calibrating

FEWEST: Final = 10
"""Different goals below which a scale would be an accident."""
_SAMPLE: Final = 8
_OTHERS: Final = 5


class Worked(NamedTuple):
    """A recorded run: its goal, and the texts of its actions. ``place`` is where other goals are like this one's."""

    goal: str
    actions: Sequence[str]
    place: str = ""


class _Pairs(NamedTuple):
    """Cosines of windows with their own goal (``on``) and with goals of other tasks (``off``)."""

    on: "Vector"
    off: "Vector"


def calibrate(runs: Iterable[Worked], encoder: Encoder) -> Scale:
    """Make a scale from recorded runs, of which most should be good work. Every run counts the same, however long.

    Windows are compared with goals of other tasks of the same place: an agent that drifts stays among its tools, and
    the goals of another place would be so far that nothing real ever came near. Each half of the goals is measured with
    the centres of the other half, so that no run is judged by what was learned from it.

    Raises:
        InvalidInput: too few different goals, or the encoder sees no difference between them (``drift_cannot_tell``).
    """
    np = _numpy()
    kept = _encoded(runs, encoder)
    goals = list(dict.fromkeys(run.goal for run in kept))
    if len(goals) < FEWEST:
        raise InvalidInput(
            f"These runs have {len(goals)} different goals with actions. A scale needs {FEWEST} or more: add runs.",
            field="runs",
        )
    halves = [[run for run in kept if goals.index(run.goal) % 2 == half] for half in (0, 1)]
    parts = [_cosines(mine, _centres(theirs)) for mine, theirs in (halves, reversed(halves)) if mine and theirs]
    on: Vector = np.concatenate([part.on for part in parts])
    off: Vector = np.concatenate([part.off for part in parts])
    if not len(off) or float(np.median(on)) - float(np.median(off)) < 0.02:
        raise InvalidInput(
            f"The encoder '{encoder.name}' sees no difference between work on one of these goals and on another. Leave "
            "scope drift out for them, or use another encoder.",
            code="drift_cannot_tell",
            field="encoder",
        )
    goal_centre, action_centre = _centres(kept)
    return Scale(
        on=round(float(np.median(on)), 4),
        off=round(float(np.median(off)), 4),
        auc=round(auc(on, off), 3),
        runs=len(kept),
        goals=len(goals),
        goal_centre=goal_centre.astype("<f2").tobytes(),
        action_centre=action_centre.astype("<f2").tobytes(),
    )


class _Run(NamedTuple):
    goal: str
    place: str
    vector: "Vector"
    actions: "Vector"


def _encoded(runs: Iterable[Worked], encoder: Encoder) -> list[_Run]:
    np = _numpy()
    kept: list[_Run] = []
    for run in runs:
        goal = _unit(encoder.encode(words(run.goal[:_GOAL])))
        actions = [one for text in run.actions if (one := _unit(encoder.encode(text))) is not None]
        if goal is not None and len(actions) >= ENOUGH:
            kept.append(_Run(run.goal, run.place, goal, np.array(actions)))
    return kept


def _centres(runs: Sequence[_Run]) -> "tuple[Vector, Vector]":
    """Return the mean goal and the mean action; of places first, so that one with many runs does not dominate."""
    np = _numpy()
    places: dict[str, list[_Run]] = defaultdict(list)
    for run in runs:
        places[run.place].append(run)
    goals = [np.mean([run.vector for run in each], 0) for each in places.values()]
    actions = [np.mean([run.actions.mean(0) for run in each], 0) for each in places.values()]
    return np.mean(goals, 0), np.mean(actions, 0)


def _cosines(runs: Sequence[_Run], centres: "tuple[Vector, Vector]") -> _Pairs:
    """Compare windows of each run with its own goal, and with some goals of other tasks of its place."""
    np = _numpy()
    goal_centre, action_centre = centres
    by_place: dict[str, dict[str, Vector]] = defaultdict(dict)
    for run in runs:
        direction = _unit(run.vector - goal_centre)
        if direction is not None:
            by_place[run.place][run.goal] = direction
    on: list[float] = []
    off: list[float] = []
    for number, run in enumerate(runs):
        there = by_place[run.place]
        others = [goal for name, goal in there.items() if name != run.goal]
        if run.goal not in there or not others:
            continue
        chosen = [others[(number + step * max(1, len(others) // _OTHERS)) % len(others)] for step in range(_OTHERS)]
        for seen in _windows(run.actions - action_centre):
            on.append(float(seen @ there[run.goal]))
            off += [float(seen @ goal) for goal in chosen]
    return _Pairs(np.array(on, np.float32), np.array(off, np.float32))


def _windows(actions: "Vector") -> "Iterator[Vector]":
    """Yield at most a few of them, as far from each other as they can be."""
    ends = range(min(ENOUGH, len(actions)), len(actions) + 1)
    for number in range(min(_SAMPLE, len(ends))):
        end = ends[number * (len(ends) - 1) // max(1, min(_SAMPLE, len(ends)) - 1)]
        seen = _unit(actions[max(0, end - WINDOW) : end].mean(0))
        if seen is not None:
            yield seen


def auc(on: "Vector", off: "Vector") -> float:
    """Return how often a value of ``on`` is above one of ``off``; half, where they are the same."""
    np = _numpy()
    ordered = np.sort(off)
    below = np.searchsorted(ordered, on, "left") + np.searchsorted(ordered, on, "right")
    return float(below.mean() / (2 * max(1, len(off))))
