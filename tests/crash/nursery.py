"""Lives without waiting for imports: a process that has a scenario's modules in memory, and forks for each life.

A life is a process of its own all the same, with a store, a loop and a death of its own. Most of the time of a fresh
interpreter goes into the imports, of a framework above all.

``python -m tests.crash.nursery <scenario>``: reads a line ``[folder, at, when]``, and answers with how that life ended.
"""

import atexit
import gc
import json
import os
import subprocess
import sys
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from tests.crash import child
from tests.crash.scenarios import SCENARIOS
from tests.crash.within import Moment

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Life:
    """How a life ended, as ``subprocess`` has it, and the last of what it said."""

    returncode: int
    tail: str


class Nursery:
    """The process that forks, from the side of whoever wants a life."""

    def __init__(self, scenario: str) -> None:
        self.scenario = scenario
        command = [sys.executable, "-m", "tests.crash.nursery", scenario]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def live(self, folder: Path, at: int, when: Moment) -> Life:
        """One life, from its birth to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), at, when]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        try:
            returncode = int(answer)
        except ValueError:
            return Life(1, answer + self._process.stdout.read())
        said = folder / "said"
        return Life(returncode, "\n".join(said.read_text().splitlines()[-30:]) if said.exists() else "")

    def close(self) -> None:
        """Nobody wants another life of this scenario."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()


_nurseries: dict[int, Nursery] = {}


def live(scenario: str, folder: Path, at: int, when: Moment) -> Life:
    """One life of a scenario. Each thread has a process of its own to fork from, for the scenario it is at."""
    mine = threading.get_ident()
    known = _nurseries.get(mine)
    if known is None or known.scenario != scenario:
        if known is not None:
            known.close()
        known = _nurseries[mine] = Nursery(scenario)
    return known.live(folder, at, when)


@atexit.register
def _close_all() -> None:
    for one in _nurseries.values():
        one.close()


# ---- the process that forks


def main(scenario: str) -> None:
    """Fork for each line, until nobody is left who could write one."""
    SCENARIOS[scenario].made()
    # A copy made by a fork shares what neither side writes to: nothing that is here now is to be collected.
    gc.freeze()
    while line := sys.stdin.readline():
        folder, at, when = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _be_born(scenario, folder, at, when)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _be_born(scenario: str, folder: str, at: int, when: str) -> NoReturn:
    code = 1
    try:
        said = os.open(Path(folder) / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, own in ((nothing, 0), (said, 1), (said, 2)):
            os.dup2(descriptor, own)
        child.main([scenario, folder, str(at), when])
        code = 0
    except BaseException:  # noqa: BLE001 - said to whoever reads what it said, and told by the code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
