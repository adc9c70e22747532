"""The review: reads what people labelled, proposes thresholds, and keeps each proposal until a person decides.

Proposals lie on the store's shelf ``proposals``. Of two people who settle the same proposal in the same moment the last
one's name stands on it. The policy is saved once all the same.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from midcourse.analysis.reports.fleet import Fleet, Progress
from midcourse.analysis.reports.proposals import Proposal, State, Tuned, tune
from midcourse.core.audit import AuditEntry
from midcourse.core.ids import SessionId
from midcourse.core.tenants import tenant_of
from midcourse.errors import Damaged, InvalidInput, Refused
from midcourse.policy.document import Policy
from midcourse.policy.profiles import STANDARD
from midcourse.policy.versions import save as save_policy
from midcourse.ports.sender import check_people_send
from midcourse.ports.store import Store

SHELF: Final = "proposals"
_REVIEWS: Final = "reviews"
_LAST: Final = "last"
PERIOD: Final = 30 * 86_400.0
"""Seconds that a review looks back, unless it is told otherwise."""
WEEKLY: Final = 7 * 86_400.0
WHY_LIMIT: Final = 2_000
_VERBS: Final = {"accepted": "accept", "refused": "refuse"}


async def review(
    store: Store,
    *,
    since: float,
    now: float,
    default: Policy = STANDARD,
    progress: Progress | None = None,
) -> Tuned:
    """Review the sessions that began since a time, and keep the proposals. Nothing is put into force.

    A proposal that was made before, accepted or refused, is not made again; an open one is replaced by a newer one for
    the same agent or person.
    """
    gathering = Fleet(store, since, now, default=default, with_values=True, progress=progress)
    tuned = tune([one async for one in gathering.sessions()], now)
    known = {one.id: one for one in await proposals(store)}
    fresh = [one for one in tuned.proposals if one.id not in known]
    items = {one.id: msgspec.json.encode(one) for one in fresh}
    for made in fresh:
        for old in known.values():
            if old.state == "open" and old.name == made.name:
                items[old.id] = msgspec.json.encode(replace(old, state="superseded", settled_at=now))
    if items:
        await store.shelve(SHELF, items)
    await store.shelve(_REVIEWS, {_LAST: msgspec.json.encode(now)})
    return replace(tuned, remarks=(*tuned.remarks, *gathering.notes))


async def proposals(store: Store, *, state: str | None = None, tenant: str | None = None) -> list[Proposal]:
    """Return what reviews proposed, newest first; only those in a state, or of a tenant, if given.

    Raises:
        Damaged: one of them does not match its checksum, or cannot be read.
    """
    rows = await store.shelved(SHELF)
    found = [_read(key, content) for key, content in rows if tenant in (None, tenant_of(key))]
    wanted = [one for one in found if state is None or one.state == state]
    return sorted(wanted, key=lambda one: (-one.made_at, one.id))


async def proposal(store: Store, name: str) -> Proposal:
    """Return one proposal.

    Raises:
        InvalidInput: ``proposal_not_found``.
    """
    rows = await store.shelved(SHELF, first=name, last=name) if name else ()
    if not rows:
        raise no_proposal(name)
    return _read(*rows[0])


def no_proposal(name: str) -> InvalidInput:
    return InvalidInput(f"There is no proposal '{name[:100]}'. List the proposals again.", code="proposal_not_found")


async def accept(store: Store, name: str, *, by: str, why: str, now: float) -> Proposal:
    """Save the policy that was proposed, and say so on the proposal. Sessions that name it use it from then on.

    Raises:
        InvalidInput: ``proposal_not_found``; or ``why`` is missing.
        Refused: ``proposal_settled``: it was accepted, refused or superseded before.
    """
    return await _settle(store, name, "accepted", by, why, now)


async def refuse(store: Store, name: str, *, by: str, why: str, now: float) -> Proposal:
    """Say that it is not wanted, and why; the same is not proposed again.

    Raises:
        InvalidInput: ``proposal_not_found``; or ``why`` is missing.
        Refused: ``proposal_settled``: it was accepted, refused or superseded before.
    """
    return await _settle(store, name, "refused", by, why, now)


async def _settle(store: Store, name: str, state: State, by: str, why: str, now: float) -> Proposal:
    await check_people_send(store, f"{_VERBS[state]} a proposal")
    found = _open(await proposal(store, name), state, by)
    if found.state == state:
        return found
    reason, kept_as = why.strip(), ""
    if state == "accepted":
        # The proposal's id is the command's: who was cut off between the two writes saves nothing twice.
        kept = await save_policy(store, found.after, by=by, why=why, now=now, command=found.id)
        kept_as = kept.policy.id
    elif not 0 < len(reason) <= WHY_LIMIT:
        raise InvalidInput(
            f"Say in a sentence why, in 1 to {WHY_LIMIT:,} characters. Nothing was changed.", field="why"
        )
    done = replace(found, state=state, by=by, why=reason, settled_at=now, kept_as=kept_as)
    audited = AuditEntry(
        session=SessionId(""),
        by=by,
        role="operate",
        action=f"proposal.{_VERBS[state]}",
        detail=f"{done.id} for {done.name}: {reason}",
        at=now,
        tenant=tenant_of(done.id),
    )
    await store.shelve(SHELF, {found.id: msgspec.json.encode(done)}, audit=[audited])
    return done


def _open(found: Proposal, wanted: str, by: str) -> Proposal:
    if found.state == "open" or (found.state, found.by) == (wanted, by):
        return found
    who = f" by {found.by}" if found.by else ""
    raise Refused(
        f"Proposal '{found.id}' was {found.state} before{who}. There is nothing to do; the next review makes another "
        "one if there is reason to.",
        code="proposal_settled",
        proposal=found.id,
        state=found.state,
    )


def _read(key: str, content: bytes) -> Proposal:
    try:
        return msgspec.json.decode(content, type=Proposal)
    except msgspec.MsgspecError as error:
        raise Damaged(
            f"Proposal '{key}' cannot be read ({error}). A later Midcourse may have written it: use that one."
        ) from error


async def last_review(store: Store) -> float | None:
    """Return the time of the last review; None if there was none."""
    rows = await store.shelved(_REVIEWS, first=_LAST, last=_LAST)
    return msgspec.json.decode(rows[0][1], type=float) if rows else None


async def begin_counting(store: Store, now: float) -> float:
    """Return the start of the count until the next review: the last one, or the first time it was asked for."""
    last = await last_review(store)
    if last is None:
        await store.shelve(_REVIEWS, {_LAST: msgspec.json.encode(now)})
    return now if last is None else last
