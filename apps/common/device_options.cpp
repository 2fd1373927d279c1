#include "apps/common/device_options.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "apps/common/subcommand.hpp"
#include "backends/registry.hpp"
#include "comm/on_device.hpp"

namespace keelson::app {

void declare(DeviceOptions& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::machine);
  v.option("--device", o.device, "Compute on cpu or cuda; auto: the device for which this build is made", "DEVICE")
      .stored();
  v.option("--memory-limit", o.memory_limit,
           "Use at most this much memory of each rank's device, e.g. 40G; 0: all of it", "BYTES")
      .byte_size()
      .not_stored()
      .differs_between_ranks();
  v.flag(
       "--exact-conv", o.exact_conv,
       "Compute each convolution by its definition. Without this option, Winograd's algorithms and Fourier transforms "
       "are used where they are faster. Winograd's rounding error is at most about 3 times as large, and 5 times in "
       "the "
       "gradient of the weights")
      .stored();
}

std::string DeviceSession::describe() const {
  const auto way = ranks->transport();
  return context->describe() + (ranks->size() > 1 && !way.empty() ? "; gradients by " + way : "");
}

DeviceSession open_device(const DeviceOptions& o, Launch& launch, const std::string& backends) {
  DeviceSession w;
  w.context = backends::make_context(o.device, backends);
  if (launch.world.rank() == 0)
    w.context->on_remark([](const std::string& remark) { fmt::print(stderr, "note: {}\n", remark); });
  if (o.memory_limit > 0) w.context->device().limit_memory(o.memory_limit);
  w.context->require_exact_convolutions(o.exact_conv);
  w.ranks = comm::on_device(launch.world, w.context->device());
  return w;
}

}  // namespace keelson::app
