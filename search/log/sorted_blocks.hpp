#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace keelson::search {

/// Values in rising order, of which any number may be equal. Like std::multiset, but says which value has a place, and
/// which place a value has, without a walk through all. The values lie in blocks, so that inserting moves few of them.
template <class T>
class SortedBlocks {
 public:
  std::size_t size() const { return size_; }  ///< number of values

  /// Adds a value, behind equal ones.
  void insert(const T& value) {
    ++size_;
    if (blocks_.empty()) blocks_.emplace_back();
    auto block = std::upper_bound(blocks_.begin(), blocks_.end(), value,
                                  [](const T& v, const Block& b) { return !b.empty() && v < b.back(); });
    if (block == blocks_.end()) --block;
    block->insert(std::upper_bound(block->begin(), block->end(), value), value);
    if (block->size() < most) return;
    const auto middle = block->begin() + static_cast<std::ptrdiff_t>(most / 2);
    Block upper(middle, block->end());
    block->erase(middle, block->end());
    blocks_.insert(block + 1, std::move(upper));
  }

  /// Removes one value that is equal to this one, if there is one.
  void erase(const T& value) {
    const auto block = block_of(value);
    if (block == blocks_.end()) return;
    const auto found = std::lower_bound(block->begin(), block->end(), value);
    if (value < *found) return;
    --size_;
    block->erase(found);
    if (block->empty()) blocks_.erase(block);
  }

  /// The value at a place, from 0; `place` must be less than size().
  const T& operator[](std::size_t place) const {
    auto block = blocks_.begin();
    for (; place >= block->size(); ++block) place -= block->size();
    return (*block)[place];
  }

  /// The number of values that are less than this one.
  std::size_t place_of(const T& value) const {
    std::size_t place = 0;
    auto block = blocks_.begin();
    for (; block != blocks_.end() && block->back() < value; ++block) place += block->size();
    if (block == blocks_.end()) return place;
    return place + static_cast<std::size_t>(std::lower_bound(block->begin(), block->end(), value) - block->begin());
  }

  /// At most so many values, the least first.
  std::vector<T> first(std::size_t count) const {
    std::vector<T> values;
    values.reserve(std::min(count, size_));
    for (const Block& block : blocks_) {
      const auto n = std::min(count - values.size(), block.size());
      values.insert(values.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(n));
      if (values.size() == count) break;
    }
    return values;
  }

 private:
  using Block = std::vector<T>;
  static constexpr std::size_t most = 512;  // values of a block

  /// The first block whose last value is not less; none is empty.
  typename std::vector<Block>::iterator block_of(const T& value) {
    return std::lower_bound(blocks_.begin(), blocks_.end(), value,
                            [](const Block& b, const T& v) { return b.back() < v; });
  }

  std::vector<Block> blocks_;
  std::size_t size_ = 0;
};

}  // namespace keelson::search
