#include "comm/allreduce/wire.hpp"

#include "engine/base/error.hpp"
#include "engine/tensor/half.hpp"

namespace keelson::comm::detail {
namespace {

template <class T>
void pack_as(const float* from, std::uint16_t* to, std::size_t count, float* residual) {
  if (residual == nullptr) {
    for (std::size_t i = 0; i < count; ++i) to[i] = from_float<T>(from[i]).bits;
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const float wanted = from[i] + residual[i];
    const T sent = from_float<T>(wanted);
    to[i] = sent.bits;
    const float error = wanted - to_float(sent);
    residual[i] = error - error == 0 ? error : 0;  // infinity and NaN leave no rounding error for later steps
  }
}

template <class T>
void unpack_as(const std::uint16_t* from, float* to, std::size_t count, bool add) {
  if (add)
    for (std::size_t i = 0; i < count; ++i) to[i] += to_float(T{from[i]});
  else
    for (std::size_t i = 0; i < count; ++i) to[i] = to_float(T{from[i]});
}

}  // namespace

std::size_t wire_bytes(Wire wire) { return wire == Wire::fp32 ? sizeof(float) : sizeof(std::uint16_t); }

void pack(Wire wire, const float* from, std::uint16_t* to, std::size_t count, float* residual) {
  KEELSON_EXPECT(wire != Wire::fp32);
  wire == Wire::bf16 ? pack_as<bf16>(from, to, count, residual) : pack_as<f16>(from, to, count, residual);
}

void unpack(Wire wire, const std::uint16_t* from, float* to, std::size_t count, bool add) {
  KEELSON_EXPECT(wire != Wire::fp32);
  wire == Wire::bf16 ? unpack_as<bf16>(from, to, count, add) : unpack_as<f16>(from, to, count, add);
}

}  // namespace keelson::comm::detail
