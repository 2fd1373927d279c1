#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/dataset.hpp"

namespace keelson {

/// Some samples of another data set, in an order of its own; the same sample may occur several times.
class SubsetDataset final : public Dataset {
 public:
  /// `whole` must outlive this object. Throws Error for an index that it does not have.
  SubsetDataset(const Dataset& whole, std::vector<std::int64_t> indices);

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  const std::vector<Field>& fields() const override { return whole_.fields(); }
  void read(std::int64_t index, void* const* dst) const override { whole_.read(indices_[place(index)], dst); }
  std::string file_of(std::int64_t index) const override { return whole_.file_of(indices_[place(index)]); }
  std::int64_t row_of(std::int64_t index) const override { return whole_.row_of(indices_[place(index)]); }
  std::string describe() const override;
  std::uint64_t digest() const override;

 private:
  static std::size_t place(std::int64_t index) { return static_cast<std::size_t>(index); }

  const Dataset& whole_;
  std::vector<std::int64_t> indices_;
};

/// Indices of a data set, dealt at random into two parts.
struct Split {
  std::vector<std::int64_t> rest, part;  ///< in rising order
};
/// A random part of `samples` indices, of the size round(fraction * samples). The same for the same seed.
Split split_at_random(std::int64_t samples, double fraction, std::uint64_t seed);

}  // namespace keelson
