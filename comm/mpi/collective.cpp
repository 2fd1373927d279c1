#include "comm/mpi/collective.hpp"

#include <exception>

#include "comm/mpi/calls.hpp"
#include "comm/mpi/support.hpp"
#include "comm/watch/job_end.hpp"
#include "engine/base/backoff.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {

MpiCollective::MpiCollective(MpiCommunicator& owner, const CollectiveDesc& desc, std::unique_ptr<CollectiveWork> work)
    : owner_(owner),
      desc_(desc),
      message_(desc.point_to_point() ? owner.message_number(desc) : 0),
      work_(work ? std::move(work)
                 : std::make_unique<MpiCalls>(owner.comm_, desc, first_message_tag + message_, piece)),
      needs_driving_(work_->needs_driving()),
      generation_(owner.generation_) {
  wait_.label = desc_.label;
  if (desc_.point_to_point()) wait_.peer = desc_.peer;
  ActiveCollectives::reserve(1);
}

MpiCollective::MpiCollective(MpiCommunicator& owner, const CollectiveDesc& desc)
    : MpiCollective(owner, desc, nullptr) {}

MpiCollective::~MpiCollective() {
  if (desc_.point_to_point() && generation_ == owner_.generation_) owner_.messages_.give_back(desc_, message_);
  if (active_) end();
  ActiveCollectives::reserve(-1);
}

/// A collective cannot be cancelled, and while an exception passes the other ranks may never take part. Waiting could
/// then last for ever.
void MpiCollective::end() {
  try {
    if (std::uncaught_exceptions() == 0 && mpi_running()) return wait();
  } catch (const Error&) {
  }
  if (owner_.end_if_lost()) return;
  leave_unfinished();
  finish();
}

void MpiCollective::start() {
  KEELSON_EXPECT(!active_);
  if (generation_ != owner_.generation_)
    throw RanksLost(fmt::format("{} belongs to a group of ranks, and some of its ranks were lost", desc_.label));
  if (!desc_.point_to_point()) wait_.number = ++owner_.calls_;  // all ranks have the same numbers
  active_ = true;
  ActiveCollectives::add(*this);
  work_->start();
}

bool MpiCollective::test() {
  if (!active_) return true;
  if (work_->advance() != CollectiveWork::Progress::done) return false;
  finish();
  return true;
}

void MpiCollective::wait() {
  if (!active_) return;
  if (desc_.point_to_point()) wait_.number = owner_.calls_;
  Wait wait = wait_;
  Backoff backoff;
  for (auto progress = work_->advance(); progress != CollectiveWork::Progress::done; progress = work_->advance()) {
    if (progress == CollectiveWork::Progress::some) backoff = {};
    ActiveCollectives::advance();
    if (const double seconds = backoff(); seconds >= Backoff::late) owner_.stall_detector_->poll(wait, seconds);
  }
  finish();
}

void MpiCollective::abandon() {
  work_->abandon();
  finish();
}

void MpiCollective::finish() {
  active_ = false;
  ActiveCollectives::remove(*this);
}

void MpiCollective::run_blocking() {
  KEELSON_EXPECT(!active_ && !desc_.point_to_point());
  wait_.number = ++owner_.calls_;
  MPI_Request all_here = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(owner_.comm_, &all_here), "MPI_Ibarrier", desc_.label);
  owner_.complete({&all_here, 1}, wait_);
  dynamic_cast<MpiCalls&>(*work_).run_blocking();
}

}  // namespace keelson::comm::detail
