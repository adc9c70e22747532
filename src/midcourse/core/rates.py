"""The meaning of the rates and times of reports, ``/metrics`` and pages, each described once; and a stop's source.

How they are counted from one session is in ``analysis/reports/reader.py``, over many in
``analysis/reports/counters.py``: nowhere else.
"""

from collections.abc import Mapping
from typing import Final, Literal

from midcourse.core.budget import BUDGET
from midcourse.core.commands import BY_AGENT, BY_PARENT, BY_POLICY
from midcourse.core.deadlines import DEADLINE

Stopper = Literal["person", "policy", "budget", "agent", "kill_switch", "parent", "deadline"]
"""The source of a stop. The budget is it where a session reaches the cap that people gave it."""
STOPPERS: Final[Mapping[Stopper, tuple[str, str]]] = {
    "person": ("a person", "people"),
    "policy": ("a policy", "policies"),
    "budget": ("its budget", "their budgets"),
    "agent": ("the agent itself", "agents themselves"),
    "kill_switch": ("the kill switch", "the kill switch"),
    "parent": ("its parent", "their parents"),
    "deadline": ("a deadline", "deadlines"),
}
"""Their names for a report's reader, singular and plural, in this order."""

INTERRUPTED: Final = (
    "Sessions that were stopped at least once, by anyone: paused, cancelled or halted; of all sessions. A session that "
    "was stopped by several counts for each of them. A message, a question for the plan and a warning stop nothing."
)
COMPLETED: Final = "Sessions that completed, of those that have ended."
STEPPED_IN: Final = (
    "Occasions on which a person, a policy or a limit stepped in: stopped it, changed its course, or had it explain "
    "its plan. Mere notices to people are counted apart."
)
FALSE_POSITIVES: Final = (
    "Automatic interventions that people called wrong, of those they called right or wrong. What a person, a budget or "
    "the kill switch did is not in it; a notice is, where a policy wanted to step in and was held back."
)
ONLY_TOLD: Final = (
    "Warnings, and what a policy was held back from. In brackets: how many of the warnings people call right or wrong. "
    "These are in no false-positive rate; the review counts them apart, for the thresholds that warn."
)
RESPONSE: Final = (
    "From the request for a stop (put into the session's inbox by anyone; for a policy, its decision) until it was "
    "decided: nothing new begins."
)
STOPPED: Final = "From the request for a stop until nothing of the session ran; stops that let a call finish are apart."
DURATION: Final = (
    "Time that runs worked until they completed, all turns together: paused, waiting and halted time is not counted. "
    "Held against the range of the class where the class was declared: half of the runs or more lie in it."
)
TOKEN_RATE: Final = (
    "Tokens a second of each model call that ended by itself and said its tokens, from its begin to its end; of a "
    "session its newest 1,000. 99 % of the calls were no faster than p99."
)
CALLS_LEFT: Final = (
    "At half of the calls of a run of one turn that completed: the calls that the agent's runs before it say are left, "
    "against those that were. Right is within 20 %. Without five longer runs, or with runs too different, there is no "
    "estimate."
)
RECOVERED: Final = (
    "Of the times that a session was to continue after a stop, or after its process was lost, those after which a call "
    "finished, a person was asked, or the session ended as it should. It did not where the session failed, or lost its "
    "process again, before that. Another stop before that says nothing, and is not counted."
)
CONSISTENT: Final = (
    "Sessions that were stopped or lost their process, and those that cannot be read: of these, the ones whose journal "
    "folds without a contradiction (no result made twice, nothing begun while stopped, no approval used twice) to the "
    "state that the store's head and newest snapshot have."
)
AFTER_STOP: Final = (
    "Sessions that completed, of those that completed or failed: those stopped at least once beside those never "
    "stopped. Cancelled ones are in neither: that was a decision."
)
ROI: Final = (
    "Worth of automatic interventions above what they cost, as a share of that cost. Worth is the waste that each was "
    "expected to avoid, and nothing for one that people called wrong; cost is the requests it interrupted and the "
    "minutes the run was stopped. Only interventions of which both are known count."
)
MEANINGS: Final[Mapping[str, str]] = {
    "interrupted": INTERRUPTED,
    "completed": COMPLETED,
    "stepped_in": STEPPED_IN,
    "only_told": ONLY_TOLD,
    "false_positives": FALSE_POSITIVES,
    "response": RESPONSE,
    "stop": STOPPED,
    "duration": DURATION,
    "token_rate": TOKEN_RATE,
    "calls_left": CALLS_LEFT,
    "recovered": RECOVERED,
    "consistent": CONSISTENT,
    "after_stop": AFTER_STOP,
    "roi": ROI,
}
"""All of them by the name of the figure."""


def stopper_of(by: str, *, halts: bool = False) -> Stopper:
    """Return the source of a stop, by its name in the journal; ``halts``: it was a halt, by the kill switch."""
    if halts:
        return "kill_switch"
    if by == BUDGET:
        return "budget"
    if by.startswith(BY_POLICY):
        return "policy"
    if by.startswith(BY_AGENT):
        return "agent"
    if by.startswith(BY_PARENT):
        return "parent"
    return "deadline" if by == DEADLINE else "person"


def by_whom(counts: Mapping[Stopper, int]) -> str:
    """Return a count such as ``3 by people, 1 by the kill switch``; empty if there is none."""
    return ", ".join(
        f"{counts[one]:,} by {words[counts[one] > 1]}" for one, words in STOPPERS.items() if counts.get(one)
    )
