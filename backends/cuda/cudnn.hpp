#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/handles.hpp"
#include "engine/tensor/dtype.hpp"

/// cuDNN 9 by its graph API: operations are described, cuDNN names engines that can run them, and an engine's plan is
/// made once and executed often. This header does not need nvcc.
namespace keelson::cuda {

template <>
struct StatusTraits<cudnnStatus_t> {
  static constexpr cudnnStatus_t good = CUDNN_STATUS_SUCCESS;
  /// An engine that cannot run a graph returns "bad parameter" (2000 to 2999) or "not supported" (3000 to 3999).
  static bool is_unsupported(cudnnStatus_t s) {
    return (s >= CUDNN_STATUS_BAD_PARAM && s < CUDNN_STATUS_INTERNAL_ERROR) ||
           s == CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
  }
  static bool is_out_of_memory(cudnnStatus_t s) {
    return s == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           s == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  }
  static std::string decode(cudnnStatus_t s);  ///< with cuDNN's text about the last failure
};

/// cuDNN's state for one stream.
class Cudnn {
 public:
  explicit Cudnn(cudaStream_t stream);
  cudnnHandle_t handle() const { return handle_.get(); }

 private:
  Owner<cudnnHandle_t, cudnnDestroy> handle_;
};

/// One object of the graph API: attributes are set, then finalize() checks them and makes the object usable.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  void set(cudnnBackendAttributeName_t name, std::int64_t value) { set(name, CUDNN_TYPE_INT64, 1, &value); }
  void set(cudnnBackendAttributeName_t name, bool value) { set(name, CUDNN_TYPE_BOOLEAN, 1, &value); }
  void set(cudnnBackendAttributeName_t name, double value) { set(name, CUDNN_TYPE_DOUBLE, 1, &value); }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value) { set(name, CUDNN_TYPE_DATA_TYPE, 1, &value); }
  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    const auto raw = value.get();
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  }
  void finalize();
  /// Reads at most `most` values; returns how many there are.
  std::int64_t read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                    void* values) const;

 private:
  struct Destroy {
    void operator()(void* d) const { cudnnBackendDestroyDescriptor(d); }
  };
  std::unique_ptr<void, Destroy> descriptor_;
  cudnnBackendDescriptorType_t type_;
};

/// The GPU that plans are made for: the GPU of a handle, or a GPU that is only described and need not be present.
class CudnnTarget {
 public:
  explicit CudnnTarget(cudnnHandle_t handle) : handle_(handle) {}
  /// `json`: cuDNN's description of a device (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). Needs cuDNN 9.11; throws
  /// Error with an older one. Plans for such a target can be made and inspected, but not executed.
  explicit CudnnTarget(std::string_view json);

  cudnnHandle_t handle() const { return handle_; }
  const Descriptor* described() const { return described_.get(); }

 private:
  cudnnHandle_t handle_ = nullptr;
  std::shared_ptr<Descriptor> described_;
};

cudnnDataType_t data_type(DType t);  ///< throws for types that cuDNN has no convolution for

/// Operations on tensors, which are identified by numbers. Tensors are made first, then operations in order. Tensors
/// between two operations are virtual: they are never in memory.
class OperationGraph {
 public:
  /// dims and strides: N, C, then spatial dims. alignment: of the data, in bytes.
  Descriptor tensor(std::int64_t uid, DType type, std::span<const std::int64_t> dims,
                    std::span<const std::int64_t> strides, std::int64_t alignment = 16, bool is_virtual = false);
  void add(Descriptor operation) { operations_.push_back(std::move(operation)); }
  /// The graph, checked by cuDNN for `target`. Throws Error if cuDNN does not support this combination.
  Descriptor finish(const CudnnTarget& target) const;

 private:
  std::vector<Descriptor> operations_;
};

/// An engine with its settings, as cuDNN's heuristics proposed them.
struct EngineChoice {
  std::int64_t engine = 0;  ///< cuDNN's number of the engine
  std::string name;         ///< "eng3_k2=1_k5=4": the same engine and settings have the same name
  bool compiles = false;    ///< the kernel is compiled when a plan is made, in every process: about a second
  std::shared_ptr<Descriptor> config;
};

/// Which engines are allowed. Never allowed are engines that are not deterministic, that reduce precision, or whose
/// transforms spread a NaN to results that do not depend on it (Winograd, FFT).
struct EngineRules {
  bool tensor_cores = true;  ///< false: f32 operands must not be rounded to tf32
};

/// The engines for a graph, the most promising first, without repetition. Empty if the rules allow none.
std::vector<EngineChoice> engines(const Descriptor& graph, const CudnnTarget& target, const EngineRules& rules);

/// An engine whose kernels are found, or compiled.
class CudnnPlan {
 public:
  /// Throws Error if the engine cannot run the graph after all; this is not rare.
  CudnnPlan(const EngineChoice& engine, const CudnnTarget& target);
  /// The same kernels for another caller, with pointers of its own.
  std::unique_ptr<CudnnPlan> share() const {
    return std::unique_ptr<CudnnPlan>(new CudnnPlan(name_, config_, plan_, workspace_));
  }

  std::size_t workspace_bytes() const { return workspace_; }
  const std::string& name() const { return name_; }
  /// Runs on the handle's stream. uids and pointers: of all tensors of the graph that are not virtual. workspace:
  /// 16-byte aligned.
  void execute(cudnnHandle_t handle, std::span<const std::int64_t> uids, std::span<void* const> pointers,
               void* workspace);

 private:
  CudnnPlan(std::string name, std::shared_ptr<Descriptor> config, std::shared_ptr<Descriptor> plan,
            std::size_t workspace)
      : name_(std::move(name)), config_(std::move(config)), plan_(std::move(plan)), workspace_(workspace) {}

  std::string name_;
  std::shared_ptr<Descriptor> config_;  // the plan refers to it
  std::shared_ptr<Descriptor> plan_;
  std::size_t workspace_ = 0;
  // The pointers of the last call: a network's plan passes the same pointers in every step.
  std::vector<void*> bound_;
  std::unique_ptr<Descriptor> pack_;
};

}  // namespace keelson::cuda
