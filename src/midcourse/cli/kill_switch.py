"""``midcourse kill-switch``: the operator's standing emergency halt over a scope."""

import sys
from typing import Annotated, Any

import typer

from midcourse.cli.opening import HERE, JsonOption, Target, opened, with_target
from midcourse.cli.people import me
from midcourse.cli.printing import carry_out, plain, print_json, say, show_table
from midcourse.cli.words import ago, clock_time, span
from midcourse.core.spelling import spelled
from midcourse.core.switches import Scope, SwitchPreview, SwitchReport, check_scope
from midcourse.errors import InvalidInput
from midcourse.runtime.clock import SystemClock

app = typer.Typer(
    help="Halt every session in a scope at once, and whatever starts there, until it is lifted. "
    "Nothing is undone, and lifting resumes nothing by itself. An operator's; to end one session, cancel it.",
    no_args_is_help=True,
)
WaitOption = Annotated[float, typer.Option("--wait", metavar="SECONDS", min=0.0, max=60.0, help="The most to wait.")]
SwitchArgument = Annotated[str, typer.Argument(metavar="SWITCH", help="Its id, as list shows it.", show_default=False)]
_SHOWN = 20


def add_to(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="kill-switch", short_help="Halt everything in a scope at once.")


@app.command("throw")
@with_target
def throw(
    reason: Annotated[str, typer.Option("--reason", "-m", metavar="TEXT", help="Why. Everybody concerned reads it.")],
    everything: Annotated[bool, typer.Option("--all", help="Over all sessions.")] = False,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Over those of an agent.")] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="LABEL", help="Over those with a label.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Over those of a tenant.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    wait: WaitOption = 5.0,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Halt every session in the scope, and tell what is known of each: stopped, still running, not reachable.

    It stands, also after a restart: what is started in its scope begins halted. Calls in flight are aborted where that
    can be done; nothing is undone.

    \b
    Examples:
      midcourse kill-switch throw --agent records-cleaner --reason "deletes the wrong records"
      midcourse kill-switch throw --all --yes --reason "the price feed is wrong"
    """
    scope = _scope(everything, agent, label, tenant)

    async def work() -> None:
        async with opened(target) as sessions:
            switches = sessions.kill_switch
            if not yes:
                _ask(scope, await switches.preview(scope), as_json=as_json)
            _show(await switches.throw(scope, reason, by=me(), wait=wait), as_json=as_json)

    carry_out(work(), as_json=as_json)


@app.command("list")
@with_target
def show_all(target: Target = HERE, as_json: JsonOption = False) -> None:
    """List the kill switches: those that stand, then those that were lifted."""

    async def work() -> None:
        async with opened(target) as sessions:
            found = await sessions.kill_switch.reports(limit=_SHOWN)
        if as_json:
            print_json({"switches": [_view(one) for one in found]})
        elif not found:
            say("No kill switch stands, and none was thrown.")
        else:
            now = SystemClock().now()
            rows = [
                (
                    one.switch.id,
                    "stands" if one.switch.stands else "lifted",
                    str(one.switch.scope),
                    one.switch.reason,
                    one.switch.by,
                    ago(one.switch.at, now),
                    str(len(one.sessions)),
                )
                for one in found
            ]
            show_table(("switch", "", "over", "reason", "by", "thrown", "holds"), rows)

    carry_out(work(), as_json=as_json)


@app.command("show")
@with_target
def show(
    switch: SwitchArgument,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show what is known now of every session that a kill switch holds. Changes nothing."""

    async def work() -> None:
        async with opened(target) as sessions:
            _show(await sessions.kill_switch.report(switch), as_json=as_json)

    carry_out(work(), as_json=as_json)


@app.command("lift")
@with_target
def lift(
    switch: SwitchArgument,
    why: Annotated[str, typer.Option("--why", "-m", metavar="TEXT", help="Why, for the audit log.")],
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """End a kill switch: what is started from here on runs. The sessions that it halted stay halted.

    \b
    Example:
      midcourse kill-switch lift ks_1a1e19 --why "the feed was mended"
      midcourse kill-switch release ks_1a1e19
    """

    async def work() -> None:
        async with opened(target) as sessions:
            switches = sessions.kill_switch
            report = await switches.lift(switch, why, by=me())
        _show(report, as_json=as_json)
        if not as_json and report.sessions:
            many = len(report.sessions)
            what = "1 session stays" if many == 1 else f"{many} sessions stay"
            say(f"{what} halted. Let them go back to where they were: midcourse kill-switch release {switch}")

    carry_out(work(), as_json=as_json)


@app.command("release")
@with_target
def release(
    switch: SwitchArgument,
    sessions: Annotated[
        list[str] | None, typer.Argument(metavar="SESSION…", help="Only these; left out, all that it halted.")
    ] = None,
    wait: WaitOption = 5.0,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Let the sessions that a lifted kill switch had halted go back to where they were.

    Those that ran go on; those that were paused are paused again.
    """

    async def work() -> None:
        async with opened(target) as store_or_server:
            switches = store_or_server.kill_switch
            done = await switches.release(switch, sessions or None, by=me(), wait=wait)
        if as_json:
            print_json({"outcomes": spelled(done)})
            return
        for one in done:
            say(f"{one.session}  {one.status if one.ok else one.problem}")
        say(f"{sum(one.ok for one in done)} of {len(done)} went back to where they were.")

    carry_out(work(), as_json=as_json)


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
        raise typer.BadParameter("With --json nobody can be asked. Say --yes.")
    many = "1 session" if found.count == 1 else f"{found.count} sessions"
    if found.hint:
        print(plain(found.hint), file=sys.stderr)
    try:
        is_sure = typer.confirm(f"Halt {many} now: {scope}. What starts there begins halted. Go on?", err=True)
    except typer.Abort as nobody:
        said = "Nothing was halted: nobody answered. Say --yes to do it without being asked."
        raise InvalidInput(said, field="yes") from nobody
    if not is_sure:
        raise typer.Abort


def _view(report: SwitchReport) -> dict[str, Any]:
    shown: dict[str, Any] = spelled(report.switch)
    return {
        **shown,
        "stands": report.switch.stands,
        "durable": report.durable,
        "hint": report.hint,
        "report": spelled(report.sessions),
    }


def _show(report: SwitchReport, *, as_json: bool) -> None:
    if as_json:
        print_json(_view(report))
        return
    switch = report.switch
    say(str(report))
    now = SystemClock().now()
    say(f"{switch.id}, thrown by {switch.by} at {clock_time(switch.at, now)}: {switch.reason}")
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
