#include "engine/graph/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/graph/parameter_parts.hpp"

namespace keelson {

Parameters::Parameters(const Graph& graph, Context& context, std::uint64_t seed)
    : context_(&context), seed_(seed), arena_(std::make_shared<Arena>(context)) {
  for (auto& spec : graph.parameters()) {
    Parameter& p = parameters_.emplace_back();
    p.name = spec.name;
    p.shape = spec.shape;
    p.init = spec.init;
    p.kind = spec.kind;
    p.product_inputs = spec.product_inputs;
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
  if (p.part && p.part->count == 0) return;
  const std::vector<float> start = held(p, -1);
  p.value = context_->allocate({p.held_shape(), DType::f32, layout}, p.name);
  set_held(p, start, -1);
  p.start = {};
}

void Parameters::set_own_shapes(Parameter& p, std::map<int, Shape> shapes) {
  for (std::size_t m = 0; m < p.moments.size(); ++m) {
    const auto own = shapes.find(static_cast<int>(m));
    if (own == shapes.end() && !p.own_shapes.contains(static_cast<int>(m))) continue;
    const Shape wanted = own == shapes.end() ? p.held_shape() : own->second;
    const Tensor& found = p.moments[m];
    if (found ? found.shape() == wanted : wanted.elements() == 0) continue;
    refuse(
        "{}: state {} of the optimizer is {} in memory, but this optimizer needs {}: make new parameters for another "
        "optimizer",
        p.name, m, found ? to_string(found.shape()) : "not there", to_string(wanted));
  }
  for (const auto& [which, shape] : shapes) {  // remap() and changed_parameters() know the parameter's shape alone
    const auto moment = static_cast<std::size_t>(which);
    if (moment < p.start_moments.size() && std::ssize(p.start_moments[moment]) != shape.elements())
      p.start_moments[moment].clear();
  }
  p.own_shapes = std::move(shapes);
}

void Parameters::add_moments(Parameter& p, int count) {
  take_turn();
  while (static_cast<int>(p.moments.size()) < count) {
    const auto i = p.moments.size();
    const auto own = p.own_shapes.find(static_cast<int>(i));
    if (!p.has(static_cast<int>(i))) {
      p.moments.emplace_back();
      continue;
    }
    const TensorDesc desc = own != p.own_shapes.end() ? TensorDesc::plain(own->second)
                            : p.shard                 ? TensorDesc::plain({p.shard->count})
                                                      : p.value.desc();
    p.moments.push_back(context_->allocate(desc, fmt::format("{}/moment{}", p.name, i + 1)));
    if (i >= p.start_moments.size() || p.start_moments[i].empty()) continue;
    set_held(p, p.start_moments[i], static_cast<int>(i));
    p.start_moments[i] = {};
  }
}

void Parameters::set_part(const std::string& name, const Parameter::Part& part) {
  Parameter& p = at(name);
  if (p.part == part) return;
  if (part.dim < 0 || part.dim >= p.shape.rank() || part.first < 0 || part.count < 0 ||
      part.first + part.count > p.shape[part.dim])
    fail("{}: rows {} to {} along dimension {} of {}", name, part.first, part.first + part.count - 1, part.dim,
         to_string(p.shape));
  if (p.part || p.value || !p.moments.empty())
    fail("{}: ranks hold parts of a parameter from the beginning, but this one has {} already: make new parameters",
         name, p.part ? "another part" : "memory");
  p.part = part;
  if (!p.start.empty()) p.start = rows_of(p.start, p.shape, part);
  for (auto& start : p.start_moments)
    if (!start.empty()) start = rows_of(start, p.shape, part);
}

bool Parameters::are_spread() const {
  return std::ranges::any_of(parameters_, [](const Parameter& p) { return p.part || p.shard; });
}

std::vector<float> Parameters::get(const Parameter& p, int which) const {
  if (p.is_elsewhere())
    fail("{}: this rank has a part of the array alone: all ranks call Parameters::gather() for the whole", p.name);
  return held(p, which);
}

/// As get(), of this rank's part.
std::vector<float> Parameters::held(const Parameter& p, int which) const {
  take_turn();
  if (p.part && p.part->count == 0) return {};
  if (which < 0 && !p.value) {
    if (!p.start.empty()) return p.start;
    auto whole = initial_values(p.init, p.name, p.shape, seed_, &context_->device());
    return p.part ? rows_of(whole, p.shape, *p.part) : whole;
  }
  if (which >= 0 && p.shard)
    fail("{}: this rank has a part of the moments alone, since the optimizer's state is in shards", p.name);
  const auto moment = static_cast<std::size_t>(which);
  const bool is_own = p.own_shapes.contains(which), in_memory = which < 0 || moment < p.moments.size();
  if (!in_memory && moment < p.start_moments.size() && !p.start_moments[moment].empty()) return p.start_moments[moment];
  std::vector<float> plain(static_cast<std::size_t>((is_own ? p.shape_of(which) : p.held_shape()).elements()));
  if (plain.empty() || !in_memory) return plain;  // zeros: an optimizer may never use this moment
  context_->read_plain(which < 0 ? p.value : p.moments.at(moment), plain.data());
  return plain;
}

void Parameters::set(Parameter& p, const std::vector<float>& plain, int which) {
  KEELSON_EXPECT(static_cast<std::int64_t>(plain.size()) == p.shape_of(which).elements());
  if (plain.empty() || (p.part && p.part->count == 0)) return;
  if (!p.part || p.own_shapes.contains(which)) return set_held(p, plain, which);
  set_held(p, rows_of(plain, p.shape, *p.part), which);
}

/// As set(), of this rank's part.
void Parameters::set_held(Parameter& p, const std::vector<float>& plain, int which) {
  take_turn();
  if (which < 0 && !p.value) {
    p.start = plain;
    return;
  }
  if (const auto moment = static_cast<std::size_t>(which); which >= 0 && !p.shard && moment >= p.moments.size()) {
    p.start_moments.resize(std::max(p.start_moments.size(), moment + 1));
    const bool is_zero = std::ranges::all_of(plain, [](float v) { return v == 0 && !std::signbit(v); });
    p.start_moments[moment] = is_zero ? std::vector<float>() : plain;  // an optimizer may never use this moment
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
  std::vector<float> plain(static_cast<std::size_t>(p.held_shape().elements()));
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
  if (p.part && ranks) return gather_parts(p, which, *ranks);
  if (which < 0 || !p.shard || !ranks) return ranks && ranks->rank() != 0 ? std::vector<float>() : get(p, which);
  take_turn();
  // The shards of a parameter follow each other in the order of the ranks.
  const auto all = ranks->gather(p.shard->count > 0 ? stored(p.moments.at(which)) : std::vector<float>(), 0);
  return ranks->rank() == 0 ? plain_of(p, all) : std::vector<float>();
}

std::vector<float> Parameters::gather_parts(const Parameter& p, int which, Communicator& ranks) const {
  if (which >= 0 && p.shard)
    fail("{}: moments in shards of parameters in parts cannot be gathered: leave --shard-optimizer out", p.name);
  const auto parts = all_parts(p, ranks);
  std::vector<float> mine;
  if (is_first_with(parts, ranks.rank())) mine = held(p, which);
  auto pieces = ranks.gather(mine, 0);
  if (ranks.rank() != 0) return {};
  if (p.own_shapes.contains(which)) return pieces;  // the ranks that hold the parameter hold all of it
  std::vector<float> whole(static_cast<std::size_t>(p.shape.elements()));
  const float* next = pieces.data();
  for (std::size_t r = 0; r < parts.size(); ++r)
    if (is_first_with(parts, static_cast<int>(r))) next = put_rows(next, p.shape, parts[r], whole);
  return whole;
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
