"""The page: whole, valid, readable by a screen reader, and nothing from a session runs in it."""

import re
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from midcourse.analysis.reports.checklist import checklist
from midcourse.analysis.reports.checklist_inputs import Grounds
from midcourse.analysis.reports.facts import SessionFacts
from midcourse.analysis.reports.html import POLICY, STYLE, page
from midcourse.analysis.reports.report import Report
from midcourse.analysis.reports.totals import report_of
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.ids import SessionId
from midcourse.core.terms import TaskClass, Terms
from midcourse.policy.profiles import STANDARD
from tests.reports.journals import Journal
from tests.reports.recorded_fleet import recorded_fleet

EVIL = "<script>alert(1)</script>\"'&"
VOID = {"meta", "br"}


def busy(sessions: int = 400, agent: str = "researcher") -> Report:
    """A report with something in every part of it."""
    counted = [(_session(number, agent), STANDARD) for number in range(sessions)]
    return report_of(counted, 1_762_128_000.0, 1_762_732_800.0, ["Only the newest were read."])


def _session(number: int, agent: str) -> SessionFacts:
    classes: tuple[TaskClass, ...] = ("short", "medium", "medium", "medium", "long", "long", "very_long", "protected")
    kind = classes[number % len(classes)]
    journal = (
        Journal(agent=agent, terms=Terms(policy="standard@1", task_class=kind)).started().planned("done", "queued")
    )
    if kind in ("long", "very_long") and number % 3 == 0:
        step = journal.begun(5.0, kind="model")
        signal = ("scope_drift", "duration", "loops")[number % 7 % 3]
        journal.stepped_in("pause", 6.0, signal=signal, late=0.001 * (number % 50))
        journal.happens(ev.StepCut(step=step, attempt=1, length=3), at=6.1)
        journal.happens(ev.SessionPaused(), at=6.1 + 0.0004 * (1 + number % 97) ** 1.6)
        journal.answered("ask_1", "go on", 40.0 + number % 300)
        journal.begun(400.0, kind="model", again=step)
        journal.finished(step, 401.0, attempt=2, cost=0.03 if number % 2 else 0.0)
    if kind == "medium" and number % 10 == 1:
        journal.wished(cmd.Pause, 410.0, by="bob").happens(ev.SessionPaused(), at=410.03).wished(cmd.Resume, 420.0)
        journal.called(421.0)
    journal.planned("done", "done")
    failed = number % 23 == 0
    end: ev.AnyEvent = ev.SessionFailed(code="x", message="y") if failed else ev.SessionCompleted()
    journal.happens(end, at=500.0)
    if number % 5 == 0:
        journal.wished(cmd.Rate, 501.0, score=3 + number % 3)
    if journal.session.interventions and number % 4:
        journal.labelled("int_1", "wrong" if number % 9 < 3 else "right")
    facts = replace(journal.facts(), id=SessionId(f"sess_{number}"))
    return replace(facts, outlived=("send_report",)) if number % 150 == 1 else facts


class Reader(HTMLParser):
    """Checks that every element is closed, and collects tags and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


def read(content: str) -> Reader:
    reader = Reader()
    reader.feed(content)
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def report() -> Report:
    return busy()


def test_it_is_one_whole_page_that_needs_nothing_else(report: Report) -> None:
    found = read(page(report))
    names = [tag for tag, _ in found.tags]
    assert not {"script", "link", "img", "iframe", "object"} & set(names)
    assert "http" not in page(report).replace("http-equiv", "")
    assert not any("style" in attributes for _, attributes in found.tags)  # the server's policy forbids them
    assert not any(name.startswith("on") for _, attributes in found.tags for name in attributes)


def test_tables_have_captions_and_heads_and_pictures_have_words(report: Report) -> None:
    found = read(page(report))
    names = [tag for tag, _ in found.tags]
    assert names.count("table") == names.count("caption") >= 4
    heads = [attributes for tag, attributes in found.tags if tag == "th"]
    assert all(attributes.get("scope") in ("col", "row") for attributes in heads)
    pictures = [attributes for tag, attributes in found.tags if tag == "svg"]
    assert pictures
    assert all(one["role"] == "img" and one["aria-label"] for one in pictures)


def test_it_says_what_was_missed_and_how_it_was_counted(report: Report) -> None:
    text = read(page(report)).text
    assert report.alerts
    for alert in report.alerts:
        assert alert.sentence in text
    for line in (*report.method, *report.notes):
        assert line in text
    for words in ("kept", "above", "too few to say", "too often wrong", "Could not be stopped", "send_report"):
        assert words in text


def words_of(content: str) -> str:
    """What stands there, but for the pictures, with one space between two parts."""
    return " ".join(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", content).split())


def test_every_figure_of_the_known_fleet_is_on_it_with_how_many_it_is_of() -> None:
    sessions = [(replace(journal.facts(), flaw=""), STANDARD) for journal in recorded_fleet()]
    text = words_of(page(report_of(sessions, 0.0, 1.0)))
    for words in (
        "short 3 20 s 40 s",
        "up to 30 s 66.7 % of 3 ○ too few to say 30 tok/s 40 tok/s 3",
        "Recovered 66.7 % 6",
        "after a stop 75 % 4",
        "after its process was lost 50 % 2",
        "Calls left estimated within 20 % 50 % 2",
        "2 of 13 runs had an estimate; middle error 16.7 %",
        "all 75 % of 4 – – 90.9 % of 11 -15.9 pp 1",
        "medium 0 % of 1 95–98 % ○ too few to say 50 % of 2 -50 pp 1",
        "return +2,100 % $2.20 worth for $0.10 cost; known of 2 of 3 automatic",
    ):
        assert words in text, text


def test_what_nobody_can_know_is_called_unknown() -> None:
    text = words_of(page(report_of((), 0.0, 1.0)))
    for words in ("No run has completed.", "Recovered unknown 0", "return unknown known of 0 of 0 automatic"):
        assert words in text, text


def test_nothing_that_a_session_says_can_run_in_it() -> None:
    hostile = busy(40, agent=EVIL)
    content = page(replace(hostile, notes=(EVIL,), policies={EVIL: 1}, outlived={EVIL: (EVIL,)}))
    assert "<script" not in content
    assert EVIL in read(content).text


def test_the_page_of_nothing_says_so() -> None:
    text = read(page(report_of((), 0.0, 1.0))).text
    for words in (
        "No session began in this time.",
        "Nothing was stopped.",
        "No policy stepped in.",
        "Nothing was asked.",
    ):
        assert words in text


def test_the_checklist_stands_below_it(report: Report) -> None:
    items = checklist(report, Grounds(policy=STANDARD, durability="power"))
    text = read(page(report, items)).text
    assert all(one.what in text for one in items)


def test_its_security_policy_allows_its_own_style_and_nothing_more() -> None:
    assert re.search(r"style-src 'sha256-[A-Za-z0-9+/=]+'", POLICY)
    assert f"<style>{STYLE}</style>" in page(report_of((), 0.0, 1.0))
    assert "default-src 'none'" in POLICY
