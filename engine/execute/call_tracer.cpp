#include "engine/execute/call_tracer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/plan/plan_report.hpp"

namespace keelson {
namespace {

const char* category_of(const Call& call) { return call.computation() ? "call" : "communication"; }

}  // namespace

CallTracer::CallTracer(const Program& program, const std::vector<BoundCall>& calls, bool looks, TraceRecorder& recorder)
    : program_(program),
      calls_(calls),
      recorder_(recorder),
      looks_(looks),
      launches_(program.calls().size()),
      exchanges_(static_cast<std::size_t>(program.channels())) {
  for (const Call& c : program.calls()) {
    names_.push_back(recorder.keep(c.node + "/" + op_name(c)));
    if (const Communication* m = c.communication(); m && m->step == Communication::Step::start)
      exchanges_[static_cast<std::size_t>(m->channel)].name = recorder.keep(m->desc.label);
  }
}

void CallTracer::ran(std::size_t call, TraceTime begin, TraceTime end) {
  recorder_.span(names_[call], category_of(program_.calls()[call]), begin, end);
  if (program_.calls()[call].communication()) note_exchange(call, begin, end);
}

void CallTracer::launched(std::size_t first, std::size_t last, TraceTime begin, TraceTime end) {
  const char*& name = launches_[first];
  if (!name) name = recorder_.keep(fmt::format("launch of {} ... {}", names_[first], names_[last - 1]));
  recorder_.span(name, "call", begin, end);
}

void CallTracer::note_exchange(std::size_t call, TraceTime begin, TraceTime end) {
  const Communication& c = *program_.calls()[call].communication();
  Exchange& e = exchanges_[static_cast<std::size_t>(c.channel)];
  if (c.step == Communication::Step::start) {
    const CollectiveDesc::Kind kind = c.desc.kind;
    const bool two_ranks = kind == CollectiveDesc::Kind::send || kind == CollectiveDesc::Kind::receive;
    e = {e.name, call, begin, end, 0, looks_ && !two_ranks};
    active_ += e.looked_at ? 1 : 0;
    return;
  }
  if (e.start_called == 0) return;  // the collective was started before the trace
  const TraceTime seen = e.ended > 0 ? e.ended : begin;
  recorder_.add({.name = e.name,
                 .category = "exchange",
                 .at = {e.start_called, e.start_returned, std::min(seen, begin), begin, end},
                 .track = static_cast<std::uint32_t>(c.channel),
                 .kind = TraceEvent::Kind::exchange});
  active_ -= e.looked_at ? 1 : 0;
  e.looked_at = false;
  e.start_called = 0;
}

void CallTracer::look() {
  if (active_ == 0) return;
  for (Exchange& e : exchanges_) {
    if (!e.looked_at || !calls_[e.start].collective->test()) continue;
    e.ended = trace_now();
    e.looked_at = false;
    --active_;
  }
}

}  // namespace keelson
