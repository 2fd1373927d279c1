#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/search/training/search_data.hpp"
#include "engine/train/growth.hpp"
#include "search/log/population.hpp"

namespace keelson::search {

/// What a search is to do, as its user gives it to the program or to Python.
struct SearchOptions {
  std::string method = "evolution";                ///< how new networks are made: method_names(), or "tpe" of Python
  std::vector<std::string> objectives = {"loss"};  ///< what is minimised
  std::string space, start;                        ///< JSON: restricts the space; a genome to begin with; empty: none
  std::optional<GrowthOptions> blueprint;          ///< restricts widths, copies and parameters, too
  std::string start_from = "start", blueprint_from = "blueprint";  ///< where they are from, for errors
  double epochs = 8, first_epochs = 0;  ///< of the longest training; of the first rung, 0: all
  int eta = 4;                          ///< as Settings::eta
  std::uint64_t seed = 1;               ///< of all choices
  double lease = 60;                    ///< as Settings::least_lease
  std::int64_t members = 100;           ///< pbt, ltfb: networks
  double interval = 1;                  ///< pbt, ltfb: epochs
  double tournament = 0.1;              ///< ltfb: part of the training data
  bool partition = false;               ///< ltfb: each member trains on a part of the training data
};

/// The first line of the log. `config`: Settings::config. Throws InputError for what the method or the data cannot do,
/// before anything is written.
Settings settings_of(const SearchOptions& options, const SearchData& data, const std::string& config);

/// Throws InputError for data that are not those with which a search began. `folder`: of the search, for the message.
void require_same_data(const Settings& settings, const SearchData& data, const std::string& folder);

}  // namespace keelson::search
