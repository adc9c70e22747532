"""What the demonstration shows: lines that stay, and below them, on a terminal, the session as it moves."""

import time
from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

import midcourse

_STATUS_STYLES = {
    "queued": "white",
    "running": "bold green",
    "pausing": "bold yellow",
    "paused": "bold yellow",
    "cancelling": "bold red",
    "completed": "bold cyan",
    "failed": "bold red",
}
_MARKS = {"queued": ("○", "dim"), "running": ("▶", "bold green"), "done": ("✓", "cyan"), "interrupted": ("◼", "yellow")}


class Screen:
    """A console, and on a terminal a panel at its end that is drawn again and again."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._session: midcourse.Session | None = None
        self._seen_at = 0.0
        self._text = ""
        self._owner = ""
        self._live = Live(get_renderable=self._draw, console=console, refresh_per_second=12, transient=True)
        self._scenes = 0

    def __enter__(self) -> "Screen":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def scene(self, title: str) -> None:
        """A new chapter."""
        self._scenes += 1
        self._console.print()
        self._console.print(Rule(Text(f" {self._scenes}  {title} ", style="bold"), align="left", style="dim"))

    def line(self, text: str, *, style: str = "") -> None:
        """A line that stays."""
        self._console.print(f"   {text}", style=style, markup=False, highlight=not style, soft_wrap=True)

    def show(self, renderable: RenderableType) -> None:
        """Something that stays."""
        self._console.print(renderable)

    def session(self, session: midcourse.Session) -> None:
        """How the session stands."""
        self._session, self._seen_at = session, time.time()

    def text(self, text: str) -> None:
        """What the model has said so far."""
        self._text = text

    def owner(self, text: str) -> None:
        """Who works on it."""
        self._owner = text

    def _draw(self) -> RenderableType:
        session = self._session
        if session is None:
            return Text("")
        parts: list[RenderableType] = [self._item(item.title, item.status, session) for item in session.plan]
        if self._text:
            parts += [Text(), Text(self._text + ("▌" if session.calls else ""), style="italic")]
        status = Text(f" {session.status} ", style=_STATUS_STYLES.get(session.status, "bold"))
        return Panel(Group(*parts), title=status, subtitle=self._owner, title_align="left", subtitle_align="right")

    def _item(self, title: str, status: str, session: midcourse.Session) -> Text:
        call = next((call for call in session.calls.values() if call.name == title), None)
        if status == "running" and call is None:
            status = "interrupted"
        mark, style = _MARKS[status]
        running = f"  {time.time() - call.since:.1f} s" if call is not None else ""
        return Text.assemble((f"{mark} ", style), (title, style), (running, "dim"))


def facts(console: Console, *, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table of what was measured or read."""
    table = Table(title=title, title_justify="left", title_style="bold", expand=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number in (0, 1, len(columns) - 1) else "right")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)
