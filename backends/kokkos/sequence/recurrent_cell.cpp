#include "engine/ops/recurrent_cell.hpp"

#include "backends/common/divider.hpp"
#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/common/values.hpp"
#include "backends/kokkos/common/vector_math.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// The error is at most 4e-7.
KOKKOS_FORCEINLINE_FUNCTION float fast_sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

/// A work item processes one sample and a run of hidden units.
struct Grid {
  static constexpr Index run = runs_on_host ? 256 : 1;
  Index batch, steps, hidden, states;
  Divider by_runs;

  Grid(Index batch, Index steps, Index hidden, Index states)
      : batch(batch),
        steps(steps),
        hidden(hidden),
        states(states),
        by_runs(ceil_div(hidden, run), batch * ceil_div(hidden, run)) {}
  Index items() const { return batch * by_runs.divisor(); }
};

struct Item {
  Index n, begin, end;
  KOKKOS_FUNCTION Item(const Grid& g, Index i) {
    begin = g.by_runs.split(i) * g.run;
    n = i;
    end = begin + g.run < g.hidden ? begin + g.run : g.hidden;
  }
};

/// Prefetches `vectors` vectors of H of the next sample. `row`: those of sample it.n. The samples' rows of one step are
/// `stride` elements apart, too far for the processor's own prefetching.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void prefetch_next(const Grid& g, const Item& it, const T* row, Index stride,
                                               Index vectors = 1) {
  if constexpr (!runs_on_host) return;
  if (it.n + 1 == g.batch) return;
  constexpr Index line = 64 / static_cast<Index>(sizeof(T));
  for (Index v = 0; v < vectors; ++v)
    for (Index j = it.begin; j < it.end; j += line) prefetch<true>(row + stride + v * g.hidden + j);
}

/// Copies the state before the first step into row 0 of each sample.
template <class T>
struct Begin {
  Grid g;
  const float* state;
  T* h_prev;
  float* c_prev;  ///< null for gru
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Item it(g, i);
    const float* from = state + it.n * g.states * g.hidden;
    const Index row = it.n * g.steps * g.hidden;
    for (Index j = it.begin; j < it.end; ++j) h_prev[row + j] = stored<T>(from[j]);
    if (c_prev)
      for (Index j = it.begin; j < it.end; ++j) c_prev[row + j] = from[g.hidden + j];
  }
};

/// A vector of H for each sample, `stride` apart. A step writes its state into the row of the next step, or into the
/// state for the next sequence, which is f32.
template <class T>
struct Vectors {
  T* data;
  Index stride;
  KOKKOS_FUNCTION T* of(Index n) const { return data + n * stride; }
};

template <class T, class H>
struct LstmForward {
  Grid g;
  Index t;
  const T* input;
  T* gates;
  const float *recurrent, *c_prev;
  Vectors<H> h_next;
  Vectors<float> c_next;
  T* dst;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Item it(g, i);
    const Index hidden = g.hidden, row = it.n * g.steps + t;
    const T *xi = input + row * 4 * hidden, *xf = xi + hidden, *xg = xf + hidden, *xo = xg + hidden;
    T *gi = gates + row * 4 * hidden, *gf = gi + hidden, *gg = gf + hidden, *go = gg + hidden;
    const float *ri = recurrent + it.n * 4 * hidden, *rf = ri + hidden, *rg = rf + hidden, *ro = rg + hidden;
    const float* c = c_prev + row * hidden;
    H* h_to = h_next.of(it.n);
    float* c_to = c_next.of(it.n);
    T* h_out = dst + row * hidden;
    prefetch_next(g, it, xi, g.steps * 4 * hidden, 4);
    prefetch_next(g, it, c, g.steps * hidden);
    prefetch_next(g, it, c_to, c_next.stride);
    prefetch_next(g, it, h_to, h_next.stride);
    prefetch_next(g, it, h_out, g.steps * hidden);
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index j = it.begin; j < it.end; ++j) {
      const float in = fast_sigmoid(value_of(xi[j]) + ri[j]), forget = fast_sigmoid(value_of(xf[j]) + rf[j]);
      const float candidate = fast_tanh(value_of(xg[j]) + rg[j]), out = fast_sigmoid(value_of(xo[j]) + ro[j]);
      const float cell = forget * c[j] + in * candidate, h = out * fast_tanh(cell);
      gi[j] = stored<T>(in), gf[j] = stored<T>(forget), gg[j] = stored<T>(candidate), go[j] = stored<T>(out);
      c_to[j] = cell;
      h_to[j] = stored<H>(h);
      h_out[j] = stored<T>(h);
    }
  }
};

template <class T>
struct LstmBackward {
  Grid g;
  Index t;
  const T* gates;
  const float* c_prev;
  Vectors<const float> c_next;
  const T* diff_dst;
  const float* diff_h;
  float* diff_c;
  T* diff_input;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Item it(g, i);
    const Index hidden = g.hidden, row = it.n * g.steps + t;
    const T *gi = gates + row * 4 * hidden, *gf = gi + hidden, *gg = gf + hidden, *go = gg + hidden;
    T *di = diff_input + row * 4 * hidden, *df = di + hidden, *dg = df + hidden, *d_out = dg + hidden;
    const bool last = t + 1 == g.steps;
    const float *c = c_prev + row * hidden, *c_now = c_next.of(it.n), *later = diff_h + it.n * hidden;
    const T* above = diff_dst + row * hidden;
    float* carry = diff_c + it.n * hidden;
    prefetch_next(g, it, gi, g.steps * 4 * hidden, 4);
    prefetch_next(g, it, c, g.steps * hidden);
    prefetch_next(g, it, c_now, c_next.stride);
    prefetch_next(g, it, above, g.steps * hidden);
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index j = it.begin; j < it.end; ++j) {
      const float in = value_of(gi[j]), forget = value_of(gf[j]);
      const float candidate = value_of(gg[j]), out = value_of(go[j]);
      const float dh = value_of(above[j]) + (last ? 0.0f : later[j]), y = fast_tanh(c_now[j]);
      const float dc = (last ? 0.0f : carry[j]) + dh * out * (1 - y * y);
      di[j] = stored<T>(dc * candidate * in * (1 - in));
      df[j] = stored<T>(dc * c[j] * forget * (1 - forget));
      dg[j] = stored<T>(dc * in * (1 - candidate * candidate));
      d_out[j] = stored<T>(dh * y * out * (1 - out));
      carry[j] = dc * forget;
    }
  }
};

template <class T, class H>
struct GruForward {
  Grid g;
  Index t;
  const T* input;
  T* gates;
  const float *recurrent, *bias;
  const T* h_prev;
  float* saved;
  Vectors<H> h_next;
  T* dst;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Item it(g, i);
    const Index hidden = g.hidden, row = it.n * g.steps + t;
    const T *xr = input + row * 3 * hidden, *xz = xr + hidden, *xn = xz + hidden;
    T *gr = gates + row * 3 * hidden, *gz = gr + hidden, *gn = gz + hidden;
    const float *rr = recurrent + it.n * 3 * hidden, *rz = rr + hidden, *rn = rz + hidden;
    H* h_to = h_next.of(it.n);
    const T* h_now = h_prev + row * hidden;
    float* part = saved + row * hidden;
    T* h_out = dst + row * hidden;
    prefetch_next(g, it, xr, g.steps * 3 * hidden, 3);
    prefetch_next(g, it, h_now, g.steps * hidden);
    prefetch_next(g, it, part, g.steps * hidden);
    prefetch_next(g, it, h_to, h_next.stride);
    prefetch_next(g, it, h_out, g.steps * hidden);
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index j = it.begin; j < it.end; ++j) {
      const float reset = fast_sigmoid(value_of(xr[j]) + rr[j]), update = fast_sigmoid(value_of(xz[j]) + rz[j]);
      const float own = rn[j] + bias[j], candidate = fast_tanh(value_of(xn[j]) + reset * own);
      const float h = candidate + update * (value_of(h_now[j]) - candidate);
      gr[j] = stored<T>(reset), gz[j] = stored<T>(update), gn[j] = stored<T>(candidate);
      part[j] = own;
      h_to[j] = stored<H>(h);
      h_out[j] = stored<T>(h);
    }
  }
};

template <class T>
struct GruBackward {
  Grid g;
  Index t;
  const T *gates, *h_prev;
  const float* saved;
  const T* diff_dst;
  const float* diff_h;
  float* diff_past;
  T *diff_input, *diff_recurrent;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Item it(g, i);
    const Index hidden = g.hidden, row = it.n * g.steps + t;
    const T *gr = gates + row * 3 * hidden, *gz = gr + hidden, *gn = gz + hidden;
    T *ir = diff_input + row * 3 * hidden, *iz = ir + hidden, *in = iz + hidden;
    T *dr = diff_recurrent + row * 3 * hidden, *dz = dr + hidden, *dn = dz + hidden;
    const bool last = t + 1 == g.steps;
    const T *h_now = h_prev + row * hidden, *above = diff_dst + row * hidden;
    const float *own = saved + row * hidden, *later = diff_h + it.n * hidden;
    float* carry = diff_past + it.n * hidden;
    prefetch_next(g, it, gr, g.steps * 3 * hidden, 3);
    prefetch_next(g, it, h_now, g.steps * hidden);
    prefetch_next(g, it, above, g.steps * hidden);
    prefetch_next(g, it, own, g.steps * hidden);
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index j = it.begin; j < it.end; ++j) {
      const float reset = value_of(gr[j]), update = value_of(gz[j]), candidate = value_of(gn[j]);
      const float dh = value_of(above[j]) + (last ? 0.0f : later[j] + carry[j]);
      const float d_candidate = dh * (1 - update) * (1 - candidate * candidate);
      const float d_reset = d_candidate * own[j] * reset * (1 - reset);
      const float d_update = dh * (value_of(h_now[j]) - candidate) * update * (1 - update);
      ir[j] = dr[j] = stored<T>(d_reset);
      iz[j] = dz[j] = stored<T>(d_update);
      in[j] = stored<T>(d_candidate);
      dn[j] = stored<T>(d_candidate * reset);
      carry[j] = dh * update;
    }
  }
};

class KokkosRecurrentCell : public RecurrentCell {
 public:
  explicit KokkosRecurrentCell(const RecurrentCellDesc& d)
      : desc_(d), grid_{d.batch, d.steps, d.hidden, states_of(d.kind)} {}

  Layout layout(Verb, Role) const override { return Layout::plain({desc_.rows(), desc_.hidden}); }
  std::string name(Verb) const override { return "fused gates"; }
  /// The cost of one step.
  Cost cost(Verb v) const override {
    const auto units = static_cast<double>(desc_.batch * desc_.hidden),
               gates = static_cast<double>(gates_of(desc_.kind)), size = static_cast<double>(size_of(desc_.type));
    return {units * (v == Verb::forward ? 60 : 40), units * (2 * gates * size + (gates + 6) * sizeof(float))};
  }

  void begin(const Tensor& state, const Sequence& s) override {
    with_type(desc_.type, [&](auto type) {
      using T = decltype(type);
      launch("keelson::recurrent::begin", grid_.items(),
             Begin<T>{grid_, state.data<float>(), s.h_prev.data<T>(), lstm() ? s.saved.data<float>() : nullptr});
    });
  }

  void forward(std::int64_t t, const Sequence& s, const Tensor& dst) override {
    with_type(desc_.type, [&](auto type) {
      using T = decltype(type);
      const Index states = states_of(desc_.kind) * desc_.hidden;
      if (t + 1 == desc_.steps)
        step<T>(t, s, dst, Vectors<float>{s.next_state.data<float>(), states});
      else
        step<T>(t, s, dst, Vectors<T>{s.h_prev.data<T>() + (t + 1) * desc_.hidden, desc_.steps * desc_.hidden});
    });
  }

  void backward(std::int64_t t, const Sequence& s, const Gradients& g) override {
    with_type(desc_.type, [&](auto type) { step_back<decltype(type)>(t, s, g); });
  }

 private:
  bool lstm() const { return desc_.kind == CellKind::lstm; }

  /// c after step t.
  Vectors<float> cells_after(std::int64_t t, const Sequence& s) const {
    if (t + 1 == desc_.steps) return {s.next_state.data<float>() + desc_.hidden, 2 * desc_.hidden};
    return {s.saved.data<float>() + (t + 1) * desc_.hidden, desc_.steps * desc_.hidden};
  }

  template <class T, class H>
  void step(std::int64_t t, const Sequence& s, const Tensor& dst, Vectors<H> h_next) const {
    const auto* input = s.input.data<T>();
    const auto* recurrent = s.recurrent.data<float>();
    auto *gates = s.gates.data<T>(), *h = dst.data<T>();
    auto* saved = s.saved.data<float>();
    if (lstm())
      launch("keelson::lstm::forward", grid_.items(),
             LstmForward<T, H>{grid_, t, input, gates, recurrent, saved, h_next, cells_after(t, s), h});
    else
      launch("keelson::gru::forward", grid_.items(),
             GruForward<T, H>{grid_, t, input, gates, recurrent, s.bias.data<float>(), s.h_prev.data<T>(), saved,
                              h_next, h});
  }

  template <class T>
  void step_back(std::int64_t t, const Sequence& s, const Gradients& g) const {
    const auto *gates = s.gates.data<T>(), *diff_dst = g.diff_dst.data<T>();
    const auto *saved = s.saved.data<float>(), *diff_h = g.diff_h.data<float>();
    auto* carry = g.diff_carry.data<float>();
    auto* diff_input = g.diff_input.data<T>();
    if (lstm()) {
      const auto cells = cells_after(t, s);
      launch("keelson::lstm::backward", grid_.items(),
             LstmBackward<T>{grid_, t, gates, saved, {cells.data, cells.stride}, diff_dst, diff_h, carry, diff_input});
    } else {
      launch("keelson::gru::backward", grid_.items(),
             GruBackward<T>{grid_, t, gates, s.h_prev.data<T>(), saved, diff_dst, diff_h, carry, diff_input,
                            g.diff_recurrent.data<T>()});
    }
  }

  RecurrentCellDesc desc_;
  Grid grid_;
};

}  // namespace

Expected<RecurrentCell> make(const RecurrentCellDesc& d) {
  if (d.batch < 1 || d.steps < 1 || d.hidden < 1)
    return fmt::format("batch {}, steps {} and hidden {}: expected at least 1 of each", d.batch, d.steps, d.hidden);
  if (!is_value_type(d.type)) return fmt::format("type {}: expected f32, bf16 or f16", to_string(d.type));
  return std::unique_ptr<RecurrentCell>(std::make_unique<KokkosRecurrentCell>(d));
}

}  // namespace keelson::kokkos
