#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "engine/data/dataset.hpp"
#include "objects.hpp"

namespace keelson::python {

/// Samples in NumPy arrays, or in arrays that share host memory by DLPack: field f of sample i is array f at [i]. The
/// arrays have logical dimensions (N, C, D, H, W), in any strided layout, and are read in place.
class ArrayDataset final : public Dataset {
 public:
  /// `arrays`: by name of the field. Throws InputError for arrays of other dtypes than float32 and int32, or with
  /// different numbers of samples.
  explicit ArrayDataset(const nb::dict& arrays);
  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, void* const* dst) const override;
  std::string describe() const override;
  /// Also includes some of the values.
  std::uint64_t digest() const override;

 private:
  std::int64_t size_ = 0;
  std::vector<Field> fields_;
  std::vector<HostArray> arrays_;
};

/// Samples that a function of Python reads: read(i) returns a sequence of arrays, one for each field.
class FunctionDataset final : public Dataset {
 public:
  /// `in_order`: samples must be read one after the other, in the order of the data set.
  FunctionDataset(nb::callable function, std::int64_t size, std::vector<Field> fields, std::string description,
                  bool in_order)
      : function_(std::move(function)),
        size_(size),
        fields_(std::move(fields)),
        description_(std::move(description)),
        in_order_(in_order) {}
  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  /// Takes the GIL (Python's lock). Throws the function's exceptions, and InputError for arrays of another shape or
  /// dtype.
  void read(std::int64_t index, void* const* dst) const override;
  std::string describe() const override { return description_; }
  bool in_order() const { return in_order_; }

 private:
  nb::callable function_;
  std::int64_t size_;
  std::vector<Field> fields_;
  std::string description_;
  bool in_order_;
};

/// `data` as a call on these parameters reads it, which holds their turn: a function of Python that reads a sample has
/// no turn meanwhile. `parameters` outlive the result.
std::shared_ptr<Dataset> read_for(const NetworkParameters& parameters, std::shared_ptr<Dataset> data);

/// Whether samples can only be read one after the other: by one thread, without shuffling.
bool reads_in_order(const Dataset& data);

/// The data set of the user's object: a Dataset, or an object that keelson.data.as_dataset() accepts. Null for None.
std::shared_ptr<Dataset> dataset_of(nb::handle given);

}  // namespace keelson::python
