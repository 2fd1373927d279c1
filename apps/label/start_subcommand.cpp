#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "apps/common/progress.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/label/learn/rounds.hpp"
#include "apps/label/project/options.hpp"
#include "apps/label/subcommands.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"

namespace keelson::label {
namespace {

struct StartOptions {
  std::string project;
  ProjectSettings settings;
  std::vector<std::string> classes;
  std::string keys;
  std::vector<std::string> centre;
  std::int64_t first = 60;
  bool overwrite = false;
};

/// "1", "2", ... and "0" for unsure, as far as there are digits.
std::string default_keys(std::size_t classes) {
  std::string keys;
  const std::string all = "123456789abcdefghijklmnopqrstvwxyz";
  for (std::size_t k = 0; k < classes; ++k) keys += k < all.size() ? all[k] : '?';
  return keys + "0";
}

void check_classes(StartOptions& o) {
  const std::set<std::string> different(o.classes.begin(), o.classes.end());
  if (o.classes.size() < 2 || different.size() != o.classes.size() || different.contains("") ||
      different.contains("unsure"))
    refuse("--classes: expected at least two different names, and none of them empty or 'unsure'");
  if (o.keys.empty()) o.keys = default_keys(o.classes.size());
  check_keys(o.keys, o.classes.size());
}

ExitCode start(StartOptions& o, app::Launch& launch) {
  if (launch.world.size() > 1) refuse("keelson-label start runs on one rank; leave mpirun out");
  if (o.project.empty()) refuse("give --project: the folder that gets the labels");
  ProjectSettings& s = o.settings;
  if (s.images.path.empty()) refuse("give --images: a file, folder or pattern (HDF5, NetCDF, NumPy)");
  check_classes(o);
  if (!o.overwrite && std::filesystem::exists(std::filesystem::path(o.project) / "project.json"))
    refuse("{}: holds a project; give --overwrite to lose its labels, or another --project", o.project);
  s.images.path = std::filesystem::absolute(s.images.path).lexically_normal().string();
  s.classes = o.classes;
  s.keys = o.keys;
  s.networks.seed = s.seed;
  s.features.centre = parse_centre(o.centre);
  const Images images(s.images);
  s.count = images.size();
  s.digest = images.digest();
  app::Progress progress("image");
  const Features features =
      read_features(images, s.features, [&](std::int64_t ended) { progress.show(ended, images.size()); });
  Project::create(o.project, s, features, o.overwrite);
  Project project(o.project, true);
  const AskedBatch first = ask_next(project, {.count = o.first});
  fmt::print("{}: {}\n{} to label first, drawn so that they differ: keelson-label serve --project {}\n", o.project,
             images.describe(), counted(std::ssize(first.images), "image"), o.project);
  return ExitCode::done;
}

}  // namespace

void define_start(app::CommandLine& line) {
  auto o = std::make_shared<StartOptions>();
  auto& v =
      line.subcommand("start", "Make a project: a folder with the labels of images, and the first images to label",
                      [o](app::Launch& launch) { return start(*o, launch); });
  v.option_without_default("--project", o->project, "Folder of the project", "DIR");
  declare_images(o->settings, v);
  v.option_without_default("--centre", o->centre,
                           "Column and row of the rings' centre in pixels; default: the image's middle", "X,Y")
      .comma_separated();
  v.option_without_default("--classes", o->classes, "Names of the classes", "NAME,...").comma_separated();
  v.option_without_default("--keys", o->keys,
                           "Keys of the page, one for each class, then one for \"unsure\"; default: 1, 2, ... and 0",
                           "KEYS");
  v.option("--first", o->first, "Images to label before the first training", "N").positive();
  declare_networks(o->settings.networks, v);
  v.option("--seed", o->settings.seed, "Of the choice, and of the networks", "N");
  v.flag("--overwrite", o->overwrite, "Lose the project that the folder holds");
}

}  // namespace keelson::label
