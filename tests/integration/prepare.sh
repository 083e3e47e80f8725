#!/usr/bin/env bash
# What the integration tests need beyond `make develop`: PySpark, and Java 17 or newer for it. Fails if either cannot be had.
# Usage: prepare.sh PYTHON, from the root of the repository.
set -euo pipefail
python=$1

java_release() { # the major version of the Java that PySpark would start; 0 if there is none
  local java=java text
  if [ -n "${JAVA_HOME:-}" ]; then java=$JAVA_HOME/bin/java; fi
  text=$("$java" -version 2>&1) || { echo 0; return; }
  sed -n 's/.* version "\([0-9]*\).*/\1/p' <<<"$text" | grep -m 1 . || echo 0
}

if [ "$(java_release)" -lt 17 ]; then
  if [ -z "${JAVA_HOME:-}" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "== Installing Java"
    export DEBIAN_FRONTEND=noninteractive
    # Whether it worked is asked below.
    apt-get update -qq || true
    apt-get install -qq --yes --no-install-recommends openjdk-17-jre-headless >/dev/null ||
      apt-get install -qq --yes --no-install-recommends default-jre-headless >/dev/null || true
  fi
  if [ "$(java_release)" -lt 17 ]; then
    echo "The integration tests need Java 17 or newer, on the PATH or named by JAVA_HOME. It is not there, and cannot be" >&2
    echo "installed from here (that takes root and apt-get). Install it, for example openjdk-17-jre-headless." >&2
    exit 1
  fi
fi

echo "== Installing PySpark (some minutes, once)"
"$python" -m pip install --quiet --disable-pip-version-check -r requirements-spark.txt
