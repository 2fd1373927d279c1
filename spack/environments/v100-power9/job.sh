#!/bin/bash
# Six V100 and two Power9 of 21 cores each a node, one rank for each GPU, LSF. From the checkout: bsub spack/environments/v100-power9/job.sh
#BSUB -nnodes 6
#BSUB -W 12:00
#BSUB -wa USR1 -wt 5
#BSUB -Q 75
#BSUB -J keelson
#BSUB -o keelson.%J

module use "$LS_SUBCWD/spack/environments/v100-power9/modulefiles"
module load keelson

out=runs/mlperf
if compgen -G "$out/checkpoints/step-*.h5" >/dev/null; then
  arguments=(--resume --out "$out")
else
  arguments=(--recipe mlperf-64 --data prepared --out "$out")
fi
# 32 ranks, since their number must divide the recipe's 64 samples: up to 6 resource sets a node, each of 1 rank, 7 cores and
# 1 GPU. LSF signals this shell 5 minutes before the limit, and queues a job again that ends with exit code 75 (-Q).
trap 'kill -USR1 $pid' USR1
jsrun --nrs 32 --rs_per_host 6 --tasks_per_rs 1 --cpu_per_rs 7 --gpu_per_rs 1 --bind packed:7 \
  keelson-cosmoflow train "${arguments[@]}" &
pid=$!
while wait "$pid"; code=$?; ((code == 128 + 10)); do :; done  # a trap ends the wait
exit "$code"
