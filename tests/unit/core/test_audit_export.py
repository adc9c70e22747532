"""The audit log as a file: what it proves to whom, and what it takes notice of."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.core.audit import PRUNE, AuditEntry, AuditRow, encode_entry, follow, pruned, without_detail
from midcourse.core.audit_export import FORMAT, Title, end_line, problem_line, row_line, title_line, verify
from midcourse.core.codec import GENESIS
from midcourse.core.ids import SessionId
from midcourse.errors import Damaged

TITLE = Title(made_at=9.0, by="ann")
THEIRS = Title(made_at=9.0, by="ann", tenant="acme")
replace = msgspec.structs.replace


def entry(session: str, detail: str = "", action: str = "pause") -> AuditEntry:
    return AuditEntry(session=SessionId(session), by="ann", role="steer", action=action, detail=detail, at=1.0)


def log(*entries: AuditEntry) -> list[AuditRow]:
    return follow(None, 0, [encode_entry(one) for one in entries])


def file_of(rows: list[AuditRow], *, hidden: tuple[int, ...] = (), title: Title = TITLE) -> list[bytes]:
    """The lines of an export, some of whose entries are withheld."""
    end = end_line(rows[-1].seq, rows[-1].digest) if rows else end_line(0, GENESIS)
    return [title_line(title), *(row_line(row, shown=row.seq not in hidden) for row in rows), end]


THREE = log(entry("a", "one"), entry("b", "two"), entry("c"))


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=20)), max_size=6), st.sets(st.integers(1, 6)))
def test_a_file_holds_what_the_log_does_whatever_is_withheld(said: list[tuple[str, str]], hidden: set[int]) -> None:
    entries = [entry(session, detail) for session, detail in said]
    found = verify(file_of(log(*entries), hidden=tuple(hidden), title=THEIRS))

    assert found.entries == tuple((seq, one) for seq, one in enumerate(entries, 1) if seq not in hidden)
    assert (found.last, found.withheld) == (len(entries), len(hidden & set(range(1, len(entries) + 1))))


def test_a_withheld_entry_shows_nothing_of_itself() -> None:
    lines = file_of(THREE, hidden=(2,), title=THEIRS)

    assert msgspec.json.decode(lines[2]).keys() == {"seq", "digest", "withheld"}
    assert verify(lines).digest == verify(file_of(THREE)).digest == THREE[-1].digest.hex()


def test_in_a_file_of_everything_nothing_can_be_withheld() -> None:
    """Who hides an entry has to say so in the title."""
    with pytest.raises(Damaged, match="wrong at line 3, entry 2: it is withheld"):
        verify(file_of(THREE, hidden=(2,)))


def test_a_detail_that_was_erased_breaks_nothing_if_an_entry_tells_of_it() -> None:
    rows = [THREE[0], replace(THREE[1], content=without_detail(THREE[1].content)), THREE[2]]
    told = follow(rows[-1], 3, [encode_entry(entry("b", action="erase"))])

    assert [one.detail for _, one in verify(file_of([*rows, *told])).entries] == ["one", "", "", ""]
    other = follow(rows[-1], 3, [encode_entry(entry("a", action="erase"))])
    for tampered in (rows, [*rows, *other]):
        with pytest.raises(Damaged, match="wrong at line 3, entry 2: its detail is gone"):
            verify(file_of(tampered))


Tamper = Callable[[list[bytes]], list[bytes]]
TAMPERED: dict[str, tuple[Tamper, int, int]] = {
    "an entry": (lambda lines: [*lines[:2], lines[2].replace(b'"ann"', b'"bob"'), *lines[3:]], 3, 2),
    "a detail": (lambda lines: [*lines[:2], lines[2].replace(b"two", b"2"), *lines[3:]], 3, 2),
    "a digest": (lambda lines: [lines[0], lines[1].replace(b'"digest":"', b'"digest":"00'), *lines[2:]], 2, 1),
    "left out": (lambda lines: [*lines[:2], *lines[3:]], 3, 2),
    "left out at the beginning": (lambda lines: [lines[0], *lines[2:]], 2, 1),
    "cut at the end": (lambda lines: lines[:-1], 5, 4),
    "cut, with its end": (lambda lines: [*lines[:3], lines[-1]], 4, 2),
    "twice": (lambda lines: [*lines[:2], *lines[1:]], 3, 2),
    "exchanged": (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], 2, 1),
    "behind the end": (lambda lines: [*lines, lines[1]], 6, 4),
    "an anchor in the middle": (
        lambda lines: [*lines[:2], b'{"seq":2,"digest":"%s"}\n' % (b"0" * 32), *lines[3:]],
        3,
        2,
    ),
    "no JSON": (lambda lines: [*lines[:2], b"{\n", *lines[3:]], 3, 2),
    "endless": (lambda lines: [*lines[:2], b" " * 100_000, *lines[3:]], 3, 2),
    "a problem": (lambda lines: [*lines[:2], problem_line("entry 2 is missing")], 3, 2),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_file_that_was_changed_says_where(what: str) -> None:
    tamper, line, seq = TAMPERED[what]

    with pytest.raises(Damaged, match=f"wrong at line {line}, entry {seq}: ") as told:
        verify(tamper(file_of(THREE)))
    assert (told.value.fields["line"], told.value.fields["seq"]) == (line, seq)


@pytest.mark.parametrize("lines", [[], [b"{}\n"], [b'{"made_at":1,"by":"x"}\n'], [b"seq,entry\n"]])
def test_what_is_no_export_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(Damaged, match="audit log"):
        verify(lines)


def test_a_later_format_is_not_guessed_at() -> None:
    with pytest.raises(Damaged, match="Use the Midcourse that wrote it"):
        verify([title_line(TITLE).replace(FORMAT.encode(), b"midcourse.audit@2")])


def test_a_file_that_begins_later_must_say_who_took_the_rest_away() -> None:
    """Whoever cuts the beginning off and writes an anchor there is found out."""
    anchor = replace(THREE[0], content=b"")
    telling = pruned(AuditEntry(session=SessionId(""), by="root", role="operate", action=PRUNE, at=2.0), 1, 1)
    told = follow(THREE[-1], 3, [encode_entry(telling)])

    assert verify(file_of([anchor, *THREE[1:], *told])).first == 2
    with pytest.raises(Damaged, match="no entry tells who took them away"):
        verify(file_of([anchor, *THREE[1:]]))
    assert verify(file_of([anchor, *THREE[1:]], title=replace(TITLE, since=1.0))).first == 2
