"""A session's journal, told in the words that monitors understand."""

import re
from typing import Any, Final, cast

import msgspec

from midcourse.core import events as ev
from midcourse.core.codec import Value
from midcourse.core.commands import BY_AGENT, BY_POLICY
from midcourse.core.ids import StepId
from midcourse.policy.run_activity import (
    AnyAct,
    Begun,
    Called,
    Ended,
    Planned,
    Reported,
    Rested,
    Said,
    SteppedIn,
    WentOn,
)

_SHOWN: Final = 500
"""Characters of a text that monitors are told."""
_LONGEST: Final = 300
_MOST: Final = 20
"""Characters of a resource's name, and resources of a call."""
_NAMES: Final = re.compile(r"(?:^|_)(?:path|file|filename|folder|directory|url|uri|table|host|repo|bucket|resource)s?$")
_LOOKS: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://\S+|(?:\.{0,2}/)?[\w.-]+(?:/[\w.-]+)+/?|[\w-]+\.[a-z]{1,5})", re.IGNORECASE
)


class JournalReader:
    """Reads one journal, from its first event on. Work and memory per event are bounded by what is in flight."""

    def __init__(self) -> None:
        self._open: dict[StepId, tuple[ev.StepBegun, float]] = {}
        self._texts: dict[StepId, str] = {}
        self._rests = True
        self._is_asking = False
        self._last = 0.0
        self._cut = 0.0
        self._is_taken = False

    def take(self, at: float) -> tuple[AnyAct, ...]:
        """Another owner lets it work from now on, though nothing it does has been journaled yet."""
        if not self._rests:
            return ()
        self._is_taken = True
        return self._go_on(at)

    def read(self, record: ev.Recorded) -> tuple[AnyAct, ...]:
        """Return the acts of this event for a monitor; usually none, or one."""
        at, event = record.at, record.event
        acts = self._read(event, at)
        self._last = at
        return acts

    def _read(self, event: ev.AnyEvent, at: float) -> tuple[AnyAct, ...]:
        match event:
            case ev.StepBegun():
                self._open[event.step] = (event, at)
                return self._go_on(at)
            case ev.StepFinished() | ev.StepFailed():
                return self._called(event, at)
            case ev.StepNotBegun() | ev.StepAborted() | ev.StepRetrying() | ev.StepCut() | ev.StepClosed():
                # What was cut, or is tried again, is no call, and has its price: the next call bears it.
                self._cut += event.cost if isinstance(event, ev.StepRetrying | ev.StepCut) else 0.0
                self._open.pop(event.step, None)
                self._texts.pop(event.step, None)
                return ()
            case ev.SegmentWritten():
                said = self._texts.get(event.step, "")
                if len(said) < _SHOWN:
                    self._texts[event.step] = (said[: event.offset] + event.text)[:_SHOWN]
                return ()
            case ev.SessionCreated(goal=goal):
                self._rests = True  # queued: nothing of it works yet
                return (Begun(at=at, goal=goal), Rested(at=at))
            case ev.TurnOpened(text=text):
                self._rests = False
                return (Begun(at=at, goal=text),)
            case ev.SessionRedirected():
                return self._said(event, at)
            case ev.SessionTaken():
                return self._taken(at)
            case ev.SessionWaiting():
                self._is_asking = True
                return self._rest(at)
            case ev.SessionPaused() | ev.SessionHalted() | ev.SessionParked():
                return self._rest(at)
            case ev.SessionStarted() | ev.SessionResumed() | ev.SessionWoken() | ev.HaltLifted():
                self._is_asking = False
                return self._go_on(at)
            case ev.AskAnswered() | ev.AskClosed() if self._is_asking:
                self._is_asking = False
                return self._go_on(at)
            case _:
                return self._of_itself(event, at)

    def _of_itself(self, event: ev.AnyEvent, at: float) -> tuple[AnyAct, ...]:
        match event:
            case ev.ReportMade():
                return (
                    Reported(
                        at=at,
                        progress=event.progress,
                        hypothesis=event.hypothesis,
                        artifact=event.artifact,
                        documentation=event.documentation,
                    ),
                )
            case ev.PlanChanged(items=items):
                done = sum(item.status == "done" for item in items)
                return (Planned(at=at, items=len(items), done=done, titles=tuple(item.title for item in items)),)
            case ev.InterventionMade(decision=decision):
                return (SteppedIn(at=at, level=decision.level, reasons=decision.reasons, question=decision.question),)
            case ev.SessionCompleted():
                return (Ended(at=at, outcome="completed"),)
            case ev.SessionFailed():
                return (Ended(at=at, outcome="failed"),)
            case ev.SessionCancelled():
                return (Ended(at=at, outcome="cancelled"),)
            case _:
                return ()

    def _called(self, event: ev.StepFinished | ev.StepFailed, at: float) -> tuple[AnyAct, ...]:
        begun, since = self._open.pop(event.step, (None, at))
        said = self._texts.pop(event.step, "")
        if begun is None or (isinstance(event, ev.StepFailed) and event.cut):
            self._cut += event.cost
            return ()
        spent, self._cut = event.cost + self._cut, 0.0
        kind = "model" if begun.kind == "model" else "tool"
        failed = event if isinstance(event, ev.StepFailed) else None
        observed = () if failed is not None else tuple(event.observed) if isinstance(event, ev.StepFinished) else ()
        return (
            Called(
                at=at,
                kind=kind,
                name=begun.name,
                arguments=begun.arguments,
                digest=begun.digest,
                error=failed.kind if failed is not None else "",
                detail=failed.detail[:_SHOWN] if failed is not None else "",
                text=said or (_text_of(event.value) if isinstance(event, ev.StepFinished) else ""),
                resources=observed or (resources_in(begun.arguments) if kind == "tool" else ()),
                effect=begun.effect,
                seconds=max(0.0, at - since),
                tokens_out=event.tokens or None,
                # A model that costs nothing is on no price list: its cost is unknown, unless it is declared.
                cost=spent or (None if kind == "model" and not event.free else 0.0),
            ),
        )

    def _said(self, event: ev.SessionRedirected, at: float) -> tuple[AnyAct, ...]:
        if event.by.startswith((BY_POLICY, BY_AGENT)):
            return ()
        return (Said(at=at, text=event.text[:_SHOWN], by=event.by, is_goal=event.level == "goal"),)

    def _taken(self, at: float) -> tuple[AnyAct, ...]:
        """Between an owner's last word and its heir's first, nothing worked."""
        self._open.clear()
        self._texts.clear()
        is_known, self._is_taken = self._is_taken, False
        return () if self._rests or is_known else (Rested(at=self._last), WentOn(at=at))

    def _rest(self, at: float) -> tuple[AnyAct, ...]:
        if self._rests:
            return ()
        self._rests = True
        return (Rested(at=at),)

    def _go_on(self, at: float) -> tuple[AnyAct, ...]:
        if not self._rests:
            return ()
        self._rests = False
        return (WentOn(at=at),)


def _text_of(value: Value) -> str:
    raw = bytes(value.raw)[:_SHOWN]
    return raw.decode("utf-8", errors="ignore")


def resources_in(arguments: str) -> tuple[str, ...]:
    """Return what a call's arguments name: files, addresses, tables. By the argument's name, or by its form."""
    if not arguments.startswith(("{", "[")):
        return (arguments,) if arguments and _LOOKS.fullmatch(arguments) else ()
    try:
        given: Any = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    named = cast("dict[str, Any]", given) if isinstance(given, dict) else {"": given}
    found = [
        one
        for name, value in named.items()
        for one in (cast("list[Any]", value) if isinstance(value, list) else [value])
        if isinstance(one, str) and 0 < len(one) <= _LONGEST and (_NAMES.search(name) or _LOOKS.fullmatch(one))
    ]
    return tuple(found[:_MOST])
