#include "apps/lm/model.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"

namespace keelson::lm {

TrainedModel read_model(app::StoredRun stored) {
  TrainedModel m;
  static_cast<app::StoredRun&>(m) = std::move(stored);
  const auto found = m.state.texts.find("vocabulary");
  if (found == m.state.texts.end()) refuse("{}: holds no vocabulary", m.path.string());
  m.run = stored_run(m.state);
  m.vocabulary =
      std::make_shared<const Vocabulary>(Vocabulary::from_text(found->second, m.path.string() + ": vocabulary"));
  return m;
}

std::unique_ptr<TextWindows> open_text(const std::vector<std::string>& files,
                                       std::shared_ptr<const Vocabulary> vocabulary, const WindowOptions& o,
                                       Communicator& world) {
  auto corpus = std::make_shared<const TextCorpus>(scan_text(files, vocabulary->level(), world));
  return std::make_unique<TextWindows>(std::move(corpus), std::move(vocabulary), o);
}

KnownSource known_source(const std::string& text_file) {
  std::ifstream in(std::filesystem::path(text_file).parent_path() / "source.json");
  const auto j = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  KnownSource s;
  if (!j.is_object() || !j.contains("entropy_rate_nats") || !j.contains("perplexity")) return s;
  s.entropy = j["entropy_rate_nats"].get<double>();
  s.perplexity = j["perplexity"].value("best", 0.0);
  s.unigram = j["perplexity"].value("unigram", 0.0);
  s.bigram = j["perplexity"].value("bigram", 0.0);
  return s;
}

}  // namespace keelson::lm
