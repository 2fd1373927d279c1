#include "engine/base/collective.hpp"

#include <utility>

namespace keelson {
namespace {

class LocalCollective final : public Collective {
 public:
  LocalCollective(const CollectiveDesc& desc, CopyFn copy) : desc_(desc), copy_(std::move(copy)) {}
  void start() override {
    if (desc_.src && desc_.dst && desc_.src != desc_.dst && desc_.count > 0) copy_(desc_.dst, desc_.src, desc_.bytes());
  }
  bool test() override { return true; }
  void wait() override {}

 private:
  CollectiveDesc desc_;
  CopyFn copy_;
};

}  // namespace

std::unique_ptr<Collective> make_local_collective(const CollectiveDesc& desc, CopyFn copy) {
  return std::make_unique<LocalCollective>(desc, std::move(copy));
}

bool CollectiveDesc::in_place(int size) const {
  const bool scatters = kind == Kind::reduce_scatter;
  if (!scatters && kind != Kind::allgather) return false;
  const auto* const whole = static_cast<const std::byte*>(scatters ? src : dst);
  const auto* const part = static_cast<const std::byte*>(scatters ? dst : src);
  return part >= whole && part < whole + bytes() * static_cast<std::size_t>(size);
}

std::size_t CollectiveDesc::src_bytes(int rank, int size) const {
  if (kind == Kind::receive || (kind == Kind::broadcast && rank != peer)) return 0;
  const bool per_rank = kind == Kind::reduce_scatter || kind == Kind::all_to_all;
  return bytes() * static_cast<std::size_t>(per_rank ? size : 1);
}

std::size_t CollectiveDesc::dst_bytes(int rank, int size) const {
  if (kind == Kind::send || (kind == Kind::broadcast && rank == peer)) return 0;
  const bool per_rank = kind == Kind::allgather || kind == Kind::all_to_all;
  return bytes() * static_cast<std::size_t>(per_rank ? size : 1);
}

}  // namespace keelson
