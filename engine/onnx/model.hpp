#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "engine/graph/layer.hpp"

/// An ONNX model before it is written (github.com/onnx/onnx docs/IR.md).
namespace keelson::onnx {

/// Opset: the operators are those of this version of ONNX' default domain.
inline constexpr std::int64_t opset_version = 17;
/// Version of the file format; the one that belongs to the opset.
inline constexpr std::int64_t ir_version = 8;

/// A setting of an operator.
struct Attribute {
  std::string name;                                                                   ///< "strides"
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>> value{};  ///< one of ONNX' types
};

/// One entry for each dimension of a shape, as attributes and integer operands have them.
inline std::vector<std::int64_t> integers_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

/// Settings of operators with a window: of a shape, from place to place, with elements around the source.
std::vector<Attribute> window_attributes(const Shape& kernel, const Shape& stride, const Shape& pad_begin,
                                         const Shape& pad_end);

/// An operator with the names of the values that it reads and makes.
struct Operator {
  std::string name;                   ///< that of its first result
  std::string type;                   ///< "Conv"
  std::vector<std::string> inputs;    ///< empty: an optional input that is left out
  std::vector<std::string> outputs;   ///< each value is made by one operator
  std::vector<Attribute> attributes;  ///< those that are not ONNX' defaults
};

/// A value with its shape.
struct Value {
  std::string name;  ///< unique in the model
  ValueShape shape;  ///< for one sample; the dimension batch_axis is symbolic in the file
  std::string doc;   ///< for people
};
/// What the dimension batch_axis is called in the file: "batch", or "20*batch" where a sample makes 20 rows.
std::string batch_symbol(const ValueShape& shape);
/// "x: f32 (batch, 4, 128)", for people.
std::string to_string(const Value& value);

/// A constant tensor in row-major order.
struct Initializer {
  std::string name;                ///< unique in the model
  std::vector<std::int64_t> dims;  ///< extents; empty: a scalar
  /// int64 values, or a function that makes f32 values. The function is called while the file is written.
  std::variant<std::vector<std::int64_t>, std::function<std::vector<float>()>> values;
};

/// All of a model file. Operators come after those whose results they read.
struct Model {
  std::string name;                             ///< of the graph
  std::string doc;                              ///< for people
  std::map<std::string, std::string> metadata;  ///< texts for programs
  std::vector<Value> inputs;                    ///< what the caller gives
  std::vector<Value> outputs;                   ///< what the caller gets
  std::vector<Value> values;                    ///< others whose shapes are known
  std::vector<Operator> operators;              ///< in order
  std::vector<Initializer> initializers;        ///< weights and other constants

  /// Removes operators whose results nobody reads, then constants and shapes that no operator names.
  void remove_unused();
};

}  // namespace keelson::onnx
