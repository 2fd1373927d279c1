#include "engine/ops/orthogonalize.hpp"

#include <algorithm>

#include "backends/common/divider.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/optim/optimizer_kernels.hpp"
#include "backends/kokkos/optim/squares.hpp"
#include "engine/base/memory_parts.hpp"
#include "engine/ops/context.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/matmul.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// dst = src / max(|src|, epsilon). A NaN in the sum of squares reaches all elements.
struct DivideByNorm {
  const float* src;
  const double* squares;
  float epsilon;
  float* dst;

  KOKKOS_FUNCTION void operator()(Index begin, Index end, Index apart = 1) const {
    const Index by = next_element(apart);
    const double norm = Kokkos::sqrt(*squares), least = epsilon;
    const auto factor = static_cast<float>(1 / (norm < least ? least : norm));
    const float* x = src;
    float* y = dst;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; i += by) y[i] = x[i] * factor;
  }
};

/// squared = a I + b gram + c squared, for square matrices. A row on a CPU, an element on a GPU.
struct Polynomial {
  float a, b, c;
  Index n;
  Divider by_diagonal;  ///< elements of the diagonal are n + 1 apart
  const float* gram;
  float* squared;

  Polynomial(const OrthogonalizeDesc& d, Index edge, const float* g, float* s)
      : a(d.a), b(d.b), c(d.c), n(edge), by_diagonal(edge + 1, edge * edge), gram(g), squared(s) {}
  Index items() const { return runs_on_host ? n : n * n; }

  KOKKOS_FUNCTION void operator()(Index i) const {
    if constexpr (runs_on_host) {
      const float* g = gram + i * n;
      float* s = squared + i * n;
      const float along = b, across = c;
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index k = 0; k < n; ++k) s[k] = along * g[k] + across * s[k];
      s[i] += a;
    } else {
      const float value = b * gram[i] + c * squared[i];
      Index of_diagonal = i;
      squared[i] = by_diagonal.split(of_diagonal) == 0 ? value + a : value;
    }
  }
};

/// A product of the iteration, which packs its right operand anew each time.
struct MuonProduct {
  std::unique_ptr<MatMul> op;
  MatMulDesc desc;

  std::size_t bytes() const { return align64(op->packed_bytes()) + op->scratch_bytes(Verb::forward); }
  void run(const float* src, const float* weights, float* dst, std::byte* memory) const {
    const auto at = [](const TensorDesc& d, const float* p) { return Tensor(d, const_cast<float*>(p)); };
    const Tensor right = at(desc.weights, weights);
    void* const packed = op->packed_bytes() > 0 ? memory : nullptr;
    op->pack(right, packed);
    op->forward(at(desc.src, src), right, packed, Tensor(desc.dst, dst), memory + align64(op->packed_bytes()));
  }
};

class KokkosOrthogonalize : public Orthogonalize {
 public:
  KokkosOrthogonalize(const OrthogonalizeDesc& d, Context& context) : desc_(d) {
    const TensorDesc &x = d.src, turned = x.transposed();
    const bool tall = x.shape[0] > x.shape[1];
    edge_ = tall ? x.shape[1] : x.shape[0];
    const TensorDesc square = TensorDesc::plain({edge_, edge_});
    gram_.desc = tall ? MatMulDesc{turned, x, square} : MatMulDesc{x, turned, square};
    square_.desc = {square, square, square};
    apply_.desc = tall ? MatMulDesc{x, square, x} : MatMulDesc{square, x, x};
    for (MuonProduct* p : {&gram_, &square_, &apply_}) {
      auto made = context.make_by_first(p->desc);
      if (!made.primitive) {
        unsupported_ = made.unsupported_reason;
        return;
      }
      p->op = std::move(made.primitive);
    }
    by_gram_ = flops(true) < flops(false);
  }

  /// The reason why the primitive cannot be made; empty: it can.
  const std::string& unsupported() const { return unsupported_; }

  Layout layout(Verb, Role) const override { return desc_.src.layout; }
  std::string name(Verb) const override { return gram_.op->name(Verb::forward); }
  std::string_view backend_of(Verb v) const override { return gram_.op->backend_of(v); }
  std::size_t scratch_bytes(Verb) const override {
    MemoryParts parts(nullptr);
    take(parts);
    return parts.used();
  }
  Cost cost(Verb) const override { return {flops(by_gram_), 2 * static_cast<double>(desc_.src.bytes())}; }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, dst, scratch] = args;
    MemoryParts parts(scratch.raw());
    Parts s = take(parts);
    const Index n = desc_.src.elements();
    sum_of_squares(src.data<float>(), n, s.sums, s.squares);
    const auto divide_into = [&](float* matrix) {
      for_flat_elements("keelson::orthogonalize::divide", n,
                        DivideByNorm{src.data<float>(), s.squares, desc_.epsilon, matrix});
    };
    if (by_gram_) {
      divide_into(s.matrix);
      iterate_gram(s);
      apply(s.matrix, s.power, dst.data<float>(), s);
      return;
    }
    float *now = dst.data<float>(), *next = s.matrix;
    if (desc_.steps % 2 != 0) std::swap(now, next);  // the last step writes dst
    divide_into(now);
    for (int i = 0; i < desc_.steps; ++i) {
      gram_.run(now, now, s.gram, s.memory);
      make_polynomial(s);
      apply(now, s.squared, next, s);
      std::swap(now, next);
    }
  }

 private:
  struct Parts {
    float *matrix, *gram, *squared;
    float *power, *other;  ///< by_gram_ alone
    double *sums, *squares;
    std::byte* memory;  ///< of one product at a time
  };
  Parts take(MemoryParts& parts) const {
    const Index n = desc_.src.elements();
    Parts p{};
    p.matrix = parts.take<float>(n);
    p.gram = parts.take<float>(edge_ * edge_);
    p.squared = parts.take<float>(edge_ * edge_);
    if (by_gram_) {
      p.power = parts.take<float>(edge_ * edge_);
      p.other = parts.take<float>(edge_ * edge_);
    }
    p.sums = parts.take<double>(sum_of_squares_scratch(n));
    p.squares = parts.take<double>(1);
    p.memory = parts.take_bytes(std::max({gram_.bytes(), square_.bytes(), apply_.bytes()}));
    return p;
  }

  double flops(bool by_gram) const {
    const double gram = matmul_flops(gram_.desc), square = matmul_flops(square_.desc), all = matmul_flops(apply_.desc);
    return by_gram && desc_.steps > 0 ? gram + (4 * desc_.steps - 3) * square + all
                                      : desc_.steps * (gram + square + all);
  }

  /// squared = a I + b gram + c gram^2.
  void make_polynomial(const Parts& s) {
    square_.run(s.gram, s.gram, s.squared, s.memory);
    const Polynomial polynomial(desc_, edge_, s.gram, s.squared);
    launch("keelson::orthogonalize::polynomial", polynomial.items(), polynomial);
  }
  /// dst = by X; of a tall matrix X by.
  void apply(const float* x, const float* by, float* dst, const Parts& s) {
    const bool tall = desc_.src.shape[0] > desc_.src.shape[1];
    tall ? apply_.run(x, by, dst, s.memory) : apply_.run(by, x, dst, s.memory);
  }
  /// power = the product of the polynomials of all steps. They commute with A, so A of the next step is Q A Q.
  void iterate_gram(Parts& s) {
    gram_.run(s.matrix, s.matrix, s.gram, s.memory);
    for (int i = 0; i < desc_.steps; ++i) {
      make_polynomial(s);
      if (i > 0) {
        square_.run(s.squared, s.power, s.other, s.memory);
        std::swap(s.power, s.other);
      }
      if (i + 1 < desc_.steps) {
        square_.run(s.squared, s.gram, s.other, s.memory);
        square_.run(s.other, s.squared, s.gram, s.memory);
      }
      if (i == 0) std::swap(s.power, s.squared);
    }
  }

  OrthogonalizeDesc desc_;
  Index edge_ = 0;        ///< of the square matrices: the smaller extent
  bool by_gram_ = false;  ///< all steps on A alone, which needs fewer operations if one extent is much larger
  MuonProduct gram_, square_, apply_;
  std::string unsupported_;
};

}  // namespace

Expected<Orthogonalize> make(const OrthogonalizeDesc& d, Context& context) {
  if (d.src.dtype != DType::f32) return fmt::format("src is {}, not f32", to_string(d.src.dtype));
  if (d.src.shape.rank() != 2 || !d.src.layout.is_plain(d.src.shape)) return std::string("src is not a plain matrix");
  if (!(d.epsilon > 0)) return fmt::format("epsilon is {}, expected a number above 0", d.epsilon);
  if (d.steps < 0 || d.steps > 99) return fmt::format("{} steps of the iteration, expected 0 to 99", d.steps);
  auto made = std::make_unique<KokkosOrthogonalize>(d, context);
  if (!made->unsupported().empty()) return made->unsupported();
  return std::unique_ptr<Orthogonalize>(std::move(made));
}

}  // namespace keelson::kokkos
