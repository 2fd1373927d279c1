#include "engine/ops/dropout.hpp"
#include "backends/common/divider.hpp"
#include "backends/kokkos/common/philox_lanes.hpp"
#include "backends/kokkos/common/values.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/base/philox.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

constexpr int lanes = philox_lanes;
constexpr Index positions_ahead = 32;  ///< that the memory gets time to read

/// Keeps or drops an element according to its 32 random bits.
struct Drop {
  std::int32_t least;  ///< of the upper 24 bits, to keep it
  float scale;
  KOKKOS_FUNCTION explicit Drop(float rate)
      : least(static_cast<std::int32_t>(Kokkos::ceil(rate * 16777216.0f))), scale(rate < 1 ? 1 / (1 - rate) : 0.0f) {}
  template <class T>
  KOKKOS_FUNCTION T operator()(std::uint32_t bits, T x) const {
    const bool keep = static_cast<std::int32_t>(bits >> 8) >= least;
    return stored<T>(keep ? value_of(x) * scale : 0.0f);
  }
};

/// Where the elements of an operand lie in the global batch. Runs of consecutive elements (plain order) are consecutive
/// there, too: the operand is one run or, of a part, each channel of each row is a run.
struct DropoutPlaces {
  Index elements_per_sample;        ///< of the whole value
  Index elements, runs;             ///< elements of a run; number of runs
  Index run_stride = 0, first = 0;  ///< between the runs' first elements in the whole value; of the first run

  explicit DropoutPlaces(const DropoutDesc& d) {
    const Shape& shape = d.src.shape;
    elements = shape.elements(), runs = 1;
    elements_per_sample = elements / shape[0] * d.rows_per_sample;
    if (d.part.rows == 0) return;
    runs = shape[0] * shape[1];
    elements /= runs;
    const Index row = elements / shape[2];
    run_stride = row * d.part.rows;
    first = row * d.part.first;
    elements_per_sample = elements_per_sample / shape[2] * d.part.rows;
  }
  /// The number of a run's first element in the global batch.
  KOKKOS_FUNCTION Index base(const StepParams& now, Index run) const {
    return now.sample_offset * elements_per_sample + run * run_stride + first;
  }
};

/// Element l of run r is element base(r) + l of the global batch. Four consecutive elements of the global batch share
/// one Philox block. Work item i of a run computes `lanes` blocks from base / 4 + lanes * i on.
template <class T>
struct Mask {
  DropoutParams p;
  const StepParams* step_params;
  DropoutPlaces at;
  Divider by_items;  ///< of a run
  Strided from_at, to_at;
  bool plain;  ///< both operands
  const T* src;
  T* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    Index run = item;
    const Index of_run = by_items.split(run), elements = at.elements, begin = run * elements;
    const Index base = at.base(*step_params, run);
    const Index block = base / 4 + of_run * lanes;
    // The 32 bits of element e are word e % 4 of its block: philox::bits({seed, stream, step}, e).
    PhiloxWords words;
    philox_blocks(step_params->seed ^ (std::uint64_t{p.stream} << 32), step_params->step,
                  static_cast<std::uint64_t>(block), 1, words);
    std::uint32_t bits[4 * lanes];
    for (int l = 0; l < lanes; ++l)
      for (int w = 0; w < 4; ++w) bits[4 * l + w] = words.word[w][l];
    const Drop drop(p.rate);
    const Index first = block * 4 - base;
    if (plain && first >= 0 && first + 4 * lanes <= elements) {
      const T* from = src + begin + first;
      T* to = dst + begin + first;
      KEELSON_INDEPENDENT_ITERATIONS
      for (int i = 0; i < 4 * lanes; ++i) to[i] = drop(bits[i], from[i]);
      return;
    }
    for (int i = 0; i < 4 * lanes; ++i) {
      const Index l = first + i;
      if (l < 0 || l >= elements) continue;
      const Index e = begin + l;
      dst[plain ? e : to_at.offset(e)] = drop(bits[i], src[plain ? e : from_at.offset(e)]);
    }
  }
};

/// The same for channels-last operands. A Philox block serves four positions of one channel. Work item i processes four
/// positions, and on a GPU one of their channels.
template <class T>
struct ChannelsLastMask {
  DropoutParams p;
  const StepParams* step_params;
  DropoutPlaces at;  ///< whose numbers are multiples of 4
  Index channels;
  Divider by_channels, by_positions;  ///< positions: of one row
  Index channel_stride;               ///< positions of one row in the whole value
  Index src_stride;                   ///< the stride of a position: `channels`, or more if src is a slice
  const T* src;
  T* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    Index begin = 0, end = channels;
    if constexpr (!runs_on_host) {
      begin = by_channels.split(item), end = begin + 1;
    }
    const Index position = item * 4;
    Index row = position;
    const Index of_row = by_positions.split(row);
    const Index base = at.base(*step_params, 0) + row * channels * channel_stride + of_row;
    const Drop drop(p.rate);
    // The channels of a slice lie far apart, so that the processor does not see which ones come next.
    const T* const ahead = src + (position + positions_ahead) * src_stride;
    for (Index c = begin; c < end; c += lanes) {
      for (int w = 0; w < 4; ++w) prefetch(ahead + w * src_stride + c);
      PhiloxWords words;
      philox_blocks(step_params->seed ^ (std::uint64_t{p.stream} << 32), step_params->step,
                    static_cast<std::uint64_t>((base + c * channel_stride) / 4),
                    static_cast<std::uint64_t>(channel_stride / 4), words);
      const int valid = static_cast<int>(end - c < lanes ? end - c : lanes);
      for (int w = 0; w < 4; ++w) {
        const T* from = src + (position + w) * src_stride + c;
        T* to = dst + (position + w) * channels + c;
        if (valid == lanes) {
          KEELSON_KEEP_LOOP
          KEELSON_INDEPENDENT_ITERATIONS
          for (int l = 0; l < lanes; ++l) to[l] = drop(words.word[w][l], from[l]);
        } else {
          for (int l = 0; l < valid; ++l) to[l] = drop(words.word[w][l], from[l]);
        }
      }
    }
  }
};

class KokkosDropout : public Dropout {
 public:
  explicit KokkosDropout(const DropoutDesc& d)
      : desc_(d),
        forward_{d.src.layout.is_plain(d.src.shape), position_stride(d.src)},
        backward_{forward_.plain && d.diff_dst().layout.is_plain(d.src.shape), position_stride(d.diff_dst())} {
    const DropoutPlaces at(d);
    if (forward_.src_stride == 0 || at.run_stride % 4 != 0 || at.first % 4 != 0)
      forward_.src_stride = backward_.src_stride = 0;
  }
  Layout layout(Verb, Role r) const override {
    return r == Role::diff_dst ? desc_.diff_dst().layout : desc_.src.layout;
  }
  std::string name(Verb) const override { return "philox"; }
  Cost cost(Verb) const override {
    return {static_cast<double>(desc_.src.elements()), 2 * static_cast<double>(desc_.src.bytes())};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, src, dst] = args;
    constexpr const char* label = "keelson::dropout::forward";
    run(label, forward_, step_params, src, dst);
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [step_params, diff_dst, diff_src] = args;
    constexpr const char* label = "keelson::dropout::backward";
    run(label, backward_, step_params, diff_dst, diff_src);
  }

 private:
  /// The layouts of a verb's operands, computed once: comparing layouts allocates.
  struct Layouts {
    bool plain;
    Index src_stride;  ///< for ChannelsLastMask; 0: another layout
  };

  void run(const char* label, const Layouts& layouts, const Tensor& step_params, const Tensor& src,
           const Tensor& dst) const {
    const auto& shape = desc_.src.shape;
    const Index elements = shape.elements();
    if (elements == 0) return;
    const DropoutPlaces at(desc_);
    with_type(desc_.src.dtype, [&](auto type) {
      using T = decltype(type);
      const auto* step = static_cast<const StepParams*>(step_params.raw());
      if (layouts.src_stride > 0) {
        const Index positions = positions_of(shape), items = shape[0] * positions / 4 * (runs_on_host ? 1 : shape[1]);
        launch(label, items,
               ChannelsLastMask<T>{desc_.params, step, at, shape[1], Divider(shape[1], items),
                                   Divider(positions, shape[0] * positions), at.runs > 1 ? at.run_stride : positions,
                                   layouts.src_stride, src.data<T>(), dst.data<T>()});
      } else {
        const Index items = at.elements / (4 * lanes) + 2;
        launch(label, at.runs * items,
               Mask<T>{desc_.params, step, at, Divider(items, at.runs * items), Strided(src), Strided(dst),
                       layouts.plain, src.data<T>(), dst.data<T>()});
      }
    });
  }

  static Index positions_of(const Shape& shape) { return shape.elements() / (shape[0] * shape[1]); }

  /// The stride from one position to the next if ChannelsLastMask can read the tensor, else 0.
  static Index position_stride(const TensorDesc& d) {
    if (d.shape.rank() < 3 || d.shape.elements() == 0 || positions_of(d.shape) % 4 != 0) return 0;
    int last = d.shape.rank() - 1;
    while (d.shape[last] == 1) --last;  // there are four positions or more
    Shape whole = d.shape;
    whole[1] = d.layout.strides()[last];
    const Layout slice = Layout::strided(d.shape, Layout::channels_last(whole).strides());
    return whole[1] >= d.shape[1] && d.layout == slice ? whole[1] : 0;
  }

  DropoutDesc desc_;
  Layouts forward_, backward_;
};

}  // namespace

Expected<Dropout> make(const DropoutDesc& d) {
  if (auto why = not_strided_values("src", d.src); !why.empty()) return why;
  if (d.src.layout.is_any()) return std::string("src has no layout yet; dropout takes its producer's layout");
  if (d.src.shape.rank() < 1) return std::string("src has no batch dim");
  if (auto why = not_strided_values("diff_dst", d.diff_dst()); !why.empty()) return why;
  return std::unique_ptr<Dropout>(std::make_unique<KokkosDropout>(d));
}

}  // namespace keelson::kokkos
