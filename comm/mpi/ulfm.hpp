#pragma once

#include <mpi.h>

/// MPI's User-Level Failure Mitigation: when a process of a communicator has died, calls on the communicator return
/// errors, and the other processes can make a communicator without the dead process (MPI Forum, ticket 20; Bland,
/// Bouteiller, Herault, Bosilca and Dongarra, "Post-failure recovery of MPI communication capability", IJHPCA 27,
/// 2013). If the MPI library has no ULFM, or the job was started without it, `enabled` is false and nothing else is
/// called.
namespace keelson::comm::detail::ulfm {

/// Whether this job goes on when a process dies: with Open MPI, built with ULFM, under `mpirun --with-ft ulfm`.
bool enabled();

/// Whether an MPI call returned `code` because a process has died or the communicator was revoked.
bool is_loss(int code);

/// Whether this process knows that a process of the communicator has died, or that the communicator was revoked.
bool knows_of_loss(MPI_Comm comm);

/// Ends all unfinished calls on the communicator, in all processes, with an error.
void revoke(MPI_Comm comm);

/// After this call, receives from any source ignore the processes that are known to have died.
void acknowledge(MPI_Comm comm);

/// Starts an agreement. It ends in all processes that are left, even if the communicator was revoked. `flag` is then
/// the same in all processes: 0 if it was 0 in any process. `flag` must not move before the end.
int start_agreement(MPI_Comm comm, int* flag, MPI_Request* request);

/// A communicator of the processes that are left, in their old order. Errors are returned on it. Collective.
MPI_Comm shrink(MPI_Comm comm);

}  // namespace keelson::comm::detail::ulfm
