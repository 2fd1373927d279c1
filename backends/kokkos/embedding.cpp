#include "engine/ops/embedding.hpp"

#include <algorithm>

#include "backends/kokkos/common.hpp"
#include "backends/kokkos/makers.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;
using Key = std::uint64_t;  ///< id in the upper half, place in the lower: all differ

constexpr Key no_id = 0xffffffff;

KOKKOS_INLINE_FUNCTION Index id_of(Key k) { return static_cast<Index>(k >> 32); }
KOKKOS_INLINE_FUNCTION Index place_of(Key k) { return static_cast<Index>(k & 0xffffffff); }

struct Lookup {
  const std::int32_t* ids;
  const float* weights;
  float* dst;
  Index entries, width;
  KOKKOS_FUNCTION void operator()(Index m) const {
    const Index id = ids[m];
    float* to = dst + m * width;
    if (id < 0 || id >= entries) {
      for (Index h = 0; h < width; ++h) to[h] = Kokkos::Experimental::quiet_NaN_v<float>;
      return;
    }
    const float* from = weights + id * width;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index h = 0; h < width; ++h) to[h] = from[h];
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

/// Where a key stands among all: how many are smaller. Quadratic, but no memory and no order of work is asked for.
struct Rank {
  const Key* keys;
  Key* sorted;
  Index count;
  KOKKOS_FUNCTION void operator()(Index m) const {
    Index before = 0;
    for (Index i = 0; i < count; ++i) before += keys[i] < keys[m] ? 1 : 0;
    sorted[before] = keys[m];
  }
};

/// Numbers the distinct ids: first[u] is the place in `sorted` where the u-th begins; first[distinct] ends the last.
struct FindRuns {
  const Key* sorted;
  std::int32_t* rows;
  Index* first;
  Index count;
  KOKKOS_FUNCTION void operator()(Index) const {
    Index runs = 0, i = 0;
    for (; i < count && id_of(sorted[i]) != static_cast<Index>(no_id); ++i)
      if (i == 0 || id_of(sorted[i]) != id_of(sorted[i - 1])) {
        rows[runs] = static_cast<std::int32_t>(id_of(sorted[i]));
        first[runs++] = i;
      }
    first[runs] = i;
    for (Index u = runs; u < count; ++u) rows[u] = -1;
  }
};

struct SumRuns {
  const Key* sorted;
  const std::int32_t* rows;
  const Index* first;
  const float* diff_dst;
  float* diff_rows;
  Index width;
  KOKKOS_FUNCTION void operator()(Index u) const {
    float* to = diff_rows + u * width;
    for (Index h = 0; h < width; ++h) to[h] = 0;
    if (rows[u] < 0) return;
    for (Index i = first[u]; i < first[u + 1]; ++i) {
      const float* from = diff_dst + place_of(sorted[i]) * width;
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index h = 0; h < width; ++h) to[h] += from[h];
    }
  }
};

class KokkosEmbedding : public Embedding {
 public:
  explicit KokkosEmbedding(const EmbeddingDesc& d)
      : desc_(d), places_(d.ids.elements()), entries_(d.weights.shape[0]), width_(d.weights.shape[1]) {}

  Layout layout(Verb, Role r) const override {
    return r == Role::weights ? desc_.weights.layout : Layout::plain({places_, width_});
  }
  std::string name(Verb v) const override { return v == Verb::forward ? "gather" : "sorted rows"; }
  std::size_t scratch_bytes(Verb v) const override {
    if (v == Verb::forward) return 0;
    const auto keys = static_cast<std::size_t>(places_) * sizeof(Key);
    return align64(keys) * 2 + static_cast<std::size_t>(places_ + 1) * sizeof(Index);
  }
  Cost cost(Verb) const override {
    const auto moved = static_cast<double>(places_ * width_);
    return {0, 2 * moved * sizeof(float)};
  }

  void forward(const Tensor& ids, const Tensor& weights, const Tensor& dst) override {
    launch("keelson::embedding::forward", places_,
           Lookup{ids.data<std::int32_t>(), weights.data<float>(), dst.data<float>(), entries_, width_});
  }

  void backward(const Tensor& ids, const Tensor& diff_dst, const Tensor& rows, const Tensor& diff_rows,
                const Tensor& scratch) override {
    auto* at = static_cast<std::byte*>(scratch.raw());
    const auto keys_bytes = align64(static_cast<std::size_t>(places_) * sizeof(Key));
    auto* keys = reinterpret_cast<Key*>(at);
    auto* sorted = reinterpret_cast<Key*>(at + keys_bytes);
    auto* first = reinterpret_cast<Index*>(at + 2 * keys_bytes);
    auto* numbers = rows.data<std::int32_t>();
    launch("keelson::embedding::keys", places_, MakeKeys{ids.data<std::int32_t>(), keys, entries_});
    if constexpr (runs_on_host) {
      fence("keelson::embedding::keys");
      std::sort(keys, keys + places_);
      sorted = keys;
    } else {
      launch("keelson::embedding::sort", places_, Rank{keys, sorted, places_});
    }
    launch("keelson::embedding::runs", 1, FindRuns{sorted, numbers, first, places_});
    launch("keelson::embedding::sum", places_,
           SumRuns{sorted, numbers, first, diff_dst.data<float>(), diff_rows.data<float>(), width_});
  }

 private:
  EmbeddingDesc desc_;
  Index places_, entries_, width_;
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
  Index width;
  KOKKOS_FUNCTION void operator()(Index m) const {
    if (rows[m] < 0) return;
    const float* from = diff_rows + m * width;
    float* to = dst + rows[m] * width;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index h = 0; h < width; ++h) to[h] += from[h];
  }
};

class KokkosAddRows : public AddRows {
 public:
  explicit KokkosAddRows(const AddRowsDesc& d) : desc_(d) {}
  Layout layout(Verb, Role r) const override { return r == Role::src ? desc_.diff_rows.layout : desc_.dst.layout; }
  std::string name(Verb) const override { return "scatter"; }
  Cost cost(Verb) const override {
    const auto rows = static_cast<double>(desc_.diff_rows.bytes());
    return {static_cast<double>(desc_.diff_rows.elements()),
            3 * rows + (desc_.accumulate ? 0.0 : static_cast<double>(desc_.dst.bytes()))};
  }
  void forward(const Tensor& rows, const Tensor& diff_rows, const Tensor& dst) override {
    if (!desc_.accumulate) for_each_block("keelson::add_rows::zero", dst.elements(), Zero{dst.data<float>()}, 16384);
    launch("keelson::add_rows::forward", desc_.diff_rows.shape[0],
           AddRow{rows.data<std::int32_t>(), diff_rows.data<float>(), dst.data<float>(), desc_.dst.shape[1]});
  }

 private:
  AddRowsDesc desc_;
};

std::string not_plain_matrix(const char* name, const TensorDesc& d) {
  if (auto why = not_strided_f32(name, d); !why.empty()) return why;
  if (d.shape.rank() != 2) return fmt::format("{} has shape {}, expected a matrix", name, to_string(d.shape));
  if (!d.layout.is_any() && !d.layout.is_plain(d.shape)) return fmt::format("{} is not plain", name);
  return "";
}

}  // namespace

Made<Embedding> make_embedding(const EmbeddingDesc& desc) {
  EmbeddingDesc d = desc;
  if (d.ids.dtype != DType::s32) return fmt::format("ids are {}, not s32", to_string(d.ids.dtype));
  if (!d.ids.layout.is_any() && !d.ids.layout.is_plain(d.ids.shape)) return std::string("ids are not plain");
  if (auto why = not_plain_matrix("weights", d.weights); !why.empty()) return why;
  d.weights.layout = Layout::plain(d.weights.shape);
  return std::unique_ptr<Embedding>(std::make_unique<KokkosEmbedding>(d));
}

Made<AddRows> make_add_rows(const AddRowsDesc& d) {
  if (auto why = not_plain_matrix("diff_rows", d.diff_rows); !why.empty()) return why;
  if (auto why = not_plain_matrix("dst", d.dst); !why.empty()) return why;
  if (d.diff_rows.shape[1] != d.dst.shape[1])
    return fmt::format("rows of {} do not fit rows of {}", d.diff_rows.shape[1], d.dst.shape[1]);
  return std::unique_ptr<AddRows>(std::make_unique<KokkosAddRows>(d));
}

}  // namespace keelson::kokkos
