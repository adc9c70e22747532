"""A policy's YAML as values, and the line on which each of them stands.

Read as YAML 1.2, which is what editors check it as: ``yes`` is a text, ``010`` is ten, ``1:30`` is a text. Without
anchors, aliases and tags, which a policy has no use for.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from midcourse.errors import InvalidInput

Place: TypeAlias = "tuple[str | int, ...]"
SIZE_LIMIT: Final = 100_000
"""Bytes of the largest policy."""
DEPTH_LIMIT: Final = 20
VALUE_LIMIT: Final = 2_000
"""Values of the largest policy. The whole document has fewer than 200 parameters."""
NOTHING_SAVED: Final = "Nothing was saved."
MISTAKES_TOLD: Final = 10
_KEY_SHOWN: Final = 60
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,300}")
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]{1,300}|[0-9]{1,300}(?:\.[0-9]{0,300})?)(?:[eE][-+]?[0-9]{1,4})?")
_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    "-.inf": float("-inf"),
}


class Mistake(NamedTuple):
    """A mistake and its place. ``line`` 0: nowhere in particular."""

    line: int
    field: str
    sentence: str


class PolicyPage(NamedTuple):
    """A document, the lines of its values, and what the file is called, if it is one."""

    content: object
    lines: dict[Place, int]
    source: str = ""

    def line(self, place: Place) -> int:
        """Return the line of a value, or of its parent."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 0)


def refusal(mistakes: Iterable[Mistake], source: str = "", *, after: str = NOTHING_SAVED) -> InvalidInput:
    """Return all mistakes as one error, a line each, in order; ``after`` tells what became of the document."""
    found = sorted(mistakes)
    told = [_told(one, source) for one in found[:MISTAKES_TOLD]]
    more = [f"And {len(found) - MISTAKES_TOLD} more."] if len(found) > MISTAKES_TOLD else []
    separator = " " if len(found) == 1 else "\n"
    return InvalidInput(
        separator.join([*told, *more, after]),
        field=found[0].field or "document",
        line=found[0].line,
        mistakes=[one._asdict() for one in found[:MISTAKES_TOLD]],
    )


def _told(mistake: Mistake, source: str) -> str:
    where = [source] if source else []
    where += [f"line {mistake.line}"] if mistake.line else []
    return (
        f"{', '.join(where)}: {mistake.sentence}" if where else f"{mistake.sentence[:1].upper()}{mistake.sentence[1:]}"
    )


def read_page(text: str, source: str = "", *, after: str = "Nothing was saved.") -> PolicyPage:
    """Return the one document in ``text``. ``after`` ends the error, if it cannot be read.

    Raises:
        InvalidInput: it is no YAML, or has what no policy has; the sentence names the line.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > SIZE_LIMIT:
        raise refusal(
            [Mistake(0, "", f"the document has {size:,} bytes; a policy has at most {SIZE_LIMIT:,}.")],
            source,
            after=after,
        )
    yaml = _yaml()
    try:
        # One event at a time: what is nested too deeply, or has no end, is refused before the rest of it is read.
        reading = _Reading(yaml.parse(text, Loader=yaml.SafeLoader))
        content = reading.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = error.problem or error.context or "it cannot be read"
        mistake = Mistake(mark.line + 1 if mark else 0, "", f"this is no YAML: {why}.")
        raise refusal([mistake], source, after=after) from error
    except yaml.YAMLError as error:  # a character that YAML does not have
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        mistake = Mistake(line, "", "this is no YAML: it has a character that no text has.")
        raise refusal([mistake], source, after=after) from error
    if reading.mistakes:
        raise refusal(reading.mistakes, source, after=after)
    return PolicyPage(content, reading.lines, source)


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise InvalidInput(
            "Policies in YAML need PyYAML. Install it: pip install 'midcourse[yaml]'.", field="document"
        ) from error
    return yaml


class _Unusable(Exception):
    """The rest of the document cannot be made sense of."""


class _Reading:
    """The parser's events made values."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._values = 0
        self.lines: dict[Place, int] = {(): 1}
        self.mistakes: list[Mistake] = []

    def document(self) -> object:
        """Return the value of the whole."""
        content: object = None
        documents = 0
        try:
            for event in self._events:
                if type(event).__name__ == "DocumentStartEvent":
                    documents += 1
                    if documents > 1:
                        self._refuse(event, (), "a second document begins here; a file holds one policy.")
                    content = self._value(next(self._events), ())
        except _Unusable:
            pass
        return content

    def _refuse(self, event: Any, place: Place, sentence: str) -> None:
        self.mistakes.append(Mistake(event.start_mark.line + 1, path_text(place), sentence))
        raise _Unusable

    def _value(self, event: Any, place: Place) -> object:
        kind = type(event).__name__
        if kind == "AliasEvent":
            self._refuse(event, place, f"'*{event.anchor}' repeats another part; in a policy, write it out.")
        if event.anchor is not None:
            self._refuse(event, place, f"'&{event.anchor}' names a part; a policy has no use for that. Take it out.")
        if event.tag is not None and event.tag != "!":
            self._refuse(event, place, f"'{_short(str(event.tag))}' is a tag; a policy has none. Take it out.")
        if len(place) > DEPTH_LIMIT:
            self._refuse(event, place, f"this is nested more than {DEPTH_LIMIT} deep; a policy is not.")
        self._values += 1
        if self._values > VALUE_LIMIT:
            self._refuse(event, place, f"here are more than {VALUE_LIMIT:,} values; a policy has fewer.")
        self.lines.setdefault(place, event.start_mark.line + 1)
        if kind == "ScalarEvent":
            if not _is_text(event.value):
                self._refuse(event, place, "half a character is here, which cannot be written. Remove it.")
            return scalar(event.value) if event.implicit[0] and event.style is None else event.value
        return self._sequence(place) if kind == "SequenceStartEvent" else self._mapping(place)

    def _sequence(self, place: Place) -> list[object]:
        values: list[object] = []
        while type(event := next(self._events)).__name__ != "SequenceEndEvent":
            values.append(self._value(event, (*place, len(values))))
        return values

    def _mapping(self, place: Place) -> dict[str, object]:
        values: dict[str, object] = {}
        while type(event := next(self._events)).__name__ != "MappingEndEvent":
            if type(event).__name__ != "ScalarEvent":
                self._refuse(event, place, "a name must stand here, and this is none.")
            name = str(event.value)
            below, line = (*place, name), event.start_mark.line + 1
            if name in values:
                first = self.lines[below]
                told = f"'{_short(name)}' is here for the second time; the first is on line {first}. Keep one."
                self.mistakes.append(Mistake(line, path_text(below), told))
            else:
                self.lines[below] = line
            values[name] = self._value(next(self._events), below)
        return values


def _is_text(value: str) -> bool:
    return not any("\ud800" <= sign <= "\udfff" for sign in value)


def scalar(word: str) -> object:
    """Read a word without quotes as YAML 1.2 does."""
    if word in _WORDS:
        return _WORDS[word]
    if _INTEGER.fullmatch(word):
        return int(word)
    return float(word) if _NUMBER.fullmatch(word) else word


def path_text(place: Place) -> str:
    """Return a place as a path: ``signals.cost.warn``."""
    return ".".join(_short(str(part)) for part in place)


def _short(text: str) -> str:
    return text if len(text) <= _KEY_SHOWN else f"{text[: _KEY_SHOWN - 1]}…"
