"""The groups of commands, in the order of the help; and what commands were called before, or are elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Final

EVERYDAY: Final[Sequence[str]] = (
    *("start", "ps", "show", "events", "pause", "resume", "redirect", "message", "answer", "cancel", "undo"),
)
SERVING: Final[Sequence[str]] = ("serve", "doctor")
GROUPS: Final[Mapping[str, tuple[str, str]]] = {
    "agent": ("List the agents of a server.", "List the agents that a server can start."),
    "artifact": ("List what agents made, and review it.", "List what agents made, and record that you reviewed it."),
    "audit": (
        "Show who did what, and prove it.",
        "Show every command and every change of a server's settings, for 90 days. Each entry follows from the one "
        "before: an entry that was changed or removed by hand is named, also in a file.",
    ),
    "browser": (
        "Let a browser in, or log it out.",
        "Log a browser in with a link, list the browsers, and log one out.",
    ),
    "inbox": (
        "List what people are asked; take an ask.",
        "List what people are asked over all sessions, take an ask, or hand yours over.",
    ),
    "intervention": (
        "See where policies stepped in; label it.",
        "See where policies stepped in and why, and say whether that was right.",
    ),
    "kill-switch": (
        "Halt everything in a scope at once.",
        "Halt every session in a scope at once, and each that starts there, until you lift the switch. Nothing is "
        "undone. This takes the role operate. To end one session, cancel it.",
    ),
    "policy": (
        "Read, check, compare, try and save policies.",
        "Decide when to interrupt: the built-in policies, your own files, and those saved in a store.",
    ),
    "report": (
        "Measure interruptions against their targets.",
        "Measure the effect of interruptions, and check what must hold before you use a policy.",
    ),
    "risk": (
        "Show or train the combined risk model.",
        "Estimate the chance that a run fails, from all signals together.",
    ),
    "session": (
        "See a session's signals; rate, erase or lift.",
        "Read a session's signals, rate it, erase its texts, or lift a halt.",
    ),
    "store": ("Back up, restore and compact a store.", "Look after the file that sessions are stored in."),
    "token": (
        "Decide who may use a server.",
        "Add, list and revoke the tokens of a store's server. Roles, each with all permissions of those before it: "
        "watch, steer, approve, operate.",
    ),
    "webhook": (
        "Notify other programs of asks and stops.",
        "Notify programs of asks, alarms and stops, with signed requests. Over HTTP this takes the role operate.",
    ),
}
"""Each group: its line in the list of groups, and what its help begins with. Its examples are those of its commands."""
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
"""The present places of commands of an older version."""
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
"""Other tools' names of our commands."""
