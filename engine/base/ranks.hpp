#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson {

/// "rank 3 (node7)", "ranks 1 (node7), 2 (node7) and 14 more"; `names` by rank, as Communicator::name().
std::string name_ranks(const std::vector<int>& ranks, const std::vector<std::string>& names);

/// Runs `work` on rank 0. If `work` throws, all ranks throw with the same message: InputError, OutOfMemory, or Error
/// for anything else. `communicator` null: one rank; exceptions are not changed. Collective.
void on_first_rank(Communicator* communicator, const std::function<void()>& work);

/// Runs `work` on every rank. If `work` throws on some ranks, all ranks throw the exception of the lowest of these
/// ranks, with this rank's name in front: "rank 3 (node7): data/x.h5: cannot be opened". The types are those of
/// on_first_rank(). `communicator` null or of one rank: exceptions are not changed. Collective; costs one small
/// reduction.
void on_each_rank(Communicator* communicator, const std::function<void()>& work);

/// Whether all ranks have the same hash. Collective; costs one small reduction.
bool all_have(Communicator& communicator, std::uint64_t hash);

/// Throws InputError on all ranks, naming those whose hash differs from rank 0's, if the ranks do not agree: "the ranks
/// have different WHAT: rank 1 (node2) differs from rank 0 (node1); ADVICE". Collective; costs one small reduction.
void compare_hash(Communicator& communicator, std::uint64_t hash, std::string_view what,
                  std::string_view advice = "start all ranks with the same program, options, environment and input");

/// Throws InputError on all ranks if they do not have the same values under the same names, and names up to four that
/// differ: "the ranks have different options: --lr is 0.002 on rank 1 (node2), 0.001 on rank 0 (node1); ADVICE".
/// Collective; costs one small reduction if all values are the same.
void compare_values(Communicator& communicator, const std::map<std::string, std::string>& values, std::string_view what,
                    std::string_view advice = "start all ranks with the same program, options, environment and input");

}  // namespace keelson
