#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/genome/genome.hpp"

namespace keelson::search {

/// What a stage does.
enum class StageKind : std::uint8_t { conv, pool, residual, identity };
StageKind kind_of(const Stage& stage, const Space& space);  ///< by its gene

/// The gene with the kernel's extent along spatial dimension `dim` of `dims`: the last dimension is the width.
std::size_t kernel_gene(std::size_t dim, std::size_t dims);

std::vector<std::int64_t> extents_of(const Space& space);  ///< the spatial extents of x
/// The spatial extents behind a repaired stage.
std::vector<std::int64_t> extents_after(const Stage& stage, std::vector<std::int64_t> extents, const Space& space);

}  // namespace keelson::search
