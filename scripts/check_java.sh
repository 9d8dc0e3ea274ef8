#!/usr/bin/env bash
# Ends with 0 if Spark will find a Java it can run on (17 or newer). Says what to install if not.
set -euo pipefail

java="${JAVA_HOME:+$JAVA_HOME/bin/}java"

advise() {
    echo "$1" >&2
    echo "Spark runs on Java 17. On Debian or Ubuntu, install it as root with:" >&2
    echo "    apt-get update && apt-get install -y openjdk-17-jre-headless" >&2
    exit 1
}

command -v "$java" >/dev/null || advise "There is no Java: '$java' was not found."

# The first line reads like: openjdk version "17.0.15" 2025-04-15
version="$("$java" -version 2>&1 | sed -n 's/.* version "\([^"]*\)".*/\1/p' | head -n 1)"
major="${version%%[.-]*}"
case "$major" in
    '' | *[!0-9]*) advise "'$java -version' does not say which version it is." ;;
esac
[ "$major" -ge 17 ] || advise "'$java' is version $version, which is too old."
