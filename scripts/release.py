"""Make a release: version, changelog, fixtures, packages, and a tag. The packages are built once and tested as built.

Everything happens in a clone in a temporary folder. Only when all is well are the commit, the tag and ``dist/`` brought
back; with ``--dry-run`` only ``dist/`` is. Nothing is uploaded.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
"""Supported versions; those that are on this machine are tested."""
VERSION: Final = re.compile(r"\d+\.\d+\.\d+")


def run(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=env, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def prepare(clone: Path, version: str) -> None:
    """Write the version, the changelog, the replay fixtures and the generated docs, and commit them."""
    python = ROOT / ".venv" / "bin" / "python"
    env = {**os.environ, "PYTHONPATH": str(clone / "src")}
    path = clone / "src" / "midcourse" / "_version.py"
    path.write_text(re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', path.read_text()))
    run(python, "-m", "towncrier", "build", "--yes", "--version", version, cwd=clone)
    run(python, "-m", "tests.replay.write", version, cwd=clone, env=env)
    run(python, "docs/generate.py", cwd=clone, env=env)
    run("git", "add", "--all", cwd=clone)
    run("git", "commit", "--quiet", "--message", f"Release {version}", cwd=clone)


def build(clone: Path) -> tuple[Path, Path]:
    """Build the console, the sdist, and the wheel out of the sdist; return both packages."""
    run(clone / "scripts" / "console.sh", "--install", cwd=clone)
    run(ROOT / ".venv" / "bin" / "python", "-m", "build", "--no-isolation", "--outdir", "dist", cwd=clone)
    dist = clone / "dist"
    return next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))


def interpreters() -> dict[str, str]:
    """Return the supported Pythons of this machine, by version."""
    found: dict[str, str] = {}
    for version in PYTHONS:
        for candidate in (shutil.which(f"python{version}"), *_pyenv(version)):
            if candidate and version not in found and _answers(candidate):
                found[version] = candidate
    return found


def _answers(candidate: str) -> bool:
    return subprocess.run([candidate, "-c", "import venv, sqlite3"], check=False, capture_output=True).returncode == 0


def _pyenv(version: str) -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return sorted(map(str, root.glob(f"versions/{version}.*/bin/python")), reverse=True)


def try_package(package: Path, python: str, version: str) -> None:
    """Install a package into an empty environment without Node, and use it as a new user would."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(python, "-m", "venv", "env", cwd=place)
        inside = place / "env" / "bin"
        bare = {"PATH": f"{inside}:/usr/bin:/bin", "HOME": folder}
        tools = place / "bin"  # what a user has, without Node
        tools.mkdir()
        for name in ("sh", "env", "uname"):
            (tools / name).symlink_to(shutil.which(name) or f"/bin/{name}")
        bare["PATH"] = f"{inside}:{tools}"
        pip = (inside / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        requirements = ROOT / "requirements" / "demo.txt"
        run(*pip, "--require-hashes", "--requirement", requirements, cwd=place, env={**os.environ, **bare})
        if package.suffix != ".whl":
            run(*pip, "hatchling", "editables", cwd=place, env={**os.environ, **bare})
        run(*pip, "--no-deps", "--no-build-isolation", package, cwd=place, env={**os.environ, **bare})
        said = run(inside / "midcourse", "--version", cwd=place, env=bare).strip()
        if said != f"midcourse {version}":
            raise SystemExit(f"{package.name} says '{said}'")
        for example in ("01_first_session.py", "05_kill_and_recover.py"):
            run(inside / "python", ROOT / "examples" / example, cwd=place, env=bare)
        check = (
            "from importlib.resources import files; assert files('midcourse').joinpath('console/index.html').is_file()"
        )
        run(inside / "python", "-c", check, cwd=place, env=bare)


def main() -> None:
    """Make the release that ``--version`` names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", required=True, help="such as 0.2.0")
    parser.add_argument("--dry-run", action="store_true", help="do all of it but the commit and the tag")
    options = parser.parse_args()
    version = str(options.version)
    if not VERSION.fullmatch(version):
        raise SystemExit(f"'{version}' is not a version. Use three numbers: VERSION=0.2.0")
    if run("git", "status", "--porcelain", cwd=ROOT).strip():
        raise SystemExit("There are changes that are not committed. Commit them, or put them aside.")
    if run("git", "tag", "--list", f"v{version}", cwd=ROOT).strip():
        raise SystemExit(f"There is a tag v{version} already. Choose the next version.")
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "midcourse")
        run("git", "clone", "--quiet", ROOT, clone, cwd=ROOT)
        for name in ("user.name", "user.email"):
            value = subprocess.run(["git", "config", name], cwd=ROOT, check=False, capture_output=True, text=True)
            run("git", "config", name, value.stdout.strip() or "release", cwd=clone)
        print("release: writing version, changelog, fixtures and docs", flush=True)
        prepare(clone, version)
        print("release: building", flush=True)
        wheel, sdist = build(clone)
        found = interpreters()
        for name, python in found.items():
            print(f"release: trying {wheel.name} on Python {name}", flush=True)
            try_package(wheel, python, version)
        print(f"release: trying {sdist.name} on Python {next(iter(found))}", flush=True)
        try_package(sdist, next(iter(found.values())), version)
        dist = ROOT / "dist"
        dist.mkdir(exist_ok=True)
        for package in (wheel, sdist):
            shutil.copy(package, dist)
        missing = ", ".join(sorted(set(PYTHONS) - set(found))) or "none"
        print(f"release: {wheel.name} and {sdist.name} are in dist/; Pythons not tried: {missing}")
        if not options.dry_run:
            run("git", "fetch", "--quiet", clone, "HEAD", cwd=ROOT)
            run("git", "merge", "--quiet", "--ff-only", "FETCH_HEAD", cwd=ROOT)
            run("git", "tag", "--annotate", f"v{version}", "--message", f"Release {version}", cwd=ROOT)
            print(f"release: tagged v{version}")


if __name__ == "__main__":
    sys.exit(main())
