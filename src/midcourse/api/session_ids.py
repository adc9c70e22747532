"""The id of a new session."""

from midcourse.core.ids import SessionId
from midcourse.core.request_checks import check_new_id
from midcourse.core.tenants import check_tenant, in_tenant
from midcourse.runtime.worker import Worker


def fresh_session_id(wanted: str | None, worker: Worker, tenant: str) -> SessionId:
    """An id for a new session of a tenant. Without one, an id that was given may name it."""
    if tenant:
        check_tenant(tenant)
    named = f"sess_{worker.clock.fresh_id()}" if wanted is None else check_new_id(wanted)
    return SessionId(check_new_id(in_tenant(tenant, named) if tenant else named))
