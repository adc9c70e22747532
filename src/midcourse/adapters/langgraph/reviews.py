"""Tool calls that LangChain's human-in-the-loop middleware has a person review: a yes or a no, in the form it wants."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

_YES: Final = frozenset({"yes", "approve", "true"})
_NO: Final = frozenset({"no", "reject", "false"})


def calls_in(value: Any) -> Sequence[Mapping[str, Any]] | None:
    """Return the calls that an interrupt wants reviewed; None if it is about something else."""
    about = cast("Mapping[str, Any]", value if isinstance(value, dict) else {})
    if isinstance(about.get("action_requests"), list) and isinstance(about.get("review_configs"), list):
        return cast("list[Mapping[str, Any]]", about["action_requests"])
    return [about] if about.get("type") == "tool_approval" and "tool_call_id" in about else None


def question(calls: Sequence[Mapping[str, Any]]) -> str:
    """Return the question that a person reads."""
    return "\n\n".join(str(one.get("description") or f"{one.get('name')} with {one.get('args')}") for one in calls)


def decided(value: Any, answer: Any) -> Any:
    """Return the answer in the middleware's form. Plain text decides all the calls; a mapping has that form."""
    calls = calls_in(value)
    if calls is None or isinstance(answer, dict):
        return cast("Any", answer)
    if "action_requests" not in value:
        return _decision(str(answer), ())
    allowed = [one.get("allowed_decisions", ()) for one in value["review_configs"]]
    return {"decisions": [_decision(str(answer), one) for one in (allowed + [()] * len(calls))[: len(calls)]]}


def _decision(words: str, allowed: Sequence[str]) -> dict[str, Any]:
    word = words.strip().lower()
    if word in _YES and (not allowed or "approve" in allowed):
        return {"type": "approve"}
    if "respond" in allowed and "reject" not in allowed:  # a tool whose result is what a person says
        return {"type": "respond", "message": words}
    return {"type": "reject"} if word in _NO else {"type": "reject", "message": words}
