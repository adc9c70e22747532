"""``midcourse token``: whom a token is for, and what is no token."""

from tests.cli.conftest import Command


def test_a_token_of_a_session_that_is_not_there_is_refused(midcourse: Command) -> None:
    for option in ("--session", "--only"):
        refused = midcourse("token", "add", "callback", option, "sess_nowhere")
        assert (refused.code, refused.out) == (1, "")
        assert "There is no session 'sess_nowhere'" in refused.err
        made = midcourse("token", "add", f"for{option}", option, "sess_waiting", "--json").json()
        assert (made["session"] or made["only"]) == "sess_waiting"
        assert made["role"] == ("agent" if option == "--session" else "watch")
    assert "callback" not in midcourse("token", "list").out


def test_a_token_is_for_an_agent_or_limits_a_person_and_not_both(midcourse: Command) -> None:
    refused = midcourse("token", "add", "callback", "--session", "sess_waiting", "--only", "sess_two")
    assert (refused.code, refused.out) == (1, "")
    assert "session is for an agent's token, only for a person's: give one of them" in refused.err


def test_the_servers_own_token_cannot_be_revoked_and_the_answer_says_how_to_replace_it(midcourse: Command) -> None:
    refused = midcourse("token", "revoke", "local")
    assert (refused.code, refused.out) == (1, "")
    assert "'local' is the server's own token" in refused.err
    assert "delete that file and start the server again" in refused.err
    assert "token.revoke" not in midcourse("audit", "list").out
    unknown = midcourse("token", "revoke", "nobody")
    assert "There is no token 'nobody'. List them: midcourse token list" in unknown.err
