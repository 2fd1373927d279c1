#include "backends/onednn/factory.hpp"

#include <oneapi/dnnl/dnnl_debug.h>

#include "backends/kokkos/conv_choice.hpp"
#include "backends/onednn/support.hpp"
#include "engine/ops/op_list.hpp"

namespace keelson::backends {
namespace {

using namespace onednn;

/// The maker, where what oneDNN does not implement is an answer. All else that it reports is a failure.
template <class Desc>
ops::OpFactory::Maker<Desc> maker(const LibraryPtr& library,
                                  std::unique_ptr<typename Desc::Op> (*make)(const LibraryPtr&, const Desc&)) {
  return [library, make](const Desc& d) -> ops::Expected<typename Desc::Op> {
    try {
      return make(library, d);
    } catch (const backends::Unsupported& e) {
      return std::string(e.what());
    } catch (const dnnl::error& e) {
      if (e.status == dnnl_unimplemented)
        return fmt::format("oneDNN says {}: {}", dnnl_status2str(e.status), e.message);
      if (e.status == dnnl_out_of_memory) throw OutOfMemory(fmt::format("oneDNN is out of memory: {}", e.message));
      fail("oneDNN fails with {}: {}", dnnl_status2str(e.status), e.message);
    }
  };
}

TileMakers tile_makers(const LibraryPtr& library) {
  return {maker(library, make_direct_conv), maker(library, make_pool), maker(library, make_reorder),
          tile_bytes(library->device.current_instance().concurrency())};
}

}  // namespace

std::string onednn_version() {
  const auto* v = dnnl::version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

bool onednn_computes_in(DType type) {
  switch (type) {
    case DType::f32:
      return has_instructions(dnnl::cpu_isa::avx2);
    case DType::bf16:
      return has_instructions(dnnl::cpu_isa::avx512_core);
    case DType::f16:
      return has_instructions(dnnl::cpu_isa::avx512_core_fp16);
    default:
      return false;
  }
}

std::unique_ptr<ops::OpFactory> make_onednn_factory(Device& device) {
  KEELSON_EXPECT(device.shares_host_memory());
  try {
    const auto library = std::make_shared<Library>(device);
    auto factory = std::make_unique<ops::OpFactory>(backend_name);
    factory->add<ops::BatchNormDesc>(maker(library, make_batch_norm))
        .add<ops::ConvDesc>(maker(library, make_conv))
        .add<ops::TransposedConvDesc>(maker(library, make_transposed_conv))
        .add<ops::DenseDesc>(maker(library, make_dense))
        .add<ops::MatMulDesc>(maker(library, make_matmul))
        .add<ops::PoolDesc>(maker(library, make_pool))
        .add<ops::ConvMaxPoolDesc>([=](const ops::ConvMaxPoolDesc& d) {
          return kokkos::fastest_conv_max_pool_backward(d, tile_makers(library), library->device);
        })
        .add<ops::ConvMaxPoolForwardDesc>([=](const ops::ConvMaxPoolForwardDesc& d) {
          return kokkos::fastest_conv_max_pool(d, tile_makers(library), library->device);
        })
        .add<ops::EltwiseDesc>(maker(library, make_eltwise))
        .add<ops::ReorderDesc>(maker(library, make_reorder))
        .add<ops::SumDesc>(maker(library, make_sum))
        .add<ops::ConcatDesc>(maker(library, make_concat))
        .add<ops::SoftmaxDesc>(maker(library, make_softmax));
    return factory;
  } catch (const dnnl::error& e) {
    fail("oneDNN cannot start on this CPU ({}: {}); KEELSON_BACKEND=kokkos does without it", dnnl_status2str(e.status),
         e.message);
  }
}

}  // namespace keelson::backends
