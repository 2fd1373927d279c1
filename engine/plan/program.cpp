#include "engine/plan/program.hpp"

#include <algorithm>
#include <numeric>

#include "engine/base/align.hpp"
#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"

namespace keelson {

std::string_view to_string(Phase p) {
  constexpr std::string_view names[] = {"forward", "backward", "exchange", "update"};
  return names[static_cast<int>(p)];
}

BufferId Program::add(Buffer b) {
  if (b.bytes == 0) b.bytes = b.desc.bytes();
  buffers_.push_back(std::move(b));
  return static_cast<BufferId>(buffers_.size()) - 1;
}

BufferId Program::add(std::string name, const TensorDesc& desc, Storage storage) {
  Buffer b;
  b.name = std::move(name);
  b.desc = desc;
  b.storage = storage;
  return add(std::move(b));
}

BufferId Program::view(BufferId of, const TensorDesc& desc, std::size_t offset) {
  Buffer v;
  v.name = buffer(of).name;
  v.desc = desc;
  v.bytes = desc.bytes();
  v.view_of = of;
  v.storage = buffer(of).storage;
  v.offset = offset;
  KEELSON_EXPECT(offset + v.bytes <= buffer(of).bytes);
  return add(std::move(v));
}

bool Program::place_inside(BufferId inner, BufferId outer, std::size_t offset) {
  Buffer& b = buffer(inner);
  const bool is_free = b.view_of == no_buffer && b.storage == Storage::arena && !b.keep;
  if (!is_free || offset != align64(offset) || root(outer) == inner) return false;
  KEELSON_EXPECT(offset + b.bytes <= buffer(outer).bytes);
  b.view_of = outer;
  b.offset = offset;
  return true;
}

BufferId Program::root(BufferId id) const {
  while (buffer(id).view_of != no_buffer) id = buffer(id).view_of;
  return id;
}

std::size_t Program::offset_in_root(BufferId id) const {
  std::size_t offset = 0;
  for (; buffer(id).view_of != no_buffer; id = buffer(id).view_of) offset += buffer(id).offset;
  return offset;
}

/// Of buffers whose contents are not those of the step before. Calls that update an operand may write it without
/// reading it; a sum over ranks writes nothing new. A gradient counts as written once any gradient is whose memory
/// overlaps: a bucket, or the block of all gradients, is read through a buffer of its own.
void Program::require_written() const {
  std::vector<const Every*> written(buffers_.size());  // by calls of these steps; null: by none
  std::vector<const Buffer*> gradients;
  const auto is_written = [&](BufferId id, const Every& reader) {
    const Buffer& b = buffer(id);
    const Every* const writer = written[static_cast<std::size_t>(id)];
    if (b.storage == Storage::arena) return writer && (writer->always() || *writer == reader);
    if (b.storage != Storage::gradients) return true;
    return std::any_of(gradients.begin(), gradients.end(), [&](const Buffer* g) {
      return g->offset < b.offset + b.bytes && b.offset < g->offset + g->bytes;
    });
  };
  for (const Call& c : calls_) {
    for (const Operand& o : c.operands)
      if (o.id != no_buffer && o.access == ops::Access::read && !is_written(root(o.id), c.every))
        fail("{}: {} of phase {}, operand {}: reads the buffer '{}', which no call before writes{}", c.node, c.op,
             to_string(c.phase), to_string(o.role), buffer(o.id).name,
             written[static_cast<std::size_t>(root(o.id))] ? " in all of these steps: keep it in a state" : "");
    for (const Operand& o : c.operands) {
      const bool writes = o.access == ops::Access::write || (o.access == ops::Access::update && c.computation());
      if (o.id == no_buffer || !writes) continue;
      const Buffer& b = buffer(root(o.id));
      const Every*& steps = written[static_cast<std::size_t>(root(o.id))];
      if (!steps || !steps->always()) steps = &c.every;
      if (b.storage == Storage::gradients) gradients.push_back(&b);
    }
  }
}

/// The last call that may run at the same time as call `c`: up to the next call that overlaps others, or communicates.
int Program::end_of_overlap(int c) const {
  const auto& call = [this](int i) -> const Call& { return calls_[static_cast<std::size_t>(i)]; };
  int end = c;
  if (!call(c).overlaps) return end;
  const auto goes_on = [&](const Call& next) {
    return next.phase == call(c).phase && next.computation() && !next.overlaps;
  };
  while (end + 1 < static_cast<int>(calls_.size()) && goes_on(call(end + 1))) ++end;
  return end;
}

std::vector<Program::Life> Program::lives() const {
  std::vector<Life> lives(buffers_.size());
  for (int c = 0; c < static_cast<int>(calls_.size()); ++c) {
    const int end = end_of_overlap(c);
    for (const Operand& o : calls_[c].operands) {
      if (o.id == no_buffer) continue;
      Life& life = lives[root(o.id)];
      if (life.first < 0) life.first = c;
      life.last = std::max(life.last, end);
    }
  }
  for (BufferId b = 0; b < static_cast<BufferId>(buffers_.size()); ++b)
    if (buffers_[b].keep && lives[root(b)].first >= 0) lives[root(b)].last = static_cast<int>(calls_.size());
  return lives;
}

/// Whether this operand alone reads the memory of the source. A result may replace element i when the element has been
/// read, but a second operand may read it later, or as another element.
bool Program::reads_once(const Call& call, const Operand& source) const {
  return std::count_if(call.operands.begin(), call.operands.end(),
                       [&](const Operand& o) { return o.id != no_buffer && root(o.id) == root(source.id); }) == 1;
}

/// Merges buffers of the same desc. A result replaces a part only when no later call reads any of the larger buffer.
void Program::merge_in_place() {
  auto life = lives();
  for (int c = 0; c < static_cast<int>(calls_.size()); ++c)
    for (const Operand& result : calls_[c].operands) {
      if (result.in_place_of < 0 || result.id == no_buffer) continue;
      const Operand& source = calls_[c].operands[static_cast<std::size_t>(result.in_place_of)];
      if (source.id == no_buffer || !is_usable(source.id) || is_part(result.id)) continue;
      if (!(buffer(source.id).desc == buffer(result.id).desc) || !reads_once(calls_[c], source)) continue;
      const BufferId src = root(source.id), dst = root(result.id);
      const bool free_after = life[src].last == c && life[dst].first == c;
      if (src == dst || !free_after || buffer(src).storage != Storage::arena || buffer(dst).storage != Storage::arena ||
          buffer(source.id).bytes != buffer(dst).bytes)
        continue;
      buffer(dst).view_of = source.id;
      life[src].last = life[dst].last;
    }
}

std::size_t Program::place_in(const std::vector<BufferId>& order, const std::vector<Life>& life) {
  std::size_t end = 0;
  std::vector<BufferId> placed;  // by offset
  for (BufferId b : order) {
    std::size_t offset = 0;
    for (BufferId other : placed) {
      if (life[other].last < life[b].first || life[b].last < life[other].first) continue;
      if (offset + buffers_[b].bytes <= buffers_[other].offset) break;
      offset = std::max(offset, align64(buffers_[other].offset + buffers_[other].bytes));
    }
    buffers_[b].offset = offset;
    end = std::max(end, align64(offset + buffers_[b].bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), b,
                                   [&](BufferId x, BufferId y) { return buffers_[x].offset < buffers_[y].offset; }),
                  b);
  }
  return end;
}

void Program::place() {
  require_written();
  merge_in_place();
  const auto life = lives();
  std::vector<BufferId> order;
  for (BufferId b = 0; b < static_cast<BufferId>(buffers_.size()); ++b)
    if (life[b].first >= 0 && buffers_[b].storage == Storage::arena && buffers_[b].view_of == no_buffer)
      order.push_back(b);
  std::stable_sort(order.begin(), order.end(),
                   [&](BufferId a, BufferId b) { return buffers_[a].bytes > buffers_[b].bytes; });

  std::vector<std::size_t> begins(calls_.size() + 2), ends(calls_.size() + 2);  // bytes, by call
  for (BufferId b : order) {
    begins[life[b].first] += align64(buffers_[b].bytes);
    ends[life[b].last + 1] += align64(buffers_[b].bytes);
  }
  std::size_t alive = 0;
  for (std::size_t c = 0; c < calls_.size(); ++c) {
    alive += begins[c] - ends[c];
    lower_bound_ = std::max(lower_bound_, alive);
  }

  // If that leaves gaps, two buffers, mostly large ones, are swapped in the order, and the swap stays if the arena does
  // not grow. Ranks must get the same result, so the random choice depends on the number of the attempt alone.
  const std::uint64_t attempts = std::min<std::uint64_t>(2000, 100'000'000 / (order.size() * order.size() + 1));
  arena_bytes_ = place_in(order, life);
  auto best = order;
  const auto pick = [&](std::uint64_t i) {
    const auto u = static_cast<double>(philox::uniform({0, 0, 0}, i));
    return static_cast<std::size_t>(u * u * static_cast<double>(order.size()));
  };
  for (std::uint64_t i = 0; i < attempts && arena_bytes_ > lower_bound_; ++i) {
    order = best;
    std::swap(order[pick(2 * i)], order[pick(2 * i + 1)]);
    const auto bytes = place_in(order, life);
    if (bytes > arena_bytes_) continue;
    arena_bytes_ = bytes;
    best = order;
  }
  place_in(best, life);
}

}  // namespace keelson
