"""Read people's messages for a script: the present course, and the change that a redirect makes."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from midcourse.core.interventions import EXPLAIN
from midcourse.models.script import Conversation

_STOP: Final = re.compile(r"^\W*(stop|enough|never mind|finish|end it|that.s all)\b[\s\w]{0,12}\W*$", re.IGNORECASE)
_OVER: Final = re.compile(
    r"(?:over|above|more than|at least|from|>=?)\s*(?:an? MRR of\s*)?(?:\$|usd\s*)?\s*"
    r"(\d[\d,]*(?:\.\d+)?)\s*(k|m|thousand|million)?\b",
    re.IGNORECASE,
)
_GOAL: Final = re.compile(r"(?:new|different|another|other) goal\s*[:,]?\s*(?:is\s*)?(.+)", re.IGNORECASE | re.DOTALL)
_TIMES: Final = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6}


@dataclass(frozen=True, slots=True)
class StoryCourse:
    """The person's messages that still count: all of them, or those after the last new goal."""

    said: tuple[str, ...]
    is_changed: bool
    """True if the last message came on top of a goal."""
    explains: bool = False
    """True if it must explain its plan before it continues: a policy asks for that, and changes nothing else."""

    @property
    def last(self) -> str:
        return self.said[-1] if self.said else ""

    @property
    def stops(self) -> bool:
        """True if the person wants to end it."""
        return self.is_changed and _STOP.search(self.last) is not None


def course_of(conversation: Conversation) -> StoryCourse:
    """Return the course of a conversation. “Use a different goal: …” begins a new one."""
    said: list[str] = []
    count = 0
    explains = False
    for one in conversation:
        if one.role == "user" and one.text.strip():
            explains = EXPLAIN in one.text
            if explains:
                continue
            count += 1
            goal = _GOAL.search(one.text)
            said = [goal[1].strip()] if goal else [*said, one.text.strip()]
    return StoryCourse(tuple(said), count > 1, explains)


def done_since(conversation: Conversation, last_tool: str) -> Conversation:
    """Return the part for the work under way: what follows the last message after ``last_tool`` had ended.

    So a new turn does the work again, and a redirect in the middle of it keeps what was found.
    """
    ended = {call.id for call in conversation.calls if call.name == last_tool}
    beginning, is_over = 0, False
    for at, said in enumerate(conversation.said):
        if said.role == "tool" and said.call_id in ended:
            is_over = True
        elif said.role == "user" and is_over:
            beginning, is_over = at, False
    return Conversation(conversation.said[beginning:])


def result_of(conversation: Conversation, tool: str, arguments: Mapping[str, object] | None = None) -> Any:
    """Return what a tool returned last as JSON, to a call with these arguments if given; None if it never did.

    A call that was interrupted has a sentence as its result, and does not count.
    """
    found = [text for call, text in conversation.finished(tool) if arguments in (None, call.arguments)]
    return next((json.loads(text) for text in reversed(found) if text.startswith(("{", "["))), None)


def amount_over(text: str) -> float | None:
    """Return the amount in “over $10k”; None if there is none."""
    found = _OVER.search(text)
    return None if found is None else float(found[1].replace(",", "")) * _TIMES.get((found[2] or "").lower(), 1.0)


def quoted(text: str) -> str:
    """Quote a message as a script repeats it."""
    line = " ".join(text.split())
    return f"“{line if len(line) <= 160 else line[:157] + '…'}”."
