"""Examples of reports, checklists and proposals, made by the code that makes them in earnest."""

from collections.abc import Iterable
from typing import Any

from midcourse.core import events as ev
from midcourse.core.ids import SessionId
from midcourse.core.policy.decisions import Reason
from midcourse.core.policy.profiles import STANDARD
from midcourse.core.spelling import spelled
from midcourse.reports.checklist import Grounds, checklist
from midcourse.reports.facts import Interruption, SessionFacts
from midcourse.reports.gathering import Gathered
from midcourse.reports.rates import Tally
from midcourse.reports.reading import facts_of
from midcourse.reports.tuning import Tuning


def report_examples(records: Iterable[ev.Recorded]) -> dict[str, Any]:
    """By the names of their schemas; the report is of one session, whose journal this is."""
    journal = list(records)
    tally = Tally()
    tally.add(facts_of(SessionId("sess_42"), journal, STANDARD), STANDARD)
    report = tally.report(journal[0].at, journal[-1].at)
    grounds = Grounds(policy=STANDARD, durability="power", no_encoder="no encoder is installed")
    tuning = Tuning()
    tuning.add(Gathered(facts=_drifting(), policy=STANDARD))
    proposed = spelled(tuning.proposals(journal[-1].at).proposals)
    return {
        "Report": spelled(report),
        "Checklist": {"items": spelled(checklist(report, grounds)[:3])},
        "Proposal": proposed[0],
        "ProposalList": {"proposals": proposed},
    }


def _drifting() -> SessionFacts:
    """A session in which drift was an alarm twelve times, and wrong four times, each of them early."""
    made = tuple(
        Interruption(
            kind="notify",
            by=f"policy:{STANDARD.id}",
            id=f"int_{number + 1}",
            at=0.0,
            reasons=(Reason("scope_drift", "intervene", 0.72 + 0.02 * number, 0.7, "It drifts."),),
            label="wrong" if number < 4 else "right",
        )
        for number in range(12)
    )
    return SessionFacts(
        id=SessionId("sess_42"),
        agent="researcher",
        task_class="long",
        is_class_declared=True,
        policy=STANDARD.id,
        person="ada",
        started=0.0,
        notices=made,
    )
