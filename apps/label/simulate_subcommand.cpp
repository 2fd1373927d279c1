#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "apps/common/device_options.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/label/project/options.hpp"
#include "apps/label/subcommands.hpp"
#include "engine/base/error.hpp"
#include "engine/data/arrays/array_file.hpp"

namespace keelson::label {
namespace {

struct SimulateOptions {
  ProjectSettings project;
  app::DeviceOptions device;
  std::string truth = "y";
  std::vector<std::string> by{"margin", "random"};
  std::int64_t first = 60, most = 1000, seeds = 5;
  std::int64_t require_labels = 0;
  BatchOptions batch;
  double target = 0.97;
};

/// The labels of all images, as the files have them.
std::vector<std::int64_t> read_truth(const Images& images, const std::string& array) {
  std::vector<std::int64_t> all;
  std::map<std::string, std::vector<std::int32_t>> of_file;
  for (std::int64_t i = 0; i < images.size(); ++i) {
    const std::string& file = images.file_of(i);
    auto found = of_file.find(file);
    if (found == of_file.end()) found = of_file.emplace(file, ArrayFile::open(file)->read<std::int32_t>(array)).first;
    const auto index = static_cast<std::size_t>(images.index_in_file(i));
    if (index >= found->second.size())
      refuse("{}: has {} labels in '{}', but more images", file, found->second.size(), array);
    all.push_back(found->second[index]);
    if (all.back() < 0) refuse("{}: '{}' has the class {}; expected whole numbers from 0", file, array, all.back());
  }
  return all;
}

/// What one simulated project has seen.
struct Course {
  std::vector<std::int64_t> labels;
  std::vector<double> accuracy;  ///< of the predictions for the images without a label
  std::int64_t audit = 0, audit_right = 0;
  /// The first number of labels from which on the accuracy is the target; none: not reached.
  std::optional<std::int64_t> reaches(double target) const {
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (accuracy[i] >= target) return labels[i];
    return std::nullopt;
  }
};

Course simulate_one(const SimulateOptions& o, const std::string& by, std::uint64_t seed, const Features& features,
                    const std::vector<std::int64_t>& truth, std::int64_t classes, Context& context) {
  EnsembleOptions networks = o.project.networks;
  networks.seed = seed;
  Ensemble ensemble(context, features, classes, networks);
  BatchOptions batch = o.batch;
  batch.by = by;
  batch.seed = seed;
  std::vector<bool> seen(truth.size());
  std::vector<Labelled> labelled;
  std::vector<std::int64_t> images;
  const auto ask = [&](const std::vector<std::int64_t>& chosen) {
    for (const std::int64_t i : chosen) {
      seen[static_cast<std::size_t>(i)] = true;
      labelled.emplace_back(i, truth[static_cast<std::size_t>(i)]);
      images.push_back(i);
    }
  };
  ask(first_images(features.values, features.shape.elements(), o.first, seed));
  Course course;
  for (std::int64_t round = 1;; ++round) {
    ensemble.train(labelled, round);
    const Predictions p = ensemble.predict();
    std::vector<Opinion> opinions;
    for (std::int64_t i = 0; i < p.images; ++i) opinions.push_back(opinion_of(p.of(i), classes));
    std::vector<std::int64_t> left;
    std::int64_t right = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      if (seen[i]) continue;
      left.push_back(static_cast<std::int64_t>(i));
      right += opinions[i].best() == truth[i] ? 1 : 0;
    }
    if (left.empty()) break;
    course.labels.push_back(std::ssize(labelled));
    course.accuracy.push_back(static_cast<double>(right) / static_cast<double>(left.size()));
    if (std::ssize(labelled) + batch.count > o.most) break;
    batch.round = round;
    const Batch next = choose_batch(batch, opinions, p.hidden, p.members * p.units, left, images);
    ask(next.images);
    ask(next.audit);
    for (const std::int64_t i : next.audit) {
      ++course.audit;
      course.audit_right += opinions[static_cast<std::size_t>(i)].best() == truth[static_cast<std::size_t>(i)] ? 1 : 0;
    }
  }
  return course;
}

template <class T>
T median_of(std::vector<T> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

/// The median over the seeds of the labels that are needed; a seed that did not get there counts as more than all.
std::string needed_text(const std::vector<Course>& courses, double target, std::int64_t& median) {
  std::vector<std::int64_t> needed;
  std::int64_t missed = 0;
  for (const Course& c : courses) {
    const auto n = c.reaches(target);
    missed += n ? 0 : 1;
    needed.push_back(n.value_or(std::numeric_limits<std::int64_t>::max()));
  }
  median = median_of(needed);
  std::string text = median == std::numeric_limits<std::int64_t>::max() ? "not reached" : fmt::format("{}", median);
  if (missed > 0) text += fmt::format(" ({} of {} seeds did not get there)", missed, courses.size());
  return text;
}

ExitCode simulate(SimulateOptions& o, app::Launch& launch) {
  if (o.project.images.path.empty()) refuse("give --images: files of images with their classes in --truth");
  if (launch.world.size() > 1) refuse("keelson-label simulate runs on one rank; leave mpirun out");
  const auto device = app::open_device(o.device, launch);
  const Images images(o.project.images);
  const auto truth = read_truth(images, o.truth);
  const std::int64_t classes = std::max<std::int64_t>(2, *std::ranges::max_element(truth) + 1);
  const Features features = read_features(images, o.project.features, {});
  fmt::print("{}; {} classes; {} networks, batches of {}\n", images.describe(), classes, o.project.networks.members,
             o.batch.count);
  std::fflush(stdout);
  std::map<std::string, std::vector<Course>> courses;
  for (std::int64_t seed = 0; seed < o.seeds; ++seed)
    for (const auto& by : o.by) {
      courses[by].push_back(simulate_one(o, by, o.project.seed + static_cast<std::uint64_t>(seed), features, truth,
                                         classes, *device.context));
      std::int64_t ignored = 0;
      fmt::print("seed {} {}: {} labels for {:g} % of the rest\n", o.project.seed + static_cast<std::uint64_t>(seed),
                 by, needed_text({courses[by].back()}, o.target, ignored), 100 * o.target);
      std::fflush(stdout);
    }
  fmt::print("\nright on the images without a label, median of {} seeds\nlabels", o.seeds);
  for (const auto& by : o.by) fmt::print("  {:>8}", by);
  const auto& labels = courses[o.by[0]][0].labels;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    fmt::print("\n{:6}", labels[i]);
    for (const auto& by : o.by) {
      std::vector<double> values;
      for (const Course& c : courses[by]) values.push_back(c.accuracy[i]);
      fmt::print("  {:8.4f}", median_of(values));
    }
  }
  fmt::print("\n\n");
  std::int64_t first_median = 0;
  for (const auto& by : o.by) {
    std::int64_t median = 0;
    fmt::print("labels for {:g} % of the rest, chosen by {}, median of {} seeds: {}\n", 100 * o.target, by, o.seeds,
               needed_text(courses[by], o.target, median));
    if (by == o.by[0]) first_median = median;
    std::int64_t audit = 0, right = 0;
    double accuracy = 0, rounds = 0;
    for (const Course& c : courses[by]) {
      audit += c.audit;
      right += c.audit_right;
      for (std::size_t i = 0; i + 1 < c.accuracy.size(); ++i) {
        accuracy += c.accuracy[i];
        rounds += 1;
      }
    }
    if (audit > 0)
      fmt::print("  of {} audit labels {:.1f} % were predicted; of all images without a label it were {:.1f} %\n",
                 audit, 100 * static_cast<double>(right) / static_cast<double>(audit), 100 * accuracy / rounds);
  }
  if (o.require_labels > 0 && first_median > o.require_labels)
    fail("more labels were needed than --require-labels {} allows", o.require_labels);
  return ExitCode::done;
}

}  // namespace

void define_simulate(app::CommandLine& line) {
  auto o = std::make_shared<SimulateOptions>();
  auto& v = line.subcommand("simulate",
                            "Say how many labels are needed, by a labeller who knows all: images with known classes",
                            [o](app::Launch& launch) { return simulate(*o, launch); });
  declare_images(o->project, v);
  declare_networks(o->project.networks, v);
  declare(o->device, v);
  v.option("--truth", o->truth, "Array with the classes of the images, whole numbers from 0, in the same files",
           "NAME");
  v.option("--by", o->by, "Ways to choose, one after the other: margin, bald, entropy, random", "WAY,...")
      .comma_separated();
  v.option("--first", o->first, "Labels to begin with", "N").positive();
  declare_batch(o->batch, v);
  v.option("--most", o->most, "Most labels of a project", "N").positive();
  v.option("--seeds", o->seeds, "Projects for each way", "N").positive();
  v.option("--seed", o->project.seed, "Seed of the first project; the others follow", "N");
  v.option("--target", o->target, "Part of the images without a label that are to be right", "PART").between(0.5, 1);
  v.option("--require-labels", o->require_labels,
           "Fail (exit code 1) if the first way needs more labels, median over the seeds; 0: never", "N")
      .non_negative();
}

}  // namespace keelson::label
