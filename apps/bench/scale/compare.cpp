#include "apps/bench/scale/compare.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"

namespace keelson::bench {
namespace {

bool is_simulated(const std::string& algorithm) {
  for (const char* name : {"ring", "halving", "doubling", "two-level", "two-level-ring"})
    if (algorithm == name) return true;
  return false;
}

}  // namespace

std::vector<ComparedSum> compare_with(const std::string& file, const Machine& machine,
                                      const std::filesystem::path& program) {
  std::ifstream in(file);
  if (!in) refuse("--compare {}: no such file; keelson-bench allreduce --json > {} makes one", file, file);
  std::vector<ComparedSum> rows;
  ReplayJob job{.machine = machine};
  job.machine.imbalance = 0;
  const auto json = nlohmann::json::parse(in, nullptr, false);
  try {
    job.ranks = json.at("ranks");
    for (const auto& size : json.at("sizes")) {
      const std::string algorithm = size.at("algorithm");
      if (is_simulated(algorithm)) rows.push_back({size.at("bytes"), algorithm, size.at("seconds_fastest"), 0});
    }
  } catch (const nlohmann::json::exception& e) {
    refuse("--compare {}: not what keelson-bench allreduce --json prints ({})", file, e.what());
  }
  if (rows.empty())
    refuse("--compare {}: no sum in it that can be simulated; measure with KEELSON_ALLREDUCE=halving, say", file);
  for (auto& row : rows) {
    job.exchange.algorithm = row.algorithm;
    job.programs = {{.events = {{.kind = RankEvent::Kind::bucket}}, .buckets = {row.bytes}, .update = 0}};
    row.simulated = run_replay(program, job).step;
  }
  return rows;
}

}  // namespace keelson::bench
