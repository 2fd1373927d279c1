#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "apps/common/folder_lock.hpp"
#include "apps/search/training/search_data.hpp"
#include "apps/search/training/search_folder.hpp"
#include "engine/base/communicator.hpp"
#include "engine/ops/context.hpp"
#include "search/log/population.hpp"
#include "search/log/search_log.hpp"
#include "search/method/method.hpp"
#include "search/run/worker.hpp"

namespace keelson::search {

/// Holds the folder of a search for the ranks of this job: the first rank has the lock, the others a null pointer.
/// Makes the folder if there is none. Throws InputError on all ranks for a folder that another process uses.
/// Collective.
std::unique_ptr<app::FolderLock> hold_folder(const SearchFolder& folder, Communicator& world);

/// Begins a search in a folder that this job holds: writes the first line of its log. A search that the folder has is
/// removed first. Collective.
void begin_search(const SearchFolder& folder, const Settings& settings, Communicator& world);

/// How one start of a search works on it.
struct StartOptions {
  std::int64_t networks = 0;  ///< as Budget::networks
  double seconds = 0;         ///< of this start, after which no training begins; 0: no limit
  int ranks_per_network = 1;  ///< ranks that train one network, data-parallel
  int keep = 5;               ///< networks whose checkpoints are kept, the best
  bool joins = false;         ///< adds workers to a search that runs
  /// Asked after each step, on each rank; true: the search ends with checkpoints. May be empty.
  std::function<bool()> interrupted = {};
  /// Called on the first rank with lines that say how far the search is; may be empty.
  std::function<void(const std::string&)> tell = {};
};

/// One start of a search, new or continued: all ranks of a job train networks, and write into the log of its folder.
class SearchRun {
 public:
  /// Reads the log. All references must outlive this. Throws InputError for a folder without a search, and for data
  /// that are others than those with which it began.
  SearchRun(SearchFolder folder, const SearchData& data, Communicator& world);

  const Settings& settings() const { return population_.settings(); }  ///< of the log's first line
  /// Runs workers until the budget is used up or the search is interrupted. `on_device`: the same ranks as `world`,
  /// with collectives on the device of `context`. `method`: that of the settings. Returns the times of this rank's
  /// worker; 0 on ranks that do not lead one. Throws what ends the worker. Collective.
  WorkerTimes work(Context& context, Communicator& on_device, const Method& method, const StartOptions& options);

 private:
  std::string describe(int workers) const;

  SearchFolder folder_;
  const SearchData& data_;
  Communicator& world_;
  SearchLog log_;
  Population population_;
};

}  // namespace keelson::search
