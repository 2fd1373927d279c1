#include "comm/detail/mpi_allreduce.hpp"

#include <algorithm>
#include <exception>

#include "comm/detail/mpi_support.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {

MpiAllreduce::MpiAllreduce(MpiCommunicator& owner, void* data, std::size_t count, MPI_Datatype type, std::string label)
    : owner_(owner), data_(static_cast<char*>(data)), count_(count), type_(type), label_(std::move(label)) {
  requests_.resize((count + piece - 1) / piece, MPI_REQUEST_NULL);
  owner_.active_.reserve(++owner_.made_);
}

MpiAllreduce::~MpiAllreduce() {
  --owner_.made_;
  if (!active_) return;
  // A collective cannot be cancelled, and while an exception passes the other ranks may never take part: waiting could
  // last for ever.
  if (std::uncaught_exceptions() > 0 || !mpi_running()) {
    leave_unfinished();
    std::erase(owner_.active_, this);
    return;
  }
  try {
    wait();
  } catch (const Error&) {
    leave_unfinished();
    std::erase(owner_.active_, this);
  }
}

void MpiAllreduce::start() {
  KEELSON_EXPECT(!active_);
  int bytes = 0;
  MPI_Type_size(type_, &bytes);
  number_ = ++owner_.calls_;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const std::size_t begin = i * piece, count = std::min(piece, count_ - begin);
    check(MPI_Iallreduce(MPI_IN_PLACE, data_ + begin * static_cast<std::size_t>(bytes), static_cast<int>(count), type_,
                         MPI_SUM, owner_.comm_, &requests_[i]),
          "MPI_Iallreduce", label_);
  }
  done_ = 0;
  active_ = true;
  owner_.active_.push_back(this);
}

bool MpiAllreduce::test() {
  if (!active_) return true;
  for (; done_ < requests_.size(); ++done_) {
    int done = 0;
    check(MPI_Test(&requests_[done_], &done, MPI_STATUS_IGNORE), "MPI_Iallreduce", label_);
    if (!done) return false;
  }
  finish();
  return true;
}

void MpiAllreduce::wait() {
  if (!active_) return;
  owner_.complete(std::span(requests_).subspan(done_), label_, number_);
  finish();
}

void MpiAllreduce::finish() {
  active_ = false;
  std::erase(owner_.active_, this);
}

}  // namespace keelson::comm::detail
