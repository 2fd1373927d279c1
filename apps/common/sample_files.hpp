#pragma once

#include <cstdint>
#include <string>

#include "apps/common/subcommand.hpp"

/// Training, validation and test data of programs that read files of samples.
namespace keelson::app {

/// Files, folders or patterns of a training run, and how its samples are ordered.
struct SampleFiles {
  std::string train, validation;
  bool shuffle = true;
  std::int64_t skip_broken = 0;  ///< samples that may be left out because they cannot be read (LeftOut)
};

/// Declares --train, --validation, --shuffle and --skip-broken on a subcommand.
void declare_files(SampleFiles& files, Subcommand& subcommand);
/// Declares --data of a subcommand that trains: a folder with training and validation data.
void declare_training_folder(std::string& data, Subcommand& subcommand);
/// Declares --data of a subcommand that uses a trained network.
void declare_held_out_data(std::string& data, Subcommand& subcommand);

/// If the user has named no training data, or no validation data: takes them from the folder `data` (--data; empty: not
/// given). Throws InputError if the folder has none, and for a run without training data.
void complete_files(SampleFiles& files, const std::string& data);
/// Puts the absolute paths into what a checkpoint stores.
void store_paths(const SampleFiles& files, Config& config);
/// The data to evaluate: the folder test/ in `data` (--data) if it exists, else validation/, else `data` itself. `data`
/// empty: the validation data of the run with these files; throws InputError if there are none.
std::string find_held_out_data(const std::string& data, const SampleFiles& of_run);

}  // namespace keelson::app
