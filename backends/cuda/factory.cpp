#include "backends/cuda/factory.hpp"

#ifdef KEELSON_HAVE_CUDNN
#include <cudnn.h>
#endif

#include "backends/cuda/makers.hpp"
#include "backends/cuda/pooled_conv.hpp"
#include "engine/ops/op_list.hpp"

namespace keelson::cuda {

namespace {

/// The versions of libraries whose algorithms the autotuner times, beside cublasLt.
std::string libraries() {
#ifdef KEELSON_HAVE_CUDNN
  return fmt::format("-cudnn-{}", cudnnGetVersion());
#else
  return "";
#endif
}

}  // namespace

std::unique_ptr<ops::OpFactory> make_factory(Device& device) {
  const auto library = std::make_shared<Library>(device, libraries());
  auto factory = std::make_unique<ops::OpFactory>("cuda");
  factory->add<ops::ConvDesc>([library](const ops::ConvDesc& d) { return make_conv(library, d); })
      .add<ops::ConvMaxPoolDesc>([library](const ops::ConvMaxPoolDesc& d) { return make_conv_max_pool(library, d); })
      .add<ops::ConvMaxPoolForwardDesc>(
          [library](const ops::ConvMaxPoolForwardDesc& d) { return make_pooled_conv(d, library->gpu.architecture); })
      .add<ops::TransposedConvDesc>(
          [library](const ops::TransposedConvDesc& d) { return make_transposed_conv(library, d); })
      .add<ops::DenseDesc>([library](const ops::DenseDesc& d) { return make_dense(library, d); })
      .add<ops::ReorderDesc>(make_padding_reorder)
      .add<ops::DecodeVoxelsDesc>(make_padding_decode)
      .add<ops::MatMulDesc>([library](const ops::MatMulDesc& d) { return make_matmul(library, d); })
      .add<ops::InverseRootsDesc>([library](const ops::InverseRootsDesc& d) { return make_inverse_roots(library, d); })
      .add<ops::FactorInversesDesc>(
          [library](const ops::FactorInversesDesc& d) { return make_factor_inverses(library, d); });
  return factory;
}

}  // namespace keelson::cuda
