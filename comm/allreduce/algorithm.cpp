#include "comm/allreduce/algorithm.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson::comm::detail {
namespace {

using Algorithm = AllreduceAlgorithm::Kind;

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

/// An algorithm. Other code that depends on the algorithm is in allreduce_candidates() and in Allreduces::make().
struct Row {
  Algorithm kind;
  std::string_view name;
  MakeSchedule schedule;  ///< the result of AllreduceAlgorithm::schedule()
  bool takes_pieces;
  bool adds_in_tree;         ///< adds in the order of SumOrder::tree: nearest rank first; a + b is b + a
  bool takes_16_bits;        ///< false if both ranks of a pair add what the other has rounded: their sums would differ
  bool needs_shared_memory;  ///< the ranks of a node must share memory
};

// clang-format off: a table
constexpr Row rows[] = {
    // kind                     name              schedule       pieces tree   16 bits shared memory
    {Algorithm::mpi,            "mpi",            nullptr,       true,  false, false,  false},
    {Algorithm::two_level,      "two-level",      nullptr,       false, false, true,   true},
    {Algorithm::two_level_ring, "two-level-ring", nullptr,       false, false, true,   true},
    {Algorithm::ring,           "ring",           make_ring,     true,  false, true,   false},
    {Algorithm::halving,        "halving",        make_halving,  true,  true,  true,   false},
    {Algorithm::doubling,       "doubling",       make_doubling, true,  true,  false,  false},
};
// clang-format on

const Row& row_of(Algorithm kind) {
  return *std::ranges::find_if(rows, [kind](const Row& r) { return r.kind == kind; });
}

/// "4M", "512K"; no value for another text.
std::optional<std::size_t> parse_size(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const std::size_t unit = text.back() == 'K' ? KiB : text.back() == 'M' ? MiB : 0;
  const auto number = parse_number<std::size_t>(std::string(text.substr(0, text.size() - 1)));
  return unit > 0 && number && *number > 0 ? std::optional(*number * unit) : std::nullopt;
}

}  // namespace

std::vector<std::string> AllreduceAlgorithm::names() {
  std::vector<std::string> all;
  for (const Row& r : rows) all.emplace_back(r.name);
  return all;
}

std::string AllreduceAlgorithm::to_string() const {
  const std::string piece = piece_bytes == 0         ? ""
                            : piece_bytes % MiB == 0 ? fmt::format(":{}M", piece_bytes / MiB)
                                                     : fmt::format(":{}K", piece_bytes / KiB);
  return std::string(row_of(kind).name) + piece;
}

AllreduceAlgorithm AllreduceAlgorithm::parse(std::string_view text) {
  const auto colon = text.find(':');
  const auto name = text.substr(0, colon);
  const auto* const found = std::ranges::find_if(rows, [&](const Row& r) { return r.name == name; });
  if (found != std::end(rows) && colon == std::string_view::npos) return {found->kind, 0};
  const auto piece = colon == std::string_view::npos ? std::nullopt : parse_size(text.substr(colon + 1));
  if (found != std::end(rows) && found->takes_pieces && piece) return {found->kind, *piece};
  refuse(
      "allreduce algorithm '{}' (KEELSON_ALLREDUCE): expected auto, {}; all but two-level may have a piece size, as "
      "in ring:4M or mpi:512K",
      text, fmt::join(names(), ", "));
}

bool AllreduceAlgorithm::takes_pieces() const { return row_of(kind).takes_pieces; }

MakeSchedule AllreduceAlgorithm::schedule() const { return row_of(kind).schedule; }

bool is_supported(const AllreduceAlgorithm& algorithm, const AllreduceFacts& facts) {
  const Row& r = row_of(algorithm.kind);
  return (facts.order != SumOrder::tree || r.adds_in_tree) && (facts.wire == Wire::fp32 || r.takes_16_bits) &&
         (facts.shared_memory || !r.needs_shared_memory);
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
