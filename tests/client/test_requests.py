"""A request reaches its server once, whatever the connection does; and every way it can fail is a sentence."""

import asyncio
import logging
import sys

import pytest

import midcourse
from midcourse import errors
from midcourse.core.session import Status
from tests.client.scripted_server import HANG_UP, SESSION, Asked, problem, reply, said, scripted, session

TOKEN = "mct_0123456789abcdef"


async def test_nobody_at_the_address_is_said_at_once_with_what_to_do() -> None:
    async with scripted(HANG_UP) as server:
        url = server.url
    async with midcourse.connect(url, patience=3600) as remote:
        with pytest.raises(midcourse.ServerUnreachable, match="midcourse serve") as refused:
            await remote.list()
    assert url in str(refused.value)
    assert refused.value.code == "server_unreachable"


async def test_a_stop_whose_connection_is_lost_is_sent_again_as_the_same_command() -> None:
    async with scripted(session(), HANG_UP, HANG_UP, reply()) as server, midcourse.connect(server.url) as remote:
        handle = await remote.get(SESSION)
        told = await handle.pause("look", grace=3)
    assert told.level == "stopping"
    tries = server.asked[1:]
    assert len(tries) == 3
    assert {one.headers["idempotency-key"] for one in tries} == {tries[0].headers["idempotency-key"]}
    sent = tries[-1].json()
    assert sent == {"reason": "look", "grace": 3, "lapses": None, "until": "stopping", "wait": sent["wait"]}
    assert isinstance(sent["wait"], int | float)
    assert 0 <= sent["wait"] <= 10


async def test_a_command_id_is_what_is_sent_as_the_key() -> None:
    async with scripted(session(), reply()) as server, midcourse.connect(server.url) as remote:
        await (await remote.get(SESSION)).resume("pause_1", command_id="my-click-7")
    assert server.asked[1].headers["idempotency-key"] == "my-click-7"
    assert server.asked[1].path == "/api/v1/sessions/sess_1/resume"


@pytest.mark.parametrize("named", ["", "ä", "a\nb", "x" * 129])
async def test_a_command_id_that_no_header_can_hold_is_refused(named: str) -> None:
    async with scripted(session()) as server, midcourse.connect(server.url) as remote:
        handle = await remote.get(SESSION)
        with pytest.raises(midcourse.InvalidInput) as refused:
            await handle.pause(command_id=named)
    assert refused.value.fields["field"] == "command_id"
    assert len(server.asked) == 1


async def test_a_server_that_stays_away_is_given_up_and_the_sentence_says_how_to_ask_again() -> None:
    async with scripted(session(), HANG_UP) as server, midcourse.connect(server.url, patience=0.3) as remote:
        handle = await remote.get(SESSION)
        with pytest.raises(midcourse.ServerUnreachable, match="command_id='again'"):
            await handle.cancel(command_id="again")


async def test_a_stop_that_finds_its_server_being_restarted_waits_for_it() -> None:
    async with scripted(session()) as server:
        client = midcourse.connect(server.url)
        handle = await (await client.__aenter__()).get(SESSION)
    stopping = asyncio.ensure_future(handle.pause())
    await asyncio.sleep(0.4)
    async with scripted(reply(), port=server.port):
        assert (await stopping).level == "stopping"
    await client.__aexit__(None, None, None)


async def test_a_session_under_a_name_of_ones_own_is_not_started_twice() -> None:
    async with scripted(HANG_UP, session()) as server, midcourse.connect(server.url) as remote:
        with pytest.raises(midcourse.ServerUnreachable):
            await remote.start("a", "g", session_id="mine")
    assert len(server.asked) == 1
    async with scripted(HANG_UP, session()) as server, midcourse.connect(server.url) as remote:
        await remote.start("a", "g")
    assert server.asked[0].headers["idempotency-key"] == server.asked[1].headers["idempotency-key"]


async def test_who_waits_longer_than_a_server_does_asks_again_under_the_same_id() -> None:
    answers = (session(), reply(), reply(), reply("stopped", Status.PAUSED))
    async with scripted(*answers) as server, midcourse.connect(server.url) as remote:
        told = await (await remote.get(SESSION)).pause(until="stopped", wait=1000)
    assert told.level == "stopped"
    assert [one.json()["wait"] for one in server.asked[1:]] == [60, 60, 60]
    assert len({one.headers["idempotency-key"] for one in server.asked[1:]}) == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(409, "already_resumed", allowed=["pause", "cancel"], status_now="running"), errors.Refused),
        (problem(409, "session_ended"), errors.Refused),
        (problem(404, "ask_not_found"), errors.Refused),
        (problem(403, "own_ask"), errors.Refused),
        (problem(403, "approver_only"), errors.Refused),
        (problem(412, "precondition_failed"), errors.Refused),
        (problem(422, "command_id_taken"), errors.Refused),
        (problem(404, "session_not_found", session_id="x"), errors.SessionNotFound),
        (problem(422, "invalid_input", field="text"), errors.InvalidInput),
        (problem(422, "agent_unavailable"), errors.AgentUnavailable),
        (problem(401, "unauthorized"), errors.AccessDenied),
        (problem(403, "forbidden"), errors.AccessDenied),
        (problem(429, "too_many_requests"), errors.AccessDenied),
        (problem(503, "store_unavailable"), errors.StoreUnavailable),
        (problem(507, "store_full"), errors.StoreFull),
        (problem(409, "session_exists"), errors.StoreError),
        (problem(500, "damaged"), errors.Damaged),
        (problem(500, "internal_error"), errors.MidcourseError),
    ],
)
async def test_an_error_comes_back_as_the_same_class_with_the_same_sentence(
    answer: bytes, kind: type[errors.MidcourseError]
) -> None:
    async with scripted(session(), answer) as server, midcourse.connect(server.url) as remote:
        handle = await remote.get(SESSION)
        with pytest.raises(errors.MidcourseError) as raised:
            await handle.redirect("another way")
    assert type(raised.value) is kind
    assert str(raised.value) == "It is so."
    assert raised.value.code in answer.decode()
    if raised.value.code == "already_resumed":
        assert isinstance(raised.value, errors.Refused)
        assert raised.value.allowed == ("pause", "cancel")
        assert raised.value.fields["status"] == "running"


@pytest.mark.parametrize(
    "answer",
    [
        said(b"<h1>Bad gateway</h1>", 502, "text/html"),
        said(b"<h1>Welcome</h1>", 200, "text/html"),
        said([1, 2], 404),
        said({"code": 3, "detail": None}, 409),
        said(b"\xff\xfe", 500),
        said({"id": 5}, 200),
    ],
)
async def test_something_else_at_the_address_is_told_from_a_server(answer: bytes) -> None:
    async with scripted(answer) as server, midcourse.connect(server.url) as remote:
        with pytest.raises(midcourse.ServerUnreachable, match="no server of Midcourse") as raised:
            await remote.get(SESSION)
    assert raised.value.code == "not_midcourse"


async def test_the_token_is_sent_and_shows_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with (
        scripted(session(), problem(401, "unauthorized"), HANG_UP) as server,
        midcourse.connect(server.url, token=f" {TOKEN}\n", patience=0.1) as remote,
    ):
        handle = await remote.get(SESSION)
        shown = [repr(remote), repr(handle), str(vars(remote)), str(vars(handle))]
        for _ in range(2):
            with pytest.raises(errors.MidcourseError) as raised:
                await handle.state()
            error: BaseException | None = raised.value
            while error is not None:
                shown += [repr(error), str(error), str(vars(error))]
                error = error.__cause__
    assert server.asked[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in "".join(shown) + caplog.text


async def test_a_token_that_is_none_is_refused_without_being_repeated() -> None:
    for token in ("mct_a b", "mct_\n_secret", "mct_ü"):
        with pytest.raises(midcourse.InvalidInput) as raised:
            async with midcourse.connect("http://127.0.0.1:1", token=token):
                pass
        assert token not in str(raised.value)


async def test_a_link_with_a_token_in_it_is_refused_without_being_repeated() -> None:
    for url in (f"http://127.0.0.1:1/login?token={TOKEN}", f"http://me:{TOKEN}@127.0.0.1:1", f"ftp://{TOKEN}"):
        with pytest.raises(midcourse.InvalidInput) as raised:
            async with midcourse.connect(url):
                pass
        assert TOKEN not in str(raised.value)
        assert raised.value.fields["field"] == "url"


@pytest.mark.parametrize("url", ["", "  ", "127.0.0.1:8420", "http://", "http://[::1", "http://a:b"])
async def test_what_is_no_address_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(midcourse.InvalidInput, match="http://127.0.0.1:8420"):
        async with midcourse.connect(url):
            pass


async def test_address_and_token_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(session()) as server:
        monkeypatch.setenv("MIDCOURSE_URL", f"{server.url}/api/v1/")
        monkeypatch.setenv("MIDCOURSE_TOKEN", TOKEN)
        async with midcourse.connect() as remote:
            await remote.get(SESSION)
            assert remote.url == server.url
    assert server.asked[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert server.asked[0].path == "/api/v1/sessions/sess_1"


async def test_no_proxy_is_asked_for_a_server_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with scripted(session()) as server, midcourse.connect(server.url) as remote:
        await remote.get(SESSION)


async def test_without_httpx2_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(midcourse.InvalidInput, match=r"pip install 'midcourse\[client\]'") as raised:
        async with midcourse.connect("http://127.0.0.1:1"):
            pass
    assert raised.value.code == "not_installed"


async def test_more_sessions_than_a_page_are_listed_page_by_page() -> None:
    heads = [
        {"id": f"s{number}", "agent": "a", "goal": "g", "status": "running", "turn": 1, "position": 1}
        | {"created_at": 1.0, "updated_at": 2.0, "asks": 0, "cost": 0.5, "finished_steps": 1, "parent": None}
        for number in range(500)
    ]

    def page(asked: Asked) -> bytes:
        first = int(asked.query["before"][0].removeprefix("s")) + 1 if "before" in asked.query else 0
        first = int(asked.query["cursor"][0].removeprefix("from-")) if "cursor" in asked.query else first
        last = first + min(200, int(asked.query["limit"][0]))
        return said({"sessions": heads[first:last], "next": f"from-{last}" if last < len(heads) else None})

    async with scripted(page) as server, midcourse.connect(server.url) as remote:
        assert [head.id for head in await remote.list(limit=450)] == [f"s{number}" for number in range(450)]
        assert len(await remote.list(limit=1000)) == 500
        found = await remote.list(status=["running", "paused"], agent="a", search="ü &", before="s9", limit=2)
        assert [head.id for head in found] == ["s10", "s11"]
    assert server.asked[-1].query["status"] == ["running", "paused"]
    assert server.asked[-1].query["search"] == ["ü &"]


@pytest.mark.parametrize("named", ["", "..", ".", "\udc80"])
async def test_what_cannot_be_a_session_is_not_asked_for(named: str) -> None:
    async with scripted(session()) as server, midcourse.connect(server.url) as remote:
        with pytest.raises(midcourse.SessionNotFound):
            await remote.get(named)
    assert not server.asked


async def test_a_name_with_signs_of_an_address_stays_one_name() -> None:
    async with scripted(session()) as server, midcourse.connect(server.url) as remote:
        await remote.get("a/../b?c#d é")
    assert server.asked[0].path == "/api/v1/sessions/a/../b?c#d é"
    assert not server.asked[0].query
