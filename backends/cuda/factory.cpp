#include "backends/cuda/factory.hpp"

#ifdef KEELSON_HAVE_CUDNN
#include <cudnn.h>
#endif

#include "backends/cuda/makers.hpp"

namespace keelson::cuda {

namespace {

/// Versions whose algorithms the tuner chooses, beside cublasLt's.
std::string libraries() {
#ifdef KEELSON_HAVE_CUDNN
  return fmt::format("-cudnn-{}", cudnnGetVersion());
#else
  return "";
#endif
}

class CudaFactory : public ops::OpFactory {
 public:
  explicit CudaFactory(Device& device) : library_(std::make_shared<Library>(device, libraries())) {}
  std::string_view name() const override { return "cuda"; }

  ops::Expected<ops::Conv> make(const ops::ConvDesc& d) override { return make_conv(library_, d); }
  ops::Expected<ops::Dense> make(const ops::DenseDesc& d) override { return make_dense(library_, d); }
  ops::Expected<ops::MatMul> make(const ops::MatMulDesc& d) override { return make_matmul(library_, d); }

 private:
  LibraryPtr library_;
};

}  // namespace

std::unique_ptr<ops::OpFactory> make_factory(Device& device) { return std::make_unique<CudaFactory>(device); }

}  // namespace keelson::cuda
