#include <fmt/format.h>

#include <cmath>

#include "apps/common/ensemble_evaluation.hpp"
#include "apps/lm/model.hpp"
#include "apps/lm/subcommands.hpp"

namespace keelson::lm {

double evaluate_ensemble(const app::EvaluationOptions& o, const FilesToJudge& files_to_judge, std::int64_t unroll,
                         app::Launch& launch) {
  auto& world = launch.world;
  app::MemberNetworks networks(o, launch, family);
  const auto model = read_model(networks.checkpoint(0));
  for (std::int64_t m = 1; m < networks.size(); ++m)
    if (read_model(networks.checkpoint(m)).vocabulary->hash() != model.vocabulary->hash())
      refuse("{}: has another vocabulary than {}. Expected members that see the same tokens",
             networks.checkpoint(m).path().string(), networks.checkpoint(0).path().string());
  const std::int64_t tokens = unroll > 0 ? unroll : model.run.unroll;
  const auto open = [&](const std::vector<std::string>& files) {
    return open_text(files, model.vocabulary, {o.batch * world.size(), tokens, true}, world);
  };
  const auto text = open(files_to_judge(model.run));
  networks.load([&](const CheckpointReader& member) {
    auto net = net_options(read_model(member).run, model.vocabulary->size(), tokens);
    net.logits_output = true;
    return nets::lstm_lm(net);
  });

  double temperature = 1;
  std::string calibrated_on;
  if (o.calibrate) {
    if (model.run.text.validation.empty()) refuse("--calibrate: the run had no validation text");
    const auto validation = open(model.run.text.validation);
    ensemble::ClassCombination kept(1, app::kept_probabilities);
    networks.run(*validation, {"logits"}, kept);
    temperature = kept.fit();
    calibrated_on = validation->describe();
  }
  ensemble::ClassCombination combination(temperature);
  networks.run(*text, {"logits"}, combination);
  const auto& scores = combination.scores();
  const double perplexity = std::exp(scores.ensemble().nll());
  if (world.rank() != 0) return perplexity;
  auto rows = app::class_rows(scores);
  app::ScoreRow perplexities{"perplexity", perplexity, {}};
  for (const auto& m : scores.members()) perplexities.members.push_back(std::exp(m.nll()));
  rows.insert(rows.begin(), perplexities);
  if (o.json) {
    nlohmann::ordered_json j{{"ensemble", o.checkpoint},
                             {"members", networks.size()},
                             {"text", text->describe()},
                             {"tokens", scores.ensemble().count()},
                             {"calibrated_on", calibrated_on}};
    j["scores"] = app::scores_to_json(rows);
    j.update(app::class_facts(scores, temperature));
    fmt::print("{}\n", j.dump());
  } else {
    fmt::print("{}\n{}\n{} tokens\n", networks.describe(), text->describe(), scores.ensemble().count());
    app::print_scores(rows);
    app::print_class_facts(scores, temperature, calibrated_on);
  }
  std::fflush(stdout);
  app::write_ensemble_report(
      o, "Language model ensemble", networks.describe() + " on " + text->describe(),
      "<h2>Scores</h2>" + app::score_table(rows) + "<h2>Calibration</h2>" + app::reliability_diagram(scores));
  return perplexity;
}

}  // namespace keelson::lm
