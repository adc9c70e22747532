"""What the agent files of these tests name: tools, undos, scripts, and things that are neither."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import midcourse
from midcourse.models.script import Call, Conversation, Piece, Text

NUMBER = 3
done: list[str] = []


def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    done.append(f"sent {text} to {to}")
    return "sent"


def unsend(arguments: dict[str, Any], result: object, key: str) -> None:
    """Take a mail back."""
    done.append(f"took {arguments['text']} back from {arguments['to']}")


def was_sent(arguments: dict[str, Any], key: str) -> midcourse.Happened | None:
    """Say whether a mail was sent."""
    return midcourse.Happened("sent") if f"sent {arguments['text']} to {arguments['to']}" in done else None


@midcourse.tool(effect="read", timeout=7)
def look(at: str) -> str:
    """Look at something. It declares itself."""
    done.append(f"looked at {at}")
    return f"{at} is fine"


@midcourse.tool(effect="read")
def confirm() -> str:
    """Delete, if a person says so."""
    if midcourse.current_call().answer is None:
        raise midcourse.Interrupt("need_approval", "Confirm delete?")
    return f"they said {midcourse.current_call().answer}"


class Desk:
    """Something with a function inside."""

    @staticmethod
    def ring() -> str:
        """Ring the bell."""
        return "ding"


def make_nothing(root: str) -> Path:
    """Makes a thing that has no tools."""
    return Path(root)


def fail_to_make(root: str) -> Path:
    """Makes nothing at all."""
    raise OSError(f"no {root}")


# ---- scripts


def talk(conversation: Conversation) -> Sequence[Piece]:
    """Sends one mail, then says what came of it."""
    results = conversation.results("send_mail")
    if not results:
        return [Text("Sending. "), Call("send_mail", {"to": "ada", "text": "hi"})]
    return [Text(f"It was: {results[-1]}")]


def delete(conversation: Conversation) -> Sequence[Piece]:
    """Wants to delete, then says what came of it."""
    results = conversation.results("confirm")
    return [Text(f"It was: {results[-1]}")] if results else [Call("confirm")]


def slowly(conversation: Conversation) -> Sequence[Piece]:
    """Goes on and on, unless it was told to be brief."""
    return [Text("Yes.")] if "brief" in conversation.user else [Text("and so on " * 500, every=0.02)]


def looks(conversation: Conversation) -> Sequence[Piece]:
    """Looks three times."""
    seen = len(conversation.results("look"))
    return [Call("look", {"at": str(seen)})] if seen < 3 else [Text("Seen.")]


def files(conversation: Conversation) -> Sequence[Piece]:
    """Reads a file, then says what is in it."""
    results = conversation.results("read_file")
    return [Text(results[-1])] if results else [Call("read_file", {"path": "note.txt"})]


def sends_and_talks(conversation: Conversation) -> Sequence[Piece]:
    """Sends one mail, then goes on and on."""
    return slowly(conversation) if conversation.results("send_mail") else talk(conversation)
