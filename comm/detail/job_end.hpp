#pragma once

#include <mpi.h>

#include <string_view>

/// How the ranks of a job end together when one of them cannot go on.
namespace keelson::comm::detail {

/// From now on failures are told over `control`; MPI_COMM_NULL: no longer. `grace` as KEELSON_GRACE, in seconds.
void use_control(MPI_Comm control, double grace);

/// Tells the other ranks that this one ends with this exit code. A launcher may take long to end them: under srun
/// SIGTERM means "checkpoint after this step" to them, while they wait in a collective call for this rank.
void tell_failure(int exit_code);

/// Called over and over by a rank that waits for others, `seconds` after the wait for `label` began. Ends this process
/// quietly if another rank has told that it failed, with the same exit code. Ends the job with exit code 1 and a
/// message if the wait has lasted for five times the grace since a signal asked this process to end: a rank that was
/// killed tells nothing. That does not hold `for_first_rank`, which may be writing a checkpoint.
void end_if_over(std::string_view label, double seconds, bool for_first_rank);

/// Ends all processes of the job without MPI's cooperation where the launcher does that by itself.
[[noreturn]] void end_job(int exit_code);

/// The same, without any call of MPI: for a thread beside one that is in such a call.
[[noreturn]] void end_without_mpi(int exit_code);

/// Set when a collective call was left unfinished, by an exception: MPI may still write to memory that is gone, so this
/// process must make no more MPI calls.
void leave_unfinished();
bool left_unfinished();

}  // namespace keelson::comm::detail
