#include "engine/execute/bindings.hpp"

#include <algorithm>
#include <utility>

namespace keelson {

Bindings::Bindings(const CompiledGraph& compiled, Parameters& parameters, std::shared_ptr<Arena> arena,
                   const Bindings* first)
    : compiled_(compiled), parameters_(parameters), first_(first), arena_(std::move(arena)) {
  const auto& buffers = compiled.program.buffers();
  for (const auto& [name, shapes] : compiled.own_shapes) parameters_.set_own_shapes(parameters_.at(name), shapes);
  for (const Buffer& b : buffers)
    if (b.storage == Storage::parameter && !b.parameter.empty()) require_layout(b);
  if (!compiled.parameter_block.places.empty()) parameter_block_ = parameters_.place(compiled.parameter_block);
  if (first_)
    gradients_ = first_->gradients_;
  else if (compiled.gradient_floats > 0)
    gradients_ = compiled.context.allocate(TensorDesc::plain({compiled.gradient_floats}), "gradients");
  memory_.resize(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].view_of == no_buffer) allocate(buffers[i], static_cast<BufferId>(i));
  arena_->reserve(compiled.program.arena_bytes());
  parameters_generation_ = parameters_.generation();
  refresh();
}

/// Whether micro-batches that are in flight at the same time have the same memory for a buffer outside the arena.
bool Bindings::is_shared(const Buffer& b, BufferId id) const {
  if (b.storage != Storage::owned || id == compiled_.step_params) return false;
  return std::ranges::none_of(compiled_.inputs, [&](const auto& input) { return input.second == id; });
}

void Bindings::allocate(const Buffer& b, BufferId id) {
  Tensor& t = memory_[static_cast<std::size_t>(id)];
  if (first_ && is_shared(b, id)) {
    t = first_->memory_[static_cast<std::size_t>(id)];
    return;
  }
  switch (b.storage) {
    case Storage::arena:
      return;
    case Storage::owned:
      t = compiled_.context.allocate(b.desc, b.name);
      return;
    case Storage::gradients:
      t = Tensor(b.desc, static_cast<std::byte*>(gradients_.raw()) + b.offset);
      return;
    case Storage::parameter:
    case Storage::moment:
      break;
  }
  if (b.storage == Storage::parameter && b.parameter.empty()) {
    t = parameter_block_;
    return;
  }
  Parameter& p = parameters_.at(b.parameter);
  if (b.storage == Storage::moment) parameters_.add_moments(p, static_cast<int>(b.moment) + 1);
  t = b.storage == Storage::parameter ? p.value : p.moments[b.moment];
}

void Bindings::require_layout(const Buffer& b) {
  Parameter& p = parameters_.at(b.parameter);
  if (!p.value) parameters_.materialise(p, b.desc.layout);
  if (!(p.value.desc() == b.desc))
    fail("the parameter {} is {}, but the plan reads {}: make the plan with these parameters, or others without memory",
         p.name, to_string(p.value.desc()), to_string(b.desc));
}

void Bindings::find_parameters() {
  if (!compiled_.parameter_block.places.empty()) parameter_block_ = parameters_.place(compiled_.parameter_block);
  const auto& buffers = compiled_.program.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].view_of == no_buffer && buffers[i].storage == Storage::parameter)
      allocate(buffers[i], static_cast<BufferId>(i));
}

Tensor Bindings::tensor(BufferId id) const {
  if (id == no_buffer) return {};
  const BufferId owner = compiled_.program.root(id);
  const Buffer& b = compiled_.program.buffer(owner);
  void* data = b.storage == Storage::arena ? arena_->data() + b.offset : memory_[static_cast<std::size_t>(owner)].raw();
  return Tensor(compiled_.program.buffer(id).desc,
                static_cast<std::byte*>(data) + compiled_.program.offset_in_root(id));
}

namespace {

CollectiveDesc described(const CommunicationDesc& c, const Tensor& src, const Tensor& dst, const ProcessGrid* grid) {
  using Kind = CollectiveDesc::Kind;
  using Element = CollectiveDesc::Element;
  CollectiveDesc d{.kind = c.kind,
                   .src = src.raw(),
                   .dst = dst.raw(),
                   .label = c.label,
                   .wire = c.wire,
                   .order = c.order,
                   .consumes_src = c.consumes_src};
  if (c.kind == Kind::allreduce) d.src = d.dst;
  const Tensor& counted = c.kind == Kind::reduce_scatter || !src ? dst : src;
  d.count = counted.bytes();
  if (c.kind == Kind::all_to_all && grid) d.count /= static_cast<std::size_t>(grid->extent(c.axes));
  if (d.sums()) {
    d.element = counted.dtype() == DType::f64 ? Element::f64 : Element::f32;
    d.count /= d.element_bytes();
  }
  d.peer = d.point_to_point() ? (grid ? grid->neighbor(c.axes.last(), c.peer, c.periodic) : -1) : c.peer;
  return d;
}

/// In the place of a message that no rank sends.
class Zeros : public Collective {
 public:
  Zeros(Device& device, const Tensor& dst) : device_(device), dst_(dst) {}
  void start() override { device_.zero(dst_.raw(), dst_.bytes()); }
  bool test() override { return true; }
  void wait() override {}

 private:
  Device& device_;
  Tensor dst_;
};

}  // namespace

std::shared_ptr<Collective> Bindings::make_collective(const CommunicationDesc& c) const {
  const ProcessGrid* grid = compiled_.options.grid;
  const CollectiveDesc desc = described(c, tensor(c.src), tensor(c.dst), grid);
  if (c.zeros && desc.peer < 0) return std::make_shared<Zeros>(compiled_.context.device(), tensor(c.dst));
  Communicator* ranks = grid ? grid->along(c.axes, c.group) : nullptr;
  if (ranks) return ranks->make_collective(desc);
  return make_local_collective(desc,
                               [&device = compiled_.context.device()](void* to, const void* from, std::size_t bytes) {
                                 device.copy(to, from, bytes);
                               });
}

BoundCall Bindings::bind(const Call& call) {
  BoundCall bound;
  for (const Operand& o : call.operands) bound.tensors.push_back(tensor(o.id));
  if (const Computation* computation = call.computation()) {
    bound.run = computation->bind(bound.tensors.data());
    return bound;
  }
  const Communication& c = *call.communication();
  auto& collective = collectives_[static_cast<std::size_t>(c.channel)];
  if (!collective)
    collective = first_ ? first_->collectives_[static_cast<std::size_t>(c.channel)] : make_collective(c.desc);
  if (c.step == Communication::Step::start)
    bound.run = [run = collective] { run->start(); };
  else
    bound.run = [run = collective] { run->wait(); };
  bound.collective = collective;
  return bound;
}

/// Whether operands lie in memory that moves: all but gradients and this executor's own.
bool Bindings::may_have_moved(const Call& call) const {
  return std::ranges::any_of(call.operands, [&](const Operand& o) {
    if (o.id == no_buffer) return false;
    const Storage storage = compiled_.program.buffer(compiled_.program.root(o.id)).storage;
    return storage != Storage::owned && storage != Storage::gradients;
  });
}

bool Bindings::refresh() {
  if (generation_ == arena_->generation() && parameters_generation_ == parameters_.generation()) return false;
  generation_ = arena_->generation();
  if (std::exchange(parameters_generation_, parameters_.generation()) != parameters_.generation()) find_parameters();
  calls_.clear();
  collectives_.resize(static_cast<std::size_t>(compiled_.program.channels()));
  for (const Call& call : compiled_.program.calls())
    if (call.communication() && may_have_moved(call))
      collectives_[static_cast<std::size_t>(call.communication()->channel)] = nullptr;
  for (const Call& call : compiled_.program.calls()) calls_.push_back(bind(call));
  return true;
}

void Bindings::move(BufferId buffer, void* data) {
  Tensor& memory = memory_[static_cast<std::size_t>(buffer)];
  memory = Tensor(memory.desc(), data);
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const Call& call = compiled_.program.calls()[i];
    bool moved = false;
    for (std::size_t o = 0; o < call.operands.size(); ++o) {
      const BufferId id = call.operands[o].id;
      if (id == no_buffer || compiled_.program.root(id) != buffer) continue;
      calls_[i].tensors[o] = tensor(id);
      moved = true;
    }
    if (!moved) continue;
    const Communication* c = call.communication();
    if (c && c->step == Communication::Step::start) collectives_[static_cast<std::size_t>(c->channel)] = nullptr;
    BoundCall bound = bind(call);
    calls_[i].run = std::move(bound.run);
    calls_[i].collective = std::move(bound.collective);
  }
}

}  // namespace keelson
