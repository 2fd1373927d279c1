#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/process_grid.hpp"
#include "engine/graph/layer.hpp"
#include "engine/plan/parts.hpp"

namespace keelson {

/// The exchange that gives each rank along an axis the rows that it wants of a value, along one dimension.
struct RowExchange {
  ValueParts value;          ///< how the ranks hold the value
  std::vector<Rows> wanted;  ///< per part: rows that its rank wants; rows beyond the edges become zeros
  int rank = 0;              ///< number of this rank's part
  int step = 1;              ///< ranks along the axis from one part to the next
  int dim = 2;               ///< the dimension that counts rows
  ProcessGrid::Axis axis = ProcessGrid::Axis::space;  ///< whose ranks exchange
  bool of_channels = false;                           ///< rows are channels: dim is 1
  std::string reader;                                 ///< the node that reads the rows, for messages: "conv2"
};

/// The layer of a node that makes an exchange (spatial_parts()). The source is what this rank holds of the value, the
/// result is what the rank wants. Backward sends the gradient of each row that has come from another rank back to that
/// rank, which adds it: its own term first, then those of the others by rank. Gradients of rows beyond the edges are
/// dropped.
std::shared_ptr<const Layer> row_exchange_layer(RowExchange exchange);

}  // namespace keelson
