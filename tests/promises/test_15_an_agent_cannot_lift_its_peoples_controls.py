"""Promise 15: an agent cannot lift its people's controls. Neither its code, nor its tools, nor its token can."""

import ast
import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import httpx2
import pytest
from msgspec.structs import replace

import midcourse
from midcourse.analysis.reports import review
from midcourse.core import commands as cmd
from midcourse.core.agent_rights import RIGHTS
from midcourse.core.codec import Value, encode, inline
from midcourse.core.ids import AskId, CommandId, MessageId, PauseId, SessionId
from midcourse.core.session import Session
from midcourse.core.terms import Terms
from midcourse.errors import MidcourseError, Refused
from midcourse.handle import Midcourse, SessionHandle
from midcourse.people.outbox import Outbox
from midcourse.people.webhooks import Webhook
from midcourse.policy import versions
from midcourse.policy.profiles import STANDARD
from midcourse.ports.sender import AGENT_HEADER, agent_here
from midcourse.server.tokens import TokenStore
from midcourse.tools.shell import shell_in
from tests.promises.a_tool import in_a_process
from tests.promises.harness import Place, resumable, silence, until_state, until_status, until_true
from tests.properties.test_agents import controls, kept
from tests.server.live_server import TOKEN
from tests.server.stream_reader import Latch, served
from tests.server.stream_reader import until_status as until_shown
from tests.unit.core.stories import STOP

ROLES: Final[tuple[cmd.Role, ...]] = get_args(cmd.Role)
KINDS: Final[tuple[type[cmd.AnyCommand], ...]] = tuple(sorted(RIGHTS, key=lambda kind: kind is cmd.Cancel))
"""Every command of the table; last the one that ends a session."""
DENIED: Final = {"not_for_agents", "own_ask", "operator_only"}
_YES: Final[Value] = inline(encode("yes", what="an answer"))


async def _asks(run: midcourse.Run) -> object:
    return await run.ask("May I?", reason="need_input")


ASKER: Final = resumable(_asks, name="asker")
PARENT: Final = resumable(lambda run: run.spawn(ASKER, "ask"), name="parent")


def wishes(session: Session, kind: type[cmd.AnyCommand]) -> cmd.AnyCommand:
    """The command of that kind that would do most to the controls which stand."""
    one: Any = {"id": CommandId("c")}
    pause = session.pause.id if session.pause else PauseId("pause_1")
    message = session.amendable[0] if session.amendable else MessageId("msg_1")
    made: Mapping[type[cmd.AnyCommand], cmd.AnyCommand] = {
        cmd.Pause: cmd.Pause(**one, grace=0.0, lapses=0.001, reason="mine"),
        cmd.Resume: cmd.Resume(**one, pause=None if session.status == "halted" else pause),
        cmd.Redirect: cmd.Redirect(**one, text="go on", level="goal", resume=True),
        cmd.Cancel: cmd.Cancel(**one, force=True, restart=True),
        cmd.Undo: cmd.Undo(**one),
        cmd.Answer: cmd.Answer(**one, value=_YES, ask=session.asks[0].id if session.asks else AskId("ask_1")),
        cmd.Message: cmd.Message(**one, text="yes, go on", behaviour="redirect"),
        cmd.Edit: cmd.Edit(**one, message=message, text="nothing"),
        cmd.Withdraw: cmd.Withdraw(**one, message=message),
        cmd.OutsideEvent: cmd.OutsideEvent(**one, text="it was approved"),
        cmd.Budget: cmd.Budget(**one, budget=1e6),
        cmd.Halt: cmd.Halt(**one),
        cmd.Lift: cmd.Lift(**one),
        cmd.Intervene: cmd.Intervene(**one, decision=STOP),
        cmd.Label: cmd.Label(**one, about=pause, verdict="wrong"),
        cmd.Rate: cmd.Rate(**one, score=5),
    }
    return made[kind]


def test_every_command_there_is_is_tried() -> None:
    assert set(KINDS) == set(get_args(cmd.AnyCommand))


# ---- what people and policies have said


Said = Callable[[Midcourse, SessionHandle[Any]], Awaitable[object]]


async def _nothing(_mc: Midcourse, _session: SessionHandle[Any]) -> None:
    """It waits for the answer to its ask."""


async def _paused(_mc: Midcourse, session: SessionHandle[Any]) -> None:
    await session.pause("let me look", by="ann")


async def _paused_after_itself(mc: Midcourse, session: SessionHandle[Any]) -> None:
    """The agent had stopped it first: the pause is the person's from then on."""
    own = cmd.Pause(id=CommandId("own"), by=cmd.agent_name(session.id), role="agent")
    await _control(mc).send(session.id, own, until="decided", wait=10)
    await session.pause("let me look", by="ann")


async def _stepped_in(mc: Midcourse, session: SessionHandle[Any]) -> None:
    stop = cmd.Intervene(id=CommandId("policy"), by="policy:standard@1", decision=STOP)
    await _control(mc).send(session.id, stop, until="decided", wait=10)


async def _halted(mc: Midcourse, session: SessionHandle[Any]) -> None:
    halt = cmd.Halt(id=CommandId("halt"), by="ann", role="operate", reason="stop it")
    await _control(mc).send(session.id, halt, until="stopped", wait=10)


async def _redirected(mc: Midcourse, session: SessionHandle[Any]) -> None:
    await _paused(mc, session)
    await session.redirect("in French", level="goal", by="ann")


async def _queued(_mc: Midcourse, session: SessionHandle[Any]) -> None:
    await session.message("then the appendix", by="ann")


async def _cancelled(_mc: Midcourse, session: SessionHandle[Any]) -> None:
    await session.cancel("no", by="ann", until="stopped")


SAID: Final[Mapping[str, Said]] = {
    "an ask": _nothing,
    "a pause": _paused,
    "a pause over its own": _paused_after_itself,
    "a policy's stop": _stepped_in,
    "a halt": _halted,
    "a redirect": _redirected,
    "a queued message": _queued,
    "a cancel": _cancelled,
}


def _control(mc: Midcourse) -> Any:
    return mc._control  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as a server would, with any role


async def _waiting(mc: Midcourse, agent: midcourse.Agent[Any]) -> SessionHandle[Any]:
    """A session that waits for an ask, or the child of one."""
    session: SessionHandle[Any] = await mc.start(agent, "report", terms=Terms(budget=1.0))
    if agent is not PARENT:
        await until_status(session, "waiting")
        return session
    return await mc.get((await until_state(session, lambda state: bool(state.child_asks))).child_asks[0].child)


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("whose", ["itself", "its parent", "its child", "a stranger"])
async def test_whatever_it_sends_the_controls_of_others_stand(place: Place, said: str, whose: str) -> None:
    """Every command × every role that a credential may claim × everything that people and policies say."""
    async with place.open(PARENT, ASKER) as mc:
        session = await _waiting(mc, PARENT if whose == "its parent" else ASKER)
        agents = {"its parent": session.id.partition(".")[0], "its child": f"{session.id}.0123", "a stranger": "sess_x"}
        by = cmd.agent_name(agents.get(whose, session.id))
        await SAID[said](mc, session)
        number = 0
        for kind in KINDS:
            for role in ROLES:
                number += 1
                before = await session.state()
                wish = replace(wishes(before, kind), id=CommandId(f"try_{number}"), by=by, role=role)
                code = ""
                try:
                    await _control(mc).send(session.id, wish, until="decided", wait=10)
                except Refused as refused:
                    code = refused.code
                after = await session.state()
                was, now = (controls(one, by, cancels=False) for one in (before, after))
                assert kept(was, now), (kind, role, code)
                right = RIGHTS[kind]
                is_listed = {"itself": right.itself, "its parent": right.child}.get(whose, False)
                assert code in DENIED or is_listed, (kind, role, code)


async def test_what_it_has_stopped_itself_it_lifts_itself(place: Place) -> None:
    """The list is no wall: it stops itself and goes on, says something, and ends; a parent does so with its child."""
    async with place.open(PARENT, ASKER) as mc:
        child = await _waiting(mc, PARENT)
        for by in (cmd.agent_name(child.id), cmd.agent_name(child.id.partition(".")[0])):
            paused = await child.pause(by=by)
            assert paused.status == "paused"
            said = await child.message("a note", by=by)
            assert said.message is not None
            await child.edit(said.message, "another note", by=by)
            await child.withdraw(said.message, by=by)
            assert (await child.resume(paused.pause, by=by)).status == "waiting"
        assert (await child.cancel(by=by, until="stopped")).status == "cancelled"


# ---- over HTTP


Requests = Callable[[Session], list[tuple[str, str, Any]]]


def _to(path: str, body: dict[str, Any] | None = None, method: str = "POST") -> Requests:
    def made(session: Session) -> list[tuple[str, str, Any]]:
        pause = session.pause.id if session.pause else "pause_1"
        message = session.amendable[0] if session.amendable else "msg_1"
        ask = session.asks[0].id if session.asks else "ask_1"
        names = {"id": session.id, "message": message, "pause": pause, "ask": ask, "switch": session.switch or "none"}
        sent = {
            name: value.format(**names) if isinstance(value, str) else value for name, value in (body or {}).items()
        }
        return [(method, path.format(**names), sent)]

    return made


def _each(*several: Requests) -> Requests:
    return lambda session: [one for requests in several for one in requests(session)]


def _many(verb: str) -> Requests:
    return lambda session: [("POST", "/sessions/bulk", {"verb": verb, "sessions": [session.id]})]


_ALL: Final = {"scope": {"kind": "all", "value": ""}, "reason": "mine"}
REQUESTS: Final[Mapping[type[cmd.AnyCommand], Requests]] = {
    cmd.Pause: _each(_to("/sessions/{id}/pause", {"grace": 0, "lapses": 0.001, "reason": "mine"}), _many("pause")),
    cmd.Resume: _each(
        _to("/sessions/{id}/resume"), _to("/sessions/{id}/resume", {"pause": "{pause}"}), _many("resume")
    ),
    cmd.Redirect: _to("/sessions/{id}/redirect", {"text": "go on", "level": "goal", "resume": True}),
    cmd.Cancel: _each(_to("/sessions/{id}/cancel", {"force": True, "restart": True}), _many("cancel")),
    cmd.Undo: _to("/sessions/{id}/undo"),
    cmd.Answer: _each(
        _to("/sessions/{id}/answer", {"value": "yes", "ask": "{ask}"}),
        _to("/chat/resume", {"session_id": "{id}", "answer": "yes", "ask_id": "{ask}"}),
    ),
    cmd.Message: _each(
        _to("/sessions/{id}/message", {"text": "yes, go on", "behaviour": "redirect"}),
        _to("/chat", {"agent": "asker", "message": "yes, go on", "session_id": "{id}"}),
        _to("/chat", {"agent": "asker", "message": "yes, go on"}),
    ),
    cmd.Edit: _to("/sessions/{id}/messages/{message}", {"text": "nothing"}, "PATCH"),
    cmd.Withdraw: _to("/sessions/{id}/messages/{message}", method="DELETE"),
    cmd.OutsideEvent: _to("/sessions/{id}/event", {"text": "it was approved"}),
    cmd.Budget: _to("/sessions/{id}/budget", {"budget": 1e6}),
    cmd.Halt: _to("/kill-switches", _ALL),
    cmd.Lift: _each(
        _to("/kill-switches/{switch}/lift", {"why": "mine"}), _to("/kill-switches/{switch}/release"), _many("lift")
    ),
    # No address sends one by itself: what makes policies does.
    cmd.Intervene: _each(
        _to("/policies/standard", {"document": "policy: standard", "why": "mine"}, "PUT"),
        _to("/proposals/none/accept", {"why": "mine"}),
    ),
    cmd.Label: _to("/sessions/{id}/label", {"about": "{pause}", "verdict": "wrong"}),
    cmd.Rate: _to("/sessions/{id}/rate", {"score": 5}),
}
"""How each command is sent over HTTP, in every way there is."""
BESIDE: Final = _each(
    _to("/sessions", {"agent": "asker"}),
    _to("/sessions/{id}/fork"),
    _to("/sessions/{id}/payloads", method="DELETE"),
    _to("/inbox/{id}/{ask}/own"),
    _to("/inbox/hand-over", {"to": "me", "seconds": 60}),
    _to("/tokens", {"name": "mine", "role": "operate"}),
    _to("/tokens/code-operate", method="DELETE"),
    _to("/webhooks", {"url": "https://example.org/", "kinds": ["review.proposed"]}),
)
"""What would get round a control without being a command to the session."""


async def _say(host: httpx2.AsyncClient, server: Any, session: str, said: str) -> None:
    """What people and policies say, over HTTP as far as they do it so."""

    async def post(verb: str, **body: object) -> None:
        assert (await host.post(f"/sessions/{session}/{verb}", json=body)).status_code == 200

    match said:
        case "a pause" | "a redirect" | "a pause over its own":
            if said == "a pause over its own":
                own = await _token(host, "first", session)
                async with server.client(own) as agent:
                    assert (await agent.post(f"/sessions/{session}/pause", json={})).status_code == 200
            await post("pause", reason="let me look")
            if said == "a redirect":
                await post("redirect", text="in French", level="goal")
        case "a policy's stop":
            stop = cmd.Intervene(id=CommandId("policy"), by="policy:standard@1", decision=STOP)
            store = server.server.local.worker.store
            await store.put(SessionId(session), stop.id, cmd.encode_command(stop), 1.0)
            await until_shown(host, session, "paused")
        case "a halt":
            agent = (await host.get(f"/sessions/{session}")).json()["agent"]
            switch = {"scope": {"kind": "agent", "value": agent}, "reason": "stop it"}
            assert (await host.post("/kill-switches", json=switch)).status_code == 201
            await until_shown(host, session, "halted")
        case "a queued message":
            await post("message", text="then the appendix")
        case "a cancel":
            await post("cancel", reason="no")
            await until_shown(host, session, "cancelled")
        case _:
            pass


async def _token(host: httpx2.AsyncClient, name: str, session: str | None = None, role: str = "operate") -> str:
    made = await host.post("/tokens", json={"name": name, "role": role, "session": session})
    assert made.status_code == 201, made.text
    return str(made.json()["token"])


async def _family(host: httpx2.AsyncClient, whose: str) -> tuple[str, str]:
    """The session that the controls stand over, and the one whose agent tries to lift them."""

    async def began(agent: str) -> str:
        return str((await host.post("/sessions", json={"agent": agent, "goal": "report"})).json()["id"])

    if whose in ("its own", "a stranger's"):
        session = await began("asker")
        await until_shown(host, session, "waiting")
        return session, session if whose == "its own" else await began("asker")
    parent = await began("parent")
    while not (asks := (await host.get(f"/sessions/{parent}")).json()["child_asks"]):
        await asyncio.sleep(0.005)
    child = str(asks[0]["child"])
    return (child, parent) if whose == "its parent's" else (parent, child)


async def _credentials(host: httpx2.AsyncClient, agent: str) -> dict[str, dict[str, str]]:
    """Everything that an agent can hold: its token, whatever role was asked for; people's tokens, in its own code."""
    headers: dict[str, dict[str, str]] = {}
    for role in ("watch", "steer", "approve", "operate"):
        for kind, own in (("token", agent), ("code", None)):
            token = await _token(host, f"{kind}-{role}", own, role)
            said = {} if own else {AGENT_HEADER: agent}
            headers[f"{kind} {role}"] = {"Authorization": f"Bearer {token}", **said}
    return headers


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("whose", ["its own", "its parent's", "its child's", "a stranger's"])
async def test_no_credential_of_it_lifts_a_control_over_http(memory: Place, said: str, whose: str) -> None:
    """Every address that sends a command, or gets round one × everything that an agent can hold."""
    assert REQUESTS.keys() == RIGHTS.keys()
    with served(memory, PARENT, ASKER) as server:
        async with server.client() as host, httpx2.AsyncClient(base_url=f"{server.url}/api/v1", timeout=30) as anybody:
            session, agent = await _family(host, whose)
            await _say(host, server, session, said)
            by = cmd.agent_name(agent)
            control = server.server.local
            assert control is not None
            credentials = await _credentials(host, agent)
            tokens = (await host.get("/tokens")).json()["tokens"]
            sessions = {one["id"] for one in (await host.get("/sessions")).json()["sessions"]}
            for kind in (*KINDS, None):
                right = RIGHTS.get(kind) if kind is not None else None
                may = right is not None and {"its own": right.itself, "its parent's": right.child}.get(whose, False)
                for name, headers in credentials.items():
                    before = await control.state(SessionId(session))
                    for method, path, body in (BESIDE if kind is None else REQUESTS[kind])(before):
                        async with anybody.stream(method, path, json=body, headers=headers) as response:
                            granted = response.status_code < 400
                            if not granted:
                                await response.aread()  # so that the connection is used again
                        after = await control.state(SessionId(session))
                        was, now = (controls(one, by, cancels=False) for one in (before, after))
                        assert kept(was, now), (name, path, response.status_code)
                        is_chat = path == "/chat" and kind is cmd.Message and "session_id" in body
                        assert not granted or (may and (is_chat or f"/sessions/{session}" in path)), (name, path)
            assert {one["id"] for one in (await host.get("/sessions")).json()["sessions"]} == sessions
            assert (await host.get("/tokens")).json()["tokens"] == tokens


# ---- its own code


async def _every_verb(mc: Any, session: Any, told: dict[str, MidcourseError | None]) -> None:
    """Whatever the handles and their parts offer that would lift a person's control, or get round it."""
    shown, store = await session.state(), _control(mc).worker.store
    tokens, outbox = TokenStore(store, _control(mc).worker.clock, local=TOKEN), Outbox(store)
    hook = Webhook(id="wh_1", tenant=None, url="https://example.org/", kinds=("*",), by="ann", added_at=1.0)
    named = replace(STANDARD, name="mine", version=0)
    tries: dict[str, Callable[[], Awaitable[object]]] = {
        "resume": lambda: session.resume(by="ann"),
        "redirect": lambda: session.redirect("go on", level="goal", resume=True, by="ann"),
        "message": lambda: session.message("go on", behaviour="redirect", by="ann"),
        "answer": lambda: session.answer("yes", by="ann"),
        "edit": lambda: session.edit(shown.amendable[0], "nothing", by="ann"),
        "withdraw": lambda: session.withdraw(shown.amendable[0], by="ann"),
        "raise_budget": lambda: session.raise_budget(1e6, by="ann"),
        "lift": lambda: session.lift(by="ann"),
        "label": lambda: session.label("pause_1", "wrong", by="ann"),
        "rate": lambda: session.rate(5, by="ann"),
        "undo": lambda: session.undo(by="ann"),
        "force": lambda: session.cancel(force=True, restart=True, by="ann"),
        "fork": lambda: session.fork(by="ann"),
        "erase": lambda: session.erase(by="ann"),
        "start": lambda: mc.start("asker", "the same", by="ann"),
        "bulk": lambda: mc.bulk("resume", [session.id], by="ann"),
        "kill switch": lambda: mc.kill_switch.throw(midcourse.Scope("all"), "mine", by="ann"),
        "lift switch": lambda: mc.kill_switch.lift("ks_1", "mine", by="ann"),
        "release": lambda: mc.kill_switch.release("ks_1", by="ann"),
        "save a policy": lambda: versions.save(store, named, by="ann", why="mine", now=1.0),
        "accept": lambda: review.accept(store, "prop_1", by="ann", why="mine", now=1.0),
        "refuse": lambda: review.refuse(store, "prop_1", by="ann", why="mine", now=1.0),
        "add webhook": lambda: outbox.add(hook),
        "remove webhook": lambda: outbox.remove(hook, by="ann", now=1.0),
        "add token": lambda: tokens.add("mine", "operate"),
        "revoke token": lambda: tokens.revoke("ann"),
        "own": lambda: mc.own(session.id, "ask_1", "bob", by="ann"),
        "hand over": lambda: mc.hand_over("bob", by="ann"),
        "reviewed": lambda: mc.reviewed(session.id, "report.md", by="ann"),
        "prune": lambda: mc.prune_audit(0.0, by="ann"),
        "erase older": lambda: mc.erase_older(0, by="ann"),
    }
    for name, attempt in tries.items():
        try:
            await attempt()
        except MidcourseError as error:
            told[name] = error
        else:
            told[name] = None


def _guarded() -> set[str]:
    """What the source keeps from agents that is no command: the words of every ``check_people_send``."""
    found: set[str] = set()
    for path in Path(midcourse.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "check_people_send":
                words = node.args[1]
                found.add(words.value if isinstance(words, ast.Constant) else "a proposal")  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("where", ["agent", "async tool", "thread", "another opening"])
async def test_its_own_code_is_the_agents_whatever_handle_it_has(place: Place, where: str) -> None:
    """The handle that the program has, or another opening of the store, with whatever name in ``by``."""
    said, entered, tried, told = Latch(), Latch(), Latch(), dict[str, MidcourseError | None]()
    program: dict[str, Any] = {}

    async def attempt() -> str:
        entered.set()
        await said.wait()
        if where in ("agent", "async tool"):
            await _every_verb(program["mc"], program["session"], told)
        else:
            async with place.open(drive=False) as other:
                await _every_verb(other, await other.get(program["session"].id), told)
        tried.set()
        return "tried"

    def in_a_thread() -> str:
        return asyncio.run(attempt())

    async def agent(run: midcourse.Run) -> object:
        if where == "agent":
            return await attempt()
        return await run.step("try", in_a_thread if where == "thread" else attempt)

    async with place.open(resumable(agent), ASKER) as mc:
        session: SessionHandle[Any] = await mc.start("agent", "report", terms=Terms(budget=1.0))
        program |= {"mc": mc, "session": session}
        await entered.wait()
        await session.pause("let me look", by="ann", until="decided")
        await session.redirect("in French", by="ann")
        before = await session.state()
        said.set()
        await tried.wait()
        after = await session.state()
        assert {error and error.code for error in told.values()} <= DENIED | {"not_allowed"}, told
        words = " ".join(error.message for error in told.values() if error)
        assert [one for one in _guarded() if one not in words] == [], "what is kept from agents is tried"
        by = cmd.agent_name(session.id)
        assert kept(controls(before, by, cancels=False), controls(after, by, cancels=False))
        assert [head.id for head in await mc.list()] == [session.id]


SEEN: Final[dict[str, SessionId | None]] = {}
"""Which agent's code each of a tool's own functions was, by what it is."""


def _let_go() -> None:
    SEEN["release"] = agent_here()


async def _let_go_later() -> None:
    SEEN["release on the loop"] = agent_here()


async def test_what_rolls_back_looks_and_lets_go_for_it_is_the_agents_too(place: Place) -> None:
    """Undos, probes and releases, on the loop and in threads: also after another process has taken the session."""
    SEEN.clear()
    begun, never = Latch(), asyncio.Event()

    def undo(_arguments: object, _result: object, _key: str) -> None:
        SEEN["undo"] = agent_here()

    async def undo_later(_arguments: object, _result: object, _key: str) -> None:
        SEEN["undo on the loop"] = agent_here()

    def probe(_arguments: object, _key: str) -> bool:
        SEEN["probe"] = agent_here()
        return True

    @midcourse.tool(effect="write", undo=undo)
    async def first() -> None:
        pass

    @midcourse.tool(effect="write", undo=undo_later)
    async def second() -> None:
        pass

    @midcourse.tool(effect="write", probe=probe, settle=0)
    async def last() -> None:
        begun.set()
        await never.wait()

    async def works(run: midcourse.Run) -> None:
        await run.hold("lock", _let_go)
        await run.hold("draft", _let_go_later)
        await run.step("first", first)
        await run.step("second", second)
        await run.step("last", last)

    agent = resumable(works)
    async with place.open(agent, store=(store := await place.store())) as mc:
        session: SessionHandle[Any] = await mc.start(agent)
        await begun.wait()
        silence(mc, session.id)
        store.abandon()  # as if its process had been killed: the last call is lost
        async with place.open(drive=False) as other:
            await (await other.get(session.id)).cancel(undo="all", grace=0)
        async with place.open(agent) as third:
            await until_status(await third.get(session.id), "cancelled")

    names = {"undo", "undo on the loop", "probe", "release", "release on the loop"}
    assert dict.fromkeys(names, session.id) == SEEN
    assert agent_here() is None, "people cancelled it, and are people still"


async def test_what_its_tools_start_is_the_agents_too(tmp_path: Path) -> None:
    """A tool in a process of its own, and the command line in the shell tool."""
    place, shell = Place("sqlite", tmp_path), shell_in(tmp_path)

    async def agent(run: midcourse.Run) -> object:
        told = [await run.step("process", in_a_process, place.url, "sess_own")]
        for wish in (
            "redirect sess_own left --level step",
            "resume sess_own --budget 9",
            "token add mine --role operate",
        ):
            ran = await run.step(wish, shell.run, f"{sys.executable} -m midcourse {wish} --store {place.url}")
            told.append(f"{ran.returncode} {ran.stderr}")
        return told

    async with place.open(resumable(agent)) as mc:
        session: SessionHandle[Any] = await mc.start("agent", session_id="sess_own", terms=Terms(budget=1.0))
        process, *commands = await session.result()
        assert process == "not_for_agents"
        assert all(one.startswith("1 ") and "(not_for_agents)" in one for one in commands), commands
        state = await session.state()
        assert (state.terms.budget, len(state.messages)) == (1.0, 1)


async def test_a_persons_token_in_its_own_code_is_the_agents(tmp_path: Path) -> None:
    """``midcourse.connect`` with the server's own token, from the agent's code: it sends as the agent all the same."""
    told: dict[str, str] = {}
    paused, place = Latch(), {"url": "", "session": ""}

    async def agent(run: midcourse.Run) -> object:
        await paused.wait()
        async with midcourse.connect(place["url"], token=TOKEN) as mc:
            session = await mc.get(place["session"])
            for name, attempt in {
                "resume": session.resume,
                "raise_budget": lambda: session.raise_budget(9),
                "lift": session.lift,
                "start": lambda: mc.start("agent", "the same"),
                "fork": session.fork,
            }.items():
                try:
                    await attempt()
                except MidcourseError as error:
                    told[name] = error.code
                else:
                    told[name] = "granted"
        return "tried"

    with served(Place("memory", tmp_path), resumable(agent)) as server:
        place["url"] = server.url
        async with server.client() as host:
            session = place["session"] = (await host.post("/sessions", json={"agent": "agent"})).json()["id"]
            await until_shown(host, session, "running")
            await host.post(f"/sessions/{session}/pause", json={"wait": 0})
            paused.set()
            await until_true(lambda: len(told) == 5)
            assert set(told.values()) == {"not_for_agents"}, told
            shown = (await host.get(f"/sessions/{session}")).json()
            assert shown["pause"]["by"] == "local"


async def test_an_agent_keeps_a_store_of_its_own(place: Place, tmp_path: Path) -> None:
    """What it does there is no people's business: it tests a program that uses Midcourse, say."""

    async def agent(run: midcourse.Run) -> object:
        async with Place("sqlite", tmp_path / "own").open(ASKER) as own:
            session: SessionHandle[Any] = await own.start(ASKER, "mine")
            await until_status(session, "waiting")
            await session.pause(by="ann")
            await session.resume(by="bob")
            await session.answer("yes")
            return await session.result()

    (tmp_path / "own").mkdir()
    async with place.open(resumable(agent)) as mc:
        assert await (await mc.start("agent")).result() == "yes"
