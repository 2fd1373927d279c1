#!/usr/bin/env bash
# insitu-redis.sh: compares inference in the simulation's process with inference through a Redis database on this machine
# (docs/in-situ.md). Needs redis-server, and keelson-insitu-redis in PATH, which is built if hiredis is installed:
#   ./dev run scripts/insitu-redis.sh
set -euo pipefail

for program in redis-server keelson-insitu-redis; do
  command -v "$program" >/dev/null || { echo "insitu-redis: $program not found: install redis-server and libhiredis-dev, and build anew" >&2 && exit 2; }
done
folder=$(mktemp -d)
redis-server --port 0 --unixsocket "$folder/socket" --save "" --appendonly no --dir "$folder" >"$folder/log" &
server=$!
trap 'kill "$server"; wait "$server" || true; rm -rf "$folder"' EXIT
until [[ -S $folder/socket ]]; do
  kill -0 "$server" || { cat "$folder/log" >&2 && exit 1; }
  sleep 0.1
done
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
for cells in ${*:-64 128 256 512}; do
  keelson-insitu-redis worker "$folder/socket" "$cells" &
  keelson-insitu-redis simulate "$folder/socket" "$cells"
  wait $!
done
