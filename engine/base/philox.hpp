#pragma once

#include <array>
#include <cstdint>
#include <string_view>

/// Counter-based random numbers: Philox4x32-10 of Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1,
/// 2, 3" (SC'11).
///
/// A value is a pure function of (seed, stream, step, index), so initial weights, dropout masks and sample orders do
/// not depend on the backend, the thread count or the number of ranks. Everything is constexpr and free of state:
/// usable in host and device code.
namespace keelson::philox {

/// Four words of 32 random bits.
using Block = std::array<std::uint32_t, 4>;

/// One round of Philox 4x32.
constexpr Block round(Block c, std::uint32_t k0, std::uint32_t k1) {
  const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
  const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
  return {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
}

/// Ten rounds on a 128-bit counter with a 64-bit key.
constexpr Block block(std::uint64_t key, std::uint64_t counter_high, std::uint64_t counter_low) {
  Block c{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
          static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int i = 0; i < 10; ++i) {
    c = round(c, k0, k1);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// The numbers that a value depends on, beside its index. `stream` names the use (see stream_of), `step` the training
/// step or epoch.
struct Key {
  std::uint64_t seed = 0;    ///< of the run
  std::uint32_t stream = 0;  ///< use of the numbers
  std::uint64_t step = 0;    ///< training step or epoch
};

/// The random bits of elements 4 * number, ... 4 * number + 3.
constexpr Block block(const Key& k, std::uint64_t number) {
  return block(k.seed ^ (std::uint64_t{k.stream} << 32), k.step, number);
}

/// The 32 random bits of element `index`; one block serves four neighbouring indices.
constexpr std::uint32_t bits(const Key& k, std::uint64_t index) { return block(k, index >> 2)[index & 3]; }

/// The number in [0, 1) that uniform() makes of an element's bits.
constexpr float uniform(std::uint32_t bits) { return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f); }

/// Uniform in [0, 1), multiples of 2^-24 (exact in float).
constexpr float uniform(const Key& k, std::uint64_t index) { return uniform(bits(k, index)); }

/// Uniform in [0, 1), multiples of 2^-53, from the bits of elements 2 * index and 2 * index + 1.
constexpr double uniform_double(const Key& k, std::uint64_t index) {
  const std::uint64_t random = std::uint64_t{bits(k, 2 * index)} << 32 | bits(k, 2 * index + 1);
  return static_cast<double>(random >> 11) * 0x1p-53;
}

/// Uniform in 0 ... n - 1, from the bits of elements 2 * index and 2 * index + 1. The bias, at most n / 2^64, is
/// negligible.
constexpr std::uint64_t below(const Key& k, std::uint64_t index, std::uint64_t n) {
  const std::uint64_t random = std::uint64_t{bits(k, 2 * index)} << 32 | bits(k, 2 * index + 1);
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(random) * n >> 64);
}

/// Stable 32-bit stream number of a name (FNV-1a), e.g. a parameter's or a dropout layer's.
constexpr std::uint32_t stream_of(std::string_view name) {
  std::uint32_t h = 2166136261u;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  return h;
}

}  // namespace keelson::philox
