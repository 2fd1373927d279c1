#include "engine/ops/embedding.hpp"

#include "backends/common/divider.hpp"
#include "backends/kokkos/common/values.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/sequence/merge_sort.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;
// A key has an id in the upper half and the index of the id in the lower half, so that no two keys are equal.
constexpr Key no_id = 0xffffffff;

KOKKOS_INLINE_FUNCTION Index id_of(Key k) { return static_cast<Index>(k >> 32); }
KOKKOS_INLINE_FUNCTION Index index_of(Key k) { return static_cast<Index>(k & 0xffffffff); }

/// Divides rows of `width` elements into work items: whole rows on a CPU, elements on a GPU.
struct RowItems {
  Index width, count;
  Divider by_row;

  RowItems(Index rows, Index width)
      : width(width), count(rows * (runs_on_host ? 1 : width)), by_row(runs_on_host ? 1 : width, count) {}
};

/// The row and the elements of item i.
struct RowItem {
  Index row, begin, end;
  KOKKOS_FUNCTION RowItem(const RowItems& r, Index i) : row(i), begin(0), end(r.width) {
    if constexpr (runs_on_host) return;
    begin = r.by_row.split(row);
    end = begin + 1;
  }
};

template <class T>
struct Lookup {
  const std::int32_t* ids;
  const float* weights;
  T* dst;
  Index entries;
  RowItems items;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const RowItem it(items, i);
    const Index id = ids[it.row];
    T* to = dst + it.row * items.width;
    if (id < 0 || id >= entries) {
      for (Index h = it.begin; h < it.end; ++h) to[h] = stored<T>(Kokkos::Experimental::quiet_NaN_v<float>);
      return;
    }
    const float* from = weights + id * items.width;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index h = it.begin; h < it.end; ++h) to[h] = stored<T>(from[h]);
  }
};

struct MakeKeys {
  const std::int32_t* ids;
  Key* keys;
  Index entries;
  KOKKOS_FUNCTION void operator()(Index m) const {
    const Index id = ids[m];
    keys[m] = (id < 0 || id >= entries ? no_id : static_cast<Key>(id)) << 32 | static_cast<Key>(m);
  }
};

/// Numbers the distinct ids of sorted keys: rows[u] is id u, first[u] the index in `sorted` of its first key, and
/// first[number of distinct ids] the end of the last.
struct Runs {
  const Key* sorted;
  std::int32_t* rows;
  Index* first;
  Index count;

  KOKKOS_FUNCTION bool valid(Index i) const { return i < count && id_of(sorted[i]) != static_cast<Index>(no_id); }
  KOKKOS_FUNCTION bool begins(Index i) const {
    return valid(i) && (i == 0 || id_of(sorted[i]) != id_of(sorted[i - 1]));
  }
  KOKKOS_FUNCTION void begin(Index run, Index i) const {
    rows[run] = static_cast<std::int32_t>(id_of(sorted[i]));
    first[run] = i;
  }
};

/// With one work item.
struct FindRuns : Runs {
  KOKKOS_FUNCTION void operator()(Index) const {
    Index runs = 0, i = 0;
    for (; valid(i); ++i)
      if (begins(i)) begin(runs++, i);
    first[runs] = i;
    for (Index u = runs; u < count; ++u) rows[u] = -1;
  }
};

/// With one work item per key. First a kernel counts the runs that begin in each block of keys.
constexpr Index run_block = 32;

struct CountRuns : Runs {
  Index* begun;
  KOKKOS_FUNCTION void operator()(Index b) const {
    const Index end = (b + 1) * run_block < count ? (b + 1) * run_block : count;
    Index n = 0;
    for (Index i = b * run_block; i < end; ++i) n += begins(i) ? 1 : 0;
    begun[b] = n;
  }
};

struct NumberRuns : Runs {
  const Index* begun;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Index own = i / run_block;
    Index before = 0, all = 0;
    for (Index b = 0; b < ceil_div(count, run_block); ++b) {
      before += b < own ? begun[b] : 0;
      all += begun[b];
    }
    for (Index k = own * run_block; k < i; ++k) before += begins(k) ? 1 : 0;
    if (begins(i)) begin(before, i);
    if (valid(i) && !valid(i + 1)) first[all] = i + 1;
    if (i >= all) rows[i] = -1;
  }
};

/// Adds in the order of the keys, for any division into work items.
template <class T>
struct SumRuns {
  const Key* sorted;
  const std::int32_t* rows;
  const Index* first;
  const T* diff_dst;
  float* diff_rows;
  RowItems items;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const RowItem it(items, i);
    float* to = diff_rows + it.row * items.width;
    for (Index h = it.begin; h < it.end; ++h) to[h] = 0;
    if (rows[it.row] < 0) return;
    for (Index k = first[it.row]; k < first[it.row + 1]; ++k) {
      const T* from = diff_dst + index_of(sorted[k]) * items.width;
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index h = it.begin; h < it.end; ++h) to[h] += value_of(from[h]);
    }
  }
};

class KokkosEmbedding : public Embedding {
 public:
  explicit KokkosEmbedding(const EmbeddingDesc& d)
      : desc_(d), id_count_(d.ids.elements()), entries_(d.weights.shape[0]), items_(id_count_, d.weights.shape[1]) {}

  Layout layout(Verb, Role r) const override {
    return r == Role::weights ? desc_.weights.layout : Layout::plain({id_count_, items_.width});
  }
  std::string name(Verb v) const override { return v == Verb::forward ? "gather" : "sorted rows"; }
  std::size_t scratch_bytes(Verb v) const override {
    return v == Verb::forward ? 0 : Scratch::keys_bytes(id_count_) * 2 + Scratch::indices(id_count_) * sizeof(Index);
  }
  Cost cost(Verb) const override {
    const auto moved = static_cast<double>(id_count_ * items_.width);
    return {0, 2 * moved * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [ids, weights, dst] = args;
    with_type(dst.dtype(), [&](auto type) {
      using T = decltype(type);
      launch("keelson::embedding::forward", items_.count,
             Lookup<T>{ids.data<std::int32_t>(), weights.data<float>(), dst.data<T>(), entries_, items_});
    });
  }

  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [ids, diff_dst, rows, diff_rows, scratch] = args;
    const Scratch s(scratch, id_count_);
    auto* numbers = rows.data<std::int32_t>();
    launch("keelson::embedding::keys", id_count_, MakeKeys{ids.data<std::int32_t>(), s.keys, entries_});
    const Key* sorted = sort("keelson::embedding::sort", s.keys, s.other_keys, id_count_);
    const Runs runs{sorted, numbers, s.first, id_count_};
    if (runs_on_host) {
      launch("keelson::embedding::runs", 1, FindRuns{runs});
    } else {
      launch("keelson::embedding::count_runs", ceil_div(id_count_, run_block), CountRuns{runs, s.begun});
      launch("keelson::embedding::number_runs", id_count_, NumberRuns{runs, s.begun});
    }
    with_type(diff_dst.dtype(), [&](auto type) {
      using T = decltype(type);
      launch("keelson::embedding::sum", items_.count,
             SumRuns<T>{sorted, numbers, s.first, diff_dst.data<T>(), diff_rows.data<float>(), items_});
    });
  }

 private:
  struct Scratch {
    Key *keys, *other_keys;
    Index *first, *begun;  ///< count + 1 numbers, and a number per block

    Scratch(const Tensor& t, Index count) {
      auto* at = static_cast<std::byte*>(t.raw());
      keys = reinterpret_cast<Key*>(at);
      other_keys = reinterpret_cast<Key*>(at + keys_bytes(count));
      first = reinterpret_cast<Index*>(at + 2 * keys_bytes(count));
      begun = first + count + 1;
    }
    static std::size_t keys_bytes(Index count) { return align64(static_cast<std::size_t>(count) * sizeof(Key)); }
    static std::size_t indices(Index count) { return static_cast<std::size_t>(count + 1 + ceil_div(count, run_block)); }
  };

  EmbeddingDesc desc_;
  Index id_count_, entries_;
  RowItems items_;
};

struct Zero {
  float* dst;
  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    for (Index i = begin; i < end; ++i) dst[i] = 0;
  }
};

struct AddRow {
  const std::int32_t* rows;
  const float* diff_rows;
  float* dst;
  RowItems items;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const RowItem it(items, i);
    if (rows[it.row] < 0) return;
    const float* from = diff_rows + it.row * items.width;
    float* to = dst + rows[it.row] * items.width;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index h = it.begin; h < it.end; ++h) to[h] += from[h];
  }
};

class KokkosAddRows : public AddRows {
 public:
  explicit KokkosAddRows(const AddRowsDesc& d) : desc_(d), items_(d.diff_rows.shape[0], d.dst.shape[1]) {}
  Layout layout(Verb, Role r) const override { return r == Role::src ? desc_.diff_rows.layout : desc_.dst.layout; }
  std::string name(Verb) const override { return "scatter"; }
  Cost cost(Verb) const override {
    const auto rows = static_cast<double>(desc_.diff_rows.bytes());
    return {static_cast<double>(desc_.diff_rows.elements()),
            3 * rows + (desc_.accumulate ? 0.0 : static_cast<double>(desc_.dst.bytes()))};
  }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [rows, diff_rows, dst] = args;
    if (!desc_.accumulate) for_each_block("keelson::add_rows::zero", dst.elements(), Zero{dst.data<float>()}, 16384);
    launch("keelson::add_rows::forward", items_.count,
           AddRow{rows.data<std::int32_t>(), diff_rows.data<float>(), dst.data<float>(), items_});
  }

 private:
  AddRowsDesc desc_;
  RowItems items_;
};

std::string not_plain_matrix(const char* name, const TensorDesc& d) {
  if (auto why = not_strided_f32(name, d); !why.empty()) return why;
  if (d.shape.rank() != 2) return fmt::format("{} has shape {}, expected a matrix", name, to_string(d.shape));
  if (!d.layout.is_any() && !d.layout.is_plain(d.shape)) return fmt::format("{} is not plain", name);
  return "";
}

}  // namespace

Expected<Embedding> make(const EmbeddingDesc& desc) {
  EmbeddingDesc d = desc;
  if (d.ids.dtype != DType::s32) return fmt::format("ids are {}, not s32", to_string(d.ids.dtype));
  if (!d.ids.layout.is_any() && !d.ids.layout.is_plain(d.ids.shape)) return std::string("ids are not plain");
  if (auto why = not_plain_matrix("weights", d.weights); !why.empty()) return why;
  d.weights.layout = Layout::plain(d.weights.shape);
  return std::unique_ptr<Embedding>(std::make_unique<KokkosEmbedding>(d));
}

Expected<AddRows> make(const AddRowsDesc& d) {
  if (auto why = not_plain_matrix("diff_rows", d.diff_rows); !why.empty()) return why;
  if (auto why = not_plain_matrix("dst", d.dst); !why.empty()) return why;
  if (d.diff_rows.shape[1] != d.dst.shape[1])
    return fmt::format("rows of {} do not fit rows of {}", d.diff_rows.shape[1], d.dst.shape[1]);
  return std::unique_ptr<AddRows>(std::make_unique<KokkosAddRows>(d));
}

}  // namespace keelson::kokkos
