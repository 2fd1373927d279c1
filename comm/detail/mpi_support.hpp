#pragma once

#include <mpi.h>

#include <cstddef>
#include <string_view>

/// What the files of comm/ that see MPI share.
namespace keelson::comm::detail {

/// Throws Error with MPI's text (RanksLost where a process has died) if `code` is not MPI_SUCCESS: "MPI_Ibcast
/// (broadcast) failed: ...".
void check(int code, const char* call, std::string_view label = {});

bool mpi_running();  ///< initialised and not yet finalised

/// MPI counts are int: longer arrays go in pieces of this many elements. Alike on all ranks; tests make it short.
inline std::size_t piece = std::size_t{1} << 30;

/// Tags of messages on a Communicator's MPI communicator: the watchdog's, then those of sends and receives.
inline constexpr int tag_waiting = 1, tag_acknowledged = 2, first_message_tag = 3;

}  // namespace keelson::comm::detail
