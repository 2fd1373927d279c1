#include "comm/allreduce/algorithm.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson::comm::detail {
namespace {

using Algorithm = AllreduceAlgorithm::Kind;

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

constexpr std::array<std::pair<Algorithm, std::string_view>, 6> names{{{Algorithm::mpi, "mpi"},
                                                                       {Algorithm::two_level, "two-level"},
                                                                       {Algorithm::two_level_ring, "two-level-ring"},
                                                                       {Algorithm::ring, "ring"},
                                                                       {Algorithm::halving, "halving"},
                                                                       {Algorithm::doubling, "doubling"}}};

/// "4M", "512K"; nothing for another text.
std::optional<std::size_t> parse_size(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const std::size_t unit = text.back() == 'K' ? KiB : text.back() == 'M' ? MiB : 0;
  const auto number = parse_number<std::size_t>(std::string(text.substr(0, text.size() - 1)));
  return unit > 0 && number && *number > 0 ? std::optional(*number * unit) : std::nullopt;
}

}  // namespace

std::string AllreduceAlgorithm::to_string() const {
  const auto* name = std::find_if(names.begin(), names.end(), [this](const auto& n) { return n.first == kind; });
  const std::string piece = piece_bytes == 0         ? ""
                            : piece_bytes % MiB == 0 ? fmt::format(":{}M", piece_bytes / MiB)
                                                     : fmt::format(":{}K", piece_bytes / KiB);
  return std::string(name->second) + piece;
}

AllreduceAlgorithm AllreduceAlgorithm::parse(std::string_view text) {
  const auto colon = text.find(':');
  const auto name = text.substr(0, colon);
  const auto* found = std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.second == name; });
  if (found != names.end() && colon == std::string_view::npos) return {found->first, 0};
  const bool in_pieces =
      found != names.end() && found->first != Algorithm::two_level && found->first != Algorithm::two_level_ring;
  const auto piece = colon == std::string_view::npos ? std::nullopt : parse_size(text.substr(colon + 1));
  if (in_pieces && piece) return {found->first, *piece};
  refuse(
      "allreduce algorithm '{}' (KEELSON_ALLREDUCE): expected auto, mpi, two-level, two-level-ring, ring, halving or "
      "doubling; all but two-level may have the size of pieces behind them, as in ring:4M or mpi:512K",
      text);
}

bool is_supported(const AllreduceAlgorithm& algorithm, const AllreduceFacts& facts) {
  // Both exchange with the nearest rank first, and a + b equals b + a: each element is summed in the same tree.
  const bool adds_in_tree = algorithm.kind == Algorithm::doubling || algorithm.kind == Algorithm::halving;
  if (facts.order == SumOrder::tree && !adds_in_tree) return false;
  switch (algorithm.kind) {
    case Algorithm::mpi:
    case Algorithm::doubling:  // each rank of a pair adds what the other has rounded, so their sums would differ
      return facts.wire == Wire::fp32;
    case Algorithm::two_level:
    case Algorithm::two_level_ring:
      return facts.shared_memory;
    case Algorithm::ring:
    case Algorithm::halving:
      break;
  }
  return true;
}

std::vector<AllreduceAlgorithm> allreduce_candidates(const AllreduceFacts& facts, std::size_t bytes) {
  std::vector<AllreduceAlgorithm> all;
  all.push_back({Algorithm::two_level, 0});
  if (facts.nodes > 1) all.push_back({Algorithm::two_level_ring, 0});
  if (bytes <= 64 * KiB) {
    all.push_back({Algorithm::mpi, 0});
    all.push_back({Algorithm::doubling, 0});
  } else {
    all.push_back({Algorithm::halving, 0});
    all.push_back({Algorithm::mpi, 0});
    all.push_back({Algorithm::ring, 0});
  }
  for (const std::size_t piece : {MiB, 4 * MiB})
    if (bytes > piece) {
      all.push_back({Algorithm::halving, piece});
      all.push_back({Algorithm::ring, piece});
      all.push_back({Algorithm::mpi, piece});
    }
  std::erase_if(all, [&](const AllreduceAlgorithm& a) { return !is_supported(a, facts); });
  if (all.empty()) all.push_back({Algorithm::halving, 0});  // few bytes in 16 bits, without shared memory
  return all;
}

}  // namespace keelson::comm::detail
