#include "engine/onnx/model.hpp"

#include <algorithm>
#include <set>

namespace keelson::onnx {

std::vector<Attribute> window_attributes(const Shape& kernel, const Shape& stride, const Shape& pad_begin,
                                         const Shape& pad_end) {
  auto pads = integers_of(pad_begin);
  pads.insert(pads.end(), pad_end.begin(), pad_end.end());
  return {{"kernel_shape", integers_of(kernel)}, {"strides", integers_of(stride)}, {"pads", std::move(pads)}};
}

std::string batch_symbol(const ValueShape& shape) {
  const std::int64_t rows = shape.rows_per_sample();
  return rows == 1 ? "batch" : fmt::format("{}*batch", rows);
}

std::string to_string(const Value& value) {
  std::string dims;
  for (int i = 0; i < value.shape.shape.rank(); ++i) {
    if (i > 0) dims += ", ";
    dims += i == value.shape.batch_axis ? batch_symbol(value.shape) : std::to_string(value.shape.shape[i]);
  }
  return fmt::format("{}: {} ({})", value.name, to_string(value.shape.dtype), dims);
}

void Model::remove_unused() {
  std::set<std::string> used;
  for (const Value& v : outputs) used.insert(v.name);
  std::vector<Operator> kept;
  for (auto op = operators.rbegin(); op != operators.rend(); ++op) {
    if (std::ranges::none_of(op->outputs, [&](const std::string& name) { return used.contains(name); })) continue;
    used.insert(op->inputs.begin(), op->inputs.end());
    kept.push_back(std::move(*op));
  }
  operators.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  std::set<std::string> made;
  for (const Operator& op : operators) made.insert(op.outputs.begin(), op.outputs.end());
  std::erase_if(initializers, [&](const Initializer& i) { return !used.contains(i.name); });
  std::erase_if(values, [&](const Value& v) { return !made.contains(v.name); });
}

}  // namespace keelson::onnx
