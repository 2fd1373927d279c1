#include "apps/bench/scale/profile.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"

namespace keelson::bench {

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
  return p;
}

StepProfile StepProfile::with_samples(double factor) const {
  StepProfile p = slower(factor);
  p.update = update;
  p.gflop *= factor;
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

StepProfile profile_of(const std::vector<PlanRow>& rows, const std::string& title) {
  StepProfile p{.title = title};
  for (const auto& r : rows) {
    const double seconds = r.milliseconds * 1e-3;
    p.gflop += r.gflop;
    if (r.phase == "forward") p.forward += seconds;
    if (r.phase == "update") p.update += seconds;
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
      row.gflop = r.at("gflop");
      row.milliseconds = r.at("milliseconds");
      row.gradient_bytes = r.at("gradient_bytes");
      rows.push_back(std::move(row));
    }
    return profile_of(rows, fmt::format("{}, batch {} a rank, {}", json.at("net").get<std::string>(),
                                        json.at("batch").get<int>(), json.at("precision").get<std::string>()));
  } catch (const nlohmann::json::exception& e) {
    refuse("--profile {}: not what keelson-bench step --plan --json prints ({})", file, e.what());
  }
}

}  // namespace keelson::bench
