"""Record touches of prod and of paid APIs in the audit log: also reads, and calls without an approval."""

from collections.abc import Callable
from typing import Any, Final

from midcourse.core.audit import AuditEntry
from midcourse.core.commands import BY_AGENT
from midcourse.core.money import money
from midcourse.core.session import Session
from midcourse.policy.document import Environments
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.tools import Tool

HARMLESS: Final = frozenset({"dev", "development", "local", "test", "testing", "sandbox", "staging"})
"""Environments without approvals. Any other name counts as prod: a typo must not switch approvals off."""
_UNWATCHED: Final = Environments()
"""The settings of a session without a policy."""


def prod_access_entry(
    session: Session, tool: Tool[..., Any], ctx: RuntimeContext, *, action: str, detail: Callable[[], str]
) -> AuditEntry | None:
    """Return the entry of a call that touches prod or a paid API; None if it touches neither."""
    environments = ctx.environments(session.terms.policy) or _UNWATCHED
    where = tool.environment.lower()
    touched: list[str] = []
    if not where and (ctx.settings.require_environment or environments.require_tag):
        touched.append("no environment, which counts as prod")
    elif where and (where not in HARMLESS or where in map(str.lower, environments.approve)):
        touched.append(tool.environment)
    if tool.cost > 0:
        touched.append(f"a paid API, about {money(tool.cost)}")
    if not touched:
        return None
    return AuditEntry(
        session=session.id,
        by=f"{BY_AGENT}{session.agent}",
        role="",
        action=action,
        detail=f"{' and '.join(touched)} ({tool.kind}): {detail()}",
        keep=float(environments.audit),
    )
