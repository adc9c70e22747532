"""``records-cleaner``: finds duplicate and obsolete contacts in a table, and asks a person before it deletes them.

A deletion is one transaction. What was deleted is kept beside, under the key of the call, and an undo puts it back.
"""

import json
import random
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from pydantic_ai import Agent

import midcourse
from midcourse.adapters.pydantic_ai import wrap
from midcourse.core.terms import Terms
from midcourse.models.script import Call, Conversation, Piece
from midcourse.samples.folders import folder_of, made_once
from midcourse.samples.models import model_for, words
from midcourse.samples.plan import PlanFromTools
from midcourse.samples.redirects import course_of, done_since, quoted, result_of

NAME: Final = "records-cleaner"
DESCRIPTION: Final = (
    "Finds duplicate and obsolete contacts in a SQLite table and asks “Confirm delete?” before it deletes."
)
GOALS: Final = (
    "Clean the contacts: remove duplicates and records unused since before 2022",
    "Clean the contacts, only duplicates",
)
PROMPT: Final = "Confirm delete?"
PLAN: Final = {"find_candidates": "find candidates", "delete_records": "delete what was confirmed"}
Kind = Literal["both", "duplicates", "obsolete"]

_YES: Final = frozenset({"yes", "approve", "true"})
_FIRST: Final = ("ada", "ben", "cleo", "dan", "eva", "finn", "gus", "hana", "ivo", "jo", "kim", "lea", "max", "nia")
_LAST: Final = ("ames", "berg", "cole", "diaz", "ek", "frost", "gray", "holm", "ito", "jain", "kerr", "lund")
_DOMAINS: Final = ("example.com", "example.net", "example.org")
_SCHEMA: Final = """
create table contacts (id integer primary key, name text not null, email text not null, last_used text not null);
create table deleted_contacts (
    key text not null, id integer not null, name text not null, email text not null, last_used text not null,
    primary key (key, id)
);
"""


# ---- the data


def prepare(folder: Path | None = None) -> Path:
    """Prepare the work folder, with its table of contacts."""
    folder = folder or folder_of(NAME)
    made_once(folder / "contacts.db", _generate)
    return folder


def _generate(path: Path) -> None:
    chance = random.Random(7)
    contacts: list[tuple[str, str, str]] = []
    for _ in range(260):
        first, last = chance.choice(_FIRST), chance.choice(_LAST)
        email = f"{first}.{last}{chance.randint(1, 30)}@{chance.choice(_DOMAINS)}"
        used = date(2026, 9, 30) - timedelta(days=int(chance.expovariate(1 / 700)))
        contacts.append((f"{first} {last}".title(), email, f"{used}"))
        if chance.random() < 0.12:  # it was entered again, in capitals
            contacts.append((f"{last}, {first}".title(), email.upper(), f"{used - timedelta(days=40)}"))
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(_SCHEMA)
        database.executemany("insert into contacts (name, email, last_used) values (?, ?, ?)", contacts)


def _open() -> "closing[sqlite3.Connection]":
    return closing(sqlite3.connect(prepare() / "contacts.db", timeout=10, isolation_level=None))


# ---- the tools


@midcourse.tool(effect="read")
def find_candidates(kind: Kind = "both", before: str = "2022-01-01", keep: str = "") -> dict[str, Any]:
    """Find records to delete: duplicates (all but the last used of an address) and those not used since ``before``.

    What has ``keep`` in its address is left out.
    """
    with _open() as database:
        found = database.execute(
            """
            select id, email, last_used < :before as is_obsolete,
                   row_number() over (partition by lower(email) order by last_used desc, id) > 1 as is_duplicate
            from contacts order by id
            """,
            {"before": before},
        ).fetchall()
    spared = [row for row in found if not keep or keep.lower() not in row[1].lower()]
    duplicates = [row[0] for row in spared if row[3] and kind != "obsolete"]
    obsolete = [row[0] for row in spared if row[2] and row[0] not in duplicates and kind != "duplicates"]
    return {"records": len(found), "duplicates": duplicates, "obsolete": obsolete}


def _put_back(arguments: Mapping[str, Any], result: object, key: str) -> None:
    del arguments, result  # the key says all
    with _open() as database, database:
        database.execute("begin immediate")
        database.execute(
            "insert or ignore into contacts select id, name, email, last_used from deleted_contacts where key = ?",
            (key,),
        )
        database.execute("delete from deleted_contacts where key = ?", (key,))


@midcourse.tool(effect="write", undo=_put_back, local=True)
def delete_records(ids: list[int]) -> dict[str, Any] | midcourse.Unchanged:
    """Delete records. A person is asked first; if they do not say yes, nothing is deleted."""
    call = midcourse.current_call()
    if call.answer is None:
        raise midcourse.Interrupt("need_approval", PROMPT)
    if f"{call.answer}".strip().lower() not in _YES:
        return midcourse.Unchanged({"deleted": 0, "answer": call.answer, "note": "The person did not confirm."})
    wanted = json.dumps(ids)
    with _open() as database, database:
        database.execute("begin immediate")
        database.execute(
            "insert or ignore into deleted_contacts select ?, id, name, email, last_used from contacts "
            "where id in (select value from json_each(?))",
            (call.key, wanted),
        )
        database.execute("delete from contacts where id in (select value from json_each(?))", (wanted,))
        (deleted,) = database.execute("select count(*) from deleted_contacts where key = ?", (call.key,)).fetchone()
        (left,) = database.execute("select count(*) from contacts").fetchone()
    if not deleted:
        return midcourse.Unchanged({"deleted": 0, "left": left, "note": "None of these records was there any more."})
    return {"deleted": deleted, "left": left}


# ---- the script


def script(conversation: Conversation) -> Sequence[Piece]:
    """Look, delete with a person's consent, tell."""
    course = course_of(conversation)
    if course.stops:
        return [words(f"Understood: {quoted(course.last)} I delete nothing.")]
    wanted = _wanted(course.said)
    if course.is_changed and not _wanted((course.last,)) and "clean" not in course.last.lower():
        return [
            words(
                f"I understood: {quoted(course.last)} I know “only duplicates”, “only obsolete”, “before 2020” and "
                "“keep example.org”. I leave the records as they are."
            )
        ]
    so_far = done_since(conversation, "delete_records")
    begin = f"Understood: {quoted(course.last)} " if course.is_changed and not so_far.latest.calls else ""
    found = result_of(so_far, "find_candidates", wanted)
    if found is None:
        return [words(f"{begin}I look for records that can go. "), Call("find_candidates", wanted)]
    duplicates, obsolete = found["duplicates"], found["obsolete"]
    if not duplicates and not obsolete:
        return [words(f"None of the {found['records']} records has to go.")]
    deleted = so_far.latest.results("delete_records")
    if not deleted:
        return [
            words(
                f"{begin}Of {found['records']} records {len(duplicates)} are duplicates and {len(obsolete)} "
                "obsolete. I ask before I delete them. "
            ),
            Call("delete_records", {"ids": sorted([*duplicates, *obsolete])}),
        ]
    outcome = json.loads(deleted[-1]) if deleted[-1].startswith("{") else {"deleted": 0, "note": deleted[-1]}
    if outcome["deleted"]:
        return [words(f"Deleted {outcome['deleted']} records; {outcome['left']} are left. They can be put back.")]
    return [words(f"Nothing was deleted. {outcome['note']}")]


def _wanted(said: Sequence[str]) -> dict[str, object]:
    """Return the criteria, as far as they were given. Later messages count."""
    wanted: dict[str, object] = {}
    for text in said:
        only = re.search(r"(?:only|just)\s+(?:the\s+)?(duplicate|obsolete|old)", text, re.IGNORECASE)
        if only:
            wanted["kind"] = "duplicates" if only[1].lower() == "duplicate" else "obsolete"
        year = re.search(r"(?:before|older than|since before)\s+(\d{4})", text, re.IGNORECASE)
        if year:
            wanted["before"] = f"{year[1]}-01-01"
        keep = re.search(
            r"(?:keep|spare|except)\s+(?:those\s+(?:of|from|at)\s+|everybody\s+at\s+)?@?([\w.-]+\.\w+)", text
        )
        if keep:
            wanted["keep"] = keep[1]
    return wanted


# ---- the agent


_agent: Final = Agent(
    model_for(script),
    name=NAME,
    deps_type=midcourse.Run,
    instructions=(
        "You clean a table of contacts. Call find_candidates with what the person wants, then delete_records with all "
        "ids it gave, duplicates and obsolete. A person is asked by the tool itself; if they do not confirm, accept it "
        "and try nothing else. Say in a sentence what you do before each call, and end with what was deleted."
    ),
    tools=[find_candidates, delete_records],
    capabilities=[PlanFromTools(lambda tool, _: PLAN.get(tool, ""), tuple(PLAN.values()))],
)
agent: Final = wrap(
    _agent,
    deps=lambda run: run,
    description=DESCRIPTION,
    goals=GOALS,
    terms=Terms(task_class="medium", policy="standard", budget=1.0),
)
