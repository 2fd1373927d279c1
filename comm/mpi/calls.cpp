#include "comm/mpi/calls.hpp"

#include <algorithm>

#include "comm/mpi/support.hpp"
#include "comm/watch/job_end.hpp"
#include "engine/base/backoff.hpp"
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

/// A type of `count` bytes with a stride of `stride` bytes: a piece of each rank's part of an array.
MPI_Datatype make_part_type(std::size_t count, std::size_t stride) {
  MPI_Datatype bytes = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
  check(MPI_Type_contiguous(static_cast<int>(count), MPI_BYTE, &bytes), "MPI_Type_contiguous");
  check(MPI_Type_create_resized(bytes, 0, static_cast<MPI_Aint>(stride), &type), "MPI_Type_create_resized");
  MPI_Type_free(&bytes);
  check(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

}  // namespace

MpiCalls::MpiCalls(MPI_Comm comm, const CollectiveDesc& desc, int tag, std::size_t piece)
    : comm_(comm),
      desc_(desc),
      tag_(tag),
      type_(mpi_type(desc.element)),
      piece_(piece),
      pieces_per_part_((desc.count + piece_ - 1) / piece_) {
  MPI_Comm_size(comm_, &size_);
  requests_.resize(pieces(), MPI_REQUEST_NULL);
  if (requests_.size() > 1 && (desc_.kind == Kind::allgather || desc_.kind == Kind::all_to_all))
    for (std::size_t begin = 0; begin < desc_.count; begin += piece_)
      part_types_.push_back(make_part_type(std::min(piece_, desc_.count - begin), desc_.count));
}

MpiCalls::~MpiCalls() {
  if (!mpi_running() || left_unfinished()) return;
  for (MPI_Datatype& type : part_types_) MPI_Type_free(&type);
}

void MpiCalls::start() {
  done_ = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) check(call(i, requests_[i]), call_name(desc_.kind), desc_.label);
}

CollectiveWork::Progress MpiCalls::advance() {
  for (; done_ < requests_.size(); ++done_) {
    int done = 0;
    check(MPI_Test(&requests_[done_], &done, MPI_STATUS_IGNORE), "a collective call", desc_.label);
    if (!done) return Progress::none;
  }
  return Progress::done;
}

void MpiCalls::abandon() {
  constexpr double enough = 10;  // usually a moment is enough
  Backoff backoff;
  for (; done_ < requests_.size(); ++done_)
    for (int done = 0; MPI_Test(&requests_[done_], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done;)
      if (backoff() > enough) {
        leave_unfinished();
        fail("{}: MPI has not released the arrays within {} s after a rank was lost", desc_.label, enough);
      }
}

std::size_t MpiCalls::pieces() const {
  const auto size = static_cast<std::size_t>(size_);
  const bool by_root = desc_.kind == Kind::reduce_scatter && desc_.count * size > piece_;
  return by_root ? size * pieces_per_part_ : pieces_per_part_;
}

MpiCalls::Piece MpiCalls::piece_of(std::size_t i) const {
  const std::size_t begin = i % pieces_per_part_ * piece_, offset = begin * desc_.element_bytes();
  return {static_cast<const char*>(desc_.src) + offset, static_cast<char*>(desc_.dst) + offset,
          static_cast<int>(std::min(piece_, desc_.count - begin))};
}

int MpiCalls::call(std::size_t i, MPI_Request& request) {
  const auto [src, dst, count] = piece_of(i);
  switch (desc_.kind) {
    case Kind::allreduce:
      return MPI_Iallreduce(MPI_IN_PLACE, dst, count, type_, MPI_SUM, comm_, &request);
    case Kind::reduce_scatter: {
      if (requests_.size() == 1) return MPI_Ireduce_scatter_block(src, dst, count, type_, MPI_SUM, comm_, &request);
      const std::size_t root =
          i / pieces_per_part_;  // MPI cannot reduce parts with gaps, so each rank's part is a separate reduction
      return MPI_Ireduce(src + root * desc_.bytes(), dst, count, type_, MPI_SUM, static_cast<int>(root), comm_,
                         &request);
    }
    case Kind::allgather:
      if (part_types_.empty()) return MPI_Iallgather(src, count, MPI_BYTE, dst, count, MPI_BYTE, comm_, &request);
      return MPI_Iallgather(src, count, MPI_BYTE, dst, 1, part_types_[i], comm_, &request);
    case Kind::all_to_all:
      if (part_types_.empty()) return MPI_Ialltoall(src, count, MPI_BYTE, dst, count, MPI_BYTE, comm_, &request);
      return MPI_Ialltoall(src, 1, part_types_[i], dst, 1, part_types_[i], comm_, &request);
    case Kind::broadcast:
      return MPI_Ibcast(dst, count, MPI_BYTE, desc_.peer, comm_, &request);
    case Kind::send:
      return MPI_Isend(src, count, MPI_BYTE, desc_.peer, tag_, comm_, &request);
    case Kind::receive:
      break;
  }
  return MPI_Irecv(dst, count, MPI_BYTE, desc_.peer, tag_, comm_, &request);
}

void MpiCalls::run_blocking() {
  KEELSON_EXPECT(!desc_.point_to_point());
  for (std::size_t i = 0; i < requests_.size(); ++i) check(blocking_call(i), blocking_name(desc_.kind), desc_.label);
}

int MpiCalls::blocking_call(std::size_t i) {
  const Piece p = piece_of(i);
  switch (desc_.kind) {
    case Kind::allreduce:
      return MPI_Allreduce(MPI_IN_PLACE, p.dst, p.count, type_, MPI_SUM, comm_);
    case Kind::reduce_scatter: {
      if (requests_.size() == 1) return MPI_Reduce_scatter_block(p.src, p.dst, p.count, type_, MPI_SUM, comm_);
      const std::size_t root = i / pieces_per_part_;
      return MPI_Reduce(p.src + root * desc_.bytes(), p.dst, p.count, type_, MPI_SUM, static_cast<int>(root), comm_);
    }
    case Kind::allgather:
      if (part_types_.empty()) return MPI_Allgather(p.src, p.count, MPI_BYTE, p.dst, p.count, MPI_BYTE, comm_);
      return MPI_Allgather(p.src, p.count, MPI_BYTE, p.dst, 1, part_types_[i], comm_);
    case Kind::all_to_all:
      if (part_types_.empty()) return MPI_Alltoall(p.src, p.count, MPI_BYTE, p.dst, p.count, MPI_BYTE, comm_);
      return MPI_Alltoall(p.src, 1, part_types_[i], p.dst, 1, part_types_[i], comm_);
    default:
      return MPI_Bcast(p.dst, p.count, MPI_BYTE, desc_.peer, comm_);
  }
}

}  // namespace keelson::comm::detail
