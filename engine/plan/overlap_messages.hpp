#pragma once

#include "engine/plan/program.hpp"

namespace keelson {

/// Lets messages between neighbouring ranks travel while this rank computes weight gradients. In the backward pass a
/// layer makes the gradients of its weights and of its source; then the exchange of rows (row_exchange_layer()) sends
/// rows of the latter to other ranks, and waits for theirs. This pass moves the weight gradients, and what depends on
/// them, behind the starts of the exchange, right before its first wait. The calls and their operands stay the same,
/// and so do the results, bit for bit. Call this when forward and backward calls are complete, before
/// insert_collectives().
void overlap_messages(Program& program);

}  // namespace keelson
