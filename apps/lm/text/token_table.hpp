#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace keelson::lm {

/// Different strings, numbered 0, 1, 2, ... in the order in which they were first added. Made for the inner loop of
/// reading text: a look-up takes some ten nanoseconds, and a token needs its bytes and at most 40 more.
class TokenTable {
 public:
  TokenTable();
  /// The token's number; adds the token if it is new.
  std::int32_t add(std::string_view token);
  /// The token's number, or -1.
  std::int32_t find(std::string_view token) const;
  std::string_view token(std::int32_t number) const;  ///< valid until the next add()
  std::int32_t size() const { return static_cast<std::int32_t>(begins_.size()) - 1; }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t number = -1;  ///< -1: free
  };
  std::size_t slot_of(std::string_view token, std::uint32_t hash) const;
  std::int32_t append(std::string_view token);
  void grow();

  std::string bytes_;                        ///< bytes of all tokens
  std::vector<std::size_t> begins_{0};       ///< begin of each token in `bytes_`, then the end
  std::vector<Slot> slots_;                  ///< open addressing, at most half full; their number is a power of two
  std::array<std::int32_t, 256> of_byte_{};  ///< tokens of one byte need no hash
};

}  // namespace keelson::lm
