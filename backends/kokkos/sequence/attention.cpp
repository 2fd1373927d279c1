#include "engine/ops/attention.hpp"

#include <algorithm>
#include <cmath>

#include "backends/kokkos/common/run_sum.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/sequence/attention_rows.hpp"
#include "backends/kokkos/sequence/attention_tiles.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

template <class T>
struct StepDots {
  AttentionShape s;
  AttentionArrays<T> a;
  KOKKOS_FUNCTION void operator()(Index line) const {
    const T *x = a.dst + line * s.width, *g = a.diff_dst + line * s.width;
    a.dots[line] = run_sum(s.width, [=](Index c) { return value_of(x[c]) * value_of(g[c]); });
  }
};

/// On a GPU: one item per step and head, with arrays of the smallest power of two that has the head's columns.
template <template <class, int> class Kernel, class T, int width = 16>
void launch_steps(const char* label, const AttentionShape& s, const AttentionArrays<T>& a) {
  if constexpr (width < widest_head)
    if (s.width > width) return launch_steps<Kernel, T, 2 * width>(label, s, a);
  launch(label, s.lines(), Kernel<T, width>{s, a});
}

template <template <class> class Kernel, class T>
void launch_tiles(const char* label, const AttentionShape& s, const AttentionArrays<T>& a) {
  const Index tiles = ceil_div(s.steps, own_steps);
  launch(label, s.samples * s.heads * tiles, Kernel<T>{s, a, tiles});
}

/// Whether a work item makes all gradients of a head. This takes 5 products of steps instead of 7, but keeps the cores
/// busy only with many heads. (Not by the number of cores, on which the results would depend then.)
bool all_of_a_head(const AttentionShape& s) { return runs_on_host && s.samples * s.heads >= 32; }

template <class T>
void attend(const AttentionShape& s, const AttentionArrays<T>& a) {
  constexpr const char* label = "keelson::attention::forward";
  if constexpr (runs_on_host)
    launch_tiles<AttendTile>(label, s, a);
  else
    launch_steps<AttendStep>(label, s, a);
}

template <class T>
void attention_gradients(const AttentionShape& s, const AttentionArrays<T>& a) {
  constexpr const char *queries = "keelson::attention::diff_queries", *keys = "keelson::attention::diff_keys";
  launch("keelson::attention::dots", s.lines(), StepDots<T>{s, a});
  if constexpr (runs_on_host) {
    if (all_of_a_head(s))
      return launch("keelson::attention::gradients", s.samples * s.heads, HeadGradients<T>{s, a, a.dots + s.lines()});
    launch_tiles<QueryGradientTile>(queries, s, a);
    launch_tiles<KeyGradientTile>(keys, s, a);
  } else {
    launch_steps<QueryGradientStep>(queries, s, a);
    launch_steps<KeyGradientStep>(keys, s, a);
  }
}

class KokkosAttention : public Attention {
 public:
  explicit KokkosAttention(const AttentionDesc& d)
      : d_(d), s_{d.src.shape[0] / d.steps, d.steps, d.heads, d.src.shape[1] / d.heads, d.causal, 0} {
    s_.scale = 1 / std::sqrt(static_cast<float>(s_.width));
  }
  Layout layout(Verb, Role r) const override { return r == Role::saved ? d_.saved_desc().layout : d_.src.layout; }
  std::string name(Verb) const override { return runs_on_host ? "tiles" : "steps"; }
  /// Of products of queries and keys, and of weights and values.
  Cost cost(Verb v) const override {
    const bool forward = v == Verb::forward;
    const double product = 2.0 * static_cast<double>(d_.src.elements()) * static_cast<double>(d_.steps);
    const double products = forward ? 2 : all_of_a_head(s_) ? 5 : 7;
    return {products * product * (d_.causal ? 0.5 : 1), (forward ? 4 : 8) * static_cast<double>(d_.src.bytes())};
  }
  std::size_t scratch_bytes(Verb v) const override {
    if (v != Verb::backward_data) return 0;
    const Index query_sums = all_of_a_head(s_) ? s_.lines() * padded(s_.width) : 0;
    return static_cast<std::size_t>(s_.lines() + query_sums) * sizeof(float);
  }

  void forward(const Forward<ops::Tensors>& args) override {
    with_type(d_.src.dtype, [&]<class T>(T) {
      AttentionArrays<T> a = sources<T>(args.srcs);
      a.dst = args.dst.template data<T>();
      a.saved = args.saved.template data<float>();
      attend(s_, a);
    });
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    with_type(d_.src.dtype, [&]<class T>(T) {
      AttentionArrays<T> a = sources<T>(args.srcs);
      a.dst = args.dst.template data<T>();
      a.saved = args.saved.template data<float>();
      a.diff_dst = args.diff_dst.template data<T>();
      a.diff_query = args.diff_srcs[0].template data<T>();
      a.diff_key = args.diff_srcs[1].template data<T>();
      a.diff_value = args.diff_srcs[2].template data<T>();
      a.dots = static_cast<float*>(args.scratch.raw());
      attention_gradients(s_, a);
    });
  }

 private:
  template <class T>
  static AttentionArrays<T> sources(const std::vector<Tensor>& srcs) {
    AttentionArrays<T> a;
    a.query = srcs[0].template data<T>();
    a.key = srcs[1].template data<T>();
    a.value = srcs[2].template data<T>();
    return a;
  }

  AttentionDesc d_;
  AttentionShape s_;
};

}  // namespace

Expected<Attention> make(const AttentionDesc& d) {
  if (auto why = not_strided_values("src", d.src); !why.empty()) return why;
  const Shape& shape = d.src.shape;
  if (shape.rank() != 2 || !d.src.layout.is_plain(shape)) return std::string("src is not a plain matrix");
  if (d.steps < 1 || shape[0] % d.steps != 0)
    return fmt::format("{} rows are no samples of {} steps", shape[0], d.steps);
  if (d.heads < 1 || shape[1] % d.heads != 0)
    return fmt::format("{} columns cannot be divided into {} heads", shape[1], d.heads);
  if (shape[1] / d.heads > widest_head)
    return fmt::format("a head has {} columns, more than {}; use more heads", shape[1] / d.heads, widest_head);
  return std::unique_ptr<Attention>(std::make_unique<KokkosAttention>(d));
}

}  // namespace keelson::kokkos
