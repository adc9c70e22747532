"""The server as an ASGI application: over a store of its own, or mounted into yours."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute

from midcourse import Agent, Settings
from midcourse._version import __version__
from midcourse.analysis.reports.review import WEEKLY
from midcourse.clock import SystemClock
from midcourse.core.audit import KEPT
from midcourse.core.replies import Durability
from midcourse.core.switches import Switch
from midcourse.handle import LocalTransport
from midcourse.people.inbox_rules import OPERATORS, check_name
from midcourse.people.leader_lease import LeaderLease
from midcourse.people.notifier import Notifier, run_notifier
from midcourse.ports.meter import Meter, Meters
from midcourse.ports.store import Store
from midcourse.server.agent_loader import unknown_policies
from midcourse.server.audit_retention import check_kept, keep_pruning
from midcourse.server.auth import Access, access_of
from midcourse.server.browser_sessions import Logins
from midcourse.server.console_files import Console, is_built, login_page, not_built
from midcourse.server.conventions import Addresses, Conventions, check_root_path
from midcourse.server.fleet_changes import FleetBoard
from midcourse.server.health import Health
from midcourse.server.host_threads import ReadingThread, drained, hosted
from midcourse.server.http_protocol import HEAD_SECONDS, MOST_WAITING
from midcourse.server.limits import BODY_LIMIT, BodyLimit, Buckets, RateLimit, SafeHeaders, Streams
from midcourse.server.metrics import StoreMetrics
from midcourse.server.openapi import describe
from midcourse.server.origins import Cors, HostCheck, OriginCheck, allowed_origins, host_allowed
from midcourse.server.problems import explain_errors
from midcourse.server.retention import keep_erasing
from midcourse.server.review_schedule import check_every, keep_reviewing
from midcourse.server.routes import (
    artifacts,
    bulk,
    chat,
    controls,
    inbox,
    interventions,
    kill_switch,
    logins,
    operations,
    policies,
    reports,
    server,
    sessions,
    trials,
    webhooks,
)
from midcourse.server.shutdown import Shutdown
from midcourse.server.stream import END_SECONDS
from midcourse.server.tokens import TokenStore, check_given_token

API: Final = "/api/v1"
log = logging.getLogger("midcourse.server")


def _routes() -> list[BaseRoute]:
    router = APIRouter(generate_unique_id_function=lambda route: route.name)
    router.include_router(operations.router)
    everyone = (chat, sessions, bulk, controls, kill_switch, interventions, inbox, artifacts, webhooks)
    for one in (*everyone, policies, trials, reports, server, logins):
        router.include_router(one.router, prefix=API)
    return router.routes


_ROUTES: Final = _routes()
"""The addresses of every server. FastAPI reads their functions' parameters once, with the first server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    """The limits of one caller."""

    body: int = BODY_LIMIT
    """Bytes of the largest request."""
    rate: float = 200.0
    """Requests a second, on average."""
    burst: int = 1000
    """Requests at once."""
    streams_each: int = 1000
    """Streams one token may hold open."""
    streams: int = 4000
    """Streams in all."""
    head_seconds: float = HEAD_SECONDS
    """The longest time for a request's head to arrive, where ``midcourse serve`` listens; its body three times that."""
    waiting: int = MOST_WAITING
    """Connections on which no request is under way, where ``midcourse serve`` listens."""


@dataclass(kw_only=True)
class Server:
    """Midcourse as an ASGI application.

    Mounted into an application of your own::

        server = midcourse.server.Server(store="sqlite:///runs.db", token=os.environ["AGENTS_TOKEN"])
        app = FastAPI(lifespan=server.lifespan)
        app.mount("/agents", server.app)

    ``token`` is the operator's; others are added with ``midcourse token add``. ``agents`` are those that this process
    has defined, unless they are given.
    """

    store: str | Store = "sqlite:///midcourse.db"
    token: str = field(repr=False)
    agents: Mapping[str, Agent[Any]] | None = None
    allowed_hosts: Iterable[str] = ()
    allowed_origins: Iterable[str] = ()
    durability: Durability = "power"
    drive: bool = True
    settings: Settings = field(default_factory=Settings)
    limits: CallerLimits = field(default_factory=CallerLimits)
    redis: str | None = None
    grace: float = 10.0
    drain_delay: float = 0.0
    """Seconds for which ``drain`` still accepts new work, if something asks `/readyz` where to send it."""
    root_path: str = ""
    """The prefix that a proxy removes from the path before requests come here: webhooks' links are below it."""
    review_every: float | None = WEEKLY
    """Seconds between reviews of what people labelled; None: none is made."""
    keep_audit: float | None = KEPT
    """Seconds that the audit log is kept; None: for ever."""
    escalate_to: str = OPERATORS
    """Who gets an ask that was not answered in time: a name; ``operate`` is everybody with that role."""
    metrics_open: bool = False
    """True if `/metrics` is open to everybody on this machine; else it takes a token with the role ``watch``."""
    meter: Meter | None = None
    """A further listener for measurements, such as ``midcourse.telemetry.spans.Spans``."""

    def __post_init__(self) -> None:
        check_given_token(self.token)
        self.root_path = check_root_path(self.root_path)
        check_every(self.review_every)
        check_kept(self.keep_audit)
        check_name(self.escalate_to, "escalate_to")
        self.local: LocalTransport | None = None
        self.parked = 0
        self._store_metrics = StoreMetrics(SystemClock())
        self.app = self._make()

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncGenerator[None]:
        """Open the store, and let every session go at the end. The application that it is mounted into enters this."""
        async with hosted(
            self.store,
            durability=self.durability,
            drives=self.drive,
            settings=self.settings,
            agents=self.agents,
            redis=self.redis,
            grace=self.grace,
            meter=self._store_metrics.metrics
            if self.meter is None
            else Meters(self._store_metrics.metrics, self.meter),
        ) as local:
            for one in await unknown_policies(local.store, local.worker.agents):
                log.warning("%s", one)
            self.local = self.app.state.local = local
            self.app.state.reading = reading = ReadingThread()
            self.app.state.board = FleetBoard(local.store, local.clock, local.worker.settings.unreachable_after)
            tokens = TokenStore(local.store, local.clock, local=self.token)
            self.app.state.access = Access(tokens, Logins(local.store, local.clock, tokens))
            reviewing = self._begin_reviews(local, reading)
            pruning = self._begin_pruning(local, reading)
            retaining = self._begin_erasing(local, reading)
            teller = self._run_notifier(local)
            telling = asyncio.get_running_loop().create_task(run_notifier(teller))
            try:
                yield
            finally:
                background = [one for one in (telling, reviewing, pruning, retaining) if one is not None]
                for one in background:
                    one.cancel()
                await asyncio.gather(*background, return_exceptions=True)
                await teller.end()
                self._store_metrics.close()
                self.parked = max(self.parked, len(local.worker.drivers()))
                self.local = None
                reading.close()

    async def login_code(self) -> str:
        """Make a code that lets one browser in as the operator, once, within a minute."""
        code, _ = await access_of(self.app).logins.code_for(self.token)
        return code

    async def drain(self, *, at_once: bool = False) -> None:
        """Take nothing new and let every session go, calls in flight within the grace.

        First `/readyz` says so, and for ``drain_delay`` that is all, so that what sends requests here notices: unless
        it is to happen ``at_once``, or nothing has asked `/readyz` lately. From then on requests are still answered,
        except those that would start a session: ``draining``. Open streams are told, and at the end they send what is
        journaled by then, and end.
        """
        local = self.local
        if local is None or self.app.state.leaving.is_announced:
            return
        self.app.state.leaving.is_announced = True
        if self.drain_delay and not at_once and self.app.state.health.is_asked(local.clock):
            log.info("about to end: takes requests for %g s more, while /readyz sends them elsewhere", self.drain_delay)
            await asyncio.sleep(self.drain_delay)
        self.parked = len(local.worker.drivers())
        self.app.state.leaving.announce()
        await drained(local, self.grace)
        self.app.state.leaving.end()
        local.worker.fanout.wake_all()
        await self.app.state.leaving.wait_for_streams(3 * END_SECONDS)

    def _begin_reviews(self, local: LocalTransport, reading: ReadingThread) -> "asyncio.Task[None] | None":
        if self.review_every is None:
            return None
        worker, policy = local.worker, self.settings.policy
        work = keep_reviewing(worker.store, worker.clock, reading, every=self.review_every, policy=policy)
        return asyncio.get_running_loop().create_task(work)

    def _begin_pruning(self, local: LocalTransport, reading: ReadingThread) -> "asyncio.Task[None] | None":
        if self.keep_audit is None:
            return None
        worker = local.worker
        work = keep_pruning(worker.store, worker.clock, reading, keep=self.keep_audit)
        return asyncio.get_running_loop().create_task(work)

    def _run_notifier(self, local: LocalTransport) -> Notifier:
        worker = local.worker

        async def switches() -> Sequence[Switch]:
            return [*await worker.standing.recent(), *await worker.standing.lifted()]

        return Notifier(
            worker.store,
            worker.clock,
            LeaderLease(worker.store, worker.clock, worker.id),
            policy=self.settings.policy,
            escalate_to=self.escalate_to,
            root_path=self.root_path,
            switches=switches,
        )

    def _begin_erasing(self, local: LocalTransport, reading: ReadingThread) -> "asyncio.Task[None] | None":
        if self.settings.keep_for is None:
            return None
        return asyncio.get_running_loop().create_task(keep_erasing(local, reading, self.settings.keep_for))

    def _make(self) -> FastAPI:
        app = FastAPI(
            title="Midcourse",
            version=__version__,
            openapi_url=f"{API}/openapi.json",
            # Their pages load scripts from elsewhere.
            docs_url=None,
            redoc_url=None,
            lifespan=self.lifespan,
            # An address with a slash too many is none: a redirect would name the Host that the client named.
            redirect_slashes=False,
        )
        app.openapi = lambda: describe(app)
        app.state.streams = Streams(each=self.limits.streams_each, total=self.limits.streams)
        app.state.access = app.state.local = None
        app.state.leaving = Shutdown()
        app.state.health, app.state.metering = Health(), self._store_metrics
        app.state.metrics_open = self.metrics_open
        app.state.trials = asyncio.Semaphore(trials.AT_ONCE)
        app.router.routes.extend(_ROUTES)
        app.add_route("/login", login_page, methods=["GET"], include_in_schema=False)
        if is_built():
            app.router.routes.append(Console())
        else:
            app.add_route("/", not_built, methods=["GET"], include_in_schema=False)
        app.state.addresses = addresses = Addresses(app.routes)
        explain_errors(app)
        buckets = Buckets(SystemClock(), rate=self.limits.rate, burst=self.limits.burst)
        # Checked here: a middleware's arguments are used only with the first request.
        origins, hosts = allowed_origins(self.allowed_origins), [host_allowed(host) for host in self.allowed_hosts]
        # The last one added sees a request first.
        app.add_middleware(Conventions, addresses=addresses)
        app.add_middleware(RateLimit, buckets=buckets, identify=lambda scope: access_of(app).identify(scope))
        app.add_middleware(BodyLimit, limit=self.limits.body, seconds=3 * self.limits.head_seconds)
        app.add_middleware(OriginCheck, allowed=origins)
        app.add_middleware(Cors, methods=addresses.methods, origins=origins)
        app.add_middleware(HostCheck, allowed_hosts=hosts)
        app.add_middleware(SafeHeaders)
        return app
