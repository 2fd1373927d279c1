#!/usr/bin/env bash
# gpu-check.sh: tests and times Keelson on this node's GPU, and ends with a table: target, measured, passed.
# It needs only bash and Python 3 (3.9 or later); gpu-check.sh --help lists its options, docs/running-on-a-cluster.md
# explains it.
set -euo pipefail

here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
python=${KEELSON_PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
  echo "gpu-check: '$python' is not there, or is older than Python 3.9; set KEELSON_PYTHON to another" >&2
  exit 2
fi
export PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
exec "$python" -m gpu_check "$@"
