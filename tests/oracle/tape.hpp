#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/oracle/ops.hpp"
#include "tests/oracle/pixel_loss.hpp"

namespace keelson::oracle {

/// Whole networks in float64: records oracle ops as they are called and runs their gradients backwards. Values are
/// numbered.
class Tape {
 public:
  /// Initial parameters of every network built on this tape, by name ("conv1/weights"); plain.
  explicit Tape(std::map<std::string, Array> parameters) : parameters_(std::move(parameters)) {}

  int input(Array a) { return record(std::move(a), {}, nullptr); }
  int conv(int x, const std::string& name, ops::ConvParams p);
  int transposed_conv(int x, const std::string& name, ops::TransposedConvParams p);
  /// `weights_of`: the node whose weights it shares, if not its own.
  int dense(int x, const std::string& name, const std::string& weights_of = "");
  /// ids (N) or (N, steps) -> (N * steps, features)
  int embedding(int ids, const std::string& name);
  /// One recurrent layer: the products with x, with the parameters of "<name>_input", and the recurrence. Gradients end
  /// at `state`, (N, states, H); its next value goes to `next_state`.
  int recurrent(int x, ops::CellKind kind, const std::string& name, const Array& state, Array& next_state);
  /// In training, with the statistics of the batch, in which all samples count.
  int batch_norm(int x, const std::string& name, double epsilon);
  int pool(int x, const ops::PoolParams& p);
  int resize(int x, std::int64_t rows, std::int64_t columns, ops::ResizeGrid grid);
  int eltwise(int x, const ops::EltwiseParams& p);
  int dropout(int x, const std::string& name, float rate, const ops::StepParams& now, std::int64_t rows_per_sample = 1);
  int add(int a, int b);
  int concat(const std::vector<int>& xs, int axis);
  int softmax(int x, int axis);
  /// (N, C, spatial...) read with channels last, as rows of `features`.
  int flatten_channels_last(int x, std::int64_t features);
  /// (N, ...) read in logical order, one row per sample.
  int flatten(int x);
  /// Ends the network: the loss' value; gradients of everything before it are then known.
  double loss(int prediction, const Array& target, const Array& weight, const ops::LossParams& p,
              const ops::StepParams& now, std::int64_t rows_per_sample = 1);
  /// Ends the network, as loss() does. target: (N, spatial...); all samples count.
  double pixel_loss(int prediction, const Array& target, const ops::PixelLossParams& p, const ops::StepParams& now);

  const Array& value(int v) const { return values_[v]; }
  const std::map<std::string, Array>& gradients() const { return gradients_; }
  /// Gradient of a value, behind loss(); empty if none flows to it.
  const Array& gradient_of(int v) const { return diffs_[v]; }

 private:
  using Backward = std::function<std::vector<Array>(const Array& diff_dst)>;  ///< one gradient per src
  int record(Array a, std::vector<int> srcs, Backward backward);
  void add_gradient(const std::string& name, const Array& g);
  void run_backwards(int from, Array diff);

  struct Step {
    std::vector<int> srcs;
    Backward backward;
  };
  std::map<std::string, Array> parameters_, gradients_;
  std::vector<Array> values_, diffs_;
  std::vector<Step> steps_;
};

}  // namespace keelson::oracle
