#include "engine/ops/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/conv.hpp"
#include "engine/ops/conv_max_pool.hpp"
#include "engine/ops/dense.hpp"
#include "engine/ops/detail/op_trial.hpp"
#include "engine/ops/detail/per_verb.hpp"
#include "engine/ops/device.hpp"
#include "engine/tune/autotuner.hpp"

namespace keelson::ops {

namespace {

struct MatMulMemory {
  void *src, *weights, *dst, *packed, *scratch;
};

MatMulMemory take(MemoryParts& memory, const MatMul& op, const MatMulDesc& d) {
  const auto span = [](const TensorDesc& t) {  // rows may lie apart
    std::int64_t last = 0;
    for (int i = 0; i < 2; ++i) last += (t.shape[i] - 1) * t.layout.strides()[i];
    return static_cast<std::size_t>(last + 1) * size_of(t.dtype);
  };
  MatMulMemory m{};
  m.src = memory.take_bytes(span(d.src)), m.weights = memory.take_bytes(span(d.weights)),
  m.dst = memory.take_bytes(span(d.dst));
  m.packed = memory.take_bytes(op.packed_bytes()), m.scratch = memory.take_bytes(op.scratch_bytes(Verb::forward));
  return m;
}

}  // namespace

std::size_t trial_bytes(const MatMul& op, const MatMulDesc& d, Verb) {
  MemoryParts memory(nullptr);
  take(memory, op, d);
  return memory.used();
}

void run_trial(MatMul& op, const MatMulDesc& d, Verb, void* block) {
  constexpr int most_uses = 64;
  MemoryParts memory(block);
  const auto m = take(memory, op, d);
  const Tensor src(d.src, m.src), weights(d.weights, m.weights), dst(d.dst, m.dst);
  op.pack(weights, m.packed);
  for (int use = 0; use < std::min(d.uses, most_uses); ++use) op.forward(src, weights, m.packed, dst, m.scratch);
}

namespace {

/// The candidates of a verb in the order of the rules of thumb.
template <class Desc>
class CandidatesOfVerb {
 public:
  using Op = typename Desc::Op;
  CandidatesOfVerb(const std::shared_ptr<Op>& first, const Desc& asked, const Desc& d, Verb verb,
                   const std::vector<OfferedRow<Desc>>& rows)
      : asked_(asked), desc_(d), verb_(verb), worth_making_(first != nullptr) {
    const CandidateRequest<Desc> request{d, verb, first.get()};
    add(rows, request, Preference::preferred);
    if (first) add(nullptr, {first->name(verb), [first] { return first; }, first->cost(verb).fewest_flops});
    add(rows, request, Preference::equal);
  }

  bool worth_making() const { return worth_making_; }
  /// As in Cost.
  double fewest_flops() const {
    double fewest = 0;
    for (const Entry& e : all_)
      if (const double flops = e.candidate.fewest_flops; flops > 0)
        fewest = fewest > 0 ? std::min(fewest, flops) : flops;
    return fewest;
  }
  const std::string& why() const { return why_; }

  /// The fastest one, or the first if nothing is measured.
  std::shared_ptr<Op> fastest(Device& device) {
    Autotuner* const autotuner = device.autotuner();
    if (!autotuner) return op(0);
    std::vector<std::string> names;
    for (const auto& c : all_) names.push_back(c.candidate.name);
    std::shared_ptr<void> memory;
    const auto prepare = [&](const std::vector<std::size_t>& candidates) {
      std::size_t most = 0;
      for (const std::size_t i : candidates) most = std::max(most, trial_bytes(*op(i), asked_, verb_));
      memory.reset();  // before the next block, so that there is room for one alone
      memory = autotuner->zeros(
          most, [&] { return device.allocate(most, "operands to time algorithms on"); },
          [&](void* kept) { device.zero(kept, most); });
      fill_trial(*op(candidates.front()), asked_, verb_, memory.get());
    };
    const auto run = [&](std::size_t i) {
      run_trial(*op(i), asked_, verb_, memory.get());
      return true;
    };
    std::string kind;
    if constexpr (requires { kind_of_problem(desc_); })
      kind = fmt::format("{} {}", kind_of_problem(desc_), to_string(verb_));
    const auto best = autotuner->choose(fmt::format("{} {}", describe(desc_), to_string(verb_)),
                                        fmt::format("{} threads", device.current_instance().concurrency()), names,
                                        {run, prepare, kind});
    return op(best.value());
  }

 private:
  struct Entry {
    const OpFactory* factory;  ///< null: of the first backend
    Candidate<Op> candidate;
    std::shared_ptr<Op> made;
  };

  void add(const std::vector<OfferedRow<Desc>>& rows, const CandidateRequest<Desc>& request, Preference wanted) {
    for (const auto& [factory, row] : rows) {
      if ((row->rule_of_thumb ? row->rule_of_thumb(request) : Preference::equal) != wanted) continue;
      const auto list = row->find(request);
      if (list.candidates.empty())
        why_ +=
            fmt::format("{}{}, {}: {}", why_.empty() ? "" : "; ", factory->name(), row->name, list.unsupported_reason);
      else
        worth_making_ = worth_making_ || !row->worth_alone || row->worth_alone(desc_);
      for (const auto& candidate : list.candidates) add(factory, candidate);
    }
  }
  void add(const OpFactory* factory, Candidate<Op> candidate) {
    const auto same = [&](const Entry& e) { return e.candidate.name == candidate.name; };
    if (std::none_of(all_.begin(), all_.end(), same)) all_.push_back({factory, std::move(candidate), nullptr});
  }

  const std::shared_ptr<Op>& op(std::size_t i) {
    Entry& e = all_.at(i);
    if (!e.made) {
      e.made = e.candidate.make();
      if (e.factory) e.made->set_backend(e.factory->name());
    }
    return e.made;
  }

  const Desc& asked_;  ///< if a layout is `any`, each candidate has its own
  const Desc& desc_;
  Verb verb_;
  bool worth_making_;
  std::vector<Entry> all_;
  std::string why_;
};

}  // namespace

template <class Desc>
std::unique_ptr<typename Desc::Op> by_fastest_candidates(std::unique_ptr<typename Desc::Op> first, const Desc& desc,
                                                         const std::vector<OfferedRow<Desc>>& rows, Device& device,
                                                         std::string& why) {
  using Op = typename Desc::Op;
  const std::shared_ptr<Op> made = std::move(first);
  Desc d = desc;
  if (made) d.take_layouts(*made);
  VerbParts<Op> parts{made, made, made};
  ByVerb<double> fewest_flops{};
  for (const Verb v : d.verbs()) {
    CandidatesOfVerb<Desc> candidates(made, desc, d, v, rows);
    if (!candidates.worth_making()) {
      why += (why.empty() ? "" : "; ") + candidates.why();
      return nullptr;
    }
    auto& part = parts[static_cast<std::size_t>(v)] = candidates.fastest(device);
    fewest_flops[static_cast<std::size_t>(v)] = candidates.fewest_flops();
    if (v == Verb::forward) d.take_layouts(*part);  // the gradients read what the forward pass has read
  }
  auto all = std::make_unique<PerVerb<Op>>(std::move(parts), fewest_flops);
  all->set_backend(made ? made->backend() : all->backend_of(d.verbs().front()));
  return all;
}

template std::unique_ptr<Conv> by_fastest_candidates(std::unique_ptr<Conv>, const ConvDesc&,
                                                     const std::vector<OfferedRow<ConvDesc>>&, Device&, std::string&);
template std::unique_ptr<ConvMaxPoolForward> by_fastest_candidates(
    std::unique_ptr<ConvMaxPoolForward>, const ConvMaxPoolForwardDesc&,
    const std::vector<OfferedRow<ConvMaxPoolForwardDesc>>&, Device&, std::string&);
template std::unique_ptr<ConvMaxPoolBackward> by_fastest_candidates(std::unique_ptr<ConvMaxPoolBackward>,
                                                                    const ConvMaxPoolDesc&,
                                                                    const std::vector<OfferedRow<ConvMaxPoolDesc>>&,
                                                                    Device&, std::string&);
template std::unique_ptr<Dense> by_fastest_candidates(std::unique_ptr<Dense>, const DenseDesc&,
                                                      const std::vector<OfferedRow<DenseDesc>>&, Device&, std::string&);
template std::unique_ptr<MatMul> by_fastest_candidates(std::unique_ptr<MatMul>, const MatMulDesc&,
                                                       const std::vector<OfferedRow<MatMulDesc>>&, Device&,
                                                       std::string&);

}  // namespace keelson::ops
