#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"

namespace keelson {

/// A sample that cannot be read.
struct BrokenSample {
  std::int64_t index = 0;  ///< in the data set
  std::string reason;      ///< the message of the exception, which names the file
};

/// Reads every sample once, to find those that cannot be read, sorted by index. Each rank reads a share, with `threads`
/// threads. `progress`, if not empty, is called on rank 0 with the number of samples that it has read, from any of the
/// threads, one at a time. Throws InputError on all ranks, with the first reasons, if more than `most` samples are
/// broken. `communicator` null: one rank. Collective.
std::vector<BrokenSample> find_broken_samples(const Dataset& data, std::int64_t most, int threads,
                                              Communicator* communicator,
                                              const std::function<void(std::int64_t read)>& progress = {});

/// A data set without some of its samples. The others keep their order, and get the numbers from 0 on.
class GoodSamples final : public Dataset {
 public:
  /// `broken`: sorted, without duplicates. `data` must outlive this.
  GoodSamples(const Dataset& data, std::vector<std::int64_t> broken);

  std::int64_t size() const override { return data_.size() - std::ssize(broken_); }
  const std::vector<Field>& fields() const override { return data_.fields(); }
  void read(std::int64_t index, void* const* dst) const override { data_.read(original(index), dst); }
  void read_transformed(const SampleId& id, const SampleTransform& transform, void* const* dst) const override {
    data_.read_transformed(original(id), transform, dst);
  }
  void read_rows(const SampleId& id, const SampleTransform* transform, const FieldRows& rows,
                 void* const* dst) const override {
    data_.read_rows(original(id), transform, rows, dst);
  }
  const CodedField* coded(const SampleTransform* transform) const override { return data_.coded(transform); }
  ops::VoxelSample read_codes(const SampleId& id, const SampleTransform* transform, void* const* dst) const override {
    return data_.read_codes(original(id), transform, dst);
  }
  std::int64_t stored_bytes() const override { return data_.stored_bytes(); }
  void read_stored(std::int64_t index, std::byte* dst) const override { data_.read_stored(original(index), dst); }
  void decode(const SampleId& id, const SampleTransform* transform, const FieldRows& rows, const std::byte* stored,
              void* const* dst) const override {
    data_.decode(original(id), transform, rows, stored, dst);
  }
  ops::VoxelSample decode_to_codes(const SampleId& id, const SampleTransform* transform, const std::byte* stored,
                                   void* const* dst) const override {
    return data_.decode_to_codes(original(id), transform, stored, dst);
  }
  std::string describe() const override;
  std::uint64_t digest() const override;

  /// The number of a sample in the whole data set.
  std::int64_t original(std::int64_t index) const;

 private:
  SampleId original(SampleId id) const {
    id.index = original(id.index);
    return id;
  }

  const Dataset& data_;
  std::vector<std::int64_t> broken_;
};

}  // namespace keelson
