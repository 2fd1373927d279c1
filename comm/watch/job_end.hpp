#pragma once

#include <mpi.h>

#include <string_view>

/// How the ranks of a job end together when one of them cannot go on.
namespace keelson::comm::detail {

/// From now on ranks notify each other of failures over `control`; MPI_COMM_NULL: no longer. `grace`: KEELSON_GRACE, in
/// seconds.
void use_control(MPI_Comm control, double grace);

/// Notifies the other ranks that this rank ends with this exit code. The launcher alone may take long to end them:
/// SIGTERM by srun asks them for a checkpoint after the step, while they wait in a collective call for this rank.
void notify_failure(int exit_code);

/// Called again and again by a rank that waits for others, `seconds` after the wait for `label` began. Ends this
/// process without a message, with the exit code of another rank, if that rank has sent notice of its failure. Ends the
/// job with exit code 1 and a message if the wait has lasted for five times the grace since a signal asked this process
/// to end: a killed rank sends no notice. The latter is not done in a wait `for_first_rank`, which may be writing a
/// checkpoint.
void end_if_over(std::string_view label, double seconds, bool for_first_rank);

/// Ends all processes of the job. Does not use MPI where the launcher ends them by itself.
[[noreturn]] void end_job(int exit_code);

/// The same without any call of MPI, for a thread beside a thread that is in such a call.
[[noreturn]] void end_without_mpi(int exit_code);

/// Set when an exception has left a collective call unfinished. MPI may still write to memory that is freed, so this
/// process must not call MPI any more.
void leave_unfinished();
bool left_unfinished();

}  // namespace keelson::comm::detail
