#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "search/log/population.hpp"
#include "search/run/virtual_clock.hpp"

namespace keelson::search {

/// The results of all genomes of a space, from the log of a search by the method grid.
class Table {
 public:
  /// Throws InputError for a search of another method, or one that is not complete.
  explicit Table(Population grid);

  const Settings& settings() const { return grid_.settings(); }  ///< of the search that made the table
  std::size_t size() const { return grid_.all().size(); }        ///< networks
  double best_loss() const { return best_; }                     ///< the least loss after the longest training
  /// Result of a genome after a rung of other settings, whose epochs a rung of the table has, too; seconds since the
  /// rung before. Throws InputError for a genome or a number of epochs that the table does not have.
  Result result_of(const Individual& individual, int rung, const Settings& settings) const;

 private:
  const Individual& find(const std::string& key) const;

  Population grid_;
  double best_ = 0;
};

/// How a search on a table went: after each training to the last rung, in the order of the simulated clock.
struct Course {
  std::vector<double> seconds;  ///< when a training to the last rung ended
  std::vector<double> regret;   ///< the least loss so far, minus the table's least loss
};

/// One search on a table. Throws InputError if no training to the last rung has ended.
Course search_on(const Table& table, const Settings& settings, int workers, const Budget& budget);

}  // namespace keelson::search
