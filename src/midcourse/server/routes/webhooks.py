"""Webhooks: their subscriptions, and their deliveries."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from midcourse.core.to_json import to_json
from midcourse.people.outbox import Outbox
from midcourse.people.webhook_sender import made_webhook, try_out
from midcourse.people.webhooks import Delivery, Webhook, delivery_view, webhook_view
from midcourse.server.caller import Administrator, Caller, Operator
from midcourse.server.openapi import answers
from midcourse.server.pages import USUAL, CursorQuery, LimitQuery, Pages
from midcourse.server.schemas import NewWebhook
from midcourse.server.to_json import answer

router = APIRouter(tags=["inbox"])
WebhookPath = Annotated[str, Path(min_length=1, max_length=200, description="The webhook's id.")]
_WEBHOOKS = Pages[Webhook]("webhooks", tuple[float, str], lambda one: (one.added_at, one.id))
_DELIVERIES = Pages[Delivery]("deliveries", tuple[float, str], lambda one: (-one.made_at, one.id))
MOST_LOOKED_AT = 1000
"""Deliveries by which it is told how a webhook stands."""


def _outbox(caller: Caller) -> Outbox:
    return Outbox(caller.store)


@router.get("/webhooks", responses=answers("WebhookList", 200, "damaged"))
async def list_webhooks(caller: Operator, limit: LimitQuery = USUAL, cursor: CursorQuery = None) -> Response:
    """The webhooks, and whether what they are told arrives. Their secrets are not shown."""
    outbox = _outbox(caller)
    page = _WEBHOOKS.of(await outbox.webhooks(caller.tenant), limit, cursor)
    views = [webhook_view(one, await outbox.deliveries(one.id, MOST_LOOKED_AT)) for one in page.items]
    return answer({"webhooks": to_json(views), "next": page.next})


@router.post(
    "/webhooks",
    status_code=201,
    responses=answers(
        "NewlyMadeWebhook", 201, "address_refused", "too_many_webhooks", "idempotency_key_reused", "damaged", body=True
    ),
)
async def add_webhook(body: NewWebhook, caller: Administrator) -> Response:
    """Tell a program of what happens from now on. The secret that signs it is shown this once."""
    outbox = _outbox(caller)
    made = await made_webhook(
        caller.clock,
        url=body.url,
        kinds=body.kinds,
        about=body.about,
        tenant=caller.tenant,
        by=caller.principal.by,
        key=caller.key_digest,
    )
    made = await outbox.add(made, role=caller.role)
    return answer({"webhook": to_json(webhook_view(made)), "secret": made.secret}, 201)


@router.delete(
    "/webhooks/{webhook}", status_code=204, responses=answers("", 204, "webhook_not_found", "damaged", changes=True)
)
async def remove_webhook(webhook: WebhookPath, caller: Administrator) -> Response:
    """Forget a webhook, and what it was still to be told."""
    outbox = _outbox(caller)
    found = await outbox.webhook(webhook, caller.tenant)
    now = caller.clock.now()
    await outbox.remove(found, by=caller.principal.by, role=caller.role, now=now)
    return Response(status_code=204)


@router.post(
    "/webhooks/{webhook}/test", responses=answers("DeliveryView", 200, "webhook_not_found", "damaged", changes=True)
)
async def test_webhook(webhook: WebhookPath, caller: Administrator) -> Response:
    """Send it a `webhook.test`, once, and tell what came of that. Takes up to ten seconds."""
    outbox = _outbox(caller)
    found = await outbox.webhook(webhook, caller.tenant)
    made = await try_out(
        outbox,
        found,
        caller.clock,
        by=caller.principal.by,
        role=caller.role,
        key=caller.key_digest,
    )
    return answer(to_json(delivery_view(made)))


@router.get("/webhooks/{webhook}/deliveries", responses=answers("DeliveryList", 200, "webhook_not_found", "damaged"))
async def list_deliveries(
    webhook: WebhookPath,
    caller: Operator,
    limit: LimitQuery = USUAL,
    cursor: CursorQuery = None,
) -> Response:
    """List the deliveries of a webhook in the last seven days, with its answers, the newest first."""
    outbox = _outbox(caller)
    found = await outbox.webhook(webhook, caller.tenant)
    page = _DELIVERIES.of(await outbox.deliveries(found.id, None), limit, cursor)
    return answer({"deliveries": to_json([delivery_view(one) for one in page.items]), "next": page.next})
