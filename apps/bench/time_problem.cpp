#include "apps/bench/time_problem.hpp"

#include <chrono>

#include "engine/base/philox.hpp"

namespace keelson::bench {
namespace {

using ops::Role;
using ops::Verb;

/// Times verbs of one primitive.
class Stopwatch {
 public:
  Stopwatch(Context& context, const ops::Primitive& op, const Repeats& repeats)
      : context_(context), op_(op), repeats_(repeats) {}

  /// Memory for an operand, filled with numbers in [-1/2, 1/2) that differ between roles.
  Tensor operand(Verb verb, Role role, const Shape& shape) { return filled(shape, op_.layout(verb, role)); }

  Tensor filled(const Shape& shape, const Layout& layout) {
    const Tensor t = context_.allocate({shape, DType::f32, layout}, "operand");
    std::vector<float> values(static_cast<std::size_t>(t.elements()));
    const philox::Key key{1, stream_++, 0};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = philox::uniform(key, i) - 0.5f;
    context_.write_plain(t, values.data());
    return t;
  }

  Tensor bytes(std::size_t count) {
    if (count == 0) return {};
    return context_.allocate(TensorDesc::plain({static_cast<std::int64_t>(count)}, DType::u8), "bytes");
  }
  Tensor zeros(const Shape& shape, const Layout& layout) {
    return context_.allocate({shape, DType::f32, layout}, "operand");
  }
  Tensor state(const ops::StepParams& values) {
    const auto t = bytes(sizeof values);
    context_.device().copy_from_host(t.raw(), &values, sizeof values);
    return t;
  }
  Tensor scratch(Verb verb) { return bytes(op_.scratch_bytes(verb)); }

  template <class Run>
  void time(const std::string& name, Verb verb, const Run& run) {
    using clock = std::chrono::steady_clock;
    std::vector<double> seconds;
    for (int i = -repeats_.warmup; i < repeats_.timed; ++i) {
      context_.device().fence();
      const auto start = clock::now();
      run();
      context_.device().fence();
      if (i >= 0) seconds.push_back(std::chrono::duration<double>(clock::now() - start).count());
    }
    times.push_back(
        {name, std::string(op_.backend_of(verb)), op_.name(verb), op_.cost(verb), summarize(std::move(seconds))});
  }

  std::vector<VerbTime> times;

 private:
  Context& context_;
  const ops::Primitive& op_;
  Repeats repeats_;
  std::uint32_t stream_ = 0;
};

/// Times Conv, TransposedConv and Dense.
template <class Desc>
void run_weighted(Stopwatch& w, const Desc& d, typename Desc::Op& op) {
  const Shape bias{d.dst.shape[1]};
  {
    const auto v = Verb::forward;
    const auto src = w.operand(v, Role::src, d.src.shape), weights = w.operand(v, Role::weights, d.weights.shape);
    const auto dst = w.operand(v, Role::dst, d.dst.shape), scratch = w.scratch(v);
    const auto b = d.params.bias ? w.operand(v, Role::bias, bias) : Tensor();
    w.time("forward", v, [&] { op.forward({src, weights, b, dst, scratch}); });
  }
  {
    const auto v = Verb::backward_data;
    const auto diff_dst = w.operand(v, Role::diff_dst, d.dst.shape);
    const auto weights = w.operand(v, Role::weights, d.weights.shape);
    const auto diff_src = w.operand(v, Role::diff_src, d.src.shape), scratch = w.scratch(v);
    w.time("backward data", v, [&] { op.backward_data({diff_dst, weights, diff_src, scratch}); });
  }
  const auto v = Verb::backward_weights;
  const auto src = w.operand(v, Role::src, d.src.shape), diff_dst = w.operand(v, Role::diff_dst, d.dst.shape);
  const auto diff_weights = w.operand(v, Role::diff_weights, d.weights.shape), scratch = w.scratch(v);
  const auto diff_bias = d.writes_diff_bias() ? w.operand(v, Role::diff_bias, bias) : Tensor();
  w.time("backward weights", v, [&] { op.backward_weights({src, diff_dst, diff_weights, diff_bias, scratch}); });
}

void run(Stopwatch& w, const ops::ConvDesc& d, ops::Conv& op) { run_weighted(w, d, op); }
void run(Stopwatch& w, const ops::TransposedConvDesc& d, ops::TransposedConv& op) { run_weighted(w, d, op); }
void run(Stopwatch& w, const ops::DenseDesc& d, ops::Dense& op) { run_weighted(w, d, op); }

void run(Stopwatch& w, const ops::PoolDesc& d, ops::Pool& op) {
  const auto workspace = w.bytes(op.workspace_bytes());
  {
    const auto v = Verb::forward;
    const auto src = w.operand(v, Role::src, d.src.shape), dst = w.operand(v, Role::dst, d.dst.shape);
    w.time("forward", v, [&] { op.forward({src, dst, workspace}); });
  }
  const auto v = Verb::backward_data;  // reads the argmax indices that forward left in the workspace
  const auto diff_dst = w.operand(v, Role::diff_dst, d.dst.shape), diff_src = w.operand(v, Role::diff_src, d.src.shape);
  const auto scratch = w.scratch(v);
  w.time("backward", v, [&] { op.backward_data({diff_dst, workspace, diff_src, scratch}); });
}

void run(Stopwatch& w, const ops::EltwiseDesc& d, ops::Eltwise& op) {
  const auto a = w.filled(d.src.shape, d.src.layout), b = w.filled(d.src.shape, d.src.layout);
  w.time("forward", Verb::forward, [&] { op.forward({a, b}); });
  const auto diff_src = w.filled(d.src.shape, d.src.layout);
  const auto& saved = derivative_from_dst(d.params) ? b : a;
  w.time("backward", Verb::backward_data, [&] { op.backward_data({a, saved, diff_src}); });
}

void run(Stopwatch& w, const ops::ProductDesc& d, ops::Product& op) {
  std::vector<Tensor> srcs;
  for (int i = 0; i < d.count; ++i) srcs.push_back(w.filled(d.dst.shape, d.dst.layout));
  const auto dst = w.filled(d.dst.shape, d.dst.layout);
  w.time("forward", Verb::forward, [&] { op.forward({srcs, dst}); });
}

void run(Stopwatch& w, const ops::GroupNormDesc& d, ops::GroupNorm& op) {
  const auto like_src = [&] { return w.filled(d.src.shape, d.src.layout); };
  const auto plain = [&](const TensorDesc& desc) { return w.filled(desc.shape, desc.layout); };
  const auto src = like_src(), dst = like_src(), scale = plain(d.channel_desc()), shift = plain(d.channel_desc());
  const auto mean = plain(d.group_desc()), variance = plain(d.group_desc());
  const auto forward_scratch = w.scratch(Verb::forward);
  w.time("forward", Verb::forward, [&] { op.forward({src, scale, shift, dst, mean, variance, forward_scratch}); });
  const auto diff_dst = like_src(), diff_src = like_src(), diff_scale = plain(d.channel_desc());
  const auto diff_shift = plain(d.channel_desc()), diff_sums = plain(d.diff_sums_desc());
  const auto scratch = w.scratch(Verb::backward_weights);
  const Tensor joined = op.joins_backward() ? diff_src : Tensor();
  w.time(joined ? "backward" : "backward weights", Verb::backward_weights, [&] {
    op.backward_weights({diff_dst, src, scale, mean, variance, diff_scale, diff_shift, diff_sums, joined, scratch});
  });
  if (joined) return;
  const auto data_scratch = w.scratch(Verb::backward_data);
  w.time("backward data", Verb::backward_data,
         [&] { op.backward_data({diff_dst, src, scale, mean, variance, diff_sums, diff_src, data_scratch}); });
}

void run(Stopwatch& w, const ops::AttentionDesc& d, ops::Attention& op) {
  const auto rows = [&] { return w.filled(d.src.shape, d.src.layout); };
  const std::vector<Tensor> srcs{rows(), rows(), rows()}, diff_srcs{rows(), rows(), rows()};
  const auto dst = rows(), diff_dst = rows(), saved = w.filled(d.saved_desc().shape, d.saved_desc().layout);
  w.time("forward", Verb::forward, [&] { op.forward({srcs, dst, saved}); });
  const auto scratch = w.scratch(Verb::backward_data);
  w.time("backward", Verb::backward_data, [&] { op.backward_data({diff_dst, srcs, dst, saved, diff_srcs, scratch}); });
}

void run(Stopwatch& w, const ops::UpdateDesc& d, ops::Update& op) {
  const auto& shape = d.param.shape;
  const auto& layout = d.param.layout;
  const int moments = moment_count(d.params);
  ops::StepParams values;
  values.learning_rate = 1e-3f;
  const auto state = w.state(values);
  const auto param = w.filled(shape, layout), diff = w.filled(shape, layout);
  const auto moment1 = moments > 0 ? w.filled(shape, layout) : Tensor();
  const auto moment2 =
      moments > 1 ? w.zeros(shape, layout) : Tensor();  // zeros, since this moment is a mean of squares
  w.time("forward", Verb::forward, [&] { op.forward({state, diff, {}, {}, {}, param, moment1, moment2}); });
}

}  // namespace

std::vector<VerbTime> time_problem(Context& context, const Problem& problem, const Repeats& repeats, std::string* why) {
  return std::visit(
      [&](const auto& desc) {
        const auto op = context.try_make(desc, why);
        if (!op) return std::vector<VerbTime>();
        Stopwatch watch(context, *op, repeats);
        run(watch, desc, *op);
        return watch.times;
      },
      problem.desc);
}

}  // namespace keelson::bench
