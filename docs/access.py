"""The page of the roles, made from the role that each address of the OpenAPI document takes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

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
    "- Nobody answers for themselves: a token that belongs to a session cannot answer what a session of its "
    "tree asks, whatever its role: `own_ask` (403).",
    "## Tokens",
    "The server's own token, `local`, has the role `operate`. It is in the file `token` beside the store, which only "
    "its owner can read, and does not expire; `--token` or `MIDCOURSE_TOKEN` gives another one instead.",
    "Others are added with `midcourse token add NAME --role ROLE`, or at `POST /api/v1/tokens`, and shown once: the "
    "store keeps a hash. Their names are what journals and the audit log say a command was by. A token expires after "
    "90 days, or what `--expires` (`lifetime`, in seconds, over HTTP) says: `12h`, `30d`, `never`. `midcourse token "
    "list` shows when. `midcourse token revoke NAME` takes one away: refused within a second, open streams end "
    "within five.",
    "With `--session SESSION` a token belongs to a session. It is for the session's own tools: it reaches that session "
    "and its children alone, and its commands are by `session:SESSION`. It neither labels what was done about the "
    "session nor rates it: an agent that judged its own alarms could have them all called wrong.",
    "With `--tenant TENANT` a token is of a tenant: it reaches that tenant's sessions and what is kept with them, and "
    "is told of another's what is told of things that are not there (404). An `operate` token of a tenant makes tokens "
    "of that tenant. Without a tenant a token is the host's, over all of them: "
    "[share a server](../how-to/share-a-server.md).",
    "Programs send `Authorization: Bearer TOKEN`.",
    "## Browsers",
    "A browser holds no token. `midcourse link` makes a **login code** and prints a link with it. The code works once, "
    "within a minute. It stands behind the `#` of the link, which browsers send to no server: no access log has it. "
    "The page sends it in the body of `POST /login`, and gets a **browser session** for it, with the name and role of "
    "the token that made the code. The login page also takes a token, pasted. If the browser belongs to another "
    "identity, the page asks before it switches.",
    "A browser session has two secrets, and takes both. The cookie is `midcourse_PORT` (behind TLS "
    "`__Host-midcourse_PORT`): HttpOnly, SameSite=Strict, and Secure behind TLS. Browsers send a host's cookies to "
    "every port of the host, so another program there may see it. The page key is in the console's `localStorage`, "
    "which no other port can read; the page sends it in the header `Midcourse-Page`. The store keeps hashes of both, "
    "and at which address they are valid.",
    "A browser session ends after seven days, when its token expires or is revoked, with *Log out* on the page *Keys "
    "and settings*, or with `midcourse browser end ID` (`DELETE /browser-sessions/ID`); `midcourse browser list` shows "
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
Table = Callable[[Iterable[str], Iterable[Iterable[str]]], str]


def parts(document: Mapping[str, Any], table: Table) -> Iterator[str]:
    """Everything below the title."""
    yield (
        "Every token has a role. Roles are a ladder: each may do what the ones before it may. "
        "[How to serve](../how-to/serve.md) tells how tokens are made, [HTTP API](http-api.md) what each address does."
    )
    yield table(("role", "for"), ((f"`{role}`", FOR[role]) for role in LADDER))
    yield "## By address"
    yield table(("address", "", *LADDER), _rows(document))
    yield from BEYOND


def _rows(document: Mapping[str, Any]) -> Iterator[list[str]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            needed = operation.get("x-role")
            may = [needed is None or includes(role, role_named(needed)) for role in LADDER]
            name = f"`{method.upper()} {path.removeprefix('/api/v1')}`"
            what = f"{operation['summary']}{'' if needed else ' (no token needed)'}"
            yield [name, what, *("yes" if one else "no" for one in may)]
