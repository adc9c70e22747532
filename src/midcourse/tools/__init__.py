"""Ready tools for agents, safe by default, and ways to declare tools that are there already."""

from midcourse.tools.backups import Pruned, prune_backups
from midcourse.tools.database import Database, Executed, Rows, database
from midcourse.tools.declarations import declare_tools, from_mcp
from midcourse.tools.files import Deletion, Entry, FileChange, Files, Listing, files_in
from midcourse.tools.http_request import WebResponse
from midcourse.tools.observers import file, http, observer, row
from midcourse.tools.shell import Shell, ShellResult, shell_in
from midcourse.tools.web import Web, web

__all__ = [
    "Database",
    "Deletion",
    "Entry",
    "Executed",
    "FileChange",
    "Files",
    "Listing",
    "Pruned",
    "Rows",
    "Shell",
    "ShellResult",
    "Web",
    "WebResponse",
    "database",
    "declare_tools",
    "file",
    "files_in",
    "from_mcp",
    "http",
    "observer",
    "prune_backups",
    "row",
    "shell_in",
    "web",
]
