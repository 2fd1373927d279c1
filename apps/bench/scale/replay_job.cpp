#include "apps/bench/scale/replay_job.hpp"

#include <nlohmann/json.hpp>

namespace keelson::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExchangeSettings, algorithm, bucket_bytes, overlap, compress)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReplayResult, step, slowest, wire_bytes, messages, wall_seconds, megabytes)

nlohmann::json json_of(const ReplayJob& job) {
  nlohmann::json buckets = nlohmann::json::array();
  for (const auto& b : job.buckets) buckets.push_back({{"bytes", b.bytes}, {"ready", b.ready}});
  return {{"machine", json_of(job.machine)}, {"ranks", job.ranks},       {"steps", job.steps},   {"seed", job.seed},
          {"forward", job.forward},          {"backward", job.backward}, {"update", job.update}, {"buckets", buckets},
          {"exchange", job.exchange}};
}

ReplayJob replay_job_of(const nlohmann::json& j) {
  ReplayJob job{.machine = machine_of(j.at("machine"), "the job"),
                .ranks = j.at("ranks"),
                .steps = j.at("steps"),
                .seed = j.at("seed"),
                .forward = j.at("forward"),
                .backward = j.at("backward"),
                .update = j.at("update"),
                .buckets = {},
                .exchange = j.at("exchange")};
  for (const auto& b : j.at("buckets")) job.buckets.push_back({b.at("bytes"), b.at("ready")});
  return job;
}

nlohmann::json json_of(const ReplayResult& result) { return result; }
ReplayResult replay_result_of(const nlohmann::json& json) { return json; }

}  // namespace keelson::bench
