#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/ops/operands.hpp"
#include "tests/ops/support_table.hpp"
#include "tests/oracle/ops.hpp"
#include "tests/support/allocations.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/tensors.hpp"

/// What the tests of single ops share: a table of cases times every context, operands in several layouts, and the
/// promises that engine/ops/primitive.hpp makes for every primitive.
namespace keelson::testing {

/// How a test asks for its operands.
enum class LayoutChoice {
  plain,
  channels_last,
  any,       ///< the primitive chooses everything
  reader,    ///< plain source, as a reader delivers it; the primitive chooses the rest
  producer,  ///< what this context's convolution chooses for its result, where that is opaque
};
std::string to_string(LayoutChoice c);

/// The layout that this context's convolution would hand on for a tensor of this shape; nothing where that is a strided
/// one.
std::optional<Layout> producer_layout(Context& context, const Shape& shape);

/// plain, channels_last or producer; nothing where there is no such layout for the shape (or it is another one's
/// equal).
std::optional<Layout> layout_of(Context& context, LayoutChoice c, const Shape& shape);

template <class Case>
struct OnContext {
  Case c;
  std::string context;
  friend void PrintTo(const OnContext& p, std::ostream* os) {
    *os << p.c.name << " on " << p.context << ": " << p.c.about;
  }
};

template <class Case>
std::vector<OnContext<Case>> on_every_context(const std::vector<Case>& cases) {
  std::vector<OnContext<Case>> all;
  for (const auto& c : cases)
    for (const auto& name : contexts()) all.push_back({c, name});
  return all;
}

/// For what is no op of a backend: once, with all backends in their order.
template <class Case>
std::vector<OnContext<Case>> on_all_backends(const std::vector<Case>& cases) {
  std::vector<OnContext<Case>> all;
  for (const auto& c : cases) all.push_back({c, contexts().back()});
  return all;
}

/// Test names: "stride_2d_kokkos".
struct CaseName {
  template <class Info>
  std::string operator()(const Info& info) const {
    return info.param.c.name + "_" + info.param.context;
  }
};

class OpTest : public ::testing::Test {
 protected:
  void use(const std::string& name) { use(name, context(name)); }
  /// A context of the backends of that name, in place of the one that tests share.
  void use(const std::string& name, Context& own) {
    name_ = name;
    context_ = &own;
  }
  Context& ctx() { return *context_; }

  /// Null where every backend of the context declines. That skips the test visibly at its end where the support table
  /// (tests/ops/support_table.cpp) allows the decline, and fails it elsewhere.
  template <class Desc>
  std::unique_ptr<typename Desc::Op> make(const Desc& desc) {
    std::string why;
    auto op = ctx().try_make(desc, &why);
    const auto wrong = contradiction(cell_of(desc, ctx().device()), backends_of(name_), op ? op->backend() : "", why);
    EXPECT_EQ(wrong, "") << ops::description_of(desc) << ": " << why << " (tests/ops/support_table.cpp)";
    if (!op) {
      declined_ += fmt::format("{}{}: {}", declined_.empty() ? "" : "; ", ops::description_of(desc), why);
    } else {
      EXPECT_FALSE(op->name(ops::Verb::forward).empty());
      EXPECT_FALSE(op->backend().empty());
      packs_ = calls_onednn_ = false;
      for (const auto verb : {ops::Verb::forward, ops::Verb::backward_data, ops::Verb::backward_weights}) {
        const bool by_onednn = op->backend_of(verb) == "onednn";  // of "mix", each verb may be another backend's
        calls_onednn_ = calls_onednn_ || by_onednn;
        packs_ = packs_ || (by_onednn && op->name(verb).find("gemm:") != std::string::npos) ||
                 op->name(verb).starts_with("kokkos_kernels:");
      }
    }
    return op;
  }

  bool accepts_everything() const { return name_ == "kokkos" || name_ == "mix"; }

  /// Runs `verb` twice. Both runs must leave the same bits in every output (so: no accumulation into what was there, no
  /// dependence on scratch), the second must not allocate, and padding must stay zero (unless a NaN met it).
  template <class Run>
  void run(const std::string& what, const std::vector<Tensor>& outputs, Run&& verb) {
    verb();
    std::vector<std::vector<unsigned char>> first;
    for (const auto& t : outputs) first.push_back(raw_bytes(ctx(), t));
    const auto used = allocations_of(verb);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(raw_bytes(ctx(), outputs[i]), first[i]) << what << ": output " << i << " differs when run again";
      if (outputs[i].layout().is_opaque() && all_finite(get(ctx(), outputs[i]))) {
        EXPECT_EQ(dirty_padding(ctx(), outputs[i]), 0) << what << ": padding of output " << i;
      }
    }
    EXPECT_LE(used.bytes, allowed_bytes()) << what << ": " << used.calls << " allocations";
  }

  /// run(), with what the op declares of its operands: sources keep their bits, and a result that may lie where a
  /// source lies has the same bits there.
  template <class Op>
  void run_forward(const std::string& what, Op& op, const typename Op::template Forward<ops::Tensors>& args) {
    run_declared<Op, Op::template Forward>(what, op, args);
  }
  template <class Op>
  void run_backward_data(const std::string& what, Op& op,
                         const typename Op::template BackwardData<ops::Tensors>& args) {
    run_declared<Op, Op::template BackwardData>(what, op, args);
  }
  template <class Op>
  void run_backward_weights(const std::string& what, Op& op,
                            const typename Op::template BackwardWeights<ops::Tensors>& args) {
    run_declared<Op, Op::template BackwardWeights>(what, op, args);
  }

  void check(const Tensor& got, const Array& want, const std::string& what, Tolerance t) {
    EXPECT_TRUE(close(get(ctx(), got), want, what, t));
  }
  void check(const Tensor& got, const Array& want, const std::string& what) {
    check(got, want, what, tolerance(got.dtype()));
  }

  void TearDown() override {
    if (!declined_.empty()) GTEST_SKIP() << declined_;
  }

  /// Bytes that a call of the last primitive made may allocate. Our own kernels none, but Kokkos keeps some for each
  /// launch (4.5 on Serial 608 bytes, and a strided verb launches many); oneDNN keeps maps of a call's arguments (the
  /// "large" cases show that neither grows with the tensors). Its GEMM, and the BLAS under Kokkos Kernels on some
  /// processors, pack matrices into memory of their own, with no way to hand them any.
  std::int64_t allowed_bytes() const {
    if (packs_) return std::numeric_limits<std::int64_t>::max();
    if (!context_->device().bus_id().empty())
      return std::int64_t{4} << 20;  // a GPU's kernel is loaded at its first launch, perhaps below compute-sanitizer
    return calls_ * (calls_onednn_ ? 64 * 1024 : 16 * 1024);
  }
  /// A call of the primitive makes at most so many calls of others, of oneDNN's if `of_onednn`.
  void allow_calls(std::int64_t count, bool of_onednn = false) {
    calls_ = count;
    calls_onednn_ = calls_onednn_ || of_onednn;
  }

 private:
  template <class Op, template <class> class Args>
  void run_declared(const std::string& what, Op& op, const Args<ops::Tensors>& args) {
    std::vector<std::size_t> counts;
    const auto tensors = ops::flatten(args, &counts);
    std::vector<ops::OperandInfo> operands;  // one per tensor
    const auto declared = ops::declared_operands<Args>(op.description());
    for (std::size_t i = 0; i < declared.size(); ++i) operands.insert(operands.end(), counts[i], declared[i]);
    std::vector<Tensor> results;
    std::vector<std::vector<unsigned char>> sources;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i] && operands[i].access == ops::Access::write) results.push_back(tensors[i]);
      const bool source = tensors[i] && operands[i].access == ops::Access::read;
      sources.push_back(source ? raw_bytes(ctx(), tensors[i]) : std::vector<unsigned char>());
    }
    run(what, results, [&] { ops::execute(op, args); });
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (!sources[i].empty()) {
        EXPECT_EQ(raw_bytes(ctx(), tensors[i]), sources[i])
            << what << ": " << to_string(operands[i].role) << " changed";
      }
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i] && operands[i].in_place_of != ops::Role::none)
        check_in_place<Op, Args>(what, op, tensors, operands, counts, i);
  }

  template <class Op, template <class> class Args>
  void check_in_place(const std::string& what, Op& op, std::vector<Tensor> tensors,
                      const std::vector<ops::OperandInfo>& operands, const std::vector<std::size_t>& counts,
                      std::size_t result) {
    const auto found = std::find_if(operands.begin(), operands.end(),
                                    [&](const auto& o) { return o.role == operands[result].in_place_of; });
    ASSERT_NE(found, operands.end()) << what;
    const auto source = static_cast<std::size_t>(found - operands.begin());
    const Tensor apart = tensors[result], original = tensors[source];
    if (!original || original.raw() == apart.raw() || !(original.desc() == apart.desc())) return;
    const Tensor shared = ctx().allocate(original.desc(), "in place");
    ctx().device().copy(shared.raw(), original.raw(), original.bytes());
    tensors[source] = tensors[result] = shared;
    ops::execute(op, ops::make_args<Args>(tensors.data(), counts));
    EXPECT_EQ(raw_bytes(ctx(), shared), raw_bytes(ctx(), apart))
        << what << ": " << to_string(operands[result].role) << " differs in place";
  }

  std::string name_, declined_;
  bool packs_ = false, calls_onednn_ = false;
  std::int64_t calls_ = 1;
  Context* context_ = nullptr;
};

template <class Case>
class CaseTest : public OpTest, public ::testing::WithParamInterface<OnContext<Case>> {
 protected:
  const Case& c() const { return this->GetParam().c; }
  void SetUp() override { use(this->GetParam().context); }
};

}  // namespace keelson::testing
