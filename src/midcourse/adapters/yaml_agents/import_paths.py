"""Import what an agent file names by its path: an installed module, or one beside the file."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from midcourse.adapters.yaml_agents.yaml_positions import YamlPage
from midcourse.core.choices import suggestion
from midcourse.errors import InvalidInput


def imported(page: YamlPage, place: tuple[str | int, ...], path: str) -> Any:
    """Import ``module:name``. Modules beside the file can be imported from then on, also by its tools' undos.

    Raises:
        InvalidInput: it cannot be imported, or is another one than the one beside the file.
    """
    module, _, names = path.partition(":")
    folder = page.path.resolve().parent
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        found: Any = import_module(module)
    except (Exception, SystemExit) as error:  # importing runs code that is not ours
        raise InvalidInput(
            page.sentence(place, f"'{module}' cannot be imported: {type(error).__name__}: {error}."),
            field="use",
            path=str(page.path),
            line=page.line(place),
        ) from error
    _refuse_another(page, place, module, folder)
    for name in names.split("."):
        if not hasattr(found, name):
            page.refuse(place, f"'{module}' has no '{names}'. {suggestion(name, _public(found))}".rstrip())
        found = getattr(found, name)
    return found


def _public(found: Any) -> list[str]:
    """Return the names that may have been meant: those a module or class offers, without imported modules."""
    names = cast("list[str]", getattr(found, "__all__", None) or dir(found))
    return [
        one
        for one in sorted(names)
        if not one.startswith("_") and not isinstance(getattr(found, one, None), ModuleType)
    ]


def _refuse_another(page: YamlPage, place: tuple[str | int, ...], module: str, folder: Path) -> None:
    """Python knows one module by a name: that of another folder must not stand in for the one beside the file."""
    where = getattr(sys.modules[module], "__file__", None)
    beside = folder.joinpath(*module.split("."))
    here = [one for one in (beside.with_suffix(".py"), beside / "__init__.py") if one.exists()]
    if where and here and Path(where).resolve() not in [one.resolve() for one in here]:
        page.refuse(
            place,
            f"'{module}' lies beside this file, but by that name {where} is imported already. Rename one of them.",
        )
