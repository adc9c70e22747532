#!/usr/bin/env bash
# Makes sure that the programs which the tests run are there: curl, and Chromium or Google Chrome.
# What is missing is installed where apt-get may be used; otherwise one sentence says what to install.
set -euo pipefail

fail() {
    echo "$1" >&2
    exit 1
}

# tests/browser/chromium.py looks in the same places.
has_browser() {
    if [[ -n "${CHROMIUM:-}" ]]; then
        [[ -x "$CHROMIUM" ]] || fail "CHROMIUM is '$CHROMIUM', which is no program: name the browser's program, or unset it."
        return 0
    fi
    local one
    for one in chromium chromium-browser google-chrome google-chrome-stable; do
        if command -v "$one" >/dev/null; then return 0; fi
    done
    for one in "Chromium" "Google Chrome"; do
        if [[ -x "/Applications/$one.app/Contents/MacOS/$one" ]]; then return 0; fi
    done
    return 1
}

look() {
    missing=()
    if ! command -v curl >/dev/null; then missing+=(curl); fi
    if ! has_browser; then missing+=(chromium); fi
}

look
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi
names="${missing[*]}"

if [[ "$(uname -s)" == Darwin ]]; then
    fail "The tests need what is not here (${names/ / and }): brew install curl; brew install --cask chromium (Google Chrome does as well)."
fi

root=()
if [[ "$(id -u)" != 0 ]]; then root=(sudo -n env DEBIAN_FRONTEND=noninteractive); fi
may_install() {
    command -v apt-get >/dev/null || return 1
    [[ ${#root[@]} -eq 0 ]] || "${root[@]}" true 2>/dev/null
}
hint="Install ${names/ / and } (on Debian: sudo apt-get install --no-install-recommends $names), or set CHROMIUM to the program of a Chromium or Google Chrome."
may_install || fail "The tests need what is not here (${names/ / and }), and this user may not install it. $hint"

echo "The tests need what is not here (${names/ / and }): installing it with apt-get."
export DEBIAN_FRONTEND=noninteractive
install() {
    ${root[@]+"${root[@]}"} apt-get update -qq &&
        ${root[@]+"${root[@]}"} apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}"
}
said=$(install 2>&1) || fail "$said
apt-get could not install what the tests need (${names/ / and }). $hint"
look
[[ ${#missing[@]} -eq 0 ]] || fail "apt-get ended well, and ${missing[*]} is still not found. $hint"
