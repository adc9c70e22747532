"""Examples of reports, checklists and proposals, made by the code that makes them in earnest."""

from collections.abc import Iterable
from typing import Any

from midcourse.analysis.backtest import recording_of
from midcourse.analysis.backtest.calibration import RunCourse, calibrate
from midcourse.analysis.reports.checklist import checklist
from midcourse.analysis.reports.checklist_inputs import Grounds
from midcourse.analysis.reports.facts import Interruption, SessionFacts
from midcourse.analysis.reports.fleet import FleetSession
from midcourse.analysis.reports.proposals import tune
from midcourse.analysis.reports.reader import facts_of
from midcourse.analysis.reports.recorded_runs import Going, Runs
from midcourse.analysis.reports.totals import report_of
from midcourse.analysis.reports.trials import proposed, tried
from midcourse.core import events as ev
from midcourse.core.ids import SessionId
from midcourse.core.policy_decision import Reason
from midcourse.core.to_json import to_json
from midcourse.policy.profiles import STANDARD
from midcourse.policy.yaml_writer import to_yaml
from midcourse.server.policy_to_json import proposed_view


def report_examples(records: Iterable[ev.Recorded]) -> dict[str, Any]:
    """Return examples by the names of their schemas; the report is of one session, whose journal this is."""
    journal = list(records)
    facts = facts_of(SessionId("sess_42"), journal, STANDARD)
    report = report_of([(facts, STANDARD)], journal[0].at, journal[-1].at)
    grounds = Grounds(policy=STANDARD, durability="power", no_encoder="no encoder is installed")
    tuned = tune([FleetSession(facts=_drifting(), policy=STANDARD)], journal[-1].at)
    suggested = to_json(tuned.proposals)
    return {
        "Report": to_json(report),
        "Checklist": {"items": to_json(checklist(report, grounds)[:3])},
        "Proposal": suggested[0],
        "ProposalList": {"proposals": suggested},
        **_trials(journal),
    }


def _trials(journal: list[ev.Recorded]) -> dict[str, Any]:
    run = recording_of(journal, run_id="sess_42")
    assert run is not None
    runs = Runs(recordings=(run,), since=journal[0].at, until=journal[0].at, notes=())
    fine = [RunCourse(False, {"loops": ((1, 2.0),)}) for _ in range(20)]
    failing = [RunCourse(True, {"loops": ((1, 2.0), (9, 4.0))}) for _ in range(12)]
    found = proposed(calibrate([*fine, *failing], STANDARD), STANDARD)
    return {
        "Trial": to_json(tried(runs, [STANDARD], Going())),
        "PolicyProposed": proposed_view(STANDARD, found, to_yaml(found.policy, {STANDARD.id: STANDARD})),
    }


def _drifting() -> SessionFacts:
    """Return a session in which drift was an alarm twelve times, and wrong four times, each of them early."""
    made = tuple(
        Interruption(
            kind="notify",
            by=f"policy:{STANDARD.id}",
            id=f"int_{number + 1}",
            at=0.0,
            reasons=(Reason("scope_drift", "intervene", 0.72 + 0.02 * number, 0.7, "It drifts."),),
            label="wrong" if number < 4 else "right",
            was_held=True,
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
