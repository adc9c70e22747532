"""Runs a sample agent in a terminal: shows what it says and does, and takes what a person types."""

import argparse
import asyncio
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # before it is imported: what is printed here is the agent's

import midcourse
from midcourse.samples.catalog import SAMPLES, sample
from midcourse.samples.folders import FOLDER

HELP: Final = """\
While it runs, type a line and press return:

  pause              stop, and keep everything; nothing new begins
  resume             continue
  cancel             end it, and undo what is in flight
  cancel all         end it, and undo every effect it had
  redirect …         a new instruction, which its model gets at once
  anything else      if it asks, the answer; otherwise a new instruction, too.
                     While it is paused, an instruction also resumes it
  Ctrl-C, Ctrl-D     leave; it is kept, and the command that continues it is printed

Examples:

  python -m midcourse.samples churn-memo "Write a churn memo"
      … then type: only customers over $10k
  python -m midcourse.samples repo-fixer "Fix the login bug" --store runs.db
      … then type: stay with authentication
  python -m midcourse.samples --session sess_… --store runs.db
      continues a session that was left, or whose process was killed; with --undo: undoes one that has ended
  python -m midcourse.samples --store runs.db
      lists the sessions of that file

Set MIDCOURSE_SAMPLE_PACE to the seconds a word takes (0.03), MIDCOURSE_SAMPLES_DIR to where the agents work, and
MIDCOURSE_MODEL to a real model, such as openai:gpt-5-mini.
"""
NOBODY: Final = 3
"""The exit status when it asks, or is paused, and there is no terminal to answer."""
STUCK: Final = (midcourse.Status.WAITING, midcourse.Status.PAUSED)
ENDED: Final = (midcourse.Status.COMPLETED, midcourse.Status.CANCELLED, midcourse.Status.FAILED)
_GOAL: Final = 80
GRACE: Final = 0.3
"""Seconds that a call in flight gets when the user leaves. A model's stream would use all that it is given."""


class Screen:
    """The printed output: text as it comes, and a line for everything else."""

    def __init__(self) -> None:
        self._heard: dict[tuple[str, int], str] = {}
        self._printed: dict[tuple[str, int], int] = {}
        self._arguments: dict[str, str] = {}
        self._in_line = False
        self.text = ""
        """The text that was streamed last."""

    def hear(self, step: str, attempt: int, offset: int, text: str) -> None:
        """Print a piece of streamed text, as a preview or as a segment, if it is new."""
        heard = self._heard.get((step, attempt), "")
        if offset <= len(heard) < offset + len(text):
            self._heard[step, attempt] = heard[:offset] + text
            self._print(step, attempt)

    def begin(self, step: str, attempt: int) -> None:
        """Note that an attempt has begun: previews may come before the event, and are kept until then."""
        self._printed[step, attempt] = 0
        self._print(step, attempt)

    def _print(self, step: str, attempt: int) -> None:
        printed, heard = self._printed.get((step, attempt)), self._heard.get((step, attempt), "")
        if printed is not None and printed < len(heard):
            print(heard[printed:], end="", flush=True)
            self._printed[step, attempt] = len(heard)
            self._in_line = True
            self.text = heard

    def line(self, text: str) -> None:
        print(f"\n{text}" if self._in_line else text, flush=True)
        self._in_line = False

    def note(self, event: Any, kind: str) -> None:
        match kind:
            case "segment.written":
                self.hear(event.step, event.attempt, event.offset, event.text)
            case "step.begun" if event.kind == "tool":
                arguments = self._arguments.setdefault(event.step, event.arguments)  # only the first attempt has them
                again = f", attempt {event.attempt}" if event.attempt > 1 else ""
                self.line(f"  → {event.name} {arguments}  [{event.effect}{again}]")
            case "step.begun":
                self.begin(event.step, event.attempt)
            case "step.cut":
                self.line("  -/- cut")
            case "step.failed":
                self.line(f"  ! {event.step}: {event.detail}")
            case "step.retrying":
                self.line(f"  … {event.kind}; tried again in {event.wait:.1f} s")
            case "ask.opened":
                self.line(f"  ? {event.prompt}  ({event.reason})")
            case "undo.ended":
                self.line(f"  ↶ {event.step.partition('/')[2].partition('#')[0]}: {event.error or 'undone'}")
            case "session.paused" | "session.resumed" | "session.redirected" | "session.cancel_requested":
                self.line(f"  · {kind.partition('.')[2].replace('_', ' ')}")
            case _:
                pass


async def obey(session: midcourse.SessionHandle[Any], line: str, screen: Screen) -> None:
    try:
        match line.lower().split():
            case []:
                return
            case ["pause"]:
                screen.line(f"  {await session.pause('typed', until='stopped')}")
            case ["resume"]:
                await session.resume()
            case ["cancel"]:
                await session.cancel("typed", until="stopped")
            case ["cancel", "all"]:
                await session.cancel("typed", undo="all", until="stopped")
            case ["redirect", *_]:
                await session.redirect(line.strip()[len("redirect") :].strip(), resume=True)
            case _ if (await session.state()).asks:
                await session.answer(line)
            case _:
                await session.redirect(line, resume=True)
    except midcourse.MidcourseError as error:
        screen.line(f"  {error}")


class Typing:
    """The lines that a person types, without a thread that would outlive the rest."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()
        self.is_over = asyncio.Event()
        self.has_left = asyncio.Event()
        """Set when a person pressed Ctrl-C, or Ctrl-D. The end of a pipe only means that there is no input."""
        self._rest = b""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._leave)
        try:
            loop.add_reader(sys.stdin.fileno(), self._read)
        except (OSError, ValueError):  # a file, or nothing: no one is there
            self.is_over.set()

    def _leave(self) -> None:
        self.has_left.set()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)  # the next one does not wait for anything

    def _read(self) -> None:
        content = os.read(sys.stdin.fileno(), 65536)
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            self.lines.put_nowait(line.decode(errors="replace").strip())
        if not content:
            if sys.stdin.isatty():
                self.has_left.set()
            self.end()

    def end(self) -> None:
        if not self.is_over.is_set():
            self.is_over.set()
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())


async def play(name: str, goal: str, store: Path, session_id: str | None, *, undo: bool) -> int:
    """Run it to its end and return the exit status."""
    async with midcourse.open(f"sqlite:///{store}", grace=GRACE) as mc:
        session = await mc.get(session_id) if session_id else await mc.start(sample(name).agent, goal)
        print(f"{session.id} in {store}")
        if undo:
            print(await session.undo("by hand"))
            return 0
        typing, screen = Typing(), Screen()
        following = asyncio.create_task(_follow(session, screen))
        ends: list[asyncio.Task[Any]] = [
            following,
            asyncio.create_task(_stuck(session, typing)),
            asyncio.create_task(typing.has_left.wait()),
        ]
        obeying = asyncio.create_task(_obey_all(session, typing, screen))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in (*ends, obeying):
            task.cancel()
        await asyncio.gather(*ends, obeying, return_exceptions=True)
        typing.end()
        status = await _tell_the_end(session, screen, store)
        return NOBODY if status in STUCK and not typing.has_left.is_set() else 0


async def _tell_the_end(session: midcourse.SessionHandle[Any], screen: Screen, store: Path) -> midcourse.Status:
    state = await session.state()
    if state.status not in ENDED:
        screen.line(f"{state.status}: {store} has all of it")
        print(f"{await session.receipt()}\n\nTo continue it:\n\n  {_command(session.id, store)}\n")
        return state.status
    if state.status is midcourse.Status.COMPLETED:
        result = await session.result()
        told = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        if told.strip() != screen.text.strip():
            screen.line(told)
    elif state.failure is not None:
        screen.line(f"  ! {state.failure.message}")
    screen.line(f"{state.status}: {store} has all of it")
    print(await session.receipt())
    return state.status


def _command(session: str, store: Path) -> str:
    """Return the command that continues a session, to be pasted into a shell, in any folder."""
    python = "python" if shutil.which("python") == sys.executable else sys.executable
    command = shlex.join([python, "-m", "midcourse.samples", "--session", session, "--store", str(store)])
    work = os.environ.get(FOLDER)
    return f"{FOLDER}={shlex.quote(str(Path(work).absolute()))} {command}" if work else command


async def show_sessions(store: Path) -> None:
    """Print the sessions of a file, newest first, and the command that continues one of them."""
    async with midcourse.open(f"sqlite:///{store}", drive=False) as mc:
        heads = await mc.list(limit=1000)
    for head in heads:
        goal = head.goal if len(head.goal) <= _GOAL else f"{head.goal[: _GOAL - 1]}…"
        print(f"{head.id}  {head.status:<10} {head.agent}: {goal}")
    if heads:
        print(f"\nTo continue the newest:\n\n  {_command(heads[0].id, store)}")
    else:
        print(f"{store} has no sessions.")


async def _obey_all(session: midcourse.SessionHandle[Any], typing: Typing, screen: Screen) -> None:
    while True:
        await obey(session, await typing.lines.get(), screen)
        typing.lines.task_done()


async def _follow(session: midcourse.SessionHandle[Any], screen: Screen) -> None:
    async for seen in session.watch(deltas=True):
        if isinstance(seen, midcourse.Delta):
            screen.hear(seen.step, seen.attempt, seen.offset, seen.text)
        else:
            screen.note(seen.event, seen.type)


async def _stuck(session: midcourse.SessionHandle[Any], typing: Typing) -> None:
    """Wait until it can only continue with input, and there is none."""
    await typing.is_over.wait()
    await typing.lines.join()
    looks = 0
    while looks < 2:  # the second look gives the screen time to show what the first one saw
        await asyncio.sleep(0.3)
        looks = looks + 1 if await session.status() in STUCK else 0


def main() -> None:
    """Run ``python -m midcourse.samples NAME GOAL``."""
    listed = "\n".join(f"  {one.name:<16} {one.description}\n{'':<19}e.g. “{one.goals[0]}”" for one in SAMPLES)
    parser = argparse.ArgumentParser(
        prog="python -m midcourse.samples",
        description=f"Run a sample agent. It works offline, on data of its own.\n\nThe agents:\n\n{listed}",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", help="which one")
    parser.add_argument("goal", nargs="?", help="what it is to do (default: its first example)")
    parser.add_argument("--store", type=Path, help="the SQLite file that keeps the session (default: a new one)")
    parser.add_argument("--session", help="continue this one, in the store")
    parser.add_argument("--undo", action="store_true", help="undo every effect of that session, which has ended")
    given = parser.parse_args()
    if not given.name and not given.session and not given.store:
        parser.print_help()
        raise SystemExit(2)
    if (given.session and not given.store) or (given.undo and not given.session):
        parser.error("--undo needs --session, and --session needs --store: the file that has the session")
    store: Path = given.store or Path(tempfile.mkdtemp(prefix="midcourse-")) / "runs.db"
    if not given.name and not store.is_file():
        parser.error(f"there is no file '{store}'. Give --store the file that has the session, or name an agent")
    try:
        if not given.name and not given.session:
            asyncio.run(show_sessions(store.absolute()))
            return
        goal = given.goal or (sample(given.name).goals[0] if given.name else "")
        raise SystemExit(asyncio.run(play(given.name or "", goal, store.absolute(), given.session, undo=given.undo)))
    except midcourse.MidcourseError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print(f"\nleft; {store.absolute()} has what there is. Give it as --store, without an agent, to see it")


if __name__ == "__main__":
    main()
