#include "engine/train/sync/loss_mean.hpp"

#include "engine/base/error.hpp"

namespace keelson {

LossMean::LossMean(Communicator& ranks, std::size_t most) : ranks_(ranks.size()), losses_(most) {
  for (double& loss : losses_) sums_.push_back(ranks.on_host().make_allreduce(&loss, 1, "loss of a step"));
}

void LossMean::post(double loss) {
  KEELSON_EXPECT(posted_ - taken_ < losses_.size());
  const std::size_t at = posted_++ % losses_.size();
  losses_[at] = loss / ranks_;
  sums_[at]->start();
}

double LossMean::take() {
  KEELSON_EXPECT(taken_ < posted_);
  const std::size_t at = taken_++ % losses_.size();
  sums_[at]->wait();
  return losses_[at];
}

}  // namespace keelson
