#include "backends/cuda/gemm.hpp"

#include <algorithm>
#include <cstdint>

#include "backends/cuda/instance.hpp"

namespace keelson::cuda {

namespace {

constexpr std::size_t most_workspace = std::size_t{32} << 20;
constexpr std::size_t workspace_alignment = 256;
constexpr int most_candidates = 16;

cudaDataType_t cuda_type(DType t) {
  switch (t) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      decline("multiplies f32, bf16 and f16, not {}", to_string(t));
  }
}

/// The layout of a matrix in memory: `lines` of `length` elements each, `pitch` elements apart.
struct Lines {
  std::int64_t lines, length, pitch;
  bool by_rows;
};

Lines lines_of(const char* name, const TensorDesc& d) {
  if (d.shape.rank() != 2) decline("{} has shape {}, expected a matrix", name, to_string(d.shape));
  if (!d.layout.is_strided()) decline("{} has the layout {}, expected strides", name, d.layout.to_string());
  const auto rows = d.shape[0], columns = d.shape[1];
  const auto row = d.layout.strides()[0], column = d.layout.strides()[1];
  if (columns == 1 || column == 1) {
    const auto pitch = rows == 1 ? columns : row;
    if (pitch >= columns) return {rows, columns, pitch, true};
  }
  if (rows == 1 || row == 1) {
    const auto pitch = columns == 1 ? rows : column;
    if (pitch >= rows) return {columns, rows, pitch, false};
  }
  decline("neither rows nor columns of {} are contiguous (strides {} and {})", name, row, column);
}

/// As a column-major matrix of cublasLt: our rows are its columns.
LtLayout layout_of(const Lines& m, DType t) {
  return make_lt_layout(cuda_type(t), static_cast<std::uint64_t>(m.length), static_cast<std::uint64_t>(m.lines),
                        m.pitch);
}

std::uint32_t element(const TensorDesc& d) { return static_cast<std::uint32_t>(size_of(d.dtype)); }

/// The usual alignment of matrices that begin some lines, or some lengths of a line, after 64-byte aligned memory.
/// Parts of larger matrices begin there, for example one time step of a sequence.
std::uint32_t usual_alignment(const char* name, const TensorDesc& d) {
  const auto m = lines_of(name, d);
  const auto bytes = static_cast<std::uint64_t>(m.length | (m.lines > 1 ? m.pitch : 0)) * size_of(d.dtype) | 64;
  return static_cast<std::uint32_t>(bytes & (~bytes + 1));
}

bool is_aligned(const void* p, std::uint32_t to) { return reinterpret_cast<std::uintptr_t>(p) % to == 0; }

template <class Value>
void set(const LtMatmul& operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute {}", static_cast<int>(attribute));
}

template <class Value>
void set(const LtPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute {}", static_cast<int>(attribute));
}

/// All settings of an algorithm as text, to be stored for the same version of cublasLt.
std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const auto word : algorithm.data) text += fmt::format("{}{:x}", text.empty() ? "" : ".", word);
  return text;
}

std::size_t span_bytes(const TensorDesc& d) { return (d.bytes() + 255) / 256 * 256; }

}  // namespace

/// Operands to run candidates on; allocated before the first candidate runs.
class Gemm::Trial {
 public:
  explicit Trial(const Gemm& p) : p_(p) {}

  bool run(const Algorithm& candidate) {
    const auto a = span_bytes(p_.a_), b = span_bytes(p_.b_), c = span_bytes(p_.c_);
    const auto bias = span_bytes(TensorDesc::plain({p_.c_.shape[1]}));
    if (!memory_) memory_ = trial_memory(a + b + c + bias + most_workspace + workspace_alignment);
    if (!memory_) throw NoTrialMemory();
    auto* at = static_cast<char*>(memory_.get());
    return p_.multiply(candidate, at, at + a, reinterpret_cast<const float*>(at + a + b + c), at + a + b,
                       at + a + b + c + bias) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  const Gemm& p_;
  GpuMemory memory_;
};

Gemm::Gemm(const LibraryPtr& library, const TensorDesc& a, const TensorDesc& b, const TensorDesc& c, Options options)
    : library_(library), a_(a), b_(b), c_(c), options_(options) {
  plan();
}

void Gemm::plan() {
  const auto &a = a_, &b = b_, &c = c_;
  if (a.dtype != b.dtype)
    decline("{} and {} are multiplied, expected one dtype", to_string(a.dtype), to_string(b.dtype));
  if (c.dtype != DType::f32 && c.dtype != a.dtype) decline("the result is {}, expected f32", to_string(c.dtype));
  auto left = lines_of("src", a), right = lines_of("weights", b), result = lines_of("dst", c);
  if (!(c.shape == Shape{a.shape[0], b.shape[1]}) || a.shape[1] != b.shape[0])
    decline("src {}, weights {} and dst {} do not fit together", to_string(a.shape), to_string(b.shape),
            to_string(c.shape));
  // cublasLt's matrices are column-major, so that our matrices are transposed for cublasLt: c^T = b^T a^T. If c itself
  // is column-major, cublasLt computes c = a b.
  swapped_ = !result.by_rows;
  if (swapped_) {
    std::swap(left, right);
    left.by_rows = !left.by_rows, right.by_rows = !right.by_rows;
  }
  if (options_.bias && (swapped_ || c.dtype != DType::f32)) decline("a bias needs a row-major f32 result");

  const bool rounds = options_.tf32 && a.dtype == DType::f32;
  operation_ = make_lt_matmul(rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, right.by_rows ? CUBLAS_OP_N : CUBLAS_OP_T);
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, left.by_rows ? CUBLAS_OP_N : CUBLAS_OP_T);
  if (options_.bias) {
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    // The heuristics need a pointer, but do not read its memory; run() sets the real pointer.
    set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(workspace_alignment));
  }
  left_ = layout_of(right, a.dtype);
  right_ = layout_of(left, a.dtype);
  result_ = layout_of(result, c.dtype);

  const std::array usual = {usual_alignment("src", a), usual_alignment("weights", b), usual_alignment("dst", c)};
  const std::array least = {element(a), element(b), element(c)};
  any_ = candidates(least).front();
  aligned_ = tuned(usual == least ? std::vector{*any_} : candidates(usual));
}

std::vector<Gemm::Algorithm> Gemm::candidates(const std::array<std::uint32_t, 3>& alignment) const {
  const auto preference = make_lt_preference();
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
  // Partial sums in f32, added in order, and not in the type of the result, which may be 16-bit.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment[swapped_ ? 0 : 1]);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment[swapped_ ? 1 : 0]);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment[2]);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment[2]);
  cublasLtMatmulHeuristicResult_t found[most_candidates];
  int count = 0;
  const auto status =
      cublasLtMatmulAlgoGetHeuristic(library_->lt.get(), operation_.get(), left_.get(), right_.get(), result_.get(),
                                     result_.get(), preference.get(), most_candidates, found, &count);
  std::vector<Algorithm> usable;
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= most_workspace)
      usable.push_back({alignment, found[i].algo, found[i].workspaceSize});
  if (usable.empty())
    decline("cublasLt {} has no algorithm for this product on sm_{}: {}", cublasLtGetVersion(),
            library_->gpu.architecture, StatusTraits<cublasStatus_t>::decode(status));
  return usable;
}

Gemm::Algorithm Gemm::tuned(const std::vector<Algorithm>& all) const {
  std::vector<std::string> names;
  for (const auto& c : all) names.push_back(text_of(c.algorithm));
  Trial trial(*this);
  try {
    const auto best = library_->autotuner.choose(key(all.front().alignment), "", names,
                                                 {[&](std::size_t i) { return trial.run(all[i]); }});
    if (best) return all[*best];
  } catch (const NoTrialMemory&) {
    return all.front();
  }
  decline("none of the {} algorithms that cublasLt {} proposes runs on {}", all.size(), cublasLtGetVersion(),
          this_gpu());
}

std::string Gemm::key(const std::array<std::uint32_t, 3>& alignment) const {
  return fmt::format("product {}{}{}, a {}, b {}, c {}, aligned {} {} {}", to_string(a_.dtype),
                     options_.tf32 && a_.dtype == DType::f32 ? " tf32" : "", options_.bias ? " + bias" : "",
                     to_string(a_), to_string(b_), to_string(c_), alignment[0], alignment[1], alignment[2]);
}

std::string Gemm::name() const {
  return fmt::format("cublaslt:{}",
                     options_.tf32 && a_.dtype == DType::f32 ? std::string_view("tf32") : to_string(a_.dtype));
}

std::size_t Gemm::scratch_bytes() const {
  const auto most = std::max(aligned_->workspace, any_->workspace);
  return most > 0 ? most + workspace_alignment : 0;
}

void Gemm::run(const void* a, const void* b, const float* bias, void* c, void* scratch) const {
  const auto& least = aligned_->alignment;
  const bool fits = is_aligned(a, least[0]) && is_aligned(b, least[1]) && is_aligned(c, least[2]);
  const auto status = multiply(fits ? *aligned_ : *any_, a, b, bias, c, scratch);
  if (status != CUBLAS_STATUS_SUCCESS) check(status, "cublasLtMatmul of {} and {}", to_string(a_), to_string(b_));
}

cublasStatus_t Gemm::multiply(const Algorithm& with, const void* a, const void* b, const float* bias, void* c,
                              void* scratch) const {
  if (options_.bias) set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias));
  const auto at =
      (reinterpret_cast<std::uintptr_t>(scratch) + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
  const float one = 1, zero = 0;
  return cublasLtMatmul(library_->lt.get(), operation_.get(), &one, swapped_ ? a : b, left_.get(), swapped_ ? b : a,
                        right_.get(), &zero, c, result_.get(), c, result_.get(), &with.algorithm,
                        with.workspace > 0 ? reinterpret_cast<void*>(at) : nullptr, with.workspace, current_stream());
}

}  // namespace keelson::cuda
