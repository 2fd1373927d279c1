#include "apps/common/report/metrics_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/base/utc_time.hpp"

namespace keelson::app {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const TimeSplit& s) {
  return {{"compute", s.compute},         {"exchange", s.exchange},    {"data", s.data()}, {"reading", s.input.reading},
          {"decoding", s.input.decoding}, {"received", s.input.ranks}, {"copy", s.copy}};
}

double number(const Json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_number() ? it->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

TimeSplit split_of(const Json& j) {
  const auto s = j.value("seconds", Json::object());
  return {number(s, "compute"),
          number(s, "exchange"),
          {number(s, "reading"), number(s, "decoding"), number(s, "received")},
          number(s, "copy")};
}

/// Only in the records of runs that measure it.
void put(Json& j, const NoiseScale& n) {
  if (!n.known()) return;
  j["gradient_square"] = n.gradient;
  j["gradient_noise"] = n.noise;
  j["noise_scale"] = n.samples();
}

NoiseScale noise_of(const Json& j) { return {number(j, "gradient_square"), number(j, "gradient_noise")}; }

constexpr const char* per_second = "s_per_second";

double rate_of(const Json& j) {
  for (const auto& [key, value] : j.items())
    if (key.ends_with(per_second)) return number(j, key.c_str());
  return std::numeric_limits<double>::quiet_NaN();
}

StepRecord step_of(const Json& j) {
  return {j.at("step"), number(j, "epoch"), number(j, "loss"), number(j, "learning_rate"),
          rate_of(j),   split_of(j),        noise_of(j)};
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
  r.samples = j.value("samples", std::int64_t{0});
  r.noise = noise_of(j);
  for (const auto& e : j.value("target_errors", Json::array()))
    r.metric_values.push_back(e.is_number() ? e.get<double>() : std::numeric_limits<double>::quiet_NaN());
  return r;
}

Json to_json(const NetworkSize& size) { return {{"parameters", size.parameters}, {"widths", size.widths}}; }

NetworkSize size_of(const Json& j) {
  return {j.at("parameters").get<std::int64_t>(), j.at("widths").get<std::map<std::string, std::int64_t>>()};
}

EventRecord event_of(const Json& j) {
  EventRecord r{j.value("event", ""), j.at("step"), j.value("text", "")};
  if (j.contains("before") && j.contains("after"))
    r.network = {j.at("epoch").get<std::int64_t>(), size_of(j.at("before")), size_of(j.at("after"))};
  return r;
}

void add(History& h, const Json& j) {
  const auto& type = j.at("type");
  if (type == "step") h.steps.push_back(step_of(j));
  if (type == "epoch") h.epochs.push_back(epoch_of(j));
  if (type == "event") h.events.push_back(event_of(j));
}

/// The lines that are left out.
struct LeftOut {
  std::int64_t lines = 0, first = 0;  ///< line number of the first
  std::string why;                    ///< why the first line is left out

  void add(std::int64_t number, const std::string& reason) {
    if (lines++ > 0) return;
    first = number;
    why = reason;
  }
};

/// Throws InputError if `path` exists and is no regular file.
void require_regular(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    refuse("{}: is a folder, a pipe or a device; expected a file of metrics, or none: remove it", path.string());
}

/// Reads the lines of a file. A line that is longer than any record is cut; its beginning is not a valid record.
class Lines {
 public:
  explicit Lines(const std::filesystem::path& path) : in_(path) {}

  /// Reads the next line. False: the file has ended.
  bool next() {
    ++number_;
    in_.getline(buffer_.data(), std::ssize(buffer_));
    const auto read = in_.gcount();
    torn_ = in_.eof();
    const bool cut = in_.fail() && !torn_ && read > 0;
    text_.assign(buffer_.data(), static_cast<std::size_t>(std::max<std::streamsize>(0, read - (torn_ || cut ? 0 : 1))));
    if (!cut) return read > 0;
    in_.clear();
    in_.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    return true;
  }
  const std::string& text() const { return text_; }  ///< without the newline
  std::int64_t number() const { return number_; }    ///< from 1 on
  bool torn() const { return torn_; }                ///< the file ends within the line

 private:
  std::ifstream in_;
  std::vector<char> buffer_ = std::vector<char>(1 << 20);
  std::string text_;
  std::int64_t number_ = 0;
  bool torn_ = false;
};

/// Calls visit(text, object, line number) for every line that is a record, and returns the lines that are no records. A
/// last line without a newline is not counted: a killed run may leave such a line.
template <class Visit>
LeftOut each_record(const std::filesystem::path& path, Visit&& visit) {
  require_regular(path);
  LeftOut none;
  for (Lines lines(path); lines.next();) {
    const auto j = Json::parse(lines.text(), nullptr, false);
    const auto whole = [&](const char* key) { return j.contains(key) && j.at(key).is_number_integer(); };
    bool record = j.is_object() && whole("step") && j.contains("type") && (j.at("type") != "epoch" || whole("epoch"));
    if (record) try {
        visit(lines.text(), j, lines.number());
      } catch (const Json::exception&) {  // a value has another type
        record = false;
      }
    if (!record && !lines.torn()) none.add(lines.number(), "is no record");
  }
  return none;
}

/// The records up to this step. A record whose step or epoch is not larger than that of all earlier records of its type
/// is left out: a plot would go back in time.
std::string kept_records(const std::filesystem::path& path, std::int64_t last_step, LeftOut& left_out) {
  std::string kept;
  std::map<std::string, std::int64_t> latest;
  LeftOut unsorted;
  const auto none = each_record(path, [&](const std::string& text, const Json& j, std::int64_t number) {
    if (j.at("step").get<std::int64_t>() > last_step) return;
    const std::string type = j.at("type");
    History read;
    add(read, j);  // throws if the record cannot be read
    if (type == "step" || type == "epoch") {
      const auto at = j.at(type).get<std::int64_t>();
      const auto [before, first] = latest.emplace(type, at);
      if (!first && at <= before->second)
        return unsorted.add(number, fmt::format("is of {} {}, after {} {}", type, at, type, before->second));
      before->second = at;
    }
    kept += text + "\n";
  });
  left_out = none.lines > 0 && (unsorted.lines == 0 || none.first < unsorted.first) ? none : unsorted;
  left_out.lines = none.lines + unsorted.lines;
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t resume_step, const SampleUnit& unit)
    : path_(std::move(path)), rate_key_(unit.name + per_second) {
  LeftOut left_out;
  write_atomically(path_, resume_step < 0 ? "" : kept_records(path_, resume_step, left_out));
  if (left_out.lines > 0)
    fmt::print(stderr, "keelson: warning: {}: {} left out: line {} {}{}\n", path_.string(),
               left_out.lines == 1 ? "a line is" : fmt::format("{} lines are", left_out.lines), left_out.first,
               left_out.why, left_out.lines == 1 ? "" : ", and so on");
  out_.open(path_, std::ios::app);
  if (!out_) fail("cannot open {} for writing", path_.string());
}

void MetricsFile::line(const std::string& text) {
  errno = 0;
  out_ << text << '\n' << std::flush;
  if (!out_) fail("cannot write to {}{}", path_.string(), reason_of_writing(errno, path_.parent_path()));
}

void MetricsFile::write(const StepRecord& r) {
  Json j{{"type", "step"},
         {"step", r.step},
         {"epoch", r.epoch},
         {"loss", r.loss},
         {"learning_rate", r.learning_rate},
         {rate_key_, r.rate},
         {"seconds", to_json(r.seconds)}};
  put(j, r.noise);
  line(j.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void MetricsFile::write(const EpochRecord& r) {
  Json j{{"type", "epoch"},
         {"epoch", r.epoch},
         {"step", r.step},
         {"samples", r.samples},
         {"train_loss", r.train_loss},
         {"validation_loss", r.validation_loss},
         {"metric", r.metric},
         {"target_errors", r.metric_values},
         {"learning_rate", r.learning_rate},
         {rate_key_, r.rate},
         {"seconds", to_json(r.seconds)},
         {"validation_seconds", r.validation_seconds}};
  put(j, r.noise);
  j["time"] = utc_now();
  line(j.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void MetricsFile::write(const EventRecord& r) {
  Json j{{"type", "event"}, {"event", r.event}, {"step", r.step}, {"text", r.text}};
  if (r.network) {
    j["epoch"] = r.network->epoch;
    j["before"] = to_json(r.network->before);
    j["after"] = to_json(r.network->after);
  }
  j["time"] = utc_now();
  line(j.dump(-1, ' ', false, Json::error_handler_t::replace));
}

History read_metrics(const std::filesystem::path& path) {
  History h;
  each_record(path, [&](const std::string&, const Json& j, std::int64_t) { add(h, j); });
  return h;
}

}  // namespace keelson::app
