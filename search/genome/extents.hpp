#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/genome/genome.hpp"

namespace keelson::search {

/// What a stage does.
enum class StageKind : std::uint8_t { conv, pool, residual, identity, lstm, gru };
StageKind kind_of(const Stage& stage, const Space& space);  ///< by its gene
/// Whether the stage goes along the rows of x one after the other, and keeps a state.
constexpr bool is_recurrent(StageKind kind) { return kind == StageKind::lstm || kind == StageKind::gru; }

/// The gene with the kernel's extent along spatial dimension `dim` of `dims`: the last dimension is the width.
std::size_t kernel_gene(std::size_t dim, std::size_t dims);

/// The spatial extents of x; of sequences steps and features.
std::vector<std::int64_t> extents_of(const Space& space);
/// The spatial extents behind a repaired stage; behind a recurrent one steps and hidden units.
std::vector<std::int64_t> extents_after(const Stage& stage, std::vector<std::int64_t> extents, const Space& space);

}  // namespace keelson::search
