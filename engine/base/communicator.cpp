#include "engine/base/communicator.hpp"

#include <fmt/format.h>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

using Kind = CollectiveDesc::Kind;
using Element = CollectiveDesc::Element;

}  // namespace

std::string Communicator::name() const { return fmt::format("{} ({})", number(), host()); }

ProgressEngine& Communicator::progress() {
  static ProgressEngine none;
  return none;
}

Watchdog& Communicator::watchdog() {
  static Watchdog none;
  return none;
}

std::unique_ptr<Collective> Communicator::make_collective(const CollectiveDesc& desc) {
  KEELSON_EXPECT(desc.sums() == (desc.element != Element::byte));
  if (desc.point_to_point() && desc.peer < 0) return make_local_collective(desc, {});
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
