"""The sessions of a time in a store, each read into facts, one journal page at a time.

Nothing but the facts of one session is held at once; the caller decides what to keep.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from midcourse.analysis.reports.consistency import flaw_of
from midcourse.analysis.reports.facts import Interruption, SessionFacts
from midcourse.analysis.reports.reader import FactsReader
from midcourse.analysis.reports.report import MOST_NAMED, Report
from midcourse.analysis.reports.totals import report_of
from midcourse.core.ids import Position, SessionId
from midcourse.core.tenants import tenant_of
from midcourse.errors import Damaged, InvalidInput, SessionNotFound
from midcourse.policy.document import Policy
from midcourse.policy.profiles import STANDARD
from midcourse.policy.signals.calls_left import NO_HISTORY, CallHistory
from midcourse.policy.signals.journal_reader import JournalReader
from midcourse.policy.signals.run_monitor import RunMonitor
from midcourse.policy.versions import load as load_policy
from midcourse.ports.store import Head, HeadQuery, Store, every_head
from midcourse.runtime.past_runs import PastRuns
from midcourse.runtime.session_loader import every_event

MOST: Final = 20_000
"""The number of sessions that a report reads: the newest. It reports how many more there are."""
NAMELESS: Final = ("", "none")
"""The values in place of a missing policy."""
Progress = Callable[[int], None]
"""Told how many sessions have been read."""


class FleetSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session's facts, the policy that its targets are of, and what was measured when people stepped in.

    ``values``: by the id of a person's interruption that was called right, the signals at that moment.
    """

    facts: SessionFacts
    policy: Policy
    values: Mapping[str, Mapping[str, float]] = {}


@dataclass
class Fleet:
    """One reading of a store, from ``since`` to ``until``: sessions that began then, newest first.

    ``notes`` says what was left out, and grows while it reads. A session without a policy, or with one that is gone, is
    held against ``default``.
    """

    store: Store
    since: float
    until: float
    default: Policy = STANDARD
    most: int = MOST
    with_values: bool = False
    """True to measure the signals at people's interventions again; that reads those journals twice."""
    progress: Progress | None = None
    tenant: str | None = None
    """Whose sessions; None: those of all tenants."""
    known: dict[SessionId, tuple[Position, "FleetSession"]] | None = None
    """The results of an earlier reading by session, with its position: one that has not moved is not read again."""
    damaged: dict[str, str] = field(default_factory=dict[str, str])
    """Sessions that cannot be read, and why."""
    _policies: dict[str, Policy] = field(default_factory=dict[str, Policy])
    _past: dict[tuple[str, str], PastRuns] = field(default_factory=dict[tuple[str, str], PastRuns])
    _unknown: set[str] = field(default_factory=set[str])
    _left_out: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        found: list[str] = []
        if self._left_out:
            found.append(f"Only the newest {self.most:,} sessions of this time were read. Choose a shorter time.")
        if self.damaged:
            named = ", ".join(list(self.damaged)[:MOST_NAMED])
            found.append(
                f"{len(self.damaged)} sessions cannot be read and are left out: {named}. Run: midcourse doctor"
            )
        if self._unknown:
            named = ", ".join(sorted(self._unknown)[:MOST_NAMED])
            found.append(f"Policies that are not in this store are held against '{self.default.name}': {named}.")
        return tuple(found)

    async def sessions(self) -> AsyncIterator[FleetSession]:
        """Yield each session of the time, once. One whose journal is damaged is left out and named."""
        count = 0
        async for head in every_head(self.store, HeadQuery(tenant=self.tenant)):
            if head.created_at < self.since:
                return
            if head.created_at > self.until:
                continue
            if count >= self.most:
                self._left_out = True
                return
            try:
                found = await self._found(head)
            except Damaged as error:
                self.damaged[head.id] = error.message
                continue
            except SessionNotFound:  # erased since it was listed
                continue
            count += 1
            yield found
            if self.progress is not None:
                self.progress(count)

    async def _found(self, head: Head) -> FleetSession:
        if self.known is None:
            return await self._session(head)
        position, found = self.known.get(head.id, (None, None))
        if found is None or position != head.position:
            found = await self._session(head)
            self.known[head.id] = head.position, found
        return found

    async def _session(self, head: Head) -> FleetSession:
        reader = FactsReader(head.id)
        async for record in every_event(self.store, head.id):
            reader.read(record)
        policy = await self._policy(reader.terms.policy)
        facts = reader.facts(policy, NO_HISTORY if reader.terms.task_class else await self._history(head))
        if facts.was_stopped or facts.recoveries:
            facts = msgspec.structs.replace(facts, flaw=await flaw_of(self.store, head))
        if not self.with_values or not reader.is_stopped_by_a_person:
            return FleetSession(facts=facts, policy=policy)
        return FleetSession(facts=facts, policy=policy, values=await self._values(facts, policy))

    async def _history(self, head: Head) -> CallHistory:
        key = head.agent, tenant_of(head.id)
        runs = self._past.setdefault(key, PastRuns(self.store, *key))
        return await runs.before(head.created_at)

    async def _policy(self, name: str) -> Policy:
        if name in NAMELESS:
            return self.default
        known = self._policies.get(name)
        if known is None:
            try:
                known = await load_policy(self.store, name)
            except InvalidInput:
                self._unknown.add(name)
                known = self.default
            self._policies[name] = known
        return known

    async def _values(self, facts: SessionFacts, policy: Policy) -> dict[str, Mapping[str, float]]:
        """Measure the signals at people's interventions: the journal again, by the monitors. Drift is not measured."""
        wanted = {one.position: one for one in facts.interruptions if is_missed(one)}
        oversight = RunMonitor(policy, task_class=facts.task_class, budget=facts.budget, asks=False)
        journal = JournalReader()
        found: dict[str, Mapping[str, float]] = {}
        async for record in every_event(self.store, facts.id):
            if record.position in wanted:
                found[wanted[record.position].id] = dict(oversight.values)
                if len(found) == len(wanted):
                    break
            for act in journal.read(record):
                oversight.see(act, past=True)
        return found


def is_missed(one: Interruption) -> bool:
    """Return True if a person stepped in, rightly, and no policy had before."""
    return one.label == "right" and one.is_by_person and one.is_first


async def report_on(fleet: Fleet) -> Report:
    """Return the report of a time.

    Raises:
        StoreUnavailable: the store cannot be read now.
    """
    sessions = [(one.facts, one.policy) async for one in fleet.sessions()]
    return report_of(sessions, fleet.since, fleet.until, fleet.notes, fleet.damaged)


async def default_policy(store: Store, name: str) -> Policy:
    """Return the policy for sessions without one: the one of that name, or ``standard`` for no name.

    Raises:
        InvalidInput: ``policy_not_found``.
    """
    return STANDARD if name in NAMELESS else await load_policy(store, name)
