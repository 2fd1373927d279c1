#!/bin/bash
# slurm.sh ENVIRONMENT: what the job scripts of the environments do after their #SBATCH lines: train on MLPerf's samples in
# `prepared`, go on from the last checkpoint where there is one, and queue the job again when it ends in time.
module use "$SLURM_SUBMIT_DIR/spack/environments/$1/modulefiles"
module load keelson

trap : USR1  # scancel --full signals this shell, too
out=runs/mlperf
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
if compgen -G "$out/checkpoints/step-*.h5" >/dev/null; then
  arguments=(--resume --out "$out")
else
  arguments=(--recipe mlperf-64 --data prepared --out "$out")
fi
srun --mpi=pmix --cpu-bind=cores --kill-on-bad-exit=1 keelson-cosmoflow train "${arguments[@]}"
code=$?
if [[ $code == 75 ]]; then scontrol requeue "$SLURM_JOB_ID"; fi  # stopped in time, with a checkpoint
exit "$code"
