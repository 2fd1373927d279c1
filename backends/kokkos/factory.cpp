#include "backends/kokkos/factory.hpp"

#include "backends/kokkos/makers.hpp"
#include "engine/ops/op_list.hpp"

namespace keelson::backends {

std::unique_ptr<ops::OpFactory> make_kokkos_factory(Device& device) {
  auto factory = std::make_unique<ops::OpFactory>("kokkos");
  ops::for_each_type(ops::OpList{}, [&]<class Desc>() {
    factory->add<Desc>([&device](const Desc& d) {
      if constexpr (requires { kokkos::make(d, device); })
        return kokkos::make(d, device);
      else
        return kokkos::make(d);
    });
  });
  return factory;
}

}  // namespace keelson::backends
