#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson::comm::detail {

/// Numbers of sends and receives between two ranks: a send belongs to the receive of the same number. Each gets the
/// smallest free number. So a rank that destroys all of its sends and receives and makes them again in the same order
/// gets the same numbers as before, and its peers can keep theirs.
class MessageNumbers {
 public:
  int take(const CollectiveDesc& desc) {
    auto& used = used_[key(desc)];
    const auto free = std::find(used.begin(), used.end(), false);
    const auto number = free - used.begin();
    if (free == used.end()) used.push_back(false);
    used[static_cast<std::size_t>(number)] = true;
    return static_cast<int>(number);
  }
  void give_back(const CollectiveDesc& desc, int number) { used_[key(desc)][static_cast<std::size_t>(number)] = false; }

 private:
  using Key = std::pair<CollectiveDesc::Kind, int>;
  static Key key(const CollectiveDesc& desc) { return {desc.kind, desc.peer}; }
  std::map<Key, std::vector<bool>> used_;
};

}  // namespace keelson::comm::detail
