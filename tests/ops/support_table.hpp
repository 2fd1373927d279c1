#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <vector>

#include "engine/ops/context.hpp"
#include "engine/ops/op_list.hpp"

/// Which backend must take which op in which dtype. OpTest::make compares each op that a test makes with this table, so
/// that a decline that nobody expects is a failure and no skipped test. docs/backends.md shows the table to readers;
/// SupportTable.DocumentShowsIt compares the two.
namespace keelson::testing {

enum class Support {
  takes,    ///< always; a decline fails the test
  native,   ///< where backends::computes_in(backend, dtype); there a decline fails the test
  if_fast,  ///< where the backend's kernel is not slow; the reason of a decline says so, else the decline fails the
            ///< test
  may,      ///< no test knows: no processor at hand shows it
  never,    ///< always declined; a primitive fails the test, since the table has to change then
};

struct SupportRow {
  std::string_view op;    ///< the description's name, without "Desc"
  std::string_view when;  ///< of the rows of an op exactly one applies to a description
  Support kokkos_f32, kokkos_half;
  Support onednn_f32, onednn_bf16, onednn_f16;
};

const std::vector<SupportRow>& support_table();

/// The row and the dtype that a description belongs to.
struct SupportCell {
  std::string_view op, when;
  DType type;
};
SupportCell cell_of(std::type_index type, const void* desc, Device& device);
template <class Desc>
SupportCell cell_of(const Desc& desc, Device& device) {
  return cell_of(typeid(Desc), &desc, device);
}
/// A small description of each op, whose operands are of type `t` as far as the op has a choice.
struct SupportExample {
  std::string description;
  std::function<std::unique_ptr<ops::Primitive>(Context&, std::string* why)> make;
  SupportCell cell;
};
std::vector<SupportExample> support_examples(DType t, Device& device);

/// What the table says of one backend. `may` for backends that the table does not know.
Support support_of(const SupportCell& cell, std::string_view backend);

/// "" where the table allows the outcome, else what is wrong. `backends`: those asked, in their order; `taken_by`: the
/// one that made the primitive, empty where all declined; `why`: their reasons then.
std::string contradiction(const SupportCell& cell, const std::vector<std::string>& backends, std::string_view taken_by,
                          const std::string& why);

/// The table as docs/backends.md shows it.
std::string support_as_markdown();

}  // namespace keelson::testing
