#pragma once

#include <mpi.h>

#include <string_view>

/// Ends all ranks of a job when one of them cannot go on.
namespace keelson::comm::detail {

/// From now on ranks notify each other of failures over `control`; MPI_COMM_NULL: no longer. `grace`: the value of
/// KEELSON_GRACE, in seconds.
void use_control(MPI_Comm control, double grace);

/// Notifies the other ranks that this rank ends with this exit code. Without the notice, the launcher may need long to
/// end them: SIGTERM by srun asks them for a checkpoint after the step, while they wait in a collective call for this
/// rank.
void notify_failure(int exit_code);

/// Called repeatedly by a rank that waits for others, `seconds` after the wait for `label` began. If another rank has
/// sent notice of its failure, ends this process without a message, with the exit code of that rank. If a signal has
/// asked this process to end, and the wait has since lasted for five times the grace time, ends the job with exit code
/// 1 and a message: a killed rank sends no notice. A wait `for_first_rank` does not end in this second manner, since
/// rank 0 may be writing a checkpoint.
void end_if_over(std::string_view label, double seconds, bool for_first_rank);

/// Ends all processes of the job. Does not use MPI if the launcher ends them by itself.
[[noreturn]] void end_job(int exit_code);

/// The same without any call of MPI, for a thread that runs while another thread is in such a call.
[[noreturn]] void end_without_mpi(int exit_code);

/// Called when an exception has left a collective call unfinished. MPI may still write to memory that is freed, so this
/// process must not call MPI any more.
void leave_unfinished();
bool left_unfinished();

}  // namespace keelson::comm::detail
