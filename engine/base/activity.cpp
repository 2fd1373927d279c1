#include "engine/base/activity.hpp"

#include <fmt/format.h>

namespace keelson {
namespace {

thread_local const Activity* outermost = nullptr;

const char* name_of(Activity::Kind kind) {
  switch (kind) {
    case Activity::Kind::step:
      return "step";
    case Activity::Kind::validation:
      return "validation";
    case Activity::Kind::checkpoint:
      return "checkpoint";
    case Activity::Kind::evaluation:
      break;
  }
  return "evaluation";
}

}  // namespace

Activity::Activity(Kind kind, std::int64_t step, std::int64_t epoch)
    : span_(name_of(kind), "training", step), kind_(kind), step_(step), epoch_(epoch) {
  if (!outermost) outermost = this;
}

Activity::~Activity() {
  if (outermost == this) outermost = nullptr;
}

bool Activity::any() { return outermost != nullptr; }

std::string Activity::describe() {
  if (!outermost) return "";
  const Activity& a = *outermost;
  if (a.kind_ == Kind::step) return fmt::format("step {} (epoch {})", a.step_, a.epoch_);
  if (a.kind_ == Kind::evaluation) return "an evaluation";
  return fmt::format("the {} after step {} (epoch {})", name_of(a.kind_), a.step_, a.epoch_);
}

}  // namespace keelson
