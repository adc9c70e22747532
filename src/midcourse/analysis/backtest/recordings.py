"""A recorded run, in the words of monitors; and how one is put together from whatever was recorded.

``steps`` says which row of the recording an act came from: that is what "a step" means in a backtest.
"""

from hashlib import blake2b
from typing import Any, Final, Literal, cast

import msgspec

from midcourse.core.terms import TaskClass
from midcourse.policy.run_activity import AnyAct, Begun, Called, Ended, Rested, Said, WentOn

Outcome = Literal["success", "failure", "unknown"]
LONGEST_GOAL: Final = 2000
LONGEST_TEXT: Final = 500
LONGEST_ARGUMENTS: Final = 200
"""The limit for a call's arguments: as long as in the recordings that trained the risk, so that runs look alike."""


class Recording(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run. ``acts[i]`` belongs to row ``steps[i]`` of ``count``; runs of one ``task_key`` are of one task.

    ``decisive_step`` is the row of the mistake that the run failed by, if it is known. ``task_class`` is the declared
    class, never a measured one. ``seconds`` (without the time between turns) and ``cost`` are None if they were not
    measured.
    """

    source: str
    run_id: str
    acts: tuple[AnyAct, ...]
    steps: tuple[int, ...]
    count: int
    task_key: str = ""
    goal: str = ""
    outcome: Outcome = "unknown"
    decisive_step: int | None = None
    task_class: TaskClass | None = None
    seconds: float | None = None
    cost: float | None = None


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something in a file that a reader should know of. ``left_out`` counts the lines, or spans, that were not used."""

    file: str
    sentence: str
    line: int | None = None
    left_out: int = 0

    def __str__(self) -> str:
        return f"{self.file}{f', line {self.line}' if self.line is not None else ''}: {self.sentence}"


class Recorder:
    """Puts one recording together, row by row, in the order in which the rows became known."""

    def __init__(self, goal: str) -> None:
        self.goal = goal[:LONGEST_GOAL]
        self.acts: list[AnyAct] = []
        self.steps: list[int] = []
        self.count = 0
        self.seconds: float | None = None
        self.cost: float | None = None
        self.backwards = 0
        """The number of times the clock went back."""
        self._last: float | None = None
        self._rests = False

    def begin(self, at: float | None = None) -> None:
        self.told(Begun(goal=self.goal, at=at))

    def said(self, text: str, at: float | None = None, *, by: str = "user", new_turn: bool = False) -> None:
        """Add a row: a message of a person. ``new_turn``: the agent had ended the previous turn and waited."""
        if new_turn and self.count and not isinstance(self.acts[-1], Said):
            begins = f"{self.goal}\n{text}" if text and text != self.goal else self.goal
            self.told(Ended(outcome="completed", at=self._last))
            self.told(Begun(goal=begins[:LONGEST_GOAL], at=at))
        self.told(Said(text=text, at=at, by=by))

    def told(self, act: AnyAct) -> None:
        """Add any act. Calls and messages are rows; all else belongs to the row that comes next."""
        if act.at is not None:
            passed = 0.0 if self._last is None else act.at - self._last
            self.backwards += passed < 0
            self.seconds = (self.seconds or 0.0) + (0.0 if self._rests else max(0.0, passed))
            self._last = act.at
        if isinstance(act, Called) and act.cost is not None:
            self.cost = (self.cost or 0.0) + act.cost
        self._rests = isinstance(act, Ended | Rested) or (self._rests and not isinstance(act, Begun | WentOn))
        self.acts.append(act)
        self.steps.append(self.count)
        self.count += isinstance(act, Called | Said)

    def done(
        self,
        *,
        source: str,
        run_id: str,
        task_key: str = "",
        outcome: Outcome = "unknown",
        decisive_step: int | None = None,
        task_class: TaskClass | None = None,
    ) -> Recording:
        last = max(0, self.count - 1)
        if self.steps and self.steps[-1] > last:  # what was reported after the last row belongs to it
            self.steps = [min(step, last) for step in self.steps]
        return Recording(
            source=source,
            run_id=run_id,
            task_key=task_key or run_id,
            goal=self.goal,
            outcome=outcome,
            decisive_step=decisive_step,
            acts=tuple(self.acts),
            steps=tuple(self.steps),
            count=self.count,
            task_class=task_class,
            seconds=self.seconds,
            cost=self.cost,
        )


class Prices:
    """Dollars from tokens, by the price list of genai-prices. What it does not know costs None, and is remembered."""

    def __init__(self) -> None:
        self.unknown: set[str] = set()
        self.is_missing = False
        """True if no price list is installed here."""

    def of(
        self, model: str, *, tokens_in: int, tokens_out: int, cached: int = 0, written: int = 0, provider: str = ""
    ) -> float | None:
        """Return the price of a request; ``tokens_in`` counts those ``cached`` and ``written`` to a cache, too."""
        try:
            from genai_prices import Usage, calc_price
        except ImportError:
            self.is_missing = True
            return None
        if not model or model in self.unknown:
            return None
        try:
            usage = Usage(
                input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=cached, cache_write_tokens=written
            )
            return float(calc_price(usage, model, provider_id=provider or None).total_price)
        except ValueError:
            return None  # a recording may hold any number: below zero, or more cached than were sent
        except LookupError:
            if provider:  # its name is not always the price list's
                return self.of(model, tokens_in=tokens_in, tokens_out=tokens_out, cached=cached, written=written)
            self.unknown.add(model)
            return None

    def notice(self, file: str) -> Notice | None:
        """Return what could not be priced, if there was anything."""
        if self.is_missing:
            return Notice(
                file=file,
                sentence="No price list is installed: no cost is known. To have one: pip install 'midcourse[backtest]'",
            )
        if not self.unknown:
            return None
        names = ", ".join(sorted(self.unknown))
        return Notice(file=file, sentence=f"The price of {names} is unknown, and so is the cost of these requests.")


def backwards(recorder: Recorder, file: str, run_id: str, line: int | None = None) -> Notice | None:
    if not recorder.backwards:
        return None
    times = "once" if recorder.backwards == 1 else f"{recorder.backwards} times"
    return Notice(
        file=file,
        line=line,
        sentence=f"The clock of run '{run_id}' goes back {times}: no time is counted there.",
    )


def recorded_arguments(given: object) -> tuple[str, str]:
    """Return the beginning of a call's arguments, and a digest of them if they are longer."""
    text = given if isinstance(given, str) else msgspec.json.encode(given, enc_hook=str).decode(errors="replace")
    if len(text) <= LONGEST_ARGUMENTS:
        return text, ""
    return text[:LONGEST_ARGUMENTS], blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


def texts(value: Any) -> str:
    """Return the text in messages: a string, a part with text or content, or a list of these."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        return "\n".join(filter(None, map(texts, parts)))
    if isinstance(value, dict):
        part = cast("dict[str, Any]", value)
        for name in ("text", "content", "parts", "message"):
            if name in part:
                return texts(part[name])
    return ""
