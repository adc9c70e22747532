"""The audit log's entries, their running digest, and what it takes notice of."""

from collections.abc import Callable, Sequence
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.audit import (
    DETAIL_LIMIT,
    PRUNE,
    AuditEntry,
    AuditRow,
    check,
    check_end,
    decided,
    decode_entry,
    digest_of_entry,
    encode_entry,
    follow,
    linked,
    prunable,
    unreadable,
    without_detail,
)
from midcourse.core.codec import GENESIS
from midcourse.core.ids import MessageId, SessionId, StepId
from midcourse.errors import Damaged
from tests.unit.core.stories import ASK_1, ID, PAUSE_1, SESSION, STOP, value

replace = msgspec.structs.replace
texts = st.text(st.characters(codec="utf-8"))
entries = st.builds(
    AuditEntry,
    session=texts.map(SessionId),
    by=texts,
    role=texts,
    action=texts,
    outcome=texts,
    detail=texts,
    at=st.floats(0, 1e12),
)


def entry(detail: str) -> AuditEntry:
    return AuditEntry(session=SESSION, by="ann", role="steer", action="pause", detail=detail, at=1.0)


def log(*details: str) -> list[AuditRow]:
    return follow(None, 0, [encode_entry(entry(detail)) for detail in details])


# ---- entries


@given(entries)
def test_an_entry_comes_out_of_the_log_as_it_was_put(one: AuditEntry) -> None:
    assert decode_entry(encode_entry(one)) == one


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"session":1}', encode_entry(entry("x"))[:20]])
def test_what_is_no_entry_is_damaged(content: bytes) -> None:
    with pytest.raises(Damaged, match="audit log cannot be read"):
        decode_entry(content)


def test_a_field_of_a_later_version_is_passed_over() -> None:
    content = encode_entry(entry("x"))

    assert decode_entry(content.replace(b"}\n", b',"later":1}\n')) == entry("x")


def test_a_detail_that_was_changed_is_noticed_and_one_that_was_erased_is_not_there() -> None:
    content = encode_entry(entry("the secret plan"))

    with pytest.raises(Damaged, match="detail was changed"):
        decode_entry(content + b"s")
    erased = without_detail(content)
    assert b"plan" not in erased
    assert (decode_entry(erased).detail, bool(decode_entry(erased).detail_digest)) == ("", True)
    assert digest_of_entry(erased) == digest_of_entry(content)


@pytest.mark.parametrize(
    ("session", "tenant", "whose"), [("acme~x", "", "acme"), ("x", "", ""), ("", "acme", "acme"), ("", "", "")]
)
def test_an_entry_is_of_its_sessions_tenant_or_of_the_one_it_names(session: str, tenant: str, whose: str) -> None:
    one = AuditEntry(session=SessionId(session), tenant=tenant, by="ann", role="operate", action="token.add")

    assert [who for who in ("", "acme", "beta") if one.is_seen_by(who)] == [whose]
    assert one.is_seen_by(None)
    assert replace(one, action=PRUNE).is_seen_by("beta")


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("x" * DETAIL_LIMIT, "x" * DETAIL_LIMIT),
        ("x" * (DETAIL_LIMIT + 1), "x" * (DETAIL_LIMIT - 1) + "…"),
        ("x" * 100_000, "x" * (DETAIL_LIMIT - 1) + "…"),
        ("a" + " " * 100_000 + "b", "a…"),
        ("two\nlines,\t one", "two lines, one"),
        ("half \ud800 a pair", "half \\ud800 a pair"),
        ("\n", ""),
    ],
)
def test_a_detail_is_one_short_line(text: str, detail: str) -> None:
    assert entry(text).detail == detail
    assert decode_entry(encode_entry(entry(text))) == entry(detail) == entry(text)


# ---- what is said of a command

SAID: tuple[tuple[cmd.AnyCommand, Sequence[ev.AnyEvent], str], ...] = (
    (cmd.Pause(id=ID), (), ""),
    (cmd.Pause(id=ID, reason="let me read", grace=1.5), (), "grace 1.5 s; let me read"),
    (cmd.Resume(id=ID, pause=PAUSE_1), (), PAUSE_1),
    (cmd.Resume(id=ID), (ev.SessionResumed(by="ann", pause=PAUSE_1),), PAUSE_1),
    (cmd.Resume(id=ID), (ev.SessionResumed(by="ann"),), ""),
    (cmd.Redirect(id=ID, text="in French"), (), "step; in French"),
    (cmd.Redirect(id=ID, text="x", level="goal", grace=0.0, resume=True), (), "goal; grace 0 s; and resume; x"),
    (cmd.Cancel(id=ID, reason="enough"), (), "grace 2 s; enough"),
    (cmd.Cancel(id=ID, grace=0.5, undo="all"), (), "grace 0.5 s; undo all"),
    (cmd.Undo(id=ID, reason="wrong folder"), (), "wrong folder"),
    (cmd.Answer(id=ID, ask=ASK_1, value=value('"hunter2"')), (), ASK_1),
    (cmd.Answer(id=ID, value=value('"hunter2"')), (), ""),
    (cmd.Message(id=ID, text="then the appendix"), (), "enqueue; then the appendix"),
    (cmd.Edit(id=ID, message=MessageId("msg_2"), text="in Dutch"), (), "msg_2; in Dutch"),
    (cmd.Withdraw(id=ID, message=MessageId("queued_1")), (), "queued_1"),
    (cmd.OutsideEvent(id=ID, text="the build broke"), (), "the build broke"),
    (cmd.OutsideEvent(id=ID, text="the build broke", source="ci"), (), "ci; the build broke"),
    (cmd.Budget(id=ID, budget=25), (), "$25.00; and resume"),
    (cmd.Budget(id=ID, budget=1234567.5, resume=False), (), "$1234567.50"),
    (cmd.Halt(id=ID, role="operate", reason="fire"), (), "fire"),
    (cmd.Lift(id=ID, role="operate"), (), ""),
    (cmd.Intervene(id=ID, by="policy:standard@1", decision=STOP), (), "stop; 5 calls in a row failed."),
    (cmd.Label(id=ID, about="int_1", verdict="wrong"), (), "int_1; wrong"),
    (cmd.Label(id=ID, about="int_1", verdict="right", note="a loop"), (), "int_1; right; a loop"),
    (cmd.Rate(id=ID, score=4), (), "4 of 5"),
    (cmd.Rate(id=ID, score=2, note="too long"), (), "2 of 5; too long"),
)


def test_something_is_said_of_every_command() -> None:
    assert {type(command) for command, _, _ in SAID} == set(get_args(cmd.AnyCommand))


@pytest.mark.parametrize(("command", "events", "detail"), SAID, ids=[cmd.verb(one) for one, _, _ in SAID])
def test_an_entry_says_who_wished_what_and_what_came_of_it(
    command: cmd.AnyCommand, events: Sequence[ev.AnyEvent], detail: str
) -> None:
    command = replace(command, by="ann")
    one = decided(SESSION, command, "not_allowed", events)

    assert (one.session, one.by, one.role, one.action) == (SESSION, "ann", command.role, cmd.verb(command))
    assert (one.outcome, one.detail) == ("not_allowed", detail)


def test_of_an_answer_only_the_ask_is_said_whichever_way_it_was_named() -> None:
    answered = ev.AskAnswered(ask=ASK_1, step=StepId("1/ask"), value=value('"hunter2"'), by="ann")
    one = decided(SESSION, cmd.Answer(id=ID, value=value('"hunter2"')), "ok", (answered,))

    assert one.detail == ASK_1
    assert b"hunter2" not in encode_entry(one)


def test_a_command_nobody_can_read_is_nobodys() -> None:
    one = unreadable(SESSION, ID, "damaged", "It cannot be read.")

    assert (one.by, one.role, one.action, one.outcome) == ("", "", "unreadable", "damaged")
    assert one.detail == f"command '{ID}': It cannot be read."


# ---- the chain


def test_the_digest_covers_the_bytes_the_number_and_all_that_came_before() -> None:
    digest = GENESIS
    for number, row in enumerate(log("a", "b", "c"), 1):
        digest = linked(digest, number, digest_of_entry(encode_entry(entry("abc"[number - 1]))))
        assert row == AuditRow(number, encode_entry(entry("abc"[number - 1])), digest)


def test_a_log_written_piece_by_piece_is_the_log_written_at_once() -> None:
    whole = log("a", "b", "c")
    begun = log("a")

    assert begun + follow(begun[-1], 1, [row.content for row in whole[1:]]) == whole


def test_a_whole_log_is_read_as_it_was_written() -> None:
    rows = log("a", "b", "c")

    assert [(one.seq, one.entry.detail) for one in check(rows)] == [(1, "a"), (2, "b"), (3, "c")]
    assert [one.seq for one in check(rows[2:], rows[1])] == [3]
    assert check([]) == []


def test_what_is_left_of_a_log_follows_from_its_anchor() -> None:
    rows = log("a", "b", "c")
    anchored = [replace(rows[0], content=b""), *rows[1:]]

    assert [one.seq for one in check(anchored)] == [2, 3]
    with pytest.raises(Damaged, match="damaged at entry 2: it is missing"):
        check([anchored[0], anchored[2]])
    with pytest.raises(Damaged, match="damaged at entry 2"):
        check([rows[0], replace(rows[1], content=b""), rows[2]])


@pytest.mark.parametrize(("before", "rows", "entries"), [(0.5, 0, 0), (1.5, 1, 1), (2.5, 2, 2), (9.0, 4, 4)])
def test_only_what_the_log_begins_with_may_go(before: float, rows: int, entries: int) -> None:
    """An old entry behind a younger one stays: clocks of several machines differ."""
    made = [encode_entry(replace(entry("x"), at=at)) for at in (1.0, 2.0, 3.0, 1.0)]
    gone = prunable(follow(None, 0, made), before, limit=9, now=99.0)

    assert (gone.rows, gone.entries) == (rows, entries)


def _forged(rows: list[AuditRow], at: int) -> AuditRow:
    return follow(rows[at - 1] if at else None, at, [encode_entry(entry("forged"))])[0]


def _renumbered(rows: list[AuditRow]) -> list[AuditRow]:
    return [replace(row, seq=number) for number, row in enumerate(rows, 1)]


Tamper = Callable[[list[AuditRow]], list[AuditRow]]
TAMPERED: dict[str, tuple[Tamper, int]] = {
    "content": (lambda rows: [rows[0], replace(rows[1], content=rows[2].content), rows[2]], 2),
    "digest": (lambda rows: [rows[0], replace(rows[1], digest=rows[2].digest), rows[2]], 2),
    "no digest": (lambda rows: [replace(rows[0], digest=b""), *rows[1:]], 1),
    "content and digest": (lambda rows: [rows[0], _forged(rows, 1), rows[2]], 3),
    "first removed": (lambda rows: rows[1:], 1),
    "middle removed": (lambda rows: [rows[0], rows[2]], 2),
    "removed and renumbered": (lambda rows: _renumbered([rows[0], rows[2]]), 2),
    "put in between": (lambda rows: _renumbered([rows[0], _forged(rows, 1), *rows[1:]]), 3),
    "twice": (lambda rows: [rows[0], rows[0], *rows[1:]], 2),
    "exchanged": (lambda rows: _renumbered([rows[1], rows[0], rows[2]]), 1),
    "put at the end": (lambda rows: [*rows, replace(rows[2], seq=4)], 4),
    "no entry": (lambda _: follow(None, 0, [b"{}"]), 1),
}


@pytest.mark.parametrize(("tamper", "where"), TAMPERED.values(), ids=TAMPERED)
def test_tampering_is_noticed_and_named(tamper: Tamper, where: int) -> None:
    with pytest.raises(Damaged, match=f"damaged at entry {where}: .*backup") as caught:
        check(tamper(log("a", "b", "c")))

    assert caught.value.fields == {"seq": where}
    assert caught.value.code == "damaged"


def test_rows_missing_at_the_end_are_noticed_by_whoever_knows_where_it_ended() -> None:
    rows = log("a", "b", "c")
    check_end(rows, 3, after=0)
    check_end([], 3, after=3)
    check_end([], 3, after=9)
    for left, after in ((rows[:2], 0), ([], 2)):
        with pytest.raises(Damaged, match="damaged at entry 3: it is missing"):
            check_end(left, 3, after=after)


def test_a_number_is_used_once() -> None:
    rows = log("a", "b", "c")
    (behind_a_gap,) = follow(rows[0], 3, [b"{}"])
    (in_an_emptied_log,) = follow(None, 3, [b"{}"])

    assert (behind_a_gap.seq, in_an_emptied_log.seq) == (4, 4)
    with pytest.raises(Damaged, match="damaged at entry 2: it is missing"):
        check([rows[0], behind_a_gap])


def test_an_entry_from_the_future_goes_with_the_old_ones_behind_it_and_holds_nothing_up() -> None:
    def gone(*times: float) -> int:
        made = [encode_entry(AuditEntry(session=SESSION, by="a", role="r", action="x", at=at)) for at in times]
        return prunable(follow(None, 0, made), 5.0, limit=9, now=9.0).entries

    assert gone(1e9, 1.0, 2.0, 7.0, 1.0) == 3
    assert gone(1.0, 1e9) == 1, "not yet: nothing tells how old it is"
    assert gone(1.0, 7.0, 2.0) == 1
