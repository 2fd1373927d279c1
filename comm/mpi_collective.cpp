#include "comm/detail/mpi_collective.hpp"

#include <algorithm>
#include <exception>

#include "comm/detail/job_end.hpp"
#include "comm/detail/mpi_support.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {

MpiCollective::MpiCollective(MpiCommunicator& owner, std::size_t pieces, std::string label)
    : owner_(owner), label_(std::move(label)) {
  requests_.resize(pieces, MPI_REQUEST_NULL);
  owner_.active_.reserve(++owner_.made_);
}

MpiCollective::~MpiCollective() {
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

void MpiCollective::start() {
  KEELSON_EXPECT(!active_);
  number_ = ++owner_.calls_;
  for (std::size_t i = 0; i < requests_.size(); ++i) start_piece(i, requests_[i]);
  done_ = 0;
  active_ = true;
  owner_.active_.push_back(this);
}

bool MpiCollective::test() {
  if (!active_) return true;
  for (; done_ < requests_.size(); ++done_) {
    int done = 0;
    check(MPI_Test(&requests_[done_], &done, MPI_STATUS_IGNORE), "a collective call", label_);
    if (!done) return false;
  }
  finish();
  return true;
}

void MpiCollective::wait() {
  if (!active_) return;
  owner_.complete(std::span(requests_).subspan(done_), label_, number_);
  finish();
}

void MpiCollective::finish() {
  active_ = false;
  std::erase(owner_.active_, this);
}

MpiAllreduce::MpiAllreduce(MpiCommunicator& owner, void* data, std::size_t count, MPI_Datatype type, std::string label)
    : MpiCollective(owner, (count + piece - 1) / piece, std::move(label)),
      data_(static_cast<char*>(data)),
      count_(count),
      type_(type) {
  int bytes = 0;
  MPI_Type_size(type, &bytes);
  size_ = static_cast<std::size_t>(bytes);
}

void MpiAllreduce::start_piece(std::size_t i, MPI_Request& request) {
  const std::size_t begin = i * piece, count = std::min(piece, count_ - begin);
  check(MPI_Iallreduce(MPI_IN_PLACE, data_ + begin * size_, static_cast<int>(count), type_, MPI_SUM, comm(), &request),
        "MPI_Iallreduce", label());
}

MpiAllgather::MpiAllgather(MpiCommunicator& owner, const void* mine, void* all, std::size_t bytes, std::string label)
    : MpiCollective(owner, 1, std::move(label)), mine_(mine), all_(all), bytes_(bytes) {
  if (bytes_ > piece) fail("cannot gather {} bytes per rank at once ({}); {} at most", bytes_, this->label(), piece);
}

void MpiAllgather::start_piece(std::size_t, MPI_Request& request) {
  const auto count = static_cast<int>(bytes_);
  check(MPI_Iallgather(mine_, count, MPI_BYTE, all_, count, MPI_BYTE, comm(), &request), "MPI_Iallgather", label());
}

}  // namespace keelson::comm::detail
