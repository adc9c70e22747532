"""The inbox and webhooks at a terminal: what is asked, whose it is, who stands in, and who else is told."""

import asyncio
import dataclasses
from pathlib import Path

from msgspec.structs import replace

from midcourse import Terms
from midcourse import open as open_midcourse
from midcourse.clock import SystemClock
from midcourse.core.ids import AskId, StepId
from midcourse.people.inbox import PeopleInbox
from midcourse.policy import versions
from midcourse.policy.profiles import STANDARD
from midcourse.ports.store import AskHead
from midcourse.stores.sqlite.file import SqliteStore
from tests.cli.conftest import Command
from tests.cli.stories import asker

DEAD = "http://127.0.0.1:1/"


def mine(midcourse: Command) -> set[str]:
    """The sessions that ask the person at this terminal."""
    return {one["session"] for one in midcourse("inbox", "list", "--mine", "--json").json()["asks"]}


def test_the_list_has_every_ask_by_deadline_with_its_owner_and_how_to_answer(midcourse: Command) -> None:
    done = midcourse("inbox", "list")
    assert done.code == 0
    found = midcourse("inbox", "list", "--json").json()
    dues = [one["respond_by"] if one["deadline"] is None else one["deadline"] for one in found["asks"]]
    assert dues == sorted(dues)
    assert {one["session"] for one in found["asks"]} == {"sess_waiting", "sess_two", "sess_written"}
    for one in found["asks"]:
        assert one["session"] in done.out
    assert "Rechnungen für März" in done.out
    assert "\x1b" not in done.out
    first = found["asks"][0]
    assert f"midcourse answer {first['session']} --ask {first['ask']} TEXT" in done.out
    assert found["you"] == "local"


def test_who_takes_an_ask_is_shown_as_its_owner_and_may_give_it_away(midcourse: Command) -> None:
    assert midcourse("inbox", "take", "sess_wai", "--for", "bob", "--json").json()["owner"] == "bob"
    assert "sess_waiting" not in mine(midcourse)
    taken = midcourse("inbox", "take", "sess_waiting", "ask_1")
    assert taken.code == 0, taken.err
    assert "ask_1 of sess_waiting is local's" in taken.out
    assert "sess_waiting" in mine(midcourse)
    for name, asks in (("sess_waiting", ["ask_1"]), ("sess_two", ["ask_1", "ask_2"]), ("sess_written", ["ask_1"])):
        for ask in asks:
            midcourse("inbox", "take", name, ask, "--for", "bob")
    assert midcourse("inbox", "list", "--mine").out == "No session asks you anything.\n"


def test_it_warns_after_as_many_approvals_in_a_row_as_the_policy_of_the_next_ask_says(
    midcourse: Command, folder: Path
) -> None:
    limits = {"patient": 3, "strict": 2}
    path = folder / "asked.db"

    async def ask() -> None:
        store = await SqliteStore.open(path, durability="process")
        for name, most in limits.items():
            rules = replace(STANDARD, name=name, restraint=replace(STANDARD.restraint, approvals_in_a_row=most))
            await versions.save(store, rules, by="ada", why="a test", now=1.0)
        await store.close()
        async with open_midcourse(f"sqlite:///{path}", durability="process") as mc:
            for name in limits:  # the first one is due first
                agent = dataclasses.replace(asker, name=name, terms=Terms(policy=name))
                session = await mc.start(agent, "May I?", session_id=f"sess_{name}")
                await session.next_ask(timeout=10)

    async def approve() -> None:
        store = await SqliteStore.open(path, durability="process")
        asked = AskHead(id=AskId("ask_1"), reason="need_approval", prompt="", opened_at=0.0, step=StepId("1/ask#0"))
        await PeopleInbox(store, SystemClock()).note_answer(asked, session_id="sess_done", by="local", approved=True)
        await store.close()

    def warned() -> bool:
        return "in a row" in midcourse("inbox", "list", "--store", f"sqlite:///{path}").out

    asyncio.run(ask())
    said: list[bool] = []
    for _ in range(3):
        asyncio.run(approve())
        said.append(warned())
    assert said == [False, False, True]


def test_where_several_things_are_asked_one_is_named(midcourse: Command) -> None:
    several = midcourse("inbox", "take", "sess_two")
    assert several.code == 1
    assert "asks 2 things (ask_1, ask_2)" in several.err
    assert midcourse("inbox", "take", "sess_two", "ask_2").code == 0
    assert "no open ask 'ask_9'" in midcourse("inbox", "take", "sess_two", "ask_9").err


def test_somebody_stands_in_for_a_while_and_no_longer_than_wished(midcourse: Command) -> None:
    midcourse("inbox", "take", "sess_waiting")
    made = midcourse("inbox", "hand-over", "bob", "--for", "30m", "--json").json()
    assert (made["name"], made["to"], round(made["until"] - made["at"])) == ("local", "bob", 1800)
    assert mine(midcourse) == set()
    assert midcourse("inbox", "hand-over", "bob", "--for", "0").out == "local is asked again.\n"
    assert mine(midcourse) == {"sess_waiting", "sess_two", "sess_written"}
    assert midcourse("inbox", "hand-over", "bob", "--for", "soon").code == 2
    assert "Name another person" in midcourse("inbox", "hand-over", "local").err


def test_a_webhook_is_added_tried_listed_and_removed_and_its_secret_is_shown_once(midcourse: Command) -> None:
    assert "There are no webhooks" in midcourse("webhook", "list").out
    made = midcourse("webhook", "add", DEAD, "--kind", "ask.opened", "--about", "the pager", "--json").json()
    name, secret = made["webhook"]["id"], made["secret"]
    assert secret.startswith("whsec_")
    tried = midcourse("webhook", "test", name)
    assert (tried.code, "did not arrive: No connection" in tried.out) == (1, True)
    listed = midcourse("webhook", "list")
    assert "the pager" in listed.out
    assert "fails since" in listed.out
    [sent] = midcourse("webhook", "deliveries", name, "--json").json()["deliveries"]
    assert (sent["kind"], sent["state"], sent["tries"]) == ("webhook.test", "given_up", 1)
    assert "did not arrive" in midcourse("webhook", "deliveries", name).out
    for shown in (tried.out, listed.out, midcourse("webhook", "list", "--json").out):
        assert secret.removeprefix("whsec_") not in shown
    assert midcourse("webhook", "remove", name).code == 0
    gone = midcourse("webhook", "remove", name)
    assert (gone.code, "There is no webhook" in gone.err) == (1, True)


def test_an_option_before_a_command_is_not_silently_left_out(midcourse: Command) -> None:
    misplaced = midcourse("inbox", "--url", "http://127.0.0.1:1", "take", "sess_waiting")
    assert (misplaced.code, "Options follow a command: midcourse inbox list|take|hand-over --url" in misplaced.err) == (
        2,
        True,
    )


def test_a_webhook_that_could_never_be_told_is_refused_with_what_there_is(midcourse: Command) -> None:
    assert "The kinds are ask.opened" in midcourse("webhook", "add", DEAD, "--kind", "ask.open").err
    assert "only http:// and https://" in midcourse("webhook", "add", "ftp://a.example/").err


def test_the_help_says_how_a_webhook_is_told_of_all_and_so_it_is(midcourse: Command) -> None:
    said = " ".join(midcourse("webhook", "add", "--help").out.split())
    assert "Default: all of them." in said
    assert "Or all" not in said
    assert midcourse("webhook", "add", DEAD, "--json").json()["webhook"]["kinds"] == ["*"]
