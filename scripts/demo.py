"""``make demo``: the server with the sample agents, in a folder of its own, and two minutes of things to try.

Run again it goes on with what is there; ``--reset`` (``make demo-reset``) starts over.
"""

import argparse
import asyncio
import logging
import os
import shutil
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Final

import midcourse
from midcourse.errors import MidcourseError
from midcourse.handle.http.server_record import whereabouts
from midcourse.runtime.settings import Settings
from midcourse.samples.folders import FOLDER as SAMPLES_FOLDER
from midcourse.samples.models import PACE, PRICES
from midcourse.server import Server
from midcourse.server.launcher import ListenOptions, link_to, listen, run, token_of
from midcourse.server.logs import configure_logs

ROOT: Final = Path(__file__).parent.parent
KEPT: Final = Path(".midcourse")
SLOWLY: Final = "0.08"
"""Seconds for a word: slow enough to be read, and to be interrupted."""
ONCE: Final = "The link works once, within a minute. For another one: make demo, in a second terminal."
PATH: Final = """
Two minutes:
  1. New run (n): churn-memo, any of its goals, Start.
  2. While it writes, press Pause (p). It stops at once; say why, or skip.
  3. Redirect (r), choose Step, say "only customers over $10k", Enter. Then Resume (p).
  4. When it says that the memo is written: Cancel (c). Nothing new starts while you look at what each
     choice would undo. Choose "Undo everything possible", then Cancel run.
  5. Read the receipt: the memo is undone. It lists everything that the run did, as far as it was observed.
More: records-cleaner asks before it deletes. repo-fixer goes astray: leave it alone, and after two
minutes its policy steps in and says why. Ctrl-C and `make demo` again: what ran continues.
"""


def main() -> None:
    """Serve until Ctrl-C."""
    options = argparse.ArgumentParser(prog="make demo", description=__doc__)
    options.add_argument("--reset", action="store_true", help="remove what earlier demos have left, first")
    options.add_argument("--port", type=int, help="the port; without it 8420, or the next that is free")
    options.add_argument("--folder", type=Path, default=ROOT / "build" / "demo", help="where everything of it is kept")
    given = options.parse_args()
    folder: Path = given.folder.absolute()
    if (found := whereabouts(folder / KEPT)) is not None:
        if given.reset:
            sys.exit(f"The demo runs (pid {found.pid}): end it with Ctrl-C first.")
        print(f"The demo runs already. Open {asyncio.run(_link(found.url, folder / KEPT))}\n{ONCE}")
        return
    if given.reset:
        shutil.rmtree(folder, ignore_errors=True)
    (folder / KEPT).mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chdir(folder)
    os.environ[SAMPLES_FOLDER] = str(folder / "samples")
    os.environ.setdefault(PACE, SLOWLY)
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    try:
        _serve(given.port)
    except MidcourseError as error:
        sys.exit(f"{error}")


async def _link(url: str, kept: Path) -> str:
    async with midcourse.connect(url, token=token_of(kept, None), patience=0) as remote:
        return await remote.login_link()


def _serve(port: int | None) -> None:
    from midcourse.samples.catalog import SAMPLES

    configure_logs()
    # The steps to try stay on the screen; the file has every line.
    logging.getLogger().handlers[0].setLevel(logging.WARNING)
    token = token_of(KEPT, None)
    place = ListenOptions(folder=KEPT, port=port)
    listening = listen(place, print)
    is_first = not (KEPT / "midcourse.db").exists()
    server = Server(store=f"sqlite:///{KEPT}/midcourse.db", token=token, settings=Settings(prices=PRICES))

    async def ready(url: str) -> None:
        link = link_to(url, await server.login_code())
        print(f"\nMidcourse serves {', '.join(one.name for one in SAMPLES)}.")
        if not is_first:
            print("The sessions of the last demo are there, and continue. To start over: make demo-reset")
        print(f"\n  Open {link}\n  {ONCE}\n{PATH}\nCtrl-C ends it; nothing is lost.", flush=True)
        if _has_display():
            threading.Thread(target=_open, args=(link,), daemon=True).start()

    parked = run(server, place, listening, ready=ready)
    were = f"{parked} running {'was' if parked == 1 else 'were'} released, none cancelled. " if parked else ""
    print(f"\n{were}To continue: make demo. To start over: make demo-reset.")


def _has_display() -> bool:
    """Whether a browser can show itself, and a person started this."""
    if not sys.stdout.isatty() or os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(link: str) -> None:
    try:
        webbrowser.open(link)
    except (webbrowser.Error, OSError):
        return  # the link is on the screen


if __name__ == "__main__":
    main()
