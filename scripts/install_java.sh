#!/usr/bin/env bash
# Installs Java 17 from Debian's packages where Spark would find no Java. Needs root, or sudo.
set -euo pipefail
cd "$(dirname "$0")/.."

if scripts/check_java.sh 2>/dev/null; then
    exit 0
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update
"${as_root[@]}" apt-get install -y --no-install-recommends openjdk-17-jre-headless
scripts/check_java.sh
