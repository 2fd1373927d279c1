#pragma once

#include <functional>
#include <map>
#include <memory>

#include "comm/detail/message_numbers.hpp"

namespace keelson::comm::detail {

/// Collectives of one rank: they copy where src and dst are two arrays. What the rank sends to itself is copied when
/// the send and its receive have both been started.
class LocalCollectives {
 public:
  using Copy = std::function<void(void* dst, const void* src, std::size_t bytes)>;
  explicit LocalCollectives(Copy copy) : copy_(std::move(copy)) {}
  std::unique_ptr<Collective> make(const CollectiveDesc& desc);

 private:
  friend class LocalMessage;
  struct Pair {  ///< null: not started
    const CollectiveDesc* send = nullptr;
    const CollectiveDesc* receive = nullptr;
  };
  Copy copy_;
  MessageNumbers numbers_;
  std::map<int, Pair> started_;  ///< by number
};

}  // namespace keelson::comm::detail
