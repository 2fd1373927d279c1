#include "apps/label/project/project.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::label {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

std::string ProjectSettings::to_json() const {
  const EnsembleOptions& e = networks;
  ordered_json centre;
  if (features.centre) centre = *features.centre;
  return ordered_json{{"version", 1},
                      {"images",
                       {{"path", images.path},
                        {"array", images.array},
                        {"layout", images.layout},
                        {"one_per_file", images.one_per_file},
                        {"mask_below", images.mask_below},
                        {"count", count},
                        {"digest", fmt::format("{:016x}", digest)}}},
                      {"classes", classes},
                      {"keys", keys},
                      {"features",
                       {{"kind", features.kind},
                        {"log", features.log},
                        {"pixels", features.pixels},
                        {"centre", centre},
                        {"camera_length", features.camera_length}}},
                      {"networks",
                       {{"members", e.members},
                        {"units", e.units},
                        {"epochs", e.epochs},
                        {"batch", e.batch},
                        {"lr", e.lr},
                        {"weight_decay", e.weight_decay},
                        {"dropout", e.dropout},
                        {"warm", e.warm}}},
                      {"seed", seed}}
      .dump(2);
}

ProjectSettings ProjectSettings::parse(const std::string& text, const std::string& source) try {
  const json j = json::parse(text);
  if (j.at("version") != 1) refuse("{}: is of the version {}, expected 1", source, j.at("version").dump());
  ProjectSettings s;
  const json &i = j.at("images"), &f = j.at("features"), &n = j.at("networks");
  s.images = {i.at("path"), i.at("array"), i.at("layout"), i.at("one_per_file"), i.at("mask_below")};
  s.count = i.at("count");
  s.digest = std::stoull(i.at("digest").get<std::string>(), nullptr, 16);
  s.classes = j.at("classes").get<std::vector<std::string>>();
  s.keys = j.at("keys");
  s.features.kind = f.at("kind");
  s.features.log = f.at("log");
  s.features.pixels = f.at("pixels");
  s.features.camera_length = f.at("camera_length");
  if (!f.at("centre").is_null()) s.features.centre = f.at("centre").get<std::array<double, 2>>();
  s.seed = j.at("seed");
  s.networks = {.members = n.at("members"),
                .units = n.at("units"),
                .epochs = n.at("epochs"),
                .batch = n.at("batch"),
                .lr = n.at("lr"),
                .weight_decay = n.at("weight_decay"),
                .dropout = n.at("dropout"),
                .warm = n.at("warm"),
                .seed = s.seed};
  if (s.classes.size() < 2 || s.count < 1)
    refuse("{}: has {} classes and {} images", source, s.classes.size(), s.count);
  return s;
} catch (const json::exception& error) {
  refuse("{}: is not the settings of a project ({})", source, error.what());
} catch (const std::logic_error&) {  // of stoull
  refuse("{}: has no digest of the images that can be read", source);
}

namespace {

std::string text_of_file(const fs::path& path) {
  std::ifstream in(path);
  if (!in) refuse("{}: cannot be read; keelson-label start --project FOLDER makes a project", path.string());
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

LineLog::Advice journal_advice() {
  return {"keelson-label start --project FOLDER makes a project",
          "the labels so far are kept; make room, and start the program again"};
}

std::uint64_t digest_of(const Predictions& p) { return fnv1a(p.p.data(), p.p.size() * sizeof(float)); }

}  // namespace

void Project::create(const fs::path& folder, const ProjectSettings& settings, const Features& features,
                     bool overwrite) {
  if (fs::exists(folder / "project.json") && !overwrite)
    refuse("{}: holds a project; give --overwrite to lose its labels, or another --project", folder.string());
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) refuse("--project {}: cannot be made ({})", folder.string(), error.message());
  for (const char* old : {"project.json", "journal.jsonl", "predictions.h5", "networks", "page.html", "report.html"})
    fs::remove_all(folder / old, error);
  AtomicFile file(folder / "features.h5", Target::hdf5);
  auto h5 = hdf5::File::create(file.temporary().string());
  h5.write("features", features.values.data(), {features.images(), features.shape.elements()});
  h5.close();
  file.commit();
  {
    const LineLog journal(folder / "journal.jsonl", true, journal_advice());
  }
  write_atomically(folder / "project.json", settings.to_json() + "\n");
}

Project::Project(const fs::path& folder, bool writable) : folder_(folder) {
  const fs::path file = folder / "project.json";
  settings_ = ProjectSettings::parse(text_of_file(file), file.string());
  labels_ = Labels(settings_.count, std::ssize(settings_.classes));
  journal_ = std::make_unique<LineLog>(folder / "journal.jsonl", writable, journal_advice());
  read_new();
  if (journal_->broken_lines() > 0)
    fmt::print(stderr, "note: {}: left out {} broken line(s), from line {} on: no label in them was confirmed\n",
               journal_->path().string(), journal_->broken_lines(), journal_->first_broken());
}

EnsembleOptions Project::training_options() const {
  EnsembleOptions o = settings_.networks;
  o.lr = labels_.learning_rate().value_or(o.lr);
  return o;
}

std::string Project::class_name(std::int64_t label) const {
  return label == unsure ? "unsure" : settings_.classes.at(static_cast<std::size_t>(label));
}

std::int64_t Project::class_of(const std::string& name) const {
  if (name == "unsure") return unsure;
  const auto found = std::ranges::find(settings_.classes, name);
  if (found == settings_.classes.end()) {
    std::string names = "unsure";
    for (const auto& c : settings_.classes) names += ", " + c;
    refuse("'{}' is no class of this project; there are {}", name, names);
  }
  return found - settings_.classes.begin();
}

std::unique_ptr<Images> Project::open_images() const {
  auto images = std::make_unique<Images>(settings_.images);
  if (images->size() != settings_.count || images->digest() != settings_.digest)
    refuse(
        "{}: has {} images that are not those of the project's start ({}); their numbers would be wrong. Bring the "
        "old files back, or start another project",
        settings_.images.path, images->size(), settings_.count);
  return images;
}

Features Project::features() const {
  const auto file = hdf5::File::open((folder_ / "features.h5").string());
  const auto info = file.info("features");
  if (info.shape.size() != 2 || info.shape[0] != settings_.count)
    refuse("{}: has features of the shape {}, expected those of {} images", file.path(), hdf5::to_string(info.shape),
           settings_.count);
  const bool radial = settings_.features.kind == "radial";
  const std::int64_t edge = settings_.features.pixels, of_channel = radial ? radial_features : edge * edge;
  Features f{feature_shape(settings_.features, info.shape[1] / of_channel), file.read<float>("features")};
  if (f.shape.elements() != info.shape[1]) refuse("{}: has {} features of an image", file.path(), info.shape[1]);
  return f;
}

void Project::read_new() {
  journal_->read_new([&](const std::string& line) { labels_.apply(line); });
}

void Project::append(const std::string& line) {
  journal_->append(line, [&](const std::string& added) { labels_.apply(added); });
}

std::optional<StoredPredictions> Project::predictions() const {
  const fs::path path = folder_ / "predictions.h5";
  if (labels_.rounds().empty() || !fs::exists(path)) return std::nullopt;
  const auto file = hdf5::File::open(path.string());
  StoredPredictions s;
  s.round = file.attribute<std::int64_t>("/", "round");
  const auto p = file.info("p").shape, hidden = file.info("hidden").shape;
  if (p.size() != 3 || hidden.size() != 2 || p[0] != settings_.count || hidden[0] != p[0] ||
      p[2] != std::ssize(settings_.classes))
    refuse("{}: has predictions of the shape {}; train again", path.string(), hdf5::to_string(p));
  s.of = {p[0], p[1], p[2], hidden[1] / p[1], file.read<float>("p"), file.read<float>("hidden")};
  if (digest_of(s.of) != labels_.rounds().back().predictions) return std::nullopt;  // ended between the two writes
  for (std::int64_t i = 0; i < s.of.images; ++i) s.opinions.push_back(opinion_of(s.of.of(i), s.of.classes));
  return s;
}

void Project::write_predictions(const Predictions& p, std::int64_t round) const {
  AtomicFile file(folder_ / "predictions.h5", Target::hdf5);
  auto h5 = hdf5::File::create(file.temporary().string());
  h5.write("p", p.p.data(), {p.images, p.members, p.classes});
  h5.write("hidden", p.hidden.data(), {p.images, p.members * p.units});
  h5.set_attribute("/", "round", round);
  h5.close();
  file.commit();
}

Progress Project::progress(std::int64_t audit_rounds) const {
  Progress p;
  p.left = std::ssize(labels_.unseen());
  const auto audit = labels_.audit(audit_rounds);
  p.audit_right = audit.right;
  p.audit = audit.count;
  for (const Round& r : labels_.rounds())
    if (r.changed >= 0) p.changes.push_back(r.changed);
  return p;
}

}  // namespace keelson::label
