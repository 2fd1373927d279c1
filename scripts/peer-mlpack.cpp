// Times the training of a dense tanh network in mlpack, to compare with `keelson-bench step --net mlp` and with
// peer-tabular.py: the same layers, momentum and made-up rows in memory. Prints samples/s of whole epochs (median of
// three, after one that warms up).
//
// Needs mlpack and OpenBLAS (Debian: libmlpack-dev, libopenblas-dev):
//   g++ -O3 -march=native -fopenmp -std=c++17 -DARMA_DONT_USE_WRAPPER peer-mlpack.cpp -o peer-mlpack -lopenblas
//   OPENBLAS_NUM_THREADS=2 OMP_NUM_THREADS=2 ./peer-mlpack [batch, default 100]
#define ARMA_USE_BLAS
#define ARMA_USE_LAPACK
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mlpack.hpp>

namespace {

constexpr int rows = 50000, columns = 28, layers = 5, units = 300;

using Network = mlpack::FFN<mlpack::BCELossType<arma::fmat>, mlpack::XavierInitialization, arma::fmat>;

Network make_network() {
  Network network;
  for (int i = 0; i < layers; ++i) {
    network.Add<mlpack::Linear<arma::fmat>>(units);
    network.Add<mlpack::TanH<arma::fmat>>();
  }
  network.Add<mlpack::Linear<arma::fmat>>(1);
  network.Add<mlpack::Sigmoid<arma::fmat>>();
  return network;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t batch = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100;
  const arma::fmat x(columns, rows, arma::fill::randn);
  const arma::fmat y = arma::conv_to<arma::fmat>::from(arma::randi<arma::mat>(1, rows, arma::distr_param(0, 1)));
  auto network = make_network();
  ens::MomentumSGD optimizer(0.05, batch, rows, -1, true, ens::MomentumUpdate(0.9), ens::NoDecay(), false);
  std::array<double, 3> seconds{};
  network.Train(x, y, optimizer);
  for (double& s : seconds) {
    const auto begin = std::chrono::steady_clock::now();
    network.Train(x, y, optimizer);
    s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("%s, %d x %d, batch %zu: %.0f samples/s\n", mlpack::util::GetVersion().c_str(), layers, units, batch,
              rows / seconds[1]);
}
