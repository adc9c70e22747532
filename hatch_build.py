"""The build hook: a wheel and an sdist carry the console as it was built, so that installing needs no Node."""

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleHook(BuildHookInterface[Any]):
    """Builds the console if its sources are here and it is not built."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the files are gathered. An editable installation takes the files as they are: `make console`."""
        root = Path(self.root)
        built = root / "src" / "midcourse" / "console" / "index.html"
        if version != "editable" and not built.is_file() and (root / "console" / "package.json").is_file():
            subprocess.run([str(root / "scripts" / "console.sh")], check=True, cwd=root)
        build_data["artifacts"] = [*build_data.get("artifacts", []), "src/midcourse/console/**"]
