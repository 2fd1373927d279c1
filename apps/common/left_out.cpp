#include "apps/common/left_out.hpp"

#include <fmt/format.h>

#include "apps/common/progress.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"

namespace keelson::app {

void LeftOut::find_all(std::int64_t most, int threads, Communicator& world) {
  if (std::ssize(reasons_) > most)
    refuse("{} of training and validation data are broken, and at most {} may be left out (--skip-broken)",
           counted(std::ssize(reasons_), "file"), most);
  for (const std::string& reason : reasons_)
    if (world.rank() == 0) fmt::print("a file is left out: {}\n", reason);
  of_training_ = find(all_training_, most - std::ssize(reasons_), threads, world);
  if (!of_training_.empty()) training_ = std::make_unique<GoodSamples>(all_training_, of_training_);
  if (!all_validation_) return;
  of_validation_ = find(*all_validation_, most - std::ssize(reasons_), threads, world);
  if (!of_validation_.empty()) validation_ = std::make_unique<GoodSamples>(*all_validation_, of_validation_);
}

std::vector<std::int64_t> LeftOut::find(const Dataset& data, std::int64_t most, int threads, Communicator& world) {
  Progress progress("sample read to find broken ones");
  const std::int64_t share = (data.size() + world.size() - 1) / world.size();
  const auto broken =
      find_broken_samples(data, most, threads, &world, [&](std::int64_t read) { progress.show(read, share); });
  std::vector<std::int64_t> numbers;
  for (const BrokenSample& b : broken) {
    numbers.push_back(b.index);
    reasons_.push_back(b.reason);
    if (world.rank() == 0) fmt::print("sample {} is left out: {}\n", b.index, b.reason);
  }
  return numbers;
}

}  // namespace keelson::app
