"""``midcourse policy``: when to interrupt. The policies there are, what they say, how they differ, and keeping one."""

import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from midcourse.cli.command import NOWHERE, Call, command
from midcourse.cli.printer import print_json, print_lines, print_verbatim, show_table
from midcourse.cli.status_text import ago, clock_time
from midcourse.cli.target import DEFAULT_STORE, LOCAL, Target, argument, check_there, flag, option, store_path
from midcourse.cli.target import token_for as token_of_target
from midcourse.clock import SystemClock
from midcourse.errors import InvalidInput
from midcourse.policy.document import Policy
from midcourse.policy.validation import ParameterChange, difference, shown
from midcourse.ports.store import Store
from midcourse.wiring import open_store

if TYPE_CHECKING:  # YAML and HTTP are imported when they are needed: other commands are not to wait for them
    from midcourse.handle.http.policies import RemotePolicies
    from midcourse.policy.versions import KeptPolicy, Summary

PolicyArgument = Annotated[str, argument("POLICY", "A policy's name, NAME@VERSION, or a YAML file.")]
FileArgument = Annotated[str, argument("FILE", "A YAML file. -: from standard input.")]


# ---- looking


@command("policy list", "List the policies.")
async def list_all(call: Call) -> None:
    """List the policies in their newest version. Changes nothing.

    \b
    Examples:
      midcourse policy list
      midcourse policy list --json | jq -r '.policies[].name'
    """

    async with _policies(call) as policies:
        found = await policies.newest()
    if call.as_json:
        print_json({"policies": found})
        return
    now = SystemClock().now()
    rows = [
        (
            f"{one.name}@{one.version}",
            one.extends,
            "built in" if one.at is None else ago(one.at, now),
            one.by,
            one.about,
        )
        for one in found
    ]
    show_table(("policy", "extends", "saved", "by", "about"), rows, whole=("policy",))


@command("policy show", "Show a policy, as YAML or JSON.")
async def show(
    call: Call,
    policy: PolicyArgument,
    output: Annotated[
        Literal["yaml", "json"],
        flag("--format", "yaml: a file with what differs from its base; json: the whole policy."),
    ] = "yaml",
) -> None:
    """Show a policy: as an annotated file, or as JSON with everything it inherits.

    Changes nothing.

    \b
    Examples:
      midcourse policy show standard
      midcourse policy show careful@2
      midcourse policy show mine.yaml --format json
      midcourse policy show careful > careful.yaml
    """

    from midcourse.policy.yaml_writer import to_document

    async with _policies(call) as policies:
        found, yaml = await policies.look(policy)
    if call.as_json:
        print_json(to_document(found))
    else:
        print_verbatim(*yaml.rstrip("\n").split("\n"))


@command("policy check", "Check a file.")
async def check(call: Call, file: FileArgument) -> None:
    """Check a file: list each mistake with its line, or else what the policy changes. Exits with 1 on a mistake.

    Changes nothing.

    \b
    Examples:
      midcourse policy check mine.yaml
      midcourse policy check mine.yaml --json | jq '.changes[] | select(.tightens)'
    """

    from midcourse.policy.yaml_reader import bare
    from midcourse.policy.yaml_writer import changes_to_json

    async with _policies(call) as policies:
        policy = await policies.load_text(_text(file), file)
        base = (await policies.look(policy.extends))[0] if policy.extends else bare()
    changes = difference(base, policy)
    if call.as_json:
        print_json({"policy": policy.name, "extends": policy.extends, "changes": changes_to_json(changes)})
        return
    over = f"it extends {base.id}" if policy.extends else "it extends nothing"
    print_lines(f"'{policy.name}' is a policy; {over} and changes {_count(changes)}.")
    _show_changes(changes, base.id, policy.name)


@command("policy diff", "Show how two policies differ.")
async def diff(call: Call, first: PolicyArgument, second: PolicyArgument) -> None:
    """Show how the second policy differs from the first, and which of it steps in earlier. Changes nothing.

    \b
    Examples:
      midcourse policy diff standard conservative
      midcourse policy diff careful@1 careful
      midcourse policy diff careful mine.yaml
    """

    from midcourse.policy.yaml_writer import changes_to_json

    async with _policies(call) as policies:
        old, new = (await policies.look(first))[0], (await policies.look(second))[0]
    changes = difference(old, new)
    if call.as_json:
        print_json({"from": old.id, "to": new.id, "changes": changes_to_json(changes)})
    elif changes:
        _show_changes(changes, old.id, new.id)
    else:
        print_lines(f"{old.id} and {new.id} say the same.")


@command("policy history", "Show the versions of a policy.")
async def history(call: Call, name: Annotated[str, argument("NAME", "A policy's name.")]) -> None:
    """Show every version of a policy, the newest first: who saved it, when and why. Changes nothing.

    \b
    Examples:
      midcourse policy history careful
    """

    async with _policies(call) as policies:
        found = await policies.history(name)
    if call.as_json:
        print_json({"versions": found})
        return
    now = SystemClock().now()
    rows = [
        (f"{one.name}@{one.version}", "built in" if one.at is None else clock_time(one.at, now), one.by, one.why)
        for one in found
    ]
    show_table(("policy", "saved", "by", "why"), rows, whole=("policy", "saved"))


@command("policy schema", "Print the schema for editors.", where=NOWHERE, has_json=False)
async def schema(call: Call) -> None:
    """Print the JSON schema of a policy file, for editors. Changes nothing.

    \b
    Examples:
      midcourse policy schema > policy.schema.json

    Then begin a file with: # yaml-language-server: $schema=policy.schema.json
    """

    from midcourse.policy.schema import schema_json

    sys.stdout.buffer.write(schema_json().encode())
    sys.stdout.flush()


# ---- keeping


@command("policy save", "Save a file as the next version.")
async def save(
    call: Call, file: FileArgument, why: Annotated[str, option("--why", "TEXT", "Why it changes, for later readers.")]
) -> None:
    """Save a file as the next version of its policy, with who saved it and why. Earlier versions are kept.

    A file that names the version it was made from (version: 3) is refused once there is a newer one.

    \b
    Examples:
      midcourse policy save mine.yaml --why "three false alarms a day is too many"
    """

    async with _policies(call, make=True) as policies:
        saved = await policies.save(_text(file), file, why)
    if call.as_json:
        print_json({"policy": saved.policy.name, "version": saved.policy.version, "at": saved.at, "by": saved.by})
    else:
        print_lines(f"Saved as {saved.policy.id}.")


@command("policy calibrate", "Find thresholds in your own runs.", where=NOWHERE, has_json=False)
async def calibrate(
    call: Call,
    files: Annotated[list[str], argument("FILES", "Recorded runs, or a store.")],
    policy: Annotated[str, option("--policy/-p", "POLICY", "The policy to start from.")] = "standard",
    false_stops: Annotated[
        float, option("--false-stops", "SHARE", "The share of successful runs that may be stopped.")
    ] = 0.1,
    drift: Annotated[bool, flag("--drift", "Also measure how far actions are from the goal. Slow.")] = False,
) -> None:
    """Print a policy whose thresholds are as early as your own recorded runs allow.

    A threshold counts only if it stops at least two failing runs. The figures hold for these runs and are too good for
    others: try the policy with `midcourse policy backtest` on other runs before you save it. Changes nothing.

    \b
    Examples:
      midcourse policy calibrate runs.jsonl.gz > mine.yaml
      midcourse policy calibrate runs/ --policy conservative --false-stops 0.05 > mine.yaml
    """

    from midcourse.analysis.backtest.calibration import calibrate_runs
    from midcourse.cli.backtest import policies_in, recordings_in
    from midcourse.policy.yaml_writer import to_yaml

    [base] = await policies_in([policy], files)
    found = calibrate_runs(await recordings_in(files), base, false_stops, drift=drift)
    comments = (
        f"# Would have stopped {found.stopped} of {found.failures} failing and {found.stopped_wrongly} of",
        f"# {found.successes} succeeding runs: those that these thresholds were made from.",
    )
    print_verbatim(*comments, *to_yaml(found.policy).rstrip("\n").split("\n"))


def _text(file: str) -> str:
    from midcourse.policy.yaml_positions import SIZE_LIMIT
    from midcourse.policy.yaml_reader import decoded, read_text

    if file == "-":
        return decoded(sys.stdin.buffer.read(SIZE_LIMIT + 1), file)
    return read_text(Path(file))


# ---- where they are


class _Policies(Protocol):
    async def newest(self) -> "Sequence[Summary]": ...
    async def history(self, name: str) -> "Sequence[Summary]": ...
    async def look(self, reference: str) -> tuple[Policy, str]: ...
    async def load_text(self, text: str, source: str) -> Policy: ...
    async def save(self, text: str, source: str, why: str) -> "KeptPolicy": ...


@asynccontextmanager
async def _policies(target: Target, *, make: bool = False) -> AsyncGenerator[_Policies]:
    """Those of a server or a file of sessions. Without one there are still the built-in ones, and files."""
    server = target.server
    if server is not None:
        from midcourse.handle.http.address import address_of, token_of
        from midcourse.handle.http.connection import HttpConnection
        from midcourse.handle.http.policies import RemotePolicies

        wire = HttpConnection(address_of(server), token_of(token_of_target(target, server)), SystemClock(), 10.0)
        try:
            yield _There(RemotePolicies(wire))
        finally:
            await wire.close()
        return
    opened = await _store(target, make)
    try:
        yield _Here(opened)
    finally:
        await opened.close()


async def _store(target: Target, make: bool) -> Store:
    url = target.store or DEFAULT_STORE
    path = store_path(url)
    if path is None or path.is_file():
        return await open_store(url)
    if make:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return await open_store(url)
    if target.store is not None:
        check_there(url)
    return await open_store("memory://")


class _Here:
    """Policies of a store that is open here."""

    def __init__(self, store: Store) -> None:
        from midcourse.policy import versions

        self._kept = versions
        self._store = store

    async def newest(self) -> "Sequence[Summary]":
        return [self._kept.summary_of(one) for one in await self._kept.newest(self._store)]

    async def history(self, name: str) -> "Sequence[Summary]":
        await self._kept.find(self._store, name)
        return [self._kept.summary_of(one) for one in await self._kept.history(self._store, name)]

    async def look(self, reference: str) -> tuple[Policy, str]:
        policy = await self._kept.read(self._store, reference)
        return policy, await self._kept.yaml_of(self._store, policy)

    async def load_text(self, text: str, source: str) -> Policy:
        return await self._kept.load_text(self._store, text, source=source)

    async def save(self, text: str, source: str, why: str) -> "KeptPolicy":
        policy = await self.load_text(text, source)
        return await self._kept.save(
            self._store, policy, by=LOCAL, why=why, now=SystemClock().now(), expects=policy.version or None
        )


class _There:
    """Policies of a server. Files lie here, and what they extend lies there."""

    def __init__(self, remote: "RemotePolicies") -> None:
        self._remote = remote

    async def newest(self) -> "Sequence[Summary]":
        return await self._remote.newest()

    async def history(self, name: str) -> "Sequence[Summary]":
        return await self._remote.history(name)

    async def look(self, reference: str) -> tuple[Policy, str]:
        from midcourse.policy.yaml_reader import is_path
        from midcourse.policy.yaml_writer import to_yaml

        if not is_path(reference):
            found, yaml = await self._remote.find(reference)
            return found.policy, yaml
        policy = await self.load_text(_text(reference), reference)
        known = {policy.extends: (await self._remote.find(policy.extends))[0].policy} if policy.extends else {}
        return policy, to_yaml(policy, known)

    async def load_text(self, text: str, source: str) -> Policy:
        with _called(source):
            return await self._remote.load_text(text)

    async def save(self, text: str, source: str, why: str) -> "KeptPolicy":
        from midcourse.policy.yaml_reader import Draft

        name = Draft(text, source=source).name
        with _called(source):
            return await self._remote.save(name, text, why)


@contextmanager
def _called(source: str) -> Generator[None]:
    """Say in an error what the text is called here that a server found mistakes in."""
    try:
        yield
    except InvalidInput as error:
        if "mistakes" not in error.fields:
            raise
        lines = [f"{source}, {line}" if line.startswith("line ") else line for line in error.message.split("\n")]
        told = "\n".join(lines)
        said = told if told != error.message else f"{source}: {told}"
        raise InvalidInput(said, code=error.code, **error.fields) from error


# ---- changes


def _count(changes: Sequence[ParameterChange]) -> str:
    if not changes:
        return "nothing"
    earlier, later = (sum(one.tightens is way for one in changes) for way in (True, False))
    gone = sum(one.is_taken_away for one in changes)
    noun = "parameter" if len(changes) == 1 else "parameters"
    no_longer = f", {gone} no longer" if gone else ""  # it neither warns nor steps in
    return f"{len(changes)} {noun}: {earlier} to step in earlier, {later - gone} later{no_longer}"


def _show_changes(changes: Sequence[ParameterChange], old: str, new: str) -> None:
    if changes:
        rows = [(one.path, shown(one.before), shown(one.after), one.words) for one in changes]
        show_table(("parameter", old, new, ""), rows, whole=("parameter",))
