"""``midcourse kill-switch``: the operator's standing emergency halt over a scope."""

from typing import Annotated, Any

import typer

from midcourse.cli.command import Call, command
from midcourse.cli.printer import print_json, print_lines, show_table, tell
from midcourse.cli.status_text import ago, clock_time, span
from midcourse.cli.target import argument, flag, opened, option
from midcourse.clock import SystemClock
from midcourse.core.switches import Scope, SwitchPreview, SwitchReport, check_scope
from midcourse.core.to_json import to_json
from midcourse.errors import InvalidInput

WaitOption = Annotated[float, option("--wait", "SECONDS", "Timeout.", min=0.0, max=60.0)]
SwitchArgument = Annotated[str, argument("SWITCH", "Its id, as list shows it.")]
_SHOWN = 20


@command("kill-switch throw", "Halt everything in a scope.")
async def throw(
    call: Call,
    reason: Annotated[str, option("--reason/-m", "TEXT", "Why. People with a halted session read it.")],
    everything: Annotated[bool, flag("--all", "Halt all sessions.")] = False,
    agent: Annotated[str | None, option("--agent", "NAME", "Halt the sessions of this agent.")] = None,
    label: Annotated[str | None, option("--label", "LABEL", "Halt the sessions with this label.")] = None,
    tenant: Annotated[str | None, option("--tenant", "NAME", "Halt the sessions of this tenant.")] = None,
    yes: Annotated[bool, flag("--yes/-y", "Do not ask for confirmation.")] = False,
    wait: WaitOption = 5.0,
) -> None:
    """Halt every session in the scope, and report each: stopped, still running, or not reachable.

    The switch stays on, also after a restart: a session that starts in its scope starts halted. Calls in flight are
    aborted where that is possible; nothing is undone.

    \b
    Examples:
      midcourse kill-switch throw --agent mailer --reason "wrong recipients"
      midcourse kill-switch throw --all --yes --reason "the price feed is wrong"
    """
    scope = _scope(everything, agent, label, tenant)

    async with opened(call) as sessions:
        switches = sessions.kill_switch
        if not yes:
            _ask(scope, await switches.preview(scope), as_json=call.as_json)
        _show(await switches.throw(scope, reason, wait=wait), as_json=call.as_json)


@command("kill-switch list", "List the kill switches.")
async def show_all(call: Call) -> None:
    """List the kill switches: first those that are on, then those that were lifted.

    \b
    Examples:
      midcourse kill-switch list
    """

    async with opened(call) as sessions:
        found = await sessions.kill_switch.reports(limit=_SHOWN)
    if call.as_json:
        print_json({"switches": [_view(one) for one in found]})
    elif not found:
        print_lines("No kill switch is on, and none was thrown.")
    else:
        now = SystemClock().now()
        rows = [
            (
                one.switch.id,
                "on" if one.switch.stands else "lifted",
                str(one.switch.scope),
                one.switch.reason,
                one.switch.by,
                ago(one.switch.at, now),
                str(len(one.sessions)),
            )
            for one in found
        ]
        show_table(("switch", "", "over", "reason", "by", "thrown", "holds"), rows)


@command("kill-switch show", "Show what one holds.")
async def show(call: Call, switch: SwitchArgument) -> None:
    """Show the state of every session that a kill switch halted. Changes nothing.

    \b
    Examples:
      midcourse kill-switch show ks_1a1e19
    """

    async with opened(call) as sessions:
        _show(await sessions.kill_switch.report(switch), as_json=call.as_json)


@command("kill-switch lift", "Lift one; its sessions stay halted.")
async def lift(
    call: Call, switch: SwitchArgument, why: Annotated[str, option("--why/-m", "TEXT", "Why, for the audit log.")]
) -> None:
    """Lift a kill switch: new sessions in its scope run. The sessions that it halted wait for release.

    \b
    Example:
      midcourse kill-switch lift ks_1a1e19 --why "the feed is fixed"
      midcourse kill-switch release ks_1a1e19
    """

    async with opened(call) as sessions:
        switches = sessions.kill_switch
        report = await switches.lift(switch, why)
    _show(report, as_json=call.as_json)
    if not call.as_json and report.sessions:
        many = len(report.sessions)
        what = "1 session stays" if many == 1 else f"{many} sessions stay"
        print_lines(f"{what} halted. Release them with: midcourse kill-switch release {switch}")


@command("kill-switch release", "Let the sessions of a lifted one continue.")
async def release(
    call: Call,
    switch: SwitchArgument,
    sessions: Annotated[list[str] | None, argument("SESSION…", "Only these. Default: all that it halted.")] = None,
    wait: WaitOption = 5.0,
) -> None:
    """Return the sessions that a lifted kill switch had halted to the state they were in.

    Those that ran continue; those that were paused are paused again.

    \b
    Examples:
      midcourse kill-switch release ks_1a1e19
      midcourse kill-switch release ks_1a1e19 sess_0198f2
    """

    async with opened(call) as store_or_server:
        switches = store_or_server.kill_switch
        done = await switches.release(switch, sessions or None, wait=wait)
    if call.as_json:
        print_json({"outcomes": to_json(done)})
        return
    for one in done:
        print_lines(f"{one.session}  {one.status if one.ok else one.problem}")
    print_lines(f"{sum(one.ok for one in done)} of {len(done)} went back to where they were.")


def _scope(everything: bool, agent: str | None, label: str | None, tenant: str | None) -> Scope:
    given = [
        (kind, value) for kind, value in (("agent", agent), ("label", label), ("tenant", tenant)) if value is not None
    ]
    if everything:
        given.append(("all", ""))
    if len(given) != 1:
        raise typer.BadParameter("Say over what: one of --all, --agent, --label and --tenant.")
    try:
        return check_scope(*given[0])
    except InvalidInput as error:
        raise typer.BadParameter(error.message) from error


def _ask(scope: Scope, found: SwitchPreview, *, as_json: bool) -> None:
    if as_json:
        raise typer.BadParameter("--json cannot ask for confirmation. Add --yes.")
    many = "1 session" if found.count == 1 else f"{found.count} sessions"
    if found.hint:
        tell(found.hint)
    try:
        is_sure = typer.confirm(f"Halt {many} now: {scope}. What starts there starts halted. Continue?", err=True)
    except typer.Abort as unanswered:
        said = "Nothing was halted: the question was not answered. Add --yes to halt without a question."
        raise InvalidInput(said, field="yes") from unanswered
    if not is_sure:
        raise typer.Abort


def _view(report: SwitchReport) -> dict[str, Any]:
    shown: dict[str, Any] = to_json(report.switch)
    return {
        **shown,
        "stands": report.switch.stands,
        "durable": report.durable,
        "hint": report.hint,
        "report": to_json(report.sessions),
    }


def _show(report: SwitchReport, *, as_json: bool) -> None:
    if as_json:
        print_json(_view(report))
        return
    switch = report.switch
    print_lines(str(report))
    now = SystemClock().now()
    print_lines(f"{switch.id}, thrown by {switch.by} at {clock_time(switch.at, now)}: {switch.reason}")
    loud = [one for one in report.sessions if one.state != "stopped"]
    if loud:
        rows = [
            (
                one.session,
                one.state.replace("_", " "),
                one.agent,
                one.running,
                span(now - one.since) if one.since else "",
            )
            for one in loud
        ]
        show_table(("session", "", "agent", "running", "for"), rows)
