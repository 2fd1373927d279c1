#include "apps/bench/scale/profile.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/base/error.hpp"

namespace keelson::bench {
namespace {

/// Bytes of the trained parameters of each node: those of its gradients.
std::map<std::string, double> parameter_bytes(const std::vector<PlanRow>& rows) {
  std::map<std::string, double> bytes;
  for (const auto& r : rows) bytes[r.node] += static_cast<double>(r.gradient_bytes);
  return bytes;
}

/// Whether the call moves the parameters alone, whatever the number of rows.
bool reorders_parameters(const PlanRow& r, double bytes) {
  const double moved = r.megabytes * 1e6 / 2;  // read, and written
  return r.op == "reorder" && bytes > 0 && moved > 0.99 * bytes && moved < 1.01 * bytes;
}

StepProfile::Call call_of(const PlanRow& r, double bytes, double copy_bandwidth) {
  StepProfile::Call call{.node = r.node,
                         .backward = r.phase == "backward",
                         .of_weights = r.op.ends_with("bwd weights"),
                         .seconds = r.milliseconds * 1e-3,
                         .gradient_bytes = r.gradient_bytes};
  if (reorders_parameters(r, bytes))
    call.least = call.seconds;
  else if (copy_bandwidth > 0)
    call.least = std::min(call.seconds, bytes / copy_bandwidth);
  return call;
}

}  // namespace

double StepProfile::Call::on_part(double share, double overhead) const {
  if (share <= 0) return 0;
  return std::min(seconds, std::max({seconds * std::pow(share, exponent), least, overhead}));
}

std::size_t StepProfile::gradient_bytes() const {
  std::size_t sum = 0;
  for (const auto& g : gradients) sum += g.bytes;
  return sum;
}

StepProfile StepProfile::slower(double factor) const {
  StepProfile p = *this;
  p.forward *= factor;
  p.backward *= factor;
  p.update *= factor;
  for (auto& g : p.gradients) g.ready *= factor;
  for (auto& c : p.calls) {
    c.seconds *= factor;
    c.least *= factor;
  }
  return p;
}

StepProfile StepProfile::with_samples(double factor) const {
  StepProfile p = slower(factor);
  p.update = update;
  p.gflop *= factor;
  p.batch *= factor;
  for (std::size_t i = 0; i < calls.size(); ++i) p.calls[i].least = std::min(calls[i].least, p.calls[i].seconds);
  return p;
}

StepProfile StepProfile::with_smaller(const StepProfile& smaller) const {
  const double part = smaller.cells * smaller.batch / (cells * batch);
  if (smaller.net != net || !(part > 0 && part < 1))
    refuse(
        "--profile: the second step is of {}, expected {} with fewer cells than in the first; measure it with a "
        "smaller --size",
        smaller.title, net);
  const auto seconds_of_nodes = [](const StepProfile& p) {
    std::map<std::pair<std::string, bool>, double> seconds;
    for (const auto& c : p.calls) seconds[{c.node, c.backward}] += c.seconds;
    return seconds;
  };
  auto large = seconds_of_nodes(*this), small = seconds_of_nodes(smaller);
  StepProfile p = *this;
  for (auto& c : p.calls) {
    const std::pair key{c.node, c.backward};
    if (!(large[key] > 0 && small[key] > 0)) continue;
    c.exponent = std::clamp(std::log(small[key] / large[key]) / std::log(part), 0.0, 1.0);
    c.least = 0;  // the measured exponent has it in it
  }
  return p;
}

std::vector<StepProfile::Gradient> StepProfile::buckets(std::size_t bucket_bytes) const {
  std::vector<Gradient> buckets;
  Gradient next;
  for (const auto& g : gradients) {
    next.bytes += g.bytes;
    next.ready = g.ready;
    if (bucket_bytes == 0 || next.bytes < bucket_bytes) continue;
    buckets.push_back(next);
    next = {};
  }
  if (next.bytes > 0) buckets.push_back(next);
  return buckets;
}

StepProfile profile_of(const std::vector<PlanRow>& rows, const std::string& title, double copy_bandwidth) {
  StepProfile p{.title = title};
  auto bytes = parameter_bytes(rows);
  for (const auto& r : rows) {
    const double seconds = r.milliseconds * 1e-3;
    p.gflop += r.gflop / static_cast<double>(r.period);
    if (r.phase == "forward") p.forward += seconds;
    if (r.phase == "update") p.update += r.milliseconds_per_step() * 1e-3;
    if (r.phase == "forward" || r.phase == "backward") p.calls.push_back(call_of(r, bytes[r.node], copy_bandwidth));
    if (r.phase != "backward") continue;
    p.backward += seconds;
    if (r.gradient_bytes > 0) p.gradients.push_back({r.gradient_bytes, p.backward});
  }
  if (p.gradients.empty() || p.backward <= 0)
    refuse("{}: no measured call makes a gradient, so there is nothing to exchange", title);
  return p;
}

StepProfile read_profile(const std::string& file) {
  std::ifstream in(file);
  if (!in) refuse("--profile {}: no such file; keelson-bench step --plan --json > {} makes one", file, file);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  try {
    std::vector<PlanRow> rows;
    for (const auto& r : json.at("rows")) {
      PlanRow row;
      row.phase = r.at("phase");
      row.node = r.at("node");
      row.op = r.at("op");
      row.megabytes = r.at("megabytes");
      row.gflop = r.at("gflop");
      row.milliseconds = r.at("milliseconds");
      row.period = r.value("period", std::uint64_t{1});
      row.gradient_bytes = r.at("gradient_bytes");
      rows.push_back(std::move(row));
    }
    if (const auto grid = json.value("grid", ""); grid.find(" x ") != std::string::npos)
      refuse("--profile {}: measured on the grid {}, expected whole samples on each rank; measure without --spatial",
             file, grid);
    const auto net = json.at("net").get<std::string>();
    const int batch = json.at("batch").get<int>();
    StepProfile p =
        profile_of(rows, fmt::format("{}, batch {} a rank, {}", net, batch, json.at("precision").get<std::string>()),
                   json.contains("peaks") ? json.at("peaks").at("copy_bytes_per_second").get<double>() : 0.0);
    p.net = net;
    p.batch = batch;
    if (json.contains("size")) {
      const auto& size = json.at("size");
      const auto edges = size.is_array() ? size.get<std::vector<double>>() : std::vector<double>(3, size.get<double>());
      p.cells = std::accumulate(edges.begin(), edges.end(), 1.0, std::multiplies<>());
      p.size = size.is_array() ? fmt::format("{}", fmt::join(size.get<std::vector<int>>(), "x"))
                               : std::to_string(size.get<int>());
    }
    return p;
  } catch (const nlohmann::json::exception& e) {
    refuse("--profile {}: not what keelson-bench step --plan --json prints ({})", file, e.what());
  }
}

}  // namespace keelson::bench
