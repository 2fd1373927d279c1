#pragma once

namespace keelson::ops {
class OpFactory;
}

namespace keelson::kokkos {

/// Adds the tables of the backend's candidates for CPUs.
void add_candidates(ops::OpFactory& factory);

}  // namespace keelson::kokkos
