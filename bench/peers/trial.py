"""One case of one peer, in a process of its own: ``python -m bench.peers.trial PEER CASE SIZE FOLDER``.

It prints one line of JSON: the values of each figure. Whatever it starts belongs to its process group.
"""

import asyncio
import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from bench import children
from bench.peers import catalogue, workload
from bench.peers.basis import size_of
from bench.peers.case import Peer
from bench.peers.workload import Work, trace, until

ROOT: Final = Path(__file__).parent.parent.parent
PLACE: Final = ROOT / "build" / "peers"
LIMIT: Final = 300.0
"""Seconds after which a trial is ended."""
LATE: Final = f"not done after {LIMIT:g} s"
"""What is said of it then: an answer too, and no failure."""
MARK: Final = "@@ "

Values = dict[str, list[float]]
"""The values of each figure of a case."""


def peer_of(name: str, folder: Path) -> Peer:
    """Make a peer: ``midcourse:state`` is a variant of one."""
    module, _, variant = name.partition(":")
    return importlib.import_module(f"bench.peers.{module}").Peer(folder, variant)


# ---- the cases


async def stop(peer: Peer, entry: catalogue.Entry, stops: int, running: int = 0) -> Values:
    """From its own process, in which so many others run."""
    for number in range(running):
        await peer.start(f"busy-{number}", Work(steps=1_000_000, tool=1.0, acts=False))
    return await _stops(peer, entry, stops, peer.stop)


async def stop_elsewhere(peer: Peer, entry: catalogue.Entry, stops: int) -> Values:
    """From a process that has only connected."""
    async with children.child("peers.trial:click", entry.name, peer.folder) as clicker:
        await clicker.hear()

        async def click(session: str) -> tuple[float, float]:
            clicker.tell(session)
            said = await clicker.hear()
            return said["clicked"], said["confirmed"]

        return await _stops(peer, entry, stops, click)


async def _stops(
    peer: Peer,
    entry: catalogue.Entry,
    stops: int,
    click: Callable[[str], Coroutine[Any, Any, tuple[float, float] | None]],
) -> Values:
    values: Values = {"last": [], "confirmed": []}
    for number in range(stops):
        session = f"stop-{number}"
        seen = trace(session)
        await peer.start_stoppable(session, Work(steps=3, tool=2.0))
        await until(lambda seen=seen: seen.effects, "effect")
        await asyncio.sleep(random.uniform(0.01, 0.04 + entry.spread))
        clicked = time.perf_counter()
        clicked, confirmed = await click(session) or (clicked, time.perf_counter())
        await until(lambda seen=seen: seen.aborted or seen.ended, "end of the call")
        confirmed = max(confirmed, seen.over)
        values["last"].append(max(0.0, seen.effects[-1] - clicked) * 1000)
        values["confirmed"].append((confirmed - clicked) * 1000)
    return values


async def click(name: str, folder: str) -> None:
    """Stop, in the other process, the sessions that are named."""
    stopper = await peer_of(name, Path(folder)).elsewhere()
    children.say(ready=True)
    while session := await children.heard():
        clicked = time.perf_counter()
        await stopper.stop(session)
        children.say(clicked=clicked, confirmed=time.perf_counter())
    await stopper.close()


async def _steps_ms(peer: Peer, steps: int) -> float:
    start = time.perf_counter()
    await peer.start("steps", Work(steps=steps))
    await peer.result("steps")
    taken = (time.perf_counter() - start) * 1000
    done = trace("steps").ended
    assert done == steps, f"{done} of {steps} steps were done"
    return taken / steps


async def step(peer: Peer, _: catalogue.Entry, steps: int) -> Values:
    """Step by step."""
    return {"step": [await _steps_ms(peer, steps)]}


async def store(peer: Peer, _: catalogue.Entry, steps: int) -> Values:
    """So many steps, and the bytes they left."""
    before = size_of(peer.folder)
    taken = await _steps_ms(peer, steps)
    await peer.close()
    size = (size_of(peer.folder) - before) / 1e6
    await peer.open()
    return {"size": [size], "step": [taken]}


async def sessions(peer: Peer, _: catalogue.Entry, sessions: int) -> Values:
    """All at once."""

    async def one(session: str) -> None:
        await peer.start(session, Work(steps=5, tool=0.02, acts=False))
        await peer.result(session)

    start = time.perf_counter()
    await asyncio.gather(*(one(f"many-{number}") for number in range(sessions)))
    taken = time.perf_counter() - start
    done = sum(trace(f"many-{number}").ended for number in range(sessions))
    assert done >= 5 * sessions, f"{done} of {5 * sessions} steps were done"
    return {"wall": [taken]}


async def resume(peer: Peer, _: catalogue.Entry, history: int, resumes: int) -> Values:
    """With a store that was just opened."""
    await peer.stand("rest", history)
    seen = trace("rest")
    values: list[float] = []
    for _ in range(resumes):
        await peer.close()
        await peer.open()
        seen.rearm()
        clicked = time.perf_counter()
        resuming = asyncio.create_task(peer.resume("rest"))
        await until(lambda: seen.first, "first new thing", every=0.0002)
        values.append((seen.first - clicked) * 1000)
        await resuming
        await peer.stand_again("rest")
    return {"first": values}


async def recover(peer: Peer, entry: catalogue.Entry, kills: int) -> Values:
    """Two processes of their own, one after the other; the server, if there is one, lives on."""
    values: list[float] = []
    await peer.close()
    for number in range(kills):
        log = peer.folder / f"log-{number}"
        os.environ[workload.LOG] = str(log)
        session = f"kill-{number}"
        async with children.child("peers.trial:begin", entry.name, peer.folder, session) as first:
            await until(
                lambda log=log: ("tool", 4) in [line[1:3] for line in workload.logged(log)],
                "fifth tool call",
                every=0.01,
            )
            await asyncio.sleep(0.1)
            await first.kill()
        killed = time.perf_counter()
        async with children.child("peers.trial:go_on", entry.name, peer.folder, session) as second:
            new = [line for line in workload.logged(log) if line.pid == second.pid]
            while not new:
                assert second.is_alive, "the second process ended without an effect"
                assert time.perf_counter() < killed + 60, "no effect in 60 s"
                await asyncio.sleep(0.005)
                new = [line for line in workload.logged(log) if line.pid == second.pid]
            values.append(new[0].moment - killed)
            await second.hear()
        done = {line.step for line in workload.logged(log) if line.kind == "done"}
        assert done == set(range(workload.KILLED.steps)), f"only steps {sorted(done)} were done"
    await peer.open()
    return {"first": values}


async def begin(name: str, folder: str, session: str) -> None:
    """Start a session in the process that is killed."""
    peer = peer_of(name, Path(folder))
    await peer.open()
    await peer.start(session, workload.KILLED)
    await peer.result(session)


async def go_on(name: str, folder: str, session: str) -> None:
    """Continue it in another."""
    peer = peer_of(name, Path(folder))
    await peer.open()
    await peer.recover(session)
    children.say(ended=True)
    os._exit(0)  # some frameworks leave threads behind


async def start(_: Peer, entry: catalogue.Entry, starts: int) -> Values:
    """Processes, one after the other."""
    values: Values = {"import": [await _cpu_s(sys.executable, "-c", entry.imports) for _ in range(starts)]}
    if entry.command:
        program = shutil.which(entry.command[0], path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        assert program, f"{entry.command[0]} is not installed"
        values["version"] = [await _cpu_s(program, *entry.command[1:]) for _ in range(starts)]
    return values


async def _cpu_s(*command: str) -> float:
    """Return the seconds of CPU that a process took."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = await asyncio.to_thread(os.wait4, process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.stderr is not None
    assert process.returncode == 0, f"{' '.join(command)}: {process.stderr.read().decode()[-500:]}"
    process.stderr.close()
    return usage.ru_utime + usage.ru_stime


MEASURES: Final[Mapping[str, Callable[..., Coroutine[Any, Any, Values]]]] = {
    measure.__name__: measure for measure in (stop, stop_elsewhere, step, sessions, resume, store, recover, start)
}
"""How each case is measured."""


# ---- the process


async def _measured(name: str, case: str, size: Mapping[str, int], folder: Path) -> Values:
    peer = peer_of(name, folder)
    await peer.serve()
    try:
        await peer.open()
        values = await MEASURES[case](peer, catalogue.entry(name), **size)
        await peer.close()
    finally:
        await peer.stop_serving()
    return values


def main() -> None:
    """Measure, and say it."""
    _, name, case, size, folder = sys.argv
    values = asyncio.run(_measured(name, case, json.loads(size), Path(folder)))
    print(MARK + json.dumps(values), flush=True)
    os._exit(0)  # some frameworks leave threads behind


def run(name: str, case: str, size: Mapping[str, int]) -> Values | str:
    """Measure in a new process; where that fails, return why."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="trial-", dir=PLACE, ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.peers.trial", name, case, json.dumps(dict(size)), folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            said, errors = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            said, errors = "", LATE
        finally:
            _end_group(process.pid)
            process.wait()
    for line in said.splitlines():
        if line.startswith(MARK):
            return json.loads(line[len(MARK) :])
    (PLACE / f"{name.replace(':', '-')}-{case}.log").write_text(errors)
    return errors.strip().splitlines()[-1] if errors.strip() else f"ended with {process.returncode}"


def _end_group(group: int) -> None:
    """End what a trial has left behind: its server, when it was ended itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
