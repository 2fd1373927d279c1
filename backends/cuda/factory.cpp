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
  explicit CudaFactory(Device& device) : session_(std::make_shared<Session>(device, libraries())) {}
  std::string_view name() const override { return "cuda"; }

  ops::Made<ops::Conv> make(const ops::ConvDesc& d) override { return make_conv(session_, d); }
  ops::Made<ops::Dense> make(const ops::DenseDesc& d) override { return make_dense(session_, d); }
  ops::Made<ops::MatMul> make(const ops::MatMulDesc& d) override { return make_matmul(session_, d); }

 private:
  SessionPtr session_;
};

}  // namespace

std::unique_ptr<ops::OpFactory> make_factory(Device& device) { return std::make_unique<CudaFactory>(device); }

}  // namespace keelson::cuda
