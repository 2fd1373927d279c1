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

/// A primitive, or the reason why a backend has none for this description. The reason is not a failure: the next
/// backend is asked.
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

  /// Calls the op's maker; declines ops without a maker.
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

/// The result of describe(desc), which the op's header declares.
template <class Desc>
std::string description_of(const Desc& desc) {
  return describe(desc);
}

}  // namespace keelson::ops
