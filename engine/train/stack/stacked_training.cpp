#include "engine/train/stack/stacked_training.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>

#include "engine/base/activity.hpp"
#include "engine/base/error.hpp"
#include "engine/graph/topology.hpp"
#include "engine/plan/update_rule.hpp"
#include "engine/train/stack/detail/block_source.hpp"
#include "engine/train/stack/detail/stack_worker.hpp"
#include "engine/train/training_checks.hpp"

namespace keelson {
namespace {

using detail::BlockRing;
using detail::BlockSource;
using detail::MemberState;
using detail::StackWorker;
using MemberList = std::vector<MemberState*>;

void require_member(const StackedMember& m, std::size_t number, const Dataset& training) {
  if (!m.graph || !m.optimizer) refuse("member {} of a stacked training has no graph, or no optimizer", number);
  if (m.epochs < 0 || m.patience < 0)
    refuse("member {} has {} epochs and a patience of {}: expected at least 0", number, m.epochs, m.patience);
  require_all_inputs(*m.graph, training);
}

double units_of(const Dataset& validation, const StackedOptions& o) {
  return o.validation_units > 0 ? o.validation_units : static_cast<double>(validation.size() * o.unit.per_sample);
}

MetricSetup setup_of(const StackedMember& m, const Dataset& data, const StackedOptions& o) {
  MetricSetup setup{.data = data.describe(),
                    .samples = data.size(),
                    .units = units_of(data, o),
                    .prediction_name = {},
                    .prediction = {},
                    .target = {}};
  if (std::ranges::none_of(m.metrics, [](const auto& metric) { return metric->reads_predictions(); })) return setup;
  setup.prediction_name = o.prediction;
  for (const auto& [name, node] : m.graph->outputs())
    if (name == o.prediction) setup.prediction = m.graph->nodes()[static_cast<std::size_t>(node)].shape.shape;
  for (const Field& f : data.fields())
    if (f.name == o.target) setup.target = f;
  if (setup.target.name.empty()) refuse("{} has no field {}", setup.data, o.target);
  return setup;
}

RunState first_state_of(const StackedMember& m, const Dataset& training, const StackedOptions& o) {
  RunState s;
  s.network = m.name;
  s.topology = Topology(*m.graph).to_text();
  s.seed = m.seed;
  s.global_batch = o.batch;
  s.train_samples = training.size();
  s.optimizer = m.optimizer->to_string();
  s.schedule = m.schedule.to_string();
  return s;
}

}  // namespace

struct StackedTraining::Impl {
  Impl(Context& where, std::vector<StackedMember> given, const Dataset& data, const Dataset* checked, StackedOptions o)
      : context(where), options(std::move(o)), training(data), validation(checked) {
    if (given.empty()) refuse("a stacked training of no members: expected at least one");
    if (options.precision == Precision::fp16)
      refuse("a stacked training in fp16: it has no loss scale; expected fp32, or bf16");
    require_enough_samples(training.size(), options.batch, 1, training.describe());
    for (std::size_t i = 0; i < given.size(); ++i) {
      require_member(given[i], i, training);
      auto& m = *members.emplace_back(std::make_unique<MemberState>(context, std::move(given[i])));
      set_own_shapes(m.parameters, *m.member.optimizer);  // a checkpoint may be loaded before there is a plan
      m.record.state = first_state_of(m.member, training, options);
      m.record.done = m.member.epochs == 0;
      const auto& metrics = m.member.metrics;
      if (!validation || metrics.empty()) continue;
      m.setup = setup_of(m.member, *validation, options);
      for (const auto& metric : metrics) metric->reset(m.setup);  // refuses data that it cannot measure
      if (metrics[0]->higher_is_better()) m.record.state.best_metric = -std::numeric_limits<double>::infinity();
    }
    const bool host = context.device().shares_host_memory();
    int count = options.workers > 0 ? options.workers : host ? context.device().current_instance().concurrency() : 1;
    count = std::min<int>(count, static_cast<int>(members.size()));
    for (int w = 0; w < count; ++w)
      workers.push_back(std::make_unique<StackWorker>(context, w, options, training, validation));
    sources[0].emplace(training, options, true, context);
    if (validation) sources[1].emplace(*validation, options, false, context);
  }

  /// The largest members first, each to the worker that has the least to do. Results do not depend on who does what.
  void deal() {
    MemberList open;
    for (const auto& m : members)
      if (!m->record.done && m->record.state.epoch == epoch) open.push_back(m.get());
    const auto cost = [](const MemberState& m) {
      return m.seconds > 0 ? m.seconds : static_cast<double>(m.member.graph->parameter_count()) * 1e-9 + 1e-6;
    };
    std::ranges::stable_sort(open, [&](auto* a, auto* b) { return cost(*a) > cost(*b); });
    dealt.assign(workers.size(), {});
    std::vector<double> load(workers.size(), 0.0);
    for (MemberState* m : open) {
      auto w = static_cast<std::size_t>(std::ranges::min_element(load) - load.begin());
      // A move costs new executors, so a member stays where it is unless that is much better.
      const auto now = static_cast<std::size_t>(m->worker);
      if (m->worker >= 0 && load[now] + cost(*m) < 1.02 * (load[w] + cost(*m))) w = now;
      load[w] += cost(*m);
      dealt[w].push_back(m);
      workers[w]->take(*m);
    }
  }

  /// The first epoch that a member lacks; no value: none lacks any.
  std::optional<std::int64_t> first_epoch() const {
    std::optional<std::int64_t> first;
    for (const auto& m : members)
      if (!m->record.done) first = std::min(first.value_or(m->record.state.epoch), m->record.state.epoch);
    return first;
  }

  /// All workers at work on their members, with the batches of one pass over the data. Returns whether the pass came to
  /// its end.
  bool pass(BlockSource& source, std::int64_t epoch,
            void (StackWorker::*work)(const MemberList& members, BlockRing& blocks)) {
    BlockRing ring(source.block(0), source.block(1), static_cast<int>(workers.size()));
    std::vector<std::exception_ptr> failures(workers.size() + 1);
    bool whole = false;
    std::vector<std::thread> threads;
    for (std::size_t w = 0; w < workers.size(); ++w)
      threads.emplace_back([&, w] {
        try {
          (*workers[w].*work)(dealt[w], ring);
        } catch (...) {
          failures[w + 1] = std::current_exception();
        }
      });
    try {
      whole = source.feed(ring, epoch);
    } catch (...) {
      failures[0] = std::current_exception();
      ring.fail();
    }
    for (auto& t : threads) t.join();
    for (const auto& f : failures)
      if (f) std::rethrow_exception(f);
    return whole;
  }

  void finish_epoch(MemberState& m);

  Context& context;
  const StackedOptions options;
  const Dataset& training;
  const Dataset* const validation;
  std::vector<std::unique_ptr<StackWorker>> workers;  ///< their plans end after the members' executors
  std::vector<std::unique_ptr<MemberState>> members;
  std::vector<MemberList> dealt;  ///< members of each worker
  std::optional<BlockSource> sources[2];
  std::int64_t epoch = 0;
  bool cut = false;
};

void StackedTraining::Impl::finish_epoch(MemberState& m) {
  StackedRecord& r = m.record;
  r.state.seconds += m.seconds;
  if (r.failure.empty() && validation) {
    r.state.validation_loss = r.state.metric = m.validation_sum.value() / units_of(*validation, options);
    for (const auto& metric : m.member.metrics) metric->reduce(nullptr);
    if (!m.member.metrics.empty()) {
      r.state.metric = m.member.metrics[0]->value();
      r.metric_values = m.member.metrics[0]->values();
    }
    if (!std::isfinite(r.state.metric) || !std::isfinite(r.state.validation_loss))
      r.failure = fmt::format("the validation after step {} gives a loss of {} and a metric of {}", r.state.step,
                              r.state.validation_loss, r.state.metric);
  }
  if (!r.failure.empty()) {
    r.done = true;
    return;
  }
  const double units = r.state.loss_samples * static_cast<double>(options.unit.per_sample);
  r.train_loss = r.state.loss_sum / std::max(1.0, units);
  begin_next_epoch(r.state);
  const bool better = m.member.metrics.empty() ? r.state.metric < r.state.best_metric
                                               : m.member.metrics[0]->better(r.state.metric, r.state.best_metric);
  if (validation && better) {
    r.state.best_metric = r.state.metric;
    r.state.best_epoch = r.state.epoch;
  }
  const auto without = r.state.epoch - std::max<std::int64_t>(0, r.state.best_epoch);
  r.done = r.state.epoch >= m.member.epochs || (validation && m.member.patience > 0 && without >= m.member.patience);
}

StackedTraining::StackedTraining(Context& context, std::vector<StackedMember> members, const Dataset& training,
                                 const Dataset* validation, StackedOptions options)
    : impl_(std::make_unique<Impl>(context, std::move(members), training, validation, std::move(options))) {}
StackedTraining::~StackedTraining() = default;

void StackedTraining::resume(std::size_t m, const RunState& state) {
  Impl& i = *impl_;
  MemberState& member = *i.members.at(m);
  if (state.step_in_epoch > 0)
    refuse("member {} goes on from step {} of epoch {}: a stacked training goes on from the end of an epoch", m,
           state.step_in_epoch, state.epoch + 1);
  if (state.global_batch != i.options.batch || state.train_samples != i.training.size())
    refuse("member {} was trained with batches of {} and {} samples: expected batches of {}, and {} samples", m,
           state.global_batch, state.train_samples, i.options.batch, i.training.size());
  member.record.state = state;
  member.record.state.optimizer = member.member.optimizer->to_string();
  member.record.state.schedule = member.member.schedule.to_string();
  member.record.done = state.epoch >= member.member.epochs;
}

bool StackedTraining::train_epoch() {
  Impl& i = *impl_;
  const auto first = i.first_epoch();
  if (!first || i.cut) return false;
  i.epoch = *first;
  i.deal();
  for (const MemberList& of_worker : i.dealt)
    for (MemberState* m : of_worker) m->seconds = 0;
  std::vector<RunState> before;
  for (const auto& m : i.members) before.push_back(m->record.state);
  {
    const Activity activity(Activity::Kind::step, 0, i.epoch + 1);
    i.cut = !i.pass(*i.sources[0], i.epoch, &StackWorker::train);
  }
  if (i.validation && !i.cut) {
    const Activity activity(Activity::Kind::validation, 0, i.epoch + 1);
    i.cut = !i.pass(*i.sources[1], i.epoch, &StackWorker::validate);
  }
  if (i.cut) {
    for (std::size_t m = 0; m < size(); ++m) i.members[m]->record.state = before[m];
    return false;
  }
  for (const MemberList& of_worker : i.dealt)
    for (MemberState* m : of_worker) i.finish_epoch(*m);
  for (std::size_t m = 0; m < size(); ++m)
    if (i.members[m]->record.done) stop(m);
  return i.first_epoch().has_value();
}

bool StackedTraining::was_cut() const { return impl_->cut; }

void StackedTraining::run() {
  while (train_epoch()) {
  }
}

void StackedTraining::stop(std::size_t m) {
  MemberState& state = *impl_->members.at(m);
  state.record.done = true;
  state.training.reset();
  state.validation.reset();
  state.worker = -1;
}

std::size_t StackedTraining::size() const { return impl_->members.size(); }
const StackedRecord& StackedTraining::record(std::size_t m) const { return impl_->members.at(m)->record; }
Parameters& StackedTraining::parameters(std::size_t m) { return impl_->members.at(m)->parameters; }
const StackedMember& StackedTraining::member(std::size_t m) const { return impl_->members.at(m)->member; }

}  // namespace keelson
