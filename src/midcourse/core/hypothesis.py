"""A required hypothesis: an agent whose policy requires one does not act before it has stated it. Pure.

Reads and models continue, so that it can form and state one. It is asked once in a turn. A person who resumes a run
that was paused for its missing hypothesis allows it to act without one.
"""

import re
from typing import Final, Literal

from midcourse.core import events as ev
from midcourse.core.commands import BY_POLICY
from midcourse.core.ids import intervention_id
from midcourse.core.policy_decision import Decision, Reason
from midcourse.core.session import Session

SIGNAL: Final = "hypothesis"
WANTED: Final = "Its policy requires a hypothesis before it acts, and it has stated none."
HOW: Final = (
    "State yours before you act: write a line that begins with 'Hypothesis:' and says in one sentence what you take "
    "for true, then make the call again. Code calls run.report(hypothesis=…)."
)
"""The instruction for the agent: a model can always write a line, in any framework."""
LONGEST: Final = 500
"""Characters of a hypothesis that is read from what a model says."""
_LINE: Final = re.compile(r"^[\s>*_#-]*hypothesis[\s*_]*:[\s*_]*(\S.*)$", re.IGNORECASE | re.MULTILINE)
Asked = Literal["", "asked", "reviewed"]


def is_held(session: Session) -> bool:
    """Return True if an agent that must state a hypothesis may not act yet."""
    return not session.hypothesis and session.unstated != "allowed"


def ask(session: Session, now: float) -> tuple[ev.AnyEvent, ...]:
    """Ask a held agent to state its hypothesis; nothing if it was asked, or while people are being asked something."""
    if session.unstated or session.asks:
        return ()
    policy = session.terms.policy
    reason = Reason(SIGNAL, "explain", 0.0, 0.0, WANTED)
    decision = Decision(level="ask_plan", wanted="ask_plan", policy=policy, at=now, reasons=(reason,))
    by = f"{BY_POLICY}{policy}"
    made = ev.InterventionMade(intervention=intervention_id(session.interventions + 1), by=by, decision=decision)
    return (made, ev.SessionRedirected(text=f"{WANTED} {HOW}", level="clarify", by=by))


def asked_by(decision: Decision) -> Asked:
    """Return who was asked about a missing hypothesis: the agent, or people in a review."""
    stages = {reason.stage for reason in decision.reasons if reason.signal == SIGNAL}
    if decision.level in ("pause", "stop") and stages - {"warn"}:
        return "reviewed"
    return "asked" if decision.level == "ask_plan" and "explain" in stages else ""


def stated_in(text: str) -> str:
    """Return the last hypothesis that a model states in a line of its own; empty if it states none."""
    found = _LINE.findall(text)
    return found[-1].strip(" *_")[:LONGEST] if found else ""
