"""The build hook: a wheel and an sdist carry the console as it was built, so that installing needs no Node.

A build installs nothing on the machine. Where the console is neither built nor can be, the package comes without it.
"""

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WITHOUT = (
    "midcourse is installed without its console (the HTTP API and the command line are complete). To have the console, "
    "install Node.js 20 or newer with npm and install again, or run `make console` in a clone."
)


class ConsoleHook(BuildHookInterface[Any]):
    """Builds the console if its sources are here and it is not built."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the files are gathered. An editable installation takes the files as they are: `make console`."""
        root = Path(self.root)
        built = root / "src" / "midcourse" / "console" / "index.html"
        if version != "editable" and not built.is_file() and (root / "console" / "package.json").is_file():
            script = root / "scripts" / "console.sh"
            built_now = subprocess.run([str(script)], check=False, cwd=root, capture_output=True, text=True)
            if built_now.returncode:
                self.app.display_warning(f"{built_now.stderr.strip()}\n{WITHOUT}")
        build_data["artifacts"] = [*build_data.get("artifacts", []), "src/midcourse/console/**"]
