#include "data.hpp"

#include <fmt/format.h>
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "casters.hpp"
#include "engine/base/fnv1a.hpp"

namespace keelson::python {
namespace {

/// Whether samples of this shape are channels-last in memory (Dataset::read).
bool is_channels_last(const Shape& sample) { return sample.rank() >= 3; }

DType field_dtype(const HostArray& array, const std::string& name) {
  const auto found = dtype_name(array.element);
  if (found == "float32") return DType::f32;
  if (found == "int32") return DType::s32;
  const bool whole = found.starts_with("int") || found.starts_with("uint") || found == "bool";
  refuse("{} has the dtype {}. Expected float32, or int32 for class numbers and tokens: give {}.astype('{}')", name,
         found, name, whole ? "int32" : "float32");
}

Shape without_first(const Shape& shape) {
  Shape rest;
  for (int i = 1; i < shape.rank(); ++i) rest.push_back(shape[i]);
  return rest;
}

std::string describe_fields(const std::vector<Field>& fields) {
  std::string text;
  for (const auto& f : fields)
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", f.name, shape_text(f.shape), numpy_name(f.dtype));
  return text;
}

}  // namespace

ArrayDataset::ArrayDataset(const nb::dict& arrays) {
  for (const auto& [key, value] : arrays) {
    const auto name = nb::cast<std::string>(key);
    auto array = host_array(value, name);
    if (array.shape.empty()) refuse("{} is a single number. Expected an array with one entry for each sample", name);
    const DType type = field_dtype(array, name);
    if (arrays_.empty())
      size_ = array.shape[0];
    else if (array.shape[0] != size_)
      refuse("{} has {} samples (the shape {}), but {} has {}. Expected the same number in all arrays", name,
             array.shape[0], shape_text(array.shape), fields_[0].name, size_);
    fields_.push_back({name, without_first(array.shape), type});
    arrays_.push_back(std::move(array));
  }
  if (arrays_.empty()) refuse("no array was given. Expected one for each input of the network: x=..., y=...");
}

void ArrayDataset::read(std::int64_t index, void* const* dst) const {
  for (std::size_t f = 0; f < arrays_.size(); ++f)
    copy_dense(arrays_[f], index, is_channels_last(fields_[f].shape), dst[f]);
}

std::string ArrayDataset::describe() const {
  return fmt::format("{} samples of {} in arrays", size_, describe_fields(fields_));
}

std::uint64_t ArrayDataset::digest() const {
  Digest digest;
  digest.add(Dataset::digest());
  constexpr std::int64_t most = 64;
  for (const auto& a : arrays_) {
    const auto elements = a.shape.elements();
    for (std::int64_t k = 0; k < std::min(elements, most); ++k) {
      std::int64_t index = k * (elements / std::min(elements, most)), place = 0;
      for (int i = a.shape.rank() - 1; i >= 0; --i) {
        place += index % a.shape[i] * a.strides[i];
        index /= a.shape[i];
      }
      std::uint32_t bits = 0;
      std::memcpy(&bits, a.data + place * static_cast<std::int64_t>(sizeof bits), sizeof bits);
      digest.add(bits);
    }
  }
  return digest.value();
}

void FunctionDataset::read(std::int64_t index, void* const* dst) const {
  const nb::gil_scoped_acquire acquire;
  const nb::object sample = function_(index);
  if (!PySequence_Check(sample.ptr()) || nb::len(sample) != fields_.size())
    refuse("{}: sample {} is {}. Expected a sequence of {} arrays", description_, index, nb::repr(sample).c_str(),
           fields_.size());
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const auto what = fmt::format("{} of sample {}", fields_[f].name, index);
    auto array = host_array(sample[f], what);
    require_dtype(array, fields_[f].dtype, what);
    if (!(array.shape == fields_[f].shape))
      refuse("{} has the shape {}. Expected {}, as in sample 0", what, shape_text(array.shape),
             shape_text(fields_[f].shape));
    // As a batch of one sample.
    Shape shape{1}, strides{array.shape.elements()};
    for (int i = 0; i < array.shape.rank(); ++i) {
      shape.push_back(array.shape[i]);
      strides.push_back(array.strides[i]);
    }
    array.shape = shape;
    array.strides = strides;
    copy_dense(array, 0, is_channels_last(fields_[f].shape), dst[f]);
  }
}

namespace {

/// Samples of a function, read while others wait for them.
class AwaitedDataset final : public Dataset {
 public:
  AwaitedDataset(std::shared_ptr<Dataset> data, const Turns& turns) : data_(std::move(data)), turns_(turns) {}
  std::int64_t size() const override { return data_->size(); }
  const std::vector<Field>& fields() const override { return data_->fields(); }
  void read(std::int64_t index, void* const* dst) const override {
    const Turns::Awaited awaited(turns_);
    data_->read(index, dst);
  }
  std::string describe() const override { return data_->describe(); }
  std::uint64_t digest() const override { return data_->digest(); }

 private:
  std::shared_ptr<Dataset> data_;
  const Turns& turns_;
};

}  // namespace

std::shared_ptr<Dataset> read_for(const NetworkParameters& parameters, std::shared_ptr<Dataset> data) {
  if (!dynamic_cast<const FunctionDataset*>(data.get())) return data;
  return std::make_shared<AwaitedDataset>(std::move(data), parameters.turns);
}

bool reads_in_order(const Dataset& data) {
  const auto* samples = dynamic_cast<const FunctionDataset*>(&data);
  return samples && samples->in_order();
}

std::shared_ptr<Dataset> dataset_of(nb::handle given) {
  if (given.is_none()) return nullptr;
  if (std::shared_ptr<Dataset> data; nb::try_cast(given, data)) return data;
  return nb::cast<std::shared_ptr<Dataset>>(nb::module_::import_("keelson.data").attr("as_dataset")(given));
}

void bind_data(nb::module_& m) {
  nb::class_<Dataset>(m, "Dataset", "Samples by index. Trainers read them in their own threads.")
      .def("__len__", &Dataset::size)
      .def(
          "__getitem__",
          [](const Dataset& data, std::int64_t index) {
            if (index < 0) index += data.size();
            if (index < 0 || index >= data.size()) throw nb::index_error("no such sample");
            nb::dict sample;
            std::vector<void*> dst;
            for (const auto& f : data.fields()) {
              // (1, C, spatial...) channels-last is what read() writes. The ellipsis keeps an array of a single number,
              // which would else become a number of its own before it is read.
              Shape shape{1};
              for (const auto extent : f.shape) shape.push_back(extent);
              sample[f.name.c_str()] = new_array(shape, f.dtype, is_channels_last(f.shape),
                                                 &dst.emplace_back())[nb::make_tuple(0, nb::ellipsis())];
            }
            const nb::gil_scoped_release release;
            data.read(index, dst.data());
            return sample;
          },
          nb::arg("index"), nb::sig("def __getitem__(self, index: int) -> dict[str, numpy.typing.NDArray]"),
          "A sample, as arrays by field: (C, [D,] H, W), channels-last in memory.")
      .def_prop_ro(
          "fields",
          [](const Dataset& data) {
            nb::dict fields;
            for (const auto& f : data.fields())
              fields[f.name.c_str()] = nb::make_tuple(f.shape, std::string(numpy_name(f.dtype)));
            return fields;
          },
          nb::sig("def fields(self) -> dict[str, tuple[tuple[int, ...], str]]"),
          "Shape of a sample, and dtype, of each field, by the name of the graph input that it feeds.")
      .def("__repr__", [](const Dataset& data) { return fmt::format("<keelson.data: {}>", data.describe()); });

  nb::class_<ArrayDataset, Dataset>(
      m, "ArrayDataset",
      "Samples in arrays in memory: NumPy arrays, or objects with __dlpack__ or a buffer. The arrays are not "
      "copied.\n\n"
      "ArrayDataset(x=images, y=targets) or ArrayDataset({'x': images, 'y': targets}): float32, or int32 for class\n"
      "numbers and tokens; dimensions are logical, (N, C, [D,] H, W), in any memory order. Arrays whose "
      "memory\n"
      "is channels-last (keelson.empty, numpy.moveaxis) are read fastest.")
      .def(
          "__init__",
          [](ArrayDataset* self, const nb::dict& arrays, const nb::kwargs& more) {
            nb::dict all;
            all.update(arrays);
            all.update(more);
            new (self) ArrayDataset(all);
          },
          nb::arg("arrays") = nb::dict(), nb::arg("kwargs"),
          nb::sig("def __init__(self, arrays: dict = {}, /, **kwargs) -> None"));

  nb::class_<FunctionDataset, Dataset>(
      m, "FunctionDataset",
      "Samples that a function reads: read(i) returns a sequence of arrays, one per\n"
      "field. fields: (name, shape of a sample, dtype) of each. The function is called\n"
      "in threads of the trainer. in_order: True: samples are read in the order 0, 1, 2 ...")
      .def(
          "__init__",
          [](FunctionDataset* self, nb::callable read, std::int64_t size,
             const std::vector<std::tuple<std::string, Shape, std::string>>& fields, const std::string& description,
             bool in_order) {
            std::vector<Field> all;
            for (const auto& [name, shape, dtype] : fields)
              all.push_back({name, shape, input_dtype("dtype of " + name, dtype)});
            new (self) FunctionDataset(std::move(read), size, std::move(all), description, in_order);
          },
          nb::arg("read"), nb::arg("size"), nb::arg("fields"), nb::arg("description") = "samples of a function",
          nb::arg("in_order") = false);
  m.def(
      "empty",
      [](const Shape& shape, const std::string& dtype, bool channels_last) {
        void* data = nullptr;
        return new_array(shape, input_dtype("dtype", dtype), channels_last, &data);
      },
      nb::arg("shape"), nb::arg("dtype") = "float32", nb::kw_only(), nb::arg("channels_last") = true,
      nb::sig(
          "def empty(shape: collections.abc.Sequence[int], dtype: str = 'float32', *, channels_last: bool = True) -> "
          "numpy.typing.NDArray"),
      "A NumPy array, 64-byte aligned, not initialised. Its dimensions are logical, (N, C, [D,] H, W); with\n"
      "channels_last the channels are contiguous in memory, and trainers and inferences read it without a copy.");
}

}  // namespace keelson::python
