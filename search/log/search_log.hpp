#pragma once

#include <filesystem>

#include "engine/data/files/line_log.hpp"

namespace keelson::search {

/// The log of a search: the file to which all workers append lines, and the whole state of the search. The order of the
/// lines decides whose claim came first.
class SearchLog : public LineLog {
 public:
  /// As LineLog.
  SearchLog(const std::filesystem::path& path, bool writable)
      : LineLog(path, writable,
                {"a search writes this file: keelson-search run --out FOLDER begins one",
                 "what the log has so far is kept: keelson-search resume goes on"}) {}
};

}  // namespace keelson::search
