#include "engine/train/stop_vote.hpp"

namespace keelson {

StopVote::StopVote(Communicator* communicator, std::chrono::steady_clock::time_point start, double limit,
                   std::function<bool()> interrupted)
    : start_(start), limit_(limit), interrupted_(std::move(interrupted)) {
  regroup(communicator);
}

void StopVote::regroup(Communicator* communicator) {
  sum_.reset();
  if (communicator && communicator->size() > 1)
    sum_ = communicator->on_host().make_allreduce(votes_, 3, "vote on ending the run");
}

void StopVote::begin(double extra, bool failed) {
  const double needed = extra + 2 * step_seconds_ + 1.5 * reserve_ + 0.01 * limit_;
  votes_[0] = limit_ > 0 && elapsed() + needed > limit_ ? 1 : 0;
  votes_[1] = interrupted_ && interrupted_() ? 1 : 0;
  votes_[2] = failed ? 1 : 0;
  if (sum_) sum_->start();
}

StopVote::Reason StopVote::end() {
  if (sum_) sum_->wait();
  if (votes_[2] > 0) return Reason::failed;
  return votes_[1] > 0 ? Reason::interrupted : votes_[0] > 0 ? Reason::time_limit : Reason::none;
}

}  // namespace keelson
