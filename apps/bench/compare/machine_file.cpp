#include "apps/bench/compare/machine_file.hpp"

#include <algorithm>
#include <fstream>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"

namespace keelson::bench::comparison {

template <class T>
void to_json(nlohmann::json& j, const Measured<T>& m) {
  if (m.value)
    j = *m.value;
  else
    j = nlohmann::json{{"value", nullptr}, {"reason", m.reason}};
}

template <class T>
void from_json(const nlohmann::json& j, Measured<T>& m) {
  if (j.is_object() && j.contains("reason"))
    m = Measured<T>::missing(j.at("reason").get<std::string>());
  else
    m = {j.get<T>(), ""};
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Peaks, multiply_adds, copy, products, product_size)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Call, phase, node, op, backend, kernel, gflop, least_gflop, megabytes, milliseconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepEnergy, joules_per_sample, joules_per_sample_above_idle, watts, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepFigures, seconds, fastest, slowest, steps, samples_per_second, flops_per_second,
                                   share_of_peak, energy, calls)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Step, net, size, precision, title, unit, units_per_sample, batch, figures)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SumTime, bytes, seconds, bus_bytes_per_second, algorithm)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(InputRate, data, samples_per_second, bytes_per_second, threads)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ScalingPoint, ranks, samples_per_second, efficiency)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Scaling, net, size, precision, batch, points)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EnergySource, source, idle_watts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MachineFile, schema, name, measured, keelson, commit, quick, layout, device, gpu,
                                   ranks, nodes, facts, price_per_hour, peaks, energy, steps, collectives, input,
                                   scaling)

namespace {

constexpr const char* kind = "keelson machine";
constexpr const char* again = "keelson-bench compare --out FILE writes one";

}  // namespace

double Peaks::of(const std::string& precision) const {
  const auto found = products.find(precision);
  const double product = found == products.end() ? 0 : found->second.value.value_or(0);
  return precision == "fp32" ? std::max(product, multiply_adds) : product;
}

nlohmann::json json_of(const MachineFile& machine) {
  nlohmann::json j = machine;
  j["kind"] = kind;
  return j;
}

MachineFile machine_file_of(const nlohmann::json& json, const std::string& file) {
  if (!json.is_object() || json.value("kind", nlohmann::json()) != kind || !json.contains("schema") ||
      !json["schema"].is_number_integer())
    refuse("{}: no description of a machine; expected \"kind\": \"{}\" and \"schema\": {}; {}", file, kind,
           schema_version, again);
  const auto schema = json["schema"].get<std::int64_t>();
  if (schema > schema_version)
    refuse(
        "{}: written by a newer Keelson ({}), in schema {}; this Keelson {} reads schemas up to {}: use the newer one",
        file, json.value("keelson", nlohmann::json("unknown")).dump(), schema, KEELSON_VERSION, schema_version);
  if (schema < 1) refuse("{}: schema {}, expected 1 to {}; {}", file, schema, schema_version, again);
  try {
    auto machine = json.get<MachineFile>();
    if (machine.ranks < 1 || machine.nodes < 1)
      refuse("{}: {} ranks on {} nodes, expected at least one of each", file, machine.ranks, machine.nodes);
    return machine;
  } catch (const nlohmann::json::exception& e) {
    refuse("{}: does not fit schema {}: {}; {}", file, schema, e.what(), again);
  }
}

MachineFile read_machine_file(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) refuse("{}: no such file, or it cannot be read; {}", file.string(), again);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (json.is_discarded()) refuse("{}: no JSON (cut off?); {}", file.string(), again);
  return machine_file_of(json, file.string());
}

void write_machine_file(const MachineFile& machine, const std::filesystem::path& file) {
  write_atomically(file, json_of(machine).dump(1) + "\n", Target::output);
}

}  // namespace keelson::bench::comparison
