#pragma once

namespace keelson::ops {
class OpFactory;
}

namespace keelson::kokkos {

/// Adds the tables of the candidates that the backend has for a CPU.
void add_candidates(ops::OpFactory& factory);

}  // namespace keelson::kokkos
