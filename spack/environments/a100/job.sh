#!/bin/bash
# Four A100 and 64 cores a node, one rank for each GPU. From the checkout: sbatch spack/environments/a100/job.sh
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=4
#SBATCH --constraint=gpu
#SBATCH --hint=nomultithread
#SBATCH --time=12:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append

. "$SLURM_SUBMIT_DIR/spack/environments/slurm.sh" a100
