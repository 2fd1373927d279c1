#!/bin/bash
# One rank for each socket of this machine. From the checkout: spack/environments/laptop/job.sh
set -euo pipefail
. /etc/profile  # what defines the command module, where a script has not inherited the command
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
module use "$here/modulefiles"
module load keelson

keelson-cosmoflow generate --out data --size 32 --particles 1 --train 1000 --validation 128 --test 128
mpirun --map-by socket keelson-cosmoflow train --recipe demo --data data --out runs/small
keelson-cosmoflow evaluate --checkpoint runs/small --data data
