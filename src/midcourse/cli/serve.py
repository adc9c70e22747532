"""``midcourse serve`` and ``midcourse browser link``: the HTTP API over a store, and the way into it."""

import functools
import math
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

import midcourse
from midcourse.cli.command import STORE, Call, add, command
from midcourse.cli.printer import print_error, print_lines, print_verbatim
from midcourse.cli.target import (
    DEFAULT_STORE,
    FOLDER,
    StoreOption,
    flag,
    option,
    others,
    server_folder,
    span_option,
    span_or_never,
    store_path,
    token_for,
)
from midcourse.errors import InvalidInput, MidcourseError
from midcourse.handle.http.address import TOKEN_VARIABLE
from midcourse.handle.http.server_record import whereabouts

if TYPE_CHECKING:
    from midcourse.core.prices import Price
    from midcourse.server import Server
    from midcourse.telemetry.spans import Spans

_PARTS: Final = ("fastapi", "prometheus_client", "pydantic", "sse_starlette", "structlog", "uvicorn")
"""The import names of the extra ``server``."""


def serve(
    demo: Annotated[bool, flag("--demo", "Also serve the sample agents.")] = False,
    agents: Annotated[
        list[str] | None,
        option(
            "--agents",
            "PLACE",
            "Agents to serve: a .py with decorated functions, a .yaml, a folder of these, or a module such as "
            "shop.agents. May be repeated.",
        ),
    ] = None,
    store: StoreOption = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="The port. Default: 8420, or the next free one.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN", help="The operator's token. Default: one that is made and kept.", envvar=TOKEN_VARIABLE
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another host name of this server, such as a proxy's. May be repeated."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="A site whose pages may use the API (CORS). May be repeated."),
    ] = None,
    redis: Annotated[
        str | None, typer.Option(metavar="URL", help="Where to write readable checkpoints: redis://….")
    ] = None,
    policy: Annotated[
        str, typer.Option(metavar="NAME", help="The default policy of agents; 'none' for no policy.")
    ] = "standard",
    risk_model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A combined risk model of your own, for policies that use one.")
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Prices of models that are on no price list: a YAML file of your own."),
    ] = None,
    review_every: Annotated[
        str, option("--review-every", "SPAN", "How often thresholds are reviewed from labels: 7d, 12h, or never.")
    ] = "7d",
    escalate_to: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Who receives an ask that was not answered in time: a name, or a role such as operate."
        ),
    ] = "operate",
    grace: Annotated[
        str,
        typer.Option(
            metavar="SPAN", help="How long calls in flight may take after the server is asked to stop: 10s, 5m."
        ),
    ] = "10s",
    drain_delay: Annotated[
        str,
        option(
            "--drain-delay",
            "SPAN",
            "How long the server accepts work after SIGTERM, while /readyz reports that it is stopping: 10s, or "
            "0s. Only if /readyz was read within the last minute.",
        ),
    ] = "10s",
    root_path: Annotated[
        str,
        option("--root-path", "PATH", "The prefix that a proxy in front removes from the path, such as /midcourse."),
    ] = "",
    request_timeout: Annotated[
        str,
        option(
            "--request-timeout", "SPAN", "The timeout of a request's head: 10s, 500ms. A body has three times that."
        ),
    ] = "10s",
    metrics_open: Annotated[
        bool, flag("--metrics-open", "Serve /metrics to this machine without authentication.")
    ] = False,
    traces: Annotated[bool, flag("--traces", "Send OpenTelemetry spans to OTEL_EXPORTER_OTLP_ENDPOINT.")] = False,
    traces_content: Annotated[
        bool, flag("--traces-content", "Send spans with prompts, answers and arguments in them.")
    ] = False,
    keep_for: Annotated[
        str, typer.Option(metavar="SPAN", help="Erase the texts of sessions this long after they ended: 90d, or never.")
    ] = "never",
    world_after: Annotated[
        str,
        option(
            "--world-after",
            "SPAN",
            "How long a session in memory rests before it checks what its tools had observed: 10s, 0s for every "
            "rest, or never.",
        ),
    ] = "10s",
    reload: Annotated[bool, flag("--reload", "Restart when an agent's file changes.")] = False,
) -> None:
    """Serve the HTTP API over a store, and run its agents.

    Sessions that ran when the last server ended continue. Ctrl-C stops each session at its next safe point and cancels
    none; the same command continues them.

    \b
    Examples:
      midcourse serve --demo
      midcourse serve --agents agents/ --agents extra.yaml
      midcourse serve --agents shop.agents
      midcourse serve --agents bot.py --store sqlite:///runs.db --port 9000
    """
    kept, rested = span_or_never(keep_for, "--keep-for"), span_or_never(world_after, "--world-after")
    wishes = functools.partial(
        _serve,
        demo,
        agents or [],
        store or DEFAULT_STORE,
        host,
        port,
        token,
        allow_host or [],
        allow_origin or [],
        redis,
        policy,
        risk_model,
        prices,
        span_or_never(review_every, "--review-every"),
        escalate_to,
        span_option(grace, "--grace"),
        span_option(drain_delay, "--drain-delay"),
        root_path,
        span_option(request_timeout, "--request-timeout"),
        metrics_open,
        "content" if traces_content else "plain" if traces else "none",
        None if kept is None else kept / 86_400,
        math.inf if rested is None else rested,
    )
    if not reload:
        _explained(wishes)
        return
    if not agents:
        raise typer.BadParameter("--reload watches the files of --agents, and none is given.")
    from watchfiles import PythonFilter, run_process

    watched = [_watched(one) for one in agents]
    kinds = PythonFilter(extra_extensions=(".yaml", ".yml"))
    # Time enough to release the sessions; a server that is killed in the middle loses what was in flight.
    run_process(*watched, target=functools.partial(_explained, wishes), watch_filter=kinds, sigint_timeout=60)


def _watched(place: str) -> Path:
    """Return the folder whose changes concern an agent's file, folder or module."""
    path = Path(place)
    if not path.exists():
        path = Path(place.replace(".", "/"))
    return path if path.is_dir() else path.parent


def _explained(act: "functools.partial[None]") -> None:
    # SystemExit, not typer.Exit: with --reload this is all there is of a process.
    try:
        act()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PARTS:
            raise
        print_error(
            MidcourseError(f"'{error.name}' is missing. Install the server's parts: pip install 'midcourse[server]'."),
            as_json=False,
        )
        raise SystemExit(1) from None
    except MidcourseError as error:
        print_error(error, as_json=False)
        raise SystemExit(1) from None


def _serve(
    demo: bool,
    agents: Sequence[str],
    store: str,
    host: str,
    port: int | None,
    token: str | None,
    allow_host: Sequence[str],
    allow_origin: Sequence[str],
    redis: str | None,
    policy: str,
    risk_model: Path | None,
    prices: Path | None,
    review_every: float | None,
    escalate_to: str,
    grace: float,
    drain_delay: float,
    root_path: str,
    request_timeout: float,
    metrics_open: bool,
    traces: Literal["none", "plain", "content"],
    keep_for: float | None,
    world_after: float,
) -> None:
    from midcourse import Settings
    from midcourse.server import CallerLimits, Server
    from midcourse.server.agent_loader import load_agents_of
    from midcourse.server.console_files import BUILT
    from midcourse.server.launcher import ListenOptions, exit_now, link_to, listen, run, token_of
    from midcourse.server.logs import configure_logs

    # What tools start must not inherit it.
    os.environ.pop(TOKEN_VARIABLE, None)
    declared = _prices(prices, demo=demo)
    folder = _folder_of(store)
    configure_logs()
    names = load_agents_of(agents)
    if demo:
        names += _samples()
    if not names:
        print_lines("No agents are served: give --agents or --demo. You can still watch and steer sessions.")
    spans = None if traces == "none" else _spans(content=traces == "content")
    given = token_of(folder, token)
    place = ListenOptions(folder=folder, host=host, port=port, is_token_given=token is not None, store=store)
    listening = listen(place, print_lines)
    settings = Settings(
        policy=policy,
        risk_model=str(risk_model or ""),
        prices=declared,
        keep_for=keep_for,
        world_after=world_after,
    )
    server = Server(
        store=store,
        token=given,
        allowed_hosts=[host, *allow_host],
        allowed_origins=allow_origin,
        redis=redis,
        settings=settings,
        review_every=review_every,
        escalate_to=escalate_to,
        grace=grace,
        drain_delay=drain_delay,
        root_path=root_path,
        limits=CallerLimits(head_seconds=request_timeout),
        metrics_open=metrics_open,
        meter=spans,
    )

    again = (
        "midcourse browser link" if store == DEFAULT_STORE else f"midcourse browser link --store {shlex.quote(store)}"
    )

    async def ready(url: str) -> None:
        print_lines(f"Midcourse serves {', '.join(names) or 'no agents'}.", f"  store  {_where(server, store)}")
        print_verbatim(f"  API    {url}/api/v1   (the addresses: {url}/api/v1/openapi.json)")
        if sys.stdout.isatty():
            print_verbatim(f"  open   {link_to(url, await server.login_code())}")
            print_lines(f"         It works once, within a minute. For another one: {again}")
        else:  # a log, which others may read
            print_lines(f"  open   the link that this prints: {again}")
        if server.root_path:
            print_lines(f"  proxy  the same below {server.root_path}, at the proxy's address")
        if not (BUILT / "index.html").is_file():
            print_lines(
                "  The console is not in this installation: run make console in a clone, or install a released wheel."
            )
        print_lines(
            "  log    logs/app.log", "Ctrl-C stops the server and cancels nothing: sessions continue with the next one."
        )
        if host not in ("127.0.0.1", "localhost", "::1"):
            print_lines("This is reachable from other machines, without TLS: put a proxy with TLS in front of it.")

    parked = run(server, place, listening, ready=ready)
    if spans is not None:
        spans.close()
    _goodbye(parked)
    exit_now()


def _prices(path: Path | None, *, demo: bool) -> "dict[str, Price]":
    from midcourse.policy.price_list import read_prices

    own: dict[str, Price] = {}
    if demo:
        os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
        from midcourse.samples.models import PRICES

        own = dict(PRICES)
    return own | (read_prices(path) if path is not None else {})


def _spans(*, content: bool) -> "Spans":
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        from midcourse.telemetry.spans import Spans
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"'{error.name}' is missing, which spans need. Install it: pip install 'midcourse[otel]'.", field="traces"
        ) from error
    return Spans.to(OTLPSpanExporter(), content=content)


def _goodbye(parked: int) -> None:
    again = shlex.join(["midcourse", *_without_token(sys.argv[1:])])
    were = (
        f"{parked} session{'s were' if parked != 1 else ' was'} stopped, none cancelled"
        if parked
        else "Nothing was running"
    )
    print_lines(f"{were}. To continue: {again}")


def _without_token(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without a typed token, which must not appear on the screen."""
    kept: list[str] = []
    for before, one in zip(["", *arguments], arguments, strict=False):
        if before != "--token" and one != "--token" and not one.startswith("--token="):
            kept.append(one)
    return kept


def _where(server: "Server", store: str) -> str:
    path = store_path(store)
    survives = server.durability
    kept = {"power": "survives a power cut", "process": "survives a kill", "nothing": "gone with this process"}[
        survives
    ]
    return f"{path or store}   ({kept})"


def _samples() -> list[str]:
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    from midcourse.samples.catalog import SAMPLES

    return [one.name for one in SAMPLES]


def _folder_of(store: str) -> Path:
    """Make and return the folder of a store's token, and the store's own."""
    path = store_path(store)
    if path is None:
        return FOLDER
    folder = server_folder(store)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"The folder {path.parent} cannot be made ({error.strerror or error}). Name another store with --store.",
            field="store",
        ) from error
    return folder


add("serve", "Serve the API and the console, and run agents.", serve, STORE)


@command("browser link", "Print a link that logs a browser in, once.", has_json=False)
async def link(call: Call) -> None:
    """Print a link that logs a browser in. It works once, within a minute.

    For a server of this folder the browser gets the role operate. With --token, or MIDCOURSE_TOKEN, it gets the
    permissions of that token.

    \b
    Examples:
      midcourse browser link
      midcourse browser link --url https://agents.example.org
    """
    from midcourse.server.launcher import token_of

    url, token = call.server, call.token or os.environ.get(TOKEN_VARIABLE)
    if url is not None:
        token = token or token_for(call, url)
    else:
        store = call.store or DEFAULT_STORE
        folder = _folder_of(store)
        found = whereabouts(folder, store)
        if found is None:
            raise MidcourseError(
                f"No server runs for {store}.{others(store)} Start one with: midcourse serve", code="server_not_running"
            )
        if found.is_token_given and not token:
            raise MidcourseError(
                f"The server at {found.url} was started with a token of yours, which is kept nowhere. "
                f"Put it into {TOKEN_VARIABLE}, and run this again.",
                code="token_not_kept",
            )
        url, token = found.url, token or token_of(folder, None)
    async with midcourse.connect(url, token=token, patience=0) as remote:
        print_verbatim(await remote.login_link())
