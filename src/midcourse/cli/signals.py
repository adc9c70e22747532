"""``midcourse session signals``: how a session stands against the thresholds of its policy."""

from midcourse.cli.command import Call, command
from midcourse.cli.printer import print_json, print_lines, show_table
from midcourse.cli.status_text import clock_time
from midcourse.cli.target import SessionArgument, find, opened
from midcourse.clock import SystemClock
from midcourse.core.money import money
from midcourse.core.signals import Signal, Signals
from midcourse.core.to_json import to_json


@command("session signals", "Show a session's signals and their thresholds.")
async def signals(call: Call, session: SessionArgument) -> None:
    """Show each signal of a session: its value, the thresholds of its policy, and what was not measured.

    Measured from the journal, as the policy measures it. Changes nothing.

    \b
    Examples:
      midcourse session signals sess_0198f2
      midcourse session signals sess_0198f2 --json
    """

    async with opened(call) as sessions:
        found = await (await find(sessions, session)).signals()
    if call.as_json:
        print_json(to_json(found))
    else:
        _show(found)


def _show(found: Signals) -> None:
    now = SystemClock().now()
    watched = f"policy {found.policy}, as a {found.task_class.replace('_', ' ')} task"
    print_lines(watched if found.policy else "No policy watches this session: nothing has thresholds.")
    rows = [
        (one.title, shown(one, one.value), _past(one, now), ", ".join(_marks(one)))
        for one in found.signals
        if one.value is not None
    ]
    header = ("signal", "value", "now", "thresholds")
    show_table(header, rows, whole=header[:2])
    for one in found.signals:
        if one.value is None:
            print_lines(f"not measured: {one.title}: {one.unseen}", hang=3)


def _past(signal: Signal, now: float) -> str:
    if signal.past is None:
        return ""
    since = "" if signal.since is None else f" since {clock_time(signal.since, now)}"
    return f"past {_WORDS[signal.past][1]}{since}"


def _marks(signal: Signal) -> list[str]:
    below = "below" if signal.below else "at"
    marks = {"warn": signal.warn, "intervene": signal.intervene, "stop": signal.stop}
    return [f"{_WORDS[stage][0]} {below} {shown(signal, mark)}" for stage, mark in marks.items() if mark is not None]


_WORDS = {"warn": ("warns", "its warning"), "intervene": ("steps in", "stepping in"), "stop": ("stops", "its stop")}


def shown(signal: Signal, value: float) -> str:
    """Format a number with its unit, as the console writes it."""
    match signal.unit:
        case "seconds":
            minutes, seconds = divmod(int(value), 60)
            return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes:02}:{seconds:02}"
        case "dollars":
            return money(value)
        case "share":
            return f"{value:.0%}"
        case "times":
            return f"{value:.1f}x"
        case "of 1":
            return f"{value:.2f}"
        case "bytes" | "count":
            return f"{value:,.4g}" if value % 1 else f"{value:,.0f}"
