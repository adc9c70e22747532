"""The contract of a store: an inbox anyone may write to, and a journal only the owner of the current epoch may."""

from collections.abc import AsyncGenerator, Awaitable, Collection, Mapping, Sequence
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from midcourse.core.audit import AuditEntry, AuditRow
from midcourse.core.codec import Blob
from midcourse.core.contact import PendingCommand
from midcourse.core.fold import Row
from midcourse.core.ids import AskId, CommandId, Epoch, Position, SessionId, StepId, WorkerId
from midcourse.core.replies import Durability
from midcourse.core.tenants import tenant_of


class AskHead(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """An inbox's entry for an open ask. ``tool``: the call it is about, if it is about one.

    Of an approval ``arguments`` are the call's, as JSON that may be cut, and ``why`` the reason to ask a person.
    """

    id: AskId
    reason: str
    prompt: str
    opened_at: float
    step: StepId
    deadline: float | None = None
    tool: str = ""
    arguments: str = ""
    why: str = ""


class Head(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """A session's entry for lists and sweeps, which do not read its journal. Written with every append.

    ``busy`` is the call that runs, ``risk`` the last that was measured. ``was`` is the status that a session was halted
    from, and ``switch`` the kill switch that did it. ``finishes_first``: the stop that waits for the end of the turn.
    ``unpriced`` model calls have no known price: what was spent is at least ``cost``. ``estimated``: an answer that is
    still being written is in it. It has ``worked`` for so many seconds, and since ``working_since`` if that is set. The
    last four are not written but set when sessions are listed: ``unattended``: there is something to do, and no live
    process drives it; ``unreachable_since``: its worker lives, and has not answered the commands in ``pending`` since
    then; ``silent_since``: its worker's process lives, and its last heartbeat was then.
    """

    id: SessionId
    agent: str
    goal: str
    status: str
    turn: int
    position: Position
    digest: bytes
    created_at: float
    updated_at: float
    asks: int = 0
    cost: float = 0.0
    finished_steps: int = 0
    wake_at: float | None = None
    parent: SessionId | None = None
    by: str = ""
    task_class: str | None = None
    policy: str = ""
    budget: float | None = None
    labels: tuple[str, ...] = ()
    risk: float | None = None
    interventions: int = 0
    busy: str = ""
    busy_since: float = 0.0
    switch: str = ""
    was: str = ""
    open_asks: tuple[AskHead, ...] = ()
    erased_at: float | None = None
    finishes_first: str = ""
    discarded: bool = False
    unpriced: int = 0
    worked: float = 0.0
    working_since: float | None = None
    estimated: bool = False
    unattended: bool = False
    unreachable_since: float | None = None
    silent_since: float | None = None
    pending: tuple[PendingCommand, ...] = ()


class Owned(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A head, the session's owner, and its epoch. ``owner`` None: there is none. ``alive``: its process lives.

    ``address`` is where a live owner is woken; ``pending``: a command is undecided. ``heartbeat``: when a live owner
    last asked ``changed``; None: the store does not know.
    """

    head: Head
    epoch: Epoch
    owner: WorkerId | None
    alive: bool
    heartbeat: float | None = None
    address: str = ""
    pending: bool = False


class InboxRow(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A command in an inbox. ``content`` is the command; ``outcome`` is None until it is decided.

    ``seq`` numbers the commands of a session from 1, without a gap.
    """

    seq: int
    id: CommandId
    put_at: float
    content: bytes
    outcome: bytes | None = None


class Deciding(msgspec.Struct, gc=False, frozen=True):
    """The inbox row an append decides, and its outcome for the sender. ``forgets``: the row's content is not kept."""

    id: CommandId
    outcome: bytes
    forgets: bool = False


Shelves = Mapping[str, Mapping[str, bytes | None]]
"""The items of a write, by shelf and key; None removes the key."""


class Change(msgspec.Struct, gc=False, frozen=True):
    """The writes of one transaction for a session. Its parts must not change afterwards: a store may read them later.

    ``head`` replaces the last one, ``rows`` are of the journal. ``audit`` goes to the end of the store's one audit log,
    numbered and chained in the order of commit, for any session and process. ``shelves`` is done as by
    :meth:`Store.shelve`: lists over many sessions never lack a fact that a journal has.
    """

    head: Head
    rows: Sequence[Row] = ()
    blobs: Sequence[Blob] = ()
    audit: Sequence[AuditEntry] = ()
    shelves: Shelves = {}  # msgspec gives each a new one


class Creation(Change, gc=False, frozen=True, kw_only=True):
    """A new session with its first rows, owned by ``worker`` (None: by no worker)."""

    worker: WorkerId | None


class Append(Change, gc=False, frozen=True, kw_only=True):
    """Rows at the end of a journal, by the owner of ``epoch``.

    The inbox row ``deciding`` is marked decided. With ``release`` the session has no owner afterwards.
    """

    epoch: Epoch
    deciding: Deciding | None = None
    release: bool = False


class Erasure(Change, gc=False, frozen=True, kw_only=True):
    """Rows in the place of a whole journal, by the owner of ``epoch``, who releases the session.

    Its commands are answered ``outcome`` from now on. The entries ``forgotten`` take the places of those with the same
    number in the audit log, whose digests stay.
    """

    epoch: Epoch
    outcome: bytes
    forgotten: Sequence[AuditRow] = ()


class HeadQuery(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """The heads to list: at most ``limit``, newest first, behind the session ``before`` in that order if given.

    ``search`` is looked for in id, agent and goal, whatever the case. ``tenant`` None: those of all tenants.
    ``asking``: those with an open ask. No ``statuses``: those of every status.
    """

    statuses: Collection[str] = ()
    agent: str | None = None
    search: str = ""
    tenant: str | None = None
    asking: bool = False
    task_class: str | None = None
    label: str | None = None
    limit: int = 100
    before: SessionId | None = None

    def fits(self, head: Head) -> bool:
        """Return whether the query finds this session, if it comes so far."""
        return (
            (not self.statuses or head.status in self.statuses)
            and (self.agent is None or head.agent == self.agent)
            and (self.tenant is None or tenant_of(head.id) == self.tenant)
            and (not self.asking or head.asks > 0)
            and (self.task_class is None or head.task_class == self.task_class)
            and (self.label is None or self.label in head.labels)
            and (not self.search or self.search.casefold() in f"{head.id}\n{head.agent}\n{head.goal}".casefold())
        )


NEWEST: Final = HeadQuery()
_PAGE: Final = 500


class Store(Protocol):
    """Sessions, durably.

    Methods that return an ``Awaitable`` take their place in the order of writes when they are CALLED, not when they are
    awaited; what is awaited has reached the store's declared durability.

    All of them must be called from a running event loop, and may be called from several loops in several threads.
    """

    @property
    def durability(self) -> Durability:
        """The events that an acknowledged write survives, as verified when the store was opened."""
        ...

    @property
    def name(self) -> str:
        """The name of this store for people: its URL, without secrets."""
        ...

    async def close(self) -> None:
        """Finish what was enqueued, give up the liveness of this store's worker, and close."""
        ...

    async def enlist(self, worker: WorkerId, address: str) -> None:
        """Make this store object the worker ``worker``, alive from now until close or the end of the process.

        ``address`` is where the worker is woken (see the bus). A store object is at most one worker. Its liveness is
        held by the process itself: a killed process is dead at once, a stopped one (SIGSTOP) is alive.

        Raises:
            StoreError: code ``already_enlisted`` if this object is a worker; ``worker_exists`` if the id lives or owns.
        """
        ...

    def create(self, creation: Creation) -> Awaitable[Epoch]:
        """Store a new session, and return epoch 1.

        Raises:
            StoreError: code ``session_exists`` if it is in use; ``not_enlisted`` if ``worker`` is not this object's.
                Nothing is written.
        """
        ...

    def append(self, append: Append) -> Awaitable[None]:
        """Append all of the rows or none, replace the head, mark the row decided: one transaction.

        Raises:
            StaleEpoch: another owner has acquired the session, or it has none. Nothing is written.
            InboxNotEmpty: ``release``, and a row other than ``deciding`` is undecided. Nothing is written.
            StoreError: code ``already_decided`` if the row was decided before; ``command_not_found`` if there is none;
                ``out_of_order`` if ``rows`` do not continue the journal. Nothing is written.
            StoreFull, StoreUnavailable: nothing is written.
        """
        ...

    def put(self, session_id: SessionId, command_id: CommandId, content: bytes, at: float) -> Awaitable[InboxRow]:
        """Put a command into the inbox, or return the row that holds this id already, decided or not.

        Raises:
            SessionNotFound: no such session.
            Damaged: the row that holds this id does not match its checksum.
        """
        ...

    def take(self, session_id: SessionId, worker: WorkerId) -> Awaitable[Owned]:
        """Make ``worker`` the owner under the next epoch, if the session has no live owner. Returns the new ownership.

        Raises:
            OwnerAlive: it has one (this worker included).
            SessionNotFound: no such session.
            StoreError: code ``not_enlisted`` if ``worker`` is not this object's.
            Damaged: its head or its inbox does not match its checksums.
        """
        ...

    def save_snapshot(
        self,
        session_id: SessionId,
        position: Position,
        content: bytes,
        *,
        epoch: Epoch,
        blobs: Sequence[Blob] = (),
    ) -> Awaitable[None]:
        """Keep a snapshot with its checksum; the two newest of a session are kept.

        Raises:
            StaleEpoch: another owner has taken the session.
        """
        ...

    def erase(self, erasure: Erasure) -> Awaitable[None]:
        """Replace the whole journal and all that is stored with it, and release the session.

        In the same transaction, everything else with a text of the session goes: its snapshots; the content of its
        commands, which keep their ids; the blobs that no other session names.

        Raises:
            StaleEpoch: another owner has acquired the session, or it has none. Nothing is written.
            InboxNotEmpty: a row is undecided. Nothing is written.
            StoreError: code ``out_of_order`` if ``rows`` are fewer than there were, or leave one out.
            StoreFull, StoreUnavailable: nothing is written.
        """
        ...

    def shelve(
        self,
        shelf: str,
        items: Mapping[str, bytes | None],
        *,
        owner: tuple[SessionId, Epoch] | None = None,
        expecting: Mapping[str, bytes | None] | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> Awaitable[None]:
        """Put all of ``items`` on a shelf, or none: one transaction. None as a value takes the key away.

        A shelf is an ordered space of keys for what belongs beside the journal: another framework's checkpoints, say.
        It is there as long as it holds something. With ``owner`` only the owner of that session may write; with
        ``expecting`` only who knows what lies under those keys now, byte by byte (None: nothing). ``audit`` goes to the
        end of the audit log in the same transaction, as with an append.

        Raises:
            ShelfChanged: something else than ``expecting`` says lies there, or it is damaged. Nothing is written.
            StaleEpoch: ``owner`` does not own its session under that epoch. Nothing is written.
            SessionNotFound: there is no such session. Nothing is written.
            StoreFull, StoreUnavailable: nothing is written.
        """
        ...

    async def head(self, session_id: SessionId) -> Owned:
        """Return the session's head and owner.

        Raises:
            SessionNotFound: no such session.
            Damaged: the head does not match its checksum.
        """
        ...

    async def heads(self, query: HeadQuery = NEWEST) -> Sequence[Head]:
        """Return the heads that a query finds. A damaged one is left out of the list."""
        ...

    async def below(self, session_id: SessionId, statuses: Sequence[str]) -> Sequence[Head]:
        """Return the children of a session that have one of the ``statuses``, their children, and so on, in any order.

        A damaged head is left out.
        """
        ...

    async def read(self, session_id: SessionId, after: Position, limit: int = 1000) -> Sequence[Row]:
        """Journal rows after a position, in order, at most ``limit``. Unchecked: the fold checks the digests."""
        ...

    async def snapshots(self, session_id: SessionId) -> Sequence[bytes]:
        """Return the kept snapshots that match their checksums, newest first."""
        ...

    async def blobs(self, digests: Sequence[str]) -> Sequence[bytes | None]:
        """Return the blobs of those digests, in that order, unchecked; None for one that there is not."""
        ...

    async def undecided(self, session_id: SessionId) -> Sequence[InboxRow]:
        """Return the undecided commands, in the order they were put; those that fail their checksum without content."""
        ...

    async def row(self, session_id: SessionId, command_id: CommandId) -> InboxRow | None:
        """Return the inbox row of that command id, decided or not.

        Raises:
            Damaged: it does not match its checksum.
        """
        ...

    async def shelved(
        self, shelf: str, *, first: str = "", last: str = "", newest: bool = False, limit: int | None = None
    ) -> Sequence[tuple[str, bytes]]:
        """Return the items of a shelf from key ``first`` to key ``last``, both included, in the order of the keys.

        An empty ``last`` is the end of the shelf. ``newest`` turns the order round. At most ``limit``, if given. Keys
        are in the order of their code points.

        Raises:
            Damaged: one of them does not match its checksum; ``shelf`` and ``key`` of the error name it.
        """
        ...

    async def shelf_keys(self, shelf: str, *, first: str = "", last: str = "") -> Sequence[str]:
        """Return the keys that ``shelved`` would give, and not their values, however large those are."""
        ...

    async def shelves(self, prefix: str = "") -> Sequence[str]:
        """Return the shelves that hold something and whose names begin with ``prefix``, in order."""
        ...

    async def audit(self, after: int = 0, limit: int = 100) -> Sequence[AuditRow]:
        """Rows of the audit log after a sequence number, in order, at most ``limit``. Their digests are unchecked.

        Where old rows were taken away, the last of them comes first, as an anchor without content.

        Raises:
            Damaged: rows are missing at the end of the log.
        """
        ...

    async def audit_end(self) -> int:
        """Return the number of the last row that was ever written to the audit log; 0: none was."""
        ...

    def trim_audit(self, before: float, telling: AuditEntry, *, limit: int = 10_000) -> Awaitable[int]:
        """Remove the first rows of the audit log, whose entries are from before a time.

        The last of them stays as an anchor: its number and its digest, without its content. If any was removed,
        ``telling`` is appended to the log in the same transaction. At most ``limit`` at once; returns how many.

        Raises:
            Damaged: one of them was changed, or is missing. Nothing is removed: that would hide it.
            StoreFull, StoreUnavailable: nothing is removed.
        """
        ...

    async def unattended(
        self, statuses: Sequence[str], now: float, limit: int = 100, *, silent_before: float | None = None
    ) -> Sequence[Owned]:
        """Sessions without a live owner that have an undecided row, one of ``statuses``, or a past ``wake_at``.

        With ``silent_before`` also those whose owner lives, and sent its last heartbeat before that time.
        """
        ...

    async def unanswered(self, before: float, limit: int = 1000) -> Sequence[tuple[SessionId, InboxRow]]:
        """Undecided rows of all sessions that were put at or before a time, oldest first; a damaged one is left out."""
        ...

    async def pending(self, worker: WorkerId) -> Sequence[SessionId]:
        """Sessions this worker owns that have an undecided row: what a lost wake-up would have told."""
        ...

    async def changed(self) -> bool:
        """Return True if another process may have written since the last call. Cheap: an idle poll costs no more.

        It is the heartbeat of this object's worker: see ``Owned``.
        """
        ...


async def every_head(store: Store, query: HeadQuery = NEWEST) -> AsyncGenerator[Head]:
    """Yield all heads that a query finds, however many, page by page."""
    query = replace(query, limit=_PAGE)
    while page := await store.heads(query):
        for head in page:
            yield head
        if len(page) < _PAGE:
            return
        query = replace(query, before=page[-1].id)
