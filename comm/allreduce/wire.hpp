#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/communicator.hpp"

namespace keelson::comm::detail {

/// Bytes of a number of this form.
std::size_t wire_bytes(Wire wire);

/// Puts `count` numbers into 16 bits. With `residual`: what was kept back before is added first, and what rounding
/// takes away now is kept there for the next time (error feedback: Karimireddy, Rebjock, Stich and Jaggi, ICML 2019,
/// arXiv:1901.09847). Null: the numbers are rounded already.
void pack(Wire wire, const float* from, std::uint16_t* to, std::size_t count, float* residual);

/// The numbers again; with `add` they are added to what is there.
void unpack(Wire wire, const std::uint16_t* from, float* to, std::size_t count, bool add);

}  // namespace keelson::comm::detail
