#include "engine/train/sync/block_sum.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace keelson {

BlockSum::BlockSum(Communicator& ranks, const Tensor& block, std::size_t piece_bytes, const std::string& label) {
  const auto all = static_cast<std::size_t>(block.elements()),
             piece = std::max<std::size_t>(1, piece_bytes / sizeof(float)), count = (all + piece - 1) / piece;
  for (std::size_t i = 0; i < count; ++i)
    pieces_.push_back(ranks.make_allreduce(block.data<float>() + i * piece, std::min(piece, all - i * piece),
                                           fmt::format("{}, part {} of {}", label, i + 1, count)));
}

void BlockSum::start() {
  for (const auto& p : pieces_) p->start();
}

void BlockSum::wait() {
  for (const auto& p : pieces_) p->wait();
}

}  // namespace keelson
