#include <fmt/format.h>

#include "apps/common/members.hpp"
#include "comm/placement.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::app {

bool MemberData::fits(const Dataset& training, const Dataset* validation) const {
  const std::int64_t bytes = SampleStore::bytes_of(training) + (validation ? SampleStore::bytes_of(*validation) : 0);
  std::int64_t good = bytes <= comm::free_memory().bytes / 2 ? 1 : 0;
  everyone_.allreduce(&good, 1, Reduction::min);
  const std::uint64_t digest = training.digest() ^ (validation ? 3 * validation->digest() : 0);
  return all_have(everyone_, digest) && good != 0;
}

const Dataset* MemberData::shared(const Dataset& data, const std::optional<SampleStore>& store,
                                  std::optional<SharedSamples>& samples) const {
  samples.reset();
  if (!store || store->digest() != data.digest() || store->samples() != data.size()) return &data;
  return &samples.emplace(data, *store);
}

void MemberData::open(const Dataset& training, const Dataset* validation) {
  if (!opened_ && wanted_ && fits(training, validation)) try {
      training_store_.emplace(training, &everyone_);
      if (validation) validation_store_.emplace(*validation, &everyone_);
      if (everyone_.rank() == 0)
        fmt::print("{} read once for all members, {:.1f} MB on each node\n",
                   counted(training_store_->samples() + (validation ? validation_store_->samples() : 0), "sample"),
                   static_cast<double>(training_store_->bytes() + (validation ? validation_store_->bytes() : 0)) / 1e6);
    } catch (const InputError& error) {  // on all ranks
      training_store_.reset();
      validation_store_.reset();
      if (everyone_.rank() == 0)
        fmt::print(stderr, "note: each member reads its samples, since they cannot be shared: {}\n", error.what());
    }
  opened_ = true;
  training_ = shared(training, training_store_, training_samples_);
  validation_ = validation ? shared(*validation, validation_store_, validation_samples_) : nullptr;
}

}  // namespace keelson::app
