#include "backends/composed/factory.hpp"

#include "backends/composed/conv_then_max_pool.hpp"
#include "backends/composed/dense_conv_max_pool.hpp"
#include "backends/composed/depth_tiled_conv.hpp"
#include "engine/ops/candidates.hpp"

namespace keelson::composed {

using namespace ops;

std::unique_ptr<OpFactory> make_factory(Device& device, bool with_kokkos) {
  auto factory = std::make_unique<OpFactory>("composed");
  if (!device.has_small_caches()) return factory;
  OpFactory& f = *factory;

  const auto depth_tiles = [&f](const ConvMaxPoolForwardDesc& d, Verb) {
    return make_depth_tiled_conv(d, f.context());
  };
  const auto one_after_the_other = [&f](const ConvMaxPoolForwardDesc& d, Verb) -> Expected<ConvMaxPoolForward> {
    if (make_depth_tiled_conv(d, f.context()).primitive) return std::string("depth tiles do the same in the caches");
    return make_conv_then_max_pool(d, f.context());
  };
  const auto always = [](const auto&) { return Preference::preferred; };
  // Without depth tiles and Winograd's algorithm this is the same as two calls of the plan, unless operands are
  // rounded.
  const auto rounds = [](const ConvMaxPoolForwardDesc& d) { return d.conv.src.dtype != DType::f32; };
  factory->add_candidates<ConvMaxPoolForwardDesc>({
      {"depth tiles", found_by<ConvMaxPoolForwardDesc>(depth_tiles), always},
      {"convolution, then pooling", found_by<ConvMaxPoolForwardDesc>(one_after_the_other), always, rounds},
  });

  if (!with_kokkos) return factory;
  const auto dense = [&f](const ConvMaxPoolDesc& d, Verb v) {
    return make_dense_conv_max_pool(d, v, f.context(), tile_bytes(1));  // on ranks with any number of threads
  };
  factory->add_candidates<ConvMaxPoolDesc>({{"dense convolutions", found_by<ConvMaxPoolDesc>(dense)}});
  return factory;
}

}  // namespace keelson::composed
