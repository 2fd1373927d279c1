#include "apps/tabular/run_options.hpp"

#include "apps/common/subcommand.hpp"
#include "engine/base/error.hpp"

namespace keelson::tabular {
namespace {

void declare_network(RunOptions& o, app::Subcommand& v) {
  v.option("--layers", o.layers, "Hidden layers; 0: a linear model", "N").between(0, 100).stored();
  v.option("--units", o.units, "Units of each hidden layer", "N").positive().stored();
  v.option("--activation", o.activation, "Of hidden layers")
      .one_of({"relu", "tanh", "gelu", "silu", "sigmoid"})
      .stored();
  v.flag("--batch-norm", o.batch_norm, "Batch normalization before each activation").stored();
  v.option("--dropout", o.dropout, "Probability that a unit is dropped in training").between(0.0, 0.99).stored();
  v.option("--dropout-layers", o.dropout_layers, "Drop units of the last so many hidden layers; 0: of all", "N")
      .non_negative()
      .stored();
  app::declare_precision(o, v, "matrix products' operands");
}

void declare_data(RunOptions& o, app::Subcommand& v) {
  const auto group = v.in(app::OptionGroup::data);
  DataOptions& d = o.data;
  v.option_without_default("--train", d.train, "Training rows, instead of those in --data", "PATH")
      .stored()
      .same_for_members();
  v.option_without_default("--validation", d.validation, "Rows that judge the network; default: a part of --train",
                           "PATH")
      .stored()
      .same_for_members();
  v.option("--holdout", d.holdout, "Part of --train that is held out for validation, at random", "PART")
      .between(0.001, 0.9)
      .stored()
      .same_for_members();
  v.option("--split-seed", d.split_seed, "Seed of the held-out part", "N").stored().same_for_members();
  v.option("--kind", d.kind, "Of the target; auto: classes, if it has names or at most 100 whole numbers from 0")
      .one_of({"auto", "classes", "numbers"})
      .stored()
      .same_for_members();
  v.option_without_default("--target", d.targets, "Columns of a table to predict; default: the last one", "COLUMN,...")
      .comma_separated()
      .stored()
      .same_for_members();
  v.option_without_default("--features", d.features, "Columns of a table to read; default: all others", "COLUMN,...")
      .comma_separated()
      .stored()
      .same_for_members();
  v.option("--x", d.x, "Array of what the network reads, in files of arrays", "NAME").stored().same_for_members();
  v.option("--y", d.y, "Array of what the network predicts", "NAME").stored().same_for_members();
  v.option_without_default("--missing", d.missing,
                           "Number in the place of missing values of features; default: they are refused", "NUMBER")
      .stored()
      .same_for_members();
  v.option(
       "--scale", d.scale,
       "standard: mean 0 and deviation 1, of the training rows; log: log(1 + x) of features that are never negative, "
       "then standard; mean: features that are never negative get the mean 1, others standard; none: as they are")
      .one_of({"standard", "log", "mean", "none"})
      .stored()
      .same_for_members();
  v.flag("--shuffle", o.shuffle, "A new order of the rows in each epoch").stored().same_for_members();
}

}  // namespace

RunOptions::RunOptions() {
  batch = 128;
  epochs = 20;
  optimizer = "adam";
  lr = 0.001;
  schedule = "cosine";
}

const app::Recipes& recipes() {
  static const app::Recipes all{
      // Baldi et al. 2014: momentum rises from 0.9 to 0.99 there, and the rate falls by 1.0000002 a step.
      {"higgs",
       {{"layers", "5"},
        {"units", "300"},
        {"activation", "tanh"},
        {"dropout", "0.5"},
        {"dropout-layers", "1"},
        {"target", "0"},
        {"scale", "mean"},
        {"optimizer", "sgd"},
        {"momentum", "0.9"},
        {"lr", "0.05"},
        {"weight-decay", "0.00001"},
        {"batch", "100"},
        {"epochs", "200"},
        {"schedule", "decay"},
        {"decay-factor", "0.979"},
        {"flat-epochs", "1"}}},
      {"higgs-demo",
       {{"layers", "5"},
        {"units", "128"},
        {"activation", "relu"},
        {"dropout", "0"},
        {"target", "0"},
        {"scale", "log"},
        {"optimizer", "adam"},
        {"lr", "0.001"},
        {"batch", "256"},
        {"epochs", "12"},
        {"schedule", "cosine"}}},
  };
  return all;
}

void declare(RunOptions& o, app::Subcommand& v) {
  const auto group = v.in(app::OptionGroup::network);
  app::declare_recipe(o, v, recipes(),
                      "Hyper-parameters: higgs as published (Baldi et al. 2014), higgs-demo for `keelson-tabular "
                      "generate`; options that you also give win");
  declare_network(o, v);
  declare_data(o, v);
  app::declare(o, v);
  const auto training = v.in(app::OptionGroup::training);
  v.option("--judge", o.judge, "Which epoch is the best: auto: by accuracy of classes, by MAE of numbers")
      .one_of({"auto", "accuracy", "auc", "loss"})
      .stored()
      .same_for_members();
  v.option("--target-accuracy", o.target_accuracy, "Stop when the validation accuracy is at least this; 0: never")
      .between(0, 1)
      .stored();
}

void check(const RunOptions& o) {
  app::check(o);
  if (o.dropout_layers > o.layers)
    refuse("--dropout-layers {}: the network has {} hidden layers", o.dropout_layers, o.layers);
  if (o.target_accuracy > 0 && o.judge != "auto" && o.judge != "accuracy")
    refuse("--target-accuracy with --judge {}: the target is one of the accuracy; leave --judge out", o.judge);
}

}  // namespace keelson::tabular
