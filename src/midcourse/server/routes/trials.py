"""Policies on this server's own recorded runs, before one of them is switched on: backtest and calibration."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request
from msgspec.structs import replace
from starlette.responses import Response

from midcourse.analysis.reports.recorded_runs import Going, read_runs
from midcourse.analysis.reports.trial_process import calibrate, try_policies
from midcourse.core.to_json import to_json
from midcourse.errors import InvalidInput, MidcourseError
from midcourse.policy import versions
from midcourse.policy.document import Policy
from midcourse.policy.yaml_reader import DRAFT
from midcourse.server import schemas
from midcourse.server.caller import Caller, Reckoner
from midcourse.server.openapi import STREAM, Responses, answers
from midcourse.server.policy_to_json import proposed_view
from midcourse.server.problems import problem_of
from midcourse.server.stream import Stream, frame, wants_stream
from midcourse.server.to_json import answer

router = APIRouter(tags=["policies"])
TOLD_EVERY: Final = 0.25
"""Seconds between two checks of a trial's progress, and of its caller's presence."""
AT_ONCE: Final = 2
"""Trials that a server computes at a time; others wait for their turn."""
Working = Callable[[Going], Coroutine[Any, Any, Any]]
"""The work in the loop for reading, which reports its progress."""


def _answers(name: str, *codes: str) -> Responses:
    found = answers(name, 200, "policy_not_found", "too_many_runs", "too_many_streams", "damaged", *codes, body=True)
    found[200]["content"] |= {STREAM: {"schema": {"type": "string"}}}
    return found


@router.post("/policies/backtest", responses=_answers("Trial", "no_recordings"))
async def backtest_policy(request: Request, body: schemas.PolicyTrial, caller: Reckoner) -> Response:
    """Try a policy on sessions that ran here, beside other policies. Changes nothing.

    A text or a saved policy is tried on the newest runs in which a call has ended. With `Accept: text/event-stream` the
    answer is a stream: `event: progress` while it reads and computes, then one `event: result` with the same document,
    or `event: problem`. Closing the connection ends it.
    """
    store, clock = caller.store, caller.clock

    async def work(going: Going) -> Any:
        policies = [await _policy(caller, body.document, body.policy)]
        policies += [await versions.load(store, one, tenant=caller.tenant) for one in body.against]
        runs = await read_runs(store, clock, going, tenant=caller.tenant, since=body.since or 0.0, most=body.limit)
        if not runs.recordings:
            raise InvalidInput(
                f"No session has run here yet that called a model or a tool. {' '.join(runs.notes)}".rstrip(),
                code="no_recordings",
            )
        return to_json(await try_policies(runs, _each_once(policies), going))

    return await _done(request, caller, work)


@router.post("/policies/calibrate", responses=_answers("PolicyProposed", "too_few_runs"))
async def calibrate_policy(request: Request, body: schemas.PolicyCalibration, caller: Reckoner) -> Response:
    """Thresholds that are as early as the sessions that ran here allow.

    `yaml` is a text for the policy's next version; nothing is saved. What it says of these runs is too good to be true
    of others. Streams as /policies/backtest does.
    """
    store, clock = caller.store, caller.clock

    async def work(going: Going) -> Any:
        base = await versions.load(store, body.policy, tenant=caller.tenant)
        runs = await read_runs(store, clock, going, tenant=caller.tenant, since=body.since or 0.0, most=body.limit)
        found = await calibrate(runs, base, going, false_stops=body.false_stops)
        return proposed_view(base, found, await versions.yaml_of(store, found.policy))

    return await _done(request, caller, work)


async def _policy(caller: Caller, document: str | None, name: str | None) -> Policy:
    store, tenant = caller.store, caller.tenant
    if (document is None) == (name is None):
        raise InvalidInput("Give either `document`, a text, or `policy`, the name of a saved one.", field="policy")
    if name is not None:
        return await versions.load(store, name, tenant=tenant)
    return replace(await versions.load_text(store, document or "", tenant=tenant), version=DRAFT)


def _each_once(policies: list[Policy]) -> list[Policy]:
    return list({one.id: one for one in reversed(policies)}.values())[::-1]


# ---- waiting for it


async def _done(request: Request, caller: Caller, work: Working) -> Response:
    going = Going()
    if wants_stream(request):
        return Stream(_frames(caller, work, going), caller)
    doing = asyncio.ensure_future(_in_turn(caller, work, going))
    try:
        while not doing.done():
            await asyncio.wait({doing}, timeout=TOLD_EVERY)
            if not doing.done() and await request.is_disconnected():
                return answer(None)  # for nobody
        return answer(doing.result())
    finally:
        doing.cancel()


async def _frames(caller: Caller, work: Working, going: Going) -> AsyncIterator[bytes]:
    doing = asyncio.ensure_future(_in_turn(caller, work, going))
    told: tuple[str, int, int | None] | None = None
    try:
        while not doing.done():
            await asyncio.wait({doing}, timeout=TOLD_EVERY)
            now = (going.phase, going.done, going.of)
            if not doing.done() and now != told:
                yield frame({"phase": now[0], "done": now[1], "of": now[2]}, event="progress")
                told = now
        try:
            yield frame(doing.result(), event="result")
        except MidcourseError as error:
            yield frame(msgspec.Raw(bytes(problem_of(error, caller.principal).body)), event="problem")
    finally:
        doing.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await doing


async def _in_turn(caller: Caller, work: Working, going: Going) -> Any:
    async with caller.trials:
        return await caller.read(work(going))
