#include "apps/label/serve/server.hpp"

#include "engine/base/error.hpp"

#if KEELSON_HAVE_HTTPLIB

#include <fmt/format.h>
#include <httplib.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "apps/label/serve/answers.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson::label {
namespace {

constexpr const char* loopback = "127.0.0.1";
constexpr std::size_t largest_request = 4u << 20;
enum HttpStatus { bad_request = 400, unauthorized = 401, forbidden = 403, wrong_type = 415, failed = 500 };

std::string random_token() {
  std::random_device source;
  std::string text;
  constexpr int words = 4;
  for (int i = 0; i < words; ++i) text += fmt::format("{:08x}", source());
  return text;
}

/// In a time that does not tell how many characters are right.
bool same_text(const std::string& a, const std::string& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

void set_error(httplib::Response& response, int status, const std::string& text) {
  response.status = status;
  response.set_content(nlohmann::json{{"error", text}}.dump(), "application/json");
}

std::int64_t number_of(const std::string& text, std::int64_t otherwise) {
  return parse_number<std::int64_t>(text).value_or(otherwise);
}

}  // namespace

struct LabelServer::Impl {
  Impl(Project& project, const Images& images, const std::string& who) : answers(project, images), annotator(who) {}

  Answers answers;
  std::string annotator, token = random_token();
  int port = 0;
  httplib::Server server;

  /// Whether "127.0.0.1:PORT" or "localhost:PORT" is named.
  bool is_own(const std::string& authority) const {
    return authority == fmt::format("{}:{}", loopback, port) || authority == fmt::format("localhost:{}", port);
  }

  /// Writes the refusal of a request that must not be answered; returns whether it has.
  bool refuses(const httplib::Request& request, httplib::Response& response) const {
    if (request.get_header_value_count("Host") != 1 || !is_own(request.get_header_value("Host"))) {
      set_error(response, forbidden, "this page is for this machine alone: wrong header Host");
      return true;
    }
    const std::string origin = request.get_header_value("Origin"), site = request.get_header_value("Sec-Fetch-Site");
    const bool own = origin.empty() || (origin.starts_with("http://") && is_own(origin.substr(7)));
    if (!own || site == "cross-site" || site == "same-site") {
      set_error(response, forbidden, "requests of other pages are not answered");
      return true;
    }
    const std::string given = request.has_header("X-Keelson-Token") ? request.get_header_value("X-Keelson-Token")
                              : request.method == "GET"             ? request.get_param_value("token")
                                                                    : "";
    if (!same_text(given, token)) {
      set_error(response, unauthorized, "wrong token: open the address that keelson-label serve has printed");
      return true;
    }
    if (request.method == "POST" && !request.get_header_value("Content-Type").starts_with("application/json")) {
      set_error(response, wrong_type, "expected application/json");
      return true;
    }
    return false;
  }

  using Answer = std::function<std::string(const httplib::Request&)>;
  httplib::Server::Handler handler(const Answer& answer, const std::string& type) const {
    return [answer, type](const httplib::Request& request, httplib::Response& response) {
      try {
        response.set_content(answer(request), type);
      } catch (const InputError& error) {
        set_error(response, bad_request, error.what());
      } catch (const std::exception& error) {
        set_error(response, failed, error.what());
      }
    };
  }

  void define() {
    server.set_payload_max_length(largest_request);
    server.set_tcp_nodelay(true);
    // Not SO_REUSEPORT, the library's default: another process could listen on the same port.
    server.set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return refuses(request, response) ? httplib::Server::HandlerResponse::Handled
                                        : httplib::Server::HandlerResponse::Unhandled;
    });
    server.set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
      response.set_header("X-Content-Type-Options", "nosniff");
      response.set_header("Referrer-Policy", "no-referrer");
      response.set_header("Cross-Origin-Resource-Policy", "same-origin");
      if (!response.has_header("Cache-Control")) response.set_header("Cache-Control", "no-store");
    });
    server.Get("/", [this](const httplib::Request&, httplib::Response& response) {
      const std::string nonce = random_token();
      response.set_header(
          "Content-Security-Policy",
          fmt::format("default-src 'none'; script-src 'nonce-{}'; style-src 'unsafe-inline'; img-src 'self' "
                      "data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                      nonce));
      response.set_content(answers.page(annotator, nonce), "text/html; charset=utf-8");
    });
    const std::string json = "application/json";
    server.Get("/api/state",
               handler([this](const auto& r) { return answers.state(r.get_param_value("annotator")); }, json));
    server.Get("/api/list", handler(
                                [this](const auto& r) {
                                  return answers.list(
                                      r.get_param_value("filter"), number_of(r.get_param_value("class"), -1),
                                      number_of(r.get_param_value("round"), 0), r.get_param_value("annotator"));
                                },
                                json));
    server.Get(R"(/api/image/(\d{1,18}))",
               handler([this](const auto& r) { return answers.details(number_of(r.matches[1], -1)); }, json));
    const auto picture = handler(
        [this](const auto& r) {
          constexpr std::int64_t usual = 64;
          return answers.picture(number_of(r.matches[1], -1), number_of(r.get_param_value("edge"), usual));
        },
        "image/png");
    server.Get(R"(/image/(\d{1,18})\.png)", [picture](const httplib::Request& request, httplib::Response& response) {
      response.set_header("Cache-Control", "private, max-age=3600");
      picture(request, response);
    });
    server.Post("/api/label", handler([this](const auto& r) { return answers.set_labels(r.body); }, json));
    server.Post("/api/undo", handler([this](const auto& r) { return answers.undo(r.body); }, json));
    server.Post("/api/keys", handler([this](const auto& r) { return answers.set_keys(r.body); }, json));
  }
};

LabelServer::LabelServer(Project& project, const Images& images, int port, const std::string& annotator)
    : impl_(std::make_unique<Impl>(project, images, annotator)) {
  Impl& i = *impl_;
  i.define();
  i.port = port == 0 ? i.server.bind_to_any_port(loopback) : (i.server.bind_to_port(loopback, port) ? port : -1);
  if (i.port <= 0)
    refuse("--port {}: cannot be listened on; is another program using it? 0 takes any that is free", port);
}

LabelServer::~LabelServer() = default;

std::string LabelServer::address() const {
  return fmt::format("http://{}:{}/?token={}", loopback, impl_->port, impl_->token);
}

void LabelServer::run(const std::function<bool()>& ends) {
  std::jthread listens([this] { impl_->server.listen_after_bind(); });
  impl_->server.wait_until_ready();
  while (!ends() && impl_->server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  impl_->server.stop();
}

}  // namespace keelson::label

#else

namespace keelson::label {

struct LabelServer::Impl {};
LabelServer::LabelServer(Project&, const Images&, int, const std::string&) {
  refuse(
      "this build of Keelson has no server of pages, since cpp-httplib was not found; build with it "
      "(docs/installing.md), or use keelson-label suggest --page FILE.html");
}
LabelServer::~LabelServer() = default;
std::string LabelServer::address() const { return ""; }
void LabelServer::run(const std::function<bool()>&) {}

}  // namespace keelson::label

#endif
