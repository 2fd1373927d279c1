#include <algorithm>
#include <vector>

#include "backends/common/divider.hpp"
#include "backends/kokkos/elementwise/terms.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

template <class T>
using AddTerms = JoinTerms<T, Plus>;

/// The layouts of dst and terms if these layouts differ, for one pass of up to max_terms terms. `row` is the dim that
/// is fastest in dst; the other dims number the rows.
struct SumRows {
  struct Dim {
    Index extent = 1, dst = 0, src[max_terms] = {};
    Divider by_extent{};
  };
  Dim row;
  int outer_rank = 0;
  Dim outer[max_rank];
  Index rows = 1;
  bool runs = true;  ///< the elements of a row are contiguous in dst and in all terms

  SumRows(const TensorDesc& dst, const std::vector<TensorDesc>& srcs) {
    std::vector<Dim> dims;
    for (int i = 0; i < dst.shape.rank(); ++i)
      if (dst.shape[i] != 1) dims.push_back(dim(i, dst, srcs));
    std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.dst > b.dst; });
    std::vector<Dim> joined;
    for (Dim d : dims) {
      if (!joined.empty() && continues(joined.back(), d)) {
        d.extent *= joined.back().extent;
        joined.pop_back();
      }
      joined.push_back(d);
    }
    if (joined.empty()) return;  // one element
    row = joined.back();
    joined.pop_back();
    runs = row.dst == 1;
    for (std::size_t k = 0; k < srcs.size(); ++k) runs = runs && row.src[k] == 1;
    for (const Dim& d : joined) rows *= d.extent;
    for (const Dim& d : joined) {
      outer[outer_rank] = d;
      outer[outer_rank++].by_extent = Divider(d.extent, rows);
    }
  }

  /// Whether the offsets of all rows and terms are multiples of `width` elements.
  bool begins_at_multiples(Index width) const {
    bool all = true;
    for (int i = 0; i < outer_rank; ++i) {
      all = all && outer[i].dst % width == 0;
      for (const Index stride : outer[i].src) all = all && stride % width == 0;
    }
    return all;
  }

 private:
  static Dim dim(int i, const TensorDesc& dst, const std::vector<TensorDesc>& srcs) {
    Dim d;
    d.extent = dst.shape[i];
    d.dst = dst.layout.strides()[i];
    for (std::size_t k = 0; k < srcs.size(); ++k) d.src[k] = srcs[k].layout.strides()[i];
    return d;
  }

  /// Whether the two dims form one dim, in dst and in all terms. Missing terms have strides of 0.
  static bool continues(const Dim& outer, const Dim& inner) {
    bool one = outer.dst == inner.dst * inner.extent;
    for (int k = 0; k < max_terms; ++k) one = one && outer.src[k] == inner.src[k] * inner.extent;
    return one;
  }
};

/// A work item processes `rows_each` rows, or `tile` elements of a row.
template <class T>
struct AddRowsOfTerms {
  SumRows r;
  Terms<T> terms;
  T* dst;
  Index rows_each, tile;
  Divider by_tiles;  ///< tiles of a row

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index begin = by_tiles.split(item) * tile;
    const Index end = begin + tile < r.row.extent ? begin + tile : r.row.extent;
    const Index last = (item + 1) * rows_each < r.rows ? (item + 1) * rows_each : r.rows;
    for (Index number = item * rows_each; number < last; ++number) {
      AddTerms<T> row{terms, dst};
      Index rest = number;
      for (int i = r.outer_rank - 1; i >= 0; --i) move(row, r.outer[i], r.outer[i].by_extent.split(rest));
      if (r.runs) {
        row(begin, end);
        continue;
      }
      for (Index i = begin; i < end; ++i) {
        AddTerms<T> element = row;
        move(element, r.row, i);
        element(0, 1);
      }
    }
  }

  /// Moves all pointers by `steps` along a dim.
  KOKKOS_FORCEINLINE_FUNCTION static void move(AddTerms<T>& at, const SumRows::Dim& dim, Index steps) {
    at.dst += steps * dim.dst;
    for (int k = 0; k < at.terms.count; ++k) at.terms.src[k] += steps * dim.src[k];
  }
};

/// On a GPU: an item adds a pack of a row. The compiler knows the number of terms, so that the pointers stay in
/// registers and all terms are read before the first addition.
template <class T, int count>
struct AddPacksOfTerms {
  static constexpr int width = pack_width<T>;
  SumRows r;
  Terms<T> terms;
  T* dst;
  Divider by_packs;  ///< packs of a row

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index first = by_packs.split(item) * width;
    Index to = first, from[count];
    for (int k = 0; k < count; ++k) from[k] = first;
    for (int i = r.outer_rank - 1; i >= 0; --i) {
      const Index steps = r.outer[i].by_extent.split(item);
      to += steps * r.outer[i].dst;
      for (int k = 0; k < count; ++k) from[k] += steps * r.outer[i].src[k];
    }
    float x[count][width];
    for (int k = 0; k < count; ++k) load(terms.src[k] + from[k], x[k]);
    for (int k = 1; k < count; ++k)
      for (int l = 0; l < width; ++l) x[0][l] += x[k][l];
    store(dst + to, x[0]);
  }
};

/// The kernel for the number of terms.
template <class T, int count = 2>
void add_packs(const SumRows& rows, const Terms<T>& terms, T* dst) {
  if constexpr (count > max_terms) {
    fail("a sum of {} terms, at most {} were expected", terms.count, max_terms);
  } else {
    if (terms.count != count) return add_packs<T, count + 1>(rows, terms, dst);
    const Index packs = rows.row.extent / pack_width<T>, items = rows.rows * packs;
    launch("keelson::sum::packs", items, AddPacksOfTerms<T, count>{rows, terms, dst, Divider(packs, items)});
  }
}

struct AddDoubles {
  const double *a, *b;
  double* sum;
  KOKKOS_FUNCTION void operator()(Index i) const { sum[i] = a[i] + b[i]; }
};

class KokkosSum : public Sum {
 public:
  explicit KokkosSum(const SumDesc& d)
      : desc_(d), count_(d.srcs.size()), flat_(d.is_alike() && d.dst.layout.is_dense(d.dst.shape)) {
    for (std::size_t first = 0; !flat_ && first < count_;) {
      std::vector<TensorDesc> terms;
      if (first > 0) terms.push_back(d.dst);
      while (terms.size() < max_terms && first < count_) terms.push_back(d.srcs[first++]);
      passes_.emplace_back(d.dst, terms);
    }
  }
  Layout layout(Verb, Role r) const override { return r == Role::dst ? desc_.dst.layout : desc_.srcs[0].layout; }
  std::string name(Verb) const override { return flat_ ? "flat" : "rows"; }
  Cost cost(Verb) const override {
    const auto count = static_cast<double>(count_), elements = static_cast<double>(desc_.dst.elements());
    const double bytes =
        flat_ ? static_cast<double>(desc_.dst.bytes()) : elements * static_cast<double>(size_of(desc_.dst.dtype));
    return {elements * (count - 1), bytes * (count + 1)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [srcs, dst] = args;
    if (desc_.dst.elements() == 0) return;
    if (desc_.dst.dtype == DType::f64) return add_doubles(srcs, dst);
    with_type(desc_.dst.dtype, [&](auto type) { add<decltype(type)>(srcs, dst); });
  }

 private:
  template <class T>
  void add(const std::vector<Tensor>& srcs, const Tensor& dst) const {
    auto* y = dst.data<T>();
    std::size_t done = 0, pass = 0;
    while (done < count_) {
      Terms<T> terms{};
      Index together = neighbours<T>(y);
      if (done > 0) terms.src[terms.count++] = y;
      while (terms.count < max_terms && done < count_) {
        const auto* x = srcs[done++].data<T>();
        together = std::min(together, neighbours<T>(x));
        terms.src[terms.count++] = x;
      }
      if (flat_)
        for_each_element("keelson::sum::forward", dst, AddTerms<T>{terms, y}, together);
      else
        add_rows(passes_[pass++], terms, y, together);
    }
  }

  /// `together`: how many neighbours a GPU's thread may process, according to the alignment of the arrays.
  template <class T>
  static void add_rows(const SumRows& rows, const Terms<T>& terms, T* dst, Index together) {
    constexpr Index host_elements = 4096;
    if (!rows.runs || !rows.begins_at_multiples(together)) together = 1;
    if constexpr (!runs_on_host)
      if (terms.count > 1 && together == pack_width<T> && rows.row.extent % together == 0)
        return add_packs(rows, terms, dst);
    const Index tile = std::min(rows.row.extent, runs_on_host ? host_elements : together);
    const Index rows_each = runs_on_host ? std::max<Index>(1, host_elements / rows.row.extent) : 1;
    const Index tiles = ceil_div(rows.row.extent, tile), items = ceil_div(rows.rows, rows_each) * tiles;
    launch("keelson::sum::rows", items, AddRowsOfTerms<T>{rows, terms, dst, rows_each, tile, Divider(tiles, items)});
  }

  /// Term by term: there are few doubles, for example the losses of a step.
  void add_doubles(const std::vector<Tensor>& srcs, const Tensor& dst) const {
    auto* y = dst.data<double>();
    const auto* before = srcs[0].data<double>();
    for (std::size_t k = 1; k < count_; ++k, before = y) {
      const auto* term = srcs[k].data<double>();
      launch("keelson::sum::doubles", desc_.dst.elements(), AddDoubles{before, term, y});
    }
  }

  SumDesc desc_;
  std::size_t count_;            ///< of terms
  bool flat_;                    ///< all layouts are the same, without gaps
  std::vector<SumRows> passes_;  ///< empty if flat
};

}  // namespace

Expected<Sum> make(const SumDesc& d) {
  if (d.srcs.empty()) return std::string("a sum needs at least one term");
  if (d.dst.dtype == DType::f64 && d.srcs.size() < 2) return std::string("a sum of f64 needs at least two terms");
  if (!is_value_type(d.dst.dtype) && d.dst.dtype != DType::f64)
    return fmt::format("dst is {}, not f32, f64, bf16 or f16", to_string(d.dst.dtype));
  if (d.dst.layout.is_any()) return std::string("dst has no layout yet; a sum takes its producers' layout");
  for (const TensorDesc& src : d.srcs) {
    if (src == d.dst) continue;
    if (!(src.shape == d.dst.shape) || src.dtype != d.dst.dtype)
      return fmt::format("a term is {}, dst {}", to_string(src), to_string(d.dst));
    if (!src.layout.is_strided() || !d.dst.layout.is_strided())
      return fmt::format("a term has the layout {}, dst {}; both must be strided", src.layout.to_string(),
                         d.dst.layout.to_string());
    if (d.dst.dtype == DType::f64) return std::string("f64 terms have another layout than dst");
  }
  return std::unique_ptr<Sum>(std::make_unique<KokkosSum>(d));
}

}  // namespace keelson::kokkos
