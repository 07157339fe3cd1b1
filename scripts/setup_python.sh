#!/usr/bin/env bash
# Build .venv at the project's root with pinned versions. Run through `make setup`.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { echo "setup: Python >= 3.11 is needed, $PYTHON is $("$PYTHON" -V 2>&1). Set PYTHON=/path/to/python3.11" >&2; exit 1; }
[ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
echo "setup: installing torch (CPU is enough), transformers, web3 and the development tools into .venv/"
pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }
# torch first and pinned: a resolver that is free to choose takes a build of several gigabytes.
pip install -q -c constraints.txt torch
pip install -q -c constraints.txt -e '.[worker,sim]' \
    grpcio-tools hypothesis matplotlib mypy pytest ruff types-protobuf
echo "setup: done"
