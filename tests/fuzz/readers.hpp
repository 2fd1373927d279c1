#pragma once

#include <string>
#include <vector>

/// Readers of data that no program has alone: what they read of a file, they say in one line of standard output. A
/// trial names them as programs (Trial::program).
namespace keelson::fuzz {

/// Whether a trial's program is one of these readers.
bool is_reader(const std::string& name);

/// Runs a reader. Returns the exit code of a program: 0, 2 for input that is refused, 1 for any other error. `words`:
///   read-table numbers|classes PATH       TableDataset: all rows
///   read-arrays PATH                      ArrayFile: all arrays of numbers
///   read-samples X PATH                   ArrayFileDataset: the samples of array X, standardised
///   read-records PATH                     TfRecordFile: all records
///   read-universes PATH                   UniverseDataset: all samples
///   stage SOURCE TARGET                   stage_files(), with comparison of checksums; then TARGET equals SOURCE
int run_reader(const std::string& name, const std::vector<std::string>& words);

}  // namespace keelson::fuzz
