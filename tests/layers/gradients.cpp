#include <gtest/gtest.h>

#include "tests/layers/layer_gradients.hpp"
#include "tests/support/contexts.hpp"

/// The backward pass of every layer, alone. A new layer gets a line in tests/support/layer_cases.cpp.
namespace keelson::testing {
namespace {

class LayerGradients : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_right(const std::vector<LayerCase>& cases) {
    for (const LayerCase& c : cases) expect_right_gradients(context(GetParam()), c);
  }
};

TEST_P(LayerGradients, Convolutions) { expect_right(convolution_cases()); }
TEST_P(LayerGradients, Windows) { expect_right(window_cases()); }
TEST_P(LayerGradients, Elements) { expect_right(element_cases()); }
TEST_P(LayerGradients, Rows) { expect_right(row_cases()); }
TEST_P(LayerGradients, Losses) { expect_right(loss_cases()); }

INSTANTIATE_TEST_SUITE_P(Contexts, LayerGradients, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace keelson::testing
