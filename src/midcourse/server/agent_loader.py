"""Agents from files: decorated functions in ``.py``, agent files in ``.yaml``, or folders of both."""

import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from midcourse import Agent
from midcourse.core.terms import UNWATCHED
from midcourse.errors import Damaged, InvalidInput, MidcourseError, describe
from midcourse.handle import registered
from midcourse.policy.versions import HOW_TO_SAVE
from midcourse.policy.versions import load as load_policy
from midcourse.ports.store import Store

YAML = (".yaml", ".yml")
_HOW = "Decorate an async function of a run with @midcourse.agent, or wrap one."
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_module_name(place: str | Path) -> bool:
    """Return True if a place is named as Python imports it. An existing file or folder is not."""
    name = str(place)
    is_file_name = name.endswith((*YAML, ".py")) or "/" in name
    return _MODULE.fullmatch(name) is not None and not is_file_name and not Path(name).exists()


def load_agents_of(places: Iterable[str | Path]) -> list[str]:
    """Register the agents of files, folders and modules (``shop.agents``), and return their names.

    Raises:
        InvalidInput: a file has a mistake, or holds no agent; the sentence says file and line.
    """
    found: list[str] = []
    for place in places:
        path = Path(place)
        if is_module_name(place):
            names = _load_module(str(place))
            if not names:
                raise InvalidInput(f"Module '{place}' defines no agent. {_HOW}", field="agents")
            found += names
            continue
        for file in _files(path):
            names = _load(file)
            if not names and not path.is_dir():
                raise InvalidInput(
                    f"{file} defines no agent. {_HOW}",
                    field="agents",
                    path=str(file),
                )
            found += names
        if path.is_dir() and not found:
            raise InvalidInput(f"No file in {path} defines an agent.", field="agents", path=str(path))
    return found


async def unknown_policies(store: Store, agents: Mapping[str, Agent[object]]) -> list[str]:
    """Return a sentence for each agent that names a missing policy: none of its sessions can start.

    The policy may be saved while the server runs, so this is reported and not refused.
    """
    told: list[str] = []
    for name, agent in agents.items():
        if agent.terms.policy in ("", UNWATCHED):
            continue
        try:
            await load_policy(store, agent.terms.policy)
        except InvalidInput as error:
            told.append(f"Agent '{name}' cannot be started: {error.message} {HOW_TO_SAVE}")
        except Damaged as error:
            told.append(f"Agent '{name}' cannot be started: {error.message}")
    return told


def _files(path: Path) -> Sequence[Path]:
    if path.is_dir():
        kinds = (*YAML, ".py")
        files = sorted(one for one in path.iterdir() if one.suffix in kinds and not one.name.startswith(("_", ".")))
        if not files:
            raise InvalidInput(
                f"There is no .py or .yaml file in {path}, where agents were looked for.",
                field="agents",
                path=str(path),
            )
        return files
    if not path.is_file():
        raise InvalidInput(f"There is no file {path}, where agents were looked for.", field="agents", path=str(path))
    if path.suffix not in (*YAML, ".py"):
        raise InvalidInput(
            f"{path} is neither a .py nor a .yaml file. Agents come from Python modules and agent files.",
            field="agents",
            path=str(path),
        )
    return [path]


def _load(file: Path) -> list[str]:
    if file.suffix in YAML:
        # Here, for it brings a whole framework: a server without such files starts in half the time.
        from midcourse.adapters.yaml_agents import load_agents

        return [agent.name for agent in load_agents(file)]
    return _new_agents(lambda: _import(file.resolve()))


def _load_module(name: str) -> list[str]:
    """Return the agents of a module, or of a package, that Python finds from here."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)

    def load() -> ModuleType:
        try:
            return import_module(name)
        except MidcourseError as error:
            raise InvalidInput(f"{name}: {error.message}", field="agents") from error
        except (Exception, SystemExit) as error:  # importing runs code that is not ours
            told = f"{type(error).__name__}: {describe(error)}".rstrip(".")
            hint = " It was looked for from this folder." if isinstance(error, ModuleNotFoundError) else ""
            raise InvalidInput(f"Module '{name}' cannot be imported: {told}.{hint}", field="agents") from error

    return _new_agents(load, within=f"{name}.")


def _new_agents(load: Callable[[], ModuleType], within: str = "\0") -> list[str]:
    """Return the agents that loading a module registered, and those of it, or ``within`` it, that were there before."""
    before = dict(registered())
    module = load().__name__

    def is_of_it(origin: str) -> bool:
        return origin == module or origin.startswith(within)

    return [
        name
        for name, agent in registered().items()
        if before.get(name) is not agent or is_of_it(agent.origin.partition(":")[0])
    ]


def _import(file: Path) -> ModuleType:
    """Import the module of that file under its own name, so that another process finds its functions by the same.

    A file of a package is imported as such, so that its relative imports work.
    """
    root, name = file.parent, file.stem
    while (root / "__init__.py").is_file() and root != root.parent:
        root, name = root.parent, f"{root.name}.{name}"
    folder = str(root)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) != str(file):
        raise InvalidInput(
            f"{file} cannot be imported as '{name}': {getattr(known, '__file__', None) or 'a built-in module'} "
            "goes by that name already. Rename the file.",
            field="agents",
            path=str(file),
        )
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return import_module(name)
    except MidcourseError as error:
        raise _mistake(file, _line(file, error), error.message) from error
    except SyntaxError as error:
        raise _mistake(Path(error.filename or file), error.lineno, f"{error.msg}") from error
    except (Exception, SystemExit) as error:  # importing runs code that is not ours
        raise _mistake(file, _line(file, error), f"{type(error).__name__}: {describe(error)}") from error


def _line(file: Path, error: BaseException) -> int | None:
    """Return the last line of the file itself that led to the error."""
    lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == str(file)]
    return lines[-1] if lines else None


def _mistake(file: Path, line: int | None, what: str) -> InvalidInput:
    place = f"{file}:{line}" if line else str(file)
    return InvalidInput(f"{place}: {what.rstrip('.')}.", field="agents", path=str(file), line=line)
