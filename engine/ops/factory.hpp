#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"

namespace keelson {
class Context;
}

namespace keelson::ops {

template <class Desc>
struct CandidateRow;

/// A primitive, or the reason why a backend has none for this description. The reason is no failure: the next backend
/// is asked.
template <class Op>
struct Expected {
  /// A primitive.
  Expected(std::unique_ptr<Op> p) : primitive(std::move(p)) {}  // NOLINT: returning either is the point
  /// A reason.
  Expected(std::string reason) : unsupported_reason(std::move(reason)) {}  // NOLINT
  std::unique_ptr<Op> primitive;                                           ///< null: declined
  std::string unsupported_reason;                                          ///< set if declined
  /// A fact about the primitive that the user should know, e.g. that a better one is missing: a sentence without a full
  /// stop, the same for all descriptions for which it holds; empty: none.
  std::string remark;
};

/// One backend: for a description, makes the primitive or returns the reason why not. It never throws for unsupported
/// descriptions. An exception is a failure (out of memory, a fault of the device, a broken promise) and ends the making
/// of a plan.
class OpFactory {
 public:
  /// Makes a primitive from a description.
  template <class Desc>
  using Maker = std::function<Expected<typename Desc::Op>(const Desc&)>;

  /// `name` must outlive the factory.
  explicit OpFactory(std::string_view name) : name_(name) {}
  OpFactory(const OpFactory&) = delete;

  /// Name of the backend: "onednn".
  std::string_view name() const { return name_; }

  /// Sets the function that makes this op.
  template <class Desc>
  OpFactory& add(Maker<Desc> maker) {
    makers_[typeid(Desc)] = std::move(maker);
    return *this;
  }

  /// Whether the factory makes any op; else it has tables of candidates alone.
  bool has_makers() const { return !makers_.empty(); }
  /// Whether it makes this op.
  template <class Desc>
  bool makes() const {
    return makers_.contains(typeid(Desc));
  }

  /// What the op's maker says; declines ops that have none.
  template <class Desc>
  Expected<typename Desc::Op> make(const Desc& desc) const {
    const auto found = makers_.find(typeid(Desc));
    if (found == makers_.end()) return std::string("this backend has no such op");
    return std::any_cast<const Maker<Desc>&>(found->second)(desc);
  }

  /// The backend's table of candidates for this op, the best guess first (engine/ops/candidates.hpp).
  template <class Desc>
  OpFactory& add_candidates(std::vector<CandidateRow<Desc>> rows) {
    candidates_[typeid(Desc)] = std::move(rows);
    return *this;
  }
  /// The table; empty if the backend has none for the op.
  template <class Desc>
  const std::vector<CandidateRow<Desc>>& candidates() const {
    static const std::vector<CandidateRow<Desc>> none;
    const auto found = candidates_.find(typeid(Desc));
    return found == candidates_.end() ? none : std::any_cast<const std::vector<CandidateRow<Desc>>&>(found->second);
  }

  /// The context that the factory is a part of. For makers of ops that are made of others.
  Context& context() const {
    KEELSON_EXPECT(context_);
    return *context_;
  }
  void join(Context& context) { context_ = &context; }  ///< by the context

 private:
  std::string name_;
  Context* context_ = nullptr;
  std::unordered_map<std::type_index, std::any> makers_, candidates_;  ///< by the type of the description
};

/// The result of describe(desc), which the op's header declares.
template <class Desc>
std::string description_of(const Desc& desc) {
  return describe(desc);
}

}  // namespace keelson::ops
