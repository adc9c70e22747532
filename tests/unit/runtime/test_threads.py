"""Threads for plain functions: kept for the next call, and keeping nothing of the last."""

import threading
import weakref

import pytest

from midcourse.runtime import thread_pool
from midcourse.runtime.thread_pool import ThreadPool
from tests.promises.harness import NEVER


class Session:
    """What a function that was called may hold."""


def test_an_idle_thread_keeps_nothing_of_its_last_call_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "_IDLE_SECONDS", NEVER)
    pool = ThreadPool(1)
    session, gone = Session(), threading.Event()
    weakref.finalize(session, gone.set)
    pool.submit(id, session).result(20)
    del session
    assert gone.wait(20), "the thread is idle, and holds what it was called with"

    monkeypatch.setattr(thread_pool, "_IDLE_SECONDS", 0.001)
    pool.submit(threading.get_ident).result(20)  # the thread looks at the clock again, and ends
