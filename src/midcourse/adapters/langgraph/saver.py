"""LangGraph's checkpoints in a Midcourse store: each put is one write, and a list that grew costs what it grew by."""

import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from midcourse.adapters.langgraph.bridge import BridgedSaver
from midcourse.adapters.langgraph.channel_pieces import ChannelPiece, Reference, cut, joined
from midcourse.adapters.langgraph.checkpoint_records import (
    CHECKPOINTS,
    SHELVES,
    CheckpointAddress,
    CheckpointRecord,
    Write,
    chain_of,
    checkpoints_in,
    decode,
    encode,
    needless,
    piece_at,
    place_of,
    write_at,
)
from midcourse.core.ids import Epoch, SessionId
from midcourse.errors import Damaged, InvalidInput
from midcourse.ports.shelves import below
from midcourse.ports.store import Store

_REMEMBERED: Final = 1_000
"""The number of namespaces whose last checkpoint is kept in memory; a put on top of another one reads it."""


class MidcourseSaver(BridgedSaver):
    """A checkpointer in ``store``. With ``owner`` only the owner of that session and epoch writes.

    Every method that writes raises StaleEpoch once the owner has lost its session, and nothing is written then.
    Every method that reads raises Damaged for what does not match its checksums. The blocking methods are for other
    threads than that of the event loop it was made on.
    """

    def __init__(
        self,
        store: Store,
        *,
        owner: Callable[[], tuple[SessionId, Epoch] | None] | None = None,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self._store = store
        self._owner = owner
        self._last = _LastRecords()

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the version after ``current``, of the kind that the thread has, which another saver may have begun."""
        if not isinstance(current, str):
            return super().get_next_version(current, channel)
        number, dot, rest = current.partition(".")
        following = f"{int(number) + 1:0{len(number)}}{dot}{rest}" if number.isdecimal() else ""
        if following > current:
            return following
        raise InvalidInput(
            f"The channel version '{current}' of another checkpointer cannot be continued: it does not begin with a "
            "number that has zeros before it.",
            field="channel_versions",
        )

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint and those of its channels that have changed, in one write."""
        parent = get_checkpoint_id(config)
        address = CheckpointAddress(_shelf(config), _namespace(config) or "", checkpoint["id"])
        before = self._last.get(address._replace(id=parent)) if parent else None
        is_last = before is not None
        if parent and before is None:
            before = await self._record(address._replace(id=parent))
        values = checkpoint["channel_values"]
        items: dict[str, bytes | None] = {}
        channels: dict[str, Reference] = {}
        for channel, version in checkpoint["channel_versions"].items():
            known = before.channels.get(channel) if before else None
            if known is not None and known.version == version and channel not in new_versions:
                channels[channel] = known
            elif channel not in values:
                channels[channel] = Reference(version)
            else:
                kind, content = self.serde.dumps_typed(values[channel])
                channels[channel], piece = cut(version, kind, content, known)
                if piece and piece.before and not is_last and await self._goes_on(address, channel, known):
                    # A second branch gets a chain of its own: to read one must not mean to read them all.
                    channels[channel], piece = cut(version, kind, content, None)
                if piece is not None:
                    chain = chain_of(address.namespace, channel, channels[channel])
                    items[piece_at(chain, channels[channel].place, channels[channel].name)] = encode(piece)
        without_values = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        record = CheckpointRecord(
            parent,
            self.serde.dumps_typed(without_values),
            self.serde.dumps_typed(get_serializable_checkpoint_metadata(config, metadata)),
            channels,
        )
        items[address.key] = encode(record)
        await self._write(address.shelf, items)
        self._last.put(address, record)
        return _config(address)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote on top of a checkpoint. A write that is there stays, except to special channels."""
        address = CheckpointAddress(_shelf(config), _namespace(config) or "", _configurable(config)["checkpoint_id"])
        items: dict[str, bytes | None] = {}
        ordinary = False
        for position, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, position)
            ordinary = ordinary or index >= 0
            write = Write(task_path, task_id, index, channel, self.serde.dumps_typed(value))
            items[write_at(address, task_id, index)] = encode(write)
        if ordinary:
            of_task = write_at(address, task_id, 0)[:-1]
            for key in await self._store.shelf_keys(address.shelf, **below(of_task)):
                if not key.startswith(of_task + "-"):
                    items.pop(key, None)
        if items:
            await self._write(address.shelf, items)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that ``config`` names, or the newest of its thread and namespace, if there is one."""
        shelf, namespace = _shelf(config), _namespace(config) or ""
        if checkpoint := get_checkpoint_id(config):
            address = CheckpointAddress(shelf, namespace, checkpoint)
            record = await self._record(address)
        else:
            newest = await self._store.shelved(shelf, **below(checkpoints_in(namespace)), newest=True, limit=1)
            if not newest:
                return None
            address = CheckpointAddress.of(shelf, newest[0][0])
            record = decode(CheckpointRecord, shelf, *newest[0])
        return await self._tuple(address, record) if record else None

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, newest first: of a thread and namespace if ``config`` names them, of all if it does not."""
        named = config is not None and "thread_id" in _configurable(config)
        shelves = [_shelf(config)] if config and named else await self._store.shelves(SHELVES)
        namespace = _namespace(config) if config else None
        only = get_checkpoint_id(config) if config else None
        border = get_checkpoint_id(before) if before else None
        prefix = CHECKPOINTS if namespace is None else checkpoints_in(namespace)
        found = [
            address
            for shelf in shelves
            for key in await self._store.shelf_keys(shelf, **below(prefix))
            if (address := CheckpointAddress.of(shelf, key)) and (not only or address.id == only)
            if not border or address.id < border
        ]
        for address in sorted(found, key=lambda one: one.id, reverse=True):
            if limit is not None and limit <= 0:
                return
            record = await self._record(address)
            if record is None or not self._matches(record, filter):
                continue
            listed = await self._tuple(address, record)
            if listed is not None:
                limit = None if limit is None else limit - 1
                yield listed

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        shelf = f"{SHELVES}{thread_id}"
        await self._remove(shelf, await self._store.shelf_keys(shelf))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs, and their writes, in all threads. Reads every thread's checkpoints."""
        runs = set(run_ids)
        for shelf in await self._store.shelves(SHELVES) if runs else ():
            keys, records = await self._contents(shelf)
            kept = {
                address: record
                for address, record in records.items()
                if self._metadata(record).get("run_id") not in runs
            }
            if len(kept) < len(records):
                await self._remove(shelf, needless(keys, records, kept))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread to another, beside what is there."""
        items = await self._store.shelved(f"{SHELVES}{source_thread_id}")
        if items:
            await self._write(f"{SHELVES}{target_thread_id}", dict(items))
            self._last.forget(f"{SHELVES}{target_thread_id}")

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the newest checkpoint of each namespace, or with the strategy ``delete`` nothing.

        If a checkpoint's delta channels are made from the writes of earlier ones, these stay, too. Not for a thread
        that is being run: a run from an older checkpoint would lose its beginning.

        Raises:
            InvalidInput: there is no such strategy.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise InvalidInput(f"There is no strategy '{strategy}' of pruning. Use 'keep_latest' or 'delete'.")
        for thread_id in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread_id)
                continue
            shelf = f"{SHELVES}{thread_id}"
            keys, records = await self._contents(shelf)
            newest: dict[str, CheckpointAddress] = {}
            for address in records:
                if address.id >= newest.get(address.namespace, address).id:
                    newest[address.namespace] = address
            kept = {one: records[one] for address in newest.values() for one in self._history(address, records)}
            if len(kept) < len(records):
                await self._remove(shelf, needless(keys, records, kept))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes to each channel before the checkpoint, back to the nearest one that has a value for it."""
        histories: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        waiting = set(channels)
        address = CheckpointAddress(_shelf(config), _namespace(config) or "", get_checkpoint_id(config) or "")
        if waiting and not address.id:
            keys = await self._store.shelf_keys(address.shelf, **below(checkpoints_in(address.namespace)))
            address = CheckpointAddress.of(address.shelf, keys[-1]) if keys else address
        record = await self._record(address) if waiting else None
        while waiting and record is not None and record.parent:
            address = address._replace(id=record.parent)
            record = await self._record(address)
            if record is None:
                break
            for write in reversed(await self._writes(address)):
                if write[1] in waiting:
                    histories[write[1]]["writes"].append(write)
            for channel in sorted(waiting):
                reference = record.channels.get(channel)
                if reference is not None and reference.kind:
                    histories[channel]["seed"] = await self._value(address, channel, reference)
                    waiting.discard(channel)
        for history in histories.values():
            history["writes"].reverse()
        return histories

    async def _write(self, shelf: str, items: Mapping[str, bytes | None]) -> None:
        await self._store.shelve(shelf, items, owner=self._owner() if self._owner else None)

    async def _remove(self, shelf: str, keys: Iterable[str]) -> None:
        self._last.forget(shelf)
        await self._write(shelf, dict.fromkeys(keys))
        self._last.forget(shelf)

    async def _record(self, address: CheckpointAddress) -> CheckpointRecord | None:
        found = await self._store.shelved(address.shelf, first=address.key, last=address.key)
        return decode(CheckpointRecord, address.shelf, *found[0]) if found else None

    async def _contents(self, shelf: str) -> tuple[Sequence[str], dict[CheckpointAddress, CheckpointRecord]]:
        # The keys first: each piece among them was put with its record, which is then among the records.
        keys = await self._store.shelf_keys(shelf)
        found = await self._store.shelved(shelf, **below(CHECKPOINTS))
        return keys, {
            CheckpointAddress.of(shelf, key): decode(CheckpointRecord, shelf, key, content) for key, content in found
        }

    async def _goes_on(self, address: CheckpointAddress, channel: str, reference: Reference | None) -> bool:
        """Return True if another value continues the one at ``reference`` already."""
        if reference is None:
            return False
        following = piece_at(chain_of(address.namespace, channel, reference), reference.place + 1)
        return bool(await self._store.shelf_keys(address.shelf, **below(following)))

    async def _tuple(self, address: CheckpointAddress, record: CheckpointRecord) -> CheckpointTuple | None:
        try:
            values = {
                channel: await self._value(address, channel, reference)
                for channel, reference in record.channels.items()
                if reference.kind
            }
        except Damaged:
            if await self._record(address) is None:
                return None  # it was deleted while it was read
            raise
        checkpoint: Checkpoint = self.serde.loads_typed(record.checkpoint)
        checkpoint["channel_values"] = values
        return CheckpointTuple(
            config=_config(address),
            checkpoint=checkpoint,
            metadata=self._metadata(record),
            parent_config=_config(address._replace(id=record.parent)) if record.parent else None,
            pending_writes=await self._writes(address),
        )

    async def _value(self, address: CheckpointAddress, channel: str, reference: Reference) -> Any:
        pieces: dict[tuple[int, str], ChannelPiece] = {}
        if reference.chain:
            chain = chain_of(address.namespace, channel, reference)
            last = piece_at(chain, reference.place, reference.name)
            for key, content in await self._store.shelved(address.shelf, first=chain, last=last):
                pieces[place_of(key)[1:]] = decode(ChannelPiece, address.shelf, key, content)
        return self.serde.loads_typed(joined(reference, pieces))

    async def _writes(self, address: CheckpointAddress) -> list[PendingWrite]:
        found = await self._store.shelved(address.shelf, **below(address.writes))
        writes = [decode(Write, address.shelf, key, content) for key, content in found]
        writes.sort(key=lambda write: writes_sort_key(write.path, write.task, write.index))
        return [(write.task, write.channel, self.serde.loads_typed(write.value)) for write in writes]

    def _metadata(self, record: CheckpointRecord) -> CheckpointMetadata:
        return self.serde.loads_typed(record.metadata)

    def _matches(self, record: CheckpointRecord, wanted: Mapping[str, Any] | None) -> bool:
        metadata: Mapping[str, Any] = self._metadata(record) if wanted else {}
        return all(metadata.get(name) == value for name, value in (wanted or {}).items())

    def _history(
        self, address: CheckpointAddress, records: Mapping[CheckpointAddress, CheckpointRecord]
    ) -> Iterable[CheckpointAddress]:
        """Yield the checkpoint, and those before it whose writes its delta channels are made from."""
        record = records[address]
        counters = self._metadata(record).get("counters_since_delta_snapshot") or {}
        waiting = {channel for channel in counters if not record.channels.get(channel, Reference(0)).kind}
        yield address
        while waiting and record.parent and (address := address._replace(id=record.parent)) in records:
            record = records[address]
            waiting = {channel for channel in waiting if not record.channels.get(channel, Reference(0)).kind}
            yield address


class _LastRecords:
    """The last checkpoint that was put into each namespace: what the next put mostly continues."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[tuple[str, str], tuple[str, CheckpointRecord]] = {}

    def get(self, address: CheckpointAddress) -> CheckpointRecord | None:
        with self._lock:
            known = self._records.get(address[:2])
        return known[1] if known and known[0] == address.id else None

    def put(self, address: CheckpointAddress, record: CheckpointRecord) -> None:
        with self._lock:
            self._records.pop(address[:2], None)
            self._records[address[:2]] = (address.id, record)
            while len(self._records) > _REMEMBERED:
                del self._records[next(iter(self._records))]

    def forget(self, shelf: str) -> None:
        with self._lock:
            for known in [one for one in self._records if one[0] == shelf]:
                del self._records[known]


def _configurable(config: RunnableConfig) -> Mapping[str, Any]:
    return config.get("configurable", {})


def _shelf(config: RunnableConfig) -> str:
    return f"{SHELVES}{_configurable(config)['thread_id']}"


def _namespace(config: RunnableConfig) -> str | None:
    return _configurable(config).get("checkpoint_ns")


def _config(address: CheckpointAddress) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": address.shelf.removeprefix(SHELVES),
            "checkpoint_ns": address.namespace,
            "checkpoint_id": address.id,
        }
    }
