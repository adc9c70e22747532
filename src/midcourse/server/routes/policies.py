"""Policies: those that come with Midcourse, and those that were saved, with their history."""

from typing import Annotated

from fastapi import APIRouter, Query
from msgspec.structs import replace
from starlette.responses import Response

from midcourse.core.tenants import MARK
from midcourse.core.to_json import to_json
from midcourse.errors import InvalidInput, Refused
from midcourse.policy import versions
from midcourse.policy.document import Policy
from midcourse.policy.schema import REFERENCE
from midcourse.policy.yaml_reader import Draft, bare, not_found
from midcourse.ports.store import Store
from midcourse.server import schemas
from midcourse.server.caller import Caller, PolicyKeeper, Reckoner, Watcher
from midcourse.server.openapi import answers
from midcourse.server.pages import USUAL, CursorQuery, LimitQuery, Pages
from midcourse.server.policy_to_json import check_view, difference_view, etag_of, policy_view
from midcourse.server.routes.path_parameters import PolicyPath
from midcourse.server.to_json import answer
from midcourse.server.validation_errors import shortened

router = APIRouter(tags=["policies"])
Version = Annotated[int | None, Query(ge=1, le=999_999, description="Which version; left out, the newest.")]
Reference = Annotated[str, Query(pattern=REFERENCE, description="Another policy, or a version of one: `standard@1`.")]

_POLICIES = Pages[versions.Summary]("policies", tuple[int, str], lambda one: versions.name_order(one.name))
_HISTORY = Pages[versions.Summary]("history", int, lambda one: -one.version)


async def _meant(caller: Caller, name: str, version: int | None) -> str:
    """Return the policy of the address: the caller's tenant's own, if it has one of that name, else the host's."""
    whole = await caller.read(versions.resolved(_store(caller), name, tenant=caller.tenant))
    return whole if version is None else f"{whole}@{version}"


def _store(caller: Caller) -> Store:
    return caller.store


@router.get("/policies", responses=answers("PolicyList", 200, "damaged"))
async def list_policies(caller: Watcher, limit: LimitQuery = USUAL, cursor: CursorQuery = None) -> Response:
    """Every policy in its newest version: the built-in ones, then those that were saved.

    Those of the host are everybody's to read. A tenant's own are `acme~name`, and only that tenant sees them.
    """
    found = await caller.read(versions.newest(_store(caller), tenant=caller.tenant))
    page = _POLICIES.of(map(versions.summary_of, found), limit, cursor)
    return answer({"policies": to_json(page.items), "next": page.next})


@router.post("/policies/check", responses=answers("PolicyCheck", 200, "policy_not_found", body=True))
async def check_policy(body: schemas.PolicyDraft, caller: Reckoner) -> Response:
    """Check whether a text is a policy. `mistakes` lists what is wrong, by line; nothing is saved.

    Its base may be a policy that was saved here. `changes` compares it with that, or with the policy that you name.
    """
    return answer(await caller.read(_checked(caller, body.document, body.against)))


async def _checked(caller: Caller, text: str, against: str | None) -> object:
    store, tenant = _store(caller), caller.tenant
    policy = await versions.load_text(store, text, tenant=tenant)
    other = policy.extends if against is None else against
    return check_view(await versions.load(store, other, tenant=tenant) if other else bare(), policy)


@router.get("/policies/{name}", responses=answers("Policy", 200, "policy_not_found", "damaged", headers=("ETag",)))
async def get_policy(name: PolicyPath, caller: Watcher, version: Version = None) -> Response:
    """Get a policy, whole: as JSON and as YAML. Who saved it, when and why."""
    return await _shown(caller, await caller.read(versions.find(_store(caller), await _meant(caller, name, version))))


async def _shown(caller: Caller, found: versions.KeptPolicy) -> Response:
    yaml = await caller.read(versions.yaml_of(_store(caller), found.policy))
    return answer(policy_view(found, yaml), headers={"ETag": etag_of(found.policy)})


@router.get("/policies/{name}/history", responses=answers("PolicyHistory", 200, "policy_not_found", "damaged"))
async def policy_history(
    name: PolicyPath, caller: Watcher, limit: LimitQuery = USUAL, cursor: CursorQuery = None
) -> Response:
    """Every version of a policy, the newest first: who saved it, when and why."""
    found = await caller.read(versions.history(_store(caller), await _meant(caller, name, None)))
    if not found:
        raise not_found(name, await versions.names(_store(caller), tenant=caller.tenant))
    page = _HISTORY.of(map(versions.summary_of, found), limit, cursor)
    return answer({"versions": to_json(page.items), "next": page.next})


@router.get("/policies/{name}/diff", responses=answers("PolicyDifference", 200, "policy_not_found", "damaged"))
async def diff_policies(name: PolicyPath, to: Reference, caller: Watcher, version: Version = None) -> Response:
    """Compare another policy with this one, parameter by parameter, and show whether it steps in earlier."""
    first = await caller.read(versions.load(_store(caller), await _meant(caller, name, version)))
    second = await caller.read(versions.load(_store(caller), to, tenant=caller.tenant))
    return answer(difference_view(first, second))


@router.put(
    "/policies/{name}",
    responses=answers(
        "Policy",
        200,
        "policy_not_found",
        "policy_unchanged",
        "precondition_failed",
        "idempotency_key_reused",
        "damaged",
        headers=("ETag",),
        body=True,
    ),
)
async def save_policy(name: PolicyPath, body: schemas.NewPolicy, caller: PolicyKeeper) -> Response:
    """Keep a policy as the next version of its name, with who saved it and why. Nothing that was saved is changed.

    If-Match is the version that must be the newest; a `version` in the document says the same. What a tenant saves is
    its own, `acme~name`: its sessions use that in place of the host's of the same name.
    """
    draft = Draft(body.document)
    name = _own(caller, name)
    if draft.name and _own(caller, draft.name) != name:
        raise InvalidInput(
            f"The document is of policy '{shortened(draft.name)}', and the address of '{name}'. Nothing was saved.",
            field="policy",
        )
    policy: Policy = await caller.read(versions.load_text(_store(caller), body.document, tenant=caller.tenant))
    policy = replace(policy, name=name)
    saved = await versions.save(
        _store(caller),
        policy,
        by=caller.principal.by,
        why=body.why,
        now=caller.clock.now(),
        expects=_expected(caller, name) if caller.if_match else policy.version or None,
        command="" if caller.key is None else caller.command_id,
    )
    return await _shown(caller, saved)


def _own(caller: Caller, name: str) -> str:
    """Return the name as the caller's tenant's.

    Raises:
        InvalidInput: ``policy_not_found``: it is another tenant's.
    """
    if not caller.tenant:
        return name
    if MARK not in name:
        return f"{caller.tenant}{MARK}{name}"
    if not caller.sees(name):
        raise not_found(name, ())
    return name


def _expected(caller: Caller, name: str) -> int:
    version = caller.if_match.removeprefix(f"{name}@")
    if not (version.isascii() and version.isdigit() and len(version) <= 6):
        raise Refused(
            f"If-Match is the version of policy '{name}', as its ETag says. Look again, then decide.",
            code="precondition_failed",
            policy=name,
        )
    return int(version)
