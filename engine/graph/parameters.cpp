#include "engine/graph/parameters.hpp"

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
    p.moments.push_back(context_->allocate(p.value.desc(), fmt::format("{}/moment{}", p.name, i + 1)));
    if (i >= p.start_moments.size()) continue;
    set(p, p.start_moments[i], static_cast<int>(i));
    p.start_moments[i] = {};
  }
}

std::vector<float> Parameters::get(const Parameter& p, int which) const {
  take_turn();
  if (which < 0 && !p.value) return p.start.empty() ? initial_values(p.init, p.name, p.shape, seed_) : p.start;
  std::vector<float> plain(static_cast<std::size_t>(p.shape.elements()));
  context_->read_plain(which < 0 ? p.value : p.moments.at(which), plain.data());
  return plain;
}

void Parameters::set(Parameter& p, const std::vector<float>& plain, int which) {
  KEELSON_EXPECT(static_cast<std::int64_t>(plain.size()) == p.shape.elements());
  take_turn();
  context_->write_plain(which < 0 ? p.value : p.moments.at(which), plain.data());
}

}  // namespace keelson
