#pragma once

#include <string>
#include <string_view>

namespace keelson {

/// `text` with every control character except newline and tab written as "\x1b", so that the content of a file or an
/// argument cannot control the user's terminal. Bytes from 0x80 on (UTF-8) stay.
std::string printable(std::string_view text);

}  // namespace keelson
