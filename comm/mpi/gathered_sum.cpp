#include "comm/mpi/gathered_sum.hpp"

#include <algorithm>

#include "comm/mpi/support.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {
namespace {

std::size_t group_size(MPI_Comm comm) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  return static_cast<std::size_t>(ranks);
}

CollectiveDesc gather_of(const CollectiveDesc& sum, double* terms) {
  return {.kind = CollectiveDesc::Kind::allgather,
          .src = sum.dst,
          .dst = terms,
          .count = sum.bytes(),
          .element = CollectiveDesc::Element::byte,
          .label = sum.label};
}

}  // namespace

GatheredSum::GatheredSum(MPI_Comm comm, const CollectiveDesc& desc)
    : sums_(static_cast<double*>(desc.dst)),
      count_(desc.count),
      terms_(desc.count * group_size(comm)),
      gather_(comm, gather_of(desc, terms_.data()), 0, piece) {
  KEELSON_EXPECT(desc.element == CollectiveDesc::Element::f64);
}

CollectiveWork::Progress GatheredSum::advance() {
  if (gather_.advance() != Progress::done) return Progress::none;
  for (std::size_t length = terms_.size(); length > count_; length /= 2)
    for (std::size_t pair = 0; pair < length / 2; pair += count_)
      for (std::size_t i = 0; i < count_; ++i) terms_[pair + i] = terms_[2 * pair + i] + terms_[2 * pair + count_ + i];
  std::copy_n(terms_.begin(), count_, sums_);
  return Progress::done;
}

}  // namespace keelson::comm::detail
