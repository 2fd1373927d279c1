#include "engine/base/exact_sum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace keelson {
namespace {

constexpr int lowest_exponent = -1074;  ///< of the smallest double
constexpr std::int64_t base = std::int64_t{1} << 32;

}  // namespace

void ExactSum::add(double term) {
  if (!std::isfinite(term)) {
    ++at_[std::isnan(term) ? nan : term > 0 ? positive_infinity : negative_infinity];
    return;
  }
  int exponent = 0;
  const double fraction = std::frexp(std::abs(term), &exponent);  // term = fraction * 2^exponent, fraction in [1/2, 1)
  // The 53 bits of the fraction, or fewer if the term has no bits below those of the smallest double.
  const int bits = std::min(53, exponent - lowest_exponent);
  if (term == 0) return;
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, bits));
  const int position = exponent - bits - lowest_exponent;
  const auto digit = static_cast<std::size_t>(position / 32);
  const int shift = position % 32;
  const std::uint64_t low = mantissa << shift, high = shift == 0 ? 0 : mantissa >> (64 - shift);
  const std::int64_t sign = term < 0 ? -1 : 1;
  at_[digit] += sign * static_cast<std::int64_t>(low % base);
  at_[digit + 1] += sign * static_cast<std::int64_t>(low / base);
  at_[digit + 2] += sign * static_cast<std::int64_t>(high);
  constexpr std::int32_t most = 1 << 30;  // limit of the number of terms of less than 2^32 each
  if (++uncarried_ == most) carry();
}

void ExactSum::carry() {
  for (std::size_t i = 0; i + 1 < digits; ++i) {
    const std::int64_t over = at_[i] >> 32;  // rounds down, so that the rest is not negative
    at_[i] -= over * base;
    at_[i + 1] += over;
  }
  uncarried_ = 0;
}

double ExactSum::value() const {
  if (at_[nan] > 0 || (at_[positive_infinity] > 0 && at_[negative_infinity] > 0))
    return std::numeric_limits<double>::quiet_NaN();
  if (at_[positive_infinity] > 0) return std::numeric_limits<double>::infinity();
  if (at_[negative_infinity] > 0) return -std::numeric_limits<double>::infinity();
  ExactSum s = *this;
  s.carry();
  const bool negative = s.at_[digits - 1] < 0;
  if (negative) {
    for (auto& d : s.at_) d = -d;
    s.carry();
  }
  double sum = 0;  // from the lowest digit up, so that only the last addition rounds
  for (std::size_t i = 0; i < digits; ++i)
    sum += std::ldexp(static_cast<double>(s.at_[i]), 32 * static_cast<int>(i) + lowest_exponent);
  return negative ? -sum : sum;
}

void ExactSum::reduce(std::span<ExactSum> sums, Communicator* communicator) {
  if (!communicator || communicator->size() == 1) return;
  std::vector<std::int64_t> all;
  for (auto& s : sums) {
    s.carry();
    all.insert(all.end(), s.at_.begin(), s.at_.end());
  }
  communicator->allreduce(all.data(), all.size(), Reduction::sum);
  auto next = all.begin();
  for (auto& s : sums) {
    for (auto& d : s.at_) d = *next++;
    s.carry();
  }
}

}  // namespace keelson
