#include "apps/label/project/labels.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/error.hpp"

namespace keelson::label {

using nlohmann::json;

std::string Labels::labels_line(std::span<const std::int64_t> images, std::optional<std::int64_t> label,
                                const std::string& annotator, const std::string& from, const std::string& time) {
  json line{{"type", "labels"},
            {"images", std::vector<std::int64_t>(images.begin(), images.end())},
            {"annotator", annotator},
            {"from", from},
            {"time", time}};
  line["label"] = label ? json(*label) : json();
  return line.dump();
}

std::string Labels::undo_line(const std::string& annotator, const std::string& time) {
  return json{{"type", "undo"}, {"annotator", annotator}, {"time", time}}.dump();
}

std::string Labels::batch_line(const AskedBatch& b, const std::string& time) {
  return json{{"type", "batch"},  {"round", b.round},         {"by", b.by},  {"images", b.images},
              {"audit", b.audit}, {"predicted", b.predicted}, {"time", time}}
      .dump();
}

std::string Labels::round_line(const Round& r) {
  return json{{"type", "round"},      {"round", r.round}, {"labels", r.labels},
              {"changed", r.changed}, {"time", r.time},   {"predictions", r.predictions}}
      .dump();
}

std::string Labels::keys_line(const std::string& keys, const std::string& time) {
  return json{{"type", "keys"}, {"keys", keys}, {"time", time}}.dump();
}

std::string Labels::learning_rate_line(double rate, const std::string& time) {
  return json{{"type", "learning_rate"}, {"learning_rate", rate}, {"time", time}}.dump();
}

void Labels::check_image(std::int64_t image) const {
  if (image < 0 || image >= images())
    refuse("the journal names image {}, but there are {}; do the images still lie where they were?", image, images());
}

void Labels::check_class(std::int64_t label) const {
  if (label < unsure || label >= classes_) refuse("the journal names class {}, but there are {}", label, classes_);
}

void Labels::apply(const std::string& text) try {
  const json line = json::parse(text);
  const std::string type = line.at("type");
  ++lines_;
  if (type == "labels") {
    const std::string annotator = line.at("annotator");
    std::optional<Mark> mark;
    if (!line.at("label").is_null())
      mark = Mark{line.at("label"), line.at("time"), rounds_.empty() ? 0 : rounds_.back().round};
    if (mark) check_class(mark->label);
    const auto images = line.at("images").get<std::vector<std::int64_t>>();
    for (const std::int64_t image : images) check_image(image);
    Before before;
    for (const std::int64_t image : images) {
      auto& marks = marks_[static_cast<std::size_t>(image)];
      const auto found = marks.find(annotator);
      before.emplace_back(image, found == marks.end() ? std::nullopt : std::optional(found->second));
      if (mark)
        marks[annotator] = *mark;
      else
        marks.erase(annotator);
    }
    done_[annotator].push_back(std::move(before));
  } else if (type == "undo") {
    const std::string annotator = line.at("annotator");
    auto& done = done_[annotator];
    if (done.empty()) return;
    for (auto at = done.back().rbegin(); at != done.back().rend(); ++at) {
      auto& marks = marks_[static_cast<std::size_t>(at->first)];
      if (at->second)
        marks[annotator] = *at->second;
      else
        marks.erase(annotator);
    }
    done.pop_back();
  } else if (type == "batch") {
    AskedBatch b{line.at("round"), line.at("by"), line.at("images"), line.at("audit"), line.at("predicted")};
    for (const auto* list : {&b.images, &b.audit})
      for (const std::int64_t image : *list) check_image(image);
    if (!b.predicted.empty() && b.predicted.size() != b.audit.size())
      refuse("the journal has a batch with {} audit images and {} predictions", b.audit.size(), b.predicted.size());
    batches_.push_back(std::move(b));
  } else if (type == "round") {
    rounds_.push_back(
        {line.at("round"), line.at("labels"), line.at("changed"), line.at("time"), line.at("predictions")});
  } else if (type == "keys") {
    keys_ = line.at("keys");
  } else if (type == "learning_rate") {
    learning_rate_ = line.at("learning_rate").get<double>();
  } else {
    refuse("the journal has a line of the unknown type '{}'; was it written by a later version?", type);
  }
} catch (const json::exception& error) {
  refuse("a line of the journal cannot be read ({}): {}", error.what(), text.substr(0, 200));
}

std::optional<std::int64_t> Labels::consensus(std::int64_t image) const {
  std::map<std::int64_t, int> votes;
  for (const auto& [name, mark] : marks(image))
    if (mark.label != unsure) ++votes[mark.label];
  std::optional<std::int64_t> best;
  int most = 0;
  for (const auto& [label, count] : votes) {
    if (count > most)
      best = label;
    else if (count == most)
      best.reset();
    most = std::max(most, count);
  }
  return best;
}

bool Labels::is_disputed(std::int64_t image) const {
  std::set<std::int64_t> chosen;
  for (const auto& [name, mark] : marks(image))
    if (mark.label != unsure) chosen.insert(mark.label);
  return chosen.size() > 1;
}

std::vector<std::pair<std::int64_t, std::int64_t>> Labels::labelled() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (std::int64_t i = 0; i < images(); ++i)
    if (const auto label = consensus(i)) all.emplace_back(i, *label);
  return all;
}

std::vector<std::int64_t> Labels::unseen() const {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < images(); ++i)
    if (!is_seen(i)) all.push_back(i);
  return all;
}

std::vector<std::int64_t> Labels::last_of(const std::string& annotator) const {
  std::vector<std::int64_t> images;
  const auto found = done_.find(annotator);
  if (found != done_.end() && !found->second.empty())
    for (const auto& [image, before] : found->second.back()) images.push_back(image);
  return images;
}

Labels::Audit Labels::audit(std::int64_t rounds) const {
  Audit sum;
  std::set<std::int64_t> counted;
  for (auto b = batches_.rbegin(); b != batches_.rend() && rounds > 0; ++b) {
    if (b->predicted.empty()) continue;
    --rounds;
    for (std::size_t i = 0; i < b->audit.size(); ++i) {
      const auto label = consensus(b->audit[i]);
      if (!label || !counted.insert(b->audit[i]).second) continue;
      ++sum.count;
      sum.right += *label == b->predicted[i] ? 1 : 0;
    }
  }
  return sum;
}

std::set<std::int64_t> Labels::drawn_at_random() const {
  std::set<std::int64_t> drawn;
  for (const AskedBatch& batch : batches_) {
    drawn.insert(batch.audit.begin(), batch.audit.end());
    if (batch.by == "first") drawn.insert(batch.images.begin(), batch.images.end());
  }
  return drawn;
}

std::vector<std::string> Labels::annotators() const {
  std::set<std::string> names;
  for (const auto& marks : marks_)
    for (const auto& [name, mark] : marks) names.insert(name);
  return {names.begin(), names.end()};
}

std::vector<Labels::Agreement> Labels::agreements() const {
  std::vector<Agreement> all;
  const auto names = annotators();
  for (std::size_t a = 0; a < names.size(); ++a)
    for (std::size_t b = a + 1; b < names.size(); ++b) {
      Agreement g{names[a], names[b]};
      std::vector<double> of_first(static_cast<std::size_t>(classes_)), of_second(of_first);
      for (const auto& marks : marks_) {
        const auto first = marks.find(names[a]), second = marks.find(names[b]);
        if (first == marks.end() || second == marks.end()) continue;
        if (first->second.label == unsure || second->second.label == unsure) continue;
        ++g.both;
        g.same += first->second.label == second->second.label ? 1 : 0;
        of_first[static_cast<std::size_t>(first->second.label)] += 1;
        of_second[static_cast<std::size_t>(second->second.label)] += 1;
      }
      if (g.both == 0) continue;
      const auto n = static_cast<double>(g.both);
      double chance = 0;
      for (std::size_t k = 0; k < of_first.size(); ++k) chance += of_first[k] / n * of_second[k] / n;
      const double same = static_cast<double>(g.same) / n;
      g.kappa = chance < 1 ? (same - chance) / (1 - chance) : 1;
      all.push_back(g);
    }
  return all;
}

}  // namespace keelson::label
