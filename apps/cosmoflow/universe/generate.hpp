#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "apps/cosmoflow/universe/field.hpp"
#include "apps/cosmoflow/universe/prior.hpp"

namespace keelson::universe {

/// Universe i of a split depends only on seed, split and i. It does not change if a split gets more universes, or if
/// other splits are made.
enum class Split : std::uint32_t { kTrain, kValidation, kTest };
const char* split_name(Split split);  ///< also the folder: train, validation, test

/// Samples: arrays `x`, `y` (the public prepared data). Raw: `full`, `unitPar`, `physPar`, `redshifts`, `namePar`, one
/// universe per file (the public raw data).
enum class FileLayout { kSamples, kRaw };

struct GenerateOptions {
  std::filesystem::path directory;                   ///< will contain the folders train, validation, test
  std::int64_t train = 0, validation = 0, test = 0;  ///< universes of each split
  Prior prior = prior_preset("wide");
  int grid = 32;                    ///< cells per side
  int particles_per_cell_side = 2;  ///< the lattice of particles has grid * this per side; mean count = this cubed
  LagrangianParticles::Order order = LagrangianParticles::Order::kSecond;
  std::uint64_t seed = 1;
  FileLayout layout = FileLayout::kSamples;
  int samples_per_file = 1;  ///< if above 1, x and y have a leading sample dimension (also in a last, shorter file)
  int rank = 0, ranks = 1;   ///< this process makes every ranks-th file, beginning with file number `rank`
};

struct GenerateProgress {
  Split split;
  std::int64_t done, total;    ///< universes of this rank, including those skipped
  std::filesystem::path file;  ///< the file that was finished or skipped last
  bool skipped;                ///< was complete before
};
using ProgressFunction = std::function<void(const GenerateProgress&)>;

struct GenerateReport {
  std::int64_t written = 0, skipped = 0;  ///< universes of this rank
};

/// Throws InputError for options that cannot work, before anything is written.
void check(const GenerateOptions& options);

/// Makes all splits: directory/<split>/univ_<first universe>.h5. Each file is written atomically
/// (engine/base/atomic_file.hpp). Complete files of the same configuration are kept. A file with fewer or more samples
/// than now asked for is made again. A file of another configuration is never overwritten: throws InputError.
///
/// `x` is int16 (D,H,W,C): particles per cell, one channel per redshift in the prior's order. `y` is float32 (4): the
/// parameters in unit coordinates, [-1, 1] over the prior. Attributes of the file: parameter_names, parameter_minimum,
/// parameter_maximum, redshifts, seed, split, first_universe, omega_b, particles_per_side, lpt_order, configuration
/// (all of it as text), and, for each universe, physical_parameters and box_size (Mpc/h): attributes of a file with one
/// sample, arrays (n,4) and (n) otherwise.
///
/// Throws Error for a count above 32767, and if writing fails; the temporary file is then removed.
GenerateReport generate(const GenerateOptions& options, const ProgressFunction& progress = {});

/// The same for universes [first, last) of one split; `first` must be a multiple of samples_per_file.
GenerateReport generate_range(const GenerateOptions& options, Split split, std::int64_t first, std::int64_t last,
                              const ProgressFunction& progress = {});

/// One universe in memory.
struct Universe {
  ParameterVector physical{}, unit{};
  double box_size = 0;               ///< Mpc/h
  std::vector<std::int16_t> counts;  ///< (D,H,W,C)
};

/// Makes universes one after the other, and keeps plans and grids.
class UniverseMaker {
 public:
  /// Throws InputError as check() does.
  explicit UniverseMaker(const GenerateOptions& options);
  void make(Split split, std::int64_t index, Universe& universe);

 private:
  GenerateOptions options_;
  LagrangianParticles particles_;
  std::vector<std::int32_t> counts_;
};

}  // namespace keelson::universe
