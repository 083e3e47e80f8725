#!/usr/bin/env bash
# What the browser tests need beyond `make develop`: Chromium from the distribution, poppler to look at what it prints,
# Playwright to drive it, which downloads no browser of its own, axe-core from npm, which knows the rules of
# accessibility, and what builds the documentation. Fails if one cannot be had. Usage: prepare_browser.sh PYTHON, from the root.
set -euo pipefail
python=$1

found() { # the browser that the tests would start; no name of a browser, or command -v would find the function
  if [ -n "${RECOUP_CHROMIUM:-}" ]; then echo "$RECOUP_CHROMIUM"; return; fi
  command -v chromium || command -v chromium-browser || command -v google-chrome || true
}

missing() { # what is not there, as packages: one that is there under another name, such as a newer npm, may conflict with Debian's
  [ -n "$(found)" ] || echo chromium fonts-dejavu-core
  command -v pdftoppm >/dev/null || echo poppler-utils
  command -v npm >/dev/null || echo npm
}
if [ -n "$(missing)" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "== Installing" $(missing)
  export DEBIAN_FRONTEND=noninteractive
  # Whether it worked is asked below.
  apt-get update -qq || true
  apt-get install -qq --yes --no-install-recommends $(missing) >/dev/null || true
fi
if [ -n "$(missing)" ]; then
  echo "The browser tests need Chromium, on the PATH or named by RECOUP_CHROMIUM, pdftoppm of poppler, and npm. One is" >&2
  echo "not there, and cannot be installed from here (that takes root and apt-get). Install them, for example the" >&2
  echo "Debian packages chromium, poppler-utils and npm." >&2
  exit 1
fi

echo "== Installing Playwright and MkDocs"
"$python" -m pip install --quiet --disable-pip-version-check -r requirements-browser.txt -r requirements-docs.txt

axe=build/axe-4.14.0
if [ ! -f $axe/axe.min.js ]; then
  echo "== Fetching axe-core"
  mkdir -p $axe
  npm pack --silent --pack-destination $axe axe-core@4.14.0 >/dev/null
  tar -xzf $axe/axe-core-4.14.0.tgz -C $axe --strip-components=1 package/axe.min.js
  echo "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878  $axe/axe.min.js" | sha256sum --check --quiet || { rm $axe/axe.min.js; exit 1; }
fi
