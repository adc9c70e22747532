"""The sockets of the local bus: private, short, and gone with their processes."""

import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from midcourse.bus import sockets
from midcourse.bus.local import LocalBus
from midcourse.core.ids import SessionId
from midcourse.errors import StoreUnavailable
from midcourse.ports.bus import Grown, Note

SESSION = SessionId("sess_1")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place of its own, so that no other test's sockets lie there, and a short one, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="mc-", dir="/tmp") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield Path(runtime)


def test_another_process_is_heard(folder: Path) -> None:
    bus = LocalBus()
    heard = SimpleQueue[Note]()
    bus.listen(heard.put)
    code = (
        "import sys\n"
        "from midcourse.bus.local import LocalBus\n"
        "from midcourse.ports.bus import Grown\n"
        "LocalBus().send(sys.argv[1], Grown('sess_1'))\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, bus.address], check=True)
    assert heard.get(timeout=10) == Grown(SESSION)
    bus.close()


def test_sockets_and_their_folder_are_private(folder: Path) -> None:
    bus = LocalBus()
    address = Path(bus.address)
    assert address.parent == folder / "midcourse"
    assert stat.S_IMODE(address.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(address.stat().st_mode) == 0o600
    assert len(bus.address) <= sockets.LONGEST_PATH
    bus.close()
    assert not address.exists()


def test_each_bus_of_a_process_has_its_own_address(folder: Path) -> None:
    buses = [LocalBus() for _ in range(3)]
    assert len({bus.address for bus in buses}) == 3
    for bus in buses:
        bus.close()


def test_the_sockets_of_killed_processes_are_removed(folder: Path) -> None:
    code = (
        "import time\n"
        "from midcourse.bus.local import LocalBus\n"
        "bus = LocalBus()\n"
        "print(bus.address, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = Path(process.stdout.readline().strip())
        alive = LocalBus()
        assert address.exists()
        process.send_signal(signal.SIGKILL)
    later = LocalBus()
    assert not address.exists()
    assert Path(alive.address).exists()
    alive.close()
    later.close()


def test_a_forked_child_does_not_take_the_address_away(folder: Path) -> None:
    code = """
import os
from queue import SimpleQueue
from midcourse.bus.local import LocalBus
from midcourse.ports.bus import Grown
bus = LocalBus()
heard = SimpleQueue()
bus.listen(heard.put)
child = os.fork()
if child == 0:
    bus.close()
    os._exit(0)
os.waitpid(child, 0)
bus.send(bus.address, Grown("sess_1"))
assert heard.get(timeout=10) == Grown("sess_1")
bus.close()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_a_long_runtime_folder_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    bus = LocalBus()
    assert not bus.address.startswith(str(long))
    bus.close()


def test_a_folder_that_others_can_look_into_is_passed_over(folder: Path) -> None:
    (folder / "midcourse").mkdir(mode=0o755)
    (folder / "midcourse").chmod(0o755)
    bus = LocalBus()
    assert not bus.address.startswith(str(folder))
    bus.close()


def test_without_a_private_folder_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "LONGEST_PATH", 10)
    with pytest.raises(StoreUnavailable, match="XDG_RUNTIME_DIR") as refused:
        LocalBus()
    assert refused.value.code == "no_socket_folder"


def test_what_is_no_note_is_passed_over(folder: Path) -> None:
    bus = LocalBus()
    heard = SimpleQueue[Note]()
    bus.listen(heard.put)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        for content in (b"", b"\xc1", b'{"no":"note"}'):
            other.sendto(content, bus.address)
    bus.send(bus.address, Grown(SESSION))
    assert heard.get(timeout=10) == Grown(SESSION)
    bus.close()
