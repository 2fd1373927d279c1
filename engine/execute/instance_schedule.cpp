#include "engine/execute/instance_schedule.hpp"

#include <algorithm>

namespace keelson {

namespace {

/// Memory that a call uses.
struct Region {
  Storage storage;
  BufferId root;  ///< of memory with one owner
  std::size_t begin = 0, end = 0;
  bool written;
};

/// All of the buffer that owns the memory: a view may have gaps.
Region region_of(const Program& program, const Operand& o) {
  const BufferId root = program.root(o.id);
  const Buffer& b = program.buffer(root);
  return {b.storage, root, b.offset, b.offset + b.bytes, o.writes()};
}

bool conflict(const Region& a, const Region& b) {
  if (!(a.written || b.written) || a.storage != b.storage) return false;
  switch (a.storage) {
    case Storage::arena:
    case Storage::gradients:
      return a.begin < b.end && b.begin < a.end;
    case Storage::parameter:  // a block may hold others
      return true;
    case Storage::owned:
    case Storage::moment:
      break;
  }
  return a.root == b.root;
}

}  // namespace

InstanceSchedule::InstanceSchedule(const Program& program, std::size_t first, std::size_t last)
    : first_(first), entries_(last - first) {
  std::vector<std::vector<Region>> regions;
  for (std::size_t i = first; i < last; ++i) {
    const Call& call = program.calls()[i];
    entries_[i - first].overlaps = call.overlaps;
    has_two_ = has_two_ || call.overlaps != program.calls()[first].overlaps;
    auto& used = regions.emplace_back();
    for (const Operand& o : call.operands)
      if (o.id != no_buffer) used.push_back(region_of(program, o));
  }
  const auto depend = [&](std::size_t a, std::size_t b) {
    return std::ranges::any_of(regions[a], [&](const Region& x) {
      return std::ranges::any_of(regions[b], [&](const Region& y) { return conflict(x, y); });
    });
  };
  int ended[2] = {-1, -1};  // by instance that waits: calls of the other instance up to this one have ended
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const bool here = entries_[i].overlaps;
    for (int before = static_cast<int>(i) - 1; before > ended[here]; --before) {
      Entry& other = entries_[static_cast<std::size_t>(before)];
      if (other.overlaps == here || !depend(static_cast<std::size_t>(before), i)) continue;
      entries_[i].waits_for = static_cast<int>(first) + before;
      other.is_awaited = true;
      ended[here] = before;
      break;
    }
  }
}

}  // namespace keelson
