#include "apps/common/mlperf_log.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string_view>

#include "apps/common/machine.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/error.hpp"
#include "engine/base/small_file.hpp"

namespace keelson::app {
namespace {

using Json = nlohmann::ordered_json;
using Event = MlperfLines::Event;

constexpr std::string_view token = ":::MLLOG ";

/// The latest time in a log; 0: the log has no time.
std::int64_t latest_time(const std::string& file) {
  std::int64_t latest = 0;
  std::istringstream lines(read_small_file(file).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(token)) continue;
    const auto j = nlohmann::json::parse(line.substr(token.size()), nullptr, false);
    if (j.is_object() && j.contains("time_ms") && j["time_ms"].is_number_integer())
      latest = std::max(latest, j["time_ms"].get<std::int64_t>());
  }
  return latest;
}

/// The metadata of an epoch's line; `number` counts from 1.
Json epoch(std::int64_t number, const RunState& s) { return {{"epoch_num", number}, {"step_num", s.step}}; }

std::string platform() {
  for (const auto& [what, text] : describe_machine())
    if (what == "Processor") return text;
  return "unknown";
}

}  // namespace

void check(const MlperfOptions& o, const MlperfBenchmark& benchmark) {
  if (o.division == "closed" && !benchmark.not_closed.empty())
    refuse("--mlperf-division closed: the rules of MLPerf HPC for {} ask for more: {}; or give --mlperf-division open",
           benchmark.name, benchmark.not_closed);
}

std::int64_t mlperf_milliseconds(MlperfLog::Time t) {
  using Wall = std::chrono::system_clock;
  static const struct {
    Wall::time_point wall;
    MlperfLog::Time steady;
  } origin{Wall::now(), MlperfLog::Time::clock::now()};
  const auto wall = origin.wall + std::chrono::duration_cast<Wall::duration>(t - origin.steady);
  return std::chrono::floor<std::chrono::milliseconds>(wall.time_since_epoch()).count();
}

MlperfLines::MlperfLines(const std::string& file, bool anew)
    : latest_(anew ? 0 : latest_time(file)), out_(file, anew ? std::ios::trunc : std::ios::app) {
  if (!out_) fail("--mlperf-log {}: cannot be written: {}", file, std::strerror(errno));
}

void MlperfLines::write(Event event, const std::string& key, const Json& value, const Json& metadata,
                        MlperfLog::Time when) {
  constexpr const char* events[] = {"INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"};
  latest_ = std::max(latest_, mlperf_milliseconds(when));
  const Json line{{"namespace", ""}, {"time_ms", latest_}, {"event_type", events[static_cast<int>(event)]},
                  {"key", key},      {"value", value},     {"metadata", metadata}};
  fmt::print(out_, "{}{}\n", token, line.dump());
  out_.flush();  // if the run is killed, the lines written so far stay
  if (!out_) fail("the MLPerf log cannot be written: {}", std::strerror(errno));
}

double as_written(float value) { return std::stod(fmt::format("{}", value)); }

void declare(MlperfOptions& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::mlperf);
  v.option_without_default(
       "--mlperf-log", o.file,
       "Write the log lines of MLPerf HPC's rules into this file, for MLCommons' compliance checker", "FILE")
      .not_stored()
      .output()
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
  if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file))
    refuse("--mlperf-log {}: is no regular file; the log is opened more than once: give the name of a file", o.file);
  if (std::filesystem::exists(file) && !overwrite)
    refuse("--mlperf-log {}: the file exists: give another name, or --overwrite", o.file);
}

void MlperfLog::begin(const MlperfOptions& o, const MlperfBenchmark& benchmark, const Launch& launch, Time init,
                      Time run, std::int64_t train_samples, std::int64_t eval_samples) {
  MlperfLines out(o.file, true);
  const auto say = [&](const std::string& key, const Json& value) { out.write(Event::point_in_time, key, value); };
  const Json none = Json::object();
  out.write(Event::point_in_time, "cache_clear", o.cache_cleared, none, init);
  out.write(Event::interval_start, "init_start", nullptr, none, init);
  out.write(Event::interval_end, "init_stop", nullptr, none, run);
  out.write(Event::interval_start, "run_start", nullptr, none, run);
  const int nodes = launch.world.nodes();
  say("submission_benchmark", benchmark.name);
  say("submission_org", o.organization);
  say("submission_division", o.division);
  say("submission_status", o.status);
  say("submission_platform", o.platform.empty() ? fmt::format("{} x {}", nodes, platform()) : o.platform);
  say("number_of_nodes", nodes);
  say("accelerators_per_node", launch.on_gpu ? launch.world.size() / nodes : 0);
  say("train_samples", train_samples);
  say("eval_samples", eval_samples);
  for (const auto& [key, value] : benchmark.settings) say(key, value);
}

MlperfLog::MlperfLog(const MlperfOptions& o, std::string metric) : lines_(o.file, false), metric_(std::move(metric)) {}

void MlperfLog::on_epoch_start(const RunState& s) {
  lines_.write(Event::interval_start, "epoch_start", nullptr, epoch(s.epoch + 1, s));
}

void MlperfLog::on_validation_start(const RunState& s) {
  lines_.write(Event::interval_start, "eval_start", nullptr, epoch(s.epoch + 1, s));
}

void MlperfLog::on_epoch(const RunState& s, const EpochRecord& r, const Evaluation* validation) {
  const Json at = epoch(r.epoch, s);
  if (validation) {
    lines_.write(Event::point_in_time, metric_, validation->metric, at);
    lines_.write(Event::interval_end, "eval_stop", nullptr, at);
  }
  lines_.write(Event::interval_end, "epoch_stop", nullptr, at);
}

void MlperfLog::on_stop(const RunState& s, StopReason reason) {
  Json how = epoch(s.epoch, s);
  how["status"] = reason == StopReason::target_reached ? "success" : "aborted";
  lines_.write(Event::interval_end, "run_stop", nullptr, how);
}

}  // namespace keelson::app
