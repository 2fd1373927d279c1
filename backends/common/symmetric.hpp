#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/ops/kfac.hpp"
#include "engine/ops/primitive.hpp"
#include "engine/ops/shampoo.hpp"

/// What the backends that compute with symmetric matrices have in common.
namespace keelson::backends {

/// Why no backend makes the op; empty: the description is in order.
std::string misfit(const ops::InverseRootsDesc& d);
std::string misfit(const ops::FactorInversesDesc& d);

/// Rows of each matrix that the primitive computes.
std::vector<std::int64_t> rows_of(const ops::InverseRootsDesc& d);
std::vector<std::int64_t> rows_of(const ops::FactorInversesDesc& d);

ops::Cost cost_of(const ops::InverseRootsDesc& d);
ops::Cost cost_of(const ops::FactorInversesDesc& d);

}  // namespace keelson::backends
