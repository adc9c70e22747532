"""Asks a person before a call that needs it, and holds the approval to what was approved.

An approval covers the tool, its arguments and the versions of what it observes, as one digest, which is made again just
before the call; it covers one call, which keeps it through aborts and retries under the same key.
"""

from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from midcourse.core.asks import NEED_APPROVAL, approval_prompt, is_no, is_yes, with_deadline
from midcourse.core.audit import AuditEntry
from midcourse.core.codec import canonical, decode, digest_of, secret_free
from midcourse.core.events import AskOpened
from midcourse.core.ids import AskId, StepId, ask_id
from midcourse.core.interrupted_calls import DID_NOT_HAPPEN
from midcourse.core.money import money
from midcourse.core.session import Status
from midcourse.core.steps import AskRecord, approval_id
from midcourse.errors import AskExpired, StepError
from midcourse.policy.document import Environments
from midcourse.runtime.asks import last_redirect, mark_seen, redirected
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.prod_access import HARMLESS, prod_access_entry
from midcourse.runtime.step_request import StepRequest
from midcourse.runtime.tools import Tool
from midcourse.runtime.world_check import observe

SHOWN: Final = 4_000
"""Characters of the arguments that a person is shown."""


class Approval(NamedTuple):
    """The ask that was answered with yes, and by whom."""

    ask: AskId
    by: str
    was_used: bool = False


class Approvals:
    """The approvals of one session, on the agent's loop."""

    def __init__(self, journal: Journal, gate: Gate, ctx: RuntimeContext) -> None:
        self._journal = journal
        self._gate = gate
        self._ctx = ctx

    def reason(self, step: StepRequest) -> str:
        """Return why a call of ``step`` needs a person; empty if it does not."""
        tool, settings = step.tool, self._ctx.settings
        if step.kind != "tool":
            return ""
        policy = self._ctx.environments(self._journal.session.terms.policy)
        reasons = [step.needs_approval]
        reasons += [self._place(tool, policy)] if tool.effect != "read" else []
        limit = self._ctx.most_for_a_call(self._journal.session.terms.policy)
        is_dear = limit is not None and tool.cost > limit
        if is_dear or (tool.cost > 0 and (settings.approve_paid or (policy is not None and policy.approve_paid))):
            more = f", more than the {money(limit)} that one call may cost" if limit is not None and is_dear else ""
            reasons.append(f"costs about {money(tool.cost)}{more}")
        return " and ".join(filter(None, reasons))

    def _place(self, tool: Tool[..., Any], policy: Environments | None) -> str:
        """Return why this process, or the session's policy on top of that, wants a person to be asked."""
        settings = self._ctx.settings
        named = tool.environment.lower()
        if not named:
            required = (settings.approve_prod and settings.require_environment) or (
                policy is not None and policy.require_tag
            )
            return "names no environment, which counts as prod here" if required else ""
        wanted = settings.approve_prod and named not in HARMLESS
        if wanted or (policy is not None and named in map(str.lower, policy.approve)):
            return f"changes something in {tool.environment}"
        return ""

    async def approved(self, step: StepRequest, key: str) -> Approval | None:
        """Return the approval for the next call of ``step``, once there is one. None: it needs none.

        Raises:
            StepError: a person refused it.
            AskExpired: it was not answered before the deadline.
            Redirected: a redirect came first, for a step that wants to be notified.
        """
        why = self.reason(step)
        if not why:
            return None
        if not step.may_ask:
            raise _failed(step, "NotApproved", f"it {why}, and this agent may not ask anybody")
        while True:
            covers = await self._digest(step)
            asked = self._journal.log.approvals(step.id)
            last = asked[-1] if asked else None
            match last:
                case AskRecord(end="answered") if not last.spent and last.used in ("", key):
                    if not is_yes(last.value):
                        said = decode(last.value.raw)
                        words = f": {said}" if isinstance(said, str) and not is_no(last.value) else ""
                        raise _failed(step, "NotApproved", f"a person refused it{words}")
                    if last.covers == covers:
                        return Approval(last.ask, last.by, was_used=bool(last.used))
                    changed = f"{why}; what '{last.ask}' approved has changed since"
                    await self._ask(step, len(asked) + 1, covers, changed, voids=Approval(last.ask, last.by))
                case AskRecord(end=""):
                    await self._gate.wait_for_answer(approval_id(step.id, len(asked)))
                case AskRecord(end="expired") if self._journal.session.status is not Status.CANCELLING:
                    sentence = f"The question whether '{step.name}' may be called was not answered before its deadline."
                    raise AskExpired(sentence, ask=last.ask, step=approval_id(step.id, len(asked)))
                case AskRecord(end="superseded") if step.on_redirect == "raise":
                    self._raise_redirect(step, last)
                    await self._ask(step, len(asked) + 1, covers, why)
                case _:
                    await self._ask(step, len(asked) + 1, covers, why)

    def _raise_redirect(self, step: StepRequest, asked: AskRecord) -> None:
        """Raise what superseded an ask, unless that was withdrawn since."""
        with self._journal.lock:
            message = last_redirect(self._journal, since=asked.redirects)
            if message is None:
                return
            mark_seen(self._journal, message + 1, self._journal.note)
        # It waited to be allowed: nothing of it has begun, unless an attempt before this one did.
        truth = "" if step.id in self._journal.session.calls else DID_NOT_HAPPEN
        raise redirected(self._journal.session, message, "", truth)

    async def _digest(self, step: StepRequest) -> str:
        observed = await observe(step.tool, step.named) if step.tool.observes else {}
        if len(observed) < len(step.tool.observes):
            raise _failed(step, "CannotObserve", "what it observes cannot be checked, so no approval would cover it")
        versions = {resource: one.version for resource, one in sorted(observed.items())}
        return digest_of(canonical((step.tool.origin, step.digest, versions)))

    def audited(self, step: StepRequest, approval: Approval | None) -> AuditEntry | None:
        """Return the audit entry of a call that uses an approval, or touches prod or a paid API without one."""
        if step.kind != "tool":
            return None

        def detail() -> str:
            return f"{step.name} with {step.arguments}"

        entry = prod_access_entry(self._journal.session, step.tool, self._ctx, action="call", detail=detail)
        if approval is None or approval.was_used:
            return entry
        return replace(self._entry(approval, "approval.used", detail()), keep=entry.keep if entry is not None else 0.0)

    def _entry(self, approval: Approval, action: str, detail: str) -> AuditEntry:
        return AuditEntry(
            session=self._journal.session.id,
            by=approval.by,
            role="approve",
            action=action,
            outcome="ok",
            detail=f"{approval.ask}: {detail}",
        )

    async def _ask(self, step: StepRequest, ordinal: int, covers: str, why: str, voids: Approval | None = None) -> None:
        await self._gate.wait()
        with self._journal.lock:
            session = self._journal.session
            if not self._gate.is_open or session.status is Status.CANCELLING:
                return
            opened = AskOpened(
                ask=ask_id(session.asks_opened + 1),
                step=StepId(approval_id(step.id, ordinal)),
                reason=NEED_APPROVAL,
                prompt=approval_prompt(step.name, step.tool.name, _arguments_text(step), why),
                options=("approve", "refuse"),
                covers=covers,
            )
            audit = (self._entry(voids, "approval.voided", "what it covered has changed"),) if voids else ()
            self._journal.append(with_deadline(opened, session.terms, self._journal.now), audit=audit)


def _failed(step: StepRequest, kind: str, detail: str) -> StepError:
    return StepError(f"Step '{step.name}' failed: {kind}: {detail}", step=step.id, kind=kind, detail=detail)


def _arguments_text(step: StepRequest) -> str:
    hides = step.by_name is None and step.given and step.tool.takes_secrets
    arguments = step.named if hides else step.given if step.by_name is None else step.by_name
    spelled = secret_free(canonical(arguments)).decode()
    return spelled if len(spelled) <= SHOWN else f"{spelled[:SHOWN]}… ({len(spelled):,} characters in all)"
