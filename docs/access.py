"""The page of roles and agents, made from the OpenAPI document and the list of what an agent may do."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from midcourse.core import commands as cmd
from midcourse.core.agent_rights import BEYOND as NO_COMMANDS
from midcourse.core.agent_rights import RIGHTS
from midcourse.server.roles import LADDER, includes, role_named

FOR: Final = {
    "watch": "looking: lists, sessions, events, receipts, previews",
    "steer": "starting and steering sessions, and answering what is not an approval",
    "approve": "also approving: answers to asks with the reason `need_approval`",
    "operate": "also the audit log, the tokens, saving policies, and what the kill switch has halted",
}
BEYOND: Final = (
    "## What an address does not tell",
    "The core decides these when it decides the command, so they hold for every way in, and for every process:",
    "- An answer to an ask with the reason `need_approval` takes the role `approve`: `approver_only` (403) otherwise.\n"
    "- Lifting what the kill switch has halted, and cancelling it, takes `operate`: `operator_only` (403) otherwise.\n"
    "- An agent may do what is on the list below, and nothing else: `not_for_agents` (403), or `own_ask` (403) if an "
    "ask would be answered or closed that waits for a person.",
    "## Tokens",
    "The server's own token, `local`, has the role `operate`. It is in the file `token` beside the store, which only "
    "its owner can read, and does not expire; `--token` or `MIDCOURSE_TOKEN` gives another one instead.",
    "Others are added with `midcourse token add NAME --role ROLE`, or at `POST /api/v1/tokens`, and shown once: the "
    "store keeps a hash. Their names are what journals and the audit log say a command was by. A token expires after "
    "90 days, or what `--expires` (`lifetime`, in seconds, over HTTP) says: `12h`, `30d`, `never`. `midcourse token "
    "list` shows when. `midcourse token revoke NAME` takes one away: refused within a second, open streams end "
    "within five.",
    "With `--session SESSION` a token is an agent's: it is for the tools of that session. Its role is `agent`, "
    "whatever `--role` says; it reaches that session and its children alone. Its commands are by `session:SESSION`.",
    "With `--only SESSION` a token is a person's and has its role for that session alone, for a handle in a page.",
    "With `--tenant TENANT` a token is of a tenant: it reaches that tenant's sessions and what is kept with them, and "
    "is told of another's what is told of things that are not there (404). An `operate` token of a tenant makes tokens "
    "of that tenant. Without a tenant a token is the host's, over all of them: "
    "[share a server](../how-to/share-a-server.md).",
    "Programs send `Authorization: Bearer TOKEN`.",
    "## Browsers",
    "A browser holds no token. `midcourse browser link` makes a **login code** and prints a link with it. "
    "The code works once, "
    "within a minute. It stands behind the `#` of the link, which browsers send to no server: no access log has it. "
    "The page sends it in the body of `POST /login`, and gets a **browser session** for it, with the name and role of "
    "the token that made the code. The login page also takes a token, pasted. If the browser is logged in "
    "with another identity, the page asks before it switches. A session that has ended asks nothing.",
    "A browser session has two secrets, and takes both. The cookie is `midcourse_PORT` (behind TLS "
    "`__Host-midcourse_PORT`; below a root path, such as `/agents`, with `_agents` at its end): HttpOnly, "
    "SameSite=Strict, and Secure behind TLS. Its path is `/`. Browsers send a host's cookies to "
    "every port of the host, so another program there may see it. The page key is in the console's `localStorage`, "
    "which no other port can read; the page sends it in the header `Midcourse-Page`. The store keeps hashes of both, "
    "and at which address they are valid.",
    "A browser session ends after seven days, when its token expires or is revoked, with *Log out* on the page "
    "*Settings*, or with `midcourse browser end ID` (`DELETE /browser-sessions/ID`); `midcourse browser list` shows "
    "them. Its streams end at once, those at other processes within five seconds, and the page says so.",
    "## Where requests come from",
    "| | checked | otherwise |\n"
    "| --- | --- | --- |\n"
    "| Host | loopback, the address it listens on, and what `--allow-host` adds | `host_not_allowed` (421) |\n"
    "| Origin, of what changes something | the server's own pages, and the sites that `--allow-origin` adds | "
    "`origin_not_allowed` (403) |\n"
    "| CORS | off; on for the sites that `--allow-origin` adds | the browser keeps the answer from the page |",
    "A request with neither a token nor a browser session, or with one that is not valid, gets "
    "`unauthorized` (401); one whose role is too low gets `forbidden` (403), which says the role it takes.",
)
AGENTS: Final = (
    "When a person pauses what an agent has paused, the pause is the person's from then on. A parent's agent does to a "
    "child what the list says, and lifts what the child's own agent has stopped. It does not lift a person's pause of "
    "a child; and where it has paused itself, a child that a person has paused stays paused when it goes on.",
    "In a program that has the store open, what an agent's code sends through any handle of Midcourse is sent as the "
    "agent, whatever `by=` says. Through `midcourse.connect` and the command line, what changes something carries the "
    "header `Midcourse-Agent`, and the server treats it as the agent's, whatever the token may do. Tools that run in a "
    "process of their own, and what the shell tool runs, know by `MIDCOURSE_AGENT` whose they are. A store that does "
    "not have the session is not concerned: an agent may keep a store of its own.",
    "**What this cannot prevent**: code that reads the database file, the file `token` or a person's token and sends "
    "requests by other means than Midcourse's own; code that takes the mark away (in a thread or a "
    "process that it starts by hand); code that calls what is not public. Agents whose code you do not trust "
    "run where they cannot read these: as another user, or on another machine, with their own token.",
)
Table = Callable[[Iterable[str], Iterable[Iterable[str]]], str]


def parts(document: Mapping[str, Any], table: Table) -> Iterator[str]:
    """Everything below the title."""
    yield (
        "Every token has a role. Roles are a ladder: each may do what the ones before it may. "
        "[How to serve](../how-to/serve.md) tells how tokens are made, [HTTP API](http-api.md) what each address does."
    )
    yield table(("role", "for"), ((f"`{role}`", FOR[role]) for role in LADDER))
    yield "## By address"
    yield (
        "Under *agent*: `own` is for its own session and its children alone, and `list` the same, for what is on "
        "[its list](#what-an-agent-may-do)."
    )
    yield table(("address", "", *LADDER, "agent"), _rows(document))
    yield from BEYOND[:3]
    yield "## What an agent may do"
    yield (
        "Whatever acts for an agent is one sender: its code, its tools, the processes that its tools run in, the "
        "commands of the shell tool, and a token that was made with `--session`. It stands on no rung of the ladder. "
        "It may stop and say something; it never changes what somebody else has said or stopped."
    )
    yield table(("command", "to itself", "to a child", ""), _rights())
    yield "It does not, and that is no command to a session:"
    yield "\n".join(f"- {one}," for one in NO_COMMANDS)[:-1] + "."
    yield from AGENTS
    yield from BEYOND[3:]


def _rows(document: Mapping[str, Any]) -> Iterator[list[str]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            needed = operation.get("x-role")
            may = [needed is None or includes(role, role_named(needed)) for role in LADDER]
            agent = _agents(method, operation)
            name = f"`{method.upper()} {path.removeprefix('/api/v1')}`"
            what = f"{operation['summary']}{'' if needed else ' (no token needed)'}"
            yield [name, what, *("yes" if one else "no" for one in may), agent]


def _agents(method: str, operation: Mapping[str, Any]) -> str:
    if operation["x-role"] is None or not operation["x-agent"]:
        return "no" if operation["x-role"] else "yes"
    return "own" if method == "get" else "list"


def _rights() -> Iterator[list[str]]:
    for kind, right in RIGHTS.items():
        yield [f"`{cmd.verb(kind)}`", *("yes" if one else "no" for one in (right.itself, right.child)), right.words]
