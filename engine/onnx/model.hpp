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
/// Version of the file format that belongs to the opset.
inline constexpr std::int64_t ir_version = 8;

/// A setting of an operator.
struct Attribute {
  std::string name;                                                                   ///< "strides"
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>> value{};  ///< one of ONNX' types
};

/// The extents of a shape, for attributes and integer operands.
inline std::vector<std::int64_t> integers_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

/// The attributes of operators with windows: shape of the window, step between windows, elements around the source.
std::vector<Attribute> window_attributes(const Shape& kernel, const Shape& stride, const Shape& pad_begin,
                                         const Shape& pad_end);

/// An operator with the names of the values that it reads and makes.
struct Operator {
  std::string name;                   ///< name of its first result
  std::string type;                   ///< "Conv"
  std::vector<std::string> inputs;    ///< empty: an optional input that is left out
  std::vector<std::string> outputs;   ///< each value is made by one operator
  std::vector<Attribute> attributes;  ///< attributes that differ from ONNX' defaults
};

/// A value with its shape.
struct Value {
  std::string name;  ///< unique in the model
  ValueShape shape;  ///< shape for one sample; the dimension batch_axis is symbolic in the file
  std::string doc;   ///< description for readers
};
/// The name of the dimension batch_axis in the file: "batch", or "20*batch" if a sample makes 20 rows.
std::string batch_symbol(const ValueShape& shape);
/// "x: f32 (batch, 4, 128)", for messages.
std::string to_string(const Value& value);

/// A constant tensor in row-major order.
struct Initializer {
  std::string name;                ///< unique in the model
  std::vector<std::int64_t> dims;  ///< extents; empty: a scalar
  /// int64 values, or a function that makes f32 values. The function is called while the file is written.
  std::variant<std::vector<std::int64_t>, std::function<std::vector<float>()>> values;
};

/// The contents of a model file. Each operator comes after the operators whose results it reads.
struct Model {
  std::string name;                             ///< name of the graph
  std::string doc;                              ///< description for readers
  std::map<std::string, std::string> metadata;  ///< texts for programs
  std::vector<Value> inputs;                    ///< values that the caller gives
  std::vector<Value> outputs;                   ///< values that the caller gets
  std::vector<Value> values;                    ///< other values with known shapes
  std::vector<Operator> operators;              ///< in order
  std::vector<Initializer> initializers;        ///< weights and other constants

  /// Removes operators whose results are not read, then constants and shapes that no operator uses.
  void remove_unused();
};

}  // namespace keelson::onnx
