"""``midcourse answer``: tell a session what it asks."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
import typer

from midcourse.cli.ask_details import details, how_to_answer, title
from midcourse.cli.command import Call, command
from midcourse.cli.printer import plain, print_json, print_lines
from midcourse.cli.status_text import reply_words
from midcourse.cli.target import SessionArgument, WaitOption, argument, field_of, find, flag, opened, option
from midcourse.clock import SystemClock
from midcourse.core import commands as cmd
from midcourse.core.asks import NEED_APPROVAL, is_no, is_unclear, is_yes
from midcourse.core.request_checks import answer_value
from midcourse.core.session import ChildAsk, OpenAsk, Session
from midcourse.core.to_json import to_json
from midcourse.errors import InvalidInput, MidcourseError, Refused

_SHOWN: Final = 200
"""Characters of an answer that are repeated."""


@command("answer", "Answer what a session asks.")
async def answer(
    call: Call,
    session: SessionArgument,
    value: Annotated[str | None, argument("TEXT", "The answer.")] = None,
    json_value: Annotated[str | None, option("--json-value", "JSON", "The answer as JSON, in place of TEXT.")] = None,
    ask: Annotated[str | None, field_of(cmd.Answer, "ask", "--ask", "ID")] = None,
    as_is: Annotated[bool, flag("--as-is", "Send the text as it is, without a confirmation.")] = False,
    wait: WaitOption = 10.0,
) -> None:
    """Answer what a session asks. An ask takes one answer, which is final; the session continues with it.

    An approval (need_approval) is given by yes, approve or true. Words that may mean yes (y, ok, sure) need a clearer
    answer; any other text refuses, and the agent reads it. A terminal asks you to confirm such a text, unless you give
    --as-is. Without an answer, this shows the open asks.

    \b
    Examples:
      midcourse answer sess_0198f2
      midcourse answer sess_0198f2 yes
      midcourse answer sess_0198f2 --ask ask_2 "the second draft"
      midcourse answer sess_0198f2 --json-value '{"rows": [1, 2]}'
    """
    if value is not None and json_value is not None:
        raise typer.BadParameter("Give TEXT or --json-value, not both.")
    is_given = value is not None or json_value is not None
    meant: Any = value
    if json_value is not None:
        try:
            meant = msgspec.json.decode(json_value.encode("utf-8", "surrogateescape"))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise typer.BadParameter(
                f"--json-value is no JSON ({error}). A text needs quotes inside: '\"yes\"'."
            ) from None

    async with opened(call) as sessions:
        handle = await find(sessions, session)
        state = await handle.state()
        asked = _asked(state)
        if not is_given:
            _show(state, asked, as_json=call.as_json)
            return
        if ask is None and len(asked) > 1:
            raise _which(state, asked)
        named = ask if ask is not None or not asked else next(iter(asked))
        if not (as_is or call.as_json) and named in asked and asked[named].reason == NEED_APPROVAL:
            _be_sure(meant)
        reply = await handle.answer(meant, ask=named, wait=wait)
    if call.as_json:
        print_json({**to_json(reply), "sentence": str(reply)})
        return
    if named in asked:
        print_lines(f"Answered {named} ({_words(asked[named])})")
    if reply.counted:
        print_lines(_counted(reply.counted, meant))
    print_lines(f"{handle.id}: {reply_words(reply, SystemClock().now())}")


def _asked(state: Session) -> dict[str, OpenAsk | ChildAsk]:
    """Return the open asks, by the name they are answered under."""
    own: dict[str, OpenAsk | ChildAsk] = {str(ask.id): ask for ask in state.asks}
    return own | {f"{one.child}/{one.ask}": one for one in state.child_asks}


def _words(ask: OpenAsk | ChildAsk) -> str:
    return f"{ask.reason}: {title(ask.reason, ask.prompt)}"


def _be_sure(meant: Any) -> None:
    """Have a person at a terminal confirm a text that is neither yes nor no."""
    said = answer_value(meant)
    if is_yes(said) or is_no(said) or is_unclear(said) or not sys.stdin.isatty():
        return
    question = f"'{_cut(meant)}' is neither yes nor no: it refuses, and the agent reads it. Send it?"
    if not typer.confirm(plain(question, lines=False), err=True):
        raise InvalidInput("Nothing was sent. Answer yes or no, or say it again with --as-is.", field="value")


def _cut(meant: Any) -> str:
    text = meant if isinstance(meant, str) else msgspec.json.encode(meant).decode()
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _counted(counted: str, meant: Any) -> str:
    """Return how an answer to an approval counted, and what was sent with it."""
    if counted == "approved" or is_no(answer_value(meant)):
        return f"{counted.capitalize()}."
    return f"Refused; the agent gets: {_cut(meant)}"


def _show(state: Session, asked: Mapping[str, OpenAsk | ChildAsk], *, as_json: bool) -> None:
    if as_json:
        print_json({"asks": to_json(state.asks), "child_asks": to_json(state.child_asks)})
        return
    if not asked:
        print_lines(f"{state.id} is {state.status} and asks nothing.")
    for name, ask in asked.items():
        options = ask.options if isinstance(ask, OpenAsk) else ()
        print_lines(f"{name}  {_words(ask)}" + (f" [{' / '.join(options)}]" if options else ""))
        print_lines(*details(ask.reason, ask.prompt, changes=state.changes))
    if asked:
        print_lines(how_to_answer(state, next(iter(asked))))


def _which(state: Session, asked: Mapping[str, OpenAsk | ChildAsk]) -> MidcourseError:
    known = {name: _words(ask) for name, ask in asked.items()}
    lines = "".join(f"\n  {name}  {words}" for name, words in known.items())
    return Refused(
        f"{state.id} asks {len(asked)} things; say which with --ask:{lines}",
        code="ask_id_required",
        session_id=state.id,
        asks=known,
    )
