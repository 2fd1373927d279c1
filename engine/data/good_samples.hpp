#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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

/// The first of `files` files for which `read(file)` does not throw InputError. At most `most` files before it may
/// throw; then the exception of the next one is rethrown, as is that of the last file.
std::int64_t find_good_file(std::int64_t files, std::int64_t most, const std::function<void(std::int64_t file)>& read);

/// Adds to `all`, in the order of ranks, the reasons `mine` of each rank why files are broken; reasons of several lines
/// become one. Throws InputError on all ranks, with the first reason, if there are then more than `most`.
/// `communicator` null: one rank. Collective.
void add_broken_files(std::vector<std::string>& all, const std::vector<std::string>& mine, std::int64_t most,
                      Communicator* communicator);

/// A data set without some of its samples. The others keep their order, and get the numbers from 0 on.
class GoodSamples final : public Dataset {
 public:
  /// `broken`: sorted, without duplicates. `data` must outlive this.
  GoodSamples(const Dataset& data, std::vector<std::int64_t> broken);

  std::int64_t size() const override { return data_.size() - std::ssize(broken_); }
  const std::vector<Field>& fields() const override { return data_.fields(); }
  void read(std::int64_t index, void* const* dst) const override { data_.read(original(index), dst); }
  void read_sample(const SampleRequest& request, void* const* dst) const override {
    data_.read_sample(original(request), dst);
  }
  const FieldEncoding* encoding(const SampleTransform* transform) const override { return data_.encoding(transform); }
  bool has_stored_form() const override { return data_.has_stored_form(); }
  std::int64_t stored_bytes() const override { return data_.stored_bytes(); }
  void read_stored(std::int64_t index, std::byte* dst) const override { data_.read_stored(original(index), dst); }
  void decode(const SampleRequest& request, const std::byte* stored, void* const* dst) const override {
    data_.decode(original(request), stored, dst);
  }
  std::int64_t file_number_of(std::int64_t index) const override { return data_.file_number_of(original(index)); }
  std::string file_of(std::int64_t index) const override { return data_.file_of(original(index)); }
  std::int64_t row_of(std::int64_t index) const override { return data_.row_of(original(index)); }
  std::string describe() const override;
  std::optional<ReadCost> read_cost() const override { return data_.read_cost(); }
  std::uint64_t digest() const override;

  /// The number of a sample in the whole data set.
  std::int64_t original(std::int64_t index) const;

 private:
  SampleRequest original(SampleRequest request) const {
    request.id.index = original(request.id.index);
    return request;
  }

  const Dataset& data_;
  std::vector<std::int64_t> broken_;
};

}  // namespace keelson
