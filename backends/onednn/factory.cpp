#include "backends/onednn/factory.hpp"

#include <oneapi/dnnl/dnnl_debug.h>

#include <functional>

#include "backends/onednn/conv_implementations.hpp"
#include "backends/onednn/support.hpp"
#include "engine/ops/op_list.hpp"

namespace keelson::backends {
namespace {

using namespace onednn;

/// Calls the maker. If oneDNN does not implement the op, the factory declines; all other errors of oneDNN are failures.
template <class Desc>
ops::OpFactory::Maker<Desc> maker(
    const LibraryPtr& library, std::function<std::unique_ptr<typename Desc::Op>(const LibraryPtr&, const Desc&)> make) {
  return [library, make = std::move(make)](const Desc& d) -> ops::Expected<typename Desc::Op> {
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
    factory->add<ops::BatchNormDesc>(maker<ops::BatchNormDesc>(library, make_batch_norm))
        .add<ops::GroupNormDesc>(maker<ops::GroupNormDesc>(library, make_layer_norm))
        .add<ops::ConvDesc>(maker<ops::ConvDesc>(library, make_conv))
        .add<ops::DenseDesc>(maker<ops::DenseDesc>(library, make_dense))
        .add<ops::MatMulDesc>(maker<ops::MatMulDesc>(library, make_matmul))
        .add<ops::PoolDesc>(maker<ops::PoolDesc>(library, make_pool))
        .add<ops::EltwiseDesc>(maker<ops::EltwiseDesc>(library, make_eltwise))
        .add<ops::ReorderDesc>(maker<ops::ReorderDesc>(library, make_reorder))
        .add<ops::SumDesc>(maker<ops::SumDesc>(library, make_sum))
        .add<ops::ConcatDesc>(maker<ops::ConcatDesc>(library, make_concat))
        .add<ops::SoftmaxDesc>(maker<ops::SoftmaxDesc>(library, make_softmax));
    factory->add<ops::TransposedConvDesc>(maker<ops::TransposedConvDesc>(
        library, [f = factory.get()](const LibraryPtr& l, const ops::TransposedConvDesc& d) {
          return make_transposed_conv(l, d, f->context());
        }));
    if (device.autotuner())  // without measurements there is no reason to take them
      factory->add_candidates<ops::ConvDesc>(
          {{"other implementations", [=](const auto& request) { return further_implementations(library, request); }}});
    return factory;
  } catch (const dnnl::error& e) {
    fail("oneDNN cannot start on this CPU ({}: {}); KEELSON_BACKEND=kokkos does without it", dnnl_status2str(e.status),
         e.message);
  }
}

}  // namespace keelson::backends
