#include "backends/kokkos/conv_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <vector>

#include "backends/kokkos/common.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/unpooled_conv.hpp"
#include "backends/kokkos/winograd.hpp"
#include "engine/base/algorithm_chooser.hpp"
#include "engine/base/align.hpp"
#include "engine/ops/pool.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

constexpr std::array<Verb, 3> all_verbs = {Verb::forward, Verb::backward_data, Verb::backward_weights};

std::size_t number(Verb v) { return static_cast<std::size_t>(v); }

bool wanted(const ConvDesc& d, Verb v) {
  if (v == Verb::forward) return true;
  return d.training && (v == Verb::backward_data ? d.diff_src : d.diff_weights);
}

/// Hands out parts of memory that was taken for a trial.
class TrialMemory {
 public:
  explicit TrialMemory(const std::shared_ptr<void>& memory) : memory_(memory) {}
  Tensor take(const TensorDesc& d) {
    auto* const part = static_cast<std::byte*>(memory_.get()) + used_;
    used_ += align64(d.bytes());
    return Tensor(d, part);
  }
  Tensor take_bytes(std::size_t count) {
    return count == 0 ? Tensor() : take(TensorDesc::plain({static_cast<std::int64_t>(count)}, DType::u8));
  }

 private:
  std::shared_ptr<void> memory_;
  std::size_t used_ = 0;
};

/// Bytes that TrialMemory hands out for these parts.
std::size_t aligned_sum(std::initializer_list<std::size_t> parts) {
  std::size_t sum = 0;
  for (const auto bytes : parts) sum += align64(bytes);
  return sum;
}

/// The number of the fastest candidate; the first one's where nothing is measured or memory for that is missing.
/// run(i, memory) runs candidate i, bytes(i) says how much memory that takes, fill(memory) is called first.
template <class Bytes, class Run>
std::size_t choose(
    Device& device, const std::string& key, const std::vector<std::string>& names, const Bytes& bytes, const Run& run,
    const std::function<void(void*)>& fill = [](void*) {}) {
  AlgorithmChooser* const chooser = device.chooser();
  if (!chooser) return 0;
  std::shared_ptr<void> memory;
  const auto prepare = [&] {
    std::size_t most = 0;
    for (std::size_t i = 0; i < names.size(); ++i) most = std::max(most, bytes(i));
    memory = device.allocate(most, "operands to time algorithms on");
    fill(memory.get());
  };
  return chooser->choose(key, space().concurrency(), names, {[&](std::size_t i) { run(i, memory); }, prepare});
}

/// One primitive per verb; a primitive may serve several.
class MixedConv final : public Conv {
 public:
  using Ways = std::array<std::shared_ptr<Conv>, 3>;
  explicit MixedConv(Ways ways) : ways_(std::move(ways)) {}

  Layout layout(Verb v, Role r) const override { return way(v).layout(v, r); }
  std::string name(Verb v) const override { return way(v).name(v); }
  std::size_t scratch_bytes(Verb v) const override { return way(v).scratch_bytes(v); }
  Cost cost(Verb v) const override { return way(v).cost(v); }

  void forward(const Forward<ops::Tensors>& args) override { way(Verb::forward).forward(args); }
  void backward_data(const BackwardData<ops::Tensors>& args) override { way(Verb::backward_data).backward_data(args); }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    way(Verb::backward_weights).backward_weights(args);
  }

 private:
  Conv& way(Verb v) const { return *ways_[number(v)]; }
  Ways ways_;
};

/// The operands of one verb as `op` wants them.
struct ConvOperands {
  TensorDesc src, weights, bias, dst;
  std::size_t scratch;

  ConvOperands(const Conv& op, const ConvDesc& d, Verb v)
      : src(v == Verb::backward_data ? Conv::diff_src_desc(d) : d.src),
        weights(v == Verb::backward_weights ? Conv::diff_weights_desc(d) : d.weights),
        bias(Conv::bias_desc(d)),
        dst(v == Verb::forward ? d.dst : Conv::diff_dst_desc(d)),
        scratch(op.scratch_bytes(v)) {
    src.layout = op.layout(v, v == Verb::backward_data ? Role::diff_src : Role::src);
    weights.layout = op.layout(v, v == Verb::backward_weights ? Role::diff_weights : Role::weights);
    dst.layout = op.layout(v, v == Verb::forward ? Role::dst : Role::diff_dst);
  }
  std::size_t bytes() const { return aligned_sum({src.bytes(), weights.bytes(), bias.bytes(), dst.bytes(), scratch}); }
};

void run_verb(Conv& op, const ConvDesc& d, Verb v, const std::shared_ptr<void>& memory) {
  const ConvOperands o(op, d, v);
  TrialMemory m(memory);
  const Tensor src = m.take(o.src), weights = m.take(o.weights), bias = m.take(o.bias), dst = m.take(o.dst),
               scratch = m.take_bytes(o.scratch);
  if (v == Verb::forward)
    op.forward({src, weights, d.params.bias ? bias : Tensor(), dst, scratch});
  else if (v == Verb::backward_data)
    op.backward_data({dst, weights, src, scratch});
  else
    op.backward_weights({src, dst, weights, d.writes_diff_bias() ? bias : Tensor(), scratch});
}

/// What can make the verb: the rule of thumb's choice first.
std::vector<ConvWay> ways_of(const ConvDesc& d, Verb v, const std::shared_ptr<Conv>& direct,
                             const std::vector<ConvWay>& further) {
  const int guess = winograd_guess(d, v);
  std::vector<ConvWay> ways;
  const auto add = [&](const ConvWay& way) {
    if (way.verb == v && std::none_of(ways.begin(), ways.end(), [&](const ConvWay& w) { return w.name == way.name; }))
      ways.push_back(way);
  };
  const auto made = [&](std::shared_ptr<Conv> conv) {
    std::string name = conv->name(v);
    return ConvWay{v, std::move(name), [conv = std::move(conv)] { return conv; }};
  };
  const auto add_winograd = [&](int m) {
    if (auto conv = make_winograd_conv(d, v, m); conv.primitive) add(made(std::move(conv.primitive)));
  };
  if (guess) add_winograd(guess);
  add(made(direct));
  for (const ConvWay& way : further) add(way);
  for (const int m : winograd_sizes)
    if (m != guess) add_winograd(m);
  return ways;
}

std::shared_ptr<Conv> fastest_verb(const std::vector<ConvWay>& ways, const ConvDesc& d, Verb v, Device& device) {
  std::vector<std::string> names;
  for (const auto& way : ways) names.push_back(way.name);
  std::vector<std::shared_ptr<Conv>> made(ways.size());
  const auto conv = [&](std::size_t i) -> const std::shared_ptr<Conv>& {
    return made[i] ? made[i] : made[i] = ways[i].make();
  };
  const auto best = choose(
      device, fmt::format("{} {}", describe(d), to_string(v)), names,
      [&](std::size_t i) { return ConvOperands(*conv(i), d, v).bytes(); },
      [&](std::size_t i, const std::shared_ptr<void>& memory) { run_verb(*conv(i), d, v, memory); });
  return conv(best);
}

/// The operands of a convolution with pooling as `op` wants them.
struct PooledOperands {
  TensorDesc src, weights, bias, dst;
  std::size_t workspace, scratch;

  PooledOperands(const ConvMaxPoolForward& op, const ConvMaxPoolForwardDesc& d)
      : src(d.conv.src.with(op.layout(Verb::forward, Role::src))),
        weights(d.conv.weights.with(op.layout(Verb::forward, Role::weights))),
        bias(d.bias_desc()),
        dst(d.dst.with(op.layout(Verb::forward, Role::dst))),
        workspace(d.training ? op.workspace_bytes() : 0),
        scratch(op.scratch_bytes(Verb::forward)) {}
  std::size_t bytes() const {
    return aligned_sum({src.bytes(), weights.bytes(), bias.bytes(), dst.bytes(), workspace, scratch});
  }
};

void run_pooled(ConvMaxPoolForward& op, const ConvMaxPoolForwardDesc& d, const std::shared_ptr<void>& memory) {
  const PooledOperands o(op, d);
  TrialMemory m(memory);
  const Tensor src = m.take(o.src), weights = m.take(o.weights), bias = m.take(o.bias), dst = m.take(o.dst),
               workspace = m.take_bytes(o.workspace), scratch = m.take_bytes(o.scratch);
  op.forward({src, weights, d.conv.params.bias ? bias : Tensor(), dst, workspace, scratch});
}

/// The operands of one verb of the gradient behind max pooling as `op` wants them.
struct UnpooledOperands {
  TensorDesc places, src, weights, bias, dst;
  std::size_t scratch;

  UnpooledOperands(const ConvMaxPoolBackward& op, const ConvMaxPoolDesc& d, Verb v)
      : places(TensorDesc::plain({d.dst.elements()}, DType::u8)),
        src(d.src.with(op.layout(v, v == Verb::backward_data ? Role::diff_src : Role::src))),
        weights(d.weights.with(op.layout(v, v == Verb::backward_weights ? Role::diff_weights : Role::weights))),
        bias(d.bias_desc()),
        dst(d.dst.with(op.layout(v, Role::diff_dst))),
        scratch(op.scratch_bytes(v)) {}
  std::size_t bytes() const {
    return aligned_sum({places.bytes(), src.bytes(), weights.bytes(), bias.bytes(), dst.bytes(), scratch});
  }
};

void run_unpooled(ConvMaxPoolBackward& op, const ConvMaxPoolDesc& d, Verb v, const std::shared_ptr<void>& memory) {
  const UnpooledOperands o(op, d, v);
  TrialMemory m(memory);
  const Tensor places = m.take(o.places), src = m.take(o.src), weights = m.take(o.weights), bias = m.take(o.bias),
               dst = m.take(o.dst), scratch = m.take_bytes(o.scratch);
  if (v == Verb::backward_data)
    op.backward_data({dst, places, weights, src, scratch});
  else
    op.backward_weights({src, dst, places, weights, d.conv.bias ? bias : Tensor(), scratch});
}

/// The largest elements of windows are anywhere: where they are decides how fast the sparse gradients are.
void scatter_places(const ConvMaxPoolDesc& d, void* memory) {
  auto* const places = static_cast<std::uint8_t*>(memory);
  const auto count = static_cast<std::uint32_t>(d.pool.kernel.elements());
  std::minstd_rand chance;
  for (std::int64_t i = 0; i < d.dst.elements(); ++i) places[i] = static_cast<std::uint8_t>((chance() >> 8) % count);
}

/// One primitive per verb.
class MixedConvMaxPool final : public ConvMaxPoolBackward {
 public:
  using Way = std::shared_ptr<ConvMaxPoolBackward>;
  MixedConvMaxPool(Way data, Way weights) : data_(std::move(data)), weights_(std::move(weights)) {}

  Layout layout(Verb v, Role r) const override { return way(v).layout(v, r); }
  std::string name(Verb v) const override { return way(v).name(v); }
  std::size_t scratch_bytes(Verb v) const override { return way(v).scratch_bytes(v); }
  Cost cost(Verb v) const override { return way(v).cost(v); }
  void backward_data(const BackwardData<ops::Tensors>& args) override { data_->backward_data(args); }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override { weights_->backward_weights(args); }

 private:
  ConvMaxPoolBackward& way(Verb v) const { return v == Verb::backward_data ? *data_ : *weights_; }
  Way data_, weights_;
};

std::shared_ptr<ConvMaxPoolBackward> fastest_verb(const std::shared_ptr<ConvMaxPoolBackward>& by_argmax,
                                                  const ConvMaxPoolDesc& d, Verb v, const backends::TileMakers& makers,
                                                  Device& device) {
  std::vector<std::shared_ptr<ConvMaxPoolBackward>> ways{by_argmax};
  for (const int m : winograd_sizes)
    if (auto made = make_winograd_max_pool_backward(d, v, m); made.primitive) ways.push_back(std::move(made.primitive));
  if (auto made = make_unpooled_conv(d, v, makers); made.primitive) ways.push_back(std::move(made.primitive));
  std::vector<std::string> names;
  for (const auto& way : ways) names.push_back(way->name(v));
  const auto best = choose(
      device, fmt::format("{} {}", describe(d), to_string(v)), names,
      [&](std::size_t i) { return UnpooledOperands(*ways[i], d, v).bytes(); },
      [&](std::size_t i, const std::shared_ptr<void>& memory) { run_unpooled(*ways[i], d, v, memory); },
      [&](void* memory) { scatter_places(d, memory); });
  return ways[best];
}

/// The convolution and the pooling one after the other, with the result between them in scratch memory.
class ConvThenMaxPool final : public ConvMaxPoolForward {
 public:
  ConvThenMaxPool(const ConvMaxPoolForwardDesc& d, std::unique_ptr<Conv> conv, std::unique_ptr<Pool> pool)
      : d_(d), conv_(std::move(conv)), pool_(std::move(pool)) {}

  Layout layout(Verb v, Role r) const override { return r == Role::dst ? pool_->layout(v, r) : conv_->layout(v, r); }
  std::string name(Verb v) const override { return conv_->name(v) + ", then " + pool_->name(v); }
  Cost cost(Verb v) const override {
    const Cost a = conv_->cost(v), b = pool_->cost(v);
    return {a.flops + b.flops, a.bytes + b.bytes};
  }
  std::size_t workspace_bytes() const override { return pool_->workspace_bytes(); }
  std::size_t scratch_bytes(Verb v) const override { return align64(d_.conv.dst.bytes()) + conv_->scratch_bytes(v); }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, workspace, scratch] = args;
    auto* const at = static_cast<std::byte*>(scratch.raw());
    const Tensor between(d_.conv.dst, at);
    const auto rest = static_cast<std::int64_t>(conv_->scratch_bytes(Verb::forward));
    conv_->forward(
        {src, weights, bias, between,
         rest > 0 ? Tensor(TensorDesc::plain({rest}, DType::u8), at + align64(d_.conv.dst.bytes())) : Tensor()});
    pool_->forward({between, dst, workspace});
  }

 private:
  ConvMaxPoolForwardDesc d_;
  std::unique_ptr<Conv> conv_;
  std::unique_ptr<Pool> pool_;
};

/// Null where the makers have no such primitives.
std::unique_ptr<ConvMaxPoolForward> make_conv_then_max_pool(const ConvMaxPoolForwardDesc& d,
                                                            const backends::TileMakers& makers) {
  ConvDesc c = d.conv;
  c.training = false;
  auto conv = makers.conv(c);
  if (!conv.primitive) return nullptr;
  auto pool = makers.pool(PoolDesc{d.pool, c.dst, d.dst, d.training});
  if (!pool.primitive) return nullptr;
  const bool one_byte_each = pool.primitive->workspace_bytes() == static_cast<std::size_t>(d.dst.elements());
  if (d.training && !one_byte_each) return nullptr;  // the gradients read argmax indices of one byte
  return std::make_unique<ConvThenMaxPool>(d, std::move(conv.primitive), std::move(pool.primitive));
}

}  // namespace

std::vector<ConvWay> ways_by(std::shared_ptr<Conv> conv, const ConvDesc& d) {
  std::vector<ConvWay> ways;
  for (const Verb v : all_verbs)
    if (wanted(d, v)) ways.push_back({v, conv->name(v), [conv] { return conv; }});
  return ways;
}

std::unique_ptr<Conv> fastest_conv(std::unique_ptr<Conv> direct, const ConvDesc& desc,
                                   const std::vector<ConvWay>& further, Device& device) {
  ConvDesc d = desc;
  d.src.layout = direct->layout(Verb::forward, Role::src);
  d.dst.layout = direct->layout(Verb::forward, Role::dst);
  if ((d.src.dtype != DType::f32 && d.src.dtype != DType::bf16) || !d.src.layout.is_channels_last(d.src.shape) ||
      !d.dst.layout.is_channels_last(d.dst.shape))
    return direct;
  // All verbs read and write weights as the direct forward pass has them, where others can: then none is reordered.
  if (const auto l = direct->layout(Verb::forward, Role::weights); d.weights.layout.is_any() && l.is_strided())
    d.weights.layout = l;
  const std::shared_ptr<Conv> made = std::move(direct);
  MixedConv::Ways ways;
  for (const Verb v : all_verbs) {
    ways[number(v)] = made;
    if (!wanted(d, v)) continue;
    ways[number(v)] = fastest_verb(ways_of(d, v, made, further), d, v, device);
    if (v == Verb::forward && d.weights.layout.is_any())
      if (const auto l = ways[0]->layout(v, Role::weights); l.is_strided()) d.weights.layout = l;
  }
  return std::make_unique<MixedConv>(std::move(ways));
}

Expected<ConvMaxPoolBackward> fastest_conv_max_pool_backward(const ConvMaxPoolDesc& desc,
                                                             const backends::TileMakers& makers, Device& device) {
  auto by_argmax = make(desc);
  if (!runs_on_host || !by_argmax.primitive) return by_argmax;
  const std::shared_ptr<ConvMaxPoolBackward> made = std::move(by_argmax.primitive);
  backends::TileMakers same_tiles = makers;  // on ranks with any number of threads
  same_tiles.tile_bytes = backends::tile_bytes(1);
  ConvMaxPoolDesc d = desc;
  for (const auto& [t, role] : {std::pair{&d.src, Role::src}, {&d.weights, Role::weights}, {&d.dst, Role::dst}})
    t->layout = made->layout(Verb::backward_weights, role);
  auto weights = fastest_verb(made, d, Verb::backward_weights, same_tiles, device);
  auto data = d.diff_src ? fastest_verb(made, d, Verb::backward_data, same_tiles, device) : made;
  return std::unique_ptr<ConvMaxPoolBackward>(std::make_unique<MixedConvMaxPool>(std::move(data), std::move(weights)));
}

Expected<ConvMaxPoolForward> fastest_conv_max_pool(const ConvMaxPoolForwardDesc& d, const backends::TileMakers& makers,
                                                   Device& device) {
  std::vector<std::unique_ptr<ConvMaxPoolForward>> ways;
  const int guess = winograd_guess(d.conv, Verb::forward);
  const auto add_winograd = [&](bool guessed) {
    for (const int m : winograd_sizes)
      if ((m == guess) == guessed)
        if (auto made = make_winograd_conv_max_pool(d, m); made.primitive) ways.push_back(std::move(made.primitive));
  };
  add_winograd(true);
  const std::size_t direct = ways.size();
  add_winograd(false);
  auto tiled = backends::make_depth_tiled_conv(d, makers);
  const bool f32 = d.conv.src.dtype == DType::f32;
  if (f32 && ways.empty()) return tiled;
  auto other = tiled.primitive ? std::move(tiled.primitive) : make_conv_then_max_pool(d, makers);
  if (!f32 && !other) return tiled;  // rounded operands are of use only to those who multiply them faster
  if (other) ways.insert(ways.begin() + static_cast<std::ptrdiff_t>(direct), std::move(other));
  std::vector<std::string> names;
  for (const auto& way : ways) names.push_back(way->name(Verb::forward));
  const auto best = choose(
      device, describe(d), names, [&](std::size_t i) { return PooledOperands(*ways[i], d).bytes(); },
      [&](std::size_t i, const std::shared_ptr<void>& memory) { run_pooled(*ways[i], d, memory); });
  return std::move(ways[best]);
}

}  // namespace keelson::kokkos
