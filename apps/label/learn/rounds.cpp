#include "apps/label/learn/rounds.hpp"

#include <algorithm>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/utc_time.hpp"

namespace keelson::label {

std::vector<Labelled> labels_to_learn(const Project& project) {
  auto labelled = project.labels().labelled();
  std::set<std::int64_t> classes;
  for (const auto& [image, label] : labelled) classes.insert(label);
  if (classes.size() < 2)
    refuse(
        "{}: {} images have labels, of {} class(es). Expected at least two classes: label the images that "
        "keelson-label suggest names",
        project.folder().string(), labelled.size(), classes.size());
  return labelled;
}

Round train_round(Project& project, Context& context) {
  const auto labelled = labels_to_learn(project);
  const EnsembleOptions options = project.training_options();
  const Features features = project.features();
  const auto before = project.predictions();
  Ensemble ensemble(context, features, std::ssize(project.settings().classes), options);
  if (options.warm && before) ensemble.load(project.networks());
  Round round{.round = project.labels().rounds().empty() ? 1 : project.labels().rounds().back().round + 1,
              .labels = std::ssize(labelled)};
  ensemble.train(labelled, round.round);
  const Predictions p = ensemble.predict();
  if (before) {
    std::int64_t changed = 0;
    for (std::int64_t i = 0; i < p.images; ++i)
      changed += before->opinions[static_cast<std::size_t>(i)].best() != opinion_of(p.of(i), p.classes).best() ? 1 : 0;
    round.changed = static_cast<double>(changed) / static_cast<double>(p.images);
  }
  round.time = utc_now();
  round.predictions = fnv1a(p.p.data(), p.p.size() * sizeof(float));
  ensemble.save(project.networks());
  project.write_predictions(p, round.round);
  project.append(Labels::round_line(round));  // the last: without it the files above are not used
  return round;
}

AskedBatch ask_next(Project& project, const BatchOptions& options) {
  const auto left = project.labels().unseen();
  if (left.empty()) refuse("{}: no image is left without a label", project.folder().string());
  AskedBatch asked{.by = options.by};
  if (const auto p = project.predictions()) {
    std::vector<std::int64_t> labelled;
    for (const auto& [image, label] : project.labels().labelled()) labelled.push_back(image);
    BatchOptions o = options;
    o.seed = project.settings().seed;
    o.round = asked.round = p->round;
    const Batch batch = choose_batch(o, p->opinions, p->of.hidden, p->of.members * p->of.units, left, labelled);
    asked.images = batch.images;
    asked.audit = batch.audit;
    for (const std::int64_t image : batch.audit)
      asked.predicted.push_back(p->opinions[static_cast<std::size_t>(image)].best());
  } else {
    const Features f = project.features();
    asked.by = "first";
    for (const std::int64_t image : first_images(f.values, f.shape.elements(), options.count, project.settings().seed))
      if (!project.labels().is_seen(image)) asked.images.push_back(image);
    if (asked.images.empty())
      asked.images.assign(left.begin(), left.begin() + std::min(options.count, std::ssize(left)));
  }
  project.append(Labels::batch_line(asked, utc_now()));
  return asked;
}

}  // namespace keelson::label
