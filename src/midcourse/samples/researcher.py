"""``researcher``: reads a folder of documents and writes a long report, a section with each request of its model.

What it returns is the report: every section that was written to its end, and not the words a redirect has cut.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.run import AgentRunResult
from pydantic_ai.usage import UsageLimits

import midcourse
from midcourse.adapters.pydantic_ai import wrap
from midcourse.core.terms import Terms
from midcourse.models.script import Call, Conversation, Piece
from midcourse.samples.folders import folder_of, made_once
from midcourse.samples.models import model_for, words
from midcourse.samples.plan import PlanFromTools
from midcourse.samples.redirects import course_of, quoted, result_of

NAME: Final = "researcher"
DESCRIPTION: Final = "Reads a folder of documents and streams a long report about them, a section at a time."
GOALS: Final = (
    "Write a report on the night bus from the documents",
    "Write a report on the night bus in 30 sections",
    "Report on the night bus in 4 sections, focus on money",
)
_SECTIONS: Final = 10
_MOST_SECTIONS: Final = 200
_ANGLES: Final = ("", "money", "people", "time", "doubt")
_WORDS_OF: Final = {
    "money": ("crown", "cost", "pay", "paid", "fare", "ticket", "money", "wage"),
    "people": ("people", "worker", "driver", "nurse", "parent", "rider", "student", "baker"),
    "time": ("night", "hour", "week", "midnight", "morning", "minute", "month"),
    "doubt": ("risk", "warn", "fear", "not", "nobody", "unless", "complain", "empty"),
}
_CLOSING: Final = "## Closing"
_COMMON: Final = frozenset(
    (
        *("about", "after", "because", "before", "between", "could", "every", "first", "leave", "letter", "night"),
        *("nobody", "other", "people", "somebody", "their", "there", "these", "those", "three", "under", "until"),
        *("wanted", "which", "would"),
    )
)


# ---- the data


def prepare(folder: Path | None = None) -> Path:
    """Prepare the work folder, with its documents. Put others there, in Markdown, and the report is about those."""
    folder = folder or folder_of(NAME)
    made_once(folder / "documents", _generate)
    return folder


def _generate(documents: Path) -> None:
    documents.mkdir()
    for document in files("midcourse.samples").joinpath("documents").iterdir():
        if document.name.endswith(".md"):
            (documents / document.name).write_text(document.read_text(encoding="utf-8"), encoding="utf-8")


# ---- the tools


@dataclass(frozen=True, slots=True)
class _Document:
    name: str
    title: str
    sentences: tuple[str, ...]


def _read() -> list[_Document]:
    found: list[_Document] = []
    for path in sorted((prepare() / "documents").glob("*.md")):
        head, _, body = path.read_text(encoding="utf-8").partition("\n")
        sentences = re.split(r"(?<=[.!?])\s+", " ".join(body.split()))
        found.append(_Document(path.stem, head.removeprefix("#").strip() or path.stem, tuple(filter(None, sentences))))
    return found


@midcourse.tool(effect="read")
def list_documents() -> list[dict[str, Any]]:
    """List the documents: name, title and length in words."""
    return [{"name": one.name, "title": one.title, "words": len(" ".join(one.sentences).split())} for one in _read()]


@midcourse.tool(effect="read")
def gather_notes(section: int, document: str, about: str = "") -> dict[str, Any]:
    """Gather notes for a section from one document, those ``about`` something first.

    Each note is a sentence, with its figures, and with the other documents that speak of the same.
    """
    documents = {one.name: one for one in _read()}
    if document not in documents:
        return {"section": section, "error": f"There is no document '{document}'. There are: {', '.join(documents)}."}
    source = documents[document]
    about_it = [word for part in about.lower().split() for word in _WORDS_OF.get(part, (part,))]
    ranked = sorted(source.sentences, key=lambda text: -sum(word in text.lower() for word in about_it))
    notes: list[dict[str, Any]] = []
    for text in ranked:
        terms = {word.lower() for word in re.findall(r"[A-Za-z]{5,}", text)} - _COMMON
        shared = {
            one.title: sorted(terms & {word.lower() for word in re.findall(r"[A-Za-z]{5,}", " ".join(one.sentences))})
            for one in documents.values()
            if one.name != document
        }
        notes.append(
            {
                "text": text,
                "figures": re.findall(r"\d[\d,]*", text),
                "also_in": {title: common[:3] for title, common in shared.items() if common},
            }
        )
    return {"section": section, "title": source.title, "about": about, "notes": notes}


# ---- the script


def script(conversation: Conversation) -> Sequence[Piece]:
    """List the documents, then write a section with each request; people choose how many, how long and about what."""
    course = course_of(conversation)
    so_far = _since_closing(conversation)
    listed = result_of(so_far, "list_documents")
    is_new = course.is_changed and not so_far.latest.calls
    begin = f"Understood: {quoted(course.last)} " if is_new else ""
    written = _sections(so_far)
    if course.stops or (course.is_changed and not _is_known(course.last)):
        if not written:
            return [words(f"{begin}I leave it at that. I know “in 4 sections”, “shorter” and “focus on money”.")]
        return [words(f"{begin}I leave it at that.\n\n{_CLOSING}\n\n{len(written)} sections were written.")]
    if listed is None:
        return [words(f"{begin}I look at the documents. "), Call("list_documents", {})]
    documents = [one["name"] for one in listed]
    if not documents:
        return [words("There are no documents, so there is nothing to report.")]
    count = next((n for text in reversed(course.said) if (n := _count(text))), _SECTIONS)
    number = len(written) + 1
    if number > count:
        return [words(f"{begin}{len(written)} sections are there already.\n\n{_closing(len(written), documents)}")]
    wanted = _notes_for(number, documents, course.said)
    notes = result_of(so_far.latest if course.is_changed else so_far, "gather_notes", wanted)
    if notes is None:
        return [words(f"{begin}I gather notes for section {number}. "), Call("gather_notes", wanted)]
    is_short = any(re.search(r"\b(short|shorter|brief|briefly)\b", text.lower()) for text in course.said)
    section = _section(number, notes, 2 if is_short else 8)
    if number < count:
        return [words(section), Call("gather_notes", _notes_for(number + 1, documents, course.said))]
    return [words(f"{section}\n\n{_closing(number, documents)}")]


def _closing(sections: int, documents: Sequence[str]) -> str:
    return f"{_CLOSING}\n\nThis report has {sections} sections, from {min(sections, len(documents))} documents."


def _count(text: str) -> int:
    """Return the number in “in 10 sections”; 0 if there is none."""
    found = re.search(r"(\d+)\s+(?:sections|chapters|parts)", text)
    return min(int(found[1]), _MOST_SECTIONS) if found else 0


def _focus(text: str) -> str:
    found = re.search(r"(?:focus(?:ing)? on|concentrate on|only about|more about)\s+(?:the\s+)?([\w-]+)", text.lower())
    return found[1] if found else ""


def _is_known(text: str) -> bool:
    return bool(_count(text) or _focus(text) or re.search(r"\b(short|shorter|brief|report|go on)\b", text.lower()))


def _notes_for(number: int, documents: Sequence[str], said: Sequence[str]) -> dict[str, object]:
    """Return the document of a section, in turn; after all of them, from another angle."""
    focus = next((word for text in reversed(said) if (word := _focus(text))), "")
    round_of, at = divmod(number - 1, len(documents))
    about = focus or _ANGLES[round_of % len(_ANGLES)]
    return {"section": number, "document": documents[at], **({"about": about} if about else {})}


def _since_closing(conversation: Conversation) -> Conversation:
    ends = [at for at, said in enumerate(conversation.said) if said.role == "assistant" and _CLOSING in said.text]
    return Conversation(conversation.said[ends[-1] + 1 :]) if ends else conversation


def _sections(conversation: Conversation) -> list[str]:
    """Return the sections that were written to their end: a call follows them. One that was cut has none."""
    return [
        said.text for said in conversation if said.role == "assistant" and said.calls and said.text.startswith("## ")
    ]


def _section(number: int, notes: Mapping[str, Any], most: int) -> str:
    about = f", with an eye to {notes['about']}" if notes["about"] else ""
    told = [f"## {number}. {notes['title']}{about}", ""]
    for ordinal, note in enumerate(notes["notes"][:most], 1):
        told.append(f"{ordinal}. “{note['text']}” {_remark(note)}")
    return "\n".join(told)


def _remark(note: Mapping[str, Any]) -> str:
    remarks: list[str] = []
    if note["figures"]:
        figures = ", ".join(note["figures"])
        several = "figures" if len(note["figures"]) > 1 else "figure"
        remarks.append(f"The {several} to keep in mind here: {figures}.")
    others = [f"“{title}” ({', '.join(common)})" for title, common in note["also_in"].items()]
    if len(others) > 1:
        remarks.append(
            f"It is not the only source: {'; '.join(others)} speak of the same, and should be read beside it."
        )
    elif others:
        remarks.append(f"One other document speaks of the same, {others[0]}, and the two should be read together.")
    return " ".join(remarks) or "No other document takes this up, so it rests on this one source alone."


# ---- the agent


@dataclass
class WholeReport(AbstractCapability[midcourse.Run]):
    """Makes the result all sections and not the last message alone."""

    async def after_run(self, ctx: RunContext[midcourse.Run], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        return replace(result, output=report_of(result.all_messages()))


def report_of(messages: Sequence[ModelMessage]) -> str:
    """Join the sections in order. Of two with one number the later counts; a cut one does not."""
    sections: dict[str, str] = {}
    last = ""
    for message in messages:
        if not isinstance(message, ModelResponse) or message.state == "interrupted":
            continue
        text = "".join(part.content for part in message.parts if isinstance(part, TextPart)).strip()
        if _CLOSING in last:  # the report before has ended
            sections.clear()
        last = text or last
        if text.startswith("## ") or _CLOSING in text:
            sections[text.partition(".")[0] if text.startswith("## ") else _CLOSING] = text
    return "\n\n".join(sections.values()) or last


def _item(tool: str, arguments: Mapping[str, Any]) -> str:
    if tool == "gather_notes":
        return f"section {arguments['section']}: {arguments['document']}"
    return "look at the documents"


_agent: Final = Agent(
    model_for(script),
    name=NAME,
    deps_type=midcourse.Run,
    instructions=(
        "You write long reports from documents. Call list_documents first. Then, for each section, call gather_notes "
        "with the number of the section, and in your next message write that section (it begins with '## ' and its "
        "number, about 400 words, from the notes alone) together with the call for the notes of the next one. With "
        "the last section write '## Closing' and call nothing. Ten sections, unless the person wants another number."
    ),
    tools=[list_documents, gather_notes],
    capabilities=[PlanFromTools(_item), WholeReport()],
)
agent: Final = wrap(
    _agent,
    deps=lambda run: run,
    description=DESCRIPTION,
    goals=GOALS,
    usage_limits=UsageLimits(request_limit=500),
    terms=Terms(task_class="very_long", policy="standard", budget=5.0),
)
