"""YAML with the line of every field, so that a mistake can be pointed at."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias, cast

import yaml

from midcourse.errors import InvalidInput

Place: TypeAlias = tuple[str | int, ...]
SIZE_LIMIT: Final = 1_000_000
FIELD_LIMIT: Final = 20_000
DEPTH_LIMIT: Final = 50


@dataclass(frozen=True, slots=True)
class YamlPage:
    """One document of a file: its content, and on which line each of its fields stands."""

    path: Path
    content: Any
    lines: dict[Place, int]

    def refuse(self, place: Sequence[str | int], why: str) -> NoReturn:
        """Say file, line and field, and why.

        Raises:
            InvalidInput: always.
        """
        raise InvalidInput(
            self.sentence(place, why), field=path_text(place), path=str(self.path), line=self.line(place)
        )

    def sentence(self, place: Sequence[str | int], why: str) -> str:
        where = f"{path_text(place)}: " if place else ""
        return f"{self.path}:{self.line(place)}: {where}{why}"

    def line(self, place: Sequence[str | int]) -> int:
        """Return the line of a field; of its parent, if the field is missing."""
        at = tuple(place)
        while at and at not in self.lines:
            at = at[:-1]
        return self.lines.get(at, 1)


def path_text(place: Sequence[str | int]) -> str:
    """Return a place as people write it: ``spec.tools[1].effect``."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_pages(path: Path) -> list[YamlPage]:
    """Return the documents of a YAML file.

    Raises:
        InvalidInput: it cannot be read, or is no YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        words = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(f"{path} cannot be read: {words}.", field="path", path=str(path)) from error
    if len(text) > SIZE_LIMIT:
        raise InvalidInput(
            f"{path} has {len(text):,} characters; an agent file has at most {SIZE_LIMIT:,}.", field="path"
        )
    try:
        return list(_documents(path, text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise InvalidInput(
            f"{path}:{line}: this is no YAML: {error.problem or error.context}.",
            field="path",
            path=str(path),
            line=line,
        ) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidInput(f"{path}: this is no YAML: {error}.", field="path", path=str(path)) from error


def _documents(path: Path, text: str) -> Iterator[YamlPage]:
    loader: Any = yaml.SafeLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                continue
            lines: dict[Place, int] = {}
            page = YamlPage(path, None, lines)
            _look(page, node, (), lines, depth=0)
            content = loader.construct_document(node)
            if content is not None:  # what follows a last '---' is no document
                yield YamlPage(path, content, lines)
    finally:
        loader.dispose()


def _look(page: YamlPage, node: yaml.Node, place: Place, lines: dict[Place, int], depth: int) -> None:
    lines.setdefault(place, node.start_mark.line + 1)
    if depth > DEPTH_LIMIT or len(lines) > FIELD_LIMIT:
        # Aliases are followed one by one: a few lines of them could stand for more places than can be counted.
        page.refuse((), f"it has more than {FIELD_LIMIT:,} fields, or is nested more than {DEPTH_LIMIT} deep.")
    if isinstance(node, yaml.MappingNode):
        for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            below = (*place, name)
            first, lines[below] = lines.get(below), key.start_mark.line + 1
            if first is not None:
                page.refuse(below, f"'{name}' is here for the second time; the first is on line {first}.")
            _look(page, value, below, lines, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(cast("list[yaml.Node]", node.value)):
            _look(page, value, (*place, index), lines, depth + 1)
