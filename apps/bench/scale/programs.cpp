#include "apps/bench/scale/programs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "apps/bench/networks.hpp"
#include "apps/bench/scale/space_parts.hpp"
#include "apps/bench/scale/stages.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"

namespace keelson::bench {
namespace {

using Kind = RankEvent::Kind;

/// The events of a rank, in order.
class EventList {
 public:
  void compute(double seconds) { append(Kind::compute, seconds); }
  void busy(double seconds) { append(Kind::busy, seconds); }
  void bucket(int index) { events_.push_back({.kind = Kind::bucket, .index = index}); }
  void wait(int message) { events_.push_back({.kind = Kind::wait, .index = message}); }
  int send(int peer, double bytes) { return message(Kind::send, peer, bytes); }
  int receive(int peer, double bytes) { return message(Kind::receive, peer, bytes); }
  std::vector<RankEvent> take() { return std::move(events_); }

 private:
  void append(Kind kind, double seconds) {
    if (seconds <= 0) return;
    if (!events_.empty() && events_.back().kind == kind)
      events_.back().seconds += seconds;
    else
      events_.push_back({.kind = kind, .seconds = seconds});
  }
  int message(Kind kind, int peer, double bytes) {
    events_.push_back({.kind = kind, .peer = peer, .bytes = static_cast<std::size_t>(bytes)});
    return messages_++;
  }
  std::vector<RankEvent> events_;
  int messages_ = 0;
};

/// How much longer the update takes than in the profile.
double update_factor(const Machine& machine, const ExchangeSettings& exchange) {
  return exchange.copies ? machine.update_arrays / 5 : 1;
}

/// The data that all ranks of a replica share.
struct GridStep {
  const StepProfile& profile;
  const ScaleGrid& grid;
  const Machine& machine;
  const ExchangeSettings& exchange;
  FusedNodes fused;
  std::vector<std::vector<StepProfile::Call>> forward, backward;  ///< per node
  std::vector<std::vector<NodeShare>> shares;                     ///< per rank along space
  std::vector<StageNodes> stages;
  int micro_batches = 1;

  double samples() const { return profile.batch / micro_batches; }  ///< of a micro-batch
};

/// Seconds of a call on a rank, for a micro-batch. With a part of the channels the passes over parameters shrink, too.
double seconds_on_rank(const GridStep& step, StepProfile::Call call, const NodeShare& n) {
  call.seconds *= n.parameters;
  call.least *= n.parameters;
  return call.on_part(n.share / n.parameters / step.micro_batches, step.machine.call_overhead);
}

/// Makes the program of one rank: stage `stage`, number `part` along space.
class ProgramWriter {
 public:
  ProgramWriter(const GridStep& step, int stage, int part)
      : step_(step),
        stage_(stage),
        part_(part),
        nodes_(step.stages[static_cast<std::size_t>(stage)]),
        shares_(step.shares[static_cast<std::size_t>(part)]) {}

  RankProgram write() {
    const int stages = step_.grid.stages, all = step_.micro_batches;
    post_receives();
    const int ahead = std::min(all, stages - stage_ - 1);
    for (int m = 0; m < ahead; ++m) forward_pass(m);
    for (int m = ahead; m < all; ++m) {
      forward_pass(m);
      backward_pass(m - ahead);
    }
    for (int m = all - ahead; m < all; ++m) backward_pass(m);
    if (gradient_bytes_ > 0) end_bucket();
    program_.update = nodes_.update * update_factor(step_.machine, step_.exchange);
    program_.events = events_.take();
    return std::move(program_);
  }

 private:
  bool is_first() const { return stage_ == 0; }
  bool is_last() const { return stage_ == step_.grid.stages - 1; }
  /// Bytes of a micro-batch that this rank sends over the cut behind stage `stage`.
  double cut_bytes(int stage) const {
    double bytes = 0;
    for (const int node : step_.stages[static_cast<std::size_t>(stage)].sent)
      bytes += shares_[static_cast<std::size_t>(node)].value_bytes;
    return bytes * step_.samples();
  }
  /// Ranks of the same place in the next stage and in this one differ by this number.
  int stage_distance() const { return step_.grid.data * step_.grid.parts(); }

  void post_receives() {
    for (int m = 0; m < step_.micro_batches; ++m) {
      if (!is_first()) values_.push_back(events_.receive(-stage_distance(), cut_bytes(stage_ - 1)));
      if (!is_last()) gradients_.push_back(events_.receive(stage_distance(), cut_bytes(stage_)));
    }
  }
  void take(int message) {
    events_.wait(message);
    events_.busy(step_.machine.message_overhead);
  }
  void give(int peer, double bytes) {
    events_.send(peer, bytes);
    events_.busy(step_.machine.message_overhead);
  }

  void forward_pass(int m) {
    if (!is_first()) take(values_[static_cast<std::size_t>(m)]);
    for (int i = nodes_.begin; i < nodes_.end; ++i) forward_node(static_cast<std::size_t>(i));
    if (!is_last()) give(stage_distance(), cut_bytes(stage_));
  }
  void backward_pass(int m) {
    if (!is_last()) take(gradients_[static_cast<std::size_t>(m)]);
    for (int i = nodes_.end; i-- > nodes_.begin;)
      backward_node(static_cast<std::size_t>(i), m == step_.micro_batches - 1);
    if (!is_first()) give(-stage_distance(), cut_bytes(stage_ - 1));
  }

  double seconds(const StepProfile::Call& call, std::size_t node) const {
    return seconds_on_rank(step_, call, shares_[node]);
  }
  double seconds(const std::vector<StepProfile::Call>& calls, std::size_t node) const {
    double sum = 0;
    for (const auto& c : calls) sum += seconds(c, node);
    return sum;
  }

  void forward_node(std::size_t node) {
    const NodeShare& n = shares_[node];
    const double all = seconds(step_.forward[node], node);
    const double beside = step_.exchange.hide_rows ? all * n.interior : 0;
    for (std::size_t e = 0; e < n.exchanges.size(); ++e) {
      const auto started = start(n.exchanges[e].sends, n.exchanges[e].receives);
      if (e + 1 == n.exchanges.size()) events_.compute(beside);
      end(started, 0);
    }
    events_.compute(n.exchanges.empty() ? all : all - beside);
  }

  /// `last`: of the step's passes, after which gradients are complete.
  void backward_node(std::size_t node, bool last) {
    const NodeShare& n = shares_[node];
    const bool hide = !step_.exchange.copies && !n.exchanges.empty();
    const auto run = [&](bool of_weights, bool everything) {
      for (const auto& c : step_.backward[node]) {
        if (!everything && c.of_weights != of_weights) continue;
        events_.compute(seconds(c, node));
        if (last && c.gradient_bytes > 0) complete(part_of(c.gradient_bytes, n));
      }
    };
    run(false, !hide);
    for (std::size_t e = n.exchanges.size(); e-- > 0;) {  // gradients take the way back
      const auto started = start(n.exchanges[e].receives, n.exchanges[e].sends);
      if (hide && e == 0) run(true, false);
      end(started, 1);
    }
  }

  /// Messages on their way, with the receives that are waited for.
  struct Started {
    std::vector<int> messages;
    std::vector<RowTransfer> receives;
  };
  Started start(const std::vector<RowTransfer>& sends, const std::vector<RowTransfer>& receives) {
    Started s{.messages = {}, .receives = receives};
    for (const RowTransfer& t : receives) s.messages.push_back(events_.receive(t.peer - part_, bytes(t)));
    for (const RowTransfer& t : sends) {
      events_.busy(handling(t, t.packed ? 1 : 0));
      s.messages.push_back(events_.send(t.peer - part_, bytes(t)));
    }
    return s;
  }
  /// `passes` over the received rows follow: they are added.
  void end(const Started& s, int passes) {
    for (const int m : s.messages) events_.wait(m);
    for (const RowTransfer& t : s.receives) events_.busy(handling(t, passes + (t.packed ? 1 : 0)));
  }
  double bytes(const RowTransfer& t) const { return static_cast<double>(t.bytes) * step_.samples(); }
  double handling(const RowTransfer& t, int passes) const {
    const double copies = step_.exchange.copies ? step_.machine.row_copies : passes;
    return step_.machine.message_overhead + copies * bytes(t) / step_.machine.sum_bandwidth;
  }

  static std::size_t part_of(std::size_t bytes, const NodeShare& n) {
    return static_cast<std::size_t>(std::llround(static_cast<double>(bytes) * n.parameters));
  }
  void complete(std::size_t bytes) {
    gradient_bytes_ += bytes;
    if (step_.exchange.bucket_bytes > 0 && gradient_bytes_ >= step_.exchange.bucket_bytes) end_bucket();
  }
  void end_bucket() {
    events_.bucket(static_cast<int>(program_.buckets.size()));
    program_.buckets.push_back(gradient_bytes_);
    gradient_bytes_ = 0;
  }

  const GridStep& step_;
  int stage_, part_;
  const StageNodes& nodes_;
  const std::vector<NodeShare>& shares_;
  EventList events_;
  RankProgram program_;
  std::vector<int> values_, gradients_;  // receives of other stages, by micro-batch
  std::size_t gradient_bytes_ = 0;
};

/// The step without parts, stages and micro-batches needs no network.
RankProgram whole_step(const StepProfile& p, const Machine& machine, const ExchangeSettings& exchange) {
  EventList events;
  RankProgram program;
  events.compute(p.forward);
  double done = 0;
  for (const auto& b : p.buckets(exchange.bucket_bytes)) {
    events.compute(b.ready - done);
    events.bucket(static_cast<int>(program.buckets.size()));
    program.buckets.push_back(b.bytes);
    done = b.ready;
  }
  events.compute(p.backward - done);
  program.events = events.take();
  program.update = p.update * update_factor(machine, exchange);
  return program;
}

/// The places of the profile's calls among the nodes after fusion.
void place_calls(GridStep& step, const Graph& graph) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    places[graph.nodes()[i].name] = static_cast<std::size_t>(step.fused.index[i]);
  for (std::size_t i = 0; i < step.fused.nodes.size(); ++i) places[step.fused.nodes[i].name] = i;
  step.forward.resize(step.fused.nodes.size());
  step.backward.resize(step.fused.nodes.size());
  std::size_t before = 0;  // calls of nodes that the network does not have belong to the node before them
  for (const auto& call : step.profile.calls) {
    if (const auto found = places.find(call.node); found != places.end()) before = found->second;
    (call.backward ? step.backward : step.forward)[before].push_back(call);
  }
}

/// Seconds of each node on the rank that works longest for it.
std::vector<NodeCost> node_costs(const GridStep& step) {
  std::vector<NodeCost> costs(step.fused.nodes.size());
  double parameters = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    for (const auto& shares : step.shares) {
      double seconds = 0;
      for (const auto* calls : {&step.forward[i], &step.backward[i]})
        for (const auto& c : *calls) seconds += seconds_on_rank(step, c, shares[i]);
      costs[i].passes = std::max(costs[i].passes, seconds * step.micro_batches);
    }
    for (const auto& c : step.backward[i]) costs[i].update += static_cast<double>(c.gradient_bytes);
    parameters += costs[i].update;
    costs[i].update *= step.shares[0][i].parameters;  // parts differ by one channel
    costs[i].has_calls = !step.forward[i].empty() || !step.backward[i].empty();
  }
  for (auto& c : costs) c.update *= step.profile.update / parameters;
  return costs;
}

}  // namespace

int micro_batches_of(const StepProfile& profile, const ScaleGrid& grid) {
  const auto samples = static_cast<int>(std::floor(profile.batch));
  if (grid.micro_batches == 0) {
    int m = grid.stages == 1 ? 1 : std::clamp(4 * grid.stages, 1, std::max(samples, 1));
    while (samples % m != 0) --m;
    return std::max(m, 1);
  }
  if (grid.micro_batches > 1 && std::fmod(profile.batch, grid.micro_batches) != 0)
    refuse(
        "--micro-batches {}: a replica has {} in a step, expected a number that divides them; give another one, or "
        "more --samples",
        grid.micro_batches, counted(samples, "sample"));
  return grid.micro_batches;
}

std::vector<RankProgram> grid_programs(const StepProfile& profile, const ScaleGrid& grid, const Machine& machine,
                                       const ExchangeSettings& exchange) {
  const int micro_batches = micro_batches_of(profile, grid);
  if (grid.is_data_only() && micro_batches == 1) return {whole_step(profile, machine, exchange)};
  const Network net = make_network(profile.net, profile.size);
  PlanOptions options{.training = true};
  GridStep step{.profile = profile,
                .grid = grid,
                .machine = machine,
                .exchange = exchange,
                .fused = fuse(net.graph, options),
                .forward = {},
                .backward = {},
                .shares = {},
                .stages = {},
                .micro_batches = micro_batches};
  place_calls(step, net.graph);
  step.shares = share_nodes(net.graph, step.fused, grid.space, net.title, !exchange.copies);
  step.stages = cut_stages(step.fused, node_costs(step), grid.stages);
  std::vector<RankProgram> programs;
  for (int stage = 0; stage < grid.stages; ++stage)
    for (int part = 0; part < grid.parts(); ++part) programs.push_back(ProgramWriter(step, stage, part).write());
  return programs;
}

}  // namespace keelson::bench
