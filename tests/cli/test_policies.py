"""``midcourse policy``: on a store, without one, and over a server; every mistake a sentence."""

import json
import re
import shlex
from pathlib import Path

import pytest

from midcourse.policy import load_policy, schema
from midcourse.policy.profiles import BUILT_IN, STANDARD
from tests.cli.conftest import Command
from tests.examples.expected import ROOT, assert_prints
from tests.examples.test_examples import blocks
from tests.server.live_server import TOKEN, Running, serving

MINE = "policy: mine\nextends: conservative\nsignals:\n  cost: {warn: 2}\n"


@pytest.fixture
def file(folder: Path) -> str:
    (folder / "mine.yaml").write_text(MINE)
    return "mine.yaml"


def test_the_built_in_policies_are_listed_also_where_there_is_no_store(midcourse: Command, folder: Path) -> None:
    for here in (True, False):
        if not here:
            (folder / ".midcourse" / "midcourse.db").unlink()
        done = midcourse("policy", "list")
        assert done.code == 0
        for name in BUILT_IN:
            assert f"{name}@1" in done.out
    listed = midcourse("policy", "list", "--json").json()["policies"]
    assert [one["name"] for one in listed] == list(BUILT_IN)
    assert not (folder / ".midcourse" / "midcourse.db").exists()


def test_a_policy_is_shown_as_yaml_that_reads_back_and_as_json(midcourse: Command) -> None:
    assert load_policy(midcourse("policy", "show", "standard").out) == STANDARD
    assert midcourse("policy", "show", "trading", "--format", "json").json()["policy"] == "trading"
    assert midcourse("policy", "show", "trading@1", "--json").json()["extends"] == "standard"


def test_a_file_is_checked_and_says_what_it_changes(midcourse: Command, file: str) -> None:
    done = midcourse("policy", "check", file)

    assert done.code == 0
    assert "'mine' is a policy; it extends conservative@1 and changes 1 parameter: 1 to step in earlier" in done.out
    assert "signals.cost.warn" in done.out
    assert midcourse("policy", "check", file, "--json").json()["changes"] == [
        {"path": "signals.cost.warn", "before": 5, "after": 2, "tightens": True, "words": "steps in earlier"}
    ]


def test_a_mistake_is_told_with_its_line_and_exits_with_1(midcourse: Command, folder: Path) -> None:
    (folder / "typo.yaml").write_text("policy: mine\nsignals: {scope_drfit: {warn: 0.3}}")
    sentence = "typo.yaml, line 2: unknown signal 'scope_drfit'. Did you mean 'scope_drift'? Nothing was saved."

    for arguments in (("check", "typo.yaml"), ("show", "typo.yaml"), ("diff", "standard", "typo.yaml")):
        done = midcourse("policy", *arguments)
        assert (done.code, done.out, done.err.strip()) == (1, "", sentence)
    told = json.loads(midcourse("policy", "check", "typo.yaml", "--json").err)
    assert (told["code"], told["line"], told["field"]) == ("invalid_input", 2, "signals.scope_drfit")
    done = midcourse("policy", "save", "typo.yaml", "--why", "x")
    assert (done.code, done.err.strip()) == (1, sentence)
    assert midcourse("policy", "history", "mine").code == 1


def test_a_policy_is_saved_shown_compared_and_its_history_told(midcourse: Command, folder: Path, file: str) -> None:
    assert midcourse("policy", "save", file, "--why", "a new agent").out == "Saved as mine@1.\n"
    (folder / file).write_text(MINE.replace("2", "3"))
    saved = midcourse("policy", "save", file, "--why", "too loud", "--json").json()
    assert (saved["policy"], saved["version"]) == ("mine", 2)

    history = midcourse("policy", "history", "mine", "--json").json()["versions"]
    assert [(one["version"], one["why"], one["extends"]) for one in history] == [
        (2, "too loud", "conservative@1"),
        (1, "a new agent", "conservative@1"),
    ]
    assert "too loud" in midcourse("policy", "history", "mine").out
    assert "warn: 3" in midcourse("policy", "show", "mine").out
    assert "warn: 2" in midcourse("policy", "show", "mine@1").out
    assert "mine@2" in midcourse("policy", "list").out
    changes = midcourse("policy", "diff", "mine@1", "mine", "--json").json()
    assert changes == {
        "from": "mine@1",
        "to": "mine@2",
        "changes": [
            {"path": "signals.cost.warn", "before": 2, "after": 3, "tightens": False, "words": "steps in later"}
        ],
    }
    assert "steps in later" in midcourse("policy", "diff", "mine@1", "mine").out
    assert "say the same" in midcourse("policy", "diff", "mine", file).out


def test_a_file_made_from_an_older_version_is_refused(midcourse: Command, folder: Path, file: str) -> None:
    midcourse("policy", "save", file, "--why", "first")
    (folder / "old.yaml").write_text(midcourse("policy", "show", "mine").out.replace("warn: 2", "warn: 4"))
    (folder / file).write_text(MINE.replace("2", "3"))
    midcourse("policy", "save", file, "--why", "second")

    done = midcourse("policy", "save", "old.yaml", "--why", "third")

    assert done.code == 1
    assert "made for version 1 of policy 'mine', and version 2 is the newest" in done.err


def test_what_changes_nothing_or_has_no_reason_is_refused(midcourse: Command, file: str) -> None:
    midcourse("policy", "save", file, "--why", "first")

    assert "says the same already" in midcourse("policy", "save", file, "--why", "again").err
    assert "'why' is empty" in midcourse("policy", "save", file, "--why", "").err
    assert midcourse("policy", "save", file).code == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("show", "standrad"), "There is no policy 'standrad'. Did you mean 'standard'?"),
        (("show", "standard@7"), "There is no version 7 of policy 'standard'. The newest is 1."),
        (("check", "none.yaml"), "none.yaml cannot be read: no such file or directory."),
        (("history", "nobody"), "There is no policy 'nobody'."),
        (("list", "--store", "sqlite:///none.db"), "There is no store at none.db."),
        (("list", "--store", "mysql://x"), "Unknown store"),
    ],
)
def test_what_is_not_there_is_said_to_be_missing(midcourse: Command, arguments: tuple[str, ...], says: str) -> None:
    done = midcourse("policy", *arguments)

    assert done.code == 1
    assert says in done.err


def test_the_schema_is_printed(midcourse: Command) -> None:
    assert midcourse("policy", "schema").json() == schema()


def test_a_store_is_made_by_the_first_save(midcourse: Command, folder: Path, file: str) -> None:
    (folder / ".midcourse" / "midcourse.db").unlink()

    assert midcourse("policy", "save", file, "--why", "first").code == 0
    assert "mine@1" in midcourse("policy", "list").out
    assert midcourse("policy", "save", file, "--why", "x", "--store", "sqlite:///deep/er/x.db").code == 0


# ---- over a server


def over(running: Running, *arguments: str) -> tuple[str, ...]:
    return ("policy", *arguments, "--url", running.url, "--token", TOKEN)


def test_all_of_it_works_over_a_server(midcourse: Command, folder: Path, file: str) -> None:
    with serving(f"sqlite:///{folder}/served.db") as running:
        assert midcourse(*over(running, "save", file, "--why", "a new agent")).out == "Saved as mine@1.\n"
        (folder / file).write_text("policy: mine\nextends: mine@1\ncorrection: 90\n")
        check = midcourse(*over(running, "check", file, "--json")).json()
        assert [one["path"] for one in check["changes"]] == ["correction"]
        assert "correction: 90" in midcourse(*over(running, "show", file)).out
        assert midcourse(*over(running, "save", file, "--why", "shorter")).code == 0
        listed = midcourse(*over(running, "list", "--json")).json()["policies"]
        assert [(one["name"], one["version"]) for one in listed][-1] == ("mine", 2)
        history = midcourse(*over(running, "history", "mine", "--json")).json()["versions"]
        assert [(one["version"], one["by"], one["why"]) for one in history] == [
            (2, "local", "shorter"),
            (1, "local", "a new agent"),
        ]
        assert "warn: 2" in midcourse(*over(running, "show", "mine@1")).out
        diff = midcourse(*over(running, "diff", "mine@1", file, "--json")).json()
        assert [one["path"] for one in diff["changes"]] == ["correction"]
        for arguments, code in (
            (("show", "nobody"), "policy_not_found"),
            (("show", "mine@7"), "policy_not_found"),
            (("show", "a@b@c"), "policy_not_found"),
            (("history", "nobody"), "policy_not_found"),
            (("save", file, "--why", "again"), "policy_unchanged"),
        ):
            assert json.loads(midcourse(*over(running, *arguments, "--json")).err)["code"] == code
        (folder / file).write_text("policy: mine\nsignals: {scope_drfit: {warn: 0.3}}")
        told = midcourse(*over(running, "check", file)).err
        assert "line 2: unknown signal 'scope_drfit'. Did you mean 'scope_drift'?" in told


# ---- the page


def test_the_page_shows_what_the_commands_print(midcourse: Command, folder: Path) -> None:
    """Each file of it is written and each command run, in their order."""
    commands = 0
    for block in blocks((ROOT / "docs" / "how-to" / "write-a-policy.md").read_text(encoding="utf-8")):
        if name := re.search(r"`([\w-]+\.yaml)`:$", block.announced):
            (folder / name[1]).write_text(block.body, encoding="utf-8")
        for part in re.split(r"^\$ midcourse ", block.body, flags=re.MULTILINE)[1:] if block.kind == "console" else ():
            command, *lines = part.splitlines()
            done = midcourse(*shlex.split(command), env={"COLUMNS": "200"})
            assert_prints(re.sub(r"[ \t]+", " ", done.out + done.err), [re.sub(r"\s+", " ", line) for line in lines])
            commands += 1
    assert commands >= 6
