"""Shell commands in one folder, with an environment of their own and a time limit.

This is no sandbox: a command may do whatever the user may under whom the agent runs. It cannot be undone either, so a
stop waits for it, and after a crash a person is asked whether it happened.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from midcourse.errors import MidcourseError
from midcourse.ports.sender import AGENT_VARIABLE, agent_here
from midcourse.runtime.group_reaper import process_group_reaper
from midcourse.runtime.shell_commands import Completed, run_command
from midcourse.tools.tool_errors import bad_argument, took_too_long
from midcourse.tools.toolset import Toolset

TIMEOUT: Final = 600.0
LIMIT: Final = 1_000_000
# What was given for each origin. A digest of it in the origin would be journaled, and a short secret found from that.
_given: dict[str, tuple[tuple[str, str | None], ...]] = {}
_INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "USER")


class ShellResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a command."""

    returncode: int
    """Its exit code; below zero, the signal that ended it. 127: there is no such program."""
    stdout: str
    stderr: str
    timed_out: bool = False
    """Its time was over, and it was killed with all that it had started."""
    dropped: int = 0
    """Bytes of output beyond the limit."""
    still_running: bool = False
    """Something it has started has left its group, as a daemon does, and lives."""


def shell_in(
    root: str | os.PathLike[str],
    *,
    env: Mapping[str, str] | Sequence[str] = (),
    timeout: float = TIMEOUT,
    limit: int = LIMIT,
) -> "Shell":
    """Return a tool that runs shell commands in ``root``. The same one for the same parameters.

    - ``env``: the environment of commands beside PATH, HOME, LANG and the like. Names, to be taken from
      this process's environment; or names and values. Values are never journaled, so a journal cannot tell two
      tools apart that differ in them alone: the second is refused.
    - ``timeout``: seconds a command may take. ``limit``: the most that is kept of each output, in bytes.
    """
    if isinstance(env, str):
        raise bad_argument("env is a list of names, or names with their values.", "env")
    if limit < 0 or timeout <= 0:
        raise bad_argument("limit is in bytes, timeout in seconds and more than 0.", "limit")
    given = tuple(sorted(env.items())) if isinstance(env, Mapping) else tuple((name, None) for name in sorted(set(env)))
    has_values = isinstance(env, Mapping)
    return _made(os.path.realpath(root), env=given, has_values=has_values, timeout=timeout, limit=limit)


class Shell(Toolset):
    """The tool of one folder: ``run``."""

    def __init__(
        self, root: str, *, env: tuple[tuple[str, str | None], ...], has_values: bool, timeout: float, limit: int
    ) -> None:
        names = [name for name, _ in env]
        keys = dict.fromkeys(names) if has_values else names
        super().__init__(shell_in, root=root, env=keys, timeout=timeout, limit=limit)
        earlier = _given.get(self._origin, env)
        # One that was found by its origin has no values, and gives way to the one that has them.
        if earlier != env and any(value is not None for _, value in earlier):
            raise bad_argument(
                f"There is a shell in {root} already that takes {', '.join(names)} with other values, and a journal "
                "could not tell the two apart. Use that one, or give this one a folder or names of its own.",
                "env",
            )
        _given[self._origin] = env
        self.root = root
        self._env = env
        self._timeout = timeout
        self._limit = limit
        self.run = self._tool(self._run, "run", "run_command", effect="write")

    async def _run(self, command: str) -> ShellResult:
        """Run a shell command and return its exit code and output. It has no terminal and no input."""
        cut: list[Completed] = []
        try:
            async with asyncio.timeout(self._timeout):
                ended = await run_command(
                    command,
                    reaper=process_group_reaper(),
                    cwd=self.root,
                    env=self._environment(),
                    limit=self._limit,
                    killed=cut.append,
                )
        except TimeoutError as error:
            if not cut:
                raise took_too_long(f"The command '{command}'", self._timeout) from error
            return _shell_result(cut[0], timed_out=True)
        except OSError as error:
            raise MidcourseError(
                f"The command cannot be started in {self.root}: {error.strerror or error}.", code="not_started"
            ) from error
        return _shell_result(ended)

    def _environment(self) -> dict[str, str]:
        """Return a clean environment: this process's own may hold the secrets of a server."""
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        inherited.setdefault("PATH", os.defpath)
        given = {name: os.environ.get(name) if value is None else value for name, value in self._env}
        own = {AGENT_VARIABLE: agent_here()}
        return inherited | {name: value for name, value in {**given, **own}.items() if value is not None}


_made: Final = cache(Shell)


def _shell_result(ended: Completed, *, timed_out: bool = False) -> ShellResult:
    return ShellResult(
        returncode=ended.returncode,
        stdout=ended.stdout.decode(errors="replace"),
        stderr=ended.stderr.decode(errors="replace"),
        timed_out=timed_out,
        dropped=ended.dropped,
        still_running=ended.escaped,
    )
