#include "engine/base/communicator.hpp"

#include <fmt/format.h>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

using Kind = CollectiveDesc::Kind;
using Element = CollectiveDesc::Element;

/// To or from a neighbour that is no rank.
class NoMessage final : public Collective {
 public:
  void start() override {}
  bool test() override { return true; }
  void wait() override {}
};

}  // namespace

std::size_t CollectiveDesc::src_bytes(int rank, int size) const {
  switch (kind) {
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return bytes() * static_cast<std::size_t>(size);
    case Kind::broadcast:
      return rank == peer ? bytes() : 0;
    case Kind::receive:
      return 0;
    case Kind::allreduce:
    case Kind::allgather:
    case Kind::send:
      break;
  }
  return bytes();
}

std::size_t CollectiveDesc::dst_bytes(int rank, int size) const {
  switch (kind) {
    case Kind::allgather:
    case Kind::all_to_all:
      return bytes() * static_cast<std::size_t>(size);
    case Kind::broadcast:
      return rank == peer ? 0 : bytes();
    case Kind::send:
      return 0;
    case Kind::allreduce:
    case Kind::reduce_scatter:
    case Kind::receive:
      break;
  }
  return bytes();
}

bool Communicator::agree(bool good) {
  std::int64_t all = good ? 1 : 0;
  allreduce(&all, 1, Reduction::min);
  return all == 1;
}

std::string Communicator::name() const { return fmt::format("{} ({})", number(), host()); }

LostRanks Communicator::shrink() { fail("this group of ranks cannot go on without one of them"); }

std::unique_ptr<Collective> Communicator::make_collective(const CollectiveDesc& desc) {
  KEELSON_EXPECT(desc.sums() == (desc.element != Element::byte));
  if (desc.point_to_point() && desc.peer < 0) return std::make_unique<NoMessage>();
  if (desc.peer < 0 || desc.peer >= size())
    fail("{}: expected a rank from 0 to {}, found {}", desc.label, size() - 1, desc.peer);
  return implement(desc);
}

std::unique_ptr<Collective> Communicator::make_allreduce(float* data, std::size_t count, const std::string& label) {
  return make_collective({Kind::allreduce, data, data, count, Element::f32, 0, label});
}

std::unique_ptr<Collective> Communicator::make_allreduce(double* data, std::size_t count, const std::string& label) {
  return make_collective({Kind::allreduce, data, data, count, Element::f64, 0, label});
}

std::unique_ptr<Collective> Communicator::make_reduce_scatter(const float* src, float* dst, std::size_t count_per_rank,
                                                              const std::string& label) {
  return make_collective({Kind::reduce_scatter, src, dst, count_per_rank, Element::f32, 0, label});
}

std::unique_ptr<Collective> Communicator::make_allgather(const void* src, void* dst, std::size_t bytes_per_rank,
                                                         const std::string& label) {
  return make_collective({Kind::allgather, src, dst, bytes_per_rank, Element::byte, 0, label});
}

std::unique_ptr<Collective> Communicator::make_all_to_all(const void* src, void* dst, std::size_t bytes_per_pair,
                                                          const std::string& label) {
  return make_collective({Kind::all_to_all, src, dst, bytes_per_pair, Element::byte, 0, label});
}

std::unique_ptr<Collective> Communicator::make_broadcast(void* data, std::size_t bytes, int root,
                                                         const std::string& label) {
  return make_collective({Kind::broadcast, data, data, bytes, Element::byte, root, label});
}

std::unique_ptr<Collective> Communicator::make_send(const void* src, std::size_t bytes, int to,
                                                    const std::string& label) {
  return make_collective({Kind::send, src, nullptr, bytes, Element::byte, to, label});
}

std::unique_ptr<Collective> Communicator::make_receive(void* dst, std::size_t bytes, int from,
                                                       const std::string& label) {
  return make_collective({Kind::receive, nullptr, dst, bytes, Element::byte, from, label});
}

}  // namespace keelson
