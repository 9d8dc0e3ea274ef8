#!/usr/bin/env bash
# Builds the documentation site into build/site. Fails on every warning of mkdocs: broken links and
# anchors, pages missing from the navigation, public names without a place.
#
#     scripts/build_docs.sh                 # open build/site/index.html
#     scripts/build_docs.sh --if-possible   # as in CI: passes if the packages are unavailable
#     scripts/build_docs.sh --serve         # at http://127.0.0.1:8000, rebuilt on each change
#
# The packages of docs/requirements.txt are installed in .venv-docs (SPARKFLOW_DOCS_VENV), separate from
# sparkflow's environment: sparkflow is not imported, the reference is read from its source.
set -euo pipefail
cd "$(dirname "$0")/.."

venv="${SPARKFLOW_DOCS_VENV:-.venv-docs}"
python="${PYTHON:-python3}"
stamp="$venv/installed"
wanted="$(pwd) $(sha256sum docs/requirements.txt)"
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    "$python" -m venv --clear "$venv"
    if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 \
        --requirement docs/requirements.txt; then
        echo "The packages of docs/requirements.txt are not available here." >&2
        if [ "${1:-}" = --if-possible ]; then
            echo "The site was not built." >&2
            exit 0
        fi
        exit 1
    fi
    echo "$wanted" >"$stamp"
fi

export NO_MKDOCS_2_WARNING=1 # an advertisement
if [ "${1:-}" = --serve ]; then
    exec "$venv/bin/mkdocs" serve
fi
"$venv/bin/mkdocs" build --strict
