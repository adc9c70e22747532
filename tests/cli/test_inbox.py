"""The inbox and webhooks at a terminal: what is asked, whose it is, who stands in, and who else is told."""

import getpass

import pytest

from tests.cli.conftest import Command

DEAD = "http://127.0.0.1:1/"


@pytest.fixture(autouse=True)
def ann(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")


def test_the_list_has_every_ask_by_deadline_with_its_owner_and_how_to_answer(midcourse: Command) -> None:
    done = midcourse("inbox")
    assert done.code == 0
    found = midcourse("inbox", "--json").json()
    dues = [one["respond_by"] if one["deadline"] is None else one["deadline"] for one in found["asks"]]
    assert dues == sorted(dues)
    assert {one["session"] for one in found["asks"]} == {"sess_waiting", "sess_two", "sess_written"}
    for one in found["asks"]:
        assert one["session"] in done.out
    assert "Rechnungen für März" in done.out
    assert "\x1b" not in done.out
    first = found["asks"][0]
    assert f"midcourse answer {first['session']} --ask {first['ask']} TEXT" in done.out
    assert found["you"] == "ann"


def test_who_takes_an_ask_is_shown_as_its_owner_and_may_give_it_away(midcourse: Command) -> None:
    assert midcourse("inbox", "--mine").out == "Nobody asks you anything.\n"
    taken = midcourse("inbox", "take", "sess_wai")
    assert taken.code == 0, taken.err
    assert "ask_1 of sess_waiting is ann's" in taken.out
    assert [one["session"] for one in midcourse("inbox", "--mine", "--json").json()["asks"]] == ["sess_waiting"]
    assert midcourse("inbox", "take", "sess_waiting", "ask_1", "--for", "bob", "--json").json()["owner"] == "bob"
    assert midcourse("inbox", "--mine", "--json").json()["asks"] == []


def test_where_several_things_are_asked_one_is_named(midcourse: Command) -> None:
    several = midcourse("inbox", "take", "sess_two")
    assert several.code == 1
    assert "asks 2 things (ask_1, ask_2)" in several.err
    assert midcourse("inbox", "take", "sess_two", "ask_2").code == 0
    assert "no open ask 'ask_9'" in midcourse("inbox", "take", "sess_two", "ask_9").err


def test_somebody_stands_in_for_a_while_and_no_longer_than_wished(midcourse: Command) -> None:
    midcourse("inbox", "take", "sess_waiting")
    made = midcourse("inbox", "hand-over", "bob", "--for", "30m", "--json").json()
    assert (made["name"], made["to"], round(made["until"] - made["at"])) == ("ann", "bob", 1800)
    assert midcourse("inbox", "--mine", "--json").json()["asks"] == []
    assert midcourse("inbox", "hand-over", "bob", "--for", "0").out == "ann is asked again.\n"
    assert len(midcourse("inbox", "--mine", "--json").json()["asks"]) == 1
    assert midcourse("inbox", "hand-over", "bob", "--for", "soon").code == 2
    assert "Name somebody else" in midcourse("inbox", "hand-over", "ann").err


def test_a_webhook_is_added_tried_listed_and_removed_and_its_secret_is_shown_once(midcourse: Command) -> None:
    assert "No program is told" in midcourse("webhook", "list").out
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
    assert (misplaced.code, "stand behind it" in misplaced.err) == (2, True)


def test_a_webhook_that_could_never_be_told_is_refused_with_what_there_is(midcourse: Command) -> None:
    assert "The kinds are ask.opened" in midcourse("webhook", "add", DEAD, "--kind", "ask.open").err
    assert "only http:// and https://" in midcourse("webhook", "add", "ftp://a.example/").err


def test_the_help_says_how_a_webhook_is_told_of_all_and_so_it_is(midcourse: Command) -> None:
    said = " ".join(midcourse("webhook", "add", "--help").out.split())
    assert "Without it: all of them." in said
    assert "Or all" not in said
    assert midcourse("webhook", "add", DEAD, "--json").json()["webhook"]["kinds"] == ["*"]


@pytest.mark.parametrize("command", [("inbox",), ("inbox", "take"), ("inbox", "hand-over"), ("webhook", "add")])
def test_each_help_has_examples(midcourse: Command, command: tuple[str, ...]) -> None:
    done = midcourse(*command, "--help")
    assert "Examples:" in done.out
    assert f"  midcourse {' '.join(command)}" in done.out
