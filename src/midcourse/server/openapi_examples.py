"""Examples for the OpenAPI document.

Those of answers are of one short session, decided, folded and shown by the real code: they cannot differ from a
server's.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.audit import Audited, decided
from midcourse.core.codec import inline
from midcourse.core.contact import Contact, PendingCommand
from midcourse.core.decisions import decide
from midcourse.core.evolution import created, evolve
from midcourse.core.ids import AskId, CommandId, Position, SessionId, StepId, SwitchId
from midcourse.core.inspection import Inspection, StepView
from midcourse.core.interventions import interventions_of, with_labels
from midcourse.core.policy_decision import Decision, Reason, Unseen
from midcourse.core.receipt import ledger_of
from midcourse.core.replies import Reply, RunningCall
from midcourse.core.session import ENDED, Session
from midcourse.core.signals import Signals
from midcourse.core.switches import Reached, Released, Switch, SwitchReport, check_scope
from midcourse.core.terms import Terms
from midcourse.core.to_json import to_json as spelled
from midcourse.errors import Refused
from midcourse.policy.alarm_batches import batches
from midcourse.policy.intervention_shelf import alarm_of
from midcourse.policy.profiles import BUILT_IN, STANDARD
from midcourse.policy.signals.run_monitor import RunMonitor
from midcourse.policy.signals.session_signals import Gauges
from midcourse.policy.versions import KeptPolicy, summary_of
from midcourse.policy.yaml_reader import load_policy
from midcourse.policy.yaml_writer import to_yaml
from midcourse.ports.store import Head
from midcourse.server import to_json
from midcourse.server.browser_sessions import Login
from midcourse.server.chat_frames import ChatFrames
from midcourse.server.openapi_inbox_examples import inbox_examples
from midcourse.server.openapi_report_examples import report_examples
from midcourse.server.openapi_schemas import PLAIN
from midcourse.server.policy_to_json import check_view, difference_view, policy_view
from midcourse.server.problems import problem_of
from midcourse.server.stream import frame
from midcourse.server.tokens import KeptToken, Principal

REQUESTS: Final[Mapping[str, Mapping[str, Any]]] = {
    **{kind.__name__: kind.sent.example for kind in cmd.SENT if kind.sent is not None and kind.sent.example},
    "NewSession": {"agent": "churn-memo", "goal": "Write the churn memo for Q3"},
    "Bulk": {"verb": "pause", "sessions": ["sess_41", "sess_42"], "reason": "release freeze"},
    "PreviewSwitch": {"scope": {"kind": "label", "value": "release"}},
    "ThrowSwitch": {"scope": {"kind": "agent", "value": "records-cleaner"}, "reason": "It deletes the wrong records."},
    "LiftSwitch": {"why": "The list was mended."},
    "ReleaseHalted": {"sessions": ["sess_41"]},
    "Fork": {"at": 12, "paused": True},
    "OwnAsk": {"owner": "ada"},
    "ReviewedArtifact": {"name": "report.md", "documentation": "The figures of May"},
    "HandOverTo": {"to": "bob", "seconds": 3600},
    "NewWebhook": {"url": "http://127.0.0.1:8090/", "kinds": ["ask.opened", "ask.escalated"]},
    "NewToken": {"name": "nightly-report", "role": "watch", "tenant": "acme", "lifetime": 7776000},
    "LogIn": {"credential": "mcl_…"},
    "PolicyDraft": {"document": "policy: careful\nextends: conservative\nsignals:\n  cost: {warn: 2}\n"},
    "PolicyTrial": {"policy": "standard", "against": ["conservative"], "limit": 200},
    "PolicyCalibration": {"policy": "standard", "false_stops": 0.1},
    "Settling": {"why": "14 of 44 were wrong"},
    "NewPolicy": {
        "document": "policy: careful\nextends: conservative\nsignals:\n  cost: {warn: 2}\n",
        "why": "The agent is new.",
    },
    "Chat": {"agent": "records-cleaner", "message": "Delete the duplicates"},
    "ChatResume": {"session_id": "sess_42", "answer": "yes"},
}
"""A body of each request."""
_NAME: Final = SessionId("sess_42")
_BEGAN: Final = 1763200000.0
_BROWSER: Final = {
    "id": "3f6c1f0b9d2a4e58",
    "name": "ada",
    "tenant": None,
    "place": "http://127.0.0.1:8420",
    "created_at": _BEGAN,
    "expires_at": _BEGAN + 604_800,
}
_DELETE: Final = StepId("1/delete_records#0")
_SAYS: Final = StepId("1/model#0")
_ACT: Final = ev.StepBegun(
    step=_DELETE,
    name="delete_records",
    kind="tool",
    attempt=1,
    digest="9f2c",
    arguments="ids=[7, 12]",
    effect="reversible",
    key="sess_42/1/delete_records#0",
    tool="crm.tools:delete_records",
    can_undo=True,
)

_LOOPING: Final = Decision(
    level="notify",
    wanted="notify",
    policy="standard@1",
    at=_BEGAN + 3,
    reasons=(Reason("loops", "warn", 3, 3, "The same call was made 3 times without progress."),),
    unseen=(Unseen("scope_drift", "no encoder is installed"),),
)
_LABELLED: Final[Mapping[tuple[str, str], ev.Verdict]] = {(_NAME, "int_1"): "right"}


class _Journal:
    """A journal that grows in memory, as a driver and people would have it grow."""

    def __init__(self, first: ev.SessionCreated) -> None:
        self.records = [ev.Recorded(Position(1), _BEGAN, first)]
        self.session: Session = created(_NAME, self.records[0])

    def happens(self, *events: ev.AnyEvent) -> Session:
        for event in events:
            record = ev.Recorded(Position(self.session.position + 1), self.session.at + 0.25, event)
            self.session = evolve(self.session, record)
            self.records.append(record)
        return self.session

    def wished(self, command: cmd.AnyCommand) -> Session:
        return self.happens(*decide(self.session, command))


def _command(name: str) -> dict[str, Any]:
    return {"id": CommandId(f"ada:{name}"), "by": "ada", "role": "approve"}


def answer_examples() -> dict[str, Any]:
    """Return an answer of each kind by its schema's name; a stream by ``text/event-stream`` and its route's name."""
    first = ev.SessionCreated(
        agent="records-cleaner",
        agent_version="3",
        mode="replay",
        origin="crm.agents:cleaner",
        resumable=True,
        goal="Delete the duplicates",
        terms=Terms(task_class="short", budget=5.0),
        by="ada",
    )
    journal = _Journal(first)
    journal.happens(
        ev.SessionStarted(),
        ev.StepBegun(step=_SAYS, name="model", kind="model", attempt=1, digest="51aa"),
        ev.SegmentWritten(step=_SAYS, attempt=1, offset=0, text="Two records are duplicates."),
        ev.StepFinished(step=_SAYS, attempt=1, value=inline(b'"Two records are duplicates."')),
        ev.AskOpened(ask=AskId("ask_1"), step=_DELETE, reason="need_approval", prompt="Confirm delete?"),
    )
    waiting = journal.happens(ev.SessionWaiting())
    asked = list(journal.records)
    refusal = _refusal_of(waiting, cmd.Resume(**_command("too-early")))
    journal.wished(cmd.Answer(**_command("answer"), ask=AskId("ask_1"), value=inline(b'"yes"')))
    journal.happens(_ACT)
    pause = cmd.Pause(**_command("pause"), reason="let me read the draft")
    pausing = journal.wished(pause)
    preview = ledger_of(journal.records)
    reply = _reply(pausing)
    audited = Audited(7, decided(_NAME, pause, "ok", ()))
    journal.happens(ev.StepFinished(step=_DELETE, attempt=1, value=inline(b"2")), ev.SessionPaused())
    journal.wished(cmd.Resume(**_command("resume")))
    journal.wished(cmd.Intervene(id=CommandId("policy_14_notify"), by="policy:standard@1", decision=_LOOPING))
    told = journal.records[-1]
    assert isinstance(told.event, ev.InterventionMade)
    alarm = alarm_of(journal.session, told.at, told.event)
    journal.wished(cmd.Label(**_command("label"), about="int_1", verdict="right"))
    [stepped_in] = interventions_of(journal.records)
    ended = journal.happens(ev.SessionCompleted(result=inline(b'"2 records were deleted."')))
    found: dict[str, Any] = {
        "Session": to_json.session_view(waiting, "approve"),
        "Reply": to_json.reply_view(reply),
        "Reply 202": to_json.reply_view(_accepted(waiting)),
        "SessionList": {"sessions": [to_json.head_view(_head(waiting))]},
        "BulkOutcomes": {
            "outcomes": [{"session": _NAME, "ok": True, "status": "pausing", "code": "", "problem": "", "unknown": []}]
        },
        "Contact": spelled(_contact(waiting)),
        "EventList": {"events": [to_json.event_view(one) for one in asked[-2:]]},
        "Inspection": to_json.inspection_view(_inspection(waiting), "approve"),
        "Receipt": to_json.receipt_view(ledger_of(journal.records).receipt),
        "InterventionList": {"interventions": [to_json.intervention_view(stepped_in)]},
        "Signals": spelled(_signals(journal.records)),
        "AlarmList": {"interventions": [to_json.intervention_view(one) for one in with_labels([alarm], _LABELLED)]},
        **_switch_examples(),
        "BatchList": {"batches": [to_json.batch_view(one) for one in batches([alarm], STANDARD.restraint.batch)]},
        "CancelPreview": {
            choice: to_json.receipt_view(preview.preview(choice)) for choice in ("none", "in-flight", "all")
        },
        "Result": {
            "status": ended.status,
            "ended": ended.status in ENDED,
            "result": "2 records were deleted.",
            "failure": None,
        },
        "Blob": "a long text",
        "AgentList": {"agents": [_agent(first)]},
        "AuditList": {"entries": to_json.audit_view([audited])},
        "TokenList": {
            "tokens": [to_json.token_view(KeptToken(name="nightly-report", role="watch", created_at=_BEGAN, digest=""))]
        },
        "NewlyMadeToken": {
            "name": "nightly-report",
            "role": "watch",
            "session": None,
            "only": None,
            "tenant": "acme",
            "expires_at": _BEGAN + 7_776_000,
            "token": "mct_…",
        },
        "Login": to_json.login_view(Login(Principal("ada", "approve"), "", "mcp_…", _BEGAN + 604_800)),
        "LoginCode": {
            "code": "mcl_…",
            "link": "http://127.0.0.1:8420/login#mcl_…",
            "expires_at": _BEGAN + 60,
        },
        "BrowserSession": _BROWSER,
        "BrowserSessionList": {"browser_sessions": [_BROWSER]},
        "Principal": to_json.principal_view(Principal("ada", "approve")),
        "Health": {"status": "ok"},
        "Readiness": {"status": "ready", "checks": {"store": "ok", "control": "ok"}},
        **_policies(),
        **inbox_examples(_head(waiting), batches([alarm], STANDARD.restraint.batch)),
        **report_examples(journal.records),
        "Problem": msgspec.json.decode(problem_of(refusal).body),
        "text/event-stream chat": _chat(asked),
        "text/event-stream resume_chat": _chat(journal.records[len(asked) :]),
    }
    pages = [name for name, schema in PLAIN.items() if "next" in schema.get("properties", ())]
    return found | {name: {**found[name], "next": None} for name in ("Inbox", *pages)}


def _signals(records: Iterable[ev.Recorded]) -> Signals:
    gauges = Gauges(RunMonitor(STANDARD, task_class="long"), is_watched=True)
    for record in records:
        gauges.read(record)
    return Signals(
        policy=gauges.policy,
        task_class=gauges.task_class,
        position=gauges.position,
        at=gauges.at,
        signals=gauges.shown()[:3],
    )


def _policies() -> dict[str, Any]:
    base = BUILT_IN["conservative"]
    careful = replace(load_policy(str(REQUESTS["NewPolicy"]["document"])), version=1)
    kept = KeptPolicy(policy=careful, by="ada", why=str(REQUESTS["NewPolicy"]["why"]), at=_BEGAN)
    return {
        "Policy": policy_view(kept, to_yaml(careful)),
        "PolicyList": {"policies": [spelled(summary_of(one)) for one in (KeptPolicy(policy=base), kept)]},
        "PolicyHistory": {"versions": [spelled(summary_of(kept))]},
        "PolicyDifference": difference_view(base, careful),
        "PolicyCheck": check_view(base, replace(careful, version=0)),
    }


def _switch_examples() -> dict[str, Any]:
    wish = REQUESTS["ThrowSwitch"]
    switch = Switch(
        id=SwitchId("ks_1a"),
        scope=check_scope(wish["scope"]["kind"], wish["scope"]["value"]),
        reason=wish["reason"],
        by="ada",
        at=_BEGAN,
    )
    held = Reached(session=_NAME, agent="records-cleaner", goal="Delete the duplicates", state="stopped", was="running")
    report = SwitchReport(switch, (held,))
    lifted = replace(switch, lifted_at=_BEGAN + 600, lifted_by="ada", lifted_why=REQUESTS["LiftSwitch"]["why"])
    return {
        "SwitchList": {"switches": [to_json.switch_view(report, whole=False)]},
        "SwitchReport": to_json.switch_view(SwitchReport(lifted, (held,))),
        "SwitchReport 201": to_json.switch_view(report),
        "SwitchCount": {"count": 1, "by_status": {"running": 1}, "hint": "", "sentence": "1 session now (1 running)."},
        "ReleasedList": {"outcomes": spelled([Released(session=_NAME, ok=True, status="running")])},
    }


def _refusal_of(session: Session, command: cmd.AnyCommand) -> Refused:
    try:
        decide(session, command)
    except Refused as error:
        return error
    raise AssertionError("the example of a refusal was granted")


def _reply(session: Session) -> Reply:
    call = session.calls[_DELETE]
    return Reply(
        level="stopping",
        status=session.status.value,
        session=session.id,
        durability="power",
        position=session.position,
        pause=session.pause.id if session.pause else None,
        running=(RunningCall(call.step, call.name, call.kind, call.attempt, 0.25, call.effect),),
    )


def _accepted(session: Session) -> Reply:
    return Reply(
        level="accepted",
        status=session.status.value,
        session=session.id,
        durability="power",
        position=session.position,
        unreachable_since=session.at,
    )


def _contact(session: Session) -> Contact:
    stored = PendingCommand(command="pause", by="ana", at=session.at)
    return Contact(pending=(stored,), unreachable_since=session.at)


def _head(session: Session) -> Head:
    return Head(
        id=session.id,
        agent=session.agent,
        goal=session.goal,
        status=session.status.value,
        turn=session.turn,
        position=session.position,
        digest=b"",
        created_at=session.created_at,
        updated_at=session.at,
        asks=len(session.asks),
        finished_steps=session.finished_steps,
    )


def _inspection(session: Session) -> Inspection:
    said = "Two records are duplicates."
    return Inspection(session, (StepView(_SAYS, "model", "", 1, "finished", said, said),), None)


def _chat(records: Iterable[ev.Recorded]) -> str:
    """Return a stream of the chat contract, as its bytes."""
    chat = ChatFrames(_NAME)
    lines: list[bytes] = []
    for one in records:
        lines += [frame(shown, position=one.position) for shown in chat.frames(one)]
        if isinstance(one.event, ev.SessionCompleted):
            lines.append(frame(chat.completed(one.event.result.raw), position=one.position))
    return b"".join(lines).decode()


def _agent(first: ev.SessionCreated) -> dict[str, Any]:
    return {
        "name": first.agent,
        "description": "Writes a page about customers who may leave.",
        "goals": ["Write the churn memo for the north region"],
        "version": first.agent_version,
        "mode": first.mode,
        "resumable": first.resumable,
        "origin": first.origin,
        "asks": True,
        "terms": spelled(first.terms),
    }
