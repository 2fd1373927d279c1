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

. "$SLURM_SUBMIT_DIR/spack/environments/slurm.sh" cluster
