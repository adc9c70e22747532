"""What a store must promise: an inbox anyone may write to, and a journal only the owner of the current epoch may."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

import msgspec

from midcourse.core.audit import AuditEntry, AuditRow
from midcourse.core.codec import Blob
from midcourse.core.contact import PendingCommand
from midcourse.core.fold import Row
from midcourse.core.ids import AskId, CommandId, Epoch, Position, SessionId, StepId, WorkerId
from midcourse.core.replies import Durability


class AskHead(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """What an inbox needs of an open ask. ``tool``: the call it is about, if it is about one.

    Of an approval ``arguments`` are the call's, as JSON that may be cut, and ``why`` a person is asked.
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
    """What lists and sweeps need of a session without reading its journal. Written with every append.

    ``busy`` is the call that runs, ``risk`` the last that was measured. ``was`` is the status that a session was halted
    from, and ``switch`` the kill switch that did it. ``finishes_first``: the stop that waits for the end of the turn.
    ``unpriced`` model calls have no known price: what was spent is at least ``cost``. ``estimated``: an answer that is
    still being written is in it. It has ``worked`` for so many seconds, and since ``working_since`` if that is set. The
    last four are not written but set when sessions are listed: ``unattended``: there is something to do, and no
    process that lives drives it; ``unreachable_since``: its worker lives, and has not answered the commands in
    ``pending`` since then; ``silent_since``: its worker's process lives, and its last heartbeat was then.
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

    def fits(
        self, words: str, *, asking: bool = False, task_class: str | None = None, label: str | None = None
    ) -> bool:
        """Whether a search finds this session; ``words`` are given in lower case."""
        return (
            (not asking or self.asks > 0)
            and (task_class is None or self.task_class == task_class)
            and (label is None or label in self.labels)
            and words in f"{self.id}\n{self.agent}\n{self.goal}".casefold()
        )


class Owned(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A head, who owns the session, and under which epoch. ``owner`` None: nobody. ``alive``: its process lives.

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
    """A command in an inbox. ``content`` is the command; ``outcome`` is None until it is decided."""

    seq: int
    id: CommandId
    put_at: float
    content: bytes
    outcome: bytes | None = None


class Deciding(msgspec.Struct, gc=False, frozen=True):
    """The inbox row an append decides, and what to tell whoever put it. ``forgets``: what the row says is not kept."""

    id: CommandId
    outcome: bytes
    forgets: bool = False


class Store(Protocol):
    """Sessions, durably.

    Methods that return an ``Awaitable`` take their place in the order of writes when they are CALLED, not when they are
    awaited; what is awaited has reached the store's declared durability.

    All of them must be called from a running event loop, and may be called from several loops in several threads.
    """

    @property
    def durability(self) -> Durability:
        """What an acknowledged write survives, as verified when the store was opened."""
        ...

    @property
    def name(self) -> str:
        """How people call this store: its URL, without secrets."""
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

    def create(
        self,
        head: Head,
        rows: Sequence[Row],
        *,
        worker: WorkerId | None,
        blobs: Sequence[Blob] = (),
        audit: Sequence[AuditEntry] = (),
        shelves: Mapping[str, Mapping[str, bytes | None]] | None = None,
    ) -> Awaitable[Epoch]:
        """Store a new session with its first rows, owned by ``worker`` (or nobody), and return epoch 1.

        ``audit`` goes to the end of the audit log, items go on ``shelves``: in the same transaction, as with an append.

        Raises:
            StoreError: code ``session_exists`` if the id is taken; ``not_enlisted`` if ``worker`` is not this object's.
                Nothing is written.
        """
        ...

    def append(
        self,
        head: Head,
        rows: Sequence[Row],
        *,
        epoch: Epoch,
        deciding: Deciding | None = None,
        blobs: Sequence[Blob] = (),
        release: bool = False,
        audit: Sequence[AuditEntry] = (),
        shelves: Mapping[str, Mapping[str, bytes | None]] | None = None,
    ) -> Awaitable[None]:
        """Append all of ``rows`` or none, replace the head, mark ``deciding`` decided: one transaction.

        With ``release`` the session has no owner afterwards. ``audit`` goes to the end of the store's one audit log, in
        the same transaction, numbered and chained in the order of commit, whichever session and process it comes from.
        Items are put on ``shelves``, or taken away, as by :meth:`shelve`: lists over many sessions never lack a fact
        that a journal has.

        Raises:
            StaleEpoch: another owner has taken the session, or nobody owns it. Nothing is written.
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

    def release(self, session_id: SessionId, epoch: Epoch) -> Awaitable[None]:
        """Let the session go, unchanged.

        Raises:
            StaleEpoch: it is not owned under this epoch.
            InboxNotEmpty: a row is undecided.
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

    def erase(
        self,
        head: Head,
        rows: Sequence[Row],
        *,
        epoch: Epoch,
        outcome: bytes,
        shelves: Mapping[str, Mapping[str, bytes | None]],
        forgotten: Sequence[AuditRow] = (),
        audit: Sequence[AuditEntry] = (),
    ) -> Awaitable[None]:
        """Put ``rows`` in the place of the whole journal and of what lies behind it, and let the session go.

        In the same transaction, everything else with a text of the session goes: its snapshots; what its commands said,
        each of which keeps its id and is answered ``outcome`` from now on; the blobs that no other session names. Items
        are put on ``shelves``, or taken away, as by :meth:`shelve`; the entries ``forgotten`` take the places of those
        with the same number in the audit log, whose digests stay. ``audit`` goes to its end.

        Raises:
            StaleEpoch: another owner has taken the session, or nobody owns it. Nothing is written.
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
        """The session's head and owner.

        Raises:
            SessionNotFound: no such session.
            Damaged: the head does not match its checksum.
        """
        ...

    async def heads(
        self,
        *,
        statuses: Sequence[str] = (),
        agent: str | None = None,
        search: str = "",
        tenant: str | None = None,
        asking: bool = False,
        task_class: str | None = None,
        label: str | None = None,
        limit: int = 100,
        before: SessionId | None = None,
    ) -> Sequence[Head]:
        """Sessions, newest first, behind the session ``before`` in that order if given.

        ``search`` is looked for in id, agent and goal, whatever the case. ``tenant`` None: those of all tenants.
        ``asking``: those with an open ask. A damaged head is left out of the list.
        """
        ...

    async def below(self, session_id: SessionId, statuses: Sequence[str]) -> Sequence[Head]:
        """The children of a session that have one of the ``statuses``, their children, and so on, in any order.

        A damaged head is left out.
        """
        ...

    async def read(self, session_id: SessionId, after: Position, limit: int = 1000) -> Sequence[Row]:
        """Journal rows after a position, in order, at most ``limit``. Unchecked: the fold checks the digests."""
        ...

    async def digest_at(self, session_id: SessionId, position: Position) -> bytes | None:
        """The running digest stored at a position; None if there is no such row."""
        ...

    async def snapshots(self, session_id: SessionId) -> Sequence[bytes]:
        """The kept snapshots that match their checksums, newest first."""
        ...

    async def blobs(self, digests: Sequence[str]) -> Sequence[bytes | None]:
        """The blobs of those digests, in that order, unchecked; None for one that there is not."""
        ...

    async def undecided(self, session_id: SessionId) -> Sequence[InboxRow]:
        """The undecided commands, in the order they were put. One that fails its checksum comes with empty content."""
        ...

    async def row(self, session_id: SessionId, command_id: CommandId) -> InboxRow | None:
        """The inbox row of that command id, decided or not.

        Raises:
            Damaged: it does not match its checksum.
        """
        ...

    async def shelved(
        self, shelf: str, *, first: str = "", last: str = "", newest: bool = False, limit: int | None = None
    ) -> Sequence[tuple[str, bytes]]:
        """What lies on a shelf from key ``first`` to key ``last``, both included, in the order of the keys.

        An empty ``last`` is the end of the shelf. ``newest`` turns the order round. At most ``limit``, if given.
        Keys are in the order of their code points.

        Raises:
            Damaged: one of them does not match its checksum; ``shelf`` and ``key`` of the error name it.
        """
        ...

    async def shelf_keys(self, shelf: str, *, first: str = "", last: str = "") -> Sequence[str]:
        """The keys that ``shelved`` would give, and not their values, however large those are."""
        ...

    async def shelves(self, prefix: str = "") -> Sequence[str]:
        """The shelves that hold something and whose names begin with ``prefix``, in order."""
        ...

    async def audit(self, after: int = 0, limit: int = 100) -> Sequence[AuditRow]:
        """Rows of the audit log after a sequence number, in order, at most ``limit``. Their digests are unchecked.

        Where old rows were taken away, the last of them comes first, as an anchor without content.

        Raises:
            Damaged: rows are missing at the end of the log.
        """
        ...

    async def audit_end(self) -> int:
        """The number of the last row that was ever written to the audit log; 0: none was."""
        ...

    def trim_audit(self, before: float, telling: AuditEntry, *, limit: int = 10_000) -> Awaitable[int]:
        """Take the rows away with which the audit log begins and whose entries are from before a time.

        The last of them stays as an anchor: its number and its digest, without its content. If any was taken away,
        ``telling`` goes to the end of the log in the same transaction, with which they were. At most ``limit`` at once;
        returns how many it were.

        Raises:
            Damaged: one of them was changed, or is missing. Nothing is taken away: that would hide it.
            StoreFull, StoreUnavailable: nothing is taken away.
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
        """Whether another process may have written since the last call. Cheap: what an idle poll costs.

        It is the heartbeat of this object's worker: see ``Owned``.
        """
        ...
