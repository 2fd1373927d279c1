#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"
#include "engine/data/files/shared_bytes.hpp"

namespace keelson {

/// The stored form (Dataset::read_stored) of all samples of a data set, in memory that the ranks of a node share: one
/// copy per node. Each sample is read from its file once, by one rank of all, and sent to the other nodes.
class SampleStore {
 public:
  /// Reads all samples; the ranks take turns, and as many samples are read at the same time as there are ranks. The
  /// bytes lie in a file without a name in TMPDIR, as those of SharedBytes. Throws InputError on all ranks for a sample
  /// that cannot be read, and as SharedBytes. `communicator` null: one rank. Collective.
  SampleStore(const Dataset& data, Communicator* communicator);
  /// Bytes of all samples together, without reading one.
  static std::int64_t bytes_of(const Dataset& data) { return data.size() * data.stored_bytes(); }

  std::uint64_t digest() const { return digest_; }               ///< Dataset::digest() of the data
  std::int64_t samples() const { return samples_; }              ///< number of samples
  std::int64_t samples_read() const { return samples_read_; }    ///< of them read by this rank
  std::int64_t bytes() const { return samples_ * bytes_each_; }  ///< on each node
  const std::byte* sample(std::int64_t index) const {
    return bytes_.bytes().data() + index * bytes_each_;
  }  ///< stored form of a sample

 private:
  std::uint64_t digest_;
  std::int64_t samples_, bytes_each_, samples_read_ = 0;
  SharedBytes bytes_;
};

/// A data set whose samples come from a SampleStore. Decoding is that of the data set, so samples have the same bits.
class SharedSamples final : public Dataset {
 public:
  /// Both must outlive this. Throws Error if the store has been made of other data.
  SharedSamples(const Dataset& data, const SampleStore& store);

  std::int64_t size() const override { return data_.size(); }
  const std::vector<Field>& fields() const override { return data_.fields(); }
  void read(std::int64_t index, void* const* dst) const override;
  void read_sample(const SampleRequest& request, void* const* dst) const override;
  const FieldEncoding* encoding(const SampleTransform* transform) const override { return data_.encoding(transform); }
  bool has_stored_form() const override { return data_.has_stored_form(); }
  std::int64_t stored_bytes() const override { return data_.stored_bytes(); }
  void read_stored(std::int64_t index, std::byte* dst) const override;
  void decode(const SampleRequest& request, const std::byte* stored, void* const* dst) const override {
    data_.decode(request, stored, dst);
  }
  std::int64_t file_number_of(std::int64_t index) const override { return data_.file_number_of(index); }
  std::string file_of(std::int64_t index) const override { return data_.file_of(index); }
  std::int64_t row_of(std::int64_t index) const override { return data_.row_of(index); }
  std::string describe() const override { return data_.describe(); }
  std::optional<ReadCost> read_cost() const override { return data_.read_cost(); }
  std::uint64_t digest() const override { return data_.digest(); }

 private:
  const Dataset& data_;
  const SampleStore& store_;
};

}  // namespace keelson
