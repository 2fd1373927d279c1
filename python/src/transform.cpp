#include "transform.hpp"

#include <fmt/format.h>

#include <cstring>

#include "casters.hpp"
#include "engine/base/philox.hpp"
#include "engine/data/dataset.hpp"

namespace keelson::python {
namespace {

Shape one_sample(const Shape& shape) {
  Shape one{1};
  for (const auto extent : shape) one.push_back(extent);
  return one;
}

/// A number of 62 bits, which numpy.random.default_rng() takes.
std::uint64_t seed_of(const SampleId& id) {
  const philox::Key key{id.seed, philox::stream_of("transform of Python"), static_cast<std::uint64_t>(id.epoch)};
  const auto word = [&](std::uint64_t half) {
    return philox::below(key, 2 * static_cast<std::uint64_t>(id.index) + half, 1u << 31);
  };
  return (std::uint64_t{word(0)} << 31) | word(1);
}

}  // namespace

FunctionTransform::FunctionTransform(nb::callable function, const Turns& turns)
    : function_(std::move(function)), turns_(turns) {
  const auto part = [&](const char* name) {
    return nb::hasattr(function_, name) ? text_of(function_.attr(name)) : text_of(function_.type().attr(name));
  };
  description_ = fmt::format("{}.{}", part("__module__"), part("__qualname__"));
}

FunctionTransform::~FunctionTransform() {
  const nb::gil_scoped_acquire acquire;
  function_.reset();
}

void FunctionTransform::apply(const SampleId& id, const std::vector<Field>& fields, void* const* sample) const {
  const Turns::Awaited awaited(turns_);
  const nb::gil_scoped_acquire acquire;
  nb::dict arrays;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const Shape shape = one_sample(fields[f].shape);
    void* data = nullptr;
    const nb::object array = new_array(shape, fields[f].dtype, shape.rank() >= 4, &data);
    std::memcpy(data, sample[f], static_cast<std::size_t>(shape.elements()) * size_of(fields[f].dtype));
    arrays[fields[f].name.c_str()] = array[nb::make_tuple(0, nb::ellipsis())];
  }
  const nb::object result = function_(arrays, seed_of(id));
  nb::dict changed;
  if (!nb::try_cast(result, changed))
    refuse("transform {} returned a {} for sample {}. Expected a dict of the changed arrays by field", description_,
           nb::type_name(result.type()).c_str(), id.index);
  std::size_t found = 0;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const Field& field = fields[f];
    if (!changed.contains(field.name.c_str())) continue;
    ++found;
    const auto what = fmt::format("{} of sample {}, as transform {} returned it,", field.name, id.index, description_);
    auto array = host_array(changed[field.name.c_str()], what);
    require_dtype(array, field.dtype, what);
    if (!(array.shape == field.shape))
      refuse("{} has the shape {}. Expected {}", what, shape_text(array.shape), shape_text(field.shape));
    Shape strides{array.shape.elements()};
    for (const auto stride : array.strides) strides.push_back(stride);
    array.shape = one_sample(array.shape);
    array.strides = strides;
    copy_dense(array, 0, array.shape.rank() >= 4, sample[f]);
  }
  if (found != changed.size())
    refuse("transform {} returned the fields {}. Expected only fields that the training data have", description_,
           text_of(changed.keys()));
}

std::shared_ptr<SampleTransform> transform_of(nb::handle given, const Turns& turns) {
  if (given.is_none()) return nullptr;
  if (std::shared_ptr<SampleTransform> known; nb::try_cast(given, known)) return known;
  if (PyCallable_Check(given.ptr()) == 0)
    refuse("transform is a {}. Expected a keelson.data.SampleTransform or a function of a sample and a seed",
           nb::type_name(given.type()).c_str());
  return std::make_shared<FunctionTransform>(nb::borrow<nb::callable>(given), turns);
}

}  // namespace keelson::python
