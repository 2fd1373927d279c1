#include "apps/common/report/metrics_file.hpp"

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/base/utc_time.hpp"

namespace keelson::app {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const TimeSplit& s) {
  return {{"compute", s.compute}, {"exchange", s.exchange}, {"data", s.data}, {"copy", s.copy}};
}

double number(const Json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_number() ? it->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

TimeSplit split_of(const Json& j) {
  const auto s = j.value("seconds", Json::object());
  return {number(s, "compute"), number(s, "exchange"), number(s, "data"), number(s, "copy")};
}

constexpr const char* per_second = "s_per_second";

double rate_of(const Json& j) {
  for (const auto& [key, value] : j.items())
    if (key.ends_with(per_second)) return number(j, key.c_str());
  return std::numeric_limits<double>::quiet_NaN();
}

StepRecord step_of(const Json& j) {
  return {j.at("step"), number(j, "epoch"), number(j, "loss"), number(j, "learning_rate"), rate_of(j), split_of(j)};
}

EpochRecord epoch_of(const Json& j) {
  EpochRecord r{j.at("epoch"),
                j.at("step"),
                number(j, "train_loss"),
                number(j, "validation_loss"),
                number(j, "metric"),
                {},
                number(j, "learning_rate"),
                rate_of(j),
                split_of(j),
                number(j, "validation_seconds")};
  for (const auto& e : j.value("target_errors", Json::array()))
    r.metric_values.push_back(e.is_number() ? e.get<double>() : std::numeric_limits<double>::quiet_NaN());
  return r;
}

/// Calls visit(text, object) for every line that is a record; what a crash or an editor made of others is left out.
template <class Visit>
void each_record(const std::filesystem::path& path, Visit&& visit) {
  std::ifstream in(path);
  for (std::string text; std::getline(in, text);) {
    const auto j = Json::parse(text, nullptr, false);
    const auto whole = [&](const char* key) { return j.contains(key) && j.at(key).is_number_integer(); };
    if (!j.is_object() || !whole("step") || !j.contains("type") || (j.at("type") == "epoch" && !whole("epoch")))
      continue;
    try {
      visit(text, j);
    } catch (const Json::exception&) {  // a value of another type
    }
  }
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t resume_step, const SampleUnit& unit)
    : path_(std::move(path)), rate_key_(unit.name + per_second) {
  std::string kept;
  if (resume_step >= 0)
    each_record(path_, [&](const std::string& text, const Json& j) {
      if (j.at("step").get<std::int64_t>() <= resume_step) kept += text + "\n";
    });
  write_atomically(path_, kept);
  out_.open(path_, std::ios::app);
  if (!out_) fail("cannot open {} for writing", path_.string());
}

void MetricsFile::line(const std::string& text) {
  errno = 0;
  out_ << text << '\n' << std::flush;
  if (!out_) fail("cannot write to {}{}", path_.string(), reason_of_writing(errno, path_.parent_path()));
}

void MetricsFile::write(const StepRecord& r) {
  line(Json{{"type", "step"},
            {"step", r.step},
            {"epoch", r.epoch},
            {"loss", r.loss},
            {"learning_rate", r.learning_rate},
            {rate_key_, r.rate},
            {"seconds", to_json(r.seconds)}}
           .dump(-1, ' ', false, Json::error_handler_t::replace));
}

void MetricsFile::write(const EpochRecord& r) {
  line(Json{{"type", "epoch"},
            {"epoch", r.epoch},
            {"step", r.step},
            {"train_loss", r.train_loss},
            {"validation_loss", r.validation_loss},
            {"metric", r.metric},
            {"target_errors", r.metric_values},
            {"learning_rate", r.learning_rate},
            {rate_key_, r.rate},
            {"seconds", to_json(r.seconds)},
            {"validation_seconds", r.validation_seconds},
            {"time", utc_now()}}
           .dump(-1, ' ', false, Json::error_handler_t::replace));
}

void MetricsFile::write(const EventRecord& r) {
  line(Json{{"type", "event"}, {"event", r.event}, {"step", r.step}, {"text", r.text}, {"time", utc_now()}}.dump(
      -1, ' ', false, Json::error_handler_t::replace));
}

History read_metrics(const std::filesystem::path& path) {
  History h;
  each_record(path, [&](const std::string&, const Json& j) {
    const auto& type = j.at("type");
    if (type == "step") h.steps.push_back(step_of(j));
    if (type == "epoch") h.epochs.push_back(epoch_of(j));
    if (type == "event") h.events.push_back({j.value("event", ""), j.at("step"), j.value("text", "")});
  });
  return h;
}

}  // namespace keelson::app
