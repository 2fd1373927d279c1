#include "backends/kokkos/conv/gemm_conv.hpp"

#include <algorithm>
#include <optional>

#include "backends/kokkos/conv/im2col.hpp"
#include "backends/kokkos/norm/channels.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

void* at(void* base, Index elements, DType t) {
  return static_cast<char*>(base) + elements * static_cast<Index>(size_of(t));
}

/// A matrix with rows `step` elements apart.
TensorDesc matrix(Index rows, Index columns, Index step, DType t) {
  const Shape shape{rows, columns};
  return {shape, t, Layout::strided(shape, {step, 1})};
}

/// Windows of src, one row per element of dst.
Im2col forward_windows(const ConvDesc& d) {
  const Volume src(d.src.shape, Layout::channels_last(d.src.shape)),
      dst(d.dst.shape, Layout::channels_last(d.dst.shape));
  const auto kernel = three(d.params.kernel, 1), stride = three(d.params.stride, 1),
             dilation = three(d.params.dilation, 1), pad = three(d.params.pad_begin, 0);
  Im2col w;
  w.batch = d.src.shape[0];
  for (int i = 0; i < 3; ++i) {
    w.out[i] = static_cast<std::int32_t>(dst.extent[i]);
    w.in[i] = static_cast<std::int32_t>(src.extent[i]);
    w.taps[i] = static_cast<std::int32_t>(kernel[i]);
    w.mul[i] = static_cast<std::int32_t>(stride[i]);
    w.step[i] = static_cast<std::int32_t>(dilation[i]);
    w.offset[i] = -static_cast<std::int32_t>(pad[i]);
    w.div[i] = 1;
  }
  return w;
}

/// Windows of diff_dst, one row per element of src: the results that read the element, tap by tap.
Im2col backward_windows(const Im2col& forward) {
  Im2col w = forward;
  std::swap(w.out, w.in);
  for (int i = 0; i < 3; ++i) {
    w.mul[i] = 1;
    w.step[i] = -forward.step[i];
    w.offset[i] = -forward.offset[i];
    w.div[i] = forward.mul[i];
  }
  return w;
}

/// The windows of one group as a matrix, in pieces of rows that fit into scratch memory.
struct WindowMatrix {
  Im2col windows;
  Index groups, channels;  ///< channels of one group
  DType type;
  Index rows, columns, piece;  ///< piece: rows of all pieces but the last

  WindowMatrix(const Im2col& w, Index groups, Index channels, DType type, std::size_t bytes)
      : windows(w),
        groups(groups),
        channels(channels),
        type(type),
        rows(w.rows()),
        columns(w.tap_count() * channels),
        piece(rows) {
    const Index fit = static_cast<Index>(bytes) / (columns * static_cast<Index>(size_of(type)));
    if (!in_place() && fit < rows) piece = fit >= 128 ? fit / 128 * 128 : std::max<Index>(1, fit);
  }

  bool in_place() const { return windows.trivial(); }
  Index pieces() const { return ceil_div(rows, piece); }
  Index last() const { return rows - (pieces() - 1) * piece; }
  Index size(Index number) const { return number + 1 < pieces() ? piece : last(); }
  Index row_step() const { return in_place() ? groups * channels : columns; }
  std::size_t scratch_bytes() const {
    return in_place() ? 0 : align64(static_cast<std::size_t>(piece * columns) * size_of(type));
  }

  /// The piece: written to `scratch`, or part of `tensor`.
  void* make(void* tensor, Index group, Index number, void* scratch) const {
    void* first = at(tensor, group * channels, type);
    if (in_place()) return at(first, number * piece * row_step(), type);
    im2col(windows, first, groups * channels, channels, size_of(type), number * piece, size(number), scratch);
    return scratch;
  }
};

/// A product for whole pieces and a product for the last piece, made from `desc(rows of the piece)`.
class PieceGemm {
 public:
  template <class MakeDesc>
  std::string make(const WindowMatrix& m, const MakeMatMul& make_matmul, const MakeDesc& desc) {
    for (auto& [product, rows] : {std::pair{&whole_, m.piece}, {&last_, m.last()}}) {
      if (product == &last_ && m.last() == m.piece) break;
      auto made = make_matmul(desc(rows));
      if (!made.primitive) return made.unsupported_reason;
      *product = PieceOp{std::move(made.primitive), desc(rows)};
    }
    return "";
  }

  std::string name() const { return whole_.op ? whole_.op->name(Verb::forward) : ""; }
  std::size_t scratch_bytes() const { return std::max(whole_.bytes(), last_.bytes()); }

  void run(bool last, void* src, void* weights, void* dst, void* scratch) const {
    const auto& p = last && last_.op ? last_ : whole_;
    const Tensor b(p.desc.weights, weights);
    void* packed = p.op->packed_bytes() > 0 ? scratch : nullptr;
    if (packed) p.op->pack(b, packed);
    p.op->forward(Tensor(p.desc.src, src), b, packed, Tensor(p.desc.dst, dst),
                  static_cast<char*>(scratch) + align64(p.op->packed_bytes()));
  }

 private:
  struct PieceOp {
    std::unique_ptr<MatMul> op;
    MatMulDesc desc;
    std::size_t bytes() const {
      return op ? align64(op->packed_bytes()) + align64(op->scratch_bytes(Verb::forward)) : 0;
    }
  };
  PieceOp whole_, last_;
};

/// sum += part, of f32 arrays.
struct AddPart {
  float* sum;
  const float* part;
  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    for (Index i = begin; i < end; ++i) sum[i] += part[i];
  }
};

/// The gradient of src in the other order: one product for all taps of all elements of diff_dst, then sums of the taps
/// that reach an element of src. The product has a column for each tap and channel of src instead of a window of
/// diff_dst for each element of src, so that it is small where src has few channels, or where the stride makes src
/// large.
class TapProduct {
 public:
  /// Whether the product fits into `bytes` and is smaller than half of the windows.
  static bool pays(const ConvDesc& d, const WindowMatrix& windows, std::size_t bytes) {
    const TapProduct p(d, windows);
    return d.params.groups == 1 && !windows.in_place() && p.product_bytes() <= bytes &&
           2 * p.product_bytes() < static_cast<std::size_t>(windows.rows * windows.columns) * size_of(windows.type);
  }

  /// `windows`: of the gradient of src.
  TapProduct(const ConvDesc& d, const WindowMatrix& windows)
      : windows_(windows.windows),
        type_(d.src.dtype),
        dst_type_(d.dst.dtype),
        rows_(d.dst.elements() / d.dst.shape[1]),
        filters_(d.dst.shape[1]),
        channels_(d.src.shape[1]),
        columns_(windows.windows.tap_count() * channels_),
        padded_(ceil_div(columns_, 8) * 8) {}

  /// "", or why the product was declined.
  std::string make(const MakeMatMul& make_matmul, bool tf32) {
    MatMulDesc m{matrix(rows_, filters_, filters_, type_), matrix(filters_, padded_, padded_, type_),
                 matrix(rows_, padded_, padded_, DType::f32)};
    m.tf32 = tf32;
    auto made = make_matmul(desc_ = m);
    op_ = std::move(made.primitive);
    return op_ ? "" : made.unsupported_reason;
  }

  std::string name() const { return op_->name(Verb::forward); }
  std::size_t scratch_bytes() const {
    return weights_bytes() + product_bytes() + align64(op_->packed_bytes()) +
           align64(op_->scratch_bytes(Verb::forward));
  }

  void run(void* diff_dst, const void* weights, void* diff_src, char* scratch) const {
    char *const product = scratch + weights_bytes(), *const packed = product + product_bytes();
    // Rows of weights are aligned for tensor cores.
    copy_channels(weights, type_, columns_, scratch, type_, padded_, filters_);
    const Tensor b(desc_.weights, scratch);
    void* const ready = op_->packed_bytes() > 0 ? packed : nullptr;
    if (ready) op_->pack(b, ready);
    op_->forward(Tensor(desc_.src, diff_dst), b, ready, Tensor(desc_.dst, product),
                 packed + align64(op_->packed_bytes()));
    sum_taps(windows_, reinterpret_cast<const float*>(product), padded_, channels_, diff_src, dst_type_);
  }

 private:
  std::size_t weights_bytes() const { return align64(static_cast<std::size_t>(filters_ * padded_) * size_of(type_)); }
  std::size_t product_bytes() const { return align64(static_cast<std::size_t>(rows_ * padded_) * sizeof(float)); }

  Im2col windows_;
  DType type_, dst_type_;
  Index rows_, filters_, channels_, columns_, padded_;
  MatMulDesc desc_;
  std::unique_ptr<MatMul> op_;
};

class GemmConv : public Conv {
 public:
  GemmConv(const ConvDesc& d, std::size_t piece_bytes)
      : d_(d),
        ci_(d.weights.shape[1]),
        co_(d.weights.shape[0] / d.params.groups),
        src_(forward_windows(d), d.params.groups, ci_, d.src.dtype, piece_bytes),
        diff_(backward_windows(src_.windows), d.params.groups, co_, d.src.dtype, piece_bytes) {
    if (TapProduct::pays(d, diff_, piece_bytes)) taps_.emplace(d, diff_);
  }

  /// "", or why a product was declined.
  std::string make_gemms(const MakeMatMul& make_matmul) {
    const auto low = d_.src.dtype;
    const Index c = d_.src.shape[1], o = d_.dst.shape[1];
    const auto product = [&](const TensorDesc& a, const TensorDesc& b, const TensorDesc& y) {
      MatMulDesc m{a, b, y};
      m.tf32 = d_.tf32;
      return m;
    };
    auto why = forward_.make(src_, make_matmul, [&](Index rows) {
      return product(matrix(rows, src_.columns, src_.row_step(), low),
                     matrix(co_, src_.columns, src_.columns, low).transposed(), matrix(rows, co_, o, d_.dst.dtype));
    });
    if (why.empty() && d_.training && d_.diff_src && taps_)
      why = taps_->make(make_matmul, d_.tf32);
    else if (why.empty() && d_.training && d_.diff_src)
      why = data_.make(diff_, make_matmul, [&](Index rows) {
        return product(matrix(rows, diff_.columns, diff_.row_step(), low), matrix(diff_.columns, ci_, ci_, low),
                       matrix(rows, ci_, c, d_.dst.dtype));
      });
    if (why.empty() && d_.training && d_.diff_weights)
      why = weights_.make(src_, make_matmul, [&](Index rows) {
        return product(matrix(rows, co_, o, low).transposed(), matrix(rows, src_.columns, src_.row_step(), low),
                       matrix(co_, src_.columns, src_.columns, DType::f32));
      });
    return why;
  }

  Layout layout(Verb, Role r) const override {
    if (r == Role::src || r == Role::diff_src) return Layout::channels_last(d_.src.shape);
    if (r == Role::weights || r == Role::diff_weights) return Layout::channels_last(d_.weights.shape);
    if (r == Role::dst || r == Role::diff_dst) return Layout::channels_last(d_.dst.shape);
    return Layout::plain({d_.dst.shape[1]});
  }
  std::string name(Verb v) const override {
    if (v == Verb::backward_data && taps_) return "taps of " + taps_->name();
    const auto name = (v == Verb::forward ? forward_ : v == Verb::backward_data ? data_ : weights_).name();
    return (src_.in_place() ? "" : "windows of ") + name;
  }

  Cost cost(Verb) const override {
    const auto bytes = d_.src.used_bytes() + d_.weights.bytes() + d_.dst.bytes();
    return {conv_flops(d_), static_cast<double>(bytes)};
  }

  /// Every verb needs windows, then the memory of the verb, then the memory of the products.
  std::size_t scratch_bytes(Verb v) const override {
    switch (v) {
      case Verb::forward:
        return src_.scratch_bytes() + forward_.scratch_bytes();
      case Verb::backward_data:
        if (taps_) return taps_->scratch_bytes();
        return diff_.scratch_bytes() + turned_bytes() + data_.scratch_bytes();
      case Verb::backward_weights:
        return src_.scratch_bytes() + part_bytes() + sums_bytes() + weights_.scratch_bytes();
    }
    return 0;
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    char* const space = static_cast<char*>(scratch.raw());
    for_each_piece(src_, [&](Index g, Index piece, bool last) {
      void* a = src_.make(src.raw(), g, piece, space);
      forward_.run(last, a, at(weights.raw(), g * co_ * src_.columns, d_.src.dtype),
                   at(dst.raw(), piece * src_.piece * d_.dst.shape[1] + g * co_, d_.dst.dtype),
                   space + src_.scratch_bytes());
    });
    add_bias_and_activate(dst.raw(), d_.dst.dtype, src_.rows, d_.dst.shape[1],
                          d_.params.bias ? bias.data<float>() : nullptr, d_.params.activation);
  }

  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, weights, diff_src, scratch] = args;
    char* const space = static_cast<char*>(scratch.raw());
    if (taps_) return taps_->run(diff_dst.raw(), weights.raw(), diff_src.raw(), space);
    char* const turned = space + diff_.scratch_bytes();
    const auto low = d_.src.dtype;
    permute_weights(weights.raw(), d_.params.groups, co_, src_.windows.tap_count(), ci_, size_of(low), turned);
    for_each_piece(diff_, [&](Index g, Index piece, bool last) {
      void* a = diff_.make(diff_dst.raw(), g, piece, space);
      data_.run(last, a, at(turned, g * diff_.columns * ci_, low),
                at(diff_src.raw(), piece * diff_.piece * d_.src.shape[1] + g * ci_, d_.dst.dtype),
                turned + turned_bytes());
    });
  }

  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
    constexpr const char* label = "keelson::conv::add_piece";
    char* const space = static_cast<char*>(scratch.raw());
    char* const part = space + src_.scratch_bytes();
    char* const sums = part + part_bytes();
    const Index o = d_.dst.shape[1], size = co_ * src_.columns;
    for_each_piece(src_, [&](Index g, Index piece, bool last) {
      void* a = src_.make(src.raw(), g, piece, space);
      float* whole = diff_weights.data<float>() + g * size;
      void* y = piece == 0 ? static_cast<void*>(whole) : part;
      weights_.run(last, at(diff_dst.raw(), piece * src_.piece * o + g * co_, d_.src.dtype), a, y, sums + sums_bytes());
      if (piece > 0) for_each_block(label, size, AddPart{whole, reinterpret_cast<const float*>(part)});
    });
    if (d_.writes_diff_bias()) channel_sums(diff_dst.raw(), d_.src.dtype, src_.rows, o, diff_bias.data<float>(), sums);
  }

 private:
  template <class Use>
  void for_each_piece(const WindowMatrix& m, const Use& use) const {
    for (Index g = 0; g < d_.params.groups; ++g)
      for (Index piece = 0; piece < m.pieces(); ++piece) use(g, piece, piece + 1 == m.pieces());
  }

  std::size_t turned_bytes() const { return align64(d_.weights.bytes()); }
  std::size_t part_bytes() const {  // the sum of a later piece, before it is added to the sum of the first piece
    return src_.pieces() > 1 ? align64(static_cast<std::size_t>(co_ * src_.columns) * sizeof(float)) : 0;
  }
  std::size_t sums_bytes() const {
    return d_.writes_diff_bias() ? align64(channel_sums_scratch(src_.rows, d_.dst.shape[1])) : 0;
  }

  ConvDesc d_;
  Index ci_, co_;  ///< channels of one group
  WindowMatrix src_, diff_;
  PieceGemm forward_, data_, weights_;
  std::optional<TapProduct> taps_;  ///< in place of data_
};

std::string unfit(const ConvDesc& d) {
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}})
    if (!t->layout.is_any() && !t->layout.is_channels_last(t->shape))
      return fmt::format("{} is {}, not channels-last", name, t->layout.describe(t->shape));
  if (d.src.dtype != d.weights.dtype || (d.src.dtype != DType::f32 && !is_half(d.src.dtype)))
    return fmt::format("src is {}, weights are {}", to_string(d.src.dtype), to_string(d.weights.dtype));
  if (d.dst.dtype != DType::f32 && d.dst.dtype != d.src.dtype)
    return fmt::format("dst is {}, expected f32 or {}", to_string(d.dst.dtype), to_string(d.src.dtype));
  if (d.training && !derivative_from_dst(d.params.activation))
    return to_string(d.params.activation) + " cannot be fused in training: its derivative needs its argument";
  for (const auto* t : {&d.src, &d.dst})
    if (t->elements() / t->shape[1] > Index{INT32_MAX})
      return fmt::format("{} has more than 2^31 elements per channel", to_string(t->shape));
  return "";
}

}  // namespace

Expected<Conv> make_gemm_conv(const ConvDesc& desc, const MakeMatMul& make_matmul, std::size_t piece_bytes) {
  if (auto why = unfit(desc); !why.empty()) return why;
  ConvDesc d = desc;
  for (auto* t : {&d.src, &d.weights, &d.dst}) t->layout = Layout::channels_last(t->shape);
  auto conv = std::make_unique<GemmConv>(d, piece_bytes);
  if (auto why = conv->make_gemms(make_matmul); !why.empty()) return "a product is declined: " + why;
  return std::unique_ptr<Conv>(std::move(conv));
}

namespace {

constexpr std::size_t piece_of_candidate = std::size_t{16} << 20;

/// Why there is no candidate; empty: nothing speaks against it so far.
std::string unfit_candidate(const ConvDesc& d) {
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"dst", &d.dst}})
    if (t->dtype != DType::f32 || !t->layout.is_channels_last(t->shape))
      return fmt::format("{} is not f32 and channels-last", name);
  return d.params.groups != 1 ? "several groups" : "";
}

}  // namespace

Expected<Conv> make_few_channels_conv(const ConvDesc& d, const MakeMatMul& make_matmul) {
  constexpr Index most_values = 64;
  if (auto why = unfit_candidate(d); !why.empty()) return why;
  const Index taps = d.params.kernel.elements(), values = taps * d.src.shape[1];
  if (taps == 1) return std::string("the kernel has one element");
  if (values > most_values) return fmt::format("a window has {} values, more than {}", values, most_values);
  return make_gemm_conv(d, make_matmul, piece_of_candidate);
}

Expected<Conv> make_pointwise_conv(const ConvDesc& d, Verb verb, const MakeMatMul& make_matmul) {
  if (auto why = unfit_candidate(d); !why.empty()) return why;
  if (d.params.kernel.elements() != 1) return std::string("the kernel has several elements");
  if (verb != Verb::backward_weights) return std::string("only for the gradient of the weights");
  return make_gemm_conv(d, make_matmul, piece_of_candidate);
}

}  // namespace keelson::kokkos
