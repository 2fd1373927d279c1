#include "comm/detail/mpi_collective.hpp"

#include <algorithm>
#include <exception>

#include "comm/detail/job_end.hpp"
#include "comm/detail/mpi_support.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {

namespace {

using Kind = CollectiveDesc::Kind;
using Element = CollectiveDesc::Element;

MPI_Datatype mpi_type(Element element) {
  return element == Element::byte ? MPI_BYTE : element == Element::f32 ? MPI_FLOAT : MPI_DOUBLE;
}

const char* call_name(Kind kind) {
  switch (kind) {
    case Kind::allreduce:
      return "MPI_Iallreduce";
    case Kind::reduce_scatter:
      return "MPI_Ireduce_scatter_block";
    case Kind::allgather:
      return "MPI_Iallgather";
    case Kind::all_to_all:
      return "MPI_Ialltoall";
    case Kind::broadcast:
      return "MPI_Ibcast";
    case Kind::send:
      return "MPI_Isend";
    case Kind::receive:
      break;
  }
  return "MPI_Irecv";
}

const char* blocking_name(Kind kind) {
  switch (kind) {
    case Kind::allreduce:
      return "MPI_Allreduce";
    case Kind::reduce_scatter:
      return "MPI_Reduce_scatter_block";
    case Kind::allgather:
      return "MPI_Allgather";
    case Kind::all_to_all:
      return "MPI_Alltoall";
    default:
      return "MPI_Bcast";
  }
}

/// `count` bytes of which the next begin `stride` bytes later: a piece of each rank's part of an array.
MPI_Datatype make_part_type(std::size_t count, std::size_t stride) {
  MPI_Datatype bytes = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
  check(MPI_Type_contiguous(static_cast<int>(count), MPI_BYTE, &bytes), "MPI_Type_contiguous");
  check(MPI_Type_create_resized(bytes, 0, static_cast<MPI_Aint>(stride), &type), "MPI_Type_create_resized");
  MPI_Type_free(&bytes);
  check(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

}  // namespace

MpiCollective::MpiCollective(MpiCommunicator& owner, const CollectiveDesc& desc)
    : owner_(owner),
      desc_(desc),
      type_(mpi_type(desc.element)),
      piece_(piece),
      pieces_per_part_((desc.count + piece_ - 1) / piece_) {
  requests_.resize(pieces(), MPI_REQUEST_NULL);
  if (requests_.size() > 1 && (desc_.kind == Kind::allgather || desc_.kind == Kind::all_to_all))
    for (std::size_t begin = 0; begin < desc_.count; begin += piece_)
      part_types_.push_back(make_part_type(std::min(piece_, desc_.count - begin), desc_.count));
  wait_.label = desc_.label;
  if (desc_.point_to_point()) {
    wait_.peer = desc_.peer;
    message_ = owner_.message_number(desc_);
  }
  owner_.active_.reserve(++owner_.made_);
}

MpiCollective::~MpiCollective() {
  --owner_.made_;
  if (desc_.point_to_point()) owner_.messages_.give_back(desc_, message_);
  if (active_) end();
  if (!mpi_running() || left_unfinished()) return;
  for (MPI_Datatype& type : part_types_) MPI_Type_free(&type);
}

/// A collective cannot be cancelled, and while an exception passes the other ranks may never take part: waiting could
/// last for ever.
void MpiCollective::end() {
  try {
    if (std::uncaught_exceptions() == 0 && mpi_running()) return wait();
  } catch (const Error&) {
  }
  leave_unfinished();
  std::erase(owner_.active_, this);
}

void MpiCollective::start() {
  KEELSON_EXPECT(!active_);
  if (!desc_.point_to_point()) wait_.number = ++owner_.calls_;  // counted alike on all ranks
  for (std::size_t i = 0; i < requests_.size(); ++i) check(call(i, requests_[i]), call_name(desc_.kind), desc_.label);
  done_ = 0;
  active_ = true;
  owner_.active_.push_back(this);
}

bool MpiCollective::test() {
  if (!active_) return true;
  for (; done_ < requests_.size(); ++done_) {
    int done = 0;
    check(MPI_Test(&requests_[done_], &done, MPI_STATUS_IGNORE), "a collective call", desc_.label);
    if (!done) return false;
  }
  finish();
  return true;
}

void MpiCollective::wait() {
  if (!active_) return;
  if (desc_.point_to_point()) wait_.number = owner_.calls_;
  owner_.complete(std::span(requests_).subspan(done_), wait_);
  finish();
}

void MpiCollective::finish() {
  active_ = false;
  std::erase(owner_.active_, this);
}

std::size_t MpiCollective::pieces() const {
  const auto size = static_cast<std::size_t>(owner_.size_);
  const bool by_root = desc_.kind == Kind::reduce_scatter && desc_.count * size > piece_;
  return by_root ? size * pieces_per_part_ : pieces_per_part_;
}

MpiCollective::Piece MpiCollective::piece_of(std::size_t i) const {
  const std::size_t begin = i % pieces_per_part_ * piece_, offset = begin * desc_.element_bytes();
  return {static_cast<const char*>(desc_.src) + offset, static_cast<char*>(desc_.dst) + offset,
          static_cast<int>(std::min(piece_, desc_.count - begin))};
}

int MpiCollective::call(std::size_t i, MPI_Request& request) {
  const auto [src, dst, count] = piece_of(i);
  const MPI_Comm comm = owner_.comm_;
  const int tag = first_message_tag + message_;
  switch (desc_.kind) {
    case Kind::allreduce:
      return MPI_Iallreduce(MPI_IN_PLACE, dst, count, type_, MPI_SUM, comm, &request);
    case Kind::reduce_scatter: {
      if (requests_.size() == 1) return MPI_Ireduce_scatter_block(src, dst, count, type_, MPI_SUM, comm, &request);
      const std::size_t root = i / pieces_per_part_;  // MPI reduces no parts with gaps: each rank's part by itself
      return MPI_Ireduce(src + root * desc_.bytes(), dst, count, type_, MPI_SUM, static_cast<int>(root), comm,
                         &request);
    }
    case Kind::allgather:
      if (part_types_.empty()) return MPI_Iallgather(src, count, MPI_BYTE, dst, count, MPI_BYTE, comm, &request);
      return MPI_Iallgather(src, count, MPI_BYTE, dst, 1, part_types_[i], comm, &request);
    case Kind::all_to_all:
      if (part_types_.empty()) return MPI_Ialltoall(src, count, MPI_BYTE, dst, count, MPI_BYTE, comm, &request);
      return MPI_Ialltoall(src, 1, part_types_[i], dst, 1, part_types_[i], comm, &request);
    case Kind::broadcast:
      return MPI_Ibcast(dst, count, MPI_BYTE, desc_.peer, comm, &request);
    case Kind::send:
      return MPI_Isend(src, count, MPI_BYTE, desc_.peer, tag, comm, &request);
    case Kind::receive:
      break;
  }
  return MPI_Irecv(dst, count, MPI_BYTE, desc_.peer, tag, comm, &request);
}

void MpiCollective::run_blocking() {
  KEELSON_EXPECT(!active_ && !desc_.point_to_point());
  wait_.number = ++owner_.calls_;
  MPI_Request all_here = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(owner_.comm_, &all_here), "MPI_Ibarrier", desc_.label);
  owner_.complete({&all_here, 1}, wait_);
  for (std::size_t i = 0; i < requests_.size(); ++i) check(blocking_call(i), blocking_name(desc_.kind), desc_.label);
}

int MpiCollective::blocking_call(std::size_t i) {
  const Piece p = piece_of(i);
  const MPI_Comm comm = owner_.comm_;
  switch (desc_.kind) {
    case Kind::allreduce:
      return MPI_Allreduce(MPI_IN_PLACE, p.dst, p.count, type_, MPI_SUM, comm);
    case Kind::reduce_scatter: {
      if (requests_.size() == 1) return MPI_Reduce_scatter_block(p.src, p.dst, p.count, type_, MPI_SUM, comm);
      const std::size_t root = i / pieces_per_part_;
      return MPI_Reduce(p.src + root * desc_.bytes(), p.dst, p.count, type_, MPI_SUM, static_cast<int>(root), comm);
    }
    case Kind::allgather:
      if (part_types_.empty()) return MPI_Allgather(p.src, p.count, MPI_BYTE, p.dst, p.count, MPI_BYTE, comm);
      return MPI_Allgather(p.src, p.count, MPI_BYTE, p.dst, 1, part_types_[i], comm);
    case Kind::all_to_all:
      if (part_types_.empty()) return MPI_Alltoall(p.src, p.count, MPI_BYTE, p.dst, p.count, MPI_BYTE, comm);
      return MPI_Alltoall(p.src, 1, part_types_[i], p.dst, 1, part_types_[i], comm);
    default:
      return MPI_Bcast(p.dst, p.count, MPI_BYTE, desc_.peer, comm);
  }
}

}  // namespace keelson::comm::detail
