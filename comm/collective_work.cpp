#include "comm/detail/collective_work.hpp"

#include <cstddef>
#include <vector>

namespace keelson::comm::detail {
namespace {

std::vector<CollectiveWork*> under_way;  // NOLINT(cert-err58-cpp)
std::size_t room = 0;

}  // namespace

void UnderWay::reserve(int more) {
  room = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(room) + more);
  under_way.reserve(room);
}

void UnderWay::add(CollectiveWork& work) { under_way.push_back(&work); }

void UnderWay::remove(CollectiveWork& work) { std::erase(under_way, &work); }

void UnderWay::advance() {
  for (std::size_t i = 0; i < under_way.size(); ++i) under_way[i]->advance();
}

}  // namespace keelson::comm::detail
