#!/usr/bin/env bash
# docs.sh [STUBS]: makes the site of guides and API in build/docs/html, with Doxygen. STUBS: the folder of the built
# Python package; without it, the package's page is empty.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

command -v doxygen >/dev/null || { echo "docs needs doxygen, which is not installed here" >&2 && exit 1; }
mkdir -p build/docs
python3 scripts/python-api.py "$@" >build/docs/python-api.md
doxygen -l build/docs/layout.default
sed -e '/<navindex>/,/<\/navindex>/{/<\/navindex>/r docs/navigation.xml' -e 'd}' build/docs/layout.default >build/docs/layout.xml
{ doxygen docs/Doxyfile && python3 scripts/docs-links.py build/docs/html; } || { echo "the site has the faults above" >&2 && exit 1; }
echo "The site: $PWD/build/docs/html/index.html"
