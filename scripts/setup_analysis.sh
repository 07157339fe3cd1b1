#!/usr/bin/env bash
# Build .venv-analysis at the project's root: slither and halmos, pinned. Run through `make analysis`.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
case "${1:-}" in
    -h | --help)
        echo "usage: [PYTHON=python3.11] scripts/setup_analysis.sh"
        echo "Installs requirements-analysis.txt into .venv-analysis/ (about 300 MB)."
        exit 0
        ;;
esac
[ -x .venv-analysis/bin/python ] || "$PYTHON" -m venv .venv-analysis
echo "setup: installing slither and halmos into .venv-analysis/"
.venv-analysis/bin/python -m pip --disable-pip-version-check install -q -r requirements-analysis.txt
echo "setup: done"
