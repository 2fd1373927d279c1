#!/bin/bash
# Two sockets of 32 cores a node, one rank for each. From the checkout: sbatch spack/environments/cluster/job.sh
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=32
#SBATCH --hint=nomultithread
#SBATCH --time=12:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append

module use "$SLURM_SUBMIT_DIR/spack/environments/cluster/modulefiles"
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
