#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/communicator.hpp"

namespace keelson::comm::detail {

/// Bytes of a number of this type.
std::size_t wire_bytes(Wire wire);

/// Rounds `count` numbers to 16 bits. `residual` holds the rounding errors of the last call, which are added first, and
/// gets those of this call (error feedback: Karimireddy, Rebjock, Stich and Jaggi, ICML 2019, arXiv:1901.09847). Null:
/// the numbers are rounded already.
void pack(Wire wire, const float* from, std::uint16_t* to, std::size_t count, float* residual);

/// The inverse. With `add` the numbers are added to those in `to`.
void unpack(Wire wire, const std::uint16_t* from, float* to, std::size_t count, bool add);

}  // namespace keelson::comm::detail
