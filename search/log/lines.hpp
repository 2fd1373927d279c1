#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "search/log/population.hpp"

namespace keelson::search {

/// A line of the log. Its functions throw InputError, naming the entry and the line, for an entry that is missing or of
/// another type.
class Line {
 public:
  explicit Line(const std::string& json);  ///< throws InputError for anything but an object
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  std::string text(const char* name) const;                  ///< an entry that is a text
  std::string dumped(const char* name) const;                ///< any entry, as JSON
  double number(const char* name) const;                     ///< a number
  std::int64_t whole(const char* name) const;                ///< a whole number
  bool flag(const char* name) const;                         ///< true or false
  bool has(const char* name) const;                          ///< whether there is such an entry
  std::vector<std::int64_t> wholes(const char* name) const;  ///< a list of whole numbers
  std::vector<std::string> texts(const char* name) const;    ///< a list of texts

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

Individual parse_birth(const Line& line, const Space& space);   ///< what birth_line() has written
Interval parse_interval(const Line& line, const Space& space);  ///< what interval_line() has written
std::string member_key(std::int64_t id);                        ///< Individual::key of a member: "member 3"
Result parse_result(const Line& line);                          ///< what result_line() has written

}  // namespace keelson::search
