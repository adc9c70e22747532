"""Metrics for Prometheus: events in this process as they happen, and the state of the store, read from time to time.

Every name, with its description, is in this file. Labels have few values: no session, no person, no tenant is ever one,
and agents beyond the first hundred are counted together.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, get_args

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from midcourse._version import __version__
from midcourse.core import events as ev
from midcourse.core.events import Recorded, StepKind, event_type
from midcourse.core.ids import Epoch, SessionId, StepId
from midcourse.core.rates import (
    AFTER_STOP,
    CALLS_LEFT,
    COMPLETED,
    CONSISTENT,
    DURATION,
    FALSE_POSITIVES,
    INTERRUPTED,
    RECOVERED,
    RESPONSE,
    ROI,
    TOKEN_RATE,
    Stopper,
)
from midcourse.core.session import Session, Status
from midcourse.ports.clock import Clock
from midcourse.ports.meter import CheckpointKind, Meter, StopVerb

MOST_AGENTS: Final = 100
"""Agents that have a label of their own. The rest are counted as ``OTHERS``."""
OTHERS: Final = "(others)"
UNCLASSED: Final = "(none)"
"""The task class of sessions that were declared none."""
_QUICK: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_CALLS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_SIZES: Final = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8)
_FIRST_SIGN: Final = (
    *(ev.StepBegun, ev.StepFinished, ev.StepFailed, ev.AskOpened, ev.CheckpointTaken, ev.ReportMade, ev.PlanChanged),
    *(ev.SessionCompleted, ev.SessionFailed, ev.SessionCancelled, ev.SessionPaused, ev.SessionWaiting),
)
"""The events that show that a session continues in its new process."""


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of a class, by the names in ``RATIOS`` and ``SPREADS``; None without any data."""

    sessions: int = 0
    interruption_by: Mapping[str, float] = {}
    ratios: Mapping[str, float | None] = {}
    spreads: Mapping[str, tuple[float | None, float | None]] = {}
    """The middle one, and the one that 99 % do not exceed."""


class FleetRates(msgspec.Struct, frozen=True, kw_only=True):
    """The rates by class, and those that are of all classes together."""

    classes: Mapping[str, Rates] = {}
    ratios: Mapping[str, float | None] = {}


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """The last known state of a store. ``sessions`` by status and class: those that have not ended."""

    at: float = 0.0
    sessions: Mapping[tuple[str, str], int] = {}
    asks: int = 0
    oldest_ask: float | None = None
    """When it was opened, in seconds since 1970."""
    alarms: int = 0
    kill_switches: int = 0
    webhooks_waiting: int = 0
    webhooks_failing: int = 0


class _Stop(msgspec.Struct):
    verb: StopVerb
    by: Stopper
    wished_at: float


class _Seen(msgspec.Struct):
    """The state of a session between two of its events."""

    calls: dict[StepId, tuple[str, str, float]] = {}
    """Kind, effect and start of each call that runs."""
    stop: _Stop | None = None
    taken: float | None = None
    """When its takeover began, until it continues."""


class Metrics(Meter):
    """The meter behind ``/metrics``, with a registry of its own: nothing of the application around it is in it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[SessionId, _Seen] = {}
        self._agents: set[str] = set()
        self.standing = StoreGauges(clock)
        self.registry = of = CollectorRegistry()
        of.register(self.standing)
        ProcessCollector(registry=of)
        gauge, counter = partial(Gauge, registry=of), partial(Counter, registry=of)
        timed = partial(Histogram, buckets=_QUICK, registry=of)
        gauge("midcourse_build_info", "Always 1; the version is in its label.", ["version"]).labels(__version__).set(1)
        self._answered = timed(
            "midcourse_stop_response_seconds",
            f"{RESPONSE} Until that was durable; with the verb, and whose it was.",
            ["verb", "by"],
        )
        self._stopped = timed(
            "midcourse_stop_seconds",
            "From the request for a stop until nothing of the session ran, with the calls that were allowed to finish.",
            ["verb", "by"],
        )
        self._saved = timed(
            "midcourse_checkpoint_seconds",
            "How long making a checkpoint took, until it was durable: of an agent's state, or of a journal's fold.",
            ["kind"],
        )
        self._sizes = timed("midcourse_checkpoint_bytes", "How large a checkpoint was.", ["kind"], buckets=_SIZES)
        self._recovered = timed(
            "midcourse_recovery_seconds",
            "From taking over a session that was at work until something of it happened again.",
        )
        self._delivered = timed(
            "midcourse_segment_delivery_seconds",
            "From a piece of streamed text being journaled until it reached a watcher.",
        )
        self._committed = timed("midcourse_store_commit_seconds", "How long events waited until they were durable.")
        self._took = timed(
            "midcourse_call_seconds", "How long calls ran, by kind: model, tool or child.", ["kind"], buckets=_CALLS
        )
        self._calls = counter(
            "midcourse_calls",
            "Calls that ended, by kind, by effect (read, idempotent, …) and by outcome.",
            ["kind", "effect", "outcome"],
        )
        self._decisions = counter(
            "midcourse_policy_decisions",
            "What policies, and agents themselves, decided, by level: notify, ask_plan, ask, pause, stop.",
            ["level"],
        )
        self._labels = counter(
            "midcourse_interventions_labelled",
            "What people said of interventions: right, wrong or unsure.",
            ["verdict"],
        )
        self._started = counter(
            "midcourse_sessions_started", "Sessions that began to run here, by class.", ["task_class"]
        )
        self._ended = counter(
            "midcourse_sessions_ended",
            "Turns of sessions that ended here, by class and outcome: completed, failed, cancelled.",
            ["task_class", "outcome"],
        )
        self._taken = counter(
            "midcourse_sessions_taken", "Sessions that this process took over while they were at work."
        )
        self._asked = counter("midcourse_asks_opened", "Questions to people that were opened here.")
        self._blocked = counter(
            "midcourse_agents_unpausable",
            "Times that an agent's own code could not be paused: it was silent, or held the loop it runs on.",
            ["why"],
        )
        self._tokens = counter("midcourse_tokens", "Tokens that steps reported, by agent.", ["agent"])
        self._dollars = counter("midcourse_cost_dollars", "Dollars that steps cost, by agent.", ["agent"])
        self._counted: dict[Counter, dict[tuple[str, ...], Counter]] = {}
        self._took_by: dict[str, Histogram] = {kind: self._took.labels(kind) for kind in get_args(StepKind)}

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that ``accept`` asks for, and the name of that format."""
        encode, kind = choose_encoder(accept)
        return encode(self.registry), kind

    # ---- what is heard

    def recorded(self, session: Session, epoch: Epoch, record: Recorded) -> None:
        """Count an event that was added to a journal."""
        del epoch
        seen = self._seen.get(session.id)
        if seen is None:
            seen = self._seen[session.id] = _Seen()
        event = record.event
        match event:
            case ev.StepBegun():
                seen.calls[event.step] = (event.kind, event.effect, record.at)
            case ev.StepFinished() | ev.StepFailed() | ev.StepRetrying() | ev.StepCut():
                self._ends(seen, event.step, event, record.at)
                self._spent(session, event.cost, event.tokens)
            case ev.StepAborted() | ev.StepClosed() | ev.StepNotBegun():
                self._ends(seen, event.step, event, record.at)
            case ev.InterventionMade():
                self._count(self._decisions, event.decision.level)
            case ev.InterventionLabelled():
                self._count(self._labels, event.verdict)
            case ev.SessionStarted():
                self._count(self._started, _class_of(session))
            case ev.SessionCompleted() | ev.SessionFailed() | ev.SessionCancelled():
                self._count(self._ended, _class_of(session), session.status.value)
            case ev.SessionTaken():
                for step in event.lost:
                    self._lost(session, step)
            case ev.AskOpened():
                self._asked.inc()
            case ev.AgentSilent():
                self._count(self._blocked, "silent")
            case ev.LoopBlocked():
                self._count(self._blocked, "held the loop")
            case _:
                pass
        if seen.taken is not None and isinstance(event, _FIRST_SIGN):
            self._recovered.observe(max(0.0, self._clock.monotonic() - seen.taken))
            seen.taken = None
        if seen.stop is not None:
            seen.stop = self._still_to_stop(seen.stop, session, seen, record.at)

    def stopping(self, session: Session, verb: StopVerb, by: Stopper, wished_at: float, at: float) -> None:
        """Note that a stop was decided at ``at``: it is over at once, or when the last call has ended."""
        seen = self._seen.setdefault(session.id, _Seen())
        seen.stop = self._still_to_stop(_Stop(verb, by, wished_at), session, seen, at)

    def stop_answered(self, verb: StopVerb, by: Stopper, seconds: float) -> None:
        """Note that a stop's decision is durable."""
        self._answered.labels(verb, by).observe(seconds)

    def taking(self, session: Session, seconds: float) -> None:
        """Note that a session that was working is acquired by this process."""
        self._taken.inc()
        self._seen.setdefault(session.id, _Seen()).taken = self._clock.monotonic() - seconds

    def left(self, session_id: SessionId) -> None:
        """Forget a session that has left this process."""
        self._seen.pop(session_id, None)

    def committed(self, seconds: float) -> None:
        """Events are durable."""
        self._committed.observe(seconds)

    def saved(self, kind: CheckpointKind, seconds: float, size: int) -> None:
        self._saved.labels(kind).observe(seconds)
        self._sizes.labels(kind).observe(size)

    def delivered(self, seconds: float) -> None:
        """Count a piece of streamed text."""
        self._delivered.observe(seconds)

    # ---- counting

    def _still_to_stop(self, stop: _Stop, session: Session, seen: _Seen, at: float) -> _Stop | None:
        """Return the same stop while something runs. One that was lifted before then stopped nothing."""
        if session.status in (Status.PAUSING, Status.CANCELLING) or (session.status is Status.HALTED and seen.calls):
            return stop
        if session.status not in (Status.QUEUED, Status.RUNNING, Status.WAITING):
            self._stopped.labels(stop.verb, stop.by).observe(max(0.0, at - stop.wished_at))
        return None

    def _ends(self, seen: _Seen, step: StepId, event: ev.AnyEvent, at: float) -> None:
        call = seen.calls.pop(step, None)
        if call is None:  # it ended before: a later report is no second end
            return
        kind, effect, since = call
        self._count(self._calls, kind, effect, event_type(event).removeprefix("step."))
        if not isinstance(event, ev.StepNotBegun):
            self._took_by[kind].observe(max(0.0, at - since))

    def _lost(self, session: Session, step: StepId) -> None:
        call = session.calls.get(step)
        if call is not None:
            self._count(self._calls, call.kind, call.effect, "lost")

    def _spent(self, session: Session, cost: float, tokens: int) -> None:
        if cost > 0:
            self._count(self._dollars, self._agent(session), by=cost)
        if tokens > 0:
            self._count(self._tokens, self._agent(session), by=tokens)

    def _agent(self, session: Session) -> str:
        name = session.agent
        if name not in self._agents:
            if len(self._agents) >= MOST_AGENTS:
                return OTHERS
            self._agents.add(name)
        return name

    def _count(self, counter: Counter, *labels: str, by: float = 1.0) -> None:
        # Looked up here: the library takes a lock and checks the labels at each look of its own.
        children = self._counted.get(counter)
        if children is None:
            children = self._counted[counter] = {}
        child = children.get(labels)
        if child is None:
            child = children[labels] = counter.labels(*labels)
        child.inc(by)


def _class_of(session: Session) -> str:
    return session.terms.task_class or UNCLASSED


RATIOS: Final = {
    "interruption": INTERRUPTED,
    "completion": COMPLETED,
    "false_positive": FALSE_POSITIVES,
    "stopped_completion": f"{AFTER_STOP} This is of the stopped ones.",
    "unstopped_completion": f"{AFTER_STOP} This is of the others.",
    "recovery": RECOVERED,
    "intervention_return": ROI,
}
"""The ratios of each class."""
FLEET_RATIOS: Final = {"calls_left_accuracy": CALLS_LEFT, "consistency": CONSISTENT}
SPREADS: Final = {"run_seconds": DURATION, "tokens_per_second": TOKEN_RATE}


class StoreGauges(Collector):
    """The gauges: the last known state of the store, and the present state of this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.census = Census()
        self.rates = FleetRates()
        self.rated_at = 0.0
        self.owned = self.streams = 0
        self.draining = False
        self.control_age: float | None = None
        """Seconds since the thread that hears commands looked; None: it does not live."""

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics without reading the store: called when it is registered."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """Yield the present values."""
        now, census = self._clock.now(), self.census
        sessions = GaugeMetricFamily(
            "midcourse_sessions",
            "Sessions of the store that have not ended, by status and class. Every server of a store tells the same.",
            labels=["status", "task_class"],
        )
        for (status, task_class), count in sorted(census.sessions.items()):
            sessions.add_metric([status, task_class], count)
        yield sessions
        oldest = 0.0 if census.oldest_ask is None else max(0.0, now - census.oldest_ask)
        yield from (
            _gauge("midcourse_open_asks", "Questions of the store that wait for a person.", census.asks),
            _gauge("midcourse_oldest_ask_seconds", "How long the oldest open question has waited.", oldest),
            _gauge(
                "midcourse_alarms",
                "Times in the last day that policies and agents stepped in, or notified people.",
                census.alarms,
            ),
            _gauge("midcourse_kill_switches", "Kill switches that stand.", census.kill_switches),
            _gauge("midcourse_webhooks_waiting", "Deliveries in the outbox.", census.webhooks_waiting),
            _gauge(
                "midcourse_webhooks_failing",
                "Deliveries in the outbox that were tried in vain.",
                census.webhooks_failing,
            ),
            _gauge("midcourse_census_timestamp_seconds", "When the store was last read.", census.at),
            _gauge("midcourse_rates_timestamp_seconds", "When the rates were last computed.", self.rated_at),
            _gauge("midcourse_sessions_owned", "Sessions that this process has in memory.", self.owned),
            _gauge("midcourse_streams", "Streams that are open.", self.streams),
            _gauge("midcourse_draining", "1 while this process lets its sessions go.", float(self.draining)),
            _gauge(
                "midcourse_control_age_seconds",
                "Seconds since the thread that receives commands polled the inbox; NaN: it does not live.",
                float("nan") if self.control_age is None else self.control_age,
            ),
        )
        yield from self._rates()

    def _rates(self) -> Iterator[Metric]:
        count = GaugeMetricFamily(
            "midcourse_rated_sessions",
            "Sessions of the last day that the rates are of, by class.",
            labels=["task_class"],
        )

        def family(name: str, words: str, *labels: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"midcourse_{name}", f"{words} Sessions of the last day.", labels=labels)

        ratios = {name: family(f"{name}_ratio", words, "task_class") for name, words in RATIOS.items()}
        spreads = {name: family(name, words, "task_class", "quantile") for name, words in SPREADS.items()}
        for name, words in FLEET_RATIOS.items():
            share = self.rates.ratios.get(name)
            fleet = family(f"{name}_ratio", words)
            if share is not None:
                fleet.add_metric([], share)
            yield fleet
        by_whom = GaugeMetricFamily(
            "midcourse_interruption_by_ratio",
            "As midcourse_interruption_ratio, of what each of them stopped; a session may be stopped by several.",
            labels=["task_class", "by"],
        )
        for task_class, rates in sorted(self.rates.classes.items()):
            count.add_metric([task_class], rates.sessions)
            for name, ratio in ratios.items():
                share = rates.ratios.get(name)
                if share is not None:
                    ratio.add_metric([task_class], share)
            for name, spread in spreads.items():
                for quantile, value in zip(("0.5", "0.99"), rates.spreads.get(name, ()), strict=False):
                    if value is not None:
                        spread.add_metric([task_class, quantile], value)
            for who, share in sorted(rates.interruption_by.items()):
                by_whom.add_metric([task_class, who], share)
        yield count
        yield by_whom
        yield from ratios.values()
        yield from spreads.values()


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=value)
