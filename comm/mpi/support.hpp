#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// The common part of the files of comm/ that use MPI.
namespace keelson::comm::detail {

/// Throws Error with MPI's text (RanksLost if a process has died) if `code` is not MPI_SUCCESS: "MPI_Ibcast (broadcast)
/// failed: ...".
void check(int code, const char* call, std::string_view label = {});

bool mpi_running();  ///< initialised and not yet finalised

/// A process of a communicator, with its number and host for messages.
struct Member {
  int number;        ///< RankInfo::number
  std::string host;  ///< the name of its machine
};

/// All processes of the communicator by rank. `number`: this process' number. Collective, without the watchdog.
std::vector<Member> gather_members(MPI_Comm comm, int number);

/// The rank in `to` of each rank of `from`; MPI_UNDEFINED: none.
std::vector<int> translate_ranks(MPI_Comm from, MPI_Comm to);

int highest_tag(MPI_Comm comm);  ///< the highest tag that MPI allows

/// Number and host of each member: "3 (node7)".
std::vector<std::string> names_of(const std::vector<Member>& members);

/// MPI counts are int, so longer arrays are sent in pieces of this size. The same on all ranks. Tests make it shorter.
inline std::size_t piece = std::size_t{1} << 30;

/// Tags of messages on the MPI communicator of an MpiCommunicator: the watchdog's tags, then those of sends and
/// receives.
inline constexpr int tag_waiting = 1, tag_acknowledged = 2, first_message_tag = 3;

}  // namespace keelson::comm::detail
