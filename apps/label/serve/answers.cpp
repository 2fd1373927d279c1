#include "apps/label/serve/answers.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/label/page/page.hpp"
#include "apps/label/project/options.hpp"
#include "engine/base/error.hpp"
#include "engine/base/utc_time.hpp"

namespace keelson::label {
namespace {

using nlohmann::json;

constexpr std::size_t longest_name = 60;
constexpr std::int64_t largest_picture = 1024;

json parsed_body(const std::string& body) {
  json j = json::parse(body, nullptr, false);
  if (!j.is_object()) refuse("the request is no JSON object");
  return j;
}

std::string annotator_in(const json& j) {
  const auto found = j.find("annotator");
  if (found == j.end() || !found->is_string()) refuse("the request names no annotator");
  std::string name = *found;
  if (name.empty() || name.size() > longest_name || std::ranges::any_of(name, [](char c) { return c >= 0 && c < ' '; }))
    refuse("the annotator's name must have 1 to {} characters, without control characters", longest_name);
  return name;
}

std::optional<std::int64_t> label_in(const json& j, std::int64_t classes) {
  const auto found = j.find("label");
  if (found == j.end() || !(found->is_null() || found->is_number_integer())) refuse("the request has no label");
  if (found->is_null()) return std::nullopt;
  const std::int64_t label = *found;
  if (label < unsure || label >= classes) refuse("the label {} is none of {} classes", label, classes);
  return label;
}

}  // namespace

const StoredPredictions* Answers::refreshed() {
  project_.read_new();
  const auto& rounds = project_.labels().rounds();
  if (!rounds.empty() && rounds.back().predictions != read_) {
    predictions_ = project_.predictions();
    read_ = rounds.back().predictions;
  }
  return predictions_ ? &*predictions_ : nullptr;
}

void Answers::check_image(std::int64_t image) const {
  if (image < 0 || image >= images_.size()) refuse("there is no image {}", image);
}

std::string Answers::page(const std::string& annotator, const std::string& nonce) {
  const std::lock_guard guard(lock_);
  refreshed();
  return server_page(project_, annotator, nonce);
}

std::string Answers::state(const std::string& annotator) {
  const std::lock_guard guard(lock_);
  refreshed();
  return state_json(project_, annotator);
}

bool Answers::is_listed(std::int64_t image, const std::string& filter, std::int64_t label,
                        const std::string& annotator) const {
  const Labels& labels = project_.labels();
  const auto best = [&]() -> std::optional<std::int64_t> {
    if (!predictions_) return std::nullopt;
    return predictions_->opinions[static_cast<std::size_t>(image)].best();
  };
  if (filter == "all" || filter == "batch" || filter == "round") return true;
  if (filter == "unlabelled") return !labels.is_seen(image);
  if (filter == "mine") return labels.marks(image).contains(annotator);
  if (filter == "disputed") return labels.is_disputed(image);
  const auto known = labels.consensus(image);
  if (filter == "disagree") return known && best() && *known != *best();
  if (filter == "class") return known ? *known == label : !labels.is_seen(image) && best() == label;
  refuse("there is no list '{}'", filter);
}

std::string Answers::list(const std::string& filter, std::int64_t label, std::int64_t batch,
                          const std::string& annotator) {
  const std::lock_guard guard(lock_);
  const StoredPredictions* s = refreshed();
  const Labels& labels = project_.labels();
  const auto& batches = labels.batches();
  std::vector<std::int64_t> ids;
  const auto whole =
      static_cast<std::size_t>(filter == "round" ? std::max<std::int64_t>(0, batch) : std::ssize(batches));
  if ((filter == "batch" || filter == "round") && whole >= 1 && whole <= batches.size()) {
    ids = order_of(batches[whole - 1]);
  } else {
    for (std::int64_t i = 0; i < labels.images(); ++i)
      if (is_listed(i, filter, label, annotator)) ids.push_back(i);
    const auto margin = [&](std::int64_t i) { return s->opinions[static_cast<std::size_t>(i)].margin; };
    if (s != nullptr) std::ranges::stable_sort(ids, [&](auto a, auto b) { return margin(a) > margin(b); });
  }
  json mine = json::array(), known = json::array(), best = json::array(), p = json::array();
  for (const std::int64_t i : ids) {
    const auto& marks = labels.marks(i);
    const auto own = marks.find(annotator);
    mine.push_back(own == marks.end() ? json() : json(own->second.label));
    const auto label_of = labels.consensus(i);
    known.push_back(label_of ? json(*label_of) : json());
    const Opinion* o = s == nullptr ? nullptr : &s->opinions[static_cast<std::size_t>(i)];
    constexpr double shown = 1000;  // digits more make the list longer
    best.push_back(o == nullptr ? json() : json(o->best()));
    p.push_back(o == nullptr ? json() : json(std::round(shown * o->p[static_cast<std::size_t>(o->best())]) / shown));
  }
  return json{{"ids", ids}, {"mine", mine}, {"label", known}, {"best", best}, {"p", p}}.dump();
}

std::string Answers::details(std::int64_t image) {
  check_image(image);
  const std::lock_guard guard(lock_);
  return details_json(project_, images_, refreshed(), image, "");
}

std::string Answers::picture(std::int64_t image, std::int64_t edge) const {
  check_image(image);
  if (edge < 1 || edge > largest_picture) refuse("a picture of {} pixels: expected 1 to {}", edge, largest_picture);
  return picture_of(project_, images_, image, edge);
}

std::string Answers::set_labels(const std::string& body) {
  const json j = parsed_body(body);
  const std::string annotator = annotator_in(j);
  const auto label = label_in(j, std::ssize(project_.settings().classes));
  const auto found = j.find("images");
  if (found == j.end() || !found->is_array() || found->empty() ||
      !std::ranges::all_of(*found, [](const json& i) { return i.is_number_integer(); }))
    refuse("the request has no list of images");
  const auto images = found->get<std::vector<std::int64_t>>();
  for (const std::int64_t i : images) check_image(i);
  const std::lock_guard guard(lock_);
  project_.append(Labels::labels_line(images, label, annotator, "page", utc_now()));
  return json{{"saved", images.size()}}.dump();
}

std::string Answers::undo(const std::string& body) {
  const std::string annotator = annotator_in(parsed_body(body));
  const std::lock_guard guard(lock_);
  project_.read_new();
  const auto images = project_.labels().last_of(annotator);
  if (!images.empty()) project_.append(Labels::undo_line(annotator, utc_now()));
  return json{{"images", images}}.dump();
}

std::string Answers::set_keys(const std::string& body) {
  const json j = parsed_body(body);
  const auto found = j.find("keys");
  if (found == j.end() || !found->is_string()) refuse("the request has no keys");
  const std::string keys = *found;
  check_keys(keys, project_.settings().classes.size());
  const std::lock_guard guard(lock_);
  project_.append(Labels::keys_line(keys, utc_now()));
  return json{{"keys", keys}}.dump();
}

}  // namespace keelson::label
