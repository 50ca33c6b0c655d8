#!/bin/sh
# Makes .venv hold what a lock file names, and the project itself in editable form.
#
#   scripts/environment.sh run     what the server needs
#   scripts/environment.sh test    that, and what tests and linters need
#   scripts/environment.sh peer    an environment of its own with the older MCP SDK, which some tests use as a peer
#
# Does nothing and asks no network when .venv already fits. The stamp is written last, so an interrupted run starts over.
set -eu

CDPATH='' cd -- "$(dirname -- "$0")/.."
here=$(pwd)
venv=.venv
project=yes
oldest='3.11'

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "error: $*"
    exit 1
}

runs_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# A command that is on the PATH may still be a shim without a program behind it: only its answer counts.
has_uv() { uv --version >/dev/null 2>&1; }

# An environment that was moved, was left half made, or lost its interpreter is of no use.
is_usable() {
    [ "$(cat "$venv/.place" 2>/dev/null)" = "$here" ] || return 1
    runs_python "$python" || return 1
    has_uv || "$python" -m pip --version >/dev/null 2>&1
}

create_with_venv() {
    unfit=''
    for candidate in python3.13 python3.12 python3.11 python3.14 python3 python; do
        runs_python "$candidate" || continue
        if "$candidate" -c 'import venv; from ensurepip import version' >/dev/null 2>&1; then
            "$candidate" -m venv "$venv"
            return
        fi
        unfit=${unfit:-$candidate}
    done
    if [ -n "$unfit" ]; then
        fail "$unfit cannot make an environment, its venv module is missing." \
            "On Debian and Ubuntu: apt-get install $unfit-venv"
    fi
    fail "no Python $oldest or newer was found. Install one, or install uv, and run the command again."
}

create() {
    rm -rf "$venv"
    if has_uv; then
        if uv venv --quiet --python ">=$oldest" "$venv"; then
            return
        fi
        say "uv could not make an environment; trying python -m venv."
        rm -rf "$venv"
    fi
    create_with_venv
}

# Compiled here, as pip does by itself: else each first call of a tool that imports much takes seconds, and every call
# where Python may not write bytecode.
install_with_uv() {
    uv pip install --quiet --compile-bytecode --python "$python" --require-hashes -r "$lock"
    [ -z "$project" ] || uv pip install --quiet --python "$python" --no-deps --no-build-isolation --editable .
}

install_with_pip() {
    "$python" -m pip install --quiet --disable-pip-version-check --use-pep517 --require-hashes -r "$lock"
    [ -z "$project" ] ||
        "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
}

case ${1-} in
    run | test) wanted=$1 ;;
    peer)
        wanted=$1
        venv=tests/external/.peer
        project=''
        ;;
    *) fail "usage: scripts/environment.sh run|test|peer" ;;
esac
python=$venv/bin/python
lock=requirements/$wanted.lock
stamp=$venv/.installed
sum=$(cat pyproject.toml requirements/*.lock scripts/environment.sh | cksum)

# What tests need includes what the server needs.
fitting="test $sum"
if is_usable; then
    installed=$(cat "$stamp" 2>/dev/null || true)
    if [ "$installed" = "$wanted $sum" ] || [ "$installed" = "$fitting" ]; then
        exit 0
    fi
else
    say "Making the Python environment in $venv ..."
    create
    printf '%s\n' "$here" >"$venv/.place"
fi

rm -f "$stamp"
if has_uv; then
    say "Installing $lock with uv ..."
    install_with_uv
else
    say "Installing $lock with pip; the first time takes a minute or two ..."
    install_with_pip
fi

# Python reads this file in the encoding of the locale: a path with letters beyond ASCII would keep it from starting under
# LC_ALL=C. Relative to site-packages it has none.
for link in "$venv"/lib/python3.*/site-packages/_vcp_server.pth; do
    [ ! -f "$link" ] || printf '%s\n' ../../../.. >"$link"
done

printf '%s\n' "$wanted $sum" >"$stamp.new"
mv "$stamp.new" "$stamp"
