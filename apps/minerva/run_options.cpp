#include "apps/minerva/run_options.hpp"

#include "apps/common/subcommand.hpp"
#include "engine/base/error.hpp"

namespace keelson::minerva {

RunOptions::RunOptions() {
  batch = 512;
  epochs = 10;
  optimizer = "adam";
  lr = 0.001;
  weight_decay = 0.0001f;
}

const app::Recipes& recipes() {
  static const app::Recipes all{
      {"epsilon",
       {{"net", "epsilon"},
        {"target", "planecode"},
        {"classes", "67"},
        {"channels", "energy"},
        {"optimizer", "adam"},
        {"lr", "0.001"},
        {"weight-decay", "0.0001"},
        {"batch", "512"},
        {"dropout", "0.5"}}},
      // Terwilliger et al. 2017: the rate fell tenfold in all.
      {"epsilon-2017",
       {{"net", "epsilon"},
        {"target", "segment"},
        {"channels", "energy+time"},
        {"optimizer", "sgd"},
        {"momentum", "0.9"},
        {"nesterov", "true"},
        {"lr", "0.001"},
        {"final-lr", "0.0001"},
        {"schedule", "linear"},
        {"weight-decay", "0"},
        {"batch", "500"},
        {"dropout", "0.5"}}},
      {"evolved",
       {{"net", "evolved633167"},
        {"target", "planecode"},
        {"classes", "173"},
        {"channels", "energy+time"},
        {"optimizer", "adam"},
        {"lr", "0.001"},
        {"weight-decay", "0"},
        {"batch", "512"},
        {"dropout", "0.5"}}},
      {"demo",
       {{"net", "epsilon"},
        {"target", "planecode"},
        {"classes", "67"},
        {"channels", "energy"},
        {"optimizer", "adam"},
        {"lr", "0.002"},
        {"schedule", "cosine"},
        {"weight-decay", "0"},
        {"width", "0.5"},
        {"global-batch", "64"},
        {"epochs", "4"},
        {"dropout", "0.1"}}},
  };
  return all;
}

void declare(RunOptions& o, app::Subcommand& v) {
  const auto group = v.in(app::OptionGroup::network);
  app::declare_recipe(o, v, recipes(),
                      "Hyper-parameters: epsilon, epsilon-2017 and evolved as published, demo for `keelson-minerva "
                      "generate`; options that you also give win");
  v.option("--net", o.net, "The experiment's network, or number 633167 that an evolution has found")
      .one_of({"epsilon", "evolved633167"})
      .stored()
      .same_for_members();
  v.option("--width", o.width, "Factor for the numbers of filters and units", "X").between(0.02, 8).stored();
  v.option("--dropout", o.dropout, "Probability that a feature is dropped in training").between(0.0, 0.99).stored();
  app::declare_precision(o, v, "convolutions' and dense layers' operands");
  const auto data = v.in(app::OptionGroup::data);
  v.option("--target", o.target, "What is found: the plane or target of the vertex, or its segment of the detector")
      .one_of({"planecode", "segment"})
      .stored()
      .same_for_members();
  v.option("--classes", o.classes,
           "Classes of planecodes, 67 or 173 as published: the last one has all codes from there on", "N")
      .between(2, 215)
      .stored()
      .same_for_members();
  v.option("--channels", o.channels, "Channels of an image that the network reads")
      .one_of({"energy", "energy+time"})
      .stored()
      .same_for_members();
  v.option("--normalise", o.normalise,
           "log1p: sign(x) log(1 + |x|) of energies and times; none: as the files have them")
      .one_of({"log1p", "none"})
      .stored()
      .same_for_members();
  app::declare_files(o, v);
  app::declare(o, v);
  const auto training = v.in(app::OptionGroup::training);
  v.option("--target-accuracy", o.target_accuracy, "Stop when the validation accuracy is at least this; 0: never")
      .between(0, 1)
      .stored();
}

void check(const RunOptions& o) {
  app::check(o);
  if (o.target == "segment" && o.classes != RunOptions().classes)
    refuse("--classes {} belongs to --target planecode: there are 11 segments; leave one of them out", o.classes);
}

}  // namespace keelson::minerva
