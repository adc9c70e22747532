#!/usr/bin/env bash
# Builds the console into the package: src/midcourse/console. Needs Node 20 or newer, and npm.
# With --install (as make calls it) what is missing is installed where apt-get may be used. Without it, and where that
# cannot be, one sentence says what to install.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "$1" >&2
    exit 1
}

has_node() {
    command -v node >/dev/null && command -v npm >/dev/null || return 1
    node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)'
}

if ! has_node; then
    hint="Install Node.js 20 or newer with npm, then run this again."
    root=()
    if [[ "$(id -u)" != 0 ]]; then root=(sudo -n); fi
    [[ "${1:-}" == --install ]] || fail "The console is built with Node.js, which is not here (or older than 20). $hint"
    command -v apt-get >/dev/null || fail "The console is built with Node.js, which is not here (or older than 20). $hint"
    [[ ${#root[@]} -eq 0 ]] || "${root[@]}" true 2>/dev/null || fail "The console is built with Node.js 20, which is not here, and this user may not install it. $hint"
    echo "The console is built with Node.js, which is not here: installing it with apt-get."
    export DEBIAN_FRONTEND=noninteractive
    said=$(${root[@]+"${root[@]}"} apt-get update -qq 2>&1 && ${root[@]+"${root[@]}"} apt-get install -y -qq --no-install-recommends nodejs npm 2>&1) ||
        fail "$said
apt-get could not install Node.js. $hint"
    has_node || fail "The Node.js that apt-get installs here is older than 20. $hint"
fi

echo "Building the console; this takes some seconds."
cd console
npm ci --no-audit --no-fund --loglevel=error
npm run --silent build >build.log 2>&1 || fail "The console cannot be built:
$(cat build.log)"
rm -f build.log
rm -rf ../src/midcourse/console.new
cp -R dist ../src/midcourse/console.new
rm -rf ../src/midcourse/console
mv ../src/midcourse/console.new ../src/midcourse/console
