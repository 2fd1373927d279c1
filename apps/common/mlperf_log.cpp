#include "apps/common/mlperf_log.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cerrno>
#include <cstring>

#include "apps/common/machine.hpp"
#include "apps/common/verb.hpp"
#include "engine/base/error.hpp"

namespace keelson::app {
namespace {

using Json = nlohmann::ordered_json;
enum class Event { interval_start, interval_end, point_in_time };

std::int64_t milliseconds(std::chrono::system_clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(t.time_since_epoch()).count();
}

std::chrono::system_clock::time_point wall_time(MlperfLog::Time t) {
  using Wall = std::chrono::system_clock;
  return Wall::now() - std::chrono::duration_cast<Wall::duration>(MlperfLog::Time::clock::now() - t);
}

void write(std::ostream& out, Event event, const std::string& key, const Json& value = nullptr,
           const Json& metadata = Json::object(),
           std::chrono::system_clock::time_point when = std::chrono::system_clock::now()) {
  constexpr const char* events[] = {"INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"};
  const Json line{
      {"namespace", ""}, {"time_ms", milliseconds(when)}, {"event_type", events[static_cast<int>(event)]}, {"key", key},
      {"value", value},  {"metadata", metadata}};
  fmt::print(out, ":::MLLOG {}\n", line.dump());
  out.flush();  // what a killed run has done stays
  if (!out) fail("the MLPerf log cannot be written: {}", std::strerror(errno));
}

/// Counted from 1.
Json epoch(std::int64_t number, const RunState& s) { return {{"epoch_num", number}, {"step_num", s.step}}; }

std::string platform() {
  for (const auto& [what, text] : describe_machine())
    if (what == "Processor") return text;
  return "unknown";
}

}  // namespace

void check(const MlperfOptions& o, const MlperfBenchmark& benchmark) {
  if (o.division == "closed" && !benchmark.not_closed.empty())
    refuse("--mlperf-division closed: MLPerf HPC prescribes more of {}: {}; or give --mlperf-division open",
           benchmark.name, benchmark.not_closed);
}

double as_written(float value) { return std::stod(fmt::format("{}", value)); }

void declare(MlperfOptions& o, Verb& v) {
  v.option_without_default(
       "--mlperf-log", o.file,
       "Write the log lines of MLPerf HPC's rules into this file, for MLCommons' compliance checker", "FILE")
      .not_stored()
      .differs_between_ranks();
  v.option("--mlperf-organization", o.organization, "For --mlperf-log: who submits", "NAME").not_stored();
  v.option_without_default("--mlperf-platform", o.platform,
                           "For --mlperf-log: the machine's name; default: its nodes and processors", "NAME")
      .not_stored();
  v.option("--mlperf-division", o.division, "For --mlperf-log: the rules that the run follows")
      .one_of({"closed", "open"})
      .not_stored();
  v.option("--mlperf-status", o.status, "For --mlperf-log: whether one can buy such a machine")
      .one_of({"cloud", "onprem", "preview", "research"})
      .not_stored();
  v.flag("--mlperf-cache-cleared", o.cache_cleared,
         "For --mlperf-log: says that the job script has emptied the nodes' page caches before the run, as the rules "
         "ask")
      .not_stored();
}

void MlperfLog::check_place(const MlperfOptions& o, bool overwrite) {
  const std::filesystem::path file = o.file, folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!std::filesystem::is_directory(folder)) refuse("--mlperf-log {}: there is no folder {}", o.file, folder.string());
  if (std::filesystem::exists(file) && !overwrite)
    refuse("--mlperf-log {}: the file exists: give another name, or --overwrite", o.file);
}

void MlperfLog::begin(const MlperfOptions& o, const MlperfBenchmark& benchmark, const Job& job, Time init, Time run,
                      std::int64_t train_samples, std::int64_t eval_samples) {
  std::ofstream out(o.file, std::ios::trunc);
  if (!out) refuse("--mlperf-log {}: cannot be written: {}", o.file, std::strerror(errno));
  const auto say = [&](const std::string& key, const Json& value) { write(out, Event::point_in_time, key, value); };
  const Json none = Json::object();
  write(out, Event::point_in_time, "cache_clear", o.cache_cleared, none, wall_time(init));
  write(out, Event::interval_start, "init_start", nullptr, none, wall_time(init));
  write(out, Event::interval_end, "init_stop", nullptr, none, wall_time(run));
  write(out, Event::interval_start, "run_start", nullptr, none, wall_time(run));
  const int nodes = job.world.nodes();
  say("submission_benchmark", benchmark.name);
  say("submission_org", o.organization);
  say("submission_division", o.division);
  say("submission_status", o.status);
  say("submission_platform", o.platform.empty() ? fmt::format("{} x {}", nodes, platform()) : o.platform);
  say("number_of_nodes", nodes);
  say("accelerators_per_node", job.on_gpu ? job.world.size() / nodes : 0);
  say("train_samples", train_samples);
  say("eval_samples", eval_samples);
  for (const auto& [key, value] : benchmark.settings) say(key, value);
}

MlperfLog::MlperfLog(const MlperfOptions& o, std::string metric)
    : out_(o.file, std::ios::app), metric_(std::move(metric)) {
  if (!out_) fail("{}: cannot be written: {}", o.file, std::strerror(errno));
}

void MlperfLog::on_epoch_start(const RunState& s) {
  write(out_, Event::interval_start, "epoch_start", nullptr, epoch(s.epoch + 1, s));
}

void MlperfLog::on_validation_start(const RunState& s) {
  write(out_, Event::interval_start, "eval_start", nullptr, epoch(s.epoch + 1, s));
}

void MlperfLog::on_epoch(const RunState& s, const EpochRecord& r, const Evaluation* validation) {
  const Json at = epoch(r.epoch, s);
  if (validation) {
    write(out_, Event::point_in_time, metric_, validation->metric, at);
    write(out_, Event::interval_end, "eval_stop", nullptr, at);
  }
  write(out_, Event::interval_end, "epoch_stop", nullptr, at);
}

void MlperfLog::on_stop(const RunState& s, StopReason reason) {
  Json how = epoch(s.epoch, s);
  how["status"] = reason == StopReason::target_reached ? "success" : "aborted";
  write(out_, Event::interval_end, "run_stop", nullptr, how);
}

}  // namespace keelson::app
