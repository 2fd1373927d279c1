#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/ops/candidates.hpp"
#include "engine/ops/device.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/primitive.hpp"

namespace keelson {

/// One device of this process and the backends that make primitives for it, in the order of preference.
class Context {
 public:
  /// `factories` in the order of preference.
  Context(std::unique_ptr<Device> device, std::vector<std::unique_ptr<ops::OpFactory>> factories)
      : device_(std::move(device)), factories_(std::move(factories)) {
    for (auto& f : factories_) f->join(*this);
  }
  Context(const Context&) = delete;

  /// The device on which primitives work.
  Device& device() { return *device_; }
  /// Allocates a tensor of zeros. Throws Error, naming `label`, if the device has no room.
  Tensor allocate(const TensorDesc& desc, const std::string& label);
  std::string describe() const;  ///< "OpenMP, 2 threads; backends onednn, kokkos"

  /// The first backend that supports the op makes it. If backends have candidates for the op (engine/ops/
  /// candidates.hpp), that primitive decides the layouts of src and dst, and each verb is then made by its fastest
  /// candidate. Null if no backend supports the op; `why` then holds "backend: reason" of each. What a backend
  /// throws is a failure and passes through.
  template <class Desc>
  std::unique_ptr<typename Desc::Op> try_make(const Desc& desc, std::string* why = nullptr) {
    std::string reasons;
    auto made = first_to_make(desc, reasons);
    if constexpr (requires { desc.verbs(); }) {
      if (const auto rows = candidate_rows<Desc>(); !rows.empty() && (made || !has_maker<Desc>()))
        made = ops::by_fastest_candidates(std::move(made), desc, rows, *device_, reasons);
    }
    if (made) {
      made->set_description(desc);
      report(ops::description_of(desc), *made, reasons);
    } else if (why) {
      *why = reasons;
    }
    return made;
  }

  /// By the first backend that supports the op, without a look at candidates: for ops that are made of others.
  template <class Desc>
  ops::Expected<typename Desc::Op> make_by_first(const Desc& desc) {
    std::string reasons;
    auto made = first_to_make(desc, reasons);
    // Not `return made`: nvcc copies what it has to convert.
    if (made) return ops::Expected<typename Desc::Op>(std::move(made));
    return reasons;
  }

  /// As try_make(), but throws InputError if no backend supports the description.
  template <class Desc>
  std::unique_ptr<typename Desc::Op> make(const Desc& desc) {
    std::string why;
    auto p = try_make(desc, &why);
    if (!p) refuse("no backend makes {} ({})", ops::description_of(desc), why);
    return p;
  }

  /// Whether plans that are compiled from now on have exact convolutions (ops::ConvDesc::exact), without algorithms
  /// that save multiplications and round differently.
  void require_exact_convolutions(bool wanted) { exact_convolutions_ = wanted; }
  /// The last value of require_exact_convolutions(); false by default.
  bool exact_convolutions() const { return exact_convolutions_; }

  /// Sets the function that gets the backends' remarks about primitives made from now on (ops::Expected::remark). It
  /// gets each remark once, with the first op for which it holds. By default remarks are dropped.
  void on_remark(std::function<void(const std::string&)> tell) { on_remark_ = std::move(tell); }
  /// Passes a remark, a sentence without a full stop, to the function of on_remark().
  void remark(const std::string& text) const {
    if (on_remark_) on_remark_(text);
  }

  /// Writes a tensor of any layout from host memory in plain order (row-major). dst: f32, bf16 or f16. Waits for the
  /// device.
  void write_plain(const Tensor& dst, const float* host);
  /// Reads an f32 tensor of any layout to host memory in plain order (row-major). Waits for the device.
  void read_plain(const Tensor& src, float* host);

 private:
  /// Null if no backend supports the op; `reasons` then holds those of all.
  template <class Desc>
  std::unique_ptr<typename Desc::Op> first_to_make(const Desc& desc, std::string& reasons) {
    for (auto& f : factories_) {
      if (!f->has_makers()) continue;
      auto made = f->make(desc);
      if (made.primitive) {
        made.primitive->set_backend(f->name());
        made.primitive->set_description(desc);
        if (!made.remark.empty()) tell(made.remark, ops::description_of(desc));
        return std::move(made.primitive);
      }
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", f->name(), made.unsupported_reason);
    }
    return nullptr;
  }
  /// Whether a backend makes the op; else there are candidates alone.
  template <class Desc>
  bool has_maker() const {
    return std::any_of(factories_.begin(), factories_.end(), [](const auto& f) { return f->template makes<Desc>(); });
  }
  template <class Desc>
  std::vector<ops::OfferedRow<Desc>> candidate_rows() const {
    std::vector<ops::OfferedRow<Desc>> rows;
    for (const auto& f : factories_)
      for (const auto& row : f->template candidates<Desc>()) rows.push_back({f.get(), &row});
    return rows;
  }

  /// To stderr, under KEELSON_VERBOSE=1.
  void report(const std::string& op, const ops::Primitive& taken_by, const std::string& declined) const;
  void reorder(const Tensor& src, const Tensor& dst);  ///< at once, with a new primitive
  void tell(const std::string& remark, const std::string& op);

  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<ops::OpFactory>> factories_;
  std::function<void(const std::string&)> on_remark_;
  std::set<std::string> told_;  ///< remarks that were passed on
  bool exact_convolutions_ = false;
};

}  // namespace keelson
