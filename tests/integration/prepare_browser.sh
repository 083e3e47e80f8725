#!/usr/bin/env bash
# What the browser tests need beyond `make develop`: Chromium from the distribution, Playwright to drive it, which downloads
# no browser of its own, and what builds the documentation. Fails if one of them cannot be had. Usage: prepare_browser.sh PYTHON, from the root.
set -euo pipefail
python=$1

found() { # the browser that the tests would start; no name of a browser, or command -v would find the function
  if [ -n "${RECOUP_CHROMIUM:-}" ]; then echo "$RECOUP_CHROMIUM"; return; fi
  command -v chromium || command -v chromium-browser || command -v google-chrome || true
}

if [ -z "$(found)" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "== Installing Chromium"
  export DEBIAN_FRONTEND=noninteractive
  # Whether it worked is asked below.
  apt-get update -qq || true
  apt-get install -qq --yes --no-install-recommends chromium fonts-dejavu-core >/dev/null || true
fi
if [ -z "$(found)" ]; then
  echo "The browser tests need Chromium, on the PATH or named by RECOUP_CHROMIUM. It is not there, and cannot be" >&2
  echo "installed from here (that takes root and apt-get). Install it, for example the Debian package chromium." >&2
  exit 1
fi

echo "== Installing Playwright and MkDocs"
"$python" -m pip install --quiet --disable-pip-version-check -r requirements-browser.txt -r requirements-docs.txt
