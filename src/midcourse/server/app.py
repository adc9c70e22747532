"""The server as an ASGI application: over a store of its own, or mounted into yours."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import FastAPI, Request
from starlette.responses import Response

from midcourse._version import __version__
from midcourse.core.replies import Durability
from midcourse.ports.store import Store
from midcourse.reports.review import WEEKLY
from midcourse.runtime.agents import Agent
from midcourse.runtime.clock import SystemClock
from midcourse.runtime.control import Control
from midcourse.runtime.settings import Settings
from midcourse.server.auth import Access, access_of, login
from midcourse.server.documents import describe
from midcourse.server.hosting import Reading, hosted
from midcourse.server.limits import BODY_LIMIT, BodyLimit, Buckets, RateLimit, SafeHeaders, Streams
from midcourse.server.origins import Cors, HostCheck, OriginCheck, allowed_origins, host_allowed
from midcourse.server.pages import Console, is_built, not_built
from midcourse.server.problems import explain_errors
from midcourse.server.reviewing import check_every, keep_reviewing
from midcourse.server.routes import chat, controls, interventions, policies, reports, server, sessions
from midcourse.server.tokens import Tokens, check_given_token

API: Final = "/api/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one caller may take."""

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
    limits: Limits = field(default_factory=Limits)
    redis: str | None = None
    grace: float = 10.0
    review_every: float | None = WEEKLY
    """Seconds between reviews of what people labelled; None: none is made."""

    def __post_init__(self) -> None:
        check_given_token(self.token)
        check_every(self.review_every)
        self.control: Control | None = None
        self.parked = 0
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
        ) as control:
            self.control = control
            self.app.state.control = control
            self.app.state.reading = reading = Reading()
            self.app.state.access = Access(Tokens(control.worker.store, control.worker.clock, local=self.token))
            reviewing = self._begin_reviews(control, reading)
            try:
                yield
            finally:
                if reviewing is not None:
                    reviewing.cancel()
                self.parked = len(control.worker.drivers())
                self.control = None
                reading.close()

    def _begin_reviews(self, control: Control, reading: Reading) -> "asyncio.Task[None] | None":
        if self.review_every is None:
            return None
        worker, policy = control.worker, self.settings.policy
        work = keep_reviewing(worker.store, worker.clock, reading, every=self.review_every, policy=policy)
        return asyncio.get_running_loop().create_task(work)

    def _make(self) -> FastAPI:
        app = FastAPI(
            title="Midcourse",
            version=__version__,
            openapi_url=f"{API}/openapi.json",
            # Their pages load scripts from elsewhere.
            docs_url=None,
            redoc_url=None,
            lifespan=self.lifespan,
            generate_unique_id_function=lambda route: route.name,
            # An address with a slash too many is none: a redirect would name the Host that the client named.
            redirect_slashes=False,
        )
        app.openapi = lambda: describe(app)
        app.state.streams = Streams(each=self.limits.streams_each, total=self.limits.streams)
        app.state.access = None
        for one in (chat, sessions, controls, interventions, policies, reports, server):
            app.include_router(one.router, prefix=API)

        async def entrance(request: Request) -> Response:
            return await login(access_of(app), request)

        app.add_route("/login", entrance, methods=["GET"], include_in_schema=False)
        if is_built():
            app.router.routes.append(Console())
        else:
            app.add_route("/", not_built, methods=["GET"], include_in_schema=False)
        explain_errors(app)
        buckets = Buckets(SystemClock(), rate=self.limits.rate, burst=self.limits.burst)
        # Checked here: what is given to a middleware is looked at with the first request.
        origins, hosts = allowed_origins(self.allowed_origins), [host_allowed(host) for host in self.allowed_hosts]
        # The last one added sees a request first.
        app.add_middleware(RateLimit, buckets=buckets, identify=lambda scope: access_of(app).identify(scope))
        app.add_middleware(BodyLimit, limit=self.limits.body)
        app.add_middleware(OriginCheck, allowed=origins)
        app.add_middleware(Cors, origins=origins)
        app.add_middleware(HostCheck, allowed_hosts=hosts)
        app.add_middleware(SafeHeaders)
        return app
