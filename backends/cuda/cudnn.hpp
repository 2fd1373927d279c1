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
/// compiled once and executed often. Nothing here needs nvcc.
namespace keelson::cuda {

template <>
struct StatusTraits<cudnnStatus_t> {
  static constexpr cudnnStatus_t good = CUDNN_STATUS_SUCCESS;
  /// An engine that cannot take a graph says that a parameter is bad (2000 to 2999) or not supported (3000 to 3999).
  static bool is_unsupported(cudnnStatus_t s) {
    return (s >= CUDNN_STATUS_BAD_PARAM && s < CUDNN_STATUS_INTERNAL_ERROR) ||
           s == CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
  }
  static bool is_out_of_memory(cudnnStatus_t s) {
    return s == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           s == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  }
  static std::string decode(cudnnStatus_t s);  ///< with cuDNN's own words about the last failure
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
  /// Of at most `most` values; returns how many there are.
  std::int64_t read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                    void* values) const;

 private:
  struct Destroy {
    void operator()(void* d) const { cudnnBackendDestroyDescriptor(d); }
  };
  std::unique_ptr<void, Destroy> descriptor_;
  cudnnBackendDescriptorType_t type_;
};

/// The GPU that plans are made for: the one of a handle, or one described in words, which need not be there.
class CudnnTarget {
 public:
  explicit CudnnTarget(cudnnHandle_t handle) : handle_(handle) {}
  /// `json`: what cuDNN says of a device (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). Needs cuDNN 9.11; throws Error
  /// before that. Such plans can be made and looked at, but not executed.
  explicit CudnnTarget(std::string_view json);

  cudnnHandle_t handle() const { return handle_; }
  const Descriptor* described() const { return described_.get(); }

 private:
  cudnnHandle_t handle_ = nullptr;
  std::shared_ptr<Descriptor> described_;
};

cudnnDataType_t data_type(DType t);  ///< refuses types that cuDNN has no convolution for

/// Operations on tensors that are known by numbers. Tensors are made first, then operations in order; those between two
/// operations of a graph are virtual: they never exist in memory.
class OperationGraph {
 public:
  /// dims and strides: N, C, then spatial dims. alignment: of the data, in bytes.
  Descriptor tensor(std::int64_t uid, DType type, std::span<const std::int64_t> dims,
                    std::span<const std::int64_t> strides, std::int64_t alignment = 16, bool is_virtual = false);
  void add(Descriptor operation) { operations_.push_back(std::move(operation)); }
  /// The graph, checked by cuDNN for `target`. Throws Error where cuDNN does not know such a combination.
  Descriptor finish(const CudnnTarget& target) const;

 private:
  std::vector<Descriptor> operations_;
};

/// An engine with its settings, as cuDNN's heuristics proposed it.
struct EngineChoice {
  std::int64_t engine = 0;  ///< cuDNN's number of it
  std::string name;         ///< "eng3_k2=1_k5=4": the same engine and settings have the same name
  bool compiles = false;    ///< its kernel is compiled when a plan is made, in every process: a second or so
  std::shared_ptr<Descriptor> config;
};

/// What engines may do. All others are left out, and always those that are not deterministic, that lose precision on
/// purpose, or whose transforms let a NaN reach what does not read it (Winograd, FFT).
struct EngineRules {
  bool tensor_cores = true;  ///< false: f32 operands must not be rounded to tf32
};

/// The engines for a graph, the most promising first, without repetition. Empty where none obeys the rules.
std::vector<EngineChoice> engines(const Descriptor& graph, const CudnnTarget& target, const EngineRules& rules);

/// An engine made ready: its kernels are found, or compiled.
class CudnnPlan {
 public:
  /// Throws Error where the engine cannot run the graph after all; that is not rare.
  CudnnPlan(const EngineChoice& engine, const CudnnTarget& target);

  std::size_t workspace_bytes() const { return workspace_; }
  const std::string& name() const { return name_; }
  /// On the handle's stream. uids and pointers: of all tensors of the graph that are not virtual. workspace: 16-byte
  /// aligned.
  void execute(cudnnHandle_t handle, std::span<const std::int64_t> uids, std::span<void* const> pointers,
               void* workspace);

 private:
  std::string name_;
  std::shared_ptr<Descriptor> config_;  // which the plan refers to
  Descriptor plan_;
  std::size_t workspace_ = 0;
  // What the last call was given: a network's plan hands every call the same pointers, step after step.
  std::vector<void*> bound_;
  std::unique_ptr<Descriptor> pack_;
};

}  // namespace keelson::cuda
