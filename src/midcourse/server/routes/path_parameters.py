"""The parts of addresses that several files share."""

from typing import Annotated

from fastapi import Path, Query

from midcourse.core.tenants import PATTERN
from midcourse.policy.schema import NAME
from midcourse.server.caller import PATH_LIMIT

TenantQuery = Annotated[
    str | None, Query(pattern=PATTERN, description="For the host's tokens: those of one tenant alone.")
]
SessionPath = Annotated[str, Path(min_length=1, max_length=PATH_LIMIT, description="The session's id.")]
DigestPath = Annotated[str, Path(min_length=1, max_length=100, description="The digest that an event names.")]
MessagePath = Annotated[str, Path(min_length=1, max_length=100, description="msg_… or queued_….")]
PolicyPath = Annotated[str, Path(pattern=NAME, description="The policy's name.")]
