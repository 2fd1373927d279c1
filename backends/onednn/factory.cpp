#include "backends/onednn/factory.hpp"

#include <oneapi/dnnl/dnnl_debug.h>

#include "backends/onednn/support.hpp"

namespace keelson::backends {
namespace {

using namespace onednn;

class Factory final : public ops::OpFactory {
 public:
  explicit Factory(Device& device) : library_(std::make_shared<Library>(device)) {}
  std::string_view name() const override { return backend_name; }

  using OpFactory::make;
  ops::Expected<ops::Conv> make(const ops::ConvDesc& d) override { return attempt(make_conv, d); }
  ops::Expected<ops::Dense> make(const ops::DenseDesc& d) override { return attempt(make_dense, d); }
  ops::Expected<ops::MatMul> make(const ops::MatMulDesc& d) override { return attempt(make_matmul, d); }
  ops::Expected<ops::Pool> make(const ops::PoolDesc& d) override { return attempt(make_pool, d); }
  ops::Expected<ops::Eltwise> make(const ops::EltwiseDesc& d) override { return attempt(make_eltwise, d); }
  ops::Expected<ops::Reorder> make(const ops::ReorderDesc& d) override { return attempt(make_reorder, d); }
  ops::Expected<ops::Sum> make(const ops::SumDesc& d) override { return attempt(make_sum, d); }
  ops::Expected<ops::Concat> make(const ops::ConcatDesc& d) override { return attempt(make_concat, d); }
  ops::Expected<ops::Softmax> make(const ops::SoftmaxDesc& d) override { return attempt(make_softmax, d); }

 private:
  template <class Desc>
  ops::Expected<typename Desc::Op> attempt(std::unique_ptr<typename Desc::Op> (*make)(const LibraryPtr&, const Desc&),
                                           const Desc& d) {
    try {
      return make(library_, d);
    } catch (const dnnl::error& e) {
      return fmt::format("oneDNN says {}: {}", dnnl_status2str(e.status), e.message);
    } catch (const Error& e) {
      return std::string(e.what());
    }
  }

  LibraryPtr library_;
};

}  // namespace

std::unique_ptr<ops::OpFactory> make_onednn_factory(Device& device) {
  KEELSON_EXPECT(device.host_accessible());
  try {
    return std::make_unique<Factory>(device);
  } catch (const dnnl::error& e) {
    fail("oneDNN cannot start on this CPU ({}: {}); KEELSON_BACKEND=kokkos does without it", dnnl_status2str(e.status),
         e.message);
  }
}

}  // namespace keelson::backends
