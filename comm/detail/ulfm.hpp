#pragma once

#include <mpi.h>

/// MPI's User-Level Failure Mitigation: calls on a communicator of which a process has died return errors, and the
/// other processes can make a communicator without it (MPI Forum, ticket 20; Bland, Bouteiller, Herault, Bosilca and
/// Dongarra, "Post-failure recovery of MPI communication capability", IJHPCA 27, 2013). Where the MPI library has no
/// ULFM, or the job was started without it, `enabled` is false and nothing else is called.
namespace keelson::comm::detail::ulfm {

/// Whether this job goes on when a process dies: Open MPI, built with ULFM, under `mpirun --with-ft ulfm`.
bool enabled();

/// Whether an MPI call returned `code` because a process has died or the communicator was revoked.
bool is_loss(int code);

/// Whether a process of the communicator is known here to have died, or the communicator was revoked.
bool knows_of_loss(MPI_Comm comm);

/// Ends the calls under way on the communicator, in all processes, with an error.
void revoke(MPI_Comm comm);

/// Lets receives from any source go on without the processes known to have died.
void acknowledge(MPI_Comm comm);

/// Starts an agreement: `flag` becomes 0 everywhere where it was 0 anywhere. It ends in all processes that are left,
/// revoked or not, with the same flag. `flag` must stay where it is.
int start_agreement(MPI_Comm comm, int* flag, MPI_Request* request);

/// A communicator of the processes that are left, in their old order. Errors are returned on it. Collective.
MPI_Comm shrink(MPI_Comm comm);

}  // namespace keelson::comm::detail::ulfm
