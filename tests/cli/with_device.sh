#!/bin/sh
# with_device.sh COMMAND...: runs it where the device that this build computes on is there; else says what is missing
# and ends with 77, which CTest counts as skipped.
why=$("$KEELSON_BIN/keelson-bench" ops eltwise src=1x8 --warmup 0 --repeats 1 2>&1) || {
  echo "$why"
  exit 77
}
exec "$@"
