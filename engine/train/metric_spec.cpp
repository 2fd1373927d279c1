#include "engine/train/metric_spec.hpp"

#include <fmt/format.h>

#include <cmath>

#include "engine/base/error.hpp"

namespace keelson {

std::string MetricSpec::name() const {
  switch (kind) {
    case Kind::absolute:
      return "MAE";
    case Kind::relative:
      return "mean relative error";
    case Kind::perplexity:
      return "perplexity";
  }
  return "";
}

std::string MetricSpec::text(double value) const {
  if (kind != Kind::perplexity) return fmt::format("{:.4f}", value);
  return value < 999.95 ? fmt::format("{:#.4g}", value) : fmt::format("{:.0f}", value);
}

double MetricSpec::error(std::size_t target, double predicted, double truth) const {
  KEELSON_EXPECT(compares());
  const auto difference = std::abs(predicted - truth);
  if (kind == Kind::absolute) return difference;
  const auto& t = targets.at(target);
  return std::abs(t.scale) * difference / std::abs(t.scale * truth + t.offset);
}

double MetricSpec::of_loss(double loss) const {
  KEELSON_EXPECT(!compares());
  return std::exp(loss);
}

}  // namespace keelson
