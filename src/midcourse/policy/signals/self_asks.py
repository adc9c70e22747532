"""Decide when an agent should ask automatically: five causes, each visible in a run. Pure."""

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from midcourse.policy.document import AgentAsks, Policy
from midcourse.policy.run_activity import Called

QUESTIONS: Final[Mapping[str, str]] = {
    "ambiguous_instructions": "I am not sure what you want: {why} What exactly shall I do?",
    "missing_credentials": "{why} Give me access and say “go on”, or tell me how to go on without.",
    "near_drift": "I may be leaving the goal: {why} Shall I go on like this?",
    "near_limit": "I am near a limit: {why} Shall I go on, or stop here with what there is?",
    "unknown_error": "{why} I do not know this kind of error. What shall I do?",
}
"""The causes, and what the agent asks."""

_CREDENTIALS: Final = re.compile(
    r"\b(401|403|unauthori[sz]ed|forbidden|permission denied|access denied|authentication|not logged in|"
    r"(?:missing|invalid|no|expired) (?:api[ _-]?key|token|credentials?|password|secret)|"
    r"(?:api[ _-]?key|token|credentials?|password)s? (?:is |are |was )?(?:missing|not set|required|expired|invalid))\b",
    re.IGNORECASE,
)
_COMMON: Final = frozenset(
    {
        "error",
        "AssertionError",
        "CalledProcessError",
        "ConnectionError",
        "ConnectionRefusedError",
        "FileExistsError",
        "FileNotFoundError",
        "HTTPError",
        "IndexError",
        "InvalidInput",
        "IsADirectoryError",
        "JSONDecodeError",
        "KeyError",
        "ModelRetry",
        "NotADirectoryError",
        "Refused",
        "StepError",
        "TimeoutError",
        "ToolRetryError",
        "TypeError",
        "UnicodeDecodeError",
        "ValidationError",
        "ValueError",
        "ZeroDivisionError",
        "timeout",
    }
)
"""Failures that every program meets, and agents are used to."""
_PERMISSION: Final = frozenset(
    {"AuthenticationError", "MissingCredentials", "PermissionDeniedError", "PermissionError"}
)
_VAGUE: Final = re.compile(
    r"^\W*(?:(?:please|can you|could you)\s+)?(?:fix|do|change|improve|clean up|handle|update|make|finish|sort out)"
    r"\s+(?:it|this|that|them|things?|stuff|something|everything)\b(?:\s+(?:up|better|work|nice(?:r)?))?\W*$",
    re.IGNORECASE,
)
_OPEN: Final = re.compile(r"\b(?:tbd|to be decided|or whatever|some(?:how|thing like)|\?\?+)(?:\W|$)", re.IGNORECASE)


def ambiguous(goal: str) -> str:
    """Return why a goal is ambiguous; empty if it is clear. Checks for English words that leave the object open.

    An empty goal is not ambiguous: many an agent knows what to do.
    """
    text = goal.strip()
    if _VAGUE.match(text):
        return f"“{text[:80]}” does not say what."
    found = _OPEN.search(text)
    return f"“{found[0].strip()}” leaves it open." if found else ""


def cause_of(call: Called, asks: AgentAsks, seen: frozenset[str] | set[str]) -> tuple[str, str]:
    """Return the cause that a failed call gives to ask, and why; empty if it gives none. ``seen``: kinds met before."""
    if not call.error:
        return "", ""
    said = f"{call.detail or call.text}"[:200]
    if asks.credentials and (call.error in _PERMISSION or _CREDENTIALS.search(f"{call.error} {said}")):
        return "missing_credentials", f"{call.name} was not let in ({call.error}{f': {said}' if said else ''})."
    if (
        asks.unknown_errors
        and call.error not in _COMMON
        and call.error not in asks.known_errors
        and call.error not in seen
    ):
        return "unknown_error", f"{call.name} failed with {call.error}{f': {said}' if said else ''}."
    return "", ""


def near_marks(policy: Policy, asked: AbstractSet[str]) -> list[tuple[str, float]]:
    """Return from where on a signal is near, of the causes that have not been asked about."""
    asks, drift = policy.agent_asks, policy.signals.scope_drift.intervene
    marks = [("scope_drift", drift * asks.near)] if asks.drift and drift and "near_drift" not in asked else []
    if asks.limits and "near_limit" not in asked:
        marks += [(name, stop * asks.near) for name, stop, _ in _limits(policy)]
    return marks


def near(policy: Policy, values: Mapping[str, float]) -> tuple[str, str]:
    """Return the signal that is near its limit, and why; empty if none is."""
    asks, limit = policy.agent_asks, policy.signals.scope_drift.intervene
    drift = values.get("scope_drift")
    if asks.drift and drift is not None and limit is not None and limit * asks.near <= drift < limit:
        return "near_drift", f"the distance is {drift:.2f}, and the limit {limit:.2f}."
    for name, stop, words in _limits(policy) if asks.limits else ():
        value = values.get(name)
        if value is not None and asks.near * stop <= value < stop:
            return "near_limit", f"{value / stop:.0%} {words}."
    return "", ""


def _limits(policy: Policy) -> Iterator[tuple[str, float, str]]:
    """Yield the signals with a stop, each with the words for a part of it."""
    signals = policy.signals
    for name, stop, words in (
        ("budget", signals.budget.stop, "of the budget is spent"),
        ("cost", signals.cost.stop, "of the dollars that stop me are spent"),
        ("duration", signals.duration.stop, "of the time that stops me is over"),
        ("resources", signals.resources.stop, "of the resources that stop me are touched"),
    ):
        if stop:
            yield name, stop, words
