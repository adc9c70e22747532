"""On what terms an agent works: its task class, its policy, its budget, its checkpoints. Recorded with each session."""

import re
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final, Literal, get_args

import msgspec

from midcourse.core.codec import encode
from midcourse.errors import InvalidInput, Unencodable

TaskClass = Literal["short", "medium", "long", "very_long", "protected"]
CheckpointBackend = Literal["store", "redis"]
Expiry = Literal["fail", "cancel"]
"""The effect of an ask that is not answered in time: the agent gets ``AskExpired``, or the session is cancelled."""
UNWATCHED: Final = "none"
"""The name of the policy that leaves a session alone, whatever the default is."""
MOST_LABELS: Final = 20
LABEL: Final = r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}$"
_LABEL: Final = re.compile(LABEL)
LONGEST_TTL: Final = 366 * 24 * 3600.0
LONGEST_DEFAULT: Final = 10_000
"""Bytes of a default answer: every ask of the session carries it."""


class DefaultAnswer(msgspec.Struct, gc=False, frozen=True):
    """The answer to an ask that is not answered in time: any JSON-like value."""

    answer: Any


class Terms(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """The author's settings for an agent's runs. Journaled when a session begins.

    ``budget`` is in dollars for a session. ``backend`` is where people can read the checkpoint: the store alone, or
    also Redis. ``ttl_seconds`` ends the right to answer what the agent asks, and ``on_expiry`` says what happens then.
    By ``labels`` operators find sessions and stop them.
    """

    task_class: TaskClass | None = None
    policy: str = ""
    budget: float | None = None
    backend: CheckpointBackend = "store"
    ttl_seconds: float | None = None
    on_expiry: Expiry | DefaultAnswer = "fail"
    labels: tuple[str, ...] = ()


def check_terms(terms: Terms) -> Terms:
    """Return the same terms, if they are valid.

    Raises:
        InvalidInput: they are not; the sentence says what is known.
    """
    for field, kind in (("task_class", TaskClass), ("backend", CheckpointBackend)):
        value = getattr(terms, field)
        if value is not None and value not in get_args(kind):
            raise InvalidInput(f"{field} is {value!r}; it is one of {', '.join(get_args(kind))}.", field=field)
    for field, most in (("budget", 1e9), ("ttl_seconds", LONGEST_TTL)):
        value = getattr(terms, field)
        if value is not None and not (isfinite(value) and 0 < value <= most):
            raise InvalidInput(f"{field} is {value:g}; it is a number above 0, at most {most:g}.", field=field)
    _check_expiry(terms)
    check_labels(terms.labels)
    return terms


def check_labels(labels: Sequence[str]) -> None:
    """Refuse labels that no list could show.

    Raises:
        InvalidInput: there are too many, or one is not a word.
    """
    if len(labels) > MOST_LABELS:
        raise InvalidInput(f"There are {len(labels)} labels; a session has at most {MOST_LABELS}.", field="labels")
    for label in labels:
        if _LABEL.fullmatch(label) is None:
            raise InvalidInput(
                f"{label[:100]!r} cannot be a label. Use 1 to 64 letters, digits and . _ : / -, without spaces.",
                field="labels",
            )


def _check_expiry(terms: Terms) -> None:
    then = terms.on_expiry
    if isinstance(then, DefaultAnswer):
        try:
            size = len(encode(then.answer, what="The default answer"))
        except Unencodable as error:
            raise InvalidInput(error.message, field="on_expiry") from error
        if size > LONGEST_DEFAULT:
            raise InvalidInput(
                f"The default answer has {size:,} bytes; at most {LONGEST_DEFAULT:,} are allowed.", field="on_expiry"
            )
    elif then not in get_args(Expiry):
        known = f"{', '.join(get_args(Expiry))} or DefaultAnswer(…)"
        raise InvalidInput(f"on_expiry is {then!r}; it is one of {known}.", field="on_expiry")
    if then != "fail" and terms.ttl_seconds is None:
        raise InvalidInput(
            "on_expiry says what happens when ttl_seconds are over, and there are none. Give ttl_seconds, too.",
            field="on_expiry",
        )


NO_TERMS: Final = Terms()
"""Nothing is settled."""
