#!/bin/sh
# PostgreSQL for the integration tests: Debian's, installed as root where there is none. The tests start a cluster of
# their own, in a temporary folder, and stop it.
set -e
if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1; then
  exit 0
fi
if [ "$(id -u)" != 0 ]; then
  echo "PostgreSQL is missing: install the package postgresql, or run this as root."
  exit 1
fi
echo "== Installing PostgreSQL"
apt-get update -qq
# Without the cluster that the package would start.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null
