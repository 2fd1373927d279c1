#include "engine/train/stop_vote.hpp"

namespace keelson {

StopVote::StopVote(Communicator* communicator, std::chrono::steady_clock::time_point start, double limit,
                   std::function<bool()> interrupted)
    : start_(start), limit_(limit), interrupted_(std::move(interrupted)) {
  regroup(communicator);
}

void StopVote::regroup(Communicator* communicator, std::size_t slack) {
  begun_ = 0;
  votes_.clear();
  votes_.resize(slack + 1);
  if (!communicator || communicator->size() == 1) return;
  for (Vote& v : votes_) v.sum = communicator->on_host().make_allreduce(v.counts, 4, "vote on ending the run");
}

void StopVote::wait() {
  for (const Vote& v : votes_)
    if (v.sum) v.sum->wait();
}

void StopVote::begin(double extra, bool failed, bool stopped) {
  const auto steps = static_cast<double>(votes_.size() + 1);  // until the decision is known, and one more
  const double needed = extra + steps * step_seconds_ + 1.5 * reserve_ + 0.01 * limit_;
  Vote& v = votes_[begun_++ % votes_.size()];
  v.counts[0] = limit_ > 0 && elapsed() + needed > limit_ ? 1 : 0;
  v.counts[1] = interrupted_ && interrupted_() ? 1 : 0;
  v.counts[2] = failed ? 1 : 0;
  v.counts[3] = stopped ? 1 : 0;
  if (v.sum) v.sum->start();
}

StopVote::Reason StopVote::end() {
  if (begun_ < votes_.size()) return Reason::none;
  const Vote& v = votes_[begun_ % votes_.size()];  // the oldest
  if (v.sum) v.sum->wait();
  if (v.counts[2] > 0) return Reason::failed;
  if (v.counts[1] > 0) return Reason::interrupted;
  if (v.counts[3] > 0) return Reason::stopped;
  return v.counts[0] > 0 ? Reason::time_limit : Reason::none;
}

}  // namespace keelson
