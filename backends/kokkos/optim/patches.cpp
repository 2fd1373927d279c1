#include "backends/kokkos/common/values.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/base/philox.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/kfac.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

using Extents = Kokkos::Array<Index, 3>;

/// Where windows begin and what they read, in three spatial dims.
struct PatchGeometry {
  Extents out{1, 1, 1}, in{1, 1, 1}, taps{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad{0, 0, 0}, step{0, 0, 0};
  Index stride_n, stride_c, channels, windows;  ///< elements; windows: taps of a window
  Index positions, chosen, images_of_sample, columns;

  explicit PatchGeometry(const PatchesDesc& d)
      : stride_n(d.src.layout.strides()[0]),
        stride_c(d.src.layout.strides()[1]),
        channels(d.src.shape[1]),
        windows(1),
        positions(d.positions()),
        chosen(d.chosen()),
        images_of_sample(d.src.shape[0] / d.samples),
        columns(d.columns()) {
    if (d.window.kernel.empty()) return;
    const Volume src(d.src.shape, d.src.layout);
    const Shape dst = conv_dst_shape(d.src.shape, window_of(d), 1);
    const int spatial = dst.rank() - 2;
    for (int i = 0; i < 3; ++i) in[i] = src.extent[i], step[i] = src.stride[i];
    for (int i = 0; i < spatial; ++i) out[3 - spatial + i] = dst[2 + i];
    taps = three(d.window.kernel, 1);
    stride = three(d.window.stride, 1);
    dilation = three(d.window.dilation, 1);
    pad = three(d.window.pad_begin, 0);
    windows = taps[0] * taps[1] * taps[2];
  }

 private:
  static ConvParams window_of(const PatchesDesc& d) {
    ConvParams window = d.window;
    window.groups = 1;
    return window;
  }
};

/// Writes a part of the matrix: on a CPU an item writes a row, on a GPU an element.
template <class T>
struct GatherPatches {
  PatchGeometry g;
  const StepParams* step_params;
  const T* src;
  const float* weight;
  Index first_row, first_column, columns;
  float* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    if constexpr (runs_on_host)
      write(item, first_column, first_column + columns);
    else
      write(item / columns, first_column + item % columns, first_column + item % columns + 1);
  }

  /// Position number k of those that are taken of an image.
  KOKKOS_FUNCTION Index position(Index image, Index k) const {
    if (g.chosen == g.positions) return k;
    constexpr std::uint32_t stream = philox::stream_of("positions of factors");
    const Index begin = k * g.positions / g.chosen, end = (k + 1) * g.positions / g.chosen;
    const philox::Key key{step_params->seed, stream, step_params->step};
    const Index number = (step_params->sample_offset * g.images_of_sample + image) * g.chosen + k;
    return begin + static_cast<Index>(
                       philox::below(key, static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(end - begin)));
  }

  KOKKOS_FUNCTION void write(Index row, Index begin, Index end) const {
    float* const to = dst + row * columns - first_column;
    const Index number = first_row + row, image = number / g.chosen;
    if (weight && weight[image / g.images_of_sample] == 0) {
      for (Index i = begin; i < end; ++i) to[i] = 0;
      return;
    }
    Index at[3], place = position(image, number % g.chosen);
    for (int d = 2; d >= 0; --d) {
      at[d] = place % g.out[d] * g.stride[d] - g.pad[d];
      place /= g.out[d];
    }
    const T* const from = src + image * g.stride_n;
    for (Index column = begin; column < end;) {
      const Index tap = column / g.channels;
      if (tap == g.windows) {
        to[column] = 1;
        return;
      }
      const Index last = (tap + 1) * g.channels < end ? (tap + 1) * g.channels : end;
      copy(from, at, tap, column - tap * g.channels, to + column, last - column);
      column = last;
    }
  }

  /// Channels [channel, channel + count) of a tap.
  KOKKOS_FUNCTION void copy(const T* from, const Index (&at)[3], Index tap, Index channel, float* to,
                            Index count) const {
    Index offset = channel * g.stride_c;
    bool inside = true;
    for (int d = 2; d >= 0; --d) {
      const Index x = at[d] + tap % g.taps[d] * g.dilation[d];
      tap /= g.taps[d];
      inside = inside && x >= 0 && x < g.in[d];
      offset += x * g.step[d];
    }
    const Index stride = g.stride_c;
    if (!inside) {
      for (Index i = 0; i < count; ++i) to[i] = 0;
    } else if (stride == 1) {
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index i = 0; i < count; ++i) to[i] = value_of(from[offset + i]);
    } else {
      for (Index i = 0; i < count; ++i) to[i] = value_of(from[offset + i * stride]);
    }
  }
};

/// An item adds a row on a CPU, an element on a GPU.
struct AddToTriangle {
  const float* block;
  float* packed;
  Index rows, first_row, columns;
  bool overwrite;

  KOKKOS_FUNCTION void operator()(Index item) const {
    if constexpr (runs_on_host)
      add(item, item, columns);
    else if (item % columns >= item / columns)
      add(item / columns, item % columns, item % columns + 1);
  }
  KOKKOS_FUNCTION void add(Index row, Index begin, Index end) const {
    const float* const from = block + row * columns;
    float* const to = packed + triangle_row(rows, first_row + row) - row;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; ++i) to[i] = overwrite ? from[i] : to[i] + from[i];
  }
};

class KokkosPatches : public Patches {
 public:
  explicit KokkosPatches(const PatchesDesc& d) : desc_(d), geometry_(d) {}
  Layout layout(Verb, Role r) const override {
    return r == Role::src ? desc_.src.layout : Layout::plain({desc_.rows(), desc_.columns()});
  }
  std::string name(Verb) const override { return "gather"; }
  Cost cost(Verb) const override {
    const auto written = static_cast<double>(desc_.rows()) * static_cast<double>(desc_.columns());
    return {0, written * sizeof(float) + static_cast<double>(desc_.src.bytes())};
  }

  void gather(const Tensor& step_params, const Tensor& src, const Tensor& weight, std::int64_t first_row,
              std::int64_t first_column, const Tensor& dst) override {
    const Index rows = dst.shape()[0], columns = dst.shape()[1];
    KEELSON_EXPECT(first_row >= 0 && first_row + rows <= desc_.rows());
    KEELSON_EXPECT(first_column >= 0 && first_column + columns <= geometry_.columns);
    with_type(desc_.src.dtype, [&]<class T>(T) {
      launch("keelson::kfac::patches", runs_on_host ? rows : rows * columns,
             GatherPatches<T>{geometry_, static_cast<const StepParams*>(step_params.raw()), src.data<T>(),
                              weight ? weight.data<float>() : nullptr, first_row, first_column, columns,
                              dst.data<float>()});
    });
  }

 private:
  PatchesDesc desc_;
  PatchGeometry geometry_;
};

class KokkosPackedTriangle : public PackedTriangle {
 public:
  explicit KokkosPackedTriangle(const PackedTriangleDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return desc_.packed().layout; }
  std::string name(Verb) const override { return "rows"; }
  Cost cost(Verb) const override {
    const auto elements = static_cast<double>(triangle_size(desc_.rows));
    return {elements, elements * 3 * sizeof(float)};
  }

  void add(const Tensor& block, std::int64_t first_row, bool overwrite, const Tensor& packed) override {
    const Index count = block.shape()[0], columns = desc_.rows - first_row;
    KEELSON_EXPECT(first_row >= 0 && count <= columns && block.shape()[1] == columns);
    launch("keelson::kfac::triangle", runs_on_host ? count : count * columns,
           AddToTriangle{block.data<float>(), packed.data<float>(), desc_.rows, first_row, columns, overwrite});
  }

 private:
  PackedTriangleDesc desc_;
};

}  // namespace

Expected<Patches> make(const PatchesDesc& d) {
  if (auto why = not_strided_values("src", d.src); !why.empty()) return why;
  if (!d.src.layout.is_strided()) return std::string("src needs a strided layout");
  const int spatial = d.window.kernel.rank();
  if (d.src.shape.rank() != spatial + 2 || spatial > 3)
    return fmt::format("src has shape {}, expected {} spatial dims", to_string(d.src.shape), spatial);
  if (d.samples < 1 || d.src.shape[0] % d.samples != 0)
    return fmt::format("{} entries of {} samples", d.src.shape[0], d.samples);
  return std::unique_ptr<Patches>(std::make_unique<KokkosPatches>(d));
}

Expected<PackedTriangle> make(const PackedTriangleDesc& d) {
  if (d.rows < 1) return fmt::format("a triangle of {} rows", d.rows);
  return std::unique_ptr<PackedTriangle>(std::make_unique<KokkosPackedTriangle>(d));
}

}  // namespace keelson::kokkos
