#!/usr/bin/env bash
# Follows the README in a fresh clone, as a new user: an example and some tests, by one command each, in a
# folder with a space in its name, without Java and, if run by root, without root's privileges; then
# again without a network. Takes ten minutes and 3 GB. Run nightly or before a release.
#
#     scripts/check_fresh_clone.sh [COMMIT]     HEAD if not given; uncommitted changes are ignored
#
# PYTHON names the interpreter, which the user nobody must be able to run; by default, python3 of PATH or
# of /usr/bin.
set -euo pipefail
cd "$(dirname "$0")/.."

commit="$(git rev-parse "${1:-HEAD}")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
clone="$work/a fresh clone"
git clone --quiet --no-hardlinks . "$clone"
git -C "$clone" checkout --quiet "$commit"

# All programs except java, and no environment variables.
mkdir "$work/bin" "$work/home"
for folder in /usr/local/bin /usr/bin /bin; do
    for program in "$folder"/*; do
        case "${program##*/}" in java | javac | jps) ;; *) ln -sf "$program" "$work/bin/" ;; esac
    done
done

as_user=()
if [ "$(id -u)" -eq 0 ]; then
    chmod 755 "$work"
    chown -R nobody "$clone" "$work/home"
    as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
fi

# Others cannot run an interpreter in root's home, such as pyenv's.
python=""
candidates=(python3 /usr/bin/python3)
[ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
for each in "${candidates[@]}"; do
    found="$("$each" -c 'import sys; print(sys.executable)' 2>/dev/null)" || continue
    if "${as_user[@]}" env "$found" -c "" 2>/dev/null; then # setpriv itself may still have access
        python="$found"
        break
    fi
done
[ -n "$python" ] || {
    echo "None of ${candidates[*]} is a Python that the clone's user can run: set PYTHON to one that is" >&2
    exit 2
}
ln -sf "$python" "$work/bin/python3"

run() { # run WITHOUT_NETWORK COMMAND...
    local wrap=()
    if [ "$1" = offline ]; then
        if unshare --net true 2>/dev/null; then
            wrap=(unshare --net sh -c 'ip link set lo up && exec "$@"' sh)
        else
            wrap=(unshare --map-root-user --net sh -c 'ip link set lo up && exec "$@"' sh)
        fi
    fi
    shift
    printf '\n==== %s %s\n' "${wrap[0]:-}" "$*"
    (cd "$clone" && "${wrap[@]}" "${as_user[@]}" env -i PATH="$work/bin" HOME="$work/home" LANG=C.UTF-8 \
        ${PIP_CERT:+PIP_CERT="$PIP_CERT"} "$@")
}

tests=(tests/sparkflow/spark/test_interpreter.py tests/sparkflow/export)
run online scripts/run_example flight_delays
SPARKFLOW_VENV="$clone/.venv" scripts/check_main_job.sh "$clone/examples/output/flight_delays.json"
run online scripts/run_tests -x "${tests[@]}"
run offline scripts/run_example digits
run offline scripts/run_tests -x "${tests[@]}"
[ -x "$clone/.venv/java/bin/java" ] || {
    echo "No Java was installed: the command found one that should have been hidden" >&2
    exit 1
}
printf '\nA fresh clone works.\n'
