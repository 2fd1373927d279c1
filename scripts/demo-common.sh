# Sourced by the demos: how they start ranks and speak.

# Root in a container is no stranger to Open MPI here, and the ranks may share whatever cores there are.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpiexec=(mpirun)
if mpirun --version 2>/dev/null | grep -qE 'Open MPI|OpenRTE'; then
  mpiexec+=(--bind-to none --map-by :OVERSUBSCRIBE)
fi

say() { printf '\n== %s\n' "$*"; }
