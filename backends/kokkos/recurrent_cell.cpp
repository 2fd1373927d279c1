#include "engine/ops/recurrent_cell.hpp"

#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/vector_math.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// Within 4e-7 of the exact value.
KOKKOS_FORCEINLINE_FUNCTION float fast_sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

/// One sample and a run of hidden units is a work item.
struct Grid {
  Index batch, steps, hidden, states;
  Index run = runs_on_host ? 256 : 1;
  Index runs() const { return ceil_div(hidden, run); }
  Index items() const { return batch * runs(); }
};

struct Item {
  Index n, begin, end;
  KOKKOS_FUNCTION Item(const Grid& g, Index i) {
    const Index runs = (g.hidden + g.run - 1) / g.run;
    n = i / runs;
    begin = i % runs * g.run;
    end = begin + g.run < g.hidden ? begin + g.run : g.hidden;
  }
};

/// The state before the first step into row 0 of each sample.
struct Begin {
  Grid g;
  const float* state;
  float *h_prev, *c_prev;  ///< c_prev null for gru
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Item it(g, i);
    const float* from = state + it.n * g.states * g.hidden;
    const Index row = it.n * g.steps * g.hidden;
    for (Index j = it.begin; j < it.end; ++j) h_prev[row + j] = from[j];
    if (c_prev)
      for (Index j = it.begin; j < it.end; ++j) c_prev[row + j] = from[g.hidden + j];
  }
};

struct LstmForward {
  Grid g;
  Index t;
  const float* input;
  float* gates;
  const float* recurrent;
  float *h_prev, *c_prev, *next, *dst;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Item it(g, i);
    const Index hidden = g.hidden, row = it.n * g.steps + t;
    const float *xi = input + row * 4 * hidden, *xf = xi + hidden, *xg = xf + hidden, *xo = xg + hidden;
    float *gi = gates + row * 4 * hidden, *gf = gi + hidden, *gg = gf + hidden, *go = gg + hidden;
    const float *ri = recurrent + it.n * 4 * hidden, *rf = ri + hidden, *rg = rf + hidden, *ro = rg + hidden;
    const bool last = t + 1 == g.steps;
    float* h_next = last ? next + it.n * 2 * hidden : h_prev + (row + 1) * hidden;
    float* c_next = last ? h_next + hidden : c_prev + (row + 1) * hidden;
    const float* c = c_prev + row * hidden;
    float* h_out = dst + row * hidden;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index j = it.begin; j < it.end; ++j) {
      const float in = fast_sigmoid(xi[j] + ri[j]), forget = fast_sigmoid(xf[j] + rf[j]);
      const float candidate = fast_tanh(xg[j] + rg[j]), out = fast_sigmoid(xo[j] + ro[j]);
      const float cell = forget * c[j] + in * candidate, h = out * fast_tanh(cell);
      gi[j] = in, gf[j] = forget, gg[j] = candidate, go[j] = out;
      c_next[j] = cell;
      h_next[j] = h;
      h_out[j] = h;
    }
  }
};

struct LstmBackward {
  Grid g;
  Index t;
  const float *gates, *c_prev, *next, *diff_dst, *diff_h;
  float *diff_c, *diff_input;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Item it(g, i);
    const Index hidden = g.hidden, row = it.n * g.steps + t;
    const float *gi = gates + row * 4 * hidden, *gf = gi + hidden, *gg = gf + hidden, *go = gg + hidden;
    float *di = diff_input + row * 4 * hidden, *df = di + hidden, *dg = df + hidden, *d_out = dg + hidden;
    const bool last = t + 1 == g.steps;
    const float* c = c_prev + row * hidden;
    const float* c_now = last ? next + (it.n * 2 + 1) * hidden : c_prev + (row + 1) * hidden;
    const float *above = diff_dst + row * hidden, *later = diff_h + it.n * hidden;
    float* carry = diff_c + it.n * hidden;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index j = it.begin; j < it.end; ++j) {
      const float in = gi[j], forget = gf[j], candidate = gg[j], out = go[j];
      const float dh = above[j] + (last ? 0.0f : later[j]), y = fast_tanh(c_now[j]);
      const float dc = (last ? 0.0f : carry[j]) + dh * out * (1 - y * y);
      di[j] = dc * candidate * in * (1 - in);
      df[j] = dc * c[j] * forget * (1 - forget);
      dg[j] = dc * in * (1 - candidate * candidate);
      d_out[j] = dh * y * out * (1 - out);
      carry[j] = dc * forget;
    }
  }
};

struct GruForward {
  Grid g;
  Index t;
  const float* input;
  float* gates;
  const float *recurrent, *bias;
  float *h_prev, *saved, *next, *dst;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Item it(g, i);
    const Index hidden = g.hidden, row = it.n * g.steps + t;
    const float *xr = input + row * 3 * hidden, *xz = xr + hidden, *xn = xz + hidden;
    float *gr = gates + row * 3 * hidden, *gz = gr + hidden, *gn = gz + hidden;
    const float *rr = recurrent + it.n * 3 * hidden, *rz = rr + hidden, *rn = rz + hidden;
    float* h_next = t + 1 == g.steps ? next + it.n * hidden : h_prev + (row + 1) * hidden;
    const float* h_now = h_prev + row * hidden;
    float *part = saved + row * hidden, *h_out = dst + row * hidden;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index j = it.begin; j < it.end; ++j) {
      const float reset = fast_sigmoid(xr[j] + rr[j]), update = fast_sigmoid(xz[j] + rz[j]);
      const float own = rn[j] + bias[j], candidate = fast_tanh(xn[j] + reset * own);
      const float h = candidate + update * (h_now[j] - candidate);
      gr[j] = reset, gz[j] = update, gn[j] = candidate;
      part[j] = own;
      h_next[j] = h;
      h_out[j] = h;
    }
  }
};

struct GruBackward {
  Grid g;
  Index t;
  const float *gates, *h_prev, *saved, *diff_dst, *diff_h;
  float *diff_past, *diff_input, *diff_recurrent;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Item it(g, i);
    const Index hidden = g.hidden, row = it.n * g.steps + t;
    const float *gr = gates + row * 3 * hidden, *gz = gr + hidden, *gn = gz + hidden;
    float *ir = diff_input + row * 3 * hidden, *iz = ir + hidden, *in = iz + hidden;
    float *dr = diff_recurrent + row * 3 * hidden, *dz = dr + hidden, *dn = dz + hidden;
    const bool last = t + 1 == g.steps;
    const float *h_now = h_prev + row * hidden, *own = saved + row * hidden;
    const float *above = diff_dst + row * hidden, *later = diff_h + it.n * hidden;
    float* carry = diff_past + it.n * hidden;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index j = it.begin; j < it.end; ++j) {
      const float reset = gr[j], update = gz[j], candidate = gn[j];
      const float dh = above[j] + (last ? 0.0f : later[j] + carry[j]);
      const float d_candidate = dh * (1 - update) * (1 - candidate * candidate);
      const float d_reset = d_candidate * own[j] * reset * (1 - reset);
      const float d_update = dh * (h_now[j] - candidate) * update * (1 - update);
      ir[j] = dr[j] = d_reset;
      iz[j] = dz[j] = d_update;
      in[j] = d_candidate;
      dn[j] = d_candidate * reset;
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
  /// Of one step.
  Cost cost(Verb v) const override {
    const auto units = static_cast<double>(desc_.batch * desc_.hidden),
               gates = static_cast<double>(gates_of(desc_.kind));
    return {units * (v == Verb::forward ? 60 : 40), units * (3 * gates + 6) * sizeof(float)};
  }

  void begin(const Tensor& state, const Sequence& s) override {
    launch("keelson::recurrent::begin", grid_.items(),
           Begin{grid_, state.data<float>(), s.h_prev.data<float>(), lstm() ? s.saved.data<float>() : nullptr});
  }

  void forward(std::int64_t t, const Sequence& s, const Tensor& dst) override {
    const auto* input = s.input.data<float>();
    const auto* recurrent = s.recurrent.data<float>();
    auto *gates = s.gates.data<float>(), *h_prev = s.h_prev.data<float>(), *saved = s.saved.data<float>();
    auto *next = s.next_state.data<float>(), *h = dst.data<float>();
    if (lstm())
      launch("keelson::lstm::forward", grid_.items(),
             LstmForward{grid_, t, input, gates, recurrent, h_prev, saved, next, h});
    else
      launch("keelson::gru::forward", grid_.items(),
             GruForward{grid_, t, input, gates, recurrent, s.bias.data<float>(), h_prev, saved, next, h});
  }

  void backward(std::int64_t t, const Sequence& s, const Gradients& g) override {
    const auto *gates = s.gates.data<float>(), *saved = s.saved.data<float>(), *diff_h = g.diff_h.data<float>();
    const auto* diff_dst = g.diff_dst.data<float>();
    auto *carry = g.diff_carry.data<float>(), *diff_input = g.diff_input.data<float>();
    if (lstm())
      launch("keelson::lstm::backward", grid_.items(),
             LstmBackward{grid_, t, gates, saved, s.next_state.data<float>(), diff_dst, diff_h, carry, diff_input});
    else
      launch("keelson::gru::backward", grid_.items(),
             GruBackward{grid_, t, gates, s.h_prev.data<float>(), saved, diff_dst, diff_h, carry, diff_input,
                         g.diff_recurrent.data<float>()});
  }

 private:
  bool lstm() const { return desc_.kind == CellKind::lstm; }
  RecurrentCellDesc desc_;
  Grid grid_;
};

}  // namespace

Made<RecurrentCell> make_recurrent_cell(const RecurrentCellDesc& d) {
  if (d.batch < 1 || d.steps < 1 || d.hidden < 1)
    return fmt::format("batch {}, steps {} and hidden {}: expected at least 1 of each", d.batch, d.steps, d.hidden);
  return std::unique_ptr<RecurrentCell>(std::make_unique<KokkosRecurrentCell>(d));
}

}  // namespace keelson::kokkos
