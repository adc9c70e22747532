"""``midcourse audit`` as a user runs it: listed, exported, checked, pruned."""

from pathlib import Path

from tests.cli.conftest import Command


def test_the_log_is_listed_exported_and_checked(midcourse: Command, folder: Path) -> None:
    assert midcourse("pause", "sess_waiting", "--reason", "let me look").code == 0
    listed = midcourse("audit", "list")
    assert "let me look" in listed.out
    newest = midcourse("audit", "list", "--session", "sess_waiting", "-n", "1", "--json").json()
    assert (newest["action"], newest["detail"]) == ("pause", "let me look")
    assert "nothing was changed or left out" in midcourse("audit", "check").out

    exported = midcourse("audit", "export", "audit.jsonl", "--session", "sess_waiting")
    assert "2 of them to read" in exported.out
    assert "of session sess_waiting" in exported.out
    assert (folder / "audit.jsonl").stat().st_mode & 0o077 == 0
    assert midcourse("audit", "verify", "audit.jsonl").out == exported.out
    again = midcourse("audit", "export", "audit.jsonl")
    assert again.code == 1
    assert "is there already" in again.err

    content = (folder / "audit.jsonl").read_text()
    (folder / "audit.jsonl").write_text(content.replace("let me look", "let me see"))
    wrong = midcourse("audit", "verify", "audit.jsonl")
    assert wrong.code == 1
    assert "detail was changed" in wrong.err


def test_old_entries_are_pruned_and_the_rest_still_proves_itself(midcourse: Command, folder: Path) -> None:
    assert midcourse("pause", "sess_waiting").code == 0
    assert "Nothing is older" in midcourse("audit", "prune").out
    refused = midcourse("audit", "prune", "--older-than", "soon")
    assert refused.code == 2
    assert "nothing was changed" in midcourse("audit", "check").out


def test_a_token_of_a_tenant_is_listed_and_revoked_by_its_whole_name(midcourse: Command) -> None:
    made = midcourse("token", "add", "ada", "--tenant", "acme", "--json").json()
    assert (made["name"], made["tenant"]) == ("ada", "acme")
    assert "acme~ada" in midcourse("token", "list").out
    assert midcourse("token", "revoke", "ada").code == 1
    assert midcourse("token", "revoke", "acme~ada").code == 0
    assert midcourse("token", "add", "ada", "--tenant", "Acme Inc").code == 1
    assert "token.revoke" in midcourse("audit", "list").out
