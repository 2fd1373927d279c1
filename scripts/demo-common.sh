# Sourced by the demos: functions that start ranks and print messages.

# Open MPI may run as root (in a container), and ranks may share the existing cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpiexec=(mpirun)
if mpirun --version 2>/dev/null | grep -qE 'Open MPI|OpenRTE'; then
  mpiexec+=(--bind-to none --map-by :OVERSUBSCRIBE)
fi

say() { printf '\n== %s\n' "$*"; }
