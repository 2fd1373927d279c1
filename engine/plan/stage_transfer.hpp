#pragma once

#include <memory>
#include <string>

#include "engine/graph/layer.hpp"

/// Layers of plans for stages (stage_parts()): values go to the next stage, and their gradients come back.
///
/// A message has a buffer of its own outside the arena. All micro-batches that are in flight share it: a rank waits for
/// the last send from the buffer before it fills the buffer again. Values travel in f32 or as integers, 4-D and 5-D
/// ones channels-last, others plain.
namespace keelson {

/// A value that goes to another stage.
struct StageTransfer {
  std::string name;             ///< of the value, for messages
  ValueShape shape;             ///< for one sample
  int from = 0, to = 1;         ///< the stages
  bool wants_gradient = false;  ///< the value's gradient comes back in the backward pass
};

/// Sends its source to the next stage. Backward, receives the gradient.
std::shared_ptr<const Layer> send_layer(StageTransfer transfer);
/// Makes the value that the stage before sends; without sources. Backward, sends the gradient.
std::shared_ptr<const Layer> receive_layer(StageTransfer transfer);

}  // namespace keelson
