#pragma once

#include "engine/plan/program.hpp"

namespace keelson {

/// Trades time for memory (Chen et al. 2016, arXiv 1604.06174; for DenseNet: Pleiss et al. 2017, arXiv 1707.06990): a
/// value that the backward pass reads and that a cheap op makes (normalisation with known statistics, an activation,
/// dropout, concatenation, a change of layout) is not kept from the forward pass on, but made again right before the
/// backward pass first reads it. That is done if the op's sources are there anyway at that time, or can be made
/// again themselves. All results stay the same, bit for bit. Call this when forward and backward calls are complete,
/// before Program::place().
void recompute_cheap_values(Program& program);

}  // namespace keelson
