#include "backends/kokkos/factory.hpp"

#include "backends/kokkos/candidates.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/op_list.hpp"

namespace keelson::backends {

namespace {

/// Calls the maker that takes the device or the factory's context, if the op has such a maker.
template <class Desc>
ops::Expected<typename Desc::Op> make_on(const Desc& d, [[maybe_unused]] Device& device,
                                         [[maybe_unused]] const ops::OpFactory& factory) {
  if constexpr (requires { kokkos::make(d, device); })
    return kokkos::make(d, device);
  else if constexpr (requires { kokkos::make(d, factory.context()); })
    return kokkos::make(d, factory.context());
  else
    return kokkos::make(d);
}

}  // namespace

std::unique_ptr<ops::OpFactory> make_kokkos_factory(Device& device) {
  auto factory = std::make_unique<ops::OpFactory>("kokkos");
  for_each_type(ops::OpList{}, [&]<class Desc>() {
    if constexpr (!std::is_same_v<Desc, ops::ConvMaxPoolForwardDesc>)
      factory->add<Desc>([&device, &f = *factory](const Desc& d) { return make_on(d, device, f); });
  });
  if (device.has_small_caches()) kokkos::add_candidates(*factory);
  return factory;
}

}  // namespace keelson::backends
