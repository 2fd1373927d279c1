#include "backends/cuda/cudnn.hpp"

#include <algorithm>
#include <array>

namespace keelson::cuda {

namespace {

Descriptor engine_of(const Descriptor& config) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  auto raw = engine.get();
  config.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  return engine;
}

std::int64_t index_of(const Descriptor& engine) {
  std::int64_t index = 0;
  engine.read(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
  return index;
}

std::string name_of(const Descriptor& config, std::int64_t index) {
  auto name = fmt::format("eng{}", index);
  std::vector<Descriptor> knobs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i)
    raw.push_back(knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR).get());
  const auto count =
      config.read(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS, raw.data());
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    cudnnBackendKnobType_t type{};
    std::int64_t value = 0;
    knobs[i].read(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    knobs[i].read(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
    name += fmt::format("_k{}={}", static_cast<int>(type), value);
  }
  return name;
}

bool obeys(const Descriptor& engine, const EngineRules& rules) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const auto count =
      engine.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::ssize(notes), notes.data());
  return std::none_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return !rules.tensor_cores;
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
        return false;
      default:
        return true;
    }
  });
}

bool compiles(const Descriptor& engine) {
  std::array<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT> notes{};
  const auto count =
      engine.read(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, std::ssize(notes), notes.data());
  return std::find(notes.begin(), notes.begin() + count, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) !=
         notes.begin() + count;
}

/// The engines that the heuristics propose in one mode.
std::vector<EngineChoice> proposals(const Descriptor& graph, const CudnnTarget& target, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
#if CUDNN_VERSION >= 90800
  if (target.described()) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.described());
#endif
  heuristics.finalize();
  const auto count = heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<EngineChoice> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    found.push_back({0, "", false, std::make_shared<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)});
    raw.push_back(found.back().config->get());
  }
  const auto filled = heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, raw.data());
  found.resize(static_cast<std::size_t>(std::min(count, filled)));
  return found;
}

}  // namespace

std::string StatusTraits<cudnnStatus_t>::decode(cudnnStatus_t s) {
  std::array<char, 2048> words{};
  cudnnGetLastErrorString(words.data(), words.size());
  words.back() = '\0';
  return fmt::format("{} ({}) of cuDNN {}{}{}", cudnnGetErrorString(s), static_cast<int>(s), cudnnGetVersion(),
                     words[0] ? ": " : "", words.data());
}

Cudnn::Cudnn(cudaStream_t stream) {
  cudnnHandle_t handle = nullptr;
  check(cudnnCreate(&handle), "cudnnCreate");
  handle_ = Owner<cudnnHandle_t, cudnnDestroy>(handle);
  check(cudnnSetStream(handle, stream), "cudnnSetStream");
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) : type_(type) {
  cudnnBackendDescriptor_t raw = nullptr;
  check(cudnnBackendCreateDescriptor(type, &raw), "cudnnBackendCreateDescriptor");
  descriptor_.reset(raw);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                     const void* values) {
  check(cudnnBackendSetAttribute(get(), name, type, count, values), "setting attribute {} of a cuDNN descriptor {}",
        static_cast<int>(name), static_cast<int>(type_));
}

void Descriptor::finalize() {
  check(cudnnBackendFinalize(get()), "finalizing a cuDNN descriptor {}", static_cast<int>(type_));
}

std::int64_t Descriptor::read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                              void* values) const {
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(get(), name, type, most, &count, values),
        "reading attribute {} of a cuDNN descriptor {}", static_cast<int>(name), static_cast<int>(type_));
  return count;
}

CudnnTarget::CudnnTarget(std::string_view json) {
#if CUDNN_VERSION >= 90800
  described_ = std::make_shared<Descriptor>(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  described_->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, std::ssize(json), json.data());
  described_->finalize();
#else
  fail("cuDNN {} makes plans only for a GPU that is there; that changed with 9.11 ({})", CUDNN_VERSION, json);
#endif
}

cudnnDataType_t data_type(DType t) {
  switch (t) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f16:
      return CUDNN_DATA_HALF;
    default:
      fail("cuDNN has no convolution of {}", to_string(t));
  }
}

Descriptor OperationGraph::tensor(std::int64_t uid, DType type, std::span<const std::int64_t> dims,
                                  std::span<const std::int64_t> strides, std::int64_t alignment, bool is_virtual) {
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(type));
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  t.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  if (is_virtual) t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  t.finalize();
  return t;
}

Descriptor OperationGraph::finish(const CudnnTarget& target) const {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const auto& o : operations_) raw.push_back(o.get());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(raw), raw.data());
  if (const auto handle = target.handle()) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  graph.finalize();
  return graph;
}

std::vector<EngineChoice> engines(const Descriptor& graph, const CudnnTarget& target, const EngineRules& rules) {
  std::vector<EngineChoice> found;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    std::vector<EngineChoice> proposed;
    try {
      proposed = proposals(graph, target, mode);
    } catch (const backends::Unsupported&) {
      continue;  // a mode that has no answer for a graph fails
    }
    for (auto& p : proposed) {
      const auto engine = engine_of(*p.config);
      p.engine = index_of(engine);
      p.name = name_of(*p.config, p.engine);
      p.compiles = compiles(engine);
      const bool known = std::any_of(found.begin(), found.end(), [&](const auto& f) { return f.name == p.name; });
      if (!known && obeys(engine, rules)) found.push_back(std::move(p));
    }
  }
  return found;
}

CudnnPlan::CudnnPlan(const EngineChoice& engine, const CudnnTarget& target)
    : name_(engine.name),
      config_(engine.config),
      plan_(std::make_shared<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)) {
  if (const auto handle = target.handle()) plan_->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
#if CUDNN_VERSION >= 90800
  if (target.described()) plan_->set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.described());
#endif
  plan_->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *config_);
  plan_->finalize();
  std::int64_t bytes = 0;
  plan_->read(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  workspace_ = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0));
}

void CudnnPlan::execute(cudnnHandle_t handle, std::span<const std::int64_t> uids, std::span<void* const> pointers,
                        void* workspace) {
  KEELSON_EXPECT(uids.size() == pointers.size());
  const bool same = pack_ && bound_.size() == pointers.size() + 1 && bound_.back() == workspace &&
                    std::equal(pointers.begin(), pointers.end(), bound_.begin());
  if (!same) {
    auto pack = std::make_unique<Descriptor>(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack->set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids);
    pack->set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::ssize(pointers), pointers.data());
    pack->set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    pack->finalize();
    pack_ = std::move(pack);
    bound_.assign(pointers.begin(), pointers.end());
    bound_.push_back(workspace);
  }
  check(cudnnBackendExecute(handle, plan_->get(), pack_->get()), "cuDNN's engine {}", name_);
}

}  // namespace keelson::cuda
