#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <utility>

namespace keelson::ops {

/// A primitive, or the reason why a backend has none for this description. The reason is no failure: the next backend
/// is asked.
template <class Op>
struct Expected {
  /// A primitive.
  Expected(std::unique_ptr<Op> p) : primitive(std::move(p)) {}  // NOLINT: returning either is the point
  /// A reason.
  Expected(std::string reason) : unsupported_reason(std::move(reason)) {}  // NOLINT
  std::unique_ptr<Op> primitive;                                           ///< null: declined
  std::string unsupported_reason;                                          ///< where declined
  /// What the user should know of how the primitive works, where that is not as it should be: a sentence without a full
  /// stop, the same for all descriptions that it holds for; empty: nothing.
  std::string remark;
};

/// One backend: for a description it makes the primitive or says why not. It never throws for what it does not support;
/// what it throws is a failure (out of memory, a device's fault, a broken promise), which ends the making of a plan.
class OpFactory {
 public:
  /// Makes a primitive from a description.
  template <class Desc>
  using Maker = std::function<Expected<typename Desc::Op>(const Desc&)>;

  /// `name` must outlive the factory.
  explicit OpFactory(std::string_view name) : name_(name) {}
  OpFactory(const OpFactory&) = delete;

  /// Of the backend: "onednn".
  std::string_view name() const { return name_; }

  /// Says who makes this op.
  template <class Desc>
  OpFactory& add(Maker<Desc> maker) {
    makers_[typeid(Desc)] = std::move(maker);
    return *this;
  }

  /// What the op's maker says; declines ops that have none.
  template <class Desc>
  Expected<typename Desc::Op> make(const Desc& desc) const {
    const auto found = makers_.find(typeid(Desc));
    if (found == makers_.end()) return std::string("this backend has no such op");
    return std::any_cast<const Maker<Desc>&>(found->second)(desc);
  }

 private:
  std::string name_;
  std::unordered_map<std::type_index, std::any> makers_;  ///< by the type of the description
};

/// describe(desc) of the op's own header.
template <class Desc>
std::string description_of(const Desc& desc) {
  return describe(desc);
}

}  // namespace keelson::ops
