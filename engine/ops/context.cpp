#include "engine/ops/context.hpp"

#include <fmt/ranges.h>

#include <cstdio>

#include "engine/base/verbose.hpp"
#include "engine/ops/combine.hpp"

namespace keelson {

Tensor Context::allocate(const TensorDesc& desc, const std::string& label) {
  auto memory = device_->allocate(desc.bytes(), label);
  auto* data = memory.get();
  return Tensor(desc, data, std::move(memory));
}

std::string Context::describe() const {
  std::vector<std::string_view> names;
  for (const auto& f : factories_)
    if (f->has_makers()) names.push_back(f->name());
  return fmt::format("{}; backends {}", device_->describe(), fmt::join(names, ", "));
}

void Context::write_plain(const Tensor& dst, const float* host) {
  KEELSON_EXPECT(dst.dtype() == DType::f32 || is_half(dst.dtype()));
  const auto plain = TensorDesc::plain(dst.shape());
  if (dst.desc() == plain) return device_->copy_from_host(dst.raw(), host, dst.bytes());
  const auto staged = allocate(plain, "write_plain");
  device_->copy_from_host(staged.raw(), host, staged.bytes());
  reorder(staged, dst);
}

void Context::read_plain(const Tensor& src, float* host) {
  KEELSON_EXPECT(src.dtype() == DType::f32);
  const auto plain = TensorDesc::plain(src.shape());
  if (src.layout().is_strided() && src.layout() == plain.layout)
    return device_->copy_to_host(host, src.raw(), src.bytes());
  const auto staged = allocate(plain, "read_plain");
  reorder(src, staged);
  device_->copy_to_host(host, staged.raw(), staged.bytes());
}

void Context::reorder(const Tensor& src, const Tensor& dst) {
  const auto op = make(ops::ReorderDesc{src.desc(), dst.desc()});
  const auto scratch_bytes = static_cast<std::int64_t>(op->scratch_bytes(ops::Verb::forward));
  Tensor scratch;
  if (scratch_bytes > 0) scratch = allocate(TensorDesc::plain({scratch_bytes}, DType::u8), "reorder scratch");
  op->forward({src, dst, scratch});
  device_->fence();
}

void Context::tell(const std::string& remark, const std::string& op) {
  if (on_remark_ && told_.insert(remark).second) on_remark_(fmt::format("{} (first: {})", remark, op));
}

void Context::report(const std::string& op, const ops::Primitive& taken_by, const std::string& declined) const {
  if (!verbose()) return;
  fmt::print(stderr, "keelson: {}: {} ({}){}{}\n", op, taken_by.backend(), taken_by.name(ops::Verb::forward),
             declined.empty() ? "" : "; declined: ", declined);
}

}  // namespace keelson
