"""The sentences that errors can say, read from the source: one line each, with the error's kind and code.

A sentence is a string with a space in it that is handed to an error, or to a function that makes one. The names of
modules are left out, so that a move changes nothing here.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from midcourse import errors
from midcourse.errors import MidcourseError

PINNED: Final = Path(__file__).parent / "sentences.txt"
SOURCE: Final = Path(__file__).parents[2] / "src" / "midcourse"
KINDS: Final = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, MidcourseError)
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def error_sentences() -> list[str]:
    """Return every sentence, sorted: ``InvalidInput unknown_position: The position {position} …``."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))]
    helpers = dict(helper for tree in trees for helper in _helpers(tree))
    return sorted({line for tree in trees for line in _lines(tree, helpers)})


def _helpers(tree: ast.Module) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """Yield each function that makes an error out of a string it is given: the error's kind, and its parameters."""
    for function in ast.walk(tree):
        if isinstance(function, Function) and any(_is_text(one.annotation) for one in function.args.args):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and (kind := _name(call.func)) in KINDS:
                    yield function.name, (kind, [one.arg for one in function.args.args])


def _lines(tree: ast.Module, helpers: Mapping[str, tuple[str, list[str]]]) -> Iterator[str]:
    constants = dict(_assigned(tree.body))
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    for scope, known in [(tree, constants), *((one, constants | dict(_assigned(ast.walk(one)))) for one in functions)]:
        for call in ast.walk(scope):
            name = _name(call.func) if isinstance(call, ast.Call) else ""
            if not isinstance(call, ast.Call) or not (name in KINDS or name in helpers):
                continue
            kind, parameters = (name, []) if name in KINDS else helpers[name]
            given = [*zip(parameters, call.args, strict=False), *((one.arg, one.value) for one in call.keywords)]
            codes = [one.value for name, one in given if name == "code" and isinstance(one, ast.Constant)]
            code = codes[0] if codes else KINDS[kind].code
            for text in _texts([*call.args, *(one.value for one in call.keywords)], known):
                if " " in text.strip():
                    yield f"{kind} {code}: {text!r}"


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case _:
                pass


def _texts(nodes: Iterable[ast.AST], known: Mapping[str, ast.expr]) -> Iterator[str]:
    """Yield the strings in ``nodes``, with those that a name stands for and with ``{…}`` for what is filled in."""
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=parts):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else _filled(part) for part in parts)
                yield from _texts((part for part in parts if isinstance(part, ast.FormattedValue)), known)
            case ast.Name(id=name) if name in known:
                yield from _texts([known[name]], {})
            case _:
                yield from _texts(ast.iter_child_nodes(node), known)


def _filled(part: ast.expr) -> str:
    return "{" + ast.unparse(part.value) + "}" if isinstance(part, ast.FormattedValue) else "{…}"


def _is_text(annotation: ast.expr | None) -> bool:
    return annotation is not None and "str" in ast.unparse(annotation)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


if __name__ == "__main__":
    PINNED.write_text("\n".join(error_sentences()) + "\n", encoding="utf-8")
