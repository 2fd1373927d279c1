#include "engine/base/file_error.hpp"

#include <algorithm>
#include <array>

namespace keelson {

std::string describe(const std::filesystem::filesystem_error& error) {
  return fmt::format("{}: {}", error.path1().string(), error.code().message());
}

ExitCode exit_code_of(const std::filesystem::filesystem_error& error) {
  constexpr std::array of_the_path{std::errc::filename_too_long,     std::errc::no_such_file_or_directory,
                                   std::errc::not_a_directory,       std::errc::is_a_directory,
                                   std::errc::permission_denied,     std::errc::operation_not_permitted,
                                   std::errc::read_only_file_system, std::errc::too_many_symbolic_link_levels,
                                   std::errc::invalid_argument,      std::errc::file_exists};
  const bool found =
      std::any_of(of_the_path.begin(), of_the_path.end(), [&](std::errc code) { return error.code() == code; });
  return found ? ExitCode::bad_input : ExitCode::failure;
}

}  // namespace keelson
