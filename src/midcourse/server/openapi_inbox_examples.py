"""Examples of the inbox and of webhooks, made by the code that shows them in earnest."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from midcourse.core.ids import AskId, StepId
from midcourse.core.to_json import to_json
from midcourse.people.inbox_rules import HandOver, Inbox, InboxAsk
from midcourse.people.webhooks import DeliveryOutcome, Webhook, delivery, delivery_view, tried, webhook_view
from midcourse.policy.alarm_batches import Batch
from midcourse.policy.artifacts import Artifact
from midcourse.policy.profiles import STANDARD
from midcourse.ports.store import Head
from midcourse.server.stream import frame


def inbox_examples(head: Head, alarms: Sequence[Batch]) -> dict[str, Any]:
    """Return examples by the names of their schemas, about a session that asks."""
    began = head.updated_at
    ask = InboxAsk(
        session=head.id,
        ask=AskId("ask_1"),
        agent=head.agent,
        goal=head.goal,
        tenant="",
        reason="need_approval",
        prompt="Confirm delete?",
        tool="delete_records",
        step=StepId("1/delete_records#0"),
        opened_at=began,
        deadline=None,
        respond_by=began + float(STANDARD.response_target),
        owner="ada",
        session_status=head.status,
    )
    hook = Webhook(
        id="wh_0198f2",
        tenant=None,
        url="http://127.0.0.1:8090/",
        kinds=("ask.opened", "ask.escalated"),
        by="ada",
        added_at=began - 60,
    )
    row = delivery(hook, "ask.opened", (head.id, ask.ask), {}, now=began, session=head.id)
    sent = tried(row, DeliveryOutcome(status=200, answer="ok", seconds=0.04), began + 0.5)
    shown = Inbox(asks=(ask,), alarms=tuple(alarms), approvals_in_a_row=3, quick=1, running=14, you="ada")
    made = Artifact(
        name="report.md",
        session=head.id,
        agent=head.agent,
        position=17,
        made_at=began - 40,
        due_at=began - 40,
        person="ada",
    )
    looked = replace(made, documentation="The figures of May", reviewed_at=began, reviewed_by="ada")
    return {
        "ArtifactList": {"artifacts": [to_json(made)]},
        "Artifact": to_json(replace(looked, due_at=began + float(STANDARD.artifacts.review))),
        "Inbox": to_json(shown),
        "InboxAsk": to_json(replace(ask, owner="bob", owned_since=began + 20)),
        "HandOver": to_json(HandOver(name="ada", to="bob", at=began, until=began + 3600)),
        "WebhookList": {"webhooks": [to_json(webhook_view(hook, [sent]))]},
        "NewlyMadeWebhook": {"webhook": to_json(webhook_view(hook)), "secret": "whsec_…"},
        "DeliveryView": to_json(delivery_view(sent)),
        "DeliveryList": {"deliveries": [to_json(delivery_view(sent))]},
        "text/event-stream get_inbox": frame({**to_json(shown), "gone": []}, event="inbox").decode(),
    }
