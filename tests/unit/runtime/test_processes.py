"""A plain function in a process: what it does comes back, and a cancelled one is dead when the wait for it is over."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from midcourse.errors import Interrupt
from midcourse.runtime.process_calls import ProcessFailed
from midcourse.runtime.process_groups import ProcessGroupReaper
from midcourse.runtime.process_pool import ProcessDied, ProcessPool
from tests.unit.runtime import tasks
from tests.unit.runtime.tasks import WAIT, Program, is_dead, is_reaped, is_still, until, until_growing


@pytest.fixture
async def minder() -> AsyncIterator[ProcessGroupReaper]:
    minder = ProcessGroupReaper()
    yield minder
    await asyncio.to_thread(minder.close)


@pytest.fixture
async def processes(minder: ProcessGroupReaper) -> AsyncIterator[ProcessPool]:
    processes = ProcessPool(minder, warm=1)
    yield processes
    await processes.close()


async def cancelled(task: "asyncio.Task[object]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_a_function_returns_comes_back(processes: ProcessPool) -> None:
    assert await processes.run(None, tasks.add, (2,), {"right": 3}) == 5
    assert await processes.run(None, tasks.pid) != os.getpid()


async def test_a_large_argument_and_a_large_result_come_through(processes: ProcessPool) -> None:
    large = os.urandom(5_000_000)
    assert await processes.run(None, bytes, (large,)) == large


async def test_a_process_is_used_again(processes: ProcessPool) -> None:
    first = await processes.run(None, tasks.pid)
    assert await processes.run(None, tasks.pid) == first


async def test_what_a_function_raises_comes_back_and_says_where(processes: ProcessPool) -> None:
    with pytest.raises(ValueError, match="^usual") as raised:
        await processes.run(None, tasks.fail, ("usual",))
    assert str(raised.value) == "usual"
    assert "tasks.py" in raised.value.__notes__[0]


async def test_an_exception_that_pickle_cannot_make_again_comes_back(processes: ProcessPool) -> None:
    with pytest.raises(tasks.Particular) as raised:
        await processes.run(None, tasks.fail, ("particular",))
    assert (str(raised.value), raised.value.reason) == ("because of age", "age")


async def test_a_question_to_a_person_comes_back(minder: ProcessGroupReaper) -> None:
    processes = ProcessPool(minder, warm=0, prepare=ask)
    with pytest.raises(Interrupt) as asked:
        await processes.run("Which one?", tasks.pid)
    assert (asked.value.reason, asked.value.prompt) == ("choice", "Which one?")
    await processes.close()


def ask(prompt: object) -> None:
    raise Interrupt("choice", str(prompt))


async def test_an_exception_that_cannot_come_back_is_told(processes: ProcessPool) -> None:
    with pytest.raises(ProcessFailed, match="raised Holding: it holds a lock") as failed:
        await processes.run(None, tasks.fail, ("holding",))
    assert (failed.value.kind, failed.value.detail) == ("Holding", "it holds a lock")


async def test_a_function_cannot_raise_a_cancellation_of_its_caller(processes: ProcessPool) -> None:
    with pytest.raises(ProcessFailed, match="raised CancelledError, which is no Exception"):
        await processes.run(None, tasks.fail, ("cancelled",))


async def test_a_result_that_cannot_be_pickled_is_told(processes: ProcessPool) -> None:
    with pytest.raises(ProcessFailed, match="returned a lock, which cannot be pickled"):
        await processes.run(None, tasks.give_lock)
    assert await processes.run(None, tasks.add, (1,), {"right": 1}) == 2


async def test_a_function_that_is_not_at_the_top_of_a_module_is_refused(processes: ProcessPool) -> None:
    with pytest.raises(ProcessFailed, match="top level of a module"):
        await processes.run(None, lambda: 1)
    assert not processes.pids


async def test_the_process_is_told_what_the_call_is_about(minder: ProcessGroupReaper) -> None:
    processes = ProcessPool(minder, prepare=tasks.hear)
    assert await processes.run({"attempt": 2}, tasks.what_was_told) == {"attempt": 2}
    await processes.close()


@pytest.mark.parametrize(
    ("how", "words", "code"),
    [
        ("exit", "ended with exit code 3", 3),
        ("at once", "ended with exit code 4", 4),
        ("signal", "ended by SIGSEGV", -signal.SIGSEGV),
    ],
)
async def test_a_process_that_ends_by_itself_is_told(processes: ProcessPool, how: str, words: str, code: int) -> None:
    with pytest.raises(ProcessDied, match=words) as died:
        await processes.run(None, tasks.leave, (how,))
    assert died.value.exit_code == code
    assert await processes.run(None, tasks.add, (1,), {"right": 1}) == 2


async def test_a_process_that_somebody_kills_is_told(processes: ProcessPool, tmp_path: Path) -> None:
    call = asyncio.create_task(processes.run(None, tasks.stamp, (tmp_path / "stamps",)))
    await until_growing(tmp_path / "stamps")
    os.kill(int((tmp_path / "stamps").read_text().split()[0]), signal.SIGKILL)
    with pytest.raises(ProcessDied, match="SIGKILL, by a person or because memory ran out"):
        await call


async def test_an_idle_process_that_somebody_kills_is_replaced(processes: ProcessPool) -> None:
    await processes.run(None, tasks.pid)
    await until(lambda: len(processes.pids) >= 1)
    killed = processes.pids
    for process in killed:
        os.kill(process, signal.SIGKILL)
    await until(lambda: not killed & processes.pids)
    assert all(is_reaped(process) for process in killed)
    assert await processes.run(None, tasks.pid) not in killed


async def test_a_cancelled_function_does_nothing_more(processes: ProcessPool, tmp_path: Path) -> None:
    """When the wait for it is over its process is dead and reaped."""
    stamps = tmp_path / "stamps"
    call = asyncio.create_task(processes.run(None, tasks.stamp, (stamps,)))
    await until_growing(stamps)
    await cancelled(call)
    written = stamps.read_bytes()
    assert is_reaped(int(written.split()[0]))
    assert await is_still(stamps)
    assert stamps.read_bytes() == written
    assert await processes.run(None, tasks.add, (1,), {"right": 1}) == 2


async def test_a_second_cancellation_does_not_end_the_wait_early(processes: ProcessPool, tmp_path: Path) -> None:
    stamps = tmp_path / "stamps"
    call = asyncio.create_task(processes.run(None, tasks.stamp, (stamps,)))
    await until_growing(stamps)
    call.cancel()
    await asyncio.sleep(0)
    await cancelled(call)
    assert is_reaped(int(stamps.read_bytes().split()[0]))


async def test_what_a_cancelled_function_has_started_dies_too(processes: ProcessPool, tmp_path: Path) -> None:
    stamps, child, grandchild = tmp_path / "s", tmp_path / "s.child", tmp_path / "s.child2"
    call = asyncio.create_task(processes.run(None, tasks.stamp, (stamps,), {"with_children": True}))
    await until_growing(stamps, child, grandchild)
    await cancelled(call)
    written = [path.read_bytes() for path in (stamps, child, grandchild)]
    assert await is_still(stamps, child, grandchild)
    assert [path.read_bytes() for path in (stamps, child, grandchild)] == written
    assert all(is_dead(int(content.split()[0])) for content in written)


async def test_a_function_that_lets_no_thread_run_is_killed_too(processes: ProcessPool, tmp_path: Path) -> None:
    call = asyncio.create_task(processes.run(None, tasks.hold_the_interpreter, (tmp_path / "pid",)))
    await until(lambda: bool((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    await cancelled(call)
    assert is_reaped(int((tmp_path / "pid").read_text()))


async def test_what_a_call_leaves_behind_is_dead_when_it_returns(processes: ProcessPool) -> None:
    child = await processes.run(None, tasks.leave_child)
    assert isinstance(child, int)
    assert is_dead(child)
    process = await processes.run(None, tasks.leave_thread)
    assert isinstance(process, int)
    assert is_reaped(process)
    assert await processes.run(None, tasks.pid) != process


async def test_nothing_is_started_before_the_first_call(minder: ProcessGroupReaper) -> None:
    processes = ProcessPool(minder)
    assert not processes.pids
    assert minder.pid is None
    await processes.close()


async def test_warm_processes_are_kept_ready_beside_those_that_work(minder: ProcessGroupReaper, tmp_path: Path) -> None:
    processes = ProcessPool(minder, warm=2)
    call = asyncio.create_task(processes.run(None, tasks.wait_for, (tmp_path / "go",)))
    await until(lambda: len(processes.pids) == 3)
    (tmp_path / "go").touch()
    assert await call == "go"
    await processes.close()


async def test_those_that_nobody_needs_any_more_are_let_go(
    minder: ProcessGroupReaper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("midcourse.runtime.process_pool._IDLE_SECONDS", 0.05)
    processes = ProcessPool(minder, warm=1)
    calls = [asyncio.create_task(processes.run(None, tasks.wait_for, (tmp_path / "go",))) for _ in range(3)]
    await until(lambda: len(processes.pids) >= 3)
    (tmp_path / "go").touch()
    await asyncio.gather(*calls)
    await until(lambda: len(processes.pids) == 1)
    assert await processes.run(None, tasks.pid) in processes.pids
    await processes.close()


async def test_a_call_that_comes_while_the_last_one_is_let_go_gets_another(
    minder: ProcessGroupReaper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midcourse.runtime.process_pool._IDLE_SECONDS", 0)
    processes = ProcessPool(minder, warm=0, most=1)
    first = await processes.run(None, tasks.pid)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await processes.run(None, tasks.pid) != first
    await processes.close()


async def test_calls_beyond_the_most_wait_for_their_turn_in_order(minder: ProcessGroupReaper, tmp_path: Path) -> None:
    processes = ProcessPool(minder, warm=1, most=1)
    done: list[object] = []

    async def wait_for(name: str) -> None:
        done.append(await processes.run(None, tasks.wait_for, (tmp_path / name,)))

    first, *others = [asyncio.create_task(wait_for(name)) for name in "abcd"]
    for name in "dcb":
        (tmp_path / name).touch()
    await until(lambda: len(processes.pids) == 1)
    await cancelled_call(others[1])
    assert not done
    (tmp_path / "a").touch()
    await asyncio.gather(first, others[0], others[2])
    assert done == ["a", "b", "d"]
    assert len(processes.pids) == 1
    await processes.close()


async def cancelled_call(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_call_that_is_cancelled_before_its_process_is_ready_disturbs_nobody(processes: ProcessPool) -> None:
    call = asyncio.create_task(processes.run(None, tasks.pid))
    await asyncio.sleep(0)
    await cancelled(call)
    assert await processes.run(None, tasks.add, (1,), {"right": 1}) == 2


async def test_closing_leaves_no_process_no_descriptor_and_no_thread(tmp_path: Path) -> None:
    descriptors, threads = tasks.descriptors(), threading.active_count()
    minder = ProcessGroupReaper()
    processes = ProcessPool(minder, warm=2)
    call = asyncio.create_task(processes.run(None, tasks.stamp, (tmp_path / "stamps",)))
    await until_growing(tmp_path / "stamps")
    await until(lambda: len(processes.pids) == 3)
    pids = processes.pids
    await processes.close()
    assert all(is_reaped(pid) for pid in pids)
    with pytest.raises(ProcessDied, match="closed"):
        await call
    with pytest.raises(ProcessDied, match="closed"):
        await processes.run(None, tasks.pid)
    helper = minder.pid
    minder.close()
    assert helper is not None
    assert is_reaped(helper)
    await until(lambda: threading.active_count() <= threads)
    assert tasks.descriptors() == descriptors


async def test_closing_refuses_those_that_wait_and_those_that_start(minder: ProcessGroupReaper) -> None:
    processes = ProcessPool(minder, warm=0, most=1)
    calls = [asyncio.create_task(processes.run(None, tasks.pid)) for _ in range(3)]
    await asyncio.sleep(0)
    await processes.close()
    assert [type(one) for one in await asyncio.gather(*calls, return_exceptions=True)] == [ProcessDied] * 3
    await processes.close()


async def test_a_process_that_cannot_start_is_told(minder: ProcessGroupReaper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    processes = ProcessPool(minder, warm=2)
    with pytest.raises(ProcessDied, match="ended at once .exit code 1.; standard error says why"):
        await processes.run(None, os.getpid)
    monkeypatch.undo()
    assert isinstance(await processes.run(None, os.getpid), int)
    await processes.close()


def test_each_event_loop_has_its_own() -> None:
    minder = ProcessGroupReaper()
    results: list[object] = []

    async def use() -> None:
        processes = ProcessPool(minder, warm=0)
        results.append(await processes.run(None, tasks.add, (1,), {"right": 1}))
        await processes.close()

    threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    minder.close()
    assert results == [2, 2]


STAMPING = """
import asyncio, os, signal, sys
from pathlib import Path
from midcourse.runtime.process_groups import ProcessGroupReaper
from midcourse.runtime.process_pool import ProcessPool
from tests.unit.runtime import tasks

async def main():
    minder = ProcessGroupReaper()
    processes = ProcessPool(minder, warm=1)
    path = Path(sys.argv[1])
    call = asyncio.create_task(processes.run(None, tasks.stamp, (path,), {"with_children": True}))
    held = asyncio.create_task(processes.run(None, tasks.hold_the_interpreter, (path.with_suffix(".held"),)))
    await tasks.until_growing(path, path.with_suffix(".child"), path.with_suffix(".child2"))
    await tasks.until(lambda: path.with_suffix(".held").exists() and bool(path.with_suffix(".held").read_text()))
    if "forked" in sys.argv and os.fork() == 0:
        signal.pause()
    if "unminded" in sys.argv:
        held.cancel()
        await asyncio.wait([held])
        os.kill(minder.pid, signal.SIGKILL)
    print(*processes.pids, flush=True)
    await call

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("circumstance", ["alone", "forked", "unminded"])
async def test_processes_die_with_a_program_that_is_killed(tmp_path: Path, circumstance: str) -> None:
    """Also if another process was forked from it, and if its minder was killed before."""
    stamps = [tmp_path / "s", tmp_path / "s.child", tmp_path / "s.child2"]
    with Program(tmp_path / "program.py", STAMPING, stamps[0], circumstance) as program:
        pids = [int(word) for word in program.hear().split()]
        await until_growing(*stamps)
        program.kill()
        await until(lambda: all(is_dead(pid) for pid in pids))
        await until(lambda: all(is_dead(int(path.read_text().split()[0])) for path in stamps))
    assert pids
    assert await is_still(*stamps)


MAIN = """
import asyncio
from dataclasses import dataclass
from midcourse.runtime.process_groups import ProcessGroupReaper
from midcourse.runtime.process_pool import ProcessPool

@dataclass
class Answer:
    number: int

def answer(number):
    return Answer(number + 1)

async def main():
    minder = ProcessGroupReaper()
    processes = ProcessPool(minder)
    print(await processes.run(None, answer, (41,)), flush=True)
    print(await processes.run(None, answer, (42,)), flush=True)
    await processes.close()
    minder.close()

"""


def test_a_function_of_the_main_program_is_found(tmp_path: Path) -> None:
    with Program(tmp_path / "program.py", MAIN + "if __name__ == '__main__':\n    asyncio.run(main())\n") as program:
        assert (program.hear(), program.hear()) == ("Answer(number=42)", "Answer(number=43)")
        assert program.process.wait(WAIT) == 0


def test_a_main_program_that_would_start_itself_again_is_told_how_to_be_written(tmp_path: Path) -> None:
    with Program(tmp_path / "program.py", MAIN + "asyncio.run(main())\n") as program:
        _, words = program.process.communicate(timeout=WAIT)
    assert "Put what starts it under `if __name__ == '__main__':`" in words
