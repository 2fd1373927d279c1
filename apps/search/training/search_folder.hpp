#pragma once

#include <filesystem>
#include <string>

#include "search/log/population.hpp"
#include "search/log/search_log.hpp"

namespace keelson::search {

/// The folder of a search: search.jsonl (the log), networks/ (checkpoints), report.html and, while the search goes on,
/// run.lock.
struct SearchFolder {
  std::filesystem::path path;
  std::filesystem::path log() const { return path / "search.jsonl"; }
  std::filesystem::path report() const { return path / "report.html"; }
};

/// A search as its log has it now.
class ReadSearch {
 public:
  /// Throws InputError if the folder holds no search. Prints a note on stderr if lines of the log are broken.
  explicit ReadSearch(const std::filesystem::path& folder);
  const Population& population() const { return population_; }
  const SearchFolder& folder() const { return folder_; }

 private:
  SearchFolder folder_;
  Population population_;
};

/// Prints a note on stderr if lines of the log were left out, and where the first one is.
void note_broken_lines(const SearchLog& log);

/// "stage 1 conv 16 3x3, dense 64 tanh; adam 0.001, batch 32": what people want to know of a network at sight.
std::string summary_of(const Genome& genome, const Space& space);

/// "17: loss 0.3482, accuracy 0.884, 12,345 parameters".
std::string result_of(const Individual& individual, const Settings& settings);

/// "best 17: ...; 120 networks, 4 running, 3 failed".
std::string state_of(const Population& population);

}  // namespace keelson::search
