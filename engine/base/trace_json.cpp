#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/detail/trace_json.hpp"

namespace keelson::detail {
namespace {

using Json = nlohmann::ordered_json;

std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

/// Appends events to a text.
class Writer {
 public:
  explicit Writer(const RankOfTrace& r) : r_(r) {}

  void name(const char* what, int thread, const std::string& name) {
    begin();
    fmt::format_to(to(), R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what, r_.rank, thread,
                   quoted(name));
  }
  void sort_index() {
    begin();
    fmt::format_to(to(), R"({{"name":"process_sort_index","ph":"M","pid":{0},"tid":1,"args":{{"sort_index":{0}}}}})",
                   r_.rank);
  }
  void add(const TraceEvent& e) { e.kind == TraceEvent::Kind::span ? add_span(e) : add_exchange(e); }
  std::string take() { return fmt::to_string(text_); }

 private:
  std::back_insert_iterator<fmt::memory_buffer> to() { return std::back_inserter(text_); }
  void begin() {
    if (text_.size() > 0) fmt::format_to(to(), ",\n");
  }
  /// Microseconds of the trace. Divides nanoseconds as integers: rounding of a double could change the order of events.
  void time(const char* key, TraceTime nanoseconds) {
    fmt::format_to(to(), "\"{}\":{}{}.{:03}", key, nanoseconds < 0 ? "-" : "", std::abs(nanoseconds) / 1000,
                   std::abs(nanoseconds) % 1000);
  }
  TraceTime aligned(TraceTime t) const { return on_first_ranks_clock(t, r_.first, r_.last) - r_.begin; }
  const std::string& name_of(const char* name) {
    auto [found, added] = names_.try_emplace(name);
    if (added) found->second = quoted(name);
    return found->second;
  }

  void add_span(const TraceEvent& e) {
    begin();
    const TraceTime from = aligned(e.at[0]), until = aligned(e.at[1]);
    fmt::format_to(to(), R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},)", name_of(e.name), e.category, r_.rank,
                   e.track + 1);
    time("ts", from);
    fmt::format_to(to(), ",");
    time("dur", std::max<TraceTime>(0, until - from));
    if (e.step > 0) fmt::format_to(to(), R"(,"args":{{"step":{}}})", e.step);
    fmt::format_to(to(), "}}");
  }

  void asynchronous(char phase, const std::string& name, const TraceEvent& e, TraceTime at) {
    begin();
    fmt::format_to(to(), R"({{"name":{},"cat":"{}","ph":"{}","id":"0x{:x}","pid":{},"tid":1,)", name, e.category, phase,
                   (static_cast<std::uint64_t>(r_.rank) << 32) + e.track + 1, r_.rank);
    time("ts", aligned(at));
    fmt::format_to(to(), "}}");
  }
  void add_exchange(const TraceEvent& e) {
    const std::string& whole = name_of(e.name);
    const auto part = [&](const char* name, TraceTime from, TraceTime until) {
      if (until <= from) return;
      asynchronous('b', name_of(name), e, from);
      asynchronous('e', name_of(name), e, until);
    };
    asynchronous('b', whole, e, e.at[0]);
    part("posting", e.at[0], e.at[1]);
    part("under way", e.at[1], e.at[2]);
    part("landed", e.at[2], e.at[3]);
    part("waited for", e.at[3], e.at[4]);
    asynchronous('e', whole, e, e.at[4]);
  }

  const RankOfTrace& r_;
  fmt::memory_buffer text_;
  std::map<const char*, std::string> names_;
};

double microseconds(TraceTime t) { return static_cast<double>(t) / 1e3; }

}  // namespace

std::string render_events(const TraceRecorder& recorder, const RankOfTrace& r) {
  Writer w(r);
  w.name("process_name", 1, fmt::format("rank {} ({})", r.rank, r.host));
  w.sort_index();
  int thread = 0;
  for (const std::string& name : recorder.threads()) w.name("thread_name", ++thread, name);
  for (const TraceEvent& e : recorder.events()) w.add(e);
  return w.take();
}

std::string render_rank(const TraceRecorder& recorder, const RankOfTrace& r) {
  const auto clock = [](const ClockComparison& c) {
    return Json{{"offset_us", microseconds(c.offset)}, {"error_us", microseconds(c.error)}};
  };
  const Json j{{"rank", r.rank},
               {"host", r.host},
               {"clock_at_start", clock(r.first)},
               {"clock_at_end", clock(r.last)},
               {"events", recorder.events().size()},
               {"dropped_events", recorder.dropped()}};
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string trace_tail(const std::vector<std::string>& ranks, std::size_t capacity, bool whole) {
  const std::string clocks =
      "microseconds of rank 0's steady clock since the trace began. The clocks of the other ranks were compared with "
      "it "
      "by round trips of messages, of which the shortest counts, at the start and at the end of the trace; between the "
      "two the offset changes linearly. error_us: half the shortest round trip, the most by which an offset is wrong";
  return fmt::format(
      "\n],\n\"otherData\":{{\"clock\":{},\n\"complete\":{},\"event_limit_per_rank\":{},\"events_kept\":\"newest\","
      "\n\"ranks\":[\n{}\n]}}}}\n",
      quoted(whole ? clocks : clocks + ". This file has the events of one rank, which failed: compared at the start"),
      whole, capacity, fmt::join(ranks, ",\n"));
}

}  // namespace keelson::detail
