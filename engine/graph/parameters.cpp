#include "engine/graph/parameters.hpp"

#include <algorithm>
#include <utility>

namespace keelson {

Parameters::Parameters(const Graph& graph, Context& context, std::uint64_t seed)
    : context_(&context), seed_(seed), arena_(std::make_shared<Arena>(context)) {
  for (auto& spec : graph.parameters()) {
    Parameter& p = parameters_.emplace_back();
    p.name = spec.name;
    p.shape = spec.shape;
    p.init = spec.init;
    p.kind = spec.kind;
  }
}

Parameter& Parameters::at(const std::string& name) {
  for (Parameter& p : parameters_)
    if (p.name == name) return p;
  fail("the network has no parameter '{}'", name);
}

const Parameter* Parameters::find(const std::string& name) const {
  for (const Parameter& p : parameters_)
    if (p.name == name) return &p;
  return nullptr;
}

std::int64_t Parameters::count() const {
  std::int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.shape.elements();
  return n;
}

void Parameters::materialise(Parameter& p, const Layout& layout) {
  KEELSON_EXPECT(!p.value);
  const std::vector<float> start = get(p);
  p.value = context_->allocate({p.shape, DType::f32, layout}, p.name);
  set(p, start);
  p.start = {};
}

void Parameters::add_moments(Parameter& p, int count) {
  take_turn();
  while (static_cast<int>(p.moments.size()) < count) {
    const std::size_t i = p.moments.size();
    const TensorDesc desc = p.shard ? TensorDesc::plain({p.shard->count}) : p.value.desc();
    p.moments.push_back(context_->allocate(desc, fmt::format("{}/moment{}", p.name, i + 1)));
    if (i >= p.start_moments.size()) continue;
    set(p, p.start_moments[i], static_cast<int>(i));
    p.start_moments[i] = {};
  }
}

std::vector<float> Parameters::get(const Parameter& p, int which) const {
  take_turn();
  if (which < 0 && !p.value) return p.start.empty() ? initial_values(p.init, p.name, p.shape, seed_) : p.start;
  if (which >= 0 && p.shard)
    fail("{}: this rank has a part of the moments alone, since the optimizer's state is in shards", p.name);
  const auto moment = static_cast<std::size_t>(which);
  if (which >= 0 && moment >= p.moments.size() && moment < p.start_moments.size()) return p.start_moments[moment];
  std::vector<float> plain(static_cast<std::size_t>(p.shape.elements()));
  context_->read_plain(which < 0 ? p.value : p.moments.at(which), plain.data());
  return plain;
}

void Parameters::set(Parameter& p, const std::vector<float>& plain, int which) {
  KEELSON_EXPECT(static_cast<std::int64_t>(plain.size()) == p.shape.elements());
  take_turn();
  if (which < 0 && !p.value) {
    p.start = plain;
    return;
  }
  if (const auto moment = static_cast<std::size_t>(which); which >= 0 && !p.shard && moment >= p.moments.size()) {
    p.start_moments.resize(std::max(p.start_moments.size(), moment + 1));
    p.start_moments[moment] = plain;
    return;
  }
  if (which < 0 || !p.shard) return context_->write_plain(which < 0 ? p.value : p.moments.at(which), plain.data());
  if (p.shard->count == 0) return;
  const Tensor whole = context_->allocate(p.value.desc(), p.name + ", all moments");
  context_->write_plain(whole, plain.data());
  const Tensor& mine = p.moments.at(which);
  context_->device().copy(mine.raw(), whole.data<float>() + p.shard->first, mine.bytes());
  context_->device().fence();
}

/// The elements of a tensor in the order of the memory.
std::vector<float> Parameters::stored(const Tensor& t) const {
  std::vector<float> values(static_cast<std::size_t>(t.stored_elements()));
  context_->device().copy_to_host(values.data(), t.raw(), t.bytes());
  return values;
}

/// From the order of the memory of a parameter to row-major order.
std::vector<float> Parameters::plain_of(const Parameter& p, const std::vector<float>& stored) const {
  const Tensor whole = context_->allocate(p.value.desc(), p.name + ", all moments");
  KEELSON_EXPECT(stored.size() * sizeof(float) == whole.bytes());
  context_->device().copy_from_host(whole.raw(), stored.data(), whole.bytes());
  std::vector<float> plain(static_cast<std::size_t>(p.shape.elements()));
  context_->read_plain(whole, plain.data());
  return plain;
}

void Parameters::cut_moments(Parameter& p, const Parameter::Shard& shard) {
  if (p.shard == shard) return;
  if (p.shard) fail("{}: the moments are in other shards already: gather_shards() first", p.name);
  p.shard = shard;
  auto whole = std::exchange(p.moments, {});
  if (shard.count == 0) return;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    add_moments(p, static_cast<int>(i) + 1);
    context_->device().copy(p.moments[i].raw(), whole[i].data<float>() + shard.first, p.moments[i].bytes());
  }
  context_->device().fence();
}

Tensor Parameters::place(const Block& block) {
  take_turn();
  const auto lies_so = [&] {
    if (!block_ || block_.bytes() != block.bytes) return false;
    return std::ranges::all_of(block.places, [&](const Block::Place& place) {
      return at(place.parameter).value.raw() == static_cast<std::byte*>(block_.raw()) + place.offset;
    });
  };
  if (!lies_so()) {
    block_ =
        context_->allocate(TensorDesc::plain({static_cast<std::int64_t>(block.bytes / sizeof(float))}), "parameters");
    for (const auto& place : block.places) {
      Tensor& value = at(place.parameter).value;
      const Tensor moved(value.desc(), static_cast<std::byte*>(block_.raw()) + place.offset, block_.owner());
      context_->device().copy(moved.raw(), value.raw(), value.bytes());
      context_->device().fence();
      value = moved;
    }
    ++generation_;
  }
  for (const auto& place : block.places) cut_moments(at(place.parameter), place.shard);
  return block_;
}

std::vector<float> Parameters::gather(const Parameter& p, int which, Communicator* ranks) const {
  if (!p.shard || !ranks) return ranks && ranks->rank() != 0 ? std::vector<float>() : get(p, which);
  take_turn();
  // The shards of a parameter follow each other in the order of the ranks.
  const auto all = ranks->gather(p.shard->count > 0 ? stored(p.moments.at(which)) : std::vector<float>(), 0);
  return ranks->rank() == 0 ? plain_of(p, all) : std::vector<float>();
}

void Parameters::gather_shards(Communicator& ranks) {
  for (Parameter& p : parameters_) {
    if (!p.shard) continue;
    std::int64_t count = std::ssize(p.moments);
    ranks.allreduce(&count, 1, Reduction::max);
    std::vector<std::vector<float>> moments;
    for (int which = 0; which < count; ++which) {
      moments.push_back(gather(p, which, &ranks));
      moments.back().resize(static_cast<std::size_t>(p.shape.elements()));
      ranks.broadcast(moments.back().data(), moments.back().size() * sizeof(float), 0);
    }
    p.shard = {};
    p.moments.clear();
    add_moments(p, static_cast<int>(count));
    for (int which = 0; which < count; ++which) set(p, moments[static_cast<std::size_t>(which)], which);
  }
}

}  // namespace keelson
