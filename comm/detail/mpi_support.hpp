#pragma once

#include <mpi.h>

#include <cstddef>
#include <string_view>

/// What the files of comm/ that see MPI share.
namespace keelson::comm::detail {

/// Throws Error with MPI's text if `code` is not MPI_SUCCESS: "MPI_Ibcast (broadcast) failed: ...".
void check(int code, const char* call, std::string_view label = {});

bool mpi_running();  ///< initialised and not yet finalised

/// Ends all processes of the job without MPI's cooperation where the launcher does that by itself.
[[noreturn]] void end_job(int exit_code);

/// Set when a collective call was left unfinished, by an exception: MPI may still write to memory that is gone, so this
/// process must make no more MPI calls.
void leave_unfinished();
bool left_unfinished();

/// MPI counts are int: longer arrays go in pieces of this many elements.
inline constexpr std::size_t piece = std::size_t{1} << 30;

}  // namespace keelson::comm::detail
