"""The groups of commands, in the order of the help; and what commands were called before, or are elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Final

EVERYDAY: Final[Sequence[str]] = (
    *("start", "ps", "show", "events", "pause", "resume", "redirect", "message", "answer", "cancel", "undo"),
)
SERVING: Final[Sequence[str]] = ("serve", "doctor")
GROUPS: Final[Mapping[str, tuple[str, str]]] = {
    "agent": (
        "List the agents of a server.",
        """List the agents that a server can start.

        \b
        Examples:
          midcourse agent list
          midcourse agent list --url http://127.0.0.1:8420
        """,
    ),
    "artifact": (
        "List what agents made, and review it.",
        """List what agents made, and record that you reviewed it.

        \b
        Examples:
          midcourse artifact list --due
          midcourse artifact reviewed sess_0198f2 report.md --says "May figures"
        """,
    ),
    "audit": (
        "Show who did what, and prove it.",
        """Show who did what: every command, and every change of the server's own settings, for 90 days.

        Each entry follows from the one before: an entry that was changed or removed by hand is named, also in a file.

        \b
        Examples:
          midcourse audit list -n 20
          midcourse audit export audit.jsonl
          midcourse audit verify audit.jsonl
        """,
    ),
    "browser": (
        "Let a browser in, or log it out.",
        """Print a link that logs a browser in, list the browsers that are logged in, and log one out.

        \b
        Examples:
          midcourse browser link
          midcourse browser list
          midcourse browser end 3f6c1f0b9d2a4e58
        """,
    ),
    "inbox": (
        "List what people are asked; take an ask.",
        """List what people are asked over all sessions, take an ask, or hand yours over.

        \b
        Examples:
          midcourse inbox list
          midcourse inbox take sess_0198f2
          midcourse inbox hand-over bob --for 1h
        """,
    ),
    "intervention": (
        "See where policies stepped in; label it.",
        """See where policies stepped in and why, and say whether that was right.

        \b
        Examples:
          midcourse intervention list --label none --hours 24
          midcourse intervention label sess_0198f2 int_3 right
          midcourse intervention alarms
        """,
    ),
    "kill-switch": (
        "Halt everything in a scope at once.",
        """Halt every session in a scope at once, and each that starts there, until the switch is lifted.

        Nothing is undone, and lifting resumes nothing by itself. This takes the role operate. To end one session,
        cancel it.

        \b
        Examples:
          midcourse kill-switch throw --agent mailer --reason "wrong recipients"
          midcourse kill-switch list
          midcourse kill-switch lift ks_1a1e19 --why "the list was corrected"
          midcourse kill-switch release ks_1a1e19
        """,
    ),
    "policy": (
        "Read, check, compare, try and save policies.",
        """Decide when to interrupt: the built-in policies, your own files, and those saved in a store.

        \b
        Examples:
          midcourse policy list
          midcourse policy check careful.yaml
          midcourse policy backtest --policy careful.yaml runs/
          midcourse policy save careful.yaml --why "it may send mail"
          midcourse policy review
        """,
    ),
    "report": (
        "Measure interruptions against their targets.",
        """Measure what interruptions came to, and check what must hold before a policy goes live.

        \b
        Examples:
          midcourse report show --since 90d
          midcourse report checklist --policy careful
        """,
    ),
    "risk": (
        "Show or train the combined risk model.",
        """Estimate the chance that a run fails, from all signals together.

        \b
        Examples:
          midcourse risk show
          midcourse risk train runs.jsonl.gz -o my-risk.json
        """,
    ),
    "session": (
        "See a session's signals; rate, erase or lift.",
        """Do to a session what is not needed every day.

        \b
        Examples:
          midcourse session signals sess_0198f2
          midcourse session rate sess_0198f2 5
          midcourse session erase sess_0198f2 --reason "asked for by the customer"
          midcourse session lift --restored
        """,
    ),
    "store": (
        "Back up, restore and compact a store.",
        """Look after the file that sessions are stored in.

        \b
        Examples:
          midcourse store backup runs-2026-07-01.db
          midcourse store restore runs-2026-07-01.db --into restored/
          midcourse store compact
        """,
    ),
    "token": (
        "Decide who may use a server.",
        """Add, list and revoke the tokens of a store's server.

        Roles, each with all permissions of those before it: watch, steer, approve, operate.

        \b
        Examples:
          midcourse token add ada --role approve
          midcourse token list
          midcourse token revoke ada
        """,
    ),
    "webhook": (
        "Notify other programs of asks and stops.",
        """Notify other programs of asks, alarms and stops, with signed requests. Over HTTP this takes the role operate.

        \b
        Examples:
          midcourse webhook add https://pager.example.com/midcourse
          midcourse webhook test wh_1a2b3c
          midcourse webhook deliveries wh_1a2b3c
        """,
    ),
}

MOVED: Final[Mapping[str, str]] = {
    "agents": "agent list",
    "alarms": "intervention alarms",
    "artifacts": "artifact list",
    "backtest": "policy backtest",
    "backup": "store backup",
    "checklist": "report checklist",
    "compact": "store compact",
    "erase": "session erase",
    "interventions": "intervention list",
    "label": "intervention label",
    "lift": "session lift",
    "link": "browser link",
    "rate": "session rate",
    "restore": "store restore",
    "review": "policy review",
    "review accept": "policy accept",
    "review refuse": "policy refuse",
    "signals": "session signals",
}
"""Where a command of an older version is now."""
SIMILAR: Final[Mapping[str, str]] = {
    "run": "start",
    "list": "ps",
    "ls": "ps",
    "log": "events",
    "logs": "events",
    "tail": "events",
    "watch": "events",
    "stop": "pause",
    "kill": "cancel",
    "status": "show",
}
"""What others call a command of ours."""
