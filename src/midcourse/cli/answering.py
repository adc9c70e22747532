"""``midcourse answer``: tell a session what it asks."""

from typing import Annotated, Any

import msgspec
import typer

from midcourse.cli.opening import (
    JsonOption,
    SessionArgument,
    StoreOption,
    Target,
    TokenOption,
    UrlOption,
    find,
    opened,
)
from midcourse.cli.people import me
from midcourse.cli.printing import carry_out, print_json, say
from midcourse.cli.words import reply_words
from midcourse.core.session import Session
from midcourse.core.spelling import spelled
from midcourse.errors import MidcourseError, Refused
from midcourse.runtime.clock import SystemClock


def add_to(app: typer.Typer) -> None:
    """Add this command."""
    app.command("answer", short_help="Answer what a session asks.")(answer)


def answer(
    session: SessionArgument,
    value: Annotated[str | None, typer.Argument(metavar="TEXT", help="The answer.", show_default=False)] = None,
    json_value: Annotated[
        str | None, typer.Option("--json-value", metavar="JSON", help="The answer as JSON, in place of TEXT.")
    ] = None,
    ask: Annotated[
        str | None,
        typer.Option("--ask", metavar="ID", help="Which ask, such as ask_2, if several are open."),
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0.0, help="The most to wait for the decision.")
    ] = 10.0,
    store: StoreOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer what a session asks. It goes on with that, once: an ask takes one answer, and it cannot be taken back.

    Where an approval is asked for (need_approval), yes, approve and true approve; anything else refuses and is passed
    on as text. Without an answer this shows what is asked.

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
    target = Target(store, url, token)

    async def work() -> None:
        async with opened(target) as sessions:
            handle = await find(sessions, session)
            state = await handle.state()
            asked = _asked(state)
            if not is_given:
                _show(state, asked, as_json=as_json)
                return
            if ask is None and len(asked) > 1:
                raise _which(state, asked)
            named = ask if ask is not None or not asked else next(iter(asked))
            reply = await handle.answer(meant, ask=named, wait=wait, by=me())
        if as_json:
            print_json({**spelled(reply), "sentence": str(reply)})
            return
        if named in asked:
            say(f"Answered {named} ({asked[named]})")
        say(f"{handle.id}: {reply_words(reply, SystemClock().now())}")

    carry_out(work(), as_json=as_json)


def _asked(state: Session) -> dict[str, str]:
    """The open asks, by the name they are answered under."""
    own = {str(ask.id): f"{ask.reason}: {ask.prompt}" for ask in state.asks}
    return own | {f"{one.child}/{one.ask}": f"{one.reason}: {one.prompt}" for one in state.child_asks}


def _show(state: Session, asked: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print_json({"asks": spelled(state.asks), "child_asks": spelled(state.child_asks)})
        return
    if not asked:
        say(f"{state.id} is {state.status} and asks nothing.")
    for name, words in asked.items():
        options = next((ask.options for ask in state.asks if ask.id == name), ())
        say(f"{name}  {words}" + (f" [{' / '.join(options)}]" if options else ""))
    if asked:
        say(f"Answer with: midcourse answer {state.id} --ask {next(iter(asked))} TEXT")


def _which(state: Session, asked: dict[str, str]) -> MidcourseError:
    lines = "".join(f"\n  {name}  {words}" for name, words in asked.items())
    return Refused(
        f"{state.id} asks {len(asked)} things; say which with --ask:{lines}",
        code="ask_id_required",
        session_id=state.id,
        asks=asked,
    )
