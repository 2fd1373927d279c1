#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/ops/factory.hpp"
#include "engine/ops/primitive.hpp"

namespace keelson {
class Device;
}

/// Several backends, or several algorithms of one backend, can make the same verb of an op. Each backend lists its
/// candidates in a table; a context joins the tables of its backends, and the device's Autotuner takes the fastest
/// candidate for each verb.
namespace keelson::ops {

/// A primitive that can serve a verb.
template <class Op>
struct Candidate {
  std::string name;                           ///< of the verb's kernel; says fully what runs
  std::function<std::shared_ptr<Op>()> make;  ///< called when the candidate is timed or taken
  double fewest_flops = 0;                    ///< of the verb, as in Cost
};

/// Candidates with a larger Primitive::relative_error() are left out.
inline constexpr double most_relative_error = 3;

/// What a row of a table has for a verb: candidates, or the reason why there are none.
template <class Op>
struct CandidateList {
  /// Candidates.
  CandidateList(std::vector<Candidate<Op>> list) : candidates(std::move(list)) {}  // NOLINT: either is returned
  /// A reason.
  CandidateList(std::string reason) : unsupported_reason(std::move(reason)) {}  // NOLINT
  std::vector<Candidate<Op>> candidates;                                        ///< empty: none
  std::string unsupported_reason;                                               ///< if there are none
};

/// What candidates are asked for.
template <class Desc>
struct CandidateRequest {
  const Desc& desc;                ///< src and dst have the layouts of `first`; weights, too, if the layout is strided
  Verb verb;                       ///< the verb that the candidates serve
  const typename Desc::Op* first;  ///< what the first backend that supports the op has made; null: no backend has
};

/// Where a candidate stands by rule of thumb, if nothing is measured: the first of the preferred ones is taken, else
/// CandidateRequest::first, else the first candidate.
enum class Preference : std::uint8_t { preferred, equal };

/// A row of a backend's table.
template <class Desc>
struct CandidateRow {
  std::string_view name;  ///< for those who read the table
  /// The candidates for a verb. Not called for verbs that the description does not ask for.
  std::function<CandidateList<typename Desc::Op>(const CandidateRequest<Desc>&)> find;
  /// Empty: equal.
  std::function<Preference(const CandidateRequest<Desc>&)> rule_of_thumb;
  /// Whether the op is worth making for the candidates of this row, if no other row has any and no backend has made it.
  /// Empty: yes.
  std::function<bool(const Desc&)> worth_alone;
};

/// A row's `find` by make(desc, verb), which returns Expected.
template <class Desc, class Make>
auto found_by(Make make) {
  using List = CandidateList<typename Desc::Op>;
  return [make = std::move(make)](const CandidateRequest<Desc>& r) -> List {
    auto made = make(r.desc, r.verb);
    if (!made.primitive) return std::move(made.unsupported_reason);
    std::shared_ptr<typename Desc::Op> op = std::move(made.primitive);
    std::string name = op->name(r.verb);
    if (const double error = op->relative_error(r.verb); error > most_relative_error)
      return fmt::format("{} has {:.2g} times the rounding error of direct sums, more than {:.2g} times", name, error,
                         most_relative_error);
    const double fewest_flops = op->cost(r.verb).fewest_flops;
    return List({{std::move(name), [op = std::move(op)] { return op; }, fewest_flops}});
  };
}

/// A row of a table of a factory.
template <class Desc>
struct OfferedRow {
  const OpFactory* factory;       ///< whose table it is
  const CandidateRow<Desc>* row;  ///< in the table
};

/// The primitive that makes each verb of `desc` by its fastest candidate: `first`, or those of `rows`. If the device
/// has no Autotuner, candidates are taken by rule of thumb. Null if there is no candidate for a verb; `why` then
/// holds the reasons of the rows. Candidates of the same name for a verb count once.
template <class Desc>
std::unique_ptr<typename Desc::Op> by_fastest_candidates(std::unique_ptr<typename Desc::Op> first, const Desc& desc,
                                                         const std::vector<OfferedRow<Desc>>& rows, Device& device,
                                                         std::string& why);

}  // namespace keelson::ops
