#include "tests/support/tensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "engine/tensor/half.hpp"

namespace keelson::testing {

namespace {

constexpr std::size_t guard_bytes = 4096;  // a multiple of the alignment that primitives ask for
constexpr unsigned char guard_value = 0xa5;

/// Fails the test if a guard, `bytes` before or behind an operand, has changed.
void expect_unchanged(Device& device, const unsigned char* guard, const char* where, const TensorDesc& desc) try {
  std::vector<unsigned char> now(guard_bytes);
  device.fence();
  device.copy_to_host(now.data(), guard, now.size());
  const auto changed = std::ranges::find_if(now, [](unsigned char c) { return c != guard_value; });
  EXPECT_EQ(changed, now.end()) << "a primitive wrote " << where << " an operand of " << to_string(desc) << " (byte "
                                << changed - now.begin() << " of " << guard_bytes << ")";
} catch (const std::exception& e) {
  ADD_FAILURE() << e.what();  // called by a destructor
}

/// A tensor of zeros between two guards. The test fails when the memory is released if a primitive wrote to a guard.
Tensor allocate(Context& context, const TensorDesc& desc) {
  const std::size_t bytes = desc.bytes();
  const Tensor memory = context.allocate(
      TensorDesc::plain({static_cast<std::int64_t>(bytes + 2 * guard_bytes)}, DType::u8), "test operand");
  auto* before = static_cast<unsigned char*>(memory.raw());
  auto* data = before + guard_bytes;
  const std::vector<unsigned char> guard(guard_bytes, guard_value);
  context.device().copy_from_host(before, guard.data(), guard.size());
  context.device().copy_from_host(data + bytes, guard.data(), guard.size());
  const std::shared_ptr<void> owner(data, [memory, before, desc, device = &context.device()](void* operand) {
    expect_unchanged(*device, before, "before", desc);
    expect_unchanged(*device, static_cast<unsigned char*>(operand) + desc.bytes(), "behind", desc);
  });
  return {desc, data, owner};
}

Tensor put_raw(Context& context, const TensorDesc& desc, const void* data) {
  Tensor t = allocate(context, desc);
  context.device().copy_from_host(t.raw(), data, t.bytes());
  return t;
}

template <class T>
std::vector<T> cast(const Array& a) {
  return std::vector<T>(a.data.begin(), a.data.end());
}

/// Converts f32 to a 16-bit type or back, by the context's own reorder.
void convert(Context& context, const Tensor& src, const Tensor& dst) {
  const auto op = context.make(ops::ReorderDesc{src.desc(), dst.desc()});
  op->forward({src, dst, scratch(context, op->scratch_bytes(ops::Verb::forward))});
  context.device().fence();
}

}  // namespace

Tensor put(Context& context, const Array& a, const Layout& layout, DType type) {
  const Tensor t = allocate(context, {a.shape, type, layout});
  const auto values = cast<float>(a);
  if (type == DType::f32) {
    context.write_plain(t, values.data());
  } else {
    const auto plain = TensorDesc::plain(a.shape);
    convert(context, put_raw(context, plain, values.data()), t);
  }
  return t;
}

Tensor destination(Context& context, const Shape& shape, const Layout& layout, DType type) {
  return put(context, Array(shape, type == DType::f16 ? 6e4 : 3e33), layout, type);
}

Array get(Context& context, const Tensor& t) {
  std::vector<float> values(static_cast<std::size_t>(t.elements()));
  context.device().fence();
  if (t.dtype() == DType::f32) {
    context.read_plain(t, values.data());
  } else {
    const Tensor plain = context.allocate(TensorDesc::plain(t.shape()), "test result");
    convert(context, t, plain);
    context.read_plain(plain, values.data());
  }
  return {t.shape(), std::vector<double>(values.begin(), values.end())};
}

Array rounded(Array a, DType type) {
  for (auto& v : a.data) {
    const auto x = static_cast<float>(v);
    v = type == DType::bf16 ? to_float(to_bf16(x)) : type == DType::f16 ? to_float(to_f16(x)) : x;
  }
  return a;
}

Tensor put_classes(Context& context, const Array& classes) {
  return put_raw(context, TensorDesc::plain(classes.shape, DType::s32), cast<std::int32_t>(classes).data());
}

Array get_s32(Context& context, const Tensor& t) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(t.elements()));
  context.device().fence();
  context.device().copy_to_host(values.data(), t.raw(), t.bytes());
  return {t.shape(), std::vector<double>(values.begin(), values.end())};
}

Tensor put_f64(Context& context, const Array& a) {
  return put_raw(context, TensorDesc::plain(a.shape, DType::f64), a.data.data());
}

Array get_f64(Context& context, const Tensor& t) {
  Array a(t.shape());
  context.device().fence();
  context.device().copy_to_host(a.data.data(), t.raw(), t.bytes());
  return a;
}

Tensor put_step_params(Context& context, const ops::StepParams& step_params) {
  return put_raw(context, TensorDesc::plain({sizeof step_params}, DType::u8), &step_params);
}

Tensor put_loss_scale(Context& context, const ops::LossScale& scale) {
  return put_raw(context, TensorDesc::plain({sizeof scale}, DType::u8), &scale);
}

Tensor scratch(Context& context, std::size_t bytes) {
  if (bytes == 0) return {};
  const std::vector<unsigned char> garbage(bytes, 0xff);
  return put_raw(context, TensorDesc::plain({static_cast<std::int64_t>(bytes)}, DType::u8), garbage.data());
}

std::vector<unsigned char> raw_bytes(Context& context, const Tensor& t) {
  std::vector<unsigned char> bytes(t.bytes());
  context.device().fence();
  context.device().copy_to_host(bytes.data(), t.raw(), bytes.size());
  return bytes;
}

std::int64_t dirty_padding(Context& context, const Tensor& t) {
  const auto bytes = raw_bytes(context, t);
  std::int64_t stored = 0, logical = 0;
  for (std::size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
    float v;
    std::memcpy(&v, &bytes[i], sizeof v);
    if (!(v == 0)) ++stored;
  }
  const Array logical_values = get(context, t);
  for (double v : logical_values.data)
    if (!(v == 0)) ++logical;
  return stored - logical;
}

}  // namespace keelson::testing
