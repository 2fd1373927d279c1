#pragma once

#include <bit>
#include <cstdint>

namespace keelson {

/// Divides many numbers by one divisor that is known only at run time. A GPU has no instruction for a division: a
/// 64-bit division takes some hundred instructions, which is more than most kernels do for an element. If all numbers
/// are below 2^31 (the constructor is told the limit), the quotient is computed by a product with a reciprocal
/// (Granlund & Montgomery, "Division by invariant integers using multiplication", 1994), else by a 64-bit division. For
/// host and device code.
class Divider {
 public:
  /// For 0 <= number < end. A divisor below 1 (the extent of an empty dim) is taken as 1.
  constexpr Divider(std::int64_t wanted, std::int64_t end) : divisor_(wanted < 1 ? 1 : wanted) {
    const std::int64_t divisor = divisor_;
    constexpr std::int64_t limit = std::int64_t{1} << 31;
    if (end > limit || divisor > limit) return;
    // With 2^(log - 1) < divisor <= 2^log: reciprocal = floor(2^(31 + log) / divisor) + 1, which has at most 32 bits.
    const int log = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(divisor - 1)));
    shift_ = 31 + log;
    reciprocal_ = static_cast<std::uint32_t>((std::uint64_t{1} << shift_) / static_cast<std::uint64_t>(divisor) + 1);
  }
  constexpr Divider() : Divider(1, 1) {}

  constexpr std::int64_t divisor() const { return divisor_; }
  /// Whether quotients are computed by a product.
  constexpr bool multiplies() const { return shift_ != 0; }

  constexpr std::int64_t quotient(std::int64_t number) const {
    if (shift_ == 0) return number / divisor_;
    return static_cast<std::int64_t>(std::uint64_t{static_cast<std::uint32_t>(number)} * reciprocal_ >> shift_);
  }

  /// Makes `number` the quotient and returns the remainder: splits the fastest index off a linear index.
  constexpr std::int64_t split(std::int64_t& number) const {
    const std::int64_t whole = quotient(number), rest = number - whole * divisor_;
    number = whole;
    return rest;
  }

 private:
  std::int64_t divisor_;
  std::uint32_t reciprocal_ = 0;
  std::int32_t shift_ = 0;  ///< 0: 64-bit division
};

}  // namespace keelson
