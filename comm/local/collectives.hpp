#pragma once

#include <map>
#include <memory>

#include "comm/local/message_numbers.hpp"

namespace keelson::comm::detail {

/// Collectives of one rank. They copy src to dst if these are two arrays. A send to itself is copied when the send and
/// its receive have both been started.
class LocalCollectives {
 public:
  explicit LocalCollectives(CopyFn copy) : copy_(std::move(copy)) {}
  std::unique_ptr<Collective> make(const CollectiveDesc& desc);

 private:
  friend class LocalMessage;
  struct Pair {  ///< null: not started
    const CollectiveDesc* send = nullptr;
    const CollectiveDesc* receive = nullptr;
  };
  CopyFn copy_;
  MessageNumbers numbers_;
  std::map<int, Pair> started_;  ///< by number
};

}  // namespace keelson::comm::detail
