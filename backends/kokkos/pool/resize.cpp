#include "engine/ops/resize.hpp"

#include "backends/common/divider.hpp"
#include "backends/kokkos/common/values.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// Positions along an axis as exact fractions: element o of the result is at (factor o + offset) / divisor. Elements
/// are counted in the whole source and result, of which the operands may have a part.
struct ResizeAxis {
  Index in, out, first_in = 0, first_out = 0;  ///< elements of the operands; the first ones
  Index whole_in, whole_out, factor, offset, divisor;
  float inverse;  ///< 1 / divisor
  Divider by_divisor;

  ResizeAxis(Index in, Index out, ResizeGrid grid, const Part& src = {}, const Part& dst = {})
      : ResizeAxis(src.rows > 0 ? src.rows : in, dst.rows > 0 ? dst.rows : out, grid, in, out) {
    first_in = src.first, first_out = dst.first;
  }

 private:
  ResizeAxis(Index in, Index out, ResizeGrid grid, Index held_in, Index held_out)
      : in(held_in),
        out(held_out),
        whole_in(in),
        whole_out(out),
        factor(grid == ResizeGrid::asymmetric   ? in
               : grid == ResizeGrid::half_pixel ? 2 * in
                                                : in - 1),
        offset(grid == ResizeGrid::half_pixel ? in - out : 0),
        divisor(grid == ResizeGrid::asymmetric   ? out
                : grid == ResizeGrid::half_pixel ? 2 * out
                : out > 1                        ? out - 1
                                                 : 1),
        inverse(1 / static_cast<float>(divisor)),
        by_divisor(divisor, factor * out + 1) {}

 public:
  /// Of element o of the operand.
  KOKKOS_FUNCTION Index numerator(Index o) const {
    const Index n = factor * (o + first_out) + offset;
    return n > 0 ? n : 0;
  }
  /// The two neighbours in the source, and the weight of the second.
  KOKKOS_FUNCTION void neighbours(Index o, Index& lower, Index& upper, float& part) const {
    lower = numerator(o);
    part = static_cast<float>(by_divisor.split(lower)) * inverse;
    if (lower > whole_in - 1) lower = whole_in - 1;
    upper = (lower + 1 < whole_in ? lower + 1 : whole_in - 1) - first_in;
    lower -= first_in;
  }
  /// The range of elements of the result that read element i of the source.
  KOKKOS_FUNCTION void readers(Index i, Index& begin, Index& end) const {
    begin = 0, end = out;
    if (factor == 0) return;
    i += first_in;
    const Index above = (i - 1) * divisor - offset, below = (i + 1) * divisor - offset;  // above < factor o < below
    if (i > 0 && above >= 0) begin = above / factor + 1 - first_out;
    if (i + 1 < whole_in) end = (below > 0 ? (below - 1) / factor + 1 : 0) - first_out;
    if (begin < 0) begin = 0;
    if (end > out) end = out;
  }
  /// The weight of source element i in result element o.
  KOKKOS_FUNCTION float weight(Index i, Index o) const {
    i += first_in;
    const Index away = numerator(o) - i * divisor;
    if (away >= 0 && i + 1 == whole_in) return 1;
    return 1 - static_cast<float>(away < 0 ? -away : away) * inverse;
  }
};

/// A tensor as (images, rows, columns, run). If the tensor is channels-last, a run has all channels; else a run has one
/// element, and each channel is an image.
struct Images {
  Index images, run;
  ResizeAxis rows, columns;
};

/// Calls body.template run<N>(i) for N neighbours from i on, until `count` are processed.
template <class Body>
KOKKOS_FUNCTION void for_run(Index count, const Body& body) {
  Index i = 0;
  for (; i + 16 <= count; i += 16) body.template run<16>(i);
  for (; i + 4 <= count; i += 4) body.template run<4>(i);
  for (; i < count; ++i) body.template run<1>(i);
}

template <class T>
struct Interpolate {
  Images g;
  const T* src;
  T* dst;

  struct Pixel {
    const T *a, *b, *c, *d;  ///< upper left, upper right, lower left, lower right
    float down, right;
    T* to;
    template <int N>
    KOKKOS_FUNCTION void run(Index i) const {
      float va[N], vb[N], vc[N], vd[N];
      load(a + i, va), load(b + i, vb), load(c + i, vc), load(d + i, vd);
      for (int l = 0; l < N; ++l) {
        const float above = va[l] + right * (vb[l] - va[l]), below = vc[l] + right * (vd[l] - vc[l]);
        va[l] = above + down * (below - above);
      }
      store(to + i, va);
    }
  };
  KOKKOS_FUNCTION Pixel pixel(Index image, Index y, Index x) const {
    Index top, bottom, left, right;
    Pixel p;
    g.rows.neighbours(y, top, bottom, p.down);
    g.columns.neighbours(x, left, right, p.right);
    const T* from = src + image * g.rows.in * g.columns.in * g.run;
    top *= g.columns.in, bottom *= g.columns.in;
    p.a = from + (top + left) * g.run, p.b = from + (top + right) * g.run;
    p.c = from + (bottom + left) * g.run, p.d = from + (bottom + right) * g.run;
    p.to = dst + ((image * g.rows.out + y) * g.columns.out + x) * g.run;
    return p;
  }
};

/// Computes a row of a result.
template <class T>
struct InterpolateRow : Interpolate<T> {
  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index rows = this->g.rows.out;
    for (Index x = 0; x < this->g.columns.out; ++x) for_run(this->g.run, this->pixel(item / rows, item % rows, x));
  }
};

/// Computes N neighbours.
template <class T, int N>
struct InterpolatePack : Interpolate<T> {
  Divider by_packs, by_columns, by_rows;
  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index i = by_packs.split(item) * N, x = by_columns.split(item), y = by_rows.split(item);
    this->pixel(item, y, x).template run<N>(i);
  }
};

template <class T>
void interpolate(const Images& g, const T* src, T* dst) {
  constexpr const char* label = "keelson::resize::forward";
  const Interpolate<T> all{g, src, dst};
  if constexpr (runs_on_host) {
    launch(label, g.images * g.rows.out, InterpolateRow<T>{all});
  } else {
    with_pack<T>(g.run, src, dst, [&](auto n) {
      constexpr int N = decltype(n)::value;
      const Index packs = g.run / N, items = g.images * g.rows.out * g.columns.out * packs;
      launch(
          label, items,
          InterpolatePack<T, N>{all, Divider(packs, items), Divider(g.columns.out, items), Divider(g.rows.out, items)});
    });
  }
}

/// The gradient along one axis: from (before, axis.out, after) to (before, axis.in, after).
template <class From, class To>
struct GatherAxis {
  ResizeAxis axis;
  Index before, after;
  const From* from;
  To* to;

  /// Sums all results that read element i.
  struct Element {
    const GatherAxis& k;
    Index first, i, begin, end;
    template <int N>
    KOKKOS_FUNCTION void run(Index at) const {
      double sum[N] = {};
      for (Index o = begin; o < end; ++o) {
        const float w = k.axis.weight(i, o);
        float v[N];
        load(k.from + (first * k.axis.out + o) * k.after + at, v);
        for (int l = 0; l < N; ++l) sum[l] += static_cast<double>(w * v[l]);
      }
      float result[N];
      for (int l = 0; l < N; ++l) result[l] = static_cast<float>(sum[l]);
      store(k.to + (first * k.axis.in + i) * k.after + at, result);
    }
  };
  KOKKOS_FUNCTION Element element(Index first, Index i) const {
    Element e{*this, first, i, 0, 0};
    axis.readers(i, e.begin, e.end);
    return e;
  }
};

template <class From, class To>
struct GatherAll : GatherAxis<From, To> {
  KOKKOS_FUNCTION void operator()(Index item) const {
    for_run(this->after, this->element(item / this->axis.in, item % this->axis.in));
  }
};

template <class From, class To, int N>
struct GatherPack : GatherAxis<From, To> {
  Divider by_packs, by_axis;
  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index at = by_packs.split(item) * N, i = by_axis.split(item);
    this->element(item, i).template run<N>(at);
  }
};

template <class From, class To>
void gather(const char* label, const GatherAxis<From, To>& all) {
  if constexpr (runs_on_host) {
    launch(label, all.before * all.axis.in, GatherAll<From, To>{all});
  } else {
    using Narrow = std::conditional_t<(sizeof(From) < sizeof(To)), From, To>;
    with_pack<Narrow>(all.after, all.from, all.to, [&](auto n) {
      constexpr int N = decltype(n)::value;
      const Index packs = all.after / N, items = all.before * all.axis.in * packs;
      launch(label, items, GatherPack<From, To, N>{all, Divider(packs, items), Divider(all.axis.in, items)});
    });
  }
}

class KokkosResize : public Resize {
 public:
  explicit KokkosResize(const ResizeDesc& d) : d_(d), src_(d.src_desc()), dst_(d.dst_desc()), g_(images(d)) {}

  Layout layout(Verb, Role r) const override {
    return r == Role::dst || r == Role::diff_dst ? dst_.layout : src_.layout;
  }
  std::string name(Verb) const override { return g_.run > 1 ? "channel_runs" : "elements"; }
  std::size_t scratch_bytes(Verb v) const override {
    return v == Verb::backward_data ? static_cast<std::size_t>(g_.images * g_.rows.out * g_.columns.in * g_.run) * 4
                                    : 0;
  }
  Cost cost(Verb) const override {
    return {6.0 * static_cast<double>(dst_.elements()), static_cast<double>(src_.bytes() + dst_.bytes())};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, dst] = args;
    with_type(src_.dtype, [&]<class T>(T) { interpolate(g_, src.data<T>(), dst.data<T>()); });
  }
  /// First along the rows, then along the columns, so that no work item sums over a whole image.
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, diff_src, scratch] = args;
    auto* between = static_cast<float*>(scratch.raw());
    with_type(src_.dtype, [&]<class T>(T) {
      gather<T, float>("keelson::resize::backward_columns",
                       {g_.columns, g_.images * g_.rows.out, g_.run, diff_dst.data<T>(), between});
      gather<float, T>("keelson::resize::backward_rows",
                       {g_.rows, g_.images, g_.columns.in * g_.run, between, diff_src.data<T>()});
    });
  }

 private:
  static Images images(const ResizeDesc& d) {
    const Shape& s = d.src.shape;
    const bool last = d.src_desc().layout.is_channels_last(s);
    return {last ? s[0] : s[0] * s[1],
            last ? s[1] : 1,
            {s[2], d.rows, d.grid, d.src_part, d.dst_part},
            {s[3], d.columns, d.grid}};
  }

  ResizeDesc d_;
  TensorDesc src_, dst_;
  Images g_;
};

}  // namespace

Expected<Resize> make(const ResizeDesc& d) {
  if (auto why = not_strided_values("src", d.src); !why.empty()) return why;
  if (d.src.shape.rank() != 4) return fmt::format("src {} has no two spatial dims", to_string(d.src.shape));
  if (d.rows < 1 || d.columns < 1) return fmt::format("{} x {} is no size", d.rows, d.columns);
  const Layout layout = d.src_desc().layout;
  if (!layout.is_channels_last(d.src.shape) && !layout.is_plain(d.src.shape))
    return std::string("src is neither plain nor channels-last");
  return std::unique_ptr<Resize>(std::make_unique<KokkosResize>(d));
}

}  // namespace keelson::kokkos
