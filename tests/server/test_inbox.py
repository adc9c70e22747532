"""The inbox and webhooks over HTTP: whose an ask is, what streams tell, who may do what; secrets stay secret."""

import asyncio
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest

import midcourse
from midcourse.people.webhooks import TEXT_LIMIT
from tests.promises.harness import Place, resumable
from tests.server.stream_reader import Data, opened, refusal, served, until_status


def asker(reason: str = "need_approval") -> "midcourse.Agent[Any]":
    async def agent(run: midcourse.Run) -> object:
        return await run.ask("May I delete 40 rows?", reason=reason)

    return resumable(agent)


async def begun(client: httpx2.AsyncClient, **more: object) -> str:
    """A session that asks."""
    made = await client.post("/sessions", json={"agent": "agent", "goal": "clean up", **more})
    assert made.status_code == 201, made.text
    session: str = made.json()["id"]
    await until_status(client, session, "waiting")
    return session


async def token(client: httpx2.AsyncClient, name: str, role: str, **more: object) -> str:
    made = await client.post("/tokens", json={"name": name, "role": role, **more})
    assert made.status_code == 201, made.text
    return str(made.json()["token"])


async def inbox(client: httpx2.AsyncClient) -> Data:
    found = await client.get("/inbox")
    assert found.status_code == 200, found.text
    return found.json()


async def test_the_inbox_has_what_is_asked_with_its_owner_and_when_it_is_due(memory: Place) -> None:
    with served(memory, asker()) as server:
        async with server.client() as local:
            assert (await inbox(local))["asks"] == []
            session = await begun(local)
            [ask] = (await inbox(local))["asks"]
            assert (ask["session"], ask["ask"], ask["owner"], ask["owned_since"]) == (session, "ask_1", "local", None)
            assert (ask["prompt"], ask["reason"], ask["session_status"]) == (
                "May I delete 40 rows?",
                "need_approval",
                "waiting",
            )
            assert ask["respond_by"] - ask["opened_at"] == 300.0
            await local.post(f"/sessions/{session}/answer", json={"value": "yes"})
            found = await inbox(local)
            assert (found["asks"], found["approvals_in_a_row"], found["quick"], found["you"]) == ([], 1, 1, "local")


async def test_who_takes_an_ask_owns_it_and_it_is_audited(memory: Place) -> None:
    with served(memory, asker()) as server:
        async with server.client() as local:
            session = await begun(local)
            async with server.client(await token(local, "bob", "steer")) as bob:
                taken = (await bob.post(f"/inbox/{session}/ask_1/own")).json()
                assert (taken["owner"], taken["owned_since"] is None) == ("bob", False)
                await bob.post(f"/inbox/{session}/ask_1/own", json={"owner": "cleo"})
                [ask] = (await inbox(local))["asks"]
                assert ask["owner"] == "cleo"
                assert await refusal(bob, f"/inbox/{session}/ask_7/own", {}) == (404, "ask_not_found")
                assert await refusal(bob, "/inbox/sess_nobody/ask_1/own", {}) == (404, "session_not_found")
                assert await refusal(bob, f"/inbox/{session}/ask_1/own", {"owner": " x"}) == (422, "invalid_input")
            entries = (await local.get("/audit", params={"limit": 1000})).json()["entries"]
            owned = [(one["session"], one["by"], one["detail"]) for one in entries if one["action"] == "inbox.own"]
            assert owned == [(session, "bob", "ask_1 to bob"), (session, "bob", "ask_1 to cleo")]


async def test_a_hand_over_moves_what_is_asked_of_one_person_and_can_be_ended(memory: Place) -> None:
    with served(memory, asker()) as server:
        async with server.client() as local:
            await begun(local)
            made = (await local.post("/inbox/hand-over", json={"to": "bob", "seconds": 60})).json()
            assert (made["name"], made["to"], made["until"] - made["at"]) == ("local", "bob", 60.0)
            assert [ask["owner"] for ask in (await inbox(local))["asks"]] == ["bob"]
            async with server.client(await token(local, "bob", "steer")) as bob:
                # Bob hands back: local has the watch again, also for what is local's own.
                await bob.post("/inbox/hand-over", json={"to": "local"})
            assert [ask["owner"] for ask in (await inbox(local))["asks"]] == ["local"]
            await local.post("/inbox/hand-over", json={"to": "bob"})
            await local.post("/inbox/hand-over", json={"to": "bob", "seconds": 0})
            assert [ask["owner"] for ask in (await inbox(local))["asks"]] == ["local"]
            assert await refusal(local, "/inbox/hand-over", {"to": "local"}) == (422, "invalid_input")
            assert await refusal(local, "/inbox/hand-over", {"to": "bob", "seconds": 1e9}) == (422, "invalid_input")


async def test_a_stream_tells_what_is_new_and_what_is_gone(memory: Place) -> None:
    with served(memory, asker()) as server:
        async with server.client() as local:
            first = await begun(local)
            async with opened(local, "GET", "/inbox", headers={"Accept": "text/event-stream"}) as stream:
                whole = (await stream.next()).data
                assert [ask["session"] for ask in whole["asks"]] == [first]
                second = await begun(local)
                more = (await stream.next()).data
                while not more["asks"]:  # how many run has changed
                    more = (await stream.next()).data
                assert ([ask["session"] for ask in more["asks"]], more["gone"]) == ([second], [])
                await local.post(f"/sessions/{first}/answer", json={"value": "yes"})
                gone: list[str] = []
                while not gone:
                    less = (await stream.next()).data
                    assert less["asks"] == []
                    gone = less["gone"]
                assert gone == [f"{first}/ask_1"]


async def test_a_refusal_ends_the_row_of_approvals_and_a_question_is_none(memory: Place) -> None:
    with served(memory, asker(), resumable(asker("need_input").function, name="curious")) as server:
        async with server.client() as local:
            for said, row in (("yes", 1), (True, 2), ("no, keep them", 0), ("approve", 1)):
                session = await begun(local)
                await local.post(f"/sessions/{session}/answer", json={"value": said})
                assert (await inbox(local))["approvals_in_a_row"] == row
            session = await begun(local, agent="curious")
            await local.post(f"/sessions/{session}/answer", json={"value": "blue"})
            assert (await inbox(local))["approvals_in_a_row"] == 1
            async with server.client(await token(local, "bob", "approve")) as bob:
                assert (await inbox(bob))["approvals_in_a_row"] == 0


async def test_what_is_approved_over_a_chat_counts_in_the_row_too_and_once(memory: Place) -> None:
    with served(memory, asker()) as server:
        async with server.client() as local:
            for said, row in (("yes", 1), ("yes", 2), ("no", 0)):
                session = await begun(local)
                for _ in range(2):  # the same answer once more is the same answer
                    body = {"session_id": session, "answer": said, "ask_id": "ask_1"}
                    assert (await local.post("/chat/resume", json=body)).status_code == 200
                assert (await inbox(local))["approvals_in_a_row"] == row


async def test_a_tenant_sees_its_own_asks_and_webhooks_and_nobody_elses(memory: Place) -> None:
    with served(memory, asker()) as server:
        async with server.client() as host:
            tenants = {name: await token(host, "ann", "operate", tenant=name) for name in ("acme", "other")}
            async with server.client(tenants["acme"]) as acme, server.client(tenants["other"]) as other:
                session = await begun(acme)
                assert [ask["owner"] for ask in (await inbox(acme))["asks"]] == ["acme~ann"]
                assert (await inbox(other))["asks"] == []
                assert [ask["tenant"] for ask in (await inbox(host))["asks"]] == ["acme"]
                theirs = await refusal(other, f"/inbox/{session}/ask_1/own", {})
                assert theirs == await refusal(other, "/inbox/acme~sess_nobody/ask_1/own", {})
                assert theirs == (404, "session_not_found")
                taken = (await acme.post(f"/inbox/{session}/ask_1/own", json={"owner": "bob"})).json()
                assert taken["owner"] == "acme~bob"
                for path, field in ((f"/inbox/{session}/ask_1/own", "owner"), ("/inbox/hand-over", "to")):
                    assert await refusal(acme, path, {field: "other~ann"}) == (422, "invalid_input")
                body = {"url": "http://127.0.0.1:1/", "kinds": ["*"]}
                for private in ("http://127.0.0.1:1/", "http://localhost/", "http://10.0.0.7/", "http://[::1]/"):
                    refused = await refusal(acme, "/webhooks", {**body, "url": private})
                    assert refused == (422, "address_refused"), private
                made = (await acme.post("/webhooks", json={**body, "url": "http://93.184.215.14/"})).json()
                name = made["webhook"]["id"]
                assert name.startswith("acme~wh_")
                assert (await other.get("/webhooks")).json() == {"webhooks": [], "next": None}
                assert await refusal(other, f"/webhooks/{name}/test", {}) == (404, "webhook_not_found")
                assert (await other.delete(f"/webhooks/{name}")).status_code == 404
                assert (await other.get(f"/webhooks/{name}/deliveries")).status_code == 404
                assert [one["id"] for one in (await host.get("/webhooks")).json()["webhooks"]] == [name]
                assert (await acme.delete(f"/webhooks/{name}")).status_code == 204


class Stubborn(ThreadingHTTPServer):
    """Answers with what it is told, and keeps what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.answer, self.headers, self.body = 200, {"x": "y"}, b"thank you"
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class _Request(BaseHTTPRequestHandler):
    server: Stubborn  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.got.append((self.path, dict(self.headers.items()), body))
        self.send_response(self.server.answer)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.body)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def receiver() -> Generator[Stubborn]:
    made = Stubborn()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


async def test_a_test_tells_what_the_receiver_said_and_little_of_it_is_read(memory: Place, receiver: Stubborn) -> None:
    with served(memory, asker()) as server:
        async with server.client() as local:
            made = (await local.post("/webhooks", json={"url": receiver.url, "kinds": ["ask.closed"]})).json()
            place = f"/webhooks/{made['webhook']['id']}"
            good = (await local.post(f"{place}/test")).json()
            assert (good["state"], good["status"], good["answer"], good["kind"]) == (
                "delivered",
                200,
                "thank you",
                "webhook.test",
            )
            receiver.answer, receiver.body = 500, b"no! " * 100_000
            bad = (await local.post(f"{place}/test")).json()
            assert (bad["state"], bad["status"], bad["tries"]) == ("given_up", 500, 1)
            assert len(bad["answer"]) == TEXT_LIMIT
            receiver.answer, receiver.headers, receiver.body = 307, {"location": "/elsewhere"}, b""
            moved = (await local.post(f"{place}/test")).json()
            assert (moved["state"], moved["status"]) == ("given_up", 307)
            assert {path for path, _, _ in receiver.got} == {"/hook"}, "a redirect is not followed"
            listed = (await local.get(f"{place}/deliveries", params={"limit": 2})).json()["deliveries"]
            assert [one["id"] for one in listed] == [moved["id"], bad["id"]]


async def test_the_secret_is_shown_once_and_is_in_no_answer_log_or_audit(
    memory: Place, receiver: Stubborn, caplog: pytest.LogCaptureFixture
) -> None:
    with served(memory, asker()) as server:
        async with server.client() as local:
            made = (await local.post("/webhooks", json={"url": f"{receiver.url}?key=theirs", "kinds": ["*"]})).json()
            secret, name = made["secret"], made["webhook"]["id"]
            await local.post(f"/webhooks/{name}/test")
            shown = [
                (await local.get("/webhooks")).text,
                (await local.get(f"/webhooks/{name}/deliveries")).text,
                (await local.get("/audit", params={"limit": 1000})).text,
                caplog.text,
                repr(receiver.got),
            ]
            assert (await local.delete(f"/webhooks/{name}")).status_code == 204
            shown.append((await local.get("/audit", params={"limit": 1000})).text)
    assert name in shown[2]
    assert "webhook.remove" in shown[-1]
    bare = secret.removeprefix("whsec_")
    assert [text for text in shown if bare in text] == []
    assert "key=theirs" not in shown[-1]


async def test_a_dead_receiver_holds_up_nobody_and_is_tried_again(memory: Place, receiver: Stubborn) -> None:
    with served(memory, asker()) as server:
        async with server.client() as local:
            dead = (await local.post("/webhooks", json={"url": "http://127.0.0.1:1/", "kinds": ["ask.opened"]})).json()
            await local.post("/webhooks", json={"url": receiver.url, "kinds": ["ask.opened"]})
            session = await begun(local)
            while not receiver.got:
                await asyncio.sleep(0.02)
            assert session.encode() in receiver.got[0][2]
            place = f"/webhooks/{dead['webhook']['id']}/deliveries"
            while not (found := (await local.get(place)).json()["deliveries"]) or not found[0]["tries"]:
                await asyncio.sleep(0.02)
            assert (found[0]["state"], found[0]["status"]) == ("waiting", None)
            assert found[0]["next_at"] > found[0]["tried_at"]
            [failing] = [one for one in (await local.get("/webhooks")).json()["webhooks"] if one["failing_since"]]
            assert (failing["id"], failing["waiting"]) == (dead["webhook"]["id"], 1)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"url": "ftp://a.example/", "kinds": ["*"]}, "address_refused"),
        ({"url": "http://ann:pw@a.example/", "kinds": ["*"]}, "address_refused"),
        ({"url": "nonsense", "kinds": ["*"]}, "address_refused"),
        ({"url": "http://127.0.0.1:99999/", "kinds": ["*"]}, "address_refused"),
        ({"url": "http://127.0.0.1:65536/", "kinds": ["*"]}, "address_refused"),
        ({"url": "http://127.0.0.1:0/", "kinds": ["*"]}, "address_refused"),
        ({"url": "http://127.0.0.1:-1/", "kinds": ["*"]}, "address_refused"),
        ({"url": "http://a..b/", "kinds": ["*"]}, "address_refused"),
        ({"url": f"http://{'a' * 64}.example/", "kinds": ["*"]}, "address_refused"),
        ({"url": "http://a.example/\n", "kinds": ["*"]}, "invalid_input"),
        ({"url": "http://127.0.0.1/", "kinds": ["ask.open"]}, "invalid_input"),
        ({"url": "http://127.0.0.1/", "kinds": []}, "invalid_input"),
        ({"url": "http://127.0.0.1/", "kinds": ["*"], "secret": "mine"}, "invalid_input"),
    ],
)
async def test_a_webhook_that_could_never_be_told_is_refused(memory: Place, body: Data, code: str) -> None:
    with served(memory) as server:
        async with server.client() as local:
            assert await refusal(local, "/webhooks", body) == (422, code)
            assert (await local.get("/webhooks")).json() == {"webhooks": [], "next": None}
