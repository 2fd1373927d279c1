#include "apps/lm/model.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/common/subcommand.hpp"
#include "engine/base/error.hpp"

namespace keelson::lm {

TrainedModel read_model(const CheckpointReader& checkpoint) {
  app::check_family(checkpoint, family);
  const auto& state = checkpoint.state();
  const auto found = state.texts.find("vocabulary");
  if (found == state.texts.end()) refuse("{}: holds no vocabulary", checkpoint.path().string());
  TrainedModel m;
  m.run = app::stored_options<RunOptions>(state.config);
  m.vocabulary = std::make_shared<const Vocabulary>(
      Vocabulary::from_text(found->second, checkpoint.path().string() + ": vocabulary"));
  return m;
}

std::unique_ptr<TextWindows> open_text(const std::vector<std::string>& files,
                                       std::shared_ptr<const Vocabulary> vocabulary, const WindowOptions& o,
                                       Communicator& world) {
  auto corpus = std::make_shared<const TextCorpus>(scan_text(files, vocabulary->level(), world), &world);
  return std::make_unique<TextWindows>(std::move(corpus), std::move(vocabulary), o);
}

KnownSource known_source(const std::string& text_file) {
  const std::filesystem::path text = text_file;
  std::ifstream in(text.parent_path() / "source.json");
  try {
    const auto j = nlohmann::json::parse(in);
    const auto& perplexity = j.at("perplexity");
    if (!j.at("tokens").contains(text.filename().string())) return {};
    return {perplexity.at("best"), perplexity.at("unigram"), perplexity.at("bigram")};
  } catch (const nlohmann::json::exception&) {
    return {};  // there is no such file, or another program made it
  }
}

}  // namespace keelson::lm
