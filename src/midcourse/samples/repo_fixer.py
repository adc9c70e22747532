"""``repo-fixer``: edits files of a real git work tree, and runs its tests.

It goes wrong in two ways, so that there is something to stop. Asked to rename a parameter, it does so in 47 files, each
edit reasonable, and the tests fail at the end. Asked to fix the login bug, it drifts from
authentication to the connection pool to the ORM. Told to stay with the session check, it finds the bug.

Each session has a tree of its own. Every edit can be undone.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from pydantic_ai import Agent
from pydantic_ai.usage import UsageLimits

import midcourse
from midcourse.adapters.pydantic_ai import wrap
from midcourse.core.terms import Terms
from midcourse.models.script import Call, Conversation, Piece, Text
from midcourse.samples.folders import folder_of, made_once
from midcourse.samples.models import model_for, words
from midcourse.samples.plan import PlanFromTools
from midcourse.samples.redirects import StoryCourse, course_of, quoted, result_of
from midcourse.samples.repo_sources import sources
from midcourse.tools import Files, files_in

NAME: Final = "repo-fixer"
DESCRIPTION: Final = "Edits a git work tree of a generated web shop and runs its tests; it breaks things, or drifts."
GOALS: Final = ("Rename the parameter timeout to deadline in all files (47-files)", "Fix the login bug (login-bug)")
REPRODUCE: Final = "reproduce the login bug"
_AREAS: Final = {"auth": "fix session check", "pool": "tune connection pool", "orm": "rewrite ORM layer"}
_RENAME: Final = re.compile(r"rename\s+(?:the\s+)?(?:parameter\s+)?`?(\w+)`?\s+to\s+`?(\w+)`?", re.IGNORECASE)
_CONSTANT: Final = re.compile(r"^([A-Z_]+) = (\d+|True)$", re.MULTILINE)
_LEAVE: Final = re.compile(
    r"(?:stop (?:editing|touching|changing)|(?:don.?t|do not) (?:edit|touch|change)|leave|skip|except|keep out of)"
    r"\s+(?:the\s+|any\s+)?([\w./-]+)",
    re.IGNORECASE,
)
_ONLY: Final = re.compile(
    r"(?:only|stay (?:with|in)|back to|just)\s+(?:edit\s+|touch\s+|change\s+|files in\s+|the\s+)*([\w./-]+)",
    re.IGNORECASE,
)
_SLOWLY: Final = 24.0
_tree: ContextVar[Path] = ContextVar("midcourse_sample_tree")
"""The tree of the session whose tool runs. A context variable, and no parameter: an undo has no RunContext."""


# ---- the data


def prepare(folder: Path | None = None) -> Path:
    """Prepare the work folder, with the repository that every session's tree is a copy of."""
    folder = folder or folder_of(NAME)
    made_once(folder / "shop", _generate)
    (folder / "trees").mkdir(exist_ok=True)
    return folder


def _generate(repository: Path) -> None:
    for path, text in sources().items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text, encoding="utf-8")
    _git(repository, "init", "--quiet", "--initial-branch=main")
    _git(repository, "add", "--all")
    person = ("-c", "user.name=midcourse", "-c", "user.email=samples@midcourse.invalid")
    _git(repository, *person, "commit", "--quiet", "--message", "The shop as it was")


def _git(repository: Path, *arguments: str) -> str:
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, check=True, env=quiet, text=True).stdout


def tree_of(session_id: str) -> Path:
    """Return the work tree of a session, made if it is not there."""
    folder = prepare()
    return made_once(folder / "trees" / session_id, lambda fresh: shutil.copytree(folder / "shop", fresh))


# ---- the tools


def _files() -> Files:
    folder = prepare()
    return files_in(folder / "trees", backups=folder / "backups")


def _inside(path: str) -> str:
    """Return a path in the session's tree as the file tools have it, which see every tree."""
    tree = _tree.get()
    given = (tree / path).resolve()
    if not given.is_relative_to(tree.resolve()) or ".git" in given.relative_to(tree.resolve()).parts:
        raise midcourse.InvalidInput(f"'{path}' is not in the work tree. Give a path as list_files does.", field="path")
    return f"{tree.name}/{given.relative_to(tree.resolve())}"


def _put_back(arguments: Mapping[str, Any], result: object, key: str) -> None:
    _files().undo(arguments, result, key)


@midcourse.tool(effect="read")
def list_files(folder: str = "") -> list[str]:
    """List the files of the repository that git knows, below ``folder`` if one is given."""
    return _git(_tree.get(), "ls-files", *([folder] if folder else [])).splitlines()


@midcourse.tool(effect="read")
def search(word: str) -> dict[str, int]:
    """Find a whole word: the files that have it, and how often."""
    found: dict[str, int] = {}
    for path in list_files.function():
        count = len(re.findall(rf"\b{re.escape(word)}\b", (_tree.get() / path).read_text(encoding="utf-8")))
        if count:
            found[path] = count
    return found


@midcourse.tool(effect="read")
def read_file(path: str) -> str:
    """Read a file."""
    return _files().read(_inside(path))


@midcourse.tool(effect="write", undo=_put_back, local=True)
def edit_file(path: str, old: str, new: str) -> str:
    """Replace the text 'old', which must stand in the file exactly once, by 'new'."""
    _files().edit(_inside(path), old, new)
    return _changed(path)


@midcourse.tool(effect="write", undo=_put_back, local=True)
def rename_in_file(path: str, old: str, new: str) -> str:
    """Replace every occurrence of the whole word 'old' in a file by 'new'."""
    text = _files().read(_inside(path))
    _files().write(_inside(path), re.sub(rf"\b{re.escape(old)}\b", lambda _: new, text))
    return _changed(path)


def _changed(path: str) -> str:
    added, removed, _ = (_git(_tree.get(), "diff", "--numstat", "--", path) or "0\t0\t").split("\t", 2)
    return f"+{added} -{removed}"


@midcourse.tool(effect="read")
def run_tests(suite: str) -> dict[str, Any]:
    """Run a suite of tests of the repository: 'api' or 'login'."""
    command = [sys.executable, "-B", "tests/run.py", suite]
    done = subprocess.run(command, cwd=_tree.get(), capture_output=True, text=True, check=False, timeout=60)
    return {"passed": done.returncode == 0, "output": (done.stdout + done.stderr)[-2000:]}


# ---- the script


def _says(text: str) -> Text:
    """Return a thought before each call, as models that edit code have: people, and a policy, get time to step in."""
    return words(text, slowly=_SLOWLY)


def script(conversation: Conversation) -> Sequence[Piece]:
    """Rename in file after file, or look for the login bug in area after area, as the goal says."""
    course = course_of(conversation)
    if course.stops:
        return [_says(f"Understood: {quoted(course.last)} I edit nothing more. {_so_far(conversation)}")]
    rename = next((found for text in reversed(course.said) if (found := _RENAME.search(text))), None)
    if rename is not None or any("47" in text for text in course.said):
        old, new = (rename[1], rename[2]) if rename else ("timeout", "deadline")
        return _rename(conversation, course, old, new)
    if any(re.search(r"login|auth|session", text, re.IGNORECASE) for text in course.said):
        return _fix(conversation, course)
    return [
        _says(
            f"I understood: {quoted(course.last)} I know how to rename a parameter (“rename timeout to deadline”) and "
            f"how to look for a login bug. {_so_far(conversation)}"
        )
    ]


def _rename(conversation: Conversation, course: StoryCourse, old: str, new: str) -> Sequence[Piece]:
    begin = _begin(conversation, course)
    found = result_of(conversation, "search", {"word": old})
    if found is None:
        return [_says(f"{begin}I look where the word {old} stands. "), Call("search", {"word": old})]
    theirs = [path for path in found if path.startswith("vendor/")]
    wanted = _editable(course, [path for path in found if path not in theirs])
    renamed = (call.arguments for call, _ in conversation.finished("rename_in_file"))
    done = [one["path"] for one in renamed if one["old"] == old]
    left = [path for path in wanted if path not in done]
    if left:
        at = f"{len(wanted) - len(left) + 1} of {len(wanted)}"
        if len(left) == len(wanted):  # the first
            begin += (
                f"{len(wanted)} files of ours name it. What is vendored ({', '.join(theirs) or 'nothing'}) I leave. "
            )
        return [
            _says(f"{begin}{left[0]} ({at}): {old} becomes {new}. "),
            Call("rename_in_file", {"path": left[0], "old": old, "new": new}),
        ]
    tested = _tested(conversation)
    if tested is None:
        return [_says(f"{begin}All is renamed. I run the tests. "), Call("run_tests", {"suite": "api"})]
    if tested["passed"]:
        return [_says(f"{old} is {new} in {len(wanted)} files, and the tests pass: {_last_line(tested)}.")]
    return [
        _says(
            f"{old} is {new} in {len(done)} files, and the tests fail: {_last_line(tested)}. The first says: "
            f"{tested['output'].splitlines()[0]}. Each edit looked right; the whole is broken. Undo it, or tell me "
            "how to go on."
        )
    ]


def _fix(conversation: Conversation, course: StoryCourse) -> Sequence[Piece]:
    begin = _begin(conversation, course)
    tested = result_of(conversation, "run_tests", {"suite": "login"})
    if tested is None:
        return [_says(f"{begin}I reproduce the bug: I run the login tests. "), Call("run_tests", {"suite": "login"})]
    if tested["passed"]:
        return [_says(f"The login tests pass: {_last_line(tested)}. {_so_far(conversation)}")]
    listed = result_of(conversation, "list_files", {"folder": "src"})
    if listed is None:
        return [
            _says(f"{begin}They fail: {tested['output'].splitlines()[0]}. I look at what there is. "),
            Call("list_files", {"folder": "src"}),
        ]
    if course.is_changed and re.search(r"auth|session|expir|login", course.last, re.IGNORECASE):
        return _look_at_the_check(conversation, begin, listed)
    return _drift(conversation, course, begin, listed)


def _look_at_the_check(conversation: Conversation, begin: str, listed: Sequence[str]) -> Sequence[Piece]:
    """Told to stay where the bug is, it reads the check itself."""
    latest = conversation.latest
    path = next((one for one in listed if one.endswith("auth/session.py")), "")
    read = [text for call, text in latest.finished("read_file") if call.arguments["path"] == path]
    if not read or read[-1].startswith("Interrupted"):
        return [
            _says(f"{begin}I go back to authentication and read the session check. "),
            Call("read_file", {"path": path}),
        ]
    check = re.search(r"return (session\.expires_at) < (now)", read[-1])
    if check and not latest.finished("edit_file"):
        edit = {"path": path, "old": check[0], "new": f"return {check[2]} < {check[1]}"}
        return [
            _says("Here it is: a session counts as valid once it has expired. I turn the comparison round. "),
            Call("edit_file", edit),
        ]
    if _tested(latest) is None:
        return [_says("I run the login tests again. "), Call("run_tests", {"suite": "login"})]
    return [_says(f"I changed the session check and the tests still fail. {_so_far(conversation)}")]


def _drift(conversation: Conversation, course: StoryCourse, begin: str, listed: Sequence[str]) -> Sequence[Piece]:
    """Change one area after the other: in each file the first constant, in the hope that it is the one."""
    edited = {call.arguments["path"] for call, _ in conversation.finished("edit_file")}
    read = {f"{call.arguments['path']}": text for call, text in conversation.finished("read_file")}
    editable = _editable(course, [path for path in listed if "__init__" not in path])
    for area, excuse in (
        ("auth", "The login loops, so the limits of authentication may be too tight. "),
        ("pool", "The session check waits for a connection, so the pool may be too small. I look at the pool. "),
        ("orm", "Connections are held for long because rows are loaded lazily. I look at the ORM. "),
    ):
        paths = [path for path in editable if f"/{area}/" in path]
        for path in paths:
            if path not in read:
                reason = excuse if not any(other in read for other in paths) else ""
                return [_says(f"{begin}{reason}I read {path}. "), Call("read_file", {"path": path})]
            constant = _CONSTANT.search(read[path])
            if constant and path not in edited:
                new = "False" if constant[2] == "True" else f"{int(constant[2]) * 2}"
                return [
                    _says(
                        f"{begin}{constant[1]} is {constant[2]}, perhaps what the login runs into. I make it {new}. "
                    ),
                    Call("edit_file", {"path": path, "old": constant[0], "new": f"{constant[1]} = {new}"}),
                ]
        if paths and _tested(conversation, paths) is None:
            return [_says(f"{begin}I run the login tests again. "), Call("run_tests", {"suite": "login"})]
    return [_says(f"The login tests still fail after all that. {_so_far(conversation)}")]


def _begin(conversation: Conversation, course: StoryCourse) -> str:
    if conversation.latest.calls:
        return ""
    if course.explains:
        return f"My plan: {course.said[0]}, file by file, then the tests. {_so_far(conversation)} I go on. "
    return f"Understood: {quoted(course.last)} " if course.is_changed else ""


def _editable(course: StoryCourse, paths: Sequence[str]) -> list[str]:
    """Return the files that the messages allow the agent to edit. Words that name none of them restrict nothing."""
    left = list(paths)
    for text in course.said:
        leave, only = _LEAVE.search(text), _ONLY.search(text)
        if leave:
            left = [path for path in left if not _names(leave[1], path)]
        elif only and any(_names(only[1], path) for path in paths):
            left = [path for path in paths if _names(only[1], path)]
    return left


def _names(word: str, path: str) -> bool:
    return word.lower().strip("./").removesuffix("s") in path.lower()


def _tested(conversation: Conversation, paths: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the tests' result since the last edit (of these files, if given); None if they have not run since."""
    last: dict[str, Any] | None = None
    for call, result in conversation.finished("edit_file", "rename_in_file", "run_tests"):
        if call.name != "run_tests":
            last = None if not paths or call.arguments["path"] in paths else last
        elif result.startswith("{"):
            last = json.loads(result)
    return last


def _last_line(tested: Mapping[str, Any]) -> str:
    return f"{tested['output']}".strip().splitlines()[-1]


def _so_far(conversation: Conversation) -> str:
    edited = {f"{call.arguments['path']}" for call, _ in conversation.finished("edit_file", "rename_in_file")}
    areas = sorted({path.split("/")[1] if path.startswith("src/") else path.split("/")[0] for path in edited})
    return f"Files edited so far: {len(edited)}" + (f", in {', '.join(areas)}." if areas else ".")


# ---- the agent


def _item(tool: str, arguments: Mapping[str, Any]) -> str:
    if tool == "rename_in_file":
        return f"rename {arguments['old']} to {arguments['new']}"
    if tool == "run_tests":
        return REPRODUCE if arguments["suite"] == "login" else "run the tests"
    if tool in ("edit_file", "read_file"):
        parts = f"{arguments['path']}".split("/")
        return next((item for area, item in _AREAS.items() if area in parts), "")
    return ""


async def _start(run: midcourse.Run) -> midcourse.Run:
    _tree.set(await asyncio.to_thread(tree_of, run.session_id))
    return run


_agent: Final = Agent(
    model_for(script),
    name=NAME,
    deps_type=midcourse.Run,
    instructions=(
        "You work on a git repository with the tools. Use search, list_files and read_file before you edit; edit with "
        "edit_file or rename_in_file; then run_tests ('api' or 'login'). What is in vendor/ is not yours to edit. Say "
        "in a sentence what you do before each call. End with what you changed and what the tests say."
    ),
    tools=[list_files, search, read_file, edit_file, rename_in_file, run_tests],
    capabilities=[PlanFromTools(_item)],
)
agent: Final = wrap(
    _agent,
    deps=_start,
    description=DESCRIPTION,
    goals=GOALS,
    usage_limits=UsageLimits(request_limit=500),
    terms=Terms(task_class="long", policy="standard", budget=5.0),
)
