#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// The file that `keelson-bench compare --out` writes for one machine and reads for many. Units: seconds, bytes, FLOP,
/// joules.
namespace keelson::bench::comparison {

/// The file's schema. Readers refuse files with a newer schema.
inline constexpr int schema_version = 1;

/// A figure, or the reason why there is none. In the file: the figure, or {"value": null, "reason": "..."}.
template <class T>
struct Measured {
  std::optional<T> value;  ///< the figure
  std::string reason;      ///< why there is no value; then never empty

  /// A figure that was not measured.
  static Measured missing(std::string why) { return {std::nullopt, std::move(why)}; }
};

/// The peaks of one rank's device while all ranks are at work.
struct Peaks {
  double multiply_adds = 0;  ///< FLOP/s of f32 multiply-adds in registers
  double copy = 0;           ///< bytes/s of a copy, read + written
  /// FLOP/s of a product of two square matrices of `product_size`, by precision.
  std::map<std::string, Measured<double>> products;
  std::int64_t product_size = 0;  ///< rows and columns of the matrices

  /// The highest FLOP/s in a precision: that of the product, or in fp32 that of the multiply-adds if it is larger; 0:
  /// unknown.
  double of(const std::string& precision) const;
};

/// One call of a step, as PlanRow.
struct Call {
  std::string phase, node, op, backend, kernel;
  double gflop = 0, least_gflop = 0, megabytes = 0, milliseconds = 0;
};

/// The energy of the timed steps.
struct StepEnergy {
  double joules_per_sample = 0;
  double joules_per_sample_above_idle = 0;  ///< without the energy that the idle machine would have used in that time
  double watts = 0;                         ///< mean of the whole job
  double seconds = 0;                       ///< time between the readings of the counters
};

/// The results of a network's timed steps.
struct StepFigures {
  double seconds = 0, fastest = 0, slowest = 0;  ///< seconds of a step on the slowest rank: median, least, most
  int steps = 0;                                 ///< timed steps
  double samples_per_second = 0;                 ///< of the whole job
  double flops_per_second = 0;                   ///< of the whole job, as executed
  Measured<double> share_of_peak;                ///< flops_per_second over all ranks' peak in this precision
  Measured<StepEnergy> energy;
  std::vector<Call> calls;  ///< calls of rank 0, profiled, sorted by time, longest first
};

/// One network in one size and precision.
struct Step {
  std::string net, size;  ///< as --net and --size of `keelson-bench step`; size empty: the network has one size
  std::string precision, title, unit;
  std::int64_t units_per_sample = 1, batch = 1;  ///< batch: of a rank
  Measured<StepFigures> figures;
};

/// The sum over ranks of one array.
struct SumTime {
  std::uint64_t bytes = 0;
  double seconds = 0;
  double bus_bytes_per_second = 0;  ///< 2 (n - 1) / n of the bytes over the time
  std::string algorithm;
};

/// How fast samples are read and decoded.
struct InputRate {
  std::string data;  ///< what was read
  double samples_per_second = 0, bytes_per_second = 0;
  int threads = 1;  ///< of a rank
};

/// Weak scaling: the same samples for each rank.
struct ScalingPoint {
  int ranks = 1;
  double samples_per_second = 0;
  double efficiency = 1;  ///< samples/s of a rank, divided by those of one rank alone
};

/// The weak scaling of one network.
struct Scaling {
  std::string net, size, precision;
  std::int64_t batch = 1;
  std::vector<ScalingPoint> points;
};

/// Which counters the energy comes from.
struct EnergySource {
  std::string source;
  double idle_watts = 0;  ///< of all nodes of the job, before the measurements
};

/// The contents of one machine's file.
struct MachineFile {
  int schema = schema_version;
  std::string name, measured;   ///< the user's name for the machine; time in UTC
  std::string keelson, commit;  ///< version; commit of the source, empty if unknown
  bool quick = false;           ///< --quick
  std::string layout, device;   ///< "2 ranks on 1 node, ..."; "OpenMP, 2 threads; backends ..."
  bool gpu = false;
  int ranks = 1, nodes = 1;
  std::vector<std::pair<std::string, std::string>> facts;  ///< name -> text
  Measured<double> price_per_hour;                         ///< of the whole job, in the user's currency
  Measured<Peaks> peaks;
  Measured<EnergySource> energy;
  std::vector<Step> steps;
  Measured<std::vector<SumTime>> collectives;
  Measured<InputRate> input;
  Measured<Scaling> scaling;

  /// The number of devices, by which published figures are divided: GPUs, or nodes without GPUs.
  int devices() const { return gpu ? ranks : nodes; }
};

nlohmann::json json_of(const MachineFile& machine);
/// Throws InputError, naming `file`, if `json` is no machine file, has a newer schema, or does not fit the schema.
MachineFile machine_file_of(const nlohmann::json& json, const std::string& file);
/// As machine_file_of(). Also throws InputError if the file does not exist.
MachineFile read_machine_file(const std::filesystem::path& file);
/// Replaces the file atomically. Throws Error.
void write_machine_file(const MachineFile& machine, const std::filesystem::path& file);

}  // namespace keelson::bench::comparison
