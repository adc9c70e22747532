"""The policies of a store: every saved version, by whom, when and why. Versions are never changed or removed.

They are on the store's shelf ``policies``, one item for each version. Built-in policies are version 1 and are not
stored; a save under such a name makes version 2 of it.

Two concurrent saves never get the same version, nor does one overwrite the other. The slower one finds its version in
use, and tries the next.

``by``, ``why`` and ``at`` of each version are stored with it, sealed by the store's checksums. The store's audit log
has the same in its own order, written in the same transaction.

A tenant's own are stored under ``acme~name``, where only that tenant and the host see them. A name without a tenant and
without a version means the tenant's own, if it has one, else the host's: so a tenant changes ``standard`` for its own
sessions. With a version it is always the host's: a reference in a journal or a base never comes to mean another one.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from midcourse.core.audit import AuditEntry
from midcourse.core.ids import SessionId
from midcourse.core.tenants import MARK, tenant_of
from midcourse.errors import Damaged, InvalidInput, Refused, ShelfChanged, StoreUnavailable
from midcourse.policy.document import Policy
from midcourse.policy.profiles import BUILT_IN
from midcourse.policy.validation import check_policy, difference
from midcourse.policy.yaml_reader import Draft, bare, is_path, not_found, read_text, split
from midcourse.policy.yaml_writer import from_document, to_document, to_yaml
from midcourse.ports.sender import check_people_send
from midcourse.ports.shelves import below
from midcourse.ports.store import Store

HOW_TO_SAVE: Final = "Save a file as one: midcourse policy save FILE --why TEXT; the console's Policies page can, too."
SHELF: Final = "policies"
WHY_LIMIT: Final = 2_000
"""Characters of the longest reason."""
_TRIES: Final = 20


class KeptPolicy(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """One version of a policy, and who saved it when and why. A built-in one has no author."""

    policy: Policy
    by: str = ""
    why: str = ""
    at: float | None = None
    command: str = ""
    """The id of the command that saved it, so that a retry saves nothing more."""

    @property
    def is_built_in(self) -> bool:
        """True if it comes with Midcourse."""
        return self.at is None


class Summary(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A version of a policy without its document."""

    name: str
    version: int
    extends: str
    about: str
    is_built_in: bool
    by: str
    why: str
    at: float | None


def summary_of(kept: KeptPolicy) -> Summary:
    """Return the entry for lists."""
    policy = kept.policy
    return Summary(
        name=policy.name,
        version=policy.version,
        extends=policy.extends,
        about=policy.about,
        is_built_in=kept.is_built_in,
        by=kept.by,
        why=kept.why,
        at=kept.at,
    )


class _Record(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """The stored form."""

    document: Any
    by: str
    why: str
    at: float
    command: str = ""


# ---- looking


async def names(store: Store, *, tenant: str | None = None) -> tuple[str, ...]:
    """Return the names of all policies that a tenant's user sees: the built-in ones, then those of the store.

    None: the host, who sees all.
    """
    kept = {key.partition("@")[0] for key in await store.shelf_keys(SHELF)}
    seen = {name for name in kept if tenant is None or MARK not in name or tenant_of(name) == tenant}
    return tuple(sorted(seen | BUILT_IN.keys(), key=name_order))


def name_order(name: str) -> tuple[int, str]:
    """Return where a policy stands in lists, to sort by: the built-in ones first, in their order."""
    return ([*BUILT_IN].index(name) if name in BUILT_IN else len(BUILT_IN), name)


async def resolved(store: Store, reference: str, *, tenant: str | None) -> str:
    """Return the meaning of a reference for a tenant's user: its own policy, or the host's. The host's are literal.

    Raises:
        InvalidInput: ``policy_not_found``: it is another tenant's.
    """
    if tenant is None:
        return reference
    if MARK in reference:
        if tenant_of(reference) != tenant:
            raise not_found(reference, await names(store, tenant=tenant))
        return reference
    name, version = split(reference)
    own = f"{tenant}{MARK}{name}"
    if tenant and version is None and await store.shelf_keys(SHELF, **below(f"{own}@")):
        return own
    return reference


async def history(store: Store, name: str) -> tuple[KeptPolicy, ...]:
    """Return every version of a policy, the newest first; none if there is no such policy.

    Raises:
        Damaged: one of them does not match its checksum, or cannot be read.
    """
    rows = await store.shelved(SHELF, **below(f"{name}@")) if "@" not in name else ()
    found = [_kept(key, content) for key, content in rows]
    found.sort(key=lambda one: -one.policy.version)
    if name in BUILT_IN and all(one.policy.version != BUILT_IN[name].version for one in found):
        found.append(KeptPolicy(policy=BUILT_IN[name]))
    return tuple(found)


async def find(store: Store, reference: str, *, tenant: str | None = None) -> KeptPolicy:
    """Return the newest version of a policy (``team``), or one version of it (``team@3``), as a tenant means it.

    Raises:
        InvalidInput: ``policy_not_found``.
        Damaged: it does not match its checksum, or cannot be read.
    """
    name, version = split(await resolved(store, reference, tenant=tenant))
    quick = await _one(store, name, version)
    if quick is not None:
        return quick
    found = await history(store, name)
    if not found:
        raise not_found(reference, await names(store, tenant=tenant))
    for one in found:
        if version in (None, one.policy.version):
            return one
    raise InvalidInput(
        f"There is no version {version} of policy '{name}'. The newest is {found[0].policy.version}.",
        code="policy_not_found",
        field="version",
    )


async def _one(store: Store, name: str, version: int | None) -> KeptPolicy | None:
    """Return one version, without reading the whole history if possible."""
    if "@" in name:
        return None
    keys = below(f"{name}@" if version is None else _key(name, version))
    rows = await store.shelved(SHELF, **keys, newest=True, limit=1)
    return _kept(*rows[0]) if rows else None


async def load(store: Store, reference: str, *, tenant: str | None = None) -> Policy:
    """Return the policy of ``find``."""
    return (await find(store, reference, tenant=tenant)).policy


async def newest(store: Store, *, tenant: str | None = None) -> tuple[KeptPolicy, ...]:
    """Return the newest version of every policy, in the order of ``names``."""
    return tuple([(await history(store, name))[0] for name in await names(store, tenant=tenant)])


async def load_text(store: Store, text: str, *, source: str = "", tenant: str | None = None) -> Policy:
    """Return the policy that YAML text describes, over a built-in policy or a stored one, as a tenant means it.

    Raises:
        InvalidInput: it has mistakes; each is reported with its line.
    """
    draft = Draft(text, source=source)
    if not draft.extends:
        return draft.over(bare())
    try:
        base = await load(store, draft.extends, tenant=tenant)
    except InvalidInput as error:
        raise draft.unknown_base(await names(store, tenant=tenant)) from error
    return draft.over(base)


async def read(store: Store, reference: str) -> Policy:
    """Return the policy of ``find``, or the one in a file: a reference with a / or ending with .yaml, .yml or .json."""
    if is_path(reference):
        return await load_text(store, read_text(reference), source=reference)
    return await load(store, reference)


async def yaml_of(store: Store, policy: Policy) -> str:
    """Return the policy as ``to_yaml`` writes it, over a base of the store."""
    known = {policy.extends: await load(store, policy.extends)} if policy.extends else {}
    return to_yaml(policy, known)


# ---- saving


async def save(
    store: Store,
    policy: Policy,
    *,
    by: str,
    why: str,
    now: float,
    expects: int | None = None,
    command: str = "",
) -> KeptPolicy:
    """Keep ``policy`` as the next version of its name, and return it with that version.

    ``expects`` is the version that must be the newest (0: none yet); None: any. ``command`` is the id of this command:
    a retry changes nothing, and returns what was saved then.

    Raises:
        InvalidInput: the policy cannot be meant, its base is not there, or ``by`` or ``why`` is missing or too long.
        Refused: ``policy_unchanged``: the newest version is the same. ``precondition_failed``: another one than
            expected is the newest. ``idempotency_key_reused``: ``command`` saved something else.
        StoreUnavailable: ``policy_busy``: too many others save it at once.
    """
    await check_people_send(store, "save a policy")
    why = _checked_words(why, "why", WHY_LIMIT, "Say in a sentence why it is changed")
    by = _checked_words(by, "by", 200, "Say who changes it")
    # With its version: a policy does not change when its base gets a new one.
    extends = (await load(store, policy.extends, tenant=tenant_of(policy.name) or None)).id if policy.extends else ""
    wanted = replace(check_policy(policy), extends=extends)
    for _ in range(_TRIES):
        found = await history(store, policy.name)
        if command:
            for one in found:
                if one.command == command:
                    return _same(one, wanted, why)
        _check_newest(found, wanted, expects)
        version = found[0].policy.version + 1 if found else 1
        kept = KeptPolicy(policy=replace(wanted, version=version), by=by, why=why, at=now, command=command)
        if await _put(store, kept, now):
            return kept
    raise StoreUnavailable(
        f"Others are saving policy '{policy.name}' at this moment. Nothing was saved; try again.", code="policy_busy"
    )


async def _put(store: Store, kept: KeptPolicy, now: float) -> bool:
    """Write a version; return False if another save was quicker."""
    key = _key(kept.policy.name, kept.policy.version)
    record = _Record(document=to_document(kept.policy), by=kept.by, why=kept.why, at=now, command=kept.command)
    entry = AuditEntry(
        session=SessionId(""),
        by=kept.by,
        role="operate",
        action="policy.save",
        detail=f"{kept.policy.id}: {kept.why}",
        at=now,
        tenant=tenant_of(kept.policy.name),
    )
    try:
        await store.shelve(SHELF, {key: msgspec.json.encode(record)}, expecting={key: None}, audit=[entry])
    except ShelfChanged:
        return False
    return True


def _check_newest(found: Sequence[KeptPolicy], wanted: Policy, expects: int | None) -> None:
    newest_one = found[0].policy if found else None
    version = newest_one.version if newest_one else 0
    if expects is not None and expects != version:
        now = f"version {version} is the newest" if version else "there is no version of it yet"
        raise Refused(
            f"This was made for version {expects} of policy '{wanted.name}', and {now}. Nothing was saved: check the "
            f"difference, then give version {version}.",
            code="precondition_failed",
            policy=wanted.name,
            version=version,
        )
    if newest_one is not None and not difference(newest_one, wanted) and newest_one.about == wanted.about:
        raise Refused(
            f"Policy '{newest_one.id}' says the same already. Nothing was saved.",
            code="policy_unchanged",
            policy=wanted.name,
            version=version,
        )


def _same(kept: KeptPolicy, wanted: Policy, why: str) -> KeptPolicy:
    if kept.why != why or difference(kept.policy, wanted) or kept.policy.about != wanted.about:
        raise Refused(
            f"The Idempotency-Key saved '{kept.policy.id}', which says something else. Use a fresh one.",
            code="idempotency_key_reused",
            policy=wanted.name,
        )
    return kept


def _checked_words(words: str, field: str, most: int, hint: str) -> str:
    kept = words.strip()
    if not kept or len(kept) > most:
        how = "is empty" if not kept else f"has {len(kept):,} characters"
        raise InvalidInput(f"'{field}' {how}. {hint}, in 1 to {most:,} characters. Nothing was saved.", field=field)
    return kept


def _key(name: str, version: int) -> str:
    return f"{name}@{version:06d}"


def _kept(key: str, content: bytes) -> KeptPolicy:
    name, _, version = key.partition("@")
    try:
        record = msgspec.json.decode(content, type=_Record)
        policy = replace(from_document(record.document), name=name, version=int(version))
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise Damaged(f"Policy '{key}' cannot be read ({error}). Restore the store from a backup.", key=key) from error
    return KeptPolicy(policy=policy, by=record.by, why=record.why, at=record.at, command=record.command)
